-- The search index. Documents that belong together, such as the messages of a conversation, form a series. The series
-- of one kind in one namespace form a scope. A document id contains both: `id >> 22` is the id of its series, and `id
-- >> 37` that of its scope. So a series or a scope is a range of document ids. Ranges are passed as JSON: [[first,
-- end], ...].
--
-- Python splits the texts into terms, which are separated by spaces and are the same for both dialects.

-- name: search_state
select analysis from search_state where id = 1;

-- name: set_search_state
update search_state set analysis = :analysis where id = 1;

-- name: next_series
-- Reserve the number of a new series in the newest scope of a kind, unless the scope is full.
update search_scope set series = series + 1
where id = (
        select max(c.id) from search_scope c
        join namespace n on n.id = c.namespace_id
        where n.path = :path and c.kind = :kind
    )
    and series < :max_series
returning id, series;

-- name: create_scope
insert into search_scope (namespace_id, kind) select id, :kind from namespace where path = :path
on conflict (id) do nothing;

-- name: create_series
insert into search_series (id, scope_id, name, first_at, last_at) values (:id, :scope, :name, :first_at, :first_at);

-- name: shrink_series
update search_series
set documents = documents - 1, words = words - coalesce((select d.length from search_document d where d.id = :id), 0)
where id = cast(:id as bigint) >> 22;

-- name: insert_document
insert into search_document (id, owner, created_at, speaker, role, length, features)
values (:id, :owner, :created_at, :speaker, :role, :length, :features);

-- name: update_document
update search_document set length = :length, features = :features where id = :id;

-- name: delete_document
delete from search_document where id = :id;

-- name: insert_speaker
insert into search_speaker (word, series_id, speaker) values (:word, :series, :speaker)
on conflict (word, series_id, speaker) do nothing;

-- name: copy_speaker
-- Copy the speaker of one document to another document.
update search_document set speaker = (select o.speaker from search_document o where o.id = :from_id) where id = :id;

-- name: copy_speakers
-- Copy the speakers of the series of one document to the series of another document.
insert into search_speaker (word, series_id, speaker)
select word, cast(:id as bigint) >> 22, speaker from search_speaker where series_id = cast(:from_id as bigint) >> 22
on conflict (word, series_id, speaker) do nothing;

-- name: count_vector_removal
-- Invalidate the vectors that processes have cached, since a vector was removed.
update search_state set removals = removals + 1 where id = 1 and dimensions is not null;

-- name: vector_state
select dimensions, removals, pgvector, (select coalesce(max(id), 0) from search_vector) as newest from search_state where id = 1;

-- name: set_dimensions
update search_state set dimensions = :dimensions where id = 1;

-- name: request_vector
-- Queue a document for the computation of its vector, if vectors are enabled.
insert into search_unembedded (document_id)
select cast(:id as bigint) from search_state where id = 1 and dimensions is not null
on conflict (ticket) do nothing;

-- name: request_all_vectors
-- Queue all documents without a vector, except those of the audit trail, which is searched by words only.
insert into search_unembedded (document_id)
select d.id from search_document d
join search_scope c on c.id = d.id >> 37
where c.kind <> 'audit'
    and not exists (select 1 from search_vector v where v.document_id = d.id)
    and not exists (select 1 from search_unembedded u where u.document_id = d.id)
on conflict (ticket) do nothing;

-- name: unembedded_documents
-- A page of the queued documents, in the order in which they were queued.
select u.ticket, u.document_id, d.owner, c.kind from search_unembedded u
join search_document d on d.id = u.document_id
join search_scope c on c.id = u.document_id >> 37
where u.ticket > :after
order by u.ticket
limit cast(:limit as bigint);

-- name: take_unembedded
delete from search_unembedded where ticket = :ticket returning document_id;

-- name: insert_vector
insert into search_vector (document_id, passage, vector) values (:id, :passage, :vector)
on conflict (document_id, passage) do nothing;

-- name: vectors_after
select id, document_id, passage, vector from search_vector where id > :after order by id limit cast(:limit as bigint);

-- name: vectors_from
-- A page of the vectors in one range of document ids, after a passage of the first document. A passage is a section of
-- a document that has its own vector.
select document_id, passage, vector from search_vector
where document_id >= :low and document_id < :end and (document_id > :low or passage > :passage)
order by document_id, passage
limit cast(:limit as bigint);

