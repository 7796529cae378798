"""The ASGI application, and functions for its pages: parameters, templates, forms, errors."""

from __future__ import annotations

import asyncio
import getpass
import hmac
from collections.abc import Awaitable, Callable, Collection, Mapping
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
from langchain_agentmem.base.clock import parse_time
from langchain_agentmem.base.namespaces import format_namespace, parse_namespace
from langchain_agentmem.base.safe_repr import escape_unprintable, format_count, format_size
from langchain_agentmem.errors import AgentMemoryError, DatabaseReadOnly, InvalidInput, StorageError, safe_repr
from langchain_agentmem.studio.guard import CSRF, CSRF_SCOPE_KEY, Guard

if TYPE_CHECKING:
    from langchain_agentmem.agent_memory import AgentMemory
    from langchain_agentmem.experiences.experience_library import ExperienceLibrary

PAGE = 50
"""The maximum number of objects per page."""
MAX_NUMBER = 1_000_000_000
"""The largest number in an address."""
LARGEST_FORM = 16_000_000
"""Maximum size of a submitted form, in bytes."""
MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

User = str | Callable[[Mapping[str, Any]], str]
T = TypeVar("T")

RESULT_TIMEOUT = 0.03
"""The default number of seconds that a page waits for a result of the cache."""
CACHE_AGE = timedelta(minutes=1)
"""The time after which a cached result is computed again."""


class CachedResult(NamedTuple, Generic[T]):
    """A value with the time when it was computed.

    Attributes:
        value: The value.
        at: The time, in UTC.
    """

    value: T
    at: datetime


class ResultCache:
    """A cache of results that are computed in the background and valid for a minute.

        result = await studio.cache.fetch("figures", lambda: memory.admin.stats())
        if result is None: ...    # still being computed: the page says so, and reloads itself

    By default, a page waits at most `RESULT_TIMEOUT`. An expired result is returned until a new one is computed.
    """

    def __init__(self) -> None:
        self._results: dict[str, CachedResult[Any]] = {}
        self._pending: dict[str, Future[CachedResult[Any]]] = {}
        self._threads = ThreadPoolExecutor(2, "agentmem-studio")

    async def fetch(
        self, name: str, compute: Callable[[], T], *, max_wait: float = RESULT_TIMEOUT
    ) -> CachedResult[T] | None:
        """Return the cached result, or None if no result has been computed yet.

        Args:
            name: The key of the result.
            compute: The function that computes the result. It runs in a thread.
            max_wait: Seconds to wait for the result. Default: `RESULT_TIMEOUT`.

        Raises:
            AgentMemoryError: The computation failed. The next call starts it again.
        """
        pending = self._pending.get(name)
        if pending is None or _is_expired(pending):
            pending = self._pending[name] = self._threads.submit(lambda: CachedResult(compute(), datetime.now(UTC)))
        await asyncio.to_thread(wait, [pending], max_wait)
        if pending.done() and self._pending.get(name) is pending:  # the cache was not cleared while this call waited
            self._results[name] = pending.result()
        return self._results.get(name)

    def clear(self) -> None:
        """Clear the cache, for example after an erasure."""
        self._results.clear()
        self._pending.clear()


def _is_expired(pending: Future[CachedResult[Any]]) -> bool:
    """Return True if a result is too old, or its computation failed."""
    return pending.done() and (pending.exception() is not None or datetime.now(UTC) - pending.result().at >= CACHE_AGE)


