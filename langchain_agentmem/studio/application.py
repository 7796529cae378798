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
"""Things on one page."""
LARGEST_FORM = 16_000_000
"""Bytes of a form that is sent."""
_DIGITS = len(str(LARGEST_FORM))
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

User = str | Callable[[Mapping[str, Any]], str]
T = TypeVar("T")

PATIENCE = 0.03
"""Seconds that a page waits for something."""
KEPT_FOR = timedelta(minutes=1)


class CachedAnswer(NamedTuple, Generic[T]):
    """What was found out.

    Attributes:
        value: It.
        at: When, in UTC.
    """

    value: T
    at: datetime


class AnswerCache:
    """What takes long to find out: it is found beside the requests, and kept for a minute.

        seen = await studio.kept.look("figures", lambda: memory.admin.stats())
        if seen is None: ...      # it is not known yet: the page says so, and is loaded again

    No page waits longer than `PATIENCE`. What is a minute old is found anew, and shown until that is there.
    """

    def __init__(self) -> None:
        self._seen: dict[str, CachedAnswer[Any]] = {}
        self._finding: dict[str, Future[CachedAnswer[Any]]] = {}
        self._threads = ThreadPoolExecutor(2, "agentmem-studio")

    async def look(self, name: str, find: Callable[[], T], *, patience: float = PATIENCE) -> CachedAnswer[T] | None:
        """What is known of something; None if nothing is known yet.

        Args:
            name: What it is.
            find: Finds it out, in a thread.
            patience: Seconds to wait for it. Default: `PATIENCE`.

        Raises:
            AgentMemoryError: It could not be found out. Whoever asks next has it tried again.
        """
        finding = self._finding.get(name)
        if finding is None or _is_over(finding):
            finding = self._finding[name] = self._threads.submit(lambda: CachedAnswer(find(), datetime.now(UTC)))
        await asyncio.to_thread(wait, [finding], patience)
        if finding.done() and self._finding.get(name) is finding:
            self._seen[name] = finding.result()
        return self._seen.get(name)

    def forget(self) -> None:
        """Find out everything anew, as after something was erased."""
        self._seen.clear()
        self._finding.clear()


def _is_over(finding: Future[CachedAnswer[Any]]) -> bool:
    """Whether something has to be found anew."""
    return finding.done() and (finding.exception() is not None or datetime.now(UTC) - finding.result().at >= KEPT_FOR)


@dataclass(frozen=True, kw_only=True)
class Studio:
    """What an application shows, and for whom.

    Attributes:
        memory: The memory.
        user: Who looks: a name, or what tells it from the ASGI scope of a request.
        experiences: A library to show; None for none.
        kept: What takes long to find out.
    """

    memory: AgentMemory
    user: User
    experiences: ExperienceLibrary | None = None
    kept: AnswerCache = field(default_factory=AnswerCache)

    @property
    def read_only(self) -> bool:
        """Whether nothing can be changed."""
        return self.memory.database.engine.opening.read_only

    def user_of(self, request: Request) -> str:
        """Who makes a request."""
        return self.user if isinstance(self.user, str) else self.user(request.scope)


def application(
    memory: AgentMemory,
    *,
    user: User | None = None,
    experiences: ExperienceLibrary | None = None,
    token: str | None = None,
    hosts: Collection[str] | None = None,
) -> ASGIApp:
    """Studio as an ASGI application.

    Args:
        memory: What it shows. It is not closed.
        user: Who makes corrections: a name, or a function that tells it from the ASGI scope. Default: who runs this
            process.
        experiences: A library to show. Default: none.
        token: What opens a session, once, as `?token=…` of any page. Default: nothing is asked for.
        hosts: The names, with ports, that it is known by. Default: any.
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
    """Who runs this process, where the system has a name for that."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # as in a container
        return "somebody"


def studio_of(request: Request) -> Studio:
    """What the application of a request shows."""
    studio: Studio = request.app.state.studio
    return studio


