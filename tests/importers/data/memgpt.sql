create table branches (id text primary key, parent_id text, node_name text, created_at real);
create table core_memory (id integer primary key autoincrement, branch_id text not null, key text not null,
    value text not null, importance integer default 3, ttl integer, created_at real, updated_at real);
create table recall_memory (id integer primary key autoincrement, branch_id text not null, event_type text not null,
    content text not null, timestamp real);
create table archival_memory (id text primary key, branch_id text not null, content text not null, tags_json text,
    created_at real);
create virtual table fts_archival using fts5(content, content='archival_memory', content_rowid='rowid');
insert into branches values ('r', null, 'root', 1000), ('c', 'r', 'child', 3000);
insert into core_memory (branch_id, key, value, importance, ttl, created_at, updated_at) values
    ('r', 'name', 'Ada', 5, null, 1000, 1000), ('r', 'goal', 'find herons', 3, null, 1000, 1000),
    ('c', 'name', 'Ada', 5, null, 3000, 3000), ('c', 'plan', 'look at the pond', 2, null, 3100, 3100),
    ('r', 'gone', 'long ago', 1, 5, 1000, 1000);
insert into recall_memory (branch_id, event_type, content, timestamp) values
    ('r', 'asked', 'Where are herons?', 2000), ('r', 'asked', 'Where are they now?', 4000),
    ('r', 'asked', 'Where are herons?', 2000), ('c', 'found', 'A heron at the pond.', 3500);
insert into archival_memory values ('a-1', 'r', 'Herons fish in the morning.', '["bird", "fish"]', 1500),
    ('a-2', 'c', 'The pond lies in the north.', null, 3600);
