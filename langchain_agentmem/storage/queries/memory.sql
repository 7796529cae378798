-- What is remembered on branches. A view is a line of branches, each up to a position, and groups of rows that have no
-- place yet, each up to a row. Where it is that of a scope, it also shows what counts there of others than its `author`, now
-- or at the time `before`. Of the versions of a key the newest by its stamp counts, then by its number; what has no stamp is
-- newer than all that has one, and a copy has the number of the row that it is a copy of. Different keys stand in the order
-- of their numbers, and where threads share what they remember, of their stamps.

-- fragment: order
-- How new the version x is.
coalesce(x.stamp, 4611686018427387904), coalesce(x.origin, x.id)

-- fragment: counts
-- Whether the version x counts for the scope: others' that are at their heads, now or then. Two arms, for an index each.
x.scope_id = :scope and x.kind = :kind and x.gone = 4611686018427387904 and x.author_id <> :author
    and (cast(:before as bigint) is null or x.stamp <= cast(:before as bigint))

-- fragment: counts_of_any
-- The same of whatever kind is shared.
x.scope_id = :scope and x.author_id <> :author and x.gone > 0 and case
    when cast(:before as bigint) is null then x.gone = 4611686018427387904
    else x.stamp <= cast(:before as bigint) and x.gone > cast(:before as bigint)
end

-- fragment: counted
x.scope_id = :scope and x.kind = :kind and x.gone > 0 and x.gone < 4611686018427387904 and x.author_id <> :author
    and cast(:before as bigint) is not null and x.stamp <= cast(:before as bigint) and x.gone > cast(:before as bigint)

-- fragment: seen
-- Every version of one kind that a view shows.
{seen_here} union all select x.* from memory x where {counts} union all select x.* from memory x where {counted}

-- fragment: seen_here
-- Those of its own line. `+` has SQLite go by `until`: of what lies on a branch, most has ended.
select x.* from line cross join {lookup memory x}
    x.branch_id = line.branch_id and x.kind = :kind and x.until > line.up_to and +x.position <= line.up_to {end_lookup x}
union all
select x.* from live cross join {lookup memory x}
    x.group_id = live.group_id and x.kind = :kind and x.origin is null and x.id <= live.up_to {end_lookup x}

-- fragment: seen_here_of
-- The same of some keys.
select x.* from line cross join wanted cross join {lookup memory x}
    x.branch_id = line.branch_id and x.kind = :kind and x.key = wanted.key and x.until > line.up_to
    and x.position <= line.up_to {end_lookup x}
union all
select x.* from live cross join {lookup memory x}
    x.group_id = live.group_id and x.kind = :kind and x.key in (select key from wanted) and x.origin is null
    and x.id <= live.up_to {end_lookup x}

-- fragment: counting_of
-- Every version of some keys that counts of others.
select x.* from wanted cross join {lookup memory x} x.key = wanted.key and {counts} {end_lookup x}
union all
select x.* from wanted cross join {lookup memory x} x.key = wanted.key and {counted} {end_lookup x}

-- fragment: seen_of
-- Every version of some keys that a view shows; of others the newest.
{seen_here_of}
union all
select x.* from wanted cross join memory x where cast(:before as bigint) is null and x.id = ({newest_of_others})
union all
select x.* from memory x where cast(:before as bigint) is not null and x.key in (select key from wanted) and {counts}
union all
select x.* from memory x where x.key in (select key from wanted) and {counted}

-- fragment: keys_counting
-- Every key of a kind that counts in a scope, from one to the next.
with recursive k (key) as (
    select min(key) from memory where scope_id = :scope and kind = :kind and gone = 4611686018427387904
    union all
    select (
        select min(n.key) from memory n
        where n.scope_id = :scope and n.kind = :kind and n.gone = 4611686018427387904 and n.key > k.key
    ) from k where k.key is not null
) select key from k

-- fragment: newest_of_others
-- The newest that counts of others of a wanted key: one seek, however many have written it.
select m.id from memory m
where m.scope_id = :scope and m.kind = :kind and m.key = wanted.key and m.gone = 4611686018427387904 and m.author_id <> :author
order by m.stamp desc, coalesce(m.origin, m.id) desc
limit 1

-- fragment: newer_there
-- Those newer versions of the row x that lie on the level l of a line.
{lookup memory n}
    n.branch_id = l.branch_id and n.kind = x.kind and n.key = x.key and n.position <= l.up_to and n.until > l.up_to
    and (coalesce(n.stamp, 4611686018427387904), coalesce(n.origin, n.id)) > ({order}) {end_lookup n}

-- fragment: newer
-- Whether a view shows a newer version of the row x.
select 1 from line l cross join {newer_there}
union all
select 1 from live g cross join {lookup memory n}
    n.group_id = g.group_id and n.kind = x.kind and n.key = x.key and n.origin is null and n.id <= g.up_to
    and (coalesce(n.stamp, 4611686018427387904), n.id) > ({order}) {end_lookup n}
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

-- fragment: wanted_here
x.deleted = 0 and (cast(:label as text) is null or x.label = :label)
            and (x.expires_at is null or x.expires_at > cast(:at as bigint)) and not exists ({newer})

-- fragment: series
-- The thread under whose name a search finds what the group g wrote.
(
    select r.name from memory d join search_series r on r.id = d.document_id / 4194304
    where d.group_id = g.group_id and d.document_id is not null
    limit 1
)

-- fragment: kept
-- What is told of a row r.
coalesce(r.origin, r.id) as number, r.branch_id, r.kind, r.key, r.label, r.importance, r.expires_at, r.extra,
    r.created_at, r.written_at, r.source, r.actor, c.body, ({writer}) as thread

-- fragment: ranked
-- The versions of each key that are seen, the newest first.
select x.*, row_number() over (
    partition by key order by coalesce(stamp, 4611686018427387904) desc, coalesce(origin, id) desc, id
) as rank
from seen x

-- fragment: current
-- What is there of the newest versions: neither deleted nor expired.
select {kept}
from ranked r
left join content c on c.id = r.content_id
where r.rank = 1 and r.deleted = 0 and (r.expires_at is null or r.expires_at > cast(:at as bigint))
order by case when cast(:scope as bigint) is null then 0 else coalesce(r.stamp, 4611686018427387904) end, number

