"""The pages that correct core memory, records and facts, and the pages that erase data.

The page of a correction shows the current value, a form to change it, and earlier corrections. The newest correction
can be undone there. An erasure begins with a preview of the affected objects. Users must type their name to erase.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from langchain_agentmem.base.namespaces import format_namespace, path_of
from langchain_agentmem.errors import InvalidInput, Outdated, safe_repr
from langchain_agentmem.studio import application as web
from langchain_agentmem.upkeep.integrity import EraseReport

KIND_NAMES = {"core": "core memory", "record": "record", "fact": "fact"}
FACT_FIELDS = ("subject", "predicate", "object", "role", "valid_from", "valid_to", "confidence")
"""The fields of a fact that can be changed, in the order of the form."""


class CorrectionSubject(NamedTuple):
    """The identity of the value to correct, from the address of a page.

    Attributes:
        kind: "core", "record" or "fact".
        key: The key of core memory, or the id of a record or fact.
        namespace: The namespace of the owner.
        branch: The branch.
        thread: The thread, if the value belongs to that thread only. The branch is then ignored.
    """

    kind: Any
    key: str
    namespace: tuple[str, ...]
    branch: str
    thread: str | None = None

    @property
    def location(self) -> dict[str, Any]:
        """The location of the value, as keyword arguments of `Corrections`."""
        return {"namespace": self.namespace, "branch": self.branch, "thread_id": self.thread}


def parse_subject(request: Request) -> CorrectionSubject:
    """Return the identity of the value to correct, from the address of a request.

    Raises:
        InvalidInput: The kind is unknown, or a parameter is missing or not valid.
    """
    kind = web.required_param(request, "kind")
    if kind not in KIND_NAMES:
        raise InvalidInput(f"kind must be one of {', '.join(KIND_NAMES)}, not {safe_repr(kind)}.")
    branch = request.query_params.get("branch") or "main"
    namespace = web.namespace_param(request) or ()
    # A value that the threads of a namespace share is corrected for all of them.
    is_own = not web.studio_of(request).memory.database.scopes.is_shared(path_of(namespace))
    thread = request.query_params.get("thread") or None
    return CorrectionSubject(kind, web.required_param(request, "key"), namespace, branch, thread if is_own else None)


def format_fields(kind: str, value: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the form fields of a value, as texts by name."""
    values = value or {}
    if kind == "core":
        return {"value": values.get("value", ""), "importance": str(values.get("importance") or 3)}
    if kind == "record":
        return {"content": values.get("content", ""), "tags": "\n".join(values.get("tags", ()))}
    return {name: _format_value(values.get(name)) for name in FACT_FIELDS}


def _format_value(value: Any) -> str:
    if isinstance(value, datetime):
        return web.format_time(value, "%Y-%m-%d %H:%M:%S.%f")
    return "" if value is None else str(value)


