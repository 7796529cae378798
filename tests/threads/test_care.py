"""Statistics, verification, erasure, transfer and backup of threads."""

import gc
import re

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_agentmem import AgentMemory, AgentMemorySaver
from langchain_agentmem.errors import StorageError
from langchain_agentmem.messages.stored_messages import MessagePrototype
from langchain_agentmem.threads.value_store import LOOSE_START
from tests.checkpoints.graphs import Line, at, chat_graph, everything, logging_graph
from tests.support.graphs import at as within
from tests.upkeep.test_integrity import stored_bytes

from .filled import THREADS, delta_graph, fill, go_on, outer_graph, seen
from .own_store import aes


@pytest.mark.sqlite_suffices
class TestStatistics:
    def test_threads_checkpoints_writes_and_parts_are_counted(self, memory):
        assert {memory.admin.stats()[name] for name in ("threads", "checkpoints", "writes", "parts")} == {0}
        line = Line(memory.checkpointer)
        config = line.put({"text": "long " * 100, "short": 1})
        line.put({"text": "longer " * 100})
        memory.checkpointer.put_writes(config, [("text", "x"), ("short", 2)], "task")
        Line(memory.checkpointer, "u").put({"messages": [HumanMessage("hello"), AIMessage("hello")]})
        stats = memory.admin.stats()
        assert {name: stats[name] for name in ("threads", "checkpoints", "writes", "parts")} == {
            "threads": 2,
            "checkpoints": 3,
            "writes": 2,
            "parts": 4,
        }
        assert stats["contents"] == 4
        assert stats["content_bytes"] > 1_000
        assert [memory.admin.verify().checked[name] for name in ("threads", "checkpoints")] == [2, 3]


DAMAGES = {
    "channel_value set recipe = :blob where channel = 'list'": r"channel 'list' of the thread 'line'.*checksum",
    "pending_write set recipe = :blob where task = 'task'": r"channel 'bytes' of the thread 'line'.*checksum",
    "checkpoint set head = :blob where run_id = 'run'": r"head of the checkpoint .* thread 'line'",
    "checkpoint set metadata = :blob where run_id = 'run'": r"metadata of the checkpoint .* thread 'line'",
    "checkpoint set versions = substr(versions, 2) where run_id = 'run'": r"head of the checkpoint .* 'line'.*checksum",
    "checkpoint set versions = replace(versions, '\"000002.', '\"000003.') where run_id = 'run'": r"thread 'line'",
    "part_store set next_element = 0 where id = (select store_id from thread where name = 'chat')": "has part numbers",
    f"part_store set next_part = {LOOSE_START}": "part numbers above its counter",
    "content set body = :blob where id = (select max(content_id) from part)": "is damaged",
    "part set checksum = 7 where content_id = (select max(content_id) from part)": "is damaged",
    "part set number = 999 where content_id = (select max(content_id) from part where encoding = 'message')": "missing",
}
"""SQL updates that damage a database, and the problem that `verify` reports."""


@pytest.mark.sqlite_suffices
class TestVerification:
    @pytest.fixture
    def filled(self, request, url):
        with AgentMemory(url) as memory:
            fill(memory.checkpointer)
            assert memory.admin.verify().problems == ()
        return request.getfixturevalue("memory")

    @pytest.mark.parametrize("damage", DAMAGES)
    def test_verify_reports_damage_and_its_location(self, filled, raw, damage):
        raw(filled, f"update {damage}", **{"blob": b"damaged bytes"} if ":blob" in damage else {})
        problems = filled.admin.verify().problems
        assert any(re.search(DAMAGES[damage], each) for each in problems), problems

    def test_damaged_threads_can_be_deleted(self, filled, raw):
        raw(filled, "update channel_value set recipe = :blob where channel = 'list'", blob=b"damaged")
        filled.checkpointer.delete_thread("chat")
        filled.checkpointer.delete_thread("line")
        assert filled.admin.verify().problems == ()
        raw(filled, "update checkpoint set head = :blob, metadata = :blob", blob=b"damaged")
        assert len(filled.admin.verify().problems) >= filled.admin.stats()["checkpoints"] > 0
        for thread in THREADS:
            filled.checkpointer.delete_thread(thread)
        assert filled.admin.verify().problems == ()
        assert filled.admin.stats()["contents"] == 0