-- fragment: writer
-- The thread that wrote the row r, also while it is not committed; null for a branch.
select coalesce(
    (select a.name from author a where a.id = r.author_id),
    (
        select t.name from memory_group g join thread t on t.id = g.thread_id
        where g.id = r.group_id and r.author_id is null
    )
)

-- fragment: held
-- Whether the row m can be seen from somewhere; or a copy of it can, which a search finds by the original's document.
{stood_on} union all select 1 from memory k where k.origin = m.id

-- fragment: stood_on
-- Whether somebody stands where the row m can be seen: a checkpoint, a fork, or a subgraph; or a kept checkpoint still has the
-- result of the task that wrote it, which a later run seals again.
select 1 from place p where p.branch_id = m.branch_id and p.position >= m.position and p.position < m.until
union all
select 1 from branch b where b.parent_id = m.branch_id and b.parent_position >= m.position and b.parent_position < m.until
union all
select 1 from branch_base s where s.base_id = m.branch_id and s.base_position >= m.position and s.base_position < m.until
union all
select 1 from base_group s where s.group_id = m.group_id
union all
select 1 from finished_group g
join finished_task f on f.thread_id = g.thread_id and f.task = g.task
join checkpoint_line l on l.thread_id = f.thread_id and l.ns = f.ns
join checkpoint c on c.line_id = l.id and c.name = f.checkpoint
where g.group_id = m.group_id and m.origin is null and m.branch_id is not null

-- name: line_from
-- The line that leads to a position: its branch, those that it was forked from, and, where `own` is 1, what a subgraph
-- stands on. `own` marks where such a chain of forks begins, `based` a branch that is not newer than all behind it.
with recursive chain (depth, branch_id, up_to, own) as (
    select 0, cast(:branch as bigint), cast(:position as bigint), cast(:own as bigint)
    union all
    select chain.depth + 1, b.parent_id, b.parent_position, 0
    from chain cross join branch b
    where b.id = chain.branch_id and b.parent_id is not null
    union all
    select chain.depth + 1, s.base_id, s.base_position, 1
    from chain cross join branch_base s
    where chain.own = 1 and s.branch_id = chain.branch_id and s.base_id is not null
)
select chain.branch_id, chain.up_to, chain.own, case when chain.own = 1 then s.groups end as groups, s.branch_id as based
from chain
left join branch_base s on s.branch_id = chain.branch_id
order by chain.depth;

-- name: current_memory
-- Everything of one kind that a view shows.
with {view}, seen as ({seen}), ranked as ({ranked}) {current};

-- name: current_of_few_keys
-- The same as of now in a scope, of a kind that has few keys, which many may have written: each costs two seeks.
with {view}, wanted (key) as materialized (
    select key from ({keys_counting}) found where key is not null
), seen as ({seen_here}
    union all
    select x.* from wanted cross join memory x where x.id = ({newest_of_others})
), ranked as ({ranked})
{current};

-- name: named_memory
-- What a view shows under some keys, the expired and the deleted included.
with {view}, wanted (key) as materialized ({texts keys}), seen as ({seen_of}), ranked as ({ranked})
select r.deleted,
{kept}
from ranked r
left join content c on c.id = r.content_id
where r.rank = 1
order by number;

-- name: keys_saying
-- The keys of a kind under which a view may show just this content; not all of them are seen there.
with {view}
select distinct m.key from memory m
where m.content_id = (select id from content where hash = :hash) and m.kind = :kind and (
    m.branch_id in (select branch_id from line) or m.group_id in (select group_id from live)
    or m.scope_id = cast(:scope as bigint)
);

-- fragment: account
-- Of each thing of a kind whose versions are put together: the newest of the own line, and of each other author. Those that
-- say that it is gone are told too.
ranked as (
    select x.*, row_number() over (
        partition by key, mine, case mine when 1 then 0 else author_id end
        order by coalesce(stamp, 4611686018427387904) desc, coalesce(origin, id) desc, id
    ) as rank
    from seen x
)
select r.deleted, r.mine, r.author_id, coalesce(r.stamp, 4611686018427387904) as newness,
{kept}
from ranked r
left join content c on c.id = r.content_id
where r.rank = 1
order by r.key, newness, number

-- name: accounts
with {view}, seen as (
    select h.*, 1 as mine from ({seen_here}) h
    union all
    select x.*, 0 from memory x where {counts}
    union all
    select x.*, 0 from memory x where {counted}),
{account};

-- name: accounts_of
-- The same of some keys.
with {view}, wanted (key) as materialized ({texts keys}), seen as (
    select h.*, 1 as mine from ({seen_here_of}) h
    union all
    select o.*, 0 from ({counting_of}) o
),
{account};

-- name: fact_keys
-- The keys of what counts of others, by subjects, objects and labels.
select distinct x.key from memory x
where (({counts}) or ({counted})) and x.subject is not null and x.deleted = 0
    and (cast(:subjects as text) is null or x.subject {in_texts subjects})
    and (cast(:objects as text) is null or x.object {in_texts objects})
    and (cast(:labels as text) is null or x.label {in_texts labels});

-- name: newest_memory
-- The newest of one kind that a view shows, the newest first.
with {view}, picked (id) as (
    select m.id from line cross join {lookup_first memory m} (
        select x.id from memory x
        where x.branch_id = line.branch_id and x.kind = :kind and x.position <= line.up_to and x.until > line.up_to
            and {wanted_here}
        order by x.position desc, coalesce(x.origin, x.id) desc
        limit cast(:limit as bigint)
    ) {end_first m}
    union
    select x.id from live cross join {lookup memory x}
        x.group_id = live.group_id and x.kind = :kind and x.origin is null and x.id <= live.up_to
        and {wanted_here} {end_lookup x}
    union
    select id from (
        select x.id from memory x
        where {counts} and {wanted_here}
        order by x.stamp desc, coalesce(x.origin, x.id) desc
        limit cast(:limit as bigint)
    ) now_counting
    union
    select x.id from memory x where {counted} and {wanted_here}
), once (id) as (
    select min(x.id) from picked cross join {lookup memory x} x.id = picked.id {end_lookup x} group by coalesce(x.origin, x.id)
)
select {kept}
from (select x.* from once cross join {lookup memory x} x.id = once.id {end_lookup x}) r
left join content c on c.id = r.content_id
order by case when cast(:scope as bigint) is null then 0 else coalesce(r.stamp, 4611686018427387904) end desc, number desc
limit cast(:limit as bigint);

