-- What was measured: numbers by name.

-- name: add_measure
-- Add what one process measured to what all of them did.
insert into measure (kind, name, calls, failures, total, slowest, since, until)
values (:kind, :name, :calls, :failures, :total, :slowest, :since, :until)
on conflict (kind, name) do update set
    calls = measure.calls + excluded.calls,
    failures = measure.failures + excluded.failures,
    total = measure.total + excluded.total,
    slowest = case when excluded.slowest > measure.slowest then excluded.slowest else measure.slowest end,
    since = case when excluded.since < measure.since then excluded.since else measure.since end,
    until = case when excluded.until > measure.until then excluded.until else measure.until end;

-- name: forget_old_measures
-- Names beyond the limit that were not measured for longest: those of versions that called things otherwise.
delete from measure where until < (select until from measure order by until desc limit 1 offset cast(:limit as bigint));

-- name: measures
select kind, name, calls, failures, total, slowest, since, until from measure order by kind, name;

-- name: delete_measures
delete from measure;
