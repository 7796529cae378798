"""What lies on a shelf is never changed, lies there once, and stays until nobody needs it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import BranchMoved
from langchain_agentmem.storage import query
from langchain_agentmem.threads import value_store as shelves
from langchain_agentmem.threads.thread_lines import Thread, find, line_of, make_thread
from langchain_agentmem.threads.value_recipe import LIST, PART, covered, merged, pack, ranges_of, unpack, written_ranges
from langchain_agentmem.threads.value_store import LOOSE, MOST_RANGES, StoredPart, StorePlace, nothing_known

from .own_shelf import AT, OwnShelf


def part(text, *, loose=False, form="value:msgpack", name=None):
    return StoredPart(form=form, name=name, body=text.encode(), loose=loose)


class Parts:
    """A draft of parts only; a recipe names them by their places, in one list."""

    def __init__(self, *parts, listing=True):
        self.parts = list(parts)
        self.listing = listing

    def settle(self, recipe, numbers, tidy):
        ranges = merged((numbers[place], numbers[place] + 1) for place in recipe[1])
        return [LIST, *written_ranges(tidy(ranges, self.listing))]


def shelving(tx, draft):
    """Put all parts of a draft on the thread's shelf, as one list."""
    thread = find(tx, AT)
    return shelves.shelve(tx, thread.place, draft, [[LIST, list(range(len(draft.parts)))]])


@pytest.fixture
def thread(memory) -> Thread:
    return memory.database.engine.write(lambda tx: make_thread(tx, *AT, 0))


@pytest.fixture
def shelve(memory, thread):
    """Puts a list of parts on the thread's shelf."""

    def put(*parts, **options):
        return memory.database.engine.write(lambda tx: shelving(tx, Parts(*parts, **options)))

    return put


@pytest.fixture
def fetch(memory, thread):
    """The bodies of the parts that written recipes need, by number."""

    def get(*recipes, recall=nothing_known):
        make = [unpack(each) for each in recipes]
        found = memory.database.engine.read(lambda tx: shelves.fetch(tx, thread.place.shelf, make, recall))
        return {number: each.body.decode() for number, each in found.items()}

    return get


def numbers(recipe):
    return [number for start, stop in ranges_of(unpack(recipe)) for number in range(start, stop)]


@pytest.fixture
def counters(raw):
    """The next numbers of the two rows."""

    def get(memory):
        [row] = raw(memory, "select listed, loose from shelf")
        return row["listed"], row["loose"]

    return get


@pytest.mark.sqlite_suffices
class TestPutting:
    def test_a_failed_put_takes_nothing(self, memory, thread, counters):
        class Broken(Parts):
            def settle(self, recipe, numbers, tidy):
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            memory.database.engine.write(lambda tx: shelving(tx, Broken(part("a"))))
        assert counters(memory) == (0, LOOSE)
        assert (memory.admin.stats()["parts"], memory.admin.stats()["contents"]) == (0, 0)

    def test_what_was_drafted_before_a_sweep_is_not_put(self, memory, thread):
        stale = thread.place._replace(swept=7)
        with pytest.raises(BranchMoved):
            memory.database.engine.write(lambda tx: shelves.shelve(tx, stale, Parts(part("a")), [[LIST, [0]]]))
        assert (memory.admin.stats()["parts"], memory.admin.stats()["contents"]) == (0, 0)


@pytest.mark.sqlite_suffices
class TestTidying:
    def test_too_many_become_fewer_and_their_contents_stay_as_they_are(self, memory, shelve, fetch):
        shelve(*(part(f"{n}") for n in range(400)))
        chosen = [part(f"{n}") for n in range(0, 400, 2)]
        [recipe], writer = shelve(*chosen)
        assert len(list(ranges_of(unpack(recipe)))) <= MOST_RANGES
        found = fetch(recipe)
        assert [found[number] for number in numbers(recipe)] == [f"{n}" for n in range(0, 400, 2)]
        assert memory.admin.stats()["contents"] == 400
        assert all(new >= 400 and found[new] == f"{old}" for old, new in writer.moves.items() if new in found)
        assert memory.admin.verify().problems == ()

    def test_a_longer_list_costs_the_lightest_ranges(self, memory, shelve):
        """A long run is not copied to make room for a few single parts."""
        shelve(*(part(f"{n}") for n in range(1_000)))
        single = [part(f"{n}") for n in range(0, 2 * MOST_RANGES + 8, 2)]
        shelve(*single, *(part(f"{n}") for n in range(500, 1_000)))
        assert memory.admin.stats()["parts"] <= 1_000 + MOST_RANGES


