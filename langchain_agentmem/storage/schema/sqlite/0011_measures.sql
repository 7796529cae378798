-- What was measured of this database, of all processes together: numbers by name, and nothing that anybody stored.
-- `kind` is 'operation', 'cache' or 'tokens'. Of an operation: how often it ended, how often with an error, and the
-- microseconds of all and of the slowest. Of a cache: how often it was asked (`calls`), and had not what was wanted
-- (`failures`). Of tokens: how many prompts were shorter than their history (`calls`), and by how many in all (`total`).
-- `since` and `until` are microseconds since 1970-01-01 UTC.
create table measure (
    kind text not null,
    name text not null,
    calls integer not null,
    failures integer not null,
    total integer not null,
    slowest integer not null,
    since integer not null,
    until integer not null,
    primary key (kind, name)
) without rowid;
