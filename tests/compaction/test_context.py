"""What is known of a history from the turn before is what would be found out about it anew, whatever was changed."""

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


def known_of(messages, old=None):
    """What is found out about messages, and how many of them were known."""
    old = old or MessageHistory()
    common = _common_length(old, [*messages])
    return analyze_history(old, messages, COUNTER), common


def as_it_is(history):
    """Everything that is known but what may be said of more calls than there are."""
    return {
        each.name: getattr(history, each.name)
        for each in fields(history)
        if each.name not in ("calls", "has_repeated_ids")
    }


def put(place, **fields):
    """Puts a message there that is another in these fields, and otherwise the same."""
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
    "an answer, longer": (put(7, content="answer 1, and more"), 7),
    "a result": (put(6, content=[{"type": "text", "text": "seen otherwise"}]), 6),
    "an id": (put(7, id="another"), 7),
    "a name": (put(4, name="Ada"), 4),
    "what is called": (put(5, tool_calls=call(name="ask")), 5),
    "what it is called with": (put(5, tool_calls=call(args={"at": 2})), 5),
    "which call is answered": (put(6, tool_call_id="call-2"), 6),
    "who says it": (lambda said: [*said[:7], HumanMessage("answer 1", id="a1"), *said[8:]], 7),
    "what no model is told": (put(7, response_metadata={"model_name": "m"}), 16),
}


def test_what_is_known_from_the_turn_before_is_as_if_it_were_read_anew():
    for change, (make, common) in CHANGES.items():
        before, _ = known_of(turns(4))
        given = make(before.messages)
        found, hits = known_of(given, before)
        assert as_it_is(found) == as_it_is(known_of(given)[0]), change
        assert hits == common, f"only what differs is looked into: {change}"
        assert found.tokens == [COUNTER.count(given[:place]) for place in range(len(given) + 1)], change


def test_calls_of_one_id_are_noticed_whenever_they_are_made():
    said = turns(2)
    again = said[5].model_copy(update={"tool_calls": call(id="call-0"), "id": "again"})
    found, _ = known_of(said)
    assert not found.has_repeated_ids
    found, _ = known_of([*said, again], found)
    assert found.has_repeated_ids
    found, _ = known_of([*said, again, HumanMessage("go on", id="on")], found)
    assert found.has_repeated_ids
    found, _ = known_of([*said[:4], again], found)
    assert found.has_repeated_ids, "a branch that makes it again, too"
