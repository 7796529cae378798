-- What people corrected in memory. All times are microseconds since 1970-01-01 UTC.

-- `name` is the branch, or the conversation of a message; `actor` who corrected it, and `undoes` the correction that this
-- one takes back. The body is JSON: what was there before and after, of a message the digests of its versions.
create table correction (
    id integer primary key,
    namespace_id integer not null references namespace (id) on delete cascade,
    correction_id text not null,
    kind text not null,
    name text not null,
    key text not null,
    actor text not null,
    undoes text,
    created_at integer not null,
    body blob not null,
    unique (namespace_id, correction_id)
);
create index correction_key on correction (namespace_id, kind, name, key);
create index correction_age on correction (namespace_id, created_at);
