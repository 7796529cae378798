"""Migrate from `RunnableWithMessageHistory` to stored conversations or to a graph.

Run it with `python examples/move_from_message_history.py`. It needs no extra and no key, because a function replaces
the model. Import any other `BaseChatMessageHistory` (files, Redis, SQL) in the same way.
"""

import tempfile
import warnings
from pathlib import Path

from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory
from langgraph.graph import START, MessagesState, StateGraph

from langchain_agentmem import AgentMemory

warnings.filterwarnings("ignore", ".*MessageHistory.* deprecated")  # LangChain deprecates both classes


def answer(messages: list[BaseMessage]) -> AIMessage:
    """Stand in for the model."""
    return AIMessage(f"That is your question {sum(message.type == 'human' for message in messages)}.")


def ask(chain: RunnableWithMessageHistory, text: str) -> None:
    reply = chain.invoke([HumanMessage(text)], {"configurable": {"session_id": "ada"}})
    print(f"ada> {text}  {reply.text}")


def main(database: Path) -> None:
    model = RunnableLambda(answer)
    print("--- as it was: sessions in a dictionary, gone when the process ends")
    sessions: dict[str, InMemoryChatMessageHistory] = {}
    chain = RunnableWithMessageHistory(model, lambda name: sessions.setdefault(name, InMemoryChatMessageHistory()))
    ask(chain, "Where is the harbour?")
    ask(chain, "When does it open?")

    with AgentMemory(database) as memory:
        print("--- each session becomes a conversation of the same name")
        for name, history in sessions.items():
            memory.conversation(name).add_messages(history.messages)

        print("--- step 1: the same chain, and only the function that gives the history is another one")
        ask(RunnableWithMessageHistory(model, memory.conversation), "Is there a ferry?")
        print("found:", memory.search("harbour", roles=["user"])[0].text)

        print("--- step 2: a graph, whose threads have time travel, and memory that rewinds with them")
        builder = StateGraph(MessagesState).add_node("answer", lambda state: {"messages": [answer(state["messages"])]})
        graph = builder.add_edge(START, "answer").compile(checkpointer=memory.checkpointer)
        thread: RunnableConfig = {"configurable": {"thread_id": "ada"}}
        graph.update_state(thread, {"messages": memory.conversation("ada").messages}, as_node="answer")
        said = graph.invoke({"messages": [HumanMessage("How much is it?")]}, thread)["messages"]
        print(f"ada> How much is it?  {said[-1].text}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder) / "agent.db")
