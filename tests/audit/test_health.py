"""The report on an audit trail: size, growth, bursts, conversations, todos, archiving, junk rules."""

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
def in_memory():
    """A memory on the engine at hand that is quickest, where both would do the same."""
    with AgentMemory(":memory:", clock=lambda: NOW) as memory:
        yield memory


def report(memory, namespace=(), **options):
    return read(memory, make_report, *path_range(namespace), now=NOW, **{"rules": RULES, **options})


def word_for(number):
    """A word for each number."""
    return "".join(chr(97 + int(digit)) for digit in str(number))


def time_ago(**ago):
    return NOW - timedelta(**ago)


class TestSizeAndGrowth:
    def test_empty_trail_report_is_empty(self, in_memory):
        found = report(in_memory)
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

    def test_growth_counts_the_last_30_days(self, in_memory):
        days = [0.1] * 14 + [3] * 7 + [20] * 60 + [200] * 1000
        add_all(in_memory, [entry(created_at=time_ago(days=day)) for day in days])
        assert report(in_memory).recent == 81
        assert "Last 30 days: 81 entries." in str(report(in_memory))


@pytest.mark.sqlite_suffices
class TestNamespaces:
    def test_report_covers_the_namespace_and_those_below(self, memory):
        add(memory, entry(), path="a\x1f")
        add(memory, entry(conversation_id="x"), todo("Fix the gate"), path="a\x1fb\x1f")
        add(memory, entry(conversation_id="y"), path="ab\x1f")
        found = report(memory, ("a",))
        assert (found.entries, found.open_todos, found.conversations) == (3, 1, 1)
        assert [(each.namespace, each.conversation_id) for each in found.largest] == [(("a", "b"), "x")]


@pytest.mark.sqlite_suffices
class TestRunaway:
    def test_hour_with_unusually_many_entries_is_reported(self, memory):
        steady = [entry(created_at=time_ago(hours=hour, minutes=one)) for hour in range(1, 30) for one in range(4)]
        burst = [entry(f"Question {one}?", created_at=time_ago(days=2)) for one in range(250)]
        add_all(memory, steady + burst)
        [found] = report(memory).runaway
        assert (found.hour, found.usual, found.entries) == (datetime(2026, 3, 29, 12, tzinfo=UTC), 4, 250)
        assert "2026-03-29 12:00: 250, usually 4" in str(report(memory))
        add_all(
            memory,
            [entry(f"About {word_for(i)}", created_at=time_ago(minutes=i / 5)) for i in range(2_000)],
            "steady\x1f",
        )
        assert report(memory, ("steady",)).runaway == ()


@pytest.mark.sqlite_suffices
class TestConversations:
    def test_conversations_are_reported_with_their_counts(self, memory):
        add(memory, entry("12", "345", conversation_id="short", created_at=time_ago(days=3)))
        add(
            memory,
            *(entry("1" * 10, "2" * 20, conversation_id="long", created_at=time_ago(days=2 - i)) for i in range(2)),
            entry("hi", "hey", conversation_id="long", junk=("small talk",), created_at=time_ago(hours=1)),
        )
        long, short = report(memory).largest
        assert (long.entries, long.junk) == (3, 1)
        assert long.last_at == time_ago(hours=1)
        assert short.conversation_id == "short"
        assert "short: 1 entry, 0% junk, last 2026-03-28 12:00" in str(report(memory))

    def test_only_the_largest_conversations_are_listed(self, in_memory):
        add_all(in_memory, [entry(conversation_id=f"c{i % 40:02d}", created_at=time_ago(days=i)) for i in range(70)])
        found = report(in_memory)
        assert (found.conversations, len(found.largest)) == (40, audit_report.MOST_CONVERSATIONS)
        assert {each.entries for each in found.largest} == {2}
        assert "… and 35 more" in str(found)


