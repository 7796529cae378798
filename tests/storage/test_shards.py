"""Tenants as shards: a memory in several schemas, and tenants that move between them."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, count

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from psycopg.conninfo import make_conninfo

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit import audit_entry
from langchain_agentmem.errors import DatabaseBusy, DatabaseUnreadable, InvalidInput, StorageError
from langchain_agentmem.storage import Opening, engine, query, tenant_move
from langchain_agentmem.storage.engine import MOST_SHARDS
from langchain_agentmem.storage.queries import number_of
from langchain_agentmem.storage.shards import Shards, TenantEngine
from langchain_agentmem.storage.table_copy import TABLES
from langchain_agentmem.upkeep import export
from langchain_agentmem.upkeep.tenant_placing import move_tenant
from tests import everything
from tests.checkpoints.graphs import at, chat_graph
from tests.forking import COMMAND
from tests.pages import blocks_of
from tests.word_embeddings import WordEmbeddings

pytestmark = pytest.mark.bare

COUNT = 3
WALL = blocks_of("docs/postgresql.md", "sql")[0]
"""How a role is walled in, as the page has it."""
LINK = audit_entry.following


@pytest.fixture
def postgres(new_database):
    """An empty database, in which other schemas than ours are not left."""
    url = new_database("postgres")
    yield url
    with psycopg.connect(url, autocommit=True) as connection:
        made = connection.execute("select nspname from pg_namespace where nspname ~ '^(agentmem_|vault)'")
        for (name,) in made.fetchall():
            connection.execute(f"drop schema {name} cascade")


@pytest.fixture
def opened(postgres):
    """Opens the shards, and closes them in the end."""
    every = []

    def opens(shards=COUNT, **options):
        every.append(Shards(postgres, Opening(shards=shards, **options)))
        return every[-1]

    yield opens
    for each in every:
        each.close()


@pytest.fixture
def shards(opened):
    return opened()


def schemas(url):
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute("select nspname from pg_namespace where nspname ~ '^agentmem' order by 1")
        return [name for (name,) in rows]


def is_here(path):
    """Whether a schema has a namespace."""

    def steps():
        return bool((yield query.find_namespace(path=path)))

    return steps


class TestMaking:
    @pytest.mark.slow
    def test_all_schemas_are_made_and_migrated_together(self, postgres, shards):
        assert schemas(postgres) == ["agentmem", *(f"agentmem_{n:02}" for n in range(COUNT))]
        assert len(shards.engines) == COUNT
        for each in shards.engines:
            assert each.problems() == []

    @pytest.mark.slow
    def test_numbers_of_rows_are_different_in_all_schemas(self, shards):
        numbers = [each.write(lambda: number_of("a\x1f")) for each in shards.engines]
        assert [number % MOST_SHARDS for number in numbers] == list(range(COUNT))

    @pytest.mark.slow
    def test_tables_that_a_newer_version_adds_number_their_rows_likewise(self, opened, postgres, monkeypatch):
        opened().close()
        more = "create table {} (id bigint generated always as identity primary key);"
        later = engine.Migration("0999_later", more.format("one") + more.format("two"))
        every = engine.migrations("postgres")
        monkeypatch.setattr(engine, "migrations", lambda dialect: (*every, later))
        shards = opened()
        with psycopg.connect(postgres) as connection:
            for number, each in enumerate(shards.engines):
                found = connection.execute(
                    "select identity_increment from information_schema.columns "
                    "where is_identity = 'YES' and table_schema = %s",
                    (each.schema,),
                )
                assert set(found.fetchall()) == {(str(MOST_SHARDS),)}
                for table in ("one", "two"):
                    sequence = f"{each.schema}.{table}_id_seq"
                    given = connection.execute("select nextval(cast(%s as regclass))", (sequence,)).fetchone()[0]
                    assert given % MOST_SHARDS == number

    @pytest.mark.slow
    def test_it_is_opened_as_it_was_made(self, opened, postgres):
        opened().close()
        opened(None).close()
        opened(COUNT).close()
        for options in ({"shards": COUNT + 1}, {"tenant_depth": 2}):
            with pytest.raises(InvalidInput, match=f"shards={COUNT}"):
                opened(**{"shards": COUNT, **options})
        with pytest.raises(InvalidInput, match="shards="):
            AgentMemory(postgres)

    def test_a_memory_without_shards_stays_one(self, opened, postgres):
        with AgentMemory(postgres) as memory:
            memory.conversation("c").add(role="user", content="herons")
        for shards in (COUNT, None):
            with pytest.raises(InvalidInput, match="without shards"):
                opened(shards)
        assert schemas(postgres) == ["agentmem"]

    @pytest.mark.slow
    def test_two_that_make_it_at_once_make_one(self, opened):
        with ThreadPoolExecutor(2) as pool:
            one, other = pool.map(opened, [COUNT, COUNT])
        assert [each.schema for each in one.engines] == [each.schema for each in other.engines]

    @pytest.mark.slow
    def test_a_schema_that_was_lost_is_not_made_anew(self, opened, postgres):
        opened().close()
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute("drop schema agentmem_01 cascade")
        for _ in range(2):
            with pytest.raises(DatabaseUnreadable, match="agentmem_01"):
                opened()
        assert "agentmem_01" not in schemas(postgres)

    def test_a_word_of_sql_is_no_name_of_a_schema(self, shards, postgres):
        with pytest.raises(InvalidInput, match="'user'"):
            shards.move("a\x1f", "user", LINK, own=True)
        with pytest.raises(InvalidInput, match="'order'"):
            AgentMemory(postgres, schema="order")

    @pytest.mark.parametrize("options", [{"shards": 0}, {"shards": 65}, {"shards": True}, {"shards": "4"}])
    def test_what_cannot_be_is_refused(self, opened, options):
        with pytest.raises(InvalidInput, match="shards"):
            opened(**options)

    def test_sqlite_has_none(self, tmp_path):
        with pytest.raises(InvalidInput, match="PostgreSQL"):
            Shards(tmp_path / "memory.db", Opening(shards=COUNT))


class TestTenants:
    @pytest.mark.slow
    def test_each_is_where_its_hash_says_in_every_process(self, shards, opened):
        other = opened()
        names = [f"t{n}\x1f" for n in range(50)]
        for name in names:
            shards.of(name).write(lambda name=name: number_of(name))
        held = [[name for name in names if each.read(is_here(name))] for each in shards.engines]
        assert sorted(chain(*held)) == sorted(names)
        assert all(held)
        assert all(other.of(name).read(is_here(name)) for name in names)


def records(memory, folder):
    """What an export holds, as a bag; without the beginning, the end, and records that only hold others."""
    memory.export(folder / "export.jsonl")
    lines = (folder / "export.jsonl").read_text().splitlines()[1:-1]
    return Counter(line for line in lines if len(json.loads(line)) > 1)


def names(memory):
    """The ids of the threads and conversations of the root."""
    return {each.thread_id for each in memory.threads().threads if not each.namespace}


def tenants_of(memory):
    """The tenants of a memory."""
    with psycopg.connect(memory.database.engine._url) as connection:
        found = connection.execute(f"select path from {memory.database.engine.schema}.namespace").fetchall()
    return sorted({path[: path.find("\x1f") + 1] for (path,) in found} | {f"\x1f{name}" for name in names(memory)})


@pytest.fixture
def sides(postgres, opened):
    """A memory in each of two schemas, and the shards, in the first of which all tenants are at first."""
    shards = opened(2)
    shards.hashed = lambda _: 0
    with AgentMemory(postgres, schema="agentmem_00") as here, AgentMemory(postgres, schema="agentmem_01") as there:
        yield here, there, shards


class TestMoving:
    def test_no_table_is_forgotten(self):
        stay = {"search_state", "audit_head", "measure"}
        assert set(tenant_move._WHERE) >= {table.name for table in TABLES} - stay

    @pytest.mark.slow
    def test_all_that_is_a_tenants_moves_and_comes_back(self, sides, tmp_path):
        here, there, shards = sides
        everything.fill(here)
        before, found = records(here, tmp_path), here.search("herons", everything=True, limit=30)
        tenants = tenants_of(here)
        assert len(tenants) > 5
        moved = {}
        for target, source in (("agentmem_01", "agentmem_00"), ("agentmem_00", "agentmem_01")):
            for tenant in tenants:
                count = shards.move(tenant, target, LINK, dry_run=True).rows
                report = shards.move(tenant, target, LINK)
                if report.rows:  # the others had moved with what they share
                    assert (report.source, report.target) == (source, target)
                    assert report.rows == moved.setdefault(tenant, count)
            assert here.verify().problems == there.verify().problems == ()
            assert records(here, tmp_path) + records(there, tmp_path) == before
            full, empty = (there, here) if target == "agentmem_01" else (here, there)
            assert [empty.stats()[name] for name in ("messages", "threads", "items", "memories", "audit")] == [0] * 5
            assert [each.id for each in full.search("herons", everything=True, limit=30)] == [each.id for each in found]

    @pytest.mark.slow("in every form")
    @pytest.mark.parametrize(
        ("depth", "tenant", "mine"),
        [
            (1, "", {"main"}),
            (1, "\x1ft", {"t"}),
            (1, "a\x1f", {"a\x1fmain", "a\x1fb\x1fmain", "a\x1fb\x1fc\x1fmain"}),
            (2, "", {"main"}),
            (2, "a\x1f", {"a\x1fmain"}),
            (2, "a\x1fb\x1f", {"a\x1fb\x1fmain", "a\x1fb\x1fc\x1fmain"}),
        ],
    )
    def test_what_is_another_tenants_stays(self, sides, postgres, depth, tenant, mine):
        here, _, shards = sides
        shards.tenant_depth = depth
        here.conversation("t").add(role="user", content="herons")
        for namespace in ((), ("a",), ("a", "b"), ("a", "b", "c")):
            here.layers("main", namespace).core.set("k", "v")
        stays = {"t", "main", "a\x1fmain", "a\x1fb\x1fmain", "a\x1fb\x1fc\x1fmain"} - mine
        shards.move(tenant, "agentmem_01", LINK)
        with psycopg.connect(postgres) as connection:
            for schema, expected in (("agentmem_00", stays), ("agentmem_01", mine)):
                for table, without in (("branch", set()), ("author", {"t"})):  # a conversation is no author
                    found = connection.execute(
                        f"select path || coalesce(name, 'main') from {schema}.{table} x "
                        f"join {schema}.namespace n on n.id = x.namespace_id"
                    )
                    assert sorted(row for (row,) in found) == sorted(expected - without)

    @pytest.mark.slow("in every form")
    @pytest.mark.parametrize("counted", [0, tenant_move._COUNTED])
    @pytest.mark.parametrize("used", [True, False])
    def test_what_comes_later_has_a_greater_number_where_it_moved_to(self, sides, postgres, monkeypatch, counted, used):
        monkeypatch.setattr(tenant_move, "_COUNTED", counted)
        here, there, shards = sides
        if used:
            there.conversation("before", ("b",)).add(role="user", content="quinces")
        for number in range(10):
            here.conversation(f"c{number}", ("a",)).add(role="user", content="herons")
        shards.move("a\x1f", "agentmem_01", LINK)
        there.conversation("later", ("b",)).add(role="user", content="quinces")
        with psycopg.connect(postgres) as connection:
            numbers = "select name, id from agentmem_01.branch order by id"
            *_, (_, last), (name, later) = connection.execute(numbers).fetchall()
        assert (name, later % MOST_SHARDS) == ("later", 1)
        assert later <= last + 3 * MOST_SHARDS  # which is not more than it has to be

    @pytest.mark.slow
    def test_threads_of_the_root_share_a_scope_of_the_search_where_they_move_to(self, sides, postgres):
        here, there, shards = sides
        for name in ("one", "two", "three"):
            here.conversation(name).add(role="user", content=f"herons of {name}")
        for name in ("one", "two"):
            shards.move(f"\x1f{name}", "agentmem_01", LINK)
        with psycopg.connect(postgres) as connection:
            assert connection.execute("select series from agentmem_01.search_scope").fetchall() == [(2,)]
        assert [len(each.search("herons", everything=True)) for each in sides[:2]] == [1, 2]
        assert here.verify().problems == there.verify().problems == ()


class TestVectors:
    @staticmethod
    def opened_at(postgres, schema, calls):
        class Counting(WordEmbeddings):
            def embed_documents(self, texts):
                calls.append(len(texts))
                return super().embed_documents(texts)

        return AgentMemory(postgres, schema=schema, index={"embed": Counting(16), "dims": 16})

    @pytest.mark.slow("in every form")
    @pytest.mark.parametrize("alike", [True, False])
    def test_they_move_where_they_are_of_use_and_are_made_anew_elsewhere(self, sides, postgres, alike):
        *_, shards = sides
        calls = []
        if alike:
            self.opened_at(postgres, "agentmem_01", []).close()
        with self.opened_at(postgres, "agentmem_00", []) as memory:
            memory.conversation("c", ("a",)).add(role="user", content="herons")
            memory.settle()
        shards.move("a\x1f", "agentmem_01", LINK)
        with self.opened_at(postgres, "agentmem_01", calls) as memory:
            memory.settle()
            assert memory.search("herons", namespace=("a",))[0].why.signals["vectors"] > 0
            assert memory.verify().problems == ()
        assert calls == ([] if alike else [1])

    @pytest.mark.slow
    def test_what_is_kept_beside_documents_of_before_is_renewed_where_they_move_to(self, sides, postgres):
        *_, shards = sides
        with AgentMemory(postgres, schema="agentmem_00") as memory:
            memory.conversation("c", ("a",)).add(role="user", content="I prefer herons")
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute("update agentmem_00.search_document set features = 0")
            connection.execute("update agentmem_00.search_state set behind = -1")
            shards.move("a\x1f", "agentmem_01", LINK)
            with AgentMemory(postgres, schema="agentmem_01") as memory:
                memory.settle()
                assert memory.search("herons", namespace=("a",))
            assert connection.execute("select features > 0 from agentmem_01.search_document").fetchall() == [(True,)]


def through(memory, shards, tenant):
    """The memory, whose operations are those of one tenant."""
    memory.database.engine = shards.of(tenant)
    return memory.within((tenant[:-1],))


class TestMovingUnderLoad:
    @pytest.mark.slow
    def test_nothing_is_lost_or_doubled(self, postgres, shards, opened):
        """Two processes' engines write; the tenant goes round all schemas meanwhile."""
        tenant, done = "ada\x1f", threading.Event()
        stays = "agentmem_00"

        def write(number):
            count = 0
            with AgentMemory(postgres, schema=stays) as memory:
                mine = through(memory, opened(), tenant)
                while not done.is_set():
                    mine.conversation("shared").add(HumanMessage(f"{number} {count}", id=f"{number} {count}"))
                    mine.store.put(("ada", "docs"), f"{number} {count}", {"text": "herons"})
                    mine.layers("own").core.set(f"k{number}", str(count))
                    assert mine.store.get(("ada", "docs"), f"{number} {count}") is not None
                    count += 1
            return count

        with ThreadPoolExecutor(3) as pool:
            writing = [pool.submit(write, number) for number in range(3)]
            try:
                for _ in range(3):
                    for each in shards.engines:
                        shards.move(tenant, each.schema, LINK)
                        time.sleep(0.2)
            finally:
                done.set()
            counts = [each.result() for each in writing]
        with AgentMemory(postgres, schema=stays) as memory:
            mine = through(memory, shards, tenant)
            said = Counter(message.text for message in mine.conversation("shared").messages)
            assert said == Counter(f"{number} {n}" for number in range(3) for n in range(counts[number]))
            assert len(mine.store.search(("ada", "docs"), limit=10_000)) == sum(counts)
            assert [mine.layers("own").core.get([f"k{n}"])[f"k{n}"] for n in range(3)] == [
                str(count - 1) for count in counts
            ]
        for each in shards.engines:
            with AgentMemory(postgres, schema=each.schema) as memory:
                assert memory.verify().problems == ()
                assert bool(memory.stats()["messages"]) == (each is shards.look_again(tenant))

    @pytest.mark.slow
    def test_a_move_that_is_killed_leaves_everything_as_it_was(self, sides, tmp_path, monkeypatch):
        here, there, shards = sides
        here.conversation("c", ("a",)).add(role="user", content="herons")
        before = records(here, tmp_path)

        def killed(self, tables):
            self._connection.execute("select pg_terminate_backend(pg_backend_pid())")

        monkeypatch.setattr(tenant_move._Move, "_leave", killed)
        with pytest.raises(StorageError):
            shards.move("a\x1f", "agentmem_01", LINK)
        monkeypatch.undo()
        assert records(here, tmp_path) == before
        assert not records(there, tmp_path)
        assert shards.of("a\x1f").read(is_here("a\x1f"))
        assert shards.move("a\x1f", "agentmem_01", LINK).rows["entry"] == 1

    @pytest.mark.slow
    def test_who_writes_meanwhile_waits_and_has_a_deadline(self, postgres, shards, opened):
        with psycopg.connect(postgres) as connection:
            tenant_move.hold(connection, ["ada\x1f"])
            engine = opened(busy_timeout=0.1).of("ada\x1f")
            assert not engine.read(is_here("ada\x1f"))
            assert opened().of("bob\x1f").write(lambda: number_of("bob\x1f"))
            with pytest.raises(DatabaseBusy):
                engine.write(lambda: number_of("ada\x1f"))

    @pytest.mark.slow
    def test_an_operation_that_fails_since_its_tenant_is_gone_is_done_where_it_is(self, sides):
        here, _, shards = sides
        engine = shards.of("a\x1f")
        here.conversation("c", ("a",)).add(role="user", content="herons")
        [branch] = engine.read(branches)
        shards.move("a\x1f", "agentmem_01", LINK)
        assert engine.write(partial(describe, branch)) == branch

    @pytest.mark.slow
    def test_one_whose_place_no_map_tells_is_not_looked_for_without_end(self, shards, opened, postgres):
        with psycopg.connect(postgres) as connection:
            for each in shards.engines:
                connection.execute(f"insert into {each.schema}.moved_tenant (tenant) values ('ada\x1f')")
        with pytest.raises(DatabaseBusy, match="cannot be found out"):
            opened(busy_timeout=0.2).of("ada\x1f").read(is_here("ada\x1f"))

    @pytest.mark.slow
    def test_a_rehearsal_follows_too(self, sides):
        here, _, shards = sides
        here.conversation("c", ("a",)).add(role="user", content="herons")
        shards.move("a\x1f", "agentmem_01", LINK)
        assert shards.of("a\x1f").rehearse(branches)


