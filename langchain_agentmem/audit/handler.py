"""A callback handler of LangChain that writes every model call of a run into the audit trail.

    graph.invoke(question, {"callbacks": [memory.audit.handler()]})

It looks on, and changes nothing: it is no streaming handler, so that a model streams or does not as it would without
it; it raises nothing; and where LangChain awaits, it is called in a thread of the loop's executor, so that writing
never holds up the loop. What has returned has been written.

What LangChain does not tell cannot be written: plain models (`BaseLLM`) do not tell of answers out of a cache, and a
model that is called by itself, outside of any chain or graph, does not tell its `configurable`. Name its thread in
`metadata`, as LangGraph does.

A run may begin and never end. A task that awaits a model and is cancelled tells nobody, and so do runs that a process
leaves behind. Such a call is written too, once it is known that nobody will end it: LangChain passes the id of a run as
an object that the run itself holds, and when that object is gone, so is the run.
"""

from __future__ import annotations

import asyncio
import logging
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

from langchain_core.callbacks import BaseCallbackHandler

from langchain_agentmem.audit import model_call_capture, redacting
from langchain_agentmem.audit.audit_entry import AuditEntry
from langchain_agentmem.base import forks
from langchain_agentmem.base.clock import Clock, NewId, new_uuid, utc_now
from langchain_agentmem.base.events import FirstFailures
from langchain_agentmem.base.namespaces import running_config
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput

MOST_OPEN = 10_000
"""How many calls may be under way at once. Of more, the oldest is taken for one that will never end."""

CANCELLED = "CancelledError: the run was cancelled before the model answered."
GIVEN_UP = "Abandoned: the run was given up before the model answered, as when the task that awaits it is cancelled."
UNFINISHED = "Unfinished: the handler was closed before the model answered."
CROWDED_OUT = "Unfinished: more calls were under way than are kept in mind, and this was the oldest."

logger = logging.getLogger(__name__)


async def _hear() -> None:
    """Nothing."""


class _Nothing:
    """Can be awaited, and is no coroutine that somebody would have to run."""

    def __await__(self) -> Iterator[None]:
        return iter(())


class _Unheard:
    """Takes the place of a callback that comes with each token, so that it costs next to nothing.

    LangChain hands a plain callback to a thread where it awaits, and runs a coroutine in a loop of its own where it
    does not; either costs a hundred microseconds. This one passes for a coroutine function, which is awaited at once,
    and gives something that need not be awaited. To whoever looks for something else it is a plain callback.
    """

    __name__ = "unheard"
    __code__ = _hear.__code__
    __defaults__ = __kwdefaults__ = None

    def __call__(self, *args: Any, **kwargs: Any) -> _Nothing:
        del args, kwargs
        return _NOTHING


_NOTHING = _Nothing()
_UNHEARD: Any = _Unheard()


class _Open(NamedTuple):
    """A call that has begun and not ended.

    Attributes:
        call: The call.
        began: When, by the timer.
        run: The id of the run, for as long as the run holds it.
    """

    call: model_call_capture.Call
    began: float
    run: weakref.ref[Any] | None


