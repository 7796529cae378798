"""Compaction of random histories: the result is valid, keeps the protected messages, and loses nothing.

Ten thousand random histories, in chunks that can run in parallel. Every message carries marks at its beginning and its
end, so that its text is recognized in the context or in the summarizing model's prompt.
"""

import random

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_agentmem.compaction.compaction_config import ProcessorContext
from langchain_agentmem.compaction.processors import run_processors
from langchain_agentmem.messages.history_repair import repair_messages, role_of
from langchain_agentmem.messages.message_marks import format_summary, summary_in
from langchain_agentmem.testing import provider_problems
from tests.compaction.marked import (
    COUNTER,
    KINDS,
    all_marks,
    costs,
    is_good,
    marked_history,
    marks,
    marks_in,
    model_of,
    places_in,
    random_policy,
    snapshot,
)

CHUNKS = 20
HISTORIES = 10_000


@pytest.mark.slow("in every form")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_histories_compact_validly_and_without_loss(chunk):
    for seed in range(chunk, HISTORIES, CHUNKS):
        given = marked_history(seed)
        before, valid = snapshot(given), repair_messages(given)
        check_repaired(given, valid, seed)
        check_compacted(given, valid, seed)
        assert snapshot(given) == before, f"seed {seed}: the history that was given has changed"


# --- What must hold ---------------------------------------------------------------------------------------------------


def check_order(given, made, seed):
    """Check that roles and order are unchanged, except that results follow their calls."""
    shown = places_in(made)
    assert len(set(shown)) == len(shown), f"seed {seed}: a message is shown twice: {shown}"
    for kind in ("system", "others"):
        order = [place for place in shown if _kind(given[place]) == kind]
        assert order == sorted(order), f"seed {seed}: the order of {kind} is {order}"


def _kind(message):
    if isinstance(message, ToolMessage):
        return "tool"
    return "system" if isinstance(message, SystemMessage) else "others"


def check_kept(given, valid, made, seed, *, grace, keep_first):
    """Check that system messages, the first instruction and the protected tail are unchanged."""
    texts = [(role_of(message), message.content) for message in made]
    for message in valid:
        if role_of(message) == "system":
            assert ("system", message.content) in texts, f"seed {seed}: a system message is missing"
    first = next((place for place, each in enumerate(given) if isinstance(each, HumanMessage) and marks(each)), None)
    if keep_first and first is not None:
        instruction = next(message for message in valid if marks(message) == marks(given[first]))
        assert ("user", instruction.content) in texts, f"seed {seed}: the first instruction is missing"
    if requests := [message for message in valid if is_said_by_user(message)]:
        assert ("user", requests[-1].content) in texts, f"seed {seed}: the request at hand is missing"
    begin = tail_of(valid, grace)
    tail = [(role_of(message), message.content) for message in valid[begin:]]
    if tail:
        assert texts[-len(tail) :] == tail, f"seed {seed}: the protected tail is not what it was"
    missing = {*places_in(valid[begin:])} - {*places_in(made)}
    assert not missing, f"seed {seed}: of the protected tail {sorted(missing)} are missing"


def tail_of(valid, grace):
    """Return the index at which the protected tail begins, as MARSYS defines it."""
    assistants = [place for place, message in enumerate(valid) if isinstance(message, AIMessage)]
    if grace and assistants:
        return assistants[max(0, len(assistants) - grace)]
    users = [place for place, message in enumerate(valid) if is_said_by_user(message)]
    return users[-1] if users else len(valid)


def is_said_by_user(message):
    """Return whether the message is the user's: texts of tools and summaries begin with a tag or a bracket."""
    return isinstance(message, HumanMessage) and message.text[:1] not in ("<", "[")


def check_repaired(given, made, seed):
    """Check that the repaired history is valid and has every text in its order."""
    assert provider_problems(made) == [], f"seed {seed}"
    check_order(given, made, seed)
    assert all_marks(made) == all_marks(given), f"seed {seed}: a text is lost"
    assert list(map(id, repair_messages(made))) == list(map(id, made)), f"seed {seed}: it is repaired twice"
    if not provider_problems(given):
        changed = [old for old, new in zip(given, made, strict=True) if new is not old]
        assert all(map(calls_in_blocks_only, changed)), f"seed {seed}: what was valid is repaired"


def calls_in_blocks_only(message):
    """Return whether calls are in content blocks only, which repair copies to `tool_calls`."""
    blocks = message.content if isinstance(message.content, list) else []
    return any(block.get("type") == "tool_use" for block in blocks) and not message.tool_calls


def random_situation(dice, given, model):
    tokens = int(costs(given) * dice.uniform(0.03, 1.1)) + 1
    return ProcessorContext(
        target_tokens=tokens,
        counter=COUNTER,
        config=random_policy(dice),
        model=model,
        input_tokens=dice.choice((700, 3_000, 20_000)),
        thorough=dice.random() < 0.05,
    )


def check_compacted(given, valid, seed):
    """Check that protected messages are kept, and that the model was shown the others."""
    dice = random.Random(seed)
    kind = dice.choice(KINDS) if dice.random() < 0.9 else None
    model = None if kind is None else model_of(kind, seed)
    situation = random_situation(dice, given, model)
    outcome = run_processors(given, situation)
    made, config = outcome.messages, situation.config
    assert provider_problems(made) == [], f"seed {seed}"
    check_order(given, made, seed)
    assert outcome.tokens == costs(made)
    assert (outcome.reason is None) == situation.fits(made), f"seed {seed}: {outcome.reason}"
    if config.mode == "compaction":
        limits = config.summarization
        grace, keep_first = limits.grace_recent_messages, limits.include_original_instruction
        check_kept(given, valid, made, seed, grace=grace, keep_first=keep_first)
        if "summarization" in config.processor_order:
            check_summary(given, outcome, model, kind, seed)
    asked = None if model is None else len(model.asked)
    again = run_processors(made, situation)
    assert again.messages == made, f"seed {seed}: compacted twice is not compacted once"
    assert model is None or len(model.asked) == asked, f"seed {seed}: a second call for the same history"


def check_summary(given, outcome, model, kind, seed):
    """Check that the model was shown every replaced message, and that the summary has content."""
    shown = {*places_in(outcome.messages)}
    gone = {place for place, message in enumerate(given) if marks(message)} - shown
    summaries = [found for message in outcome.messages if (found := summary_in(message)) is not None]
    assert len(summaries) == bool(gone) or (not gone and len(summaries) <= 1), (
        f"seed {seed}: {len(summaries)} summaries"
    )
    if not summaries:
        return
    [summary] = summaries
    assert summary == outcome.summary
    assert summary.stands_for >= len(gone), f"seed {seed}: it stands for {summary.stands_for} of {len(gone)}"
    text = format_summary(summary)
    assert sum(map(str.isalpha, text)) >= 12, f"seed {seed}: a summary that tells nothing: {text!r}"
    if is_good(kind):
        assert not outcome.failures, f"seed {seed}: {outcome.failures}"
        assert not summary.provisional
        first_marks = {mark for place in gone for mark in marks(given[place]) if not mark.endswith("bx")}
        unseen = first_marks - marks_in(model.texts)
        assert not unseen, f"seed {seed}: the model never saw {sorted(unseen)}"
    else:
        assert summary.provisional == (model is None or bool(outcome.failures))
        failing = model is not None and (kind != "late" or len(model.asked) > 1)
        assert bool(outcome.failures) == failing, f"seed {seed}: {outcome.failures}"
