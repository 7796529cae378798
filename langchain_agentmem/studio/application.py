"""The ASGI application, and what its pages share: templates, addresses, forms and errors."""

from __future__ import annotations

import asyncio
import getpass
import hmac
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import wraps
from importlib import resources
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from langchain_agentmem import __version__
from langchain_agentmem.base.clock import time_written
from langchain_agentmem.base.namespaces import named, namespace_named
from langchain_agentmem.base.safe_repr import counted, printable, size_of
from langchain_agentmem.errors import AgentMemoryError, DatabaseReadOnly, InvalidInput, StorageError, safe_repr
from langchain_agentmem.studio.guard import CSRF, CSRF_OF_SCOPE, Guard

if TYPE_CHECKING:
    from langchain_agentmem.agent_memory import AgentMemory
    from langchain_agentmem.experiences.experience_library import ExperienceLibrary

PAGE = 50
"""Objects per page."""
LARGEST_FORM = 16_000_000
"""Maximum size of a submitted form, in bytes."""
_DIGITS = len(str(LARGEST_FORM))
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

User = str | Callable[[Mapping[str, Any]], str]
T = TypeVar("T")

PATIENCE = 0.03
"""Seconds that a page waits for an answer."""
KEPT_FOR = timedelta(minutes=1)


class CachedAnswer(NamedTuple, Generic[T]):
    """A value with the time when it was computed.

    Attributes:
        value: The value.
        at: The time, in UTC.
    """

    value: T
    at: datetime


class AnswerCache:
    """A cache of slow answers, computed in the background and kept for a minute.

        seen = await studio.kept.look("figures", lambda: memory.admin.stats())
        if seen is None: ...      # it is not known yet: the page says so, and is loaded again

    No page waits longer than `PATIENCE`. A minute-old answer is computed again, and shown until the new one is ready.
    """

    def __init__(self) -> None:
        self._seen: dict[str, CachedAnswer[Any]] = {}
        self._finding: dict[str, Future[CachedAnswer[Any]]] = {}
        self._threads = ThreadPoolExecutor(2, "agentmem-studio")

    async def look(self, name: str, find: Callable[[], T], *, patience: float = PATIENCE) -> CachedAnswer[T] | None:
        """Return the cached answer; None if it is not known yet.

        Args:
            name: The key of the answer.
            find: Computes the answer, in a thread.
            patience: Seconds to wait for the answer. Default: `PATIENCE`.

        Raises:
            AgentMemoryError: The computation failed. The next call tries it again.
        """
        finding = self._finding.get(name)
        if finding is None or _is_over(finding):
            finding = self._finding[name] = self._threads.submit(lambda: CachedAnswer(find(), datetime.now(UTC)))
        await asyncio.to_thread(wait, [finding], patience)
        if finding.done() and self._finding.get(name) is finding:
            self._seen[name] = finding.result()
        return self._seen.get(name)

    def forget(self) -> None:
        """Clear the cache, for example after an erasure."""
        self._seen.clear()
        self._finding.clear()


def _is_over(finding: Future[CachedAnswer[Any]]) -> bool:
    """Return True if an answer must be computed again."""
    return finding.done() and (finding.exception() is not None or datetime.now(UTC) - finding.result().at >= KEPT_FOR)


@dataclass(frozen=True, kw_only=True)
class Studio:
    """The memory that an application shows, and its user.

    Attributes:
        memory: The memory.
        user: The user's name, or a function that returns it from the ASGI scope of a request.
        experiences: A library to show; None for none.
        kept: The cache of slow answers.
    """

    memory: AgentMemory
    user: User
    experiences: ExperienceLibrary | None = None
    kept: AnswerCache = field(default_factory=AnswerCache)

    @property
    def read_only(self) -> bool:
        """True if nothing can be changed."""
        return self.memory.database.engine.opening.read_only

    def user_of(self, request: Request) -> str:
        """Return the name of the user who makes a request."""
        return self.user if isinstance(self.user, str) else self.user(request.scope)


