"""What the database keeps of experiences: counts that add up whoever writes them, and what was said of them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.clock import micros
from langchain_agentmem.base.namespaces import path_of, range_of
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput, StorageError
from langchain_agentmem.experiences import experience_part
from langchain_agentmem.experiences.experience_part import PAGE, Feedback, Tally

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
ODD = ("käse", "\U0001f9c0", "' or 1=1 --", "%s :id {}", "0", "null", "x" * 500, "\U0010ffff" * 500, " ", "a\\u0000b")
EVERYWHERE = range_of(())


def at(minutes):
    return START + timedelta(minutes=minutes)


def count(memory, considered, chosen=(), *, namespace=(), minutes=0):
    path, now = path_of(namespace), micros(at(minutes))
    memory.database.write("count", lambda: experience_part.count(path, considered, chosen, now=now))


def said(feedback_id, exp_id="a", helped=True, *, minutes=0, **more):
    return Feedback(feedback_id=feedback_id, exp_id=exp_id, helped=helped, created_at=at(minutes), **more)


def say(memory, *feedback, namespace=()):
    for each in feedback:
        memory.database.write("say", partial(experience_part.add_feedback, path_of(namespace), each))


def counts(memory, namespace=()):
    return memory.database.read("counts", lambda: experience_part.counts(*range_of(namespace)))


def heard(memory, namespace=(), **more):
    return memory.database.read("heard", lambda: experience_part.feedback_of(*range_of(namespace), **more))


def held(memory, raw, *tables):
    tables = tables or ("experience_tally", "experience_feedback", "namespace")
    return tuple(raw(memory, f"select count(*) as n from {table}")[0]["n"] for table in tables)


@pytest.mark.sqlite_suffices
class TestTallies:
    def test_candidates_and_those_that_were_chosen_are_counted(self, memory):
        count(memory, ["a", "b", "c"], {"b"}, minutes=1)
        count(memory, ["b", "a"], ["a", "b"], minutes=2)
        count(memory, ["c"], minutes=3)
        assert counts(memory) == {
            "a": Tally(2, 1, 0, 0, at(2)),
            "b": Tally(2, 2, 0, 0, at(2)),
            "c": Tally(2, 0, 0, 0, None),
        }

    def test_the_first_and_the_last_time_stay_right_whatever_comes_first(self, memory, raw):
        for minutes in (5, 9, 2, 7):
            count(memory, ["a"], ["a"], minutes=minutes)
        count(memory, ["a"], minutes=20)
        [row] = raw(memory, "select first_chosen_at, last_chosen_at from experience_tally")
        assert row == {"first_chosen_at": micros(at(2)), "last_chosen_at": micros(at(9))}
        assert counts(memory)["a"].last_chosen_at == at(9)

    def test_one_that_stands_twice_counts_once(self, memory):
        count(memory, ["a", "a", "b"], ["a", "a"])
        assert counts(memory) == {"a": Tally(1, 1, 0, 0, at(0)), "b": Tally(1)}

    def test_what_was_chosen_was_a_candidate(self, memory):
        count(memory, ["a"], ["b"])
        assert counts(memory) == {"a": Tally(1), "b": Tally(1, 1, 0, 0, at(0))}
        assert memory.verify().ok

    def test_any_text_is_an_id(self, memory):
        count(memory, ODD, ODD[:3])
        count(memory, reversed(ODD))
        assert set(counts(memory)) == set(ODD)
        assert {tally.considered for tally in counts(memory).values()} == {2}
        assert {each for each, tally in counts(memory).items() if tally.chosen} == set(ODD[:3])

    @pytest.mark.parametrize("wrong", ["", "a\0b", "\n", "x" * 501, "\ud800", None, 1.5])
    def test_what_cannot_be_an_id_is_refused_and_nothing_counted(self, memory, raw, wrong):
        for considered, chosen in ((["a", wrong], []), (["a"], [wrong])):
            with pytest.raises(InvalidInput, match="experience"):
                count(memory, considered, chosen)
        assert held(memory, raw) == (0, 0, 0)

    def test_hundreds_of_candidates_are_one_statement(self):
        steps = experience_part.count("a\x1f", [f"e{n}" for n in range(300)], {"e7"}, now=5)
        assert next(steps).query == "find_namespace"
        statement = steps.send([{"id": 3}])
        assert (statement.query, statement.parameters["namespace"], statement.parameters["now"]) == (
            "count_experiences",
            3,
            5,
        )
        assert len(json.loads(statement.parameters["seen"])) == 300
        with pytest.raises(StopIteration):
            steps.send(())

    def test_they_are_sums_over_a_namespace_and_those_below(self, memory):
        for namespace in ((), ("a",), ("a", "b"), ("ab",), ("\U0010ffff" * 100,)):
            count(memory, ["x", f"only {namespace[-1:]!r:.10}"], ["x"], namespace=namespace, minutes=len(namespace))
        say(memory, said("1", "x", True), said("2", "x", False), namespace=("a",))
        say(memory, said("1", "x", False), said("2", "unseen", True), namespace=("a", "b"))
        assert counts(memory)["x"] == Tally(5, 5, 1, 2, at(2))
        assert counts(memory, ("a",)) == {
            "only ('a',)": Tally(1),
            "only ('b',)": Tally(1),
            "unseen": Tally(0, 0, 1, 0, None),
            "x": Tally(2, 2, 1, 2, at(2)),
        }
        assert counts(memory, ("a", "b"))["x"] == Tally(1, 1, 0, 1, at(2))
        assert counts(memory, ("nobody",)) == {}


class TestWritersAtOnce:
    def test_nobodys_counts_are_lost(self, url):
        ids = [f"e{n:02}" for n in range(30)]
        with AgentMemory(url) as one, AgentMemory(url) as other:

            def write(number):
                memory = (one, other)[number % 2]
                for turn in range(10):
                    count(memory, ids[number:], ids[-1:], namespace=("shared",), minutes=turn)
                    say(memory, said(f"{number}-{turn}", helped=turn % 2 == 0), namespace=("shared",))

            with ThreadPoolExecutor(4) as threads:
                assert list(threads.map(write, range(4))) == [None] * 4
            found = counts(one)
            assert [found[each].considered for each in ids] == [10, 20, 30, *[40] * 27]
            assert found[ids[-1]] == Tally(40, 40, 0, 0, at(9))
            assert found["a"] == Tally(0, 0, 20, 20, None)
            assert one.verify().ok

    def test_they_never_wait_for_each_other_in_a_circle(self, new_database, monkeypatch):
        """Whatever order candidates come in. PostgreSQL would end one of the two, which here is not tried again."""
        ids = [f"e{n}" for n in range(400)]
        with AgentMemory(new_database("postgres")) as memory:
            count(memory, ["first"])
            monkeypatch.setattr("langchain_agentmem.storage.postgres.RETRIES", 1)

            def write(order):
                for _ in range(8):
                    count(memory, order)

            with ThreadPoolExecutor(2) as threads:
                assert list(threads.map(write, (ids, ids[::-1]))) == [None] * 2
            assert {tally.considered for tally in counts(memory).values()} == {1, 16}

    @pytest.mark.slow
    def test_whoever_erases_at_the_same_time_loses_nothing_but_what_is_there(self, url):
        with AgentMemory(url) as memory:

            def write():
                for turn in range(15):
                    count(memory, ["a", "b"], ["a"], namespace=("busy",))
                    say(memory, said(str(turn)), namespace=("busy",))

            def erase():
                return sum(memory.erase(namespace=("busy",)).experiences for _ in range(15))

            with ThreadPoolExecutor(2) as threads:
                writing, erasing = threads.submit(write), threads.submit(erase)
                assert writing.result() is None
                assert erasing.result() >= 0
            left = counts(memory)
            assert left.get("a", Tally()).considered == left.get("b", Tally()).considered <= 15
            assert memory.verify().ok


class TestFeedback:
    def test_it_comes_back_as_it_was_said_the_newest_first(self, memory):
        given = [
            said("1", "a", True, minutes=3, note="did it at once", conversation_id="chat"),
            said("2", "b", False, minutes=1, note=""),
            said("3", "a", False, minutes=2, note="no; NUL \0, surrogate \ud800, line \u2028", conversation_id="t"),
        ]
        say(memory, *given)
        assert heard(memory) == [given[0], given[2], given[1]]
        assert counts(memory) == {"a": Tally(0, 0, 1, 1, None), "b": Tally(0, 0, 0, 1, None)}

    def test_of_two_of_one_time_the_later_is_newer(self, memory):
        say(memory, said("9"), said("1"), said("5"))
        assert [each.feedback_id for each in heard(memory)] == ["5", "1", "9"]

    def test_it_is_asked_for_by_namespace_and_in_numbers(self, memory):
        for number, namespace in enumerate([(), ("a",), ("a", "b"), ("ab",)]):
            for exp_id in ("x", "y", ODD[2]):
                say(memory, said(f"{exp_id}{number}", exp_id, minutes=number), namespace=namespace)

        def ids(*namespace, **more):
            return {each.feedback_id for each in heard(memory, namespace, **more)}

        assert len(ids()) == 12
        assert len(ids("a")) == 6
        assert ids("ab", limit=1) == {f"{ODD[2]}3"}

    def test_the_same_once_more_changes_nothing(self, memory, raw):
        say(memory, said("1", note="n", conversation_id="c"), said("1", note="n", conversation_id="c"))
        assert heard(memory) == [said("1", note="n", conversation_id="c")]
        say(memory, said("1", "other"), namespace=("elsewhere",))
        assert held(memory, raw) == (0, 2, 2)

    @pytest.mark.parametrize(
        "other",
        [{"exp_id": "b"}, {"helped": False}, {"note": "o"}, {"conversation_id": "d"}, {"conversation_id": None},
         {"minutes": 1}],
    )  # fmt: skip
    def test_something_else_under_its_id_is_refused(self, memory, other):
        first = {"exp_id": "a", "helped": True, "note": "n", "conversation_id": "c"}
        say(memory, said("1", **first))
        with pytest.raises(InvalidInput, match="other feedback under the id '1'"):
            say(memory, said("1", **first | other))
        assert heard(memory) == [said("1", **first)]

    def test_times_are_kept_in_utc_to_the_microsecond(self, memory):
        when = datetime(2026, 3, 4, 5, 6, 7, 891011, tzinfo=timezone(timedelta(hours=-7)))
        say(memory, Feedback(feedback_id="1", exp_id="a", helped=True, created_at=when))
        [found] = heard(memory)
        assert found.created_at == when
        assert found.created_at.utcoffset() == timedelta(0)

    WRONG: ClassVar = {
        "feedback_id": ["", "a\0"],
        "exp_id": [None, "x" * 501],
        "helped": [1, None, "true"],
        "note": [None, b"bytes"],
        "conversation_id": [""],
        "created_at": [datetime(2026, 1, 1), datetime.max.replace(tzinfo=timezone(-timedelta(hours=5))), 5],
    }

    @pytest.mark.slow
    @pytest.mark.parametrize(("field", "wrong"), [(field, each) for field, every in WRONG.items() for each in every])
    def test_what_cannot_be_kept_is_refused(self, memory, raw, field, wrong):
        fields = {"feedback_id": "1", "exp_id": "a", "helped": True, "created_at": START} | {field: wrong}
        with pytest.raises(InvalidInput):
            say(memory, Feedback(**fields))
        assert held(memory, raw) == (0, 0, 0)


class TestErasing:
    NAMESPACES = ((), ("a",), ("a", "b"), ("ab",))

    def fill(self, memory):
        for namespace in self.NAMESPACES:
            count(memory, ["x", "y"], ["x"], namespace=namespace)
            say(memory, said("1", conversation_id="t"), said("2", conversation_id="u"), said("3"), namespace=namespace)
        return memory

    def left(self, memory):
        found = {namespace: [each.feedback_id for each in heard(memory, namespace)] for namespace in self.NAMESPACES}
        return {namespace: ids for namespace, ids in found.items() if ids}

    def test_a_namespace_takes_those_below_with_it(self, memory, raw):
        self.fill(memory)
        assert memory.erase(namespace=("a",)).experiences == 2 * 5
        assert [row["path"] for row in raw(memory, "select path from namespace order by path")] == ["", "ab\x1f"]
        assert counts(memory, ("a",)) == {}
        assert counts(memory)["x"] == Tally(2, 2, 0, 0, at(0))
        assert memory.erase(namespace=()).experiences == 2 * 5
        assert held(memory, raw) == (0, 0, 0)

    @pytest.mark.slow
    def test_of_a_thread_what_was_said_in_it_goes_wherever_that_lies(self, memory):
        self.fill(memory)
        assert memory.erase(thread_id="t").experiences == 4
        assert self.left(memory)[("ab",)] == ["3", "2"]
        assert memory.erase(thread_id="u", namespace=("a",)).experiences == 2
        assert self.left(memory) == {
            (): ["3", "2", "3", "3", "3", "2"],
            ("a",): ["3", "3"],
            ("a", "b"): ["3"],
            ("ab",): ["3", "2"],
        }
        assert counts(memory)["x"] == Tally(4, 4, 0, 0, at(0))
        assert memory.erase(thread_id="nobody").experiences == 0

    @pytest.mark.slow
    def test_of_a_conversation_only_where_it_was_named(self, memory):
        self.fill(memory)
        assert memory.erase(conversation_id="t").experiences == 1
        assert memory.erase(conversation_id="t", namespace=("a",)).experiences == 1
        assert self.left(memory)[("a",)] == ["3", "2", "1", "3", "2"]

    def test_a_namespace_that_is_empty_then_is_removed(self, memory, raw):
        say(memory, said("1", conversation_id="t"), namespace=("a",))
        memory.erase(thread_id="t")
        assert held(memory, raw) == (0, 0, 0)

    def test_a_namespace_that_only_knows_experiences_outlives_what_else_was_in_it(self, memory):
        count(memory, ["x"], namespace=("tallied",))
        say(memory, said("1"), namespace=("told",))
        for namespace in (("tallied",), ("told",)):
            memory.byte_store(namespace).mset([("k", b"v")])
            memory.byte_store(namespace).mdelete(["k"])
        assert counts(memory) == {"x": Tally(1), "a": Tally(0, 0, 1, 0, None)}

    def test_nothing_of_it_is_left_in_the_file(self, tmp_path):
        with AgentMemory(tmp_path / "memory.db") as memory:
            for n in range(60):
                note, chat = "zyxquorvex " * 50, f"convkestrel{n % 2}"
                feedback = said(f"msgidplover{n}", "quandaryjib", note=note, conversation_id=chat)
                say(memory, feedback, namespace=("a",))
            count(memory, ["quandaryjib", "attabrindle"], namespace=("a",))
            count(memory, ["wubblefrond"], namespace=("b",))
            memory.erase(thread_id="convkestrel0")
            stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
            assert b"convkestrel0" not in stored
            assert b"convkestrel1" in stored
            memory.erase(namespace=("a",))
            stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert b"wubblefrond" in stored
        words = (b"zyxquorvex", b"convkestrel", b"msgidplover", b"quandaryjib", b"attabrindle")
        assert [word for word in words if word in stored] == []

    def test_the_server_samples_nothing_of_it(self, new_database, raw):
        with AgentMemory(new_database("postgres")) as memory:
            count(memory, [f"experience {n}" for n in range(200)], ["experience 1"])
            say(memory, *(said(f"f{n}", f"e{n}", note=f"note {n}", conversation_id=f"c{n}") for n in range(30)))
            raw(memory, "analyze experience_tally, experience_feedback")
            sampled = raw(
                memory, "select attname from pg_stats where schemaname = 'agentmem' and tablename like 'exp%'"
            )
        assert "considered" in {row["attname"] for row in sampled}
        assert {row["attname"] for row in sampled} <= {
            "id", "namespace_id", "considered", "chosen", "first_chosen_at", "last_chosen_at", "helped", "created_at"
        }  # fmt: skip


def fill(memory):
    count(memory, ODD, ODD[:2], minutes=1)
    count(memory, ["a", "b"], ["a"], namespace=("n",), minutes=2)
    count(memory, ["a", "b"], ["a"], namespace=("n",), minutes=3)
    say(memory, said("1", ODD[0], False, note="\0 \ud800 ü", conversation_id="c"), said("2", ODD[1]))
    say(memory, said("1", "b", minutes=9, note="long " * 1_000), namespace=("n", "below"))
    return memory


def known(memory, raw):
    tallies = raw(
        memory,
        "select n.path, t.exp_id, considered, chosen, first_chosen_at, last_chosen_at from experience_tally t "
        "join namespace n on n.id = t.namespace_id order by n.path, t.exp_id",
    )
    return tallies, heard(memory), counts(memory)


DAMAGE = {
    "tally": {
        "exp_id": [None, "", "\0", [], 1.5],
        "considered": [None, -1, 0, True, "2", 1.0, 2**53 + 1],
        "chosen": [None, -1, 3, True, "1", 0],
        "first_chosen_at": [None, "x", True, 2**62, micros(at(60))],
        "last_chosen_at": [None, 1.5, -(2**62), 0],
    },
    "feedback": {
        "feedback_id": [None, "", "a\0", []],
        "exp_id": [None, "", {}],
        "helped": [None, 1, 0, "true"],
        "note": [None, 5, []],
        "conversation_id": ["", "\n", []],
        "created_at": [None, "now", True, 2**62, 1.5],
    },
}


class TestTransfer:
    ROWS = len(ODD) + 2 + 3

    @pytest.mark.slow
    @pytest.mark.parametrize("target", ["sqlite", "postgres"])
    def test_what_was_exported_comes_back_equal_and_only_once(self, memory, raw, new_database, target, tmp_path):
        fill(memory)
        assert memory.export(tmp_path / "all.jsonl").experiences == self.ROWS
        with AgentMemory(new_database(target)) as other:
            assert other.import_(tmp_path / "all.jsonl").experiences == self.ROWS
            assert known(other, raw) == known(memory, raw)
            assert other.import_(tmp_path / "all.jsonl").experiences == 0
            assert known(other, raw) == known(memory, raw)
            assert other.verify().problems == ()
            other.export(tmp_path / "again.jsonl")
        exports = [(tmp_path / name).read_text().splitlines() for name in ("all.jsonl", "again.jsonl")]
        assert sorted(exports[0]) == sorted(exports[1])

    @pytest.mark.slow
    def test_more_than_a_page_comes_through_whole(self, memory, raw, tmp_path):
        count(memory, [f"e{n}" for n in range(2 * PAGE + 1)], ["e5"])

        def many(path):
            for n in range(PAGE + 1):
                yield from experience_part.add_feedback(path, said(f"f{n}", "e5", n % 3 == 0, minutes=n))

        memory.database.write("many", lambda: many(""))
        before = known(memory, raw)
        assert memory.export(tmp_path / "all.jsonl").experiences == 3 * PAGE + 2
        memory.erase(namespace=())
        assert memory.import_(tmp_path / "all.jsonl").experiences == 3 * PAGE + 2
        assert known(memory, raw) == before

    @pytest.mark.slow
    def test_of_both_tallies_the_larger_numbers_count(self, memory, raw, new_database, tmp_path):
        for minutes in (2, 9):
            count(memory, ["a", "b", "within", "first", "last"], ["a", "within", "first", "last"], minutes=minutes)
        memory.export(tmp_path / "all.jsonl")
        for kind in ("sqlite", "postgres"):
            with AgentMemory(new_database(kind)) as other:
                for minutes in (1, 5, 6):
                    count(other, ["a", "b"], minutes=minutes)
                for minutes, chosen in ((1, "within"), (10, "within"), (4, "a"), (4, "own"), (3, "first"), (9, "first"),
                                        (2, "last"), (8, "last")):  # fmt: skip
                    count(other, [chosen], [chosen], minutes=minutes)
                assert other.import_(tmp_path / "all.jsonl").experiences == 3  # here, more was known of the others
                tallies, _, summed = known(other, raw)
                assert summed == {
                    "a": Tally(4, 2, 0, 0, at(9)),
                    "b": Tally(3),
                    "first": Tally(2, 2, 0, 0, at(9)),
                    "last": Tally(2, 2, 0, 0, at(9)),
                    "own": Tally(1, 1, 0, 0, at(4)),
                    "within": Tally(2, 2, 0, 0, at(10)),
                }
                assert {row["exp_id"]: row["first_chosen_at"] for row in tallies if row["first_chosen_at"]} == {
                    exp_id: micros(at(minutes))
                    for exp_id, minutes in {"a": 2, "first": 2, "last": 2, "own": 4, "within": 1}.items()
                }
                assert other.import_(tmp_path / "all.jsonl").experiences == 0

    def test_what_was_said_since_stays(self, memory, tmp_path):
        say(memory, said("1"), said("2"))
        memory.export(tmp_path / "all.jsonl")
        memory.erase(namespace=())
        say(memory, said("2"), said("3"))
        assert memory.import_(tmp_path / "all.jsonl").experiences == 1
        assert {each.feedback_id for each in heard(memory)} == {"1", "2", "3"}

    @pytest.mark.slow
    def test_other_feedback_under_one_id_is_refused_and_nothing_imported(self, memory, raw, tmp_path):
        fill(memory).export(tmp_path / "all.jsonl")
        memory.erase(namespace=())
        say(memory, said("1", "mine"), namespace=("n", "below"))
        before = known(memory, raw)
        with pytest.raises(InvalidInput, match="other feedback under the id '1'"):
            memory.import_(tmp_path / "all.jsonl")
        assert known(memory, raw) == before

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", DAMAGE)
    def test_a_damaged_export_adds_nothing(self, memory, raw, tmp_path, kind):
        count(memory, ["a", "a2"], ["a", "a2"])
        count(memory, ["a", "a2"], minutes=5)
        say(memory, said("1", conversation_id="c"))
        memory.export(tmp_path / "all.jsonl")
        memory.erase(namespace=())
        lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
        place = max(n for n, line in enumerate(lines) if line.get("record") == kind)
        missing = [{k: v for k, v in lines[place].items() if k != field} for field in DAMAGE[kind]]
        wrong = [lines[place] | {field: each} for field, every in DAMAGE[kind].items() for each in every]
        for record in (*missing, *wrong):
            damaged = [*lines[:place], record, *lines[place + 1 :]]
            (tmp_path / "damaged.jsonl").write_text("\n".join(map(json.dumps, damaged)))
            with pytest.raises(InvalidInput, match="damaged"):
                memory.import_(tmp_path / "damaged.jsonl")
        text = (tmp_path / "all.jsonl").read_text().replace('"namespace": []', '"namespace": "text"')
        (tmp_path / "damaged.jsonl").write_text(text)
        with pytest.raises(InvalidInput, match="namespace"):
            memory.import_(tmp_path / "damaged.jsonl")
        assert held(memory, raw) == (0, 0, 0)
        assert memory.import_(tmp_path / "all.jsonl").experiences == 3


@pytest.mark.sqlite_suffices
class TestCare:
    def test_it_is_counted_and_verified(self, memory):
        fill(memory)
        stats, report = memory.stats(), memory.verify()
        assert (stats["experiences"], stats["feedback"]) == (len(ODD) + 2, 3)
        assert (report.checked["experiences"], report.checked["feedback"]) == (len(ODD) + 2, 3)
        assert report.ok

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            ("tally set chosen = 9 where exp_id = 'a'", "chosen 9 times of 2"),
            ("tally set considered = -1 where exp_id = 'b'", "chosen 0 times of -1"),
            ("tally set considered = 1, chosen = -1 where exp_id = 'b'", "chosen -1 times of 1"),
            ("tally set exp_id = '' where exp_id = 'b'", "'' cannot be the id of an experience"),
            ("tally set last_chosen_at = 5 where exp_id = 'a'", "'a' is damaged: It cannot have been chosen when"),
            ("tally set last_chosen_at = 5 where exp_id = 'b'", "'b' is damaged: It cannot have been chosen when"),
            ("tally set first_chosen_at = null where exp_id = 'a'", "'a' is damaged: It cannot have been chosen when"),
            ("feedback set helped = 2 where exp_id = 'b'", "In the feedback '1': An experience helped or not"),
            ("feedback set helped = -1 where exp_id = 'b'", "In the feedback '1': An experience helped or not"),
            ("feedback set exp_id = '' where exp_id = 'b'", "In the feedback '1': '' cannot be the id of an exp"),
            ("feedback set feedback_id = '' where exp_id = 'b'", "'' cannot be the id of a feedback"),
            ("feedback set conversation_id = '' where exp_id = 'b'", "'' cannot be the id of a conversation"),
            ("feedback set created_at = 4611686018427387904 where exp_id = 'b'", "is not a time"),
            ("feedback set note = :bytes where exp_id = 'b'", "In the feedback '1': 'utf-8' codec can't decode"),
        ],
    )
    def test_what_is_damaged_is_found_and_leaves_in_no_export(self, memory, raw, tmp_path, change, problem):
        fill(memory)
        raw(memory, f"update experience_{change}", **({"bytes": b"\xff\xfe"} if ":bytes" in change else {}))
        problems = memory.verify().problems
        assert [problem in each for each in problems] == [True]
        with pytest.raises(DatabaseUnreadable, match="damaged"):
            memory.export(tmp_path / "all.jsonl")
        assert set(counts(memory)) >= set(ODD)  # whoever selects goes on

    def test_damaged_feedback_is_not_given_for_true(self, memory, raw):
        fill(memory)
        raw(memory, "update experience_feedback set helped = 2 where exp_id = 'b'")
        with pytest.raises(StorageError, match="In the feedback '1'"):
            heard(memory)


IDS = st.sampled_from(["a", "b", "B", "ä", *ODD])


@pytest.mark.slow
@given(st.lists(st.tuples(st.lists(IDS, max_size=6), st.sets(IDS, max_size=3)), max_size=8))
def test_any_turns_add_up_as_they_would_in_a_dictionary(turns):
    expected = {}
    with AgentMemory() as memory:
        for considered, chosen in turns:
            count(memory, considered, chosen)
            for each in {*considered, *chosen}:
                before = expected.get(each, Tally())
                expected[each] = Tally(before.considered + 1, before.chosen + (each in chosen))
        assert {each: tally._replace(last_chosen_at=None) for each, tally in counts(memory).items()} == expected
