-- The message log. All times are microseconds since 1970-01-01 UTC, given by Python.

-- A tenant, user or topic. `path` is the tuple of labels, each ended by U+001F, so that a prefix is a range.
create table namespace (
    id integer primary key,
    path text not null unique
);

-- A line of memory. `head` is the position of what came last, `messages` how many
-- messages it has of its own. A fork is one row: where it begins on its parent.
create table branch (
    id integer primary key,
    namespace_id integer not null references namespace (id),
    kind text not null,
    name text,
    parent_id integer references branch (id),
    parent_position integer,
    head integer not null default 0,
    messages integer not null default 0,
    created_at integer not null,
    unique (namespace_id, kind, name)
);
create index branch_parent on branch (parent_id) where parent_id is not null;

-- Message bodies and other large values, one copy each, known by their BLAKE2b-160. The ids ascend, so that what
-- is written together lies together, in this table and in every index that refers to it.
create table content (
    id integer primary key,
    hash blob not null unique,
    body blob not null
);

-- One version of a message or round. `position` is its call's place on the branch. A row with `replaces` is a
-- newer version of the row it names; the newest one counts, and the older ones are its history. `document_id` is the
-- number under which a search finds it, on the row of the first version.
create table entry (
    id integer primary key,
    branch_id integer not null references branch (id) on delete cascade,
    position integer not null,
    replaces integer references entry (id) on delete cascade,
    kind text not null,
    key text not null,
    role text,
    sender text,
    recipient text,
    round_key text,
    content_id integer not null references content (id),
    attachments_id integer references content (id),
    document_id integer,
    created_at integer not null,
    written_at integer not null
);
create index entry_position on entry (branch_id, position);
create unique index entry_key on entry (branch_id, key) where replaces is null;
create index entry_content on entry (content_id);
create index entry_attachments on entry (attachments_id) where attachments_id is not null;
create index entry_replaces on entry (replaces) where replaces is not null;
create index entry_round on entry (branch_id, round_key) where round_key is not null;

-- Token counts by counting method: computed when first asked for.
create table token_count (
    content_id integer not null references content (id) on delete cascade,
    counter text not null,
    tokens integer not null,
    primary key (content_id, counter)
) without rowid;
