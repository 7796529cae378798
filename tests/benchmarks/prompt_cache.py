"""What a provider's prompt cache can use: how much of each prompt equals the one before it, from its beginning.

A hundred turns of two calls each: a question, a tool's result. What memory finds for the questions, and which
experiences apply, changes with their topic. Nothing here calls a model or the network.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import re
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from compactors import COUNTER, KEPT, THRESHOLD, Prompt, Summarizer, langchain, ours
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from langchain_agentmem import AgentMemory

TURNS = 100
TOPICS = ("refund", "invoice", "shipping", "password", "warranty", "letter", "passport", "kettle", "garden", "violin")
WORDS = (
    "We went through the list line by line and found that the second item had been charged twice, so the seller "
    "promised to send a new one by Tuesday. "
)
SYSTEM = f"You keep the books. {WORDS}"


def question(turn: int, every: int) -> HumanMessage:
    """What is asked: about another topic every so many turns."""
    topic = TOPICS[turn // every % len(TOPICS)]
    return HumanMessage(f"Question {turn}: what about the {topic}? {WORDS}", id=f"u{turn}")


def call(turn: int) -> AIMessage:
    """A model's call of a tool."""
    calls = [{"name": "look", "args": {"n": turn}, "id": f"call-{turn}"}]
    return AIMessage("I look that up.", id=f"c{turn}", tool_calls=calls)


def prompts(every: int, turns: int) -> Iterator[tuple[int, list[BaseMessage]]]:
    """The history before each call of the agent's model, with the number of its turn."""
    history: list[BaseMessage] = [SystemMessage(SYSTEM, id="system")]
    for turn in range(turns):
        history.append(question(turn, every))
        yield turn, list(history)
        result = ToolMessage(f"Result {turn}. {WORDS * 3}", tool_call_id=f"call-{turn}", id=f"r{turn}", name="look")
        history += [call(turn), result]
        yield turn, list(history)
        history.append(AIMessage(f"Answer {turn}. {WORDS * 2}", id=f"a{turn}"))


def tokens_of(messages: Sequence[BaseMessage]) -> list[str]:
    """A prompt as words and signs."""
    found: list[str] = []
    for each in messages:
        calls = json.dumps([(one["id"], one["name"], one["args"]) for one in getattr(each, "tool_calls", ())])
        found += [f"<{each.type}>", *re.findall(r"\w+|[^\w\s]", f"{each.text} {calls}")]
    return found


class Reuse:
    """Takes prompts as they come, and tells what they shared."""

    def __init__(self) -> None:
        self._before: list[str] | None = None
        self._shares: list[float] = []
        self._sizes: list[int] = []

    def see(self, messages: Sequence[BaseMessage]) -> None:
        """Another prompt."""
        now, before = tokens_of(messages), self._before
        if before is not None:
            pairs = enumerate(zip(before, now, strict=False))
            same = next((place for place, (one, other) in pairs if one != other), min(len(before), len(now)))
            self._shares.append(same / len(now))
        self._sizes.append(len(now))
        self._before = now

    def __str__(self) -> str:
        return f"{self.share:.3f}   {self.size:,.0f} tokens a prompt"

    @property
    def share(self) -> float:
        """The mean share of a prompt."""
        return statistics.mean(self._shares)

    @property
    def size(self) -> float:
        """The mean tokens of a prompt."""
        return statistics.mean(self._sizes)


class Looking(BaseChatModel):
    """A model of an agent that calls a tool, then answers; it takes its prompts to where they are measured."""

    seen: Any

    @property
    def _llm_type(self) -> str:
        return "looking"

    def bind_tools(self, *_: Any, **__: Any) -> Looking:  # type: ignore[override]
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.seen.see(messages)
        turn = sum(isinstance(each, HumanMessage) for each in messages)
        asks = isinstance(messages[-1], HumanMessage)
        answer = call(turn) if asks else AIMessage(f"Answer {turn}. {WORDS * 2}")
        return ChatResult(generations=[ChatGeneration(message=answer.model_copy(update={"id": None}))])