-- name: shown_memory
-- Which of some rows a view shows.
with {view}, wanted (id) as materialized ({numbers ids}), found as materialized (
    select x.* from wanted cross join {lookup memory x} x.id = wanted.id {end_lookup x}
    union
    select x.* from wanted cross join {lookup memory x} x.origin = wanted.id {end_lookup x}
), shown as (
    select x.* from found x join line on line.branch_id = x.branch_id and x.position <= line.up_to and x.until > line.up_to
    union
    select x.* from found x join live on live.group_id = x.group_id and x.origin is null and x.id <= live.up_to
    union
    select x.* from found x where {counts_of_any}
)
select distinct coalesce(x.origin, x.id) as number from shown x
where x.deleted = 0 and (x.expires_at is null or x.expires_at > cast(:at as bigint))
    and not exists ({newer});

-- name: insert_memory
-- Content may have been collected by others since this transaction found it there. Its id is then 0, which breaks the
-- foreign key, and the operation begins again.
with given as materialized (select (select id from content where hash = cast(:hash as {blob})) as content_id)
insert into memory (
    branch_id, position, group_id, kind, key, label, subject, object, content_id, deleted, importance, expires_at, extra,
    document_id, created_at, written_at, scope_id, author_id, stamp, gone, source, actor
)
select :branch, :position, :group, :kind, :key, :label, :subject, :object,
    case when cast(:hash as {blob}) is not null then coalesce(given.content_id, 0) end,
    :deleted, :importance, :expires_at, :extra, :document, :created_at, :now,
    :scope, :author, :stamp, :gone, :source, :actor
from given
returning id;

-- name: insert_source
insert into memory_source (memory_id, source) values (:memory, :source);

-- name: supersede
-- A branch's own version of a key ends where the next one begins. With an author only what is theirs ceases to count.
update memory
set until = :position,
    gone = case
        when gone = 4611686018427387904 and (cast(:author as bigint) is null or author_id = cast(:author as bigint))
            then coalesce(cast(:stamp as bigint), gone)
        else gone
    end
where branch_id = :branch and kind = :kind and key = :key and until = 4611686018427387904
returning id, extra;

-- fragment: past
-- Whether a checkpoint of the namespace shows the row m of "main", though that has ended since. With `+ 0` SQLite goes by the
-- index of the expression.
select 1 from checkpoint k
where k.namespace_id = m.scope_id and coalesce(k.seen, k.created_at) >= m.stamp + 0
    and coalesce(k.seen, k.created_at) < m.gone + 0

-- name: releasable
-- Those of some rows that nobody can see any more, with what they hold. With `past` checkpoints of the namespace may see them.
select m.id, m.document_id, c.hash, c.body, m.extra
from memory m
left join content c on c.id = m.content_id
where m.id {in_numbers ids} and not exists ({held}) and m.correction is null and (cast(:past as bigint) = 0 or not exists ({past}));

-- name: superseded_memory
-- What ended on the branch "main" of a namespace and can be seen from nowhere any more.
select m.id, m.document_id, c.hash, c.body, m.extra
from branch b
join memory m on m.branch_id = b.id and m.until < 4611686018427387904 and m.kind in ({shared})
left join content c on c.id = m.content_id
where b.namespace_id = :scope and b.kind = 'layers' and b.name = 'main' and m.correction is null and not exists ({past}) and not exists ({held})
limit cast(:limit as bigint);

-- name: delete_memory
delete from memory where id = :id;

-- name: bury_memory
-- A version says from now on that the thing is gone.
update memory
set deleted = 1, content_id = null, document_id = null, label = null, subject = null, object = null, importance = null,
    expires_at = null, extra = null, source = null, actor = null, correction = null, gone = case when cast(:gone as bigint) = 1 then 0 else gone end
where id = :id;

-- name: expired_memory
-- A branch's own rows that have expired.
select kind, key from memory
where branch_id = :branch and until = 4611686018427387904 and expires_at <= :at
order by id
limit cast(:limit as bigint);

-- name: hold_group
-- Whoever seals the group waits until what is written to it now is there.
select id from memory_group where id = :group {for_update};

-- name: create_group
insert into memory_group (id, thread_id, ns, checkpoint, task, owner, created_at)
values (:group, :thread, :ns, :checkpoint, :task, :owner, :now)
on conflict (id) do nothing;

-- name: is_sealed
select 1 as sealed from seal where group_id = :group limit 1;

-- name: place_of
select branch_id, position from place where line_id = :line and checkpoint = :checkpoint;

-- name: checkpoint_there
select 1 as there from checkpoint where line_id = :line and name = :checkpoint;

-- name: place_of_twin
-- The place of another child of the same parent, whose values are the same.
select p.branch_id, p.position
from checkpoint c
join place p on p.line_id = c.line_id and p.checkpoint = c.name
where c.line_id = :line and coalesce(c.parent, '') = coalesce(cast(:parent as text), '') and c.versions = :versions and c.name <> :checkpoint
order by c.name desc
limit 1;

-- name: head_but
-- The same with its place.
select c.name, p.branch_id, p.position
from checkpoint c
left join place p on p.line_id = c.line_id and p.checkpoint = c.name
where c.line_id = :line and c.name <> :checkpoint
order by c.name desc
limit 1;

-- name: head_of
-- The place of the newest checkpoint of a thread.
select p.branch_id, p.position
from checkpoint_line l
join checkpoint c on c.line_id = l.id and c.name = (select max(o.name) from checkpoint o where o.line_id = l.id)
left join place p on p.line_id = c.line_id and p.checkpoint = c.name
where l.thread_id = :thread and l.ns = '';

