-- name: audit_rows
select {audit_entry}
from json_each(:sequences) s
cross join audit a on a.sequence = s.value
join namespace n on n.id = a.namespace_id
order by a.sequence;

-- name: audit_named
select {audit_entry}
from json_each(:keys) k
cross join namespace n on n.path = :path
cross join audit a on a.namespace_id = n.id and a.key = k.value and a.settled = 1
order by a.sequence;

-- name: audit_known_keys
select a.key
from json_each(:keys) k
cross join namespace n on n.path = :path
cross join audit a on a.namespace_id = n.id and a.key = k.value and a.settled = 1;
