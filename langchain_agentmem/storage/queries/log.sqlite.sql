-- name: known_keys
-- As known_key, for many keys at once.
select v.kind, v.key, v.recipient, v.round_key, c.hash as content_hash, a.hash as attachments_hash
from entry slot
join entry v on v.id = coalesce((select max(n.id) from entry n where n.replaces = slot.id), slot.id)
join content c on c.id = v.content_id
left join content a on a.id = v.attachments_id
where slot.branch_id = :branch and slot.key {in_texts keys} and slot.replaces is null;

-- name: lock_contents
-- Nothing to do: SQLite's transaction holds the lock already.
select null as id where :hashes is null;
