r"""Secrets are taken out of what enters layered memory: what a model reads again in every prompt, others may read too.

A secret is known by its form (`sk-…`, a private key, the password in a URL) or by the name that it is given
(`db_password: …`, `"apiKey": "…"`). A name alone proves nothing: `max_token: 4096`, `token: str`, `the secret: be kind`
and `password = get_password()` stay as they are. In place of a secret stands `***`.

    redact("OPENAI_API_KEY=abc123")     # 'OPENAI_API_KEY=***'
    redact(text, patterns_with([r"\bBADGE-\d{6}\b"]))

Forms stand in `secrets.yaml`; what a name tells is decided in `secret_names.py`.

Every pattern takes time in proportion to the text, whatever the text is: none begins within what it has just read, and
none gives back what it took.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_agentmem.base.data_tables import data_table
from langchain_agentmem.base.encoding import MAX_DEPTH
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.base.secret_names import Kind, is_placeholder, is_secret_value, kind_of_name
from langchain_agentmem.errors import InvalidInput

__all__ = ["DEFAULT", "REDACTED", "SecretPattern", "patterns_with", "redact", "redact_value"]


REDACTED = "***"
"""What stands in place of a secret."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SecretPattern:
    """How secrets of one kind are recognised.

    Attributes:
        name: What they are called.
        regex: What they look like. Groups whose names begin with "secret" are what is taken out; without such a group
            the whole match is.
        is_secret: Says of a match whether it is one. Default: every match is, unless a placeholder stands there
            (`<your key>`, `${KEY}`).
        needs: Texts in lower case, of which one must be there for a match to be possible; they spare the search.
            Default: none.
        instead: What stands in place of it. Default `***`.

    Raises:
        InvalidInput: The regex is none, or matches the empty text.
    """

    name: str
    regex: str | re.Pattern[str]
    is_secret: Callable[[re.Match[str]], bool] | None = None
    needs: tuple[str, ...] = ()
    instead: str = REDACTED

    def __post_init__(self) -> None:
        try:
            compiled = re.compile(self.regex)
        except (re.error, TypeError, RecursionError) as error:
            raise InvalidInput(f"The pattern {safe_repr(self.name)} is no regular expression: {error}.") from error
        if not isinstance(compiled.pattern, str) or compiled.fullmatch(""):
            raise InvalidInput(f"The pattern {safe_repr(self.name)} must match text, and not the empty text.")
        object.__setattr__(self, "regex", compiled)

    def without(self, text: str) -> str:
        """A text without the secrets of this kind; the text itself if it has none."""
        parts: list[str] = []
        end = 0
        for match in self.regex.finditer(text):  # type: ignore[union-attr]  # compiled above
            if self.is_secret is not None and not self.is_secret(match):
                continue
            for start, stop in _spans(match):
                if start >= end and not (self.is_secret is None and is_placeholder(text[start:stop])):
                    parts += (text[end:start], self.instead)
                    end = stop
        return "".join((*parts, text[end:])) if parts else text


def _spans(match: re.Match[str]) -> list[tuple[int, int]]:
    """Where the secrets of a match lie, in order."""
    groups = [name for name in match.re.groupindex if name.startswith("secret")]
    spans = [match.span(name) for name in groups] if groups else [match.span()]
    return sorted((start, stop) for start, stop in spans if start < stop)


# --- What a name tells -----------------------------------------------------------------------------------------------

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
_BARE = ("secret_bare", "secret_line")


def _kind_of(match: re.Match[str]) -> Kind | None:
    """What the name says that a match begins with."""
    name, start = match["name"], match.start("name")
    # In JSON, a line that begins with a name is written as a backslash, the letter n, and the name.
    escaped = name[0] in "nrt" and start > 0 and match.string[start - 1] == "\\"
    return kind_of_name(name) or (kind_of_name(name[1:]) if escaped else None)


def _is_named_so(match: re.Match[str]) -> bool:
    """Whether what a name is given is a secret, where both are one match."""
    kind = _kind_of(match)
    group, value = _value_in(match)
    assigned = "sign" in match.re.groupindex and "=" in match["sign"]
    return kind is not None and is_secret_value(value, kind, quoted=group not in _BARE, assigned=assigned)


def _value_in(match: re.Match[str]) -> tuple[str, str]:
    groups = (name for name in match.re.groupindex if name.startswith("secret"))
    return next(((name, match[name]) for name in groups if match[name]), ("", ""))


