-- Threads and their checkpoints. The values of channels are split into parts, which are stored once in the part store
-- of the thread. A recipe lists the numbers of the parts of a value. A part store has two sequences of numbers:
-- `next_element` for elements of lists, and `next_part` for other parts. `ns` is a checkpoint namespace: '' for the
-- thread's own graph, else that of a subgraph.

-- name: find_thread
-- A thread with its part store and one of its checkpoint namespaces.
select t.id, t.store_id, t.delta, t.created_at, s.sweep_count, s.removed_count, n.path, l.id as ns_id
from namespace n
join thread t on t.namespace_id = n.id and t.name = :name
join part_store s on s.id = t.store_id
left join checkpoint_ns l on l.thread_id = t.id and l.ns = :ns
where n.path = :path;

-- name: find_threads
-- The same as `find_thread`, for the threads with an id in any namespace. Returns at most four.
select t.id, t.store_id, t.delta, t.created_at, s.sweep_count, s.removed_count, n.path, l.id as ns_id
from thread t
join namespace n on n.id = t.namespace_id
join part_store s on s.id = t.store_id
left join checkpoint_ns l on l.thread_id = t.id and l.ns = :ns
where t.name = :name
order by n.path
limit 4;

-- name: create_store
insert into part_store (next_part) values (:next_part) returning id, sweep_count;

-- name: create_thread
insert into thread (namespace_id, name, store_id, delta, created_at)
select n.id, :name, cast(:store as bigint), cast(:delta as bigint), cast(:now as bigint)
from namespace n where n.path = :path
on conflict (name, namespace_id) do nothing
returning id;

-- name: mark_delta
update thread set delta = 1 where id = :thread and delta = 0;

-- name: create_ns
insert into checkpoint_ns (thread_id, ns) values (:thread, :ns) on conflict (thread_id, ns) do nothing returning id;

-- name: list_ns
select id, ns from checkpoint_ns where thread_id = :thread order by ns;

-- name: any_subgraph
select 1 as found from namespace n
join thread t on t.namespace_id = n.id and t.name = :name
join checkpoint_ns l on l.thread_id = t.id and l.ns > ''
where n.path = :path
limit 1;

-- name: newest_subgraphs
-- The checkpoint namespaces of a thread's subgraphs, newest first.
select ns from checkpoint_ns where thread_id = :thread and ns <> '' order by id desc limit cast(:limit as bigint);

-- name: insert_part
-- Another transaction may have deleted the content since this one found it. The id is then 0, which violates the
-- foreign key, and the operation is retried.
insert into part (store_id, number, encoding, name, content_id, checksum)
select :store, :number, :encoding, :name, coalesce((select id from content where hash = :hash), 0), :checksum;

-- name: copy_parts
-- Copy a range of parts to other numbers, in the same or another part store. The copies refer to the same contents.
insert into part (store_id, number, encoding, name, content_id, checksum)
select cast(:target as bigint), number + cast(:shift as bigint), encoding, name, content_id, checksum
from part
where store_id = :store and number >= :low and number < :high;

-- name: lock_store
-- Lock a part store. Other transactions that lock it wait until this one ends.
select next_element, next_part, sweep_count from part_store where id = :store {for_update};

-- name: set_numbers
-- Set the next numbers of a locked part store.
update part_store set next_element = :next_element, next_part = :next_part where id = :store;

-- name: reserve_part_numbers
-- Reserve the next numbers for elements of lists. Other transactions that do so wait until this one ends.
update part_store set next_element = next_element + :count
where id = :store
returning sweep_count;

-- name: insert_value
insert into channel_value (ns_id, channel, version, recipe) values (:ns_id, :channel, :version, :recipe)
on conflict (ns_id, channel, version) do update set recipe = excluded.recipe;

