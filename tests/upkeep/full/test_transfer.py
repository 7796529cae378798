"""What everything of a memory shows is the same after it went to the other engine and back."""

from langchain_agentmem import AgentMemory
from tests.rewinding import test_care as remembered
from tests.threads.test_care import seen
from tests.upkeep.test_integrity import told


def shown(memory):
    facts = memory.facts("user-42", ("a",))
    return {
        "conversations": told(memory),
        "branches": remembered.named(memory),
        "threads": seen(memory.checkpointer),
        "facts": [(fact.text, fact.period, fact.sources) for fact in facts.history("Ana")],
        "corrections": [each.by for each in memory.corrections.history(namespace=("a",), branch="user-42")],
        "items": [item.dict() for item in memory.store.search((), limit=100, refresh_ttl=False)],
        "bytes": memory.byte_store().mget(["k\ud800", "a" * 3000]),
        "audit": memory.audit.last(200, include_junk=True),
        "context": memory.managed_conversation("managed").get_messages(),
        "found": [each.id for each in memory.search("herons and quinces", kinds=None)],
        "counted": {name: memory.admin.stats()[name] for name in ("messages", "checkpoints", "compactions")},
    }


def test_there_and_back_by_exports(full, new_database, tmp_path):
    with AgentMemory(full) as memory:
        before = shown(memory)
    place = full
    for number, kind in enumerate(("postgres", "sqlite", "postgres")):
        file, there = tmp_path / f"{number}.db", new_database(kind)
        with AgentMemory(place) as memory:
            memory.export(file)
        with AgentMemory(there) as memory:
            memory.import_(file)
            again = memory.import_(file)
            assert (again.entries, again.checkpoints, again.memories, again.items, again.audit) == (0, 0, 0, 0, 0)
            after = shown(memory)
            assert {name for name in before if before[name] != after[name]} == set(), kind
            assert memory.admin.verify().problems == ()
        place = there
