"""`ManagedConversationMemory`: the context stays within a budget, and the log stays complete."""

import asyncio
import json
import re

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_agentmem import AgentMemory, ManagedConversationMemory
from langchain_agentmem.base.events import CompactionEvent, CompactionFellShort, CompactionStageFailed
from langchain_agentmem.compaction import ManagedMemoryConfig, graph_compactor, summary_in
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.messages.message_marks import BEGINNING
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.testing import assert_valid_for_providers
from tests.compaction.summarizers import Summarizer, budget

pytestmark = pytest.mark.sqlite_suffices

SMALL = budget(600)
QUIET = ManagedMemoryConfig(threshold_tokens=600, token_counter="estimate", trigger_events=[])


def fill(chat, turns, start=0):
    for turn in range(start, start + turns):
        chat.add(role="user", content=f"question-{turn:03} " + "how many are there in this basket " * 2)
        chat.add(role="assistant", content=f"answer-{turn:03} " + "there are this many in the basket " * 2)


def filled(memory, turns, config=SMALL, model=None):
    """A conversation of so many turns, and the model that summarizes it."""
    model = model or Summarizer()
    chat = memory.managed_conversation("c", config=config, model=model)
    fill(chat, turns)
    return chat, model


def texts(messages):
    return [message["content"] for message in messages]


class TestContextAndLog:
    def test_context_fits_the_budget_and_log_is_complete(self, memory):
        chat, _ = filled(memory, 30)
        shown = chat.get_messages()
        assert_valid_for_providers(shown)
        assert len(shown) < 30
        assert chat.get_cache_stats()["context_tokens"] <= 600
        raw = chat.get_raw_messages()
        assert len(raw) == len(chat.raw_messages) == 60
        assert texts(raw)[0].startswith("question-000")
        assert [each.content for each in memory.conversation("c").messages] == texts(raw)
        assert shown[0]["content"] == raw[0]["content"], "the first instruction is pinned"
        assert shown[-1]["content"] == raw[-1]["content"]

    def test_compacted_messages_can_be_updated_and_found(self, memory):
        chat = memory.managed_conversation("c", config=SMALL, model=Summarizer())
        first = chat.add(role="user", content="My sister Ana lives in Lisbon.")
        second = chat.add(role="assistant", content="Lisbon is lovely.")
        fill(chat, 30)
        chat.get_messages()
        assert chat.retrieve_by_id(second)["content"] == "Lisbon is lovely."
        chat.update(second, content="Lisbon is sunny.")
        assert chat.retrieve_by_id(second)["content"] == "Lisbon is sunny."
        [found] = memory.search("Where does Ana live?", limit=1)
        assert found.id == first

    def test_conversation_can_be_built_without_a_memory(self):
        chat = ManagedConversationMemory(config=SMALL, description="You count.")
        assert chat.get_raw_messages() == [{"role": "system", "content": "You count."}]
        assert chat.compact_if_needed() is False
        assert chat.compact_for_payload_error() is False
        chat = ManagedConversationMemory(config=SMALL)
        assert chat.get_messages() == chat.get_raw_messages() == []
        assert chat.compact_if_needed() is False

    def test_context_without_user_message_gets_a_beginning(self, memory):
        chat = memory.create("managed_conversation", conversation_id="c", config=SMALL, description="You count.")
        assert chat.memory_type == "managed_conversation"
        assert [message.text for message in chat.messages] == ["You count.", BEGINNING]
        chat.add(role="user", content="How many?")
        assert [message.text for message in chat.messages] == ["You count.", "How many?"]
        fill(chat, 30)
        assert [message.text for message in chat.messages][:2] == ["You count.", "How many?"], "they stay first"

    def test_sliding_window_needs_no_model_and_saves_all(self, memory, tmp_path):
        options = {"config": budget(300, mode="sliding_window"), "description": "You count.", "model": Summarizer()}
        chat = memory.managed_conversation("c", **options)
        fill(chat, 20)
        shown = chat.get_messages()
        assert_valid_for_providers(shown)
        assert (shown[0]["role"], options["model"].asked) == ("system", [])
        assert texts(shown)[-1].startswith("answer-019")
        assert not any("question-000" in text for text in texts(shown))
        chat.save_to_file(tmp_path / "chat.json", {"step": 3})
        other = memory.managed_conversation("d", **options)
        assert other.load_from_file(tmp_path / "chat.json") == {"step": 3}
        assert other.get_raw_messages() == chat.get_raw_messages()
        assert len(other.get_raw_messages()) == 41


