create table branches (id text primary key, parent_id text null, node_uid text null, created_at real);
create table core_kv (branch_id text, key text, value text, updated_at real, primary key (branch_id, key));
create table core_meta (branch_id text, key text, importance integer, ttl text, updated_at real,
    primary key (branch_id, key));
create table events (id integer primary key autoincrement, branch_id text, kind text, text text, tags text,
    created_at real, task_hint text, memory_size integer);
create table archival (id integer primary key autoincrement, branch_id text, text text, tags text, created_at real);
create table inherited_exclusions (branch_id text, excluded_event_id integer, excluded_at real);
insert into branches values ('r', null, 'root', 1000), ('c', 'r', null, 3000);
insert into core_kv values ('r', 'name', 'Ada', 1000), ('c', 'name', 'Ada L.', 3100);
insert into core_meta values ('r', 'name', 5, null, 1000);
insert into events (branch_id, kind, text, tags, created_at) values ('r', 'asked', 'Where are herons?', '[]', 2000);
insert into archival (branch_id, text, tags, created_at) values ('c', 'Herons fish.', '["bird"]', 3600);
insert into inherited_exclusions values ('c', 1, 3700);
