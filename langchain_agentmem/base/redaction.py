r"""Redaction: secrets are replaced with `***` before they enter layered memory, which may be put into prompts.

A secret is recognized by its form (`sk-…`, a private key, the password in a URL) or by its name, as in
`db_password: …` or `"apiKey": "…"`. Some values after such a name are not secrets, and remain: numbers, types,
placeholders and code, as in `max_token: 4096`, `token: str` and `password = get_password()`.

    redact("OPENAI_API_KEY=abc123")     # 'OPENAI_API_KEY=***'

Every pattern runs in time proportional to the text's length. New patterns need bounded or possessive repetitions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from langchain_agentmem.base.encoding import MAX_DEPTH
from langchain_agentmem.base.safe_repr import MASK, SECRET_NAME, SECRET_NAME_REGEX
from langchain_agentmem.errors import InvalidInput

__all__ = ["redact", "redact_value"]

_PLACEHOLDER = re.compile(
    r"(?is)[*•.…_#-]+|x[x-]{2,}|<[^>]*>|\[[^\]]*\]|\$\{[^}]*\}|\$\w+|\$\(.*|\{\{.*\}\}|\{\w*\}|%\w+%|%\(\w+\)s|%s"
    r"|your[ _-].*|(?:example|placeholder|redacted|masked|hidden|removed)(?:[ _-].*)?"
    r"|(?:str(?:ing)?|bytes|int|bool|any|none|null|nil|undefined|true|false|text|required|optional|yes|no|unset|empty"
    r"|missing|wrong|invalid|incorrect|expired|changed|unknown|default|must|should|is|are|was|can|may|has|the|an?|this"
    r"|that|my|our|to|of|for|from|with|and|or|not)[.:!]*"
)
"""Placeholders, and words that are never secrets, even after the name of a secret."""
_CODE_OR_PATH = re.compile(r"[A-Za-z_][\w.]*[(\[]|(?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*$|[~./]{0,2}/|[A-Za-z]:\\")
"""Code or a path at the start of an unquoted value. In quotes, the same text may be a secret."""
_NUMBER = re.compile(r"[-+]?[\d.,_/]+%?")
_MORE_WORDS = re.compile(r"[ \t]+[A-Za-z]")
_MIN_DIGITS = {"password": 4, "key": 8}
"""The minimum digits of a number that is a secret, by kind of name. A number with a vague name is never a secret."""
_MIN_TOKEN_CHARS, _LONG_TOKEN_CHARS = 6, 20
"""In prose, a word with a vague name needs 6 characters and a digit to be a secret. A word of 20 always is one."""


def is_secret_value(value: str, kind: str, *, bare: bool = False, prose: bool = False) -> bool:
    """Return whether a value that has the name of a secret is really a secret.

    Args:
        value: The value as text.
        kind: The group of `SECRET_NAME_REGEX` that matches the name: "password", "key" or "vague".
        bare: True if the value comes from a text and has no quotes there. Default: False.
        prose: True if the value may be a word of a sentence. Default: False.
    """
    value, words = value.strip(), value.split()
    if not any(map(str.isalnum, value)) or _PLACEHOLDER.fullmatch(value) or (bare and _CODE_OR_PATH.match(value)):
        return False
    if len(words) > 1 and (kind != "password" or _PLACEHOLDER.fullmatch(words[0])):
        return False
    if _NUMBER.fullmatch(value):
        return value.isdigit() and len(value) >= _MIN_DIGITS.get(kind, len(value) + 1)
    min_chars = _MIN_TOKEN_CHARS if kind == "vague" else 0
    return not prose or len(value) >= _LONG_TOKEN_CHARS or (len(value) >= min_chars and any(map(str.isdigit, value)))


def _redact_pattern(text: str, regex: re.Pattern[str]) -> str:
    """Replace the secrets that one pattern matches.

    The group whose name begins with "secret" is replaced, or else the whole match. If a group of `SECRET_NAME` matches,
    `is_secret_value` decides whether the text is a secret. Otherwise any text is a secret, except a placeholder such as
    `<your key>`.
    """
    parts: list[str] = []
    end = 0
    for match in regex.finditer(text):
        groups = [name for name, value in match.groupdict().items() if value is not None]
        group = next((name for name in groups if name.startswith("secret")), 0)  # 0 is the whole match
        start, stop = match.span(group)
        if end <= start < stop and _is_secret(match, group):
            # The mask of a JSON number is in quotes, so that the JSON stays valid.
            parts += (text[end:start], f'"{MASK}"' if group == "secret_number" else MASK)
            end = stop
    return "".join((*parts, text[end:]))


def _is_secret(match: re.Match[str], group: str | int) -> bool:
    groups = match.groupdict()
    kind = next((kind for kind in ("password", "key", "vague") if groups.get(kind)), None)
    if kind is None:
        return not _PLACEHOLDER.fullmatch(match[group])
    bare = group == "secret_bare"
    # After a colon, a vague name or further words indicate a sentence.
    prose = groups.get("sign") == ":" and (kind == "vague" or bool(_MORE_WORDS.match(match.string, match.end(group))))
    return is_secret_value(match[group], kind, bare=bare, prose=bare and prose)


_WORD_START = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))"
"""The start of a word. In JSON, a line break before the word is written as a backslash and a letter."""
# Keys in PEM form, with or without their end.
_PRIVATE_KEY = re.compile(
    r"(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?P<secret>(?:(?!-----BEGIN ).)*?"
    r"(?=-----END [A-Z0-9 ]{0,40}PRIVATE KEY)|(?>(?:(?>(?:\\[nr]|\s)*)[A-Za-z0-9+/=]{20,}+)+))"
)
# The password in a URL.
_URL = re.compile(r"""(?i)(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,30}://[^\s/:@"'<>]*+:(?P<secret>[^\s/"'<>]*)@""")
# Authorization headers, bearer tokens, and the login after -u or --user.
_AUTHORIZATION = re.compile(
    r"""(?ix)(?: \bauthorization\\?["']?\s{0,4}[:=,]\s{0,4}\\?["']?(?:bearer|basic|token|digest)\s{1,4}
        | \bbearer\s{1,4}(?=[\w.~+/=-]{0,200}\d)(?=[\w.~+/=-]{12}) )(?P<secret>[^\s"'\\,;<>]++)
        | (?<![\w-])(?:-u|--user)[ =]\\?["']?(?!\d+:\d)[^\s:"'\\]{1,99}+:(?P<secret_login>[^\s/"'\\][^\s"'\\]*+)"""
)
_COOKIE = re.compile(r"""(?i)\b(?:set-)?cookie:\s{0,4}(?P<secret>[\w.-]+=(?>(?:[^\r\n"'\\]|\\++(?!["']))+))""")
# Lines such as `export DB_PASSWORD=…`, and command line options such as `--api-key …`.
_ASSIGNMENT = re.compile(
    rf"""(?imx) (?: ^[ \t]*(?:export[ \t]+)?[\w.-]{{0,100}}? | (?<![^\s"'])--(?:[\w-]{{0,100}}-)? ) {SECRET_NAME}
        (?: =(?P<secret_bare>[^\s"'`=<]\S*+)[ \t]*\r?$ | [ \t](?P<secret_option>[^\s"'\\$<-][^\s"'\\,;]*+) )"""
)
_NAMED_VALUE = re.compile(rf"""(?ix) {SECRET_NAME} (?:\\*["'`]\]?)? (?:[ \t]{{0,4}}:[ \t]{{0,4}}str(?=[ \t]{{0,8}}=))?
        [ \t]{{0,8}} (?P<sign>=>|:=|=(?!=)|:(?!:|//)) [ \t]{{0,8}} (?:[rbfu](?=["'])|SecretStr\((?=["']))?
        (?: (?= (?:(?<=\w":)|(?<=\w":[ ]))(?P<secret_number>\d+)(?=[\s,}}\]])
        | (?P<slashes>\\{{1,8}}+)"(?P<secret_deep>(?>(?:[^"\\\n]|\\++(?!")|(?P=slashes)\\+")*))(?P=slashes)"
        | "(?P<secret_double>(?>(?:[^"\\\n]|\\.)*))"
        | '(?P<secret_single>(?>(?:[^'"\\\n]|"(?![ \t]{{0,8}}[,:}}\]])|\\.)*))'
        | `(?P<secret_back>[^`"\n]*)` )
        | (?![$%][{{(]|\{{)(?P<secret_bare>(?>(?:[^\s"'`,;&)\]}}<>|\\]|\\++(?!["'`]))+)) )""")
