"""Junk rules hide junk and keep short answers that matter."""

from pathlib import Path

import pytest
import yaml

from langchain_agentmem.audit.junk_rules import JunkRule, junk_reasons
from langchain_agentmem.errors import InvalidInput


def labelled(name):
    return yaml.safe_load((Path(__file__).parent / f"{name}.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["junk_tuning", "junk_held_out"])
def test_rules_meet_precision_and_recall_targets(name):
    entries = labelled(name)
    hidden = [bool(junk_reasons(entry.get("kind", "exchange"), entry["prompt"], entry["reply"])) for entry in entries]
    junk = [was for was, entry in zip(hidden, entries, strict=True) if entry["junk"]]
    rest = [was for was, entry in zip(hidden, entries, strict=True) if not entry["junk"]]
    assert sum(junk) >= 0.80 * len(junk)
    assert rest.count(False) >= 0.99 * len(rest)


def test_short_and_valuable_replies_are_not_junk():
    for prompt, reply in (
        ("What is 6 times 7?", "42"), ("Capital of France?", "Paris"), ("Is it on?", "yes"),
        ("Shall I drop the table?", "yes, delete it"), ("Delete the table", "no"),
        ("ok", "The migration moved 1,204 rows and left three that have no owner."),
    ):  # fmt: skip
        assert junk_reasons("exchange", prompt, reply) == ()


def test_reasons_are_rule_names():
    assert junk_reasons("exchange", None, None) == ("empty",)
    assert junk_reasons("exchange", "fair enough", "ok") == ("small talk", "filler")
    assert junk_reasons("exchange", "testing 123", "Test received.") == ("test entry",)
    assert junk_reasons("exchange", "thanks", "Glad I could help!") == ("small talk",)

    assert junk_reasons("todo", "[TODO] Fix the build system", "") == ()  # none has a reply
    assert junk_reasons("reflection", "[SELF-REFLECTION] Agent status report", "x" * 21) == ()
    assert junk_reasons("reflection", "[SELF-REFLECTION] Agent status report", "x" * 20) == ("incomplete reflection",)


def test_custom_rule_applies_to_its_field_and_kinds():
    for field, entry, hidden in (
        ("prompt", ("beat 1", "fine work"), True), ("prompt", ("fine work", "beat 1"), False),
        ("reply", ("fine work", "BEAT 1"), True), ("both", ("beat 1", "fine work"), False),
        ("both", ("beat 1", "beat 2"), True), ("either", ("fine work", "beat 2"), True),
    ):  # fmt: skip
        rule = JunkRule(name="heartbeat", pattern=r"^beat \d$", field=field)
        assert junk_reasons("exchange", *entry, rules=[rule]) == (("heartbeat",) if hidden else ())
        assert junk_reasons("todo", *entry, rules=[rule]) == ()
    assert junk_reasons("todo", "beat 1", "", rules=[rule.replace(field="either", kinds=["todo"])]) == ("heartbeat",)
    rule = JunkRule(name="short", pattern=r"^.{0,3}$", unless=r"\?")
    assert junk_reasons("exchange", "why", "so", rules=[rule]) == ("short",)
    assert junk_reasons("exchange", "why?", "so", rules=[rule]) == ()


def test_invalid_rule_is_rejected():
    for wrong in (
        {"pattern": "("}, {"pattern": None}, {"unless": "["}, {"name": " "}, {"field": "answer"}, {"kinds": ("chat",)},
        {"kinds": ()},
    ):  # fmt: skip
        with pytest.raises(InvalidInput):
            JunkRule(**{"name": "mine", "pattern": "x"} | wrong)


def test_leading_blanks_do_not_make_junk():
    text = f"{' ' * 5_000}The answer is here.{' ' * 5_000}"
    assert junk_reasons("exchange", "Where is it?", text) == ()
    assert junk_reasons("exchange", "Where is it?", " " * 10_000) == ("empty",)
