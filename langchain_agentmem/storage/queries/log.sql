-- Branches, entries and contents, which store conversations. An entry is one version of a message or round. A slot is
-- the row of the first version (`replaces` is null); later versions name their slot in `replaces`. A wording is the
-- first version, or a version with its own document in the search index. Later edits without a document belong to the
-- same wording. A message that follows a thread (`follows` = 1) is visible where the thread shows it. Stamps and
-- 4611686018427387904 are explained in memory.sql.

-- name: find_branch
select b.id, b.head
from branch b
join namespace n on n.id = b.namespace_id
where n.path = :path and b.kind = :kind and b.name = :name;

-- name: lock_branch
-- The same as `find_branch`, but locks the branch until the transaction ends. Writers of one conversation wait here.
select b.id, b.head
from branch b
join namespace n on n.id = b.namespace_id
where n.path = :path and b.kind = :kind and b.name = :name
{for_update_of b};

-- name: find_namespace
select id from namespace where path = :path;

-- name: create_namespace
insert into namespace (path) values (:path) on conflict (path) do nothing;

-- name: create_branch
insert into branch (namespace_id, kind, name, created_at)
select id, :kind, :name, cast(:now as bigint) from namespace where path = :path
on conflict (namespace_id, kind, name) do nothing;

-- name: move_head
update branch set head = :position, messages = messages + :added
where id = :branch and head = :expected
returning id, head;

-- name: advance_head
-- Advance the head of a branch by one, if the branch exists.
update branch set head = head + 1, messages = messages + :added
where namespace_id = (select id from namespace where path = :path) and kind = :kind and name = :name
returning id, head;

-- name: store_content
insert into content (hash, body) values (:hash, :body) on conflict (hash) do nothing;

-- fragment: new_entry
insert into entry (
    branch_id, position, replaces, kind, key, role, sender, recipient, round_key,
    content_id, attachments_id, document_id, created_at, written_at, follows, checksum, body
)
values (
    :branch, :position, :replaces, :kind, :key, :role, :sender, :recipient, :round_key,
    (select id from content where hash = :content_hash), (select id from content where hash = :attachments_hash),
    :document, :created_at, :written_at, :follows, :checksum, :body
)

-- fragment: is_shown
-- True if the message e is visible. A message that follows a thread is visible if the thread's newest checkpoint shows
-- it.
(e.follows = 0 or exists (
    select 1 from branch b cross join author a cross join memory m
    where b.id = e.branch_id and a.namespace_id = b.namespace_id and a.name = b.name and m.scope_id = b.namespace_id
        and m.kind = 'message' and m.key = e.key and m.visible_until = 4611686018427387904 and m.deleted = 0
        and m.author_id + 0 = a.id
))

-- fragment: current_version
-- The current version of `slot`: the newest version of the wording that the thread shows, else the newest version.
case when not exists (select 1 from entry n where n.replaces = slot.id) then slot.id else coalesce((
    select max(n.id) from entry n
    where (n.id = slot.id or n.replaces = slot.id) and (
        select w.content_id from entry w
        where (w.id = slot.id or (w.replaces = slot.id and w.document_id is not null)) and w.id <= n.id
        order by w.id desc
        limit 1
    ) = (
        select m.content_id from branch b cross join author a cross join memory m
        where b.id = slot.branch_id and a.namespace_id = b.namespace_id and a.name = b.name and m.scope_id = b.namespace_id
            and m.kind = 'message' and m.key = slot.key and m.visible_until = 4611686018427387904 and m.author_id + 0 = a.id
        order by m.stamp desc, m.id desc
        limit 1
    )
), (select max(n.id) from entry n where n.replaces = slot.id)) end

-- fragment: entry_columns
slot.id as slot, v.id, v.kind, v.key, v.role, v.sender, v.recipient, v.round_key,
    v.created_at, v.written_at, c.hash as content_hash, a.hash as attachments_hash, {version_body} as body,
    a.body as attachments

-- fragment: version_body
-- The body of the version v, from its row or from the joined content.
coalesce(v.body, c.body)

