"""Messages that leave the context stay reachable: through a summary, or by their reported ids."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.events import CompactionFellShort
from langchain_agentmem.compaction import ToolTruncationConfig, areplaced_messages, replaced_messages, summary_in
from langchain_agentmem.errors import InvalidInput, MessageError
from langchain_agentmem.messages.langchain_messages import to_langchain
from langchain_agentmem.messages.message_marks import GENERATED_MARK, is_synthetic
from langchain_agentmem.testing import assert_valid_for_providers
from tests.compaction.marked import COUNTER, costs
from tests.compaction.summarizers import Summarizer, budget, only_summary
from tests.support.graphs import at
from tests.support.models import calling

RUN = at()
WORDS = "the invoice of the kettle from Oslo was paid on Tuesday and the receipt is in the blue folder "


def turn(number, *, ids=True):
    said = [
        HumanMessage(f"question {number} {WORDS}"),
        calling("look", f"call-{number}"),
        ToolMessage(f"result {number} {WORDS * 20}", tool_call_id=f"call-{number}"),
        AIMessage(f"answer {number} {WORDS}"),
    ]
    for place, message in enumerate(said):
        message.id = f"m{number}-{place}" if ids else None
    return said


def config(*order, threshold=2_500, **more):
    limits = budget(
        threshold,
        processor_order=[*(order or ("summarization",))],
        tool_truncation=ToolTruncationConfig(max_tool_message_tokens=40),
        **more,
    )
    return limits.replace(token_counter=COUNTER)


def run_turns(node, turns, **how):
    """Call a node each turn; return the history and the last view."""
    history, view = [], []
    for number in range(turns):
        history += turn(number, **how)
        view = node.invoke([*history], RUN)
    return history, view


def message_key(message):
    """Identify a message even if it was truncated."""
    calls = [call["id"] for call in getattr(message, "tool_calls", ())]
    return message.type, getattr(message, "tool_call_id", None) or str(calls or message.text[:12])


def texts(messages):
    return [message.text for message in messages if not is_synthetic(message)]


async def test_compactions_are_listed_and_replaced_messages_paged(memory):
    _, view = run_turns(memory.compaction(Summarizer(), config(threshold=1_500)), 12)
    chat = memory.conversation("t")
    found = chat.compactions()
    summary = only_summary(view)
    behind = replaced_messages(memory, summary, conversation_id="t")
    assert [each.id for each in found[0].generated_messages] == [summary.id]
    assert (found[0].lane, found[0].saved > 0) == ("state", True)
    assert sum(len(each.dropped) for each in found) == len(behind)
    assert [each.created_at for each in found] == sorted((each.created_at for each in found), reverse=True)
    assert len(found) > 1
    assert await chat.acompactions(1) == found[:1]
    assert memory.conversation("other").compactions() == []
    with pytest.raises(MessageError):
        chat.compactions(-1)
    page = {"conversation_id": "t", "offset": 3, "limit": 4}
    assert replaced_messages(memory, summary, **page) == behind[3:7]
    assert await areplaced_messages(memory, summary, **page) == behind[3:7]
    for wrong in ({"offset": -1}, {"limit": "x"}):
        with pytest.raises(InvalidInput):
            replaced_messages(memory, summary, conversation_id="t", **wrong)
    with pytest.raises(InvalidInput):
        replaced_messages(memory, HumanMessage("x"), conversation_id="t")


@pytest.mark.slow
@pytest.mark.parametrize("ids", [True, False])
def test_truncated_messages_are_kept_whole_behind_the_summary(memory, ids):
    history, view = run_turns(memory.compaction(Summarizer(), config("tool_truncation", "summarization")), 20, ids=ids)
    summary = only_summary(view)
    behind = replaced_messages(memory, summary, conversation_id="t")
    shown = [message for message in view if not is_synthetic(message)]
    assert sorted(map(message_key, [*map(to_langchain, behind), *shown])) == sorted(map(message_key, history)), (
        "each once"
    )
    assert {message.text for message in behind} <= {*texts(history)}
    assert summary_in(summary).stands_for == len(behind)
    [expand] = memory.tools(include=["expand"])
    pages = [expand.invoke({"id": summary.id, "page": page}, RUN) for page in range(1, 6)]
    gone = [message.text for message in history if message_key(message) not in {*map(message_key, view)}]
    assert len(gone) > 20
    assert all(any(text[:40] in page for page in pages) for text in gone)


def test_dropped_messages_are_covered_by_the_next_summary(memory):
    history, _ = run_turns(memory.compaction(None, config("backward_packing")), 8)
    node = memory.compaction(Summarizer(), config("summarization"))
    for number in range(8, 16):
        history += turn(number)
        view = node.invoke([*history], RUN)
    summary = only_summary(view)
    behind = [message.message_id for message in replaced_messages(memory, summary, conversation_id="t")]
    shown = [message.id for message in view if not is_synthetic(message)]
    assert sorted(behind + shown) == sorted(message.id for message in history)


class TestStoredCompaction:
    def test_smaller_budget_continues_from_a_stored_compaction(self, memory):
        history = [message for number in range(20) for message in turn(number)]
        large = memory.compaction(Summarizer(), config(threshold=4_000)).invoke([*history], RUN)
        small = memory.compaction(Summarizer(), config(threshold=1_500)).invoke([*history], RUN)
        assert costs(large) > 1_500 >= costs(small)
        assert memory.compaction(Summarizer(), config(threshold=1_500)).invoke([*history], RUN) == small
        summary = only_summary(small)
        behind = [each.message_id for each in replaced_messages(memory, summary, conversation_id="t")]
        shown = [each.id for each in small if each is not summary]
        assert sorted(behind + shown) == sorted(each.id for each in history)

    @pytest.mark.parametrize("rounds", [0, 1, 2])
    def test_calls_wait_for_outstanding_results(self, memory, rounds):
        """The ids of the calls are the same in every round, as some models make them."""
        calls = [{"name": "look", "args": {}, "id": f"c{number}"} for number in range(2)]

        def look(key):
            results = [ToolMessage(f"{key}{n} {WORDS * 9}", tool_call_id=f"c{n}", id=f"{key}{n}") for n in range(2)]
            return [HumanMessage(f"look {WORDS}", id=f"u{key}"), AIMessage("", tool_calls=calls, id=key), *results]

        said = [
            message for number in range(rounds) for message in [*look(f"r{number}"), AIMessage("ok", id=f"o{number}")]
        ]
        *said, late = [*said, *look("z")]
        node = memory.compaction(None, config(threshold=100))
        node.invoke([*said], RUN)
        view = node.invoke([*said, late], RUN)
        assert [message.text for message in view[-2:]] == [said[-1].text, late.text]
        assert [message.type for message in view[-3:]] == ["ai", "tool", "tool"]
        assert_valid_for_providers(view)


def test_altered_messages_stay_altered_and_keep_ids(memory):
    def shortened(messages, situation):
        return [each.model_copy(update={"content": "short"}) if each.type == "tool" else each for each in messages]

    node = memory.compaction(Summarizer(), config(shortened, "summarization", threshold=1_600))
    history, view = run_turns(node, 10)
    summaries = [message for message in view if summary_in(message) is not None]
    behind = [each.message_id for one in summaries for each in replaced_messages(memory, one, conversation_id="t")]
    assert sorted(behind + [each.id for each in view if not is_synthetic(each)]) == sorted(each.id for each in history)
    assert "short" in texts(view), "what it made of a message is not undone by the next compaction"


def test_oversized_view_emits_an_event_with_reason(url):
    events = []
    with AgentMemory(url, hooks=[events.append]) as memory:
        node = memory.compaction(Summarizer(), config(threshold=100))
        for _ in range(3):
            events.clear()
            view = node.invoke(turn(1), RUN)
            assert costs(view) > 100
            [event] = [event for event in events if isinstance(event, CompactionFellShort)]
            assert "the protected tail" in event.reason


def test_messages_after_a_compaction_are_repaired(memory):
    limits = config("backward_packing", threshold=600)
    node = memory.compaction(None, limits)
    said = [*turn(1), *turn(2)[:3], AIMessage("\n", id="nothing")]  # what is said last says nothing, and goes
    node.invoke([*said], RUN)
    assert_valid_for_providers(node.invoke([*said, HumanMessage("go on", id="u")], RUN))


def test_remove_message_is_not_recorded(memory):
    node = memory.compaction(None, config())
    node.invoke([HumanMessage("a", id="1"), RemoveMessage(id="gone"), AIMessage("b", id="2")], RUN)
    assert [message.id for message in memory.conversation("t").messages] == ["1", "2"]


def test_filler_tool_results_are_not_truncated(memory):
    limits = config("tool_truncation", "summarization", threshold=700)
    said = [each for number in range(3) for each in turn(number) if each.type != "tool"]
    view = memory.compaction(Summarizer(), limits).invoke(said + turn(9), RUN)
    assert all(is_synthetic(each) for each in view if each.additional_kwargs.get(GENERATED_MARK) == "filler")