-- name: vectors_within
-- A page of the vectors in some ranges, in the order in which they were stored.
select v.id, v.document_id, v.vector
from search_vector v
where v.id > :after
    and exists (select 1 from ({ranges ranges}) r where v.document_id >= r.low and v.document_id < r.high)
order by v.id
limit cast(:limit as bigint);

-- name: vectors_of
select v.document_id, v.vector from search_vector v where v.document_id {in_numbers ids};

-- name: delete_series
delete from search_series
where documents + {waiting_documents search_series} = 0 and (cast(:name as text) is null or name = cast(:name as text))
    and scope_id in (
        select c.id from search_scope c join namespace n on n.id = c.namespace_id
        where n.path = :path and c.kind = :kind
    )
returning scope_id;

-- name: delete_scopes
delete from search_scope
where kind = :kind and namespace_id = (select id from namespace where path = :path)
    and not exists (select 1 from search_series s where s.scope_id = search_scope.id);

-- name: documents_after
-- A page of documents with their kinds.
select d.id, d.owner, d.role, c.kind from search_document d
join search_scope c on c.id = d.id >> 37
where d.id > :after
order by d.id
limit cast(:limit as bigint);

-- name: recount_series
update search_series set (documents, words, next, first_at, last_at) = (
    select count(*), coalesce(sum(d.length), 0), coalesce(max(d.id) + 1 - (search_series.id << 22), 0),
        coalesce(min(d.created_at), first_at), coalesce(max(d.created_at), last_at)
    from search_document d
    where d.id >= search_series.id << 22 and d.id < (search_series.id + 1) << 22
);

-- name: delete_totals
delete from search_total;

-- name: recount_totals
insert into search_total (id, scope_id, series, documents, words, last_at)
select scope_id, scope_id, count(*), sum(documents), sum(words), max(last_at) from search_series group by scope_id order by scope_id
on conflict (id) do nothing;

-- name: scopes_within
-- The scopes of the namespaces in a range of paths.
select c.id, c.kind from search_scope c
join namespace n on n.id = c.namespace_id
where n.path >= :low and n.path < :high
order by c.id;

-- name: series_within
-- The series of some names in a range of paths.
select s.id, c.kind from search_series s
join search_scope c on c.id = s.scope_id
join namespace n on n.id = c.namespace_id
where n.path >= :low and n.path < :high and s.name {in_texts keys}
order by s.id;

-- name: series_by_size
-- The series with documents of some kinds, the largest first.
select n.path, s.name, sum(s.documents + {waiting_documents s}) as documents,
    max(case when t.id is null then 0 else 1 end) as of_thread
from search_series s
join search_scope c on c.id = s.scope_id
join namespace n on n.id = c.namespace_id
left join thread t on t.namespace_id = n.id and t.name = s.name
where s.documents + {waiting_documents s} > 0 and c.kind {in_texts keys}
group by n.path, s.name
order by documents desc, n.path, s.name
limit 100;

-- name: search_totals
-- The numbers of series, documents and words in some ranges. Each range consists of whole scopes or of whole series: of
-- scopes if its bounds are multiples of 2^37 (137438953471 is 2^37 - 1).
select cast(coalesce(sum(f.series), 0) as bigint) as series, cast(coalesce(sum(f.documents), 0) as bigint) as documents,
    cast(coalesce(sum(f.words), 0) as bigint) as words, coalesce(max(f.last_at), 0) as last_at
from (
    select t.series, t.documents, t.words, t.last_at
    from ({ranges ranges}) r
    cross join {lookup search_total t} t.scope_id >= r.low >> 37 and t.scope_id < r.high >> 37 {end_lookup t}
    where (r.low | r.high) & 137438953471 = 0
    union all
    select 1, s.documents, s.words, s.last_at
    from ({ranges ranges}) r
    cross join {lookup search_series s} s.id >= r.low >> 22 and s.id < r.high >> 22 {end_lookup s}
    where (r.low | r.high) & 137438953471 <> 0
    {waiting_totals}
) f;

-- fragment: from_named_speakers
-- The speakers in some ranges whose names contain one of some words, with the series of each speaker.
from ({texts words}) w
cross join ({ranges ranges}) r
cross join {lookup search_speaker p}
    p.word = w.value and p.series_id >= r.low >> 22 and p.series_id < r.high >> 22 {end_lookup p}

-- name: find_speakers
-- The speakers in some ranges whose names contain one of some words.
select distinct p.word, p.speaker {from_named_speakers} limit 1000;

