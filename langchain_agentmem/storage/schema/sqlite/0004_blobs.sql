-- Values by key: what a byte store keeps. Keys are UTF-8, as bytes, so that any text is one and their order is that of
-- code points. `head` is a key's first 2,000 bytes, `rest` what follows, and `mark` the BLAKE2b-160 of the rest, empty
-- where nothing follows; PostgreSQL's indexes have no room for more. The value comes last, so that reading the columns
-- before it reads none of its pages.
create table blob (
    id integer primary key,
    namespace_id integer not null references namespace (id),
    head blob not null,
    mark blob not null,
    rest blob not null,
    checksum integer not null,
    updated_at integer not null,
    value blob not null,
    unique (namespace_id, head, mark)
);
