-- name: extend_series
-- Find the next document ids in the newest series with a name, unless too few are left. Also return the dimensions of
-- vectors, and the number of documents that wait for the full-text index. Nothing is written: SQLite has one writer,
-- and `count_documents` counts the documents when they are indexed.
select id, max(s.next, coalesce((
        select max(d.id) + 1 - (s.id << 22) from search_document d where d.id >= s.id << 22 and d.id < (s.id + 1) << 22
    ), 0)) + :documents as next_place,
    (select dimensions from search_state where id = 1) as dimensions, (select count(*) from search_unindexed) as waiting
from search_series s
where id = (
        select max(s.id) from search_series s
        join search_scope c on c.id = s.scope_id
        join namespace n on n.id = c.namespace_id
        where n.path = :path and c.kind = :kind and s.name = :name
    )
    and next_place <= :max_places and :words >= 0 and :first_at <= :last_at;

-- name: grow_series
-- The state of the index, for a document that was removed and is restored with its old id. Nothing is counted yet.
select dimensions, (select count(*) from search_unindexed) as waiting from search_state
where id = 1 and :series > 0 and :words >= 0;

-- name: count_documents
-- Add documents to the counts of their series.
update search_series as s
set documents = s.documents + d.documents, words = s.words + d.words, next = max(s.next, d.newest + 1 - (d.id << 22)),
    first_at = case when s.documents = 0 then d.first_at else min(s.first_at, d.first_at) end,
    last_at = case when s.documents = 0 then d.last_at else max(s.last_at, d.last_at) end
from (
    select id >> 22 as id, count(*) as documents, sum(length) as words, max(id) as newest, min(created_at) as first_at,
        max(created_at) as last_at
    from search_document where id {in_numbers ids}
    group by id >> 22
) d
where s.id = d.id;

-- name: count_totals
-- Add documents to the totals of their scopes.
insert into search_total (id, scope_id, series, documents, words, last_at)
select (select min(t.id) from search_total t where t.scope_id = d.id >> 37), d.id >> 37, 0, count(*), sum(d.length), max(d.created_at)
from search_document d where d.id {in_numbers ids}
group by d.id >> 37
on conflict (id) do update set documents = documents + excluded.documents, words = words + excluded.words,
    last_at = max(last_at, excluded.last_at);

-- name: keep_place
-- Assign the place of a removed document that was never counted to no other document.
update search_series set next = max(next, (:id & 4194303) + 1) where id = :id >> 22;

-- fragment: waiting_documents
-- The number of documents in a series that wait for the full-text index, and are not counted yet.
(select count(*) from search_unindexed w where w.document_id >= the_row.id << 22 and w.document_id < (the_row.id + 1) << 22)

-- fragment: waiting_totals
-- The numbers of the documents in some ranges that are not counted yet.
union all
select 0, 1, d.length, d.created_at
from ({ranges ranges}) r
cross join search_unindexed w on w.document_id >= r.low and w.document_id < r.high
cross join search_document d on d.id = w.document_id

-- name: change_totals
-- Change the totals of a scope, and subtract the words of the document `minus` if it exists.
insert into search_total (id, scope_id, series, documents, words, last_at)
values (
    (select min(id) from search_total where scope_id = :scope), :scope, :series, :documents,
    :words - coalesce((select length from search_document where id = :minus), 0), :last_at
)
on conflict (id) do update set series = series + excluded.series, documents = documents + excluded.documents,
    words = words + excluded.words, last_at = max(last_at, excluded.last_at);

-- name: index_terms
-- The terms are inserted with `values`, not with a select. Before a statement that may fail half-way, FTS5 writes its
-- pending data.
insert into search_index (rowid, terms) values (:id, :terms);

-- name: unindex_terms
insert into search_index (search_index, rowid, terms) values ('delete', :id, :terms);

-- name: empty_index
insert into search_index (search_index) values ('delete-all');

-- name: insert_unindexed
insert into search_unindexed (document_id, terms) values (:id, :terms);

-- name: all_unindexed
select document_id, terms from search_unindexed order by document_id;

