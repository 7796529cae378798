-- Values by key. Lists of keys come as JSON: pairs of head and mark, in hexadecimal.

-- name: put_blob
insert into blob (namespace_id, head, mark, rest, checksum, updated_at, value)
values (:namespace, :head, :mark, :rest, :checksum, :now, :value)
on conflict (namespace_id, head, mark) do update
set checksum = excluded.checksum, updated_at = excluded.updated_at, value = excluded.value;

-- name: delete_blob
delete from blob where head = :head and mark = :mark and namespace_id = (select id from namespace where path = :path);

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
-- Each key that is asked for is looked up, and no other is read.
select b.head, b.rest, b.mark, b.checksum, b.updated_at, b.value
from ({pairs keys}) k
cross join {lookup blob b}
    b.namespace_id = (select id from namespace where path = :path)
    and b.head = from_hex(k.first) and b.mark = from_hex(k.second) {end_lookup b};
