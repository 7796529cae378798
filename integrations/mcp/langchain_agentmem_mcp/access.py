"""Whose memory a client sees: that of the server's namespace, or of the one below it that its bearer token stands for.

Every tool and resource gets its namespace from `Access.here`, so nothing that a client sends can lead out of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken

from langchain_agentmem import InvalidInput

TOKENS_VARIABLE = "AGENTMEM_MCP_TOKENS"
"""The environment variable that may hold the tokens, as JSON."""
SHORTEST = 16
"""How short a token may be, in characters; shorter ones are guessed."""

Namespace = tuple[str, ...]


class Access:
    """Tells clients apart. It is a `TokenVerifier` of the SDK's, too.

    Args:
        namespace: The namespace of the server.
        tokens: A namespace below it for each bearer token. Default: none, and every client sees the server's.

    Raises:
        InvalidInput: A token or its namespace cannot be one.
    """

    def __init__(self, namespace: Sequence[str], tokens: Mapping[str, Namespace] | None = None) -> None:
        self._root = _labels(namespace)
        if tokens is not None and not (tokens and all(map(_labels, tokens.values()))):
            raise InvalidInput(
                "Give at least one token, and each a namespace of its own; or None to open to everybody."
            )
        # By digest: a look-up then takes as long for a token that is nearly right, and no log can tell one.
        self._known = None if tokens is None else {_digest(_token(each)): tuple(tokens[each]) for each in tokens}

    @property
    def roots(self) -> list[Namespace]:
        """The namespaces that clients may see."""
        return [self._root + below for below in (((),) if self._known is None else self._known.values())]

    async def verify_token(self, token: str) -> AccessToken | None:
        """What the SDK asks of a verifier: the client that a token stands for, or None."""
        digest = _digest(token)
        if self._known is None or digest not in self._known:
            return None
        return AccessToken(token=digest, client_id=digest, scopes=[])

    def here(self, below: Sequence[str] | None = None) -> Namespace:
        """The namespace of the client that is being answered, or one below it.

        Args:
            below: Labels below it. Default: none.

        Raises:
            InvalidInput: The client has no token, and needs one.
        """
        if self._known is None:
            return (*self._root, *(below or ()))
        client = get_access_token()
        if client is None or client.client_id not in self._known:
            raise InvalidInput("This memory is open to clients with a bearer token only: connect over HTTP with one.")
        return (*self._root, *self._known[client.client_id], *(below or ()))

    def shown(self, namespace: Sequence[str]) -> list[str]:
        """A namespace as its client knows it: what stands below its own."""
        return list(namespace[len(self.here()) :])


def tokens_of(text: str) -> dict[str, Namespace]:
    """Read which bearer token stands for which namespace.

    Args:
        text: A JSON object, such as `{"a-long-random-token": "alice", "another-long-token": ["bob", "notes"]}`. A
            text is a path of labels.

    Raises:
        InvalidInput: It is something else. The error does not repeat it.
    """
    try:
        given = json.loads(text)
    except ValueError as error:
        raise InvalidInput(
            f"Tokens are a JSON object of tokens and their namespaces; this is no JSON: {error}"
        ) from None
    if not isinstance(given, dict) or not given:
        raise InvalidInput('Tokens are a JSON object such as {"a-long-random-token": "alice"}, with at least one.')
    return {_token(token): _below(namespace) for token, namespace in given.items()}


def namespace_given(path: str) -> Namespace:
    """The namespace that a path of labels names, such as "team/alice"; "/" is the root.

    Raises:
        InvalidInput: A label is empty.
    """
    labels = () if path in ("", "/") else tuple(path.split("/"))
    if not all(labels):
        raise InvalidInput(f'A namespace is a path of labels such as "team/alice", not {path!r:.100}.')
    return labels


def _labels(given: object) -> Namespace:
    if not isinstance(given, tuple | list):
        raise InvalidInput(f'A namespace is a tuple of labels such as ("team", "alice"), not {given!r:.100}.')
    return tuple(given)


def _below(given: object) -> Namespace:
    labels = namespace_given(given) if isinstance(given, str) else tuple(given) if isinstance(given, list) else ()
    if not labels:
        raise InvalidInput('A token stands for a namespace of its own, such as "alice" or ["team", "alice"].')
    return labels


def _token(token: object) -> str:
    if not isinstance(token, str) or len(token) < SHORTEST or not token.isascii() or not token.isprintable():
        raise InvalidInput(f"A token is at least {SHORTEST} printable ASCII characters; make them random.")
    return token


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
