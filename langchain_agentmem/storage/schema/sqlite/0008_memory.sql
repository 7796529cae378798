-- Memory that lies on branches: layers, items and rounds of a thread. All times are microseconds since 1970-01-01 UTC.

-- The thread that began a branch of a thread: under its name a search finds what lies there.
alter table branch add column thread text;
create index branch_thread on branch (namespace_id, thread) where thread is not null;

-- One version of something that is remembered, known by its kind and key; the newest that can be seen counts, and
-- `deleted` marks one that says that it is gone. A row lies on its branch from `position` up to but without `until`, where
-- the branch's next version begins. What a task wrote has no branch until it is sealed; `group_id` says which execution
-- wrote it, then and later. A group that is sealed on a second branch is copied: `origin` is the row that was copied, and
-- versions are ordered by it. `label` is the kind of an event or the predicate of a fact, whose `subject` and `object` stand
-- beside it, as they are compared; `extra` is JSON; `document_id` the number for searches.
create table memory (
    id integer primary key autoincrement,
    branch_id integer references branch (id),
    position integer,
    until integer not null default 4611686018427387904,
    group_id integer,
    origin integer,
    kind text not null,
    key text not null,
    label text,
    subject text,
    object text,
    content_id integer references content (id),
    deleted integer not null default 0,
    importance integer,
    expires_at integer,
    extra text,
    document_id integer,
    created_at integer not null,
    written_at integer not null,
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
    memory_id integer not null references memory (id) on delete cascade,
    source text not null,
    primary key (memory_id, source)
) without rowid;
create index memory_source_source on memory_source (source);

-- What one execution of one task wrote, while it has no place on a branch. Its id is a random number. The task ran under a checkpoint that
-- may not have been put.
create table memory_group (
    id integer primary key,
    thread_id integer not null references thread (id) on delete cascade,
    ns text not null,
    checkpoint text not null,
    task text not null,
    created_at integer not null
);
create index memory_group_task on memory_group (thread_id, task);

-- Which groups lie on a branch, and where. `thread` is the one that a search knows a group by, where it is not the branch's.
create table seal (
    group_id integer not null,
    branch_id integer not null references branch (id) on delete cascade,
    position integer not null,
    thread text,
    primary key (group_id, branch_id)
) without rowid;
create index seal_branch on seal (branch_id, position);
create index seal_thread on seal (branch_id) where thread is not null;

-- Tasks that finished under a checkpoint, and what they had written by then, as a JSON list of groups. `caller` is the
-- task that called this one, if it was called, and `attempt` how often that had been begun before in its run.
create table finished_task (
    thread_id integer not null references thread (id) on delete cascade,
    task text not null,
    ns text not null,
    checkpoint text not null,
    caller text,
    attempt integer not null default 0,
    groups text not null,
    created_at integer not null,
    primary key (thread_id, task)
) without rowid;
create index finished_task_step on finished_task (thread_id, ns, checkpoint);

-- Where a checkpoint stands on a branch: what it remembers is what lies there, and on the branches before.
create table place (
    line_id integer not null,
    checkpoint text not null,
    branch_id integer not null references branch (id),
    position integer not null,
    primary key (line_id, checkpoint),
    foreign key (line_id, checkpoint) references checkpoint (line_id, name) on delete cascade
) without rowid;
create index place_branch on place (branch_id, position);

-- What a subgraph's branch stands on: the checkpoint around it, the place of that, if it has any, and what the task around
-- it had written when it began, as a JSON list of groups, each with the last row of it that counts.
create table branch_base (
    branch_id integer primary key references branch (id) on delete cascade,
    base_id integer references branch (id),
    base_position integer,
    checkpoint text not null,
    groups text not null
);
create index branch_base_base on branch_base (base_id, base_position) where base_id is not null;

-- The same groups, to be looked up: what they wrote is kept as long as such a branch is there.
create table base_group (
    group_id integer not null,
    branch_id integer not null references branch (id) on delete cascade,
    primary key (group_id, branch_id)
) without rowid;
create index base_group_branch on base_group (branch_id);
