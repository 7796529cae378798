-- What was put into the prompts of a thread. All times are microseconds since 1970-01-01 UTC.

-- `name` is the thread, `key` the message before which it stands, `part` what it is, and `reader` who put it there: a
-- memory by its name ('' that of the run), or the experiences of a role. `tokens` is what it takes, and `stands` whether prompts still show it. The body is
-- JSON: ids, scores and signals, and of core memory the values, since a prompt shows them as they were.
create table prompt_note (
    namespace_id bigint not null references namespace (id) on delete cascade,
    name text collate "C" not null,
    key text collate "C" not null,
    part text collate "C" not null,
    reader text collate "C" not null,
    tokens bigint not null,
    stands bigint not null,
    created_at bigint not null,
    body bytea not null,
    primary key (namespace_id, name, key, part, reader)
);
create index prompt_note_age on prompt_note (created_at);

-- As for messages: the planner keeps no samples of what is stored.
alter table prompt_note alter column name set statistics 0, alter column key set statistics 0,
    alter column reader set statistics 0, alter column body set statistics 0;