-- name: lock_head
-- Who writes next waits here.
select head, thread from branch where id = :branch {for_update};

-- name: hold_thread
-- Two runs of one thread move its head one after the other.
select t.id, a.id as author, t.namespace_id as scope from thread t left join author a on a.thread_id = t.id
where t.id = :thread
{for_no_key_update_of t};

-- name: move_marks
-- The head of a thread has moved from one line to another. On a branch that these show up to `before` and `after`, of
-- which `low` and `high` are the less and the more, what the thread wrote begins to count or ceases to.
update memory
set gone = case
    when position <= :after and until > :after and stamp is not null then 4611686018427387904
    when gone = 4611686018427387904 then cast(:stamp as bigint)
    else gone
end
where branch_id = :branch and author_id = :author and kind in ({shared})
    and ((position > :low and position <= :high) or (position <= :low and until > :low and until <= :high));

-- name: insert_place
insert into place (line_id, checkpoint, branch_id, position) values (:line, :checkpoint, :branch, :position)
on conflict (line_id, checkpoint) do nothing;

-- name: move_place
insert into place (line_id, checkpoint, branch_id, position) values (:line, :checkpoint, :branch, :position)
on conflict (line_id, checkpoint) do update set branch_id = excluded.branch_id, position = excluded.position;

-- name: base_of
select base_id, base_position, checkpoint, groups from branch_base where branch_id = :branch;

-- name: insert_base
insert into branch_base (branch_id, base_id, base_position, checkpoint, groups)
values (:branch, :base, :base_position, :checkpoint, :groups);

-- name: insert_base_group
insert into base_group (group_id, branch_id) values (:group, :branch);

-- name: begin_branch
-- A branch of a thread, which begins at a position of another where it has a parent.
insert into branch (namespace_id, kind, thread, parent_id, parent_position, created_at)
select id, :kind, :thread, cast(:parent as bigint), cast(:position as bigint), cast(:now as bigint)
from namespace where path = :path
returning id;

-- name: groups_on
-- The groups that lie on a line, and those of some groups that lie on any.
with {view}
select s.group_id from line cross join seal s
where s.branch_id = line.branch_id and s.position <= line.up_to
union
select live.group_id from live where exists (select 1 from seal s where s.group_id = live.group_id);

-- name: remembers
-- Whether tasks remembered something on a line, or on what it stands on.
with {view}
select 1 as found from line cross join seal s
where s.branch_id = line.branch_id and s.position <= line.up_to and cast(:groups as text) is not null
union all
select 1 from line cross join branch_base b where b.branch_id = line.branch_id
limit 1;

-- name: branches_of_originals
-- The branches on which the originals of copies lie that lie on some branches.
select distinct o.branch_id as id from memory m join memory o on o.id = m.origin
where o.branch_id is not null and m.branch_id {in_numbers ids};

-- name: held_elsewhere
-- Whether something else than a thread needs what lies on some branches: another thread, a branch, or a copy.
select 1 as found from place p join checkpoint_line l on l.id = p.line_id
where l.thread_id <> :thread and p.branch_id {in_numbers ids}
union all
select 1 from branch b where b.parent_id {in_numbers ids} and b.id not in ({numbers ids})
union all
select 1 from branch_base s where s.base_id {in_numbers ids} and s.branch_id not in ({numbers ids})
union all
select 1 from memory o join memory m on m.origin = o.id
where o.branch_id {in_numbers ids} and m.branch_id not in ({numbers ids})
limit 1;

-- name: documents_to_move
-- The documents of what lies on some branches, and of what a thread wrote that lies nowhere, in other namespaces than one.
select d.id, d.owner, d.created_at, d.role, c.kind, s.name, held.owners
from (
    select cast('entry' as text) as owners, document_id from entry where branch_id {in_numbers ids}
    union all
    select 'memory', document_id from memory where branch_id {in_numbers ids}
    union all
    select 'memory', document_id from memory
    where branch_id is null and group_id in (select g.id from memory_group g where g.thread_id = :thread)
) held
join search_document d on d.id = held.document_id
join search_series s on s.id = d.id >> 22
join search_scope c on c.id = s.scope_id
where c.namespace_id <> :namespace
order by d.id
limit cast(:limit as bigint);

-- name: move_pasts
update checkpoint set namespace_id = (
    select namespace_id from branch where namespace_id = :namespace and kind = 'layers' and name = 'main'
)
where line_id in (select id from checkpoint_line where thread_id = :thread);

-- name: sealable
-- Those of some groups that are there and do not lie on a line, the thread whose task wrote each that lies nowhere yet,
-- the thread under whose name a search finds them, and whether one that lies elsewhere is older than what the line shows.
with {view}
select g.group_id, (select w.thread_id from memory_group w where w.id = g.group_id) as writer,
{series}
    as series,
    case when not exists (select 1 from memory_group w where w.id = g.group_id) and exists (
        select 1 from line cross join (
            select m.kind, min(coalesce(m.origin, m.id)) as number from memory m where m.group_id = g.group_id group by m.kind
        ) o
        where o.number < (
            select coalesce(x.origin, x.id) from memory x
            where x.branch_id = line.branch_id and x.kind = o.kind and x.position <= line.up_to
            order by x.position desc, coalesce(x.origin, x.id) desc
            limit 1
        )
    ) then 1 else 0 end as late
from live g
where exists (select 1 from memory m where m.group_id = g.group_id)
    and not exists (
        select 1 from line cross join seal s
        where s.group_id = g.group_id and s.branch_id = line.branch_id and s.position <= line.up_to
    )
order by g.group_id;

-- fragment: counting
-- Whether what an author wrote begins to count with the put that seals it: of the kinds that are shared, at the head.
case when cast(:heads as bigint) = 1 and author_id = cast(:author as bigint) and kind in ({shared}) then 4611686018427387904 else 0 end

-- fragment: shared
'core', 'event', 'record', 'fact', 'fact_former', 'fact_rule', 'message'

-- name: author_of_thread
select a.id, t.namespace_id as scope from thread t left join author a on a.thread_id = t.id where t.id = :thread;

