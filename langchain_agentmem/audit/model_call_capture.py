"""`AuditHandler`: a LangChain callback handler that records every model call of a run as an entry.

    graph.invoke(question, {"callbacks": [memory.audit.handler()]})

The messages of a run may contain values that cannot be stored, such as a table as a tool's artifact, or a parsed reply
of a user's class. A message may even be invalid. The trail stores the fields or a short description of these values.

By default, entries contain the complete texts. With `redact`, secrets are removed first. If the removal fails, no text
of the call is written, and `extra["withheld"]` has the type of the error.

`start_entry` and `finish_entry` make entries from the arguments of the callbacks:

    call = start_entry([HumanMessage("Hi")], entry_id="e", run_id="1", created_at=now, metadata={"thread_id": "t"})
    entry = finish_entry(call, LLMResult(generations=[[generation]]), duration=0.8)

Both accept unexpected values without an error, since each provider has its own keys for tokens, names and stop reasons,
and a user's metadata may contain anything.

The handler never changes a run. It is not a streaming handler, so it does not cause a model to stream. It logs and
suppresses its exceptions. In async runs, LangChain calls it in a thread of the loop's executor, so writing never blocks
the loop. An ended call is written before the callback returns.

LangChain does not report everything. Plain models (`BaseLLM`) do not report cached answers. A model that is called
outside of any chain or graph does not report its `configurable`. In this case, pass the thread id in `metadata`, as
LangGraph does.

LangChain may report the start of a run but not its end, for example if a task is cancelled while it awaits a model. The
handler also writes this call. LangChain passes the run's id to the handler as an object to which the run holds a
reference. After the garbage collection of this object, the next callback writes the call. Closing the handler writes
all calls that are still open.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, Self, TypeAlias

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessageChunk, BaseMessage, message_chunk_to_message
from pydantic_core import to_jsonable_python

from langchain_agentmem.audit.audit_entry import AuditEntry
from langchain_agentmem.base.clock import Clock, NewId, new_uuid, utc_now
from langchain_agentmem.base.concurrency import PerProcess
from langchain_agentmem.base.encoding import MAX_DEPTH, is_plain
from langchain_agentmem.base.hooks import FirstFailures
from langchain_agentmem.base.namespaces import CONFIG_KEY, Namespace, Scopes, check_id, running_config
from langchain_agentmem.base.redaction import redact_value
from langchain_agentmem.errors import InvalidInput, MessageError, safe_repr
from langchain_agentmem.language_models.model_calls import STEP_KEY
from langchain_agentmem.messages.langchain_messages import from_langchain
from langchain_agentmem.messages.message import Message, stored_fields
from langchain_agentmem.rewinding.graph_runs import list_nested_graphs
from langchain_agentmem.tracing import drop_none

_MAX_DEPTH = MAX_DEPTH - 16  # messages and entries add levels around a value
_MAX_REPR = 500  # characters
# Fields of a message that may contain any values.
_UNTYPED_FIELDS = ("content", "structured_data", "reasoning_details", "langchain")
_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "system": "system", "tool": "tool"}


def to_message(value: Any) -> Message:
    """Convert any input or answer of a model to a message that can be stored.

    Args:
        value: A LangChain message. Any other value becomes a user message.

    Returns:
        The result of `from_langchain`, with values that cannot be stored replaced by `to_storable`. An invalid message
        keeps only its role and content. A chunk of a reply becomes a whole message.
    """
    if not isinstance(value, BaseMessage):
        return Message(role="user", content=value if isinstance(value, str) else safe_repr(value))
    try:
        message = from_langchain(message_chunk_to_message(value) if isinstance(value, AIMessageChunk) else value)
    except (InvalidInput, ValueError, TypeError, KeyError, AttributeError):
        kind, content = str(value.__dict__.get("type")), value.__dict__.get("content")
        text = content if isinstance(content, str) else safe_repr(content, _MAX_REPR)
        return Message(role=_ROLES.get(kind, "unknown"), content=text)
    try:
        stored_fields(message, copied=False)
    except MessageError:
        converted: dict[str, Any] = {name: to_storable(getattr(message, name)) for name in _UNTYPED_FIELDS}
        message = replace(message, **converted)
    return message


def to_storable(value: Any) -> Any:
    """Convert a value to one that can be stored.

    Args:
        value: Anything.

    Returns:
        The value itself if it has only JSON types. Otherwise a copy of JSON types, with objects replaced by their
        fields or a short description. If no copy is possible, as for a value that is nested too deeply or refers to
        itself, a short description of the whole value.
    """
    if is_plain(value, _MAX_DEPTH):
        return value
    with suppress(Exception):  # the conversion runs the user's code, which may raise anything
        plain = to_jsonable_python(value, fallback=lambda each: safe_repr(each, _MAX_REPR))
        if is_plain(plain, _MAX_DEPTH):
            return plain
    return safe_repr(value, _MAX_REPR)


Cleaner: TypeAlias = Callable[[Any], Any]
"""A function that removes secrets from a text, or from the texts in a dictionary or list."""


def make_cleaner(redact: bool | Callable[[str], str]) -> Cleaner | None:  # noqa: FBT001 - it is a user's setting
    """Make the function that removes secrets from entries.

    Args:
        redact: True to remove the secrets that `base.redaction` finds, False to remove nothing, or a function that
            receives a text and returns it without secrets.

    Returns:
        The function, which also changes texts in dictionaries and lists. None for False.
    """
    if isinstance(redact, bool):
        return redact_value if redact else None

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            cleaned = redact(value)
            if not isinstance(cleaned, str):  # the value may contain the secret, so the error omits it
                raise InvalidInput(f"redact must return a text, not {type(cleaned).__name__}.")
            return cleaned
        if isinstance(value, Mapping):
            return {key: clean(item) for key, item in value.items()}
        return type(value)(map(clean, value)) if isinstance(value, list | tuple) else value

    return clean


def redact_entry(entry: AuditEntry, clean: Cleaner) -> AuditEntry:
    """Return an entry without the secrets in its prompt, reply, error, messages and `extra`.

    Args:
        entry: The entry of a call.
        clean: The function that removes secrets.
    """
    texts: dict[str, Any] = {name: clean(getattr(entry, name)) for name in ("prompt", "reply", "error")}
    messages = tuple(_clean_message(message, clean) for message in entry.messages)
    return replace(entry, messages=messages, extra=clean(dict(entry.extra)), **texts)


def strip_texts(entry: AuditEntry, reason: BaseException) -> AuditEntry:
    """Return an entry without its texts and messages, after a failed redaction.

    The new `extra["withheld"]` is the type of the exception `reason`. Only the type of the call's error remains.
    """
    error = None if entry.error is None else entry.error.partition(":")[0]
    extra = {"answers": 0, "withheld": type(reason).__name__}
    return replace(entry, prompt="", reply="", error=error, messages=(), extra=extra)


def _clean_message(message: Message, clean: Cleaner) -> Message:
    calls, agents = message.tool_calls, message.agent_calls
    fields: dict[str, Any] = {name: clean(getattr(message, name)) for name in (*_UNTYPED_FIELDS, "images")}
    return replace(
        message,
        tool_calls=calls and [replace(call, arguments=clean(call.arguments)) for call in calls],
        agent_calls=agents and [replace(call, request=clean(call.request)) for call in agents],
        **fields,
    )


MAX_ERROR_CHARS = 10_000
"""The maximum number of characters of a stored error text."""

# The keys that providers use for a value.
_INPUT_KEYS = ("input_tokens", "prompt_tokens", "prompt_token_count", "inputTokens", "prompt_eval_count")
_OUTPUT_KEYS = ("output_tokens", "completion_tokens", "candidates_token_count", "outputTokens", "eval_count")
_USAGE_KEYS = ("usage_metadata", "token_usage", "usage")
_MODEL_KEYS = ("model_name", "model", "model_id", "modelId", "deployment_name", "azure_deployment", "repo_id")
_REASON_KEYS = ("finish_reason", "stop_reason", "stopReason", "done_reason")
_SETTING_KEYS = ("ls_temperature", "ls_max_tokens", "ls_stop")
_REFUSAL_KEYS = frozenset({"body", "headers", "status_code", "request_id"})  # the metadata of a refused request
# Keys and tags to omit from `extra`: those stored elsewhere, and those of LangChain and LangGraph.
_STORED_KEYS = {"thread_id", "conversation_id", "checkpoint_ns", "checkpoint_id", "task_id", CONFIG_KEY, STEP_KEY}
_INTERNAL_PREFIXES = ("ls_", "langgraph_", "lc_", "__")
_STEP_TAGS = ("seq:step:", "graph:step:", "map:key:")


def start_entry(
    inputs: Sequence[Any],
    /,
    *,
    entry_id: str,
    run_id: str,
    created_at: datetime,
    configurable: Any = None,
    scopes: Scopes = Scopes(),  # noqa: B008 - a value
    **callback_args: Any,
) -> AuditEntry:
    """Make the entry of a model call that begins.

    Args:
        inputs: The messages or texts that the model receives.
        entry_id: The id of the entry.
        run_id: The id of the call's run.
        created_at: The start time.
        configurable: The `configurable` of the surrounding config, for keys that the metadata lacks. Default: None.
        scopes: The rules that resolve the namespace. Default: `Scopes()`, which uses only an explicit namespace.
        **callback_args: The keyword arguments of the callback. The function uses `parent_run_id`, `name`, `tags`,
            `metadata` and `invocation_params`. In `metadata`, LangGraph passes the thread and the node. Without a
            `name`, a call that the memory made is named after its purpose.
    """
    metadata, params = _as_mapping(callback_args.get("metadata")), _as_mapping(callback_args.get("invocation_params"))
    tags, name = _as_sequence(callback_args.get("tags")), callback_args.get("name")
    parent, configurable = callback_args.get("parent_run_id"), _as_mapping(configurable)
    extra: dict[str, Any] = {
        "name": name if isinstance(name, str) else metadata.get(STEP_KEY),
        "node": metadata.get("langgraph_node"),
        "step": metadata.get("langgraph_step"),
        "checkpoint_ns": metadata.get("langgraph_checkpoint_ns") or metadata.get("checkpoint_ns"),
        "agent": metadata.get("lc_agent_name"),
        "provider": metadata.get("ls_provider"),
        "tags": [tag for tag in tags if isinstance(tag, str) and not tag.startswith(_STEP_TAGS)],
        "tools": _tool_names(params),
        "settings": {key[3:]: metadata[key] for key in _SETTING_KEYS if metadata.get(key) is not None},
        "metadata": {
            key: value
            for key, value in metadata.items()
            if isinstance(key, str) and key not in _STORED_KEYS and not key.startswith(_INTERNAL_PREFIXES)
        },
    }
    names = ("thread_id", "conversation_id", CONFIG_KEY, "langgraph_auth_user_id", *scopes.keys)
    config_values = {key: _first_value((metadata, configurable), (key,)) for key in names}
    config_values["__pregel_runtime"] = configurable.get("__pregel_runtime")
    thread_id = _valid_id(config_values, "thread_id", extra)
    messages = tuple(map(to_message, inputs))
    prompt = next((each for each in reversed(messages) if each.role == "user"), messages[-1] if messages else None)
    return AuditEntry(
        id=entry_id,
        kind="call",
        prompt="" if prompt is None else prompt.text,
        reply="",
        created_at=created_at,
        conversation_id=_valid_id(config_values, "conversation_id", extra) or thread_id,
        namespace=_resolve_namespace(config_values, extra, scopes),
        model=_first_value((params, {"model": metadata.get("ls_model_name")}), _MODEL_KEYS, _is_name),
        run_id=run_id,
        parent_run_id=None if parent is None else str(parent),
        thread_id=thread_id,
        messages=messages,
        extra={key: to_storable(value) for key, value in extra.items() if not _is_empty(value)},
    )


def finish_entry(
    call: AuditEntry, response: Any, *, duration: float | None, error: BaseException | str | None = None
) -> AuditEntry:
    """Make the entry of a call that was answered or failed.

    Args:
        call: The entry from `start_entry`.
        response: LangChain's `LLMResult`. For a failed call, the part that was streamed before the failure, or None.
        duration: The duration of the call in seconds. None if it is unknown.
        error: The error of a failed call. Default: None, an answered call.
    """
    messages, provider_data, extra = _read_answer(response)
    extra = {**call.extra, **extra, "answers": len(messages)}
    if error is not None and messages:
        extra["partial"] = True
    return replace(
        call,
        reply=messages[0].text if messages else "",
        model=_first_value(provider_data, _MODEL_KEYS, _is_name) or call.model,
        input_tokens=0 if "cached" in extra else _first_value(provider_data, _INPUT_KEYS, _is_count),
        output_tokens=0 if "cached" in extra else _first_value(provider_data, _OUTPUT_KEYS, _is_count),
        duration=duration,
        error=None if error is None else _error_text(error),
        messages=(*call.messages, *messages),
        extra=extra,
    )


def _read_answer(response: Any) -> tuple[list[Message], list[Mapping[str, Any]], dict[str, Any]]:
    """Return the messages of an `LLMResult`, the provider's metadata, and data for `extra`."""
    batches = getattr(response, "generations", None)
    messages: list[Message] = []
    provider_data: list[Mapping[str, Any]] = []
    extra: dict[str, Any] = {}
    for generation in [each for batch in _as_sequence(batches) for each in _as_sequence(batch)]:
        message = getattr(generation, "message", None)
        metadata = _as_mapping(getattr(message, "response_metadata", None))
        if metadata and metadata.keys() <= _REFUSAL_KEYS and not getattr(message, "content", None):
            # This is LangChain's message for a request that the provider refused, and not an answer.
            refusal = {key: metadata.get(key) for key in ("status_code", "request_id")}
            extra |= {key: to_storable(value) for key, value in refusal.items() if value is not None}
            continue
        usage = _as_mapping(getattr(message, "usage_metadata", None))
        provider_data += [usage, metadata, _as_mapping(getattr(generation, "generation_info", None))]
        # LangChain sets a total cost of 0 for cached answers only.
        if "total_cost" in usage and not usage["total_cost"]:
            extra["cached"] = True
        text = getattr(generation, "text", generation)
        messages.append(replace(to_message(text), role="assistant") if message is None else to_message(message))
    provider_data.append(_as_mapping(getattr(response, "llm_output", None)))
    if (reason := _first_value(provider_data, _REASON_KEYS)) is not None:
        extra["stop_reason"] = to_storable(reason)
    provider_data += [_as_mapping(each.get(key)) for each in provider_data for key in _USAGE_KEYS]
    return messages, provider_data, extra