class TestTriggers:
    def test_empty_trigger_events_compact_only_on_request(self, memory):
        chat, model = filled(memory, 20, QUIET)
        assert len(chat.get_messages()) == 40
        assert not model.asked
        assert chat.compact_if_needed() is True
        assert len(model.asked) == 1
        assert len(chat.get_messages()) < 40
        assert chat.compact_if_needed() is False
        assert len(model.asked) == 1

    def test_provisional_summary_is_replaced_once_a_model_exists(self, memory):
        chat = memory.managed_conversation("c", config=SMALL)
        fill(chat, 30)
        [summary] = [found for each in chat.get_context() if (found := summary_in(each))]
        assert summary.provisional
        model = Summarizer()
        assert chat.compact_if_needed({"compaction_model": model}) is True
        [summary] = [found for each in chat.get_context() if (found := summary_in(each))]
        assert not summary.provisional
        everything = model.everything + "\n".join(str(each.content) for each in chat.get_context())
        assert all(f"{word}-{turn:03}" in everything for turn in range(30) for word in ("question", "answer"))
        assert chat.compact_if_needed({"compaction_model": model}) is False

    def test_trigger_strategy_decides_when_to_compact(self, memory):
        seen = []

        def trigger(state):
            seen.append((state.event, state.due, len(state.messages)))
            return state.event == "get_messages" and len(state.messages) >= 10

        model = Summarizer()
        chat = memory.managed_conversation("c", model=model, trigger_strategy=trigger)
        fill(chat, 10)
        shown = chat.get_messages()
        assert len(shown) < 20
        assert len(model.asked) == 1
        assert ("add", False, 1) in seen

    def test_messages_removed_by_process_strategy_stay_removed(self, memory):
        keeps = (lambda said: said[:-2], lambda said: said[:2] + said[-4:], lambda said: said[:-6] + said[-4:])
        for number, keep in enumerate(keeps):
            chat = memory.managed_conversation(
                f"c{number}",
                config=QUIET,
                process_strategy=lambda messages, situation, keep=keep: keep(messages),
                trigger_strategy=lambda state: state.event == "compact_if_needed",
            )
            fill(chat, 2)
            expected = texts(chat.get_raw_messages())
            for turn in range(2, 12, 2):
                fill(chat, 2, start=turn)
                expected = keep(expected + texts(chat.get_raw_messages())[-4:])
                assert chat.compact_if_needed()
                assert texts(chat.get_messages()) == expected, number

    def test_failing_process_strategy_is_reported_and_loses_nothing(self, url, clock):
        def broken(messages, situation):
            raise RuntimeError("no")

        events = []
        with AgentMemory(url, clock=clock, hooks=[events.append]) as memory:
            chat = memory.managed_conversation("c", config=SMALL, process_strategy=broken)
            fill(chat, 20)
            assert len(chat.get_messages()) == 40
        assert any(isinstance(each, CompactionStageFailed) and each.stage == "broken" for each in events)
        assert any(isinstance(each, CompactionFellShort) for each in events)

    def test_retrieval_strategy_selects_the_context(self, memory):
        chat = memory.managed_conversation("c", retrieval_strategy=lambda messages, config: messages[-3:])
        fill(chat, 3)
        shown = chat.get_messages()
        assert_valid_for_providers(shown)
        assert texts(shown)[-2:] == texts(chat.get_raw_messages())[-2:]
        assert len(chat.get_raw_messages()) == 6

    def test_strategies_must_be_callable(self, memory):
        for name in ("trigger_strategy", "process_strategy", "retrieval_strategy"):
            with pytest.raises(InvalidInput, match=name):
                memory.managed_conversation("c", **{name: 3})


