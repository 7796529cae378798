-- name: advance_head
-- As for SQLite. What was moved into another namespace while this waited is not there any more: a join is looked at again.
update branch b set head = b.head + 1, messages = b.messages + :added
from namespace n
where n.id = b.namespace_id and n.path = :path and b.kind = :kind and b.name = :name
returning b.id, b.head;

-- fragment: new_entry
-- Content may have been collected by others since this transaction found it there. Its id is then 0, which breaks the
-- foreign key, and the operation begins again; a null would silently lose attachments. For Citus, what is
-- looked up is not among the values, and stands apart: then it is the coordinator that numbers the rows.
with given as materialized (
    select (select id from content where hash = :content_hash) as content_id,
        (select id from content where hash = cast(:attachments_hash as bytea)) as attachments_id
)
insert into entry (
    branch_id, position, replaces, kind, key, role, sender, recipient, round_key,
    content_id, attachments_id, document_id, created_at, written_at, follows
)
select :branch, :position, :replaces, :kind, :key, :role, :sender, :recipient, :round_key,
    coalesce(given.content_id, 0),
    case when cast(:attachments_hash as bytea) is not null then coalesce(given.attachments_id, 0) end,
    :document, :created_at, :written_at, :follows
from given

-- name: insert_entries
-- No id is ever taken already. Said, it has Citus tell which constraint was broken, as a statement that returns rows does.
{new_entry} on conflict (id) do nothing;

-- name: lock_contents
-- Two transactions that each drop one of the last two references must not both see the other's. The second waits here
-- for the first, and checks again. Adding a reference does not wait.
select id from content
where hash in (select decode(value, 'hex') from json_array_elements_text(cast(:hashes as json)))
order by hash
for no key update;
