"""What went wrong with the original audit memory, and does not here: one test, or more, for each fault found in it."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit.audit_trail import AuditTrail
from langchain_agentmem.errors import InvalidInput

NOON = 1_738_439_400


def document(path, *entries):
    path.write_text(json.dumps({"history": list(entries)}), encoding="utf-8")
    return path


def was(prompt, reply, timestamp=NOON, conversation=None, **more):
    """An entry as the original writes it."""
    entry = {"prompt": prompt, "reply": reply, "timestamp": timestamp, **more}
    return entry if conversation is None else {**entry, "conversation_id": conversation}


def said(entries):
    return [(each.prompt, each.reply) for each in entries]


class TestO1:
    """The original's filter deleted each todo, since a todo has no reply."""

    def test_nor_is_one_of_a_file_hidden(self, trail, tmp_path):
        entry = was("[TODO] Fix the build system", "", conversation="todo-capture")
        trail.import_document(document(tmp_path / "m.json", entry))
        (todo,) = trail.todos()
        assert (todo.prompt, todo.reply, todo.status, todo.junk) == ("[TODO] Fix the build system", "", "open", ())


@pytest.mark.sqlite_suffices
class TestO2:
    """Its rule for reflections never matched, and as written would have matched each of them."""

    def test_so_it_is_in_a_file(self, trail, tmp_path):
        prompt = "[SELF-REFLECTION] Agent status report"
        entries = [was(prompt, text, conversation="self-reflection") for text in ("I moved the files to disk B.", "ok")]
        trail.import_document(document(tmp_path / "m.json", *entries))
        assert [bool(each.junk) for each in trail.last(include_junk=True)] == [False, True]


@pytest.mark.sqlite_suffices
class TestO3:
    """It dropped an entry for its prompt, whatever was answered, and kept replies that say nothing."""

    def test_a_short_prompt_with_a_reply_of_worth_stays(self, trail):
        reply = "I have deleted the three temporary files, and the build passes now in 14 seconds. " * 3
        assert trail.add("ok", reply).junk == ()
        assert trail.add("yes", "Then I delete /var/tmp/build and start again with version 3.2 of it.").junk == ()

    def test_nothing_is_ever_dropped(self, trail):
        added = [trail.add(word, word) for word in ("", "ok", "test", "ping", "lol")]
        assert trail.last() == []
        assert trail.last(9, include_junk=True) == added
        assert all(each.junk for each in added)


@pytest.mark.sqlite_suffices
class TestO4:
    """It took equal words for the same entry, whoever said them and when."""

    def test_equal_words_in_two_conversations_are_two_entries(self, trail):
        for name in ("one", "two"):
            trail.add("Is the build green?", "Yes, it is green.", name)
        assert [len(trail.last(9, name)) for name in ("one", "two")] == [1, 1]

    def test_and_so_in_a_file(self, trail, tmp_path):
        entries = [was("Is it green?", "Yes, it is.", at, name) for name in ("a", "b", "b") for at in (NOON, NOON + 1)]
        assert trail.import_document(document(tmp_path / "m.json", *entries)).added == 6
        assert [len(trail.last(9, name)) for name in ("a", "b")] == [2, 4]


