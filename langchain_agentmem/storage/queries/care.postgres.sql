-- name: wrong_versions
-- Versions in another conversation or with another message id than the first version, which they name in `replaces`.
select v.id from entry v
join entry slot on slot.id = v.replaces
where v.branch_id is distinct from slot.branch_id or v.key <> slot.key or slot.replaces is not null;

-- name: table_sizes
-- The bytes of each table with its indexes, and whether this role owns the table. The size is 0 for a table that
-- another transaction has dropped meanwhile.
select c.relname as name, coalesce(pg_total_relation_size(c.oid), 0)::bigint as bytes, pg_has_role(c.relowner, 'usage') as owned
from pg_class c where c.relnamespace = to_regnamespace(current_schema()) and c.relkind = 'r' order by 1;
