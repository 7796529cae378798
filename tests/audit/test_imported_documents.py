"""The `agent_memory.json` of the original audit memory goes in, whole or damaged, and comes out as it was."""

import json

import pytest

from langchain_agentmem.errors import InvalidInput

NOON = 1_738_439_400
GUIDE = "[REFERENCE] GUI Best Practices Checklist"


def document(path, *entries):
    path.write_text(json.dumps({"history": list(entries)}), encoding="utf-8")
    return path


def was(prompt, reply, timestamp=NOON, conversation=None, **more):
    """An entry as the original writes it."""
    entry = {"prompt": prompt, "reply": reply, "timestamp": timestamp, **more}
    return entry if conversation is None else {**entry, "conversation_id": conversation}


def said(entries):
    return [(each.prompt, each.reply) for each in entries]


ENTRIES = (
    was("Wo wohnt Zoë?", "In Zürich, 東京 und \N{HERB}.", NOON, "thread1"),
    was("[TODO] Fix the build system", "", NOON + 2, "todo-capture"),
    was("[SELF-REFLECTION] Agent status report", "I fixed it, and all tests pass.", NOON + 3, "self-reflection"),
    was(GUIDE, "Buttons have labels.", NOON + 4, "best-practices"),
    was("ok", "cool", NOON + 5),
)


def test_what_goes_in_comes_out_as_the_original_reads_it(trail, tmp_path):
    done = trail.import_document(document(tmp_path / "in.json", *ENTRIES))
    assert (done.added, done.known, done.lost, done.copy_path) == (5, 0, (), None)
    assert [each.kind for each in trail.last(9)] == ["exchange", "todo", "reflection", "reference"]
    assert [each.prompt for each in trail.todos()] == ["[TODO] Fix the build system"]
    assert trail.add_todo_from_chat("Please listen. Fix the build system!") == []
    assert trail.export_document(tmp_path / "out.json") == 5
    assert json.loads((tmp_path / "out.json").read_bytes().decode()) == {"history": list(ENTRIES)}


@pytest.mark.sqlite_suffices
class TestWhole:
    def test_twice_adds_nothing_but_what_is_new(self, trail, ann, tmp_path):
        path = tmp_path / "in.json"
        assert trail.import_document(document(path, *ENTRIES[:3]))[:2] == (3, 0)
        trail.complete(trail.todos()[0].id)
        assert [trail.import_document(document(path, *ENTRIES))[:2] for _ in range(2)] == [(2, 3), (0, 5)]
        assert trail.todos() == []
        assert ann.import_document(path).added == 5
        assert {each.namespace for each in ann.last(9)} == {("ann",)}

    def test_a_character_that_stands_for_what_could_not_be_read_is_no_damage(self, trail, tmp_path):
        text = json.dumps([was("What is \ufffd?", "A mark.")], ensure_ascii=False)
        (tmp_path / "in.json").write_text(text, encoding="utf-8")
        assert trail.import_document(tmp_path / "in.json").copy_path is None

    def test_equal_words_stay_as_many_entries_as_they_were(self, trail, tmp_path):
        entries = [was("Is it green?", "Yes, it is.", at, name) for name in ("a", "b", "b") for at in (NOON, NOON + 1)]
        assert trail.import_document(document(tmp_path / "m.json", *entries)).added == 6
        assert [len(trail.last(9, name)) for name in ("a", "b")] == [2, 4]

    def test_whatever_else_an_entry_has_is_kept(self, trail, tmp_path):
        entry = was("Why?", "Because of the rain.", conversation="a\tb", model="gpt", tokens=[1, 2])
        trail.import_document(document(tmp_path / "in.json", entry, was("Two?", "The second of them.", None)))
        there, second = trail.last()
        assert (there.conversation_id, second.created_at) == (None, there.created_at)
        assert there.extra == {"model": "gpt", "tokens": [1, 2], "conversation_id": "a\tb"}
        trail.export_document(tmp_path / "out.json")
        assert json.loads((tmp_path / "out.json").read_text())["history"][0]["conversation_id"] == "a\tb"

    def test_of_guidelines_that_each_start_added_the_last_is_shown(self, trail, tmp_path):
        starts = [was(GUIDE, f"Version {number} of it.", NOON + number, "best-practices") for number in (1, 3, 2)]
        path = document(tmp_path / "m.json", *starts)
        assert trail.import_document(path).added == 3
        assert said(trail.last()) == [(GUIDE, "Version 3 of it.")]
        (tmp_path / "guide.md").write_text("Version 4 of it.")
        trail.add_best_practices_reference(tmp_path / "guide.md")
        assert said(trail.last()) == [(GUIDE, "Version 4 of it.")]
        assert [each.value.reply for each in trail.search("version")] == ["Version 4 of it."]
        assert (trail.import_document(path).added, len(trail.last())) == (0, 1)