def address(request: Request, path: str, **asked: Any) -> str:
    """The address of a page, with what is asked of it; what is None or empty is left out, namespaces are written."""
    said = {name: value for name, value in asked.items() if value is not None and value != ""}
    given = {name: named(value) if isinstance(value, tuple) else value for name, value in said.items()}
    return quote(request.scope.get("root_path", "")) + path + (f"?{urlencode(given)}" if given else "")


def namespace_asked(request: Request) -> tuple[str, ...] | None:
    """The namespace that a request names, None for none.

    Raises:
        InvalidInput: It cannot be one.
    """
    written = request.query_params.get("namespace")
    return namespace_named(written) if written else None


def required(request: Request, name: str) -> str:
    """What a request must say.

    Raises:
        InvalidInput: It does not.
    """
    given = request.query_params.get(name)
    if not given:
        raise InvalidInput(f"This page needs {name}=… in its address.")
    return given


def number_asked(request: Request, name: str, usual: int = 0, *, most: int = 1_000_000_000) -> int:
    """A whole number of a request, 0 or more.

    Raises:
        InvalidInput: It is none.
    """
    given = request.query_params.get(name)
    if not given:
        return usual
    if not given.isascii() or not given.isdigit() or len(given) > len(str(most)) or int(given) > most:
        raise InvalidInput(f"{name} must be a whole number up to {most:,}, not {safe_repr(given)}.")
    return int(given)


def time_asked(request: Request, name: str) -> datetime | None:
    """A time of a request, in UTC unless it says otherwise; None for none.

    Raises:
        InvalidInput: It is none.
    """
    given = request.query_params.get(name)
    return time_written(given) if given else None


def page(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """A page.

    Args:
        request: What asks for it.
        template: Its template; one that extends `base.html` has the blocks "title" and "content".
        status: The HTTP status.
        **values: What the template shows.
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
    """The address of the page that is shown, with other values."""
    return address(request, quote(_path(request)), **{**request.query_params, **changed})


def _path(request: Request) -> str:
    """The path of the page that is shown, below that of Studio."""
    path: str = request.scope["path"]
    return path.removeprefix(request.scope.get("root_path", ""))


def changing(path: str, handle: Callable[[Request, Mapping[str, str]], Awaitable[Response]]) -> Route:
    """The route of what changes something: by POST, with the fields of a form of Studio's, where changes are allowed.

    Args:
        path: Where to.
        handle: Is given the request and the fields of its form.
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
    """Lead from a form to a page."""
    return RedirectResponse(address(request, path, **asked), 303)


# -- what templates use --------------------------------------------------------------------------------------------


def visible(value: Any) -> Any:
    """A value as every template shows it: characters that nobody sees, or that turn text around, are written out."""
    return printable(value, lines=True) if isinstance(value, str) and not isinstance(value, Markup) else value


def when(time: datetime | None, pattern: str = "%Y-%m-%d %H:%M:%S") -> str:
    """A time in UTC; nothing for None."""
    return "" if time is None else f"{time.astimezone(UTC):{pattern}}"


TEMPLATES = Environment(
    loader=PackageLoader("langchain_agentmem.studio"), autoescape=True, undefined=StrictUndefined, finalize=visible
)
TEMPLATES.trim_blocks = TEMPLATES.lstrip_blocks = True
TEMPLATES.filters |= {"exact": escape, "when": when, "size": size_of, "named": named}
"""`exact` is for a value that a form has to send back: it is escaped, and nothing else."""
TEMPLATES.globals["counted"] = counted
STATIC: Mapping[str, tuple[bytes, str]] = {
    file.name: (file.read_bytes(), TYPES[f".{file.name.rpartition('.')[2]}"])
    for file in resources.files("langchain_agentmem.studio").joinpath("static").iterdir()
    if f".{file.name.rpartition('.')[2]}" in TYPES
}
"""All files that browsers are given. They are read once: no request leads to the disk."""


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
    """The error of a page for something that is not there."""
    return HTTPException(404, what)


def pages_of(total: int, start: int, size: int = PAGE) -> Sequence[tuple[str, int]]:
    """Where the neighbours of a page begin, by what a link to them says."""
    neighbours = [("Newest", 0), ("Newer", max(start - size, 0))] if start else []
    return neighbours + ([("Older", start + size)] if start + size < total else [])