-- fragment: join_contents
left join content c on c.id = v.content_id left join content a on a.id = v.attachments_id

-- fragment: join_newest_version
-- The newest version of `slot`, with its contents.
join entry v on v.id = coalesce((select max(n.id) from entry n where n.replaces = slot.id), slot.id) {join_contents}

-- fragment: join_current_version
-- The current version of `slot`, with its contents.
join entry v on v.id = ({current_version}) {join_contents}

-- fragment: messages_in_order
select {entry_columns} from slot {join_current_version} order by slot.position, slot.id

-- fragment: edited_version
-- The newest version of the wording that begins with the version `own`.
coalesce((
    select max(x.id) from entry x
    where x.replaces = coalesce(own.replaces, own.id) and x.id > own.id and x.id < coalesce((
        select min(w.id) from entry w
        where w.replaces = coalesce(own.replaces, own.id) and w.document_id is not null and w.id > own.id
    ), 4611686018427387904)
), own.id)

-- fragment: indexed_body
-- The body that is indexed for the wording that begins with `own`; null if `own` has no document.
case when own.document_id is not null then (
    select {version_body} from entry v left join content c on c.id = v.content_id where v.id = ({edited_version})
) end

-- name: insert_entry
{new_entry} returning id;

-- name: insert_entries
{new_entry}

-- name: entries_of_call
-- The entries that one call wrote, in order.
select id from entry where branch_id = :branch and position = :position order by id;

-- name: copy_wording
-- Append a copy of an earlier wording, so that it is the newest one again.
insert into entry (
    branch_id, position, replaces, kind, key, role, sender, recipient, round_key, content_id, attachments_id, document_id,
    created_at, written_at, follows, checksum, body
)
select branch_id, cast(:position as bigint), coalesce(replaces, id), kind, key, role, sender, recipient, round_key,
    content_id, attachments_id, cast(:document as bigint), created_at, cast(:now as bigint), follows, checksum, body
from entry where id = :wording
returning id;

-- name: set_follows
-- Mark existing messages as messages that follow the thread.
update entry set follows = 1 where branch_id = :branch and replaces is null and follows = 0 and key {in_texts keys};

-- name: unshared_versions
-- The versions of some messages whose rows contain their bodies.
select v.id, v.body
from entry slot
join entry v on v.id = slot.id or v.replaces = slot.id
where slot.branch_id = :branch and slot.replaces is null and slot.key {in_texts keys} and v.body is not null;

-- name: share_body
-- Move the body of a version to the table `content`, which contains the body already.
update entry set content_id = coalesce((select id from content where hash = :hash), 0), checksum = null, body = null
where id = :id;

-- name: has_unfollowing
-- Returns a row if a conversation has entries that do not follow a thread.
select 1 as found from entry where branch_id = :branch and replaces is null and follows = 0 limit 1;

-- name: following_messages
-- The slots of a conversation that follow a thread; with `all_messages` = 1, all slots.
select id as slot from entry where branch_id = :branch and replaces is null and (follows = 1 or cast(:all_messages as bigint) = 1);

-- name: following_versions
-- All versions of the messages that follow a thread, in the order of writing.
select v.replaces, v.follows, {entry_columns}
from entry slot
join entry v on v.id = slot.id or v.replaces = slot.id
{join_contents}
where slot.branch_id = :branch and slot.replaces is null and slot.follows = 1
order by v.id;

-- name: current_entry
-- The current version of the message or round with a key, the wording of this version, and the newest wording.
select own.id as wording, own.document_id, slot.follows, {entry_columns},
    (select max(w.id) from entry w where w.id = slot.id or (w.replaces = slot.id and w.document_id is not null)) as newest
from entry slot
{join_current_version}
join entry own on own.id = (
    select max(w.id) from entry w
    where (w.id = slot.id or (w.replaces = slot.id and w.document_id is not null)) and w.id <= v.id
)
where slot.branch_id = :branch and slot.key = :key and slot.replaces is null;