def branches():
    """The conversations there are."""
    rows = yield query.list_branches(low="", high="\U0010ffff", kind="conversation", name=None)
    return [row["id"] for row in rows]


def describe(branch):
    """Refer to a branch, which a schema without it does not allow."""
    yield query.insert_base_group(group=1, branch=branch)
    return branch


class TestCopies:
    @pytest.mark.slow
    def test_threads_that_share_something_move_together(self, sides):
        here, there, shards = sides
        saver = here.checkpointer
        for name in ("one", "other"):
            chat_graph(saver).invoke({"messages": [HumanMessage(f"heron {name}")]}, at(name))
        shards.keep_together("\x1fcopy", "\x1fone")
        saver.copy_thread("one", "copy")
        saver.copy_thread("copy", "third")
        shards.move("\x1fthird", "agentmem_01", LINK)
        assert names(there) == {"one", "copy", "third"}
        assert names(here) == {"other"}
        for name in ("one", "copy", "third"):
            assert shards.look_again(f"\x1f{name}").schema == "agentmem_01"
        shards.keep_together("\x1fnew", "\x1fcopy")
        assert shards.look_again("\x1fnew").schema == "agentmem_01"

    @pytest.mark.slow
    def test_what_shares_with_another_tenant_stays(self, sides):
        here, _, shards = sides
        here.layers("main", ("a",)).core.set("k", "v")
        with psycopg.connect(here.database.engine._url) as connection:
            connection.execute("set search_path = agentmem_00")
            connection.execute("insert into namespace (path) values ('b\x1f')")
            connection.execute(
                "insert into branch (namespace_id, kind, name, parent_id, parent_position, created_at) "
                "select (select id from namespace where path = 'b\x1f'), 'layers', 'f', id, 1, 0 from branch "
                "where name = 'main'"
            )
        with pytest.raises(InvalidInput, match="shares"):
            shards.move("a\x1f", "agentmem_01", LINK)

    @pytest.mark.slow("in every form")
    @pytest.mark.parametrize("tenant", ["a\x1fb\x1f"])
    def test_what_is_no_tenant_is_refused(self, shards, tenant):
        with pytest.raises(InvalidInput, match="1 label"):
            shards.move(tenant, None, LINK)
        with pytest.raises(InvalidInput, match="none of the schemas"):
            shards.move("a\x1f", "nowhere", LINK)


