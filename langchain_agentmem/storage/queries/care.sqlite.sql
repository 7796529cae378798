-- name: wrong_versions
-- Versions in another conversation or with another message id than the first version, which they name in `replaces`.
select v.id from entry v
join entry slot on slot.id = v.replaces
where v.branch_id is not slot.branch_id or v.key <> slot.key or slot.replaces is not null;

-- name: table_sizes
-- The bytes of each table with its indexes.
select coalesce(m.tbl_name, s.name) as name, sum(s.pgsize) as bytes
from dbstat s left join sqlite_master m on m.name = s.name where s.aggregate = true group by 1;
