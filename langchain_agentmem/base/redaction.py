r"""Secrets are taken out of what enters layered memory: what a model reads again in every prompt, others may read too.

A secret is known by its form (`sk-…`, a private key, the password in a URL) or by the name that it is given
(`db_password: …`, `"apiKey": "…"`). A name alone proves nothing: `max_token: 4096`, `token: str`, `the secret: be kind`
and `password = get_password()` stay as they are. In place of a secret stands `***`.

    redact("OPENAI_API_KEY=abc123")     # 'OPENAI_API_KEY=***'
    redact(text, patterns_with([r"\bBADGE-\d{6}\b"]))
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_agentmem.base.encoding import MAX_DEPTH
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.base.secret_names import Kind, is_secret_value, kind_of_name
from langchain_agentmem.base.secret_patterns import DEFAULT, REDACTED, SecretPattern
from langchain_agentmem.errors import InvalidInput

__all__ = ["DEFAULT", "REDACTED", "SecretPattern", "patterns_with", "redact", "redact_value"]


def redact(text: str, patterns: Sequence[SecretPattern] = DEFAULT) -> str:
    """Take the secrets out of a text.

    Args:
        text: Any text.
        patterns: What is taken for a secret. Default: `DEFAULT`. An empty tuple takes nothing out.

    Returns:
        The text with `***` in place of each secret; the text itself if there is none.
    """
    lowered = text.lower()
    for pattern in patterns:
        new = pattern.without(text, lowered)
        if new is not text:
            text, lowered = new, new.lower()
    return text


def redact_value(value: Any, patterns: Sequence[SecretPattern] = DEFAULT) -> Any:
    """Take the secrets out of a value as JSON has them: out of its texts and keys, and whatever is named as a secret.

    `{"password": 1234}` is told by its key, as is `{"name": "DB_PASSWORD", "value": "x"}` by its name.

    Args:
        value: Dictionaries, lists, tuples, sets and texts in each other; anything else stays as it is.
        patterns: As for `redact`. Names count too, unless this is empty.

    Returns:
        A new value; nothing of the given one is changed. Of two keys that would become one, the later is numbered.

    Raises:
        InvalidInput: It is nested more than 128 levels deep, or contains itself.
    """
    return _redacted(value, tuple(patterns), None, MAX_DEPTH)


def patterns_with(extra: Iterable[SecretPattern | str | re.Pattern[str]]) -> tuple[SecretPattern, ...]:
    """`DEFAULT`, and what a user adds.

    Args:
        extra: Patterns, or regular expressions of which the whole match is taken out, or their groups `secret…`.

    Raises:
        InvalidInput: One of them is neither.
    """
    if isinstance(extra, str | re.Pattern | SecretPattern) or not isinstance(extra, Iterable):
        raise InvalidInput(f"Patterns of secrets are a list, not {safe_repr(extra)}.")
    made = (
        each if isinstance(each, SecretPattern) else SecretPattern(name=f"pattern {number}", regex=each)
        for number, each in enumerate(extra, 1)
    )
    return (*DEFAULT, *made)


def _redacted(value: Any, patterns: tuple[SecretPattern, ...], kind: Kind | None, depth: int) -> Any:
    if isinstance(value, str):
        return REDACTED if kind and is_secret_value(value, kind, quoted=True) else redact(value, patterns)
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        if not depth:
            raise InvalidInput(f"The value is nested more than {MAX_DEPTH} levels deep, or contains itself.")
        if isinstance(value, Mapping):
            return _redacted_dict(value, patterns, depth - 1)
        items = [_redacted(item, patterns, kind, depth - 1) for item in value]
        return type(value)(items) if type(value) in (tuple, set, frozenset) else items
    if kind and isinstance(value, int) and not isinstance(value, bool):
        return REDACTED if is_secret_value(str(value), kind, quoted=True) else value
    return value


def _redacted_dict(value: Mapping[Any, Any], patterns: tuple[SecretPattern, ...], depth: int) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    label = value.get("name", value.get("key"))
    for key, item in value.items():
        name = label if key == "value" and isinstance(label, str) else key
        kind = kind_of_name(name) if patterns and isinstance(name, str) else None
        plain = new = redact(key, patterns) if isinstance(key, str) else key
        number = 2
        while new in made:
            new, number = f"{plain} {number}", number + 1
        made[new] = _redacted(item, patterns, kind, depth)
    return made
