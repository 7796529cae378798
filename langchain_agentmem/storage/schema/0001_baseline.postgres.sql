-- The full-text index over analyzed terms. A term is followed by U+001F and its scope. So the terms of one scope are
-- separate keys, and a term of all scopes is a range of keys. Every search reads the list of pending entries, so
-- this list is short: 256 kB.
create table search_index (
    document_id bigint primary key references search_document (id) on delete cascade,
    terms tsvector not null
);
create index search_index_terms on search_index using gin (terms) with (gin_pending_list_limit = 256);

-- The functions of SQLite that the queries use.
create function instr(whole bytea, part bytea) returns integer
    language sql immutable parallel safe as 'select position(part in whole)';
create function from_hex(digits text) returns bytea
    language sql immutable parallel safe as 'select decode(digits, ''hex'')';

-- The number of transactions that each session of a program has written. The last of them wrote the row. A program
-- that lost its connection during a commit reads here whether the commit succeeded.
create table receipt (
    session bigint primary key,
    transactions bigint not null,
    at bigint not null
);

insert into audit_head (id, sequence, link, indexed) values (1, 0, decode(repeat('00', 32), 'hex'), 0);

-- The statistics of the planner contain samples of rows, in which an erased message could remain. So columns of
-- texts and bytes have no statistics. Queries find their rows by unique keys or indexes.
do $$
declare altered text;
begin
    for altered in
        select format('alter table %I alter column %I set statistics 0', table_name, column_name)
        from information_schema.columns
        where table_schema = current_schema() and table_name <> 'agentmem_migration'
            and data_type in ('text', 'bytea', 'tsvector')
            and (table_name, column_name) not in (('branch', 'kind'), ('entry', 'kind'))
    loop
        execute altered;
    end loop;
end $$;
