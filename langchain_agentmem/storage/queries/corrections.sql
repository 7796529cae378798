-- What people corrected. Digests come as JSON.

-- fragment: correction_shown
select c.id, n.path, c.correction_id, c.kind, c.name, c.key, c.actor, c.undoes, c.created_at, c.body
from namespace n
join correction c on c.namespace_id = n.id

-- name: add_correction
insert into correction (namespace_id, correction_id, kind, name, key, actor, undoes, created_at, body)
values (:namespace, :correction_id, :kind, :name, :key, :actor, :undoes, :created_at, :body)
on conflict (namespace_id, correction_id) do nothing
returning id;

-- name: find_correction
-- include: correction_shown
where n.path = :path and c.correction_id = :correction_id;

-- name: corrections_within
-- Those in the namespaces of a range of paths, the newest first. They are picked before any of them is read.
-- include: correction_shown
where c.id in (
    select m.id from namespace s
    join correction m on m.namespace_id = s.id
    where s.path >= :low and s.path < :high
    order by m.created_at desc, m.id desc
    limit cast(:limit as bigint) offset cast(:offset as bigint)
)
order by c.created_at desc, c.id desc;

-- name: corrections_of
-- Those of one thing, the newest first.
-- include: correction_shown
where n.path = :path and c.kind = :kind and c.name = :name and c.key = :key
order by c.created_at desc, c.id desc
limit cast(:limit as bigint) offset cast(:offset as bigint);

-- name: corrected_namespaces
select n.path from namespace n
where n.path >= :low and n.path < :high and exists (select 1 from correction c where c.namespace_id = n.id)
order by n.path;

-- name: corrections_after
-- A page of those of a namespace, in the order in which they were made.
-- include: correction_shown
where n.path = :path and c.id > :after
order by c.id
limit cast(:limit as bigint);

-- name: delete_correction
delete from correction where id = :id;

-- name: adopt_corrections
-- Those of a thread or conversation of the root that moves into a namespace, where "main" is the branch to correct it on.
update correction set namespace_id = (select id from namespace where path = :path),
    name = case when kind = 'message' then name else 'main' end
where namespace_id = (select id from namespace where path = '') and (name = :alone or kind = 'message' and name = :name);

-- name: forget_corrections
-- Those of a thread that is deleted.
delete from correction
where namespace_id = (select id from namespace where path = :path) and (name = :alone or kind = 'message' and name = :name);

-- name: forget_corrected_facts
-- Those of a fact that a message told which is gone.
delete from correction
where namespace_id in (select id from namespace where path >= :low and path < :high) and kind = 'fact' and key = :key;

-- name: message_version
-- What a version of a message says, by its digest; nothing once the message was removed.
select t.body from namespace n
join branch b on b.namespace_id = n.id and b.kind = 'conversation' and b.name = :name
join entry slot on slot.branch_id = b.id and slot.key = :key and slot.replaces is null
join entry e on e.id = slot.id or e.replaces = slot.id
join content t on t.id = e.content_id
where n.path = :path and t.hash = :hash
limit 1;

-- name: memory_saying
-- What somebody wrote of something on a named branch, by what it says.
select m.id, m.document_id, t.hash, t.body, m.extra from namespace n
join branch b on b.namespace_id = n.id and b.kind = 'layers' and b.name = :name
join memory m on m.branch_id = b.id and m.kind = :kind and m.key = :key
join content t on t.id = m.content_id
where n.path = :path and t.hash = :hash and m.source = :source;