@pytest.mark.sqlite_suffices
class TestO5:
    """It took a damaged file for an empty one, and wrote over it."""

    @pytest.fixture
    def damaged(self, tmp_path):
        whole = document(
            tmp_path / "m.json", *(was(f"Where is {n}?", f"{n} is in Zürich.", NOON + n) for n in range(9))
        )
        whole.write_bytes(whole.read_bytes()[:-100])
        return whole

    def test_what_can_be_read_of_a_damaged_file_is_taken(self, trail, damaged):
        done = trail.import_document(damaged)

        assert (done.added, done.known) == (7, 0)
        assert said(trail.last(9)) == [(f"Where is {n}?", f"{n} is in Zürich.") for n in range(7)]
        assert "Where is 7?" in done.lost[0]

    def test_it_is_kept_aside_and_stays(self, trail, damaged):
        before = damaged.read_bytes()
        done = trail.import_document(damaged)

        assert done.kept.read_bytes() == damaged.read_bytes() == before
        assert done.kept.parent == damaged.parent
        assert done.kept.name.startswith("m.json.corrupt-2026")

    def test_twice_adds_nothing(self, trail, damaged):
        first, second = (trail.import_document(damaged) for _ in range(2))

        assert (second.added, second.known, second.lost) == (0, 7, first.lost)
        assert second.kept != first.kept

    def test_a_file_of_which_nothing_can_be_read(self, trail, tmp_path):
        path = tmp_path / "m.json"
        for content in (b"", b"\0" * 5_000, b"not JSON at all", b"\x89PNG\r\n\x1a\n" + bytes(range(256))):
            path.write_bytes(content)
            done = trail.import_document(path)
            assert (done.added, bool(done.lost), done.kept.read_bytes()) == (0, True, content)

    def test_what_was_read_otherwise_is_told(self, trail, tmp_path):
        path = document(tmp_path / "m.json", was("Where?", 7, "yesterday"))
        done = trail.import_document(path)
        assert (done.added, done.lost, done.kept) == (1, (), None)
        assert any("timestamp" in note for note in done.notes)
        assert trail.last()[0].extra["timestamp"] == "yesterday"

    def test_letters_of_all_scripts_are_written_as_utf_8(self, trail, tmp_path):
        trail.add("Wo wohnt Zoë?", "In Zürich, 東京 und \N{HERB}.")
        trail.export_document(tmp_path / "m.json")
        (entry,) = json.loads((tmp_path / "m.json").read_bytes().decode("utf-8"))["history"]
        assert entry["reply"] == "In Zürich, 東京 und \N{HERB}."

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


class TestO6:
    """It wrote its whole file for each entry, and two of them overwrote each other's."""

    def test_an_entry_more_is_not_the_whole_file_more(self, new_database):
        path = new_database("sqlite")
        with AgentMemory(path) as memory:
            written = Counter()
            for number in range(1_000):
                memory.audit.add(f"Where is {number}?", f"{number} is at home.")
                if number in (499, 999):
                    written[number] = memory.admin.stats()["bytes"]
        assert written[999] - written[499] < 500 * 2_000


@pytest.mark.sqlite_suffices
class TestO8:
    """It failed for want of a text, of an object, or of a folder."""

    def test_null_in_a_file(self, trail, tmp_path):
        path = document(tmp_path / "m.json", was(None, None), was("Why?", None), {}, {"reply": "Because it rains."})
        assert trail.import_document(path).added == 4
        assert len(trail.last(9, include_junk=True)) == 4
        trail.filter_junk()

    def test_a_file_that_is_a_list(self, trail, tmp_path):
        path = tmp_path / "m.json"
        path.write_text(json.dumps([was("Where is Ann?", "At home.")]))
        assert trail.import_document(path).added == 1
        assert said(trail.last()) == [("Where is Ann?", "At home.")]

    def test_a_folder_that_is_not_there(self, trail, tmp_path):
        nowhere = tmp_path / "no" / "m.json"
        for attempt in (lambda: trail.import_document(nowhere), lambda: trail.export_document(nowhere)):
            with pytest.raises(InvalidInput, match=r"m\.json"):
                attempt()
        for wrong in (None, "", 7, "a\0b"):
            with pytest.raises(InvalidInput, match="named by a path"):
                trail.import_document(wrong)
            with pytest.raises(InvalidInput, match="named by a path"):
                trail.export_document(wrong)


@pytest.mark.sqlite_suffices
class TestO9:
    """It looked for keywords anywhere in a word, and knew no todo that is done or there already."""

    def test_one_that_a_file_holds_is_there_already(self, trail, tmp_path):
        entry = was("[TODO] Fix the build system", "", conversation="todo-capture")
        trail.import_document(document(tmp_path / "m.json", entry))
        assert trail.add_todo_from_chat("Please listen. Fix the build system!") == []
        assert len(trail.todos()) == 1


