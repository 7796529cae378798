"""What all parts of a memory of facts share: where it is, who extracts facts from what waits, and when that is done."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from langchain_agentmem.base.argument_checks import limit_given, text_given
from langchain_agentmem.base.background_thread import Attendant, Looked
from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.namespaces import Namespace, id_of, namespace_of, path_of, resolve
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations.log_entries import message_of
from langchain_agentmem.conversations.persistence import EventSource
from langchain_agentmem.errors import InvalidInput, MemoryClosed
from langchain_agentmem.facts import fact_commands, fact_traces, source_texts
from langchain_agentmem.facts.fact import ExtractionFailure, Fact, FactsConfig
from langchain_agentmem.facts.learning import FactsGround, Learned, Teacher, learning
from langchain_agentmem.language_models.model_calls import Work, aperform, perform, usable_model
from langchain_agentmem.messages import Message
from langchain_agentmem.rewinding import branch_merge
from langchain_agentmem.rewinding.branches import BranchAt, Standpoint
from langchain_agentmem.rewinding.memory_access import as_step, looking, whose
from langchain_agentmem.rewinding.memory_rows import View
from langchain_agentmem.storage import Steps, job_queue
from langchain_agentmem.storage.database import Database, HasDatabase, database_of
from langchain_agentmem.storage.job_queue import Job, Wanted
from langchain_agentmem.tracing import brief

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


logger = logging.getLogger(__name__)

T = TypeVar("T")

KIND = "facts"
"""The kind of the jobs by which one process at a time extracts facts."""


class LearningFacts(EventSource):
    """Where facts are kept, and how they are extracted from what waits; see `KGMemory`."""

    def __init__(
        self,
        memory: HasDatabase | Database | str | os.PathLike[str] = ":memory:",
        branch: str | Standpoint = "main",
        *,
        namespace: Sequence[str] | None = None,
        model: Any = None,
        description: str | None = None,
        settings: FactsConfig | None = None,
    ) -> None:
        if settings is not None and not isinstance(settings, FactsConfig):
            raise InvalidInput(f"settings must be a FactsConfig, not {type(settings).__name__}.")
        if not isinstance(branch, str) and not hasattr(branch, "view"):
            raise InvalidInput(f"Facts are those of a branch; give its name, not {safe_repr(branch)}.")
        if description is not None:
            text_given(description, "A description")
        self._database = database_of(memory)
        self._description = description
        self._model = usable_model(model)
        self._teacher = None if self._model is None else Teacher(self._model)
        self._attendant = Attendant(self._look, "agentmem-facts")
        self._asking: list[None] = []  # one for each caller who is having a text extracted just now
        point = BranchAt(path_of(resolve(namespace)), id_of(branch, "branch")) if isinstance(branch, str) else branch
        self.settings = settings or FactsConfig()
        self._ground = FactsGround(database=self._database, point=point, settings=self.settings)
        self._wanted = Wanted(point.path, KIND, point.name)
        if self._teacher is not None and isinstance(point, BranchAt):
            self._attendant.start()
            self._attendant.notify()  # another process may have left something

    @property
    def name(self) -> str:
        """The name of the branch, or the thread's id."""
        return self._ground.point.name

    @property
    def namespace(self) -> Namespace:
        """Whose memory it is."""
        return namespace_of(self._ground.point.path)

    @property
    def now(self) -> datetime:
        """What time it is for this memory, in UTC."""
        return moment(self._ground.now())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({safe_repr(self.name)}, namespace={safe_repr(self.namespace)})"

    # -- extraction ------------------------------------------------------------------------------------------------

    def extract_and_update_from_text(self, text: str, role: str = "user") -> list[Fact]:
        """Keep a text and extract its facts at once.

        Args:
            text: What was said.
            role: Who said it. Default: "user".

        Returns:
            The facts that it tells of. Where the model fails, none; the text waits to be tried again, and `failures`
            says why.

        Raises:
            InvalidInput: There is no model, or an argument is wrong.
        """
        with self._at_hand():
            return self._do(self._extracting(text, role))

    async def aextract_and_update_from_text(self, text: str, role: str = "user") -> list[Fact]:
        """`extract_and_update_from_text`, awaited."""
        with self._at_hand():
            return await self._ado(self._extracting(text, role))

    def drain(self) -> int:
        """Have facts extracted from all that waits, now, and wait for it.

        What the model fails at is tried again at once, up to `max_attempts` of the settings; then it is given up, and
        `failures` says why. Nothing of that is raised.

        Whoever else extracts just now, in the background or in another process, is waited for; one that died holds
        the right to do so for some seconds yet.

        Returns:
            How many messages this call has settled, beside those that others did; 0 without a model.
        """
        if self._teacher is None:
            return 0
        if not isinstance(self._ground.point, BranchAt):
            return self._do(self._draining(learning(self._ground, self._teacher))).messages
        with self._database.tracing.step("memory.facts.drain", inputs=lambda: whose(self._ground)) as step:
            done: list[Learned] = []
            while True:
                learned: list[Learned] = []
                pause = self._database.worker.attempt(self._wanted, partial(self._learn, learned, patient=False))
                done += learned
                if pause is None and not any(each.lost for each in learned):
                    break
                time.sleep(pause or 0.0)
            together = Learned(
                sum(each.messages for each in done),
                any(each.failed for each in done),
                fact_ids=tuple(key for each in done for key in each.fact_ids),
            )
            step.finish(together.told)
        return together.messages

    async def adrain(self) -> int:
        """`drain`, awaited."""
        if self._teacher is not None and not isinstance(self._ground.point, BranchAt):
            return (await self._ado(self._draining(learning(self._ground, self._teacher)))).messages
        return await asyncio.to_thread(self.drain)

    def waiting(self) -> int:
        """How many messages wait to have facts extracted from them."""
        return self._do(self._waiting())

    async def awaiting(self) -> int:
        """`waiting`, awaited."""
        return await self._ado(self._waiting())

    def failures(self, limit: int | None = None) -> list[ExtractionFailure]:
        """What went wrong when facts were extracted, the newest last; the last 100 are kept.

        Args:
            limit: The last of them, at most so many. Default: all.
        """
        return self._do(self._failures(limit))

    async def afailures(self, limit: int | None = None) -> list[ExtractionFailure]:
        """`failures`, awaited."""
        return await self._ado(self._failures(limit))

    # -- branches --------------------------------------------------------------------------------------------------

    def at(self, name: str) -> Self:
        """The facts of another branch of this namespace, with the same model and settings.

        Raises:
            InvalidInput: This cannot be the name of a branch.
        """
        return self._on(BranchAt(self._ground.point.path, id_of(name, "branch")))

    def fork(self, name: str) -> Self:
        """Begin a branch here: it sees all that this one has, and nothing of what comes later. Nothing is copied.

        The branch is that of `memory.layers` too.

        Args:
            name: The name of the fork.

        Raises:
            InvalidInput: The name is taken, or this is the memory of a thread.
        """
        return self._on(self._do(branch_merge.forking(self._ground, id_of(name, "branch"))))

    async def afork(self, name: str) -> Self:
        """`fork`, awaited."""
        return self._on(await self._ado(branch_merge.forking(self._ground, id_of(name, "branch"))))

    # -- plumbing --------------------------------------------------------------------------------------------------

    def _do(self, work: Work[T]) -> T:
        return perform(work, self._database)

    async def _ado(self, work: Work[T]) -> T:
        return await aperform(work, self._database)

    def _on(self, point: Standpoint) -> Self:
        return type(self)(
            self._database, point, model=self._model, description=self._description, settings=self.settings
        )

    def _said(
        self,
        message: Message | BaseMessage | Mapping[str, Any] | None,
        role: str | None,
        content: Any,
        name: str | None,
        tool_calls: Sequence[Any] | None,
        agent_calls: Sequence[Any] | None,
        images: Sequence[str] | None,
        tool_call_id: str | None,
    ) -> Message:
        made, _ = message_of(
            message,
            new_id=self._database.new_id,
            role=role,
            content=content,
            name=name,
            tool_calls=tool_calls,
            agent_calls=agent_calls,
            images=images,
            tool_call_id=tool_call_id,
        )
        return made

    def _waiting(self) -> Work[int]:
        def look(view: View) -> Steps[int]:
            return len((yield from source_texts.waiting(view)))

        return (yield from looking(self._ground, "facts.waiting", look, outputs=lambda count: {"waiting": count}))

    def _failures(self, limit: int | None) -> Work[list[ExtractionFailure]]:
        most = limit_given(limit)

        def told(found: list[ExtractionFailure]) -> dict[str, Any]:
            some = [{"message_ids": each.message_ids, "failure": brief(each.error), "at": each.at} for each in found]
            return {"count": len(found), "failures": some}

        return (
            yield from looking(self._ground, "facts.failures", partial(source_texts.failures, limit=most), outputs=told)
        )

    # -- learning --------------------------------------------------------------------------------------------------

    def _extracting(self, text: str, role: str) -> Work[list[Fact]]:
        if self._teacher is None:
            raise InvalidInput(
                "To extract facts a model is needed: memory.facts(…, model=…). Without one, use add_fact()."
            )
        said = self._said(
            None, fact_commands.role_given(role), text_given(text, "The text"), None, None, None, None, None
        )
        work, told = self._remembering(self._teacher, said), partial(fact_traces.messages, [said])
        return (yield from as_step(self._ground, "facts.remember", work, outputs=fact_traces.listed, messages=told))

    def _remembering(self, teacher: Teacher, said: Message) -> Work[list[Fact]]:
        yield from fact_commands.keeping(self._ground, [said], description=self._description, shown=False)
        yield from learning(self._ground, teacher, only=[said.message_id], patient=True)
        return (yield from fact_commands.told_by(self._ground, said.message_id, shown=False))

    def _draining(self, work: Work[Learned]) -> Work[Learned]:
        return (yield from as_step(self._ground, "facts.drain", work, outputs=Learned.told))

    @contextmanager
    def _at_hand(self) -> Iterator[None]:
        """While the caller has a text extracted, nobody begins to ask about it in the background too."""
        self._asking.append(None)
        try:
            yield
        finally:
            self._asking.pop()
            self._attendant.notify()

    def _look(self) -> Looked:
        """Extract facts from what waits, in the background."""
        learned: list[Learned] = []
        try:
            if not self._database.engine.read(self._is_waited_for) or self._asking:
                return Looked()
            pause = self._database.worker.attempt(self._wanted, partial(self._learn, learned, patient=True))
        except MemoryClosed:
            return Looked(over=True)
        except Exception:  # what waits goes on waiting
            if not self._database.engine.usable:
                return Looked(over=True)
            logger.warning("No facts were extracted for %r; it will be tried again.", self.name, exc_info=True)
            return Looked(job_queue.pause(0), failed=True)
        failed = any(each.failed for each in learned)
        if failed or any(each.lost for each in learned):  # whoever has the right now may die
            pause = job_queue.pause(0)
        return Looked(pause, failed=failed)

    def _is_waited_for(self) -> Steps[bool]:
        view = yield from self._ground.point.view(self._ground.now())
        return bool((yield from source_texts.waiting(view)))

    def _learn(self, learned: list[Learned], job: Job, *, patient: bool) -> None:
        if self._teacher is not None:
            holds = partial(job_queue.holds, job)
            work = learning(self._ground, self._teacher, holds=holds, patient=patient)
            # `drain` is one step, however often it has to try; in the background nothing else shows what is done.
            learned.append(self._do(self._draining(work) if patient else work))
