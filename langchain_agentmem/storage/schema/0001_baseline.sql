-- The whole schema. It is edited in place until version 0.2.0. From then on, changes are further migrations. All
-- times are microseconds since 1970-01-01 UTC, set by Python. Large columns come last, so that reading the columns
-- before them reads none of their pages. `engine.py` defines the types in braces for each dialect. Tables of only
-- one dialect, and the full-text index, are in the file of that dialect.

-- Namespaces, branches and contents ---------------------------------------------------------------------------------

-- A namespace: a tenant, user or topic. `path` is the tuple of labels, each ended by U+001F, so that a prefix is a
-- range.
create table namespace (
    id {id},
    path {text} not null unique
);

-- A branch: a conversation, a named branch of memory, or a branch of a thread. `head` is its last position, and
-- `messages` the number of its own messages. A fork is one row, with its parent and the position of the fork.
-- `thread` is the thread that created a branch of a thread; the search index uses this name for the rows there. The
-- id of a deleted branch is not assigned again, since a run of another process may still refer to it.
create table branch (
    id {serial},
    namespace_id {int} not null references namespace (id),
    kind {text} not null,
    name {text},
    parent_id {int} references branch (id),
    parent_position {int},
    head {int} not null default 0,
    messages {int} not null default 0,
    created_at {int} not null,
    thread {text},
    unique (namespace_id, kind, name)
);
create index branch_parent on branch (parent_id) where parent_id is not null;
create index branch_thread on branch (namespace_id, thread) where thread is not null;

-- Large values, and the bodies that several rows share, each stored once with its BLAKE2b-160 digest. Ids ascend, so
-- rows that are written together are stored together, in this table and in every index that refers to it.
create table content (
    id {id},
    hash {blob} not null unique,
    body {blob} not null
);

-- Conversations -----------------------------------------------------------------------------------------------------

-- One version of a message or round. `position` is the position of the call that wrote the row on the branch. A row
-- with `replaces` is a newer version of the row that this column names. The newest version is current, and the older
-- ones are its history. `document_id` is its document in the search index, on the row of the first version. `follows`
-- marks a message that follows the thread with the id of its conversation: the message is visible where that thread
-- shows it. The row contains a small body itself, with its CRC-32 checksum. `content_id` names any other body, and
-- every body of a message that follows a thread, which the thread shares.
create table entry (
    id {id},
    branch_id {int} not null references branch (id) on delete cascade,
    position {int} not null,
    replaces {int} references entry (id) on delete cascade,
    kind {text} not null,
    key {text} not null,
    role {text},
    sender {text},
    recipient {text},
    round_key {text},
    content_id {int} references content (id),
    attachments_id {int} references content (id),
    document_id {int},
    created_at {int} not null,
    written_at {int} not null,
    follows integer not null default 0,
    checksum {int},
    body {blob},
    check ((content_id is null) = (body is not null))
);
create index entry_position on entry (branch_id, position{index_id});
create unique index entry_key on entry (branch_id, key) where replaces is null;
create index entry_content on entry (content_id) where content_id is not null;
create index entry_attachments on entry (attachments_id) where attachments_id is not null;
create index entry_replaces on entry (replaces{index_id}) where replaces is not null;
create index entry_round on entry (branch_id, round_key) where round_key is not null;

-- A compacted context. `context` names the context: the state of a graph, the log of a conversation, or the rounds
-- of one role. `digest` is the digest of the messages up to the end of the context, and `message_count` is their
-- number. If the context belongs to a conversation, `slot` is the row of the last message. The body is JSON with the
-- ids of retained messages and the created messages.
create table compaction (
    id {id},
    branch_id {int} not null references branch (id) on delete cascade,
    context {text} not null,
    digest {blob} not null,
    message_count {int} not null,
    slot {int},
    created_at {int} not null,
    checksum {int} not null,
    body {blob} not null
);
create index compaction_context on compaction (branch_id, context, id);

-- Notes on the texts that were inserted into the prompts of a thread. `name` is the thread, `key` the message that
-- the text precedes, and `part` the kind of text. `reader` is the origin of the text: a memory by its name (empty
-- for the memory of the run), or the experiences of a role. `tokens` is its size; `in_prompt` is 1 while prompts
-- still show it. The body is JSON with ids, scores and signals. It also contains the values of core memory as the
-- prompt showed them.
create table prompt_note (
    namespace_id {int} not null references namespace (id) on delete cascade,
    name {text} not null,
    key {text} not null,
    part {text} not null,
    reader {text} not null,
    tokens {int} not null,
    in_prompt {int} not null,
    created_at {int} not null,
    body {blob} not null,
    primary key (namespace_id, name, key, part, reader)
){without_rowid};
create index prompt_note_age on prompt_note (created_at);

