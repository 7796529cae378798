"""The audit trail keeps every prompt and reply unchanged; junk is only hidden."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit.audit_entry import ChainHead
from langchain_agentmem.audit.audit_trail import AuditTrail
from langchain_agentmem.audit.junk_rules import RULES, JunkRule
from langchain_agentmem.errors import DatabaseReadOnly, InvalidInput, MemoryClosed

HEARTBEAT = JunkRule(name="heartbeat", pattern=r"^heartbeat \d+$", field="prompt")


def exchanges(entries):
    return [(each.prompt, each.reply) for each in entries]


def ask(trail, *names, conversation=None):
    return [trail.add(f"Where is {each}?", f"{each} is at home.", conversation) for each in names]


@pytest.mark.sqlite_suffices
class TestAddAndLast:
    def test_last_entries_are_oldest_first(self, trail, clock):
        begun = clock.now
        added = ask(trail, *map(str, range(8)), conversation="monday")

        assert (added[0].id, added[0].kind, added[0].prompt, added[0].junk) == ("id-1", "exchange", "Where is 0?", ())
        assert (added[0].conversation_id, added[0].namespace) == ("monday", ())
        assert added[0].created_at == begun + timedelta(seconds=1)
        assert (trail.get("id-1"), trail.get("nobody")) == (added[0], None)
        assert trail.last() == added[-5:]
        assert trail.last(2) == added[-2:]
        assert trail.last(8) == trail.last(9) == trail.last(10**30) == added
        assert trail.last(0) == []
        for wrong in (-1, 2.0, "3", None, True):
            with pytest.raises(InvalidInput, match="n must be"):
                trail.last(wrong)

    def test_last_filters_by_conversation(self, trail):
        one = ask(trail, "a", "b", conversation="one")
        two = ask(trail, "c", conversation="two")
        none = ask(trail, "d")

        assert trail.last(9, "one") == one
        assert trail.last(1, conversation_id="one") == one[1:]
        assert trail.last(9, "two") == two
        assert trail.last(9, "three") == []
        assert trail.last(9) == one + two + none

    def test_entries_of_equal_time_keep_their_order(self, url):
        noon = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
        with AgentMemory(url, clock=lambda: noon) as memory:
            added = ask(memory.audit, *map(str, range(300)))
            assert memory.audit.last(300) == added
            assert list(memory.audit.entries()) == added

    def test_last_filters_by_kinds(self, trail):
        exchange = trail.add("Why?", "Because of the rain.")
        (todo,) = trail.add_todo_from_chat("Fix the build.")
        note = trail.add_self_reflection("I fixed the build and learned how it works.")

        assert trail.last(kinds=["todo"]) == trail.last(kinds="todo") == [todo]
        assert trail.last(kinds=("reflection", "exchange")) == [exchange, note]
        assert trail.last(kinds=[]) == []
        for wrong in ("letter", ["todo", "letter"], 7):
            with pytest.raises(InvalidInput, match="kinds"):
                trail.last(kinds=wrong)

    def test_before_pages_backwards(self, trail, ann):
        many = ask(trail, *map(str, range(300)), conversation="monday")  # most of them in the indexes, some waiting
        there = ask(ann, "here")
        for before in (many[7], many[150], many[-1]):
            at = many.index(before)
            assert trail.last(5, before=before.id) == many[max(at - 5, 0) : at]
        assert trail.last(2, "monday", before=many[200].id) == many[198:200]
        assert trail.last(2, "tuesday", before=many[200].id) == trail.last(2, before=many[0].id) == []
        for wrong in ("nothing", there[0].id, "", 3.5):
            with pytest.raises(InvalidInput):
                trail.last(before=wrong)

    def test_messages_can_be_omitted_from_calls(self, trail):
        model = GenericFakeChatModel(messages=iter([AIMessage("In the orchard.")]))
        model.invoke("Where are they?", {"callbacks": [trail.handler()]})
        [whole], [brief] = trail.last(), trail.last(messages=False)
        assert len(whole.messages) == 2
        assert brief == replace(whole, messages=())

    def test_no_entry_is_ever_dropped(self, trail):
        added = [trail.add(word, word, name) for word in ("", "ok", "test", "ok") for name in ("one", "two")]
        added += [trail.add(f"Question {number}?", "42", "one") for number in range(400)]
        assert (trail.last(400), trail.last(500, include_junk=True)) == (added[8:], added)
        assert list(trail.entries()) == added
        assert list(trail.entries(include_junk=False)) == added[8:]
        assert list(trail.entries("two")) == added[1:8:2]
        assert list(trail.entries("other")) == []

    async def test_entries_can_be_iterated_asynchronously(self, trail):
        assert [trail.add("Where is Ann?", "At home.")] == [each async for each in trail.aentries()]


@pytest.mark.sqlite_suffices
class TestJunk:
    def test_junk_is_hidden_with_its_reason(self, trail):
        junk = trail.add("", "")
        kept = trail.add("What is 6 times 7?", "42")

        assert junk.junk == ("empty",)
        assert trail.last() == [kept]
        assert trail.last(include_junk=True) == [junk, kept]
        assert trail.get(junk.id) == junk

    def test_only_junk_can_be_requested(self, trail):
        ask(trail, "Ann")
        junk = trail.add("thanks", "You're welcome!")
        assert trail.last(include_junk="only") == [junk]
        assert list(trail.entries(include_junk="only")) == [junk]
        with pytest.raises(InvalidInput, match="only"):
            trail.last(include_junk="all")

    def test_filter_junk_applies_rules_to_existing_entries(self, memory, trail):
        for number in range(600):
            trail.add(f"heartbeat {number}", "The agent is alive and well, with 3 tasks.")
        kept = trail.add("Where is Ann?", "At home.")
        link = trail.head()

        trail.rules = [*RULES, HEARTBEAT]
        assert trail.last(1000) == trail.last(1000, include_junk=False)
        assert (trail.filter_junk(), trail.filter_junk()) == (600, 0)
        assert trail.last(1000) == [kept]
        assert {each.junk for each in trail.last(600, include_junk=True)[:-1]} == {("heartbeat",)}
        assert trail.search("alive agent") == []
        assert memory.admin.verify().ok

        trail.rules = RULES
        assert (trail.filter_junk(), trail.filter_junk()) == (600, 0)
        assert len(trail.last(1000)) == 601
        assert trail.search("alive agent", 1)[0].value.junk == ()
        assert trail.verify(link).ok
        assert trail.head() == link

    def test_rules_must_be_junk_rules(self, trail):
        for wrong in (None, "ok", [r"^ok$"], [None]):
            with pytest.raises(InvalidInput, match="JunkRule"):
                trail.rules = wrong
        assert trail.rules == RULES

    def test_filter_junk_leaves_other_namespaces_alone(self, ann, bob):
        for each in (ann, bob):
            each.add("heartbeat 1", "The agent is alive and well, with 3 tasks.")
        ann.rules = [HEARTBEAT]

        assert ann.filter_junk() == 1
        assert (ann.last(), len(bob.last())) == ([], 1)


class TestTodos:
    def test_each_request_becomes_one_todo(self, trail):
        text = "I want to add a new feature and fix bugs. It is late. Please test the address book!"
        todos = trail.add_todo_from_chat(text)

        assert [each.prompt for each in todos] == [
            "[TODO] I want to add a new feature and fix bugs.",
            "[TODO] Please test the address book!",
        ]
        assert {(each.kind, each.status, each.reply, each.conversation_id) for each in todos} == {
            ("todo", "open", "", "todo-capture")
        }
        assert trail.todos() == todos == trail.last(conversation_id="todo-capture")

    def test_open_todo_is_not_added_twice(self, trail, bob):
        (todo,) = trail.add_todo_from_chat("Fix the build.")

        assert trail.add_todo_from_chat("fix  the BUILD! Fix the build") == []
        assert trail.todos() == [todo]
        assert len(bob.add_todo_from_chat("Fix the build.")) == 1

    def test_todo_can_be_completed_and_reopened(self, trail):
        build, tests = trail.add_todo_from_chat("Fix the build. Add tests for it.")
        head = trail.head()
        trail.complete(build.id)
        trail.complete(build.id)

        assert trail.todos() == [tests]
        assert trail.todos("done") == [replace(build, status="done")]
        assert len(trail.add_todo_from_chat("Fix the build.")) == 1
        trail.reopen(build.id)
        assert build in trail.todos()
        assert trail.verify(head).ok

    def test_only_todos_can_be_completed(self, trail, bob):
        other = trail.add("Where is Ann?", "At home.")
        (foreign,) = bob.add_todo_from_chat("Fix the build.")
        for key in (other.id, foreign.id, "nobody"):
            for method in (trail.complete, trail.reopen):
                with pytest.raises(InvalidInput, match="Unknown todo"):
                    method(key)
        for key in (None, "", 1.5, "\0"):
            with pytest.raises(InvalidInput, match="cannot be the id"):
                trail.complete(key)
        with pytest.raises(InvalidInput, match="'open' or 'done'"):
            trail.todos("all")


@pytest.mark.sqlite_suffices
class TestReflectionsAndReferences:
    def test_changed_file_updates_its_reference(self, trail, tmp_path):
        path = tmp_path / "style.md"
        path.write_text("Use tabs.", encoding="utf-8")
        old = trail.add_reference(path)
        assert (old.prompt, old.reply, old.title) == ("[REFERENCE] style.md", "Use tabs.", "style.md")
        assert old.kind == "reference"
        assert trail.add_reference(str(path)) == old
        assert len(trail.search("tabs")) == 1  # by then it has entered the indexes

        path.write_text("\ufeffUse spaces.", encoding="utf-8")
        new = trail.add_reference(path)
        assert (new.reply, trail.last(kinds=["reference"])) == ("Use spaces.", [new])
        assert [each.value for each in trail.search("spaces tabs")] == [new]
        assert trail.get(old.id).reply == "Use tabs."
        assert trail.head().sequence == 2
        assert trail.verify().ok

    def test_text_reference_needs_a_title(self, trail):
        entry = trail.add_reference("Be kind.", title="Manners")

        assert (entry.prompt, entry.reply) == ("[REFERENCE] Manners", "Be kind.")
        with pytest.raises(InvalidInput, match="title"):
            trail.add_reference("Be kind.")
        for title in ("", "  ", 7):
            with pytest.raises(InvalidInput, match="title"):
                trail.add_reference("Be kind.", title)
        note = trail.add_self_reflection("I answered 3 questions and learned where Ann lives.")
        assert (note.prompt, note.conversation_id) == ("[SELF-REFLECTION] Agent status report", "self-reflection")
        assert trail.last() == [entry, note]

    def test_best_practices_are_read_from_the_project(self, trail, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(InvalidInput, match="AI_GUI_BEST_PRACTICES"):
            trail.add_best_practices_reference()
        for path in (tmp_path, tmp_path / "nothing.md", tmp_path / ("x" * 300)):
            with pytest.raises(InvalidInput):
                trail.add_reference(path, "A title")
        (tmp_path / "AI_GUI_BEST_PRACTICES.md").write_text("# Checklist\n- Buttons have labels.")
        entry = trail.add_best_practices_reference()

        assert entry.prompt == "[REFERENCE] GUI Best Practices Checklist"
        assert (entry.conversation_id, entry.reply) == ("best-practices", "# Checklist\n- Buttons have labels.")
        assert trail.add_best_practices_reference() == entry
        assert trail.head().sequence == 1


@pytest.mark.sqlite_suffices
class TestNamespaces:
    def test_each_namespace_sees_only_its_entries(self, trail, ann, bob):
        below = AuditTrail(ann._database, ("ann", "work"))
        for each, name in ((trail, "root"), (ann, "ann"), (bob, "bob"), (below, "below")):
            each.add("Who are you?", f"I am {name} herself.", "c")
            each.add_todo_from_chat(f"Fix {name}.")

        for each, name in ((trail, "root"), (ann, "ann"), (bob, "bob"), (below, "below")):
            assert exchanges(each.last(9, "c")) == [("Who are you?", f"I am {name} herself.")]
            assert [todo.prompt for todo in each.todos()] == [f"[TODO] Fix {name}."]
            assert [found.value.reply for found in each.search("herself")] == [f"I am {name} herself."]
            assert len(list(each.entries())) == 2

    def test_namespace_is_resolved_from_the_run_config(self, trail, ann):
        def node(_):
            trail.add("Where is Ann?", "At home.")
            return trail.last()

        entries = RunnableLambda(node).invoke(1, {"configurable": {"agentmem_namespace": ("ann",)}})
        assert entries == ann.last()
        assert trail.last() == []

    def test_invalid_namespace_is_rejected_immediately(self, memory):
        for wrong in ("ann", ("a\x1fb",), 7):
            with pytest.raises(InvalidInput):
                AuditTrail(memory, wrong)


@pytest.mark.sqlite_suffices
class TestSearch:
    def test_archived_entries_are_found(self, trail, clock):
        old = trail.add("Where does the heron nest?", "By the lake. " * 50)
        clock.pass_time(days=31)
        new = trail.add("Where does the heron sleep?", "By the lake too. " * 50)

        assert (trail.archive(), trail.archive()) == (1, 0)
        kept = replace(old, archived=True)
        assert trail.last() == [kept, new]
        assert kept in [each.value for each in trail.search("heron nest")]
        assert trail.archive(datetime.max) == 1
        assert trail.verify().ok

    def test_search_limit_is_validated(self, trail):
        ask(trail, "heron", "herons")
        assert trail.search("heron", 0) == []
        assert len(trail.search("heron", 10**30)) == 2
        for wrong in (-1, None, 1.0):
            with pytest.raises(InvalidInput, match="limit"):
                trail.search("heron", wrong)


@pytest.mark.sqlite_suffices
class TestErasure:
    def test_erased_content_is_unrecoverable_and_chain_verifies(self, memory, ann, bob, raw):
        ask(bob, "Bob")
        ask(ann, "Zanzibar", conversation="c")
        (todo,) = ann.add_todo_from_chat("Fix the hat.")
        head = memory.audit.head()
        assert len(ann.search("Zanzibar")) == 1
        ask(bob, "Rob")
        for erased, how in enumerate(({"conversation_id": "c"}, {}), 1):
            assert memory.erase(namespace=("ann",), **how).audit == 1
            assert (len(bob.last()), ann.last()) == (2, [todo] if how else [])
            report = memory.audit.verify(str(head))
            assert (report.ok, report.entries, report.erased) == (True, 4, erased)
        assert memory.admin.verify().ok
        assert memory.search("Zanzibar", kinds=["audit"], everything=True) == []
        stubs = raw(memory, "select * from audit where kind is null")
        assert {name for row in stubs for name in row if row[name] is not None} == {"sequence", "digest", "link"}
        memory.close()
        path = Path(memory.database.engine.path)
        assert b"Zanzibar" not in b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))


@pytest.mark.sqlite_suffices
class TestBackupAndReadOnly:
    def test_backup_includes_unindexed_entries(self, new_database, tmp_path):
        memory = AgentMemory(new_database("sqlite"))
        trail, path = memory.audit, tmp_path / "backup"
        added = ask(trail, "Ann", "Bob")
        memory.admin.backup(path)
        with AgentMemory(path) as copy:
            assert copy.audit.last() == added
            assert copy.audit.verify(trail.head()).ok
            assert not copy.audit.verify(ChainHead(trail.head().sequence, bytes(32))).ok
            assert len(copy.audit.search("home")) == 2
        memory.close()
        with pytest.raises(MemoryClosed):
            trail.add("Where is Ann?", "At home.")

    def test_read_only_file_can_be_read(self, new_database):
        path = new_database("sqlite")
        with AgentMemory(path) as memory:
            added = ask(memory.audit, "Ann", "Bob")
        with AgentMemory(f"file:{path}?mode=ro") as memory:
            trail = memory.audit
            assert trail.last() == added
            assert trail.verify().ok
            assert trail.todos() == []
            assert trail.search("home") == []  # what waits for the search cannot enter it
            for write in (lambda: trail.add("Why?", "Because it rains."), lambda: trail.archive(datetime.max)):
                with pytest.raises(DatabaseReadOnly):
                    write()