-- name: create_author
insert into author (namespace_id, name, thread_id) select namespace_id, name, id from thread where id = :thread
on conflict (thread_id) do nothing
returning id;

-- name: author_of_main
select a.id, n.id as scope from namespace n
left join author a on a.namespace_id = n.id and a.name is null
where n.path = :path;

-- name: create_main_author
insert into author (namespace_id) select id from namespace where path = :path on conflict do nothing returning id;

-- name: delete_idle_authors
-- Those of a namespace whose threads are gone, of whom nothing is left.
delete from author
where namespace_id = (select id from namespace where path = :path) and thread_id is null
    and not exists (select 1 from memory m where m.author_id = author.id);

-- name: newest_stamp
-- The greatest stamp of what counts under the keys that some groups write.
select max(stamp) as stamp from (
    select (
        select max(o.stamp) from memory o
        where o.scope_id = :scope and o.kind = m.kind and o.key = m.key and o.gone = 4611686018427387904
    ) as stamp
    from memory m where m.group_id {in_numbers ids}
) x;

-- name: newest_stamp_named
-- The same of some kinds and keys.
select max(stamp) as stamp from (
    select (
        select max(o.stamp) from memory o
        where o.scope_id = :scope and o.kind = wanted.first and o.key = wanted.second and o.gone = 4611686018427387904
    ) as stamp
    from ({pairs keys}) wanted
) x;

-- name: scope_of_thread
-- The namespace of a path, and the author that a thread of it is.
select n.id as scope, a.id as author
from namespace n
left join thread t on t.namespace_id = n.id and t.name = :name
left join author a on a.thread_id = t.id
where n.path = :path;

-- name: seen_at
-- Up to which stamp the view of a checkpoint goes.
select coalesce(seen, created_at) as stamp from checkpoint where line_id = :line and name = :name;

-- name: see
update checkpoint set seen = :stamp where line_id = :line and name = :name and coalesce(seen, created_at) < :stamp;

-- name: handed_over
-- The copies at a position of a branch whose originals nobody else sees.
select k.id as copy, k.origin as original from memory k
join memory m on m.id = k.origin
where k.branch_id = :branch and k.position = :position
    and not exists (select 1 from memory other where other.origin = m.id and other.id <> k.id)
    and not exists ({stood_on});

-- name: hand_over
-- An original takes the place of its copy.
update memory
set branch_id = (select k.branch_id from memory k where k.id = :copy),
    position = (select k.position from memory k where k.id = :copy),
    until = (select k.until from memory k where k.id = :copy),
    gone = (select k.gone from memory k where k.id = :copy), group_id = null
where id = :original;

-- name: teaches
-- Whether something counts of an author that stays when its thread is deleted, as messages do not.
select 1 as found from memory where author_id = :author and gone = 4611686018427387904 and kind <> 'message' limit 1;

-- name: fold
-- What counts of an author on a line, once more on "main", but for messages, and keys of which "main" has something newer.
with {view}, mine as (
    select x.* from line cross join memory x
    where x.branch_id = line.branch_id and x.position <= line.up_to and x.until > line.up_to and x.author_id = :teacher
        and x.gone = 4611686018427387904 and x.kind <> 'message'
        and not exists ({newer})
)
insert into memory (
    branch_id, position, origin, kind, key, label, subject, object, content_id, deleted, importance, expires_at, extra,
    created_at, written_at, scope_id, author_id, source, actor, stamp, gone
)
select cast(:branch as bigint), cast(:position as bigint), coalesce(origin, id), kind, key, label, subject, object,
    content_id, deleted, importance, expires_at, extra, created_at, written_at, scope_id, author_id, source, actor, stamp,
    gone
from mine
where not exists (
    select 1 from memory n
    where n.branch_id = :branch and n.kind = mine.kind and n.key = mine.key and n.until = 4611686018427387904
        and (n.stamp, coalesce(n.origin, n.id)) >= (mine.stamp, coalesce(mine.origin, mine.id))
)
returning id;

-- name: supersede_folded
-- What lies on "main" ends where newer versions of it came from a thread.
update memory
set until = :position, gone = case when gone = 4611686018427387904 then cast(:now as bigint) else gone end
where id in (
    select older.id
    from memory newer
    join memory older on older.branch_id = newer.branch_id and older.kind = newer.kind and older.key = newer.key
        and older.until = 4611686018427387904 and older.position < newer.position
    where newer.branch_id = :branch and newer.position = :position
)
returning id;

-- name: rows_of_authors
-- What the threads of an id wrote in the namespaces of a range, that is still there, and whether it lies on "main".
select m.id, m.origin, m.document_id, c.hash, c.body, m.extra,
    case when b.kind = 'layers' then 1 else 0 end as on_main
from author a
join namespace n on n.id = a.namespace_id
join memory m on m.author_id = a.id
left join branch b on b.id = m.branch_id
left join content c on c.id = m.content_id
where n.path >= :low and n.path < :high and a.name = :name
order by m.id;

-- name: authors_named
select a.id, n.path from author a join namespace n on n.id = a.namespace_id
where n.path >= :low and n.path < :high and a.name = :name and a.thread_id is null;

-- name: anonymize
-- Nothing tells any more who an author was, of whom something is left on the lines of others.
update author set name = '' where id = :id;

-- name: unmark
-- What an author wrote does not count any more but where it was folded.
update memory set gone = 0 where author_id = :author and gone > 0 and branch_id <> :branch;

-- name: has_other_authors
select 1 as found from author where namespace_id = :scope and name is not null limit 1;

-- name: seal_group
-- What a group wrote lies on a branch from now on.
update memory
set branch_id = :branch, position = :position, scope_id = :scope, author_id = :author, stamp = :stamp,
    gone = case when cast(:heads as bigint) = 1 and kind in ({shared}) then 4611686018427387904 else 0 end
where group_id = :group and branch_id is null;

-- name: stamp_group
-- What a group wrote is committed now. It lies on branches of subgraphs already, and is no newer there.
update memory set stamp = :stamp where group_id = :group and stamp is null;

