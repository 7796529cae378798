"""Branches: a fork sees its parent up to the fork and nothing after, at any depth, and can be merged back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from copy import deepcopy
from random import Random

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.layers.layer import LayersConfig
from langchain_agentmem.layers.layered_memory import LayeredMemory
from langchain_agentmem.rewinding import memory_rows

pytestmark = pytest.mark.sqlite_suffices

SETTINGS = LayersConfig(recall_max_events=100)


@pytest.fixture
def main(memory):
    return LayeredMemory(memory, "main", settings=SETTINGS)


def contents(things):
    return [each.content for each in things]


class TestForking:
    def test_a_fork_sees_all_that_was_there_and_nothing_that_comes_later(self, main):
        main.core.set("k", "before")
        main.recall.append("k", "event before")
        record_id = main.archival.write("record before")
        fork = main.fork("fork")
        main.core.set("k", "after")
        main.core.set("new", "after")
        main.recall.append("k", "event after")
        main.archival.write("record after")
        main.archival.update(record_id, "changed after")
        assert fork.core.get() == {"k": "before"}
        assert contents(fork.recall.recent()) == ["event before"]
        assert contents(fork.archival.all()) == ["record before"]
        assert contents(fork.archival.search("after")) == []

    def test_a_fork_is_found_again_by_its_name(self, main, memory):
        main.core.set("k", "v")
        main.fork("fork").core.set("own", "v")
        assert LayeredMemory(memory, "fork").core.get() == {"k": "v", "own": "v"}
        assert main.at("fork").core.get() == {"k": "v", "own": "v"}

    def test_a_name_is_given_once(self, main):
        main.fork("fork")
        for name in ("fork", "main"):
            with pytest.raises(InvalidInput, match="already"):
                main.fork(name)

    def test_names_belong_to_a_namespace(self, memory):
        for namespace in (("a",), ("b",)):
            layers = LayeredMemory(memory, "main", namespace=namespace)
            layers.core.set("k", namespace[0])
            layers.fork("fork")
        assert LayeredMemory(memory, "fork", namespace=("b",)).core.get() == {"k": "b"}

    @pytest.mark.parametrize("name", ["", "a\nb", None, 1.5])
    def test_a_name_that_is_none(self, main, name):
        with pytest.raises(InvalidInput, match="id of a branch"):
            main.fork(name)

    def test_a_fork_copies_nothing(self, main, memory, raw):
        main.write(core={"k": "v"}, recall=["event"] * 50, archival=["record"] * 50)
        before = raw(memory, "select count(*) as n from memory")
        main.fork("fork").fork("deeper")
        assert raw(memory, "select count(*) as n from memory") == before

    def test_a_hundred_levels_are_read_in_one_query(self, main, memory):
        layers = main
        for level in range(100):
            layers.core.set(f"k{level}", str(level))
            layers = layers.fork(f"level {level}")
        asked = []
        engine = memory.database.engine
        view = layers._ground.point

        def steps():
            generator = view.view(memory.database.now())
            rows = None
            while True:
                try:
                    statement = generator.send(rows)
                except StopIteration as done:
                    return done.value
                asked.append(statement.query)
                rows = yield statement

        engine.read(steps)
        assert asked == ["find_branch", "line_from"]
        assert len(layers.core.get()) == 100
        assert len(layers.ancestors()) == 101

    @pytest.mark.parametrize("url", [":memory:"])
    def test_the_newest_of_a_hundred_levels_cost_less_than_everything_on_them(self, memory):
        """Counted are the instructions of SQLite's virtual machine, of which each run takes as many."""
        layers = LayeredMemory(memory, "straight", settings=SETTINGS)
        for number in range(100):
            layers = layers.fork(f"fork {number}")
            layers.recall.append("note", f"event {number}")
            layers.archival.write(f"record {number}")

        def cost(read):
            counted = []
            connection = memory.database.engine._writer  # which reads, too, in a database in memory
            connection.set_progress_handler(lambda: counted.append(1), 10)
            found = read()
            connection.set_progress_handler(None, 10)
            return len(counted), found

        for newest, everything in (
            (lambda: layers.recall.recent(limit=20), lambda: layers.recall.recent(limit=None)),
            (lambda: layers.archival.all(limit=20), layers.archival.all),
        ):
            (few, found), (many, whole) = cost(newest), cost(everything)
            assert found == whole[-20:]
            assert few < many

    def test_what_a_fork_still_shows_is_kept_and_what_nobody_shows_is_not(self, main, memory, raw):
        main.core.set("k", "first")
        main.core.set("k", "second")
        main.fork("fork")
        main.core.set("k", "third")
        main.core.set("k", "fourth")
        assert [row["id"] for row in raw(memory, "select id from memory")] == [2, 4]

    async def test_awaited(self, main):
        await main.core.aset("k", "v")
        fork = await main.afork("fork")
        await fork.awrite(core={"own": "v"}, recall="event", archival="record")
        assert await fork.aancestors() == ["main", "fork"]
        assert str(await main.atree()) == "main\n  fork"
        assert (await main.adiff(fork)).core.theirs == {"own": "v"}
        assert set(await main.aread()) == {"core", "recall", "archival"}