class TestTheCommand:
    def test_a_file_has_no_schemas_to_move_between(self):
        with pytest.raises(InvalidInput, match="schemas of PostgreSQL"):
            move_tenant("agent.db", "users")

    @pytest.mark.slow
    def test_moves_a_tenant(self, sides, postgres, forks):
        here, there, _ = sides
        here.conversation("c", ("b",)).add(role="user", content="herons")
        here.conversation("b").add(role="user", content="quinces")

        def moving(*arguments, code=0):
            done = forks.run(COMMAND, "move-tenant", postgres, *arguments)
            assert done.returncode == code
            return done.stdout + done.stderr

        assert "would move from agentmem_00 to agentmem_01" in moving("b", "--to", "agentmem_01", "--dry-run")
        assert not there.stats()["messages"]
        assert "moved from agentmem_00 to agentmem_01" in moving("b", "--to", "agentmem_01")
        assert json.loads(moving("/b", "--to", "agentmem_01", "--json"))["rows"]["entry"] == 1
        assert there.stats()["messages"] == 2
        assert "is in agentmem_01 already" in moving("b", "--to", "agentmem_01")
        assert "moved from agentmem_01 to agentmem_00" in moving("b")
        assert "moved from agentmem_00 to vault" in moving("b", "--own-schema", "vault")
        assert "another tenant's own" in moving("/b", "--to", "vault", code=2)
        assert "none of the schemas" in moving("b", "--to", "nowhere", code=2)
        assert "name one of them" in moving("b", "--to", "agentmem_01", "--own-schema", "agentmem_01", code=2)