def _error_text(error: BaseException | str) -> str:
    if isinstance(error, str):
        return error
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the user's code may raise anything
        text = ""
    text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text if len(text) <= MAX_ERROR_CHARS else text[: MAX_ERROR_CHARS - 1] + "…"


def _valid_id(config_values: Mapping[str, Any], key: str, extra: dict[str, Any]) -> str | None:
    """Return the id under a key, or None. Put an invalid id into `extra`."""
    value = config_values[key]
    if value is None or (isinstance(value, str) and not value):
        return None
    with suppress(Exception):  # the error text of `check_id` calls the object's own `repr`
        return check_id(value, "call")
    extra[key] = value
    return None


def _resolve_namespace(config_values: Mapping[str, Any], extra: dict[str, Any], scopes: Scopes) -> Namespace:
    """Return the namespace of a call. For an invalid one, return the root.

    The entry is then hidden from other namespaces, which cannot read the root.
    """
    try:
        return scopes.resolve(None, {"configurable": drop_none(config_values)})
    except Exception:  # noqa: BLE001 - values of a user's config may raise anything
        extra["namespace"] = config_values[CONFIG_KEY]
        return ()


def _tool_names(params: Mapping[str, Any]) -> list[str]:
    tools = map(_as_mapping, _as_sequence(params.get("tools")))
    names = (_first_value((tool, _as_mapping(tool.get("function"))), ("name",)) for tool in tools)
    return [name for name in names if isinstance(name, str)]


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _first_value(
    mappings: Sequence[Mapping[str, Any]], keys: Sequence[str], is_valid: Callable[[Any], bool] = lambda _: True
) -> Any:
    values = (mapping.get(key) for mapping in mappings for key in keys)
    return next((value for value in values if value is not None and is_valid(value)), None)


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | tuple | dict) and not value)


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if type(value) is dict or isinstance(value, Mapping) else {}


