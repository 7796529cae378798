-- What was measured of this database, of all processes together: numbers by name, and nothing that anybody stored.
-- `kind` is 'operation', 'cache' or 'tokens'. Of an operation: how often it ended, how often with an error, and the
-- microseconds of all and of the slowest. Of a cache: how often it was asked (`calls`), and had not what was wanted
-- (`failures`). Of tokens: how many prompts were shorter than their history (`calls`), and by how many in all (`total`).
-- `since` and `until` are microseconds since 1970-01-01 UTC.
create table measure (
    kind text collate "C" not null,
    name text collate "C" not null,
    calls bigint not null,
    failures bigint not null,
    total bigint not null,
    slowest bigint not null,
    since bigint not null,
    until bigint not null,
    primary key (kind, name)
);