"""The name of a secret and its value. A lookahead matches quoted text, since the text may contain further names."""
# Keys with the prefix of a provider, such as sk-, and addresses that contain a key.
_PROVIDER_KEY = re.compile(rf"""(?x){_WORD_START}(?:
        eyJ[\w-]{{5,}}+\.[\w-]{{5,}}+(?:\.[\w-]*+)?
        | sk-(?:[A-Za-z0-9]{{16}} | (?:proj|ant|or|svcacct|admin|live|test)-(?=[\w-]{{10}})
        | (?=[\w-]{{16}})(?=[\w-]{{0,200}}\d))[\w-]*+
        | hf_(?:[A-Za-z0-9]{{16}} | (?=[A-Za-z0-9]{{10}})(?=[A-Za-z]{{0,200}}[0-9A-Z]))[A-Za-z0-9]*+
        | gh[pousr]_[A-Za-z0-9]{{16,}}+ | github_pat_\w{{20,}}+ | glpat-[\w-]{{16,}}+
        | A[KS]IA[A-Z0-9]{{16}}(?![A-Za-z0-9]) | AIza[\w-]{{30,}}+ | GOCSPX-[\w-]{{20,}}+
        | (?:xox[a-z]|xapp)-[\w-]{{10,}}+ | [spr]k_(?:live|test)_[A-Za-z0-9]{{10,}}+
        | (?:gsk_|xai-|pplx-|npm_)[A-Za-z0-9]{{20,}}+ | tvly-[\w-]{{16,}}+ | lsv2_[a-z]{{2}}_\w{{20,}}+
        | SG\.[\w-]{{16,}}+\.[\w-]{{16,}}+
        | (?i:https://(?:hooks\.slack\.com/(?:services|workflows)|discord(?:app)?\.com/api/webhooks)/)
            (?P<secret>[\w/-]{{10,}}+))
        | \d(?<![\w:-]\d)\d{{7,9}}:(?P<secret_telegram>AA[\w-]{{33}}(?![\w-]))""")