-- name: known_entries
-- The entries that a conversation already has under the keys to append.
select slot.follows, v.kind, v.key, v.recipient, v.round_key, v.body, c.hash as content_hash, a.hash as attachments_hash
from namespace n
join branch b on b.namespace_id = n.id
join entry slot on slot.branch_id = b.id
join entry v on v.id = coalesce((select max(x.id) from entry x where x.replaces = slot.id), slot.id)
{join_contents}
where n.path = :path and b.kind = :kind and b.name = :name and slot.replaces is null and slot.key {in_texts keys};

-- name: message_versions
-- Every version of one message, oldest first.
select v.follows, {entry_columns}
from entry slot
join entry v on v.id = slot.id or v.replaces = slot.id
{join_contents}
where slot.branch_id = :branch and slot.key = :key and slot.replaces is null
order by v.id;

-- name: messages_after
-- A page of the messages after a slot and its position. The slots are selected before the joins, so that the cost
-- depends only on their number.
with slot as materialized (
    select e.id, e.position, e.branch_id, e.key from entry e
    where e.branch_id = :branch and e.replaces is null and e.kind <> 'round' and {is_shown}
        and (e.position, e.id) > (:position, :slot)
    order by e.position, e.id
    limit cast(:limit as bigint) offset cast(:offset as bigint)
)
{messages_in_order};

-- name: messages_before
-- The last messages up to a slot and its position, both included.
with slot as materialized (
    select e.id, e.position, e.branch_id, e.key from entry e
    where e.branch_id = :branch and e.replaces is null and e.kind <> 'round' and {is_shown}
        and (e.position, e.id) <= (:position, :slot)
    order by e.position desc, e.id desc
    limit cast(:limit as bigint) offset cast(:offset as bigint)
)
{messages_in_order};

-- name: newest_documents
-- The newest messages of a conversation, with the documents of all their versions.
select s.id as slot, s.key, s.role, s.follows, x.document_id
from (
    select e.id, e.key, e.role, e.follows, e.position
    from namespace n
    join branch b on b.namespace_id = n.id
    join entry e on e.branch_id = b.id
    where n.path = :path and b.kind = :kind and b.name = :name and e.replaces is null and e.kind <> 'round'
    order by e.position desc, e.id desc
    limit cast(:limit as bigint)
) s
join entry x on (x.id = s.id or x.replaces = s.id) and x.document_id is not null
order by s.position desc, s.id desc;

-- name: message_position
-- The position of a message in its conversation.
select id as slot, position from entry
where branch_id = :branch and key = :key and replaces is null and kind <> 'round';

-- name: messages_of_role
-- The messages of one role, newest first. The role is that of the current version, since an edit may change it.
select {entry_columns}
from entry e
join entry slot on slot.id = e.id
{join_current_version}
where e.branch_id = :branch and e.replaces is null and e.kind <> 'round' and v.role = :role and {is_shown}
order by e.position desc, e.id desc
limit cast(:limit as bigint);

-- name: count_messages
select count(*) as messages from entry e
where e.branch_id = :branch and e.replaces is null and e.kind <> 'round' and {is_shown};

-- name: droppable_count
-- The number of messages of a branch, as counted in its row. A retention rule may delete these messages.
select messages from branch where id = :branch;

-- name: decrement_messages
update branch set messages = messages - 1 where id = :branch;

-- name: reset_messages
update branch set messages = 0 where id = :branch;

-- name: empty_rounds
-- Rounds that began before a position and have no posts left.
select r.id as slot
from entry r
where r.branch_id = :branch and r.kind = 'round' and r.replaces is null and r.position < :position
    and not exists (select 1 from entry p where p.branch_id = :branch and p.round_key = r.key);

-- name: rounds
select {entry_columns}
from entry slot
{join_newest_version}
where slot.branch_id = :branch and slot.replaces is null and slot.kind = 'round'
order by slot.position, slot.id;

-- name: slots_to_drop
-- Every version of every slot of a branch, to delete them. The description of the conversation is included only with
-- `everything` = 1. `body` is the indexed body.
select own.id, own.key, own.document_id, own.kind, c.hash as content_hash, a.hash as attachments_hash,
{indexed_body}
    as body
