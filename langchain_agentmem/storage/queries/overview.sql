-- What there is to look at: threads and conversations, named branches, the checkpoints of a thread.

-- name: known_threads
-- A page of the threads and conversations in a range of paths; a thread and a conversation of one id are one. Those that
-- changed last come first.
with known as (
    select t.namespace_id, t.name, t.id as thread, cast(null as bigint) as branch, cast(0 as bigint) as messages,
        coalesce((
            select c.created_at from checkpoint_line l join checkpoint c on c.line_id = l.id
            where l.thread_id = t.id and l.ns = ''
            order by c.name desc limit 1
        ), t.created_at) as changed_at
    from thread t
    union all
    select b.namespace_id, b.name, cast(null as bigint), b.id, b.messages,
        coalesce((
            select e.written_at from entry e where e.branch_id = b.id order by e.position desc limit 1
        ), b.created_at)
    from branch b
    where b.kind = 'conversation'
)
select n.path, k.name, max(k.thread) as thread, max(k.branch) as branch, max(k.messages) as messages,
    max(k.changed_at) as changed_at
from known k
join namespace n on n.id = k.namespace_id
where n.path >= :low and n.path < :high and (cast(:name as text) is null or k.name = cast(:name as text))
group by n.path, k.name
order by max(k.changed_at) desc, n.path, k.name
limit cast(:limit as bigint);

-- name: count_known_threads
select count(*) as found from (
    select t.namespace_id, t.name from thread t
    union
    select b.namespace_id, b.name from branch b where b.kind = 'conversation'
) k
join namespace n on n.id = k.namespace_id
where n.path >= :low and n.path < :high and (cast(:name as text) is null or k.name = cast(:name as text));

-- name: thread_details
-- What one of them holds. A content that its thread and its conversation share counts once.
select
    (select count(*) from checkpoint_line l join checkpoint c on c.line_id = l.id
    where l.thread_id = cast(:thread as bigint)) as checkpoints,
    (select c.name from checkpoint_line l join checkpoint c on c.line_id = l.id
    where l.thread_id = cast(:thread as bigint) and l.ns = '' order by c.name desc limit 1) as newest,
    (select coalesce(sum(f.children - 1), 0) from (
        select count(*) as children from checkpoint_line l join checkpoint c on c.line_id = l.id
        where l.thread_id = cast(:thread as bigint) and l.ns = ''
        group by c.parent
    ) f) as forks,
    (select coalesce(sum(length(c.head) + length(c.metadata) + length(c.versions)), 0)
    from checkpoint_line l join checkpoint c on c.line_id = l.id where l.thread_id = cast(:thread as bigint))
    + (select coalesce(sum(length(v.recipe)), 0)
    from checkpoint_line l join channel_value v on v.line_id = l.id where l.thread_id = cast(:thread as bigint))
    + (select coalesce(sum(length(w.recipe)), 0)
    from checkpoint_line l join pending_write w on w.line_id = l.id where l.thread_id = cast(:thread as bigint))
    + (select coalesce(sum(length(c.body)), 0) from content c where c.id in (
        select p.content_id from thread t join part p on p.shelf_id = t.shelf_id where t.id = cast(:thread as bigint)
        union
        select e.content_id from entry e where e.branch_id = cast(:branch as bigint)
        union
        select e.attachments_id from entry e where e.branch_id = cast(:branch as bigint)
    )) as bytes;

-- name: known_branches
-- The named branches of memory in a range of paths, parents before their forks.
select b.id, n.path, b.name, p.name as parent, b.created_at,
    (select count(*) from memory m
    where m.branch_id = b.id and m.deleted = 0 and m.until = 4611686018427387904) as own
from branch b
join namespace n on n.id = b.namespace_id
left join branch p on p.id = b.parent_id
where b.kind = 'layers' and n.path >= :low and n.path < :high
order by n.path, b.id;

-- name: line_history
-- Checkpoints of a line without their values, the newest first, and how many follow each; of `ends` those alone that none follows.
with page as materialized (
    select name, parent, metadata, created_at from checkpoint
    where line_id = :line and (cast(:ends as bigint) = 0 or name not in (
-- include: parents
    ))
    order by name desc
    limit cast(:limit as bigint) offset cast(:offset as bigint)
), followed as materialized (
    select parent as name, count(*) as followers from checkpoint
    where line_id = :line and parent in (select name from page)
    group by parent
)
select page.*, coalesce(followed.followers, 0) as followers
from page left join followed on followed.name = page.name
order by page.name desc;

-- fragment: parents
select parent from checkpoint where line_id = :line and parent is not null

-- name: count_line
-- How many checkpoints a line has, or ends; and how many of these are newer than one.
select count(*) as found, coalesce(sum(case when name > cast(:than as text) then 1 else 0 end), 0) as newer from checkpoint
where line_id = :line and (cast(:ends as bigint) = 0 or name not in (
-- include: parents
));
