-- Listings of threads and conversations, named branches, checkpoints and namespaces.

-- name: thread_overview
-- A page of the threads and conversations in a range of paths, the most recently changed first. A thread and a
-- conversation with the same id are one row. The result always has a row, with the total number. With `sizes` = 1, the
-- data of each row is measured; a content that a thread shares with its conversation is counted once. Conversations of
-- nested graphs, which have a `nested_mark` in their names, are omitted.
with matching (namespace_id, name) as materialized (
    select distinct c.namespace_id, s.name from ({series_with_terms}) d
    join search_series s on s.id = d.series
    join search_scope c on c.id = s.scope_id
    where c.kind in ('message', 'thread_post')
), candidates as (
    select cast('conversation' as text) as kind, namespace_id, name, id as thread, cast(null as bigint) as branch,
        cast(0 as bigint) as messages, created_at
    from thread
    union all
    select kind, namespace_id, name, cast(null as bigint) as thread, id as branch, messages, created_at from branch
), listed as (
    select n.path, k.name, max(k.thread) as thread, max(k.branch) as branch, max(k.messages) as messages,
        max(k.created_at) as created_at
    from candidates k
    join namespace n on n.id = k.namespace_id
    where k.kind = 'conversation' and n.path >= :low and n.path < :high and replace(k.name, cast(:nested_mark as text), '') = k.name
        and (cast(:name as text) is null or k.name = cast(:name as text))
        and (cast(:text as text) is null or replace(k.name, cast(:text as text), '') <> k.name
            or exists (select 1 from matching s where s.namespace_id = k.namespace_id and s.name = k.name))
    group by n.path, k.name
), dated as materialized (
    select l.*, coalesce((
        select c.created_at from checkpoint c
        where c.ns_id = (select o.id from checkpoint_ns o where o.thread_id = l.thread and o.ns = '')
        order by c.name desc limit 1
    ), l.created_at) as put_at, coalesce((
        select e.written_at from entry e where e.branch_id = l.branch order by e.position desc limit 1
    ), l.created_at) as message_at
    from listed l
), found as materialized (
    select f.* from (select d.*, case when d.put_at > d.message_at then d.put_at else d.message_at end as changed_at from dated d) f
    where f.changed_at >= :since and f.changed_at < :until and (cast(:role as text) is null or exists (
        select 1 from entry e
        where e.branch_id = f.branch and (e.role = cast(:role as text) or e.sender = cast(:role as text))
    ))
), page as materialized (
    select * from found
    order by changed_at desc, path, name
    limit cast(:limit as bigint) offset cast(:offset as bigint)
)
select (select count(*) from found) as total, p.path, p.name, p.messages, p.changed_at,
    (
        select c.name from checkpoint c
        where c.ns_id = (select l.id from checkpoint_ns l where l.thread_id = p.thread and l.ns = '')
        order by c.name desc limit 1
    ) as newest, (
        select {version_body} from entry slot
        join entry v on v.id = ({current_version})
        left join content c on c.id = v.content_id
        where slot.id = (
            select e.id from entry e
            where e.branch_id = p.branch and e.replaces is null and e.kind = 'message' and e.role = 'user' and {is_shown}
            order by e.position, e.id
            limit 1
        )
    ) as question,
    case when cast(:sizes as bigint) = 1 then (
        select count(*) from checkpoint_ns l join checkpoint c on c.ns_id = l.id where l.thread_id = p.thread
    ) end as checkpoints,
    case when cast(:sizes as bigint) = 1 then (
        select coalesce(sum(f.children - 1), 0) from (
            select count(*) as children from checkpoint_ns l join checkpoint c on c.ns_id = l.id
            where l.thread_id = p.thread and l.ns = ''
            group by c.parent
        ) f
    ) end as forks,
    case when cast(:sizes as bigint) = 1 then (
        select coalesce(sum(length(c.head) + length(c.metadata) + length(c.versions)), 0)
        from checkpoint_ns l join checkpoint c on c.ns_id = l.id where l.thread_id = p.thread
    ) + (
        select coalesce(sum(length(v.recipe)), 0)
        from checkpoint_ns l join channel_value v on v.ns_id = l.id where l.thread_id = p.thread
    ) + (
        select coalesce(sum(length(w.recipe)), 0)
        from checkpoint_ns l join pending_write w on w.ns_id = l.id where l.thread_id = p.thread
    ) + (
        select coalesce(sum(length(c.body)), 0) from content c where c.id in (
            select a.content_id from thread t join part a on a.store_id = t.store_id where t.id = p.thread
            union
            select e.content_id from entry e where e.branch_id = p.branch
            union
            select e.attachments_id from entry e where e.branch_id = p.branch
        )
    ) + (select coalesce(sum(length(e.body)), 0) from entry e where e.branch_id = p.branch) end as bytes
from (select 1 as one) o
left join page p on o.one = 1
order by p.changed_at desc, p.path, p.name;

-- name: branch_overview
-- The named branches of memory in a range of paths, parents before their forks.
select b.id, n.path, b.name, p.name as parent, b.created_at,
    (select count(*) from memory m
    where m.branch_id = b.id and m.deleted = 0 and m.until = 4611686018427387904) as memory_count
from branch b
join namespace n on n.id = b.namespace_id
left join branch p on p.id = b.parent_id
where b.kind = 'layers' and n.path >= :low and n.path < :high
order by n.path, b.id;

