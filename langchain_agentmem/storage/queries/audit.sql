-- The audit trail. Its entries form a chain: each link is a digest of the entry and of all entries before it. `hidden`
-- is 0 for a visible entry. `path` is the path of a namespace, and `low` and `high` are a range of paths. Lists are
-- passed as JSON.

-- fragment: from_audit_within
from audit a
join namespace n on n.id = a.namespace_id
where n.path >= :low and n.path < :high

-- fragment: audit_of_kind
select sequence from audit
where namespace_id = (select id from namespace where path = :path) and kind = :kind and hidden = cast(:hidden as bigint)

-- fragment: audit_columns
a.sequence, n.path, a.key, a.kind, a.hidden, a.conversation, a.thread, a.created_at, a.junk, a.status, a.mark, a.archived,
    a.store_id, a.messages, a.body, a.document_id

-- name: lock_audit_head
-- The newest entry of the chain, and `indexed`: the last indexed entry. Both are locked until the transaction ends.
select sequence, link, indexed from audit_head where id = 1 {for_update};

-- name: audit_head
select sequence, link, indexed from audit_head where id = 1;

-- name: audit_add
insert into audit (
    sequence, link, digest, salt, namespace_id, key, kind, hidden, conversation, thread, created_at, junk, status, mark,
    archived, store_id, messages, body
)
values (
    :sequence, :link, :digest, :salt, :namespace, :key, :kind, :hidden, :conversation, :thread, :created_at, :junk,
    :status, :mark, :archived, :store, :messages, :body
);

-- name: audit_move_head
update audit_head set sequence = :sequence, link = :link where id = 1;

-- name: audit_set_indexed
update audit_head set indexed = :sequence where id = 1;

-- name: audit_entries
select {audit_columns}, a.conversation as name, null as source, null as actor
from audit a
join namespace n on n.id = a.namespace_id
where a.sequence {in_numbers sequences}
order by a.sequence;

-- name: audit_entries_of_keys
-- The entries with these ids, without their texts.
select a.sequence, a.key, a.kind, a.status
from namespace n
join audit a on a.namespace_id = n.id
where n.path = :path and a.key {in_texts keys}
order by a.sequence;

-- name: audit_entries_between
-- The entries in a range of the chain, without erased ones.
select {audit_columns}
from audit a
join namespace n on n.id = a.namespace_id
where a.sequence > :after and a.sequence <= :upto
order by a.sequence
limit cast(:limit as bigint);

-- name: audit_newest
{audit_of_kind} and sequence < :before
order by sequence desc
limit cast(:limit as bigint);

-- name: audit_conversation_newest
-- The newest entries of one conversation.
{audit_of_kind} and conversation = :conversation and sequence < :before
order by sequence desc
limit cast(:limit as bigint);

-- name: audit_next
{audit_of_kind} and sequence > :after
order by sequence
limit cast(:limit as bigint);

-- name: audit_conversation_next
{audit_of_kind} and conversation = :conversation and sequence > :after
order by sequence
limit cast(:limit as bigint);

-- name: audit_entries_of_mark
-- The entries with one mark.
select a.sequence, a.hidden, a.status from audit a
where a.namespace_id = (select id from namespace where path = :path) and a.kind = :kind
    and a.mark = :mark
order by a.sequence;

-- name: audit_todos
-- The visible todos with one status, the oldest first.
select {audit_columns}
from namespace n
join audit a on a.namespace_id = n.id
where n.path = :path and a.status = :status and a.hidden = 0
order by a.sequence;

-- name: audit_set_junk
update audit set hidden = :hidden, junk = :junk where sequence = :sequence;

-- name: audit_set_status
update audit set status = :status where sequence = :sequence;

-- name: audit_set_body
update audit set body = :body, archived = 1 where sequence = :sequence;

-- name: audit_set_document
update audit set document_id = :document where sequence = :sequence;

-- name: audit_to_archive
-- Uncompressed entries older than a time, in a range of paths.
select a.sequence, a.body
from audit a
join namespace n on n.id = +a.namespace_id
where a.sequence > :after and n.path >= :low and n.path < :high and a.created_at < :before and a.archived = 0
order by a.sequence
limit cast(:limit as bigint);

-- name: audit_entries_within
-- A page of the entries in a range of paths, in the order of the chain. The `+` prevents the use of an index on the
-- namespace, for which all entries would be sorted for each page.
select {audit_columns}
from audit a
join namespace n on n.id = +a.namespace_id
where a.sequence > :after and n.path >= :low and n.path < :high
order by a.sequence
limit cast(:limit as bigint);

-- name: audit_page_within
-- A page of entries in a range of paths, in any order.
select {audit_columns}
from namespace n
join audit a on a.namespace_id = n.id
where n.path >= :low and n.path < :high
limit cast(:limit as bigint);

-- name: audit_page_of_conversation
-- A page of entries of one conversation or thread. The condition on the namespace is repeated, so that each side of the
-- `or` can use its own index.
select {audit_columns}
from namespace n
join audit a on (a.namespace_id = n.id and a.conversation = :name) or (a.namespace_id = n.id and a.thread = :name)
where n.path >= :low and n.path < :high
limit cast(:limit as bigint);

-- name: audit_erase
-- Erase an entry. Only the columns that the chain needs remain: its number, its link and its digest.
update audit
set salt = null, namespace_id = null, key = null, kind = null, hidden = null, conversation = null, thread = null,
    created_at = null, junk = null, status = null, mark = null, archived = null, store_id = null,
    messages = null, body = null, document_id = null
where sequence = :sequence;

-- name: audit_find_store
-- The part store with the messages of the newest call with a mark.
select id, sweep_count from part_store
where id = (
    select store_id from audit
    where namespace_id = :namespace and kind = 'call' and mark = :mark
    order by sequence desc limit 1
);

-- name: audit_recipes
-- A page of the recipes of calls: JSON that lists the parts of a part store from which the messages are built.
select a.sequence, a.messages from audit a
where a.namespace_id = (select id from namespace where path = :path) and a.kind = 'call'
    and a.mark = :mark and a.store_id = :store and a.sequence > :after
order by a.sequence
limit cast(:limit as bigint);

-- name: audit_chain
-- The entries of the chain, with all columns that the digests cover.
select a.sequence, a.link, a.digest, a.salt, a.namespace_id, n.path, a.key, a.kind, a.hidden, a.conversation, a.thread,
    a.created_at, a.junk, a.status, a.mark, a.archived, a.document_id, a.store_id, a.messages, a.body
from audit a
left join namespace n on n.id = a.namespace_id
where a.sequence > :after
order by a.sequence
limit cast(:limit as bigint);

-- name: audit_wrong_documents
-- Visible entries up to the last indexed one that are missing from the search index, and other entries that are in it.
select sequence, hidden from audit
where (hidden = 0 and document_id is null and sequence <= (select indexed from audit_head where id = 1))
    or (coalesce(hidden, 3) <> 0 and document_id is not null)
order by sequence
limit 10;
