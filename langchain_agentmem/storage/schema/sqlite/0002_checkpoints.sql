-- LangGraph threads: checkpoints that cost only what changed. All times are microseconds since 1970-01-01 UTC.

-- Where the parts of a thread's values lie. `listed` and `loose` are the numbers of its next parts, in
-- the row of the elements of lists and in that of all others; a number is never given twice.
-- `swept` counts how often parts were taken away, so that nobody trusts an older knowledge of them. `litter` counts
-- the checkpoints that were removed since.
create table shelf (
    id integer primary key autoincrement,
    listed integer not null default 0,
    loose integer not null,
    swept integer not null default 0,
    litter integer not null default 0
);

-- A thread of a namespace. A copy of a thread shares its shelf. `delta` marks a thread of DeltaChannels, whose
-- checkpoints need their ancestors.
create table thread (
    id integer primary key,
    namespace_id integer not null references namespace (id),
    name text not null,
    shelf_id integer not null references shelf (id),
    delta integer not null default 0,
    created_at integer not null,
    unique (name, namespace_id)
);
create index thread_namespace on thread (namespace_id);
create index thread_shelf on thread (shelf_id);

-- One series of checkpoints: a thread's own (`ns` is empty), or those of one of its subgraphs.
create table checkpoint_line (
    id integer primary key,
    thread_id integer not null references thread (id) on delete cascade,
    ns text not null,
    unique (thread_id, ns)
);

-- A part of a value, never changed. `form` says how the body is to be read, `name` is the id of a message.
create table part (
    shelf_id integer not null references shelf (id) on delete cascade,
    number integer not null,
    form text not null,
    name text,
    content_id integer not null references content (id),
    checksum integer not null,
    primary key (shelf_id, number)
) without rowid;
create index part_content on part (content_id);

-- A checkpoint without its values. `versions` is a JSON object of the channels' versions; `head` and `metadata` are
-- what the serializer wrote.
create table checkpoint (
    line_id integer not null references checkpoint_line (id) on delete cascade,
    name text not null,
    parent text,
    run_id text,
    versions text not null,
    head blob not null,
    metadata blob not null,
    created_at integer not null,
    primary key (line_id, name)
) without rowid;
create index checkpoint_run on checkpoint (run_id) where run_id is not null;

-- The value that a channel has in one version, as a recipe of parts. A channel without a value has no row.
create table channel_value (
    line_id integer not null references checkpoint_line (id) on delete cascade,
    channel text not null,
    version text not null,
    recipe blob not null,
    primary key (line_id, channel, version)
) without rowid;

-- What a task wrote towards the checkpoint after this one, which may be stored before the checkpoint itself.
create table pending_write (
    line_id integer not null references checkpoint_line (id) on delete cascade,
    checkpoint text not null,
    task text not null,
    place integer not null,
    path text not null,
    channel text not null,
    recipe blob not null,
    primary key (line_id, checkpoint, task, place)
) without rowid;