def deepagents(every: int, turns: int) -> Reuse:
    """An agent of deepagents, with its own summarization."""
    from deepagents.backends import StateBackend
    from deepagents.middleware.summarization import _DeepAgentsSummarizationMiddleware
    from langchain.agents import create_agent
    from langchain_core.tools import tool
    from langgraph.checkpoint.memory import InMemorySaver

    @tool
    def look(n: int) -> str:
        """Look."""
        return f"Result {n}. {WORDS * 3}"

    logging.getLogger("deepagents").setLevel(logging.CRITICAL)  # it has no file to put the history into
    reuse = Reuse()
    middleware = _DeepAgentsSummarizationMiddleware(
        Summarizer(asked=[]),
        backend=StateBackend(),
        trigger=("tokens", THRESHOLD),
        keep=("tokens", int(THRESHOLD * KEPT)),
        token_counter=lambda messages, **_: COUNTER.count(list(messages)),
    )
    agent = create_agent(
        Looking(seen=reuse), [look], system_prompt=SYSTEM, middleware=[middleware], checkpointer=InMemorySaver()
    )
    for turn in range(turns):
        asked = question(turn, every).model_copy(update={"id": None})
        agent.invoke({"messages": [asked]}, {"configurable": {"thread_id": "t"}})
    return reuse


def remembering(memory: AgentMemory, name: str, folder: Path, *, inject: bool, experiences: bool) -> Prompt:
    """The node of this package, then memory and experiences."""
    run = {"configurable": {"thread_id": name}}
    prompt = ours(Summarizer(asked=[]), memory, name, cut=False)
    selector, injection = memory.experiences(folder).selector(), memory.inject(f"user-{name}", limit=5)

    def given(history: Sequence[BaseMessage]) -> list[BaseMessage]:
        shown: Any = prompt(history)
        shown = selector.invoke(shown, run) if experiences else shown
        return injection.invoke(shown, run) if inject else shown

    return given


def compared(every: int, folder: Path, turns: int = TURNS) -> Iterator[tuple[str, Reuse]]:
    """How much prompts share where topics change every so many turns.

    Args:
        every: So many turns.
        folder: Where experiences are written.
        turns: How many turns.
    """
    for number, topic in enumerate(TOPICS):
        when = f"When the user asks about the {topic}."
        what = f"For the {topic}, look up the list first, then tell the number of the week, and name nobody. {WORDS}"
        text = f"exp_id: '{number}'\nwhen: {when}\nwhat: {what}\n"
        (folder / f"handcrafted_exp_{number}.yaml").write_text(text, encoding="utf-8")
    rows = {  # whether memory, experiences, and core memory that is set each turn
        "compaction alone": (False, False, False), "+ inject": (True, False, False),
        "+ experiences": (False, True, False), "+ inject + experiences": (True, True, False),
        "+ both, and core memory set each turn": (True, True, True),
    }  # fmt: skip
    with AgentMemory(folder / "memory.db") as memory:
        for name, (inject, experiences, sets) in rows.items():
            layers = memory.layers(f"user-{name}")
            layers.core.set("name", "Ada")
            layers.core.set("city", "Oslo, where she lives since 2019, near the harbour")
            for number, topic in enumerate(TOPICS * 4):
                layers.archival.write(f"Note {number}: about the {topic}, which was handled in week {number}.")
            prompt = remembering(memory, name, folder, inject=inject, experiences=experiences)
            reuse = Reuse()
            for turn, history in prompts(every, turns):
                if sets:
                    layers.core.set("mood", f"mood {turn}")
                reuse.see(prompt(history))
            yield name, reuse
    if importlib.util.find_spec("langchain"):
        reuse, prompt = Reuse(), langchain(Summarizer(asked=[]))
        for _, history in prompts(every, turns):
            reuse.see(prompt(history))
        yield "LangChain's SummarizationMiddleware", reuse
    if importlib.util.find_spec("deepagents"):
        yield "deepagents", deepagents(every, turns)


def main() -> None:
    """Print all of it."""
    for every in (10, 1):
        print(f"\nhow much prompts share, 100 turns of two calls; topics change every {every} turn(s)")
        with tempfile.TemporaryDirectory() as folder:
            for name, reuse in compared(every, Path(folder)):
                print(f"    {name:<40}{reuse}")
