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
left join audit_document d on d.sequence = a.sequence
where a.sequence {in_numbers sequences}
order by a.sequence;

-- name: audit_named
select {audit_entry}
from namespace n
join audit a on a.namespace_id = n.id
left join audit_document d on d.sequence = a.sequence
where n.path = :path and a.settled = 1
    and a.key {in_texts keys}
order by a.sequence;

-- name: audit_known_keys
select a.key
from namespace n
join audit a on a.namespace_id = n.id
where n.path = :path and a.settled = 1
    and a.key {in_texts keys};

-- name: audit_known_messages
select c.hash, m.key, m.number
from json_array_elements_text(cast(:hashes as json)) h
cross join lateral (select id, hash from content where hash = decode(h.value, 'hex') limit 1) c
cross join lateral (
    select key, number from audit_message where content_id = c.id and shelf_id = :shelf
    offset 0
) m
order by m.number;

-- name: audit_messages_in
select m.number, m.key, c.hash, c.body
from json_array_elements(cast(:ranges as json)) r
cross join lateral (
    select number, key, content_id from audit_message
    where shelf_id = :shelf and number >= cast(r.value ->> 0 as bigint) and number <= cast(r.value ->> 1 as bigint)
    offset 0
) m
join content c on c.id = m.content_id;

-- name: audit_identities_in
select m.number, m.key, c.hash
from json_array_elements(cast(:ranges as json)) r
cross join lateral (
    select number, key, content_id from audit_message
    where shelf_id = :shelf and number >= cast(r.value ->> 0 as bigint) and number <= cast(r.value ->> 1 as bigint)
    offset 0
) m
join content c on c.id = m.content_id;