def application(
    memory: AgentMemory,
    *,
    user: User | None = None,
    experiences: ExperienceLibrary | None = None,
    token: str | None = None,
    hosts: Collection[str] | None = None,
) -> ASGIApp:
    """Return Studio as an ASGI application.

    Args:
        memory: The memory to show. It is not closed.
        user: The author of corrections: a name, or a function that returns it from the ASGI scope. Default: the user
            who runs this process.
        experiences: A library to show. Default: none.
        token: The token that opens a session, once, as `?token=…` of any page. Default: no token is required.
        hosts: The host names, with ports, that requests may use. Default: any.
    """
    if not (user is None or isinstance(user, str) or callable(user)):
        raise InvalidInput(f"user must be a name, or a function that tells it from a scope, not {safe_repr(user)}.")
    from langchain_agentmem.studio.pages import ROUTES  # noqa: PLC0415 - pages need what this module defines

    app = Starlette(
        routes=[*ROUTES, Route("/static/{name}", _static)],
        exception_handlers={HTTPException: _refused, AgentMemoryError: _failed},
    )
    app.state.studio = Studio(memory=memory, user=_me() if user is None else user, experiences=experiences)
    return Guard(app, token=token, hosts=hosts)


def _me() -> str:
    """Return the name of the user who runs this process, if the system knows it."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # as in a container
        return "somebody"


def studio_of(request: Request) -> Studio:
    """Return the `Studio` of the application of a request."""
    studio: Studio = request.app.state.studio
    return studio


def address(request: Request, path: str, **asked: Any) -> str:
    """Return the address of a page with its query; None and empty values are left out."""
    said = {name: value for name, value in asked.items() if value is not None and value != ""}
    given = {name: named(value) if isinstance(value, tuple) else value for name, value in said.items()}
    return quote(request.scope.get("root_path", "")) + path + (f"?{urlencode(given)}" if given else "")


def namespace_asked(request: Request) -> tuple[str, ...] | None:
    """Return the namespace that a request names; None for none.

    Raises:
        InvalidInput: The namespace is not valid.
    """
    written = request.query_params.get("namespace")
    return namespace_named(written) if written else None


def required(request: Request, name: str) -> str:
    """Return a required parameter of a request.

    Raises:
        InvalidInput: The parameter is missing.
    """
    given = request.query_params.get(name)
    if not given:
        raise InvalidInput(f"This page needs {name}=… in its address.")
    return given


def number_asked(request: Request, name: str, usual: int = 0, *, most: int = 1_000_000_000) -> int:
    """Return a whole number of a request, 0 or more.

    Raises:
        InvalidInput: The value is no such number.
    """
    given = request.query_params.get(name)
    if not given:
        return usual
    if not given.isascii() or not given.isdigit() or len(given) > len(str(most)) or int(given) > most:
        raise InvalidInput(f"{name} must be a whole number up to {most:,}, not {safe_repr(given)}.")
    return int(given)


def time_asked(request: Request, name: str) -> datetime | None:
    """Return a time of a request, in UTC unless it has a time zone; None for none.

    Raises:
        InvalidInput: The value is no time.
    """
    given = request.query_params.get(name)
    return time_written(given) if given else None


def page(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """Return a rendered page.

    Args:
        request: The request.
        template: Its template; one that extends `base.html` has the blocks "title" and "content".
        status: The HTTP status.
        **values: The values for the template.
    """
    studio = studio_of(request)
    given = {
        "path": _path(request),
        "version": __version__,
        "read_only": studio.read_only,
        "user": studio.user_of(request),
        "csrf": request.scope[CSRF_OF_SCOPE],
        "link": lambda path, **asked: address(request, path, **asked),
        "here": lambda **changed: _here(request, changed),
        **values,
    }
    return HTMLResponse(TEMPLATES.get_template(template).render(given), status)


def _here(request: Request, changed: Mapping[str, Any]) -> str:
    """Return the address of the current page, with other values."""
    return address(request, quote(_path(request)), **{**request.query_params, **changed})


def _path(request: Request) -> str:
    """Return the path of the current page, relative to Studio's root."""
    path: str = request.scope["path"]
    return path.removeprefix(request.scope.get("root_path", ""))