-- name: copy_group
-- A group that lies on another branch already, once more; also one that another run sealed there just now.
insert into memory (
    branch_id, position, group_id, origin, kind, key, label, subject, object, content_id, deleted, importance,
    expires_at, extra, created_at, written_at, scope_id, author_id, source, actor, stamp, gone
)
select cast(:branch as bigint), cast(:position as bigint), group_id, coalesce(origin, id), kind, key, label, subject,
    object, content_id, deleted, importance, expires_at, extra, created_at, written_at, scope_id, author_id, source, actor,
    coalesce((select min(o.stamp) from memory o where o.group_id = :group), cast(:stamp as bigint)),
{counting}
from memory
where id in (select min(m.id) from memory m where m.group_id = :group group by coalesce(m.origin, m.id))
    and not exists (
        select 1 from memory m where m.group_id = :group and m.branch_id = :branch and m.position = :position
    )
order by coalesce(origin, id)
on conflict (id) do nothing;

-- name: supersede_sealed
-- What lies on a branch ends where newer versions of it were sealed.
update memory
set until = :position,
    gone = case
        when gone = 4611686018427387904 and author_id = cast(:author as bigint) and cast(:heads as bigint) = 1
            then cast(:stamp as bigint)
        else gone
    end
where id in (
    select older.id
    from memory newer
    join memory older on older.branch_id = newer.branch_id and older.kind = newer.kind and older.key = newer.key
        and older.until = 4611686018427387904
        and coalesce(older.origin, older.id) < coalesce(newer.origin, newer.id)
    where newer.group_id = :group and newer.branch_id = :branch and newer.position = :position
);

-- name: said_on
-- What the line that leads to a position shows under the ids of some messages of one author, the newest last; and, under no
-- id, whether it shows any of theirs at all.
with recursive line (branch_id, up_to) as (
    select cast(:branch as bigint), cast(:position as bigint)
    union all
    select b.parent_id, b.parent_position from line cross join branch b
    where b.id = line.branch_id and b.parent_id is not null
), wanted (key) as materialized ({texts keys})
select x.key, x.hash from (
    select m.key, c.hash, m.stamp, m.id
    from line cross join wanted cross join memory m left join content c on c.id = m.content_id
    where m.branch_id = line.branch_id and m.kind = 'message' and m.key = wanted.key and m.until > line.up_to
        and m.position <= line.up_to and m.author_id + 0 = cast(:author as bigint)
    union all
    select null, null, 0, 0
    where exists (
        select 1 from line cross join memory m
        where m.branch_id = line.branch_id and m.kind = 'message' and +m.position <= line.up_to
            and m.author_id + 0 = cast(:author as bigint)
    )
) x
order by x.stamp, x.id;

-- name: extend_branch
-- A branch that a thread began goes on, unless it has done so already.
update branch set head = head + 1 where id = :branch and head = :position and thread = :thread returning head;

-- name: insert_said
-- A message was said on a line. Its content may have been collected by others since this transaction found it there. Its
-- id is then 0, which breaks the foreign key, and the operation begins again.
with given as materialized (select (select id from content where hash = :hash) as content_id)
insert into memory (
    branch_id, position, kind, key, content_id, created_at, written_at, scope_id, author_id, stamp, gone, source
)
select :branch, :position, 'message', :key, coalesce(given.content_id, 0), :created_at, :now, :scope, :author, :stamp,
    :gone, :source
from given
where true on conflict (id) do nothing;

-- name: copy_said
-- What a thread said was said in a copy of it, too, at the same places. It counts as the thread's alone.
insert into memory (
    branch_id, position, until, origin, kind, key, content_id, deleted, created_at, written_at, scope_id, author_id, stamp, gone,
    source
)
select m.branch_id, m.position, m.until, coalesce(m.origin, m.id), m.kind, m.key, m.content_id, m.deleted, m.created_at,
    m.written_at, m.scope_id, cast(:target as bigint), m.stamp, 0, m.source
from memory m
where m.author_id = :source and m.kind = 'message' and m.branch_id is not null
    and not exists (
        select 1 from memory o
        where o.branch_id = m.branch_id and o.kind = 'message' and o.key = m.key and o.position = m.position
            and o.author_id + 0 = cast(:target as bigint)
    )
order by m.id;

-- name: said_of
-- What a thread said, or some of it, wherever it lies.
select m.id, m.document_id, c.hash, c.body, m.extra
from namespace n
join author a on a.namespace_id = n.id
join memory m on m.author_id = a.id and m.kind = 'message'
left join content c on c.id = m.content_id
where n.path = :path and a.name = :name and m.deleted = 0 and (cast(:keys as text) is null or m.key {in_texts keys});

-- name: shown_said
-- Those of some messages that follow their threads which a view shows, with the wording that it shows. With `anywhere` what the
-- newest checkpoints show, in whatever namespace. What a copy of a thread was given is its own: of the line only what is said
-- in the thread of this `name` is told; and of other copies, where threads share what they remember, that which is looked for
-- in the conversations `keys` alone.
with {view}, wanted (id) as materialized ({numbers ids}), told as (
    select e.id as slot, e.key, w.id as author, w.namespace_id as scope, w.name,
        n.path <> '' and w.name not in ({texts keys}) as teaching
    from wanted cross join entry e cross join branch o cross join author w cross join namespace n
    where e.id = wanted.id and o.id = e.branch_id and w.namespace_id = o.namespace_id and w.name = o.name
        and n.id = o.namespace_id
), said as (
    select told.slot, m.* from told cross join line cross join memory m
    where m.branch_id = line.branch_id and m.kind = 'message' and m.key = told.key and m.until > line.up_to
        and m.position <= line.up_to and m.author_id + 0 = told.author and told.name = cast(:name as text)
    union all
    select told.slot, m.* from told cross join memory m
    where m.scope_id = told.scope and m.kind = 'message' and m.key = told.key and m.gone = 4611686018427387904
        and m.author_id + 0 = told.author and m.author_id <> :author and (m.origin is null or not told.teaching)
        and (cast(:anywhere as bigint) = 1 or told.scope = cast(:scope as bigint))
        and (cast(:before as bigint) is null or m.stamp <= cast(:before as bigint))
    union all
    select told.slot, m.* from told cross join memory m
    where m.author_id = told.author and m.kind = 'message' and m.key = told.key and m.gone > 0
        and m.gone < 4611686018427387904 and m.author_id <> :author and told.scope = cast(:scope as bigint)
        and cast(:before as bigint) is not null and m.stamp <= cast(:before as bigint) and m.gone > cast(:before as bigint)
), ranked as (
    select said.*, row_number() over (partition by slot order by stamp desc, id desc) as rank from said
)
select r.slot, coalesce(
    max(case when g.content_id = r.content_id then g.id end), max(g.id)
) as wording
from ranked r
join entry g on g.id = r.slot or (g.replaces = r.slot and g.document_id is not null)
where r.rank = 1 and r.deleted = 0
group by r.slot;

