"""`agent_memory.json` of the original audit memory is imported, intact or damaged, and exported unchanged."""

import json

import pytest

from langchain_agentmem.errors import InvalidInput

NOON = 1_738_439_400
GUIDE = "[REFERENCE] GUI Best Practices Checklist"


def document(path, *entries):
    path.write_text(json.dumps({"history": list(entries)}), encoding="utf-8")
    return path


def item(prompt, reply, timestamp=NOON, conversation=None, **more):
    """An entry as the original writes it."""
    entry = {"prompt": prompt, "reply": reply, "timestamp": timestamp, **more}
    return entry if conversation is None else {**entry, "conversation_id": conversation}


def exchanges(entries):
    return [(each.prompt, each.reply) for each in entries]


ENTRIES = (
    item("Wo wohnt Zoë?", "In Zürich, 東京 und \N{HERB}.", NOON, "thread1"),
    item("[TODO] Fix the build system", "", NOON + 2, "todo-capture"),
    item("[SELF-REFLECTION] Agent status report", "I fixed it, and all tests pass.", NOON + 3, "self-reflection"),
    item(GUIDE, "Buttons have labels.", NOON + 4, "best-practices"),
    item("ok", "cool", NOON + 5),
)


def test_document_round_trips_through_import_and_export(trail, tmp_path):
    done = trail.import_document(document(tmp_path / "in.json", *ENTRIES))
    assert (done.added, done.known, done.lost, done.copy_path) == (5, 0, (), None)
    assert [each.kind for each in trail.last(9)] == ["exchange", "todo", "reflection", "reference"]
    assert [each.prompt for each in trail.todos()] == ["[TODO] Fix the build system"]
    assert trail.add_todo_from_chat("Please listen. Fix the build system!") == []
    assert trail.export_document(tmp_path / "out.json") == 5
    assert json.loads((tmp_path / "out.json").read_bytes().decode()) == {"history": list(ENTRIES)}


@pytest.mark.sqlite_suffices
class TestIntactDocuments:
    def test_reimport_adds_only_new_entries(self, trail, ann, tmp_path):
        path = tmp_path / "in.json"
        assert trail.import_document(document(path, *ENTRIES[:3]))[:2] == (3, 0)
        trail.complete(trail.todos()[0].id)
        assert [trail.import_document(document(path, *ENTRIES))[:2] for _ in range(2)] == [(2, 3), (0, 5)]
        assert trail.todos() == []
        assert ann.import_document(path).added == 5
        assert {each.namespace for each in ann.last(9)} == {("ann",)}

    def test_replacement_character_is_not_damage(self, trail, tmp_path):
        text = json.dumps([item("What is \ufffd?", "A mark.")], ensure_ascii=False)
        (tmp_path / "in.json").write_text(text, encoding="utf-8")
        assert trail.import_document(tmp_path / "in.json").copy_path is None

    def test_equal_entries_stay_separate(self, trail, tmp_path):
        entries = [item("Is it green?", "Yes, it is.", at, name) for name in ("a", "b", "b") for at in (NOON, NOON + 1)]
        assert trail.import_document(document(tmp_path / "m.json", *entries)).added == 6
        assert [len(trail.last(9, name)) for name in ("a", "b")] == [2, 4]

    def test_extra_fields_are_kept(self, trail, tmp_path):
        entry = item("Why?", "Because of the rain.", conversation="a\tb", model="gpt", tokens=[1, 2])
        trail.import_document(document(tmp_path / "in.json", entry, item("Two?", "The second of them.", None)))
        there, second = trail.last()
        assert (there.conversation_id, second.created_at) == (None, there.created_at)
        assert there.extra == {"model": "gpt", "tokens": [1, 2], "conversation_id": "a\tb"}
        trail.export_document(tmp_path / "out.json")
        assert json.loads((tmp_path / "out.json").read_text())["history"][0]["conversation_id"] == "a\tb"

    def test_repeated_guidelines_show_only_the_latest(self, trail, tmp_path):
        starts = [item(GUIDE, f"Version {number} of it.", NOON + number, "best-practices") for number in (1, 3, 2)]
        path = document(tmp_path / "m.json", *starts)
        assert trail.import_document(path).added == 3
        assert exchanges(trail.last()) == [(GUIDE, "Version 3 of it.")]
        (tmp_path / "guide.md").write_text("Version 4 of it.")
        trail.add_best_practices_reference(tmp_path / "guide.md")
        assert exchanges(trail.last()) == [(GUIDE, "Version 4 of it.")]
        assert [each.value.reply for each in trail.search("version")] == ["Version 4 of it."]
        assert (trail.import_document(path).added, len(trail.last())) == (0, 1)


@pytest.mark.sqlite_suffices
class TestDamagedDocuments:
    def test_readable_entries_are_imported_and_file_is_copied(self, trail, tmp_path):
        path = document(tmp_path / "m.json", *(item(f"Where is {n}?", f"{n} is in Rome.", NOON + n) for n in range(9)))
        path.write_bytes(before := path.read_bytes()[:-90])
        first, second = (trail.import_document(path) for _ in range(2))
        assert (first.added, first.known, second.added, second.known) == (7, 0, 0, 7)
        assert exchanges(trail.last(9)) == [(f"Where is {n}?", f"{n} is in Rome.") for n in range(7)]
        assert "Where is 7?" in first.lost[0] == second.lost[0]
        assert first.copy_path != second.copy_path
        assert first.copy_path.read_bytes() == path.read_bytes() == before
        assert first.copy_path.parent == tmp_path
        assert first.copy_path.name.startswith("m.json.corrupt-2026")

    def test_invalid_text_and_timestamp_are_kept(self, trail, tmp_path):
        path = tmp_path / "m.json"
        path.write_text(json.dumps([item("Where?", 7, "yesterday"), item(None, None), {}]))  # a list of entries will do
        done = trail.import_document(path)
        assert (done.added, done.lost, done.copy_path) == (3, (), None)
        assert trail.last()[0].extra["timestamp"] == "yesterday"

    def test_unstorable_parts_are_dropped_and_rest_is_imported(self, trail, tmp_path):
        path, deep = tmp_path / "m.json", "[" * 200 + "]" * 200
        path.write_text(f'[{{"prompt": "Where?", "reply": "In Rome, I think.", "score": {deep}}}]')
        done = trail.import_document(path)
        assert (exchanges(trail.last()), trail.last()[0].extra) == ([("Where?", "In Rome, I think.")], {})
        assert "Entry 1 has parts that cannot be stored" in done.lost[0]
        assert done.copy_path.read_bytes() == path.read_bytes()

    def test_failed_export_leaves_the_previous_file(self, trail, tmp_path, raw, memory):
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

    def test_invalid_path_is_rejected(self, trail, tmp_path):
        nowhere = tmp_path / "no" / "m.json"
        for wrong, says in (
            (nowhere, r"m\.json"),
            *((each, "A file path must be") for each in (None, "", 7)),
            ("a\0b", "Invalid path"),
        ):
            for call in (trail.import_document, trail.export_document):
                with pytest.raises(InvalidInput, match=says):
                    call(wrong)
