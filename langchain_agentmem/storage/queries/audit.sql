-- The audit trail. Lists come as JSON; a range of a shelf is [first, last].

-- fragment: audit_entry
a.sequence, n.path, a.key, a.kind, a.hidden, a.conversation, a.thread, a.created_at, a.junk, a.status, a.mark, a.archived,
    a.shelf_id, a.messages, a.body, d.document_id

-- name: audit_lock
-- The end of the chain, for an operation that writes. SQLite's transaction holds the lock already.
select sequence, link, indexed from audit_head where id = 1;

-- name: audit_find_namespace
-- A namespace, if it has entries. Asked for once the lock is held: a statement that waits for one sees the rest of the
-- database as it was before it waited.
select a.namespace_id from namespace n
join audit_namespace a on a.namespace_id = n.id
where n.path = :path;

-- name: audit_open_namespace
insert into audit_namespace (namespace_id) select id from namespace where path = :path
returning namespace_id;

-- name: audit_close_namespace
-- One without entries, all of which are settled.
delete from audit_namespace
where namespace_id = (select id from namespace where path = :path)
    and not exists (select 1 from audit a where a.namespace_id = audit_namespace.namespace_id and a.settled = 1);

-- name: audit_head
select sequence, link, indexed from audit_head where id = 1;

-- name: audit_add
insert into audit (
    sequence, link, digest, salt, namespace_id, key, kind, hidden, conversation, thread, created_at, junk, status, mark,
    archived, settled, shelf_id, messages, body
)
values (
    :sequence, :link, :digest, :salt, :namespace, :key, :kind, :hidden, :conversation, :thread, :created_at, :junk,
    :status, :mark, :archived, :settled, :shelf, :messages, :body
);

-- name: audit_move_head
update audit_head set sequence = :sequence, link = :link where id = 1;

-- name: audit_settle
update audit set settled = 1 where sequence > :after and sequence <= :upto and settled = 0;

-- name: audit_note_indexed
update audit_head set indexed = :sequence where id = 1;

-- name: audit_between
-- Entries from one place of the chain on, erased ones left out.
select {audit_entry}
from audit a
join namespace n on n.id = a.namespace_id
left join audit_document d on d.sequence = a.sequence
where a.sequence > :after and a.sequence <= :upto
order by a.sequence
limit cast(:limit as bigint);

-- name: audit_unsettled
-- What waits, in the order of the chain.
select a.sequence, a.key, a.kind, a.hidden, a.conversation, a.status, a.mark from audit a
where a.sequence > (select indexed from audit_head where id = 1)
    and a.namespace_id = (select id from namespace where path = :path)
order by a.sequence;

-- name: audit_newest
select sequence from audit
where settled = 1 and namespace_id = (select id from namespace where path = :path) and kind = :kind and hidden = cast(:hidden as bigint)
    and sequence < :before
order by sequence desc
limit cast(:limit as bigint);

-- name: audit_newest_in
-- The same of one conversation.
select sequence from audit
where settled = 1 and namespace_id = (select id from namespace where path = :path) and conversation = :conversation and kind = :kind
    and hidden = cast(:hidden as bigint) and sequence < :before
order by sequence desc
limit cast(:limit as bigint);

-- name: audit_following
select sequence from audit
where settled = 1 and namespace_id = (select id from namespace where path = :path) and kind = :kind and hidden = cast(:hidden as bigint)
    and sequence > :after
order by sequence
limit cast(:limit as bigint);

-- name: audit_following_in
select sequence from audit
where settled = 1 and namespace_id = (select id from namespace where path = :path) and conversation = :conversation and kind = :kind
    and hidden = cast(:hidden as bigint) and sequence > :after
order by sequence
limit cast(:limit as bigint);

-- name: audit_marked
-- What bears one mark.
select a.sequence, a.hidden, a.status from audit a
where a.settled = 1 and a.namespace_id = (select id from namespace where path = :path) and a.kind = :kind
    and a.mark = :mark
order by a.sequence;

-- name: audit_of_status
-- Todos of one status, the oldest first.
select a.sequence from audit a
where a.settled = 1 and a.namespace_id = (select id from namespace where path = :path) and a.status = :status
    and a.hidden = 0
order by a.sequence;

-- name: audit_set_junk
update audit set hidden = :hidden, junk = :junk where sequence = :sequence;

-- name: audit_set_status
update audit set status = :status where sequence = :sequence;

-- name: audit_set_body
update audit set body = :body, archived = 1 where sequence = :sequence;

-- name: audit_set_document
insert into audit_document (sequence, document_id) values (:sequence, :document);

-- name: audit_no_document
delete from audit_document where sequence = :sequence;

-- name: audit_to_archive
-- Entries of the namespaces in a range of paths that are older than a time, and not archived.
select a.sequence, a.body
from audit a
join namespace n on n.id = +a.namespace_id
where a.sequence > :after and n.path >= :low and n.path < :high and a.created_at < :before and a.archived = 0
order by a.sequence
limit cast(:limit as bigint);

-- name: audit_within
-- Entries of the namespaces in a range of paths, in the order of the chain. The plus keeps an engine from gathering and
-- sorting all of them for each page.
select {audit_entry}
from audit a
join namespace n on n.id = +a.namespace_id
left join audit_document d on d.sequence = a.sequence
where a.sequence > :after and n.path >= :low and n.path < :high
order by a.sequence
limit cast(:limit as bigint);

