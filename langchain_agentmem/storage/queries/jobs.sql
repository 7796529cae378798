-- The one queue of work that is done later. Lists of ids come as JSON.

-- name: enqueue_job
-- One that waits gets the new payload, and one that is worked on is to be done again. What failed is not hurried by it.
insert into job (mark, path, kind, key, payload, not_before, created_at)
values (:mark, :path, :kind, :key, :payload, :not_before, :now)
on conflict (mark) do update set
    payload = excluded.payload,
    again = case when job.owner is null then 0 else 1 end,
    not_before = case
        when job.owner is null and (job.attempts > 0 or job.not_before < excluded.not_before) then job.not_before
        else excluded.not_before end;

-- name: claim_named_job
update job set owner = :owner, lease_until = :until, again = 0,
    attempts = attempts + case when owner is null then 0 else 1 end
where mark = :mark and not_before <= :now and (owner is null or lease_until <= :now)
returning id, path, kind, key, payload, attempts, not_before, owner, lease_until, error, created_at;

-- name: find_job
select id, path, kind, key, payload, attempts, not_before, owner, lease_until, error, created_at from job
where mark = :mark;

-- name: renew_job
update job set lease_until = :until where id = :id and owner = :owner returning id;

-- name: delete_done_job
delete from job where id = :id and owner = :owner and again = 0 returning id;

-- name: repeat_job
update job set owner = null, lease_until = null, again = 0, attempts = 0, error = null
where id = :id and owner = :owner
returning id;

-- name: fail_job
update job set owner = null, lease_until = null, again = 0, attempts = attempts + 1, not_before = :retry_at,
    error = :error
where id = :id and owner = :owner
returning id;

-- name: release_job
update job set owner = null, lease_until = null, again = 0 where id = :id and owner = :owner returning id;

-- name: count_jobs
select kind, count(*) as jobs from job group by kind;

-- name: delete_job
delete from job where mark = :mark returning id;

-- name: erase_jobs
delete from job where path >= :low and path < :high returning id;

-- name: job_marks
-- A page of the names of jobs, to see that each still has the mark it is kept under.
select id, mark, path, kind, key from job where id > :after order by id limit cast(:limit as bigint);
