-- name: checkpoint_values
-- A damaged text in `versions` is replaced by {}, since a failing cast would hide that the checkpoint is damaged. A
-- regular expression checks the text, since only newer servers can test for JSON. `shape` is the pattern of one JSON
-- string.
with json_string (shape) as (select '"([^"\\[:cntrl:]]|\\(["\\/bfnrt]|u(?!0000)[0-9a-fA-F]{4}))*"')
select v.channel, v.recipe
from checkpoint c
cross join json_string
cross join json_each_text(cast(case
    when c.versions ~ ('^\{(' || shape || ':' || shape || '(,' || shape || ':' || shape || ')*)?\}$') then c.versions
    else '{}'
end as json)) w
cross join lateral (
    select channel, recipe from channel_value
    where ns_id = :ns_id and channel = w.key and version = w.value
    limit 1
) v
where c.ns_id = :ns_id
    and c.name = coalesce(cast(:name as text), (select max(name) from checkpoint where ns_id = :ns_id));

-- name: channel_values
select v.channel, v.recipe
from checkpoint c
cross join json_each_text(cast(c.versions as json)) w
cross join channel_value v
where c.ns_id = :ns_id and c.name = :name and w.key {in_texts keys}
    and v.ns_id = c.ns_id and v.channel = w.key and v.version = w.value;
