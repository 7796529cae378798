-- As for SQLite, with everything looked up by an index, as in memory.postgres.sql.

-- fragment: chosen
select value from json_array_elements_text(cast(:labels as json))

-- fragment: of_subjects
select m.* from line cross join wanted cross join lateral (
    select * from memory x
    where x.branch_id = line.branch_id and x.subject = wanted.key and x.kind = :kind and x.until > line.up_to
        and x.position <= line.up_to and (cast(:labels as text) is null or x.label in (select key from chosen))
    offset 0
) as m
union all
select m.* from live cross join lateral (
    select * from memory x
    where x.group_id = live.group_id and x.kind = :kind and x.origin is null and x.id <= live.up_to
        and x.subject in (select key from wanted)
        and (cast(:labels as text) is null or x.label in (select key from chosen))
    offset 0
) as m

-- fragment: of_objects
select m.* from line cross join wanted cross join lateral (
    select * from memory x
    where x.branch_id = line.branch_id and x.object = wanted.key and x.kind = :kind and x.until > line.up_to
        and x.position <= line.up_to and (cast(:labels as text) is null or x.label in (select key from chosen))
    offset 0
) as m
union all
select m.* from live cross join lateral (
    select * from memory x
    where x.group_id = live.group_id and x.kind = :kind and x.origin is null and x.id <= live.up_to
        and x.object in (select key from wanted)
        and (cast(:labels as text) is null or x.label in (select key from chosen))
    offset 0
) as m

-- fragment: latest_of_each
-- The latest facts of each level of a line.
select level.id from line cross join lateral (
    select x.id from memory x
    where x.branch_id = line.branch_id and x.kind = :kind and x.subject is not null and x.position <= line.up_to
        and x.until > line.up_to and x.deleted = 0
        and not exists (
            -- include: newer
        )
    order by x.created_at desc, coalesce(x.origin, x.id) desc
    limit cast(:limit as bigint)
) as level
