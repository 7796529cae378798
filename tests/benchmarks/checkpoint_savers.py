"""The savers and the graphs that `checkpoints.py` compares: one saver, one graph, one process.

    python tests/benchmarks/checkpoint_savers.py '{"saver": "floor", "graph": "chat", "turns": 100, "where": "."}'

Prints the seconds of every turn, the bytes of the database and the growth of memory, as JSON. Each measurement has a
process to itself, so that what one saver leaves in memory cannot weigh on another. The last thing it does is to open
the database again and to compare the state with what was said: a fast saver that forgets is worth nothing.
"""

from __future__ import annotations

import functools
import gc
import json
import operator
import random
import resource
import string
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import _messages_delta_reducer
from langgraph.pregel import Pregel
from places import made_in
from typing_extensions import TypedDict

BRANCHES = 5
TURNS_A_THREAD = 10
SHORT, LONG = 500, 20_000  # characters of a message, and of what a tool brings
WORDS = 5_000
WARM_UP = 2


# The savers


class Floor(BaseCheckpointSaver):
    """Keeps the last checkpoint of a thread as it is, without serializing: what LangGraph itself costs."""

    def __init__(self):
        super().__init__()
        self.last = {}

    def get_tuple(self, config):
        return self.last.get(_place(config))

    def put(self, config, checkpoint, metadata, new_versions):
        thread, namespace = _place(config)
        saved = {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint["id"]}
        self.last[thread, namespace] = CheckpointTuple({"configurable": saved}, checkpoint, metadata, None, [])
        return {"configurable": saved}

    def put_writes(self, config, writes, task_id, task_path=""):
        """A run that never fails needs no pending writes."""

    get_next_version = InMemorySaver.get_next_version


def _place(config):
    return config["configurable"]["thread_id"], config["configurable"].get("checkpoint_ns", "")


@functools.cache  # opened again, it is the same saver: there is nothing else to find its checkpoints in
def floor(url: str) -> AbstractContextManager[BaseCheckpointSaver]:
    return nullcontext(Floor())


@functools.cache
def in_memory(url: str) -> AbstractContextManager[BaseCheckpointSaver]:
    return nullcontext(InMemorySaver())


def ours(url: str, record: tuple[str, ...] = ()) -> AbstractContextManager[BaseCheckpointSaver]:
    from langchain_agentmem import AgentMemorySaver

    return AgentMemorySaver.from_conn_string(url, record=record)


def sqlite(url: str) -> AbstractContextManager[BaseCheckpointSaver]:
    from langgraph.checkpoint.sqlite import SqliteSaver

    return SqliteSaver.from_conn_string(url)


@contextmanager
def postgres(url: str) -> Iterator[BaseCheckpointSaver]:
    from langgraph.checkpoint.postgres import PostgresSaver

    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        yield saver


class Contender(NamedTuple):
    open: Callable[[str], AbstractContextManager[BaseCheckpointSaver]]
    delta: bool = False  # whether messages go through LangGraph's DeltaChannel
    cold: bool = False  # whether every turn opens the saver anew, and closes it


CONTENDERS = {
    "floor": Contender(floor),
    "ours": Contender(ours),
    "ours, cold each turn": Contender(ours, cold=True),
    "ours, recording messages": Contender(functools.partial(ours, record=("messages",))),
    "SqliteSaver, DeltaChannel": Contender(sqlite, delta=True),
    "InMemorySaver": Contender(in_memory),
    "SqliteSaver": Contender(sqlite),
    "PostgresSaver": Contender(postgres),
}


# What is said: words as unevenly used as those of a language, so that text shrinks under compression as much as English
# does. A message begins with the number of its turn, so that nodes need no other memory.


@functools.cache
def vocabulary() -> list[str]:
    chance = random.Random(0)
    return ["".join(chance.choices(string.ascii_lowercase, k=chance.randint(2, 8))) for _ in range(WORDS)]


@functools.cache
def text(who: str, turn: int, size: int = SHORT) -> str:
    weights = [1 / rank for rank in range(1, WORDS + 1)]
    words = random.Random(f"{who} {turn}").choices(vocabulary(), weights, k=size // 2)
    return f"{turn} {' '.join(words)}"[:size]


def turn_of(message: BaseMessage) -> int:
    return int(message.content.split(maxsplit=1)[0])


# The graphs


DeltaMessages = Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]


class DeltaState(TypedDict):
    messages: DeltaMessages


class Counted(TypedDict):
    seen: Annotated[dict[str, int], operator.or_]
    turns: Annotated[int, operator.add]


class BranchingState(MessagesState, Counted):
    """Messages that five nodes append to at once, a dictionary that they share, and a counter."""


class DeltaBranchingState(DeltaState, Counted):
    """The same, with the messages in a DeltaChannel."""


def chat(delta: bool) -> Pregel:
    def model(state):
        return {"messages": [AIMessage(text("model", turn_of(state["messages"][-1])))]}

    graph = StateGraph(DeltaState if delta else MessagesState)
    return graph.add_node("model", model).add_edge(START, "model").add_edge("model", END).compile()


