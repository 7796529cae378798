"""What a model is asked about experiences, and how its answer is read.

A `SelectionTemplate` is the prompt. `selected` reads the answer: JSON in the forms that models give to an object of
booleans, else the ids that plain text names. Where it cannot be understood, the words of the conditions decide.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from langchain_agentmem.base.data_tables import data_table, read_yaml
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.experiences.experience import Experience, section
from langchain_agentmem.language_models.lenient_json import is_cut_off, read_json, read_row, strip_reasoning

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
            places = [(place, conversion or spec) for _, place, spec, conversion in Formatter().parse(self.text)]
        except ValueError as error:
            raise InvalidInput(f"A brace stands alone in a selection template: {error}. {_ADVICE}") from error
        for place, more in places:
            if place is not None and (place not in _PLACES or more):
                raise InvalidInput(f"In a selection template, {{{place:.80}}} is no place, or has a format. {_ADVICE}")
        if not any(place == "experiences" for place, _ in places):
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
            if Path(path).suffix.lower() in _YAML:
                held = read_yaml(text)
                found = [held[key] for key in _KEYS if key in held] if isinstance(held, dict) else []
                if not found:
                    raise InvalidInput("it has no text under content, prompt or template.")  # noqa: TRY301
                text = found[0]
            return cls(text)
        except InvalidInput as error:
            raise InvalidInput(f"The selection template {path!s:.500} is wrong: {error}") from error


DEFAULT = SelectionTemplate(data_table("experiences/prompts.yaml")["selection"])
"""The prompt that is used where no other is given."""


# -- the answer ----------------------------------------------------------------------------------------------------

_HALF = 0.5
_IDS = ("id", "exp_id", "experience_id")
_ASIDE = {*_IDS, "reason", "reasons", "reasoning", "why", "confidence", "thoughts", "candidates", "error"}
_YES = re.compile(r"\W*(?:true|yes|y|1|relevant|applies|applicable|selected)\b(?!\s*[/|])", re.IGNORECASE)
_NO = re.compile(
    r"\b(?:n|not?|none|never|neither|nor|false|without|except|than|instead|n/a|null|nothing|hardly|low|"
    r"(?:un|in|ir)(?:related|necessary|applicable|relevant)|(?:exclud|reject|skip|ignor|omit|dismiss|discard)\w*)\b"
    r"|n['\u2019]t\b|[\u2717\u2718\u274c]",
    re.IGNORECASE,
)
_NONE = re.compile(
    r"\W*(?:none|no|null|nothing|n/a|false)\W*\Z|.*\b(?:none of|nothing \w+|neither \w+|no (?:\w+ )?experiences?)\b",
    re.IGNORECASE | re.DOTALL,
)
_PIECES = re.compile(r"\n|[.;!?](?=\s|\Z)|\bbut\b")
_BECAUSE = re.compile(r"\b(?:because|since)\b[^\n.;!?]*", re.IGNORECASE)
_LIST = re.compile(r"\[[^\]]*\]")


def selected(answer: str, candidates: Sequence[str]) -> tuple[str, ...] | None:
    """Read which experiences a model selects.

    Args:
        answer: What it wrote: an object of ids and verdicts, a list of ids or of objects with an id, such a thing under
            a key, fenced or amid prose; else text without any brackets.
        candidates: The ids it could choose from. They are compared exactly, else without regard to case and to blanks
            around them where that is clear. What else it names beside them is ignored.

    Returns:
        The ids that it chooses, each once, in the order of the candidates; none if it says that nothing applies. None
        if it says nothing that can be understood, is cut off, or chooses only what is no candidate.
    """
    text = strip_reasoning(answer).strip().lstrip("\ufeff") if isinstance(answer, str) else ""
    if is_cut_off(text):
        return None
    verdicts = _Verdicts(candidates)
    value: Any = read_row(text) or read_json(text)
    if not value:
        listed = read_json(text, wanted=list)
        if listed is not None and _NO.search(_LIST.sub("", text)):
            return None
        value = value if listed is None else listed
    if value is not None:
        verdicts.read(value)
    elif not set("{[<") & set(text):
        verdicts.read_words(text)
    if not verdicts.valid or (verdicts.strange and not verdicts.known):
        return None
    return tuple(name for name in dict.fromkeys(candidates) if verdicts.known.get(name))


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


class _Verdicts:
    """What an answer says of each candidate.

    Attributes:
        known: Whether a candidate applies, by its id.
        valid: Whether it says anything.
        strange: Whether it chooses what is no candidate.
    """

    def __init__(self, candidates: Sequence[str]) -> None:
        self.known: dict[str, bool] = {}
        self.valid = self.strange = False
        self._ids = dict.fromkeys(each for each in candidates if each)

    def read(self, value: Any, *, denied: bool = False) -> None:
        """Read an object or a list; `denied` if it stands under a key that denies what is in it."""
        self.valid = self.valid or not value
        if isinstance(value, dict):
            self._read_object(value, denied=denied)
            return
        for each in value if not any(isinstance(each, bool | list) for each in value) else ():
            if isinstance(each, dict):
                self.read(each, denied=denied)
            else:
                is_none = self._find(each) is None and _NONE.match(str(each)) is not None
                self._add(each, not denied and not is_none)

    def _read_object(self, value: Mapping[str, Any], *, denied: bool) -> None:
        given = [value[key] for key in _IDS if key in value]
        entry = given[0] if given else None
        if isinstance(entry, str | int) and not isinstance(entry, bool):
            self._add(entry, not denied and _verdict(value) is not False)
            return
        for key, each in value.items():
            if self._find(key) is not None and not isinstance(each, list):
                self._add(key, not denied and _verdict(each) is True)
            elif key.casefold() in _ASIDE:
                continue
            elif isinstance(each, dict | list):
                self.read(each, denied=denied or _denies(key))
            elif self._find(each) is not None:
                self._add(each, not denied and not _denies(key))
            elif (said := _verdict(each)) is not None:
                self._add(None, said and not denied and not _denies(key))

    def read_words(self, text: str) -> None:
        """Read plain text: what it names applies, but for what it denies, each in a line or sentence of its own."""
        names = [name for name in self._ids if len(name) > 1 and not name.isdigit()]  # others could be any word
        longest_first = sorted(map(re.escape, names), key=len, reverse=True)
        pattern = re.compile(rf"(?<![\w.-])(?:{'|'.join(longest_first)})(?![\w-])", re.IGNORECASE)
        said: dict[str, bool] = {}
        for piece in _PIECES.split(_BECAUSE.sub("", text)) if names else ():
            found = {self._find(name) or name for name in pattern.findall(piece)}
            denied = _NO.search(piece) is not None
            if denied and len(found) != 1:
                self.valid = not found and not said and _NONE.match(text) is not None
                return
            said |= {name: not denied and said.get(name, True) for name in found}
        for name, applies in said.items():
            self._add(name, applies)

    def _find(self, name: object) -> str | None:
        """The candidate of this name: a text or a number."""
        if isinstance(name, bool) or not isinstance(name, str | int):
            return None
        text = str(name)
        alike = [each for each in self._ids if each.strip().casefold() == text.strip().casefold()]
        return text if text in self._ids else alike[0] if len(alike) == 1 else None

    def _add(self, name: object, applies: bool) -> None:  # noqa: FBT001 - a verdict is a boolean
        self.valid = True
        known = self._find(name)
        if known is None:
            self.strange = self.strange or applies
        else:
            self.known[known] = applies and self.known.get(known, True)


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
