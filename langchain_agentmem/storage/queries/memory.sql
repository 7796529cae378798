-- Memory on branches. Each row is one version of an entry, identified by kind and key. A row is valid on its branch
-- from `position` up to but without `until`.
--
-- A task of a graph writes its rows as a group, without a branch. A checkpoint seals the group: it assigns the rows to
-- a position on the branch of the thread. A group that is sealed on a second branch is copied; `copy_of` is the
-- original.
--
-- A view is the memory at a position. It consists of a lineage and of open groups. The lineage is a branch and the
-- branches that it was forked from, each up to a position (`up_to`). The open groups are groups that are not sealed
-- there, each up to a row. The base of a subgraph's branch is the position of the outer graph that the subgraph sees.
--
-- The author of a row is a thread, or the branch "main" of a namespace, which stores writes outside of threads. A row
-- is current if the newest checkpoint of its author shows it. Threads of one namespace share memory. So a view with a
-- `scope` (the id of the namespace) also shows the current rows of authors other than its own `author`. `stamp` is the
-- time of a row's first commit on the thread's own branch or on "main". With `before`, the view shows the rows that
-- were current at that stamp.
--
-- 4611686018427387904 is 2^62. As `until` it means that the version has not ended, and as `visible_until` that the
-- version is current. The newest version of a key is the one with the greatest stamp, then number. A row without a
-- stamp is newer than all rows with one. The number of a row is its id; a copy has the number of its original. Rows of
-- different keys are ordered by number or, where threads share memory, by stamp.

-- fragment: version_order
-- The sort key of the version x: the newest version of a key has the greatest one.
coalesce(x.stamp, 4611686018427387904), coalesce(x.copy_of, x.id)

-- fragment: is_visible
-- True if the version x of another author is current in the scope. If `before` is set, its stamp must not be later.
x.scope_id = :scope and x.kind = :kind and x.visible_until = 4611686018427387904 and x.author_id <> :author
    and (cast(:before as bigint) is null or x.stamp <= cast(:before as bigint))

-- fragment: is_visible_any_kind
-- True if the version x, of any kind and by another author, is current in the scope, or was at `before`, if that is set.
x.scope_id = :scope and x.author_id <> :author and x.visible_until > 0 and case
    when cast(:before as bigint) is null then x.visible_until = 4611686018427387904
    else x.stamp <= cast(:before as bigint) and x.visible_until > cast(:before as bigint)
end

-- fragment: was_visible
-- True if the version x of another author was current in the scope at the stamp `before`, but no longer is.
-- `is_visible` and `was_visible` are separate conditions, so that each can use its own index.
x.scope_id = :scope and x.kind = :kind and x.visible_until > 0 and x.visible_until < 4611686018427387904 and x.author_id <> :author
    and cast(:before as bigint) is not null and x.stamp <= cast(:before as bigint) and x.visible_until > cast(:before as bigint)

-- fragment: seen
-- Every version of one kind that a view may show. Only the newest version of each key is shown.
{seen_on_lineage} union all select x.* from memory x where {is_visible} union all select x.* from memory x where {was_visible}

-- fragment: seen_on_lineage
-- Every version of one kind on the lineage and in the open groups. `+` makes SQLite use the index on `until`, since
-- most rows of a branch have ended.
select x.* from lineage cross join {lookup memory x}
    x.branch_id = lineage.branch_id and x.kind = :kind and x.until > lineage.up_to and +x.position <= lineage.up_to {end_lookup x}
union all
select x.* from open_groups cross join {lookup memory x}
    x.group_id = open_groups.group_id and x.kind = :kind and x.copy_of is null and x.id <= open_groups.up_to {end_lookup x}

-- fragment: seen_on_lineage_of_keys
-- The same as `seen_on_lineage`, for the keys `wanted`.
select x.* from lineage cross join wanted cross join {lookup memory x}
    x.branch_id = lineage.branch_id and x.kind = :kind and x.key = wanted.key and x.until > lineage.up_to
    and x.position <= lineage.up_to {end_lookup x}
union all
select x.* from open_groups cross join {lookup memory x}
    x.group_id = open_groups.group_id and x.kind = :kind and x.key in (select key from wanted) and x.copy_of is null
    and x.id <= open_groups.up_to {end_lookup x}

-- fragment: seen_of_keys_by_others
-- Every version of the keys `wanted` by other authors that a view may show.
select x.* from wanted cross join {lookup memory x} x.key = wanted.key and {is_visible} {end_lookup x}
union all
select x.* from wanted cross join {lookup memory x} x.key = wanted.key and {was_visible} {end_lookup x}

-- fragment: seen_of_keys
-- Every version of the keys `wanted` that a view may show; by other authors, only the newest current one of each key.
{seen_on_lineage_of_keys}
union all
select x.* from wanted cross join memory x where cast(:before as bigint) is null and x.id = ({newest_of_others})
union all
select x.* from memory x where cast(:before as bigint) is not null and x.key in (select key from wanted) and {is_visible}
union all
select x.* from memory x where x.key in (select key from wanted) and {was_visible}

-- fragment: visible_keys
-- Every key of a kind with a current version in a scope. Each step of the recursion seeks the next key in the index.
with recursive k (key) as (
    select min(key) from memory where scope_id = :scope and kind = :kind and visible_until = 4611686018427387904
    union all
    select (
        select min(n.key) from memory n
        where n.scope_id = :scope and n.kind = :kind and n.visible_until = 4611686018427387904 and n.key > k.key
    ) from k where k.key is not null
) select key from k

-- fragment: newest_of_others
-- The newest current version of a key in `wanted` by other authors. The query takes one seek for any number of authors.
select m.id from memory m
where m.scope_id = :scope and m.kind = :kind and m.key = wanted.key and m.visible_until = 4611686018427387904 and m.author_id <> :author
order by m.stamp desc, coalesce(m.copy_of, m.id) desc
limit 1

-- fragment: newer_on_level
-- The newer versions of the row x on one branch l of a lineage.
{lookup memory n}
    n.branch_id = l.branch_id and n.kind = x.kind and n.key = x.key and n.position <= l.up_to and n.until > l.up_to
    and (coalesce(n.stamp, 4611686018427387904), coalesce(n.copy_of, n.id)) > ({version_order}) {end_lookup n}

-- fragment: newer
-- Returns a row if a view shows a newer version of the row x.
select 1 from lineage l cross join {newer_on_level}
union all
select 1 from open_groups g cross join {lookup memory n}
    n.group_id = g.group_id and n.kind = x.kind and n.key = x.key and n.copy_of is null and n.id <= g.up_to
    and (coalesce(n.stamp, 4611686018427387904), n.id) > ({version_order}) {end_lookup n}
union all
select 1 from memory n
where n.scope_id = :scope and n.kind = x.kind and n.key = x.key and n.visible_until = 4611686018427387904 and n.author_id <> :author
    and (cast(:before as bigint) is null or n.stamp <= cast(:before as bigint))
    and (n.stamp, coalesce(n.copy_of, n.id)) > ({version_order})
union all
select 1 from memory n
where cast(:before as bigint) is not null and n.scope_id = :scope and n.kind = x.kind and n.key = x.key and n.visible_until > 0
    and n.visible_until < 4611686018427387904 and n.author_id <> :author and n.stamp <= cast(:before as bigint)
    and n.visible_until > cast(:before as bigint) and (n.stamp, coalesce(n.copy_of, n.id)) > ({version_order})

-- fragment: is_wanted
-- True if the version x is the newest one that a view shows, is neither deleted nor expired, and has the wanted label,
-- if any.
x.deleted = 0 and (cast(:label as text) is null or x.label = :label)
            and (x.expires_at is null or x.expires_at > cast(:at as bigint)) and not exists ({newer})

