"""Memory shared across the threads of a user, by a namespace template alone."""

import asyncio
import logging
from functools import partial

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.injection.memory_middleware import MemoryMiddleware
from tests.support.models import ScriptedModel, calling

ISOLATION_WARNING = "stays in its thread"


class NoteTakingModel:
    """A model that writes "note" messages to core memory, and records its prompts."""

    def __init__(self):
        self.shown = ""

    def __call__(self, messages):
        self.shown = "\n".join(message.text for message in messages)
        last = messages[-1]
        words = last.text.split()
        if isinstance(last, HumanMessage) and words[0] == "note":
            return calling("mem_core_set", key=words[1], value=words[2])
        return AIMessage("well")


class Users:
    """An agent with memory, and its users."""

    def __init__(self, memory, **options):
        self.model = NoteTakingModel()
        middleware = MemoryMiddleware(memory, tools=True, **options)
        self.agent = create_agent(ScriptedModel(self.model), middleware=[middleware], checkpointer=memory.checkpointer)

    def says(self, text, thread, user=None, *, asynchronous=False, **more):
        """Send a user's message in a thread, and return the prompt of the model."""
        configurable = {"thread_id": thread, **more} | ({} if user is None else {"user_id": user})
        given, config = {"messages": [("user", text)]}, {"configurable": configurable}
        asyncio.run(self.agent.ainvoke(given, config)) if asynchronous else self.agent.invoke(given, config)
        return self.model.shown

    def first(self, thread, user):
        """The config of a thread's first checkpoint."""
        config = {"configurable": {"thread_id": thread, "user_id": user}}
        return list(self.agent.get_state_history(config))[-1].config


@pytest.fixture
def memory(url):
    with AgentMemory(url, namespace=("users", "{user_id}")) as memory:
        yield memory


@pytest.mark.slow
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_users_share_memory_across_their_own_threads(memory, asynchronous):
    users = Users(memory)
    says = partial(users.says, asynchronous=asynchronous)

    says("note city Lisbon", "monday", "ada")
    says("note city Porto", "monday", "bob")
    assert "Lisbon" in says("hello", "tuesday", "ada")
    assert "Porto" not in says("hello", "tuesday", "ada")
    assert "Porto" in says("hello", "tuesday", "bob")
    assert "Lisbon" not in says("hello", "tuesday", "bob")

    says("note pet Quince", "wednesday", "ada")  # the newest word counts, whoever's
    says("note city Braga", "wednesday", "ada")
    shown = says("hello", "monday", "ada")
    assert ("Braga" in shown, "Quince" in shown) == (True, True)

    users.agent.update_state(users.first("wednesday", "ada"), {"messages": []})  # back before it all
    shown = says("hello", "tuesday", "ada")
    assert ("Lisbon" in shown, "Braga" in shown, "Quince" in shown) == (True, False, False)

    says("note pet Olive", "wednesday", "bob")
    memory.within(user_id="bob").checkpointer.delete_thread("wednesday")
    memory.within(user_id="ada").checkpointer.delete_thread("monday")
    assert "Lisbon" in says("hello", "tuesday", "ada")
    shown = says("hello", "tuesday", "bob")
    assert ("Olive" in shown, "Porto" in shown, "Lisbon" in shown) == (True, True, False)

    memory.erase(namespace=("users", "bob"), thread_id="wednesday")
    assert "Olive" not in says("hello", "thursday", "bob")
    assert memory.admin.verify().ok


@pytest.mark.parametrize("how", ["template", "own namespace", "neither"])
def test_missing_namespace_warns_once_that_threads_are_isolated(url, caplog, how):
    whole = {"namespace": ("users", "{user_id}")} if how == "template" else {}
    with AgentMemory(url, **whole) as memory, caplog.at_level(logging.WARNING):
        users = Users(memory, **({"namespace": ("team",)} if how == "own namespace" else {}))
        users.says("note city Lisbon", "monday", "ada")
        assert ("Lisbon" in users.says("hello", "tuesday", "ada")) is (how != "neither")
        assert [ISOLATION_WARNING in each.message for each in caplog.records].count(True) == (how == "neither")
        assert ('namespace=("users", "{user_id}")' in caplog.text) is (how == "neither")
        if how == "own namespace":
            assert "Lisbon" not in Users(memory).says("hello", "wednesday")
