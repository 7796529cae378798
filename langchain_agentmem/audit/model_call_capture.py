"""What LangChain's callbacks say of a model call, as an entry of the audit trail.

    call = begun([HumanMessage("Hi")], run_id="1", created_at=now, metadata={"thread_id": "t"})
    entry = ended(call, LLMResult(generations=[[generation]]), entry_id="e", duration=0.8)

Nothing here raises on account of what it is given: providers tell of tokens, names and reasons each in words of their
own, and a user's metadata may hold anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from langchain_agentmem.audit.audit_entry import CALL, AuditEntry
from langchain_agentmem.audit.storable import message_of, storable
from langchain_agentmem.base.namespaces import CONFIG_KEY, LONGEST_ID, Namespace, id_of, resolve
from langchain_agentmem.language_models.model_calls import ASKED_FOR
from langchain_agentmem.messages import Message

LONGEST_ERROR = 10_000
"""Characters of an error that are kept."""

_INPUT = ("input_tokens", "prompt_tokens", "prompt_token_count", "inputTokens", "prompt_eval_count")
_OUTPUT = ("output_tokens", "completion_tokens", "candidates_token_count", "outputTokens", "eval_count")
_USAGE = ("usage_metadata", "token_usage", "usage")
_MODEL = ("model_name", "model", "model_id", "modelId", "deployment_name", "azure_deployment", "repo_id")
_REASON = ("finish_reason", "stop_reason", "stopReason", "done_reason")
_SETTINGS = ("ls_temperature", "ls_max_tokens", "ls_stop")
_REFUSED = frozenset({"body", "headers", "status_code", "request_id"})
_NO_ID = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_SAID_ELSEWHERE = frozenset(
    {"thread_id", "conversation_id", "checkpoint_ns", "checkpoint_id", "task_id", CONFIG_KEY, ASKED_FOR}
)
_BOOKKEEPING = ("ls_", "langgraph_", "lc_", "__")
_STEP_TAGS = ("seq:step:", "graph:step:", "map:key:")


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A model call that has begun.

    Attributes:
        run_id: The run of LangChain that it is.
        created_at: When it began.
        messages: What the model is given.
        parent_run_id: The run that it is part of. Default None.
        namespace: Where it belongs. Default: the root.
        conversation_id: To which conversation. Default None.
        thread_id: In which thread. Default None.
        model: The model that is asked, as far as is known before it answers. Default None.
        extra: What else is known. Default {}.
    """

    run_id: str
    created_at: datetime
    messages: tuple[Message, ...]
    parent_run_id: str | None = None
    namespace: Namespace = ()
    conversation_id: str | None = None
    thread_id: str | None = None
    model: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


def begun(
    given: Sequence[Any],
    *,
    run_id: str,
    created_at: datetime,
    parent_run_id: str | None = None,
    name: Any = None,
    tags: Any = None,
    metadata: Any = None,
    params: Any = None,
    configurable: Any = None,
) -> Call:
    """A model call, as it begins.

    Args:
        given: The messages, or the texts, that the model is given.
        run_id: The run that it is.
        created_at: When it began.
        parent_run_id: The run that it is part of. Default None.
        name: What the run is called. Default: what memory asked it for, if it did.
        tags: Its tags. Default None.
        metadata: Its metadata, in which LangGraph names thread and node. Default None.
        params: What the model is called with. Default None.
        configurable: That of the surrounding config, for what metadata does not say. Default None.
    """
    metadata, params, configurable = _mapped(metadata), _mapped(params), _mapped(configurable)
    extra: dict[str, Any] = {
        "name": name if isinstance(name, str) else metadata.get(ASKED_FOR),
        "node": metadata.get("langgraph_node"),
        "step": metadata.get("langgraph_step"),
        "checkpoint_ns": metadata.get("langgraph_checkpoint_ns") or metadata.get("checkpoint_ns"),
        "agent": metadata.get("lc_agent_name"),
        "provider": metadata.get("ls_provider"),
        "tags": _own_tags(tags),
        "tools": _tool_names(params),
        "settings": {key[3:]: metadata[key] for key in _SETTINGS if metadata.get(key) is not None},
        "metadata": {key: value for key, value in metadata.items() if not _is_bookkeeping(key)},
    }
    places = {key: _first((metadata, configurable), (key,)) for key in ("thread_id", "conversation_id", CONFIG_KEY)}
    thread_id = _usable_id(places, "thread_id", extra)
    return Call(
        run_id=run_id,
        created_at=created_at,
        messages=tuple(map(message_of, given)),
        parent_run_id=parent_run_id,
        namespace=_usable_namespace(places, extra),
        conversation_id=_usable_id(places, "conversation_id", extra) or thread_id,
        thread_id=thread_id,
        model=_name((params, {"model": metadata.get("ls_model_name")})),
        extra={key: storable(value) for key, value in extra.items() if not _is_nothing(value)},
    )