def parse_changes(kind: str, current: Mapping[str, Any] | None, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields that differ from the current value, as arguments of `Corrections`.

    Raises:
        InvalidInput: A field cannot be parsed.
    """
    changes: dict[str, Any] = {}
    for name, text in format_fields(kind, current).items():
        before = text.replace("\r\n", "\n")
        submitted = fields.get(name, before).replace("\r\n", "\n")  # browsers submit line breaks as CR LF
        if submitted != before:
            changes[name] = _parse_value(name, submitted)
    return changes


def _parse_value(name: str, text: str) -> Any:
    parse, expected = _PARSERS.get(name, (str, "text"))
    try:
        return parse(text)
    except (ValueError, OverflowError, RecursionError) as error:
        raise InvalidInput(f"{name} must be {expected}, got {safe_repr(text)}.") from error


def _parse_number(text: str) -> float | None:
    number = float(text) if text else None
    return int(number) if number is not None and number.is_integer() else number


def _parse_time(text: str) -> datetime | None:
    return datetime.fromisoformat(text.strip()) if text.strip() else None


_PARSERS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "tags": (lambda text: [line.strip() for line in text.split("\n") if line.strip()], "lines"),
    **dict.fromkeys(("importance", "confidence"), (_parse_number, "a number")),
    **dict.fromkeys(("valid_from", "valid_to"), (_parse_time, "a UTC time such as 2024-05-31 18:00")),
}
"""The parsers of fields that are not plain text, each with a description of valid values for the error text."""


def describe_value(kind: str, value: Mapping[str, Any] | None) -> str | None:
    """Return a text that describes a value, or None for None."""
    if value is None:
        return None
    fields = format_fields(kind, value)
    if kind == "fact":
        bounds = {name: web.format_time(value[f"valid_{name}"]) for name in ("from", "to") if value[f"valid_{name}"]}
        times = " ".join(f"{name} {time}" for name, time in bounds.items())
        return f"{value['subject']} {value['predicate']} {value['object']}\n{times}"
    if kind == "core":
        return f"{fields['value']}\n(importance {fields['importance']})"
    return "\n".join([fields["content"], *(f"# {tag}" for tag in value.get("tags", ()))])


async def correct(
    request: Request, status: int = 200, problem: str | None = None, fields: Mapping[str, str] | None = None
) -> Response:
    """Show the current value with a form to change it, and its history.

    Args:
        request: The request.
        status: The HTTP status.
        problem: The error of a submitted form, if any.
        fields: The submitted fields of a form with an error, which are shown again.
    """
    subject = parse_subject(request)
    corrections = web.studio_of(request).memory.corrections
    current = await corrections.acurrent(subject.kind, subject.key, **subject.location)
    history = await corrections.ahistory(subject.kind, subject.key, **subject.location, limit=web.PAGE)
    if current.value is None and not history and subject.kind != "core":
        where = safe_repr(subject.thread or subject.branch)
        raise web.not_found(f"There is no {KIND_NAMES[subject.kind]} {safe_repr(subject.key)} on {where}.")
    current_fields = format_fields(subject.kind, current.value)
    return web.render_page(
        request,
        "correct.html",
        status,
        subject=subject,
        name=KIND_NAMES[subject.kind],
        current=current,
        describe=describe_value,
        fields={name: (fields or {}).get(name, text) for name, text in current_fields.items()},
        submittable=all(map(_is_submittable, current_fields.values())),
        problem=problem,
        history=history,
        undoable=history[0].id if history and history[0].after == current.value else None,
    )


def _is_submittable(text: str) -> bool:
    """Return True if browsers submit a text unchanged: no surrogates, NUL or CR."""
    return "\0" not in text and "\r" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


async def change(request: Request, fields: Mapping[str, str]) -> Response:
    """Change or delete a value, as a submitted form requests."""
    try:
        await _apply_correction(request, subject := parse_subject(request), fields)
    except Outdated:
        text = "The value was changed meanwhile. See the current value above; the form still has your text."
        return await correct(request, 409, text, fields)
    except InvalidInput as error:
        return await correct(request, 400, str(error), fields)
    return web.redirect(request, "/correct", **subject._asdict())


async def _apply_correction(request: Request, subject: CorrectionSubject, fields: Mapping[str, str]) -> None:
    """Correct or delete a value, as a submitted form requests.

    Raises:
        InvalidInput: The correction is not valid.
        Outdated: The value was changed after the form was loaded.
    """
    studio, version = web.studio_of(request), fields.get("version", "")
    corrections, location = studio.memory.corrections, subject.location
    options: dict[str, Any] = {"by": studio.user_of(request), "expected": version}
    if fields.get("do") == "delete":
        await corrections.adelete(subject.kind, subject.key, **options, **location)
        return
    current = await corrections.acurrent(subject.kind, subject.key, **location)
    if version != current.version:
        raise Outdated
    changes = parse_changes(subject.kind, current.value, fields)
    if current.value is not None and not changes:
        raise InvalidInput("The submitted value equals the current value, so nothing was changed.")
    if subject.kind == "core":
        value = changes.pop("value", (current.value or {}).get("value", ""))
        await corrections.acore(subject.key, value, **changes, **options, **location)
    else:
        method = corrections.afact if subject.kind == "fact" else corrections.arecord
        await method(subject.key, **changes, **options, **location)


async def undo(request: Request, _: Mapping[str, str]) -> Response:
    """Undo a correction."""
    studio, namespace = web.studio_of(request), web.namespace_param(request) or ()
    correction_id = web.required_param(request, "id")
    undone = await studio.memory.corrections.aundo(correction_id, by=studio.user_of(request), namespace=namespace)
    subject = CorrectionSubject(undone.kind, undone.key, undone.namespace, undone.branch, undone.thread_id)
    return web.redirect(request, "/correct", **subject._asdict())


async def corrections(request: Request) -> Response:
    """Show the corrections, the newest first."""
    start, namespace = web.number_param(request, "start"), web.namespace_param(request)
    memory = web.studio_of(request).memory
    history = await memory.corrections.ahistory(namespace=namespace, limit=web.PAGE + 1, offset=start)
    return web.render_page(
        request,
        "corrections.html",
        namespace=namespace,
        names=KIND_NAMES,
        corrections=history[: web.PAGE],
        describe=describe_value,
        newer=max(start - web.PAGE, 0) if start else None,
        older=start + web.PAGE if len(history) > web.PAGE else None,
    )


# -- erasing ----------------------------------------------------------------------------------------------------


class EraseTarget(NamedTuple):
    """The namespace, thread or conversation to erase, from the address of a page.

    Attributes:
        namespace: The namespace.
        thread_id: The thread to erase, in the namespace and all namespaces below it, if any.
        conversation_id: The conversation to erase in the namespace, if any. Without either, the namespace is erased.
    """

    namespace: tuple[str, ...]
    thread_id: str | None
    conversation_id: str | None

    @property
    def name(self) -> str:
        """The name that the user has to type to confirm the erasure."""
        return self.thread_id or self.conversation_id or format_namespace(self.namespace)


def parse_target(request: Request) -> EraseTarget:
    """Return the objects to erase, from the address of a request.

    Raises:
        InvalidInput: The address names no object, or both a thread and a conversation.
    """
    params = request.query_params
    namespace = web.namespace_param(request) or ()
    target = EraseTarget(namespace, params.get("thread") or None, params.get("conversation") or None)
    if target.thread_id and target.conversation_id:
        raise InvalidInput("Erase either a thread or a conversation, not both.")
    if not any(target):
        raise InvalidInput("Select a namespace, thread or conversation. To erase everything, use agentmem erase.")
    return target


async def erase(request: Request) -> Response:
    """Show the first page of an erasure, which offers its preview."""
    return _render_erasure(request, parse_target(request))


def _render_erasure(request: Request, target: EraseTarget, status: int = 200, **values: Any) -> Response:
    defaults: dict[str, Any] = {"preview": None, "erased": None, "other_namespaces": (), "problem": None}
    return web.render_page(request, "erase.html", status, target=target, **defaults | values)


async def preview(request: Request, _: Mapping[str, str], status: int = 200, problem: str | None = None) -> Response:
    """Show the number of objects that the erasure would delete."""
    target = parse_target(request)
    report = await web.studio_of(request).memory.aerase(**target._asdict(), dry_run=True)
    rows, others = _nonzero_counts(report), report.other_namespaces
    return _render_erasure(request, target, status, preview=rows, other_namespaces=others, problem=problem)


async def do_erase(request: Request, fields: Mapping[str, str]) -> Response:
    """Erase the selected objects, if the user typed their name."""
    target = parse_target(request)
    if not hmac.compare_digest(fields.get("name", "").strip().encode(), target.name.strip().encode()):
        return await preview(request, fields, 400, "The name does not match. Nothing was erased.")
    studio = web.studio_of(request)
    erased = await studio.memory.aerase(**target._asdict())
    studio.cache.clear()
    return _render_erasure(request, target, erased=_nonzero_counts(erased), other_namespaces=erased.other_namespaces)


def _nonzero_counts(report: EraseReport) -> list[tuple[str, int]]:
    """Return the counts of a report that are not 0."""
    return [(name, number) for name, number in report.counts.items() if number]
