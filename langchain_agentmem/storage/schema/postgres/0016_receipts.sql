-- What each session of a program has written: how many transactions, the last of which wrote this down. A program that
-- lost its connection in a commit finds out here whether that was carried out. `at` is microseconds since 1970-01-01 UTC.
create table receipt (
    session bigint primary key,
    transactions bigint not null,
    at bigint not null
);
