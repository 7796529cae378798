-- Facts, looked up by subject, predicate (`label`) and object. See memory.sql for views, lineages, open groups and
-- 2^62.

-- fragment: visible_facts
-- The newest visible version of each fact. On a single branch, only one version of a fact is visible, so no newer one
-- is looked up. In a long chain of forks, most branches have few facts. The keys of these small branches are read once
-- (`other_keys`), and newer versions of them are looked up everywhere. For all other keys, newer versions can only be
-- on large branches. The names of a fact are in `extra`; the body is only used by searches.
large_branches (branch_id, up_to) as materialized (
    select l.branch_id, l.up_to from lineage l where exists (
        select 1 from memory m where m.branch_id = l.branch_id and m.kind = :kind limit 1 offset 20
    )
), other_keys (key) as materialized (
    select x.key from lineage cross join {lookup memory x} x.branch_id = lineage.branch_id and x.kind = :kind
    and lineage.branch_id not in (select branch_id from large_branches) {end_lookup x}
    union all
    select m.key from open_groups cross join memory m where m.group_id = open_groups.group_id and m.kind = :kind
), visible as (
    select x.* from seen x
    where x.deleted = 0 and not ((select count(*) from lineage) + (select count(*) from open_groups) > 1 and (
        x.key in (select key from other_keys) and exists ({newer})
        or exists (select 1 from large_branches l cross join {newer_on_level})
    ))
)
select coalesce(r.copy_of, r.id) as number, r.branch_id, r.kind, r.key, r.label, r.importance, r.expires_at, r.extra,
    r.created_at, r.written_at, r.source, r.actor, null as thread, cast('' as {blob}) as body
from visible r
order by number

-- fragment: live_facts
-- True if x is a fact in an open group: a task wrote it, and no checkpoint has assigned it to a branch yet.
x.group_id = open_groups.group_id and x.kind = :kind and x.copy_of is null and x.id <= open_groups.up_to

-- name: facts_of_subjects
-- The visible facts with some subjects. `+` makes SQLite use the index on the subject. Another index would scan the
-- whole branch.
with {view}, wanted (key) as materialized ({texts keys}), seen as (
    select x.* from lineage cross join wanted cross join {lookup memory x}
        x.branch_id = lineage.branch_id and x.subject = wanted.key and x.kind = :kind and +x.until > lineage.up_to
        and +x.position <= lineage.up_to {end_lookup x}
    union all
    select x.* from open_groups cross join {lookup memory x} {live_facts} and x.subject in (select key from wanted) {end_lookup x}
), {visible_facts};

-- name: facts_of_predicates
-- The visible facts with some subjects and labels.
with {view}, wanted (subject, label) as materialized ({pairs keys}), seen as (
    select x.* from lineage cross join wanted cross join {lookup memory x}
        x.branch_id = lineage.branch_id and x.subject = wanted.subject and x.kind = :kind and x.label = wanted.label
        and +x.until > lineage.up_to and +x.position <= lineage.up_to {end_lookup x}
    union all
    select x.* from open_groups cross join {lookup memory x}
        {live_facts} and (x.subject, x.label) in (select subject, label from wanted) {end_lookup x}
), {visible_facts};

-- name: facts_of_triples
-- The visible facts with some subjects, labels and objects.
with {view}, wanted (subject, label, object) as materialized ({triples keys}), seen as (
    select x.* from lineage cross join wanted cross join {lookup memory x}
        x.branch_id = lineage.branch_id and x.subject = wanted.subject and x.kind = :kind and x.label = wanted.label
        and x.object = wanted.object and x.until > lineage.up_to and +x.position <= lineage.up_to {end_lookup x}
    union all
    select x.* from open_groups cross join {lookup memory x}
        {live_facts} and (x.subject, x.label, x.object) in (select subject, label, object from wanted) {end_lookup x}
), {visible_facts};