def ended(call: Call, response: Any, *, entry_id: str, duration: float | None) -> AuditEntry:
    """The entry of a call that was answered.

    Args:
        call: The call.
        response: LangChain's `LLMResult`.
        entry_id: What the entry is called.
        duration: Seconds that it took.
    """
    return _entry(call, _answer(response), entry_id, duration)


def failed(
    call: Call, error: BaseException | str, response: Any = None, *, entry_id: str, duration: float | None
) -> AuditEntry:
    """The entry of a call that failed, with what had been answered until then.

    Args:
        call: The call.
        error: What went wrong.
        response: LangChain's `LLMResult`, which holds what was streamed. Default None.
        entry_id: What the entry is called.
        duration: Seconds until then; None where that is not known.
    """
    entry = _entry(call, _answer(response), entry_id, duration)
    extra = {**entry.extra, "partial": True} if entry.extra["answers"] else entry.extra
    return replace(entry, error=_said(error), extra=extra)


class _Answer(NamedTuple):
    messages: tuple[Message, ...] = ()
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    extra: Mapping[str, Any] = {}


def _entry(call: Call, answer: _Answer, entry_id: str, duration: float | None) -> AuditEntry:
    asked = next((each for each in reversed(call.messages) if each.role == "user"), None)
    asked = call.messages[-1] if asked is None and call.messages else asked
    return AuditEntry(
        id=entry_id,
        kind=CALL,
        prompt="" if asked is None else asked.text,
        reply=answer.messages[0].text if answer.messages else "",
        created_at=call.created_at,
        conversation_id=call.conversation_id,
        namespace=call.namespace,
        model=answer.model or call.model,
        input_tokens=answer.input_tokens,
        output_tokens=answer.output_tokens,
        duration=duration,
        run_id=call.run_id,
        parent_run_id=call.parent_run_id,
        thread_id=call.thread_id,
        messages=(*call.messages, *answer.messages),
        extra={**call.extra, **answer.extra, "answers": len(answer.messages)},
    )


def _answer(response: Any) -> _Answer:
    """What an `LLMResult` says."""
    lists = getattr(response, "generations", None)
    flat = [each for some in _listed(lists) for each in _listed(some)]
    extra: dict[str, Any] = {}
    generations = []
    for generation in flat:
        if (refusal := _refusal(generation)) is None:
            generations.append(generation)
        else:
            told = {key: refusal.get(key) for key in ("status_code", "request_id")}
            extra |= {key: storable(value) for key, value in told.items() if value is not None}
    tellings: list[Mapping[str, Any]] = []
    for generation in generations:
        message = getattr(generation, "message", None)
        metadata = _mapped(getattr(message, "response_metadata", None))
        usage = _mapped(getattr(message, "usage_metadata", None))
        tellings += [usage, metadata, _mapped(getattr(generation, "generation_info", None))]
        # LangChain says of an answer out of its cache that it cost nothing, and of no other.
        if "total_cost" in usage and not usage["total_cost"]:
            extra["cached"] = True
    tellings.append(_mapped(getattr(response, "llm_output", None)))
    tellings = [telling for telling in tellings if telling]
    counts = [*tellings, *(_mapped(telling.get(key)) for telling in tellings for key in _USAGE)]
    if (reason := _first(tellings, _REASON)) is not None:
        extra["stop_reason"] = storable(reason)
    cached = extra.get("cached", False)
    return _Answer(
        messages=tuple(_said_by_model(generation) for generation in generations),
        model=_name(tellings),
        input_tokens=0 if cached else _count(counts, _INPUT),
        output_tokens=0 if cached else _count(counts, _OUTPUT),
        extra=extra,
    )


