-- What people corrected in memory. All times are microseconds since 1970-01-01 UTC.

-- `name` is the branch, or the conversation of a message; `actor` who corrected it, and `undoes` the correction that this
-- one takes back. The body is JSON: what was there before and after, of a message the digests of its versions.
create table correction (
    id bigint generated always as identity primary key,
    namespace_id bigint not null references namespace (id) on delete cascade,
    correction_id text collate "C" not null,
    kind text collate "C" not null,
    name text collate "C" not null,
    key text collate "C" not null,
    actor text collate "C" not null,
    undoes text collate "C",
    created_at bigint not null,
    body bytea not null,
    unique (namespace_id, correction_id)
);
create index correction_key on correction (namespace_id, kind, name, key);
create index correction_age on correction (namespace_id, created_at);

-- As for messages: the planner keeps no samples of what is stored.
alter table correction alter column correction_id set statistics 0, alter column kind set statistics 0,
    alter column name set statistics 0, alter column key set statistics 0, alter column actor set statistics 0,
    alter column undoes set statistics 0, alter column body set statistics 0;