-- name: checkpoint_history
-- A page of the checkpoints of a checkpoint namespace, newest first, each without its values and with its number of
-- children (`followers`). With `ends` = 1, only checkpoints without children are included.
with page as materialized (
    select name, parent, metadata, created_at from checkpoint
    where ns_id = :ns_id and (cast(:ends as bigint) = 0 or name not in ({parents}))
    order by name desc
    limit cast(:limit as bigint) offset cast(:offset as bigint)
), followed as materialized (
    select parent as name, count(*) as followers from checkpoint
    where ns_id = :ns_id and parent in (select name from page)
    group by parent
)
select page.*, coalesce(followed.followers, 0) as followers
from page left join followed on followed.name = page.name
order by page.name desc;

-- fragment: parents
select parent from checkpoint where ns_id = :ns_id and parent is not null

-- name: count_checkpoints
-- The number of checkpoints in a checkpoint namespace, and the number of these that are newer than a given one. With
-- `ends` = 1, only checkpoints without children are counted.
select count(*) as total, coalesce(sum(case when name > cast(:newer_than as text) then 1 else 0 end), 0) as newer from checkpoint
where ns_id = :ns_id and (cast(:ends as bigint) = 0 or name not in ({parents}));

-- name: namespace_sizes
-- The sizes of each namespace in a range of paths, without the namespaces below. Shared contents are counted once.
-- Conversations of nested graphs, which have a `nested_mark` in their names, belong to their threads.
with audited as materialized (
    select namespace_id, count(*) as entries, sum(length(body)) as bytes from audit
    where kind is not null
    group by namespace_id
), calls as materialized (
    select distinct namespace_id, store_id from audit where store_id is not null
)
select n.path,
    (select count(*) from (
        select t.name from thread t where t.namespace_id = n.id
        union
        select b.name from branch b
        where b.namespace_id = n.id and b.kind = 'conversation' and replace(b.name, cast(:nested_mark as text), '') = b.name
    ) t) as threads,
    (select coalesce(sum(b.messages), 0) from branch b where b.namespace_id = n.id and b.kind = 'conversation') as messages,
    (select count(*) from thread t
    join checkpoint_ns l on l.thread_id = t.id
    join checkpoint c on c.ns_id = l.id
    where t.namespace_id = n.id) as checkpoints,
    (select count(*) from branch b
    join memory m on m.branch_id = b.id and m.kind in ('core', 'event', 'record', 'fact')
        and m.until = 4611686018427387904 and m.deleted = 0
    where b.namespace_id = n.id) as memories,
    (select count(*) from item i where i.namespace_id = n.id) as items,
    coalesce(a.entries, 0) as audit,
    coalesce(a.bytes, 0)
    + (select coalesce(sum(length(i.value)), 0) from item i where i.namespace_id = n.id)
    + (select coalesce(sum(length(v.value)), 0) from blob v where v.namespace_id = n.id)
    + (select coalesce(sum(length(c.head) + length(c.metadata) + length(c.versions)), 0) from thread t
    join checkpoint_ns l on l.thread_id = t.id
    join checkpoint c on c.ns_id = l.id
    where t.namespace_id = n.id)
    + (select coalesce(sum(length(v.recipe)), 0) from thread t
    join checkpoint_ns l on l.thread_id = t.id
    join channel_value v on v.ns_id = l.id
    where t.namespace_id = n.id)
    + (select coalesce(sum(length(w.recipe)), 0) from thread t
    join checkpoint_ns l on l.thread_id = t.id
    join pending_write w on w.ns_id = l.id
    where t.namespace_id = n.id)
    + (select coalesce(sum(length(e.body)), 0) from branch b join entry e on e.branch_id = b.id where b.namespace_id = n.id)
    + (select coalesce(sum(length(c.body)), 0) from content c where c.id in (
        select p.content_id from thread t join part p on p.store_id = t.store_id where t.namespace_id = n.id
        union
        select e.content_id from branch b join entry e on e.branch_id = b.id where b.namespace_id = n.id
        union
        select e.attachments_id from branch b join entry e on e.branch_id = b.id where b.namespace_id = n.id
        union
        select m.content_id from branch b join memory m on m.branch_id = b.id where b.namespace_id = n.id
        union
        select p.content_id from part p where p.store_id in (select store_id from calls where namespace_id = n.id)
    )) as bytes
from namespace n
left join audited a on a.namespace_id = n.id
where n.path >= :low and n.path < :high
order by n.path;

-- name: written_by_day
-- The numbers of rows written on each day since a time, in a range of paths. `day` is the number of days since 1970.
select 'messages' as what, e.written_at / 86400000000 as day, count(*) as written
from entry e
join branch b on b.id = e.branch_id
join namespace n on n.id = b.namespace_id
where e.written_at >= :since and e.replaces is null and e.kind <> 'round' and n.path >= :low and n.path < :high
group by e.written_at / 86400000000
union all
select 'checkpoints', c.created_at / 86400000000, count(*)
from checkpoint c
join checkpoint_ns l on l.id = c.ns_id
join thread t on t.id = l.thread_id
join namespace n on n.id = t.namespace_id
where c.created_at >= :since and n.path >= :low and n.path < :high
group by c.created_at / 86400000000
union all
select 'memories', m.written_at / 86400000000, count(*)
from memory m
join branch b on b.id = m.branch_id
join namespace n on n.id = b.namespace_id
where m.written_at >= :since and m.kind in ('core', 'event', 'record', 'fact') and m.deleted = 0
    and n.path >= :low and n.path < :high
group by m.written_at / 86400000000;
