-- The full-text index over analyzed terms. The cost of FTS5 is per transaction, not per row: to index one document
-- in its own commit costs thirteen times as much as in a batch of 64. So new documents wait, and are indexed
-- and counted together.
create virtual table search_index using fts5 (terms, content = '', tokenize = 'ascii', detail = 'none');
create table search_unindexed (
    document_id integer primary key,
    terms text not null
);

insert into audit_head (id, sequence, link, indexed) values (1, 0, zeroblob(32), 0);
