"""Add memory to LangChain's `create_agent` with middleware.

Run it with `python examples/agent.py`. It needs the extra `[agents]` and no key, because a script replaces the model.
`create_agent("openai:…", …)` accepts any model. The middleware compacts the context, and adds memory and experiences.
"""

import tempfile
from pathlib import Path

from langchain.agents import create_agent
from langchain.tools import tool
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from langchain_agentmem import (
    AgentMemory,
    CompactionMiddleware,
    Experience,
    ExperienceMiddleware,
    ManagedMemoryConfig,
    MemoryMiddleware,
)


@tool
def read_diary(month: str) -> str:
    """Read the garden diary of a month."""
    return f"{month}: the quince at the south wall was pruned. " + "Rain, nothing was done. " * 150


def call(name: str, **arguments: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"call-{name}"}])


SCRIPT: list[BaseMessage] = [
    call("mem_core_set", key="garden", value="In the hills, with late frosts."),
    AIMessage("Good to know."),
    call("read_diary", month="March"),
    AIMessage("In March the quince at the south wall was pruned."),
    AIMessage("After the last frost, in the middle of May. Keep its root ball whole."),
]


class Script(FakeMessagesListChatModel):
    """A stand-in for the model: for any input, it returns the next reply of the script."""

    def bind_tools(self, *_: object, **__: object) -> "Script":  # noqa: D102
        return self


def main(folder: Path) -> None:
    with AgentMemory(folder / "agent.db", namespace=("users", "{user_id}")) as memory:
        library = memory.experiences(folder)
        library.add(Experience("roots", when="Use when a tree is moved or planted.", what="Keep the root ball whole."))
        budget = ManagedMemoryConfig(threshold_tokens=1_600)
        agent = create_agent(
            Script(responses=SCRIPT),
            [read_diary],
            system_prompt="You are a gardener.",
            middleware=[  # compaction comes before middleware that adds text to the prompt
                CompactionMiddleware(memory, lambda _: "The diary of March was read.", budget),  # the lambda summarizes
                ExperienceMiddleware(library),
                MemoryMiddleware(memory, budget=400, tools=True),  # tools for the agent to change its memory
            ],
            checkpointer=memory.checkpointer,
        )
        thread = RunnableConfig(configurable={"user_id": "ada", "thread_id": "1"}, callbacks=[memory.audit.handler()])
        for text in ("My garden is in the hills.", "What was done in March?", "When can I plant a medlar tree?"):
            reply = agent.invoke({"messages": [HumanMessage(text)]}, thread)["messages"][-1]
            print(f"user>  {text}\nagent> {reply.text}")
        print("--- what the model was shown at the end")
        for message in memory.within(user_id="ada").audit.last(1)[0].messages:
            print("\n".join(f"{message.role:>9}: {line}" for line in str(message.content).splitlines()))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
