-- What became of experiences, which are files themselves. All times are microseconds since 1970-01-01 UTC.

-- How often an experience was a candidate, and how often it was chosen, and when.
create table experience_tally (
    namespace_id integer not null references namespace (id),
    exp_id text not null,
    considered integer not null,
    chosen integer not null,
    first_chosen_at integer,
    last_chosen_at integer,
    primary key (namespace_id, exp_id)
) without rowid;

-- Whether an experience helped, once for each time that somebody said so. The note is UTF-8, as bytes, so that any text is
-- one. It comes last, so that counting reads none of it.
create table experience_feedback (
    id integer primary key,
    namespace_id integer not null references namespace (id),
    feedback_id text not null,
    exp_id text not null,
    helped integer not null,
    conversation_id text,
    created_at integer not null,
    note blob not null,
    unique (namespace_id, feedback_id)
);
create index experience_feedback_exp on experience_feedback (namespace_id, exp_id, helped);
create index experience_feedback_conversation on experience_feedback (namespace_id, conversation_id)
    where conversation_id is not null;
