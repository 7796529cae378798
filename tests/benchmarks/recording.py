"""What it costs that the checkpointer records messages: the time of a put, and bytes.

    python tests/benchmarks/recording.py [--turns 1000] [--postgres]

The chat of `checkpoint_savers.py`, a turn of which is two messages of 500 characters, runs twice at once in one
process, on a database each: with recording and without, in turns, so that whatever else the machine does is shared.
Each turn puts three checkpoints, two of which bring a message. Compared are all puts, what the tasks wrote included,
and the bytes of the closed databases. Afterwards every message must be found.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from contextlib import ExitStack, nullcontext

from checkpoint_savers import WORKLOADS, HumanMessage, size, text
from places import given_options, made_in, postgres_server

from langchain_agentmem import AgentMemory, AgentMemorySaver

CHAT = WORKLOADS["chat"]
LIMIT = 1.3
"""So many times as long a put may take that records."""
BATCH = 100


class Timed(AgentMemorySaver):
    """Knows how long it was at storing."""

    seconds = 0.0

    def put(self, *arguments, **named):
        began = time.perf_counter()
        try:
            return super().put(*arguments, **named)
        finally:
            self.seconds += time.perf_counter() - began

    def put_writes(self, *arguments, **named):
        began = time.perf_counter()
        try:
            return super().put_writes(*arguments, **named)
        finally:
            self.seconds += time.perf_counter() - began


def measure(where: str, turns: int) -> bool:
    thread = {"configurable": {"thread_id": "t"}}
    letters = sum(len(each) for turn in range(turns) for each in CHAT.texts(turn))
    with ExitStack() as open_:
        new = open_.enter_context(made_in(where))
        urls = [new() for _ in range(2)]
        graphs, batches = [], ([], [])
        for url, record in zip(urls, ((), ("messages",)), strict=True):
            graph = CHAT.build(False)
            graph.checkpointer = Timed.from_conn_string(url, record=record)
            graphs.append(graph)
        for turn in range(turns):
            for place, graph in enumerate(graphs):
                before = graph.checkpointer.seconds
                graph.invoke({"messages": [HumanMessage(text("user", turn))]}, thread, durability="sync")
                batches[place].append(graph.checkpointer.seconds - before)
        for graph in graphs:
            graph.checkpointer.close()
        without, recording = (statistics.median(each[BATCH // 10 :]) * 1e6 for each in batches)
        ratios = [
            sum(batches[1][start : start + BATCH]) / sum(batches[0][start : start + BATCH])
            for start in range(0, turns, BATCH)
        ]
        print(f"  storing a turn {without:,.0f} µs without, {recording:,.0f} µs recording ({recording / without:.2f})")
        print(f"  the same, of each {BATCH} turns: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
        for name, url in zip(("without", "recording"), urls, strict=True):
            stored = size(url)
            print(f"  {name:<10} {stored / 1e6:8.2f} MB   {stored / letters:.2f} bytes a byte of text")
        with AgentMemory(urls[1]) as memory:
            assert len(memory.conversation("t")) == 2 * turns, "not every message was recorded"
            assert memory.admin.verify().ok
        return recording <= LIMIT * without


def main() -> None:
    options = given_options(__doc__, "postgres", turns=1_000)
    with postgres_server() if options.postgres else nullcontext() as server, tempfile.TemporaryDirectory() as folder:
        sys.exit(not measure(server or folder, options.turns))


if __name__ == "__main__":
    main()