-- name: audit_in_range
-- Some entries of the namespaces in a range of paths.
select {audit_entry}
from namespace n
join audit a on a.namespace_id = n.id and a.settled = 1
left join audit_document d on d.sequence = a.sequence
where n.path >= :low and n.path < :high
limit cast(:limit as bigint);

-- name: audit_in_conversation
-- Those of one conversation.
select {audit_entry}
from namespace n
join audit a on a.namespace_id = n.id and a.settled = 1 and a.conversation = :name
left join audit_document d on d.sequence = a.sequence
where n.path >= :low and n.path < :high
limit cast(:limit as bigint);

-- name: audit_in_thread
-- Those of one thread.
select {audit_entry}
from namespace n
join audit a on a.namespace_id = n.id and a.settled = 1 and a.thread = :name
left join audit_document d on d.sequence = a.sequence
where n.path >= :low and n.path < :high
limit cast(:limit as bigint);

-- name: audit_erase
-- Leaves what the chain needs, of which nothing can be known.
update audit
set salt = null, namespace_id = null, key = null, kind = null, hidden = null, conversation = null, thread = null,
    created_at = null, junk = null, status = null, mark = null, archived = null, settled = null, shelf_id = null,
    messages = null, body = null
where sequence = :sequence;

-- name: audit_find_shelf
select s.id, s.next from audit_shelf s
join namespace n on n.id = s.namespace_id
where n.path = :path and s.name = :name;

-- name: audit_create_shelf
insert into audit_shelf (namespace_id, name) values (:namespace, :name)
returning id, next;

-- name: audit_put_message
-- Content may have been collected by others since this transaction found it there. Its id is then 0, which breaks the
-- foreign key, and the operation begins again.
insert into audit_message (shelf_id, number, key, content_id)
select :shelf, :number, :key, coalesce((select id from content where hash = :hash), 0);

-- name: audit_use_numbers
update audit_shelf set next = :next where id = :shelf;

-- name: audit_ranges
-- What the entries that are left need of a shelf.
select sequence, messages from audit where shelf_id = :shelf and settled = 1 and sequence > :after
order by sequence
limit cast(:limit as bigint);

-- name: audit_message_hashes
select c.hash from audit_message m
join content c on c.id = m.content_id
where m.shelf_id = :shelf and m.number >= :low and m.number < :high;

-- name: audit_drop_messages
delete from audit_message where shelf_id = :shelf and number >= :low and number < :high;

-- name: audit_drop_shelf
-- One that no entry names.
delete from audit_shelf
where id = :shelf and not exists (select 1 from audit where shelf_id = :shelf and settled = 1);

-- name: audit_sizes
-- Entries since a time.
select count(*) as entries, coalesce(sum(a.archived), 0) as archived, coalesce(sum(length(a.body)), 0) as bytes,
    coalesce(sum(case when a.hidden = 1 then 1 else 0 end), 0) as junk,
    coalesce(sum(case when a.kind = 'call' then 1 else 0 end), 0) as calls,
    coalesce(sum(case when a.status = 'open' and a.hidden = 0 then 1 else 0 end), 0) as todos,
    min(a.created_at) as first_at
from audit a
join namespace n on n.id = a.namespace_id
where n.path >= :low and n.path < :high and a.created_at >= :since;

-- name: audit_message_sizes
select count(*) as messages, coalesce(sum(length(c.body)), 0) as bytes
from (
    select distinct m.content_id from audit_message m
    join audit_shelf s on s.id = m.shelf_id
    join namespace n on n.id = s.namespace_id
    where n.path >= :low and n.path < :high
) m
join content c on c.id = m.content_id;

-- name: audit_chain
-- Places of the chain, with all that the digests stand for.
select a.messages, a.shelf_id, a.sequence, a.link, a.digest, a.salt, n.path, a.key, a.kind, a.hidden, a.conversation,
    a.thread, a.created_at, a.junk, a.status, a.mark, a.archived, a.settled, a.namespace_id, a.body
from audit a
left join namespace n on n.id = a.namespace_id
where a.sequence > :after
order by a.sequence
limit cast(:limit as bigint);

-- name: audit_shelves
select s.id, s.name, s.next, coalesce(max(m.number), 0) as last, count(m.number) as messages
from audit_shelf s
left join audit_message m on m.shelf_id = s.id
group by s.id, s.name, s.next
order by s.id;

-- name: audit_shelf_bodies
-- A page of a shelf, to see that each message still has the digest it is kept under.
select m.number, c.hash, c.body from audit_message m
join content c on c.id = m.content_id
where m.shelf_id = :shelf and m.number > :after
order by m.number
limit cast(:limit as bigint);

-- name: audit_wrong_documents
-- Entries that a search does not find and should, or finds and should not.
select a.sequence, a.hidden from audit a
left join audit_document d on d.sequence = a.sequence
where (a.hidden = 0 and d.sequence is null and a.sequence <= (select indexed from audit_head where id = 1))
    or (coalesce(a.hidden, 3) <> 0 and d.sequence is not null)
order by a.sequence
limit 10;
