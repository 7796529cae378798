-- Values by key: what a byte store keeps. Keys are UTF-8, as bytes, so that any text is one and their order is that of
-- code points. An index entry has room for 2,700 bytes only: `head` is a key's first 2,000 bytes, `rest` what follows,
-- and `mark` the BLAKE2b-160 of the rest, empty where nothing follows.
create table blob (
    id bigint generated always as identity primary key,
    namespace_id bigint not null references namespace (id),
    head bytea not null,
    mark bytea not null,
    rest bytea not null,
    checksum bigint not null,
    updated_at bigint not null,
    value bytea not null,
    unique (namespace_id, head, mark)
);

-- As for messages: the planner keeps no samples of what is stored.
alter table blob alter column head set statistics 0, alter column mark set statistics 0,
    alter column rest set statistics 0, alter column value set statistics 0;
