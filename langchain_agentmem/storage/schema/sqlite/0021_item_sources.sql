-- What long-term items rest on.

-- The versions of an item that rests on something, in the order of their ids; of other items there are none. The last is the
-- one that the item holds, and has no body; the body of one before is the item as it was, as an export tells it. `extra` is
-- JSON: what the version rests on, and who wrote it.
create table item_version (
    id integer primary key,
    item_id integer not null references item (id) on delete cascade,
    extra text not null,
    body blob
);
create index item_version_item on item_version (item_id);

-- What a version rests on, as in memory_source.
create table item_source (
    version_id integer not null references item_version (id) on delete cascade,
    source text not null,
    primary key (version_id, source)
) without rowid;
create index item_source_source on item_source (source);