@pytest.mark.sqlite_suffices
class TestDamaged:
    def test_what_can_be_read_is_taken_and_the_file_is_kept_aside(self, trail, tmp_path):
        path = document(tmp_path / "m.json", *(was(f"Where is {n}?", f"{n} is in Rome.", NOON + n) for n in range(9)))
        path.write_bytes(before := path.read_bytes()[:-90])
        first, second = (trail.import_document(path) for _ in range(2))
        assert (first.added, first.known, second.added, second.known) == (7, 0, 0, 7)
        assert said(trail.last(9)) == [(f"Where is {n}?", f"{n} is in Rome.") for n in range(7)]
        assert "Where is 7?" in first.lost[0] == second.lost[0]
        assert first.copy_path != second.copy_path
        assert first.copy_path.read_bytes() == path.read_bytes() == before
        assert first.copy_path.parent == tmp_path
        assert first.copy_path.name.startswith("m.json.corrupt-2026")

    def test_what_is_no_text_or_time_is_kept(self, trail, tmp_path):
        path = tmp_path / "m.json"
        path.write_text(json.dumps([was("Where?", 7, "yesterday"), was(None, None), {}]))  # a list of entries will do
        done = trail.import_document(path)
        assert (done.added, done.lost, done.copy_path) == (3, (), None)
        assert trail.last()[0].extra["timestamp"] == "yesterday"

    def test_of_an_entry_with_parts_that_cannot_be_stored_the_rest_is_taken(self, trail, tmp_path):
        path, deep = tmp_path / "m.json", "[" * 200 + "]" * 200
        path.write_text(f'[{{"prompt": "Where?", "reply": "In Rome, I think.", "score": {deep}}}]')
        done = trail.import_document(path)
        assert (said(trail.last()), trail.last()[0].extra) == ([("Where?", "In Rome, I think.")], {})
        assert "Entry 1 has parts that cannot be stored" in done.lost[0]
        assert done.copy_path.read_bytes() == path.read_bytes()

    def test_an_export_is_whole_or_not_there(self, trail, tmp_path, raw, memory):
        path = tmp_path / "m.json"
        for number in range(300):
            trail.add(f"Where is {number}?", "At home, as it seems.")
        trail.export_document(path)
        before = path.read_bytes()
        assert trail.last()
        raw(memory, "update audit set body = :body where sequence = 250", body=b"{")
        with pytest.raises(Exception, match="damaged"):
            trail.export_document(path)
        assert path.read_bytes() == before
        assert list(tmp_path.glob(".m.json*")) == []

    def test_a_path_that_is_none_or_leads_nowhere_is_refused(self, trail, tmp_path):
        nowhere = tmp_path / "no" / "m.json"
        for wrong, says in ((nowhere, r"m\.json"), *((each, "named by a path") for each in (None, "", 7, "a\0b"))):
            for call in (trail.import_document, trail.export_document):
                with pytest.raises(InvalidInput, match=says):
                    call(wrong)
