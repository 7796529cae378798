"""Maintenance of a database: verification, erasure, backup, export and import."""

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from langchain_agentmem import AgentMemory, AgentMemorySaver, Attachment
from langchain_agentmem.audit import audit_store as audit
from langchain_agentmem.audit.audit_entry import AuditEntry
from langchain_agentmem.audit.audit_rows import EntryDraft
from langchain_agentmem.base.events import ConversationErased
from langchain_agentmem.base.namespaces import path_of
from langchain_agentmem.errors import InvalidInput, MessageError
from langchain_agentmem.messages.message import Message
from langchain_agentmem.storage import encrypted_database
from langchain_agentmem.upkeep.admin import Admin
from tests.emptying import direct

WORDS = {
    "text": "zyxquorvex", "edited": "wubblefrond", "name": "Quixanthe", "id": "msgidplover77", "query": "quandaryjib3",
    "conversation": "convkestrel42", "namespace": "tenantgrackle9", "attachment": "attabrindle5",
}  # fmt: skip


def store_secrets(memory, count=150):
    """Fills a namespace with distinctive words, in every place that can hold one."""
    chat = memory.conversation(WORDS["conversation"], (WORDS["namespace"], "deeper"), description=WORDS["text"])
    for n in range(count):
        text = f"{WORDS['text']}{n} and {WORDS['text']} lives here {n}" * (1 + n % 2 * 20)  # in a row, or beside it
        chat.add({"role": "user", "content": text, "name": WORDS["name"], "message_id": f"{WORDS['id']}-{n}"})
        if n % 10 == 0:
            chat.update(f"{WORDS['id']}-{n}", content=f"{WORDS['edited']} instead {n}")
    chat.remove_by_id(f"{WORDS['id']}-5")
    session = memory.session(WORDS["conversation"], (WORDS["namespace"],))
    current = session.create_round(WORDS["query"])
    plan = Attachment(type="plan", content=WORDS["attachment"])
    session.add_post(current.id, send_from="User", send_to=WORDS["name"], message=WORDS["text"], attachments=[plan])
    path = path_of((WORDS["namespace"],))
    asked = Message(role="user", content=WORDS["query"], message_id=WORDS["id"])
    for number, messages in enumerate([(), (asked, asked)]):
        entry = AuditEntry(
            id=f"{WORDS['id']}{number}", kind="call", prompt=WORDS["query"], reply=WORDS["text"], messages=messages,
            created_at=datetime(2026, 1, 1, tzinfo=UTC), conversation_id=WORDS["conversation"],
            thread_id=WORDS["name"], junk=(WORDS["name"],), title=WORDS["text"], extra={WORDS["text"]: WORDS["text"]},
        )  # fmt: skip
        draft = EntryDraft(entry, WORDS["query"])
        memory.database.write("audit", lambda tx, draft=draft: audit.add(tx, path, [draft]))


def store_secret_items(memory):
    """Items that rest on something, and were something else before."""
    for text in (WORDS["text"], WORDS["edited"]):
        with memory.written_by("tool", WORDS["name"]):
            memory.store.put((WORDS["namespace"],), WORDS["id"], {"text": text})


def store_other_namespace(memory, count=100):
    chat = memory.conversation("other", ("others",))
    for n in range(count):
        chat.add(role="user", content=f"the ordinary words of somebody else, number {n}")


def told(memory):
    """Everything that a user can see of a database."""
    seen = {}
    for namespace, name in (((), "c"), (("a",), "c"), (("a", "b"), "d"), ((), "s")):
        chat = memory.conversation(name, namespace)
        seen[namespace, name] = [
            (message.id, message, [(version.message, version.written_at) for version in chat.history_of(message.id)])
            for message in chat.messages
        ]
    return seen, memory.session("s").to_conversation().to_dict(), memory.session("s").rounds


