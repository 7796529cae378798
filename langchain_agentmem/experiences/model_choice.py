"""What a model is asked about experiences, and how its answer is read.

A `SelectionTemplate` is the prompt. `selected` reads the answer: JSON in the forms that models give to an object of
booleans, else the ids that plain text names. Where it cannot be understood, the words of the conditions decide.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

import yaml

from langchain_agentmem.base.data_tables import data_table
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.experiences.experience import Experience, section
from langchain_agentmem.language_models.lenient_json import read_json, read_row, strip_reasoning

_PLACES = ("experiences", "user_query", "context")
_KEYS = ("content", "prompt", "template")
_YAML = (".yaml", ".yml")
_ADVICE = "Use {experiences}, {user_query} and {context}, and double the braces that are meant as such: {{ and }}."


@dataclass(frozen=True)
class SelectionTemplate:
    """A prompt with places: `{experiences}`, which is required, `{user_query}` and `{context}`.

    Attributes:
        text: The prompt. Each place may stand in it several times. Doubled braces stand for single ones.

    Raises:
        InvalidInput: The text has other places, single braces, or no `{experiences}`.
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InvalidInput(f"A selection template is a text, not {type(self.text).__name__}.")
        try:
            places = [(place, conversion, spec) for _, place, spec, conversion in Formatter().parse(self.text)]
        except ValueError as error:
            raise InvalidInput(f"A brace stands alone in a selection template: {error}. {_ADVICE}") from error
        for place, conversion, spec in places:
            if place is not None and (place not in _PLACES or conversion or spec):
                mark = place + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
                raise InvalidInput(f"In a selection template, {{{mark:.80}}} is no place. {_ADVICE}")
        if not any(place == "experiences" for place, _, _ in places):
            raise InvalidInput(f"A selection template needs {{experiences}}, where the conditions are shown. {_ADVICE}")

    def fill(self, *, experiences: str, user_query: str, context: str) -> str:
        """Write the prompt.

        Args:
            experiences: The conditions, as they are shown to the model.
            user_query: What the user asks.
            context: What stands before it in the conversation, or "".

        Returns:
            The prompt. What was filled in stands in it exactly as it was given, braces and all.
        """
        return self.text.format(experiences=experiences, user_query=user_query, context=context)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> SelectionTemplate:
        """Read a template from a file in UTF-8.

        Args:
            path: A YAML file (.yaml, .yml) with the text under `content`, `prompt` or `template`, or any other file, of
                which the whole is the text.

        Raises:
            InvalidInput: The file cannot be read, holds no text, or the text is no template. The message names it.
        """
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, ValueError, TypeError) as error:
            raise InvalidInput(
                f"The selection template {path!s:.500} cannot be read: {error}. Give the path of a text file in UTF-8."
            ) from error
        try:
            return cls(_content(text) if Path(path).suffix.lower() in _YAML else text)
        except InvalidInput as error:
            raise InvalidInput(f"The selection template {path!s:.500} is wrong: {error}") from error


def _content(text: str) -> str:
    try:
        data: Any = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, AttributeError, RecursionError) as error:
        problem = f"it is no YAML ({error!s:.300}). Put the text under content: |, with indentation."
        raise InvalidInput(problem) from error
    found = next((data[key] for key in _KEYS if key in data), None) if isinstance(data, dict) else None
    if not isinstance(found, str):
        raise InvalidInput("it has no text under content, prompt or template. Write content: | and the text below.")
    return found


DEFAULT = SelectionTemplate(data_table("experiences/prompts.yaml")["selection"])
"""The prompt that is used where no other is given."""


# -- the answer ----------------------------------------------------------------------------------------------------

_DEEPEST = 20
_HALF = 0.5
_LONGEST_REASON = 2_000
_IDS = ("id", "exp_id", "experience_id")
_REASONS = {"reason", "reasons", "reasoning", "why", "explanation", "rationale", "justification", "comment", "evidence"}
_ASIDE = {*_IDS, *_REASONS, "confidence", "thoughts", "thought", "analysis", "candidates", "query", "context", "error"}
_YES = re.compile(r"\W*(?:true|yes|y|1|relevant|applies|applicable|selected)\b(?!\s*[/|])", re.IGNORECASE)
_NO = re.compile(
    r"\b(?:n|not?|none|never|neither|nor|false|without|except|than|instead|elsewhere|n/a|null|nothing|hardly|low|"
    r"(?:un|in|ir)(?:related|necessary|applicable|relevant)|(?:exclud|reject|skip|ignor|omit|dismiss|discard|leave)\w*)\b"
    r"|n['\u2019]t\b|[\u2717\u2718\u274c]",
    re.IGNORECASE,
)
_NONE = re.compile(
    r"\W*(?:none|no|null|nothing|n/a|false)\W*\Z|.*\b(?:none of|nothing \w+|neither \w+|no (?:\w+ )?experiences?)\b",
    re.IGNORECASE | re.DOTALL,
)
_PIECES = re.compile(r"\n|[.;!?](?=\s|\Z)|\bbut\b")
_BECAUSE = re.compile(r"\b(?:because|since)\b[^\n.;!?]*", re.IGNORECASE)
_LIST = re.compile(r"\[[^\]]*\]?")


