"""Details that left the context long ago: 300 turns, 60 facts, and 120 questions about them.

    python tests/benchmarks/compaction.py --only details

Every fifth turn tells a fact, in what the user says or at the end of a tool's output. Summaries keep none of them. A
question counts as answered if its answer stands in the last context, in what `recall_dropped` says for it, or in what
`expand` says of its first two results. LangChain's middleware has its last context alone.
"""

from __future__ import annotations

import random
import re
import statistics
from collections.abc import Callable, Iterator, Sequence

from compactors import COUNTER, Prompt, Summarizer, langchain, ours
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_agentmem import AgentMemory

TURNS = 300
PEOPLE = ["Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "Jana"]
PEOPLE += ["Kurt", "Lena", "Milo", "Nora", "Otto", "Pia", "Quin", "Rosa", "Sam", "Tara"]
THINGS = {"locker code": "Which number opens", "bus line": "How gets to work", "allergy": "What must not be served to"}
"""What is told of each person, and the beginning of a question in other words."""
TALK = "We went through the list line by line, the second item was charged twice, and the seller sends a new one. "
THREAD = "details"

Fact = tuple[str, str, str]
"""A person, a thing and its value."""
Ask = Callable[[str, str], bool]
"""Whether what is said for a question tells a value."""


def facts() -> list[Fact]:
    """Sixty, the same each time."""
    chance = random.Random(5)
    values = iter(lambda: f"{chance.choice('QXZVK')}{chance.randint(1_000, 9_999)}", None)
    return [(person, thing, next(values)) for person in PEOPLE for thing in THINGS]


def histories() -> Iterator[list[BaseMessage]]:
    """The history of an agent that grows, at every tenth turn."""
    known = facts()
    history: list[BaseMessage] = [SystemMessage("You keep the books.", id="s")]
    for turn in range(TURNS):
        person, thing, value = known[turn // 5]
        said = f"By the way, the {thing} of {person} is {value}." if turn % 10 == 2 else ""
        found = f"{person}: {thing} = {value}. " if turn % 10 == 7 else ""
        history += [
            HumanMessage(f"Turn {turn}: {TALK}{said}", id=f"u{turn}"),
            AIMessage("I look.", id=f"c{turn}", tool_calls=[{"name": "look", "args": {"n": turn}, "id": f"k{turn}"}]),
            ToolMessage(f"Result {turn}. {TALK * 4}{found}{TALK}", tool_call_id=f"k{turn}", id=f"r{turn}", name="look"),
            AIMessage(f"Answer {turn}. {TALK}", id=f"a{turn}"),
        ]
        if turn % 10 == 0 or turn == TURNS - 1:
            yield list(history)


def prompted(prompt: Prompt) -> tuple[Sequence[BaseMessage], float]:
    """The last context, and how many tokens one takes."""
    contexts = [prompt(history) for history in histories()]
    return contexts[-1], statistics.mean(sum(map(COUNTER.count_message, context)) for context in contexts)


def main() -> None:
    """Print how many are answered, and at how many tokens a prompt."""
    print(f"\n{TURNS} turns, {len(facts())} facts: two questions for each that are answered, and one in other words")
    with AgentMemory(":memory:") as memory:
        context, tokens = prompted(ours(Summarizer(), memory, THREAD))
        tools = {tool.name: tool for tool in memory.tools(include=["expand", "recall_dropped"])}
        run = {"configurable": {"thread_id": THREAD}}

        def answered(question: str, value: str) -> bool:
            found = str(tools["recall_dropped"].invoke({"query": question}, run))
            more = [str(tools["expand"].invoke({"id": each}, run)) for each in re.findall(r'id="([^"]+)"', found)[:2]]
            return any(value in text for text in [found, *more])

        report("langchain-agentmem, with recall", context, tokens, answered)
        report("langchain-agentmem, its context", context, tokens, None)
    report("langchain SummarizationMiddleware", *prompted(langchain(Summarizer())), None)


def report(name: str, context: Sequence[BaseMessage], tokens: float, ask: Ask | None) -> None:
    """Print a row."""
    shown = " ".join(str(message.content) for message in context)

    def known(question: str, value: str) -> bool:
        return value in shown or (ask is not None and ask(question, value))

    plain = [
        known(question, value)
        for person, thing, value in facts()
        for question in (f"{thing} of {person}", f"{person}'s {thing}")
    ]
    others = [known(f"{THINGS[thing]} {person}?", value) for person, thing, value in facts()]
    counts = f"{sum(plain):>4} of {len(plain)}{sum(others):>5} of {len(others)}"
    print(f"  {name:<40}{counts}{tokens:>9,.0f} tokens a prompt")
