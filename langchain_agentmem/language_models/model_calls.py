"""Work that asks a model or the database, written once for those who wait and for those who await.

Work is a generator, as an operation of the storage is: it yields what it wants, an `Ask` for a model, a `Run` or a
`Search` for the database, a `Do` for anything else, is sent the answer, and returns a value. What goes wrong is raised
in it, at the place where it asked.

    def haiku(model):
        text = yield Ask(model, [HumanMessage("A haiku about memory.")], "haiku")
        return text.splitlines()

    perform(haiku(model))            # or: await aperform(haiku(model))

`Ahead` does work in the background, in threads, once at a time for each conversation.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar

from langchain_core.messages import BaseMessage
from langchain_core.runnables.config import RunnableConfig, run_in_executor

from langchain_agentmem.base.concurrency import PerProcess, aside, led
from langchain_agentmem.base.encoding import THOUGHTS, kind_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput, MemoryClosed, MissingExtra, leaves_the_node
from langchain_agentmem.messages.history_repair import encodable
from langchain_agentmem.storage import Operation, jobs
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.jobs import Job, WantedJob
from langchain_agentmem.tracing import SILENT, RunType, Step, Thunk, Tracing, brief

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable

    from langchain_agentmem.storage.database import Database, Outputs

P = ParamSpec("P")
T = TypeVar("T")

NO_STREAM = "nostream"
"""LangGraph's tag for a model whose words are no part of the agent's answer."""

OURS = "agentmem"
"""The tag of a model's call that memory makes, and not the agent."""

ASKED_FOR = "agentmem_step"
"""What the metadata of such a call says it is made for: the name of its step."""

Reply: TypeAlias = str | BaseMessage
ModelLike: TypeAlias = (
    "Runnable[list[BaseMessage], Any] | Callable[[list[BaseMessage]], Reply | Awaitable[Reply]] | str"
)
"""What can be asked: a LangChain model or any other Runnable that takes messages; a function from messages to text or
to a message, awaited or not; or the name of a model such as "openai:gpt-5-mini" (extra `[agents]`)."""

_WITHOUT_DATABASE = Tracing()
"""For work that needs no database."""


class Ask(NamedTuple):
    """A question to a model; the answer is its text, unless something else is wanted.

    Attributes:
        model: Whatever `usable_model` gives.
        messages: What it is given.
        name: What the step is called in a trace, `<part>.<verb>`. The model's own run shows beneath it.
        timeout: Seconds to wait for an answer, after which `TimeoutError` is raised; None for ever.
        read: Takes the answer out of what the model gave. Default: its text.
        shown: Whether it is a step of its own. If not, the model's run shows beneath the step around it.
        inputs: What a trace shows beside how much it is given.
    """

    model: Any
    messages: Sequence[BaseMessage]
    name: str
    timeout: float | None = None
    read: Callable[[Any], Any] | None = None
    shown: bool = True
    inputs: Thunk | None = None


class Run(NamedTuple):
    """An operation on the database; the answer is its value.

    Attributes:
        name: What the step is called in a trace, `<part>.<verb>`.
        make: Makes the operation.
        write: Whether it writes.
        inputs: What a trace shows of it.
        outputs: What it shows of its value. Default: how much that is.
        shown: Whether it is a step of its own. If not, it is a detail of the step around it.
    """

    name: str
    make: Operation[Any]
    write: bool = False
    inputs: Thunk | None = None
    outputs: Outputs | None = None
    shown: bool = True


class Shown(NamedTuple):
    """Work that a trace shows as one step, with all that it wishes for beneath it; the answer is its value.

    Attributes:
        name: What the step is called in a trace, `<part>.<verb>`.
        work: The work.
        inputs: What a trace shows of it.
        outputs: What it shows of its value. Default: nothing.
        run_type: What LangChain takes it for; see `Tracing.step`.
        config: The run that it belongs to. Default: the one that it is performed in.
    """

    name: str
    work: Work[Any]
    inputs: Thunk | None = None
    outputs: Outputs | None = None
    run_type: RunType = "chain"
    config: RunnableConfig | None = None


class Do(NamedTuple):
    """Anything else that has to be waited for; the answer is what it returns.

    Attributes:
        do: A function, for those who wait.
        ado: Its awaited twin. Default: the same, in a thread.
    """

    do: Callable[[], Any]
    ado: Callable[[], Awaitable[Any]] | None = None


