"""The report on an audit trail: size and growth, what runs away, patterns, todos, what to archive, the junk rules."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit import audit_report
from langchain_agentmem.audit.audit_report import make_report
from langchain_agentmem.audit.audit_trail import AuditTrail
from langchain_agentmem.audit.junk_rules import RULES, JunkRule
from langchain_agentmem.base.namespaces import path_range

from .entries import SENTENCES, add, add_all, call, entry, read, todo

NOW = datetime(2026, 3, 31, 12, 0, tzinfo=UTC)


@pytest.fixture
def quick():
    """A memory on the engine at hand that is quickest, where both would do the same."""
    with AgentMemory(":memory:", clock=lambda: NOW) as memory:
        yield memory


def report(memory, namespace=(), **options):
    return read(memory, make_report, *path_range(namespace), now=NOW, **{"rules": RULES, **options})


def word(number):
    """A word for each number."""
    return "".join(chr(97 + int(digit)) for digit in str(number))


def before(**ago):
    return NOW - timedelta(**ago)


class TestSizeAndGrowth:
    def test_an_empty_trail_has_nothing_to_report(self, quick):
        found = report(quick)
        assert (found.size, found.recent, found.runaway, found.todos) == (0, 0, (), ())
        assert str(found) == "0 entries, 0 B; 0 hidden as junk, 0 archived."

    def test_entries_and_bytes_are_counted_on_both_engines(self, memory):
        add(memory, entry("ok", "lol", junk=("filler",)))
        entries = report(memory).size
        add(memory, call(["Where is it?"], "There.", thread_id="t"))
        found = report(memory)
        assert (found.entries, found.junk) == (2, 1)
        assert found.size > entries > 0
        assert found.hidden == {"filler": 1}

    def test_growth_is_that_of_the_last_days(self, quick):
        days = [0.1] * 14 + [3] * 7 + [20] * 60 + [200] * 1000
        add_all(quick, [entry(created_at=before(days=day)) for day in days])
        assert report(quick).recent == 81
        assert "Last 30 days: 81 entries." in str(report(quick))


@pytest.mark.sqlite_suffices
class TestNamespaces:
    def test_only_what_is_there_and_below_is_looked_at(self, memory):
        add(memory, entry(), path="a\x1f")
        add(memory, entry(conversation_id="x"), todo("Fix the gate"), path="a\x1fb\x1f")
        add(memory, entry(conversation_id="y"), path="ab\x1f")
        found = report(memory, ("a",))
        assert (found.entries, found.open_todos, found.conversations) == (3, 1, 1)
        assert [(each.namespace, each.conversation_id) for each in found.largest] == [(("a", "b"), "x")]


@pytest.mark.sqlite_suffices
class TestRunaway:
    def test_an_hour_with_far_more_entries_than_usual_is_told(self, memory):
        steady = [entry(created_at=before(hours=hour, minutes=one)) for hour in range(1, 30) for one in range(4)]
        burst = [entry(f"Question {one}?", created_at=before(days=2)) for one in range(250)]
        add_all(memory, steady + burst)
        [found] = report(memory).runaway
        assert (found.hour, found.usual, found.entries) == (datetime(2026, 3, 29, 12, tzinfo=UTC), 4, 250)
        assert "2026-03-29 12:00: 250, usual are 4" in str(report(memory))
        add_all(
            memory, [entry(f"About {word(i)}", created_at=before(minutes=i / 5)) for i in range(2_000)], "steady\x1f"
        )
        assert report(memory, ("steady",)).runaway == ()


@pytest.mark.sqlite_suffices
class TestPatterns:
    def test_each_conversation_is_told_with_its_counts(self, memory):
        add(memory, entry("12", "345", conversation_id="short", created_at=before(days=3)))
        add(
            memory,
            *(entry("1" * 10, "2" * 20, conversation_id="long", created_at=before(days=2 - i)) for i in range(2)),
            entry("hi", "hey", conversation_id="long", junk=("small talk",), created_at=before(hours=1)),
        )
        long, short = report(memory).largest
        assert (long.entries, long.junk) == (3, 1)
        assert long.last_at == before(hours=1)
        assert short.conversation_id == "short"
        assert "short: 1 entry, 0% junk, last 2026-03-28 12:00" in str(report(memory))

    def test_of_very_many_the_largest_are_told(self, quick):
        add_all(quick, [entry(conversation_id=f"c{i % 40:02d}", created_at=before(days=i)) for i in range(70)])
        found = report(quick)
        assert (found.conversations, len(found.largest)) == (40, audit_report.MOST_CONVERSATIONS)
        assert {each.entries for each in found.largest} == {2}
        assert "… and 35 more" in str(found)


@pytest.mark.sqlite_suffices
class TestTodos:
    def test_one_that_a_later_reply_says_is_done_is_suggested_with_its_words(self, quick):
        for number, (text, reply) in enumerate(SENTENCES["done"]):
            made = todo(text, created_at=before(days=3))
            said = entry("How far are you?", reply, created_at=before(days=1))
            add(quick, made, said, path=f"done{number}\x1f")
            told = report(quick, (f"done{number}",))
            [found] = told.todos
            assert (found.id, found.age, found.done_by) == (made.id, timedelta(days=3), said.id), reply
            assert found.quote in " ".join(reply.split())
            assert f"done, it seems: {said.id} says:" in str(told)
        for number, reply in enumerate(SENTENCES["not_done"]):
            made = todo("Fix the build system", created_at=before(days=3))
            add(quick, made, entry(reply=reply, created_at=NOW), path=f"open{number}\x1f")
            assert [each.done_by for each in report(quick, (f"open{number}",)).todos] == [None], reply

    def test_what_was_said_before_it_does_not_count(self, quick):
        said = entry(reply="I fixed the build system.", created_at=before(days=9))
        add(quick, said, todo("Fix the build system", created_at=before(days=3)))
        add(quick, entry(reply="I fixed the build system.", created_at=before(days=8)))  # came later, is older
        assert report(quick).todos[0].done_by is None

    def test_done_and_hidden_ones_are_left_out(self, memory):
        add(memory, todo("Fix the gate", status="done"), todo("", junk=("empty",)), todo("Paint it"))
        found = report(memory)
        assert (found.open_todos, [each.text for each in found.todos]) == (1, ["Paint it"])


class TestArchiving:
    def test_nothing_is_suggested_while_it_is_small(self, quick):
        add_all(quick, [entry(created_at=before(days=90))])
        assert not report(quick).is_large

    def test_it_says_how_many_would_go_and_what_they_take(self, memory, monkeypatch):
        monkeypatch.setattr(audit_report, "LARGE_SIZE", 10_000)
        text = "The same words over and over. " * 100
        add_all(memory, [entry(reply=f"{i} {text}", created_at=before(days=90)) for i in range(30)])
        add_all(memory, [entry(reply=f"{i} {text}", created_at=before(days=3)) for i in range(10)])
        found = report(memory)
        assert (found.is_large, found.archivable) == (True, 30)
        assert "Archive 30 entries of more than 30 days ago" in str(found)
        AuditTrail(memory).archive(before(days=30))
        after = report(memory)
        assert after.size < found.size - found.archivable_size / 2
        assert (after.archived, after.archivable) == (30, 0)


class TestJunk:
    def test_the_share_of_each_rule_is_told(self, quick):
        trail = AuditTrail(quick)
        small_talk = (("Hi", "Hello!"), ("How are you?", "I'm fine, thanks!"))
        for prompt, reply in (*small_talk, ("Where is it?", "In the shed."), ("", "")):
            trail.add(prompt, reply)
        found = report(quick)
        assert found.hidden == {"small talk": 2, "filler": 1, "empty": 1}
        assert (found.to_hide, found.to_show) == (0, 0)
        assert "Junk by small talk: 2, 50.0%" in str(found)

    def test_entries_that_would_be_judged_otherwise_now_are_told(self, quick):
        trail = AuditTrail(quick)
        trail.add("heartbeat 17", "ack")
        trail.add("Hi", "Hello!")
        trail.rules = [JunkRule(name="heartbeat", pattern=r"^heartbeat \d+$", field="prompt")]
        assert (trail.report().to_hide, trail.report().to_show) == (1, 1)
        trail.filter_junk()
        assert (trail.report().to_hide, trail.report().to_show) == (0, 0)


class TestReading:
    def test_all_are_counted_and_the_newest_are_read(self, memory, monkeypatch):
        monkeypatch.setattr(audit_report, "MOST_READ", 30)
        monkeypatch.setattr(audit_report, "PAGE", 7)
        add_all(memory, [entry("heartbeat", "ack", created_at=before(hours=i)) for i in range(95)])
        add_all(memory, [entry("heartbeat", "ack") for _ in range(5)], "elsewhere\x1f")
        found = report(memory, rules=[JunkRule(name="heartbeat", pattern="^heartbeat", field="prompt")])
        assert (found.entries, found.read, found.to_hide) == (100, 30, 30)
        assert "the newest 30 are read" in str(found)
        assert report(memory, ("elsewhere",)).read == 5

    def test_it_is_awaited_just_so(self, memory):
        trail = AuditTrail(memory, ("a",))
        trail.add_todo_from_chat("Fix the gate.")
        trail.add("Is it done?", "I fixed the gate.")
        awaited, waited = asyncio.run(trail.areport()), trail.report()
        assert str(awaited) == str(waited)
        assert awaited.todos[0].done_by == waited.todos[0].done_by is not None
