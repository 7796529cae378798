-- Leases: the right of a process to run a background task until a time.

-- name: take_lease
-- Take a lease that does not exist or has expired. Returns no row if another owner holds the lease.
insert into lease (path, kind, key, owner, expires_at) values (:path, :kind, :key, :owner, :until)
on conflict (path, kind, key) do update set owner = excluded.owner, expires_at = excluded.expires_at
where lease.expires_at <= :now
returning owner;

-- name: find_lease
select expires_at from lease where path = :path and kind = :kind and key = :key;

-- name: renew_lease
update lease set expires_at = :until where path = :path and kind = :kind and key = :key and owner = :owner
returning owner;

-- name: release_lease
delete from lease where path = :path and kind = :kind and key = :key and owner = :owner returning owner;

-- name: erase_leases
delete from lease where path >= :low and path < :high returning path;
