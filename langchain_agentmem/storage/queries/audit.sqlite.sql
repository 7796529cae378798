-- name: audit_rows
select {audit_entry}
from json_each(:sequences) s
cross join audit a on a.sequence = s.value
join namespace n on n.id = a.namespace_id
left join audit_document d on d.sequence = a.sequence
order by a.sequence;

-- name: audit_named
select {audit_entry}
from json_each(:keys) k
cross join namespace n on n.path = :path
cross join audit a on a.namespace_id = n.id and a.key = k.value and a.settled = 1
left join audit_document d on d.sequence = a.sequence
order by a.sequence;

-- name: audit_known_keys
select a.key
from json_each(:keys) k
cross join namespace n on n.path = :path
cross join audit a on a.namespace_id = n.id and a.key = k.value and a.settled = 1;

-- name: audit_known_messages
-- Where on a shelf some contents lie, known by their digests in hexadecimal.
select c.hash, m.key, m.number
from json_each(:hashes) h
cross join content c on c.hash = from_hex(h.value)
cross join audit_message m on m.content_id = c.id and m.shelf_id = :shelf
order by m.number;

-- name: audit_messages_in
select m.number, m.key, c.hash, c.body
from json_each(:ranges) r
cross join audit_message m on m.shelf_id = :shelf
    and m.number >= json_extract(r.value, '$[0]') and m.number <= json_extract(r.value, '$[1]')
join content c on c.id = m.content_id;

-- name: audit_identities_in
-- The same without bodies.
select m.number, m.key, c.hash
from json_each(:ranges) r
cross join audit_message m on m.shelf_id = :shelf
    and m.number >= json_extract(r.value, '$[0]') and m.number <= json_extract(r.value, '$[1]')
join content c on c.id = m.content_id;
