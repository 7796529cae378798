"""Share memory between the threads of a user, and rewind one of the threads.

Run it with `python examples/monday_tuesday.py`. It needs the extra `[agents]` and no key, because a script replaces the
model. The script stores statements in core memory, and answers questions with the core memory in its prompt.
"""

import tempfile
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig

from langchain_agentmem import AgentMemory, MemoryMiddleware


class Script(BaseChatModel):
    """A stand-in for the model: it stores "X is Y" with a tool, and answers other messages with the core memory."""

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, *_: Any, **__: Any) -> "Script":  # noqa: D102
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        key, told, value = messages[-1].text.partition(" is ")
        if told and isinstance(messages[-1], HumanMessage):
            call = {"name": "mem_core_set", "args": {"key": key, "value": value}, "id": f"call-{key}"}
            reply = AIMessage("", tool_calls=[call])
        else:
            shown = "\n".join(message.text for message in messages)
            notes = [line.replace("*", "") for line in shown.splitlines() if line.startswith("**")]
            reply = AIMessage("; ".join(notes) or "I know nothing of you.")
        return ChatResult(generations=[ChatGeneration(message=reply)])


def main(folder: Path) -> None:
    with AgentMemory(folder / "agent.db", namespace=("users", "{user_id}")) as memory:
        agent = create_agent(
            Script(), middleware=[MemoryMiddleware(memory, tools=True)], checkpointer=memory.checkpointer
        )

        def say(user: str, day: str, text: str) -> None:
            config: RunnableConfig = {"configurable": {"user_id": user, "thread_id": day}}
            reply = agent.invoke({"messages": [HumanMessage(text)]}, config)["messages"][-1]
            print(f"{user}, {day}> {text}\n{'':>{len(user) + len(day) + 2}}> {reply.text}")

        say("ada", "monday", "Home is Lisbon")
        say("ada", "tuesday", "Where do I live?")
        say("bob", "tuesday", "Where do I live?")

        print("--- Ada goes back to before Monday")
        monday: RunnableConfig = {"configurable": {"user_id": "ada", "thread_id": "monday"}}
        *_, beginning = agent.get_state_history(monday)
        agent.update_state(beginning.config, {"messages": []})
        say("ada", "tuesday", "Where do I live?")

        print("--- she says it again on Wednesday, and deletes that conversation")
        say("ada", "wednesday", "Home is Porto")
        ada = memory.within(user_id="ada")  # the whole memory of one user
        ada.checkpointer.delete_thread("wednesday")
        say("ada", "tuesday", "Where do I live?")

        print(f"--- and is forgotten: {ada.erase().memories} memories erased")
        say("ada", "friday", "Where do I live?")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
