"""Deduplication of search results, and search for the queries of session rounds."""

from datetime import datetime

import pytest

from langchain_agentmem.language_models.model_calls import written_by

TEXT = "The grey heron lives at the pond."


def kinds(found):
    return [(each.kind, sorted(kind for kind, _ in each.also)) for each in found]


def test_equal_texts_of_several_kinds_are_one_hit(memory):
    layers = memory.layers()
    record = layers.archival.write(TEXT)
    event = layers.recall.append("said", TEXT)
    said = memory.conversation("c").add_user_message(TEXT)
    del said
    [found] = memory.search("Where does the heron live?")
    assert found.kind == "message"
    assert sorted(found.also) == sorted([("record", record), ("event", event)])
    [document] = memory.retriever().invoke("Where does the heron live?")
    assert sorted(document.metadata["also"]) == sorted([["record", record], ["event", event]])


def test_items_with_different_values_are_separate_hits(memory):
    for number, who in enumerate(["Ada", "Ben", "Ada"]):
        memory.store.put(("p",), f"k{number}", {"text": TEXT, "who": who}, index=["text"])
    found = memory.search("heron", namespace=("p",))
    assert [(each.value["who"], len(each.also)) for each in found] == [("Ada", 1), ("Ben", 0)]


def test_repeated_messages_are_one_hit_per_namespace(memory):
    for namespace in ((), ("ada",)):
        chat = memory.conversation("c", namespace)
        chat.add_user_message("yes, the heron")
        chat.add_ai_message("yes, the heron")
        memory.conversation("d", namespace).add_user_message(" yes, the heron ")
    found = memory.search("heron", everything=True)
    assert kinds(found) == [("message", ["message", "message"])] * 2
    assert [(each.value.role, each.conversation_id) for each in found] == [
        ("user", "d")
    ] * 2  # the newest of the user's


WRITERS = {
    "record": lambda memory, text, n: memory.layers(f"branch {n}").archival.write(text),
    "event": lambda memory, text, n: memory.layers().recall.append("said", text),
    "message": lambda memory, text, n: memory.conversation(f"c{n}").add_user_message(text),
    "item": lambda memory, text, n: memory.store.put(("p",), f"k{n}", {"text": text}),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_duplicates_do_not_use_up_the_limit(memory, kind):
    for number in range(20):
        WRITERS[kind](memory, TEXT, number)
    WRITERS[kind](memory, "Another heron nests near a lake somewhere far away from here.", 99)
    for limit in (10, 2):
        found = memory.search("heron at the pond", kinds=[kind], limit=limit, everything=True)
        assert [len(each.also) for each in found] == [19, 0]


def test_equal_facts_of_different_periods_are_separate(memory):
    facts = memory.facts()
    for begin, end in ((datetime(2001, 1, 1), datetime(2002, 1, 1)), (datetime(2005, 1, 1), None)):
        facts.add_fact("user", "Ana", "lives in", "Lisbon", valid_from=begin, valid_to=end)
    assert len(memory.search("Ana Lisbon", kinds=["fact"])) == len(facts.search("Ana Lisbon")) == 2


def test_equal_records_return_the_most_trusted_one(memory):
    layers = memory.layers()
    with written_by("tool", "web"):
        layers.archival.write(TEXT, tags=["web"])
    draft = layers.fork("draft")
    draft.archival.write("Nothing.")
    with written_by("tool", "web"):
        copies = [draft.archival.write(f"{TEXT}{blank}", tags=[tag]) for blank, tag in ((" ", "two"), ("  ", "three"))]
    with written_by("user"):
        own = draft.archival.write(f"{TEXT}\n", tags=["four"])
    assert [each.id for each in draft.archival.search("heron")] == [own]
    assert [each.id for each in draft.archival.search("heron", tags=["three"])] == copies[1:]


class TestSessions:
    def test_round_query_is_searchable_in_every_state(self, memory):
        for state in (None, "finish_round", "fail_round"):
            session = memory.session(f"s {state}")
            begun = session.create_round("Where does the heron live?")
            if state is not None:
                getattr(session, state)(begun.id)
            [found] = memory.search("heron")
            assert (found.kind, found.id, found.value.role) == ("message", begun.id, "user")
            assert found.text == begun.user_query
            assert memory.admin.verify().ok
            session.reset_memory()
            assert memory.search("heron") == []

    def test_round_query_repeated_by_post_is_one_hit(self, memory):
        session = memory.session("s")
        begun = session.create_round("Where does the heron live?")
        post = session.add_post(begun.id, send_from="User", send_to="Planner", message="Where does the heron live?")
        assert [each.id for each in memory.search("heron")] == [post.id]
