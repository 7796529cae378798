"""Query facts at different times: where someone lived in March, and where now.

Run it with `python examples/where_in_march.py`. It needs no extra and no key, because a few rules extract the facts and
build the answers. With `memory.remember_facts("openai:…")`, a model extracts the facts.
"""

import json
import re
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph

from langchain_agentmem import AgentMemory

SHOWN = re.compile(r'<message number="(\d+)"[^>]*>\n(.*?)\n</message>', re.DOTALL)
MOVED = re.compile(r"(\w+) moved to (\w+) on ([\d-]+)")
MARCH = datetime(2024, 3, 15, tzinfo=UTC)


def extract(messages: Sequence[BaseMessage]) -> str:
    """Stand in for the model: return the facts in the numbered messages of the prompt as JSON."""
    facts = [
        {"message": int(number), "subject": who, "predicate": "lives in", "object": town, "valid_from": day}
        for number, text in SHOWN.findall(messages[-1].text)
        for who, town, day in MOVED.findall(text)
    ]
    return json.dumps({"facts": facts})


def main(database: Path) -> None:
    """Tell the agent of two moves of Ana, the second one a month late. Then ask where she lived at two times."""
    today = [datetime(2024, 1, 20, tzinfo=UTC)]
    with AgentMemory(database, clock=lambda: today[0]) as memory:

        def answer(state: MessagesState, config: RunnableConfig) -> dict[str, list[AIMessage]]:
            said = state["messages"][-1].text
            if not said.startswith("Where"):
                return {"messages": [AIMessage("I will remember that.")]}
            facts = memory.facts(config)
            [home] = facts.as_of(MARCH if "March" in said else None, subject="Ana", predicate="lives in")
            [told] = facts.evidence(home.id)
            return {"messages": [AIMessage(f"{home.text} ({home.period}). {told.recorded_at:%d %B}: {told.text!r}")]}

        graph = (
            StateGraph(MessagesState)
            .add_node("facts", memory.remember_facts(extract))
            .add_node("answer", answer)
            .add_edge(START, "facts")
            .add_edge("facts", "answer")
            .compile(checkpointer=memory.checkpointer)
        )
        thread: RunnableConfig = {"configurable": {"thread_id": "chat"}}

        def say(day: datetime, text: str) -> None:
            today[0] = day
            reply = graph.invoke({"messages": [HumanMessage(text)]}, thread)["messages"][-1]
            print(f"{day:%d %B} user>  {text}\n           agent> {reply.text}")

        say(datetime(2024, 1, 20, tzinfo=UTC), "Ana moved to Lisbon on 2024-01-08.")
        say(datetime(2024, 5, 2, tzinfo=UTC), "Ana moved to Porto on 2024-04-01. I forgot to tell you.")
        say(datetime(2024, 6, 1, tzinfo=UTC), "Where did Ana live in March?")
        say(datetime(2024, 6, 2, tzinfo=UTC), "Where does Ana live now?")

        facts = memory.facts(graph.get_state(thread).config)
        late = datetime(2024, 4, 20, tzinfo=UTC)
        then, now = (facts.as_of(late, recorded, subject="Ana")[0].object for recorded in (late, None))
        print(f"--- on 20 April she lived in {now}; what we knew on that day was {then}")
        print("\n".join(f"    {fact.text}, {fact.period}" for fact in facts.history("Ana", "lives in")))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder) / "agent.db")
