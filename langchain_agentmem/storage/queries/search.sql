-- The full-text index. Terms come analysed from Python, separated by spaces, the same for both engines.

-- name: index_state
select analysis, up_to from index_state where id = 1;

-- name: set_index_state
update index_state set analysis = :analysis, up_to = :up_to where id = 1;

-- name: tail_to_index
-- The newest versions that are not indexed yet, up to but without a row.
select v.id, c.body
from entry v
join content c on c.id = v.content_id
where v.id > (select up_to from index_state where id = 1) and v.id < cast(:before as bigint) and v.kind <> 'round'
    and not exists (select 1 from entry n where n.replaces = coalesce(v.replaces, v.id) and n.id > v.id)
order by v.id
limit cast(:limit as bigint);

-- name: lower_tail
-- SQLite may give the id of a deleted last row to the next one: the tail must begin below it.
update index_state
set up_to = coalesce((select max(id) from entry), 0)
where id = 1 and up_to > coalesce((select max(id) from entry), 0);

-- name: tail_entries
-- Entries that a search must read directly, within its walls.
select v.id, v.key, v.kind, v.role, v.created_at, b.name as conversation, n.path, c.body
from entry v
join branch b on b.id = v.branch_id
join namespace n on n.id = b.namespace_id
join content c on c.id = v.content_id
where v.id > (select up_to from index_state where id = 1) and v.kind <> 'round'
    and not exists (select 1 from entry x where x.replaces = coalesce(v.replaces, v.id) and x.id > v.id)
    and n.path >= :low and n.path < :high
    and (cast(:conversation as text) is null or b.name = cast(:conversation as text))
    and (cast(:before as bigint) is null or v.created_at < cast(:before as bigint))
    and (cast(:after as bigint) is null or v.created_at >= cast(:after as bigint))
    and (cast(:roles as text) is null or v.role in (select value from json_each(cast(:roles as text))));

-- name: count_indexable
-- The newest versions: what a search should be able to find.
select count(*) as entries from entry slot where slot.kind <> 'round' and slot.replaces is null;
