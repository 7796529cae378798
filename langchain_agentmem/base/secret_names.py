"""Which names are given to secrets, and which values under such a name are one.

`api_key` names a secret, `max_token` a number and `token_count` a count. And what stands under the name of a secret
need not be one: a type, a placeholder, a call that fetches it, or a sentence about it is none.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

from langchain_agentmem.base.data_tables import data_table, word_set

_LEAST_TOKEN, _LONG_TOKEN, _MIXED_TOKEN = 6, 20, 12


Kind: TypeAlias = Literal["password", "key", "token", "secret"]
"""What a name stands for. "key" is certain (`api_key`, `access_token`, `client_secret`), "token" and "secret" are words
that also mean other things."""
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PLACEHOLDER = re.compile(
    r"[*•.…_#-]+|(?i:x[x-]{2,})|<[^>]*>|\[[^\]]*\]|\$\{[^}]*\}|\$[A-Z_][A-Z0-9_]*|\$\d|\$\(.*|\{\{.*\}\}|\{\w*\}"
    r"|%\w+%|%\(\w+\)s|%s|(?i:your[ _-].*)"
    r"|(?i:example|sample|dummy|placeholder|redacted|masked|hidden|removed)(?:[ _-].*)?",
    re.DOTALL,
)
_CODE = re.compile(
    r"[A-Za-z_][\w.]*[(\[]|(?:os|env|environ|process|config|cfg|conf|settings|self|this|args|kwargs|request|req|ctx|"
    r"context|secrets|params|options|opts|credentials|creds|props|environment|event|state|data|user|app|vault|st)\.\w"
)
_NUMBER = re.compile(r"[-+]?[\d.,_/]+\s?(?:[A-Za-z]{1,3}|%)?")
_FILE = re.compile(r"[~.]{0,2}/?[\w./ -]*\.(?:pem|key|crt|cer|der|p12|pfx|pub|txt|json|ya?ml|env|md|py)", re.IGNORECASE)
_FOLDER = re.compile(r"[~/]|[A-Za-z]:\\")
_LETTERS = re.compile(r"[^\W\d_][^\W\d_'\u2019-]*[.!?:]?")
_LEAST_NUMBER = {"password": 4, "key": 8}
_SHORT_WORD = 8


class _Vocabulary(NamedTuple):
    """The words of `secrets.yaml`."""

    after: frozenset[str]
    about: frozenset[str]
    passwords: frozenset[str]
    pass_of: frozenset[str]
    keys: frozenset[str]
    key_of: frozenset[str]
    token_of: frozenset[str]
    no_token: frozenset[str]
    secret_of: frozenset[str]
    words: frozenset[str]


@cache
def _vocabulary() -> _Vocabulary:
    table = data_table("base/secrets.yaml")
    return _Vocabulary(*(word_set(table, name) for name in _Vocabulary._fields))


def kind_of_name(name: str) -> Kind | None:
    """What a name says of the value that it is given to; None if it does not speak of a secret.

    Args:
        name: As it is written: `api_key`, `X-Api-Key`, `openaiApiKey`, `DB_PASSWORD`.
    """
    known = _vocabulary()
    parts = [part.lower() for part in _PARTS.findall(name[-200:])]
    while len(parts) > 1 and (parts[-1] in known.after or parts[-1].isdigit()):
        parts.pop()
    if not parts or parts[0] in known.about:
        return None
    last, before = parts[-1], parts[-2] if len(parts) > 1 else ""
    if last in known.passwords or last.endswith(("password", "passwd")) or (last == "pass" and before in known.pass_of):
        return "password"
    if last in known.keys or last.endswith("apikey") or (last == "key" and before in known.key_of):
        return "key"
    if last == "token":
        return None if before in known.no_token else "key" if before in known.token_of else "token"
    if last in ("secret", "credential", "credentials"):
        return "key" if before in known.secret_of else "secret"
    return None


def is_placeholder(value: str) -> bool:
    """Whether a text only stands for a secret: `***`, `<your key>`, `${KEY}`."""
    return _PLACEHOLDER.fullmatch(value) is not None


def is_secret_value(  # noqa: PLR0911 - one line for each reason
    value: str, kind: Kind, *, quoted: bool, assigned: bool = False, prose: bool = False
) -> bool:
    """Whether a value is a secret, given that its name says so.

    Args:
        value: What stands there.
        kind: What its name says.
        quoted: Whether it stands in quotes, or is a value of its own.
        assigned: Whether `=` stands before it, and not `:`. Default False.
        prose: Whether words go on after it. Default False.
    """
    value = value.strip()
    if not any(map(str.isalnum, value)) or is_placeholder(value) or value.lower().rstrip(".:!") in _vocabulary().words:
        return False
    if not quoted and _CODE.match(value):
        return False
    parts = value.split()
    if (len(parts) > 1 and _is_sentence(parts, kind)) or _FILE.fullmatch(value):
        return False
    if _NUMBER.fullmatch(value):
        digits = sum(map(str.isdigit, value))
        return digits == len(value) and digits >= _LEAST_NUMBER.get(kind, digits + 1)
    only_letters = _LETTERS.fullmatch(value) is not None
    if prose and only_letters:
        return False
    if kind == "token":
        return _is_token(value, only_letters=only_letters)
    if kind == "secret":
        return quoted or assigned or not only_letters
    if kind == "key":
        return quoted or assigned or not only_letters or len(value) >= _SHORT_WORD
    return not (_FOLDER.match(value) and not quoted)


def _is_sentence(parts: list[str], kind: Kind) -> bool:
    """Whether words speak of a secret; those of a passphrase are one."""
    return kind != "password" or parts[0].lower() in _vocabulary().words


def _is_token(value: str, *, only_letters: bool) -> bool:
    if only_letters:
        mixed = not (value.islower() or value.isupper() or value.istitle())
        return len(value) >= _LONG_TOKEN or (mixed and len(value) >= _MIXED_TOKEN)
    digits, letters = any(map(str.isdigit, value)), any(map(str.isalpha, value))
    return len(value) >= _LONG_TOKEN or (digits and letters and len(value) >= _LEAST_TOKEN)
