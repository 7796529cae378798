-- name: index_terms
insert into entry_index (entry_id, terms)
values (:id, array_to_tsvector(array(select distinct t from unnest(string_to_array(cast(:terms as text), ' ')) t where t <> '')));

-- name: unindex_terms
-- The terms are stored with the row, so they need not be said again.
delete from entry_index where entry_id = :id and cast(:terms as text) is not null;

-- name: empty_index
truncate entry_index;

-- name: tail_entries
-- There is no tail here: entries are indexed in the transaction that writes them.
select v.id, v.key, v.kind, v.role, v.created_at, cast(null as text) as conversation, cast(null as text) as path,
    cast(null as bytea) as body
from entry v
where false and :low < :high and :conversation = :roles and cast(:before as bigint) < cast(:after as bigint);

-- name: candidates
-- The matches with the most different terms within the walls.
with wanted as (
    select value as term from json_array_elements_text(cast(:terms as json))
), any_of as (
    select cast(string_agg('''' || replace(replace(term, '\', '\\'), '''', '''''') || '''', ' | ') as tsquery) as terms from wanted
)
select v.id, v.key, v.kind, v.role, v.created_at, b.name as conversation, n.path, c.body
from entry_index f
join any_of q on f.terms @@ q.terms
join entry v on v.id = f.entry_id
join branch b on b.id = v.branch_id
join namespace n on n.id = b.namespace_id
join content c on c.id = v.content_id
where n.path >= :low and n.path < :high
    and (cast(:conversation as text) is null or b.name = cast(:conversation as text))
    and (cast(:before as bigint) is null or v.created_at < cast(:before as bigint))
    and (cast(:after as bigint) is null or v.created_at >= cast(:after as bigint))
    and (cast(:roles as text) is null
        or v.role in (select value from json_array_elements_text(cast(:roles as json))))
order by ts_rank(f.terms, q.terms) desc, v.id desc
limit cast(:limit as bigint);

-- name: count_index
select count(*) as entries from entry_index;