-- fragment: search_thread
-- The name of the thread under which the rows of the group g are indexed for search.
(
    select s.name from memory m join search_series s on s.id = m.document_id / 4194304
    where m.group_id = g.group_id and m.document_id is not null
    limit 1
)

-- fragment: memory_columns
-- The columns of the row r that queries return.
coalesce(r.copy_of, r.id) as number, {version_columns}

-- fragment: version_columns
r.branch_id, r.kind, r.key, r.label, r.importance, r.expires_at, r.extra,
    r.created_at, r.written_at, r.source, r.actor, c.body, ({writer}) as thread

-- fragment: rank_versions
-- The ids of the versions in `seen`, ranked for each key from the newest.
select x.id, row_number() over (
    partition by key order by coalesce(stamp, 4611686018427387904) desc, coalesce(copy_of, id) desc, id
) as rank
from seen x

-- fragment: select_current
-- The newest versions that are neither deleted nor expired.
select {memory_columns}
from ranked cross join {lookup memory r} r.id = ranked.id and ranked.rank = 1 {end_lookup r}
left join content c on c.id = r.content_id
where r.deleted = 0 and (r.expires_at is null or r.expires_at > cast(:at as bigint))
order by case when cast(:scope as bigint) is null then 0 else coalesce(r.stamp, 4611686018427387904) end, number

-- fragment: writer
-- The name of the thread that wrote the row r, sealed or not; null for a row that was written on a named branch.
select coalesce(
    (select a.name from author a where a.id = r.author_id),
    (
        select t.name from memory_group g join thread t on t.id = g.thread_id
        where g.id = r.group_id and r.author_id is null
    )
)

-- fragment: referenced
-- Returns a row if the row m is needed or has a copy, since a search finds the copy by the document of the original.
{needed} union all select 1 from memory k where k.copy_of = m.id

-- fragment: needed
-- Returns a row if a checkpoint, a fork or a subgraph can see the row m, or if a checkpoint still has the result of the
-- task that wrote m. A run from that checkpoint uses the result and seals m again.
select 1 from checkpoint_position p where p.branch_id = m.branch_id and p.position >= m.position and p.position < m.until
union all
select 1 from branch b where b.parent_id = m.branch_id and b.parent_position >= m.position and b.parent_position < m.until
union all
select 1 from branch_base s where s.base_id = m.branch_id and s.base_position >= m.position and s.base_position < m.until
union all
select 1 from base_group s where s.group_id = m.group_id
union all
select 1 from finished_group g
join finished_task f on f.thread_id = g.thread_id and f.task = g.task
join checkpoint_ns l on l.thread_id = f.thread_id and l.ns = f.ns
join checkpoint c on c.ns_id = l.id and c.name = f.checkpoint
where g.group_id = m.group_id and m.copy_of is null and m.branch_id is not null

-- name: branch_lineage
-- The lineage of a position: its branch, the branches that it was forked from, and, with `with_bases` = 1, the bases of
-- subgraphs with their lineages. `via_base` = 1 marks the position itself and each base. `with_base` is the id of the
-- branch if it has a base, else null.
with recursive chain (depth, branch_id, up_to, via_base) as (
    select 0, cast(:branch as bigint), cast(:position as bigint), cast(:with_bases as bigint)
    union all
    select chain.depth + 1, b.parent_id, b.parent_position, 0
    from chain cross join branch b
    where b.id = chain.branch_id and b.parent_id is not null
    union all
    select chain.depth + 1, s.base_id, s.base_position, 1
    from chain cross join branch_base s
    where chain.via_base = 1 and s.branch_id = chain.branch_id and s.base_id is not null
)
select chain.branch_id, chain.up_to, chain.via_base, case when chain.via_base = 1 then s.groups end as groups, s.branch_id as with_base
from chain
left join branch_base s on s.branch_id = chain.branch_id
order by chain.depth;

-- name: current_memory
-- The newest versions of all entries of one kind that a view shows.
with {view}, seen as ({seen}), ranked as ({rank_versions}) {select_current};

-- name: current_memory_few_keys
-- The same as `current_memory`, for a view of a scope without `before`. Each key costs two seeks, so this query suits
-- kinds with few keys and any number of authors.
with {view}, wanted (key) as materialized (
    select key from ({visible_keys}) found where key is not null
), seen as ({seen_on_lineage}
    union all
    select x.* from wanted cross join memory x where x.id = ({newest_of_others})
), ranked as ({rank_versions})
{select_current};

-- name: memory_of_keys
-- The newest versions of some keys that a view shows, including expired and deleted ones.
with {view}, wanted (key) as materialized ({texts keys}), seen as ({seen_of_keys}), ranked as ({rank_versions})
select r.deleted,
{memory_columns}
from ranked cross join {lookup memory r} r.id = ranked.id and ranked.rank = 1 {end_lookup r}
left join content c on c.id = r.content_id
order by number;

-- fragment: here
-- One branch, up to a position.
(select cast(:branch as bigint) as id, cast(:up_to as bigint) as up_to) here

-- fragment: named_here
-- A named branch up to its head. Empty if a view of it may show rows of other branches: if the branch is a fork, or, with
-- `shared` = 1, if a thread of the namespace is an author.
(
    select branch.id, branch.head as up_to from branch
    where {is_named_branch} and branch.parent_id is null and (cast(:shared as bigint) = 0 or not exists ({other_authors}))
) here

-- fragment: lies_here
-- True for the versions r that a view of one branch may show.
r.branch_id = here.id and r.kind = :kind and r.until > here.up_to and +r.position <= here.up_to

-- fragment: lies_here_at_key
-- The same for a lookup by key. `+` makes SQLite use the index on the keys.
r.branch_id = here.id and r.kind = :kind and +r.until > here.up_to and +r.position <= here.up_to

-- fragment: in_open_group
-- True for the versions r of the open groups.
r.group_id = open_groups.group_id and r.kind = :kind and r.copy_of is null and r.id <= open_groups.up_to

-- fragment: newness
-- The columns that order versions, and with which the last version of a key is the newest. Of a copy and its original,
-- the original is last.
coalesce(r.stamp, 4611686018427387904) as newness, coalesce(r.copy_of, r.id) as number, -r.id as original

-- name: branch_memory
-- Every version of one kind that a view of one branch and of open groups may show, oldest first. The view shows the last
-- version of each key. A key has several versions on one branch if an older version was sealed at a later position.
with {open_groups}
select r.deleted, {newness}, {version_columns}
from {here} join memory r on {lies_here} left join content c on c.id = r.content_id
union all
select r.deleted, {newness}, {version_columns}
from open_groups cross join {lookup memory r} {in_open_group} {end_lookup r} left join content c on c.id = r.content_id
order by newness, number, original;

-- name: branch_memory_of_keys
-- The same as `branch_memory`, for some keys.
with {open_groups}
select r.deleted, {newness}, {version_columns}
from {here} join memory r on r.key {in_texts keys} and {lies_here_at_key} left join content c on c.id = r.content_id
union all
select r.deleted, {newness}, {version_columns}
from open_groups cross join {lookup memory r} {in_open_group} and r.key {in_texts keys} {end_lookup r}
left join content c on c.id = r.content_id
order by newness, number, original;

-- name: branch_sizes
-- The same as `branch_memory`, for some keys and without groups, with the size of each version. `total` is the size of
-- all versions on the branch. A key without a version has a row of nulls.
select r.key, r.deleted, r.expires_at, r.created_at, {version_size} as size, (
    select coalesce(sum({version_size}), 0) from memory r left join content c on c.id = r.content_id where {lies_here}
) as total
from {here} cross join ({texts keys}) wanted
{left_lookup memory r} r.key = wanted.value and {lies_here_at_key} {end_left_lookup r}
left join content c on c.id = r.content_id
order by coalesce(r.stamp, 4611686018427387904), coalesce(r.copy_of, r.id);