def _as_sequence(values: Any) -> Sequence[Any]:
    return values if isinstance(values, list | tuple) else ()


ABANDONED = "Abandoned: the run ended before the model answered, for example because its task was cancelled."
UNFINISHED = "Unfinished: the handler was closed before the model answered."

logger = logging.getLogger(__name__)


class _OpenCall(NamedTuple):
    """A call that has begun and not ended.

    Attributes:
        call: The incomplete entry.
        started: The start time by `time.perf_counter`.
        run_reference: A weak reference to the run's id, whose callback adds the id to the handler's `_dead_runs`. None
            if the id does not support weak references.
    """

    call: AuditEntry
    started: float
    run_reference: weakref.ref[Any] | None


class AuditHandler(BaseCallbackHandler):
    """A callback handler that records every model call of its runs.

    One handler serves any number of concurrent runs, graphs and threads.

    Args:
        record: A function that writes an entry. The handler calls it once for each ended call, in the thread of the
            callback. Its exceptions are logged, repeated ones only once, and suppressed.
        new_id: A function that makes the ids of entries. Default: `new_uuid`.
        clock: A function that returns the current time. Default: the system time in UTC.
        redact: True to remove secrets before writing, see `base.redaction`. Or a function that receives a text and
            returns it without secrets. If the removal fails, the entry contains no texts. Default: False.
        scopes: The rules that resolve the namespace of a run's config. Default: `Scopes()`, which uses only an explicit
            namespace.
        find_conversation: A function that returns the id of the conversation for the config of a nested graph's run.
            Default: a function that returns None.
    """

    # The handler records model calls only. It needs no callbacks for the traced steps of this memory.
    ignore_steps = True
    ignore_agent = ignore_chain = ignore_retriever = ignore_retry = ignore_custom_event = True

    # A forked child begins without open calls, because the calls of the parent process end in the parent.
    _lock = PerProcess(threading.Lock)
    _open_calls: PerProcess[dict[str, _OpenCall]] = PerProcess(dict)
    # The ids of garbage-collected runs. The callback of a weak reference adds them, and must not write to the database
    # or take a lock, because garbage collection may run the callback anywhere.
    _dead_runs: PerProcess[deque[str]] = PerProcess(deque)

    def __init__(
        self,
        record: Callable[[AuditEntry], object],
        new_id: NewId = new_uuid,
        clock: Clock = utc_now,
        *,
        redact: bool | Callable[[str], str] = False,
        scopes: Scopes = Scopes(),  # noqa: B008 - a value
        find_conversation: Callable[[Mapping[str, Any]], str | None] = lambda _: None,
    ) -> None:
        self._record = record
        self._new_id = new_id
        self._clock = clock
        self._scopes = scopes
        self._find_conversation = find_conversation
        self._clean = make_cleaner(redact)
        self._failures = FirstFailures(logger)

    def on_chat_model_start(self, serialized: Any, messages: Sequence[Any], *, run_id: Any, **kwargs: Any) -> None:
        """Record the start of a chat model's call."""
        del serialized
        self._begin_call([each for batch in messages or () for each in batch], run_id, kwargs)

    def on_llm_start(self, serialized: Any, prompts: Sequence[str], *, run_id: Any, **callback_args: Any) -> None:
        """Record the start of a text model's call."""
        del serialized
        self._begin_call(prompts or (), run_id, callback_args)

    def on_llm_end(self, response: Any, *, run_id: Any, **callback_args: Any) -> None:
        """Write the entry of an answered call."""
        del callback_args
        self._end_call(run_id, "an answered call", response)
        self._write_abandoned()

    def on_llm_error(self, error: BaseException, *, run_id: Any, **callback_args: Any) -> None:
        """Write the entry of a failed or cancelled call."""
        self._end_call(run_id, "a failed call", callback_args.get("response"), error)
        self._write_abandoned()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def close(self) -> None:
        """Write the open calls as unfinished. The handler stays usable."""
        with self._lock:
            run_ids = list(self._open_calls)
        for run_id in run_ids:
            self._end_call(run_id, "an unfinished call", error=UNFINISHED)

    def _begin_call(self, inputs: Sequence[Any], run_id: Any, callback_args: Mapping[str, Any]) -> None:
        with self._suppress_errors("the start of a call"):
            if (key := str(run_id)) in self._open_calls:
                return  # a handler that was passed to a run twice receives each callback twice
            config = running_config() or {}
            call = start_entry(
                inputs,
                entry_id=self._new_id(),
                run_id=key,
                created_at=self._clock(),
                configurable=config.get("configurable"),
                scopes=self._scopes,
                **callback_args,
            )
            if list_nested_graphs(config.get("configurable") or {}) and call.conversation_id == call.thread_id:
                call = replace(call, conversation_id=None)
                with self._suppress_errors("the conversation of a nested graph"):
                    call = replace(call, conversation_id=self._find_conversation(config))
            dead_runs, run_reference = self._dead_runs, None
            with suppress(TypeError):  # strings do not support weak references
                run_reference = weakref.ref(run_id, lambda _: dead_runs.append(key))
            with self._lock:
                self._open_calls.setdefault(key, _OpenCall(call, time.perf_counter(), run_reference))
        self._write_abandoned()

    def _write_abandoned(self) -> None:
        """Write the calls whose runs were garbage-collected."""
        while self._dead_runs:
            with suppress(IndexError):  # another thread took it first
                self._end_call(self._dead_runs.popleft(), "an abandoned call", error=ABANDONED)

    def _end_call(self, id_: Any, label: str, response: Any = None, error: BaseException | str | None = None) -> None:
        """Write the call of a run that has ended, if the call is open.

        If LangChain did not report the end, `error` is a text, and the duration is unknown.
        """
        with self._suppress_errors(label):
            with self._lock:
                open_call = self._open_calls.pop(str(id_), None)
            if open_call is not None:
                duration = None if isinstance(error, str) else time.perf_counter() - open_call.started
                self._write(finish_entry(open_call.call, response, duration=duration, error=error))

    def _write(self, entry: AuditEntry) -> None:
        if self._clean is not None:
            try:
                entry = redact_entry(entry, self._clean)
            except Exception as error:  # noqa: BLE001 - a user's function may raise anything
                error.__suppress_context__ = True  # the run's own error may contain the secret
                self._report("redacting a call", error)
                entry = strip_texts(entry, error)
        self._record(entry)

    @contextmanager
    def _suppress_errors(self, label: str) -> Iterator[None]:
        """Log exceptions of the block and suppress them, so that the run continues."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - recording must not break the run
            self._report(f"recording {label}", error)

    def _report(self, activity: str, error: Exception) -> None:
        source = activity, type(error)
        self._failures.report(source, "The audit trail failed when %s. The run continues.", activity, error=error)