@dataclass(frozen=True, kw_only=True, slots=True)
class _NamedValue(SecretPattern):
    """What stands where a name has been given. What is no secret itself may hold one, so it is looked into."""

    def without(self, text: str) -> str:
        """See `SecretPattern.without`."""
        parts: list[str] = []
        end = past = 0
        for match in self.regex.finditer(text):  # type: ignore[union-attr]  # compiled above
            if match.start() < past or (kind := _kind_of(match)) is None:
                continue
            if (found := _VALUE.match(text, match.end())) is None:
                continue
            group, value = _value_in(found)
            quoted, assigned = group not in _BARE, "=" in match["sign"]
            # Words that go on are prose: "API key: needed for the search".
            prose = not quoted and not assigned and _MORE_WORDS.match(text, found.end()) is not None
            if group and is_secret_value(value, kind, quoted=quoted, assigned=assigned, prose=prose):
                parts += (text[end : found.start(group)], self.instead)
                end = past = found.end(group)
            elif not quoted:
                past = found.end()
        return "".join((*parts, text[end:])) if parts else text


BY_NAME = (
    SecretPattern(
        name="line of an environment",
        regex=rf"(?m)^[ \t]*(?:export[ \t]+|set[ \t]+)?{_NAME}(?P<sign>=)(?P<secret_line>[^\s\"'`=<]\S*+)[ \t]*\r?$",
        is_secret=_is_named_so,
        needs=("=",),
    ),
    SecretPattern(
        name="number in JSON",
        regex=rf'"{_NAME}"[ \t]{{0,8}}(?P<sign>:)[ \t]{{0,8}}(?P<secret>\d++)(?![.\w])',
        is_secret=_is_named_so,
        needs=('":', '" :'),
        instead=f'"{REDACTED}"',  # so that it stays JSON
    ),
    _NamedValue(
        name="named value",
        regex=rf"""(?x)(?<![\w.])(?<!\w-){_NAME} (?:\\*["'`]\]?)? {_TYPE}
            [ \t]{{0,8}} (?P<sign>=>|:=|=(?!=)|:(?!:|//)) [ \t]{{0,8}}""",
        needs=(":", "="),
    ),
    _NamedValue(
        name="option of a command",
        regex=rf"(?x)(?<![\w-])--{_NAME}(?P<sign>=|[ \t]{{1,8}}) (?!-)",
        needs=("--",),
    ),
    SecretPattern(
        name="sentence that tells a password",
        regex=r"""(?xi)\b(?:password|passphrase|passcode|api[ _-]?key|secret[ ]key|access[ ]token)\s{1,4}(?:is|was|to)
            \s{1,4} (?: "(?P<secret_double>[^"\s]{1,200})" | '(?P<secret_single>[^'\s]{1,200})'
            | `(?P<secret_back>[^`"\s\\]{1,200})`
            | (?P<secret_bare>(?=[^\s\d]{0,80}\d)(?=[^\sA-Z]{0,80}[A-Z])[^\s"'`,;<>\\]{4,200}(?<![.:!?)])) )""",
        needs=("password", "passphrase", "passcode", "key", "token"),
    ),
)  # fmt: skip

# --- What has a form of its own --------------------------------------------------------------------------------------


def _is_user_and_password(match: re.Match[str]) -> bool:
    try:
        return b":" in base64.b64decode(match["secret"], validate=True)
    except ValueError:
        return False


_CHECKS = {"user and password": _is_user_and_password}
_STANDS_FOR = {
    "%free%": r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))",
    "%scheme%": r"(?i)(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,30}://",
}


def _form(entry: dict[str, Any]) -> SecretPattern:
    """One of the forms in `secrets.yaml`."""
    regex = "".join(entry["regex"])
    for name, stands_for in _STANDS_FOR.items():
        regex = regex.replace(name, stands_for)
    return SecretPattern(
        name=entry["name"],
        regex=regex,
        is_secret=_CHECKS.get(entry.get("check", "")),
        needs=tuple(entry.get("needs", ())),
    )


_FORMS = data_table("base/secrets.yaml")["forms"]

DEFAULT: tuple[SecretPattern, ...] = (
    *(_form(entry) for entry in _FORMS if "early" in entry),
    *BY_NAME,
    *(_form(entry) for entry in _FORMS if "early" not in entry),
)
"""What is taken for a secret where nobody says otherwise."""


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