class Answering(Protocol):
    """Anything else that a database answers, such as a `Search`."""

    def answer(self, database: Database) -> Any:
        """The answer, as a step of the run."""
        ...

    async def aanswer(self, database: Database) -> Any:
        """`answer`, awaited."""
        ...


Wish: TypeAlias = Ask | Run | Shown | Do | Answering

Work: TypeAlias = Generator[Wish, Any, T]
"""Yields what it wants to know, is sent the answers, returns a `T`."""


class Writer(NamedTuple):
    """Where it comes from what is being remembered.

    Attributes:
        source: "user", "model", "tool", "import" or "person", one who looks after a memory. Default: nobody says, and
            it is the application's own code.
        actor: Who that is, such as a model's or a tool's name. Default: nobody in particular.
    """

    source: str | None = None
    actor: str | None = None


NOBODY = Writer()
"""Nobody says where it comes from."""
_writer: contextvars.ContextVar[Writer] = contextvars.ContextVar("agentmem_writer")


def writer() -> Writer:
    """Where it comes from what is remembered here."""
    return _writer.get(NOBODY)


@contextmanager
def written_by(source: str, actor: str | None = None) -> Iterator[None]:
    """Set the source and actor of what is written meanwhile; the arguments are those of `Writer`."""
    token = _writer.set(Writer(source, actor))
    try:
        yield
    finally:
        _writer.reset(token)


def perform(work: Work[T], database: Database | None = None) -> T:
    """Do the work, waiting for each answer.

    Args:
        work: What to do.
        database: Where its operations run; needed only if it has any.
    """
    try:
        wish = next(work)
        while True:
            try:
                answer = _answer(wish, database)
            except Exception as error:  # it is the work's to handle
                if leaves_the_node(error):
                    raise
                wish = work.throw(error)
            else:
                wish = work.send(answer)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]  # StopIteration is not generic
    finally:
        work.close()


async def aperform(work: Work[T], database: Database | None = None) -> T:
    """`perform`, awaited. Where the work is given much, it goes on in a thread, and the event loop with it."""
    return await led(work, partial(_aanswer, database=database))


class Performer:
    """An object whose methods are work on a database; see `both`."""

    _database: Database | None

    def _do(self, work: Work[T]) -> T:
        return perform(work, self._database)

    async def _ado(self, work: Work[T]) -> T:
        return await aperform(work, self._database)


S = TypeVar("S", bound=Performer)