WORDS = {
    "message": "zyxthreadvex", "answer": "ZYXTHREADVEX", "message id": "msgidlapwing78", "name": "Quothread",
    "argument": "quandarythread4", "thread": "threadkestrel42", "namespace": "tenantmagpie8",
    "channel": "channelbrindle5", "text": "wubblethread", "key": "keyfrosk8", "element": "elemsnark4",
    "write": "writegomble6", "task": "taskpliver1", "metadata": "metafriddle2", "run": "runsquallop0",
    "line": "linetwarble3",
}  # fmt: skip


def write_distinctive_words(memory, turns=12):
    """Create a thread with distinctive words in every field."""
    saver, namespace = memory.checkpointer, (WORDS["namespace"], "deeper")
    graph = chat_graph(saver)
    for n in range(turns):
        call = {"name": "f", "args": {WORDS["argument"]: WORDS["argument"]}, "id": f"{n}"}
        said = [
            AIMessage("", tool_calls=[call], id=f"call {n}"),
            HumanMessage(f"{WORDS['message']} {n}", id=f"{WORDS['message id']}-{n}", name=WORDS["name"]),
        ]
        graph.invoke({"messages": said}, within(WORDS["thread"], namespace=namespace))
    for ns in ("", WORDS["line"]):
        line = Line(saver, WORDS["thread"], ns)
        line.config["configurable"]["agentmem_namespace"] = namespace
        for n in range(3):
            changes = {
                WORDS["channel"]: WORDS["text"] * 99,
                "state": {WORDS["key"]: [f"{WORDS['element']} {m}" for m in range(40 + n)]},
            }
            line.put(changes, run_id=WORDS["run"], note=WORDS["metadata"])
            saver.put_writes(line.config, [(WORDS["channel"], WORDS["write"])], WORDS["task"], WORDS["task"])


def traces(memory, url):
    """Return the words that are readable in storage, including SQLite's write-ahead log."""
    pages = stored_bytes(memory, url)
    assert len(pages) > 1
    return sorted({word for content in pages.values() for word in WORDS.values() if word.encode() in content})


@pytest.fixture(params=["sqlite", "postgres"])
def open_url(request, new_database):
    """Yield an empty database; remove PostgreSQL's sampled statistics afterwards."""
    url = new_database(request.param)
    yield url
    if request.param == "postgres":
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("drop schema if exists agentmem cascade")
            connection.execute("vacuum full pg_statistic")


@pytest.fixture
def analyze(raw):
    """Return a function that analyzes like autovacuum, which samples thread columns into `pg_statistic`."""

    def run(memory):
        if memory.database.engine.dialect == "postgres":
            raw(memory, "analyze")

    return run


ERASURES = {
    "the thread": {"thread_id": WORDS["thread"]},
    "the thread in its namespace": {"thread_id": WORDS["thread"], "namespace": (WORDS["namespace"],)},
    "the namespace": {"namespace": (WORDS["namespace"],)},
    "everything": {"namespace": ()},
}


def in_memory(words):
    """Return whether any message cached in this process contains the words."""
    gc.collect()
    return any(type(found) is MessagePrototype and words.encode() in found.body for found in gc.get_objects())


