-- fragment: view
line (depth, branch_id, up_to) as materialized (
    select key, json_extract(value, '$[0]'), json_extract(value, '$[1]') from json_each(:line)
),
live (group_id, up_to) as materialized (
    select json_extract(value, '$[0]'), json_extract(value, '$[1]') from json_each(:groups)
)

-- fragment: newest_of_each
-- The newest rows of each level of a line.
select m.id from line cross join memory m
where m.id in (
    select x.id from memory x
    where x.branch_id = line.branch_id and x.kind = :kind and x.position <= line.up_to and x.until > line.up_to
        and x.deleted = 0 and (cast(:label as text) is null or x.label = :label)
        and (x.expires_at is null or x.expires_at > cast(:at as bigint))
        and not exists ({newer})
    order by x.position desc, coalesce(x.origin, x.id) desc
    limit cast(:limit as bigint)
)
