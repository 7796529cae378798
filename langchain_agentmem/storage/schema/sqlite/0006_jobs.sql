-- Work that is done later, whoever does it. `mark` is the BLAKE2b-160 of path, kind and key, which name a job; keys are
-- UTF-8, as bytes, so that any text is one. Whoever works on a job has a lease on it: `owner` is a word that nobody else
-- has, and `lease_until` when another may take it over. `again` says that it was asked for once more meanwhile.
create table job (
    id integer primary key,
    mark blob not null unique,
    path text not null,
    kind text not null,
    key blob not null,
    payload blob not null,
    again integer not null default 0,
    attempts integer not null default 0,
    not_before integer not null,
    owner text,
    lease_until integer,
    error text,
    created_at integer not null
);
create index job_kind on job (kind, id);
create index job_path on job (path);
