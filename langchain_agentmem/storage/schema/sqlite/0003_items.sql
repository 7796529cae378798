-- Long-term items: values by namespace and key. All times are microseconds since 1970-01-01 UTC.

-- `value` is JSON. `ttl` is in minutes from the last reading or writing, after which, at `expires_at`, the item counts as
-- gone. `document_id` is the number under which a search finds it; `indexed` the texts of the fields that were named
-- for that, as a JSON list, or null where the whole value is meant. The value comes last, so that reading the columns
-- before it reads none of its pages.
create table item (
    id integer primary key,
    namespace_id integer not null references namespace (id),
    key text not null,
    checksum integer not null,
    created_at integer not null,
    updated_at integer not null,
    ttl real,
    expires_at integer,
    document_id integer,
    indexed text,
    value blob not null,
    unique (namespace_id, key)
);
create index item_recent on item (namespace_id, updated_at desc, key, expires_at);
create index item_expiry on item (expires_at) where expires_at is not null;
