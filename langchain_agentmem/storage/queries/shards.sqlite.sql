-- A file holds all of a memory: there are no shards here.

-- name: shards
select null as number, null as name, null as tenant_depth, null as there where false;

-- name: pinned
select null as number, null as name where :tenant is null and false;

-- name: hold_tenant
select null as held where :lock is null and false;

-- name: moved_tenant
select null as tenant where :tenant is null and false;
