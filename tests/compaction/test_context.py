"""The incremental analysis of a history equals a fresh analysis, whatever changed since the last turn."""

from dataclasses import fields

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_agentmem.compaction.compacted_context import MessageHistory, _common_length, analyze_history

from .summarizers import COUNTER


def turns(count):
    """Questions, calls, results and answers: each kind at every fourth place."""
    said = []
    for number in range(count):
        call = {"name": "look", "args": {"at": number}, "id": f"call-{number}"}
        said += [
            HumanMessage(f"question {number}", id=f"q{number}", name="Maya"),
            AIMessage("One moment.", tool_calls=[call], id=f"c{number}"),
            ToolMessage([{"type": "text", "text": f"seen {number}"}], tool_call_id=f"call-{number}", id=f"r{number}"),
            AIMessage(f"answer {number}", id=f"a{number}"),
        ]
    return said


def analyze(messages, old=None):
    """Analyze messages; return the result, and how many messages were already known."""
    old = old or MessageHistory()
    common = _common_length(old, [*messages])
    return analyze_history(old, messages, COUNTER), common


def comparable_fields(history):
    """Return the fields that must equal those of a fresh analysis."""
    return {
        each.name: getattr(history, each.name)
        for each in fields(history)
        if each.name not in ("call_ids", "has_repeated_ids")
    }


def replace_message(place, **fields):
    """Return a change that replaces fields of the message at an index."""
    return lambda said: [*said[:place], said[place].model_copy(update=fields), *said[place + 1 :]]


def call(**changed):
    return [{"name": "look", "args": {"at": 1}, "id": "call-1", "type": "tool_call", **changed}]


CHANGES = {
    "nothing": (lambda said: said, 16),
    "read anew": (lambda said: turns(4), 16),
    "more is said, and it is read anew": (lambda said: turns(6), 16),
    "the newest is gone": (lambda said: said[:-1], 15),
    "one in the middle is gone": (lambda said: said[:6] + said[7:], 6),
    "nothing is left": (lambda said: [], 0),
    "an answer, longer": (replace_message(7, content="answer 1, and more"), 7),
    "a result": (replace_message(6, content=[{"type": "text", "text": "seen otherwise"}]), 6),
    "an id": (replace_message(7, id="another"), 7),
    "a name": (replace_message(4, name="Ada"), 4),
    "what is called": (replace_message(5, tool_calls=call(name="ask")), 5),
    "what it is called with": (replace_message(5, tool_calls=call(args={"at": 2})), 5),
    "which call is answered": (replace_message(6, tool_call_id="call-2"), 6),
    "who says it": (lambda said: [*said[:7], HumanMessage("answer 1", id="a1"), *said[8:]], 7),
    "what no model is told": (replace_message(7, response_metadata={"model_name": "m"}), 16),
}


def test_cached_analysis_equals_a_fresh_analysis():
    for change, (make, common) in CHANGES.items():
        before, _ = analyze(turns(4))
        given = make(before.messages)
        found, hits = analyze(given, before)
        assert comparable_fields(found) == comparable_fields(analyze(given)[0]), change
        assert hits == common, f"only what differs is looked into: {change}"
        assert found.tokens == [COUNTER.count(given[:place]) for place in range(len(given) + 1)], change


def test_repeated_call_ids_are_detected():
    said = turns(2)
    again = said[5].model_copy(update={"tool_calls": call(id="call-0"), "id": "again"})
    found, _ = analyze(said)
    assert not found.has_repeated_ids
    found, _ = analyze([*said, again], found)
    assert found.has_repeated_ids
    found, _ = analyze([*said, again, HumanMessage("go on", id="on")], found)
    assert found.has_repeated_ids
    found, _ = analyze([*said[:4], again], found)
    assert found.has_repeated_ids, "a branch that makes it again, too"
