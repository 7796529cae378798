-- Looking after the whole database: statistics, verification, erasure.

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
    (select count(*) from job) as jobs,
    (select count(*) from compaction) as compactions,
    (select count(*) from branch where kind = 'layers') as branches,
    (select count(*) from branch where parent_id is not null) as forks,
    (select count(*) from memory where kind <> 'message') as memories,
    (select count(*) from memory where kind = 'core' and deleted = 0 and until = 4611686018427387904) as core,
    (select count(*) from memory where kind = 'event' and deleted = 0 and until = 4611686018427387904) as events,
    (select count(*) from memory where kind = 'record' and deleted = 0 and until = 4611686018427387904) as records,
    (select count(*) from memory where kind = 'fact' and deleted = 0 and until = 4611686018427387904) as facts,
    (select count(*) from memory where until < 4611686018427387904 and kind <> 'message') as old_memories,
    (select count(*) from memory_group) as waiting_groups,
    (select count(*) from experience_tally) as experiences,
    (select count(*) from experience_feedback) as feedback,
    (select count(*) from audit where kind is not null) as audit,
    (select count(*) from content) as contents,
    (select coalesce(sum(length(body)), 0) from content) as content_bytes;

-- name: fact_versions
select count(*) as facts from memory where kind = 'fact';

-- name: contents_after
-- A page of bodies, to see that each still has the digest it is kept under.
select hash, body from content where hash > :after order by hash limit cast(:limit as bigint);

-- name: orphaned_contents
select c.hash from content c
where not exists (select 1 from entry e where e.content_id = c.id)
    and not exists (select 1 from entry e where e.attachments_id = c.id)
    and not exists (select 1 from part p where p.content_id = c.id)
    and not exists (select 1 from memory m where m.content_id = c.id)
    and not exists (select 1 from audit_message m where m.content_id = c.id)
limit 10;

-- name: wrong_heads
-- Branches whose head is behind their newest entry.
select b.id, b.name, b.head, max(e.position) as newest
from branch b
join entry e on e.branch_id = b.id
group by b.id, b.name, b.head
having max(e.position) > b.head;

-- name: wrong_counts
-- Branches that count another number of messages than they have.
select b.name, b.messages, count(e.id) as found
from branch b
left join entry e on e.branch_id = b.id and e.replaces is null and e.kind = 'message'
group by b.id, b.name, b.messages
having b.messages <> count(e.id);