class TestTheNewestOnALongLine:
    def test_are_the_same_whether_levels_are_read_or_everything(self, memory, monkeypatch):
        layers = memory.layers("branch 0")
        for number in range(8):
            layers.recall.append(f"kind {number % 2}", f"event {number}")
            layers.archival.write(f"record {number}")
            layers = layers.fork(f"branch {number + 1}")

        def newest():
            found = [layers.recall.recent(3), layers.recall.recent(3, kind="kind 1"), layers.archival.all(limit=3)]
            return [contents(some) for some in found]

        everything = newest()
        assert everything == [
            ["event 5", "event 6", "event 7"],
            ["event 3", "event 5", "event 7"],
            ["record 5", "record 6", "record 7"],
        ]
        monkeypatch.setattr(memory_rows, "FEW", 0)
        assert newest() == everything


class TestSearchOnForks:
    def test_hits_of_other_branches_do_not_take_the_places_of_ones_own(self, main):
        main.archival.write("otters")
        fork = main.fork("fork")
        for number in range(50):
            main.archival.write(f"otters otters otters {number}")
        assert contents(fork.archival.search("otters", limit=1)) == ["otters"]

    def test_a_changed_record_is_found_by_what_it_says_here(self, main):
        record_id = main.archival.write("about otters")
        fork = main.fork("fork")
        fork.archival.update(record_id, "about badgers")
        assert contents(fork.archival.search("otters")) == []
        assert contents(fork.archival.search("badgers")) == ["about badgers"]
        assert contents(main.archival.search("otters")) == ["about otters"]
        assert contents(main.archival.search("badgers")) == []


