"""A process that has a memory open may fork; both processes go on with it."""

import asyncio
import os

import pytest

from langchain_agentmem import AgentMemory

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork"),
    pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning"),
]


def texts_of(memory):
    return [message.content for message in memory.conversation("c").messages]


def test_a_child_and_its_parent_read_and_write(url):
    with AgentMemory(url) as memory:
        memory.conversation("c").add(role="user", content="before")
        child = os.fork()
        if not child:
            asyncio.run(memory.conversation("c").aadd(role="user", content="in the child"))
            memory.settle()
            found = [each.text for each in asyncio.run(memory.asearch("child"))]
            right = (texts_of(memory), found) == (["before", "in the child"], ["in the child"])
            memory.close()
            os._exit(not right)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        memory.conversation("c").add(role="user", content="after")
        assert texts_of(memory) == ["before", "in the child", "after"]
        assert memory.admin.verify().ok
