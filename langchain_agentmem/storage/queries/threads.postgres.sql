-- name: lock_threads
-- The row lock makes those who put something on a shelf queue here.
select t.id, t.shelf_id, t.delta, s.listed, s.loose, s.swept, s.litter, n.path
from thread t
join namespace n on n.id = t.namespace_id
join shelf s on s.id = t.shelf_id
where t.name = :name and (n.path = :path or cast(:path as text) = '')
order by n.path
for update of s;

-- name: values_at
select v.channel, v.recipe
from json_each_text(cast(:versions as json)) w
join channel_value v on v.line_id = :line and v.channel = w.key and v.version = w.value;

-- name: writes_of_channels
select checkpoint, task, place, path, channel, recipe from pending_write
where line_id = :line
    and checkpoint in (select value from json_array_elements_text(cast(:checkpoints as json)))
    and channel in (select value from json_array_elements_text(cast(:channels as json)));

-- name: parts_in
select p.number, p.form, p.name, p.checksum, c.body
from json_array_elements(cast(:ranges as json)) r
join part p on p.shelf_id = :shelf
    and p.number >= cast(r.value ->> 0 as bigint) and p.number < cast(r.value ->> 1 as bigint)
left join content c on c.id = p.content_id;

-- name: known_parts
select c.hash, p.form, p.name, max(p.number) as any,
    max(case when p.number < cast(:loose as bigint) then p.number end) as listed
from content c
join part p on p.content_id = c.id and p.shelf_id = :shelf
where c.hash in (select decode(value, 'hex') from json_array_elements_text(cast(:hashes as json)))
group by c.hash, p.form, p.name;

-- name: checkpoints_of_runs
select l.thread_id, t.shelf_id, c.line_id, c.name from checkpoint c
join checkpoint_line l on l.id = c.line_id
join thread t on t.id = l.thread_id
join namespace n on n.id = t.namespace_id
where c.run_id in (select value from json_array_elements_text(cast(:runs as json)))
    and n.path >= :low and n.path < :high
order by c.line_id, c.name;

-- name: valued_versions
select channel, version from channel_value
where line_id = :line and channel in (select value from json_array_elements_text(cast(:channels as json)));
