"""Common mistakes of users: an error that explains the fix, or the intended result."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph import START, MessagesState, StateGraph

from langchain_agentmem import (
    Admin,
    AgentMemory,
    AgentMemoryByteStore,
    AgentMemoryError,
    AgentMemorySaver,
    AgentMemoryStore,
    LayersConfig,
    ManagedMemoryConfig,
    Retention,
)
from langchain_agentmem.compaction import ActiveContextPolicyConfig, SummarizationConfig

pytestmark = pytest.mark.sqlite_suffices

REFUSED = {
    # opening
    'AgentMemory("agent.db", pool_sise=3)': "unexpected keyword argument 'pool_sise'",
    "AgentMemory(7)": "Pass a path, ':memory:', 'postgresql://…' or a psycopg pool, not 7",
    'AgentMemory("")': "Pass a path",
    'AgentMemory("folder")': "'folder' cannot be opened. Check that it is a file",
    'AgentMemory("missing/agent.db")': "that the folder",
    'AgentMemory("others.db")': "tables of another program (users). Use a separate file or schema",
    'AgentMemory("savers.db")': "To import from other programs, run: agentmem import-from",
    'AgentMemory("notes.txt")': "'notes.txt' is not a database",
    'AgentMemory("new.db", read_only=True)': "Database 'new.db' does not exist, and may not be created",
    'AgentMemory("new.db", migrate=False)': "Database 'new.db' does not exist, and may not be created",
    'AgentMemory("sqlite:///agent.db")': "or the path of a SQLite database, such as 'agent.db'",
    'AgentMemory("mysql://host/database")': "Pass 'postgresql://user@host/database', or the path",
    'AgentMemory("postgresql+psycopg://host/database")': "Pass 'postgresql://user@host/database', or the path",
    'AgentMemory("agent.db", schema="mine")': "schema and pool_size apply only to PostgreSQL",
    'AgentMemory("agent.db", synchronous="OFF")': "'NORMAL' or 'FULL', got 'OFF'",
    'AgentMemory("agent.db", timeout="60")': "timeout must be a valid number, got '60'",
    'AgentMemory("agent.db", hooks=print)': "hooks must be a list of functions",
    'AgentMemory("agent.db", clock=7)': "clock and new_id must be functions",
    'AgentMemory("agent.db", bare_threads="no")': "bare_threads must be a valid boolean, got 'no'",
    'AgentMemory("agent.db", on_thread_delete="drop")': "'keep' or 'forget', got 'drop'",
    'Admin.restore("notes.txt", "notes.txt")': "'notes.txt' is the backup itself. Pass another target",
    'AgentMemoryStore(memory, index="static")': "a dictionary such as {'fields': ['text']}",
    'AgentMemory("agent.db", retention=90)': "retention must be an instance of Retention, got 90",
    "Retention(max_age=90)": "max_age must be a valid timedelta, got 90",
    'AgentMemory("new.db", index="static")': "a dictionary such as {'fields': ['text']}",
    'AgentMemory("new.db", index={"embed": 7})': "must be Embeddings, a function, 'provider:model' or 'static'",
    'AgentMemory("new.db", index={"embed": "nobody:model", "dims": 3})': "cannot be created from 'nobody:model'",
    'AgentMemory("new.db", index={"field": ["text"]})': "Unknown option 'field'. Valid options: embed, dims",
    'AgentMemory("new.db", index={"embed": len})': "index['embed'] needs index['dims']",
    'AgentMemory("new.db", index={"embed": "static", "dims": 3})': "leave index['dims'] out",
    'AgentMemory("new.db", strict="no")': "strict must be a valid boolean, got 'no'",
    'AgentMemorySaver("new.db", record=7)': "The channels to record must be a list of texts",
    'AgentMemorySaver.from_conn_string("new.db", retention=7)': "retention must be an instance of Retention, got 7",
    'AgentMemoryStore.from_conn_string("new.db", ttl=7)': "ttl must be a dictionary such as",
    'AgentMemoryByteStore("new.db", namespace="ada")': "write ('ada',) instead of 'ada'",
    # whose memory
    "memory.within(WAITING)": "has an unfilled key. Write its value, or use AgentMemory(url, namespace=",
    'memory.conversation("monday", WAITING).add_user_message("Hello.")': "has an unfilled key",
    'memory.search("tea", namespace=WAITING)': "has an unfilled key",
    'memory.import_from("mem0", "notes.txt", namespace=WAITING)': "is supported only by the kinds",
    'graph(memory).invoke(HELLO, {"configurable": {"thread_id": "t", "agentmem_namespace": WAITING}})': "unfilled key",
    'users.conversation("monday", (*WAITING, "notes")).add_user_message("Hello.")': "or use memory.within(user_id=…)",
    'AgentMemory("agent.db", namespace="users/{user_id}")': "A namespace is a tuple of strings: write (",
    'AgentMemory("agent.db", namespace=("users", "{user_id"))': 'braces without a valid key such as "{user_id}"',
    'AgentMemory("agent.db", namespace=("users", "{}"))': 'braces without a valid key such as "{user_id}"',
    'users.search("tea")': 'config={"configurable": {"user_id": "…"}}',
    'users.conversation("monday").add_user_message("Hello.")': "use memory.within(user_id=…)",
    'users.within(user="ada")': "has no key 'user'",
    "users.within(WAITING)": "is the template. Fill its keys with memory.within(user_id=…)",
    "users.within()": "Pass either a namespace, within(",
    'AgentMemory("agent.db", namespace=("users", "{user}-{team}"))': "has several keys. Use a separate label for each",
    'memory.search("tea", namespace=("users",), everything=True)': "a namespace or everything=True, not both",
    'memory.within(user_id="ada")': "has no key 'user_id'",
    'memory.search("tea", namespace="ada")': "write ('ada',) instead of 'ada'",
    'memory.conversation("monday", namespace="ada")': "write ('ada',) instead of 'ada'",
    'memory.erase(namespace="ada")': "write ('ada',) instead of 'ada'",
    # configs
    "graph(memory).invoke(HELLO)": "thread_id",
    'graph(users).invoke(HELLO, thread("t"))': "Missing user_id for namespace",
    'graph(users).invoke(HELLO, {"configurable": {"thread_id": "t", "user": "ada"}})': "Missing user_id",
    'graph(users).invoke(HELLO, {"configurable": {"thread_id": "t", "user_id": ""}})': "'' cannot be the user_id",
    'memory.checkpointer.get_tuple({"configurable": {}})': 'config["configurable"]["thread_id"]',
    'memory.layers({"configurable": {}}).core.get()': 'config["configurable"]["thread_id"]',
    'memory.search("tea", config={"thread_id": "t"})': 'inside configurable: {"configurable": {"thread_id": "…"}}',
    'memory.checkpointer.get_tuple({"thread_id": "t"})': 'inside configurable: {"configurable": {"thread_id": "…"}}',
    'memory.search("tea", config="t")': 'a dictionary such as {"configurable": {"thread_id": "…"}}',
    # after it was closed
    '[memory.close(), memory.search("tea")]': "has been closed. Open it again",
    '[memory.close(), memory.conversation("monday").messages]': "has been closed. Open it again",
    '[memory.close(), asyncio.run(memory.asearch("tea"))]': "has been closed. Open it again",
    # searching
    'memory.search("tea", limit="3")': "limit must be a valid integer, got '3'",
    'memory.search("tea", kinds="message")': "kinds must be a list, got 'message'",
    'memory.search("tea", kinds=["messages"])': "Unknown kind 'messages'. Valid kinds: audit, event,",
    'memory.search("tea", order="newest")': "order must be 'score' or 'time', got 'newest'",
    'memory.search("tea", before="2026-01-01")': "before must be a datetime, not str",
    "memory.search(7)": "query must be an instance of str, got 7",
    'memory.search("tea", weights=3)': "weights must be an instance of Weights, got 3",
    "memory.retriever(limits=3)": "Unknown argument 'limits'. A retriever accepts namespace, limit,",
    'memory.retriever(namespace="ada").invoke("tea")': "write ('ada',) instead of 'ada'",
    # conversations
    'memory.conversation("").messages': "ids are strings of 1 to 500 characters",
    'memory.conversation("monday").add("Hello.")': "a Message, a LangChain message or a dict, not str",
    'memory.conversation("monday").add({"role": "user", "text": "Hello."})': "Unknown field 'text'. A message has",
    'memory.conversation("monday").add(role="user", contents="Hello.")': "Unknown field 'contents'. A message",
    'memory.conversation("monday").add_messages(HumanMessage("Hello."))': "a list of messages, not HumanMessage",
    'memory.conversation("monday").add_messages("Hello.")': "a list of messages, not str",
    'memory.conversation("monday").add_user_message(b"Hello.")': "not bytes",
    'memory.conversation("monday").update("none", content="Hello.")': "holds no message with the id 'none'",
    'memory.conversation("monday").add()': "A message needs a role: give message= or role=",
    'memory.conversation("monday").add(RemoveMessage("m"))': "use remove_by_id('m')",
    'memory.conversation("monday").load_from_file(7)': "cannot be read as a saved memory: expected str",
    'post(memory, {"message": "Hi."})': "post must be an instance of Post",
    'post(memory, message="Hi.")': "send_from must be a valid string",
    'memory.session("s").create_round()': "SessionMemory.create_round() missing 1 required positional argument",
    'memory.create("conversation")': "must be 'conversation_history', 'kg', 'layers',",
    # layers and facts
    'memory.layers("ada").core.set("home", None)': "A value of core memory must be text, not NoneType",
    'memory.layers("ada").core.set("home", {"city": "Lisbon"})': "A value of core memory must be text, not dict",
    'memory.layers("ada").core.set("", "Lisbon")': "text of 1 to 500 characters",
    'memory.layers("ada").core.set("home", "Lisbon", ttl="1d")': "a number of seconds or a datetime, not '1d'",
    'memory.layers("ada").core.set("home", "Lisbon", ttl=-5)': "Pass a number of seconds, a later time, or None",
    'memory.layers("ada").core.set("home", "Lisbon", importance=11)': "a whole number from 1 to 5, not 11",
    'memory.layers("ada").recall.append("Ana called.")': 'for example append("note", "Ana called.")',
    'memory.layers("ada").archival.write("Tea.", tags=[7])': "Tags must be texts, but 7 is not one",
    'memory.layers("ada", scope="threads")': "must be 'shared' or 'thread', got 'threads'",
    'memory.layers("ada").write(core=["home"])': "core must be a valid dictionary, got ['home']",
    'memory.layers("ada").write(core={"home": {"worth": 1}})': "value, importance, ttl, and requires value",
    'memory.layers("ada").write(core={"home": {"ttl": 60}})': "value, importance, ttl, and requires value",
    'memory.layers("ada").write(recall=7)': "recall must be an instance of Sequence, got 7",
    'LayersConfig(section_budgets=["core"])': "section_budgets must be a valid dictionary",
    'LayersConfig(final_memory_filename_md="../final.md")': "final_memory_filename_md must match pattern",
    "LayersConfig.from_config([1])": "config must be a mapping of names to values, not list",
    'memory.facts("ada").add_fact("Ana", "lives in", "Lisbon")': "KGMemory.add_fact() missing 1 required",
    'memory.facts("ada").add_fact("user", "Ana", "is", "in", valid_from="May")': "valid_from must be a datetime",
    'memory.facts("ada").as_of("2024-01-01")': "valid must be a datetime, not str",
    'memory.facts("ada").update("none", obj="Porto")': "There is no fact or message 'none' here",
    # models, prompts and tools
    "memory.remember_facts(None)": "pass a model: memory.remember_facts(model)",
    'memory.compaction().invoke("a")': "The input has no messages",
    'memory.checkpointer.prune(["t"], strategy=None)': "strategy",
    'memory.compaction(config={"threshold_tokens": 100})': "config must be an instance of ManagedMemoryConfig, got",
    "ManagedMemoryConfig(treshold_tokens=100)": "Unknown option 'treshold_tokens'",
    "ManagedMemoryConfig(threshold_tokens=-1)": "threshold_tokens must be greater than or equal to 1, got -1",
    'ActiveContextPolicyConfig(mode="window")': "'compaction' or 'sliding_window', got 'window'",
    'ActiveContextPolicyConfig(processor_order=["summarization"] * 2)': "A processor is listed twice",
    "SummarizationConfig(timeout=0)": "timeout must be greater than 0",
    'memory.inject("ada", role="tool")': "'user' or 'system', got 'tool'",
    'memory.inject("ada", kind=["message"])': "unexpected keyword argument 'kind'",
    'memory.inject("ada", budget=-1)': "budget must be greater than or equal to 0, got -1",
    'memory.tools(include=["mem_core"])': "Unknown tool 'mem_core'. The tools are",
    'memory.tools(include="mem_core_set")': "a list of tool names, got 'mem_core_set'",
    'memory.experiences("nowhere")': "The folder 'nowhere' of experiences does not exist. Create it, or pass another",
    'memory.experiences("folder").selector(rule="Planner")': "Unknown option 'rule'",
    'memory.experiences("folder").add("Be kind.")': "experience must be an Experience, got str",
    'memory.audit.todos("later")': "status must be 'open' or 'done', got 'later'",
    'memory.audit.handler(redact="yes")': "redact must be a valid boolean or be callable",
    # the store
    'memory.store.put("users", "ada", {"home": "Lisbon"})': "write ('users',) instead of 'users'",
    'memory.store.put((), "ada", {"home": "Lisbon"})': "it needs a label",
    'memory.store.put(("users",), "ada", "Lisbon")': "The value of an item must be a dictionary, not str",
    'memory.store.put(("users",), "ada", {"home": object()})': "Pass text, numbers, lists and dictionaries instead",
    'memory.store.put(("a.b",), "ada", {"home": "Lisbon"})': "cannot contain periods",
    'memory.store.search(("users",), filter={"home": {"$like": "L"}})': "Valid here: $eq, $ne, $gt, $gte, $lt, $lte",
    'memory.store.search(query="tea")': "BaseStore.search() missing 1 required positional argument",
    'memory.store.get(("users",))': "AgentMemoryStore.get() missing 1 required positional argument: 'key'",
    'AgentMemoryStore(memory, ttl={"default": 5})': "Unknown option 'default'. Valid options: refresh_on_read",
    "memory.store.batch(1)": "operations",
    "memory.store.batch([7])": "Unknown operation 7. Valid operations: GetOp, SearchOp, PutOp, ListNamespacesOp",
    "memory.store.list_namespaces(max_depth=0)": "max_depth must be greater than 0",
    # looking after it
    "memory.erase()": "No target to erase. Pass namespace=, thread_id= or conversation_id=",
    'memory.erase(namespace=("a",), dry_run=1)': "dry_run must be",
    'memory.admin.prune(archive_before="yesterday")': "archive_before",
    'memory.admin.verify(progress="x")': "function",
    "memory.admin.prune()": "Nothing to prune. Pass keep_checkpoints=, retention= or archive_before=",
    "memory.admin.growth(days=4_000)": "days must be at most 3,660, got 4,000",
    "memory.studio(user=7)": "user must be a name, or a function",
    'memory.admin.backup("missing/agent.db")': "the folder 'missing' does not exist. Create it first",
    'memory.export("missing/agent.jsonl")': "the folder 'missing' does not exist. Create it first",
    'memory.admin.backup("notes.txt")': "'notes.txt' exists. Choose another path, or pass --force",
    'memory.export("notes.txt")': "'notes.txt' exists and is no export. Pass another path, or remove the file",
    'memory.admin.backup("folder")': "'folder' cannot be written: it is a folder",
    'memory.import_("notes.txt")': "'notes.txt' is no export: it is no SQLite database, or it is truncated",
    'memory.import_from("mem", "notes.txt")': "Unknown kind 'mem' of sources. Valid kinds: langgraph-saver,",
    'memory.import_from("opus", "others.db")': "'others.db' is a database, not an agent_memory.json file",
    'memory.import_from("taskweaver", "folder")': "The folder 'folder' has no file that ends in .yaml or .yml or .json",
    'memory.import_from("mem0", "nowhere.json")': "The file 'nowhere.json' does not exist",
    'AgentMemorySaver(sqlite3.connect(":memory:"))': "must be an AgentMemory, a path or a URL, not Connection",
}
"""The expected error by the code of a user."""

DONE = [
    "[memory.close(), memory.close()]",
    'memory.search("") == memory.search("tea", limit=0) == []',
    'memory.search("tea", before=datetime(2026, 1, 1)) == []',
    'memory.layers("ada").core.get("nothing") == {}',
    'memory.layers("ada").archival.get(memory.layers("ada").archival.write("Tea.", tags="drink")).tags == ("drink",)',
    'memory.conversation("c").add({"role": "user", "content": "Hello."}) == memory.conversation("c").messages[0].id',
    'memory.conversation(7).add_user_message("Hello.") or memory.conversation("7").messages[0].text == "Hello."',
    'graph(memory).invoke(HELLO, {"thread_id": "t"}) and memory.checkpointer.get_tuple(thread("t"))',
    'graph(memory).invoke(HELLO, thread(7)) and memory.checkpointer.get_tuple(thread("7"))',
    'asyncio.run(in_a_loop(lambda: memory.conversation("c").add_user_message("Hello."))) is None',
    'asyncio.run(in_a_loop(lambda: memory.search("tea"))) == []',
    'asyncio.run(graph(memory).ainvoke(HELLO, thread("t")))["messages"][-1].text == "Hi."',
    'AgentMemory(Path("agent.db")).close() is None',
    "memory.erase(namespace=WAITING, dry_run=True) and memory.admin.threads(WAITING).total == 0",
]
"""Unusual code that does the intended thing."""


def graph(memory: AgentMemory):
    def agent(_):
        return {"messages": [AIMessage("Hi.")]}

    return StateGraph(MessagesState).add_node(agent).add_edge(START, "agent").compile(checkpointer=memory.checkpointer)


def post(memory: AgentMemory, *given, **fields):
    session = memory.session("s")
    return session.add_post(session.create_round("Hello.").id, *given, **fields)


def thread(name):
    return {"configurable": {"thread_id": name}}


async def in_a_loop(call):
    return call()


OURS = (Admin, AgentMemory, AgentMemoryByteStore, AgentMemorySaver, AgentMemoryStore, LayersConfig, ManagedMemoryConfig)
THEIRS = (HumanMessage, RemoveMessage, Path, asyncio, datetime, sqlite3)
OTHERS = (ActiveContextPolicyConfig, Retention, SummarizationConfig, graph, in_a_loop, post, thread)
GIVEN = {each.__name__: each for each in (*OURS, *THEIRS, *OTHERS)}
GIVEN |= {"HELLO": {"messages": [("user", "Hello.")]}, "WAITING": ("users", "{user_id}")}


@pytest.fixture
def run(memory, new_database, tmp_path, monkeypatch):
    """Runs what a user writes, in a folder where other things are as well."""
    here = tmp_path / "here"
    (here / "folder").mkdir(parents=True)
    monkeypatch.chdir(here)
    Path("notes.txt").write_text("Water the medlar tree.\n" * 50)
    for name, tables in (("others.db", ["users"]), ("savers.db", ["checkpoints", "writes"])):
        with closing(sqlite3.connect(name)) as other:
            for table in tables:
                other.execute(f"create table {table} (thread_id text, checkpoint_id text, checkpoint blob)")
    with AgentMemory(new_database("sqlite"), namespace=("users", "{user_id}")) as users:
        yield lambda code: eval(code, {**GIVEN, "memory": memory, "users": users})


def error_of(run, code) -> str:
    """Return what the error says; nothing where there is none."""
    try:
        run(code)
    except (AgentMemoryError, TypeError, ValueError) as error:
        return str(error)
    return ""


CLOSING = [code for code in REFUSED if "close()" in code]


class TestMistakes:
    def test_error_explains_the_mistake_and_leaves_nothing(self, run, memory):
        for code in sorted(REFUSED.keys() - CLOSING):
            before = sorted(Path.cwd().iterdir())
            assert REFUSED[code] in error_of(run, code), code
            assert sorted(Path.cwd().iterdir()) == before, code
            stored = memory.admin.stats()
            assert stored["messages"] == stored["items"] == stored["core"] == 0, code

    @pytest.mark.parametrize("code", CLOSING)
    def test_closed_object_raises_an_explaining_error(self, run, code):
        assert REFUSED[code] in error_of(run, code)

    @pytest.mark.parametrize("code", DONE)
    def test_forgiving_calls_do_the_intended_thing(self, run, code):
        assert run(code)
