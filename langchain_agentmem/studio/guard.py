"""The access control of Studio: token, session, origin of a request, and headers of an answer.

It stands around the whole application, so no page can forget it:

- `Host` must be one of the names that Studio is known by, where these are known, so that no other site's name can be
  made to point here (DNS rebinding).
- The token of the address opens one session, once; the session is a cookie that scripts and other sites cannot use.
  Without a token, as behind your own authentication, everybody has a session immediately.
- What changes something must come from a page of Studio itself: by `Origin`, by `Sec-Fetch-Site`, and by a value that
  is derived from the session and stands in each form.
- No answer may be framed, guessed at or kept, and nothing but Studio's own files runs or is loaded.
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
"""The key of an ASGI scope for the value that the forms of its session contain."""
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
        token: The token that opens a session, once. Default: everybody has a session.
        hosts: The host names, with ports, that requests may use. Default: any; the server in front checks them.
    """

    def __init__(self, app: ASGIApp, *, token: str | None = None, hosts: Collection[str] | None = None) -> None:
        self._app = app
        self._token = token
        self._hosts = None if hosts is None else frozenset(map(str.lower, hosts))
        # Browsers share cookies among ports: two Studios must not take each other's session away.
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
            text = "Studio opens once by the address that it printed when it was started. Start it anew for another."
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
            return PlainTextResponse("Studio is not known by this name.", 421)
        if scope["method"] in SAFE_METHODS:
            return None
        origin, site = urlsplit(headers.get("origin", "")), headers.get("sec-fetch-site", "same-origin")
        if origin.netloc.lower() != host or site != "same-origin":
            return PlainTextResponse("Only a page of Studio itself may change something.", 403)
        return None

    def _is_first_use(self, scope: Scope) -> bool:
        """Return True if a request is the first one with the token."""
        token = QueryParams(scope["query_string"]).get(TOKEN, "")
        matches = hmac.compare_digest(token.encode(), (self._token or "").encode())
        return matches and self._open_session is None and scope["method"] == "GET"

    def _find_session(self, scope: Scope) -> str | None:
        # Others that are served from this machine set cookies, too, and not as Python's `http.cookies` reads them.
        cookie = HTTPConnection(scope).cookies.get(self._cookie_name)
        if cookie and (
            self._token is None or hmac.compare_digest(cookie.encode(), (self._open_session or "").encode())
        ):
            return cookie
        return None

    def _cookie(self, scope: Scope, session: str) -> str:
        secure = "; Secure" if scope["scheme"] == "https" else ""
        path = quote(scope.get("root_path") or "/")
        return f"{self._cookie_name}={session}; Path={path}; HttpOnly; SameSite=Strict{secure}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _url_without_token(scope: Scope) -> str:
    params = [(name, value) for name, value in QueryParams(scope["query_string"]).multi_items() if name != TOKEN]
    path = "/" + scope["path"].lstrip("/")  # two slashes would be another host
    return f"{path}?{urlencode(params)}" if params else path
