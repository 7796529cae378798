-- Facts, looked up by what they are about. A view is as in memory.sql.

-- fragment: nothing
x''

-- fragment: of_subjects
-- `+` has SQLite go by the names: what else it could go by would lead it through all that a branch has.
select m.* from line cross join wanted cross join memory m
where m.branch_id = line.branch_id and m.subject = wanted.key and m.kind = :kind and +m.until > line.up_to
    and +m.position <= line.up_to
union all
select m.* from live cross join memory m
where m.group_id = live.group_id and m.kind = :kind and m.origin is null and m.id <= live.up_to
    and m.subject in (select key from wanted)

-- fragment: of_things
select m.* from line cross join wanted cross join memory m
where m.branch_id = line.branch_id and m.subject = wanted.subject and m.kind = :kind and m.label = wanted.label
    and +m.until > line.up_to and +m.position <= line.up_to
union all
select m.* from live cross join memory m
where m.group_id = live.group_id and m.kind = :kind and m.origin is null and m.id <= live.up_to
    and (m.subject, m.label) in (select subject, label from wanted)

-- fragment: of_triples
select m.* from line cross join wanted cross join memory m
where m.branch_id = line.branch_id and m.subject = wanted.subject and m.kind = :kind and m.label = wanted.label
    and m.object = wanted.object and m.until > line.up_to and +m.position <= line.up_to
union all
select m.* from live cross join memory m
where m.group_id = live.group_id and m.kind = :kind and m.origin is null and m.id <= live.up_to
    and (m.subject, m.label, m.object) in (select subject, label, object from wanted)

-- fragment: of_objects
select m.* from line cross join wanted cross join memory m
where m.branch_id = line.branch_id and m.object = wanted.key and m.kind = :kind and +m.until > line.up_to
    and +m.position <= line.up_to and (cast(:labels as text) is null or m.label in (select key from chosen))
union all
select m.* from live cross join memory m
where m.group_id = live.group_id and m.kind = :kind and m.origin is null and m.id <= live.up_to
    and m.object in (select key from wanted) and (cast(:labels as text) is null or m.label in (select key from chosen))

-- fragment: keys_of_few
select m.key from line cross join memory m
where m.branch_id = line.branch_id and m.kind = :kind and line.branch_id not in (select branch_id from crowded)

-- fragment: latest_of_each
-- The latest facts of each level of a line.
select m.id, m.created_at from line cross join memory m
where m.id in (
    select x.id from memory x
    where x.branch_id = line.branch_id and x.kind = :kind and x.subject is not null and +x.position <= line.up_to
        and +x.until > line.up_to and {unhidden}
    order by x.created_at desc, coalesce(x.origin, x.id) desc
    limit cast(:limit as bigint)
)

-- fragment: latest_of_names
-- The same of each name, as a subject and as an object.
select m.id, m.created_at from line cross join wanted cross join memory m
where m.id in (
    select x.id from memory x
    where x.branch_id = line.branch_id and x.subject = wanted.key and x.kind = :kind and +x.position <= line.up_to
        and +x.until > line.up_to and {unhidden}
    order by x.created_at desc, coalesce(x.origin, x.id) desc
    limit cast(:limit as bigint)
)
union
select m.id, m.created_at from line cross join wanted cross join memory m
where m.id in (
    select x.id from memory x
    where x.branch_id = line.branch_id and x.object = wanted.key and x.kind = :kind and +x.position <= line.up_to
        and +x.until > line.up_to and {unhidden}
    order by x.created_at desc, coalesce(x.origin, x.id) desc
    limit cast(:limit as bigint)
)

-- fragment: latest_of_names_counting
-- What counts of others, likewise.
select m.id from wanted cross join memory m
where m.id in (
    select x.id from memory x where x.subject = wanted.key and x.subject is not null and {counts}
        and x.created_at >= (select at from since) and {unhidden}
    order by x.created_at desc, coalesce(x.origin, x.id) desc
    limit cast(:limit as bigint)
)
union
select m.id from wanted cross join memory m
where m.id in (
    select x.id from memory x where x.object = wanted.key and x.subject is not null and {counts}
        and x.created_at >= (select at from since) and {unhidden}
    order by x.created_at desc, coalesce(x.origin, x.id) desc
    limit cast(:limit as bigint)
)

-- fragment: named_here
-- Facts by the beginning of their names, by the index of these.
select m.id, m.kind, m.key, m.origin, m.stamp, m.deleted, m.subject as name
from line cross join memory m
where m.branch_id = line.branch_id and m.subject >= :low and m.subject < :high and +m.kind = :kind
    and +m.until > line.up_to and +m.position <= line.up_to
union all
select m.id, m.kind, m.key, m.origin, m.stamp, m.deleted, m.object
from line cross join memory m
where m.branch_id = line.branch_id and m.object >= :low and m.object < :high and +m.kind = :kind
    and +m.until > line.up_to and +m.position <= line.up_to

-- fragment: rows_picked
picked join memory r on r.id = picked.id

-- fragment: resting
select s.memory_id from wanted join memory_source s on s.source = wanted.key

-- fragment: rows_found
select m.* from found join memory m on m.id = found.id
union
select m.* from found join memory m on m.origin = found.id