@pytest.mark.sqlite_suffices
class TestErasure:
    @pytest.mark.slow
    @pytest.mark.parametrize("given", ERASURES.values(), ids=ERASURES)
    def test_erased_threads_leave_no_bytes_in_storage(self, open_url, analyze, given):
        with AgentMemory(open_url) as memory:
            write_distinctive_words(memory)
            Line(memory.checkpointer, "other").put({"text": "somebody else's words " * 20})
            analyze(memory)
            assert len(traces(memory, open_url)) > 8
            namespace, report = (WORDS["namespace"], "deeper"), memory.erase(**given)
            assert report.threads == (2 if given == {"namespace": ()} else 1)
            assert memory.checkpointer.get_tuple(within(WORDS["thread"], namespace=namespace)) is None
            assert len(everything(memory.checkpointer, "other")) == (given != {"namespace": ()})
            assert memory.admin.verify().problems == ()
            assert traces(memory, open_url) == []

    @pytest.mark.slow
    def test_erasure_removes_bytes_of_earlier_deletions(self, open_url, analyze):
        with AgentMemory(open_url) as memory:
            write_distinctive_words(memory)
            analyze(memory)
            memory.checkpointer.prune([WORDS["thread"]])
            memory.checkpointer.delete_thread(WORDS["thread"])
            memory.erase(thread_id="nobody")
            assert traces(memory, open_url) == []

    @pytest.mark.slow
    def test_removed_messages_leave_the_process_cache(self, memory):
        saver = memory.checkpointer
        chat_graph(saver).invoke({"messages": ["somebody else's"]}, at("other"))
        for remove in (
            lambda: memory.erase(thread_id="t"),
            lambda: saver.delete_thread("t"),
            lambda: saver.prune(["t"], strategy="delete"),
        ):
            for namespace, word in (((), "of the root's"), (("a",), "of zeppelins")):
                said = [f"a word {word}", AIMessage(f"a word {word}")]
                chat_graph(saver).invoke({"messages": said}, within("t", namespace=namespace))
            list(saver.list(None))
            assert in_memory("a word of zeppelins"), "or nothing is tested"
            remove()
            assert not in_memory("a word of zeppelins")
        assert chat_graph(saver).invoke({"messages": ["more"]}, at("other"))["messages"][-1].text == "MORE"

    def test_erasing_a_namespace_erases_threads_and_conversations(self, memory):
        for namespace in (("a",), ("ab",)):
            memory.conversation("c", namespace).add_user_message("hello")
            chat_graph(memory.checkpointer).invoke({"messages": ["hello"]}, within("t", namespace=namespace))
        report = memory.erase(namespace=("a",))
        assert (report.conversations, report.threads) == (2, 1)  # that of the thread's id is one
        found = memory.checkpointer.list(None)
        assert [each.config["configurable"]["agentmem_namespace"] for each in found] == [("ab",)] * 3
        assert len(memory.conversation("c", ("ab",))) == 1

    def test_content_shared_with_a_conversation_is_kept(self, url):
        word = "shared" + WORDS["message"]
        with AgentMemory(url) as memory:
            chat = memory.conversation("c")
            chat.add_user_message(word)
            message = chat.messages[0]
            chat_graph(memory.checkpointer).invoke({"messages": [message.model_copy()]}, at())
            contents = memory.admin.stats()["contents"]
            memory.erase(thread_id="t")
            assert memory.admin.stats()["contents"] < contents
            assert memory.conversation("c").messages == [message]
            assert memory.search(word)
            assert traces(memory, url) == [WORDS["message"]]
            memory.erase(conversation_id="c")
            assert traces(memory, url) == []
            assert memory.admin.stats()["contents"] == 0


