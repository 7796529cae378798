-- What a search looks through. A document is a message, an item, or whatever else can be found. Its id says where it
-- stands: 26 bits of its scope, 15 of its series there, 22 of its place in the series. So neighbours are neighbours by
-- their numbers, and a namespace is a few ranges of them, which the index can skip to.

-- The documents of one kind in one namespace. One with very many series has several scopes.
create table search_scope (
    id integer primary key autoincrement,
    namespace_id integer not null references namespace (id),
    kind text not null,
    series integer not null default 0
);
create index search_scope_namespace on search_scope (namespace_id, kind);

-- Documents that follow each other, such as those of a conversation. `next` is the place that the next one gets;
-- `documents` and `words` count those that are there.
create table search_series (
    id integer primary key,
    scope_id integer not null references search_scope (id),
    name text not null,
    next integer not null default 0,
    documents integer not null default 0,
    words integer not null default 0,
    first_at integer not null,
    last_at integer not null
);
create index search_series_name on search_series (scope_id, name);

-- Who speaks in a series: the words of the name, and the number by which documents know its owner.
create table search_speaker (
    word text not null,
    series_id integer not null references search_series (id) on delete cascade,
    speaker integer not null,
    primary key (word, series_id, speaker)
) without rowid;
create index search_speaker_series on search_speaker (series_id);

-- `owner` is the row that it stands for; `features` are bits of what its text has beside words.
create table search_document (
    id integer primary key,
    owner integer not null,
    created_at integer not null,
    speaker integer,
    role text,
    length integer not null,
    features integer not null
);

-- The full-text index over analysed terms. FTS5 pays for each transaction, not for each row: indexing one document in a
-- commit of its own costs thirteen times what it costs among sixty-four. So new ones wait, and enter it together.
create virtual table search_index using fts5 (terms, content = '', tokenize = 'ascii', detail = 'none');

create table search_waiting (
    document_id integer primary key,
    terms text not null
);

-- Vectors of documents, one for each of their passages, as 32-bit floats of length one. The ids ascend, so that whoever
-- has read some can read the rest.
create table search_vector (
    id integer primary key autoincrement,
    document_id integer not null references search_document (id) on delete cascade,
    passage integer not null,
    vector blob not null,
    unique (document_id, passage)
);

-- Documents whose passages have no vectors yet. A document that changes gets another ticket.
create table search_unembedded (
    ticket integer primary key autoincrement,
    document_id integer not null unique references search_document (id) on delete cascade
);

-- `dimensions` is null as long as no vectors are wanted, `removed` counts how often vectors were taken away,
-- `pgvector` says whether they are in a table of pgvector's as well.
create table search_state (
    id integer primary key check (id = 1),
    analysis integer not null,
    dimensions integer,
    removed integer not null default 0,
    pgvector integer not null default 0
);
insert into search_state (id, analysis) values (1, 0);
