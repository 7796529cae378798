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
