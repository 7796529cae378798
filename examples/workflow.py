"""Use every part of the memory in one LangGraph agent.

Run it with `python examples/workflow.py`. It needs no extra and no key, because a script replaces the model. Use any
LangChain chat model instead: `model = init_chat_model("openai:…").bind_tools(tools)`.
"""

import tempfile
from pathlib import Path
from typing import Any

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.store.base import BaseStore

from langchain_agentmem import AgentMemory, CompactionState, Experience, ManagedMemoryConfig

SAID = ["I eat no nuts.", "My sister Ana lives in Lisbon. We saw " + "a tram, " * 99, "Book a table near Ana, please."]
SET = {"name": "mem_core_set", "args": {"key": "diet", "value": "No nuts."}, "id": "call-1"}
SCRIPT = [AIMessage("", tool_calls=[SET]), AIMessage("Noted."), AIMessage("So many!"), AIMessage("For how many?")]
FACTS = ["[]", '[{"message": 1, "subject": "Ana", "predicate": "lives in", "object": "Lisbon"}]', "[]"]
ASK = Experience("ask-first", when="Use when a table is booked.", what="Ask for how many people.")
BUDGET = ManagedMemoryConfig(threshold_tokens=150)


def build(memory: AgentMemory, folder: Path) -> Any:
    """Build the graph. Before each model call, it compacts the context, and adds memory and experiences."""
    model, facts = GenericFakeChatModel(messages=iter(SCRIPT)), iter(FACTS)
    tools = memory.tools()  # tools for core memory, archival memory, and messages that left the context
    library = memory.experiences(folder)
    library.add(ASK)

    def agent(state: CompactionState, *, store: BaseStore) -> dict[str, Any]:
        profile = store.get(("users", "ada"), "profile")  # shared by all threads
        system = SystemMessage(f"You plan trips. The user's name is {profile.value['name'] if profile else 'unknown'}.")
        return {"messages": [model.invoke([system, *state["llm_input_messages"]])]}

    builder = StateGraph(CompactionState, input_schema=MessagesState)
    # Each of these nodes changes the context ("llm_input_messages") that the previous one returned.
    builder.add_node("compact", memory.compaction(lambda _: "They saw many trams.", BUDGET))
    builder.add_node("inject", memory.inject())
    builder.add_node("experience", library.selector())
    builder.add_node(agent).add_node("tools", ToolNode(tools))
    builder.add_node("facts", memory.remember_facts(lambda _: next(facts)))
    builder.add_edge(START, "compact").add_edge("compact", "inject").add_edge("inject", "experience")
    builder.add_edge("experience", "agent").add_edge("tools", "compact")
    builder.add_conditional_edges("agent", tools_condition, {"tools": "tools", "__end__": "facts"})
    return builder.compile(checkpointer=memory.checkpointer, store=memory.store)


def main(folder: Path) -> None:
    with AgentMemory(folder / "agent.db") as memory:
        memory.store.put(("users", "ada"), "profile", {"name": "Ada"})
        graph = build(memory, folder)
        thread: RunnableConfig = {"configurable": {"thread_id": "trip"}, "callbacks": [memory.audit.handler()]}
        for text in SAID:
            reply = graph.invoke({"messages": [HumanMessage(text)]}, thread)["messages"][-1]
            print(f"user>  {text:.60}\nagent> {reply.text}")

        print("--- what the model was shown at the end")
        for message in memory.audit.last(1)[0].messages:
            print("\n".join(f"{message.role:>9}: {line}" for line in str(message.content).splitlines()))
        print("--- what is remembered")
        now = graph.get_state(thread).config
        print("core memory:", memory.layers(now).core.get())
        print("facts:", [fact.text for fact in memory.facts(now).as_of()])
        print("audit:", len(memory.audit.last(10)), "calls of the model, whole:", memory.audit.verify().ok)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