def both(
    method: Callable[Concatenate[S, P], Work[T]],
) -> tuple[Callable[Concatenate[S, P], T], Callable[Concatenate[S, P], Coroutine[Any, Any, T]]]:
    """The public forms of a method that is written as work: one that waits, and one that is awaited.

        def _get_work(self, key: str) -> Work[str]:
            return (yield Run("part.get", partial(find, key)))

        get, aget = both(_get_work)

    Both keep the docstring and the parameters, for readers, editors and type checkers.

    Args:
        method: Its name is `_…_work`; its class is a `Performer`.
    """

    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        work = method(self, *args, **kwargs)
        del args, kwargs  # a traceback would show them, and a key may be among them
        return self._do(work)

    async def acall(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        work: Work[T] = await aside(method, self, *args, **kwargs)  # what is given much is also checked in a thread
        del args, kwargs
        return await self._ado(work)

    verb = method.__name__.removeprefix("_").removesuffix("_work")
    signature = inspect.signature(method)
    signature = signature.replace(return_annotation=_value_of(signature.return_annotation))
    for twin, name in ((call, verb), (acall, f"a{verb}")):
        update_wrapper(twin, method)
        del twin.__dict__["__wrapped__"]
        twin.__name__ = name
        twin.__qualname__ = method.__qualname__.rpartition(".")[0] + "." + name
        twin.__annotations__["return"] = signature.return_annotation
        twin.__dict__["__signature__"] = signature
    method.__qualname__ = call.__qualname__  # Python's own errors about arguments tell the name that was called
    acall.__doc__ = f"`{verb}`, awaited."
    return call, acall


def _value_of(annotation: Any) -> Any:
    """What work returns, by its annotation."""
    return annotation[len("Work[") : -1] if isinstance(annotation, str) and annotation.startswith("Work[") else Any


def usable_model(given: ModelLike | None) -> Any:
    """What can be asked, made of what a user gave.

    Args:
        given: The model, or None.

    Returns:
        The same, or the model of that name; None for None.

    Raises:
        InvalidInput: It cannot be asked.
        MissingExtra: A name is given, and langchain is not installed.
    """
    if isinstance(given, str):
        try:
            from langchain.chat_models import init_chat_model  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingExtra("A model by its name", "agents") from error
        try:
            return init_chat_model(given)
        except (ImportError, ValueError) as error:
            raise InvalidInput(f"There is no model {safe_repr(given)}: {error}") from error
        except Exception as error:  # each provider has errors of its own, for a key that is missing among others
            raise InvalidInput(f"The model {safe_repr(given)} cannot be used: {error}") from error
    if given is None or hasattr(given, "invoke") or callable(given):
        return given
    raise InvalidInput(
        f"{type(given).__name__} cannot be asked. Give a LangChain model, a function from messages to text, or the "
        "name of a model."
    )


def _answer(wish: Wish, database: Database | None) -> Any:
    if isinstance(wish, Do):
        return wish.do()
    if isinstance(wish, Run):
        database = _of(database)
        run = database.write if wish.write else database.read
        return run(wish.name, wish.make, wish.inputs, wish.outputs, shown=wish.shown)
    if not isinstance(wish, Ask | Shown):
        return wish.answer(_of(database))
    with _step(wish, database) as step:
        if isinstance(wish, Shown):
            value = perform(wish.work, database)
            step.finish(lambda: _told(wish, value))
            return value
        with _tracing(database).private():
            answer = _asked(wish) if wish.timeout is None and not _is_in_a_loop() else _in_time(wish, wish.timeout)
        step.finish(lambda: _answered(answer))
        return answer


async def _aanswer(wish: Wish, database: Database | None) -> Any:
    if isinstance(wish, Do):
        return await (run_in_executor(None, wish.do) if wish.ado is None else wish.ado())
    if isinstance(wish, Run):
        database = _of(database)
        run = database.awrite if wish.write else database.aread
        return await run(wish.name, wish.make, wish.inputs, wish.outputs, shown=wish.shown)
    if not isinstance(wish, Ask | Shown):
        return await wish.aanswer(_of(database))
    async with _step(wish, database) as step:
        if isinstance(wish, Shown):
            value = await aperform(wish.work, database)
            step.finish(lambda: _told(wish, value))
            return value
        with _tracing(database).private():
            answer = await _awaited_answer(wish)
        step.finish(lambda: _answered(answer))
        return answer


async def _awaited_answer(wish: Ask) -> Any:
    async with asyncio.timeout(wish.timeout):
        if hasattr(wish.model, "ainvoke"):
            return _read(wish, await wish.model.ainvoke(_question(wish), config=_config(wish)))
        # A function that only waits must not hold up the loop. With asyncio.to_thread one that raises StopIteration,
        # as next() does, would be waited for without end.
        ask, question = wish.model, _question(wish)
        reply = ask(question) if inspect.iscoroutinefunction(ask) else await run_in_executor(None, ask, question)
        return _read(wish, await reply if inspect.isawaitable(reply) else reply)


def _asked(wish: Ask) -> Any:
    if hasattr(wish.model, "invoke"):
        return _read(wish, wish.model.invoke(_question(wish), config=_config(wish)))
    reply = wish.model(_question(wish))
    if inspect.isawaitable(reply):
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            reply = runner.run(_awaited(reply))
    return _read(wish, reply)


def _question(wish: Ask) -> list[BaseMessage]:
    return [encodable(message) for message in wish.messages]


def _is_in_a_loop() -> bool:
    """Whether this thread has a loop that runs, beside which there can be no other to await a model in."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _in_time(wish: Ask, timeout: float | None) -> Any:
    """Ask in a thread that is left to itself when time is up: nothing else can end a call that hangs."""
    answer: Future[Any] = Future()

    def ask() -> None:
        try:
            answer.set_result(_asked(wish))
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is waited for
            answer.set_exception(error)

    thread = threading.Thread(target=partial(contextvars.copy_context().run, ask), name="agentmem-ask", daemon=True)
    thread.start()
    thread.join(timeout)
    if not answer.done():
        raise TimeoutError(f"The model gave no answer within {timeout:g} s.")
    return answer.result()


async def _awaited(reply: Any) -> Any:
    return await reply


def _step(wish: Ask | Shown, database: Database | None) -> Step:
    tracing, name = _tracing(database), f"memory.{wish.name}"
    if isinstance(wish, Shown):
        return tracing.step(name, run_type=wish.run_type, inputs=wish.inputs, config=wish.config)
    if not wish.shown:
        return SILENT
    return tracing.step(name, inputs=lambda: _asks(wish))


def _asks(wish: Ask) -> dict[str, Any]:
    size = sum(len(str(each.text)) for each in wish.messages)
    return {"messages": len(wish.messages), "characters": size, **({} if wish.inputs is None else wish.inputs())}


def _answered(answer: Any) -> dict[str, Any]:
    return {"answer": brief(answer) if isinstance(answer, str) else answer}


def _told(wish: Shown, value: Any) -> Mapping[str, Any]:
    return {} if wish.outputs is None else wish.outputs(value)


def _tracing(database: Database | None) -> Tracing:
    return _WITHOUT_DATABASE if database is None else database.tracing


def _config(wish: Ask) -> dict[str, Any]:
    return {"tags": [NO_STREAM, OURS], "metadata": {ASKED_FOR: f"memory.{wish.name}"}}


def _read(wish: Ask, reply: Any) -> Any:
    return _text(reply) if wish.read is None else wish.read(reply)


def _text(reply: Any) -> str:
    """The text of whatever a model gave."""
    if isinstance(reply, BaseMessage):
        return str(reply.text)
    content = getattr(reply, "content", reply)
    if isinstance(content, list):
        said = [block for block in content if kind_of(block) not in THOUGHTS]
        return "".join(str(block.get("text", "")) if isinstance(block, Mapping) else str(block) for block in said)
    return "" if content is None else str(content)


def _of(database: Database | None) -> Database:
    if database is None:
        raise InvalidInput("This work needs a database.")
    return database


logger = logging.getLogger(__name__)
KIND = "compaction"
"""The kind of the jobs."""
AT_ONCE = 4
"""Compactions that are made at the same time."""


Place: TypeAlias = tuple[str, str]
"""A conversation or a branch: the path of its namespace, and its name."""


class Ahead:
    """Makes compactions in the background. One object serves any number of conversations and threads."""

    _news = PerProcess(threading.Condition)  # guards what follows
    _begun: PerProcess[set[Place]] = PerProcess(set)
    _waiting: PerProcess[deque[tuple[Database, Place, str, Callable[[], Work[object]]]]] = PerProcess(deque)
    _threads = PerProcess(int)

    def begin(self, database: Database, at: Place, lane: str, make: Callable[[], Work[object]]) -> bool:
        """Have a compaction made, unless one of the conversation is being made. Never waits.

        Args:
            database: Where it is kept.
            at: The conversation.
            lane: Whose context it is.
            make: Gives the work.

        Returns:
            Whether it was begun.
        """
        with self._news:
            if at in self._begun:
                return False
            self._begun.add(at)
            self._waiting.append((database, at, lane, make))
            if self._threads < AT_ONCE:
                self._threads += 1
                threading.Thread(target=self._run, name="agentmem-ahead", daemon=True).start()
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing is being made, or until time is up.

        Args:
            timeout: Seconds. Default: for ever.

        Returns:
            Whether nothing is being made.
        """
        with self._news:
            return self._news.wait_for(lambda: not self._begun, timeout)

    def _run(self) -> None:
        while True:
            with self._news:
                if not self._waiting:
                    self._threads -= 1
                    return
                database, at, lane, make = self._waiting.popleft()
            try:
                database.worker.attempt(compaction_job(at, lane), partial(_made, database, make))
            except MemoryClosed:
                pass
            except Exception:  # the turn that needs it will compact itself
                logger.warning("Work in the background failed; the turn that needs it does it again.", exc_info=True)
            finally:
                with self._news:
                    self._begun.discard(at)
                    self._news.notify_all()


def _made(database: Database, make: Callable[[], Work[object]], job: Job) -> None:
    del job
    # In a context of its own: the run of the turn that began it may be over, and is no parent for what is done here.
    contextvars.Context().run(perform, make(), database)


def compaction_job(at: Place, lane: str) -> WantedJob:
    """The right to compact a context: one process at a time has it.

    Args:
        at: The conversation.
        lane: Whose context it is.
    """
    path, name = at
    return WantedJob(path, KIND, jobs.key_in(name, lane))