-- LangGraph threads: checkpoints that store only changes -----------------------------------------------------------

-- The store of the parts of a thread's values. `next_element` and `next_part` are the next part numbers, for
-- elements of lists and for all other parts. No number is assigned twice. `sweep_count` counts removals of parts,
-- which invalidate older caches of them. `removed_count` counts the checkpoints removed since the last removal of
-- parts.
create table part_store (
    id {serial},
    next_element {int} not null default 0,
    next_part {int} not null,
    sweep_count {int} not null default 0,
    removed_count {int} not null default 0
);

-- A thread of a namespace. A copy of a thread shares its part store. `delta` marks a thread with DeltaChannels, whose
-- checkpoints need their ancestors.
create table thread (
    id {id},
    namespace_id {int} not null references namespace (id),
    name {text} not null,
    store_id {int} not null references part_store (id),
    delta {int} not null default 0,
    created_at {int} not null,
    unique (name, namespace_id)
);
create index thread_namespace on thread (namespace_id);
create index thread_store on thread (store_id);

-- One checkpoint namespace of a thread: of its own graph (`ns` is empty), or of one of its subgraphs.
create table checkpoint_ns (
    id {id},
    thread_id {int} not null references thread (id) on delete cascade,
    ns {text} not null,
    unique (thread_id, ns)
);

-- A part of a value, which never changes. `encoding` is the encoding of the body, and `name` the id of a message.
create table part (
    store_id {int} not null references part_store (id) on delete cascade,
    number {int} not null,
    encoding {text} not null,
    name {text},
    content_id {int} not null references content (id),
    checksum {int} not null,
    primary key (store_id, number)
){without_rowid};
create index part_content on part (content_id, store_id);

-- A checkpoint without its values. `versions` is a JSON object of the channels' versions. `head` (the checkpoint's
-- other fields) and `metadata` are output of the serializer. `view_stamp` is the last stamp (of `memory`) that its
-- view includes, if that differs from its time of creation. `namespace_id` is set if the namespace had a branch "main"
-- when the checkpoint was put. The versions that "main" showed then are retained for the checkpoint.
create table checkpoint (
    ns_id {int} not null references checkpoint_ns (id) on delete cascade,
    name {text} not null,
    parent {text},
    run_id {text},
    versions {text} not null,
    head {blob} not null,
    metadata {blob} not null,
    created_at {int} not null,
    view_stamp {int},
    namespace_id {int},
    primary key (ns_id, name)
){without_rowid};
create index checkpoint_run on checkpoint (run_id) where run_id is not null;
create index checkpoint_view_stamp on checkpoint (namespace_id, coalesce(view_stamp, created_at)) where namespace_id is not null;

-- The value of a channel in one version, as a recipe that names parts. A channel without a value has no row.
create table channel_value (
    ns_id {int} not null references checkpoint_ns (id) on delete cascade,
    channel {text} not null,
    version {text} not null,
    recipe {blob} not null,
    primary key (ns_id, channel, version)
){without_rowid};

-- The pending writes of a task under a checkpoint; they may be stored before the checkpoint itself. `run_id` is the
-- run that wrote them, if it has an id. They are deleted with that run, even if another run made the checkpoint.
create table pending_write (
    ns_id {int} not null references checkpoint_ns (id) on delete cascade,
    checkpoint {text} not null,
    task {text} not null,
    idx {int} not null,
    path {text} not null,
    channel {text} not null,
    recipe {blob} not null,
    run_id {text},
    primary key (ns_id, checkpoint, task, idx)
){without_rowid};
create index pending_write_run on pending_write (run_id) where run_id is not null;

-- Memory on branches: layers, facts, rounds and items of a thread ---------------------------------------------------

-- The author of a row: a thread, or the branch "main" of its namespace, whose `name` is null. An author remains when
-- its thread is deleted, without `thread_id`.
create table author (
    id {serial},
    namespace_id {int} not null references namespace (id),
    name {text},
    thread_id {int} unique references thread (id) on delete set null
);
create unique index author_main on author (namespace_id) where name is null;
create index author_name on author (namespace_id, name) where name is not null;

