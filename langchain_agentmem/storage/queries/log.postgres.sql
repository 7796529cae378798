-- name: advance_head
-- The same as for SQLite, but with a join, which PostgreSQL checks again after it has waited for a lock. So a branch
-- that was moved to another namespace meanwhile is not updated.
update branch b set head = b.head + 1, messages = b.messages + :added
from namespace n
where n.id = b.namespace_id and n.path = :path and b.kind = :kind and b.name = :name
returning b.id, b.head;

-- fragment: new_entry
-- Another transaction may have deleted the content since this one found it. The id is then 0, which violates the
-- foreign key, so the operation is retried. A null would silently lose attachments. The contents are looked up before
-- the insert: only then does the coordinator of Citus assign the ids of the rows.
with given as materialized (
    select (select id from content where hash = cast(:content_hash as bytea)) as content_id,
        (select id from content where hash = cast(:attachments_hash as bytea)) as attachments_id
)
insert into entry (
    branch_id, position, replaces, kind, key, role, sender, recipient, round_key,
    content_id, attachments_id, document_id, created_at, written_at, follows, checksum, body
)
select :branch, :position, :replaces, :kind, :key, :role, :sender, :recipient, :round_key,
    case when cast(:content_hash as bytea) is not null then coalesce(given.content_id, 0) end,
    case when cast(:attachments_hash as bytea) is not null then coalesce(given.attachments_id, 0) end,
    :document, :created_at, :written_at, :follows, :checksum, :body
from given

-- name: insert_entries
-- Ids never conflict. But only with an `on conflict` or `returning` clause does Citus report which constraint was
-- violated.
{new_entry} on conflict (id) do nothing;

-- name: lock_contents
-- Two transactions may each remove one of the last two references to a content. If each still saw the other reference,
-- neither would delete the content. So the second transaction waits here for the first. Adding a reference does not
-- wait.
select id from content
where hash in (select decode(value, 'hex') from json_array_elements_text(cast(:hashes as json)))
order by hash
for no key update;
