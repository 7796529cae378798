-- As for SQLite, with everything looked up by an index, as in memory.postgres.sql.

-- fragment: nothing
cast('' as bytea)

-- fragment: of_subjects
select m.* from line cross join wanted cross join lateral (
    select * from memory x
    where x.branch_id = line.branch_id and x.subject = wanted.key and x.kind = :kind and x.until > line.up_to
        and x.position <= line.up_to
    offset 0
) as m
union all
select m.* from live cross join lateral (
    select * from memory x
    where x.group_id = live.group_id and x.kind = :kind and x.origin is null and x.id <= live.up_to
        and x.subject in (select key from wanted)
    offset 0
) as m

-- fragment: of_things
select m.* from line cross join wanted cross join lateral (
    select * from memory x
    where x.branch_id = line.branch_id and x.subject = wanted.subject and x.kind = :kind and x.label = wanted.label
        and x.until > line.up_to and x.position <= line.up_to
    offset 0
) as m
union all
select m.* from live cross join lateral (
    select * from memory x
    where x.group_id = live.group_id and x.kind = :kind and x.origin is null and x.id <= live.up_to
        and (x.subject, x.label) in (select subject, label from wanted)
    offset 0
) as m

-- fragment: of_triples
select m.* from line cross join wanted cross join lateral (
    select * from memory x
    where x.branch_id = line.branch_id and x.subject = wanted.subject and x.kind = :kind and x.label = wanted.label
        and x.object = wanted.object and x.until > line.up_to and x.position <= line.up_to
    offset 0
) as m
union all
select m.* from live cross join lateral (
    select * from memory x
    where x.group_id = live.group_id and x.kind = :kind and x.origin is null and x.id <= live.up_to
        and (x.subject, x.label, x.object) in (select subject, label, object from wanted)
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

-- fragment: keys_of_few
select m.key from line cross join lateral (
    select x.key from memory x where x.branch_id = line.branch_id and x.kind = :kind
    offset 0
) as m
where line.branch_id not in (select branch_id from crowded)

-- fragment: latest_of_each
-- The latest facts of each level of a line.
select level.id, level.created_at from line cross join lateral (
    select x.id, x.created_at from memory x
    where x.branch_id = line.branch_id and x.kind = :kind and x.subject is not null and x.position <= line.up_to
        and x.until > line.up_to and {unhidden}
    order by x.created_at desc, coalesce(x.origin, x.id) desc
    limit cast(:limit as bigint)
) as level

-- fragment: latest_of_names
-- The same of each name, as a subject and as an object.
select level.id, level.created_at from line cross join wanted cross join lateral (
    select x.id, x.created_at from memory x
    where x.branch_id = line.branch_id and x.subject = wanted.key and x.kind = :kind and x.position <= line.up_to
        and x.until > line.up_to and {unhidden}
    order by x.created_at desc, coalesce(x.origin, x.id) desc
    limit cast(:limit as bigint)
) as level
union
select level.id, level.created_at from line cross join wanted cross join lateral (
    select x.id, x.created_at from memory x
    where x.branch_id = line.branch_id and x.object = wanted.key and x.kind = :kind and x.position <= line.up_to
        and x.until > line.up_to and {unhidden}
    order by x.created_at desc, coalesce(x.origin, x.id) desc
    limit cast(:limit as bigint)
) as level

-- fragment: latest_of_names_counting
-- What counts of others, likewise.
select counting.id from wanted cross join lateral (
    select x.id from memory x where x.subject = wanted.key and x.subject is not null and {counts}
        and x.created_at >= (select at from since) and {unhidden}
    order by x.created_at desc, coalesce(x.origin, x.id) desc
    limit cast(:limit as bigint)
) as counting
union
select counting.id from wanted cross join lateral (
    select x.id from memory x where x.object = wanted.key and x.subject is not null and {counts}
        and x.created_at >= (select at from since) and {unhidden}
    order by x.created_at desc, coalesce(x.origin, x.id) desc
    limit cast(:limit as bigint)
) as counting

-- fragment: named_here
select m.id, m.kind, m.key, m.origin, m.stamp, m.deleted, m.name
from line cross join lateral (
    select x.*, x.subject as name from memory x
    where x.branch_id = line.branch_id and x.subject >= :low and x.subject < :high and x.kind = :kind
        and x.until > line.up_to and x.position <= line.up_to
    union all
    select x.*, x.object from memory x
    where x.branch_id = line.branch_id and x.object >= :low and x.object < :high and x.kind = :kind
        and x.until > line.up_to and x.position <= line.up_to
    offset 0
) as m

-- fragment: rows_picked
picked cross join lateral (select * from memory m where m.id = picked.id offset 0) as r

-- fragment: resting
select s.memory_id from wanted cross join lateral (
    select r.memory_id from memory_source r where r.source = wanted.key offset 0
) as s

-- fragment: rows_found
select m.* from found cross join lateral (select * from memory x where x.id = found.id offset 0) as m
union
select m.* from found cross join lateral (select * from memory x where x.origin = found.id offset 0) as m
