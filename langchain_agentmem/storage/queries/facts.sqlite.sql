-- Facts, looked up by what they are about. A view is as in memory.sql.

-- fragment: chosen
select value from json_each(:labels)

-- fragment: of_subjects
select m.* from line cross join wanted cross join memory m
where m.branch_id = line.branch_id and m.subject = wanted.key and m.kind = :kind and m.until > line.up_to
    and m.position <= line.up_to and (cast(:labels as text) is null or m.label in (select key from chosen))
union all
select m.* from live cross join memory m
where m.group_id = live.group_id and m.kind = :kind and m.origin is null and m.id <= live.up_to
    and m.subject in (select key from wanted) and (cast(:labels as text) is null or m.label in (select key from chosen))

-- fragment: of_objects
select m.* from line cross join wanted cross join memory m
where m.branch_id = line.branch_id and m.object = wanted.key and m.kind = :kind and m.until > line.up_to
    and m.position <= line.up_to and (cast(:labels as text) is null or m.label in (select key from chosen))
union all
select m.* from live cross join memory m
where m.group_id = live.group_id and m.kind = :kind and m.origin is null and m.id <= live.up_to
    and m.object in (select key from wanted) and (cast(:labels as text) is null or m.label in (select key from chosen))

-- fragment: latest_of_each
-- The latest facts of each level of a line.
select m.id from line cross join memory m
where m.id in (
    select x.id from memory x
    where x.branch_id = line.branch_id and x.kind = :kind and x.subject is not null and x.position <= line.up_to
        and x.until > line.up_to and x.deleted = 0
        and not exists (
            -- include: newer
        )
    order by x.created_at desc, coalesce(x.origin, x.id) desc
    limit cast(:limit as bigint)
)
