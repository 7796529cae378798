-- name: find_items
select i.id, i.key, i.created_at, i.updated_at, i.ttl, i.expires_at, i.value
from namespace n
join item i on i.namespace_id = n.id
where n.path = :path and i.key {in_texts keys}
    and (i.expires_at is null or i.expires_at > :now);

-- name: items_by_id
select i.id, n.path, i.key, i.checksum, i.created_at, i.updated_at, i.ttl, i.expires_at, i.document_id, i.indexed, i.value,
    i.source, i.actor
from item i
join namespace n on n.id = i.namespace_id
where i.id {in_numbers ids}
    and (i.expires_at is null or i.expires_at > :now);

-- name: items_to_write
-- Locked in the order of their keys, so that two writers never wait for each other in a circle.
select i.id, i.key, i.created_at, i.expires_at, i.document_id, i.indexed,
    case when i.document_id is not null and i.indexed is null then i.value end as value
from namespace n
join item i on i.namespace_id = n.id
where n.path = :path and i.key {in_texts keys}
order by i.key
for update of i;

-- name: item_ids
select i.id, i.key
from namespace n
join item i on i.namespace_id = n.id
where n.path = :path and i.key {in_texts keys};

-- name: expired_items
-- What another transaction is writing is left for the next sweep.
select i.id, n.path, i.document_id, i.indexed,
    case when i.document_id is not null and i.indexed is null then i.value end as value
from item i
join namespace n on n.id = i.namespace_id
where i.expires_at <= :now
order by i.expires_at, i.id
limit cast(:limit as bigint)
for update of i skip locked;

-- name: item_texts
select id, indexed, case when indexed is null then value end as value
from item
where id {in_numbers ids};

-- name: newest_items
-- A page of one namespace, the newest first, after the place of the page before. The page is cut in the index, before
-- any value is read, unless only values are wanted that hold some bytes.
with page as materialized (
    select id, updated_at, key
    from item
    where namespace_id = :namespace and updated_at <= :updated_at and (updated_at < :updated_at or key > :key)
        and (expires_at is null or expires_at > :now)
        and (cast(:needle as bytea) is null or position(cast(:needle as bytea) in value) > 0)
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
-- The same of a range of namespaces.
with page as materialized (
    select i.id, i.updated_at, i.key, n.path
    from namespace n
    join item i on i.namespace_id = n.id
    where n.path >= :low and n.path < :high
        and i.updated_at <= :updated_at
        and (i.updated_at < :updated_at or i.key > :key or (i.key = :key and n.path > :path))
        and (i.expires_at is null or i.expires_at > :now)
        and (cast(:needle as bytea) is null or position(cast(:needle as bytea) in i.value) > 0)
    order by i.updated_at desc, i.key, n.path
    limit cast(:limit as bigint) offset cast(:offset as bigint)
)
select i.id, page.path, i.key, i.created_at, i.updated_at, i.ttl, i.expires_at, i.value
from page
join item i on i.id = page.id
order by page.updated_at desc, page.key, page.path;

-- fragment: new_item
-- For Citus, what is looked up is not among the values, and stands apart.
with given as materialized (select (select id from namespace where path = :path) as namespace_id)
insert into item (namespace_id, key, checksum, created_at, updated_at, ttl, expires_at, document_id, indexed, value, source, actor)
select given.namespace_id, :key, :checksum, :created_at, :updated_at, :ttl, :expires_at, :document, :indexed, :value, :source, :actor
from given

-- name: insert_item
{new_item}
on conflict (id) do nothing;