-- name: count_branch_memory
-- The number of versions of `branch_memory`.
with {open_groups}
select (select count(*) from {here} join memory r on {lies_here})
    + (select count(*) from open_groups cross join {lookup memory r} {in_open_group} {end_lookup r}) as total;

-- fragment: version_size
-- The size of the version r with the content c; null for a deletion mark.
length(r.key) + length(c.body) + 3

-- name: named_branch_memory
-- The same as `branch_memory`, for a named branch. A branch without such versions has a row of nulls.
select r.key, r.deleted, r.expires_at, r.created_at, c.body
from {named_here} {left_lookup memory r} {lies_here} {end_left_lookup r}
left join content c on c.id = r.content_id
order by coalesce(r.stamp, 4611686018427387904), coalesce(r.copy_of, r.id);

-- name: named_branch_memory_of_key
-- The same as `named_branch_memory`, for one key.
select r.key, r.deleted, r.expires_at, r.created_at, c.body
from {named_here} {left_lookup memory r} r.key = :key and {lies_here_at_key} {end_left_lookup r}
left join content c on c.id = r.content_id
order by coalesce(r.stamp, 4611686018427387904), coalesce(r.copy_of, r.id);

-- name: keys_with_content
-- The keys of a kind under which a view may show a content. The caller must check whether the view shows each key.
with {view}
select distinct m.key from memory m
where m.content_id = (select id from content where hash = :hash) and m.kind = :kind and (
    m.branch_id in (select branch_id from lineage) or m.group_id in (select group_id from open_groups)
    or m.scope_id = cast(:scope as bigint)
);

-- fragment: rows_by_author
-- For each key, the versions to merge: the newest one on the view's own lineage (`mine` = 1), and the newest one by
-- each other author. Deletion marks are included.
ranked as (
    select x.*, row_number() over (
        partition by key, mine, case mine when 1 then 0 else author_id end
        order by coalesce(stamp, 4611686018427387904) desc, coalesce(copy_of, id) desc, id
    ) as rank
    from seen x
)
select r.deleted, r.mine, r.author_id, coalesce(r.stamp, 4611686018427387904) as newness,
{memory_columns}
from ranked r
left join content c on c.id = r.content_id
where r.rank = 1
order by r.key, newness, number

-- name: versions_by_author
with {view}, seen as (
    select own.*, 1 as mine from ({seen_on_lineage}) own
    union all
    select x.*, 0 from memory x where {is_visible}
    union all
    select x.*, 0 from memory x where {was_visible}),
{rows_by_author};

-- name: versions_by_author_of
-- The same as `versions_by_author`, for some keys.
with {view}, wanted (key) as materialized ({texts keys}), seen as (
    select own.*, 1 as mine from ({seen_on_lineage_of_keys}) own
    union all
    select others.*, 0 from ({seen_of_keys_by_others}) others
),
{rows_by_author};

-- name: fact_keys
-- The keys of current rows of other authors, by subjects, objects and labels.
select distinct x.key from memory x
where (({is_visible}) or ({was_visible})) and x.subject is not null and x.deleted = 0
    and (cast(:subjects as text) is null or x.subject {in_texts subjects})
    and (cast(:objects as text) is null or x.object {in_texts objects})
    and (cast(:labels as text) is null or x.label {in_texts labels});

-- name: newest_memory
-- The newest entries of one kind that a view shows, newest first.
with {view}, picked (id) as (
    select m.id from lineage cross join {lookup_first memory m} (
        select x.id from memory x
        where x.branch_id = lineage.branch_id and x.kind = :kind and x.position <= lineage.up_to and x.until > lineage.up_to
            and {is_wanted}
        order by x.position desc, coalesce(x.copy_of, x.id) desc
        limit cast(:limit as bigint)
    ) {end_first m}
    union
    select x.id from open_groups cross join {lookup memory x}
        x.group_id = open_groups.group_id and x.kind = :kind and x.copy_of is null and x.id <= open_groups.up_to
        and {is_wanted} {end_lookup x}
    union
    select id from (
        select x.id from memory x
        where {is_visible} and {is_wanted}
        order by x.stamp desc, coalesce(x.copy_of, x.id) desc
        limit cast(:limit as bigint)
    ) current_rows
    union
    select x.id from memory x where {was_visible} and {is_wanted}
), distinct_rows (id) as (
    select min(x.id) from picked cross join {lookup memory x} x.id = picked.id {end_lookup x} group by coalesce(x.copy_of, x.id)
)
select {memory_columns}
from (select x.* from distinct_rows cross join {lookup memory x} x.id = distinct_rows.id {end_lookup x}) r
left join content c on c.id = r.content_id
order by case when cast(:scope as bigint) is null then 0 else coalesce(r.stamp, 4611686018427387904) end desc, number desc
limit cast(:limit as bigint);

-- name: visible_memory
-- The numbers of the given rows that a view shows.
with {view}, wanted (id) as materialized ({numbers ids}), found as materialized (
    select x.* from wanted cross join {lookup memory x} x.id = wanted.id {end_lookup x}
    union
    select x.* from wanted cross join {lookup memory x} x.copy_of = wanted.id {end_lookup x}
), shown as (
    select x.* from found x join lineage on lineage.branch_id = x.branch_id and x.position <= lineage.up_to and x.until > lineage.up_to
    union
    select x.* from found x join open_groups on open_groups.group_id = x.group_id and x.copy_of is null and x.id <= open_groups.up_to
    union
    select x.* from found x where {is_visible_any_kind}
)
select distinct coalesce(x.copy_of, x.id) as number from shown x
where x.deleted = 0 and (x.expires_at is null or x.expires_at > cast(:at as bigint))
    and not exists ({newer});

-- name: insert_memory
-- Another transaction may have deleted the content since this one found it. The id is then 0, which violates the
-- foreign key, and the operation is retried.
with given as materialized (select (select id from content where hash = cast(:hash as {blob})) as content_id)
insert into memory (
    branch_id, position, group_id, kind, key, label, subject, object, content_id, deleted, importance, expires_at, extra,
    document_id, created_at, written_at, scope_id, author_id, stamp, visible_until, source, actor
)
select :branch, :position, :group, :kind, :key, :label, :subject, :object,
    case when cast(:hash as {blob}) is not null then coalesce(given.content_id, 0) end,
    :deleted, :importance, :expires_at, :extra, :document, :created_at, :now,
    :scope, :author, :stamp, :visible_until, :source, :actor
from given
returning id;

-- name: insert_source
insert into memory_source (memory_id, source) values (:memory, :source);

-- name: end_version
-- End the version of a key on a branch at the position where the next version begins. If the ended version is by
-- `author`, or no author is given, it is no longer current.
update memory
set until = :position,
    visible_until = case
        when visible_until = 4611686018427387904 and (cast(:author as bigint) is null or author_id = cast(:author as bigint))
            then coalesce(cast(:stamp as bigint), visible_until)
        else visible_until
    end
where branch_id = :branch and kind = :kind and key = :key and until = 4611686018427387904
returning id, extra;

-- fragment: in_checkpoint
-- Returns a row if a checkpoint of the namespace shows the row m of "main", which has ended since. `+ 0` makes SQLite
-- use the index on `coalesce(view_stamp, created_at)`.
select 1 from checkpoint k
where k.namespace_id = m.scope_id and coalesce(k.view_stamp, k.created_at) >= m.stamp + 0
    and coalesce(k.view_stamp, k.created_at) < m.visible_until + 0

-- name: releasable_memory
-- The given rows that nothing references, with their content. Corrections are omitted. With `checkpoints` = 1, rows
-- that checkpoints of the namespace show are omitted too.
select m.id, m.document_id, c.hash, c.body, m.extra
from memory m
left join content c on c.id = m.content_id
where m.id {in_numbers ids} and {is_releasable};