-- name: facts_of_objects
-- The visible facts with some objects. If `labels` is not null, only facts with one of these labels.
with {view}, wanted (key) as materialized ({texts keys}), chosen (key) as materialized ({texts labels}), seen as (
    select x.* from lineage cross join wanted cross join {lookup memory x}
        x.branch_id = lineage.branch_id and x.object = wanted.key and x.kind = :kind and +x.until > lineage.up_to
        and +x.position <= lineage.up_to
        and (cast(:labels as text) is null or x.label in (select key from chosen)) {end_lookup x}
    union all
    select x.* from open_groups cross join {lookup memory x} {live_facts} and x.object in (select key from wanted)
        and (cast(:labels as text) is null or x.label in (select key from chosen)) {end_lookup x}
), {visible_facts};

-- fragment: is_latest
-- True if the version x is the newest visible one of its key, was learned before `learned_at` (or then, with a lower
-- number than `number`), and has one of the labels `chosen`, if labels were passed.
x.deleted = 0 and x.created_at <= cast(:learned_at as bigint)
    and (x.created_at, coalesce(x.copy_of, x.id)) < (cast(:learned_at as bigint), cast(:number as bigint))
    and (cast(:labels as text) is null or x.label in (select key from chosen)) and not exists ({newer})

-- fragment: newest_first
order by x.created_at desc, coalesce(x.copy_of, x.id) desc limit cast(:limit as bigint)

-- fragment: since
-- The time since which facts of other authors are needed. If the view's own branches have enough facts (`own_facts`),
-- it is the time of the oldest of these facts that is needed.
since (at) as materialized (
    select coalesce((
        select m.created_at from own_facts join memory m on m.id = own_facts.id
        order by m.created_at desc limit 1 offset cast(:limit as bigint) - 1
    ), -9223372036854775808)
)

-- fragment: picked_rows
select {memory_columns}
from (select x.* from picked cross join {lookup memory x} x.id = picked.id {end_lookup x}) r
left join content c on c.id = r.content_id
order by r.created_at desc, number desc
limit cast(:limit as bigint)

-- name: latest_facts
-- The visible facts of one kind that were learned last, newest first.
with {view}, chosen (key) as materialized ({texts labels}), own_facts (id) as materialized (
    select m.id from lineage cross join {lookup_first memory m} (
        select x.id from memory x
        where x.branch_id = lineage.branch_id and x.kind = :kind and x.subject is not null and +x.position <= lineage.up_to
            and +x.until > lineage.up_to and {is_latest}
        {newest_first}
    ) {end_first m}
    union
    select x.id from open_groups cross join memory x where {live_facts} and x.subject is not null and {is_latest}
), {since}, picked (id) as (
    select id from own_facts
    union
    select id from (
        select x.id from memory x
        where {is_visible} and x.subject is not null and x.created_at >= (select at from since) and {is_latest}
        {newest_first}
    ) facts_of_others
    union
    select x.id from memory x
    where {was_visible} and x.subject is not null and x.created_at >= (select at from since) and {is_latest}
)
{picked_rows};

-- fragment: own_facts_of
-- The latest facts on the view's own branches whose subject or object is one of the names.
select m.id from lineage cross join wanted cross join {lookup_first memory m} (
    select x.id from memory x
    where x.branch_id = lineage.branch_id and x.the_row = wanted.key and x.kind = :kind and +x.position <= lineage.up_to
        and +x.until > lineage.up_to and {is_latest}
    {newest_first}
) {end_first m}

-- fragment: facts_of_others_by
-- The same for facts of other authors.
select m.id from wanted cross join {lookup_first memory m} (
    select x.id from memory x where x.the_row = wanted.key and x.subject is not null and {is_visible}
        and x.created_at >= (select at from since) and {is_latest}
    {newest_first}
) {end_first m}