class TestReadingAndWritingAllLayers:
    def test_everything_and_each_layer(self, main):
        written = main.write(
            core={"a": "1", "b": {"value": "2", "importance": 5, "ttl": 3600}},
            recall=["plain", {"type": "metric", "content": "0.93"}],
            archival=["text", {"text": "tagged", "tags": ["t"]}],
        )
        read = main.read()
        assert read["core"] == {"a": "1", "b": "2"}
        assert [(each["id"], each["type"], each["content"]) for each in read["recall"]] == [
            (written.recall[0], "note", "plain"),
            (written.recall[1], "metric", "0.93"),
        ]
        assert [(each["id"], each["content"], each["tags"]) for each in read["archival"]] == [
            (written.archival[0], "text", []),
            (written.archival[1], "tagged", ["t"]),
        ]
        assert main.read("core") == {"core": read["core"]}
        assert main.read("recall") == {"recall": read["recall"]}
        assert main.read("archival") == {"archival": read["archival"]}

    @pytest.mark.parametrize(
        "wrong",
        [
            {"core": ["k"]}, {"core": {"k": {"importance": 1}}}, {"core": {"k": {"value": "v", "colour": "red"}}},
            {"core": {"k": 5}}, {"recall": 5}, {"recall": [5]}, {"recall": {"kind": "k"}},
            {"recall": {"knd": "k", "content": "x"}}, {"archival": {"content": "x", "tag": ["t"]}},
            {"archival": [None]}, {"archival": {"tags": ["t"]}},
        ],
    )  # fmt: skip
    def test_all_of_it_or_nothing(self, main, wrong):
        with pytest.raises(InvalidInput):
            main.write(**{"core": {"good": "v"}, "recall": ["good"], "archival": ["good"], **wrong})
        assert main.read() == {"core": {}, "recall": [], "archival": []}

    def test_a_scope_that_is_none(self, main):
        with pytest.raises(InvalidInput, match="scope"):
            main.read("everything")

    def test_nothing_that_is_written_together_pushes_out_the_rest_of_it(self, memory):
        layers = LayeredMemory(memory, "main", settings=LayersConfig(core_max_chars=20))
        layers.core.set("old", "x" * 10, importance=5)
        layers.write(core={"a": {"value": "1", "importance": 1}, "b": "y" * 9})
        assert layers.core.get() == {"a": "1", "b": "y" * 9}

    def test_several_values_that_are_too_large_together_share_the_room(self, memory):
        layers = LayeredMemory(memory, "main", settings=LayersConfig(core_max_chars=2000))
        layers.write(core={letter: letter * 1500 for letter in "abcdefgh"} | {"short": "as it is"})
        kept = layers.core.get()
        assert kept["short"] == "as it is"
        assert all(len(kept[letter]) > 200 for letter in "abcdefgh")
        assert sum(map(len, kept.values())) > 1900


class TestAncestry:
    def test_the_root_comes_first(self, main):
        assert main.ancestors() == ["main"]
        deep = main.fork("a").fork("b").fork("c")
        assert deep.ancestors() == ["main", "a", "b", "c"]

    def test_the_tree_is_the_same_from_every_branch(self, main):
        assert str(main.tree()) == "main"
        one = main.fork("one")
        two = main.fork("two")
        one.fork("one a")
        one.fork("one b")
        assert str(two.tree()) == str(main.tree()) == "main\n  one\n    one a\n    one b\n  two"
        one, two = main.tree().children
        assert main.tree().created_at <= one.created_at < two.created_at


class TestDifferences:
    def test_what_each_has_alone_and_what_they_changed(self, main):
        record_id = main.archival.write("record")
        main.core.set("both", "v")
        main.core.set("gone", "v")
        fork = main.fork("fork")
        main.core.set("mine", "v")
        fork.core.set("both", "w")
        fork.core.delete("gone")
        event_id = fork.recall.append("k", "event")
        fork.archival.update(record_id, tags=["t"])
        found = main.diff("fork")
        assert found.core.mine == {"gone": "v", "mine": "v"}
        assert found.core.theirs == {}
        assert {key: (each.mine, each.theirs) for key, each in found.core.changed.items()} == {"both": ("v", "w")}
        assert found.recall.theirs == {event_id: "event"}
        assert list(found.archival.changed) == [record_id]
        assert fork.diff(main).recall.mine == {event_id: "event"}

    def test_only_branches_of_one_namespace_are_compared(self, main, memory):
        with pytest.raises(InvalidInput, match="one namespace"):
            main.diff(LayeredMemory(memory, "main", namespace=("a",)))


