-- Facts, looked up by what they are about. A view is as in memory.sql.

-- fragment: shown_facts
visible as (
    select x.* from seen x
    where x.deleted = 0 and not exists (
-- include: newer
    )
)
select
-- include: kept
from visible r
left join content c on c.id = r.content_id
order by number

-- name: facts_of_subjects
-- Those that a view shows of some subjects, and with certain labels, where such are given.
with
-- include: view
, wanted (key) as materialized (
-- include: keys
), chosen (key) as materialized (
-- include: chosen
), seen as (
-- include: of_subjects
),
-- include: shown_facts
;

-- name: facts_of_objects
-- Those that a view shows of some objects, and with certain labels, where such are given.
with
-- include: view
, wanted (key) as materialized (
-- include: keys
), chosen (key) as materialized (
-- include: chosen
), seen as (
-- include: of_objects
),
-- include: shown_facts
;

-- name: latest_facts
-- The last that a view shows of one kind, by when they began to be known, the last first.
with
-- include: view
, picked as (
-- include: latest_of_each
    union
    select x.id from live cross join memory x
    where x.group_id = live.group_id and x.kind = :kind and x.subject is not null and x.origin is null
        and x.id <= live.up_to and x.deleted = 0
        and not exists (
-- include: newer
        )
)
select
-- include: kept
from picked
join memory r on r.id = picked.id
left join content c on c.id = r.content_id
order by r.created_at desc, number desc
limit cast(:limit as bigint);

-- name: entities_named
-- The subjects and objects of what a view shows of facts, from one name up to, but without, another, and how often each
-- is named. `sample` is one fact that names it.
with
-- include: view
, seen as (
    select m.id, m.kind, m.key, m.origin, m.deleted, m.subject as name, 1 as is_subject
    from line cross join memory m
    where m.branch_id = line.branch_id and m.subject >= :low and m.subject < :high and m.kind = :kind
        and m.until > line.up_to and m.position <= line.up_to
    union all
    select m.id, m.kind, m.key, m.origin, m.deleted, m.object, 0
    from line cross join memory m
    where m.branch_id = line.branch_id and m.object >= :low and m.object < :high and m.kind = :kind
        and m.until > line.up_to and m.position <= line.up_to
    union all
    select m.id, m.kind, m.key, m.origin, m.deleted, m.subject, 1
    from live cross join memory m
    where m.group_id = live.group_id and m.kind = :kind and m.origin is null and m.id <= live.up_to
        and m.subject >= :low and m.subject < :high
    union all
    select m.id, m.kind, m.key, m.origin, m.deleted, m.object, 0
    from live cross join memory m
    where m.group_id = live.group_id and m.kind = :kind and m.origin is null and m.id <= live.up_to
        and m.object >= :low and m.object < :high
)
select x.name, count(distinct x.key) as facts, min(x.key) as sample
from seen x
where x.deleted = 0 and not exists (
-- include: newer
)
group by x.name
order by x.name;

-- name: resting_on
-- Versions in a namespace that rest on one of some sources, and copies of them.
with wanted (key) as materialized (
-- include: keys
), found (id) as (
    select s.memory_id from wanted join memory_source s on s.source = wanted.key
)
select m.id, m.kind, m.key, m.extra, m.document_id, c.hash, c.body
from (
    select m.* from found join memory m on m.id = found.id
    union
    select m.* from found join memory m on m.origin = found.id
) m
left join content c on c.id = m.content_id
left join branch b on b.id = m.branch_id
left join memory_group g on g.id = m.group_id and m.branch_id is null
left join thread t on t.id = g.thread_id
join namespace n on n.id = coalesce(b.namespace_id, t.namespace_id)
where n.path >= :low and n.path < :high
order by m.id;

-- name: retell
-- A version rests on less than it did.
update memory set extra = :extra where id = :id;

-- name: delete_sources
delete from memory_source where memory_id = :memory and source = :source;
