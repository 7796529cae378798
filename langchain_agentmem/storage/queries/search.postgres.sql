-- name: extend_series
-- Reserve the next document ids in the newest series with a name, unless too few are left. Also return the dimensions
-- of vectors. On PostgreSQL, no documents wait for the full-text index.
update search_series
set next = next + :documents, documents = documents + :documents, words = words + :words,
    first_at = case
        when documents = 0 or first_at > cast(:first_at as bigint) then cast(:first_at as bigint) else first_at end,
    last_at = case
        when documents = 0 or last_at < cast(:last_at as bigint) then cast(:last_at as bigint) else last_at end
where id = (
        select max(s.id) from search_series s
        join search_scope c on c.id = s.scope_id
        join namespace n on n.id = c.namespace_id
        where n.path = :path and c.kind = :kind and s.name = :name
    )
    and next + :documents <= :max_places
returning id, next as next_place, (select dimensions from search_state where id = 1) as dimensions, 0 as waiting;

-- name: scopes_within
-- The scopes of the namespaces in a range of paths. The lateral join looks up the scopes by namespace, whatever their
-- number.
select c.id, c.kind from namespace n
cross join lateral (select id, kind from search_scope where namespace_id = n.id offset 0) c
where n.path >= :low and n.path < :high
order by c.id;

-- name: series_within
select s.id, c.kind from namespace n
cross join lateral (select id, kind from search_scope where namespace_id = n.id offset 0) c
cross join lateral (
    select id from search_series where scope_id = c.id and name {in_texts keys}
    offset 0
) s
where n.path >= :low and n.path < :high
order by s.id;

-- name: grow_series
-- Add a document to the counts of its series again, after it was removed and then restored with its old id.
update search_series set documents = documents + 1, words = words + :words where id = :series
returning (select dimensions from search_state where id = 1) as dimensions, 0 as waiting;

-- name: count_documents
-- Does nothing, like the next two queries: `extend_series` and `change_totals` count the documents.
select null as id where cast(:ids as text) = '';

-- name: count_totals
select null as id where cast(:ids as text) = '';

-- name: keep_place
select null as id where cast(:id as bigint) < 0;

-- fragment: waiting_documents
0

-- fragment: waiting_totals

-- name: change_totals
-- Change the totals of a scope, and subtract the words of the document `minus` if it exists. A writer changes a row
-- that no other writer has locked, or adds a row with a random id. So no writer waits for another.
insert into search_total (id, scope_id, series, documents, words, last_at)
select coalesce(
        (select t.id from search_total t where t.scope_id = cast(:scope as bigint) limit 1 for update skip locked),
        cast(random() * 4611686018427387904 as bigint)
    ), cast(:scope as bigint), cast(:series as bigint), cast(:documents as bigint),
    cast(:words as bigint) - coalesce((select length from search_document where id = cast(:minus as bigint)), 0),
    cast(:last_at as bigint)
on conflict (id) do update set series = search_total.series + excluded.series,
    documents = search_total.documents + excluded.documents, words = search_total.words + excluded.words,
    last_at = greatest(search_total.last_at, excluded.last_at);

-- name: index_terms
-- Each term is indexed together with the id of the scope (`id >> 37`), after the separator `chr(31)`. So a search reads
-- no documents of other namespaces from the index.
insert into search_index (document_id, terms)
values (cast(:id as bigint), array_to_tsvector(array_remove(string_to_array(
    replace(cast(:terms as text), ' ', chr(31) || (cast(:id as bigint) >> 37) || ' ')
        || chr(31) || (cast(:id as bigint) >> 37), ' '
), chr(31) || (cast(:id as bigint) >> 37))));

-- name: unindex_terms
-- The row contains its terms, so the parameter is not needed.
delete from search_index where document_id = :id and cast(:terms as text) is not null;

-- name: empty_index
truncate search_index;

-- name: insert_unindexed
-- Does nothing, like the other queries on unindexed documents: PostgreSQL indexes documents in the transaction that
-- writes them.
select cast(:id as bigint) as id, cast(:terms as text) as terms where false;

-- name: all_unindexed
select cast(null as bigint) as document_id, cast(null as text) as terms where false;

-- name: delete_unindexed
select null as id where false;

-- name: take_unindexed
select cast(null as bigint) as document_id where cast(:ids as text) = '';

-- name: unindexed_within
select cast(null as bigint) as document_id, cast(null as text) as terms where cast(:ranges as text) = ''
    and :filtered < 0 and :roles = '' and :before < :after;

-- fragment: documents_with_term
-- The documents in the range of t that match its expression. `+ 0` and `offset 0` make the planner begin with the index
-- on the terms.
select i.document_id from search_index i
where i.terms @@ cast(t.expression as tsquery) and i.document_id + 0 >= t.first and i.document_id + 0 < t.last
    and (cast(:filtered as bigint) = 0 or exists (
        select 1 from search_document d
        where d.id = i.document_id
            and (cast(:before as bigint) is null or d.created_at < cast(:before as bigint))
            and (cast(:after as bigint) is null or d.created_at >= cast(:after as bigint))
            and (cast(:roles as text) is null
                or d.role {in_texts roles})
        offset 0
    ))