-- One version of a memory entry, identified by kind and key. The newest visible version is current; `deleted` marks
-- a version that records a deletion. A row is valid on its branch from `position` up to but without `until`, where
-- the next version on the branch begins. A task's row has no branch until it is sealed. `group_id` is the execution
-- that wrote the row, before and after sealing. A group that is sealed on a second branch is copied: `copy_of` is
-- the copied row, and versions are ordered by it. `label` is the kind of an event or the predicate of a fact.
-- `subject` and `object` belong to a fact, in the form in which they are compared. `extra` is JSON, and
-- `document_id` the document in the search index.
--
-- `scope_id` is the namespace of the row's branch, and `author_id` its author. `stamp` is the time of the first
-- commit on the thread's own branch, or on "main". It is null before that, and on branches of subgraphs.
-- `visible_until` is 2^62 while the head of its author shows the row. Otherwise it is the time when that ended, or 0
-- if the head never showed the row. `source` is the origin of the row ("user", "model", "tool", "import", "person"),
-- and `actor` names it. `correction` is set if a person corrected the value. It is a JSON object with the id of the
-- correction, the values before and after, the sources of the value before, and the id of the correction that this
-- one reverts. Such a row remains when a newer version replaces it.
create table memory (
    id {serial},
    branch_id {int} references branch (id),
    position {int},
    until {int} not null default 4611686018427387904,
    group_id {int},
    copy_of {int},
    kind {text} not null,
    key {text} not null,
    label {text},
    subject {text},
    object {text},
    content_id {int} references content (id),
    deleted {int} not null default 0,
    importance {int},
    expires_at {int},
    extra {text},
    document_id {int},
    created_at {int} not null,
    written_at {int} not null,
    scope_id {int},
    author_id {int} references author (id),
    stamp {int},
    visible_until {int} not null default 0,
    source {text},
    actor {text},
    correction {text},
    check (branch_id is not null or group_id is not null)
);
create index memory_current on memory (branch_id, kind, until, position);
create index memory_order on memory (branch_id, kind, position, id);
create index memory_key on memory (branch_id, kind, key, until);
create index memory_group_id on memory (group_id) where group_id is not null;
create index memory_content on memory (content_id) where content_id is not null;
create index memory_copy_of on memory (copy_of) where copy_of is not null;
create index memory_expiry on memory (branch_id, expires_at) where expires_at is not null;
create index memory_author on memory (author_id) where author_id is not null;
create index memory_correction on memory (branch_id) where correction is not null;
create index memory_subject on memory (branch_id, subject, kind, label, object, until) where subject is not null;
create index memory_object on memory (branch_id, object, kind, created_at, until) where object is not null;
create index memory_learned on memory (branch_id, kind, created_at) where subject is not null;
create index memory_subject_learned on memory (branch_id, subject, kind, created_at) where subject is not null;
-- The indexes for the current and former rows of all threads of a scope.
create index memory_visible on memory (scope_id, kind, key, stamp) where visible_until = 4611686018427387904;
create index memory_visible_newest on memory (scope_id, kind, stamp) where visible_until = 4611686018427387904;
create index memory_formerly_visible on memory (scope_id, kind, stamp) where visible_until > 0 and visible_until < 4611686018427387904;
create index memory_visible_subject on memory (scope_id, kind, subject, label, object)
    where visible_until = 4611686018427387904 and subject is not null;
create index memory_visible_object on memory (scope_id, kind, object, created_at)
    where visible_until = 4611686018427387904 and subject is not null;
create index memory_visible_subject_learned on memory (scope_id, kind, subject, created_at)
    where visible_until = 4611686018427387904 and subject is not null;
create index memory_visible_learned on memory (scope_id, kind, created_at)
    where visible_until = 4611686018427387904 and subject is not null;

-- The sources of a version: ids of messages, and of the conversations or threads that contain them. A version that
-- loses all its sources is forgotten.
create table memory_source (
    memory_id {int} not null references memory (id) on delete cascade,
    source {text} not null,
    primary key (memory_id, source)
){without_rowid};
create index memory_source_source on memory_source (source);

-- A group: the rows that one execution of a task wrote. Its id is a random number. The checkpoint of the task may
-- not be stored yet. `owner` is the unique token of the run. `ended` marks an execution that ended without a result;
-- the next execution of the task replaces this group.
create table memory_group (
    id {int} primary key,
    thread_id {int} not null references thread (id) on delete cascade,
    ns {text} not null,
    checkpoint {text} not null,
    task {text} not null,
    created_at {int} not null,
    owner {int},
    ended integer not null default 0
);
create index memory_group_task on memory_group (thread_id, task);

