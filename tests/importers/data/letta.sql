create table agents (id text primary key, name text, message_ids json, system text, created_at datetime,
    is_deleted boolean not null default false);
create table block (id text primary key, label text not null, value text not null, "limit" integer, metadata_ json,
    created_at datetime, updated_at datetime, is_deleted boolean not null default false);
create table blocks_agents (agent_id text, block_id text, block_label text);
create table messages (id text primary key, role text not null, text text, content json, name text, tool_calls json,
    tool_call_id text, tool_returns json, conversation_id text, sequence_id integer not null, agent_id text,
    created_at datetime, is_deleted boolean not null default false);
create table archival_passages (id text primary key, text text not null, metadata_ json, tags json, embedding blob,
    archive_id text, created_at datetime, is_deleted boolean not null default false);
create table archives_agents (agent_id text, archive_id text, created_at datetime, is_owner boolean);
insert into agents values ('agent-a', 'watcher', '[]', '', '2025-08-28 00:57:00', false),
    ('agent-b', 'watcher', '[]', '', '2025-08-29 00:57:00', false), ('agent-c', 'gone', '[]', '', '2025-08-29', true);
insert into archives_agents values ('agent-a', 'archive-1', '2025-08-28', true);
insert into archival_passages values
    ('passage-1', 'Herons fish in the morning.', '{"by": "Ada"}', '["bird"]', null, 'archive-1', '2025-08-28', false),
    ('passage-2', 'The pond is dry.', '{}', '[]', null, 'archive-1', '2025-08-28 01:00:00', true);
insert into messages values ('message-b', 'user', 'Any news?', null, null, '[]', null, null, 'conv-1', 99, 'agent-b',
    '2025-08-29 01:00:00', false);
