-- Memory that lies on branches: layers, items and rounds of a thread. All times are microseconds since 1970-01-01 UTC.

-- The thread that began a branch of a thread: under its name a search finds what lies there.
alter table branch add column thread text collate "C";
create index branch_thread on branch (namespace_id, thread) where thread is not null;

-- One version of something that is remembered, known by its kind and key; the newest that can be seen counts, and
-- `deleted` marks one that says that it is gone. A row lies on its branch from `position` up to but without `until`, where
-- the branch's next version begins. What a task wrote has no branch until it is sealed; `group_id` says which execution
-- wrote it, then and later. A group that is sealed on a second branch is copied: `origin` is the row that was copied, and
-- versions are ordered by it. `label` is the kind of an event or the predicate of a fact, whose `subject` and `object` stand
-- beside it, as they are compared; `extra` is JSON; `document_id` the number for searches.
create table memory (
    id bigint generated always as identity primary key,
    branch_id bigint references branch (id),
    position bigint,
    until bigint not null default 4611686018427387904,
    group_id bigint,
    origin bigint,
    kind text not null,
    key text collate "C" not null,
    label text,
    subject text collate "C",
    object text collate "C",
    content_id bigint references content (id),
    deleted bigint not null default 0,
    importance bigint,
    expires_at bigint,
    extra text,
    document_id bigint,
    created_at bigint not null,
    written_at bigint not null,
    check (branch_id is not null or group_id is not null)
);
create index memory_current on memory (branch_id, kind, until, position);
create index memory_order on memory (branch_id, kind, position, id);
create index memory_key on memory (branch_id, kind, key, until);
create index memory_group_id on memory (group_id) where group_id is not null;
create index memory_content on memory (content_id) where content_id is not null;
create index memory_origin on memory (origin) where origin is not null;
create index memory_expiry on memory (branch_id, expires_at) where expires_at is not null;
create index memory_subject on memory (branch_id, subject, kind, label, object, until) where subject is not null;
create index memory_object on memory (branch_id, object, kind, until) where object is not null;
create index memory_learned on memory (branch_id, kind, created_at) where subject is not null;

-- What a version rests on: the ids of messages, and of the conversations or threads that they belong to. What loses all of
-- it is forgotten.
create table memory_source (
    memory_id bigint not null references memory (id) on delete cascade,
    source text collate "C" not null,
    primary key (memory_id, source)
);
create index memory_source_source on memory_source (source);

-- What one execution of one task wrote, while it has no place on a branch. Its id is a random number. The task ran under a checkpoint that
-- may not have been put.
create table memory_group (
    id bigint primary key,
    thread_id bigint not null references thread (id) on delete cascade,
    ns text collate "C" not null,
    checkpoint text collate "C" not null,
    task text collate "C" not null,
    created_at bigint not null
);
create index memory_group_task on memory_group (thread_id, task);

-- Which groups lie on a branch, and where. `thread` is the one that a search knows a group by, where it is not the branch's.
create table seal (
    group_id bigint not null,
    branch_id bigint not null references branch (id) on delete cascade,
    position bigint not null,
    thread text,
    primary key (group_id, branch_id)
);
create index seal_branch on seal (branch_id, position);
create index seal_thread on seal (branch_id) where thread is not null;

-- Tasks that finished under a checkpoint, and what they had written by then, as a JSON list of groups. `caller` is the
-- task that called this one, if it was called, and `attempt` how often that had been begun before in its run.
create table finished_task (
    thread_id bigint not null references thread (id) on delete cascade,
    task text collate "C" not null,
    ns text collate "C" not null,
    checkpoint text collate "C" not null,
    caller text collate "C",
    attempt integer not null default 0,
    groups text not null,
    created_at bigint not null,
    primary key (thread_id, task)
);
create index finished_task_step on finished_task (thread_id, ns, checkpoint);

-- Where a checkpoint stands on a branch: what it remembers is what lies there, and on the branches before.
create table place (
    line_id bigint not null,
    checkpoint text collate "C" not null,
    branch_id bigint not null references branch (id),
    position bigint not null,
    primary key (line_id, checkpoint),
    foreign key (line_id, checkpoint) references checkpoint (line_id, name) on delete cascade
);
create index place_branch on place (branch_id, position);

-- What a subgraph's branch stands on: the checkpoint around it, the place of that, if it has any, and what the task around
-- it had written when it began, as a JSON list of groups, each with the last row of it that counts.
create table branch_base (
    branch_id bigint primary key references branch (id) on delete cascade,
    base_id bigint references branch (id),
    base_position bigint,
    checkpoint text collate "C" not null,
    groups text not null
);
create index branch_base_base on branch_base (base_id, base_position) where base_id is not null;

-- The same groups, to be looked up: what they wrote is kept as long as such a branch is there.
create table base_group (
    group_id bigint not null,
    branch_id bigint not null references branch (id) on delete cascade,
    primary key (group_id, branch_id)
);
create index base_group_branch on base_group (branch_id);

-- As for messages: the planner keeps no samples of what is remembered.
alter table memory alter column key set statistics 0, alter column label set statistics 0,
    alter column subject set statistics 0, alter column object set statistics 0, alter column extra set statistics 0;
alter table memory_source alter column source set statistics 0;
alter table memory_group alter column checkpoint set statistics 0, alter column task set statistics 0,
    alter column ns set statistics 0;
alter table finished_task alter column checkpoint set statistics 0, alter column task set statistics 0,
    alter column ns set statistics 0, alter column caller set statistics 0, alter column groups set statistics 0;
alter table branch alter column thread set statistics 0;
alter table seal alter column thread set statistics 0;
alter table place alter column checkpoint set statistics 0;
alter table branch_base alter column groups set statistics 0, alter column checkpoint set statistics 0;