def _refusal(generation: Any) -> Mapping[str, Any] | None:
    """What LangChain made of a provider's refusal, where this is no answer; headers and the like stay out."""
    message = getattr(generation, "message", None)
    metadata = _mapped(getattr(message, "response_metadata", None))
    if message is None or getattr(message, "content", None) or not metadata or not metadata.keys() <= _REFUSED:
        return None
    return metadata


def _said_by_model(generation: Any) -> Message:
    message = getattr(generation, "message", None)
    if message is not None:
        return message_of(message)
    return replace(message_of(getattr(generation, "text", generation)), role="assistant")


def _said(error: BaseException | str) -> str:
    if isinstance(error, str):
        return error
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - it is somebody's own code, and may do anything
        text = ""
    text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text if len(text) <= LONGEST_ERROR else text[: LONGEST_ERROR - 1] + "…"


def _usable_id(places: Mapping[str, Any], key: str, extra: dict[str, Any]) -> str | None:
    """An id that storage takes, and in `extra` what was said, where that is another."""
    given = places[key]
    if given is None or (isinstance(given, str) and not given):
        return None
    try:
        return id_of(given, "call")
    except Exception:  # noqa: BLE001 - to say that it is none, an object is asked for its own words
        extra[key] = given
        text = _NO_ID.sub(" ", given if isinstance(given, str) else str(storable(given)))
        return text[:LONGEST_ID].strip() or None


def _usable_namespace(places: Mapping[str, Any], extra: dict[str, Any]) -> Namespace:
    """The namespace; the root, which nobody else sees into, where what was said is none."""
    given = places[CONFIG_KEY]
    try:
        return resolve(given, {})
    except Exception:  # noqa: BLE001 - as above
        extra["namespace"] = given
        return ()


def _own_tags(tags: Any) -> list[str]:
    """The tags without those by which LangChain and LangGraph count steps."""
    return [tag for tag in _listed(tags) if isinstance(tag, str) and not tag.startswith(_STEP_TAGS)]


def _tool_names(params: Mapping[str, Any]) -> list[str]:
    tools = params.get("tools")
    named = (_first((tool, _mapped(tool.get("function"))), ("name",)) for tool in map(_mapped, _listed(tools)))
    return [name for name in named if isinstance(name, str)]


def _is_bookkeeping(key: Any) -> bool:
    return not isinstance(key, str) or key in _SAID_ELSEWHERE or key.startswith(_BOOKKEEPING)


def _name(tellings: Sequence[Mapping[str, Any]]) -> str | None:
    names = (telling.get(key) for telling in tellings for key in _MODEL)
    return next((name for name in names if isinstance(name, str) and name), None)


def _count(tellings: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> int | None:
    counts = (telling.get(key) for telling in tellings for key in keys)
    return next((count for count in counts if type(count) is int and count >= 0), None)


def _first(tellings: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> Any:
    said = (telling.get(key) for telling in tellings for key in keys)
    return next((each for each in said if each is not None), None)


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | tuple | dict) and not value)


def _mapped(value: Any) -> Mapping[str, Any]:
    return value if type(value) is dict or isinstance(value, Mapping) else {}


def _listed(values: Any) -> Sequence[Any]:
    return values if isinstance(values, list | tuple) else ()