def fill(memory):
    chat = memory.conversation("c", description="You are kind.")
    chat.add_messages([HumanMessage("one", id="m1"), AIMessage("two", id="m2", name="Bot")])
    chat.update("m1", content="one, edited")
    chat.update("m1", content="one, edited twice")
    chat.add(
        {"role": "user", "content": "long ago", "message_id": "m3", "created_at": datetime(2001, 2, 3, tzinfo=UTC)}
    )
    chat.add({"role": "user", "content": "NUL \0, surrogate \ud800, line \u2028 \x85", "message_id": "m4"})
    memory.conversation("c", ("a",)).add_messages([HumanMessage(f"batch {n}") for n in range(70)])
    memory.conversation("d", ("a", "b")).add(role="user", content="one")
    session = memory.session("s")
    current = session.create_round("what to do")
    plan = Attachment(type="plan", content="a plan", id="atta-1")
    session.add_post(current.id, send_from="User", send_to="Planner", message="plan it", attachments=[plan])
    session.finish_round(current.id)
    return memory


def relation_bytes(memory):
    """The raw pages of every table and index of a PostgreSQL database, the catalogue's included."""
    with psycopg.connect(direct(memory.database.engine._url), autocommit=True) as connection:
        connection.execute("checkpoint")
        rows = connection.execute(
            "select oid::regclass::text, pg_relation_filepath(oid) from pg_class "  # one name may stand in two schemas
            "where relfilenode <> 0 or relname = 'pg_statistic'"
        ).fetchall()
        pages = {}
        for name, path in rows:
            if path:
                [[content]] = connection.execute("select pg_read_binary_file(%s, true)", (path,)).fetchall()
                pages[name] = content or b""
        return pages


def file_bytes(path):
    return {
        each.name: each.read_bytes() for each in Path(path).parent.iterdir() if each.name.startswith(Path(path).name)
    }


def stored_bytes(memory, url):
    if memory.database.engine.dialect == "postgres":
        return relation_bytes(memory)
    return file_bytes(url)


def traces(pages):
    return sorted(
        (name, word) for name, content in pages.items() for word in WORDS.values() if word.encode() in content
    )