class AuditHandler(BaseCallbackHandler):
    """Writes every model call of the runs that it is given to.

    One handler serves any number of runs, graphs and threads at once.

    Args:
        record: Writes an entry. It is called once for each call, when the call has ended, in the thread in which
            LangChain calls the handler. What it raises is logged once.
        new_id: Makes ids for entries. Default: UUIDs.
        clock: The time of day. Default: now, in UTC.
        redact: True to take secrets out before anything is written, see `memory.secrets`; or a function from a text to
            one without them. Where that fails, only that there was a call is written. Default False: a complete trail.
        timer: Seconds that only go forward.
        most_open: How many calls may be under way at once. Default: `MOST_OPEN`.

    Raises:
        InvalidInput: `record` cannot be called, `redact` is neither, or `most_open` is no positive number.
    """

    # Steps of this memory are no calls of a model, and need not be told for its sake.
    hears_nodes_only = True
    ignore_agent = ignore_retriever = ignore_retry = ignore_custom_event = True
    on_llm_new_token = on_stream_event = on_chain_start = on_chain_end = _UNHEARD

    def __init__(
        self,
        record: Callable[[AuditEntry], object],
        new_id: NewId = new_uuid,
        clock: Clock = utc_now,
        *,
        redact: bool | Callable[[str], str] = False,
        timer: Callable[[], float] = time.perf_counter,
        most_open: int = MOST_OPEN,
    ) -> None:
        if not callable(record):
            raise InvalidInput(f"{safe_repr(record)} cannot record calls. Give a function that takes an AuditEntry.")
        if not isinstance(redact, bool) and not callable(redact):
            raise InvalidInput(f"redact is True, False, or a function from text to text, not {safe_repr(redact)}.")
        if type(most_open) is not int or most_open < 1:
            raise InvalidInput(f"most_open is a number of calls, from 1, not {safe_repr(most_open)}.")
        self._record = record
        self._new_id = new_id
        self._clock = clock
        self._timer = timer
        self._most_open = most_open
        self._clean = redacting.cleaner_of(redact)
        self._failures = FirstFailures(logger)
        self._lock = forks.lock()
        self.renew()
        forks.renewed(self)

    def renew(self) -> None:
        """Begin with nothing: the calls that are under way are the parent's."""
        self._open: dict[str, _Open] = {}
        self._cancelled: set[str] = set()
        # Filled where garbage is collected, which may be anywhere: nothing may be written there, nor any lock taken.
        self._gone: deque[str] = deque()

    def on_chat_model_start(
        self, serialized: Any, messages: Sequence[Sequence[Any]], *, run_id: Any, **told: Any
    ) -> None:
        """A chat model is given messages."""
        del serialized
        self._begin([each for some in messages or () for each in some], run_id, told)

    def on_llm_start(self, serialized: Any, prompts: Sequence[str], *, run_id: Any, **told: Any) -> None:
        """A model that knows no messages is given a text."""
        del serialized
        self._begin(prompts or (), run_id, told)

    def on_llm_end(self, response: Any, *, run_id: Any, **told: Any) -> None:
        """A model has answered."""
        del told
        with self._unharmed("a call that ended"):
            if (found := self._take(str(run_id))) is not None:
                duration = self._timer() - found.began
                self._write(model_call_capture.ended(found.call, response, entry_id=self._new_id(), duration=duration))
        self._sweep()

    def on_llm_error(self, error: BaseException, *, run_id: Any, **told: Any) -> None:
        """A model has failed, or its answer is not wanted any more."""
        with self._unharmed("a call that failed"):
            if (found := self._take(str(run_id))) is not None:
                self._fail(found, error, told.get("response"), self._timer() - found.began)
        self._sweep()

    def on_chain_error(self, error: BaseException, *, run_id: Any, **told: Any) -> None:
        """A run has failed. If it was cancelled, so are the calls in it, which LangChain does not say."""
        del told
        if isinstance(error, asyncio.CancelledError):
            with self._unharmed("a cancelled run"):
                parent = str(run_id)
                with self._lock:
                    # They may go on all the same, if the user's code shields them. So this is said when they are gone.
                    self._cancelled.update(key for key, each in self._open.items() if each.call.parent_run_id == parent)
        self._sweep()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def close(self) -> None:
        """Write the calls that have not ended, as unfinished. The handler can be used further."""
        with self._lock:
            keys = list(self._open)
        for key in keys:
            with self._unharmed("an unfinished call"):
                self._give_up(key, UNFINISHED)

    def _begin(self, given: Sequence[Any], run_id: Any, told: Mapping[str, Any]) -> None:
        with self._unharmed("a call that began"):
            if (key := str(run_id)) in self._open:
                return  # a handler that is given twice hears everything twice
            parent = told.get("parent_run_id")
            config = running_config() or {}
            call = model_call_capture.begun(
                given,
                run_id=key,
                created_at=self._clock(),
                parent_run_id=None if parent is None else str(parent),
                name=told.get("name"),
                tags=told.get("tags"),
                metadata=told.get("metadata"),
                params=told.get("invocation_params"),
                configurable=config.get("configurable"),
            )
            found = _Open(call, self._timer(), self._watch(run_id, key))
            with self._lock:
                self._open.setdefault(key, found)
                oldest = next(iter(self._open)) if len(self._open) > self._most_open else None
            if oldest is not None:
                self._give_up(oldest, CROWDED_OUT)
        self._sweep()

    def _watch(self, run_id: Any, key: str) -> weakref.ref[Any] | None:
        gone = self._gone
        try:
            return weakref.ref(run_id, lambda _: gone.append(key))
        except TypeError:
            return None

    def _sweep(self) -> None:
        """Write the calls whose runs are gone."""
        while self._gone:
            with self._unharmed("a call that was given up"):
                try:
                    key = self._gone.popleft()
                except IndexError:  # another thread was quicker
                    return
                self._give_up(key, GIVEN_UP)

    def _give_up(self, key: str, reason: str) -> None:
        cancelled = key in self._cancelled
        if (found := self._take(key)) is not None:
            self._fail(found, CANCELLED if cancelled else reason, None, None)

    def _take(self, key: str) -> _Open | None:
        with self._lock:
            self._cancelled.discard(key)
            return self._open.pop(key, None)

    def _fail(self, found: _Open, error: BaseException | str, response: Any, duration: float | None) -> None:
        self._write(model_call_capture.failed(found.call, error, response, entry_id=self._new_id(), duration=duration))

    def _write(self, entry: AuditEntry) -> None:
        if self._clean is not None:
            try:
                entry = redacting.without_secrets(entry, self._clean)
            except Exception as error:  # noqa: BLE001 - a user's function may do anything
                error.__suppress_context__ = True  # the failure of the run may say what was to be taken out
                self._report("taking secrets out of a call", error)
                entry = redacting.withheld(entry, error)
        self._record(entry)

    @contextmanager
    def _unharmed(self, what: str) -> Iterator[None]:
        """Keep what goes wrong in the block away from the run."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - looking on may not break what is looked at
            self._report(f"recording {what}", error)

    def _report(self, doing: str, error: Exception) -> None:
        source = doing, type(error)
        self._failures.report(source, "The audit trail failed at %s; the run goes on.", doing, error=error)
