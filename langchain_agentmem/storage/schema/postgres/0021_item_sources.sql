-- What long-term items rest on.

-- The versions of an item that rests on something, in the order of their ids; of other items there are none. The last is the
-- one that the item holds, and has no body; the body of one before is the item as it was, as an export tells it. `extra` is
-- JSON: what the version rests on, and who wrote it.
create table item_version (
    id bigint generated always as identity primary key,
    item_id bigint not null references item (id) on delete cascade,
    extra text not null,
    body bytea
);
create index item_version_item on item_version (item_id);

-- What a version rests on, as in memory_source.
create table item_source (
    version_id bigint not null references item_version (id) on delete cascade,
    source text collate "C" not null,
    primary key (version_id, source)
);
create index item_source_source on item_source (source);

-- As for messages: the planner keeps no samples of what is stored.
alter table item_version alter column extra set statistics 0, alter column body set statistics 0;
alter table item_source alter column source set statistics 0;
