"""Compaction: what it costs a turn when nothing is to be compacted, and what it does to a history, beside its peers.

    python tests/benchmarks/compaction.py [--only overhead|peers|prefix|details]

No model is called: what is measured is what compaction itself takes. LangChain's middleware comes with the extra
`[agents]`; langmem is compared where it can be imported, see README.md. What counts are the ratios: machines differ and
are noisy.
"""

from __future__ import annotations

import gc
import importlib.util
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import dropped_details
import prompt_cache
from compactors import COUNTER, HISTORIES, THRESHOLD, Prompt, Report, Summarizer, langchain, langmem, measure, ours
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from places import given_options

from langchain_agentmem import AgentMemory
from langchain_agentmem.compaction.compaction_config import ManagedMemoryConfig

LENGTHS = (100, 1_000, 10_000)
TURNS = 60
WARM = 3
SENTENCE = "message number {} about the garden, the little dog that runs there all day, and what we ate on Sunday"
NEVER = 10**9

Turn = Callable[[], float]
"""Adds two messages to a history and gives the seconds that its context took."""


def messages(count: int, start: int = 0) -> list[BaseMessage]:
    """Messages as a checkpoint holds them: with ids."""
    kinds = (HumanMessage, AIMessage)
    return [kinds[number % 2](SENTENCE.format(number), id=f"m{number}") for number in range(start, start + count)]


def config(threshold: int) -> ManagedMemoryConfig:
    """MARSYS's, but for the threshold and the counter."""
    return ManagedMemoryConfig(threshold_tokens=threshold, token_counter=COUNTER)


def node_turns(memory: AgentMemory, length: int, threshold: int, *, fresh: bool) -> Turn:
    """The node in a thread: with the very objects of the turn before, or with new ones as after a checkpoint."""
    node = memory.compaction(None, config(threshold))
    run = {"configurable": {"thread_id": f"thread-{length}-{threshold}-{fresh}"}}
    history = messages(length)
    node.invoke(history, run)
    before: list[BaseMessage] = []

    def turn() -> float:
        nonlocal before
        history.extend(messages(2, len(history)))
        given = [type(each)(each.content, id=each.id) for each in history] if fresh else list(history)
        seconds = timed(lambda: node.invoke(given, run))
        before = given  # those of the turn before are freed here, and not while the clock runs
        return seconds

    return turn


def managed_turns(memory: AgentMemory, length: int, threshold: int) -> Turn:
    """`get_messages` of a managed conversation, after a question and an answer were added."""
    chat = memory.managed_conversation(f"chat-{length}-{threshold}", config=config(threshold))
    chat.add_messages(messages(length))
    chat.get_messages()
    said = length

    def turn() -> float:
        nonlocal said
        chat.add_messages(messages(2, said))
        said += 2
        return timed(chat.get_messages)

    return turn


def timed(call: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def median_of(turn: Turn) -> float:
    """The median of many turns: those in which something is compacted are few."""
    for _ in range(WARM):
        turn()
    gc.collect()
    return statistics.median(turn() for _ in range(TURNS))


def overhead(lengths: Sequence[int] = LENGTHS) -> None:
    """What a turn costs at each length, below and above the threshold."""
    ways: dict[str, Callable[[AgentMemory, int, int], Turn]] = {
        "node, the same objects": lambda memory, length, limit: node_turns(memory, length, limit, fresh=False),
        "node, new objects each turn": lambda memory, length, limit: node_turns(memory, length, limit, fresh=True),
        "get_messages of a managed conversation": managed_turns,
    }
    print(f"\nwhat a turn costs, without any model, in µs (median of {TURNS}), at a history of …")
    print(f"{'':<50}" + "".join(f"{length:>10,}" for length in lengths) + f"{'last/first':>12}")
    for place, threshold in (("below the threshold", NEVER), ("above it, compacted before", 2_000)):
        print(f"  {place}")
        for name, make in ways.items():
            costs = []
            for length in lengths:
                with tempfile.TemporaryDirectory() as folder, AgentMemory(Path(folder) / "memory.db") as memory:
                    costs.append(median_of(make(memory, length, threshold)) * 1e6)
            print(f"    {name:<46}" + "".join(f"{each:>10,.0f}" for each in costs) + f"{costs[-1] / costs[0]:>12.2f}")


def contenders(memory: AgentMemory, name: str) -> Iterator[tuple[str, Summarizer, Prompt]]:
    """Everyone who is here, each with a model of its own."""
    model = Summarizer(asked=[])
    yield "langchain-agentmem", model, ours(model, memory, name)
    model = Summarizer(asked=[])
    yield "langchain-agentmem, tool output not cut", model, ours(model, memory, f"{name}, whole", cut=False)
    if importlib.util.find_spec("langchain"):
        model = Summarizer(asked=[])
        yield "LangChain's SummarizationMiddleware", model, langchain(model)
    if importlib.util.find_spec("langmem"):
        model = Summarizer(asked=[])
        yield "langmem's SummarizationNode", model, langmem(model)


def compared(*, most: int | None = None) -> Iterator[tuple[str, str, Report]]:
    """Every contender on every history.

    Args:
        most: How many prompts of each history; None for all.
    """
    for kind, make in HISTORIES.items():
        with tempfile.TemporaryDirectory() as folder, AgentMemory(Path(folder) / "memory.db") as memory:
            for name, model, prompt in contenders(memory, kind):
                yield kind, name, measure(prompt, model, make(), most=most)


def peers() -> None:
    """What each does to the same histories."""
    print(f"\nthe same histories, at {THRESHOLD:,} tokens; counts are of messages and of prompts")
    columns = ("unseen", "partly", "orphans", "refused", "no goal", "too large", "calls", "tokens", "ms a turn")
    last = ""
    for kind, name, found in compared():
        if kind != last:
            print(f"  {kind:<42}" + "".join(f"{each:>10}" for each in columns))
            last = kind
        names = ("unseen", "partly", "orphans", "refused", "without_goal", "too_large", "calls")
        counts = [getattr(found, each) for each in names]
        print(
            f"    {name:<40}"
            + "".join(f"{each:>10,}" for each in counts)
            + f"{found.kept:>10,.0f}{found.seconds / max(found.prompts, 1) * 1e3:>10.2f}"
            + (f"   of {found.prompts} prompts; then {found.error}" if found.error else "")
        )


def prefix() -> None:
    """How much of each prompt the prompt before began with, over sixty turns."""
    print("\nhow much consecutive prompts share, from their beginning, over 60 turns")
    last = ""
    for kind, name, found in compared(most=60):
        if kind != last:
            print(f"  {kind}")
            last = kind
        print(f"    {name:<40}{found.shared:>8.1%}   {found.calls} calls")
    prompt_cache.main()


def main() -> None:
    parts = {"overhead": overhead, "peers": peers, "prefix": prefix, "details": dropped_details.main}
    only = given_options(__doc__, only=("all", *parts)).only
    warnings.simplefilter("ignore")
    if not importlib.util.find_spec("langmem"):
        print("langmem is not installed here and is left out")
    for name, part in parts.items():
        if only in ("all", name):
            part()


if __name__ == "__main__":
    main()