def keep(memory, versions, recipes):
    """A checkpoint with these values, and nothing else on the thread's line."""

    def steps(tx):
        line = line_of(tx, find(tx, AT), "")
        rows = [
            {"line": line, "channel": channel, "version": version, "recipe": recipe}
            for (channel, version), recipe in recipes.items()
        ]
        query.insert_value.many(tx, rows)
        query.insert_checkpoint(
            tx, line=line, name="c", parent=None, run_id=None, versions=versions, head=b"", metadata=b"", now=1
        )

    memory.database.engine.write(steps)


@pytest.mark.sqlite_suffices
class TestSweeping:
    @pytest.fixture
    def swept(self, memory, thread, shelve):
        first = shelve(*(part(f"{n}") for n in range(10)), part("loose", loose=True), listing=False)
        del first
        recipes = {
            ("kept", "1"): pack([LIST, *written_ranges([(2, 5), (7, 8)])]),
            ("old", "1"): pack([LIST, *written_ranges([(0, 10)])]),
            ("gone", "1"): pack([PART, LOOSE]),
        }
        keep(memory, '{"kept":"1","empty":"3"}', recipes)
        memory.database.engine.write(lambda tx: shelves.sweep(tx, thread.place.shelf))
        return memory

    def there(self, memory, thread):
        rows = memory.database.engine.read(lambda tx: self._rows(tx, thread))
        return [row["number"] for row in rows]

    def _rows(self, tx, thread):
        return query.parts_after(tx, shelf=thread.place.shelf, after=-1, limit=1_000)

    def test_what_no_checkpoint_needs_goes_and_all_else_stays(self, swept, thread, raw):
        assert self.there(swept, thread) == [2, 3, 4, 7]
        assert [row["channel"] for row in raw(swept, "select channel from channel_value")] == ["kept"]
        assert swept.admin.stats()["contents"] == 4

    def test_everybody_who_remembers_is_told(self, swept, thread):
        place = swept.database.engine.read(lambda tx: find(tx, AT)).place
        assert place == StorePlace(thread.place.shelf, thread.place.swept + 1)
        swept.database.engine.write(lambda tx: shelves.sweep(tx, thread.place.shelf))  # which takes nothing
        assert swept.database.engine.read(lambda tx: find(tx, AT)).place == place

    def test_no_number_is_given_twice(self, swept, shelve):
        assert shelve(part("0"), part("9"), part("3"))[1].numbers == [10, 11, 3]
        assert shelve(part("loose", loose=True), listing=False)[1].numbers == [LOOSE + 1]

    def test_what_others_hold_too_stays_with_them(self, memory, thread, shelve):
        memory.conversation("c").add_messages([HumanMessage("said in both", id="m")])
        contents = memory.admin.stats()["contents"]
        shelf = OwnShelf(memory=memory)
        shelf.put([HumanMessage("said in both", id="m"), HumanMessage("only here", id="n")])
        assert memory.admin.stats()["contents"] == contents + 1
        memory.database.engine.write(lambda tx: shelves.sweep(tx, thread.place.shelf))
        assert memory.admin.stats()["contents"] == contents
        assert memory.conversation("c").messages[0].content == "said in both"
        assert memory.admin.verify().problems == ()

    def test_a_shelf_that_no_thread_has_goes(self, memory, thread, shelve, raw):
        shelve(part("a"))
        raw(memory, "delete from thread")
        memory.database.engine.write(lambda tx: shelves.drop_idle(tx, thread.place.shelf))
        assert raw(memory, "select id from shelf") == []
        assert (memory.admin.stats()["parts"], memory.admin.stats()["contents"]) == (0, 0)

    def test_a_new_shelf_is_never_taken_for_one_that_is_gone(self, memory, thread):
        def begin_anew(tx):
            query.delete_thread(tx, thread=thread.id)
            shelves.drop_idle(tx, thread.place.shelf)
            return make_thread(tx, *AT, 0)

        assert memory.database.engine.write(begin_anew).place.shelf > thread.place.shelf

    @settings(max_examples=30, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=6), st.randoms())
    def test_whatever_is_needed_stays_and_nothing_more(self, ranges, luck):
        with AgentMemory() as memory:
            thread = memory.database.engine.write(lambda tx: make_thread(tx, *AT, 0))
            memory.database.engine.write(lambda tx: shelving(tx, Parts(*(part(f"{n}") for n in range(50)))))
            wanted = [(start, start + length) for start, length in ranges]
            luck.shuffle(wanted)
            values = {(f"{n}", "1"): pack([LIST, *written_ranges([each])]) for n, each in enumerate(wanted)}
            if values:
                keep(memory, "{" + ",".join(f'"{n}":"1"' for n in range(len(wanted))) + "}", values)
            memory.database.engine.write(lambda tx: shelves.sweep(tx, thread.place.shelf))
            expected = [n for start, stop in covered(wanted) for n in range(start, stop)]
            assert self.there(memory, thread) == expected
            assert memory.admin.stats()["contents"] == len(expected)