@pytest.mark.sqlite_suffices
class TestTransfer:
    @pytest.mark.slow
    @pytest.mark.parametrize("source", ["sqlite", "postgres"])
    def test_import_restores_all_threads(self, memory, new_database, tmp_path, source):
        path = tmp_path / "all.jsonl"
        with AgentMemory(new_database(source)) as exported:
            fill(exported.checkpointer)
            exported.conversation("c").add_user_message("said beside them")
            written, before = exported.export(path), seen(exported.checkpointer)
        read = memory.import_(path)
        assert read == written
        assert read.threads == len(THREADS)
        assert read.checkpoints == memory.admin.stats()["checkpoints"] == sum(map(len, before.values()))
        assert seen(memory.checkpointer) == before
        assert memory.admin.verify().problems == ()
        go_on(memory.checkpointer)
        assert memory.admin.verify().problems == ()

    def test_reimport_keeps_new_and_restores_pruned_checkpoints(self, memory, tmp_path):
        saver = memory.checkpointer
        fill(saver)
        before = seen(saver)
        memory.export(tmp_path / "all.jsonl")
        texts = go_on(saver)
        after = seen(saver)
        memory.import_(tmp_path / "all.jsonl")
        assert seen(saver) == after
        saver.prune(["chat", "asking", "line"])
        memory.import_(tmp_path / "all.jsonl")
        assert [m.text for m in chat_graph(saver).get_state(at("chat")).values["messages"]] == texts
        now = seen(saver)
        for thread in ("chat", "asking", "line"):
            kept = {each[:2]: each for each in now[thread]}
            assert all(kept[each[:2]][3:5] == each[3:5] for each in before[thread])
        assert memory.admin.verify().problems == ()

    def test_encrypted_threads_are_exported_without_the_key(self, memory, new_database, tmp_path):
        saver = AgentMemorySaver(memory, serde=aes())
        chat_graph(saver).invoke({"messages": [HumanMessage("secret words", id="m")]}, at())
        delta_graph(saver).invoke({"log": ["secret log"]}, at("delta"))
        outer_graph(saver).invoke({"log": ["secret log"]}, at("outer"))
        before = [everything(saver, thread) for thread in ("t", "delta", "outer")]
        memory.export(tmp_path / "all.jsonl")
        assert b"secret" not in (tmp_path / "all.jsonl").read_bytes().lower()
        with AgentMemory(new_database("sqlite")) as other:
            other.import_(tmp_path / "all.jsonl")
            read = AgentMemorySaver(other, serde=aes())
            assert [everything(read, thread) for thread in ("t", "delta", "outer")] == before
            assert other.admin.verify().problems == ()
            chat_graph(read).invoke({"messages": ["more"]}, at())
            assert read.get(at())["channel_values"]["messages"][0].text == "secret words"

    def test_export_rejects_damaged_threads(self, memory, raw, tmp_path):
        Line(memory.checkpointer).put({"text": "long " * 200})
        for sql, blob in (("update content set body = :blob", {"blob": b"damaged"}), ("delete from part", {})):
            raw(memory, sql, **blob)
            with pytest.raises(StorageError, match="cannot be exported"):
                memory.export(tmp_path / "all.jsonl")
            assert not (tmp_path / "all.jsonl").exists()


class TestBackup:
    def test_an_in_memory_database_can_be_backed_up(self, tmp_path):
        with AgentMemory() as memory:
            fill(memory.checkpointer)
            before = seen(memory.checkpointer)
            path = memory.admin.backup(tmp_path / "copy.db")
        with AgentMemory(path) as copy:
            assert seen(copy.checkpointer) == before
            assert copy.admin.verify().problems == ()
            go_on(copy.checkpointer)

    def test_a_backup_during_a_run_is_consistent(self, tmp_path, url):
        with AgentMemory(url) as memory:
            saver, paths = memory.checkpointer, []

            def back_up(state):
                paths.append(memory.admin.backup(tmp_path / f"copy{len(paths)}"))
                return {"log": [f"copied {len(state['log'])}"]}

            logging_graph(saver, "a", "copy", "b", nodes={"copy": back_up}).invoke(
                {"log": ["in"]}, at(), durability="sync"
            )
            if memory.database.engine.dialect == "sqlite":
                with AgentMemory(paths[0]) as copy:
                    assert copy.admin.verify().problems == ()
                    assert copy.checkpointer.get(at())["channel_values"]["log"] == ["in", "a"]
                    graph = logging_graph(copy.checkpointer, "a", "copy", "b")
                    assert graph.invoke(None, at())["log"] == ["in", "a", "copy", "b"]