-- name: insert_checkpoint
-- `namespace_id` is set if the namespace has a branch "main". The versions that "main" shows now are then retained for
-- the checkpoint. Citus accepts no subquery in "values".
insert into checkpoint (ns_id, name, parent, run_id, versions, head, metadata, created_at, namespace_id)
select :ns_id, :name, :parent, :run_id, :versions, :head, :metadata, :now, (
    select b.namespace_id from checkpoint_ns l
    join thread t on t.id = l.thread_id
    join branch b on b.namespace_id = t.namespace_id and b.kind = 'layers' and b.name = 'main'
    where l.id = :ns_id
)
where true
on conflict (ns_id, name) do update set parent = excluded.parent, run_id = excluded.run_id,
    versions = excluded.versions, head = excluded.head, metadata = excluded.metadata;

-- name: insert_write
-- LangGraph's special writes, such as errors and interrupts, have a negative index and replace an earlier write with
-- that index. Other writes never replace one.
insert into pending_write (ns_id, checkpoint, task, idx, path, channel, run_id, recipe)
values (:ns_id, :checkpoint, :task, :idx, :path, :channel, :run_id, :recipe)
on conflict (ns_id, checkpoint, task, idx) do update
set path = excluded.path, channel = excluded.channel, run_id = excluded.run_id, recipe = excluded.recipe
where excluded.idx < 0;

-- name: latest_checkpoint
select name, parent, versions, head, metadata from checkpoint where ns_id = :ns_id order by name desc limit 1;

-- name: find_checkpoint
select name, parent, versions, head, metadata from checkpoint where ns_id = :ns_id and name = :name;

-- name: load_checkpoints
-- Up to `limit` checkpoints of a checkpoint namespace with ids from `low` to `high` (exclusive), the newest ones, with
-- their values and pending writes. `kind` is 1 for a checkpoint, 2 for a value, and 3 for a pending write. If `versions`
-- is not valid JSON, the values are left out.
with chosen as materialized (
    select ns_id, name, parent, versions, head, metadata from checkpoint
    where ns_id = (
        select l.id from namespace n
        join thread t on t.namespace_id = n.id and t.name = :name
        join checkpoint_ns l on l.thread_id = t.id and l.ns = :ns
        where n.path = :path
    ) and name >= :low and name < :high
    order by name desc
    limit cast(:limit as bigint)
)
select 1 as kind, name, parent, versions as version, null as channel, null as task, null as idx, metadata, head as data
from chosen
union all
select 2, null, null, v.version, v.channel, null, null, null, v.recipe
from chosen c
cross join json_each(case when json_valid(c.versions) then c.versions else '{}' end) w
cross join channel_value v
where v.ns_id = c.ns_id and v.channel = w.key and v.version = w.value
union all
select 3, p.checkpoint, p.path, null, p.channel, p.task, p.idx, null, p.recipe
from chosen c
cross join pending_write p
where p.ns_id = c.ns_id and p.checkpoint = c.name;

-- name: channel_values
-- The values of some channels in a checkpoint.
select v.channel, v.recipe
from checkpoint c
cross join json_each(c.versions) w
cross join channel_value v
where c.ns_id = :ns_id and c.name = :name and w.key {in_texts keys}
    and v.ns_id = c.ns_id and v.channel = w.key and v.version = w.value;

-- name: writes_of_channels
-- The pending writes of some checkpoints to some channels.
select checkpoint, task, idx, path, channel, recipe from pending_write
where ns_id = :ns_id and checkpoint {in_texts checkpoints} and channel {in_texts channels};

-- name: values_of_versions
-- The values of some channels in some versions.
select channel, version, recipe from channel_value
where ns_id = :ns_id and channel {in_texts channels} and version {in_texts versions};

-- name: checkpoint_ancestors
-- The ancestors of a checkpoint, the parent first. `limit` bounds the recursion: a checkpoint that was stored again
-- with another parent may be its own ancestor.
with recursive chain (name, parent, versions, depth) as (
    select c.name, c.parent, c.versions, 0 from checkpoint c where c.ns_id = :ns_id and c.name = :name
    union all
    select c.name, c.parent, c.versions, chain.depth + 1
    from chain
    join checkpoint c on c.ns_id = :ns_id and c.name = chain.parent
    where chain.depth < cast(:limit as bigint)
)
select name, versions from chain where depth > 0 order by depth;

