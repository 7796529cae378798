-- Long-term items: values by namespace and key. All times are microseconds since 1970-01-01 UTC.

-- `value` is JSON. `ttl` is in minutes from the last reading or writing, after which, at `expires_at`, the item counts as
-- gone. `document_id` is the number under which a search finds it; `indexed` the texts of the fields that were named
-- for that, as a JSON list, or null where the whole value is meant.
create table item (
    id bigint generated always as identity primary key,
    namespace_id bigint not null references namespace (id),
    key text collate "C" not null,
    checksum bigint not null,
    created_at bigint not null,
    updated_at bigint not null,
    ttl double precision,
    expires_at bigint,
    document_id bigint,
    indexed text,
    value bytea not null,
    unique (namespace_id, key)
);
create index item_recent on item (namespace_id, updated_at desc, key, expires_at) include (id);
create index item_expiry on item (expires_at) where expires_at is not null;

-- As for messages: the planner keeps no samples of what an item says.
alter table item alter column key set statistics 0, alter column indexed set statistics 0,
    alter column value set statistics 0;
