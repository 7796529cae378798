-- What left a context, brought back.

-- name: compactions_naming
-- Those of a conversation whose bodies hold a word, the oldest first.
select id from compaction
where branch_id = :branch and position(cast(:word as bytea) in body) > 0
order by id;

-- name: messages_of_keys
-- Some messages of a conversation, as they are now.
select v.kind, v.key, v.created_at, c.body
from entry slot
join entry v on v.id = ({version})
join content c on c.id = v.content_id
where slot.branch_id = :branch and slot.replaces is null and slot.kind <> 'round'
    and slot.key {in_texts keys};