-- name: postings
-- The same as for SQLite. An expression combines each term with the ids of the scopes in its range, or matches any
-- scope if the range has more than eight.
with range as materialized (
    select cast(value ->> 0 as bigint) as first, cast(value ->> 1 as bigint) as last,
        cast(value ->> 0 as bigint) >> 37 as scope, (cast(value ->> 1 as bigint) - 1) >> 37 as last_scope
    from json_array_elements(cast(:ranges as json))
), wanted as materialized (
    select w.value ->> 0 as term, r.first, r.last, (
            select string_agg('''' || o.value || case when r.last_scope - r.scope < 8
                then chr(31) || s.scope || '''' else chr(31) || ''':*' end, ' | ')
            from (values (w.value ->> 0)) o (value)
            cross join generate_series(r.scope, least(r.last_scope, r.scope + 7)) s (scope)
        ) as own, (
            select string_agg('''' || o.value || case when r.last_scope - r.scope < 8
                then chr(31) || s.scope || '''' else chr(31) || ''':*' end, ' | ')
            from json_array_elements_text(w.value -> 1) o
            cross join generate_series(r.scope, least(r.last_scope, r.scope + 7)) s (scope)
        ) as others
    from json_array_elements(cast(:terms as json)) w
    cross join range r
), searched as materialized (
    select term, first, last, '(' || own || ')' || coalesce(' & (' || others || ')', '') as expression from wanted
)
select t.term, cast(array_to_json(f.found[1 : cast(:limit as integer)]) as text) as documents,
    case when cardinality(f.found) >= cast(:limit as integer) then cast(array_to_json(
        f.found[cardinality(f.found) - cast(:limit as integer) + 1 : cardinality(f.found)]
    ) as text) end as newest
from searched t
cross join lateral (
    select array_agg(h.document_id order by h.document_id) as found from ({documents_with_term}) h
) f
where f.found is not null;

-- name: terms_in_ranges
-- The documents in many small ranges that contain each term. The few documents of each range are read and then tested,
-- since a term may be in most documents.
select w.value as term, cast(json_agg(d.document_id) as text) as documents
from json_array_elements(cast(:ranges as json)) r
cross join lateral (
    select document_id, terms from search_index
    where document_id >= cast(r.value ->> 0 as bigint) and document_id < cast(r.value ->> 1 as bigint)
    offset 0
) d
join json_array_elements_text(cast(:terms as json)) w
    on d.terms @@ cast('''' || w.value || chr(31) || (d.document_id >> 37) || '''' as tsquery)
group by w.value;

-- fragment: series_with_terms
-- The series with a document that contains all of some terms, in any scope.
select distinct i.document_id >> 22 as series from search_index i
where i.terms @@ cast((
    select string_agg('''' || value || chr(31) || ''':*', ' & ') from json_array_elements_text(cast(:terms as json))
) as tsquery)

-- name: count_index
select (select count(*) from search_index) as indexed, 0 as waiting, (select count(*) from search_document) as documents;

-- name: documents_within
select cast(json_build_array(
    array_agg(d.id), array_agg(d.owner), array_agg(d.length), array_agg(d.features),
    array_agg(d.created_at) filter (where cast(:times as bigint) = 1),
    array_agg(d.speaker), array_agg(d.role)
) as text) as columns
from json_array_elements(cast(:ranges as json)) r
cross join lateral (
    select * from search_document
    where id >= cast(r.value ->> 0 as bigint) and id < cast(r.value ->> 1 as bigint)
    offset 0
) d
having count(*) > 0;

-- name: documents_of_speakers
select p.word, d.id
{from_named_speakers}
cross join lateral (
    select id, created_at from search_document
    where id >= p.series_id << 22 and id < (p.series_id + 1) << 22 and speaker = p.speaker
    order by id desc limit 100
) d
order by d.created_at desc, d.id desc
limit cast(:limit as bigint);

-- name: lock_writers
-- Wait for other writers, which may not know yet that vectors are enabled.
lock table search_series in share row exclusive mode;

-- name: lock_vectors
-- One transaction at a time writes vectors, so that their ids ascend for every reader.
select id from search_state where id = 1 for update;

-- name: take_unembedded
-- Documents that another transaction is deleting are skipped, so that no writer waits for vectors.
delete from search_unembedded
where ticket = :ticket and document_id in (
    select d.id from search_document d
    where d.id = (select u.document_id from search_unembedded u where u.ticket = :ticket)
    for key share skip locked
)
returning document_id;

-- name: pgvector_available
-- 1 if the server can compare vectors: pgvector is installed, in any schema. 0 if Citus has moved the tables to another
-- node; a trigger of the tables shows this. A new table would not be on that node, and would keep deleted vectors.
select count(*) as available from pg_extension
where extname = 'vector' and has_schema_privilege(extnamespace, 'usage') and not exists (
    select from pg_trigger t join pg_proc p on p.oid = t.tgfoid
    where t.tgrelid = to_regclass('search_document') and p.proname = 'citus_truncate_trigger'
);

-- name: create_pgvector
-- The functions hide the schema of pgvector, which is not in the search path. With `statistics 0`, the statistics of
-- the server contain no vectors.
do $begin$
declare
    idx constant text = (
        select quote_ident(n.nspname) from pg_extension e join pg_namespace n on n.oid = e.extnamespace
        where e.extname = 'vector'
    );
begin
    execute 'create table search_pgvector (
        document_id bigint not null references search_document (id) on delete cascade,
        passage bigint not null,
        vector ' || idx || '.vector not null,
        primary key (document_id, passage)
    )';
    alter table search_pgvector alter column vector set statistics 0;
    execute 'create function search_pgvector_of(written text) returns ' || idx || '.vector
        language sql immutable parallel safe as $of$ select cast(written as ' || idx || '.vector) $of$';
    execute 'create function search_pgvector_distance(one ' || idx || '.vector, other ' || idx || '.vector)
        returns double precision
        language sql immutable parallel safe as $distance$ select one operator(' || idx || '.<=>) other $distance$';
end
$begin$;

-- name: enable_pgvector
update search_state set pgvector = 1 where id = 1;

-- name: empty_pgvector
truncate search_pgvector;

-- name: insert_pgvector
insert into search_pgvector (document_id, passage, vector)
values (:id, :passage, search_pgvector_of(:vector))
on conflict (document_id, passage) do nothing;

-- name: nearest_pgvector
-- The documents with the nearest passages.
with question as materialized (select search_pgvector_of(:vector) as vector)
select v.document_id,
    cast(round(cast(min(search_pgvector_distance(v.vector, q.vector)) as numeric), 6) as double precision) as distance
from json_array_elements(cast(:ranges as json)) r
cross join question q
join search_pgvector v
    on v.document_id >= cast(r.value ->> 0 as bigint) and v.document_id < cast(r.value ->> 1 as bigint)
group by v.document_id
order by distance, v.document_id desc
limit cast(:limit as bigint);

-- name: nearest_indexed
-- The same as `nearest_pgvector`, with the index on vectors, which may miss some documents. Fewer documents than the
-- limit may be returned if documents outside the ranges are nearer.
select document_id, cast(round(cast(min(distance) as numeric), 6) as double precision) as distance
from search_pgvector_nearest(:vector, cast(:ranges as json), 2 * cast(:limit as bigint))
group by document_id
order by distance, document_id desc
limit cast(:limit as bigint);

-- name: vector_index
-- `valid`: a usable index on vectors exists. `lacking`: an index must be created, since no usable index exists, this
-- role may create one, pgvector supports iterative scans (from version 0.8 on), and there are enough vectors.
select i.valid,
    not i.valid and pg_has_role(t.relowner, 'usage') and cast(string_to_array(e.extversion, '.') as bigint[]) >= '{0,8}'
        and cast(:min_vectors as bigint) = (select count(*) from (select from search_pgvector limit cast(:min_vectors as bigint)) v)
        as lacking
from pg_class t
cross join pg_extension e
cross join (
    select count(*) > 0 as valid from pg_index where indexrelid = to_regclass('search_pgvector_near') and indisvalid
) i
where t.oid = to_regclass('search_pgvector') and e.extname = 'vector';

-- name: vector_index_statements
-- The statements that create the index on vectors, in half precision. The first one drops an unfinished index. The
-- second one creates a function that searches with the maximum effort, and with iterative scans if filters leave few
-- results. It begins with a use of pgvector, since the server knows pgvector's options only after its first use.
select unnest(array[
    format('drop index concurrently if exists %1$I.search_pgvector_near', p.ours),
    format('select %1$I.search_pgvector_of(''[1]'');
        create or replace function %1$I.search_pgvector_nearest(question text, ranges json, wanted bigint)
        returns table (document_id bigint, distance double precision) language sql stable
        set hnsw.iterative_scan = relaxed_order set hnsw.ef_search = 1000 set enable_sort = off
        as $nearest$
            select n.document_id, n.vector operator(%2$I.<=>) cast($1 as %2$I.vector)
            from (
                select v.document_id, v.vector from %1$I.search_pgvector v
                where exists (
                    select from json_array_elements($2) r
                    where v.document_id >= cast(r.value ->> 0 as bigint) and v.document_id < cast(r.value ->> 1 as bigint)
                    offset 0
                )
                order by cast(v.vector as %2$I.halfvec(%3$s)) operator(%2$I.<=>) cast($1 as %2$I.halfvec(%3$s))
                limit $3
            ) n
        $nearest$', p.ours, p.pgvectors, p.dimensions),
    format('create index concurrently search_pgvector_near on %1$I.search_pgvector
        using hnsw (cast(vector as %2$I.halfvec(%3$s)) %2$I.halfvec_cosine_ops)', p.ours, p.pgvectors, p.dimensions)
]) as statement
from (
    select current_schema() as ours, n.nspname as pgvectors, s.dimensions
    from pg_extension e join pg_namespace n on n.oid = e.extnamespace cross join search_state s
    where e.extname = 'vector' and s.id = 1
) p;
