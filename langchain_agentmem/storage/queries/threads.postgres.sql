-- name: load_checkpoints
-- A damaged text in `versions` is replaced by {}, since a failing cast would hide that the checkpoint is damaged. A
-- regular expression checks the text, since only newer servers can test for JSON. `shape` is the pattern of one JSON
-- string.
with chosen as materialized (
    select ns_id, name, parent, versions, head, metadata from checkpoint
    where ns_id = (
        select l.id from namespace n
        join thread t on t.namespace_id = n.id and t.name = :name
        join checkpoint_ns l on l.thread_id = t.id and l.ns = :ns
        where n.path = :path
    ) and name >= :low and name < :high
    order by name desc
    limit cast(:limit as bigint)
), json_string (shape) as (select '"([^"\\[:cntrl:]]|\\(["\\/bfnrt]|u(?!0000)[0-9a-fA-F]{4}))*"')
select 1 as kind, name, parent, versions as version, cast(null as text) as channel, cast(null as text) as task,
    cast(null as bigint) as idx, metadata, head as data
from chosen
union all
select 2, null, null, v.version, v.channel, null, null, null, v.recipe
from (
    select distinct c.ns_id, w.key, w.value
    from chosen c
    cross join json_string
    cross join json_each_text(cast(case
        when c.versions ~ ('^\{(' || shape || ':' || shape || '(,' || shape || ':' || shape || ')*)?\}$') then c.versions
        else '{}'
    end as json)) w
) w
cross join lateral (
    select channel, version, recipe from channel_value
    where ns_id = w.ns_id and channel = w.key and version = w.value
    limit 1
) v
union all
select 3, p.checkpoint, p.path, null, p.channel, p.task, p.idx, null, p.recipe
from chosen c
cross join {lookup pending_write p} p.ns_id = c.ns_id and p.checkpoint = c.name {end_lookup p};

-- name: channel_values
select v.channel, v.recipe
from checkpoint c
cross join json_each_text(cast(c.versions as json)) w
cross join channel_value v
where c.ns_id = :ns_id and c.name = :name and w.key {in_texts keys}
    and v.ns_id = c.ns_id and v.channel = w.key and v.version = w.value;
