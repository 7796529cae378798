-- What there is in a scope of the search, so that a search need not count it: the sums over its rows. `series` counts those
-- that were made and not taken away, `last_at` is the latest time that a document had.
create table search_total (
    id integer primary key,
    scope_id integer not null references search_scope (id) on delete cascade,
    series integer not null,
    documents integer not null,
    words integer not null,
    last_at integer not null
);
create index search_total_scope on search_total (scope_id);

insert into search_total (id, scope_id, series, documents, words, last_at)
select scope_id, scope_id, count(*), sum(documents), sum(words), max(last_at) from search_series group by scope_id order by scope_id;
