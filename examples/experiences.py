"""Add experiences to a prompt: instructions that a team writes as files, each with a condition.

Run it with `python examples/experiences.py`. It needs no extra and no key, because a function replaces the model. The
selector compares words of the conversation with the conditions. With `selector(model="openai:…")`, a model selects.
"""

import tempfile
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph

from langchain_agentmem import AgentMemory, CompactionState, Experience

HANDCRAFTED = [
    Experience(
        "refund-needs-order",
        when="Use when a customer asks for a refund, or wants their money back.",
        what="Ask for the order number before you promise anything.",
    ),
    Experience(
        "late-parcel",
        when="Use when a parcel, a delivery or a shipment is late or lost. Not when it has not been ordered yet.",
        what="Look up the tracking number first, and tell the newest place where the parcel was seen.",
    ),
    Experience(
        "angry-customer",
        who=("Escalation",),
        when="Use when a customer is angry or wants to complain.",
        what="Apologise once, and offer a call.",
    ),
]


def support(state: CompactionState) -> dict[str, Any]:
    """Stand in for the model: print the prompt, and answer."""
    for message in state["llm_input_messages"]:
        print("\n".join(f"    {message.type:<7} {line}" for line in message.text.splitlines()))
    knows = any("order number" in message.text for message in state["llm_input_messages"])
    return {"messages": [AIMessage("What is the number of your order?" if knows else "How can I help?")]}


def main(folder: Path) -> None:
    """Answer three messages of a customer."""
    (folder / "experience").mkdir()
    with AgentMemory(folder / "agent.db") as memory:
        library = memory.experiences(folder / "experience")
        for experience in HANDCRAFTED:
            library.add(experience)
        builder = StateGraph(CompactionState, input_schema=MessagesState)
        builder.add_node("experience", library.selector(role="Support")).add_node(support)
        builder.add_edge(START, "experience").add_edge("experience", "support")
        graph = builder.compile(checkpointer=memory.checkpointer)
        thread: RunnableConfig = {"configurable": {"thread_id": "chat"}}
        said: list[AnyMessage] = []
        for text in ("Hello!", "I want a refund for the kettle.", "No, check its warranty first."):
            print(f"user> {text}")
            said = graph.invoke({"messages": [HumanMessage(text)]}, thread)["messages"]
            print(f"agent> {said[-1].text}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