class AnswerReading(NamedTuple):
    """What an answer selects.

    Attributes:
        chosen: Ids, each once, in the order of the candidates.
        reasons: What it gives as the reason, for those candidates that it gives one for, chosen or not.
        whole: Whether it is complete; what one that was cut off would have said of the others nobody knows.
    """

    chosen: tuple[str, ...]
    reasons: Mapping[str, str]
    whole: bool = True


def selected(answer: str, candidates: Sequence[str]) -> AnswerReading | None:
    """Read which experiences a model selects.

    Args:
        answer: What it wrote: an object of ids and verdicts, a list of ids or of objects with an id, such a thing under
            a key, fenced, amid prose or cut off; else text. What is denied once is not chosen.
        candidates: The ids it could choose from. They are compared exactly, else without regard to case and to blanks
            around them where that is clear. What else it names beside them is ignored.

    Returns:
        None if the answer says nothing that can be understood, or chooses only what is no candidate. One that says that
        nothing applies selects nothing.
    """
    text = strip_reasoning(answer).strip().lstrip("\ufeff") if isinstance(answer, str) else ""
    found = _Verdicts(candidates)
    value, whole = _json(text)
    plain = isinstance(value, list) and not any(isinstance(each, dict) for each in value)
    if value is not None and not (plain and _NO.search(_LIST.sub("", text))):
        found.read(value, whole=whole)
        found.deny_what_is_false(text)
        if not whole:
            found.known = {each: said for each, said in found.known.items() if not text.endswith(each)}
    elif value is None and not text.startswith(("<", "{", "[")):
        found.read_words(text)
    if not found.valid or (found.strange and not found.known):
        return None
    whole = whole and all(text.rfind(opening) <= text.rfind(end) for opening, end in ("{}", "[]"))
    chosen = tuple(name for name in dict.fromkeys(candidates) if found.known.get(name))
    return AnswerReading(chosen, MappingProxyType(found.reasons), whole)


def _json(text: str) -> tuple[Any, bool]:
    """The JSON that is meant, and whether it is complete."""
    for complete in (True, False):
        found: Any = read_row(text, complete=complete) or read_json(text, complete=complete)
        if not found:
            listed = read_json(text, wanted=list, complete=complete)
            found = found if listed is None else listed
        if found is not None:
            return found, complete
    return None, True


def _verdict(value: Any) -> bool | None:
    """What a value says of the id that it stands at; None if that cannot be understood."""
    if isinstance(value, str):
        return True if _YES.match(value) else False if _NO.search(value) else None
    if isinstance(value, dict):
        said = {key: _verdict(each) for key, each in value.items() if key.casefold() not in _ASIDE}
        return all(each is not _denies(key) for key, each in said.items() if each is not None) if said else None
    return None if isinstance(value, list) else bool(value) and value >= _HALF


def _denies(key: str) -> bool:
    return _NO.search(re.sub(r"_|(?<=[a-z])(?=[A-Z])", " ", key)) is not None


def _reason(value: Any) -> str:
    given = value.items() if isinstance(value, dict) else ()
    texts = [each for key, each in given if key.casefold() in _REASONS and isinstance(each, str)]
    return texts[0].strip()[:_LONGEST_REASON] if texts else ""


