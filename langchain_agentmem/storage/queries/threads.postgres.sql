-- name: values_at
-- Laterally, so that each value is looked up by its key, however many there are.
select v.channel, v.recipe
from json_each_text(cast(:versions as json)) w
cross join lateral (
    select channel, recipe from channel_value
    where line_id = :line and channel = w.key and version = w.value
    limit 1
) v;

-- name: values_of
-- A cast that fails would hide that the checkpoint is damaged, and only newer servers can tell whether a text is JSON. The shape is that of one string.
with said (shape) as (select '"([^"\\[:cntrl:]]|\\(["\\/bfnrt]|u(?!0000)[0-9a-fA-F]{4}))*"')
select v.channel, v.recipe
from checkpoint c
cross join said
cross join json_each_text(cast(case
    when c.versions ~ ('^\{(' || shape || ':' || shape || '(,' || shape || ':' || shape || ')*)?\}$') then c.versions
    else '{}'
end as json)) w
cross join lateral (
    select channel, recipe from channel_value
    where line_id = :line and channel = w.key and version = w.value
    limit 1
) v
where c.line_id = :line
    and c.name = coalesce(cast(:name as text), (select max(name) from checkpoint where line_id = :line));

-- name: values_in
select v.channel, v.recipe
from checkpoint c
cross join json_each_text(cast(c.versions as json)) w
cross join channel_value v
where c.line_id = :line and c.name = :name and w.key {in_texts keys}
    and v.line_id = c.line_id and v.channel = w.key and v.version = w.value;

-- name: parts_in
select p.number, p.form, p.name, p.checksum, c.body
from json_array_elements(cast(:ranges as json)) r
cross join lateral (
    select number, form, name, checksum, content_id from part
    where shelf_id = :shelf and number >= cast(r.value ->> 0 as bigint) and number < cast(r.value ->> 1 as bigint)
    offset 0
) p
left join content c on c.id = p.content_id;

-- name: known_parts
select c.hash, p.form, p.name, p.number
from json_array_elements(cast(:keys as json)) k
cross join lateral (select id, hash from content where hash = decode(k.value ->> 0, 'hex') limit 1) c
cross join lateral (
    select number, form, name from part
    where content_id = c.id and shelf_id = :shelf
        and form = k.value ->> 1 and name is not distinct from k.value ->> 2
    offset 0
) p;