def changing(path: str, handle: Callable[[Request, Mapping[str, str]], Awaitable[Response]]) -> Route:
    """Return a route that changes data: by POST, with a form of Studio, unless read-only.

    Args:
        path: The path of the route.
        handle: Called with the request and the fields of its form.
    """

    @wraps(handle)
    async def checked(request: Request) -> Response:
        length = request.headers.get("content-length", "")
        if not length.isdecimal() or len(length) > _DIGITS or int(length) > LARGEST_FORM:
            raise HTTPException(413, f"A form may have {LARGEST_FORM:,} bytes.")
        async with request.form(max_files=0) as form:
            given = {name: value for name, value in form.items() if isinstance(value, str)}
        fields = {name: value.encode("utf-8", "replace").decode() for name, value in given.items()}
        if not hmac.compare_digest(fields.pop(CSRF, "").encode(), request.scope[CSRF_OF_SCOPE].encode()):
            raise HTTPException(403, "This form is of another session. Open the page anew.")
        if studio_of(request).read_only:
            raise HTTPException(403, "Studio was opened read-only: nothing can be changed.")
        return await handle(request, fields)

    return Route(path, checked, methods=["POST"])


def back(request: Request, path: str, **asked: Any) -> Response:
    """Redirect from a form to a page."""
    return RedirectResponse(address(request, path, **asked), 303)


# -- values in templates -------------------------------------------------------------------------------------------


def visible(value: Any) -> Any:
    """Return a value as templates show it, with invisible characters written out.

    Characters that reverse the direction of text are written out too.
    """
    return printable(value, lines=True) if isinstance(value, str) and not isinstance(value, Markup) else value


def when(time: datetime | None, pattern: str = "%Y-%m-%d %H:%M:%S") -> str:
    """Return a time in UTC as text; an empty text for None."""
    return "" if time is None else f"{time.astimezone(UTC):{pattern}}"


TEMPLATES = Environment(
    loader=PackageLoader("langchain_agentmem.studio"), autoescape=True, undefined=StrictUndefined, finalize=visible
)
TEMPLATES.trim_blocks = TEMPLATES.lstrip_blocks = True
TEMPLATES.filters |= {"exact": escape, "when": when, "size": size_of, "named": named}
"""`exact` is for a value that a form must send back unchanged: it is only escaped."""
TEMPLATES.globals["counted"] = counted
STATIC: Mapping[str, tuple[bytes, str]] = {
    file.name: (file.read_bytes(), TYPES[f".{file.name.rpartition('.')[2]}"])
    for file in resources.files("langchain_agentmem.studio").joinpath("static").iterdir()
    if f".{file.name.rpartition('.')[2]}" in TYPES
}
"""All static files. They are read once: no request reads the disk."""


async def _static(request: Request) -> Response:
    found = STATIC.get(request.path_params["name"])
    if found is None:
        raise HTTPException(404, "There is no such file.")
    return Response(found[0], media_type=found[1], headers={"Cache-Control": "private, max-age=3600"})


async def _refused(request: Request, error: Any) -> Response:
    return page(request, "error.html", error.status_code, text=error.detail)


async def _failed(request: Request, error: Exception) -> Response:
    status = 403 if isinstance(error, DatabaseReadOnly) else 503 if isinstance(error, StorageError) else 400
    return page(request, "error.html", status, text=str(error))


def missing(what: str) -> HTTPException:
    """Return the 404 error for a missing object."""
    return HTTPException(404, what)


def pages_of(total: int, start: int, size: int = PAGE) -> Sequence[tuple[str, int]]:
    """Return the labels and starts of the neighbours of a page."""
    neighbours = [("Newest", 0), ("Newer", max(start - size, 0))] if start else []
    return neighbours + ([("Older", start + size)] if start + size < total else [])