-- name: latest_facts_of_entities
-- The same as `latest_facts`, for facts whose subject or object is one of the names `keys`.
with {view}, wanted (key) as materialized ({texts keys}), chosen (key) as materialized ({texts labels}),
own_facts (id) as materialized (
    {own_facts_of subject}
    union
    {own_facts_of object}
    union
    select x.id from open_groups cross join memory x
    where {live_facts} and (x.subject in (select key from wanted) or x.object in (select key from wanted)) and {is_latest}
), {since}, picked (id) as (
    select id from own_facts
    union
    {facts_of_others_by subject}
    union
    {facts_of_others_by object}
    union
    select x.id from memory x
    where {was_visible} and (x.subject in (select key from wanted) or x.object in (select key from wanted))
        and x.created_at >= (select at from since) and {is_latest}
)
{picked_rows};

-- fragment: named_facts
-- The facts on the view's own branches whose subject or object is in a range of names.
select x.*, x.the_row as name from lineage cross join {lookup memory x}
    x.branch_id = lineage.branch_id and x.the_row >= :low and x.the_row < :high and x.kind || '' = :kind
    and +x.until > lineage.up_to and +x.position <= lineage.up_to {end_lookup x}

-- name: entities_in_range
-- The subjects and objects of visible facts in a range of names, with the number of their facts. The upper bound is
-- excluded. `sample` is the key of one of these facts. `kind || ''` and `+` make SQLite use the indexes on the names.
with {view}, seen as (
    {named_facts subject}
    union all
    {named_facts object}
    union all
    select x.*, x.subject from open_groups cross join memory x where {live_facts} and x.subject >= :low and x.subject < :high
    union all
    select x.*, x.object from open_groups cross join memory x where {live_facts} and x.object >= :low and x.object < :high
)
select x.name, count(distinct x.key) as facts, min(x.key) as sample
from seen x
where x.deleted = 0 and not exists ({newer})
group by x.name
order by x.name;

-- name: memory_with_sources
-- The versions that were derived from one of the given sources (messages), and their copies, in a range of namespaces.
-- `path` is null if the thread that wrote a version was deleted, and a copy of the thread still needs the version.
with found (id) as materialized (
    select memory_id from memory_source where source {in_texts keys}
)
select r.id, r.branch_id, r.group_id, r.copy_of, r.kind, r.key, r.extra, r.document_id, n.path, c.hash, c.body
from (
    select x.* from found cross join {lookup memory x} x.id = found.id {end_lookup x}
    union
    select x.* from found cross join {lookup memory x} x.copy_of = found.id {end_lookup x}
) r
left join content c on c.id = r.content_id
left join branch b on b.id = r.branch_id
left join memory_group g on g.id = r.group_id and r.branch_id is null
left join thread t on t.id = g.thread_id
left join namespace n on n.id = coalesce(b.namespace_id, t.namespace_id)
where (n.path >= :low and n.path < :high) or n.path is null
order by r.id;

-- name: referenced_groups_within
-- The groups to which tasks and subgraphs in a range of namespaces refer.
select f.group_id
from namespace n
join thread t on t.namespace_id = n.id
join finished_group f on f.thread_id = t.id
where n.path >= :low and n.path < :high
union
select s.group_id
from namespace n
join branch b on b.namespace_id = n.id
join base_group s on s.branch_id = b.id
where n.path >= :low and n.path < :high;

-- name: facts_after
-- A page of all versions of facts, messages and rules that are not deleted.
select m.id, m.copy_of, m.kind, m.key, m.label, m.subject, m.object, m.extra, m.document_id, m.created_at, c.body
from memory m
left join content c on c.id = m.content_id
where m.id > :after and m.deleted = 0 and m.kind {in_texts kinds}
order by m.id
limit cast(:limit as bigint);

-- name: set_extra
-- Replace the column `extra` of a version.
update memory set extra = :extra where id = :id;

-- name: delete_source
delete from memory_source where memory_id = :memory and source = :source;

-- name: delete_sources
delete from memory_source where memory_id = :memory;
