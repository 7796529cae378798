-- What a search looks through. A document is a message, an item, or whatever else can be found. Its id says where it
-- stands: 26 bits of its scope, 15 of its series there, 22 of its place in the series. So neighbours are neighbours by
-- their numbers, and a namespace is a few ranges of them, which the index can skip to.

-- The documents of one kind in one namespace. One with very many series has several scopes.
create table search_scope (
    id bigint generated always as identity primary key,
    namespace_id bigint not null references namespace (id),
    kind text not null,
    series bigint not null default 0
);
create index search_scope_namespace on search_scope (namespace_id, kind);

-- Documents that follow each other, such as those of a conversation. `next` is the place that the next one gets;
-- `documents` and `words` count those that are there.
create table search_series (
    id bigint primary key,
    scope_id bigint not null references search_scope (id),
    name text not null,
    next bigint not null default 0,
    documents bigint not null default 0,
    words bigint not null default 0,
    first_at bigint not null,
    last_at bigint not null
);
create index search_series_name on search_series (scope_id, name);

-- Who speaks in a series: the words of the name, and the number by which documents know its owner.
create table search_speaker (
    word text not null,
    series_id bigint not null references search_series (id) on delete cascade,
    speaker bigint not null,
    primary key (word, series_id, speaker)
);
create index search_speaker_series on search_speaker (series_id);

-- `owner` is the row that it stands for; `features` are bits of what its text has beside words.
create table search_document (
    id bigint primary key,
    owner bigint not null,
    created_at bigint not null,
    speaker bigint,
    role text,
    length bigint not null,
    features bigint not null
);

-- The full-text index over analysed terms. A term is followed by U+001F and its scope, so that one namespace's terms
-- are keys of their own, and those of all are a range of keys. What is new waits in a list that every search reads, so
-- the list is short: 256 kB.
create table search_index (
    document_id bigint primary key references search_document (id) on delete cascade,
    terms tsvector not null
);
create index search_index_terms on search_index using gin (terms) with (gin_pending_list_limit = 256);

-- Vectors of documents, one for each of their passages, as 32-bit floats of length one. The ids ascend, so that whoever
-- has read some can read the rest.
create table search_vector (
    id bigint generated always as identity primary key,
    document_id bigint not null references search_document (id) on delete cascade,
    passage bigint not null,
    vector bytea not null,
    unique (document_id, passage)
);

-- Documents whose passages have no vectors yet. A document that changes gets another ticket.
create table search_unembedded (
    ticket bigint generated always as identity primary key,
    document_id bigint not null unique references search_document (id) on delete cascade
);

-- `dimensions` is null as long as no vectors are wanted, `removed` counts how often vectors were taken away,
-- `pgvector` says whether they are in a table of pgvector's as well.
create table search_state (
    id bigint primary key check (id = 1),
    analysis bigint not null,
    dimensions bigint,
    removed bigint not null default 0,
    pgvector bigint not null default 0
);
insert into search_state (id, analysis) values (1, 0);

-- The planner keeps no samples of what was said.
alter table search_scope alter column kind set statistics 0;
alter table search_series alter column name set statistics 0;
alter table search_speaker alter column word set statistics 0;
alter table search_document alter column role set statistics 0;
alter table search_index alter column terms set statistics 0;
alter table search_vector alter column vector set statistics 0;
