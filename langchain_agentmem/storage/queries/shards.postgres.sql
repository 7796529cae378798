-- name: shards
select number, name, tenant_depth, to_regclass(name || '.agentmem_migration') is not null as there
from shard order by number;

-- name: pinned
-- Where a tenant is that is elsewhere than its hash says.
select s.number, s.name from pin p join shard s on s.number = p.number where p.tenant = :tenant;

-- name: hold_tenant
-- Until the transaction ends, the tenant stays where it is.
select pg_advisory_xact_lock_shared(:lock);

-- name: moved_tenant
select tenant from moved_tenant where tenant = :tenant;