class TestTogether:
    def test_a_fork_taken_while_others_write_is_one_moment(self, main):
        """Core holds two keys that are always written together; no fork may see one without the other."""
        main.write(core={"a": "0", "b": "0"})
        done = threading.Event()

        def write() -> None:
            for number in range(30):
                main.write(core={"a": str(number), "b": str(number)})
            done.set()

        thread = threading.Thread(target=write)
        thread.start()
        forks = []
        while not done.is_set() or not forks:
            forks.append(main.fork(f"fork {len(forks)}"))
        thread.join()
        seen = [fork.core.get() for fork in forks]
        assert all(each["a"] == each["b"] for each in seen)
        assert [int(each["a"]) for each in seen] == sorted(int(each["a"]) for each in seen)

    def test_many_writers_lose_nothing(self, url):
        def write(name: str) -> None:
            with AgentMemory(url) as memory:
                layers = LayeredMemory(memory, "main", settings=SETTINGS)
                for number in range(10):
                    layers.recall.append("k", f"{name} {number}")

        with AgentMemory(url) as memory:
            threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            there = contents(LayeredMemory(memory, "main").recall.recent(None))
        assert sorted(there) == sorted(f"{name} {number}" for name in "abcd" for number in range(10))
        for name in "abcd":
            mine = [each for each in there if each.startswith(name)]
            assert mine == [f"{name} {number}" for number in range(10)]


class Model:
    """What layered memory promises, by brute force: every fork is a copy of everything."""

    def __init__(self) -> None:
        self.core: dict[str, tuple[str, int]] = {}
        self.events: dict[str, str] = {}
        self.records: dict[str, tuple[str, tuple[str, ...]]] = {}


def act(random: Random, branches: dict[str, Model], at: Callable[[str], LayeredMemory]) -> None:
    """Does one random thing to both."""
    name = random.choice(list(branches))
    model, layers = branches[name], at(name)
    match random.randrange(10):
        case 0:
            child = f"branch {len(branches)}"
            layers.fork(child)
            branches[child] = deepcopy(model)
        case 1 | 2 | 3:
            key, value, importance = random.choice("abcde"), str(random.random()), random.randint(1, 5)
            layers.core.set(key, value, importance)
            model.core[key] = value, importance
        case 4:
            key = random.choice("abcde")
            assert layers.core.delete(key) == (model.core.pop(key, None) is not None)
        case 5 | 6:
            content = f"event {random.random()}"
            model.events[layers.recall.append("k", content)] = content
        case 7:
            ids = random.sample(sorted(model.events), min(2, len(model.events)))
            archived = layers.recall.evict(ids=[*ids, "nobody"])
            assert archived == len(ids)
            for each in ids:
                content = model.events.pop(each)
                [record] = layers.archival.all(tags=[f"event:{each}"])
                assert content in record.content
                model.records[record.id] = record.content, record.tags
        case 8:
            content = f"record {random.random()}"
            model.records[layers.archival.write(content, tags=["t"])] = content, ("t",)
        case 9 if model.records:
            record_id = random.choice(sorted(model.records))
            if random.random() < 0.5:
                assert layers.archival.update(record_id, tags=["u"]) is True
                model.records[record_id] = model.records[record_id][0], ("u",)
            else:
                assert layers.archival.delete(record_id) is True
                del model.records[record_id]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_any_operations_on_any_branches_are_as_if_every_fork_were_a_copy(memory, seed, raw):
    random = Random(seed)
    branches = {"main": Model()}

    def at(name: str) -> LayeredMemory:
        return LayeredMemory(memory, name, settings=SETTINGS)

    for _ in range(60):
        act(random, branches, at)
    for name, model in branches.items():
        layers = at(name)
        assert {each.key: (each.value, each.importance) for each in layers.core.entries()} == model.core
        assert {each.id: each.content for each in layers.recall.recent(None)} == model.events
        assert {each.id: (each.content, each.tags) for each in layers.archival.all()} == model.records
        assert {each.id for each in layers.archival.search("record event", limit=100)} == set(model.records)
        assert {each.id for each in layers.recall.search("event", limit=100)} == set(model.events)
    # Nothing is kept that nobody shows, and no search finds what is not kept.
    assert memory.admin.verify().problems == ()
    orphans = "select id from content where id not in (select content_id from memory where content_id is not null)"
    assert raw(memory, orphans) == []
