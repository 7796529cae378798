"""The access control of Studio: token, session, origin of requests, and headers of responses.

`Guard` wraps the whole application, so it protects every page:

- `Host` must be one of Studio's own host names, if they are configured. This prevents DNS rebinding, where another
  site's name resolves to this server.
- The token in the address works once, and opens the only session. The session is a cookie that scripts and other sites
  cannot use. Without a token, for example behind your own authentication, every client gets a session.
- A request that changes data must come from a page of Studio. The headers `Origin` and `Sec-Fetch-Site` prove it, and a
  value in each form that is derived from the session.
- Response headers forbid framing and sniffing, and caching except of static files. They let browsers load and run only
  Studio's own files.
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
        hosts: The host names, with ports, that requests may use. Default: any; the server in front checks them.
    """

    def __init__(self, app: ASGIApp, *, token: str | None = None, hosts: Collection[str] | None = None) -> None:
        self._app = app
        self._token = token
        self._hosts = None if hosts is None else frozenset(map(str.lower, hosts))
        # Browsers share cookies among ports, so two Studios need different cookies.
        self._cookie_name = "agentmem_studio" if token is None else f"agentmem_studio_{_digest(token)[:8]}"
        self._open_session: str | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it to Studio."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        known = self._find_session(scope)
        session = known or (secrets.token_urlsafe(32) if self._token is None or self._is_first_use(scope) else None)
        answer: ASGIApp | None = self._refusal(scope, headers)
        if answer is None and session is None:
            text = "The address that Studio printed at its start works once. Restart Studio for a new address."
            answer = PlainTextResponse(text, 403)
        elif answer is None and known is None and self._token is not None:
            self._open_session, answer = session, RedirectResponse(_url_without_token(scope), 303)
        scope[CSRF_SCOPE_KEY] = _digest(session or "")
        new = session if answer is None or self._open_session == session else None

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                response_headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    response_headers.setdefault(name, value)
                if new is not None and known is None:
                    response_headers.append("Set-Cookie", self._cookie(scope, new))
            await send(message)

        await (answer or self._app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        host = headers.get("host", "").lower()
        if self._hosts is not None and host not in self._hosts:
            return PlainTextResponse("Unknown host name. Use the address that Studio printed.", 421)
        if scope["method"] in SAFE_METHODS:
            return None
        origin, site = urlsplit(headers.get("origin", "")), headers.get("sec-fetch-site", "same-origin")
        if origin.netloc.lower() != host or site != "same-origin":
            return PlainTextResponse("Only a page of Studio can change data.", 403)
        return None

    def _is_first_use(self, scope: Scope) -> bool:
        """Return True if a request is the first one with the token."""
        token = QueryParams(scope["query_string"]).get(TOKEN, "")
        matches = hmac.compare_digest(token.encode(), (self._token or "").encode())
        return matches and self._open_session is None and scope["method"] == "GET"

    def _find_session(self, scope: Scope) -> str | None:
        # Starlette parses the cookies: `http.cookies` may fail on the cookies of other servers on this host.
        cookie = HTTPConnection(scope).cookies.get(self._cookie_name)
        if cookie and self._token is not None:
            return cookie if hmac.compare_digest(cookie.encode(), (self._open_session or "").encode()) else None
        return cookie or None

    def _cookie(self, scope: Scope, session: str) -> str:
        secure = "; Secure" if scope["scheme"] == "https" else ""
        path = quote(scope.get("root_path") or "/")
        return f"{self._cookie_name}={session}; Path={path}; HttpOnly; SameSite=Strict{secure}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _url_without_token(scope: Scope) -> str:
    params = [(name, value) for name, value in QueryParams(scope["query_string"]).multi_items() if name != TOKEN]
    path = "/" + scope["path"].lstrip("/")  # two slashes would refer to another host
    return f"{path}?{urlencode(params)}" if params else path
