"""A managed conversation as LangChain's chat history: a chain's context fits the budget, and the log is complete."""

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables.history import RunnableWithMessageHistory

from langchain_agentmem.compaction import ManagedMemoryConfig, summary_in
from langchain_agentmem.testing import assert_valid_for_providers
from tests.compaction.summarizers import Summarizer, budget, question, talk, with_a_call
from tests.support.models import ScriptedModel

pytestmark = [
    pytest.mark.sqlite_suffices,
    pytest.mark.filterwarnings("ignore:.*RunnableWithMessageHistory"),  # which is used all the same
]

SMALL = budget(600)
CONFIG = {"configurable": {"session_id": "c"}}


def ids(messages):
    return [message.id for message in messages]


class TestChatHistory:
    @pytest.mark.slow
    async def test_chain_gets_the_context_and_stores_messages_once(self, memory, do):
        chat = memory.managed_conversation("c", config=SMALL, model=Summarizer())
        model = ScriptedModel(*talk(30)[1::2])
        chain = RunnableWithMessageHistory(model, lambda session_id: chat)  # input and history are one list there
        for turn in range(30):
            before, given = chat.get_context(), [question(turn)]
            await do(chain, "invoke", given, CONFIG)
            assert [each.text for each in model.asked[-1]] == [each.text for each in (*before, *given)]
        assert max(map(len, model.asked)) < 30, "the model was not given everything"
        assert any(summary_in(each) for each in model.asked[-1])
        assert ids(chat.raw_messages) == ids(talk(30))
        assert ids(await chat.araw_messages()) == ids(chat.raw_messages)

    async def test_messages_property_is_the_context(self, memory):
        chat = memory.managed_conversation("c", config=SMALL, model=Summarizer())
        chat.add_messages(talk(20))
        assert chat.messages == chat.get_context() == await chat.aget_messages() == await chat.aget_context()
        assert len(chat.messages) < 20
        assert_valid_for_providers(chat.messages)
        assert len(chat.raw_messages) == len(chat.get_raw_messages()) == 40


class TestReaddedMessages:
    """LangChain adds its input messages again if another process has compacted in between."""

    def test_generated_messages_are_not_stored(self, memory):
        chat = memory.managed_conversation("c", config=SMALL, model=Summarizer())
        chat.add_messages(talk(20))
        before = ids(chat.raw_messages)
        chat.add_messages([*chat.messages, HumanMessage("And now?", id="new")])
        assert ids(chat.raw_messages) == [*before, "new"]

    def test_truncated_copies_do_not_overwrite_stored_messages(self, memory):
        chat = memory.managed_conversation("c", config=budget(2_000, processor_order=["tool_truncation"]))
        chat.add_messages([*with_a_call("far too much " * 4_000), *talk(1)])
        shown = chat.messages
        assert len(shown[2].text) < 30_000
        chat.add_messages([*shown, HumanMessage("And now?", id="new")])
        assert ids(chat.raw_messages) == ["go", "ai-1", "tool-1", "ai-2", "q-0", "a-0", "new"]
        assert len(chat.raw_messages[2].text) > 50_000

    def test_forged_mark_does_not_prevent_storing(self, memory):
        chat = memory.managed_conversation("c")
        chat.add_messages([HumanMessage("Said.", id="h", additional_kwargs={"agentmem_made": True})])
        assert ids(chat.raw_messages) == ["h"]


class TestTokenCounting:
    IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}  # noqa: RUF012

    def test_image_cost_follows_the_configuration(self, memory):
        message = HumanMessage([{"type": "text", "text": "See"}, self.IMAGE], id="h")
        costs = {}
        for estimate in (10, 5_000):
            config = ManagedMemoryConfig(image_token_estimate=estimate, token_counter="estimate")
            chat = memory.managed_conversation("c", config=config)
            chat.add_messages([message])
            costs[estimate] = chat.get_cache_stats()["context_tokens"]
        assert costs[5_000] - costs[10] == 4_990

    def test_custom_counter_is_used(self, memory):
        chat = memory.managed_conversation("c", config=ManagedMemoryConfig(token_counter=lambda text: 7 * len(text)))
        chat.add_messages([HumanMessage("12345", id="h")])
        assert chat.get_cache_stats()["context_tokens"] == 35 + 3