-- fragment: is_releasable
not exists ({referenced}) and m.correction is null and (cast(:checkpoints as bigint) = 0 or not exists ({in_checkpoint}))

-- name: versions_to_end
-- The current versions of some kinds and keys on a branch, which end at a position. `is_releasable` = 1 marks versions
-- that `releasable_memory` would return after their end. `next_stamp` is the stamp of the next versions: `now`, or more
-- if current rows with these keys in the scope have a later stamp. A key without a version has a row too.
with wanted as materialized ({pairs keys}), next (stamp) as materialized (
    select case when newest.stamp >= cast(:now as bigint) then newest.stamp + 1 else cast(:now as bigint) end
    from ({stamp_of_wanted}) newest
), ended as (
    select v.id, v.branch_id, v.kind, v.key, v.position, v.until as old_until, cast(:position as bigint) as until,
        v.group_id, v.copy_of, v.content_id, v.document_id, v.extra, v.correction, v.scope_id, v.stamp, case
            when v.visible_until = 4611686018427387904 then (select stamp from next) else v.visible_until
        end as visible_until
    from memory v
)
select next.stamp as next_stamp, m.id, m.kind, m.key, m.document_id, c.hash, c.body, m.extra,
    case when {is_releasable} then 1 else 0 end as is_releasable
from next cross join wanted {left_lookup ended m} m.branch_id = :branch and m.kind = wanted.first and m.key = wanted.second
    and m.old_until = 4611686018427387904 {end_left_lookup m}
left join content c on c.id = m.content_id;

-- name: superseded_memory
-- Rows that have ended on the branch "main" of a namespace, which no checkpoint shows and nothing references.
-- Corrections are omitted.
select m.id, m.document_id, c.hash, c.body, m.extra
from branch b
join memory m on m.branch_id = b.id and m.until < 4611686018427387904 and m.kind in ({shared_kinds})
left join content c on c.id = m.content_id
where b.namespace_id = :scope and b.kind = 'layers' and b.name = 'main' and m.correction is null
    and not exists ({in_checkpoint}) and not exists ({referenced})
limit cast(:limit as bigint);

-- name: delete_memory
delete from memory where id = :id;

-- name: mark_memory_deleted
-- Turn a version into a deletion mark: a version that records a deletion.
update memory
set deleted = 1, content_id = null, document_id = null, label = null, subject = null, object = null, importance = null,
    expires_at = null, extra = null, source = null, actor = null, correction = null, visible_until = case
        when cast(:hide as bigint) = 1 then 0 else visible_until end
where id = :id;

-- name: expired_memory
-- The expired rows of a branch.
select kind, key from memory
where branch_id = :branch and until = 4611686018427387904 and expires_at <= :at
order by id
limit cast(:limit as bigint);

-- name: lock_group
-- Lock a group. A checkpoint that seals the group waits until this transaction ends.
select id from memory_group where id = :group {for_update};

-- name: create_group
insert into memory_group (id, thread_id, ns, checkpoint, task, owner, created_at)
values (:group, :thread, :ns, :checkpoint, :task, :owner, :now)
on conflict (id) do nothing
returning id;

-- name: is_sealed
select 1 as found from sealed_group where group_id = :group limit 1;

-- name: find_position
select branch_id, position from checkpoint_position where ns_id = :ns_id and checkpoint = :checkpoint;

-- name: checkpoint_exists
select 1 as found from checkpoint where ns_id = :ns_id and name = :checkpoint;

-- name: sibling_position
-- The position of another checkpoint with the same parent and the same channel versions.
select p.branch_id, p.position
from checkpoint c
join checkpoint_position p on p.ns_id = c.ns_id and p.checkpoint = c.name
where c.ns_id = :ns_id and coalesce(c.parent, '') = coalesce(cast(:parent as text), '') and c.versions = :versions and c.name <> :checkpoint
order by c.name desc
limit 1;

-- name: newest_other_checkpoint
-- The newest checkpoint other than the given one, with its position.
select c.name, p.branch_id, p.position
from checkpoint c
left join checkpoint_position p on p.ns_id = c.ns_id and p.checkpoint = c.name
where c.ns_id = :ns_id and c.name <> :checkpoint
order by c.name desc
limit 1;

-- name: thread_head
-- The position of the newest checkpoint of a thread.
select p.branch_id, p.position
from checkpoint_ns l
join checkpoint c on c.ns_id = l.id and c.name = (select max(o.name) from checkpoint o where o.ns_id = l.id)
left join checkpoint_position p on p.ns_id = c.ns_id and p.checkpoint = c.name
where l.thread_id = :thread and l.ns = '';

-- name: lock_branch_head
-- The head of a branch, locked until the transaction ends. The next writer waits here.
select head, thread from branch where id = :branch {for_update};

-- name: lock_thread
-- A thread, locked until the transaction ends, so that only one run at a time moves the head of the thread.
select t.id, a.id as author, t.namespace_id as scope from thread t left join author a on a.thread_id = t.id
where t.id = :thread
{for_no_key_update_of t};

-- name: update_visibility
-- Update which rows of a thread on one branch are current, after the head of the thread has moved. The old and the new
-- lineage show the branch up to the positions `low` and `high`, in either order; the new one shows it up to `after`.
update memory
set visible_until = case
    when position <= :after and until > :after and stamp is not null then 4611686018427387904
    when visible_until = 4611686018427387904 then cast(:stamp as bigint)
    else visible_until
end
where branch_id = :branch and author_id = :author and kind in ({shared_kinds})
    and ((position > :low and position <= :high) or (position <= :low and until > :low and until <= :high));

-- name: insert_position
insert into checkpoint_position (ns_id, checkpoint, branch_id, position) values (:ns_id, :checkpoint, :branch, :position)
on conflict (ns_id, checkpoint) do nothing;

-- name: set_position
insert into checkpoint_position (ns_id, checkpoint, branch_id, position) values (:ns_id, :checkpoint, :branch, :position)
on conflict (ns_id, checkpoint) do update set branch_id = excluded.branch_id, position = excluded.position;

-- name: find_branch_base
select base_id, base_position, checkpoint, groups from branch_base where branch_id = :branch;

-- name: insert_branch_base
insert into branch_base (branch_id, base_id, base_position, checkpoint, groups)
values (:branch, :base, :base_position, :checkpoint, :groups);

-- name: insert_base_group
insert into base_group (group_id, branch_id) values (:group, :branch);

-- name: create_thread_branch
-- Create a branch of a thread. With a parent, the branch is a fork at a position of the parent.
insert into branch (namespace_id, kind, thread, parent_id, parent_position, created_at)
select id, :kind, :thread, cast(:parent as bigint), cast(:position as bigint), cast(:now as bigint)
from namespace where path = :path
returning id;

-- name: groups_on_lineage
-- The groups that are sealed on a lineage, and the open groups of the view that are sealed on another branch.
with {view}
select s.group_id from lineage cross join sealed_group s
where s.branch_id = lineage.branch_id and s.position <= lineage.up_to
union
select open_groups.group_id from open_groups where exists (select 1 from sealed_group s where s.group_id = open_groups.group_id);

-- name: has_task_memory
-- Returns a row if tasks wrote memory on the lineage of a position, or if a branch of the lineage has a base.
with recursive lineage (branch_id, up_to) as (
    select cast(:branch as bigint), cast(:position as bigint)
    union all
    select b.parent_id, b.parent_position from lineage cross join branch b
    where b.id = lineage.branch_id and b.parent_id is not null
)
select 1 as found from lineage cross join sealed_group s
where s.branch_id = lineage.branch_id and s.position <= lineage.up_to
union all
select 1 from lineage cross join branch_base b where b.branch_id = lineage.branch_id
limit 1;

