-- What a context was compacted to. All times are microseconds since 1970-01-01 UTC.

-- `lane` says whose context it is: a graph's state, a conversation's log, one role's rounds. `digest` is that of everything
-- that was said up to where it reaches, `reached` how many messages that are, and `slot` the row of the last of them where
-- the context is that of the log. `ahead` marks one that was made before it was needed, and is not in use yet. The
-- messages that stayed as they were are named in the body, which is JSON, and those that were made stand in it.
create table compaction (
    id integer primary key,
    branch_id integer not null references branch (id) on delete cascade,
    lane text not null,
    digest blob not null,
    reached integer not null,
    slot integer,
    ahead integer not null default 0,
    created_at integer not null,
    checksum integer not null,
    body blob not null
);
create index compaction_lane on compaction (branch_id, lane, id);
