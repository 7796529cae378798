-- Work that is done later, whoever does it. `mark` is the BLAKE2b-160 of path, kind and key, which name a job; keys are
-- UTF-8, as bytes, so that any text is one. Whoever works on a job has a lease on it: `owner` is a word that nobody else
-- has, and `lease_until` when another may take it over. `again` says that it was asked for once more meanwhile.
create table job (
    id bigint generated always as identity primary key,
    mark bytea not null unique,
    path text collate "C" not null,
    kind text not null,
    key bytea not null,
    payload bytea not null,
    again bigint not null default 0,
    attempts bigint not null default 0,
    not_before bigint not null,
    owner text,
    lease_until bigint,
    error text,
    created_at bigint not null
);
create index job_kind on job (kind, id);
create index job_path on job (path);

-- As for messages: the planner keeps no samples of what is stored.
alter table job alter column mark set statistics 0, alter column path set statistics 0,
    alter column kind set statistics 0, alter column key set statistics 0, alter column payload set statistics 0,
    alter column owner set statistics 0, alter column error set statistics 0;
