"""A killed server loses nothing."""

from __future__ import annotations

from langchain_agentmem import AgentMemory

from .serving import ask, tells, texts


def filled(client, thread):
    """Something of every kind; and the checkpoint before the note."""
    ask(client, thread, "The kettle is new.")
    before = client.threads.get_state(thread)["checkpoint"]["checkpoint_id"]
    ask(client, thread, "Remember: The kettle whistles.")
    client.store.put_item(["ada", "notes"], "n1", {"text": "Kettles boil water."})
    return before


def kept(client, thread, before):
    """Return whether everything is stored and rewinds."""
    answer = ask(client, thread, "What about the kettle?")
    earlier = ask(client, thread, "What about the kettle?", checkpoint_id=before)
    [item] = client.store.search_items(["ada", "notes"], query="kettles")["items"]
    note = "The kettle whistles."
    return (tells(answer, note), tells(earlier, note), item["key"]) == (True, False, "n1")


def test_killed_server_loses_nothing(server):
    with server.client() as client:
        thread = client.threads.create()["thread_id"]
        before = filled(client, thread)
        history = client.threads.get_history(thread, limit=100)

    server.kill()
    server.start(uvloop=True)

    with server.client() as client:
        client.threads.create(
            thread_id=thread, graph_id="agent", if_exists="do_nothing"
        )  # the list is the server's own
        assert client.threads.get_history(thread, limit=100) == history
        assert texts(client.threads.get_state(thread)["values"])[0] == "The kettle is new."
        assert kept(client, thread, before)

    with AgentMemory(server.folder / "agentmem.db") as memory:
        assert memory.admin.verify().ok