-- name: branches_of_originals
-- The branches of the rows whose copies are on some branches.
select distinct original.branch_id as id from memory m join memory original on original.id = m.copy_of
where original.branch_id is not null and m.branch_id {in_numbers ids};

-- name: has_other_references
-- Returns a row if another thread, a branch or a copy needs rows on some branches of a thread.
select 1 as found from checkpoint_position p join checkpoint_ns l on l.id = p.ns_id
where l.thread_id <> :thread and p.branch_id {in_numbers ids}
union all
select 1 from branch b where b.parent_id {in_numbers ids} and b.id not in ({numbers ids})
union all
select 1 from branch_base s where s.base_id {in_numbers ids} and s.branch_id not in ({numbers ids})
union all
select 1 from memory original join memory m on m.copy_of = original.id
where original.branch_id {in_numbers ids} and m.branch_id not in ({numbers ids})
limit 1;

-- name: documents_to_move
-- The search documents of the rows on some branches, and of the unsealed rows of a thread, that are not in the index of
-- a namespace yet. `id >> 22` of a document is the id of its series.
select d.id, d.owner, d.created_at, d.role, c.kind, s.name, owned.owners
from (
    select cast('entry' as text) as owners, document_id from entry where branch_id {in_numbers ids}
    union all
    select 'memory', document_id from memory where branch_id {in_numbers ids}
    union all
    select 'memory', document_id from memory
    where branch_id is null and group_id in (select g.id from memory_group g where g.thread_id = :thread)
) owned
join search_document d on d.id = owned.document_id
join search_series s on s.id = d.id >> 22
join search_scope c on c.id = s.scope_id
where c.namespace_id <> :namespace
order by d.id
limit cast(:limit as bigint);

-- name: set_checkpoint_namespace
update checkpoint set namespace_id = (
    select namespace_id from branch where namespace_id = :namespace and kind = 'layers' and name = 'main'
)
where ns_id in (select id from checkpoint_ns where thread_id = :thread);

-- name: sealable_groups
-- The view's open groups that have rows and are not sealed on its lineage. `writer` is the id of the thread whose task
-- wrote the group, or null for a group that is already sealed. `late` = 1 marks a group that is sealed on another
-- branch and is older than rows of the lineage.
with {view}
select g.group_id, (select unsealed.thread_id from memory_group unsealed where unsealed.id = g.group_id) as writer,
{search_thread}
    as search_thread,
    case when not exists (select 1 from memory_group unsealed where unsealed.id = g.group_id) and exists (
        select 1 from lineage cross join (
            select m.kind, min(coalesce(m.copy_of, m.id)) as number from memory m where m.group_id = g.group_id group by m.kind
        ) oldest
        where oldest.number < (
            select coalesce(x.copy_of, x.id) from memory x
            where x.branch_id = lineage.branch_id and x.kind = oldest.kind and x.position <= lineage.up_to
            order by x.position desc, coalesce(x.copy_of, x.id) desc
            limit 1
        )
    ) then 1 else 0 end as late
from open_groups g
where exists (select 1 from memory m where m.group_id = g.group_id)
    and not exists (
        select 1 from lineage cross join sealed_group s
        where s.group_id = g.group_id and s.branch_id = lineage.branch_id and s.position <= lineage.up_to
    )
order by g.group_id;

-- fragment: visible_from_seal
-- The initial `visible_until` of a sealed row. Rows of the kinds that threads share become current if the checkpoint is
-- the new head of the thread (`at_head` = 1).
case when cast(:at_head as bigint) = 1 and author_id = cast(:author as bigint)
    and kind in ({shared_kinds}) then 4611686018427387904 else 0 end

-- fragment: shared_kinds
'core', 'event', 'record', 'fact', 'fact_former', 'fact_rule', 'message'

-- name: author_of_thread
select a.id, t.namespace_id as scope from thread t left join author a on a.thread_id = t.id where t.id = :thread;

-- name: create_author
insert into author (namespace_id, name, thread_id) select namespace_id, name, id from thread where id = :thread
on conflict (thread_id) do nothing
returning id;

-- fragment: main_author
-- The namespace of a branch, and the author of the branch "main" there. `is_sole_author` is true if no thread is an author.
branch.namespace_id as scope,
    (select a.id from author a where a.namespace_id = branch.namespace_id and a.name is null) as author,
    not exists ({other_authors}) as is_sole_author

-- fragment: other_authors
select 1 from author o where o.namespace_id = branch.namespace_id and o.name is not null

-- fragment: is_named_branch
-- True for the named branch of a path and a name.
branch.namespace_id = (select n.id from namespace n where n.path = :path) and branch.kind = 'layers' and branch.name = :name

-- name: named_branch
select branch.id, branch.head, branch.parent_id, {main_author} from branch where {is_named_branch};

-- name: advance_named_branch
-- Advance the head of a named branch by one. The next writer waits here until the transaction ends. `has_expired` is
-- true if rows of the branch have expired at `now`.
update branch set head = head + 1 where {is_named_branch}
returning branch.id, branch.head, branch.parent_id, {main_author}, exists (
    select 1 from memory e where e.branch_id = branch.id and e.until = 4611686018427387904 and e.expires_at <= cast(:now as bigint)
) as has_expired;

-- name: author_of_main
select {main_author} from (select id as namespace_id from namespace where path = :path) branch;

-- name: create_main_author
insert into author (namespace_id) select id from namespace where path = :path on conflict do nothing returning id as author;

-- name: delete_idle_authors
-- Delete the authors of a namespace without threads and rows.
delete from author
where namespace_id = (select id from namespace where path = :path) and thread_id is null
    and not exists (select 1 from memory m where m.author_id = author.id);

-- name: newest_stamp
-- The greatest stamp of the current rows with the keys of the rows in some groups.
select max(stamp) as stamp from (
    select (
        select max(o.stamp) from memory o
        where o.scope_id = :scope and o.kind = m.kind and o.key = m.key and o.visible_until = 4611686018427387904
    ) as stamp
    from memory m where m.group_id {in_numbers ids}
) x;

-- fragment: stamp_of_wanted
-- The greatest stamp of the current rows of a scope with some kinds and keys.
select max((
    select max(o.stamp) from memory o
    where o.scope_id = :scope and o.kind = wanted.first and o.key = wanted.second and o.visible_until = 4611686018427387904
)) as stamp
from wanted

-- name: newest_stamp_of_keys
-- The same as `newest_stamp`, for some kinds and keys.
with wanted as materialized ({pairs keys}) {stamp_of_wanted};

-- name: scope_of_thread
-- The namespace of a path, and the author of a thread in it.
select n.id as scope, a.id as author
from namespace n
left join thread t on t.namespace_id = n.id and t.name = :name
left join author a on a.thread_id = t.id
where n.path = :path;

-- name: find_view_stamp
-- The stamp up to which a checkpoint shows rows of other authors.
select coalesce(view_stamp, created_at) as stamp from checkpoint where ns_id = :ns_id and name = :name;

-- name: advance_view_stamp
update checkpoint set view_stamp = :stamp where ns_id = :ns_id and name = :name and coalesce(view_stamp, created_at) < :stamp;

-- name: copies_to_replace
-- The copies at a position of a branch whose originals have no other copy and are not needed at their own positions.
select k.id as copy, k.copy_of as original from memory k
join memory m on m.id = k.copy_of
where k.branch_id = :branch and k.position = :position
    and not exists (select 1 from memory other where other.copy_of = m.id and other.id <> k.id)
    and not exists ({needed});

-- name: replace_copy
-- Move an original to the position of its copy.
update memory
set branch_id = (select k.branch_id from memory k where k.id = :copy),
    position = (select k.position from memory k where k.id = :copy),
    until = (select k.until from memory k where k.id = :copy),
    visible_until = (select k.visible_until from memory k where k.id = :copy), group_id = null