_KEY_PREFIXES = (
    "eyj", "sk-", "hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "akia", "asia", "aiza", "xox",
    "gocspx-", "xapp-", "k_live_", "k_test_", "gsk_", "xai-", "pplx-", "npm_", "tvly-", "lsv2_", "sg.", ":aa",
    "hooks.slack.com", "/webhooks/",
)  # fmt: skip
_NAME_HINTS = ("pass", "pwd", "key", "token", "secret", "credential")
_PATTERNS = {
    _PRIVATE_KEY: ("private key",),
    _URL: ("://",),
    _AUTHORIZATION: ("authorization", "bearer", "-u"),
    _COOKIE: ("cookie:",),
    _ASSIGNMENT: _NAME_HINTS,
    _NAMED_VALUE: _NAME_HINTS,
    _PROVIDER_KEY: _KEY_PREFIXES,
}
"""The patterns of secrets, each with hints: lower-case texts. A text without any of a pattern's hints has no match."""
_HINTS = frozenset().union(*_PATTERNS.values())


def redact(text: str) -> str:
    """Replace the secrets in a text.

    Args:
        text: Any text.

    Returns:
        The text with `***` in place of each secret. A text without secrets is returned unchanged.
    """
    contains = text.lower().__contains__
    if not any(map(contains, _HINTS)):  # one pass over all hints is faster than one for each pattern
        return text
    for regex, hints in _PATTERNS.items():
        if any(map(contains, hints)):
            text = _redact_pattern(text, regex)
    return text


def redact_value(value: object) -> Any:
    """Replace the secrets in a JSON-like value.

    Secrets in texts and keys are replaced, and so are secret values with the name of a secret. The name of a value is
    its key, as in `{"password": 1234}`. If the key is "value", the name is the field "name" or "key" next to it, as in
    `{"name": "DB_PASSWORD", "value": "x"}`.

    Args:
        value: Nested dictionaries, lists, tuples, sets, texts and integers. Values of other types are not changed.

    Returns:
        The value with `***` in place of each secret. Containers are copied, not changed. If two keys become equal, a
        number is appended to the later key.

    Raises:
        InvalidInput: The value is nested more than 128 levels deep, or contains itself.
    """
    return _redact_value(value, None, MAX_DEPTH)


def _redact_value(value: Any, kind: str | None, depth: int) -> Any:
    if isinstance(value, str):
        return MASK if kind and is_secret_value(value, kind) else redact(value)
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        if not depth:
            raise InvalidInput(f"The value is nested more than {MAX_DEPTH} levels deep, or contains itself.")
        if isinstance(value, Mapping):
            return _redact_mapping(value, depth - 1)
        items = [_redact_value(item, kind, depth - 1) for item in value]
        return type(value)(items) if type(value) in (tuple, set, frozenset) else items
    if kind and isinstance(value, int) and not isinstance(value, bool):
        return MASK if is_secret_value(str(value), kind) else value
    return value


def _redact_mapping(value: Mapping[Any, Any], depth: int) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    described_name = value.get("name", value.get("key"))
    for key, item in value.items():
        name = described_name if key == "value" and isinstance(described_name, str) else key
        secret_name = SECRET_NAME_REGEX.search(name[-200:]) if isinstance(name, str) else None
        base_key = new_key = redact(key) if isinstance(key, str) else key
        number = 2
        while new_key in result:
            new_key, number = f"{base_key} {number}", number + 1
        result[new_key] = _redact_value(item, secret_name and secret_name.lastgroup, depth)
    return result