class TestCache:
    @pytest.mark.parametrize("elsewhere", [False, True])
    def test_cache_is_invalidated_by_every_change(self, memory, elsewhere):
        changes = [
            lambda chat, key: chat.update(key, content="changed"),
            lambda chat, key: chat.remove_by_id(key),
            lambda chat, key: chat.delete_memory(1),
            lambda chat, key: chat.replace_memory(1, role="user", content="changed"),
            lambda chat, key: chat.clear(),
            lambda chat, key: chat.reset_memory(),
        ]
        for number, change in enumerate(changes):
            chat = memory.managed_conversation(f"c{number}")
            keys = [chat.add(role=role, content=role) for role in ("user", "assistant", "user")]
            chat.get_messages()
            change(memory.conversation(f"c{number}") if elsewhere else chat, keys[-1])
            assert chat.get_messages() == chat.get_raw_messages(), number
            chat.add(role="user", content="three")
            assert chat.get_messages() == chat.get_raw_messages(), number

    def test_sufficient_truncation_needs_no_model_call(self, memory):
        model = Summarizer()
        chat = memory.managed_conversation("c", config=ManagedMemoryConfig(threshold_tokens=4000), model=model)
        call = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c-1"}])
        chat.add_messages([HumanMessage("go"), call, ToolMessage("word " * 6000, tool_call_id="c-1")])
        fill(chat, 1)
        assert chat.get_messages()[2]["content"].endswith("[truncated]")
        assert not model.asked

    def test_session_rounds_do_not_change_the_context(self, memory):
        chat = memory.managed_conversation("c")
        fill(chat, 2)
        chat.get_messages()
        session = memory.session("c")
        task = session.create_round("Count.")
        session.add_post(task.id, send_from="User", send_to="Planner", message="Count.")
        session.finish_round(task.id)
        assert texts(chat.get_messages()) == texts(chat.get_raw_messages())


class TestPersistence:
    def test_restart_shows_the_same_context(self, new_database, url, clock):
        model = Summarizer()
        with AgentMemory(url, clock=clock) as memory:
            chat, _ = filled(memory, 30, model=model)
            shown, calls = chat.get_messages(), len(model.asked)
        with AgentMemory(url, clock=clock) as memory:
            assert memory.managed_conversation("c", config=SMALL, model=model).get_messages() == shown
        assert len(model.asked) == calls

    def test_removing_a_summarized_message_invalidates_the_summary(self, memory):
        model = Summarizer()
        chat = memory.managed_conversation("c", config=SMALL, model=model)
        chat.add(role="user", content="question")
        secret = chat.add(role="assistant", content="The secret is Xyzzy.")
        fill(chat, 30)
        chat.get_messages()
        calls = len(model.asked)
        assert chat.remove_by_id(secret)
        chat.get_messages()
        assert len(model.asked) > calls
        assert "Xyzzy" not in "".join(model.texts[calls:])

    def test_retention_drops_messages_and_not_the_summary(self, memory):
        chat, _ = filled(memory, 30, QUIET)
        assert chat.compact_if_needed()
        newest = texts(chat.get_messages())
        assert len(newest) > 5
        kept = memory.managed_conversation("c", config=QUIET, retention=Retention(keep_last=3))
        kept.add(role="user", content="one more")
        assert len(kept.get_raw_messages()) == 3
        shown = kept.get_messages()
        assert_valid_for_providers(shown)
        [summary] = [message.content for message in kept.get_context() if summary_in(message)]
        assert texts(shown)[-4:] == [summary, *newest[-2:], "one more"]


class TestPayloadErrors:
    def test_payload_error_reports_whether_bytes_were_saved(self, memory):
        chat = memory.managed_conversation("c", model=Summarizer())
        chat.add(role="user", content="question-000")
        assert (chat.compact_for_payload_error(), texts(chat.get_messages())) == (False, ["question-000"])
        fill(chat, 10)
        before = len(json.dumps(chat.get_messages()))
        assert chat.compact_for_payload_error({"provider": "openai"}) is True
        shown = chat.get_messages()
        assert len(json.dumps(shown)) < before
        assert_valid_for_providers(shown)
        assert texts(shown)[-1].startswith("answer-009")
        assert len(chat.get_raw_messages()) == 21

    @pytest.mark.parametrize(("images", "less", "count"), [(2.5, 0, 2), (2, 0, 2), (2, 2, 1), (1, 2, 0)])
    def test_images_are_kept_within_half_the_payload_limit(self, memory, monkeypatch, images, less, count):
        def picture(number):
            return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{number}" + "A" * 4000}}

        def keeps_all(messages):
            text = "\n".join(str(message.content) for message in messages)
            ids.extend(sorted({*re.findall(r"img_[0-9a-f]{8}", text)} - {"img_1a2b3c4d"}))
            images = [{"image_id": each, "context": "a chart"} for each in dict.fromkeys(ids)]
            return json.dumps({"summary": "Charts were looked at, and seen.", "keep_images": images})

        ids = []
        most = int(images * 2 * len(json.dumps(picture(0)))) - less
        monkeypatch.setattr(graph_compactor, "PAYLOAD_LIMITS", {"tiny": most})
        chat = memory.managed_conversation("c", model=keeps_all)
        for number in range(6):
            chat.add(role="user", content=[{"type": "text", "text": f"chart {number}"}, picture(number)])
            chat.add(role="assistant", content=f"seen {number}")
        chat.add(role="user", content="and now?")
        assert chat.compact_for_payload_error({"provider": "tiny"}) is True
        [summary] = [found for each in chat.get_context() if (found := summary_in(each))]
        assert [each.block for each in summary.kept_images] == [picture(number) for number in range(6 - count, 6)]

    def test_invalid_runtime_is_rejected(self, memory):
        chat = memory.managed_conversation("c")
        with pytest.raises(InvalidInput, match="dictionary"):
            chat.compact_for_payload_error(3)
        with pytest.raises(InvalidInput, match="is not a model"):
            chat.compact_if_needed({"compaction_model": 3})


