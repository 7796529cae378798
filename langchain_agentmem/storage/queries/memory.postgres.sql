-- fragment: view
line (depth, branch_id, up_to) as materialized (
    select depth, cast(each ->> 0 as bigint), cast(each ->> 1 as bigint)
    from json_array_elements(cast(:line as json)) with ordinality as given (each, depth)
),
live (group_id, up_to) as materialized (
    select cast(each ->> 0 as bigint), cast(each ->> 1 as bigint) from json_array_elements(cast(:groups as json)) as each
)

-- fragment: seen_here
-- As for SQLite. `offset 0` has each branch and group looked up by an index; joined, the planner would rather read what
-- everybody remembers.
select m.* from line cross join lateral (
    select * from memory x
    where x.branch_id = line.branch_id and x.kind = :kind and x.until > line.up_to and x.position <= line.up_to
    offset 0
) as m
union all
select m.* from live cross join lateral (
    select * from memory x
    where x.group_id = live.group_id and x.kind = :kind and x.origin is null and x.id <= live.up_to
    offset 0
) as m

-- fragment: seen_here_of
-- The same of some keys.
select m.* from line cross join wanted cross join lateral (
    select * from memory x
    where x.branch_id = line.branch_id and x.kind = :kind and x.key = wanted.key and x.until > line.up_to
        and x.position <= line.up_to
    offset 0
) as m
union all
select m.* from live cross join lateral (
    select * from memory x
    where x.group_id = live.group_id and x.kind = :kind and x.key in (select key from wanted) and x.origin is null
        and x.id <= live.up_to
    offset 0
) as m

-- fragment: counting_of
select m.* from wanted cross join lateral (
    select x.* from memory x where x.key = wanted.key and {counts}
    offset 0
) as m
union all
select m.* from wanted cross join lateral (
    select x.* from memory x where x.key = wanted.key and {counted}
    offset 0
) as m

-- fragment: seen_of
-- Every version of some keys that a view shows.
{seen_here_of}
union all
{counting_of}

-- fragment: newer_there
lateral (
    select 1 from memory n
    where n.branch_id = l.branch_id and n.kind = x.kind and n.key = x.key and n.position <= l.up_to
        and n.until > l.up_to and (coalesce(n.stamp, 4611686018427387904), coalesce(n.origin, n.id)) > ({order})
    offset 0
) as newer

-- fragment: newer
-- As for SQLite, and looked up likewise.
select 1 from line l cross join {newer_there}
union all
select 1 from live g cross join lateral (
    select 1 from memory n
    where n.group_id = g.group_id and n.kind = x.kind and n.key = x.key and n.origin is null and n.id <= g.up_to
        and (coalesce(n.stamp, 4611686018427387904), n.id) > ({order})
    offset 0
) as newer
union all
select 1 from memory n
where n.scope_id = :scope and n.kind = x.kind and n.key = x.key and n.gone = 4611686018427387904 and n.author_id <> :author
    and (cast(:before as bigint) is null or n.stamp <= cast(:before as bigint))
    and (n.stamp, coalesce(n.origin, n.id)) > ({order})
union all
select 1 from memory n
where cast(:before as bigint) is not null and n.scope_id = :scope and n.kind = x.kind and n.key = x.key and n.gone > 0
    and n.gone < 4611686018427387904 and n.author_id <> :author and n.stamp <= cast(:before as bigint)
    and n.gone > cast(:before as bigint) and (n.stamp, coalesce(n.origin, n.id)) > ({order})

-- fragment: newest_of_each
-- The newest rows of each level of a line.
select level.id from line cross join lateral (
    select x.id from memory x
    where x.branch_id = line.branch_id and x.kind = :kind and x.position <= line.up_to and x.until > line.up_to
        and x.deleted = 0 and (cast(:label as text) is null or x.label = :label)
        and (x.expires_at is null or x.expires_at > cast(:at as bigint))
        and not exists ({newer})
    order by x.position desc, coalesce(x.origin, x.id) desc
    limit cast(:limit as bigint)
) as level

-- name: line_from
-- As for SQLite. Each level is looked up by its key; joined, the planner would read small tables whole for each.
with recursive chain (depth, branch_id, up_to, own) as (
    select 0, cast(:branch as bigint), cast(:position as bigint), cast(:own as bigint)
    union all
    select chain.depth + 1, step.branch_id, step.up_to, step.own
    from chain cross join lateral (
        select b.parent_id, b.parent_position, cast(0 as bigint) from branch b
        where b.id = chain.branch_id and b.parent_id is not null and chain.depth < cast(:deepest as bigint)
        union all
        select s.base_id, s.base_position, cast(1 as bigint) from branch_base s
        where s.branch_id = chain.branch_id and chain.own = 1 and s.base_id is not null
            and chain.depth < cast(:deepest as bigint)
    ) as step (branch_id, up_to, own)
)
select chain.branch_id, chain.up_to, chain.own, case when chain.own = 1 then s.groups end as groups, s.branch_id as based
from chain
left join branch_base s on s.branch_id = chain.branch_id
order by chain.depth;

-- name: newest_memory
-- As for SQLite, with everything looked up by an index, as in `seen`.
with {view}, picked as ({newest_of_each}
    union
    select x.id from live cross join lateral (
        select * from memory m
        where m.group_id = live.group_id and m.kind = :kind and m.origin is null and m.id <= live.up_to and m.deleted = 0
            and (cast(:label as text) is null or m.label = :label)
        offset 0
    ) as x
    where not exists ({newer})
    union
    select id from (
        select x.id from memory x
        where {counts}
            and {wanted_here}
        order by x.stamp desc, coalesce(x.origin, x.id) desc
        limit cast(:limit as bigint)
    ) now_counting
    union
    select x.id from memory x
    where {counted}
        and {wanted_here}), once (id) as (
    select min(x.id) from picked
    cross join lateral (select * from memory m where m.id = picked.id offset 0) as x
    group by coalesce(x.origin, x.id)
)
select {kept}
from once
cross join lateral (select * from memory m where m.id = once.id offset 0) as r
left join content c on c.id = r.content_id
where r.expires_at is null or r.expires_at > cast(:at as bigint)
order by case when cast(:scope as bigint) is null then 0 else coalesce(r.stamp, 4611686018427387904) end desc, number desc
limit cast(:limit as bigint);

-- name: shown_memory
-- As for SQLite, with everything looked up by an index, as in `seen`.
with {view}, wanted (id) as materialized ({numbers ids}), shown as (
    select x.* from wanted cross join lateral (
        select * from memory m where m.id = wanted.id
        union all
        select * from memory m where m.origin = wanted.id
        offset 0
    ) as x
    join line on line.branch_id = x.branch_id and x.position <= line.up_to and x.until > line.up_to
    union
    select x.* from wanted cross join lateral (
        select * from memory m where m.id = wanted.id and m.origin is null offset 0
    ) as x
    join live on live.group_id = x.group_id and x.id <= live.up_to
    union
    select x.* from wanted cross join lateral (
        select * from memory m where m.id = wanted.id
        union all
        select * from memory m where m.origin = wanted.id
        offset 0
    ) as x
    where {counts_of_any})
select distinct coalesce(x.origin, x.id) as number from shown x
where x.deleted = 0 and (x.expires_at is null or x.expires_at > cast(:at as bigint))
    and not exists ({newer});
