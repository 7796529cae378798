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
    return copied("mem0_get_all.json", folder / "mem0.json")


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


_LETTA = json.loads((DATA / "letta.af").read_text())
LETTA_SAID, LETTA_BLOCKS = _LETTA["agents"][0]["messages"], _LETTA["blocks"]


def copied(name, path):
    path.write_text((DATA / name).read_text())
    return path


def letta(folder):
    """An agent file, as the server exports it today."""
    return copied("letta.af", folder / "watcher.af")


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
    return copied("marsys.json", folder / "watcher.json")


def opus(folder):
    return copied("opus.json", folder / "agent_memory.json")


SOURCES = {
    "langgraph-saver": ("langgraph-saver", saver),
    "langgraph-store": ("langgraph-store", store),
    "langmem": ("langmem", store),
    "chat-history": ("chat-history", chat_history),
    "chat-history in files": ("chat-history", chat_files),
    "mem0": ("mem0", mem0),
    "letta": ("letta", letta),
    "letta server": ("letta", letta_server),
    "memgpt": ("memgpt", memgpt),
    "memgpt as built": ("memgpt", ai_scientist),
    "taskweaver": ("taskweaver", taskweaver),
    "marsys": ("marsys", marsys),
    "opus": ("opus", opus),
}
"""Sources, by their names: their kind, and what makes them in a folder."""