-- name: insert_seal
insert into seal (group_id, branch_id, position, thread) values (:group, :branch, :position, :thread);

-- name: delete_group
delete from memory_group where id = :group;

-- name: last_rows
-- The last row of each of some groups.
select group_id, max(id) as row from memory where group_id {in_numbers ids} and origin is null group by group_id;

-- name: beginning
-- Where a checkpoint stands, and the tasks that finished under it: at least one row.
select p.branch_id, p.position, f.task, f.caller, f.groups
from (select cast(:line as bigint) as line_id) o
left join place p on p.line_id = o.line_id and p.checkpoint = :checkpoint
left join finished_task f on f.thread_id = :thread and f.ns = :ns and f.checkpoint = :checkpoint;

-- name: finished_at
-- The tasks that finished under a checkpoint.
select task, caller, groups from finished_task where thread_id = :thread and ns = :ns and checkpoint = :checkpoint;

-- name: insert_finished
-- The first success of a task counts. One of a run that remembered nothing has left its result alone.
insert into finished_task (thread_id, task, ns, checkpoint, caller, groups, created_at)
select cast(:thread as bigint), cast(:task as text), cast(:ns as text), cast(:checkpoint as text), cast(:caller as text),
    cast(:groups as text), cast(:now as bigint)
where not exists (
    select 1 from pending_write w
    where w.line_id = :line and w.checkpoint = :checkpoint and w.task = :task
        and w.channel not in ('__error__', '__error_source_node__', '__interrupt__', '__resume__')
)
on conflict (thread_id, task) do nothing;

-- name: insert_finished_groups
-- The same groups, to be looked up, if that success was the first.
with given (id) as ({numbers ids})
insert into finished_group (group_id, thread_id, task)
select given.id, f.thread_id, f.task from given cross join finished_task f
where f.thread_id = :thread and f.task = :task and f.groups = cast(:ids as text)
on conflict (group_id, thread_id, task) do nothing;

-- name: end_groups
-- An execution of a task ended without a result: whoever executes the task again takes its place.
update memory_group set ended = 1 where thread_id = :thread and task = :task and owner = :owner;

-- name: groups_of_task
-- What executions of a task wrote that has no place, and what the task had written when it finished.
select g.id, g.owner, g.ended, g.created_at, f.groups as finished
from memory_group g
left join finished_task f on f.thread_id = g.thread_id and f.task = g.task
where g.thread_id = :thread and g.task = :task;

-- name: rows_of_group
-- What a group wrote, to be discarded.
select m.id, m.document_id, c.hash, c.body, m.extra
from memory m
left join content c on c.id = m.content_id
where m.group_id = :group and m.branch_id is null;

-- name: copy_places
-- The places of a thread, for the checkpoints that a copy of it has.
insert into place (line_id, checkpoint, branch_id, position)
select theirs.id, p.checkpoint, p.branch_id, p.position
from checkpoint_line ours
join place p on p.line_id = ours.id
join checkpoint_line theirs on theirs.thread_id = :target and theirs.ns = ours.ns
join checkpoint c on c.line_id = theirs.id and c.name = p.checkpoint
where ours.thread_id = :source
on conflict (line_id, checkpoint) do nothing;

-- name: copy_finished
insert into finished_task (thread_id, task, ns, checkpoint, caller, groups, created_at)
select cast(:target as bigint), task, ns, checkpoint, caller, groups, created_at
from finished_task where thread_id = :source
on conflict (thread_id, task) do nothing;

-- name: copy_finished_groups
insert into finished_group (group_id, thread_id, task)
select s.group_id, f.thread_id, f.task
from finished_group s
join finished_task o on o.thread_id = s.thread_id and o.task = s.task
join finished_task f on f.thread_id = :target and f.task = o.task and f.groups = o.groups
where s.thread_id = :source
on conflict (group_id, thread_id, task) do nothing;

-- name: places_of_thread
-- The branches on which the checkpoints of a thread stand.
select distinct p.branch_id as id from checkpoint_line l join place p on p.line_id = l.id where l.thread_id = :thread;

-- name: branches_of_thread
-- The branches on which the checkpoints of a thread stand, those that it began, and those with what its tasks had written when
-- they finished.
select p.branch_id as id
from checkpoint_line l
join place p on p.line_id = l.id
where l.thread_id = :thread
union
select b.id from thread t
join branch b on b.namespace_id = t.namespace_id and b.thread = t.name
where t.id = :thread and b.kind = 'thread'
union
select m.branch_id from finished_group g
join memory m on m.group_id = g.group_id
where g.thread_id = :thread and m.branch_id is not null;

-- name: branches_before
-- Some branches, and those that they were forked from or stand on.
with recursive before (id) as (
    select b.id from branch b where b.id {in_numbers ids}
    union
    select case when side.base = 0 then b.parent_id else s.base_id end
    from before
    join branch b on b.id = before.id
    cross join (select 0 as base union all select 1) side
    left join branch_base s on s.branch_id = b.id
    where (side.base = 0 and b.parent_id is not null) or (side.base = 1 and s.base_id is not null)
)
select id from before order by id desc;