class TestWalls:
    def test_a_role_of_one_tenant_sees_nothing_else(self, sides, postgres):
        here, _, shards = sides
        for name in ("a", "b"):
            here.conversation("c", (name,)).add(role="user", content=f"herons of {name}")
        shards.move("a\x1f", "vault", LINK, own=True)
        role = "vault_user"
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(f"drop role if exists {role}")
            connection.execute(WALL.replace("ada", "vault"))
        try:
            url = make_conninfo(postgres, user=role)
            with AgentMemory(url, schema="vault", migrate=False) as memory:
                chat = memory.conversation("c", ("a",))
                chat.add(role="user", content="and quinces")
                assert [message.text for message in chat.messages] == ["herons of a", "and quinces"]
                assert len(memory.search("herons quinces", everything=True)) == 2
                memory.layers("main", ("a",)).core.set("k", "v")
            with psycopg.connect(url, autocommit=True) as connection:
                for schema in ("agentmem", "agentmem_00"):
                    for table in ("namespace", "content", "entry", "pin"):
                        with pytest.raises(psycopg.errors.InsufficientPrivilege):
                            connection.execute(f"select * from {schema}.{table}")
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute("create schema mine")
        finally:
            with psycopg.connect(postgres, autocommit=True) as connection:
                connection.execute(f"drop owned by {role}")
                connection.execute(f"drop role {role}")

    def test_nobody_else_comes_into_the_schema_of_a_tenant(self, shards):
        for _ in range(2):
            shards.move("a\x1f", "vault", LINK, own=True)
        for own in (True, False):
            with pytest.raises(InvalidInput, match="another tenant's own"):
                shards.move("b\x1f", "vault", LINK, own=own)

    def test_a_schema_of_many_tenants_is_nobodys_own(self, shards):
        for each in shards.engines:
            for dry_run in (True, False):
                with pytest.raises(InvalidInput, match="none of those"):
                    shards.move("a\x1f", each.schema, LINK, own=True, dry_run=dry_run)

    def test_a_copy_of_a_thread_is_where_the_thread_is(self, shards):
        shards.move("\x1fone", "vault", LINK, own=True)
        shards.keep_together("\x1fcopy", "\x1fone")
        assert shards.look_again("\x1fcopy").schema == "vault"


