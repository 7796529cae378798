-- The message log. All times are microseconds since 1970-01-01 UTC, given by Python. Text that is compared as a
-- range has the collation "C", so that order is that of code points on every server.

-- A tenant, user or topic. `path` is the tuple of labels, each ended by U+001F, so that a prefix is a range.
create table namespace (
    id bigint generated always as identity primary key,
    path text collate "C" not null unique
);

-- A line of memory. `head` is the position of what came last, `messages` how many
-- messages it has of its own. A fork is one row: where it begins on its parent.
create table branch (
    id bigint generated always as identity primary key,
    namespace_id bigint not null references namespace (id),
    kind text not null,
    name text collate "C",
    parent_id bigint references branch (id),
    parent_position bigint,
    head bigint not null default 0,
    messages bigint not null default 0,
    created_at bigint not null,
    unique (namespace_id, kind, name)
);
create index branch_parent on branch (parent_id) where parent_id is not null;

-- Message bodies and other large values, one copy each, known by their BLAKE2b-160. The ids ascend, so that what
-- is written together lies together, in this table and in every index that refers to it.
create table content (
    id bigint generated always as identity primary key,
    hash bytea not null unique,
    body bytea not null
);

-- One version of a message or round. `position` is its call's place on the branch. A row with `replaces` is a
-- newer version of the row it names; the newest one counts, and the older ones are its history. `document_id` is the
-- number under which a search finds it, on the row of the first version.
create table entry (
    id bigint generated always as identity primary key,
    branch_id bigint not null references branch (id) on delete cascade,
    position bigint not null,
    replaces bigint references entry (id) on delete cascade,
    kind text not null,
    key text collate "C" not null,
    role text,
    sender text,
    recipient text,
    round_key text,
    content_id bigint not null references content (id),
    attachments_id bigint references content (id),
    document_id bigint,
    created_at bigint not null,
    written_at bigint not null
);
create index entry_position on entry (branch_id, position, id);
create unique index entry_key on entry (branch_id, key) where replaces is null;
create index entry_content on entry (content_id);
create index entry_attachments on entry (attachments_id) where attachments_id is not null;
create index entry_replaces on entry (replaces, id) where replaces is not null;
create index entry_round on entry (branch_id, round_key) where round_key is not null;

-- Token counts by counting method: computed when first asked for.
create table token_count (
    content_id bigint not null references content (id) on delete cascade,
    counter text not null,
    tokens bigint not null,
    primary key (content_id, counter)
);

-- The planner's statistics hold samples of what they describe, and outlive the rows: an erased message would be read
-- there. These columns are found by unique keys or by indexes, so they need none.
alter table namespace alter column path set statistics 0;
alter table branch alter column name set statistics 0;
alter table content alter column hash set statistics 0, alter column body set statistics 0;
alter table entry alter column key set statistics 0, alter column role set statistics 0,
    alter column sender set statistics 0, alter column recipient set statistics 0,
    alter column round_key set statistics 0;
