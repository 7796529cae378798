"""One source of each kind.

What stands in `data` was written by the originals' own code: mem0 2.2 and langchain-community 0.4. The others are
made by packages that are installed, or as the originals' documents and code show them.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import yaml
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.sqlite import SqliteStore

DATA = Path(__file__).parent / "data"


def database(path, script):
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return path


def chat_history(folder):
    return database(folder / "chat.db", (DATA / "sql_chat_message_history.sql").read_text())


def chat_files(folder):
    (folder / "chats" / "bob").mkdir(parents=True)
    for name in ("monday", "bob/monday"):
        (folder / f"chats/{name}.json").write_text((DATA / "file_chat_message_history.json").read_text())
    return folder / "chats"


def mem0(folder):
    path = folder / "mem0.json"
    path.write_text((DATA / "mem0_get_all.json").read_text())
    return path


def mem0_history(folder):
    return database(folder / "history.db", (DATA / "mem0_history.sql").read_text())


def saver(folder):
    builder = StateGraph(MessagesState).add_node("say", lambda _: {"messages": [AIMessage("Noted.")]})
    with SqliteSaver.from_conn_string(str(folder / "threads.db")) as stock:
        graph = builder.add_edge(START, "say").compile(checkpointer=stock)
        for thread in ("ada", "bob"):
            for text in ("Ana lives in Lisbon.", "And Bo?"):
                graph.invoke({"messages": [HumanMessage(text)]}, {"configurable": {"thread_id": thread}})
    return folder / "threads.db"


def store(folder):
    with SqliteStore.from_conn_string(str(folder / "store.db")) as stock:
        stock.setup()
        stock.put(("users", "ada"), "bird", {"text": "likes herons", "n": 3})
        stock.put(("users", "ada"), "tea", {"kind": "Memory", "content": {"content": "likes tea"}}, ttl=60)
        stock.put(("users",), "all", {"content": "everybody eats"})
    return folder / "store.db"


MEMGPT = """
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
"""
AI_SCIENTIST = """
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
"""


def memgpt(folder):
    return database(folder / "memgpt.db", MEMGPT)


def ai_scientist(folder):
    return database(folder / "ai_scientist.db", AI_SCIENTIST)


SESSION = {
    "id": "conv-20240909-060027-8372548e",
    "plugins": [],
    "roles": [],
    "enabled": True,
    "rounds": [
        {
            "id": "round-20240909-060037-05d0804a",
            "user_query": "Plot the sales of May.",
            "state": "finished",
            "post_list": [
                {
                    "id": "post-20240909-060037-ea7129d1",
                    "message": "Plot the sales of May.",
                    "send_from": "User",
                    "send_to": "Planner",
                    "attachment_list": [],
                },
                {
                    "id": "post-20240909-060046-8dbe93bf",
                    "message": "Draw a bar chart.",
                    "send_from": "Planner",
                    "send_to": "CodeInterpreter",
                    "attachment_list": [
                        {"id": "atta-1", "type": "plan", "content": "1. Draw.", "extra": None},
                        {"id": "atta-2", "type": "init_plan", "content": "1. Draw.", "extra": None},
                    ],
                },
            ],
        },
    ],
}
EXAMPLE = {
    "enabled": True,
    "rounds": [
        {
            "user_query": "count the rows",
            "state": "created",
            "post_list": [
                {"message": "count the rows", "send_from": "User", "send_to": "Planner", "attachment_list": None},
                {"message": "count the rows", "send_from": "Planner", "send_to": "User", "attachment_list": None},
            ],
        }
    ],
}


def taskweaver(folder):
    project = folder / "project"
    (project / "experience").mkdir(parents=True)
    (project / "session.yaml").write_text(yaml.safe_dump(SESSION, sort_keys=False))
    (project / "example.json").write_text(json.dumps(EXAMPLE))
    (project / "experience" / "handcrafted_exp_1.yaml").write_text(
        "exp_id: 1\nwho: []\nwhen: files\nwhat: look first\n"
    )
    return project


def marsys(folder):
    call = {"id": "call-1", "type": "function", "function": {"name": "look", "arguments": '{"at": "pond"}'}}
    messages = [
        {"role": "system", "content": "You watch birds."},
        {"role": "user", "content": "Where are herons?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "At the pond.", "name": "look", "tool_call_id": "call-1"},
        {"role": "user", "content": [{"type": "text", "text": "And here?"}]},
        {"role": "user", "content": "Where are herons?"},
    ]
    path = folder / "watcher.json"
    state = {"plan": ["look"]}
    saved = {"memory_type": "managed_conversation", "messages": messages, "timestamp": 1_700_000_000.5}
    path.write_text(json.dumps({**saved, "additional_state": state}, indent=2))
    return path


def opus(folder):
    entries = [
        {"prompt": "Where are herons?", "reply": "At the pond.", "timestamp": 1_700_000_000, "conversation_id": "a"},
        {
            "prompt": "[TODO] look at the pond",
            "reply": "",
            "timestamp": 1_700_000_001,
            "conversation_id": "todo-capture",
        },
        {"prompt": "ok", "reply": "fine", "timestamp": 1_700_000_002},
    ]
    path = folder / "agent_memory.json"
    path.write_text(json.dumps({"history": entries}))
    return path


SOURCES = {
    "langgraph-saver": ("langgraph-saver", saver),
    "langgraph-store": ("langgraph-store", store),
    "langmem": ("langmem", store),
    "chat-history": ("chat-history", chat_history),
    "chat-history in files": ("chat-history", chat_files),
    "mem0": ("mem0", mem0),
    "mem0 history": ("mem0", mem0_history),
    "memgpt": ("memgpt", memgpt),
    "memgpt as built": ("memgpt", ai_scientist),
    "taskweaver": ("taskweaver", taskweaver),
    "marsys": ("marsys", marsys),
    "opus": ("opus", opus),
}
"""Sources, by their names: their kind, and what makes them in a folder."""