async def test_async_methods_match_the_sync_methods(memory):
    async def model(messages):
        await asyncio.sleep(0)
        return Summarizer().summary()

    chat = memory.managed_conversation("c", config=SMALL, model=model)
    for turn in range(20):
        await chat.aadd(role="user", content=f"question {turn} " * 8)
        await chat.aadd_messages([AIMessage(f"answer {turn} " * 8)])
    shown = await chat.aget_message_dicts()
    assert shown == chat.get_messages()
    assert [each.content for each in await chat.aget_context()] == texts(shown)
    assert len(await chat.aget_raw_messages()) == len(await chat.araw_messages()) == 40
    assert any(summary_in(each) for each in await chat.aget_context())
    assert await chat.acompact_if_needed() is False
    assert await chat.acompact_for_payload_error() is True


class TestFailingModels:
    @pytest.mark.parametrize("answer", ["", "[1, 2, 3]", "word " * 5000, RuntimeError("down"), TimeoutError("slow"), 7])
    def test_failing_model_yields_a_provisional_summary(self, answer):
        model = Summarizer(answer) if answer != 7 else lambda messages: answer
        events = []
        with AgentMemory(":memory:", hooks=[events.append]) as memory:
            chat, _ = filled(memory, 20, model=model)
            assert_valid_for_providers(chat.get_messages())
            assert chat.get_cache_stats()["context_tokens"] <= 600
            assert len(chat.get_raw_messages()) == 40
            [summary] = [found for each in chat.get_context() if (found := summary_in(each))]
            assert summary.provisional
            assert "question-00" in summary.summary + summary.user_request
        assert {"failed", "completed"} <= {each.status for each in events if isinstance(each, CompactionEvent)}

    def test_next_summary_covers_messages_a_failure_missed(self, memory):
        chat, model = filled(memory, 20, model=Summarizer(usual=RuntimeError("down")))
        chat.get_messages()
        model.asked.clear()
        model.usual = lambda messages: model.summary()
        fill(chat, 20, start=20)
        chat.get_messages()
        assert all(f"question-{turn:03}" in model.everything for turn in range(1, 15))


def test_events_have_the_documented_fields(url, clock):
    heard, hooked = [], []
    with AgentMemory(url, clock=clock, hooks=[hooked.append]) as memory:
        chat = memory.managed_conversation("c", config=QUIET, model=Summarizer())
        chat.set_event_context("Researcher", heard.append, session_id="run_123")
        fill(chat, 20)
        heard.clear()
        assert chat.compact_if_needed()
    started, completed = [each for each in heard if isinstance(each, CompactionEvent)]
    assert (started.session_id, started.agent_name, started.status) == ("run_123", "Researcher", "started")
    assert started.pre_messages == 40
    assert started.pre_tokens > 600
    assert (started.post_tokens, started.post_messages, started.duration, started.stages_run) == (0, 0, None, None)
    assert completed.status == "completed"
    assert 0 < completed.post_tokens <= 360
    assert 0 < completed.post_messages < 40
    assert completed.duration >= 0
    assert completed.stages_run == ["tool_truncation", "summarization"]
    assert [each for each in hooked if isinstance(each, CompactionEvent)] == [started, completed]


def test_erasing_a_conversation_erases_its_compactions(memory):
    chat, _ = filled(memory, 20)
    assert memory.admin.stats()["compactions"] >= 1
    memory.erase(conversation_id=chat.conversation_id)
    assert memory.admin.stats()["compactions"] == 0
