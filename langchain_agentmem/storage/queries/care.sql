-- Statistics and verification of the whole database. In `until`, 4611686018427387904 (2^62) marks a current version.

-- fragment: current_counts
-- The numbers of current entries of each kind in a table of versions.
(select count(*) from the_table where kind = 'core' and deleted = 0 and until = 4611686018427387904) as core,
(select count(*) from the_table where kind = 'event' and deleted = 0 and until = 4611686018427387904) as events,
(select count(*) from the_table where kind = 'record' and deleted = 0 and until = 4611686018427387904) as records,
(select count(*) from the_table where kind = 'fact' and deleted = 0 and until = 4611686018427387904) as facts,
(select count(*) from the_table where kind = 'fact_due' and deleted = 0 and until = 4611686018427387904)
    as waiting_facts,
(select count(*) from the_table where kind = 'fact_due' and label = 'failed' and deleted = 0
    and until = 4611686018427387904) as failed_facts

-- name: statistics
select
    (select count(*) from namespace) as namespaces,
    (select count(*) from branch where kind = 'conversation') as conversations,
    (select count(*) from entry where replaces is null and kind <> 'round') as messages,
    (select count(*) from entry where replaces is null and kind = 'round') as rounds,
    (select count(*) from entry where replaces is not null) as edits,
    (select count(*) from thread) as threads,
    (select count(*) from checkpoint) as checkpoints,
    (select count(*) from pending_write) as writes,
    (select count(*) from part) as parts,
    (select count(*) from blob) as blobs,
    (select coalesce(sum(length(value)), 0) from blob) as blob_bytes,
    (select count(*) from item) as items,
    (select count(*) from compaction) as compactions,
    (select count(*) from branch where kind = 'layers') as branches,
    (select count(*) from branch where parent_id is not null) as forks,
    (select count(*) from memory where kind <> 'message') as memories,
    {current_counts memory},
    (select count(*) from memory where until < 4611686018427387904 and kind <> 'message') as old_memories,
    (select count(*) from memory_group) as waiting_groups,
    (select count(*) from audit where kind is not null) as audit,
    (select count(*) from content) + (select count(body) from entry) as contents,
    (select coalesce(sum(length(body)), 0) from content) + (select coalesce(sum(length(body)), 0) from entry) as content_bytes;

-- name: statistics_within
-- The statistics of a range of namespaces, without objects shared by all namespaces.
with namespaces as (
    select id from namespace where path >= :low and path < :high
), branches as (
    select id, kind, parent_id from branch where namespace_id in (select id from namespaces)
), entries as (
    select kind, replaces from entry where branch_id in (select id from branches)
), threads as (
    select id from thread where namespace_id in (select id from namespaces)
), checkpoint_namespaces as (
    select id from checkpoint_ns where thread_id in (select id from threads)
), blobs as (
    select length(value) as size from blob where namespace_id in (select id from namespaces)
), memories as (
    select kind, label, until, deleted from memory where branch_id in (select id from branches) and kind <> 'message'
)
select
    (select count(*) from namespaces) as namespaces,
    (select count(*) from branches where kind = 'conversation') as conversations,
    (select count(*) from entries where replaces is null and kind <> 'round') as messages,
    (select count(*) from entries where replaces is null and kind = 'round') as rounds,
    (select count(*) from entries where replaces is not null) as edits,
    (select count(*) from threads) as threads,
    (select count(*) from checkpoint where ns_id in (select id from checkpoint_namespaces)) as checkpoints,
    (select count(*) from pending_write where ns_id in (select id from checkpoint_namespaces)) as writes,
    (select count(*) from blobs) as blobs,
    (select coalesce(sum(size), 0) from blobs) as blob_bytes,
    (select count(*) from item where namespace_id in (select id from namespaces)) as items,
    (select count(*) from compaction where branch_id in (select id from branches)) as compactions,
    (select count(*) from branches where kind = 'layers') as branches,
    (select count(*) from branches where parent_id is not null) as forks,
    (select count(*) from memories) as memories,
    {current_counts memories},
    (select count(*) from memories where until < 4611686018427387904) as old_memories,
    (select count(*) from audit where kind is not null and namespace_id in (select id from namespaces)) as audit;

-- name: contents_after
-- A page of bodies with their digests, for verification.
select hash, body from content where hash > :after order by hash limit cast(:limit as bigint);

-- name: orphaned_contents
select c.hash from content c
where not exists (select 1 from entry e where e.content_id = c.id)
    and not exists (select 1 from entry e where e.attachments_id = c.id)
    and not exists (select 1 from part p where p.content_id = c.id)
    and not exists (select 1 from memory m where m.content_id = c.id)
limit 10;

-- name: wrong_heads
-- Branches whose head is behind their newest entry.
select b.id, b.name, b.head, max(e.position) as newest
from branch b
join entry e on e.branch_id = b.id
group by b.id, b.name, b.head
having max(e.position) > b.head;

-- name: wrong_message_counts
-- Branches with a wrong number of messages.
select b.name, b.messages, count(e.id) as actual
from branch b
left join entry e on e.branch_id = b.id and e.replaces is null and e.kind = 'message'
group by b.id, b.name, b.messages
having b.messages <> count(e.id);

-- name: unknown_entries
select id, kind from entry where kind not in ('message', 'round', 'description') order by id limit 10;
