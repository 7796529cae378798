-- Items: values by namespace and key. Only queries for upkeep return expired items. Lists of keys and ids are passed as
-- JSON.

-- name: find_item
select i.id, i.key, i.created_at, i.updated_at, i.ttl, i.expires_at, i.value
from namespace n
join item i on i.namespace_id = n.id
where n.path = :path and i.key = :key and (i.expires_at is null or i.expires_at > :now);

-- name: find_items
select i.id, i.key, i.created_at, i.updated_at, i.ttl, i.expires_at, i.value
from namespace n
join item i on i.namespace_id = n.id
where n.path = :path and i.key {in_texts keys}
    and (i.expires_at is null or i.expires_at > :now);

-- name: items_by_id
select i.id, n.path, i.key, i.checksum, i.created_at, i.updated_at, i.ttl, i.expires_at, i.document_id, i.indexed, i.value,
    i.source, i.actor, null as name, null as thread
from item i
join namespace n on n.id = i.namespace_id
where i.id {in_numbers ids} and (i.expires_at is null or i.expires_at > :now);

-- name: items_to_write
-- The existing rows of the keys to write, expired or not. The value is included only if the whole value is indexed,
-- since its old terms must be removed. The rows are locked in the order of the keys, so that two writers cannot
-- deadlock.
select i.id, i.key, i.created_at, i.expires_at, i.document_id, i.indexed,
    case when i.document_id is not null and i.indexed is null then i.value end as value
from namespace n
join item i on i.namespace_id = n.id
where n.path = :path and i.key {in_texts keys}
order by i.key
{for_update_of i};

-- name: item_ids
select i.id, i.key
from namespace n
join item i on i.namespace_id = n.id
where n.path = :path and i.key {in_texts keys};

-- fragment: new_item
-- The namespace is looked up in a subquery before the insert, since Citus supports no subquery among the values.
with given as materialized (select (select id from namespace where path = :path) as namespace_id)
insert into item (namespace_id, key, checksum, created_at, updated_at, ttl, expires_at, document_id, indexed, value, source, actor)
select given.namespace_id, :key, :checksum, :created_at, :updated_at, :ttl, :expires_at, :document, :indexed, :value, :source, :actor
from given
where true

-- name: insert_item
{new_item} on conflict (id) do nothing;

-- name: insert_item_returning
-- Insert a single item, and return its id.
{new_item} returning id, key;

-- name: update_item
update item
set checksum = :checksum, created_at = :created_at, updated_at = :updated_at, ttl = :ttl, expires_at = :expires_at,
    document_id = :document, indexed = :indexed, value = :value, source = :source, actor = :actor
where id = :id;

-- name: touch_item
-- Postpone the expiry of an item, unless it was written or deleted meanwhile, or already expires later.
update item
set expires_at = :expires_at
where id = :id and updated_at = :updated_at and expires_at > :now and expires_at < :expires_at;

-- name: delete_item
delete from item where id = :id;

-- name: has_items
select 1 as found from namespace n join item i on i.namespace_id = n.id where n.path = :path limit 1;

-- name: namespaces_of_items
-- A page of the namespaces in a range of paths that hold items.
select n.id, n.path
from namespace n
where n.path >= :low and n.path > :after and n.path < :high
    and exists (select 1 from item i where i.namespace_id = n.id and (i.expires_at is null or i.expires_at > :now))
order by n.path
limit cast(:limit as bigint);

-- name: newest_items
-- A page of one namespace, newest first. It begins after the item with `updated_at` and `key`. The page is selected in
-- the index before any value is read, unless the values must contain `needle`.
with page as materialized (
    select id, updated_at, key
    from item
    where namespace_id = :namespace and updated_at <= :updated_at and (updated_at < :updated_at or key > :key)
        and (expires_at is null or expires_at > :now)
        and (cast(:needle as {blob}) is null or instr(value, cast(:needle as {blob})) > 0)
    order by updated_at desc, key
    limit cast(:limit as bigint) offset cast(:offset as bigint)
)
select i.id, n.path, i.key, i.created_at, i.updated_at, i.ttl, i.expires_at, i.value
from page
cross join item i
cross join namespace n
where i.id = page.id and n.id = i.namespace_id
order by page.updated_at desc, page.key;

-- name: newest_items_within
-- The same as `newest_items`, for a range of namespaces.
with page as materialized (
    select i.id, i.updated_at, i.key, n.path
    from namespace n
    join item i on i.namespace_id = n.id
    where n.path >= :low and n.path < :high
        and i.updated_at <= :updated_at
        and (i.updated_at < :updated_at or i.key > :key or (i.key = :key and n.path > :path))
        and (i.expires_at is null or i.expires_at > :now)
        and (cast(:needle as {blob}) is null or instr(i.value, cast(:needle as {blob})) > 0)
    order by i.updated_at desc, i.key, n.path
    limit cast(:limit as bigint) offset cast(:offset as bigint)
)
select i.id, page.path, i.key, i.created_at, i.updated_at, i.ttl, i.expires_at, i.value
from page
join item i on i.id = page.id
order by page.updated_at desc, page.key, page.path;

-- name: item_texts
-- The indexed texts of items; the value only if the whole value is indexed.
select id, indexed, case when indexed is null then value end as value from item where id {in_numbers ids};

-- name: expired_items
-- Expired items, except those that another transaction has locked.
select i.id, n.path, i.document_id, i.indexed,
    case when i.document_id is not null and i.indexed is null then i.value end as value
from item i
join namespace n on n.id = i.namespace_id
where i.expires_at <= :now
order by i.expires_at, i.id
limit cast(:limit as bigint)
{for_update_of_free i};

-- name: lost_items
-- Items whose documents are missing in the search index.
select n.path, i.key
from item i
join namespace n on n.id = i.namespace_id
where i.document_id is not null
    and not exists (select 1 from search_document d where d.id = i.document_id and d.owner = i.id)
limit 10;

-- name: items_within
-- A page of all items in a range of namespaces, by namespace and key, expired or not.
select i.id, n.path, i.key, i.checksum, i.created_at, i.updated_at, i.ttl, i.expires_at, i.document_id, i.indexed, i.value,
    i.source, i.actor
from namespace n
join item i on i.namespace_id = n.id
where n.path < :high and n.path >= :path and (n.path > :path or i.key > :key)
order by n.path, i.key
limit cast(:limit as bigint);

-- name: items_outside
-- Namespaces outside a range that have items and whose path contains a label.
select n.path
from namespace n
where (n.path < :low or n.path >= :high)
    and replace(cast(:separator as text) || n.path, cast(:label as text), '') <> cast(:separator as text) || n.path
    and exists (select 1 from item i where i.namespace_id = n.id)
order by n.path
limit cast(:limit as bigint);
