"""What people get wrong: each gets an error that says what to do, or what was meant is done."""

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
    "AgentMemory(7)": "A database is a path, ':memory:', 'postgresql://…' or a psycopg ConnectionPool, not 7",
    'AgentMemory("")': "A database is a path",
    'AgentMemory("folder")': "'folder' cannot be opened. Check that it is a file",
    'AgentMemory("missing/agent.db")': "that the folder",
    'AgentMemory("others.db")': "another program's tables (users). Give langchain-agentmem a file or schema of its own",
    'AgentMemory("savers.db")': "Databases of other programs are read by: agentmem import-from",
    'AgentMemory("notes.txt")': "'notes.txt' is not a database",
    'AgentMemory("new.db", read_only=True)': "There is no database 'new.db', and this opening makes none",
    'AgentMemory("new.db", migrate=False)': "There is no database 'new.db', and this opening makes none",
    'AgentMemory("sqlite:///agent.db")': "named by its path, such as 'agent.db'",
    'AgentMemory("mysql://host/database")': "give a path or 'postgresql://user@host/database'",
    'AgentMemory("postgresql+psycopg://host/database")': "give a path or 'postgresql://user@host/database'",
    'AgentMemory("agent.db", schema="mine")': "PostgreSQL's: SQLite has a file of its own",
    'AgentMemory("agent.db", synchronous="OFF")': "'NORMAL' or 'FULL', got 'OFF'",
    'AgentMemory("agent.db", timeout="60")': "timeout must be a valid number, got '60'",
    'AgentMemory("agent.db", hooks=print)': "hooks must be a list of functions",
    'AgentMemory("agent.db", clock=7)': "clock and new_id must be functions",
    'AgentMemory("agent.db", bare_threads="no")': "bare_threads must be a valid boolean, got 'no'",
    'AgentMemory("agent.db", on_thread_delete="drop")': "'keep' or 'forget', got 'drop'",
    'Admin.restore("notes.txt", "notes.txt")': "'notes.txt' is the backup itself. Restore it to another place",
    'AgentMemoryStore(memory, index="static")': "a dictionary such as {'fields': ['text']}",
    'AgentMemory("agent.db", retention=90)': "retention must be an instance of Retention, got 90",
    "Retention(max_age=90)": "max_age must be a valid timedelta, got 90",
    'AgentMemory("new.db", index="static")': "a dictionary such as {'fields': ['text']}",
    'AgentMemory("new.db", index={"embed": 7})': "must be Embeddings, a function, 'provider:model' or 'static'",
    'AgentMemory("new.db", index={"embed": "nobody:model", "dims": 3})': "cannot be made of 'nobody:model'",
    'AgentMemory("new.db", index={"field": ["text"]})': "There is no option 'field'. Options: embed, dims",
    'AgentMemory("new.db", index={"embed": len})': "index['embed'] needs index['dims']",
    'AgentMemory("new.db", index={"embed": "static", "dims": 3})': "leave index['dims'] out",
    'AgentMemory("new.db", strict="no")': "strict must be a valid boolean, got 'no'",
    'AgentMemorySaver("new.db", record=7)': "The channels to record are a list of texts",
    'AgentMemorySaver.from_conn_string("new.db", retention=7)': "retention must be an instance of Retention, got 7",
    'AgentMemoryStore.from_conn_string("new.db", ttl=7)': "ttl must be a dictionary such as",
    'AgentMemoryByteStore("new.db", namespace="ada")': "write ('ada',) instead of 'ada'",
    # whose memory
    "memory.within(WAITING)": "has a key that nothing fills: write whose it is, or use AgentMemory(url, namespace=",
    'memory.conversation("monday", WAITING).add_user_message("Hello.")': "has a key that nothing fills",
    'memory.search("tea", namespace=WAITING)': "has a key that nothing fills",
    'memory.import_from("mem0", "notes.txt", namespace=WAITING)': "in braces is for threads and conversations",
    'graph(memory).invoke(HELLO, {"configurable": {"thread_id": "t", "agentmem_namespace": WAITING}})': "has a key",
    'users.conversation("monday", (*WAITING, "notes")).add_user_message("Hello.")': "or use memory.within(user_id=…)",
    'AgentMemory("agent.db", namespace="users/{user_id}")': "A namespace is a tuple of strings: write (",
    'AgentMemory("agent.db", namespace=("users", "{user_id"))': 'braces that hold no key, as "{user_id}" does',
    'AgentMemory("agent.db", namespace=("users", "{}"))': 'braces that hold no key, as "{user_id}" does',
    'users.search("tea")': 'config, {"configurable": {"user_id": "…"}}',
    'users.conversation("monday").add_user_message("Hello.")': "with memory.within(user_id=…)",
    'users.within(user="ada")': "has no key 'user'",
    "users.within(WAITING)": "is the template itself: say whose memory with memory.within(user_id=…)",
    "users.within()": "Name one namespace: within(",
    'AgentMemory("agent.db", namespace=("users", "{user}-{team}"))': "has several keys: give each a label of its own",
    'memory.search("tea", namespace=("users",), everything=True)': "a namespace or everything=True, not both",
    'memory.within(user_id="ada")': "has no key 'user_id'",
    'memory.search("tea", namespace="ada")': "write ('ada',) instead of 'ada'",
    'memory.conversation("monday", namespace="ada")': "write ('ada',) instead of 'ada'",
    'memory.erase(namespace="ada")': "write ('ada',) instead of 'ada'",
    # configs
    "graph(memory).invoke(HELLO)": "thread_id",
    'graph(users).invoke(HELLO, thread("t"))': "needs user_id: say it in",
    'graph(users).invoke(HELLO, {"configurable": {"thread_id": "t", "user": "ada"}})': "needs user_id",
    'graph(users).invoke(HELLO, {"configurable": {"thread_id": "t", "user_id": ""}})': "'' cannot be the user_id",
    'memory.checkpointer.get_tuple({"configurable": {}})': 'config["configurable"]["thread_id"]',
    'memory.layers({"configurable": {}}).core.get()': 'config["configurable"]["thread_id"]',
    'memory.search("tea", config={"thread_id": "t"})': 'within configurable: {"configurable": {"thread_id": "…"}}',
    'memory.checkpointer.get_tuple({"thread_id": "t"})': 'within configurable: {"configurable": {"thread_id": "…"}}',
    'memory.search("tea", config="t")': 'a dictionary such as {"configurable": {"thread_id": "…"}}',
    # after it was closed
    '[memory.close(), memory.search("tea")]': "has been closed. Open it again",
    '[memory.close(), memory.conversation("monday").messages]': "has been closed. Open it again",
    '[memory.close(), asyncio.run(memory.asearch("tea"))]': "has been closed. Open it again",
    # searching
    'memory.search("tea", limit="3")': "limit must be a valid integer, got '3'",
    'memory.search("tea", kinds="message")': "kinds must be a list, got 'message'",
    'memory.search("tea", kinds=["messages"])': "There is no kind 'messages'; there are audit, event,",
    'memory.search("tea", order="newest")': "order must be 'score' or 'time', got 'newest'",
    'memory.search("tea", before="2026-01-01")': "before is a datetime, not str",
    "memory.search(7)": "query must be an instance of str, got 7",
    'memory.search("tea", weights=3)': "weights must be an instance of Weights, got 3",
    "memory.retriever(limits=3)": "takes no 'limits'; it takes namespace, limit,",
    'memory.retriever(namespace="ada").invoke("tea")': "write ('ada',) instead of 'ada'",
    # conversations
    'memory.conversation("").messages': "ids are strings of 1 to 500 characters",
    'memory.conversation("monday").add("Hello.")': "a Message, a LangChain message or a dict, not str",
    'memory.conversation("monday").add({"role": "user", "text": "Hello."})': "A message has no 'text'; it has role,",
    'memory.conversation("monday").add(role="user", contents="Hello.")': "A message has no 'contents'; it has role",
    'memory.conversation("monday").add_messages(HumanMessage("Hello."))': "come as a list, not as HumanMessage",
    'memory.conversation("monday").add_messages("Hello.")': "come as a list, not as str",
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
    'memory.layers("ada").core.set("home", None)': "A value of core memory is text, not NoneType",
    'memory.layers("ada").core.set("home", {"city": "Lisbon"})': "A value of core memory is text, not dict",
    'memory.layers("ada").core.set("", "Lisbon")': "a text of 1 to 500 characters",
    'memory.layers("ada").core.set("home", "Lisbon", ttl="1d")': "a number of seconds or a datetime, not '1d'",
    'memory.layers("ada").core.set("home", "Lisbon", ttl=-5)': "give seconds from now, a later time, or None",
    'memory.layers("ada").core.set("home", "Lisbon", importance=11)': "a whole number from 1 to 5, not 11",
    'memory.layers("ada").recall.append("Ana called.")': 'append("note", "Ana called."), for example',
    'memory.layers("ada").archival.write("Tea.", tags=[7])': "Tags are texts, and 7 is none",
    'memory.layers("ada", scope="threads")': "must be 'shared' or 'thread', got 'threads'",
    'memory.layers("ada").write(core=["home"])': "core must be a valid dictionary, got ['home']",
    'memory.layers("ada").write(core={"home": {"worth": 1}})': "value, importance, ttl, and always value",
    'memory.layers("ada").write(core={"home": {"ttl": 60}})': "value, importance, ttl, and always value",
    'memory.layers("ada").write(recall=7)': "recall must be an instance of Sequence, got 7",
    'LayersConfig(section_budgets=["core"])': "section_budgets must be a valid dictionary",
    'LayersConfig(final_memory_filename_md="../final.md")': "final_memory_filename_md must match pattern",
    "LayersConfig.from_config([1])": "A configuration is a mapping of names to values, not list",
    'memory.facts("ada").add_fact("Ana", "lives in", "Lisbon")': "KGMemory.add_fact() missing 1 required",
    'memory.facts("ada").add_fact("user", "Ana", "is", "in", valid_from="May")': "valid_from is a datetime, not str",
    'memory.facts("ada").as_of("2024-01-01")': "valid is a datetime, not str",
    'memory.facts("ada").update("none", obj="Porto")': "There is no fact or message 'none' here",
    # models, prompts and tools
    "memory.remember_facts(None)": "a model is needed: memory.remember_facts(model)",
    'memory.compaction().invoke("a")': "no messages in this",
    'memory.checkpointer.prune(["t"], strategy=None)': "strategy",
    'memory.compaction(config={"threshold_tokens": 100})': "config must be an instance of ManagedMemoryConfig, got",
    "ManagedMemoryConfig(treshold_tokens=100)": "There is no option 'treshold_tokens'",
    "ManagedMemoryConfig(threshold_tokens=-1)": "threshold_tokens must be greater than or equal to 1, got -1",
    'ActiveContextPolicyConfig(mode="window")': "'compaction' or 'sliding_window', got 'window'",
    'ActiveContextPolicyConfig(processor_order=["summarization"] * 2)': "processor_order names a processor twice",
    "SummarizationConfig(timeout=0)": "timeout must be greater than 0",
    'memory.inject("ada", role="tool")': "'user' or 'system', got 'tool'",
    'memory.inject("ada", kind=["message"])': "unexpected keyword argument 'kind'",
    'memory.inject("ada", budget=-1)': "budget must be greater than or equal to 0, got -1",
    'memory.tools(include=["mem_core"])': "There is no tool 'mem_core'; there are",
    'memory.tools(include="mem_core_set")': "a list of names of tools, not 'mem_core_set'",
    'memory.experiences("nowhere")': "There is no folder 'nowhere' with experiences. Make it, or name another",
    'memory.experiences("folder").selector(rule="Planner")': "There is no option 'rule'",
    'memory.experiences("folder").add("Be kind.")': "A library holds experiences, not str",
    'memory.audit.todos("later")': "status must be 'open' or 'done', got 'later'",
    'memory.audit.handler(redact="yes")': "redact must be a valid boolean or be callable",
    # the store
    'memory.store.put("users", "ada", {"home": "Lisbon"})': "write ('users',) instead of 'users'",
    'memory.store.put((), "ada", {"home": "Lisbon"})': "a namespace has a label",
    'memory.store.put(("users",), "ada", "Lisbon")': "The value of an item is a dictionary, not str",
    'memory.store.put(("users",), "ada", {"home": object()})': "Give text, numbers, lists and dictionaries instead",
    'memory.store.put(("a.b",), "ada", {"home": "Lisbon"})': "cannot contain periods",
    'memory.store.search(("users",), filter={"home": {"$like": "L"}})': "here there are $eq, $ne, $gt, $gte, $lt, $lte",
    'memory.store.search(query="tea")': "BaseStore.search() missing 1 required positional argument",
    'memory.store.get(("users",))': "BaseStore.get() missing 1 required positional argument: 'key'",
    'AgentMemoryStore(memory, ttl={"default": 5})': "There is no option 'default'. Options: refresh_on_read",
    "memory.store.batch(1)": "operations",
    "memory.store.batch([7])": "Unknown operation 7: give GetOp, SearchOp, PutOp or ListNamespacesOp",
    "memory.store.list_namespaces(max_depth=0)": "max_depth must be greater than 0",
    # looking after it
    "memory.erase()": "Say what to erase: namespace=, thread_id= or conversation_id=",
    'memory.erase(namespace=("a",), dry_run=1)': "dry_run must be",
    'memory.admin.prune(archive_before="yesterday")': "archive_before",
    'memory.admin.verify(progress="x")': "function",
    "memory.admin.prune()": "Say what to prune: keep_checkpoints=, retention= or archive_before=",
    "memory.admin.growth(days=4_000)": "days must be 3,660 at most, not 4,000",
    "memory.studio(user=7)": "user must be a name, or a function",
    'memory.admin.backup("missing/agent.db")': "there is no folder 'missing'. Make it first",
    'memory.export("missing/agent.jsonl")': "there is no folder 'missing'. Make it first",
    'memory.admin.backup("notes.txt")': "'notes.txt' is there already. Write elsewhere, or replace it with --force",
    'memory.export("notes.txt")': "'notes.txt' is no export, and would be replaced. Write elsewhere, or remove it",
    'memory.admin.backup("folder")': "'folder' cannot be written: it is a folder",
    'memory.import_("notes.txt")': "'notes.txt' is no export: it is not a SQLite database, or was cut off",
    'memory.import_from("mem", "notes.txt")': "There is no kind 'mem' of sources; there are langgraph-saver,",
    'memory.import_from("opus", "others.db")': "'others.db' is a database, and no agent_memory.json",
    'memory.import_from("taskweaver", "folder")': "In 'folder' and below it no file ends in .yaml or .yml or .json",
    'memory.import_from("mem0", "nowhere.json")': "There is no file at 'nowhere.json'",
    'AgentMemorySaver(sqlite3.connect(":memory:"))': "must be an AgentMemory, a path or a URL, not Connection",
}
"""What the error must say, by what a user writes."""

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
"""What is odd, and does what was meant."""


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
    def test_the_error_says_what_to_do_and_nothing_is_left(self, run, memory):
        for code in sorted(REFUSED.keys() - CLOSING):
            before = sorted(Path.cwd().iterdir())
            assert REFUSED[code] in error_of(run, code), code
            assert sorted(Path.cwd().iterdir()) == before, code
            stored = memory.admin.stats()
            assert stored["messages"] == stored["items"] == stored["core"] == 0, code

    @pytest.mark.parametrize("code", CLOSING)
    def test_what_was_closed_says_so(self, run, code):
        assert REFUSED[code] in error_of(run, code)

    @pytest.mark.parametrize("code", DONE)
    def test_what_was_meant_is_done(self, run, code):
        assert run(code)
