-- Exports. An import runs the queries `exported_…` on the file. A JSON export runs the queries `plain_…` on the
-- database. `storage/transfer.py` reads whole tables.

-- name: exported_contents
select id, hash, body from content where id {in_numbers ids};

-- name: exported_stores
select * from part_store where id {in_numbers ids} order by id;

-- name: exported_threads
select t.*, n.path from thread t join namespace n on n.id = t.namespace_id;

-- name: exported_parts
select p.number, p.encoding, p.name, c.body from part p join content c on c.id = p.content_id
where p.store_id = :store order by p.number;

-- name: exported_branches
-- All branches, newest first, so that each branch comes after its forks.
select b.id, b.kind, b.name, b.parent_id, b.parent_position, b.head, b.created_at, n.path, s.base_id, p.name as parent
from branch b
join namespace n on n.id = b.namespace_id
left join branch p on p.id = b.parent_id
left join branch_base s on s.branch_id = b.id
order by b.id desc;

-- name: exported_conversations
select b.id, b.name, n.path from branch b join namespace n on n.id = b.namespace_id
where b.kind = 'conversation' order by b.id;

-- name: exported_memory
-- All rows of memory, each version before its copies.
select * from memory order by coalesce(copy_of, id), id;

-- name: exported_audit
select a.sequence, a.mark, a.hidden, n.path from audit a join namespace n on n.id = a.namespace_id order by a.sequence;

-- name: exported_documents
select d.id, d.created_at, d.role, d.speaker, d.owner, s.id as series, s.name, c.kind, n.path
from search_document d
join search_series s on s.id = d.id >> 22
join search_scope c on c.id = s.scope_id
join namespace n on n.id = c.namespace_id
where c.kind <> 'audit'
order by d.id;

-- name: find_author
-- The author with a name (null for the branch "main") whose thread was deleted, or who never had one.
select min(id) as id from author
where namespace_id = :namespace and thread_id is null and (name = :name or name is null and cast(:name as text) is null);

-- name: set_speaker
update search_document set speaker = :speaker where id = :id;

-- name: plain_messages
-- The newest version of each message and round.
select v.kind, v.role, v.sender, v.created_at, {version_body} as body, b.name, n.path
from entry slot
{join_newest_version}
join branch b on b.id = slot.branch_id
join namespace n on n.id = b.namespace_id
where slot.replaces is null and n.path >= :low and n.path < :high
order by n.path, b.name, slot.position, slot.id;

-- name: plain_memory
-- The entries visible at the newest checkpoints of threads, and the current entries of named branches.
select m.kind, m.key, m.label, m.source, m.created_at, c.body, n.path
from memory m
join branch b on b.id = m.branch_id
join namespace n on n.id = b.namespace_id
join content c on c.id = m.content_id
where m.kind in ('core', 'event', 'record', 'fact') and n.path >= :low and n.path < :high
    and (m.visible_until = 4611686018427387904 or (b.kind = 'layers' and m.until = 4611686018427387904))
order by n.path, m.kind, m.id;

-- name: plain_items
select i.key, i.value, i.created_at, n.path from item i join namespace n on n.id = i.namespace_id
where n.path >= :low and n.path < :high
order by n.path, i.key;
