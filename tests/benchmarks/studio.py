"""How long Studio's pages take at the server, of a memory that is large in every way.

    python tests/benchmarks/studio.py [--threads 1000] [--messages 100000] [--checkpoints 10000] [--postgres]

Of the threads half have a fork. One more has `--checkpoints` checkpoints and a message in every tenth of them. There
are facts, core memory, records, prompts with reasons, items, audit entries and experiences besides. Each page is asked
for 100 times through the ASGI application, in turns; those of which more than five took longer than 100 ms are marked.
What this process computed meanwhile, in all its threads, is told as well: on a machine that is busy it says more.
"""

import math
import statistics
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.store.base import PutOp
from places import databases, given_options
from soak import WORDS
from starlette.testclient import TestClient

from langchain_agentmem import AgentMemory, Experience
from langchain_agentmem.audit.audit_trail import AuditTrail
from langchain_agentmem.experiences.experience_library import ExperienceLibrary

TENANTS = 50
STEPS = 4
"""Checkpoints of a thread, between which its messages are said."""
LONG = ("tenants", "t0")
LONG_THREAD = "long"
ROUNDS = 100
BOUND = 100.0
"""Milliseconds that a page may take."""


def said(number: int) -> BaseMessage:
    """A question or its answer, of some ten words."""
    words = [f"{WORDS[number * each % 97 % len(WORDS)]}{number * each % 331}" for each in (3, 7, 11, 13, 17)]
    made = AIMessage if number % 2 else HumanMessage
    return made(" ".join([*words, "number", str(number)]), id=f"m{number}")


class Thread:
    """A thread that grows.

    Args:
        memory: Where.
        name: Its id.
        namespace: Whose it is.
    """

    def __init__(self, memory: AgentMemory, name: str, namespace: tuple[str, ...]) -> None:
        self._saver = memory.checkpointer
        configurable = {"thread_id": name, "checkpoint_ns": "", "agentmem_namespace": namespace}
        self._last: Any = {"configurable": configurable}
        self._messages: list[BaseMessage] = []
        self._line: list[tuple[Any, int]] = []

    def step(self, *new: BaseMessage) -> None:
        """Put a checkpoint with more messages."""
        self._messages += new
        step = str(len(self._line) + 1)
        values = {"messages": [*self._messages], "step": int(step)}
        versions = {"messages": f"{len(self._messages):032}", "step": step}
        checkpoint = empty_checkpoint() | {"channel_values": values, "channel_versions": versions}
        self._last = self._saver.put(self._last, checkpoint, {"source": "loop", "step": int(step)}, versions)
        self._line.append((self._last, len(self._messages)))

    def fork(self, *new: BaseMessage) -> None:
        """Go back to its second checkpoint, and on from there."""
        self._last, count = self._line[1]
        del self._messages[count:]
        self.step(*new)


