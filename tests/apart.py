"""Isolation of two memories in one database: their content, and the check."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from langchain_agentmem import AgentMemory, InvalidInput

RUN = {"configurable": {"thread_id": "t"}, "metadata": {"run_id": "run"}}


def chat(memory: AgentMemory, text: str) -> None:
    """One turn of the thread "t", whose node remembers it as well."""

    def node(state, config):
        memory.layers(config).core.set("thread", text)
        return {"messages": [AIMessage(f"noted {text}")]}

    graph = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node")
    graph.compile(checkpointer=memory.checkpointer).invoke({"messages": [HumanMessage(text)]}, RUN)


def fill(memory: AgentMemory, text: str) -> None:
    """All sorts of memory, under ids that are always the same."""
    memory.conversation("c").add_user_message(f"the fruit is {text}")
    memory.session("s").create_round(f"which fruit? {text}")
    memory.layers().core.set("fruit", text)
    memory.layers().archival.write(f"the fruit of the record is {text}")
    memory.facts().add_fact("user", "user", "grows", text)
    memory.store.put(("notes",), "k", {"text": f"the fruit of the item is {text}"})
    memory.byte_store().mset([("k", text.encode())])
    memory.audit.add("which fruit?", text)
    chat(memory, text)


def seen(memory: AgentMemory) -> dict[str, Any]:
    """Everything that a memory shows of what `fill` wrote."""
    checkpoints = memory.checkpointer
    return {
        "search": sorted(each.text for each in memory.search("fruit", limit=50, kinds=None, everything=True)),
        "conversation": [each.text for each in memory.conversation("c").messages],
        "conversations": [each.conversation_id for each in memory.conversations()],
        "session": [each.user_query for each in memory.session("s").to_conversation().rounds],
        "core": memory.layers().core.get(),
        "thread core": memory.layers(RUN).core.get(),
        "facts": [each.object for each in memory.facts().as_of()],
        "items": [each.value for each in memory.store.search(())],
        "blobs": memory.byte_store().mget(["k"]),
        "audit": [each.reply for each in memory.audit.last()],
        "state": [each.text for each in checkpoints.get_tuple(RUN).checkpoint["channel_values"]["messages"]],
        "threads": [(each.namespace, each.thread_id) for each in memory.admin.threads().threads],
        "branches": [each.namespace for each in memory.admin.branches()],
        "namespaces": [(each.namespace, each.messages) for each in memory.admin.namespaces()],
        "growth": list(memory.admin.growth(days=1)),
        "counts": memory.admin.stats(),
        "checkpoints": len([*checkpoints.list(RUN), *checkpoints.list(None)]),
    }


def check_apart(memories: Mapping[str, AgentMemory], folder: Path) -> None:
    """Check that neither of two memories shows, exports, imports, deletes or erases what is the other's.

    Args:
        memories: Both by a word that no text of the other has; a namespace of the one has its word as its last label.
        folder: Where exports may go.
    """
    for name, memory in memories.items():
        fill(memory, name)
    (first, one), (second, other) = memories.items()
    for mine, name, foreign in ((one, first, second), (other, second, first)):
        found = seen(mine)
        without = {"conversations", "growth", "counts", "checkpoints"}
        assert {key for key, part in found.items() if name not in str(part)} == without
        mine.export(folder / name)
        assert foreign not in str(found) + (folder / name).read_text(errors="replace")
    before = seen(one)
    [theirs, *_] = one.checkpointer.list(RUN)
    foreign_id = theirs.config["configurable"]["checkpoint_id"]
    assert other.checkpointer.get_tuple({"configurable": {"thread_id": "t", "checkpoint_id": foreign_id}}) is None
    other.checkpointer.delete_for_runs(["run"])
    other.checkpointer.prune(["t"], strategy="delete")
    other.checkpointer.delete_thread("t")
    chat(other, f"{second} again")
    other.checkpointer.copy_thread("t", "copy")
    other.store.delete(("notes",), "k")
    other.byte_store().mdelete(["k"])
    other.conversation("c").clear()
    assert other.erase(thread_id="t").threads == 1
    assert seen(one) == before
    one.store.put(("customers", second), "k", {"text": "theirs"})
    assert other.erase().other_namespaces == ()
    one.store.delete(("customers", second), "k")
    assert other.search("fruit", everything=True) == []
    with pytest.raises(InvalidInput, match=first):
        other.import_(folder / first)
    other.import_(folder / second)
    assert other.layers().core.get()["fruit"] == second
    assert seen(one) == before
