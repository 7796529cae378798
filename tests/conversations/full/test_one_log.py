"""Concurrent writes to conversations, and damaged files."""

import json
import random
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from langchain_agentmem import AgentMemory, InvalidInput
from langchain_agentmem.storage import query
from tests.conversations.test_saved import everything, fill
from tests.emptying import direct
from tests.support.locks import await_waiter


@pytest.mark.sqlite_suffices
def test_duplicate_generated_id_is_rejected(url):
    with AgentMemory(url, new_id=lambda: "always the same") as memory:
        chat = memory.conversation("c")
        chat.add_user_message("one")
        with pytest.raises(Exception, match=r"UNIQUE|unique"):
            chat.add_user_message("two")
        assert [message.content for message in chat.messages] == ["one"]
        assert memory.admin.verify().ok


@pytest.mark.sqlite_suffices
def test_reader_with_description_does_not_block_on_writer(url):
    with AgentMemory(url) as memory, AgentMemory(url) as other:
        memory.conversation("c", description="Be kind.").add_user_message("hello")
        began, end = threading.Event(), threading.Event()

        def slow(tx):
            query.lock_branch(tx, path="", kind="conversation", name="c")
            query.create_namespace(tx, path="held\x1f")
            began.set()
            end.wait(120)

        writer = threading.Thread(target=other.database.engine.write, args=[slow])
        writer.start()
        try:
            assert began.wait(120)
            chat = memory.conversation("c", description="Be kind.")
            assert [message.content for message in chat.messages] == ["Be kind.", "hello"]
        finally:
            end.set()
            writer.join()


@pytest.mark.parametrize(
    ("meanwhile", "left"),
    [
        ("update branch set namespace_id = (select id from namespace where path <> '')", ["one"]),
        ("delete from branch", []),
        ("update branch set head = head + 1", None),
    ],
)
def test_blocked_write_follows_the_moved_conversation(new_database, meanwhile, left):
    with AgentMemory(new_database("postgres")) as memory, ThreadPoolExecutor(1) as pool:
        chat, elsewhere = memory.conversation("c"), memory.conversation("c", ("elsewhere",))
        memory.conversation("other", ("elsewhere",)).add_user_message("hello")
        memory.erase(namespace=("elsewhere",), conversation_id="other")
        memory.store.put(("elsewhere",), "k", {})
        chat.add_user_message("one")
        with psycopg.connect(direct(memory.database.engine._url), options="-c search_path=agentmem") as connection:
            connection.execute("select * from branch for update")
            adding = pool.submit(chat.add_user_message, "two")
            await_waiter(connection, adding)
            connection.execute(meanwhile)
        adding.result()
        assert [each.content for each in chat.messages] == (["two"] if left is not None else ["one", "two"])
        assert [each.content for each in elsewhere.messages] == (left or [])
        assert len(chat) == len(chat.messages)


@pytest.mark.sqlite_suffices
def test_damaged_file_is_rejected_or_loaded_completely(memory, tmp_path):
    chat, path = fill(memory), tmp_path / "memory.json"
    chat.save_to_file(path)
    good = path.read_text(encoding="utf-8")
    dice, refused = random.Random(7), 0
    values = list(re.finditer(r'(?<=: )("[^"]*"|-?\d+|null|true|false)', good))
    for _ in range(60):
        value, odd = (
            dice.choice(values),
            dice.choice((None, 5, -1, "", "a\0\ud800", [5], {}, 1.5, 10**30, float("inf"))),
        )
        path.write_text(good[: value.start()] + json.dumps(odd) + good[value.end() :], encoding="utf-8")
        before = everything(memory)
        try:
            chat.load_from_file(path)
        except InvalidInput:
            refused += 1
            assert everything(memory) == before
        else:
            everything(memory)
    assert 10 < refused < 60
    assert memory.admin.verify().ok
