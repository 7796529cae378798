-- name: claim_job
-- The oldest job that nobody works on. Whoever had the last lease and let it run out counts as an attempt that failed.
update job set owner = :owner, lease_until = :until, again = 0,
    attempts = attempts + case when owner is null then 0 else 1 end
where id = (
    select id from job
    where kind = :kind and not_before <= :due and (owner is null or lease_until <= :now)
        and id not in ({numbers failed})
    order by id
    limit 1
)
returning id, path, kind, key, payload, attempts, not_before, owner, lease_until, error, created_at;

-- name: job_outlook
-- How many jobs there are, and when the first of them may be worked on: as planned, or as soon as nobody else does.
select count(*) as jobs,
    min(case when owner is null or lease_until < not_before then not_before else lease_until end) as due_at,
    min(case when owner is null then 0 else lease_until end) as free_at
from job
where kind = :kind and id not in ({numbers failed});

-- name: hold_job
select id from job where id = :id and owner = :owner;
