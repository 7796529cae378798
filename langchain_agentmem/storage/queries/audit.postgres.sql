-- name: audit_lock
select sequence, link, indexed from audit_head where id = 1
for update;

-- name: audit_add
-- Here a new row enters the indexes at once.
insert into audit (
    sequence, link, digest, salt, namespace_id, key, kind, hidden, conversation, thread, created_at, junk, status, mark,
    archived, settled, shelf_id, messages, body
)
values (
    :sequence, :link, :digest, :salt, :namespace, :key, :kind, :hidden, :conversation, :thread, :created_at, :junk,
    :status, :mark, :archived, greatest(cast(:settled as bigint), 1), :shelf, :messages, :body
);

-- name: audit_rows
select {audit_entry}
from audit a
join namespace n on n.id = a.namespace_id
where a.sequence {in_numbers sequences}
order by a.sequence;

-- name: audit_named
select {audit_entry}
from namespace n
join audit a on a.namespace_id = n.id
where n.path = :path and a.settled = 1
    and a.key {in_texts keys}
order by a.sequence;

-- name: audit_known_keys
select a.key
from namespace n
join audit a on a.namespace_id = n.id
where n.path = :path and a.settled = 1
    and a.key {in_texts keys};
