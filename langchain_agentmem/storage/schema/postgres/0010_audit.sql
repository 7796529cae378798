-- The audit trail: every prompt and reply, in one chain. All times are microseconds since 1970-01-01 UTC.

-- The namespaces that have entries.
create table audit_namespace (
    namespace_id bigint primary key references namespace (id)
);

-- What the models of a conversation, or of a thread, were given and answered: a shelf of messages, each of which stands
-- there once, however many calls named it. A call names ranges of numbers, so a call with a long history costs what is new.
create table audit_shelf (
    id bigint generated always as identity primary key,
    namespace_id bigint not null references namespace (id),
    name text collate "C" not null,
    next bigint not null default 1,
    unique (namespace_id, name)
);
create table audit_message (
    shelf_id bigint not null references audit_shelf (id) on delete cascade,
    number bigint not null,
    key text not null,
    content_id bigint not null references content (id),
    primary key (shelf_id, number)
);
create index audit_message_content on audit_message (content_id, shelf_id);

-- The entries. `sequence` is the place in the chain, without gaps; `digest` stands for everything of the entry that never
-- changes, and `link` for this digest and the link before. What was erased leaves these three, and nulls. `hidden` is 0
-- for what is shown, 1 for junk, whose rules `junk` names as a JSON list, and 2 for a reference of which there is a newer
-- version. `mark` is a digest of what tells that a todo or a reference is there already. `messages` are ranges of the
-- shelf, as JSON. `body` is JSON, compressed where that makes an archived entry smaller; it comes last, so that reading
-- the columns before it reads none of its pages.
--
-- Each index that a single new row enters is a page more to be written by its commit. So on SQLite new rows are in none,
-- and enter all of them together, with many others; `settled` says which have. Nothing refers to anything here by a foreign
-- key, since to check one an engine would have to look through all rows.
create table audit (
    sequence bigint primary key,
    link bytea not null,
    digest bytea not null,
    salt bytea,
    namespace_id bigint,
    key text collate "C",
    kind text,
    hidden bigint,
    conversation text collate "C",
    thread text collate "C",
    created_at bigint,
    junk text,
    status text,
    mark bytea,
    archived bigint,
    settled bigint,
    shelf_id bigint,
    messages text,
    body bytea
);
create index audit_key on audit (namespace_id, key) where settled = 1;
create index audit_kind on audit (namespace_id, kind, hidden, sequence) where settled = 1;
create index audit_conversation on audit (namespace_id, conversation, kind, hidden, sequence)
    where settled = 1 and conversation is not null;
create index audit_thread on audit (namespace_id, thread, sequence) where settled = 1 and thread is not null;
create index audit_mark on audit (namespace_id, kind, mark, sequence) where settled = 1 and mark is not null;
create index audit_status on audit (namespace_id, status, sequence) where settled = 1 and status is not null;
create index audit_shelf_id on audit (shelf_id, sequence) where settled = 1 and shelf_id is not null;

-- Which document of the search is which entry. A row of its own, so that an entry need not be written twice.
create table audit_document (
    sequence bigint primary key references audit (sequence) on delete cascade,
    document_id bigint not null
);

-- Where the chain ends. Entries after `indexed` wait for the indexes and the search, and enter them together.
create table audit_head (
    id bigint primary key check (id = 1),
    sequence bigint not null,
    link bytea not null,
    indexed bigint not null
);
insert into audit_head (id, sequence, link, indexed) values (1, 0, decode(repeat('00', 32), 'hex'), 0);

-- As for messages: the planner keeps no samples of what was said.
alter table audit_shelf alter column name set statistics 0;
alter table audit_message alter column key set statistics 0;
alter table audit_head alter column link set statistics 0;
alter table audit alter column link set statistics 0, alter column digest set statistics 0,
    alter column salt set statistics 0, alter column key set statistics 0, alter column kind set statistics 0,
    alter column conversation set statistics 0, alter column thread set statistics 0,
    alter column junk set statistics 0, alter column status set statistics 0, alter column mark set statistics 0,
    alter column messages set statistics 0, alter column body set statistics 0;