@pytest.mark.sqlite_suffices
class TestTodos:
    def test_todo_done_by_a_later_reply_is_suggested(self, in_memory):
        for number, (text, reply) in enumerate(SENTENCES["done"]):
            made = todo(text, created_at=time_ago(days=3))
            said = entry("How far are you?", reply, created_at=time_ago(days=1))
            add(in_memory, made, said, path=f"done{number}\x1f")
            told = report(in_memory, (f"done{number}",))
            [found] = told.todos
            assert (found.id, found.age, found.done_by) == (made.id, timedelta(days=3), said.id), reply
            assert found.quote in " ".join(reply.split())
            assert f"seems done, see {said.id}:" in str(told)
        for number, reply in enumerate(SENTENCES["not_done"]):
            made = todo("Fix the build system", created_at=time_ago(days=3))
            add(in_memory, made, entry(reply=reply, created_at=NOW), path=f"open{number}\x1f")
            assert [each.done_by for each in report(in_memory, (f"open{number}",)).todos] == [None], reply

    def test_earlier_replies_do_not_complete_a_todo(self, in_memory):
        said = entry(reply="I fixed the build system.", created_at=time_ago(days=9))
        add(in_memory, said, todo("Fix the build system", created_at=time_ago(days=3)))
        add(in_memory, entry(reply="I fixed the build system.", created_at=time_ago(days=8)))  # came later, is older
        assert report(in_memory).todos[0].done_by is None

    def test_done_and_hidden_todos_are_left_out(self, memory):
        add(memory, todo("Fix the gate", status="done"), todo("", junk=("empty",)), todo("Paint it"))
        found = report(memory)
        assert (found.open_todos, [each.text for each in found.todos]) == (1, ["Paint it"])


class TestArchiving:
    def test_small_trail_suggests_no_archiving(self, in_memory):
        add_all(in_memory, [entry(created_at=time_ago(days=90))])
        assert not report(in_memory).is_large

    def test_archivable_entries_and_their_size_are_reported(self, memory, monkeypatch):
        monkeypatch.setattr(audit_report, "LARGE_SIZE", 10_000)
        text = "The same words over and over. " * 100
        add_all(memory, [entry(reply=f"{i} {text}", created_at=time_ago(days=90)) for i in range(30)])
        add_all(memory, [entry(reply=f"{i} {text}", created_at=time_ago(days=3)) for i in range(10)])
        found = report(memory)
        assert (found.is_large, found.archivable) == (True, 30)
        assert "Not archived and older than 30 days: 30 entries" in str(found)
        AuditTrail(memory).archive(time_ago(days=30))
        after = report(memory)
        assert after.size < found.size - found.archivable_size / 2
        assert (after.archived, after.archivable) == (30, 0)


class TestJunk:
    def test_share_of_each_rule_is_reported(self, in_memory):
        trail = AuditTrail(in_memory)
        small_talk = (("Hi", "Hello!"), ("How are you?", "I'm fine, thanks!"))
        for prompt, reply in (*small_talk, ("Where is it?", "In the shed."), ("", "")):
            trail.add(prompt, reply)
        found = report(in_memory)
        assert found.hidden == {"small talk": 2, "filler": 1, "empty": 1}
        assert (found.to_hide, found.to_show) == (0, 0)
        assert "Junk by small talk: 2, 50.0%" in str(found)

    def test_pending_rule_changes_are_counted(self, in_memory):
        trail = AuditTrail(in_memory)
        trail.add("heartbeat 17", "ack")
        trail.add("Hi", "Hello!")
        trail.rules = [JunkRule(name="heartbeat", pattern=r"^heartbeat \d+$", field="prompt")]
        assert (trail.report().to_hide, trail.report().to_show) == (1, 1)
        trail.filter_junk()
        assert (trail.report().to_hide, trail.report().to_show) == (0, 0)


class TestReadLimit:
    def test_all_entries_are_counted_only_newest_read(self, memory, monkeypatch):
        monkeypatch.setattr(audit_report, "MOST_READ", 30)
        monkeypatch.setattr(audit_report, "PAGE", 7)
        add_all(memory, [entry("heartbeat", "ack", created_at=time_ago(hours=i)) for i in range(95)])
        add_all(memory, [entry("heartbeat", "ack") for _ in range(5)], "elsewhere\x1f")
        found = report(memory, rules=[JunkRule(name="heartbeat", pattern="^heartbeat", field="prompt")])
        assert (found.entries, found.read, found.to_hide) == (100, 30, 30)
        assert "only from the newest 30" in str(found)
        assert report(memory, ("elsewhere",)).read == 5

    def test_async_report_equals_sync_report(self, memory):
        trail = AuditTrail(memory, ("a",))
        trail.add_todo_from_chat("Fix the gate.")
        trail.add("Is it done?", "I fixed the gate.")
        awaited, waited = asyncio.run(trail.areport()), trail.report()
        assert str(awaited) == str(waited)
        assert awaited.todos[0].done_by == waited.todos[0].done_by is not None