where id = :original;

-- name: has_shared_memory
-- Returns a row if an author has current rows other than messages, which remain when the thread is deleted.
select 1 as found from memory where author_id = :author and visible_until = 4611686018427387904 and kind <> 'message' limit 1;

-- name: copy_to_main
-- Copy the current rows of an author on a lineage to "main". Messages, and keys with a newer version on "main", are
-- omitted.
with {view}, mine as (
    select x.* from lineage cross join memory x
    where x.branch_id = lineage.branch_id and x.position <= lineage.up_to and x.until > lineage.up_to and x.author_id = :from_author
        and x.visible_until = 4611686018427387904 and x.kind <> 'message' and not exists ({newer})
)
insert into memory (
    branch_id, position, copy_of, kind, key, label, subject, object, content_id, deleted, importance, expires_at, extra,
    created_at, written_at, scope_id, author_id, source, actor, stamp, visible_until
)
select cast(:branch as bigint), cast(:position as bigint), coalesce(copy_of, id), kind, key, label, subject, object,
    content_id, deleted, importance, expires_at, extra, created_at, written_at, scope_id, author_id, source, actor, stamp,
    visible_until
from mine
where not exists (
    select 1 from memory n
    where n.branch_id = :branch and n.kind = mine.kind and n.key = mine.key and n.until = 4611686018427387904
        and (n.stamp, coalesce(n.copy_of, n.id)) >= (mine.stamp, coalesce(mine.copy_of, mine.id))
)
returning id;

-- name: supersede_on_main
-- End the rows of "main" that newer versions from a thread replace.
update memory
set until = :position, visible_until = case when visible_until = 4611686018427387904 then cast(:now as bigint) else visible_until end
where id in (
    select older.id
    from memory newer
    join memory older on older.branch_id = newer.branch_id and older.kind = newer.kind and older.key = newer.key
        and older.until = 4611686018427387904 and older.position < newer.position
    where newer.branch_id = :branch and newer.position = :position
)
returning id;

-- name: memory_of_authors
-- The rows that the threads with an id wrote in a range of namespaces. `on_main` = 1 marks rows on "main".
select m.id, m.copy_of, m.document_id, c.hash, c.body, m.extra,
    case when b.kind = 'layers' then 1 else 0 end as on_main
from author a
join namespace n on n.id = a.namespace_id
join memory m on m.author_id = a.id
left join branch b on b.id = m.branch_id
left join content c on c.id = m.content_id
where n.path >= :low and n.path < :high and a.name = :name
order by m.id;

-- name: authors_without_thread
select a.id, n.path from author a join namespace n on n.id = a.namespace_id
where n.path >= :low and n.path < :high and a.name = :name and a.thread_id is null;

-- name: anonymize_author
-- Remove the name of an author whose rows other threads still need.
update author set name = '' where id = :id;

-- name: hide_author_memory
-- Mark the rows of an author as no longer current, except on the branch `branch`.
update memory set visible_until = 0 where author_id = :author and visible_until > 0 and branch_id <> :branch;

-- name: has_other_authors
select 1 as found from author where namespace_id = :scope and name is not null limit 1;

-- name: seal_group
-- Assign the rows of a group to a position on a branch.
update memory
set branch_id = :branch, position = :position, scope_id = :scope, author_id = :author, stamp = :stamp,
    visible_until = case when cast(:at_head as bigint) = 1 and kind in ({shared_kinds}) then 4611686018427387904 else 0 end
where group_id = :group and branch_id is null;

-- name: stamp_group
-- Stamp the rows of a group when the group is sealed on the thread's own lineage. Rows that a subgraph sealed earlier
-- have no stamp until then.
update memory set stamp = :stamp where group_id = :group and stamp is null;

-- name: copy_group
-- Copy a group that is sealed on another branch. Another run may have sealed it there at the same time.
insert into memory (
    branch_id, position, group_id, copy_of, kind, key, label, subject, object, content_id, deleted, importance,
    expires_at, extra, created_at, written_at, scope_id, author_id, source, actor, stamp, visible_until
)
select cast(:branch as bigint), cast(:position as bigint), group_id, coalesce(copy_of, id), kind, key, label, subject,
    object, content_id, deleted, importance, expires_at, extra, created_at, written_at, scope_id, author_id, source, actor,
    coalesce((select min(o.stamp) from memory o where o.group_id = :group), cast(:stamp as bigint)),
{visible_from_seal}
from memory
where id in (select min(m.id) from memory m where m.group_id = :group group by coalesce(m.copy_of, m.id))
    and not exists (
        select 1 from memory m where m.group_id = :group and m.branch_id = :branch and m.position = :position
    )
order by coalesce(copy_of, id)
on conflict (id) do nothing;

-- name: supersede_sealed
-- End the rows of a branch that newer sealed versions replace.
update memory
set until = :position,
    visible_until = case
        when visible_until = 4611686018427387904 and author_id = cast(:author as bigint) and cast(:at_head as bigint) = 1
            then cast(:stamp as bigint)
        else visible_until
    end
where id in (
    select older.id
    from memory newer
    join memory older on older.branch_id = newer.branch_id and older.kind = newer.kind and older.key = newer.key
        and older.until = 4611686018427387904
        and coalesce(older.copy_of, older.id) < coalesce(newer.copy_of, newer.id)
    where newer.group_id = :group and newer.branch_id = :branch and newer.position = :position
);

-- name: messages_on
-- The versions that the lineage of a position shows for some message ids of one author, newest last. A row of nulls is
-- added if the lineage shows any message of the author.
with recursive lineage (branch_id, up_to) as (
    select cast(:branch as bigint), cast(:position as bigint)
    union all
    select b.parent_id, b.parent_position from lineage cross join branch b
    where b.id = lineage.branch_id and b.parent_id is not null
), wanted (key) as materialized ({texts keys})
select x.key, x.hash from (
    select m.key, c.hash, m.stamp, m.id
    from lineage cross join wanted cross join memory m left join content c on c.id = m.content_id
    where m.branch_id = lineage.branch_id and m.kind = 'message' and m.key = wanted.key and m.until > lineage.up_to
        and m.position <= lineage.up_to and m.author_id + 0 = cast(:author as bigint)
    union all
    select null, null, 0, 0
    where exists (
        select 1 from lineage cross join memory m
        where m.branch_id = lineage.branch_id and m.kind = 'message' and +m.position <= lineage.up_to
            and m.author_id + 0 = cast(:author as bigint)
    )
) x
order by x.stamp, x.id;

-- name: extend_branch
-- Extend a branch of a thread by one position, unless it was extended already.
update branch set head = head + 1 where id = :branch and head = :position and thread = :thread returning head;

-- name: insert_thread_message
-- Insert a message on a branch. Another transaction may have deleted its content since this one found it. The id is
-- then 0, which violates the foreign key, and the operation is retried.
with given as materialized (select (select id from content where hash = :hash) as content_id)
insert into memory (
    branch_id, position, kind, key, content_id, created_at, written_at, scope_id, author_id, stamp, visible_until, source
)
select :branch, :position, 'message', :key, coalesce(given.content_id, 0), :created_at, :now, :scope, :author, :stamp,
    :visible_until, :source
from given
where true on conflict (id) do nothing;

-- name: copy_thread_messages
-- Copy the messages of a thread for a copy of the thread, at the same positions. The copied rows are not current.
insert into memory (
    branch_id, position, until, copy_of, kind, key, content_id, deleted, created_at, written_at, scope_id, author_id, stamp, visible_until,
    source
)
select m.branch_id, m.position, m.until, coalesce(m.copy_of, m.id), m.kind, m.key, m.content_id, m.deleted, m.created_at,
    m.written_at, m.scope_id, cast(:target as bigint), m.stamp, 0, m.source
