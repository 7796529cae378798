-- LangGraph threads: checkpoints that cost only what changed. All times are microseconds since 1970-01-01 UTC.

-- Where the parts of a thread's values lie. `listed` and `loose` are the numbers of its next parts, in
-- the row of the elements of lists and in that of all others; a number is never given twice.
-- `swept` counts how often parts were taken away, so that nobody trusts an older knowledge of them. `litter` counts
-- the checkpoints that were removed since.
create table shelf (
    id bigint generated always as identity primary key,
    listed bigint not null default 0,
    loose bigint not null,
    swept bigint not null default 0,
    litter bigint not null default 0
);

-- A thread of a namespace. A copy of a thread shares its shelf. `delta` marks a thread of DeltaChannels, whose
-- checkpoints need their ancestors.
create table thread (
    id bigint generated always as identity primary key,
    namespace_id bigint not null references namespace (id),
    name text collate "C" not null,
    shelf_id bigint not null references shelf (id),
    delta bigint not null default 0,
    created_at bigint not null,
    unique (name, namespace_id)
);
create index thread_namespace on thread (namespace_id);
create index thread_shelf on thread (shelf_id);

-- One series of checkpoints: a thread's own (`ns` is empty), or those of one of its subgraphs.
create table checkpoint_line (
    id bigint generated always as identity primary key,
    thread_id bigint not null references thread (id) on delete cascade,
    ns text collate "C" not null,
    unique (thread_id, ns)
);

-- A part of a value, never changed. `form` says how the body is to be read, `name` is the id of a message.
create table part (
    shelf_id bigint not null references shelf (id) on delete cascade,
    number bigint not null,
    form text not null,
    name text collate "C",
    content_id bigint not null references content (id),
    checksum bigint not null,
    primary key (shelf_id, number)
);
create index part_content on part (content_id, shelf_id);

-- A checkpoint without its values. `versions` is a JSON object of the channels' versions; `head` and `metadata` are
-- what the serializer wrote.
create table checkpoint (
    line_id bigint not null references checkpoint_line (id) on delete cascade,
    name text collate "C" not null,
    parent text collate "C",
    run_id text collate "C",
    versions text not null,
    head bytea not null,
    metadata bytea not null,
    created_at bigint not null,
    primary key (line_id, name)
);
create index checkpoint_run on checkpoint (run_id) where run_id is not null;

-- The value that a channel has in one version, as a recipe of parts. A channel without a value has no row.
create table channel_value (
    line_id bigint not null references checkpoint_line (id) on delete cascade,
    channel text collate "C" not null,
    version text collate "C" not null,
    recipe bytea not null,
    primary key (line_id, channel, version)
);

-- What a task wrote towards the checkpoint after this one, which may be stored before the checkpoint itself.
create table pending_write (
    line_id bigint not null references checkpoint_line (id) on delete cascade,
    checkpoint text collate "C" not null,
    task text collate "C" not null,
    place bigint not null,
    path text collate "C" not null,
    channel text collate "C" not null,
    recipe bytea not null,
    primary key (line_id, checkpoint, task, place)
);

-- As for messages: the planner keeps no samples of what a thread holds.
alter table thread alter column name set statistics 0;
alter table checkpoint_line alter column ns set statistics 0;
alter table part alter column form set statistics 0, alter column name set statistics 0;
alter table checkpoint alter column name set statistics 0, alter column parent set statistics 0,
    alter column run_id set statistics 0, alter column versions set statistics 0,
    alter column head set statistics 0, alter column metadata set statistics 0;
alter table channel_value alter column channel set statistics 0, alter column version set statistics 0,
    alter column recipe set statistics 0;
alter table pending_write alter column checkpoint set statistics 0, alter column task set statistics 0,
    alter column path set statistics 0, alter column channel set statistics 0, alter column recipe set statistics 0;
