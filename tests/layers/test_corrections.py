"""Corrections of memory by a person: author, history and undo."""

from functools import partial

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import InvalidInput, Outdated
from langchain_agentmem.storage import query
from tests.support.graphs import at, line

ADA = ("users", "ada")
BY = "Maria"
SECRET = "sk-Zq7xT2mB9wL4kR8vN3cY"


@pytest.fixture
def memory(memory):
    """An open memory that is verified after each test."""
    yield memory
    assert memory.admin.verify().ok


def core(memory, key="city"):
    return memory.layers(namespace=ADA).core.get().get(key)


def saying(memory, work):
    """Return a graph whose node passes its config and the last message to `work` and answers with the result."""

    def node(state, config):
        return {"messages": [("ai", str(work(config, state["messages"][-1].text)))]}

    return line(memory.checkpointer, node)


def say(graph, text, config, **options):
    return graph.invoke({"messages": [("user", text)]}, config, **options)["messages"][-1].text


def talk(memory, thread, words):
    """Run a turn of a thread whose node stores the user's message in core memory."""
    config = at(thread, namespace=ADA)
    say(saying(memory, lambda config, text: memory.layers(config).core.set("city", text)), words, config)
    return config


SHOWN = {"core": "value", "record": "content", "fact": "object"}


class Thing:
    """An item of one kind with the value "tea", and its corrections."""

    def __init__(self, memory, kind):
        self.memory, self.kind, self.do = memory, kind, memory.corrections
        self.at = {"namespace": ADA}
        layers, self.key = memory.layers(namespace=ADA), "drink"
        if kind == "core":
            layers.core.set("drink", "tea", importance=5, ttl=10**9)
        elif kind == "record":
            self.key = layers.archival.write("tea", ["drinks"])
        else:
            self.key = memory.facts(namespace=ADA).add_fact("user", "Ada", "likes", "tea", source="m1")
            memory.facts(namespace=ADA).add_fact("user", "Ada", "likes", "tea", source="m2")

    def correct(self, text, **more):
        given = {"by": BY, "namespace": ADA, **more}
        if self.kind == "fact":
            return self.do.fact(self.key, obj=text, **given)
        return getattr(self.do, self.kind)(self.key, text, **given)

    def undo(self, made, **more):
        return self.do.undo(made.id, **{"by": BY, "namespace": ADA, **more})

    @property
    def present(self):
        return self.do.current(self.kind, self.key, **self.at)

    @property
    def history(self):
        return self.do.history(self.kind, self.key, **self.at)


@pytest.fixture(params=SHOWN)
def thing(request, memory):
    return Thing(memory, request.param)


class TestAllKinds:
    def test_corrections_record_the_author_and_can_be_undone(self, memory, thing):
        before, shown = thing.present, SHOWN[thing.kind]
        made = thing.correct("coffee")
        now = thing.present
        assert (made.by, made.kind, made.key, made.namespace, made.at) == (BY, thing.kind, thing.key, ADA, now.at)
        assert (made.before, made.after, now.value[shown]) == (before.value, now.value, "coffee")
        assert {**now.value, shown: "tea"} == before.value
        assert (now.source, now.actor) == ("person", BY)
        undone = thing.undo(made, by="Ben")
        assert (thing.present.value, thing.present.version) == (before.value, before.version)
        assert (undone.undoes, undone.by) == (made.id, "Ben")
        again = thing.undo(undone)
        assert thing.present.value[shown] == "coffee"
        assert thing.history == [again, undone, made] == memory.corrections.history(namespace=ADA)

    def test_corrections_must_be_undone_in_order(self, thing):
        first, second = thing.correct("coffee"), thing.correct("cocoa")
        with pytest.raises(Outdated, match="has changed meanwhile"):
            thing.undo(first)
        for each in (second, first):
            thing.undo(each)
        assert thing.present.value[SHOWN[thing.kind]] == "tea"

    def test_a_correction_of_an_outdated_version_is_rejected(self, thing):
        seen = thing.present.version
        thing.correct("coffee", expected=seen)
        with pytest.raises(Outdated, match="has changed meanwhile"):
            thing.correct("cocoa", expected=seen)
        assert (thing.present.value[SHOWN[thing.kind]], len(thing.history)) == ("coffee", 1)

    def test_a_correction_to_the_same_value_is_rejected(self, thing):
        with pytest.raises(InvalidInput, match="already has this value"):
            thing.correct("tea")
        assert thing.history == []

    def test_undoing_a_deletion_restores_the_item(self, memory, thing):
        before = thing.present
        made = memory.corrections.delete(thing.kind, thing.key, by=BY, namespace=ADA)
        assert (thing.present.value, made.after) == (None, None)
        thing.undo(made)
        assert thing.present.value == before.value

    def test_a_failed_correction_leaves_the_item_unchanged(self, thing, monkeypatch):
        monkeypatch.setattr(query, "set_correction", query.prompt_notes)  # which wants other parameters
        with pytest.raises(Exception, match=r"."):
            thing.correct("coffee")
        assert thing.present.value[SHOWN[thing.kind]] == "tea"


