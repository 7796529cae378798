"""What a fork learned of facts is promoted to its parent, as if one branch had learned it all."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from langchain_agentmem.facts.fact import FactsConfig
from langchain_agentmem.rewinding import memory_rows


def day(number):
    return datetime(2025, 1, number, tzinfo=UTC)


def told(facts, subject="Maya"):
    """All that was ever true of somebody, with who says so."""
    return [
        (fact.predicate, fact.object, fact.valid_from, fact.valid_to, sorted(fact.sources))
        for fact in facts.history(subject)
    ]


def values(facts, subject="Maya", predicate="lives in"):
    return [
        (fact.object, fact.valid_from.day, fact.valid_to and fact.valid_to.day)
        for fact in facts.history(subject, predicate)
    ]


def lives(facts, place, since=None, source=None, who="Maya"):
    return facts.add_fact("user", who, "lives in", place, valid_from=since and day(since), source=source)


@pytest.fixture
def main(memory):
    return memory.facts("main")


@pytest.fixture
def merge(memory):
    """Merges a fork into its parent, as somebody would."""

    def run(parent, child, **options):
        return memory.layers(parent.name).merge(child.name, **options)

    return run


@pytest.mark.sqlite_suffices
class TestFacts:
    def test_what_the_fork_learned_ends_what_the_parent_knew(self, main, merge):
        lives(main, "Oslo", 1, "a")
        fork = main.fork("fork")
        key = lives(fork, "Lima", 9, "b")
        lives(main, "Rome", 5, "c")
        report = merge(main, fork)
        assert report.facts == (key,)
        assert report.conflicts == ()
        assert values(main) == [("Oslo", 1, 5), ("Rome", 5, 9), ("Lima", 9, None)]
        assert values(fork) == [("Oslo", 1, 9), ("Lima", 9, None)]
        assert main.get(key).sources == ("b",)
        assert [fact.object for fact in main.search("Lima")] == ["Lima"]

    def test_what_both_learned_for_themselves_is_one_fact_with_two_sources(self, main, merge):
        fork = main.fork("fork")
        lives(fork, "Oslo", 3, "b")
        lives(fork, "Lima", 7, "b")
        key = lives(main, "oslo", 4, "c")
        report = merge(main, fork)
        assert key in report.facts
        assert [(fact.id == key, sorted(fact.sources)) for fact in main.history("Maya")] == [
            (True, ["b", "c"]),
            (False, ["b"]),
        ]
        again = main.at("fork")
        lives(again, "OSLO", 6, "d")
        merge(main, again)
        assert [sorted(fact.sources) for fact in main.history("Maya")] == [["b", "c", "d"], ["b"]]

    def test_what_both_learned_of_different_times_is_two(self, main, merge):
        fork = main.fork("fork")
        fork.add_fact("user", "Maya", "visits", "Oslo", valid_from=day(1), valid_to=day(3))
        main.add_fact("user", "Maya", "visits", "Oslo", valid_from=day(7), valid_to=day(9))
        merge(main, fork)
        assert values(main, predicate="visits") == [("Oslo", 1, 3), ("Oslo", 7, 9)]

    def test_corrections_on_both_sides_count(self, main, merge):
        key = lives(main, "Oslo", 5, "a")
        fork = main.fork("fork")
        fork.update(key, obj="Bergen")
        main.update(key, valid_from=day(2))
        known = main.now
        merge(main, fork)
        assert values(main) == [("Bergen", 2, None)]
        # It is found by what it once was, too.
        assert [fact.id for fact in main.as_of(subject="Maya", obj="Bergen")] == [key]
        before = main.as_of(valid=day(10), recorded=main.get(key).recorded_at, obj="Oslo")
        assert [fact.id for fact in before] == [key]
        assert [fact.object for fact in fork.as_of(recorded=known)] == ["Bergen"]

    def test_a_correction_of_what_only_the_fork_knows_is_found_by_its_past(self, main, merge):
        fork = main.fork("fork")
        key = fork.add_fact("user", "Maja", "lives in", "Oslo", valid_from=day(1))
        known = fork.get(key).recorded_at
        fork.update(key, subject="Maya")
        merge(main, fork)
        assert [fact.id for fact in main.as_of(subject="Maya")] == [key]
        assert [fact.id for fact in main.as_of(subject="Maja", recorded=known, valid=known)] == [key]
        assert main.as_of(subject="Maja") == []

    def test_what_the_fork_took_back_is_taken_back(self, main, merge):
        keys = [main.add_fact("user", "Maya", "likes", thing) for thing in ("tea", "figs", "rice")]
        fork = main.fork("fork")
        fork.undo(keys[0])
        fork.undo(keys[1])
        fork.undo(keys[1])  # back again
        fork.update(keys[2], obj="bread")
        fork.undo(keys[2])
        merge(main, fork)
        assert {fact.object for fact in main.as_of()} == {"figs", "rice"}
        main.undo(keys[0])
        main.undo(keys[2])
        assert {fact.object for fact in main.as_of()} == {"tea", "figs", "bread"}

    def test_an_undone_ending_is_undone_here_too(self, main, merge):
        oslo = lives(main, "Oslo", 1)
        fork = main.fork("fork")
        lives(fork, "Lima", 9)
        fork.undo(oslo)
        lives(main, "Lima", 9)  # the same, learned here too
        merge(main, fork)
        assert sorted(values(main)) == [("Lima", 9, None), ("Oslo", 1, None)]
        assert len(main.contradictions()) == 1

    def test_an_undo_of_something_both_numbered_alike_undoes_the_right_thing(self, main, merge):
        key = lives(main, "Oslo", 1, "a")
        fork = main.fork("fork")
        lives(main, "Oslo", 2, "x")
        main.update(key, confidence=0.5)
        lives(fork, "Oslo", 3, "b")
        fork.undo(key)  # b does not count
        fork.update(key, valid_to=day(20))
        fork.update(key, confidence=0.9)
        fork.undo(key)  # nor does the confidence
        merge(main, fork)
        [fact] = main.history("Maya")
        assert (sorted(fact.sources), fact.valid_to, fact.confidence) == (["a", "x"], day(20), 0.5)

    def test_what_happened_last_on_either_is_undone_first(self, main, merge):
        key = lives(main, "Oslo", 5, "a")
        fork = main.fork("fork")
        lives(fork, "Oslo", 3, "f")
        lives(main, "Oslo", 4, "m")
        merge(main, fork)
        assert main.get(key).sources == ("a", "f", "m")
        main.undo(key)
        assert main.get(key).sources == ("a", "f")

    def test_what_the_fork_forgot_is_forgotten(self, main, merge):
        main.add({"role": "user", "content": "text", "message_id": "m"})
        both = lives(main, "Oslo", 1, ["m", "a"])
        only = main.add_fact("user", "Maya", "likes", "tea", source="m")
        other = main.add_fact("user", "Maya", "likes", "figs", source="a")
        fork = main.fork("fork")
        fork.remove_by_id("m")
        fork.remove_by_id(other)
        report = merge(main, fork)
        assert set(report.removed) == {only, other, "m"}
        assert main.get(both).sources == ("a",)
        assert main.as_of() == [main.get(both)]
        assert (main.waiting(), main.retrieve_by_id("m")) == (0, None)

    def test_what_the_fork_forgot_stays_where_the_parent_was_told_more(self, main, merge):
        key = lives(main, "Oslo", 1, "a")
        fork = main.fork("fork")
        fork.remove_by_id(key)
        lives(main, "Oslo", 2, "b")
        merge(main, fork)
        assert [(fact.sources, fact.valid_from) for fact in main.history("Maya")] == [(("b",), day(2))]

    def test_what_the_parent_forgot_comes_back_with_what_the_fork_was_told_since_only(self, main, merge):
        silent, told_more = lives(main, "Oslo", 1, "a"), main.add_fact("user", "Maya", "likes", "tea", source="a")
        fork = main.fork("fork")
        fork.update(silent, confidence=0.5)
        fork.add_fact("user", "Maya", "likes", "tea", source="b")
        main.remove_by_id(silent)
        main.remove_by_id(told_more)
        merge(main, fork)
        assert [(fact.object, fact.sources) for fact in main.history("Maya")] == [("tea", ("b",))]

    def test_merging_again_changes_nothing(self, memory, main, merge):
        oslo = lives(main, "Oslo", 1, "a")
        fork = main.fork("fork")
        lives(main, "Rome", 5, "m")
        lives(fork, "Rome", 6, "f")
        lives(fork, "Lima", 9, "f")
        fork.update(oslo, obj="Bergen")
        fork.undo(oslo)
        fork.merge("Maja", "Maya")
        fork.add({"role": "user", "content": "text", "message_id": "t"})
        assert merge(main, fork)
        before, rows = told(main), memory.stats()["memories"]
        report = merge(main, fork)
        assert report == type(report)()
        assert (told(main), memory.stats()["memories"]) == (before, rows)
        # And a merge goes on from there.
        fork.undo(oslo)
        lives(fork, "Oslo", 12, "g")
        merge(main, fork)
        assert ("Bergen", 1, 5) in values(main)
        assert ("Oslo", 12, None) in values(main)
        assert merge(main, fork) == type(report)()

    def test_a_grandchild_a_sibling_and_the_child_come_in_any_order(self, main, merge):
        fork, sibling = main.fork("fork"), main.fork("sibling")
        lives(fork, "Oslo", 1, "f")
        deep = fork.fork("deep")
        lives(deep, "Rome", 5, "d")
        lives(sibling, "Rome", 6, "s")
        merge(main, deep)
        merge(main, sibling)
        merge(main, fork)
        assert values(main) == [("Oslo", 1, 5), ("Rome", 5, None)]
        assert sorted(main.as_of(obj="Rome")[0].sources) == ["d", "s"]
        assert values(fork) == [("Oslo", 1, None)]

    def test_messages_take_what_was_merged_with_them(self, memory, main, merge):
        chat = memory.conversation("chat")
        chat.add({"role": "user", "content": "text", "message_id": "b"})
        lives(main, "Oslo", 1, "a")
        fork = main.fork("fork")
        lives(fork, "Lima", 9, ("b", "chat"))
        merge(main, fork)
        chat.remove_by_id("b")
        assert values(main) == values(fork) == [("Oslo", 1, None)]

    def test_only_some_keys_of_core_memory_bring_no_facts(self, main, merge):
        fork = main.fork("fork")
        lives(fork, "Oslo")
        assert merge(main, fork, keys=["k"]).facts == ()
        assert main.as_of() == []

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(8))
    def test_two_branches_that_meet_know_what_one_would(self, memory, merge, seed):
        """What is told on a fork or on its parent, told on one branch in the same order, gives the same."""
        rng = random.Random(seed)
        one, main = memory.facts("one"), memory.facts("two")
        script = [
            (
                rng.random() < 0.5,
                rng.choice(("lives in", "likes")),
                rng.randint(1, 6),
                rng.sample(range(9), rng.randint(1, 2)),
            )
            for _ in range(24)
        ]
        tell(one, script[:6])
        tell(main, script[:6])
        fork = main.fork("fork")
        for number, step in enumerate(script[6:]):
            tell(one, [step])
            tell(fork if step[0] else main, [step])
            if number % 7 == 6:
                merge(main, fork)
        merge(main, fork)
        assert told(main) == told(one)
        assert merge(main, fork).facts == ()


def tell(facts, script):
    for _, predicate, place, sources in script:
        named = [f"m{number}" for number in sources]
        facts.add_fact("user", "Maya", predicate, f"place {place}", valid_from=day(3 * place), source=named)


def read(messages):
    """A model that takes whatever is said for where Maya lives."""
    text = str(messages[-1].content).split("\n")[-2]
    return {"facts": [{"subject": "Maya", "predicate": "lives in", "object": text, "message": 1}]}


@pytest.mark.sqlite_suffices
class TestMessages:
    def test_what_was_said_comes_and_what_waits_waits_here(self, memory, main, merge):
        fork = main.fork("fork")
        keys = [fork.add(role="user", content=text) for text in ("Oslo", "Rome")]
        assert merge(main, fork).texts == tuple(keys)
        assert main.waiting() == fork.waiting() == 2
        assert [each["content"] for each in main.retrieve_all()] == ["Oslo", "Rome"]
        assert [fact.object for fact in main.search("Rome")] == ["Rome"]

    def test_what_the_fork_learned_from_waits_here_no_more(self, memory, main, merge):
        said = main.add(role="user", content="Oslo")
        settings = FactsConfig(batch_messages=1)
        fork = memory.layers("main").fork("fork")
        model = memory.facts("fork", model=lambda messages: str(read(messages)), settings=settings)
        assert fork.name == model.name
        model.drain()
        assert (model.waiting(), main.waiting()) == (0, 1)
        merge(main, model)
        assert main.waiting() == 0
        assert [(fact.object, fact.sources) for fact in main.as_of()] == [("Oslo", (said,))]

    def test_what_both_extracted_is_told_once(self, memory, main, merge):
        said = main.add(role="user", content="Oslo")
        main.fork("fork")
        for name in ("main", "fork"):
            memory.facts(name, model=lambda messages: str(read(messages))).drain()
        merge(main, memory.facts("fork"))
        [fact] = main.history("Maya")
        assert [each.message_id for each in fact.told] == [said]

    def test_a_message_that_both_changed_is_a_conflict(self, main, merge):
        main.add({"role": "user", "content": "text", "message_id": "m"})
        fork = main.fork("fork")
        fork.update("m", content="theirs")
        main.update("m", content="mine")
        report = merge(main, fork)
        [conflict] = report.conflicts
        assert (conflict.layer, conflict.key) == ("facts", "m")
        assert (conflict.base, conflict.parent, conflict.child) == ("text", "mine", "theirs")
        assert main.retrieve_by_id("m")["content"] == "mine"
        assert merge(main, fork, prefer="child").texts == ("m",)
        assert main.retrieve_by_id("m")["content"] == "theirs"

    def test_what_the_parent_changed_since_still_waits(self, memory, main, merge):
        main.add({"role": "user", "content": "Oslo", "message_id": "m"})
        main.fork("fork")
        fork = memory.facts("fork", model=lambda messages: str(read(messages)))
        fork.drain()
        main.update("m", content="Rome")
        merge(main, fork)
        assert main.waiting() == 1


@pytest.mark.sqlite_suffices
class TestNames:
    def test_what_is_agreed_on_the_fork_is_agreed_here(self, main, merge):
        lives(main, "Oslo", 1, who="Maja")
        fork = main.fork("fork")
        fork.merge("Maja", "Maya")
        fork.declare("speaks")
        lives(fork, "Rome", 5)
        report = merge(main, fork)
        assert set(report.rules) == {"alias:maja", "single:speaks"}
        assert values(main) == [("Oslo", 1, 5), ("Rome", 5, None)]
        main.add_fact("user", "Maya", "speaks", "Norse", valid_from=day(1))
        main.add_fact("user", "Maya", "speaks", "Latin", valid_from=day(2))
        assert values(main, predicate="speaks") == [("Norse", 1, 2), ("Latin", 2, None)]

    def test_what_both_learned_under_names_that_are_one_is_one_fact(self, main, merge):
        lives(main, "Oslo", 1, "a", who="Maja")
        fork = main.fork("fork")
        fork.merge("Ben", "Benjamin")
        lives(fork, "Rome", 2, "f", who="Ben")
        lives(main, "Rome", 3, "m", who="Benjamin")
        merge(main, fork)
        [fact] = main.history("Benjamin")
        assert sorted(fact.sources) == ["f", "m"]

    def test_what_both_agreed_on_differently_is_a_conflict(self, main, merge):
        fork = main.fork("fork")
        fork.merge("Maja", "Maya")
        fork.declare("speaks")
        main.merge("Maja", "Marja")
        main.declare("speaks", single_valued=False)
        report = merge(main, fork)
        assert {(each.key, each.parent, each.child) for each in report.conflicts} == {
            ("alias:maja", "Maja is Marja", "Maja is Maya"),
            ("single:speaks", "any number of values", "one value at a time"),
        }
        assert [each.into for each in main.aliases()] == ["Marja"]
        merge(main, fork, prefer="child")
        assert [each.into for each in main.aliases()] == ["Maya"]

    def test_a_merge_of_names_that_the_fork_took_back_is_taken_back(self, main, merge):
        main.merge("Maja", "Maya")
        fork = main.fork("fork")
        fork.unmerge("Maja")
        assert merge(main, fork).removed == ("alias:maja",)
        assert main.aliases() == []


@pytest.mark.sqlite_suffices
class TestDifferences:
    def test_tell_what_either_knows_and_of_what_more_was_told(self, memory, main):
        both = lives(main, "Oslo", 1)
        fork = main.fork("fork")
        mine, theirs = main.add_fact("user", "Maya", "likes", "tea"), fork.add_fact("user", "Maya", "likes", "figs")
        layers = memory.layers("main")
        diff = layers.diff("fork").facts
        assert (diff.mine, diff.theirs, diff.changed) == ({mine: "Maya likes tea"}, {theirs: "Maya likes figs"}, {})
        fork.update(both, obj="Bergen")
        changed = layers.diff("fork").facts.changed[both]
        assert (changed.mine, changed.theirs) == ("Maya lives in Oslo", "Maya lives in Bergen")
        assert not layers.diff("main")
        assert layers.diff("fork")


class TestHalfWay:
    def test_a_merge_that_fails_changes_nothing(self, memory, main, monkeypatch):
        lives(main, "Oslo", 1)
        fork = main.fork("fork")
        lives(fork, "Rome", 5)
        fork.add(role="user", content="text")
        memory.layers("fork").core.set("k", "v")
        before = told(main), main.retrieve_all(), memory.layers("main").read()

        def fails(*args):
            raise RuntimeError("not now")

        with monkeypatch.context() as patch:
            patch.setattr("langchain_agentmem.layers.layer_part._out_of_budget", fails)
            with pytest.raises(RuntimeError, match="not now"):
                memory.layers("main").merge("fork")
        assert (told(main), main.retrieve_all(), memory.layers("main").read()) == before


def test_merging_costs_what_the_fork_changed(memory, main, monkeypatch):
    """Of all that the parent knows, only what is about the same things is read."""
    for number in range(60):
        lives(main, f"place {number}", 1, who=f"person {number}")
    fork = main.fork("fork")
    lives(fork, "Oslo", 5, who="person 7")
    read, named = [], memory_rows.named

    def counting(*args):
        found = yield from named(*args)
        read.append(len(found))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(memory_rows, "named", counting)
        memory.layers("main").merge("fork")
    assert sum(read) <= 2
    assert values(main, "person 7") == [("place 7", 1, 5), ("Oslo", 5, None)]


def test_what_a_fact_said_once_stays_out_of_the_index(memory, main, raw, tmp_path):
    """It is looked up by its names; also once it was merged, or came from a file."""
    lives(main, "Oslo", 1)
    fork = main.fork("fork")
    [fact] = fork.history("Maya")
    fork.update(fact.id, obj="Rome")
    memory.layers("main").merge("fork")
    main.save_to_file(tmp_path / "facts.json")
    memory.facts("other").load_from_file(tmp_path / "facts.json")
    former = raw(memory, "select document_id from memory where kind = 'fact_former' and deleted = 0")
    assert {row["document_id"] for row in former} == {None}
