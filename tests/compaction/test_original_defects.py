"""Defects of the managed memory of MARSYS that must not come back; each class names what happened."""

import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.compaction import (
    ManagedMemoryConfig,
    backward_packing,
    sliding_window,
    summarization,
    summary_in,
)
from langchain_agentmem.compaction.overflow_recovery import payload_bytes
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.testing import assert_valid_for_providers
from tests.compaction.summarizers import Summarizer, budget

COUNTER = TokenCounter("estimate")
SMALL = budget(600)


def wishes(count):
    return [
        HumanMessage(f"wish-{number:02} " + "please do this for me " * 3, id=f"w-{number}") for number in range(count)
    ]


@pytest.mark.sqlite_suffices
class TestM5NothingWasProtectedWithoutAnAssistant:
    def test_the_newest_user_message_is_never_summarized(self):
        model = Summarizer()
        made = summarization(wishes(30), model=model, max_tokens=300, counter=COUNTER)
        assert made[-1].id == "w-29"
        assert "wish-29" not in model.everything

    def test_recovery_on_users_alone_keeps_more_than_the_summary(self, memory):
        chat = memory.managed_conversation("c", model=Summarizer())
        chat.add_messages(wishes(30))
        assert chat.compact_for_payload_error()
        assert [message.id for message in chat.get_context()][-1] == "w-29"


@pytest.mark.sqlite_suffices
class TestM6AnInstructionWasWrittenIntoTheHistory:
    @pytest.mark.parametrize(
        "model", [None, lambda messages: "{broken", lambda messages: 1 / 0], ids=["none", "bad", "raises"]
    )
    def test_a_history_is_not_changed_by_a_summary_that_fails(self, memory, model):
        chat = memory.managed_conversation("c", config=SMALL, model=model)
        chat.add_messages(wishes(30))
        before = chat.get_raw_messages()
        chat.get_messages()
        chat.compact_if_needed()
        assert chat.get_raw_messages() == before


@pytest.mark.sqlite_suffices
class TestM7TheLosslessHistoryWasDestroyed:
    def test_everything_is_there_after_a_compaction(self, memory):
        chat = memory.managed_conversation("c", config=SMALL, model=Summarizer())
        key = chat.add(
            role="assistant",
            content="calling",
            agent_calls=[{"agent_name": "Coder", "request": "code"}],
            images=["https://example.org/a.png"],
        )
        chat.update(key, structured_data={"n": 1})
        chat.add_messages(wishes(30))
        chat.get_messages()
        [stored] = [version.message for version in chat.history_of(key)][-1:]
        assert stored.agent_calls[0].agent_name == "Coder"
        assert stored.images == ["https://example.org/a.png"]
        assert stored.structured_data == {"n": 1}
        assert len(chat.get_raw_messages()) == 31


class TestM8AWindowBeganWithAnOrphan:
    @pytest.mark.parametrize("most", range(20, 400, 17))
    def test_a_bundle_that_does_not_fit_leaves_nothing_behind(self, most):
        calls = [{"name": "look", "args": {}, "id": f"c-{number}"} for number in range(2)]
        said = [
            HumanMessage("go"),
            AIMessage("", tool_calls=calls),
            ToolMessage("long " * 100, tool_call_id="c-0"),
            ToolMessage("short", tool_call_id="c-1"),
            AIMessage("plain"),
            HumanMessage("next"),
        ]
        assert_valid_for_providers(sliding_window(said, max_tokens=most, counter=COUNTER))


class TestM9PackingLostTheSystemMessageAndTheOrder:
    def test_system_message_task_and_order_stay(self):
        said = [SystemMessage("sys"), HumanMessage("the task")]
        for number in range(30):
            said += [
                AIMessage(f"a-{number} " * 10, id=f"a-{number}"),
                HumanMessage(f"u-{number} " * 10, id=f"u-{number}"),
            ]
        packed = backward_packing(said, max_tokens=300, counter=COUNTER)
        places = [said.index(message) for message in packed]
        assert places == sorted(places)
        assert places[:2] == [0, 1]
        assert sum(map(COUNTER.count_message, packed)) <= 300
        assert places[2:] == list(range(places[2], len(said))), "no holes"


