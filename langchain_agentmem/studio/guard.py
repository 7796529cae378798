"""The access control of Studio: token, session, origin of requests, and headers of responses.

`Guard` wraps the whole application, so it protects every page:

- If `hosts` are configured, the header `Host` must be one of them. This prevents DNS rebinding, where the name of
  another site resolves to this server.
- The token in the address works once, and opens the only session. The session id is in a cookie that scripts and other
  sites cannot use. Without a token, for example behind your own authentication, every client gets a session.
- A request that changes data must come from a page of Studio. `Guard` checks the headers `Origin` and `Sec-Fetch-Site`.
  `form_route` checks the CSRF value in each form, which is derived from the session.
- Response headers forbid framing and content sniffing, and allow scripts, styles and images only from Studio itself.
  Only static files may be cached.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Collection, Mapping
from hashlib import sha256
from urllib.parse import quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SAFE_METHODS = frozenset({"GET", "HEAD"})
TOKEN, CSRF = "token", "csrf"
"""The names of the query parameter with the token, and of the form field with the CSRF value."""
CSRF_SCOPE_KEY = "langchain_agentmem.studio.csrf"
"""The key in an ASGI scope under which `Guard` stores the value that forms of the session must contain."""
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """The access control between a browser and Studio.

    Args:
        app: Studio itself.
        token: The token that opens the only session, once. Default: every client gets a session.
        hosts: The host names, with ports, that requests may use. Default: any, for example behind a proxy that checks
            them.
    """

    def __init__(self, app: ASGIApp, *, token: str | None = None, hosts: Collection[str] | None = None) -> None:
        self._app = app
        self._token = token
        self._hosts = None if hosts is None else frozenset(map(str.lower, hosts))
        # Browsers share cookies among ports, so two Studios need different cookies.
        self._cookie_name = "agentmem_studio" if token is None else f"agentmem_studio_{_digest(token)[:8]}"
        self._token_session: str | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it to Studio."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        existing = self._find_session(scope)
        begins_session = existing is None and (self._token is None or self._can_use_token(scope))
        session = secrets.token_urlsafe(32) if begins_session else existing
        answer: ASGIApp | None = self._refuse(scope, Headers(scope=scope))
        new_session = session if begins_session and answer is None else None  # a refused request gets no cookie
        if answer is None and session is None:
            text = "The address that Studio printed at its start works once. Restart Studio for a new address."
            answer = PlainTextResponse(text, 403)
        elif new_session is not None and self._token is not None:
            # The token opens the session. The redirect removes the token from the address bar and the history.
            self._token_session, answer = new_session, RedirectResponse(_url_without_token(scope), 303)
        scope[CSRF_SCOPE_KEY] = _digest(session or "")

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                response_headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    response_headers.setdefault(name, value)
                if new_session is not None:
                    response_headers.append("Set-Cookie", self._format_cookie(scope, new_session))
            await send(message)

        await (answer or self._app)(scope, receive, send_guarded)

    def _refuse(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the error for a wrong host or origin; None if the request is allowed."""
        host = headers.get("host", "").lower()
        if self._hosts is not None and host not in self._hosts:
            return PlainTextResponse("Unknown host name. Use the address that Studio printed.", 421)
        if scope["method"] in SAFE_METHODS:
            return None
        origin, site = urlsplit(headers.get("origin", "")), headers.get("sec-fetch-site", "same-origin")
        if origin.netloc.lower() != host or site != "same-origin":
            return PlainTextResponse("Only a page of Studio can change data.", 403)
        return None

    def _can_use_token(self, scope: Scope) -> bool:
        """Return True if a GET request has the token, and no session is open."""
        token = QueryParams(scope["query_string"]).get(TOKEN, "")
        matches = hmac.compare_digest(token.encode(), (self._token or "").encode())
        return matches and self._token_session is None and scope["method"] == "GET"

    def _find_session(self, scope: Scope) -> str | None:
        """Return the session id in the cookie of a request; None without a valid cookie."""
        # Starlette parses cookies leniently. `http.cookies` may fail on the cookies of other servers on this host.
        cookie = HTTPConnection(scope).cookies.get(self._cookie_name)
        if cookie and self._token is not None:
            return cookie if hmac.compare_digest(cookie.encode(), (self._token_session or "").encode()) else None
        return cookie or None

    def _format_cookie(self, scope: Scope, session: str) -> str:
        secure = "; Secure" if scope["scheme"] == "https" else ""
        path = quote(scope.get("root_path") or "/")
        return f"{self._cookie_name}={session}; Path={path}; HttpOnly; SameSite=Strict{secure}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _url_without_token(scope: Scope) -> str:
    params = [(name, value) for name, value in QueryParams(scope["query_string"]).multi_items() if name != TOKEN]
    path = "/" + scope["path"].lstrip("/")  # a path that begins with // would redirect to another host
    return f"{path}?{urlencode(params)}" if params else path
