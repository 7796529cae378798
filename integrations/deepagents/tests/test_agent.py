"""A real deep agent with a scripted model on this backend, synchronous and asynchronous."""

from __future__ import annotations

import asyncio

import pytest
from deepagents import FilesystemPermission
from deepagents.backends import CompositeBackend, StateBackend
from langchain_agentmem_deepagents import AgentMemoryBackend
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from langchain_agentmem import AgentMemory

DONE = AIMessage("Done.")
once = pytest.mark.parametrize("agents", ["async"], indirect=True)
"""For what does not depend on how the agent is run."""


async def test_agent_reads_writes_and_searches_files(memory, agents, thread):
    call = agents.call
    agent = agents.make(
        memory,
        call("write_file", file_path="/plan.md", content="one\ntwo\n"),
        call("edit_file", file_path="/plan.md", old_string="two", new_string="2"),
        call("read_file", file_path="/plan.md", offset=1),
        call("write_file", file_path="/memories/ana.md", content="Ana lives in Lisbon."),
        call("ls", path="/"),
        call("glob", pattern="*.md"),
        call("grep", pattern="Lisbon", output_mode="content"),
        call("delete", file_path="/plan.md"),
        call("read_file", file_path="/plan.md"),
        DONE,
    )
    said = [message.text for message in await agents.run(agent, "go", thread()) if message.type == "tool"]
    assert "2" in said[2]
    assert "one" not in said[2]
    assert said[4] == "['/memories/', '/plan.md']"
    assert "/plan.md" in said[5]
    assert "/memories/ana.md" in said[5]
    assert "Ana lives in Lisbon." in said[6]
    assert "not found" in said[8]


async def test_files_rewind_with_the_thread_but_memories_persist(memory, agents, thread):
    call, config = agents.call, thread()
    agent = agents.make(
        memory,
        call("write_file", file_path="/plan.md", content="go by train"),
        call("write_file", file_path="/memories/a.md", content="likes trains"),
        DONE,
        call("edit_file", file_path="/plan.md", old_string="train", new_string="plane"),
        call("edit_file", file_path="/memories/a.md", old_string="trains", new_string="planes"),
        DONE,
        call("read_file", file_path="/plan.md"),
        call("read_file", file_path="/memories/a.md"),
        DONE,
    )
    await agents.run(agent, "go", config)
    then = agent.get_state(config).config
    await agents.run(agent, "better", config)
    backend = AgentMemoryBackend(memory)
    assert backend.at(config).read("/plan.md").file_data["content"] == "go by plane"
    assert backend.at(then).read("/plan.md").file_data["content"] == "go by train"
    messages = await agents.run(agent, "what was the plan?", then)
    assert "go by train" in messages[-4].text
    assert "likes planes" in messages[-2].text
    assert backend.at(config).read("/plan.md").file_data["content"] == "go by train", "the thread went on from there"


@once
async def test_copied_thread_keeps_files_and_deleted_has_none(memory, agents, thread):
    config = thread()
    agent = agents.make(memory, agents.call("write_file", file_path="/a.md", content="a secret of ours"), DONE)
    await agents.run(agent, "go", config)
    assert memory.search("secret", config=config)
    memory.checkpointer.copy_thread("monday", "tuesday")
    memory.checkpointer.delete_thread("monday")
    assert AgentMemoryBackend(memory).at(thread("tuesday")).read("/a.md").file_data["content"] == "a secret of ours"
    memory.checkpointer.delete_thread("tuesday")
    assert AgentMemoryBackend(memory).at(config).ls("/").entries == []
    assert not memory.search("secret", kinds=["item"])


async def test_parallel_tool_calls_keep_every_file(memory, agents, thread):
    wanted = [agents.call("write_file", file_path=f"/{n}.md", content=f"number {n}") for n in range(6)]
    agent = agents.make(memory, agents.calls(*wanted), DONE)
    await agents.run(agent, "go", thread())
    found = AgentMemoryBackend(memory).at(thread()).grep("number").matches
    assert [(each["path"], each["text"]) for each in found] == [(f"/{n}.md", f"number {n}") for n in range(6)]


async def test_subagents_share_files_with_their_parent(memory, agents, thread):
    call = agents.call
    agent = agents.make(
        memory,
        call("write_file", file_path="/task.md", content="count whales"),
        call("task", description="read the task", subagent_type="general-purpose"),
        call("read_file", file_path="/task.md"),
        call("write_file", file_path="/report.md", content="nine whales"),
        AIMessage("Counted."),
        call("read_file", file_path="/report.md"),
        DONE,
    )
    messages = await agents.run(agent, "go", thread())
    assert "nine whales" in messages[-2].text
    assert any("count whales" in message.text for message in agents.seen[3])


@once
async def test_large_tool_result_is_stored_and_readable(memory, agents, thread):
    @tool
    def survey() -> str:
        """Count all whales."""
        return "".join(f"whale {number} was seen\n" for number in range(20_000))

    call = agents.call
    agent = agents.make(
        memory,
        call("survey"),
        call("grep", pattern="whale 19999 ", path="/large_tool_results", output_mode="content"),
        DONE,
        tools=[survey],
    )
    messages = await agents.run(agent, "go", thread())
    assert len(messages[2].text) < 20_000
    assert "whale 19999 was seen" in messages[4].text
    [kept] = AgentMemoryBackend(memory).at(thread()).ls("/large_tool_results").entries
    assert kept["size"] > 400_000
    assert memory.search("whale 19999", config=thread(), kinds=["item"])
    assert AgentMemoryBackend(memory).at(thread("tuesday")).ls("/").entries == [], "it is this thread's"


