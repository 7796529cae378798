-- fragment: view
-- The lineage and the open groups of a view, from the JSON lists `lineage` and `groups`; see memory.sql.
lineage (depth, branch_id, up_to) as materialized (
    select depth, cast(each ->> 0 as bigint), cast(each ->> 1 as bigint)
    from json_array_elements(cast(:lineage as json)) with ordinality as given (each, depth)
),
{open_groups}

-- fragment: open_groups
open_groups (group_id, up_to) as materialized (
    select cast(each ->> 0 as bigint), cast(each ->> 1 as bigint) from json_array_elements(cast(:groups as json)) as each
)

-- name: branch_lineage
-- The same as for SQLite, but with a lateral join, which looks up each parent by its key. With a plain join, the
-- planner would scan small tables for each level.
with recursive chain (depth, branch_id, up_to, via_base) as (
    select 0, cast(:branch as bigint), cast(:position as bigint), cast(:with_bases as bigint)
    union all
    select chain.depth + 1, step.branch_id, step.up_to, step.via_base
    from chain cross join lateral (
        select b.parent_id, b.parent_position, cast(0 as bigint) from branch b
        where b.id = chain.branch_id and b.parent_id is not null
        union all
        select s.base_id, s.base_position, cast(1 as bigint) from branch_base s
        where s.branch_id = chain.branch_id and chain.via_base = 1 and s.base_id is not null
    ) as step (branch_id, up_to, via_base)
)
select chain.branch_id, chain.up_to, chain.via_base, case when chain.via_base = 1 then s.groups end as groups, s.branch_id as with_base
from chain
left join branch_base s on s.branch_id = chain.branch_id
order by chain.depth;

-- fragment: seen_of_keys
-- Every version of some keys that a view may show.
{seen_on_lineage_of_keys} union all {seen_of_keys_by_others}
