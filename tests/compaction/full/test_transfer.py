"""Compactions go along when a memory is exported, and when it is erased."""

from langchain_agentmem import AgentMemory
from tests.compaction.summarizers import Summarizer, budget, talk


def test_what_was_compacted_is_verified_erased_and_carried_over(new_database):
    with AgentMemory(new_database("sqlite")) as memory, AgentMemory(new_database("postgres")) as other:
        model = Summarizer()
        chat = memory.managed_conversation("c", ("alice",), config=budget(600), model=model)
        chat.add_messages(talk(30))
        shown, calls = chat.get_messages(), len(model.asked)
        assert memory.admin.stats()["compactions"] >= 1
        assert memory.admin.verify().ok
        path = f"{memory.database.engine.path}.jsonl"
        memory.export(path)
        other.import_(path)
        other.import_(path)
        assert other.managed_conversation("c", ("alice",), config=budget(600), model=model).get_messages() == shown
        assert len(model.asked) == calls
        assert other.admin.stats()["compactions"] == memory.admin.stats()["compactions"]
        assert other.admin.verify().ok
        for each in (memory, other):
            each.erase(namespace=("alice",))
            assert each.admin.stats()["compactions"] == 0
