"""Calls of a model (`ask_model`), and the classification of its errors (`refusal_kind`).

    def haiku(database: Database, model: Any) -> str:
        text = ask_model(database, model, [HumanMessage("A haiku about memory.")], "haiku")
        return text.splitlines()[0]

`ask_model` returns the text of the reply. `refusal_kind` reads the exceptions of every provider.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from langchain_core.messages import BaseMessage
from langchain_core.runnables.config import run_in_executor

from langchain_agentmem.base import concurrency
from langchain_agentmem.base.data_tables import load_data_table
from langchain_agentmem.base.encoding import REASONING_TYPES, block_type
from langchain_agentmem.errors import InvalidInput, MissingExtra, safe_repr
from langchain_agentmem.messages.history_repair import make_encodable
from langchain_agentmem.storage.background import TaskKey
from langchain_agentmem.storage.database import Database
from langchain_agentmem.tracing import NULL_STEP, Thunk, Tracing, shorten_text

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable

NO_STREAM = "nostream"
"""LangGraph's tag for a model whose output is not part of the agent's answer."""

MEMORY_TAG = "agentmem"
"""The tag of a model call that is made by memory, not by the agent."""

STEP_KEY = "agentmem_step"
"""The metadata key of a model call that is made by memory. Its value is the name of the traced step."""

Reply: TypeAlias = str | BaseMessage
ModelLike: TypeAlias = (
    "Runnable[list[BaseMessage], Any] | Callable[[list[BaseMessage]], Reply | Awaitable[Reply]] | str"
)
"""A model: a Runnable, a function, or a name.

A Runnable, such as a LangChain model, accepts messages. A function, sync or async, accepts messages and returns a text
or a message. A name, such as "openai:gpt-5-mini", needs the extra `[agents]`."""

_WITHOUT_DATABASE = Tracing()
"""The tracing of calls without a database."""


class SourceNote(NamedTuple):
    """The source and the actor of memory that is being written.

    Attributes:
        source: "user", "model", "tool", "import" or "person" (a person who maintains the memory). Default None: the
            application's own code.
        actor: The name of the source, such as the name of a model or a tool. Default: None.
    """

    source: str | None = None
    actor: str | None = None


NO_SOURCE = SourceNote()
"""The value outside of `written_by`: the application's own code is the source."""
_source_note: contextvars.ContextVar[SourceNote] = contextvars.ContextVar("agentmem_writer")


def current_source() -> SourceNote:
    """Return the source and actor that `written_by` set in the current context."""
    return _source_note.get(NO_SOURCE)


@contextmanager
def written_by(source: str, actor: str | None = None) -> Iterator[None]:
    """Set the source and actor of the writes in a block; see `SourceNote`."""
    token = _source_note.set(SourceNote(source, actor))
    try:
        yield
    finally:
        _source_note.reset(token)


def usable_model(model: ModelLike | None) -> Any:
    """Return a model that `ask_model` can call.

    Args:
        model: A model, the name of a model, or None.

    Returns:
        The model itself, or the model with that name. None for None.

    Raises:
        InvalidInput: The argument is not a model, or LangChain cannot create a model with this name.
        MissingExtra: The argument is a name, and the package langchain is not installed.
    """
    if isinstance(model, str):
        try:
            from langchain.chat_models import init_chat_model  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingExtra("A model by its name", "agents") from error
        try:
            return init_chat_model(model)
        except Exception as error:  # each provider has its own errors, such as for a missing key
            raise InvalidInput(f"The model {safe_repr(model)} cannot be used: {error}") from error
    if model is None or hasattr(model, "invoke") or callable(model):
        return model
    raise InvalidInput(
        f"{type(model).__name__} is not a model. Pass a LangChain chat model, a function from messages to text, or a "
        "'provider:model' name."
    )


def ask_model(
    database: Database | None,
    model: Any,
    messages: Sequence[BaseMessage],
    name: str,
    timeout: float | None = None,
    *,
    traced: bool = True,
    inputs: Thunk | None = None,
) -> str:
    """Call a model and return the text of its reply, without reasoning.

    In an async call, the caller's event loop runs the model. A model may interrupt the graph that calls it. So callers
    that catch `Exception` must reraise `GraphBubbleUp`.

    Args:
        database: The database whose traces show the call. None if there is none.
        model: The model, as `usable_model` returns it.
        messages: The prompt.
        name: The name of the traced step, without "memory.": `<part>.<verb>`. The model's own run is its child.
        timeout: The seconds to wait for an answer. Default: no limit.
        traced: True traces the call as its own step. False makes the model's run a child of the surrounding step.
            Default: True.
        inputs: A function that returns further inputs to trace. The size of the prompt is always traced. Default: none.

    Raises:
        TimeoutError: The model did not answer in time.
    """
    concurrency.check_cancelled()
    prompt = [make_encodable(message) for message in messages]
    config = {"tags": [NO_STREAM, MEMORY_TAG], "metadata": {STEP_KEY: f"memory.{name}"}}

    def trace_inputs() -> dict[str, Any]:
        size = sum(len(str(each.text)) for each in messages)
        return {"messages": len(messages), "characters": size, **({} if inputs is None else inputs())}

    tracing = _WITHOUT_DATABASE if database is None else database.tracing
    with tracing.step(f"memory.{name}", inputs=trace_inputs) if traced else NULL_STEP as step:
        with tracing.hide_private_runs():
            if concurrency.is_in_worker():
                reply = concurrency.run_on_callers_loop(partial(_await_reply, model, prompt, config, timeout))
            # `_call_model` may run a loop, and a thread runs only one.
            elif timeout is None and concurrency.callers_loop() is None:
                reply = _call_model(model, prompt, config)
            else:  # Python cannot stop a thread, so a call that hangs continues in its thread
                future = concurrency.run_in_new_thread(partial(_call_model, model, prompt, config))
                if not wait([future], timeout).done:
                    raise TimeoutError(f"The model gave no answer within {timeout:g} s.")
                reply = future.result()
            answer = _reply_text(reply)
        step.finish(lambda: {"answer": shorten_text(answer)})
    return answer


