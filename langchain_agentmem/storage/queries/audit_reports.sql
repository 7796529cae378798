-- What reports on the audit trail count, and digests. Times are microseconds since 1970, ranges are of namespaces' paths.

-- name: audit_lengths_within
-- How large the next entries are, in the order of the chain. The plus keeps an engine from sorting all of them.
select a.sequence, coalesce(length(a.body), 0) as bytes
from audit a
join namespace n on n.id = +a.namespace_id
where a.sequence > :after and n.path >= :low and n.path < :high
order by a.sequence
limit cast(:limit as bigint);

-- name: audit_patterns
-- Conversations, those with most entries first.
select n.path, a.conversation, count(*) as entries, sum(case when a.hidden = 1 then 1 else 0 end) as junk,
    min(a.created_at) as first_at, max(a.created_at) as last_at
from audit a
join namespace n on n.id = a.namespace_id
where n.path >= :low and n.path < :high and a.conversation is not null
group by n.path, a.conversation
order by count(*) desc, max(a.created_at) desc, n.path, a.conversation
limit cast(:limit as bigint);

-- name: audit_conversation_sizes
-- How many conversations had how many prompts since a time.
select entries, count(*) as conversations
from (
    select count(*) as entries
    from audit a
    join namespace n on n.id = a.namespace_id
    where n.path >= :low and n.path < :high and a.conversation is not null and a.kind in ('exchange', 'call')
        and a.created_at >= :since
    group by n.path, a.conversation
) c
group by entries
order by entries;

-- name: audit_large_conversations
-- Conversations that had more prompts since a time than a number.
select n.path, a.conversation, count(*) as entries, min(a.created_at) as first_at, max(a.created_at) as last_at
from audit a
join namespace n on n.id = a.namespace_id
where n.path >= :low and n.path < :high and a.conversation is not null and a.kind in ('exchange', 'call')
    and a.created_at >= :since
group by n.path, a.conversation
having count(*) > cast(:most as bigint)
order by count(*) desc, n.path, a.conversation
limit cast(:limit as bigint);

-- name: audit_in_span
-- What was said between two times, in the order of the chain: prompts and replies that are shown.
select a.sequence
from audit a
join namespace n on n.id = +a.namespace_id
where a.sequence > :after and n.path = :path and a.hidden = 0 and a.kind in ('exchange', 'call', 'reflection')
    and a.created_at >= :since and a.created_at < :until
order by a.sequence
limit cast(:limit as bigint);

-- name: audit_conversation_count
select count(*) as conversations
from (
    select distinct n.path, a.conversation
    from audit a
    join namespace n on n.id = a.namespace_id
    where n.path >= :low and n.path < :high and a.conversation is not null
) c;

-- name: audit_digests_of_thread
-- Digests of conversations that entries of a thread belong to.
select
-- include: audit_entry
from namespace n
join audit a on a.namespace_id = n.id and a.settled = 1 and a.kind = 'digest'
left join audit_document d on d.sequence = a.sequence
where n.path >= :low and n.path < :high and a.conversation in (
    select t.conversation from audit t where t.namespace_id = n.id and t.settled = 1 and t.thread = :name
)
limit cast(:limit as bigint);

-- name: audit_digests_of_spans
-- Digests of spans of time, in which any conversation may have been.
select
-- include: audit_entry
from namespace n
join audit a on a.namespace_id = n.id and a.settled = 1 and a.kind = 'digest' and a.conversation is null
left join audit_document d on d.sequence = a.sequence
where n.path >= :low and n.path < :high
limit cast(:limit as bigint);