class TestMovingInTheMiddleOfARun:
    """A thread that moves between any two operations of its run remembers as if it had stayed."""

    def run(self, memory, thread):
        def noting(name):
            def node(state, config):
                memory.layers(config).core.set(f"key of {name}", name)
                return {"messages": [AIMessage(f"said by {name}")]}

            return node

        graph = StateGraph(MessagesState).add_sequence([(name, noting(name)) for name in "ab"])
        graph = graph.add_edge(START, "a").compile(checkpointer=memory.checkpointer)
        for text in ("herons", "quinces"):
            graph.invoke({"messages": [HumanMessage(text)]}, at(thread), durability="sync")
        kept = memory.layers(at(thread)).core.get()
        return kept, [each.text for each in graph.get_state(at(thread)).values["messages"]]

    @pytest.mark.slow
    def test_wherever_it_moves(self, opened, monkeypatch):
        shards, wherever = opened(), TenantEngine._wherever
        said, moves = [], {}

        def moving(engine, run):
            said.append(run)
            if (turn := moves.pop(len(said), None)) is not None:
                schemas = [each.schema for each in shards.engines]
                here = schemas.index(shards.look_again(engine._tenant).schema)
                shards.move(engine._tenant, schemas[(here + turn) % COUNT], LINK)
            return wherever(engine, run)

        monkeypatch.setattr(TenantEngine, "_wherever", moving)
        with AgentMemory(shards.home._url, shards=COUNT) as memory:
            expected, operations = self.run(memory, "0"), len(said)
            assert expected[0] == {"key of a": "a", "key of b": "b"}
            assert operations > 20
            for number in range(1, operations + 1):
                said.clear()
                moves[number] = 1 + number % (COUNT - 1)
                assert self.run(memory, str(number)) == expected
                assert not moves
            assert memory.verify().problems == ()


@pytest.mark.parametrize("key", [None, bytes(32)])
def test_what_waits_for_an_encrypted_export_shows_no_word(postgres, tmp_path, monkeypatch, key):
    spools = tmp_path / "spools"
    spools.mkdir()
    number = count()

    def named(mode, **how):
        return (spools / str(next(number))).open(mode, **how)

    monkeypatch.setattr(export, "TemporaryFile", named)
    with AgentMemory(postgres, shards=COUNT) as memory:
        for whose in ("ada-lovelace", "bob", "eve"):
            memory.layers(namespace=(whose,)).archival.write(f"{whose} grows quinces")
            memory.store.put((whose,), "fruit", {"text": "quinces"})
        memory.export(tmp_path / "export.jsonl", key=key)
    waited = b"".join(each.read_bytes() for each in spools.iterdir())
    # Long words: encrypted bytes in base64 show a short one by chance.
    assert (b"quinces" in waited, b"ada-lovelace" in waited) == ((key is None,) * 2)
    assert len(waited) > 1_000
    with AgentMemory(tmp_path / "other.db") as other:
        assert other.import_(tmp_path / "export.jsonl", key=key).memories == 3
        assert other.store.get(("eve",), "fruit").value == {"text": "quinces"}
        assert other.verify().ok
