"""The namespace of a client: the server's namespace, or the one below it that belongs to the client's bearer token.

Every tool and resource gets its namespace from `Access.client_namespace`, so no argument of a client can leave it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken

from langchain_agentmem import InvalidInput

TOKENS_VARIABLE = "AGENTMEM_MCP_TOKENS"
"""The environment variable for the tokens, as JSON."""
MIN_TOKEN_LENGTH = 16
"""The minimum length of a token in characters. Shorter tokens can be guessed."""

Namespace = tuple[str, ...]


class Access:
    """The namespaces of clients; also a `TokenVerifier` of the MCP SDK.

    Args:
        namespace: The namespace of the server.
        tokens: The namespace below it for each bearer token. Default: none; every client uses the server's namespace.

    Raises:
        InvalidInput: A token or its namespace is invalid.
    """

    def __init__(self, namespace: Sequence[str], tokens: Mapping[str, Namespace] | None = None) -> None:
        self._root = _check_labels(namespace)
        if tokens is not None and not (tokens and all(map(_check_labels, tokens.values()))):
            raise InvalidInput(
                "tokens must have at least one token, each with a namespace. Pass None to admit every client."
            )
        # By digest, so that the time of a look-up reveals nothing about a token, and no log can contain one.
        self._tokens = None if tokens is None else {_digest(_check_token(each)): tuple(tokens[each]) for each in tokens}

    @property
    def roots(self) -> list[Namespace]:
        """The namespaces of all clients."""
        return [self._root + below for below in (((),) if self._tokens is None else self._tokens.values())]

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the access of a token's client, or None for an unknown token. The SDK calls it."""
        digest = _digest(token)
        if self._tokens is None or digest not in self._tokens:
            return None
        return AccessToken(token=digest, client_id=digest, scopes=[])

    def client_namespace(self, below: Sequence[str] | None = None) -> Namespace:
        """Return the namespace of the current request's client, or a namespace below it.

        Args:
            below: The labels below it. Default: none.

        Raises:
            InvalidInput: The client needs a token and has none.
        """
        if self._tokens is None:
            return (*self._root, *(below or ()))
        client = get_access_token()
        if client is None or client.client_id not in self._tokens:
            raise InvalidInput("This memory requires a bearer token. Connect over HTTP with a token.")
        return (*self._root, *self._tokens[client.client_id], *(below or ()))

    def labels_below(self, namespace: Sequence[str]) -> list[str]:
        """Return the labels of a namespace below the namespace of the current client."""
        return list(namespace[len(self.client_namespace()) :])


def tokens_of(text: str) -> dict[str, Namespace]:
    """Parse bearer tokens and their namespaces.

    Args:
        text: A JSON object, such as `{"a-long-random-token": "alice", "another-long-token": ["bob", "notes"]}`. A
            namespace is a path or a list of labels.

    Raises:
        InvalidInput: The text has another form. The error does not contain the text.
    """
    try:
        given = json.loads(text)
    except ValueError as error:
        raise InvalidInput(
            f"Tokens must be a JSON object of tokens and their namespaces, but the text is not JSON: {error}"
        ) from None
    if not isinstance(given, dict) or not given:
        raise InvalidInput(
            'Tokens must be a JSON object with at least one token, such as {"a-long-random-token": "alice"}.'
        )
    return {_check_token(token): _parse_labels(namespace) for token, namespace in given.items()}


def parse_namespace(path: str) -> Namespace:
    """Parse a path of labels such as "team/alice" to a namespace; "/" is the root.

    Raises:
        InvalidInput: A label is empty.
    """
    labels = () if path in ("", "/") else tuple(path.split("/"))
    if not all(labels):
        raise InvalidInput(f'A namespace must be a path of labels such as "team/alice", not {path!r:.100}.')
    return labels


def _check_labels(given: object) -> Namespace:
    if not isinstance(given, tuple | list):
        raise InvalidInput(f'A namespace must be a tuple of labels such as ("team", "alice"), not {given!r:.100}.')
    return tuple(given)


def _parse_labels(given: object) -> Namespace:
    labels = parse_namespace(given) if isinstance(given, str) else tuple(given) if isinstance(given, list) else ()
    if not labels:
        raise InvalidInput(
            'The namespace of a token must be a path or a list of labels, such as "alice" or ["team", "alice"].'
        )
    return labels


def _check_token(token: object) -> str:
    if not isinstance(token, str) or len(token) < MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable():
        raise InvalidInput(
            f"A token must have at least {MIN_TOKEN_LENGTH} printable ASCII characters. Use random ones."
        )
    return token


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