from memory m
where m.author_id = :source and m.kind = 'message' and m.branch_id is not null
    and not exists (
        select 1 from memory o
        where o.branch_id = m.branch_id and o.kind = 'message' and o.key = m.key and o.position = m.position
            and o.author_id + 0 = cast(:target as bigint)
    )
order by m.id;

-- name: thread_messages
-- All or some messages of a thread, on any branch.
select m.id, m.document_id, c.hash, c.body, m.extra
from namespace n
join author a on a.namespace_id = n.id
join memory m on m.author_id = a.id and m.kind = 'message'
left join content c on c.id = m.content_id
where n.path = :path and a.name = :name and m.deleted = 0 and (cast(:keys as text) is null or m.key {in_texts keys});

-- name: visible_messages
-- The given messages that a view shows, each with the wording that the view shows (see log.sql). With `anywhere` = 1,
-- messages that the newest checkpoints of any namespace show are included. A copied thread has inherited the messages
-- of its original, as messages of its own conversation. To find each message once, the lineage contributes only
-- messages of the thread `name`. For the same reason, outside of the root, other copied threads contribute inherited
-- messages only for the conversations `keys`.
with {view}, wanted (id) as materialized ({numbers ids}), wanted_rows as (
    select e.id as slot, e.key, a.id as author, a.namespace_id as scope, a.name,
        n.path <> '' and a.name not in ({texts keys}) as omits_inherited
    from wanted cross join entry e cross join branch b cross join author a cross join namespace n
    where e.id = wanted.id and b.id = e.branch_id and a.namespace_id = b.namespace_id and a.name = b.name
        and n.id = b.namespace_id
), candidates as (
    select wanted_rows.slot, m.* from wanted_rows cross join lineage cross join memory m
    where m.branch_id = lineage.branch_id and m.kind = 'message' and m.key = wanted_rows.key and m.until > lineage.up_to
        and m.position <= lineage.up_to and m.author_id + 0 = wanted_rows.author and wanted_rows.name = cast(:name as text)
    union all
    select wanted_rows.slot, m.* from wanted_rows cross join memory m
    where m.scope_id = wanted_rows.scope and m.kind = 'message' and m.key = wanted_rows.key and m.visible_until = 4611686018427387904
        and m.author_id + 0 = wanted_rows.author and m.author_id <> :author and (m.copy_of is null or not wanted_rows.omits_inherited)
        and (cast(:anywhere as bigint) = 1 or wanted_rows.scope = cast(:scope as bigint))
        and (cast(:before as bigint) is null or m.stamp <= cast(:before as bigint))
    union all
    select wanted_rows.slot, m.* from wanted_rows cross join memory m
    where m.author_id = wanted_rows.author and m.kind = 'message' and m.key = wanted_rows.key and m.visible_until > 0
        and m.visible_until < 4611686018427387904 and m.author_id <> :author and wanted_rows.scope = cast(:scope as bigint)
        and cast(:before as bigint) is not null and m.stamp <= cast(:before as bigint) and m.visible_until > cast(:before as bigint)
), ranked as (
    select candidates.*, row_number() over (partition by slot order by stamp desc, id desc) as rank from candidates
)
select r.slot, coalesce(
    max(case when w.content_id = r.content_id then w.id end), max(w.id)
) as wording
from ranked r
join entry w on w.id = r.slot or (w.replaces = r.slot and w.document_id is not null)
where r.rank = 1 and r.deleted = 0
group by r.slot;

-- name: insert_sealed_group
insert into sealed_group (group_id, branch_id, position, thread) values (:group, :branch, :position, :thread);

-- name: delete_group
delete from memory_group where id = :group;

-- name: last_rows_of_groups
-- The last row of each given group, without copies.
select group_id, max(id) as row from memory where group_id {in_numbers ids} and copy_of is null group by group_id;

-- name: find_run_start
-- The position of a checkpoint, and the tasks that finished under the checkpoint. The result always has a row.
select p.branch_id, p.position, f.task, f.caller, f.groups
from (select cast(:ns_id as bigint) as ns_id) given
left join checkpoint_position p on p.ns_id = given.ns_id and p.checkpoint = :checkpoint
left join finished_task f on f.thread_id = :thread and f.ns = :ns and f.checkpoint = :checkpoint;

-- name: finished_tasks
-- The tasks that finished under a checkpoint.
select task, caller, groups from finished_task where thread_id = :thread and ns = :ns and checkpoint = :checkpoint;

-- name: insert_finished_task
-- Insert a finished task, unless it finished before: then it has a row, or at least a stored result. A run without
-- memory stores only the result.
insert into finished_task (thread_id, task, ns, checkpoint, caller, groups, created_at)
select cast(:thread as bigint), cast(:task as text), cast(:ns as text), cast(:checkpoint as text), cast(:caller as text),
    cast(:groups as text), cast(:now as bigint)
where not exists (
    select 1 from pending_write w
    where w.ns_id = :ns_id and w.checkpoint = :checkpoint and w.task = :task
        and w.channel not in ('__error__', '__error_source_node__', '__interrupt__', '__resume__')
)
on conflict (thread_id, task) do nothing;

-- name: insert_finished_groups
-- Insert one row for each group of a finished task, if the task was recorded with exactly these groups.
with given (id) as ({numbers ids})
insert into finished_group (group_id, thread_id, task)
select given.id, f.thread_id, f.task from given cross join finished_task f
where f.thread_id = :thread and f.task = :task and f.groups = cast(:ids as text)
on conflict (group_id, thread_id, task) do nothing;

-- name: end_groups
-- Mark the groups of a task's execution that ended without a result. The next execution of the task replaces them.
update memory_group set ended = 1 where thread_id = :thread and task = :task and owner = :owner;

-- name: groups_of_task
-- The unsealed groups of a task's executions, each with the groups that the task had written when it finished.
select g.id, g.owner, g.ended, g.created_at, f.groups as finished
from memory_group g
left join finished_task f on f.thread_id = g.thread_id and f.task = g.task
where g.thread_id = :thread and g.task = :task;

-- name: rows_of_group
-- The unsealed rows of a group, to delete them.
select m.id, m.document_id, c.hash, c.body, m.extra
from memory m
left join content c on c.id = m.content_id
where m.group_id = :group and m.branch_id is null;

-- name: copy_positions
-- Copy the positions of a thread's checkpoints to the checkpoints of its copy.
insert into checkpoint_position (ns_id, checkpoint, branch_id, position)
select target_ns.id, p.checkpoint, p.branch_id, p.position
from checkpoint_ns source_ns
join checkpoint_position p on p.ns_id = source_ns.id
join checkpoint_ns target_ns on target_ns.thread_id = :target and target_ns.ns = source_ns.ns
join checkpoint c on c.ns_id = target_ns.id and c.name = p.checkpoint
where source_ns.thread_id = :source
on conflict (ns_id, checkpoint) do nothing;

-- name: copy_finished_tasks
insert into finished_task (thread_id, task, ns, checkpoint, caller, groups, created_at)
select cast(:target as bigint), task, ns, checkpoint, caller, groups, created_at
from finished_task where thread_id = :source
on conflict (thread_id, task) do nothing;

-- name: copy_finished_groups
insert into finished_group (group_id, thread_id, task)
select s.group_id, f.thread_id, f.task
from finished_group s
join finished_task original on original.thread_id = s.thread_id and original.task = s.task
join finished_task f on f.thread_id = :target and f.task = original.task and f.groups = original.groups
where s.thread_id = :source
on conflict (group_id, thread_id, task) do nothing;

-- name: branches_of_checkpoints
-- The branches on which a thread's checkpoints have positions.
select distinct p.branch_id as id from checkpoint_ns l join checkpoint_position p on p.ns_id = l.id where l.thread_id = :thread;

