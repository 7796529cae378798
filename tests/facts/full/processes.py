"""Processes that have facts extracted from one long conversation, and that may be killed, `kill -9`, on the way.

Each is forked from one that has loaded everything and opened nothing.
"""

from __future__ import annotations

import random
import signal
import sys
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

from langchain_agentmem import AgentMemory
from langchain_agentmem.facts.kg_memory import KGMemory
from langchain_agentmem.storage import jobs
from tests.facts.scripted import Scripted, facts_in
from tests.faults.steps import Statements
from tests.forking import Forks

HEAR = "from tests.facts.full.processes import listen; listen()"
SHORT = 0.3
"""Seconds of a lease here, so that nobody waits long for the dead."""

MESSAGES = 200
PEOPLE = ("Maya Ortiz", "Tom", "Aiko", "Zoë", "Grandma", "the plumber")
FIRST_DAY = datetime(2024, 1, 1, 12, tzinfo=UTC)


def day(number: int) -> datetime:
    """When a message was said: there is one each day, at noon."""
    return FIRST_DAY + timedelta(days=number)


def conversation(count: int = MESSAGES) -> list[dict[str, Any]]:
    """A conversation, always the same, in which much is told again, and much changes."""
    luck = random.Random(7)
    said = []
    for number in range(count):
        lines = ["Good morning!"] if luck.random() < 0.5 else []
        for person in luck.sample(PEOPLE, luck.choice([0, 1, 1, 2, 3])):
            today = f" | {day(number):%Y-%m-%d}" if luck.random() < 0.3 else ""
            lines += [
                f"{person} | lives in | {luck.choice(['Lisbon', 'Oslo', 'Kyoto'])}{today}",
                f"{person} | works at | {luck.choice(['Acme', 'Globex'])}{today}",
                f"{person} | likes | {luck.choice(['tea', 'opera', 'rain', 'Tom'])}{today}",
                f"{person} | visited | town {number} | {day(number - 9):%Y-%m-%d} | {day(number - 7):%Y-%m-%d}",
            ][luck.randrange(4) :][: luck.choice([1, 1, 2])]
        text = "\n".join(lines or ["How are you?"])
        role = luck.choice(["user", "assistant"])
        said.append({"role": role, "content": text, "message_id": f"m{number}", "created_at": day(number).isoformat()})
    return said


def scripted_facts(said: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What is to be known after a conversation, by the plainest rules: each fact with its time and its messages."""
    held: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for number, message in enumerate(said):
        for fact in facts_in(message["content"]):
            start, end = fact.get("valid_from"), fact.get("valid_to")
            since = day(number) if start is None else _midnight(start)
            until = None if end is None else _midnight(end)
            values = held[fact["subject"], fact["predicate"]]
            single = fact["predicate"] in {"lives in", "works at"}
            same = [each for each in values if each["object"] == fact["object"] and each["until"] is None]
            if same and end is None:
                same[-1]["sources"].append(message["message_id"])
                continue
            if single and values:
                values[-1]["until"] = since
            values.append(
                {"object": fact["object"], "since": since, "until": until, "sources": [message["message_id"]]}
            )
    return sorted(
        (*of, each["object"], each["since"], str(each["until"]), tuple(each["sources"]))
        for of, values in held.items()
        for each in values
    )


def known_facts(facts: KGMemory) -> list[tuple[Any, ...]]:
    """What is known, in the same form."""
    return sorted(
        (fact.subject, fact.predicate, fact.object, fact.valid_from, str(fact.valid_to), fact.sources)
        for person in PEOPLE
        for fact in facts.history(person)
    )


def hear(facts: KGMemory, said: list[dict[str, Any]]) -> None:
    """Add a conversation, and have its facts extracted."""
    for message in said:
        facts.add(message)
    facts.drain()


def _midnight(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def listen() -> None:
    """Hear so much of the conversation, and be killed before a statement."""
    jobs.LEASE, jobs.RENEW = SHORT, SHORT / 6
    url, branch, messages, last = sys.argv[1:]
    statements = Statements(int(last))
    with AgentMemory(url) as memory:
        hear(memory.facts(branch, model=Scripted()), conversation(int(messages)))
    print(statements.count)


class Listener(Forks):
    """Processes that hear the conversation, one after the other."""

    def begin(self, url: str, branch: str, messages: int = MESSAGES, last: int = -1) -> None:
        """Have one hear so much of the conversation, and be killed before a statement; by default never."""
        self.start(HEAR, url, branch, str(messages), str(last))

    def heard(self) -> int | None:
        """Wait for it. Returns how many statements it took; None where it was killed."""
        done = self.end()
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        return None if done.returncode else int(done.stdout)