def branches(delta: bool) -> Pregel:
    def branch(name):
        def node(state):
            turn = turn_of(state["messages"][-1])
            return {"messages": [AIMessage(text(name, turn))], "seen": {name: turn}}

        return node

    graph = StateGraph(DeltaBranchingState if delta else BranchingState)
    graph.add_node("join", lambda state: {"turns": 1})
    for name in branch_names():
        graph.add_node(name, branch(name)).add_edge(START, name)
    return graph.add_edge(branch_names(), "join").add_edge("join", END).compile()


def branch_names() -> list[str]:
    return [f"branch {number}" for number in range(BRANCHES)]


class ScriptedModel(BaseChatModel):
    """Asks for a page whenever the user has spoken, and answers whenever it was given the page."""

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        turn = turn_of(messages[-1])
        if isinstance(messages[-1], ToolMessage):
            said = AIMessage(text("model", turn))
        else:
            said = AIMessage("", tool_calls=[{"name": "read_page", "args": {"number": turn}, "id": f"call {turn}"}])
        return ChatResult(generations=[ChatGeneration(message=said)])


def read_page(number: int) -> str:
    """Read a page."""
    return text("tool", number, LONG)


def tools(delta: bool) -> Pregel:
    from langchain.agents import AgentState, create_agent

    class DeltaAgentState(AgentState):
        messages: DeltaMessages

    return create_agent(ScriptedModel(), [read_page], state_schema=DeltaAgentState if delta else AgentState)


class Workload(NamedTuple):
    build: Callable[[bool], Pregel]
    texts: Callable[[int], list[str]]  # of the messages that a turn adds, in order
    turns_a_thread: int = sys.maxsize


WORKLOADS = {
    "chat": Workload(chat, lambda turn: [text("user", turn), text("model", turn)]),
    "tools": Workload(tools, lambda turn: [text("user", turn), "", text("tool", turn, LONG), text("model", turn)]),
    "branches": Workload(branches, lambda turn: [text(who, turn) for who in ("user", *branch_names())]),
    "threads": Workload(chat, lambda turn: [text("user", turn), text("model", turn)], TURNS_A_THREAD),
}


# Measuring


def size(url: str) -> int:
    """Bytes of a closed database: the files of SQLite, or all tables of PostgreSQL with indexes, as they are."""
    if not url.startswith("postgresql:"):
        return sum(file.stat().st_size for file in Path(url).parent.glob(f"{Path(url).name}*"))
    import psycopg

    with psycopg.connect(url) as connection:
        (found,) = connection.execute(
            "select coalesce(sum(pg_total_relation_size(relid)), 0)::bigint from pg_stat_user_tables"
        ).fetchone()
        return found


def most_memory() -> int:
    """The most bytes that this process has ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def thread(workload: Workload, turn: int) -> dict[str, Any]:
    return {"configurable": {"thread_id": f"thread {turn // workload.turns_a_thread}"}}


def run(contender: Contender, workload: Workload, turns: int, url: str) -> list[float]:
    """The seconds that each turn takes."""
    graph = workload.build(contender.delta)
    seconds = []
    with nullcontext() if contender.cold else contender.open(url) as kept:
        for turn in range(turns):
            said = {"messages": [HumanMessage(text("user", turn))]}
            began = time.perf_counter()
            with contender.open(url) if contender.cold else nullcontext(kept) as graph.checkpointer:
                graph.invoke(said, thread(workload, turn))
            seconds.append(time.perf_counter() - began)
    return seconds


def check(contender: Contender, workload: Workload, turns: int, url: str) -> None:
    """Opens the database again and compares all it holds with what was said."""
    graph = workload.build(contender.delta)
    with contender.open(url) as graph.checkpointer:
        for first in range(0, turns, workload.turns_a_thread):
            values = graph.get_state(thread(workload, first)).values
            here = range(first, min(first + workload.turns_a_thread, turns))
            texts = [each for turn in here for each in workload.texts(turn)]
            assert [message.content for message in values["messages"]] == texts, "what was said is not what is kept"
            if "turns" in values:
                assert values["turns"] == turns, "the counter is not what it was"
                assert values["seen"] == dict.fromkeys(branch_names(), turns - 1), "the dictionary is not what it was"


def measure(saver: str, graph: str, turns: int, where: str) -> dict[str, Any]:
    contender, workload = CONTENDERS[saver], WORKLOADS[graph]
    texts = sum(len(each) for turn in range(turns) for each in workload.texts(turn))  # and from now on they are cached
    with made_in(where) as new:
        run(contender, workload, WARM_UP, new())
        url = new()
        gc.collect()
        before = most_memory()
        seconds = run(contender, workload, turns, url)
        memory = most_memory() - before
        stored = size(url)
        check(contender, workload, turns, url)
    return {"seconds": seconds, "text": texts, "stored": stored, "memory": memory}


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
