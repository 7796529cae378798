"""The app, served by `langgraph dev` and used by its client."""

from __future__ import annotations

import asyncio
import re
import uuid

import pytest
from langgraph_sdk.errors import BadRequestError, NotFoundError

from .serving import TURN, ask, said, tells, texts

NOTE = "The bicycle is green."
LIVES = "Ana lives in Lisbon"


def facts(answer):
    """When which place is told of."""
    return {
        " ".join(each) for each in re.findall(r"^- \[fact, (since|from) .*\] Ana lives in (\w+)", answer, re.MULTILINE)
    }


def newest(client, thread):
    return client.threads.get_state(thread)["checkpoint"]["checkpoint_id"]


def tell(client, thread):
    """Two turns. The checkpoint between them is given back."""
    ask(client, thread, "Hello!")
    between = newest(client, thread)
    assert ask(client, thread, "Remember: The bicycle is green.") == "I will remember that."
    return between


class TestThreads:
    def test_thread_recalls_its_notes_and_facts(self, client, thread):
        tell(client, thread)
        ask(client, thread, "Ana lives in Lisbon.")

        assert tells(ask(client, thread, "What colour has the bicycle?"), NOTE)
        assert LIVES in ask(client, thread, "Where does Ana live?")

    def test_other_threads_recall_messages_and_notes(self, client, thread):
        ask(client, thread, "The piano was made in Leipzig.")
        ask(client, thread, "Remember: The piano needs tuning in May.")
        other = client.threads.create()["thread_id"]

        answer = ask(client, other, "What about the piano?")

        assert "The piano was made in Leipzig." in answer
        assert tells(answer, "The piano needs tuning in May.")

    def test_history_is_complete_and_newest_first(self, client, thread):
        ask(client, thread, "Hello!")

        history = client.threads.get_history(thread, limit=100)

        assert [state["metadata"]["step"] for state in history] == [4, 3, 2, 1, 0, -1]
        assert [state["next"] for state in history[1:]] == [
            ["facts"],
            ["answer"],
            ["recall"],
            ["compact"],
            ["__start__"],
        ]
        assert texts(history[0]["values"]) == ["Hello!", "I know nothing of that."]
        before = client.threads.get_history(thread, limit=2, before=history[2]["checkpoint"])
        assert [state["metadata"]["step"] for state in before] == [1, 0]

    def test_async_client_reads_the_same_state_and_history(self, server, client, thread):
        ask(client, thread, "Hello!")

        async def read():
            async with server.aclient() as aclient:
                state = await aclient.threads.get_state(thread)
                return state, await aclient.threads.get_history(thread, limit=100)

        state, history = asyncio.run(read())
        assert (state, history) == (client.threads.get_state(thread), client.threads.get_history(thread, limit=100))

    def test_state_is_updated(self, client, thread):
        ask(client, thread, "Hello!")

        client.threads.update_state(thread, said("Edited in."), as_node="facts")

        state = client.threads.get_state(thread)
        assert texts(state["values"])[-1] == "Edited in."
        assert state["next"] == []
        assert state["metadata"]["source"] == "update"

    def test_state_can_be_written_before_the_first_run(self, client):
        thread = client.threads.create(graph_id="agent")["thread_id"]
        checkpoint = {
            "thread_id": thread,
            "checkpoint_ns": "",
            "agentmem_namespace": TURN["configurable"]["agentmem_namespace"],
        }

        client.threads.update_state(thread, said("The key is here."), as_node="facts", checkpoint=checkpoint)

        answer = ask(client, thread, "Hello!")
        assert texts(client.threads.get_state(thread)["values"]) == ["The key is here.", "Hello!", answer]

    def test_deleted_thread_keeps_the_shared_memories(self, client, thread):
        tell(client, thread)

        client.threads.delete(thread)

        with pytest.raises(NotFoundError):
            client.threads.get_state(thread)
        client.threads.create(thread_id=thread, graph_id="agent")
        assert client.threads.get_state(thread)["values"] == {}
        assert tells(ask(client, thread, "What colour has the bicycle?"), NOTE)

    def test_prune_deletes_several_threads(self, client):
        threads = [client.threads.create()["thread_id"] for _ in range(3)]
        for each in threads:
            ask(client, each, "Hello!")

        client.threads.prune(threads)

        for each in threads:
            client.threads.create(thread_id=each, graph_id="agent")
            assert client.threads.get_state(each)["values"] == {}


