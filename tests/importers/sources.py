"""One source of each kind.

What stands in `data` was written by the originals' own code (mem0 2.2 and langchain-community 0.4), or is as the
originals' documents and code show it: tables of Letta and MemGPT, and a session. The others are made by packages that
are installed.
"""

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


MEMGPT, AI_SCIENTIST, LETTA_TABLES = (
    (DATA / f"{name}.sql").read_text() for name in ("memgpt", "ai_scientist", "letta")
)


def memgpt(folder):
    return database(folder / "memgpt.db", MEMGPT)


def ai_scientist(folder):
    return database(folder / "ai_scientist.db", AI_SCIENTIST)


SESSION = yaml.safe_load((DATA / "session.yaml").read_text())
_COUNTED = [
    {"message": "count the rows", "send_from": one, "send_to": other, "attachment_list": None}
    for one, other in (("User", "Planner"), ("Planner", "User"))
]
EXAMPLE = {"enabled": True, "rounds": [{"user_query": "count the rows", "state": "created", "post_list": _COUNTED}]}


def taskweaver(folder):
    project = folder / "project"
    (project / "experience").mkdir(parents=True)
    (project / "session.yaml").write_text(yaml.safe_dump(SESSION, sort_keys=False))
    (project / "example.json").write_text(json.dumps(EXAMPLE))
    (project / "experience" / "handcrafted_exp_1.yaml").write_text(
        "exp_id: 1\nwho: []\nwhen: files\nwhat: look first\n"
    )
    return project


def _letta_said(number, role, content, **more):
    content = content and [{"type": "text", "text": content if isinstance(content, str) else json.dumps(content)}]
    usual = {"name": None, "tool_calls": None, "tool_call_id": None, "tool_returns": []}
    at = f"2025-08-28T00:57:{number:02}.890070+00:00"
    return {"id": f"message-{number}", "role": role, "content": content, **usual, "created_at": at, **more}


def _letta_call(name, **arguments):
    return [{"id": f"call-{name}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}]


_TIME = "2025-08-28 12:57:44 AM UTC+0000"
LETTA_SAID = [
    _letta_said(0, "system", "<base_instructions>\nYou are Letta."),
    _letta_said(1, "user", {"type": "login", "last_login": "Never", "time": _TIME}),
    _letta_said(2, "user", {"type": "user_message", "message": "Where are herons?", "time": _TIME}),
    _letta_said(3, "assistant", "I look into my memory.",
                tool_calls=_letta_call("archival_memory_search", query="heron")),
    _letta_said(4, "tool", {"status": "OK", "message": "Herons fish in the morning.", "time": _TIME},
                tool_call_id="call-archival_memory_search"),
    _letta_said(5, "assistant", "Now I know.", tool_calls=_letta_call("send_message", message="At the pond.")),
    _letta_said(6, "tool", {"status": "OK", "message": None, "time": _TIME}, tool_call_id="call-send_message"),
]  # fmt: skip
LETTA_BLOCKS = [
    {"id": "block-0", "label": "human", "value": "Her name is Ada.", "limit": 20000, "read_only": False},
    {"id": "block-1", "label": "persona", "value": "I watch birds.", "limit": 20000, "read_only": False},
]


def letta(folder):
    """An agent file, as the server exports it today."""
    agent = {"id": "agent-0", "name": "watcher", "memory_blocks": [], "block_ids": ["block-0", "block-1"]}
    agent |= {"messages": LETTA_SAID, "in_context_message_ids": ["message-0"], "system": "<base_instructions>"}
    lists = {name: [] for name in ("groups", "files", "sources", "tools", "mcp_servers")}
    document = {"agents": [agent], "blocks": LETTA_BLOCKS, **lists, "created_at": "2025-08-28T00:58:01.695247+00:00"}
    path = folder / "watcher.af"
    path.write_text(json.dumps(document, indent=2))
    return path


def letta_server(folder):
    path = database(folder / "letta.db", LETTA_TABLES)
    with closing(sqlite3.connect(path)) as connection, connection:
        for each in LETTA_BLOCKS:
            row = (each["id"], each["label"], each["value"])
            connection.execute("insert into block (id, label, value) values (?, ?, ?)", row)
            connection.execute("insert into blocks_agents values ('agent-a', ?, ?)", row[:2])
        for number, each in enumerate(LETTA_SAID):
            kept = {name: json.dumps(each[name]) for name in ("content", "tool_calls", "tool_returns")}
            row = {**each, **kept, "id": f"message-00000000-0000-0000-0000-{number:012}", "n": number}
            connection.execute(
                "insert into messages values (:id, :role, null, :content, :name, :tool_calls, :tool_call_id, "
                ":tool_returns, null, :n, 'agent-a', :created_at, false)",
                row,
            )
    return path


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
    todo = {"prompt": "[TODO] look at the pond", "reply": "", "conversation_id": "todo-capture"}
    entries = [
        {"prompt": "Where are herons?", "reply": "At the pond.", "timestamp": 1_700_000_000, "conversation_id": "a"},
        {**todo, "timestamp": 1_700_000_001},
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
    "letta": ("letta", letta),
    "letta server": ("letta", letta_server),
    "memgpt": ("memgpt", memgpt),
    "memgpt as built": ("memgpt", ai_scientist),
    "taskweaver": ("taskweaver", taskweaver),
    "marsys": ("marsys", marsys),
    "opus": ("opus", opus),
}
"""Sources, by their names: their kind, and what makes them in a folder."""