from entry own
left join content c on c.id = own.content_id
left join content a on a.id = own.attachments_id
where own.branch_id = :branch and (own.kind <> 'description' or :everything = 1);

-- name: slot_versions
-- Every version of one slot, with its indexed body.
select own.id, own.document_id, own.kind, c.hash as content_hash, a.hash as attachments_hash,
{indexed_body}
    as body
from entry own
left join content c on c.id = own.content_id
left join content a on a.id = own.attachments_id
where own.id = :slot or own.replaces = :slot;

-- name: delete_entry
delete from entry where id = :id;

-- name: delete_all_but_description
delete from entry where branch_id = :branch and kind <> 'description';

-- name: delete_branch
delete from branch where id = :branch;

-- name: delete_empty_namespaces
delete from namespace
where path = :path
    and not exists (select 1 from branch where namespace_id = namespace.id)
    and not exists (select 1 from blob where namespace_id = namespace.id)
    and not exists (select 1 from item where namespace_id = namespace.id)
    and not exists (select 1 from audit where namespace_id = namespace.id)
    and not exists (select 1 from search_scope where namespace_id = namespace.id)
    and not exists (select 1 from thread where namespace_id = namespace.id)
    and not exists (select 1 from author where namespace_id = namespace.id);

-- name: collect_content
delete from content
where hash = :hash
    and not exists (select 1 from entry where content_id = content.id)
    and not exists (select 1 from entry where attachments_id = content.id)
    and not exists (select 1 from part where content_id = content.id)
    and not exists (select 1 from memory where content_id = content.id);

-- name: list_branches
-- The conversations in a range of paths of namespaces: those with a name, or all.
select b.id, b.name, n.path
from branch b
join namespace n on n.id = b.namespace_id
where n.path >= :low and n.path < :high and b.kind = :kind
    and (cast(:name as text) is null or b.name = cast(:name as text))
order by n.path, b.created_at, b.id;

-- name: nested_conversations
-- The conversations of the nested graphs of a thread. Their names begin with the thread's id, so they form a range.
select b.name, n.path
from namespace n
join branch b on b.namespace_id = n.id
where n.path >= :low and n.path < :high and b.kind = :kind and b.name >= :first and b.name < :last
order by n.path, b.name;

-- name: newest_conversations
-- The conversations in a range of paths of namespaces, the most recently used first. Conversations of nested graphs,
-- whose names contain `nested_mark`, are omitted.
select b.name, n.path, b.messages,
    coalesce((
        select e.created_at from entry e
        where e.branch_id = b.id and e.replaces is null
        order by e.position, e.id limit 1
    ), b.created_at) as first_at,
    coalesce((
        select e.created_at from entry e
        where e.branch_id = b.id and e.replaces is null
        order by e.position desc, e.id desc limit 1
    ), b.created_at) as last_at
from branch b
join namespace n on n.id = b.namespace_id
where n.path >= :low and n.path < :high and b.kind = :kind and replace(b.name, cast(:nested_mark as text), '') = b.name
order by last_at desc, b.id desc
limit cast(:limit as bigint) offset cast(:offset as bigint);

-- name: dump_entries
-- Every version of every entry of a branch, in the order of writing.
select v.id, v.position, v.replaces, v.kind, v.key, v.role, v.sender, v.recipient, v.round_key, v.created_at, v.written_at,
    v.follows, {version_body} as body, a.body as attachments
from entry v
{join_contents}
where v.branch_id = :branch
order by v.position, v.id;

-- name: oldest_messages
select slot.id as slot, slot.position, slot.follows, v.key, v.role, v.created_at
from entry slot
join entry v on v.id = coalesce((select max(n.id) from entry n where n.replaces = slot.id), slot.id)
where slot.branch_id = :branch and slot.replaces is null and slot.kind = 'message'
order by slot.position, slot.id
limit cast(:limit as bigint);

-- name: bodies_after
-- A page of the bodies that rows contain, to verify their checksums.
select id, checksum, body from entry where id > :after and body is not null order by id limit cast(:limit as bigint);

-- name: contents_of_hashes
select id, hash from content where hash in ({bytes hashes});
