"""`KGMemory`: facts that know when they were true, as subject, predicate and object, on a branch or of a thread.

    facts = memory.facts("user-42", model=model)
    facts.add(role="user", content="I moved to Lisbon in March.")     # kept at once; its facts are extracted later
    facts.add_fact("user", "Maya", "works at", "Acme")
    facts.add_fact("user", "Maya", "works at", "Globex")              # so the one before has ended
    facts.as_of(subject="Maya")                                      # what holds now
    facts.history("Maya", "works at")                                # and all that did

It needs no model; with one, facts are extracted from what is added, in the background.

Each fact has the time in which it held and the time at which we learned it, and names the messages that it comes
from. A new value of what has one at a time, such as "lives in", ends the value before; nothing is overwritten, and
`undo` takes it back.

    from datetime import UTC, datetime

    from langchain_agentmem import AgentMemory

    with AgentMemory("agent.db") as memory:
        facts = memory.facts("user-42")
        january, april = datetime(2024, 1, 8, tzinfo=UTC), datetime(2024, 4, 1, tzinfo=UTC)
        facts.add_fact("user", "Ana", "lives in", "Lisbon", valid_from=january, source="message-7")
        facts.add_fact("user", "Ana", "lives in", "Porto", valid_from=april)
        facts.add_fact("user", "Ana", "knows", "Ben")
        facts.add_fact("user", "Ben", "works at", "Acme")

        [march] = facts.as_of(datetime(2024, 3, 15, tzinfo=UTC), subject="Ana")
        print(march.text, "|", march.period, "|", march.sources)
        print([fact.object for fact in facts.history("Ana", "lives in")])
        print([str(each) for each in facts.neighbours("Ana", 2)], [fact.text for fact in facts.path("Ana", "Acme")])
        print(facts.format_for_prompt("Where does Ana live?"))

In a graph the node `memory.remember_facts(model)` reads each new message of the state once, and the facts rewind with
the thread. A message that is removed or erased takes the facts that nothing else tells of. `as_of(recorded=…)` says
what was known at some time, `contradictions()` what cannot both be true, `merge(name, into)` that two names are one,
until `unmerge`; `to_networkx`, `to_json` and `to_mermaid` draw it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from langchain_agentmem.facts import fact_commands, fact_prompt, fact_queries
from langchain_agentmem.facts.entity_queries import ConnectedFacts
from langchain_agentmem.facts.fact import Contradiction, Evidence, Fact
from langchain_agentmem.facts.kg_documents import AddedFacts


class KGMemory(AddedFacts, ConnectedFacts):
    """Facts on a branch, or of a thread (documents 001 and 003).

    Every method that reads or writes has an awaited twin, with an `a` before its name. Times without a time zone are
    taken as UTC.

    A fact has the time in which it held, `valid_from` up to but not at `valid_to`, and the time at which we learned it.
    A new value of a predicate that has one at a time (see `declare`) ends the one before, which is kept. What is told
    twice is one fact with two sources, as long as it holds. Each fact names the messages that it comes from, and goes
    with the last of them when they are removed or erased.

    On a thread facts rewind with it. There only nodes can change them, so what is added in one is extracted by `drain`
    in a node, or by the node `memory.remember_facts(model)`, and not in the background.

    Attributes:
        settings: How facts are kept and learned.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        branch: The name of a branch, which begins to exist with the first write; or a standpoint. Default: "main".
        namespace: Whose it is. Default: the running config's, else the root.
        model: Who extracts facts from what is added: a LangChain model, a function from messages to text, or the name
            of a model. Default: nobody; what is added is kept and found.
        description: A text with which the memory begins, and that a reset keeps. Default: the one it has, if any.
        settings: How facts are kept and learned. Default: `FactsConfig()`.

    Raises:
        InvalidInput: An argument is wrong.
        StorageError: The database cannot be opened.
    """

    def add_fact(
        self,
        role: str,
        subject: str,
        predicate: str,
        obj: str,
        *,
        valid_from: datetime | None = None,
        valid_to: datetime | None = None,
        source: Any = None,
        confidence: float | None = None,
    ) -> str:
        """State a fact. What holds already gets another source.

        Args:
            role: Who says so, such as "user".
            subject: What it is about.
            predicate: What it says, such as "lives in".
            obj: Of what, or whom.
            valid_from: Since when it holds. Default: since it was said: the time of its source if that was added here,
                else now. Of what had ended by then only the last moment is known.
            valid_to: When it ceased to hold. Default: it goes on, until another value ends it.
            source: The message that says so: its id, or the message itself; a pair of its id and that of its
                conversation; or a list of such, which all tell of this one fact. Default: whoever calls says so.
            confidence: How sure they are, from 0 to 1. Default: nothing is said.

        Returns:
            The id of the fact.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return self._do(
            fact_commands.adding_fact(
                self._ground,
                role,
                subject,
                predicate,
                obj,
                valid_from=valid_from,
                valid_to=valid_to,
                source=source,
                confidence=confidence,
            )
        )

    async def aadd_fact(
        self,
        role: str,
        subject: str,
        predicate: str,
        obj: str,
        *,
        valid_from: datetime | None = None,
        valid_to: datetime | None = None,
        source: Any = None,
        confidence: float | None = None,
    ) -> str:
        """`add_fact`, awaited."""
        return await self._ado(
            fact_commands.adding_fact(
                self._ground,
                role,
                subject,
                predicate,
                obj,
                valid_from=valid_from,
                valid_to=valid_to,
                source=source,
                confidence=confidence,
            )
        )

    def get(self, fact_id: str) -> Fact | None:
        """A fact, or what was said, by its id; None where there is none, or it was taken back."""
        return self._do(fact_queries.getting(self._ground, fact_id))

    async def aget(self, fact_id: str) -> Fact | None:
        """`get`, awaited."""
        return await self._ado(fact_queries.getting(self._ground, fact_id))

    def as_of(
        self,
        valid: datetime | None = None,
        recorded: datetime | None = None,
        *,
        subject: str | None = None,
        predicate: str | None = None,
        obj: str | None = None,
        limit: int | None = None,
    ) -> list[Fact]:
        """What held at a time, as far as we knew it at another.

        Args:
            valid: The time at which it held. Default: now.
            recorded: What we learned later does not count. Default: all that we know counts. What was removed or
                erased is not known of any time.
            subject: Only of this. Default: any.
            predicate: Only with this predicate. Default: any.
            obj: Only of this object. Default: any.
            limit: Most facts. Default: all.

        Returns:
            What began first comes first.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return self._do(
            fact_queries.at_time(
                self._ground,
                valid=valid,
                recorded=recorded,
                subject=subject,
                predicate=predicate,
                obj=obj,
                limit=limit,
            )
        )

    async def aas_of(
        self,
        valid: datetime | None = None,
        recorded: datetime | None = None,
        *,
        subject: str | None = None,
        predicate: str | None = None,
        obj: str | None = None,
        limit: int | None = None,
    ) -> list[Fact]:
        """`as_of`, awaited."""
        return await self._ado(
            fact_queries.at_time(
                self._ground,
                valid=valid,
                recorded=recorded,
                subject=subject,
                predicate=predicate,
                obj=obj,
                limit=limit,
            )
        )

    def history(self, subject: str, predicate: str | None = None, *, recorded: datetime | None = None) -> list[Fact]:
        """All that ever held of a subject, what has ended included.

        Args:
            subject: What it is about.
            predicate: Only with this predicate. Default: any.
            recorded: What we learned later does not count. Default: all counts.

        Returns:
            What began first comes first.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return self._do(fact_queries.changes(self._ground, subject, predicate, recorded))

    async def ahistory(
        self, subject: str, predicate: str | None = None, *, recorded: datetime | None = None
    ) -> list[Fact]:
        """`history`, awaited."""
        return await self._ado(fact_queries.changes(self._ground, subject, predicate, recorded))

    def contradictions(self, subject: str | None = None, predicate: str | None = None) -> list[Contradiction]:
        """Values of what has one at a time that were both said to hold at the same time. Both are kept.

        Args:
            subject: Only of this. Default: any.
            predicate: Only with this predicate. Default: any.
        """
        return self._do(fact_queries.contradictions(self._ground, subject, predicate))

    async def acontradictions(self, subject: str | None = None, predicate: str | None = None) -> list[Contradiction]:
        """`contradictions`, awaited."""
        return await self._ado(fact_queries.contradictions(self._ground, subject, predicate))

    def undo(self, fact_id: str) -> None:
        """Take back the last thing that happened to a fact; once more, and it is as it was before.

        If another value ended it, it goes on beside that, as a contradiction. Else the last that was said or corrected
        of it does not count; a fact that is new is gone, and what it had ended goes on.

        Args:
            fact_id: Which fact.

        Raises:
            MessageError: There is no such fact.
        """
        return self._do(fact_commands.undoing(self._ground, fact_id))

    async def aundo(self, fact_id: str) -> None:
        """`undo`, awaited."""
        return await self._ado(fact_commands.undoing(self._ground, fact_id))

    def declare(self, *predicates: str, single_valued: bool = True) -> None:
        """Say that predicates have one value at a time, such as "lives in", so that a new one ends the one before.

        It counts for what is known already, too, and can be taken back: no fact is changed by it.

        Args:
            *predicates: Their names.
            single_valued: Whether they have. Default: True.

        Raises:
            InvalidInput: A name cannot be one, or `single_valued` is neither True nor False.
        """
        return self._do(fact_commands.declaring(self._ground, predicates, single=single_valued))

    async def adeclare(self, *predicates: str, single_valued: bool = True) -> None:
        """`declare`, awaited."""
        return await self._ado(fact_commands.declaring(self._ground, predicates, single=single_valued))

    def evidence(self, fact_id: str) -> list[Evidence]:
        """How we know of a fact: every message that says so, with its text, if that is kept.

        Args:
            fact_id: Which fact.

        Returns:
            In the order in which we learned it; nothing where there is no such fact.
        """
        return self._do(fact_queries.evidence(self._ground, fact_id))

    async def aevidence(self, fact_id: str) -> list[Evidence]:
        """`evidence`, awaited."""
        return await self._ado(fact_queries.evidence(self._ground, fact_id))

    def from_message(self, message_id: str) -> list[Fact]:
        """The facts that a message tells of.

        Args:
            message_id: Its id.
        """
        return self._do(fact_commands.told_by(self._ground, message_id))

    async def afrom_message(self, message_id: str) -> list[Fact]:
        """`from_message`, awaited."""
        return await self._ado(fact_commands.told_by(self._ground, message_id))

    def search(self, query: str, limit: int | None = None, *, valid: datetime | None = None) -> list[Fact]:
        """Find facts, and what was said, without a model.

        Args:
            query: Any text; "*" for all, the newest first.
            limit: Most results. Default: 10.
            valid: Only facts that held at this time. Default: any, what has ended included.

        Returns:
            The best first. Each says why it was found; what was said has `raw` set.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return self._do(fact_queries.searching(self._ground, query, limit, valid=valid))

    async def asearch(self, query: str, limit: int | None = None, *, valid: datetime | None = None) -> list[Fact]:
        """`search`, awaited."""
        return await self._ado(fact_queries.searching(self._ground, query, limit, valid=valid))

    # -- prompts ---------------------------------------------------------------------------------------------------

    def format_for_prompt(self, query: str | None = None, budget: Any = None, *, valid: datetime | None = None) -> str:
        """What is known about a question, as a section of a prompt: a line for each fact, fenced as data.

        Args:
            query: What the prompt is about. Default: what was learned last.
            budget: How much room there is: a number of characters, or a `Budget`, such as one that counts tokens. What
                fits worst is left out. Default: as much as it takes.
            valid: Only what held at this time. Default: all, and what has ended is marked so.

        Returns:
            The section; "" where nothing is known.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return self._do(fact_prompt.section(self._ground, query, budget, valid=valid))

    async def aformat_for_prompt(
        self, query: str | None = None, budget: Any = None, *, valid: datetime | None = None
    ) -> str:
        """`format_for_prompt`, awaited."""
        return await self._ado(fact_prompt.section(self._ground, query, budget, valid=valid))