class TestCoreMemory:
    def test_undoing_a_new_key_removes_it(self, memory):
        seen = memory.corrections.current("core", "city", namespace=ADA)
        made = memory.corrections.core("city", "Porto", by=BY, namespace=ADA, expected=seen.version)
        assert (seen.value, core(memory), made.before) == (None, "Porto", None)
        with pytest.raises(Outdated):
            memory.corrections.core("city", "Faro", by=BY, namespace=ADA, expected=seen.version)
        memory.corrections.undo(made.id, by=BY, namespace=ADA)
        assert core(memory) is None

    def test_a_namespace_correction_applies_to_all_its_threads(self, memory):
        config = talk(memory, "one", "Lisbon")
        then = memory.checkpointer.get_tuple(config).config
        made = memory.corrections.core("city", "Porto", by=BY, namespace=ADA)
        assert [memory.layers(each).core.get("city")["city"] for each in (config, then)] == ["Porto", "Lisbon"]
        memory.corrections.undo(made.id, by=BY, namespace=ADA)
        assert memory.layers(config).core.get("city") == {"city": "Lisbon"}
        with pytest.raises(InvalidInput, match="leave out thread_id"):
            memory.corrections.core("city", "Porto", by=BY, namespace=ADA, thread_id="one")
        with pytest.raises(InvalidInput, match="no thread"):
            memory.corrections.core("city", "Porto", by=BY, thread_id="nobody")


ALONE = at("alone")


class TestThreadOnlyMemory:
    """Memory of a thread without a namespace is corrected at its newest checkpoint."""

    @pytest.fixture
    def graph(self, memory):
        def remember(config, said):
            knew = self.city(memory, config)
            if said != "nothing":
                memory.layers(config).core.set("city", said)
            return f"I knew {knew}"

        return saying(memory, remember)

    def city(self, memory, config=ALONE):
        return memory.layers(config).core.get().get("city")

    def test_a_correction_affects_only_later_checkpoints(self, memory, graph):
        say(graph, "Lisbon", ALONE)
        say(graph, "nothing", ALONE)
        [*past] = [each.config for each in graph.get_state_history(ALONE)]
        made = memory.corrections.core("city", "Porto", by=BY, thread_id="alone")
        assert (made.branch, made.thread_id) == ("alone", "alone")
        assert [self.city(memory, each) for each in past] == ["Porto", *["Lisbon"] * 3, None, None]
        assert say(graph, "nothing", ALONE) == "I knew Porto"
        memory.corrections.undo(made.id, by=BY)
        assert say(graph, "nothing", ALONE) == "I knew Lisbon"
        assert [each.by for each in memory.corrections.history("core", "city", thread_id="alone")] == [BY, BY]

    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    def test_a_correction_survives_a_running_graph(self, memory, durability):
        def remember(config, _):
            memory.corrections.core("city", "Porto", by=BY, thread_id="alone")
            memory.layers(config).core.set("food", "soup")

        graph = saying(memory, remember)
        graph.update_state(ALONE, {"messages": [("user", "Hi")]})
        say(graph, "Hi", ALONE, durability=durability)
        assert memory.layers(ALONE).core.get() == {"city": "Porto", "food": "soup"}

    def test_records_and_facts_of_a_thread_are_corrected(self, memory):
        def remember(config, _):
            memory.layers(config).archival.write("Ada likes tea.")
            memory.facts(config).add_fact("user", "Ada", "lives in", "Lisbon")

        say(saying(memory, remember), "Hi", ALONE)
        do, where = memory.corrections, {"by": BY, "thread_id": "alone"}
        archival, facts = memory.layers(ALONE).archival, memory.facts(ALONE)
        [record], [fact] = archival.all(), facts.as_of()
        made = [do.record(record.id, "Ada likes coffee.", **where), do.fact(fact.id, obj="Porto", **where)]
        assert [each.content for each in archival.search("coffee")] == ["Ada likes coffee."]
        assert archival.search("tea") == []
        assert [each.object for each in facts.as_of()] == ["Porto"]
        for each in made:
            do.undo(each.id, by=BY)
        assert archival.all()[0].content == "Ada likes tea."
        assert [each.object for each in facts.as_of()] == ["Lisbon"]

    def test_corrections_are_exported_and_erased_with_the_thread(self, memory, graph, new_database, tmp_path):
        say(graph, "Lisbon", ALONE)
        made = memory.corrections.core("city", "Porto", by=BY, thread_id="alone")
        memory.export(tmp_path / "all.jsonl")
        with AgentMemory(new_database("sqlite")) as other:
            other.import_(tmp_path / "all.jsonl")
            assert self.city(other) == "Porto"
            other.corrections.undo(made.id, by=BY)
            assert self.city(other) == "Lisbon"
            assert other.admin.verify().ok
        memory.erase(thread_id="alone")
        assert memory.corrections.history() == []

    def test_deleting_the_thread_deletes_its_corrections(self, memory, graph):
        say(graph, "Lisbon", ALONE)
        memory.corrections.core("city", "Porto", by=BY, thread_id="alone")
        memory.checkpointer.delete_thread("alone")
        assert memory.corrections.history() == []

    def test_corrections_move_with_an_adopted_thread(self, memory, graph):
        say(graph, "Lisbon", ALONE)
        made = memory.corrections.core("city", "Porto", by=BY, thread_id="alone")
        memory.admin.adopt("alone", ADA)
        memory.corrections.undo(made.id, by=BY, namespace=ADA)
        assert core(memory) == "Lisbon"
        assert len(memory.corrections.history("core", "city", namespace=ADA)) == 2