@pytest.mark.sqlite_suffices
class TestM10NothingStoppedAtTheTarget:
    def test_a_context_that_truncation_made_small_enough_costs_no_model_call(self, memory):
        model = Summarizer()
        chat = memory.managed_conversation("c", config=ManagedMemoryConfig(threshold_tokens=4000), model=model)
        chat.add_messages(
            [
                HumanMessage("go"),
                AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c-1"}]),
                ToolMessage("word " * 6000, tool_call_id="c-1"),
                AIMessage("done"),
                HumanMessage("and?"),
            ]
        )
        shown = chat.get_messages()
        assert shown[2]["content"].endswith("[truncated]")
        assert not model.asked

    def test_a_summary_that_could_not_be_asked_for_drops_nothing_unsaid(self, memory):
        chat = memory.managed_conversation("c", config=SMALL)
        chat.add_messages(wishes(30))
        [summary] = [found for message in chat.get_context() if (found := summary_in(message))]
        assert summary.provisional
        assert f"wish-{summary.stands_for}" in summary.user_request + summary.summary, "the last one of them"
        assert summary.stands_for == 30 - (len(chat.get_context()) - 1)


@pytest.mark.sqlite_suffices
class TestM11AListForAnAnswer:
    def test_a_fact_is_not_taken_letter_by_letter(self, memory):
        answer = json.dumps({"summary": "All was counted.", "salient_facts": "Ana lives in Lisbon"})
        chat = memory.managed_conversation("c", config=SMALL, model=lambda messages: answer)
        chat.add_messages(wishes(30))
        [summary] = [found for message in chat.get_context() if (found := summary_in(message))]
        assert summary.salient_facts == ("Ana lives in Lisbon",)


@pytest.mark.sqlite_suffices
class TestM12AnUpdateLostFields:
    def test_the_others_stay_and_none_can_be_set(self, memory):
        chat = memory.managed_conversation("c")
        key = chat.add(role="tool", content="42", tool_call_id="c-1", name="look")
        chat.update(key, structured_data={"n": 1}, reasoning_details=[{"type": "x"}])
        chat.update(key, content="43")
        message = chat.history_of(key)[-1].message
        assert (message.tool_call_id, message.structured_data) == ("c-1", {"n": 1})
        assert message.reasoning_details == [{"type": "x"}]
        chat.update(key, name=None)
        assert chat.history_of(key)[-1].message.name is None


@pytest.mark.sqlite_suffices
class TestM13SavingLostMostOfIt:
    def test_the_whole_log_comes_back_and_not_the_window(self, memory, tmp_path):
        config = budget(300, mode="sliding_window")
        chat = memory.managed_conversation("c", config=config, description="You count.")
        chat.add_messages(
            [
                *wishes(20),
                AIMessage("", tool_calls=[{"name": "look", "args": {"n": 1}, "id": "c-1"}], id="a"),
                ToolMessage("found", tool_call_id="c-1", id="t"),
            ]
        )
        chat.get_messages()
        chat.save_to_file(tmp_path / "chat.json", {"step": 3})
        other = memory.managed_conversation("d", config=config, description="You count.")
        assert other.load_from_file(tmp_path / "chat.json") == {"step": 3}
        assert other.messages == chat.messages
        assert sum(message.type == "system" for message in other.messages) == 1
        assert other.get_messages() == chat.get_messages()


@pytest.mark.sqlite_suffices
class TestM14ImagesByAddressWereDropped:
    def test_they_are_shown(self, memory):
        chat = memory.managed_conversation("c")
        chat.add(role="user", content="Look.", images=["https://example.org/a.png", "data:image/png;base64,AAAA"])
        shown = json.dumps(chat.get_messages())
        assert "https://example.org/a.png" in shown
        assert "data:image/png;base64,AAAA" in shown


class TestM15NoneMeantAll:
    def test_the_last_nought_are_none(self, memory):
        chat = memory.managed_conversation("c")
        chat.add(role="user", content="one")
        assert chat.retrieve_by_role("user", n=0) == []