class TestErasure:
    def test_erased_content_leaves_no_bytes_in_storage(self, url, raw):
        with AgentMemory(url) as memory:
            store_secrets(memory)
            store_secret_items(memory)
            store_other_namespace(memory)
            if memory.database.engine.dialect == "postgres":
                raw(memory, "analyze")
            assert {WORDS["text"], WORDS["namespace"]} <= {word for _, word in traces(stored_bytes(memory, url))}

            report = memory.erase(namespace=(WORDS["namespace"],))

            assert report.conversations == 2
            assert report.entries > 150
            assert traces(stored_bytes(memory, url)) == []
            assert len(memory.conversation("other", ("others",))) == 100
            assert memory.search("ordinary words", namespace=("others",), limit=1)
            assert memory.search(WORDS["text"]) == []
            assert memory.admin.verify().problems == ()

    async def test_erased_conversation_leaves_no_bytes_in_storage(self, url):
        async with AgentMemory(url) as memory:
            store_other_namespace(memory)
            store_secrets(memory, 70)
            chat = memory.conversation("removed before")
            for n in range(70):
                chat.remove_by_id(chat.add(role="user", content=f"{WORDS['text']} {n}", name=WORDS["name"]))
            await memory.aerase(namespace=(WORDS["namespace"], "deeper"), conversation_id=WORDS["conversation"])
            memory.erase(thread_id=WORDS["conversation"])
            assert traces(stored_bytes(memory, url)) == []

    def test_conversation_is_erased_only_in_its_namespace(self, memory):
        for namespace, name in (((), "c"), ((), "c2"), (("a",), "c"), (("a", "b"), "c"), (("ab",), "c")):
            memory.conversation(name, namespace).add(role="user", content="x")
        assert memory.erase(conversation_id="c").conversations == 1
        assert memory.erase(namespace=("a",), conversation_id="c").conversations == 1
        assert len(memory.conversation("c2")) == 1
        assert len(memory.conversation("c", ("a", "b"))) == 1
        assert memory.erase(namespace=("a",)).conversations == 1
        assert len(memory.conversation("c", ("ab",))) == 1  # a namespace is no prefix of letters
        assert memory.erase(namespace=("nobody",)).entries == 0
        for namespace in ((), ("a",), ("b", "c")):
            memory.conversation("t", namespace).add(role="user", content="x")
        assert memory.erase(thread_id="t", namespace=("b",)).conversations == 1
        assert memory.erase(thread_id="t").conversations == 2

    def test_erasing_the_root_erases_everything(self, memory):
        fill(memory)
        memory.conversation("x", ("\U0010ffff" * 200, "\U0010ffff" * 200)).add(role="user", content="far out")
        memory.erase(namespace=())
        stats = memory.admin.stats()
        assert (stats["messages"], stats["contents"], stats["namespaces"], stats["rounds"]) == (0, 0, 0, 0)
        assert memory.admin.verify().problems == ()

    def test_missing_or_ambiguous_scope_is_refused(self, memory):
        fill(memory)
        before = memory.admin.stats()["messages"]
        both = {"thread_id": "a", "conversation_id": "b"}
        for wrong in ({}, both, {"namespace": "a"}, {"conversation_id": ""}, {"thread_id": "\0"}):
            with pytest.raises(InvalidInput):
                memory.erase(**wrong)
        assert memory.admin.stats()["messages"] == before

    def test_erasure_clears_the_cache_of_the_checkpointer(self):
        with AgentMemory() as memory:
            saver = AgentMemorySaver(memory)
            checkpoint = empty_checkpoint() | {
                "channel_values": {"messages": [HumanMessage(WORDS["text"], id="m")]},
                "channel_versions": {"messages": "1"},
            }
            config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
            saver.put(config, checkpoint, {}, {"messages": "1"})
            assert WORDS["text"] in repr(saver.get_tuple(config))
            assert saver._codec.message_cache._prototypes
            memory.erase(namespace=())
            assert saver._codec.message_cache._prototypes == {}

    def test_erasure_event_is_emitted_despite_scrub_failure(self, monkeypatch):
        told = []
        with AgentMemory(hooks=[told.append]) as memory:
            memory.conversation("x").add(role="user", content="hello")
            with monkeypatch.context() as broken:
                broken.setattr(memory.database.engine, "scrub", lambda: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    memory.erase(conversation_id="x")
        assert [each.conversation_id for each in told if isinstance(each, ConversationErased)] == ["x"]


@pytest.mark.sqlite_suffices
class TestVerification:
    @pytest.fixture
    def filled(self, memory):
        fill(memory)
        report = memory.admin.verify()
        assert report.ok
        assert report.checked["messages"] == 77
        return memory

    def test_every_kind_of_damage_is_reported(self, filled, raw):
        index = "search_unindexed" if filled.database.engine.dialect == "sqlite" else "search_index"
        for damage, problem in (
            ("update content set body = :body where id = (select min(id) from content)", "is damaged"),
            (
                "update entry set body = :body where id = (select min(id) from entry where body is not null)",
                "is damaged",
            ),
            ("insert into content (hash, body) values (:hash, :body)", "has no references"),
            ("delete from {index} where document_id = (select max(document_id) from {index})", "index"),
            ("update branch set head = 0 where id = (select min(id) from branch)", "head"),
            ("update entry set key = 'strange' where replaces is not null", "version"),
            ("update branch set messages = messages + 1 where messages > 0", "messages, not"),
        ):
            given = {name: each for name, each in (("hash", b"1" * 20), ("body", b"{}")) if f":{name}" in damage}
            before = len(filled.admin.verify().problems)
            raw(filled, damage.format(index=index), **given)
            assert any(problem in each for each in filled.admin.verify().problems), damage
            assert len(filled.admin.verify().problems) > before, damage

    def test_lone_surrogates_are_not_reported_as_damage(self, memory):
        half = "x\ud800"
        layers, facts = memory.layers("b"), memory.facts("b")
        for number in range(3):
            layers.recall.append("note", f"{half} {number}")
        layers.recall.evict(oldest=2)
        layers.core.set("k", half)
        memory.corrections.core("k", f"{half} {half}", by="me", branch="b")
        facts.add({"role": "user", "content": half})
        assert memory.admin.verify().problems == ()


class TestBackup:
    def test_backup_equals_the_original_and_overwrites_with_force(self, memory, tmp_path, new_database):
        fill(memory)
        path = tmp_path / "copy"
        path.write_text("something else " * 1000)
        for write, says in (
            (memory.admin.backup, "exists. Choose another path, or pass"),
            (memory.export, "exists and is no export. Pass another path"),
        ):
            with pytest.raises(InvalidInput, match=says):
                write(path)
        assert path.read_text() == "something else " * 1000
        memory.admin.backup(path, force=True)
        for _ in range(2):  # an export replaces an older one
            memory.export(tmp_path / "export")
        of_a_server = memory.database.engine.dialect == "postgres"
        with AgentMemory(new_database("postgres") if of_a_server else path) as copy:
            if of_a_server:
                copy.import_(path)
            assert told(copy) == told(memory)
            assert copy.admin.verify().problems == ()

    def test_unwritable_target_is_refused(self, tmp_path):
        with AgentMemory(tmp_path / "a.db") as memory, AgentMemory(tmp_path / "b.db") as other:
            other.conversation("c").add_user_message("not folded into the file yet")
            unwritable = dict.fromkeys(("nowhere/copy", "."), "cannot be written")
            for where, why in {**unwritable, "a.db": "itself", "b.db": "in use"}.items():
                with pytest.raises(InvalidInput, match=why):
                    memory.admin.backup(tmp_path / where, force=True)
            with pytest.raises(InvalidInput, match="nowhere"):
                memory.export(tmp_path / "nowhere" / "all.jsonl")
            for target in (5, None, b"copy.db"):
                with pytest.raises(InvalidInput, match="Pass a path"):
                    memory.admin.copy(target)
            assert len(other.conversation("c")) == 1

    def test_full_disk_aborts_the_restore(self, tmp_path, monkeypatch):
        with AgentMemory(tmp_path / "a.db") as memory:
            fill(memory).admin.backup(tmp_path / "copy.db")
        full = OSError(28, "No space left on device")
        monkeypatch.setattr(encrypted_database.shutil, "copyfile", lambda *_: (_ for _ in ()).throw(full))
        with pytest.raises(InvalidInput, match=r"'.*copy\.db' cannot be copied to '.*': .*No space left"):
            Admin.restore(tmp_path / "copy.db", tmp_path / "restored.db")
        assert sorted(each.name for each in tmp_path.iterdir()) == ["a.db", "copy.db"]


@pytest.mark.sqlite_suffices
class TestTransfer:
    def test_missing_file_folder_and_image_are_refused(self, memory, tmp_path):
        (tmp_path / "picture.png").write_bytes(bytes(range(256)))
        for wrong in ("missing", ".", "picture.png"):
            with pytest.raises(InvalidInput):
                memory.import_(tmp_path / wrong)
        assert memory.admin.stats()["conversations"] == 0

    def test_conflicting_message_id_is_refused_and_imports_nothing(self, url, tmp_path):
        with AgentMemory() as memory:
            fill(memory).export(tmp_path / "all.jsonl")
        with AgentMemory(url) as memory:
            memory.conversation("d", ("a", "b")).add({"role": "user", "content": "mine", "message_id": "x"})
            memory.conversation("c").add({"role": "user", "content": "mine, not theirs", "message_id": "m2"})
            with pytest.raises(MessageError, match="m2"):
                memory.import_(tmp_path / "all.jsonl")
            assert memory.admin.stats()["messages"] == 2
            assert memory.admin.verify().problems == ()

    def test_failed_export_keeps_the_old_file(self, memory, tmp_path, monkeypatch):
        fill(memory).export(path := tmp_path / "export.db")
        old = path.read_bytes()
        monkeypatch.setattr("langchain_agentmem.storage.transfer.CountingProgress.add", lambda *_: 1 / 0)
        with suppress(ZeroDivisionError):
            memory.export(path)
        assert path.read_bytes() == old
        assert [p.name for p in tmp_path.iterdir() if "memory" not in p.name] == ["export.db"]