def test_a_secret_key_is_corrected_by_its_redaction(memory):
    memory.layers().core.set(SECRET, "x")
    assert memory.corrections.delete("core", SECRET, by=BY).key == "***"
    assert memory.layers().core.get() == {}


class TestErrors:
    def test_invalid_authors_and_keys_are_rejected(self, memory):
        do = memory.corrections
        for by in ("", " ", None, 7, "a\x00b", "a\nb"):
            with pytest.raises(InvalidInput, match="the name of the person who corrects"):
                do.core("city", "Porto", by=by)
        for wrong in (7, None, "", "a\x00b", ["x"], "x" * 5000):
            for call, given in (
                (do.core, {"value": "Porto"}), (do.record, {"content": "x"}), (do.fact, {"obj": "x"}),
                (partial(do.delete, "core"), {}),
            ):  # fmt: skip
                with pytest.raises(InvalidInput):
                    call(wrong, by=BY, **given)
            for call in (do.current, do.history):
                with pytest.raises(InvalidInput):
                    call("core", wrong)
        assert do.history() == []

    def test_unknown_items_and_corrections_raise_errors(self, memory):
        with pytest.raises(InvalidInput, match="There is no record"):
            memory.corrections.record("nowhere", "x", by=BY)
        with pytest.raises(InvalidInput, match="There is no correction 'x'"):
            memory.corrections.undo("x", by=BY)
        with pytest.raises(InvalidInput, match="kind must be"):
            memory.corrections.current("event", "x")
        with pytest.raises(InvalidInput, match="or neither"):
            memory.corrections.history("core")

    def test_history_is_limited_to_the_namespace(self, memory):
        made = memory.corrections.core("city", "Porto", by=BY, namespace=ADA)
        memory.corrections.core("city", "Rome", by=BY, namespace=("users", "ben"))
        assert [each.id for each in memory.corrections.history(namespace=ADA)] == [made.id]
        assert [each.namespace[1] for each in memory.corrections.history(namespace=("users",))] == ["ben", "ada"]
        inside = memory.within(("users", "ben")).corrections
        assert len(inside.history()) == 1
        with pytest.raises(InvalidInput, match="no correction"):
            inside.undo(made.id, by=BY)

    def test_history_is_paged_newest_first(self, memory):
        for number in range(5):
            memory.corrections.core("city", f"{number}", by=BY, namespace=ADA)
        for of in ((), ("core", "city")):
            page = memory.corrections.history(*of, namespace=ADA, limit=2, offset=1)
            assert [each.after["value"] for each in page] == ["3", "2"]
