"""Round trips of memories through exports, backups and copies between both engines."""

import random

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.storage import transfer
from langchain_agentmem.upkeep.admin import Admin
from tests.storage.sessions import kill_all
from tests.support.graphs import at, line
from tests.upkeep.random_memory import differences, fill, readable

ENGINES = ("sqlite", "postgres")


def check_round_trip(place: str, new_database, folder) -> None:
    """Carry a memory by exports to the other engine and back, and import each export twice."""
    with AgentMemory(place) as memory:
        before = readable(memory)
        memory.export(folder / "0.db")
        assert memory.import_(folder / "0.db").entries == 0  # into itself
    there = ENGINES.index("postgres" if place.startswith("postgres") else "sqlite")
    for number in (1, 2):
        with AgentMemory(new_database(ENGINES[(there + number) % 2])) as memory:
            memory.import_(folder / f"{number - 1}.db")
            assert differences(before, readable(memory)) == {}
            again = memory.import_(folder / f"{number - 1}.db")
            assert (again.entries, again.checkpoints, again.memories, again.items, again.audit) == (0, 0, 0, 0, 0)
            assert differences(before, readable(memory)) == {}
            assert memory.admin.verify().problems == ()
            memory.export(folder / f"{number}.db")


def test_export_begins_again_after_its_connection_is_closed(new_database, tmp_path, monkeypatch):
    copy_rows, cuts = transfer.copy_rows, iter([True])

    def cut(source, tx, **options):
        if next(cuts, False):
            kill_all(memory.database.engine)
        return copy_rows(source, tx, **options)

    monkeypatch.setattr(transfer, "copy_rows", cut)
    with AgentMemory(new_database("postgres")) as memory:
        memory.conversation("c").add_user_message("Hello")
        assert memory.export(tmp_path / "a.export").entries == 1
    assert next(cuts, None) is None


def test_full_memory_round_trips_through_the_other_engine(full, new_database, tmp_path):
    check_round_trip(full, new_database, tmp_path)


def test_copied_thread_round_trips_after_deleting_its_original(new_database, tmp_path):
    with AgentMemory(place := new_database("sqlite")) as memory:
        graph = line(memory.checkpointer, lambda state: {"messages": [AIMessage("A quince.")]})
        graph.invoke({"messages": [HumanMessage("What is it?")]}, at())
        memory.checkpointer.copy_thread("t", "copy")
        memory.checkpointer.delete_thread("t")
    check_round_trip(place, new_database, tmp_path)


MANY = [pytest.param(seed, marks=[pytest.mark.deep, pytest.mark.timeout(0)]) for seed in range(2, 100)]


@pytest.mark.parametrize("seed", [0, 1, *MANY])
def test_random_memories_round_trip_through_the_other_engine(new_database, tmp_path, seed):
    with AgentMemory(place := new_database(ENGINES[seed % 2])) as memory:
        fill(memory, random.Random(seed))
    check_round_trip(place, new_database, tmp_path)


@pytest.mark.parametrize("seed", range(2))
def test_copies_backups_and_exports_have_equal_content(new_database, tmp_path, seed):
    with AgentMemory(new_database(ENGINES[seed % 2])) as memory:
        fill(memory, random.Random(seed))
        before = readable(memory)
        memory.admin.copy(copy := new_database(ENGINES[(seed + 1) % 2]))
        memory.admin.backup(tmp_path / "backup.db")
        memory.export(tmp_path / "export.db")
    Admin.restore(tmp_path / "backup.db", restored := new_database(ENGINES[(seed + 1) % 2]))
    Admin.restore(tmp_path / "export.db", tmp_path / "restored.db")
    for place in (copy, restored, tmp_path / "restored.db", tmp_path / "export.db"):
        with AgentMemory(place) as memory:
            assert differences(before, readable(memory)) == {}


def test_importing_a_namespace_keeps_other_namespaces(new_database, tmp_path):
    """The export of one namespace goes into a memory that has others; what is in both is there once."""
    with AgentMemory(new_database("sqlite")) as memory:
        fill(memory, random.Random(11))
        memory.within(("users", "ana")).export(tmp_path / "ana.db")
        memory.within(("users", "bo")).export(tmp_path / "bo.db")
        memory.within(("users",)).export(tmp_path / "users.db")
    found = []
    for number, names in enumerate((("users",), ("ana", "bo"), ("bo", "ana", "users", "ana"))):
        with AgentMemory(new_database(ENGINES[number % 2])) as memory:
            for name in names:
                memory.import_(tmp_path / f"{name}.db")
            found.append(readable(memory))
    assert differences(found[0], found[1]) == differences(found[0], found[2]) == {}