-- name: documents_of_speakers
-- The newest documents of the speakers whose names contain one of some words, at most a hundred from each series.
select p.word, d.id
{from_named_speakers}
cross join search_document d on d.id in (
    select id from search_document
    where id >= p.series_id << 22 and id < (p.series_id + 1) << 22 and speaker = p.speaker
    order by id desc limit 100
)
order by d.created_at desc, d.id desc
limit cast(:limit as bigint);

-- name: dated_documents
-- Documents between the times `start` and `end`, then the documents nearest to them. Only documents from `earliest` to
-- `latest` are searched.
select d.id
from ({ranges ranges}) r
cross join {lookup search_series s}
    s.id >= r.low >> 22 and s.id < r.high >> 22
    and (s.first_at < :latest and s.last_at >= :earliest or {waiting_documents s} > 0) {end_lookup s}
cross join {lookup search_document d}
    d.id >= s.id << 22 and d.id < (s.id + 1) << 22 and d.created_at >= :earliest and d.created_at < :latest {end_lookup d}
order by case when d.created_at < :start then :start - d.created_at when d.created_at >= :end then d.created_at - :end
    else 0 end, d.id desc
limit cast(:limit as bigint);

-- name: documents_within
-- The documents in many small ranges, as one row with a JSON list for each column. Reading many rows would take longer
-- than finding them. `times` is 0 if the times are not needed.
select json_array(json_group_array(d.id), json_group_array(d.owner), json_group_array(d.length),
    json_group_array(d.features), json_group_array(d.created_at) filter (where :times),
    json_group_array(d.speaker), json_group_array(d.role)) as columns
from json_each(:ranges) r
cross join search_document d on d.id >= json_extract(r.value, '$[0]') and d.id < json_extract(r.value, '$[1]');

-- name: wrong_series
-- Series whose count of documents is wrong.
select s.name, s.documents + {waiting_documents s} as documents, count(d.id) as actual
from search_series s
left join search_document d on d.id >= s.id << 22 and d.id < (s.id + 1) << 22
group by s.id, s.name, s.documents
having s.documents + {waiting_documents s} <> count(d.id);

-- name: wrong_totals
-- Scopes whose counts of series, documents or words are wrong.
select c.id, c.kind from search_scope c
where (select count(*) from search_series s where s.scope_id = c.id)
        <> (select coalesce(sum(t.series), 0) from search_total t where t.scope_id = c.id)
    or (select coalesce(sum(s.documents), 0) from search_series s where s.scope_id = c.id)
        <> (select coalesce(sum(t.documents), 0) from search_total t where t.scope_id = c.id)
    or (select coalesce(sum(s.words), 0) from search_series s where s.scope_id = c.id)
        <> (select coalesce(sum(t.words), 0) from search_total t where t.scope_id = c.id)
limit 10;

-- name: wrong_owners
-- Documents whose owner does not exist or refers to another document.
select d.id from search_document d
join search_scope c on c.id = d.id >> 37
where (c.kind in ('message', 'nested_message') and not exists (select 1 from entry e where e.id = d.owner and e.document_id = d.id))
    or (c.kind = 'item' and not exists (select 1 from item i where i.id = d.owner and i.document_id = d.id))
    or (c.kind = 'audit' and not exists (
        select 1 from audit a where a.sequence = d.owner and a.document_id = d.id))
    or (c.kind not in ('message', 'nested_message', 'item', 'audit') and not exists (
        select 1 from memory m where m.id = d.owner and m.document_id = d.id and m.kind = c.kind))
limit 10;

-- name: entry_hits
-- Some wordings of messages (see log.sql), each with its newest version, conversation and namespace.
select own.id as wording, slot.id as slot, slot.follows, slot.kind, v.key, v.created_at, b.name as conversation, n.path,
    coalesce(v.body, (select c.body from content c where c.id = v.content_id)) as body
from ({numbers owners}) o
cross join {lookup entry own} own.id = o.value {end_lookup own}
cross join {lookup entry slot} slot.id = coalesce(own.replaces, own.id) {end_lookup slot}
cross join {lookup entry v} v.id = ({edited_version}) {end_lookup v}
cross join {lookup branch b} b.id = slot.branch_id {end_lookup b}
cross join {lookup namespace n} n.id = b.namespace_id {end_lookup n};

-- name: count_unembedded
-- The number of dimensions of vectors, and the number of documents that wait for their vectors.
select (select coalesce(max(dimensions), 0) from search_state) as dimensions, (select count(*) from search_unembedded) as waiting;
