-- Counts for the reports on the audit trail. Times are microseconds since 1970. `low` and `high` are a range of paths
-- of namespaces.

-- name: audit_sizes
-- The numbers of all entries, of those since a time (`recent`), and of older ones that can be compressed
-- (`archivable`).
select count(*) as entries, coalesce(sum(a.archived), 0) as archived, coalesce(sum(length(a.body)), 0) as bytes,
    coalesce(sum(case when a.hidden = 1 then 1 else 0 end), 0) as junk,
    coalesce(sum(case when a.status = 'open' and a.hidden = 0 then 1 else 0 end), 0) as open_todos,
    coalesce(sum(case when a.created_at >= :since then 1 else 0 end), 0) as recent,
    coalesce(sum(case when a.created_at < :since and a.archived = 0 then 1 else 0 end), 0) as archivable,
    coalesce(sum(case when a.created_at < :since and a.archived = 0 then length(a.body) else 0 end), 0)
        as archivable_size
{from_audit_within};

-- name: audit_message_sizes
-- The bytes of the distinct messages that model calls received or returned.
select coalesce(sum(length(c.body)), 0) as bytes
from (
    select distinct content_id from part
    where store_id in (
        select a.store_id {from_audit_within} and a.store_id is not null
    )
) m
join content c on c.id = m.content_id;

-- name: audit_newest_start
-- The entry that comes after the `skip` newest ones. The `+` prevents the use of an index on the namespace, for which
-- all entries would be sorted.
select a.sequence
from audit a
join namespace n on n.id = +a.namespace_id
where n.path >= :low and n.path < :high
order by a.sequence desc
limit 1 offset cast(:skip as bigint);

-- name: audit_open_todos
-- The open, visible todos, the oldest first.
select {audit_columns}
{from_audit_within} and a.status = 'open' and a.hidden = 0
order by a.sequence
limit cast(:limit as bigint);

-- name: audit_junk_counts
-- The number of entries that each set of junk rules hides.
select a.junk, count(*) as entries
{from_audit_within} and a.junk is not null
group by a.junk;

-- name: audit_counts_by_hour
-- The number of entries of each hour since a time; an hour is 3,600,000,000 microseconds.
select a.created_at / cast(3600000000 as bigint) as hour, count(*) as entries
{from_audit_within} and a.created_at >= :since
group by a.created_at / cast(3600000000 as bigint);

-- name: audit_conversations
-- The conversations with the most exchanges and calls, the largest first, each with the number of all conversations.
select n.path, a.conversation, count(*) as entries, sum(case when a.hidden = 1 then 1 else 0 end) as junk,
    max(a.created_at) as last_at, count(*) over () as total
{from_audit_within} and a.conversation is not null and a.kind in ('exchange', 'call')
group by n.path, a.conversation
order by count(*) desc, max(a.created_at) desc, n.path, a.conversation
limit cast(:limit as bigint);