-- name: parts_in_ranges
-- The parts in some ranges of numbers.
select p.number, p.encoding, p.name, p.checksum, c.body
from ({ranges ranges}) r
cross join {lookup part p} p.store_id = :store and p.number >= r.low and p.number < r.high {end_lookup p}
left join content c on c.id = p.content_id;

-- name: known_parts
-- The numbers of the parts that are already stored, by the digests of their contents (in hexadecimal), their encodings
-- and their names.
select c.hash, p.encoding, p.name, p.number
from ({triples keys}) k
cross join {lookup content c} c.hash = from_hex(k.first) {end_lookup c}
cross join {lookup part p}
    p.content_id = c.id and p.store_id = :store and p.encoding = k.second
    and (p.name = k.third or (p.name is null and k.third is null)) {end_lookup p};

-- name: checkpoint_keys
-- A page of checkpoints, newest first.
select c.ns_id, c.name, c.metadata, l.ns, t.name as thread, n.path
from checkpoint c
join checkpoint_ns l on l.id = c.ns_id
join thread t on t.id = l.thread_id
join namespace n on n.id = t.namespace_id
where (n.path >= :low and n.path < :high)
    and (cast(:ns as text) is null or l.ns = cast(:ns as text))
    and (cast(:name as text) is null or c.name = cast(:name as text))
    and (cast(:before as text) is null or c.name < cast(:before as text))
    and (cast(:after as text) is null or (c.name, c.ns_id) < (cast(:after as text), cast(:after_ns_id as bigint)))
order by c.name desc, c.ns_id desc
limit cast(:limit as bigint);

-- name: thread_checkpoint_keys
-- A page of the checkpoints of one thread, newest first.
select c.ns_id, c.name, c.metadata, l.ns, t.name as thread, n.path
from thread t
join namespace n on n.id = t.namespace_id
join checkpoint_ns l on l.thread_id = t.id
join checkpoint c on c.ns_id = l.id and (cast(:name as text) is null or c.name = cast(:name as text))
where t.id = :thread
    and (cast(:ns as text) is null or l.ns = cast(:ns as text))
    and (cast(:before as text) is null or c.name < cast(:before as text))
    and (cast(:after as text) is null or (c.name, c.ns_id) < (cast(:after as text), cast(:after_ns_id as bigint)))
order by c.name desc, c.ns_id desc
limit cast(:limit as bigint);

-- name: ns_checkpoint_keys
-- A page of the checkpoints of one checkpoint namespace, newest first.
select c.ns_id, c.name, c.metadata, l.ns, t.name as thread, n.path
from checkpoint_ns l
join thread t on t.id = l.thread_id
join namespace n on n.id = t.namespace_id
join checkpoint c on c.ns_id = l.id
where l.id = :ns_id and (cast(:before as text) is null or c.name < cast(:before as text))
order by c.name desc
limit cast(:limit as bigint);

-- name: surplus_checkpoints
-- The checkpoints of a checkpoint namespace that are not among the `keep` newest ones, or are older than a time, the
-- oldest first. The newest one is never returned.
select name from checkpoint
where ns_id = :ns_id and name < (select max(name) from checkpoint where ns_id = :ns_id)
    and (
        (cast(:keep as bigint) is not null and name <= (
            select name from checkpoint where ns_id = :ns_id
            order by name desc limit 1 offset coalesce(cast(:keep as bigint), 0)
        ))
        or (cast(:before as bigint) is not null and created_at < cast(:before as bigint))
    )
order by name
limit cast(:limit as bigint);