@pytest.mark.sqlite_suffices
class TestM16AddingDroppedTheCache:
    def test_adding_extends_it_and_deleting_does_not_shift_it(self, memory):
        chat = memory.managed_conversation("c")
        chat.add_messages(wishes(5))
        chat.get_messages()
        before = chat.get_cache_stats()
        chat.add_messages(wishes(6)[5:])
        assert len(chat.get_messages()) == 6
        after = chat.get_cache_stats()
        assert (after["misses"], after["extensions"]) == (before["misses"], before["extensions"] + 1)
        assert after["context_messages"] == 6
        chat.get_messages()
        assert chat.get_cache_stats()["hits"] == after["hits"] + 1
        chat.delete_memory(1)
        chat.delete_memory(1)
        assert chat.get_messages() == chat.get_raw_messages()


class TestM17SmallThings:
    def test_bytes_are_counted_as_they_are_sent(self):
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 10_000}}
        assert payload_bytes([HumanMessage([{"type": "text", "text": "see"}, image])]) > 10_000
        assert payload_bytes([HumanMessage("漢" * 1000)]) > 3_000

    def test_a_summary_bears_no_name_that_a_provider_refuses(self):
        made = summarization(wishes(30), model=Summarizer(), max_tokens=300, counter=COUNTER)
        assert all(message.name is None for message in made if summary_in(message))

    def test_a_summary_is_never_summarized_as_if_somebody_had_said_it(self):
        model = Summarizer()
        made = summarization(wishes(30), model=model, max_tokens=300, counter=COUNTER)
        made = summarization([*made, *wishes(60)[30:]], model=model, max_tokens=300, counter=COUNTER)
        assert sum(summary_in(message) is not None for message in made) == 1
        assert "This is a record of" not in model.asked[1]


class TestAcrossAll:
    def test_what_was_compacted_is_verified_erased_and_carried_over(self, new_database):
        with AgentMemory(new_database("sqlite")) as memory, AgentMemory(new_database("postgres")) as other:
            model = Summarizer()
            chat = memory.managed_conversation("c", ("alice",), config=SMALL, model=model)
            chat.add_messages(wishes(30))
            shown, calls = chat.get_messages(), len(model.asked)
            assert memory.admin.stats()["compactions"] >= 1
            assert memory.admin.verify().ok
            path = f"{memory.database.engine.path}.jsonl"
            memory.export(path)
            other.import_(path)
            other.import_(path)
            assert other.managed_conversation("c", ("alice",), config=SMALL, model=model).get_messages() == shown
            assert len(model.asked) == calls
            assert other.admin.stats()["compactions"] == memory.admin.stats()["compactions"]
            assert other.admin.verify().ok
            for each in (memory, other):
                each.erase(namespace=("alice",))
                assert each.admin.stats()["compactions"] == 0


@pytest.mark.sqlite_suffices
class TestWhatGoesIsSummarizedWhole:
    def said(self):
        long = "begin-mark " + "word " * 6000 + "end-mark"
        return [
            HumanMessage("go", id="go"),
            AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c-1"}], id="ai"),
            ToolMessage(long, tool_call_id="c-1", id="tool"),
            AIMessage("done", id="done"),
        ]

    def test_also_what_was_cut_in_the_same_run(self, memory):
        model = Summarizer()
        memory.compaction(model, SMALL).invoke([*self.said(), *wishes(30)], {"configurable": {"thread_id": "t"}})
        assert "begin-mark" in model.everything
        assert "end-mark" in model.everything

    @pytest.mark.slow
    @pytest.mark.parametrize("managed", [False, True])
    def test_also_what_was_cut_long_ago(self, memory, managed):
        model = Summarizer()
        config = budget(2500)
        node = memory.compaction(model, config)
        chat = memory.managed_conversation("c", config=config, model=model)
        said = [*self.said(), *wishes(3)]
        for step in range(3, 200):
            if managed:
                chat.add_messages(said if step == 3 else said[-1:])
                context = chat.get_context()
            else:
                context = node.invoke(said, {"configurable": {"thread_id": "t"}})
            if step == 3:
                assert context[2].content.endswith("[truncated]")
                assert not model.asked
            said.append(HumanMessage(f"wish-{step} " + "please do this for me " * 3, id=f"w-{step}"))
        assert "end-mark" in model.everything
