-- Corrections: versions of memory that a person wrote with `memory.corrections`. The column `correction` is JSON.

-- name: set_correction
update memory set correction = :correction where id = :id;

-- name: corrections_within
-- The corrections in a range of namespaces, newest first. With a kind, only the corrections of this kind and `key` that
-- are on the named branch `name` or by the thread `thread`. An empty thread matches all threads.
select m.id, n.path, b.kind as branch_kind, m.kind, m.key, b.name, a.name as thread, m.actor,
    m.written_at, m.correction
from namespace n
join branch b on b.namespace_id = n.id
join memory m on m.branch_id = b.id and m.correction is not null
left join author a on a.id = m.author_id
where n.path >= :low and n.path < :high and (
    cast(:kind as text) is null or (m.kind = :kind and m.key = :key and (
        b.name = cast(:name as text) or (b.kind = 'thread' and (cast(:thread as text) = '' or a.name = :thread))
    ))
)
order by m.written_at desc, m.id desc
limit cast(:limit as bigint) offset cast(:offset as bigint);

-- name: corrected_memory
-- The versions in a range of namespaces that are corrections, with their content.
select m.id, m.branch_id, m.until, m.kind, m.key, m.document_id, c.hash, c.body, m.extra, m.correction
from namespace n
join branch b on b.namespace_id = n.id
join memory m on m.branch_id = b.id and m.correction is not null
left join content c on c.id = m.content_id
where n.path >= :low and n.path < :high
order by m.id;

-- name: clear_fact_corrections
-- Unmark the corrections of a fact, since the message that stated the fact is removed.
update memory set correction = null
where correction is not null and kind = 'fact' and key = :key and branch_id in (
    select b.id from branch b join namespace n on n.id = b.namespace_id where n.path >= :low and n.path < :high
)
returning id, until;