@once
async def test_summarized_history_is_stored_and_rewinds(memory, agents, thread):
    config = thread()
    words = "the whales of the north " * 60
    agent = agents.make(memory, *[AIMessage(f"{n}: {words}") for n in range(16)], window=6_000)
    before = None
    for number in range(16):
        await agents.run(agent, f"question {number}", config)
        if before is None and AgentMemoryBackend(memory).at(config).ls("/conversation_history").entries:
            before = agent.get_state(config).config
    backend = AgentMemoryBackend(memory)
    [kept] = backend.at(config).ls("/conversation_history").entries
    text = backend.at(config).download_files([kept["path"]])[0].content.decode()
    assert "question 0" in text
    assert text.count("## Summarized at") > 1
    [earlier] = backend.at(before).ls("/conversation_history").entries
    assert earlier["size"] < kept["size"], "a checkpoint has the history of then"
    assert any("They counted the whales" in message.text for message in agents.seen[-1])


@once
async def test_shared_memories_are_visible_in_other_threads(memory, agents, thread):
    call = agents.call
    learn = call("edit_file", file_path="/memories/AGENTS.md", old_string="kind", new_string="kind to Ana")
    agent = agents.make(memory, learn, DONE, DONE, memory=["/memories/AGENTS.md"])
    AgentMemoryBackend(memory, ("alice",)).upload_files([("/memories/AGENTS.md", b"Be kind.")])
    await agents.run(agent, "go", thread("monday", ("alice",)))
    await agents.run(agent, "hello", thread("tuesday", ("alice",)))
    assert "Be kind to Ana." in agents.seen[-1][0].text, "it stands in the prompt"


@once
async def test_users_are_isolated(memory, agents, thread):
    call = agents.call
    secret = call("write_file", file_path="/memories/secret.md", content="4711")
    look = [call("read_file", file_path="/memories/secret.md"), call("grep", pattern="4711")]
    agent = agents.make(memory, secret, DONE, *look, call("ls", path="/memories/../../alice"), DONE)
    await agents.run(agent, "go", thread("t", ("alice",)))
    messages = await agents.run(agent, "tell me", thread("t", ("bob",)))
    assert not any("4711" in message.text for message in messages if message.type == "tool")


@once
async def test_hostile_paths_return_errors_and_the_run_continues(memory, agents, thread):
    call = agents.call
    wanted = [
        call("write_file", file_path=path, content="x")
        for path in ("../a", "/a\0b", "/a/../../b", "~/a", "/" + "x" * 3000)
    ]
    agent = agents.make(memory, *wanted, call("read_file", file_path="/\x7f"), DONE)
    messages = await agents.run(agent, "go", thread())
    said = [message.text for message in messages if message.type == "tool"]
    assert len(said) == 6
    assert all("rror" in text for text in said), said
    assert AgentMemoryBackend(memory).at(thread()).ls("/").entries == []


async def test_concurrent_agents_lose_no_edits(memory, thread, agents):
    call = agents.call
    AgentMemoryBackend(memory).write("/memories/tally.md", "a0 b0")

    def turns(letter):
        for n in range(8):
            yield call(
                "edit_file", file_path="/memories/tally.md", old_string=f"{letter}{n}", new_string=f"{letter}{n + 1}"
            )

    both = [agents.make(memory, *turns(letter), DONE) for letter in "ab"]
    await asyncio.gather(*(
        asyncio.to_thread(agent.invoke, {"messages": [("user", "go")]}, thread(str(n))) if agents.mode == "sync"
        else agents.run(agent, "go", thread(str(n)))
        for n, agent in enumerate(both)
    ))  # fmt: skip
    kept = AgentMemoryBackend(memory).read("/memories/tally.md").file_data["content"]
    assert kept == "a8 b8"


@once
async def test_backend_works_in_composites_and_with_permissions(memory, agents, thread):
    call = agents.call
    memories = AgentMemoryBackend(memory, shared=("/",))
    agent = agents.make(
        memory,
        call("write_file", file_path="/plan.md", content="plan"),
        call("write_file", file_path="/memories/a.md", content="kept"),
        call("write_file", file_path="/memories/policy.md", content="mine"),
        call("ls", path="/memories"),
        DONE,
        backend=CompositeBackend(default=StateBackend(), routes={"/memories/": memories}),
        permissions=[FilesystemPermission(operations=["write"], paths=["/memories/policy.md"], mode="deny")],
    )
    messages = await agents.run(agent, "go", thread())
    assert "permission denied" in messages[6].text.lower()
    assert messages[8].text == "['/memories/a.md']"
    assert memories.read("/a.md").file_data["content"] == "kept"


@once
async def test_foreign_checkpointer_is_refused(memory, agents, thread):
    agent = agents.make(memory, agents.call("write_file", file_path="/a.md", content="x"), DONE)
    agent.checkpointer = AgentMemory().checkpointer
    with pytest.raises(Exception, match="checkpointer"):
        await agents.run(agent, "go", thread())
