-- name: index_terms
insert into entry_index (rowid, terms) values (:id, :terms);

-- name: unindex_terms
insert into entry_index (entry_index, rowid, terms)
select 'delete', cast(:id as integer), cast(:terms as text)
where cast(:id as integer) <= (select up_to from index_state where id = 1);

-- name: empty_index
insert into entry_index (entry_index) values ('delete-all');

-- name: candidates
-- The best matches by BM25 within the walls.
select v.id, v.key, v.kind, v.role, v.created_at, b.name as conversation, n.path, c.body
from entry_index f
join entry v on v.id = f.rowid
join branch b on b.id = v.branch_id
join namespace n on n.id = b.namespace_id
join content c on c.id = v.content_id
where f.entry_index match (select group_concat('"' || value || '"', ' OR ') from json_each(:terms))
    and n.path >= :low and n.path < :high
    and (cast(:conversation as text) is null or b.name = cast(:conversation as text))
    and (cast(:before as bigint) is null or v.created_at < cast(:before as bigint))
    and (cast(:after as bigint) is null or v.created_at >= cast(:after as bigint))
    and (cast(:roles as text) is null or v.role in (select value from json_each(cast(:roles as text))))
order by f.rank
limit cast(:limit as bigint);

-- name: count_index
select count(*) as entries from entry_index_docsize;
