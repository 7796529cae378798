"""A memory in a distributed schema on Citus, compared with one on SQLite."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.storage.queries import load_queries, number_parameters
from tests import everything
from tests.checkpoints.graphs import at, chat_graph
from tests.conftest import CountingIds, SteppingClock
from tests.rewinding import test_care as remembered
from tests.threads import filled
from tests.word_embeddings import WordEmbeddings

pytestmark = pytest.mark.timeout(300)

DIMS = 16
NUMBERED_ELSEWHERE = 1 << 48
"""A node that numbers rows itself begins here; what the coordinator numbers is less, and in the order of writing."""
SAMPLES = {20: b"1", 25: b"x", 114: b"[]"}
"""A value of a parameter by the number of its type; of others it is null."""


@pytest.fixture
def url(coordinator: str) -> str:
    """The URL of an empty memory whose schema is distributed."""
    with psycopg.connect(coordinator, autocommit=True) as connection:
        connection.execute("drop schema if exists agentmem cascade")
        AgentMemory(coordinator).close()
        connection.execute("select citus_schema_distribute('agentmem')")
        [(apart,)] = connection.execute(
            "select count(*) from pg_tables t left join citus_tables c on c.table_name = format('%I.%I', "
            "t.schemaname, t.tablename)::regclass where t.schemaname = 'agentmem' and c.table_name is null"
        ).fetchall()
    assert apart == 0
    return coordinator


@pytest.fixture
def memories(url: str) -> Iterator[tuple[AgentMemory, AgentMemory]]:
    """A memory on SQLite and one on Citus, which tell the time and make ids alike."""
    with contextlib.ExitStack() as opened:
        yield tuple(
            opened.enter_context(AgentMemory(each, clock=SteppingClock(), new_id=CountingIds()))
            for each in (":memory:", url)
        )


@pytest.fixture
def memory(memories: tuple[AgentMemory, AgentMemory]) -> AgentMemory:
    """The memory on Citus."""
    return memories[1]


@pytest.fixture
def same(memories):
    """Has both memories do something, and sees that it gives the same, and that both are sound."""

    def run(work):
        one, other = (work(memory) for memory in memories)
        assert other == one
        for memory in memories:
            assert memory.admin.verify().problems == ()
        return other

    return run


def talk(chat, count, start=0):
    chat.add_messages(
        [
            (HumanMessage, AIMessage)[n % 2](f"{n}: herons and quinces" + " again" * (n % 3), id=f"{start}-{n}")
            for n in range(start, start + count)
        ]
    )


def numbers(url):
    """The greatest number of a row in each table that numbers its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        columns = connection.execute(
            "select table_name, column_name from information_schema.columns "
            "where table_schema = 'agentmem' and is_identity = 'YES'"
        ).fetchall()
        return {
            table: connection.execute(f"select coalesce(max({column}), 0) from agentmem.{table}").fetchone()[0]
            for table, column in columns
        }


class TestStatements:
    def test_citus_accepts_every_statement(self, url):
        refused = {}
        with psycopg.connect(url, autocommit=True, options="-c search_path=agentmem") as connection:
            server = connection.pgconn
            for name, sql in load_queries("postgres").items():
                if "pgvector" in sql:  # asks tables that need an extension
                    continue
                label = name.encode()
                server.prepare(label, number_parameters(sql, "$")[0].encode())
                described = server.describe_prepared(label)
                types = [described.param_type(n) for n in range(described.nparams)]
                for values in ([None] * len(types), [SAMPLES.get(each) for each in types]):
                    server.exec_(b"begin")
                    result = server.exec_prepared(label, values)
                    if result.error_message:
                        error = psycopg.errors.error_from_result(result)
                        # A constraint that is broken is told as such, so that an operation begins again.
                        if not isinstance(error, psycopg.IntegrityError | psycopg.DataError):
                            refused[name] = str(error)
                    server.exec_(b"rollback")
        assert refused == {}


class TestParityWithSqlite:
    def test_conversations_equal_those_on_sqlite(self, same):
        def work(memory):
            chat = memory.conversation("c", ("a", "b"), description="herons")
            talk(chat, 30)
            chat.add(HumanMessage("alone", id="one"))
            chat.update("one", content="edited")
            chat.remove_by_id("0-3")
            chat.delete_memory(0)
            found = chat.retrieve_all(include_ids=True), chat.history_of("one"), chat.around("one", before=2)
            session = memory.session("s")
            begun = session.create_round("What lives here?")
            session.add_post(begun.id, send_from="User", send_to="Planner", message="herons")
            [told] = session.to_conversation().rounds
            return *found, told.user_query, [post.message for post in told.post_list]

        same(work)


class TestThreads:
    def test_graphs_are_rewound_copied_pruned_and_deleted(self, memory):
        saver = memory.checkpointer
        filled.fill(saver)
        before = filled.seen(saver)
        saver.copy_thread("chat", "copy")
        assert chat_graph(saver).get_state(at("copy")).values == chat_graph(saver).get_state(at("chat")).values
        filled.go_on(saver)
        assert chat_graph(saver).get_state(at("copy")).values["messages"][-1].text == "ON A FORK"
        assert before["line"] == filled.seen(saver)["line"]
        saver.prune(["delta"], strategy="keep_latest")
        for thread in (*filled.THREADS, "copy"):
            saver.delete_thread(thread)
        assert list(saver.list(None)) == []
        assert memory.admin.verify().problems == ()

    def test_memory_follows_its_threads(self, memory):
        remembered.fill_threads(memory, ("scope",))
        shown = remembered.shown(memory, namespace=("scope",))
        assert len({str(each) for each in shown.values()}) > 3
        assert memory.admin.verify().problems == ()


class TestMaintenance:
    def test_stored_objects_are_counted_and_erased(self, memories, url):
        counts = []
        for memory in memories:
            everything.fill(memory)
            assert memory.admin.verify().problems == ()
            counts.append(memory.admin.verify().checked)
        assert counts[0] == counts[1]
        memory = memories[1]
        assert {name: number for name, number in numbers(url).items() if number > NUMBERED_ELSEWHERE} == {}
        erased = memory.erase(namespace=())
        assert erased.entries
        assert erased.threads
        assert memory.admin.verify().problems == ()
        assert not memory.search("herons", everything=True)

    def test_vector_search_finds_messages(self, url):
        with AgentMemory(url, index={"embed": WordEmbeddings(DIMS), "dims": DIMS}) as memory:
            talk(memory.conversation("c"), 10)
            assert memory.search("herons")[0].why.signals["vectors"] > 0
            assert memory.erase(conversation_id="c").entries == 10
            assert memory.admin.verify().problems == ()