@dataclass(frozen=True, kw_only=True)
class Studio:
    """The memory that a Studio application shows, and the settings of the application.

    Attributes:
        memory: The memory.
        user: The name of the user, or a function that returns the name from the ASGI scope of a request.
        experiences: The experience library to show, if any.
        cache: The cache of results that take long to compute.
    """

    memory: AgentMemory
    user: User
    experiences: ExperienceLibrary | None = None
    cache: ResultCache = field(default_factory=ResultCache)

    @property
    def read_only(self) -> bool:
        """True if the database is read-only."""
        return self.memory.database.engine.options.read_only

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
        user: The author of corrections: a name, or a function that returns the name from the ASGI scope. Default: the
            user who runs this process.
        experiences: The experience library to show. Default: none.
        token: The token that opens one session. A browser passes the token once, as `?token=…` in the address of any
            page. Default: no token is required.
        hosts: The host names, with ports, that requests may use. Default: any.
    """
    if not (user is None or isinstance(user, str) or callable(user)):
        raise InvalidInput(f"user must be a name, or a function from an ASGI scope to a name, not {safe_repr(user)}.")
    from langchain_agentmem.studio.pages import ROUTES  # noqa: PLC0415 - the pages import this module

    app = Starlette(
        routes=[*ROUTES, Route("/static/{name}", _static_file)],
        exception_handlers={HTTPException: _http_error_page, AgentMemoryError: _error_page},
    )
    app.state.studio = Studio(memory=memory, user=_system_user() if user is None else user, experiences=experiences)
    return Guard(app, token=token, hosts=hosts)


def _system_user() -> str:
    """Return the name of the user who runs this process, or "somebody" if it is unknown."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # for example in a container
        return "somebody"


def studio_of(request: Request) -> Studio:
    """Return the `Studio` of the application of a request."""
    studio: Studio = request.app.state.studio
    return studio


def address(request: Request, path: str, **query: Any) -> str:
    """Return the address of a page. Query values that are None or empty are omitted."""
    present = {name: value for name, value in query.items() if value is not None and value != ""}
    params = {name: format_namespace(value) if isinstance(value, tuple) else value for name, value in present.items()}
    return quote(request.scope.get("root_path", "")) + path + (f"?{urlencode(params)}" if params else "")


def namespace_param(request: Request) -> tuple[str, ...] | None:
    """Return the namespace in the query of a request, or None if it is missing.

    Raises:
        InvalidInput: The namespace is not valid.
    """
    text = request.query_params.get("namespace")
    return parse_namespace(text) if text else None


def required_param(request: Request, name: str) -> str:
    """Return a required query parameter of a request.

    Raises:
        InvalidInput: The parameter is missing.
    """
    value = request.query_params.get(name)
    if not value:
        raise InvalidInput(f"Missing parameter {name} in the address of this page.")
    return value


def number_param(request: Request, name: str, default: int = 0) -> int:
    """Return a query parameter of a request as a whole number from 0 to `MAX_NUMBER`.

    Raises:
        InvalidInput: The value is not a whole number in this range.
    """
    text = request.query_params.get(name)
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > len(str(MAX_NUMBER)) or int(text) > MAX_NUMBER:
        raise InvalidInput(f"{name} must be a whole number up to {MAX_NUMBER:,}, not {safe_repr(text)}.")
    return int(text)


def time_param(request: Request, name: str) -> datetime | None:
    """Return a query parameter of a request as a UTC time, or None if it is missing.

    A value without a time zone is taken as UTC.

    Raises:
        InvalidInput: The value is not a time.
    """
    text = request.query_params.get(name)
    return parse_time(text) if text else None