-- name: branches_of_thread
-- The branches on which a thread's checkpoints have positions, the branches that it created, and the branches with
-- groups of its finished tasks.
select p.branch_id as id
from checkpoint_ns l
join checkpoint_position p on p.ns_id = l.id
where l.thread_id = :thread
union
select b.id from thread t
join branch b on b.namespace_id = t.namespace_id and b.thread = t.name
where t.id = :thread and b.kind = 'thread'
union
select m.branch_id from finished_group g
join memory m on m.group_id = g.group_id
where g.thread_id = :thread and m.branch_id is not null;

-- name: ancestor_branches
-- Some branches, with all their parents and bases. `side` yields two rows for each branch: its parent and its base.
with recursive ancestors (id) as (
    select b.id from branch b where b.id {in_numbers ids}
    union
    select case when side.base = 0 then b.parent_id else s.base_id end
    from ancestors
    join branch b on b.id = ancestors.id
    cross join (select 0 as base union all select 1) side
    left join branch_base s on s.branch_id = b.id
    where (side.base = 0 and b.parent_id is not null) or (side.base = 1 and s.base_id is not null)
)
select id from ancestors order by id desc;

-- name: unreferenced_memory
-- The rows on some branches that nothing references, except corrections.
select m.id, m.copy_of, m.document_id, c.hash, c.body, m.extra
from memory m
left join content c on c.id = m.content_id
where m.branch_id {in_numbers ids} and m.correction is null and not exists ({referenced})
order by m.id
limit cast(:limit as bigint);

-- name: idle_branches
-- The given branches of threads that have no rows, checkpoints, forks or subgraphs.
select b.id from branch b
where b.kind = 'thread' and b.id {in_numbers ids}
    and not exists (select 1 from checkpoint_position p where p.branch_id = b.id)
    and not exists (select 1 from branch f where f.parent_id = b.id)
    and not exists (select 1 from branch_base s where s.base_id = b.id)
    and not exists (select 1 from memory m where m.branch_id = b.id);

-- name: groups_of_thread
-- The unsealed groups of a thread's tasks, and the groups that its tasks had written when they finished.
select id from memory_group where thread_id = :thread
union
select group_id from finished_group where thread_id = :thread;

-- name: stale_groups
-- Old unsealed groups of a thread whose checkpoints do not exist.
select g.id from memory_group g
where g.thread_id = :thread and g.created_at < :before
    and not exists (
        select 1 from checkpoint_ns l join checkpoint c on c.ns_id = l.id
        where l.thread_id = g.thread_id and l.ns = g.ns and c.name = g.checkpoint
    );

-- name: delete_stale_finished
delete from finished_task
where thread_id = :thread and created_at < :before
    and not exists (
        select 1 from checkpoint_ns l join checkpoint c on c.ns_id = l.id
        where l.thread_id = finished_task.thread_id and l.ns = finished_task.ns and c.name = finished_task.checkpoint
    );

-- name: referenced_groups
-- The given groups to which finished tasks or subgraphs refer.
select group_id from finished_group where group_id {in_numbers ids}
union
select group_id from base_group where group_id {in_numbers ids};

-- name: existing_groups
select id from memory_group where id {in_numbers ids};

-- name: count_memory
-- The number of entries of one kind that a view shows.
with {view}, seen as ({seen}), ranked as (
    select x.deleted, x.expires_at, row_number() over (
        partition by key order by coalesce(stamp, 4611686018427387904) desc, coalesce(copy_of, id) desc, id
    ) as rank
    from seen x
)
select count(*) as total from ranked r
where r.rank = 1 and r.deleted = 0 and (r.expires_at is null or r.expires_at > cast(:at as bigint));

-- name: create_fork
-- Create a branch that is forked from a position of another branch. Returns no row if the name is taken.
insert into branch (namespace_id, kind, name, parent_id, parent_position, created_at)
select namespace_id, kind, :name, id, cast(:position as bigint), cast(:now as bigint) from branch where id = :branch
on conflict (namespace_id, kind, name) do nothing
returning id;

-- name: branch_family
-- A branch with its forks, and the forks of these.
with recursive family (id) as (
    select cast(:branch as bigint)
    union
    select b.id from family join branch b on b.parent_id = family.id
)
select b.id, b.name, b.parent_id, b.created_at from family join branch b on b.id = family.id
order by b.id;

-- name: branch_names
select id, name from branch where id {in_numbers ids};

-- name: visible_threads
-- The names of the threads under which the rows that a view shows are indexed for search.
with {view}
select b.thread as name from lineage join branch b on b.id = lineage.branch_id
union
select s.thread from lineage join sealed_group s on s.branch_id = lineage.branch_id where s.thread is not null
union
select {search_thread}
from open_groups g;

-- name: branches_of_memory
-- The branches of some rows.
select distinct branch_id as id from memory where branch_id is not null and id {in_numbers ids};

-- name: branches_of_copies
-- The branches of the copies of some rows.
select distinct branch_id as id from memory where copy_of {in_numbers ids};

-- name: memory_hits
-- The rows of search hits, with their branches. `document_id / 4194304` (2^22) is the id of the series of a document.
select m.id, m.id as number, m.branch_id, m.until, m.key, m.kind, m.label, m.importance, m.expires_at,
    m.extra, m.created_at, m.written_at, m.scope_id, m.source, m.actor, a.name as thread, c.body,
    b.kind as branch_kind, s.name, n.path
from memory m
left join author a on a.id = m.author_id
join content c on c.id = m.content_id
left join branch b on b.id = m.branch_id
join search_series s on s.id = m.document_id / 4194304
join search_scope scope on scope.id = s.scope_id
join namespace n on n.id = scope.namespace_id
where m.id {in_numbers ids};

-- name: memory_texts
select m.id, m.extra, c.body from memory m join content c on c.id = m.content_id where m.id {in_numbers ids};

-- name: newest_positions
-- The positions of the newest checkpoints of threads whose memory is on some branches or on their forks.
with recursive forks (id) as (
    select b.id from branch b where b.id {in_numbers ids}
    union
    select b.id from forks join branch b on b.parent_id = forks.id
), positioned (ns_id) as (
    select distinct p.ns_id from forks join checkpoint_position p on p.branch_id = forks.id
)
select l.thread_id, p.branch_id, p.position
from positioned
join checkpoint_ns l on l.id = positioned.ns_id and l.ns = ''
join checkpoint_position p on p.ns_id = l.id and p.checkpoint = (select max(c.name) from checkpoint c where c.ns_id = l.id)
order by l.thread_id;

-- name: threads_of_runs
select distinct t.id
from checkpoint c
join checkpoint_ns l on l.id = c.ns_id
join thread t on t.id = l.thread_id
join namespace n on n.id = t.namespace_id
where n.path >= :low and n.path < :high and c.run_id {in_texts runs};

-- name: writes_of_runs
-- The pending writes of some runs, by task.
select distinct t.store_id, t.id as thread_id, w.ns_id, w.checkpoint, w.task, w.run_id
from pending_write w
join checkpoint_ns l on l.id = w.ns_id
join thread t on t.id = l.thread_id
join namespace n on n.id = t.namespace_id
where n.path >= :low and n.path < :high and w.run_id {in_texts runs}
order by w.ns_id, w.checkpoint, w.task, w.run_id;

-- name: delete_finished_task
-- Delete a finished task, unless its result is stored: a pending write to a channel that is not one of LangGraph's own.
delete from finished_task where thread_id = :thread and task = :task and not exists (
    select 1 from pending_write w
    where w.ns_id = :ns_id and w.checkpoint = :checkpoint and w.task = :task
        and w.channel not in ('__error__', '__error_source_node__', '__interrupt__', '__resume__')
)
returning groups;