class TestTimeTravel:
    def test_notes_rewind_with_the_thread(self, client, thread):
        between = tell(client, thread)
        assert tells(ask(client, thread, "What colour has the bicycle?"), NOTE)

        answer = ask(client, thread, "What colour has the bicycle?", checkpoint_id=between)

        assert not tells(answer, NOTE)
        said_now = texts(client.threads.get_state(thread)["values"])
        assert said_now == ["Hello!", "I know nothing of that.", "What colour has the bicycle?", answer]

    def test_abandoned_branch_stays_available(self, client, thread):
        between = tell(client, thread)
        left = newest(client, thread)
        ask(client, thread, "Never mind.", checkpoint_id=between)

        assert tells(ask(client, thread, "What colour has the bicycle?", checkpoint_id=left), NOTE)

    def test_facts_rewind_with_the_thread(self, client, thread):
        ask(client, thread, "Ana lives in Lisbon.")
        lisbon = newest(client, thread)
        ask(client, thread, "Ana lives in Porto.")
        now = facts(ask(client, thread, "Where does Ana live?"))
        then = facts(ask(client, thread, "Where does Ana live?", checkpoint_id=lisbon))

        assert (now, then) == ({"since Porto", "from Lisbon"}, {"since Lisbon"})

    def test_fork_by_update_has_its_checkpoints_memory(self, client, thread):
        between = tell(client, thread)
        checkpoint = {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": between}

        client.threads.update_state(
            thread, said("What colour has the bicycle?"), as_node="__start__", checkpoint=checkpoint
        )
        answer = texts(client.runs.wait(thread, "agent", config=TURN))[-1]

        assert not tells(answer, NOTE)


class TestCopies:
    def test_copy_has_history_and_memory_and_diverges(self, client, thread):
        tell(client, thread)

        copy = client.threads.copy(thread)["thread_id"]
        ask(client, copy, "Remember: The boat is red.")

        assert tells(ask(client, copy, "What colour has the bicycle?"), NOTE)
        assert tells(ask(client, copy, "What colour has the boat?"), "The boat is red.")
        assert tells(ask(client, thread, "What colour has the boat?"), "The boat is red.")
        assert len(client.threads.get_state(thread)["values"]["messages"]) < len(
            client.threads.get_state(copy)["values"]["messages"]
        )

    def test_copy_survives_deletion_of_its_original(self, client, thread):
        tell(client, thread)
        copy = client.threads.copy(thread)["thread_id"]

        client.threads.delete(thread)

        assert texts(client.threads.get_state(copy)["values"])[0] == "Hello!"
        assert tells(ask(client, copy, "What colour has the bicycle?"), NOTE)


class TestRuns:
    def test_stream_has_values_updates_and_tokens(self, client, thread):
        modes = ["values", "updates", "messages-tuple"]
        parts = list(client.runs.stream(thread, "agent", input=said("Hello!"), config=TURN, stream_mode=modes))

        of = {kind: [part.data for part in parts if part.event == kind] for kind in ("values", "updates")}
        assert texts(of["values"][-1]) == ["Hello!", "I know nothing of that."]
        assert [next(iter(data)) for data in of["updates"]] == ["compact", "recall", "answer", "facts"]
        tokens = [data[0]["content"] for kind, data, *_ in parts if kind == "messages"]
        assert "".join(tokens) == "I know nothing of that."
        assert "error" not in {part.event for part in parts}

    def test_background_run_is_joined(self, client, thread):
        run = client.runs.create(thread, "agent", input=said("Hello!"), config=TURN)

        assert texts(client.runs.join(thread, run["run_id"]))[-1] == "I know nothing of that."
        assert client.runs.get(thread, run["run_id"])["status"] == "success"

    def test_interrupted_run_resumes(self, client, thread):
        client.runs.wait(
            thread, "agent", input=said("Remember: The bicycle is green."), config=TURN, interrupt_before=["tools"]
        )
        assert client.threads.get_state(thread)["next"] == ["tools"]

        assert texts(client.runs.wait(thread, "agent", config=TURN))[-1] == "I will remember that."
        assert ask(client, thread, "What colour has the bicycle?").count(NOTE) == 1

    def test_rolled_back_run_leaves_no_memories(self, client, thread):
        ask(client, thread, "Hello!")
        run = client.runs.create(
            thread, "agent", input=said("Remember: The bicycle is green."), config=TURN, interrupt_after=["tools"]
        )
        client.runs.join(thread, run["run_id"])
        assert client.threads.get_state(thread)["next"] == ["compact"]

        client.runs.delete(thread, run["run_id"])

        assert texts(client.threads.get_state(thread)["values"]) == ["Hello!", "I know nothing of that."]
        assert not tells(ask(client, thread, "What colour has the bicycle?"), NOTE)

    def test_concurrent_runs_do_not_mix(self, server):
        async def one(client, number):
            thread = (await client.threads.create())["thread_id"]
            config = {"configurable": {"agentmem_namespace": [f"guest{number}"]}}
            for text in (f"Remember: Box {number} holds marbles.", "Who holds marbles?"):
                values = await client.runs.wait(thread, "agent", input=said(text), config=config)
            return re.findall(r"Box \d holds marbles\.", texts(values)[-1])

        async def all_of_them():
            async with server.aclient() as client:
                return await asyncio.gather(*(one(client, number) for number in range(4)))

        assert asyncio.run(all_of_them()) == [[f"Box {number} holds marbles."] for number in range(4)]

    def test_stateless_run_without_kept_thread_is_refused(self, client):
        with pytest.raises(Exception, match="needs this memory's checkpointer"):
            client.runs.wait(None, "agent", input=said("Hello!"), config=TURN)

        kept = client.runs.wait(None, "agent", input=said("Hello!"), config=TURN, on_completion="keep")
        assert texts(kept)[-1] == "I know nothing of that."

    def test_invalid_namespace_is_refused(self, client, thread):
        with pytest.raises(Exception, match="A namespace is a tuple of strings"):
            ask(client, thread, "Hello!", config={"configurable": {"agentmem_namespace": "ada"}})


class TestStore:
    def test_items_are_put_found_listed_and_deleted(self, client):
        top = f"library-{uuid.uuid4().hex}"
        client.store.put_item([top, "music"], "n1", {"text": "Ana plays the violin on Sundays."})
        client.store.put_item([top, "food"], "n2", {"text": "Bob cooks lentils."})

        item = client.store.get_item([top, "music"], "n1")
        assert (item["value"], item["namespace"]) == ({"text": "Ana plays the violin on Sundays."}, [top, "music"])
        [found] = client.store.search_items([top], query="Who plays the violin?")["items"]
        assert (found["key"], found["score"] > 0) == ("n1", True)
        by_field = client.store.search_items([top], filter={"text": {"$eq": "Bob cooks lentils."}})["items"]
        assert [each["key"] for each in by_field] == ["n2"]
        assert client.store.list_namespaces(prefix=[top])["namespaces"] == [[top, "food"], [top, "music"]]
        client.store.delete_item([top, "music"], "n1")
        assert client.store.search_items([top], query="violin")["items"] == []

    def test_item_is_recalled_only_in_its_namespace(self, client, thread):
        client.store.put_item(
            TURN["configurable"]["agentmem_namespace"], "clock", {"text": "The clock is ten minutes fast."}
        )
        other = client.threads.create()["thread_id"]
        bob = {"configurable": {"agentmem_namespace": ["bob"]}}

        assert "The clock is ten minutes fast." in ask(client, thread, "Is the clock right?")
        assert ask(client, other, "Is the clock right?", config=bob) == "I know nothing of that."

    def test_item_expires_after_its_ttl(self, client):
        client.store.put_item(["ada", "short"], "k", {"text": "soon gone"}, ttl=0.0005)

        while client.store.get_item(["ada", "short"], "k", refresh_ttl=False) is not None:
            continue
        assert client.store.search_items(["ada", "short"])["items"] == []

    def test_invalid_ttl_and_operators_are_refused(self, client):
        with pytest.raises(BadRequestError, match="ttl must be a positive number of minutes"):
            client.store.put_item(["ada"], "k", {"text": "never"}, ttl=0)
        with pytest.raises(BadRequestError, match="Unsupported operator"):
            client.store.search_items(["ada"], filter={"text": {"$like": "x"}})


class TestServerProcess:
    def test_server_makes_no_outside_calls_or_blocking_calls(self, server, client, thread):
        ask(client, thread, "Hello!")

        assert server.calls() == ""
        assert "BlockingError" not in server.log()
        assert "Using custom checkpointer" in server.log()
        assert "Custom checkpointer missing" not in server.log()
        assert not list(server.folder.glob(".langgraph_api/*checkpoint*"))
