"""A client and a LangGraph agent that share one database."""

from __future__ import annotations

from langchain_agentmem_mcp import create_server
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from mcp import Client

from langchain_agentmem import AgentMemory

from .conftest import asking
from .served import over_stdio


def agent_of(memory):
    """A graph that keeps what it is told, and answers with what it finds."""

    def answer(state):
        said, who = state["messages"][-1].text, ("alice",)
        found = memory.search(said, namespace=who, kinds=["record"], limit=5)  # not what was just said
        memory.store.put(who, "last", {"text": f"Noted: {said}"})
        memory.layers("main", who).core.set("last said", said)
        memory.facts("main", who).add_fact("user", "Ana", "lives in", "Lisbon")
        core = memory.layers("main", who).core.get("mood").get("mood")
        return {"messages": [AIMessage(f"{core}: {found[0].text if found else 'nothing'}")]}

    builder = StateGraph(MessagesState).add_node(answer).add_edge(START, "answer")
    return builder.compile(checkpointer=memory.checkpointer, store=memory.store)


async def test_client_and_agent_share_one_memory(sqlite_url):
    thread = {"configurable": {"thread_id": "thread-1", "agentmem_namespace": ("alice",)}}
    with AgentMemory(sqlite_url) as memory:
        agent = agent_of(memory)

        def said(text):
            return agent.invoke({"messages": [("user", text)]}, thread)["messages"][-1].text

        assert said("My sister Ana paints tiles.") == "None: nothing"
        # The client is another process, which knows nothing of LangGraph.
        async with over_stdio(sqlite_url, "--namespace", "alice") as client:
            ask = asking(client)
            found = {each["kind"] for each in (await ask("search_memory", query="Ana tiles"))["results"]}
            assert found == {"message", "item", "fact"}
            [conversation] = (await ask("list_conversations"))["conversations"]
            read = (await ask("read_conversation", conversation_id=conversation["conversation_id"]))["messages"]
            told = [(message["role"], message["text"]) for message in read]
            assert told == [("user", "My sister Ana paints tiles."), ("assistant", "None: nothing")]
            [entry] = (await ask("read_core_memory"))["entries"]
            assert entry["value"] == "My sister Ana paints tiles."
            await ask("add_fact", subject="Ana", predicate="lives in", object="Porto")
            await ask("set_core_memory", key="mood", value="cheerful")
            await ask("remember", text="The bicycle is green.")
        assert said("Which colour has the bicycle?") == "cheerful: The bicycle is green."
        facts = memory.facts("main", ("alice",))
        assert [fact.object for fact in facts.as_of(subject="Ana")] == ["Lisbon"]  # which the agent said again
        assert [fact.object for fact in facts.history("Ana")] == ["Lisbon", "Porto", "Lisbon"]


async def test_writes_of_an_agent_are_visible_immediately(memory, client, ask):
    agent = agent_of(memory)
    thread = {"configurable": {"thread_id": "t", "agentmem_namespace": ("alice",)}}
    for text in ("One pear.", "Two pears."):
        await agent.ainvoke({"messages": [("user", text)]}, thread)
        [entry] = (await ask("read_core_memory"))["entries"]
        assert entry["value"] == text
    async with Client(create_server(memory, namespace=("bob",))) as other:
        assert await asking(other)("read_core_memory") == {"entries": []}
