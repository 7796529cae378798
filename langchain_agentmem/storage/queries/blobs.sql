-- Values of byte stores, by key. Lists of keys are passed as JSON, in hexadecimal.

-- name: put_blob
insert into blob (namespace_id, key, checksum, updated_at, value)
values (:namespace, :key, :checksum, :now, :value)
on conflict (namespace_id, key) do update
set checksum = excluded.checksum, updated_at = excluded.updated_at, value = excluded.value;

-- name: delete_blob
delete from blob where key = :key and namespace_id = (select id from namespace where path = :path);

-- name: blob_counts
-- The namespaces in a range of paths that hold values, with their number.
select n.path, count(*) as blobs
from namespace n
join blob b on b.namespace_id = n.id
where n.path >= :low and n.path < :high
group by n.path
order by n.path;

-- name: delete_blobs
delete from blob where namespace_id = (select id from namespace where path = :path);

-- name: find_blobs
-- The values of some keys.
select b.key, b.checksum, b.updated_at, b.value
from ({bytes keys}) k
cross join {lookup blob b}
    b.namespace_id = (select id from namespace where path = :path)
    and b.key = k.value {end_lookup b};

-- name: blob_keys
-- A page of the keys from `low` (included) to `high` (excluded), in order.
select key from blob
where namespace_id = (select id from namespace where path = :path) and key >= :low and key < :high
order by key
limit cast(:limit as bigint);