-- name: delete_unindexed
delete from search_unindexed;

-- name: take_unindexed
-- Remove some waiting documents, and return their ids.
delete from search_unindexed where document_id {in_numbers ids} returning document_id;

-- name: unindexed_within
select w.document_id, w.terms
from json_each(:ranges) r
cross join search_unindexed w on w.document_id >= json_extract(r.value, '$[0]') and w.document_id < json_extract(r.value, '$[1]')
where :filtered = 0 or exists (
    select 1 from search_document d
    where d.id = w.document_id
        and (:before is null or d.created_at < :before) and (:after is null or d.created_at >= :after)
        and (:roles is null or d.role {in_texts roles})
);

-- fragment: documents_with_term
-- The documents in the range of f that match its FTS5 expression.
select rowid from search_index
where search_index match f.expression and rowid >= f.first and rowid < f.last
    and (:filtered = 0 or exists (
        select 1 from search_document d
        where d.id = search_index.rowid
            and (:before is null or d.created_at < :before) and (:after is null or d.created_at >= :after)
            and (:roles is null or d.role {in_texts roles})
    ))

-- name: postings
-- For each term and range, the oldest documents that contain the term. If other terms are listed with a term, the
-- documents must also contain one of these. If the limit is reached, the newest such documents are returned too.
with wanted as materialized (
    select json_extract(value, '$[0]') as term,
        '"' || json_extract(value, '$[0]') || '"' || coalesce(
            (select ' AND (' || group_concat('"' || value || '"', ' OR ') || ')' from json_each(w.value, '$[1]')), ''
        ) as expression
    from json_each(:terms) w
), searched as materialized (
    select t.term, t.expression, json_extract(r.value, '$[0]') as first, json_extract(r.value, '$[1]') as last
    from wanted t
    cross join json_each(:ranges) r
), found as materialized (
    select f.*, (
            select json_group_array(h.rowid) from ({documents_with_term}
                limit cast(:limit as integer)
            ) h
        ) as documents
    from searched f
)
select f.term, f.documents, case when json_array_length(f.documents) >= :limit then (
        select json_group_array(h.rowid) from ({documents_with_term}
            order by rowid desc
            limit cast(:limit as integer)
        ) h
    ) end as newest
from found f;

-- name: terms_in_ranges
-- The documents in many small ranges that contain each term.
select t.value as term, (
        select json_group_array(rowid) from search_index
        where search_index match '"' || t.value || '"'
            and rowid >= json_extract(r.value, '$[0]') and rowid < json_extract(r.value, '$[1]')
    ) as documents
from json_each(:terms) t
cross join json_each(:ranges) r;

-- fragment: series_with_terms
-- The series with a document that contains all of some terms.
select rowid >> 22 as series from search_index
where search_index match coalesce((select group_concat('"' || value || '"', ' AND ') from json_each(:terms)), '""')
union
select w.document_id >> 22 from search_unindexed w
where json_array_length(:terms) > 0
    and not exists (select 1 from json_each(:terms) t where instr(' ' || w.terms || ' ', ' ' || t.value || ' ') = 0)

-- name: count_index
select (select count(*) from search_index_docsize) as indexed, (select count(*) from search_unindexed) as waiting,
    (select count(*) from search_document) as documents;

-- name: pgvector_available
select 0 as available;

-- name: create_pgvector
select null as id where false;

-- name: enable_pgvector
select null as id where false;

-- name: empty_pgvector
select null as id where false;

-- name: insert_pgvector
select :id as id, :passage as passage, :vector as vector where false;

-- name: nearest_indexed
select null as document_id, null as distance where :vector = :ranges and :limit < 0;

-- name: vector_index
select 0 as valid, 0 as lacking where :min_vectors < 0;

-- name: vector_index_statements
select null as statement where false;

-- name: nearest_pgvector
select null as document_id, null as distance where :vector = :ranges and :limit < 0;

-- name: lock_writers
-- Does nothing: only one transaction writes at a time.
select null as id where false;

-- name: lock_vectors
select null as id where false;
