-- What was put into the prompts of a thread. All times are microseconds since 1970-01-01 UTC.

-- `name` is the thread, `key` the message before which it stands, `part` what it is, and `reader` who put it there: a
-- memory by its name ('' that of the run), or the experiences of a role. `tokens` is what it takes, and `stands` whether prompts still show it. The body is
-- JSON: ids, scores and signals, and of core memory the values, since a prompt shows them as they were.
create table prompt_note (
    namespace_id integer not null references namespace (id) on delete cascade,
    name text not null,
    key text not null,
    part text not null,
    reader text not null,
    tokens integer not null,
    stands integer not null,
    created_at integer not null,
    body blob not null,
    primary key (namespace_id, name, key, part, reader)
) without rowid;
create index prompt_note_age on prompt_note (created_at);
