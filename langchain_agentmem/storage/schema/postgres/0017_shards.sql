-- A memory whose tenants are spread over several schemas, each with all tables.

-- The map, in the schema that the memory is known by, which holds nothing else: the schemas. Those with a `tenant_depth`,
-- which is the same in all, have the tenants whose names' hash is their number; others have those that are pinned there.
create table shard (
    number bigint primary key,
    name text not null unique,
    tenant_depth bigint
);

-- Also of the map: the tenants that are elsewhere than their hash says.
create table pin (
    tenant text collate "C" primary key,
    number bigint not null references shard (number)
);

-- In each schema: the tenants that were here and are elsewhere now. Whoever finds one here looks at the map again.
create table moved_tenant (
    tenant text collate "C" primary key
);

-- As for messages: the planner keeps no samples of what is stored.
alter table pin alter column tenant set statistics 0;
alter table moved_tenant alter column tenant set statistics 0;
