-- What became of experiences, which are files themselves. All times are microseconds since 1970-01-01 UTC.

-- How often an experience was a candidate, and how often it was chosen, and when.
create table experience_tally (
    namespace_id bigint not null references namespace (id),
    exp_id text collate "C" not null,
    considered bigint not null,
    chosen bigint not null,
    first_chosen_at bigint,
    last_chosen_at bigint,
    primary key (namespace_id, exp_id)
);

-- Whether an experience helped, once for each time that somebody said so. The note is UTF-8, as bytes, so that any text is
-- one. It comes last, so that counting reads none of it.
create table experience_feedback (
    id bigint generated always as identity primary key,
    namespace_id bigint not null references namespace (id),
    feedback_id text collate "C" not null,
    exp_id text collate "C" not null,
    helped bigint not null,
    conversation_id text collate "C",
    created_at bigint not null,
    note bytea not null,
    unique (namespace_id, feedback_id)
);
create index experience_feedback_exp on experience_feedback (namespace_id, exp_id, helped);
create index experience_feedback_conversation on experience_feedback (namespace_id, conversation_id)
    where conversation_id is not null;

-- As for messages: the planner keeps no samples of what is stored.
alter table experience_tally alter column exp_id set statistics 0;
alter table experience_feedback alter column feedback_id set statistics 0, alter column exp_id set statistics 0,
    alter column conversation_id set statistics 0, alter column note set statistics 0;