-- name: ended_subgraphs
-- The checkpoint namespaces of subgraph calls whose checkpoints are all older than the remaining checkpoints of the
-- thread's own graph.
select l.id from checkpoint_ns l
where l.thread_id = :thread and l.ns like '%:%'
    and not exists (
        select 1 from checkpoint c
        where c.ns_id = l.id and c.name >= coalesce(
            (select min(o.name) from checkpoint o join checkpoint_ns r on r.id = o.ns_id
            where r.thread_id = :thread and r.ns = ''), '')
    )
    and exists (select 1 from checkpoint c where c.ns_id = l.id)
limit cast(:limit as bigint);

-- name: delete_checkpoint
delete from checkpoint where ns_id = :ns_id and name = :name;

-- name: delete_writes
delete from pending_write where ns_id = :ns_id and checkpoint = :name;

-- name: delete_stray_writes
-- Delete the pending writes of deleted checkpoints, including writes that were stored after the deletion.
delete from pending_write
where ns_id = :ns_id and checkpoint <= :up_to
    and not exists (select 1 from checkpoint c where c.ns_id = :ns_id and c.name = pending_write.checkpoint);

-- name: delete_ns
delete from checkpoint_ns where id = :ns_id;

-- name: delete_thread
delete from thread where id = :thread;

-- name: checkpoints_of_runs
select t.store_id, c.ns_id, c.name from checkpoint c
join checkpoint_ns l on l.id = c.ns_id
join thread t on t.id = l.thread_id
join namespace n on n.id = t.namespace_id
where c.run_id {in_texts runs} and n.path >= :low and n.path < :high
order by c.ns_id, c.name;

-- name: delete_writes_of_run
delete from pending_write where ns_id = :ns_id and checkpoint = :checkpoint and task = :task and run_id = :run_id;

-- name: add_removed_count
update part_store set removed_count = removed_count + :count where id = :store;

-- name: ns_of_store
-- All checkpoint namespaces of the threads that share a part store.
select l.id from checkpoint_ns l join thread t on t.id = l.thread_id where t.store_id = :store order by l.id;

-- name: ns_versions
select versions from checkpoint where ns_id = :ns_id;

-- name: ns_values
select channel, version, recipe from channel_value where ns_id = :ns_id order by channel, version;

-- name: ns_writes
select checkpoint, task, idx, path, channel, run_id, recipe from pending_write
where ns_id = :ns_id order by checkpoint, task, idx;

-- name: delete_value
delete from channel_value where ns_id = :ns_id and channel = :channel and version = :version;

-- name: part_hashes
-- The digests of the contents of a range of parts.
select p.number, c.hash from part p join content c on c.id = p.content_id
where p.store_id = :store and p.number >= :low and p.number < :high;

-- name: delete_parts
delete from part where store_id = :store and number >= :low and number < :high;

-- name: reset_removed_count
update part_store set removed_count = 0 where id = :store;

-- name: count_sweep
update part_store set sweep_count = sweep_count + 1 where id = :store;

-- name: delete_idle_store
delete from part_store where id = :store and not exists (select 1 from thread where store_id = :store);

-- name: threads_within
-- The threads in a range of paths of namespaces: those with an id, or all.
select t.id, t.name, t.store_id, t.delta, n.path from thread t
join namespace n on n.id = t.namespace_id
where n.path >= :low and n.path < :high and (cast(:name as text) is null or t.name = cast(:name as text))
order by n.path, t.name;

-- name: ns_checkpoints
select name, parent, run_id, versions, head, metadata, created_at from checkpoint where ns_id = :ns_id order by name;

-- name: store_gaps
-- Part stores with a part whose number is not below the next number of its sequence.
select s.id from part_store s
where exists (
    select 1 from part p
    where p.store_id = s.id and p.number >= s.next_element and (p.number < cast(:next_part as bigint) or p.number >= s.next_part)
);

-- name: parts_after
-- A page of the parts of a part store, for their verification.
select p.number, p.checksum, c.hash, c.body from part p
left join content c on c.id = p.content_id
where p.store_id = :store and p.number > :after
order by p.number
limit cast(:limit as bigint);