@pytest.mark.sqlite_suffices
class TestO10:
    """It looked for its guidelines in one place, added them at each start, and told times by the second."""

    def test_of_those_that_each_start_added_to_a_file_the_last_is_shown(self, trail, tmp_path):
        prompt = "[REFERENCE] GUI Best Practices Checklist"
        starts = [was(prompt, f"Version {number} of it.", NOON + number, "best-practices") for number in (1, 3, 2)]
        path = document(tmp_path / "m.json", *starts)

        assert trail.import_document(path).added == 3
        assert said(trail.last()) == [(prompt, "Version 3 of it.")]
        (tmp_path / "guide.md").write_text("Version 4 of it.")
        trail.add_best_practices_reference(tmp_path / "guide.md")
        assert said(trail.last()) == [(prompt, "Version 4 of it.")]
        assert [each.value.reply for each in trail.search("version")] == ["Version 4 of it."]
        assert (trail.import_document(path).added, len(trail.last())) == (0, 1)

    def test_times_are_finer_than_a_second(self, url):
        with AgentMemory(url) as memory:
            times = [memory.audit.add("Where?", "At home, I think.").created_at for _ in range(20)]
        assert times == sorted(times)
        assert any(each.microsecond for each in times)


@pytest.mark.sqlite_suffices
class TestTheFile:
    """`agent_memory.json` in and out."""

    ENTRIES = (
        was("First user question", "First agent response", NOON, "thread1"),
        was("[TODO] Fix the build system", "", NOON + 2, "todo-capture"),
        was("[SELF-REFLECTION] Agent status report", "I fixed it, and all tests pass.", NOON + 3, "self-reflection"),
        was("[REFERENCE] GUI Best Practices Checklist", "Buttons have labels.", NOON + 4, "best-practices"),
        was("ok", "cool", NOON + 5),
    )

    def test_what_goes_in_comes_out_as_the_original_reads_it(self, trail, tmp_path):
        done = trail.import_document(document(tmp_path / "in.json", *self.ENTRIES))
        assert (done.added, done.known, done.lost, done.kept) == (5, 0, (), None)
        assert [each.kind for each in trail.last(9)] == ["exchange", "todo", "reflection", "reference"]

        assert trail.export_document(tmp_path / "out.json") == 5
        with (tmp_path / "out.json").open() as file:
            assert json.load(file) == {"history": list(self.ENTRIES)}

    def test_twice_adds_nothing(self, trail, tmp_path):
        path = document(tmp_path / "in.json", *self.ENTRIES, *self.ENTRIES)
        assert [trail.import_document(path)[:2] for _ in range(3)] == [(10, 0), (0, 10), (0, 10)]
        assert trail.verify().entries == 10

    def test_what_was_added_to_it_since_is_added(self, trail, tmp_path):
        path = tmp_path / "in.json"
        trail.import_document(document(path, *self.ENTRIES[:3]))
        trail.complete(trail.todos()[0].id)
        assert trail.import_document(document(path, *self.ENTRIES))[:2] == (2, 3)
        assert trail.todos() == []

    def test_it_belongs_to_the_namespace_that_reads_it(self, memory, trail, tmp_path):
        path = document(tmp_path / "in.json", *self.ENTRIES)
        ann = AuditTrail(memory, ("ann",))
        assert (ann.import_document(path).added, trail.import_document(path).added) == (5, 5)
        assert {each.namespace for each in ann.last(9)} == {("ann",)}
        assert ann.export_document(tmp_path / "x.json") == 5

    def test_whatever_else_an_entry_has_is_kept(self, trail, tmp_path):
        entry = was("Why?", "Because of the rain.", conversation="a\tb", model="gpt", tokens=[1, 2])
        trail.import_document(document(tmp_path / "in.json", entry))
        (there,) = trail.last()
        assert there.conversation_id is None
        assert there.extra == {"model": "gpt", "tokens": [1, 2], "conversation_id": "a\tb"}
        trail.export_document(tmp_path / "out.json")
        assert json.loads((tmp_path / "out.json").read_text())["history"][0]["conversation_id"] == "a\tb"

    def test_entries_without_a_time_were_written_after_those_before_them(self, trail, tmp_path):
        entries = [was("One?", "The first of them."), was("Two?", "The second of them.", None)]
        trail.import_document(document(tmp_path / "in.json", *entries))
        assert trail.last()[0].created_at == trail.last()[1].created_at