def talk(memory: AgentMemory, *, threads: int, messages: int, checkpoints: int) -> None:
    """Make the threads."""
    each = max(messages // threads // STEPS, 1)
    for number in range(threads):
        first = number * each * STEPS
        thread = Thread(memory, f"thread {number}", ("tenants", f"t{number % TENANTS}"))
        for step in range(STEPS):
            thread.step(*map(said, range(first + step * each, first + (step + 1) * each)))
        if number % 2:
            thread.fork(HumanMessage("On second thoughts, no.", id=f"fork {number}"))
    long = Thread(memory, LONG_THREAD, LONG)
    for number in range(checkpoints):
        long.step(*[] if number % 10 else [said(number // 10)])


def know(memory: AgentMemory, number: int) -> None:
    """Make what is known besides: so many of each kind."""
    for tenant in range(TENANTS):
        layers = memory.layers("main", ("tenants", f"t{tenant}"))
        for word in WORDS:
            layers.core.set(word, f"{word} of tenant {tenant}")
            layers.archival.write(f"What is known of the {word} by tenant {tenant}.")
    facts = memory.facts("main", LONG)
    facts.declare("lives in")
    trail = AuditTrail(memory, LONG)
    for count in range(number):
        facts.add_fact("user", f"Person {count % 200}", "lives in", f"Town {count % 90}")
        trail.add(said(count).text, said(count + 1).text, LONG_THREAD)
    memory.store.batch([PutOp((*LONG, "notes"), f"k{count}", {"text": said(count).text}) for count in range(number)])
    config = {"configurable": {"thread_id": LONG_THREAD, "agentmem_namespace": LONG}}
    for count in range(min(number, 100)):
        memory.inject().invoke([HumanMessage(f"What of the {WORDS[count % 10]}?", id=f"m{count}")], config)


def library_of(memory: AgentMemory, folder: Path) -> ExperienceLibrary:
    """A library of experiences, of each of which somebody said whether it helped."""
    library = memory.experiences(folder)
    for number in range(20):
        library.add(Experience(f"e{number}", when=f"Use for the {WORDS[number % 10]} {number}.", what="Say so."))
    return library


def pages(checkpoints: int) -> Mapping[str, str]:
    """What is asked for, by what it is."""
    whose, long = "namespace=tenants/t0", f"namespace=tenants/t0&id={LONG_THREAD}"
    return {
        "overview": "/",
        "threads": "/threads",
        "threads, the last page": "/threads?start=950",
        "threads of a tenant": f"/threads?{whose}",
        "threads in which something was said": "/threads?q=heron100",
        "a thread": "/thread?namespace=tenants/t1&id=thread+1",
        "the long thread": f"/thread?{long}",
        "… at its middle": f"/thread?{long}&number={checkpoints // 2}",
        **{f"… its {tab}": f"/thread?{long}&show={tab}" for tab in ("memory", "diff", "compaction", "prompts")},
        "its conversation": f"/conversation?{long}",
        "memory of a tenant": f"/memory?{whose}",
        "search": f"/search?q=heron100+quince21&{whose}",
        "search everywhere": "/search?q=heron100+quince21",
        "facts": f"/facts?{whose}",
        "experiences": f"/experiences?{whose}",
        "audit": f"/audit?{whose}",
        "corrections": "/corrections",
        "a value and its corrections": f"/correct?kind=core&key=heron&{whose}",
    }


class Took(NamedTuple):
    """What a page took, in milliseconds.

    Attributes:
        wall: Until the answer was there.
        computed: What this process computed meanwhile.
    """

    wall: float
    computed: float


def measured(client: TestClient, asked: Mapping[str, str], rounds: int) -> dict[str, list[Took]]:
    """What each page took; pages take turns."""
    took: dict[str, list[Took]] = {name: [] for name in asked}
    for number in range(rounds + 1):
        for name, page in asked.items():
            began, computed = time.perf_counter(), time.process_time()
            answer = client.get(page)
            if answer.status_code != 200:
                raise AssertionError(f"{page}: {answer.status_code} {answer.text[:2000]}")
            if number:  # the first round prepares statements and templates
                wall, own = time.perf_counter() - began, time.process_time() - computed
                took[name].append(Took(1e3 * wall, 1e3 * own))
    return took


def slow(times: Iterable[float]) -> float:
    """What 95 of 100 stay below."""
    ordered = sorted(times)
    return ordered[math.ceil(len(ordered) * 0.95) - 1]


def tell(took: Mapping[str, list[Took]]) -> None:
    """Print the middle and the slow end of each."""
    print(f"  {'ms at the server':38}{'p50':>8}{'p95':>8}{'computed':>12}{'p95':>8}")
    for name, times in took.items():
        wall, computed = ([each[part] for each in times] for part in (0, 1))
        mark = f"   above {BOUND:.0f} ms" if slow(wall) > BOUND else ""
        told = (
            f"{statistics.median(wall):8.1f}{slow(wall):8.1f}{statistics.median(computed):12.1f}{slow(computed):8.1f}"
        )
        print(f"  {name:38}{told}{mark}")


def run(url: str, folder: Path, *, threads: int, messages: int, checkpoints: int, rounds: int = ROUNDS) -> None:
    """Fill a memory at this URL, and ask for every page."""
    with AgentMemory(url) as memory:
        began = time.perf_counter()
        talk(memory, threads=threads, messages=messages, checkpoints=checkpoints)
        know(memory, threads)
        library = library_of(memory, folder)
        memory.settle()
        print(f"  filled in {time.perf_counter() - began:.0f} s", flush=True)
        with TestClient(memory.studio(user="ada", experiences=library)) as client:
            tell(measured(client, pages(checkpoints), rounds))


def main() -> None:
    given = given_options(__doc__, "postgres", threads=1_000, messages=100_000, checkpoints=10_000)
    size = {"threads": given.threads, "messages": given.messages, "checkpoints": given.checkpoints}
    with tempfile.TemporaryDirectory() as folder, databases("postgres" if given.postgres else "sqlite") as new:
        run(new(), Path(folder), **size)


if __name__ == "__main__":
    main()
