-- Verification, erasure and import of memory. See memory.sql for groups, authors, stamps and 4611686018427387904
-- (2^62).

-- name: short_branches
-- Branches whose head is before the position of a row or reference, and branches with negative positions. `what` is the
-- text for the report.
select b.id, b.head, x.what, max(x.position) as position
from branch b
join (
    select branch_id, 'a version begins' as what, position from memory where branch_id is not null
    union all
    select branch_id, 'a version ends', until from memory where branch_id is not null and until < 4611686018427387904
    union all
    select branch_id, 'a group was sealed', position from sealed_group
    union all
    select branch_id, 'a checkpoint is', position from checkpoint_position
    union all
    select parent_id, 'a branch begins', parent_position from branch where parent_id is not null
    union all
    select base_id, 'a subgraph begins', base_position from branch_base where base_id is not null
) x on x.branch_id = b.id
where x.position > b.head or x.position < 0
group by b.id, b.head, x.what
order by b.id, x.what
limit 10;

-- name: wrong_parents
-- Branches whose parent or base is not older. The ids ascend, so this check excludes cycles.
select b.id from branch b
where b.parent_id >= b.id or (b.parent_id is null) <> (b.parent_position is null)
union
select s.branch_id from branch_base s
where s.base_id >= s.branch_id or (s.base_id is null) <> (s.base_position is null)
order by 1
limit 10;

-- name: overlapping_memory
-- Versions that are visible together with newer ones of the same branch. `+` makes SQLite use the index on the key.
select a.id from memory a
join memory b on b.branch_id = a.branch_id and b.kind = a.kind and b.key = a.key
where a.position < +b.position and a.until > +b.position and coalesce(a.copy_of, a.id) < coalesce(b.copy_of, b.id)
order by a.id
limit 10;

-- name: malformed_memory
-- Versions with a branch but no position or the reverse, versions that end before they begin, deletion marks with a
-- body, and other versions without one.
select m.id from memory m
where (m.branch_id is null) <> (m.position is null) or m.until < m.position or (m.deleted = 0) <> (m.content_id is not null)
order by m.id
limit 10;

-- name: unsealed_memory
-- Versions on a branch of a thread at a position where their group was not sealed.
select m.id from memory m
where m.branch_id is not null and m.group_id is not null
    and not exists (
        select 1 from sealed_group s
        where s.group_id = m.group_id and s.branch_id = m.branch_id and s.position = m.position
    )
order by m.id
limit 10;

-- name: wrong_visibility
-- Versions that are marked as current although the newest checkpoint of their author does not show them, or the
-- reverse, and current versions without a stamp.
with recursive chain (author_id, branch_id, up_to) as (
    select a.id, p.branch_id, p.position
    from checkpoint_ns l
    join author a on a.thread_id = l.thread_id
    join checkpoint_position p on p.ns_id = l.id and p.checkpoint = (select max(c.name) from checkpoint c where c.ns_id = l.id)
    where l.ns = ''
    union all
    select chain.author_id, b.parent_id, b.parent_position
    from chain join branch b on b.id = chain.branch_id
    where b.parent_id is not null
), shown (id) as (
    select m.id from chain
    join memory m on m.branch_id = chain.branch_id and m.author_id = chain.author_id and m.position <= chain.up_to
        and m.until > chain.up_to and m.stamp is not null
    union
    select m.id from branch b
    join memory m on m.branch_id = b.id and m.until = 4611686018427387904
    where b.kind = 'layers' and b.name = 'main'
)
select m.id from memory m
left join shown s on s.id = m.id
where m.kind in ({shared_kinds}) and ((m.visible_until = 4611686018427387904) <> (s.id is not null)
    or (m.visible_until = 4611686018427387904 and m.stamp is null))
order by m.id
limit 10;

-- name: unfindable_memory
-- Versions whose search documents are missing or belong to other rows.
select m.id from memory m
where m.document_id is not null
    and not exists (
        select 1 from search_document d
        join search_series s on s.id = d.id >> 22
        join search_scope c on c.id = s.scope_id
        where d.id = m.document_id and d.owner = m.id and c.kind = m.kind
    )
order by m.id
limit 10;

-- name: extras_after
-- A page of versions with JSON in `extra` or `correction`.
select id, copy_of, extra, correction from memory where id > :after and (extra is not null or correction is not null)
order by id limit cast(:limit as bigint);

-- name: sources_between
-- The recorded sources of a page of versions.
select memory_id, source from memory_source where memory_id > :after and memory_id <= :last;

-- name: unexpected_sources
select distinct s.memory_id as id from memory_source s
join memory m on m.id = s.memory_id
where m.extra is null
order by s.memory_id
limit 10;

-- name: lost_groups
-- Groups of unsealed versions without a row in `memory_group` to which no finished task or subgraph refers.
select distinct m.group_id as id from memory m
where m.branch_id is null and m.group_id is not null
    and not exists (select 1 from memory_group g where g.id = m.group_id)
    and not exists (select 1 from finished_group g where g.group_id = m.group_id)
    and not exists (select 1 from base_group g where g.group_id = m.group_id)
order by m.group_id;

-- name: stored_groups
-- The lists of groups of finished tasks and of the bases of subgraphs. `what` is the text for the report.
select 'the task' as what, task as name, groups from finished_task
union all
select 'the tasks around branch', cast(branch_id as text), groups from branch_base;

-- name: memory_total
select count(case when kind <> 'message' then 1 end) as total, coalesce(max(id), 0) as last from memory
where cast(:last as bigint) is null or id <= cast(:last as bigint);

-- name: memory_branches
-- The branches of memory in a range of namespaces, the newest first.
select b.id, b.kind, n.path from branch b
join namespace n on n.id = b.namespace_id
where n.path >= :low and n.path < :high and b.kind <> 'conversation'
order by b.id desc;

-- name: detach_branches
update branch set parent_id = null, parent_position = null where parent_id {in_numbers ids};

-- name: delete_branch_bases
delete from branch_base where base_id {in_numbers ids};

-- name: delete_positions
delete from checkpoint_position where branch_id {in_numbers ids};

-- name: memory_of_branch
-- A page of the rows on a branch.
select m.id, m.document_id, c.hash, c.body, m.extra
from memory m
left join content c on c.id = m.content_id
where m.branch_id = :branch
order by m.id
limit cast(:limit as bigint);

-- name: unplaced_checkpoints
-- The given checkpoints that exist and have no position.
select c.name from checkpoint c
where c.ns_id = :ns_id and c.name {in_texts keys}
    and not exists (select 1 from checkpoint_position p where p.ns_id = c.ns_id and p.checkpoint = c.name);

-- name: known_groups
-- The given groups that exist, sealed or not.
select group_id from memory where group_id {in_numbers ids}
union
select group_id from sealed_group where group_id {in_numbers ids}
union
select id from memory_group where id {in_numbers ids};

-- name: branch_details
select b.id, b.head, b.created_at, b.parent_position, p.name as parent
from branch b
join namespace n on n.id = b.namespace_id
left join branch p on p.id = b.parent_id
where n.path = :path and b.kind = :kind and b.name = :name;

-- name: version_at
-- The versions of a key that begin at a position of a branch.
select m.label, m.deleted, m.importance, m.expires_at, m.extra, m.created_at, c.hash
from memory m
left join content c on c.id = m.content_id
where m.branch_id = :branch and m.kind = :kind and m.key = :key and m.position = :position;