class _Verdicts:
    """What an answer says of each candidate."""

    def __init__(self, candidates: Sequence[str]) -> None:
        self.known: dict[str, bool] = {}
        self.valid = False
        self.strange = False  # whether it chooses what is no candidate
        self._ids = dict.fromkeys(each for each in candidates if each)
        self._loose: dict[str, list[str]] = defaultdict(list)
        self.reasons: dict[str, str] = {}
        for each in self._ids:
            self._loose[each.strip().casefold()].append(each)

    def read(self, value: Any, *, whole: bool, denied: bool = False, depth: int = 0) -> None:
        """Read JSON.

        Args:
            value: An object or a list.
            whole: Whether it is all of the answer. If not, an id without a verdict may have lost it.
            denied: Whether it stands under a key that denies what is in it.
            depth: How deeply it is nested.
        """
        self.valid = self.valid or (not value and whole)
        mixed = isinstance(value, list) and any(isinstance(each, bool | list) for each in value)
        for key, each in () if mixed or depth > _DEEPEST else _items(value):
            plain, name = key.casefold(), self._find(key or each)
            if not key and isinstance(each, dict) and (entry := _entry(each)) is not None:
                said = _verdict(each)
                self._add(self._find(entry), not denied and (whole if said is None else said), _reason(each))
            elif key and name is not None and not isinstance(each, list):
                self._add(name, not denied and _verdict(each) is True, _reason(each))
            elif plain in _ASIDE:
                continue
            elif isinstance(each, dict | list):
                self.read(each, whole=whole, denied=denied or _denies(key), depth=depth + 1)
            elif (name := self._find(each)) is not None:
                self._add(name, not denied and not _denies(key))
            elif not key and isinstance(each, str):
                self.read_words(each)
                self._add(None, _NONE.match(each) is None)
            elif (said := _verdict(each)) is not None:
                self._add(None, said and not denied and not _denies(key))

    def deny_what_is_false(self, text: str) -> None:
        """Take back what stands as a key of false anywhere."""
        for name in [name for name, applies in self.known.items() if applies]:
            denial = rf"""(?<!\\)(["']){re.escape(name)}\1\s*:\s*["']?(?:false|no)\b"""
            self.known[name] = re.search(denial, text, re.IGNORECASE) is None

    def read_words(self, text: str) -> None:
        """Read plain text: what it names applies, but for what it denies, each in a line or sentence of its own."""
        names = "|".join(sorted(map(re.escape, self._ids), key=len, reverse=True))
        pattern = re.compile(rf"(?<![\w.-])(?:{names})(?![\w-])", re.IGNORECASE)
        said: dict[str, bool] = {}
        for piece in _PIECES.split(_BECAUSE.sub("", text)):
            found = {name for each in pattern.finditer(piece) if (name := self._named(piece, each)) is not None}
            denied = _NO.search(piece) is not None
            if denied and len(found) != 1:
                self.valid = self.valid or (not found and not said and _NONE.match(text) is not None)
                return
            said |= {name: not denied and said.get(name, True) for name in found}
        for name, applies in said.items():
            self._add(name, applies)

    def _named(self, piece: str, match: re.Match[str]) -> str | None:
        """The candidate that is named at a place. One that could be any word has to stand in quotes."""
        text = match.group()
        around = piece[max(0, match.start() - 1) : match.start()] + piece[match.end() : match.end() + 1]
        is_weak = len(text) <= 1 or text.isdigit() or _YES.fullmatch(text) or _NO.fullmatch(text)
        return None if is_weak and around not in {'""', "''", "``"} else self._find(text)

    def _find(self, name: object) -> str | None:
        """The candidate of this name: a text or a number."""
        if isinstance(name, bool) or not isinstance(name, str | int | float):
            return None
        text = f"{name:g}" if isinstance(name, float) else str(name)
        alike = self._loose.get(text.strip().casefold(), [])
        return text if text in self._ids else alike[0] if len(alike) == 1 else None

    def _add(self, name: str | None, applies: bool, reason: str = "") -> None:  # noqa: FBT001 - a verdict is a boolean
        self.valid = True
        if name is None:
            self.strange = self.strange or applies
        else:
            self.known[name] = applies and self.known.get(name, True)
            if reason:
                self.reasons.setdefault(name, reason)


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """The keys and values of an object; the items of a list, with "" as their key."""
    if isinstance(value, dict) and _entry(value) is not None:
        value = [value]
    yield from value.items() if isinstance(value, dict) else (("", each) for each in value)


def _entry(value: Mapping[str, Any]) -> str | int | None:
    """The id of an object that tells of one experience."""
    return next(
        (value[key] for key in _IDS if isinstance(value.get(key), str | int) and not isinstance(value[key], bool)), None
    )


# -- what was selected ---------------------------------------------------------------------------------------------

Strategy: TypeAlias = Literal["lexical", "model", "auto"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Which experiences apply to a query.

    Attributes:
        query: The query.
        role: The role that asks; None for nobody in particular.
        experiences: Those that apply, the best first.
        candidates: The ids of those that were considered.
        scores: How well the words of each candidate's condition fit, from 0 to 1.
        reasons: Why each was chosen, by id.
        strategy: "lexical", "model" or "auto".
        asked: The ids of those that a model was asked about.
        fell_back: Why the words had to decide, in a sentence; "" where they did not have to.
        known: Those that were considered, by id.
    """

    query: str
    role: str | None = None
    experiences: tuple[Experience, ...] = ()
    candidates: tuple[str, ...] = ()
    scores: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    reasons: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    strategy: Strategy = "lexical"
    asked: tuple[str, ...] = ()
    fell_back: str = ""
    known: Mapping[str, Experience] = field(default_factory=dict, repr=False, compare=False)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of those that apply, the best first."""
        return tuple(each.exp_id for each in self.experiences)

    @property
    def section(self) -> str:
        """What they say, as a section of a prompt; "" where none applies."""
        return section(self.experiences)