-- name: unheld_memory
-- What lies on some branches and cannot be seen from anywhere.
select m.id, m.origin, m.document_id, c.hash, c.body, m.extra
from memory m
left join content c on c.id = m.content_id
where m.branch_id {in_numbers ids} and m.correction is null and not exists ({held})
order by m.id
limit cast(:limit as bigint);

-- name: idle_branches
-- Those of some branches of threads on which nothing stands and nothing lies.
select b.id from branch b
where b.kind = 'thread' and b.id {in_numbers ids}
    and not exists (select 1 from place p where p.branch_id = b.id)
    and not exists (select 1 from branch f where f.parent_id = b.id)
    and not exists (select 1 from branch_base s where s.base_id = b.id)
    and not exists (select 1 from memory m where m.branch_id = b.id);

-- name: groups_of_thread
-- What the tasks of a thread wrote that has no place, and what they had written when they finished.
select id from memory_group where thread_id = :thread
union
select group_id from finished_group where thread_id = :thread;

-- name: stale_groups
-- What tasks of a thread wrote under checkpoints that are not there, long ago.
select g.id from memory_group g
where g.thread_id = :thread and g.created_at < :before
    and not exists (
        select 1 from checkpoint_line l join checkpoint c on c.line_id = l.id
        where l.thread_id = g.thread_id and l.ns = g.ns and c.name = g.checkpoint
    );

-- name: delete_stale_finished
delete from finished_task
where thread_id = :thread and created_at < :before
    and not exists (
        select 1 from checkpoint_line l join checkpoint c on c.line_id = l.id
        where l.thread_id = finished_task.thread_id and l.ns = finished_task.ns and c.name = finished_task.checkpoint
    );

-- name: mentions
-- Those of some groups that somebody needs, though they have no place: tasks that finished, and subgraphs.
select group_id from finished_group where group_id {in_numbers ids}
union
select group_id from base_group where group_id {in_numbers ids};

-- name: groups_there
select id from memory_group where id {in_numbers ids};

-- name: count_memory
-- How much of one kind a view shows.
with {view}, seen as ({seen}), ranked as (
    select x.deleted, x.expires_at, row_number() over (
        partition by key order by coalesce(stamp, 4611686018427387904) desc, coalesce(origin, id) desc, id
    ) as rank
    from seen x
)
select count(*) as found from ranked r
where r.rank = 1 and r.deleted = 0 and (r.expires_at is null or r.expires_at > cast(:at as bigint));

-- name: create_fork
-- A branch that begins at a position of another; no row where there is one of this name.
insert into branch (namespace_id, kind, name, parent_id, parent_position, created_at)
select namespace_id, kind, :name, id, cast(:position as bigint), cast(:now as bigint) from branch where id = :branch
on conflict (namespace_id, kind, name) do nothing
returning id;

-- name: branch_family
-- A branch, and all that were forked from it and from these.
with recursive family (id) as (
    select cast(:branch as bigint)
    union
    select b.id from family join branch b on b.parent_id = family.id
)
select b.id, b.name, b.parent_id, b.created_at from family join branch b on b.id = family.id
order by b.id;

-- name: branch_names
select id, name from branch where id {in_numbers ids};

-- name: threads_seen
-- The threads under whose names a search finds what a view shows.
with {view}
select b.thread as name from line join branch b on b.id = line.branch_id
union
select s.thread from line join seal s on s.branch_id = line.branch_id where s.thread is not null
union
select {series}
from live g;

-- name: branches_of
-- The branches on which some rows lie.
select distinct branch_id as id from memory where branch_id is not null and id {in_numbers ids};

-- name: branches_of_copies
-- The branches on which copies of some rows lie.
select distinct branch_id as id from memory where origin {in_numbers ids};

-- name: remembered
-- Rows as a search finds them, with where they stand.
select m.id, m.id as number, m.branch_id, m.until, m.key, m.kind, m.label, m.importance, m.expires_at,
    m.extra, m.created_at, m.written_at, m.scope_id, m.source, m.actor, a.name as thread, c.body,
    b.kind as branch_kind, s.name, n.path
from memory m
left join author a on a.id = m.author_id
join content c on c.id = m.content_id
left join branch b on b.id = m.branch_id
join search_series s on s.id = m.document_id / 4194304
join search_scope o on o.id = s.scope_id
join namespace n on n.id = o.namespace_id
where m.id {in_numbers ids};

-- name: memory_texts
select m.id, m.extra, c.body from memory m join content c on c.id = m.content_id where m.id {in_numbers ids};

-- name: newest_places
-- Where the newest checkpoints of the threads stand, whose memory lies on some branches or was forked from there.
with recursive below (id) as (
    select b.id from branch b where b.id {in_numbers ids}
    union
    select b.id from below join branch b on b.parent_id = below.id
), standing (line_id) as (
    select distinct p.line_id from below join place p on p.branch_id = below.id
)
select l.thread_id, p.branch_id, p.position
from standing
join checkpoint_line l on l.id = standing.line_id and l.ns = ''
join place p on p.line_id = l.id and p.checkpoint = (select max(c.name) from checkpoint c where c.line_id = l.id)
order by l.thread_id;

-- name: threads_of_runs
select distinct t.id
from checkpoint c
join checkpoint_line l on l.id = c.line_id
join thread t on t.id = l.thread_id
join namespace n on n.id = t.namespace_id
where n.path >= :low and n.path < :high and c.run_id {in_texts runs};

-- name: writes_of_runs
-- What some runs wrote towards checkpoints, by task.
select distinct t.shelf_id, t.id as thread_id, w.line_id, w.checkpoint, w.task, w.run_id
from pending_write w
join checkpoint_line l on l.id = w.line_id
join thread t on t.id = l.thread_id
join namespace n on n.id = t.namespace_id
where n.path >= :low and n.path < :high and w.run_id {in_texts runs}
order by w.line_id, w.checkpoint, w.task, w.run_id;

-- name: unfinish
-- A task has no result any more.
delete from finished_task where thread_id = :thread and task = :task and not exists (
    select 1 from pending_write w
    where w.line_id = :line and w.checkpoint = :checkpoint and w.task = :task
        and w.channel not in ('__error__', '__error_source_node__', '__interrupt__', '__resume__')
)
returning groups;
