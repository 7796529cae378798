r"""Redaction: secrets are replaced by `***` before they enter layered memory, which every prompt shows.

A secret is found by its form (`sk-…`, a private key, the password in a URL) or by its name, as in `db_password: …` or
`"apiKey": "…"`. Numbers, types, placeholders and code after such a name stay: `max_token: 4096`, `token: str`,
`password = get_password()`.

    redact("OPENAI_API_KEY=abc123")     # 'OPENAI_API_KEY=***'
    redact(text, patterns_with([r"\bBADGE-\d{6}\b"]))

Every pattern takes time in proportion to the text: none starts within what it has just read, and none backtracks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_agentmem.base.encoding import MAX_DEPTH
from langchain_agentmem.base.safe_repr import HIDDEN, SECRET_NAME, safe_repr
from langchain_agentmem.errors import InvalidInput

__all__ = ["DEFAULT", "SecretPattern", "patterns_with", "redact", "redact_value"]

_PLACEHOLDER = re.compile(
    r"[*•.…_#-]+|(?i:x[x-]{2,})|<[^>]*>|\[[^\]]*\]|\$\{[^}]*\}|\$[A-Z_][A-Z0-9_]*|\$\(.*|\{\{.*\}\}|\{\w*\}|%\w+%|%\(\w+\)s|%s"
    r"|(?i:your[ _-].*|(?:example|placeholder|redacted|masked|hidden|removed)(?:[ _-].*)?)",
    re.DOTALL,
)
_CODE = re.compile(r"[A-Za-z_][\w.]*[(\[]|(?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*$|[~./]{0,2}/|[A-Za-z]:\\")
"""Code or a path, unless it is quoted."""
_WORD = re.compile(
    r"(?i)(?:str(?:ing)?|bytes|int(?:eger)?|float|bool(?:ean)?|number|object|array|any|none|null|nil|undefined|true|false"
    r"|text|required|optional|yes|no|todo|unset|empty|missing|wrong|invalid|incorrect|expired|changed|reset|unknown"
    r"|default|must|should|is|are|was|can|may|will|has|have|the|an?|this|that|your|my|our|to|of|for|from|with|and|or|not)"
    r"[.:!]*"
)
"""A word that is not a secret, whatever the name before it."""
_NUMBER = re.compile(r"[-+]?[\d.,_/]+%?")
_LEAST_DIGITS = {"password": 4, "key": 8}
_LEAST_TOKEN, _LONG_TOKEN = 6, 20


def is_secret_value(value: str, kind: str, *, quoted: bool, assigned: bool = False, prose: bool = False) -> bool:
    """Decide if a value is a secret, given the kind of its name.

    Args:
        value: The text.
        kind: The group of `SECRET_NAME` that matches the name: "password", "key" or "vague".
        quoted: Whether it is in quotes, or a value of its own.
        assigned: Whether `=` precedes it, and not `:`. Default False.
        prose: Whether more words follow. Default False.
    """
    value = value.strip()
    words = value.split()
    if not any(map(str.isalnum, value)) or _PLACEHOLDER.fullmatch(value) or _WORD.fullmatch(value):
        return False
    if (not quoted and _CODE.match(value)) or (len(words) > 1 and (kind != "password" or _WORD.fullmatch(words[0]))):
        return False
    if _NUMBER.fullmatch(value):
        return value.isdigit() and len(value) >= _LEAST_DIGITS.get(kind, len(value) + 1)
    has_digits = any(map(str.isdigit, value))
    if kind == "vague":
        return quoted or assigned or len(value) >= _LONG_TOKEN or (has_digits and len(value) >= _LEAST_TOKEN)
    return quoted or assigned or has_digits or not prose


@dataclass(frozen=True, kw_only=True, slots=True)
class SecretPattern:
    """A pattern for secrets of one kind.

    Attributes:
        name: The name of the pattern.
        regex: The regular expression. The groups whose names begin with "secret" are replaced; without such a group,
            the whole match is.
        is_secret: Decides if a match is a secret. Default: every match is, except placeholders (`<your key>`,
            `${KEY}`).
        needs: Texts in lower case of which every match contains one; they save searches. Default: none.

    Raises:
        InvalidInput: The regex is not valid, or matches the empty text.
    """

    name: str
    regex: str | re.Pattern[str]
    is_secret: Callable[[re.Match[str]], bool] | None = None
    needs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        try:
            compiled = re.compile(self.regex)
        except (re.error, TypeError, RecursionError) as error:
            raise InvalidInput(f"The pattern {safe_repr(self.name)} is no regular expression: {error}.") from error
        if not isinstance(compiled.pattern, str) or compiled.fullmatch(""):
            raise InvalidInput(f"The pattern {safe_repr(self.name)} must match text, and not the empty text.")
        object.__setattr__(self, "regex", compiled)

    def without(self, text: str) -> str:
        """Return a text without the secrets of this kind; the text itself if it has none."""
        parts: list[str] = []
        end = 0
        for start, stop, instead in self._secrets(text):
            if start >= end:
                parts += (text[end:start], instead)
                end = stop
        return "".join((*parts, text[end:])) if parts else text

    def _secrets(self, text: str) -> Iterator[tuple[int, int, str]]:
        for match in self.regex.finditer(text):  # type: ignore[union-attr]  # compiled above
            if self.is_secret is not None and not self.is_secret(match):
                continue
            groups = [name for name in match.re.groupindex if name.startswith("secret")]
            for start, stop in sorted(map(match.span, groups)) if groups else [match.span()]:
                if start < stop and not (self.is_secret is None and _PLACEHOLDER.fullmatch(text, start, stop)):
                    yield start, stop, HIDDEN


# --- Named values ----------------------------------------------------------------------------------------------------

_NAME = r"(?P<name>[A-Za-z_][\w.-]{0,199}+|(?i:api|secret|access|private)[ ](?i:key|token))"
_TYPE = (
    r"(?:[ \t]{0,4}:[ \t]{0,4}(?:str|String|string|bytes|Any|Optional|Secret|Annotated|Union|Text)[\w.\[\] |,]{0,40})?"
)
_VALUE = re.compile(  # `(?>(?:…)*)`, as a possessive group is matched wrongly by Python before 3.11.5
    r"""
    (?: [rbfuRBFU]{1,2}(?=["']) | [A-Za-z.]{0,20}Secret[A-Za-z]{0,10}\((?=["']) )?
    (?: (?P<slashes>\\{1,8}+) (?P<deep>["']) (?P<secret_deep>(?>(?:[^"'\\\n] | \\++(?!["']) | (?P=slashes)\\+["'])*))
        (?P=slashes) (?P=deep)
      | \"\"\" (?P<secret_triple>[^"]{1,10000}+) \"\"\"
      | " (?P<secret_double>(?>(?:[^"\\\n]|\\.)*)) "
      | ' (?P<secret_single>(?>(?:[^'"\\\n] | "(?![ \t]{0,8}[,:}\]]) | \\.)*)) '
      | ` (?P<secret_back>(?>(?:[^`"\n] | "(?![ \t]{0,8}[,:}\]]))*)) `
      | (?P<secret_bare><[^<>\n]{0,80}> | \$\{[^{}\n]{0,80}\} | \{\{[^{}\n]{0,80}\}\}
        | (?> (?: [^\s"'`,;&)\]}<>|\\] | \\++(?!["'`]) )+)) )
    """,
    re.VERBOSE,
)
_MORE_WORDS = re.compile(r"[ \t]+[A-Za-z]")


def kind_of_name(name: str) -> str | None:
    """Return the kind of secret that a name announces, as `SECRET_NAME` groups them; None if it announces none."""
    match = SECRET_NAME.search(name[-200:])
    return match and match.lastgroup


def _is_named_so(match: re.Match[str]) -> bool:
    kind = kind_of_name(match["name"])
    return kind is not None and is_secret_value(match["secret"], kind, quoted=False, assigned=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class _NamedValue(SecretPattern):
    """A name and a sign, and the value after them. Values that are not secrets are searched, too."""

    def _secrets(self, text: str) -> Iterator[tuple[int, int, str]]:
        past = 0
        for match in self.regex.finditer(text):  # type: ignore[union-attr]  # compiled above
            if match.start() < past or (kind := kind_of_name(match["name"])) is None:
                continue
            if (found := _VALUE.match(text, match.end())) is None:
                continue
            group = str(found.lastgroup)
            value, quoted, assigned = found[group], group != "secret_bare", match["sign"] != ":"
            # Words that follow are prose: "API key: needed for the search".
            prose = not quoted and not assigned and _MORE_WORDS.match(text, found.end()) is not None
            if value and is_secret_value(value, kind, quoted=quoted, assigned=assigned, prose=prose):
                past = found.end(group)
                in_json = not quoted and not assigned and text[match.end("name")] == '"'  # a number stays valid JSON
                yield found.start(group), past, f'"{HIDDEN}"' if in_json else HIDDEN
            elif not quoted:
                past = found.end()


_FREE = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))"
"""The start of a word; in JSON, the end of a line is a backslash and a letter."""
_SCHEME = r"(?i)(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,30}://"

DEFAULT: tuple[SecretPattern, ...] = (
    SecretPattern(
        name="private key",
        regex=r"(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?P<secret>(?:(?!-----BEGIN ).)*?"
        r"(?=-----END [A-Z0-9 ]{0,40}PRIVATE KEY)|(?>(?:(?>(?:\\[nr]|\s)*)[A-Za-z0-9+/=]{20,}+)+))",
        needs=("private key",),
    ),
    SecretPattern(
        name="password in a URL",
        regex=_SCHEME + r"""[^\s/:@"'<>]*+:(?P<secret>[^\s/"'<>]*)@""",
        needs=("://",),
    ),
    SecretPattern(
        name="authorization header",
        regex=r"""(?i)\bauthorization\\?["']?\s{0,4}[:=,]\s{0,4}\\?["']?(?:bearer|basic|token|digest|apikey|negotiate)"""
        r"""\s{1,4}(?P<secret>[^\s"'\\,;<>]++)""",
        needs=("authorization",),
    ),
    SecretPattern(
        name="bearer token",
        regex=r"(?i)\bbearer\s{1,4}(?=[\w.~+/=-]{0,200}\d)(?P<secret>[\w.~+/=-]{12,}+)",
        needs=("bearer",),
    ),
    SecretPattern(
        name="cookie",
        regex=r"""(?i)\b(?:set-)?cookie:\s{0,4}(?P<secret>[\w.-]+=(?>(?:[^\r\n"'\\]|\\++(?!["']))+))""",
        needs=("cookie:",),
    ),
    SecretPattern(
        name="line of an environment",
        regex=rf"(?m)^[ \t]*(?:export[ \t]+|set[ \t]+)?{_NAME}=(?P<secret>[^\s\"'`=<]\S*+)[ \t]*\r?$",
        is_secret=_is_named_so,
        needs=("=",),
    ),
    _NamedValue(
        name="named value",
        regex=rf"""(?x)(?<![\w.])(?<!\w-)(?P<option>--)?{_NAME} (?:\\*["'`]\]?)? {_TYPE}
            [ \t]{{0,8}} (?P<sign>=>|:=|=(?!=)|:(?!:|//)|(?(option)(?<=[ \t])(?!-)|(?!))) [ \t]{{0,8}}""",
        needs=(":", "=", "--"),
    ),
    SecretPattern(
        name="webhook",
        regex=r"(?i)https://(?:hooks\.slack\.com/(?:services|workflows)|discord(?:app)?\.com/api/webhooks)/"
        r"(?P<secret>[\w/-]{10,}+)",
        needs=("hooks.slack.com", "/webhooks/"),
    ),
    SecretPattern(
        name="key of a provider",
        regex=rf"""(?x){_FREE}(?:
            eyJ[\w-]{{5,}}+\.[\w-]{{5,}}+(?:\.[\w-]*+)?
          | sk-(?:[A-Za-z0-9]{{16}} | (?:proj|ant|or|svcacct|admin|live|test)-(?=[\w-]{{10}})
              | (?=[\w-]{{16}})(?=[\w-]{{0,200}}\d))[\w-]*+
          | (?:hf|api_org)_(?:[A-Za-z0-9]{{16}} | (?=[A-Za-z0-9]{{10}})(?=[A-Za-z]{{0,200}}[0-9A-Z]))[A-Za-z0-9]*+
          | gh[pousr]_[A-Za-z0-9]{{16,}}+ | github_pat_\w{{20,}}+ | glpat-[\w-]{{16,}}+
          | A(?:KIA|SIA|BIA|CCA|ROA|IDA|GPA|NPA)[A-Z0-9]{{16}}(?![A-Za-z0-9])
          | AIza[\w-]{{30,}}+ | ya29\.[\w-]{{20,}}+ | GOCSPX-[\w-]{{20,}}+
          | (?:xox[a-z]|xapp)-[\w-]{{10,}}+
          | [spr]k_(?:live|test)_[A-Za-z0-9]{{10,}}+ | whsec_[\w+/=]{{16,}}+
          | (?:gsk_|xai-|pplx-|npm_)[A-Za-z0-9]{{20,}}+ | tvly-[\w-]{{16,}}+
          | lsv2_[a-z]{{2}}_\w{{20,}}+ | pypi-[\w-]{{40,}}+
          | SG\.[\w-]{{16,}}+\.[\w-]{{16,}}+)""",
        needs=(
            *("eyj", "sk-", "hf_", "api_org_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "akia"),
            *(
                "asia",
                "abia",
                "acca",
                "aroa",
                "aida",
                "agpa",
                "anpa",
                "aiza",
                "ya29.",
                "gocspx-",
                "xox",
                "xapp-",
                "k_live_",
            ),
            *("k_test_", "whsec_", "gsk_", "xai-", "pplx-", "npm_", "tvly-", "lsv2_", "pypi-", "sg."),
        ),
    ),
    SecretPattern(name="Telegram", regex=r"\d(?<![\w:-]\d)\d{7,9}:[\w-]{35}(?![\w-])", needs=(":",)),
)
"""The default patterns."""


def redact(text: str, patterns: Sequence[SecretPattern] = DEFAULT) -> str:
    """Replace the secrets in a text.

    Args:
        text: Any text.
        patterns: The patterns of secrets. Default: `DEFAULT`. An empty tuple replaces nothing.

    Returns:
        The text with `***` in place of each secret; the text itself if there is none.
    """
    lowered = text.lower()
    for pattern in patterns:
        for each in pattern.needs or ("",):
            if each in lowered:
                break
        else:
            continue
        new = pattern.without(text)
        if new is not text:
            text, lowered = new, new.lower()
    return text


def redact_value(value: object, patterns: Sequence[SecretPattern] = DEFAULT) -> Any:
    """Replace the secrets in a JSON-like value: in its texts and keys, and values that are named like a secret.

    The name is the key, as in `{"password": 1234}`, or next to the value: `{"name": "DB_PASSWORD", "value": "x"}`.

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
    """Return `DEFAULT` with additional patterns.

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


def _redacted(value: Any, patterns: tuple[SecretPattern, ...], kind: str | None, depth: int) -> Any:
    if isinstance(value, str):
        return HIDDEN if kind and is_secret_value(value, kind, quoted=True) else redact(value, patterns)
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        if not depth:
            raise InvalidInput(f"The value is nested more than {MAX_DEPTH} levels deep, or contains itself.")
        if isinstance(value, Mapping):
            return _redacted_dict(value, patterns, depth - 1)
        items = [_redacted(item, patterns, kind, depth - 1) for item in value]
        return type(value)(items) if type(value) in (tuple, set, frozenset) else items
    if kind and isinstance(value, int) and not isinstance(value, bool):
        return HIDDEN if is_secret_value(str(value), kind, quoted=True) else value
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
