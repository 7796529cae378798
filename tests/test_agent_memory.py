"""`AgentMemory`: the facade."""

from __future__ import annotations

import sys
import threading
from typing import Any, ClassVar

import pytest
from langchain_core.runnables import RunnableLambda

from langchain_agentmem import AgentMemory, ConversationMemory, InvalidInput, SessionMemory
from langchain_agentmem.errors import MemoryClosed
from langchain_agentmem.storage.background import WeakRegistry

pytestmark = pytest.mark.sqlite_suffices


class TestOpening:
    def test_context_manager_closes_the_memory(self, url):
        with AgentMemory(url) as memory:
            memory.conversation("chat").add_user_message("Hello")
        with pytest.raises(MemoryClosed):
            memory.conversation("chat").messages  # noqa: B018
        with AgentMemory(url) as memory:
            assert [message.text for message in memory.conversation("chat").messages] == ["Hello"]

    async def test_closing_twice_is_harmless(self, url):
        memory = AgentMemory(url)
        memory.close()
        memory.close()
        await memory.aclose()
        for verb in (memory.admin.stats, memory.admin.verify):
            with pytest.raises(MemoryClosed):
                verb()

    def test_default_database_is_in_memory(self):
        with AgentMemory() as one, AgentMemory() as two:
            one.conversation("chat").add_user_message("Hello")
            assert len(two.conversation("chat")) == 0


class TestParts:
    def test_parts_share_one_database(self, memory):
        memory.conversation("chat").add_user_message("orchard")
        assert memory.session("chat").rounds[0].user_query == "orchard"
        assert memory.search("orchard")[0].conversation_id == "chat"
        assert memory.admin.stats()["messages"] == 1

    def test_create_returns_the_named_type(self, memory):
        chat = memory.create(description="Be kind.", conversation_id="chat", namespace=("ada",))
        assert isinstance(chat, ConversationMemory)
        assert (chat.conversation_id, chat.namespace) == ("chat", ("ada",))
        assert chat.retrieve_all() == [{"role": "system", "content": "Be kind."}]
        assert isinstance(memory.create("conversation_history"), ConversationMemory)
        session = memory.create("session", session_id="task")
        assert isinstance(session, SessionMemory)
        assert session.session_id == "task"
        assert memory.create().conversation_id != memory.create().conversation_id

    @pytest.mark.parametrize("memory_type", ["unknown", "", None, 5, [], {}], ids=repr)
    def test_unknown_memory_type_is_refused(self, memory, memory_type):
        with pytest.raises(InvalidInput, match="memory_type must be"):
            memory.create(memory_type)

    def test_unknown_options_of_a_type_are_refused(self, memory):
        with pytest.raises(InvalidInput, match="Invalid options of a"):
            memory.create("session", description="x")
        with pytest.raises(InvalidInput, match="Invalid options of a"):
            memory.create("conversation_history", color="red")


class TestRunNamespace:
    CONFIG: ClassVar[Any] = {"configurable": {"agentmem_namespace": ("ada",)}}

    async def test_namespace_comes_from_the_config_in_a_run(self, memory):
        def act(text: str) -> str:
            memory.conversation("chat").add_user_message(text)
            memory.session("chat").create_round(text)
            return memory.search(text)[0].text

        assert RunnableLambda(act).invoke("orchard", self.CONFIG) == "orchard"
        assert await RunnableLambda(act).ainvoke("meadow", self.CONFIG) == "meadow"
        assert len(memory.conversation("chat")) == 0
        assert len(memory.conversation("chat", ("ada",))) == 2
        assert len(memory.session("chat", ("ada",)).rounds) == 4

    def test_explicit_namespace_overrides_the_config(self, memory):
        RunnableLambda(lambda text: memory.conversation("chat", ("bob",)).add_user_message(text)).invoke(
            "Hello", self.CONFIG
        )
        assert len(memory.conversation("chat", ("bob",))) == 1
        assert len(memory.conversation("chat", ("ada",))) == 0

    @pytest.mark.parametrize("namespace", ["ada", 5, ("",), (5,), None], ids=repr)
    def test_invalid_namespace_is_refused_and_writes_nothing(self, memory, namespace):
        config: Any = {"configurable": {"agentmem_namespace": namespace}}
        with pytest.raises(InvalidInput, match="namespace"):
            RunnableLambda(lambda text: memory.conversation("chat").add_user_message(text)).invoke("Hello", config)
        assert memory.admin.stats()["messages"] == 0


def test_weak_registry_is_iterable_during_concurrent_additions():
    class Part:
        pass

    parts, first, made, interval = WeakRegistry(), [Part() for _ in range(500)], [], sys.getswitchinterval()
    for each in first:
        parts.add(each)
    del each
    ended = threading.Event()

    def make():
        while not ended.is_set() and len(made) < 200_000:
            made.append(Part())
            parts.add(made[-1])

    maker = threading.Thread(target=make)
    sys.setswitchinterval(1e-6)
    maker.start()
    try:
        assert all(set(first) <= set(parts) for _ in range(50))
    finally:
        ended.set()
        maker.join()
        sys.setswitchinterval(interval)
    first.clear()
    assert len(list(parts)) == len(made)