-- The groups that are sealed on a branch, with their positions. `thread` is the thread of the group, if it differs
-- from the thread of the branch.
create table sealed_group (
    group_id {int} not null,
    branch_id {int} not null references branch (id) on delete cascade,
    position {int} not null,
    thread {text},
    primary key (group_id, branch_id)
){without_rowid};
create index sealed_group_branch on sealed_group (branch_id, position);
create index sealed_group_thread on sealed_group (branch_id) where thread is not null;

-- Tasks that finished under a checkpoint, with the groups that they had written by then, as a JSON list. `caller` is
-- the task that called this one, if any.
create table finished_task (
    thread_id {int} not null references thread (id) on delete cascade,
    task {text} not null,
    ns {text} not null,
    checkpoint {text} not null,
    caller {text},
    groups {text} not null,
    created_at {int} not null,
    primary key (thread_id, task)
){without_rowid};
create index finished_task_step on finished_task (thread_id, ns, checkpoint);

-- The groups of `finished_task`, for lookups. A group is retained as long as the result of a task names it.
create table finished_group (
    group_id {int} not null,
    thread_id {int} not null,
    task {text} not null,
    primary key (group_id, thread_id, task),
    foreign key (thread_id, task) references finished_task (thread_id, task) on delete cascade
){without_rowid};
create index finished_group_task on finished_group (thread_id, task);

-- The position of a checkpoint on a branch. Its memory is the memory of the branch up to this position, and of the
-- ancestors of the branch.
create table checkpoint_position (
    ns_id {int} not null,
    checkpoint {text} not null,
    branch_id {int} not null references branch (id),
    position {int} not null,
    primary key (ns_id, checkpoint),
    foreign key (ns_id, checkpoint) references checkpoint (ns_id, name) on delete cascade
){without_rowid};
create index checkpoint_position_branch on checkpoint_position (branch_id, position);

-- The base of a subgraph's branch: the enclosing checkpoint, and its position if it has one. `groups` are the groups
-- that the enclosing task had written when the subgraph began, as a JSON list, each with its last included row.
create table branch_base (
    branch_id {int} primary key references branch (id) on delete cascade,
    base_id {int} references branch (id),
    base_position {int},
    checkpoint {text} not null,
    groups {text} not null
);
create index branch_base_base on branch_base (base_id, base_position) where base_id is not null;

-- The groups of `branch_base`, for lookups. A group is retained as long as such a branch exists.
create table base_group (
    group_id {int} not null,
    branch_id {int} not null references branch (id) on delete cascade,
    primary key (group_id, branch_id)
){without_rowid};
create index base_group_branch on base_group (branch_id);

-- Long-term items ---------------------------------------------------------------------------------------------------

-- Values by namespace and key. `value` is JSON. `ttl` is in minutes from the last read or write; the item expires at
-- `expires_at`. `document_id` is its document in the search index. `indexed` contains the texts of the indexed
-- fields as a JSON list, or null if the whole value is indexed.
create table item (
    id {id},
    namespace_id {int} not null references namespace (id),
    key {text} not null,
    checksum {int} not null,
    created_at {int} not null,
    updated_at {int} not null,
    ttl {real},
    expires_at {int},
    document_id {int},
    indexed {text},
    value {blob} not null,
    source {text},
    actor {text},
    unique (namespace_id, key)
);
create index item_recent on item (namespace_id, updated_at desc, key, expires_at{index_id});
create index item_expiry on item (expires_at) where expires_at is not null;

-- The values of a byte store. Keys are UTF-8 stored as bytes, so that any text is valid and the order is by code
-- points.
create table blob (
    id {id},
    namespace_id {int} not null references namespace (id),
    key {blob} not null,
    checksum {int} not null,
    updated_at {int} not null,
    value {blob} not null,
    unique (namespace_id, key)
);

-- Search ------------------------------------------------------------------------------------------------------------

-- A document is a message, an item, or any other searchable object. Its id contains 26 bits of its scope, 15 bits of
-- its series in the scope, and 22 bits of its place in the series. Neighbouring documents have neighbouring ids. The
-- documents of a namespace are a few ranges of ids, so a search can skip all other ids in the index.

-- The documents of one kind in one namespace. A namespace with very many series has several scopes of a kind.
create table search_scope (
    id {serial},
    namespace_id {int} not null references namespace (id),
    kind {text} not null,
    series {int} not null default 0
);
create index search_scope_namespace on search_scope (namespace_id, kind);