def render_page(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """Return a rendered page.

    Args:
        request: The request.
        template: The file name of the template. Templates that extend `base.html` fill its blocks "title" and
            "content".
        status: The HTTP status.
        **values: The values for the template.
    """
    studio = studio_of(request)
    page_path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    context = {
        "path": page_path,
        "version": __version__,
        "read_only": studio.read_only,
        "user": studio.user_of(request),
        "csrf": request.scope[CSRF_SCOPE_KEY],
        "link": lambda path, **query: address(request, path, **query),
        "current_url": lambda **changed: address(request, quote(page_path), **{**request.query_params, **changed}),
        **values,
    }
    return HTMLResponse(TEMPLATES.get_template(template).render(context), status)


def form_route(path: str, handle: Callable[[Request, Mapping[str, str]], Awaitable[Response]]) -> Route:
    """Return a POST route that changes data.

    The route accepts only forms with the CSRF token of the session. If the database is read-only, it accepts no form.

    Args:
        path: The path of the route.
        handle: Called with the request and the fields of its form.
    """

    @wraps(handle)
    async def handle_form(request: Request) -> Response:
        length = request.headers.get("content-length", "")
        # The number of digits is checked first, because `int` refuses numbers with thousands of digits.
        if not length.isdecimal() or len(length) > len(str(LARGEST_FORM)) or int(length) > LARGEST_FORM:
            raise HTTPException(413, f"A form may have at most {LARGEST_FORM:,} bytes.")
        async with request.form(max_files=0) as form:
            texts = {name: value for name, value in form.items() if isinstance(value, str)}
        # Lone surrogates cannot be stored, so "?" replaces them.
        fields = {name: value.encode("utf-8", "replace").decode() for name, value in texts.items()}
        if not hmac.compare_digest(fields.pop(CSRF, "").encode(), request.scope[CSRF_SCOPE_KEY].encode()):
            raise HTTPException(403, "This form belongs to another session. Reload the page.")
        if studio_of(request).read_only:
            raise HTTPException(403, "Studio is read-only, so nothing can be changed.")
        return await handle(request, fields)

    return Route(path, handle_form, methods=["POST"])


def redirect(request: Request, path: str, **query: Any) -> Response:
    """Redirect to a page, which the browser requests with GET."""
    return RedirectResponse(address(request, path, **query), 303)


# -- values in templates -------------------------------------------------------------------------------------------


def escape_invisible(value: Any) -> Any:
    """Return a value with its invisible characters replaced by escape sequences.

    The template engine calls this function for every value. Characters that reverse the direction of text are replaced
    too.
    """
    return escape_unprintable(value, lines=True) if isinstance(value, str) and not isinstance(value, Markup) else value


def format_time(time: datetime | None, pattern: str = "%Y-%m-%d %H:%M:%S") -> str:
    """Return a time in UTC as text, or an empty text for None."""
    return "" if time is None else f"{time.astimezone(UTC):{pattern}}"


_LOADER = PackageLoader("langchain_agentmem.studio")
TEMPLATES = Environment(loader=_LOADER, autoescape=True, undefined=StrictUndefined, finalize=escape_invisible)
TEMPLATES.trim_blocks = TEMPLATES.lstrip_blocks = True
TEMPLATES.filters |= {"exact": escape, "when": format_time, "size": format_size, "named": format_namespace}
"""The filters of templates. `exact` keeps invisible characters, so that a form submits the value unchanged."""
TEMPLATES.globals["counted"] = format_count
STATIC: Mapping[str, tuple[bytes, str]] = {
    file.name: (file.read_bytes(), MEDIA_TYPES[f".{file.name.rpartition('.')[2]}"])
    for file in resources.files("langchain_agentmem.studio").joinpath("static").iterdir()
    if f".{file.name.rpartition('.')[2]}" in MEDIA_TYPES
}
"""The content and the media type of each static file. The files are read once, when this module is imported."""


async def _static_file(request: Request) -> Response:
    content, media_type = STATIC.get(request.path_params["name"], (None, None))
    if content is None:
        raise HTTPException(404, "Unknown file.")
    return Response(content, media_type=media_type, headers={"Cache-Control": "private, max-age=3600"})


async def _http_error_page(request: Request, error: Any) -> Response:
    return render_page(request, "error.html", error.status_code, text=error.detail)


async def _error_page(request: Request, error: Exception) -> Response:
    status = 403 if isinstance(error, DatabaseReadOnly) else 503 if isinstance(error, StorageError) else 400
    return render_page(request, "error.html", status, text=str(error))


def not_found(detail: str) -> HTTPException:
    """Return the 404 error for a missing object."""
    return HTTPException(404, detail)


def paging_values(total: int, start: int) -> dict[str, Any]:
    """Return the values with which the macro `paging` links to the other pages of a list."""
    neighbours = [("Newest", 0), ("Newer", max(start - PAGE, 0))] if start else []
    neighbours += [("Older", start + PAGE)] if start + PAGE < total else []
    return {"neighbours": neighbours, "total": total, "start": start}
