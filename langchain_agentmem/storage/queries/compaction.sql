-- The stored results of compactions. A slot is the row of the first version of a message or round.

-- name: compactions
-- The newest compactions of a context (the state of a graph, or the log of a conversation), without their bodies.
select id, digest, message_count, slot
from compaction
where branch_id = :branch and context = :context and id < :before
order by id desc
limit cast(:limit as bigint);

-- name: compaction
select c.id, c.context, c.digest, c.message_count, c.slot, c.created_at, c.checksum, c.body
from compaction c
where c.id = :id and c.branch_id = :branch;

-- name: newest_compactions
-- The newest compactions of all contexts of a branch.
select id, context, digest, message_count, slot, created_at, checksum, body from compaction
where branch_id = :branch
order by id desc
limit cast(:limit as bigint);

-- name: insert_compaction
insert into compaction (branch_id, context, digest, message_count, slot, created_at, checksum, body)
values (:branch, :context, :digest, :message_count, :slot, :now, :checksum, :body)
returning id;

-- name: delete_compactions
-- Delete the compactions of a branch that include a changed or removed entry. A compaction without a slot may include
-- any entry.
delete from compaction where branch_id = :branch and (slot is null or slot >= :slot);

-- name: prune_compactions
-- Delete all compactions of a context except the newest ones.
delete from compaction
where branch_id = :branch and context = :context and id not in (
    select id from compaction where branch_id = :branch and context = :context order by id desc limit cast(:limit as bigint)
);

-- name: compactions_after
-- A page of compactions, to verify their checksums.
select id, checksum, body from compaction where id > :after order by id limit cast(:limit as bigint);

-- name: slot_of_key
select id as slot from entry where branch_id = :branch and key = :key and replaces is null;

-- name: messages_between
-- The messages between two slots of a conversation, both included.
select {entry_columns}
from entry slot
{join_current_version}
where slot.branch_id = :branch and slot.replaces is null and slot.kind <> 'round'
    and slot.id >= :first and slot.id <= :last
order by slot.position, slot.id;

-- name: conversation_state
-- The head of a conversation, its number of messages, its newest compaction, and the row of its newest entry.
select b.id, b.created_at, b.head, b.messages,
    (select max(c.id) from compaction c where c.branch_id = b.id and c.context = 'log') as compaction,
    (select e.id from entry e where e.branch_id = b.id order by e.position desc, e.id desc limit 1) as last
from branch b
join namespace n on n.id = b.namespace_id
where n.path = :path and b.kind = :kind and b.name = :name;

-- name: entries_since
-- The messages, rounds and edits written to a conversation after one of its rows, in order.
select v.id as slot, v.position, v.replaces, v.kind, v.key, {version_body} as body, a.body as attachments
from entry v
{join_contents}
where v.branch_id = :branch and v.id > :slot
order by v.position, v.id;

-- name: compactions_with_word
-- The compactions of a conversation whose bodies contain a word, oldest first.
select id from compaction where branch_id = :branch and instr(body, cast(:word as {blob})) > 0 order by id;

-- name: messages_of_keys
-- The current versions of some messages of a conversation.
select v.kind, v.key, v.created_at, {version_body} as body
from entry slot
join entry v on v.id = ({current_version})
left join content c on c.id = v.content_id
where slot.branch_id = :branch and slot.replaces is null and slot.kind <> 'round'
    and slot.key {in_texts keys};