-- A sequence of documents, such as the messages of a conversation. `next` is the place of the next document.
-- `documents` and `words` count the existing documents and their words, except those that wait in `search_unindexed`.
create table search_series (
    id {int} primary key,
    scope_id {int} not null references search_scope (id),
    name {text} not null,
    next {int} not null default 0,
    documents {int} not null default 0,
    words {int} not null default 0,
    first_at {int} not null,
    last_at {int} not null
);
create index search_series_name on search_series (scope_id, name);

-- The totals of a scope, so that a search need not count. A scope may have several rows, whose sums are its totals.
-- `series` counts the existing series, and `last_at` is the latest time of a document.
create table search_total (
    id {int} primary key,
    scope_id {int} not null references search_scope (id) on delete cascade,
    series {int} not null,
    documents {int} not null,
    words {int} not null,
    last_at {int} not null
);
create index search_total_scope on search_total (scope_id);

-- The speakers of a series: the words of each name, and the number by which documents refer to the speaker.
create table search_speaker (
    word {text} not null,
    series_id {int} not null references search_series (id) on delete cascade,
    speaker {int} not null,
    primary key (word, series_id, speaker)
){without_rowid};
create index search_speaker_series on search_speaker (series_id);

-- The documents. `owner` is the row that the document represents. `features` are bits for features of its text other
-- than words.
create table search_document (
    id {int} primary key,
    owner {int} not null,
    created_at {int} not null,
    speaker {int},
    role {text},
    length {int} not null,
    features {int} not null
);

-- Vectors of documents, one for each passage, as 32-bit floats of length one. Ids ascend, so that a cache can read
-- only the new vectors.
create table search_vector (
    id {serial},
    document_id {int} not null references search_document (id) on delete cascade,
    passage {int} not null,
    vector {blob} not null,
    unique (document_id, passage)
);

-- Documents whose passages have no vectors yet. A document that changes gets a new ticket.
create table search_unembedded (
    ticket {serial},
    document_id {int} not null unique references search_document (id) on delete cascade
);

-- The state of the search index. `dimensions` is null while vectors are not enabled. `removals` counts removals of
-- vectors, and `pgvector` is 1 if they are also in a table of pgvector's.
create table search_state (
    id {int} primary key check (id = 1),
    analysis {int} not null,
    dimensions {int},
    removals {int} not null default 0,
    pgvector {int} not null default 0
);
insert into search_state (id, analysis) values (1, 0);

-- Audit trail: every prompt and reply, in one chain -----------------------------------------------------------------

-- The entries. `sequence` is the position in the chain, without gaps. `digest` covers all content of the entry that
-- never changes, and `link` covers this digest and the previous link. An erased entry retains these three; the other
-- columns are null. `hidden` is 0 for visible entries, 1 for junk, and 2 for a reference that has a newer version.
-- `junk` is a JSON list of the rules that mark an entry as junk. `mark` is a digest that identifies duplicates of
-- todos and references, and the calls of one conversation or thread. The messages of calls are parts of a part
-- store, each stored once, and `messages` is a recipe that names them. So a call with a long history costs only its
-- new messages. `body` is JSON, compressed if that makes an archived entry smaller. `document_id` is its document in
-- the search index, if it has one.
create table audit (
    sequence {int} primary key,
    link {blob} not null,
    digest {blob} not null,
    salt {blob},
    namespace_id {int} references namespace (id),
    key {text},
    kind {text},
    hidden {int},
    conversation {text},
    thread {text},
    created_at {int},
    junk {text},
    status {text},
    mark {blob},
    archived {int},
    document_id {int},
    store_id {int},
    messages {blob},
    body {blob}
);
create index audit_kind on audit (namespace_id, kind, hidden, sequence);
create index audit_key on audit (namespace_id, key) where key is not null;
create index audit_conversation on audit (namespace_id, conversation, kind, hidden, sequence)
    where conversation is not null;
create index audit_thread on audit (namespace_id, thread, sequence) where thread is not null;
create index audit_mark on audit (namespace_id, kind, mark, sequence) where mark is not null;
create index audit_status on audit (namespace_id, status, sequence) where status is not null;

-- The end of the chain. Entries after `indexed` are not in the search index yet, and are added together.
create table audit_head (
    id {int} primary key check (id = 1),
    sequence {int} not null,
    link {blob} not null,
    indexed {int} not null
);

-- Leases ------------------------------------------------------------------------------------------------------------

-- The right of one process at a time to do some work in the background. `owner` is its unique token, and
-- `expires_at` the time when another process may take over.
create table lease (
    path {text} not null,
    kind {text} not null,
    key {text} not null,
    owner {text} not null,
    expires_at {int} not null,
    primary key (path, kind, key)
);