async def _await_reply(model: Any, prompt: list[BaseMessage], config: Any, seconds: float | None) -> Any:
    async with asyncio.timeout(seconds):
        if hasattr(model, "ainvoke"):
            return await model.ainvoke(prompt, config=config)
        # A sync function runs in a thread, because it may block. `run_in_executor` converts a StopIteration. With
        # `asyncio.to_thread`, that exception would be lost, and the call would wait forever.
        reply = model(prompt) if inspect.iscoroutinefunction(model) else await run_in_executor(None, model, prompt)
        return await reply if inspect.isawaitable(reply) else reply


def _call_model(model: Any, prompt: list[BaseMessage], config: Any) -> Any:
    if hasattr(model, "invoke"):
        return model.invoke(prompt, config=config)
    reply = model(prompt)
    if inspect.isawaitable(reply):

        async def wait_for_reply() -> Any:
            return await reply

        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            return runner.run(wait_for_reply())
    return reply


def _reply_text(reply: Any) -> str:
    """Return the text of a model's reply, without reasoning."""
    if isinstance(reply, BaseMessage):
        return str(reply.text)
    content = getattr(reply, "content", reply)
    if isinstance(content, list):
        blocks = [block for block in content if block_type(block) not in REASONING_TYPES]
        return "".join(str(block.get("text", "")) if isinstance(block, Mapping) else str(block) for block in blocks)
    return "" if content is None else str(content)


PathAndName: TypeAlias = tuple[str, str]
"""A conversation or a branch: the path of its namespace, and its name."""


def compaction_key(conversation: PathAndName, context: str) -> TaskKey:
    """Return the key of the task that compacts a context in one process at a time.

    Args:
        conversation: The path of the conversation's namespace, and the conversation's name.
        context: The name of the context within the conversation, such as that of a role.
    """
    path, name = conversation
    return TaskKey(path, "compaction", f"{name}\x1f{context}")


# --- The kinds of refusals --------------------------------------------------------------------------------------------
# `overflow.yaml` lists the words, codes and statuses of errors, each with its source. No provider's package is needed.

Refusal: TypeAlias = Literal["tokens", "bytes", "rate", "unclear", "other"]


def refusal_kind(error: BaseException) -> Refusal:
    """Classify the reason why a model refused a prompt, from its error and the error's causes.

    Args:
        error: The exception of a model.

    Returns:
        "tokens": The prompt has more tokens than the model accepts. "bytes": The request is too large in another way.
        "rate": The prompt has more tokens than are allowed per minute. "unclear": The request is invalid for an
        unknown reason (status 400, 413 or 422). "other": Any other error.
    """
    errors = [*map(_describe_error, _error_chain(error))]
    kinds: Iterator[Refusal] = (row["kind"] for each in errors for row in _refusal_rows() if _matches_row(row, each))
    if (kind := next(kinds, None)) is not None:
        return kind
    status = next((each.status for each in errors if each.status), None)
    return "unclear" if status in (400, 413, 422) else "other"


def is_too_large(error: BaseException) -> bool:
    """Return whether a model's error reports that the prompt is too large.

    Args:
        error: The exception of a model.
    """
    return refusal_kind(error) in {"tokens", "bytes", "rate"}


class _ErrorDescription(NamedTuple):
    """The names of the classes, the status, the codes and the message of one error."""

    classes: frozenset[str]
    status: int | None
    codes: frozenset[str]
    message: str


@cache
def _refusal_rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = load_data_table("language_models/overflow.yaml")
    return rows


def _matches_row(row: Mapping[str, Any], description: _ErrorDescription) -> bool:
    """Return whether a row of `overflow.yaml` matches an error."""
    return (
        row.get("status", 0) == description.status
        or row.get("code") in description.codes
        or row.get("error") in description.classes
        or ("words" in row and re.search(row["words"], description.message, re.IGNORECASE | re.DOTALL) is not None)
    )


def _error_chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and then its causes; at most 8 errors in total."""
    for _ in range(8):
        if error is None:
            return
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _describe_error(error: BaseException) -> _ErrorDescription:
    """Describe an error by its attributes, its response, and the body of the response."""
    response = getattr(error, "response", None)
    body = getattr(error, "body", None)
    # The response of botocore, the client of Bedrock, is the body itself.
    body = body if isinstance(body, Mapping) else response if isinstance(response, Mapping) else {}
    inner = next((body[key] for key in ("error", "Error") if isinstance(body.get(key), Mapping)), body)
    names = ("status_code", "status", "http_status", "code")
    values = [getattr(each, name, None) for each in (error, response) for name in names]
    values += [(body.get("ResponseMetadata") or {}).get("HTTPStatusCode"), *map(inner.get, ("code", "type", "Code"))]
    codes = [str(value) for value in values if isinstance(value, int | str) and not isinstance(value, bool)]
    status = next((int(each) for each in codes if re.fullmatch(r"[45]\d\d", each)), None)
    classes = frozenset(each.__name__ for each in type(error).__mro__)
    return _ErrorDescription(classes, status, frozenset(codes), str(error))
