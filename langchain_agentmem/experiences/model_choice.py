"""The prompt that makes a model select experiences, and the parser of its answer.

A `SelectionTemplate` is the prompt. The default one requests a JSON object of ids and booleans. `read_selection` also
accepts the other forms that models write, and ids in plain text. If it returns None, the caller selects by keywords.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from langchain_agentmem.base.data_tables import load_data_table, parse_yaml
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.experiences.experience import Experience, section
from langchain_agentmem.language_models.lenient_json import is_cut_off, read_json, read_objects, strip_reasoning

_ADVICE = "Use {experiences}, {user_query} and {context}, and double the braces of literal text: {{ and }}."


@dataclass(frozen=True)
class SelectionTemplate:
    """A prompt with placeholders: `{experiences}` (required), `{user_query}` and `{context}`.

    Attributes:
        text: The prompt. Each placeholder may occur several times. Doubled braces stand for single ones.

    Raises:
        InvalidInput: The text has other placeholders, single braces, or no `{experiences}`.
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InvalidInput(f"A selection template must be text, got {type(self.text).__name__}.")
        try:
            filled = self.fill(experiences="\0", user_query="", context="")
        except (ValueError, LookupError, AttributeError, TypeError) as error:
            raise InvalidInput(f"A template placeholder cannot be filled: {error!s:.80}. {_ADVICE}") from error
        if "\0" not in filled:
            raise InvalidInput(f"A selection template needs {{experiences}} for the conditions. {_ADVICE}")

    def fill(self, *, experiences: str, user_query: str, context: str) -> str:
        """Fill the placeholders of the prompt.

        Args:
            experiences: The conditions, as text for the model.
            user_query: The query of the user.
            context: The context of the query, or "".

        Returns:
            The prompt. The values are inserted unchanged, including braces.
        """
        return self.text.format(experiences=experiences, user_query=user_query, context=context)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> SelectionTemplate:
        """Read a template from a file in UTF-8.

        Args:
            path: A YAML file (.yaml, .yml) with the text under `content`, or any other file, whose whole content is the
                text.

        Raises:
            InvalidInput: The file cannot be read, contains no text, or the text is not a template. The message names
                the file.
        """
        try:
            text: Any = Path(path).read_text(encoding="utf-8-sig")
            if Path(path).suffix.lower() in (".yaml", ".yml"):
                data = parse_yaml(text)
                text = data.get("content") if isinstance(data, dict) else None
            return cls(text)
        except (OSError, ValueError, TypeError) as error:
            raise InvalidInput(f"The selection template {path!s:.500} cannot be used: {error}") from error


_TEXTS = load_data_table("experiences/prompts.yaml")
DEFAULT_TEMPLATE = SelectionTemplate(_TEXTS["selection"])
"""The default prompt."""


# -- the answer ----------------------------------------------------------------------------------------------------

_YES_THRESHOLD = 0.5
_ID_KEYS = ("id", "exp_id", "experience_id")
# Keys that contain no verdict. A verdict is whether an experience applies.
_IGNORED_KEYS = {*_ID_KEYS, "reason", "reasons", "reasoning", "why", "confidence", "thoughts", "candidates", "error"}
_YES = re.compile(r"\W*(?:true|yes|y|1|relevant|applies|applicable|selected)\b(?!\s*[/|])", re.IGNORECASE)
_NO, _NOTHING_APPLIES = (
    re.compile(_TEXTS[name].replace("\n", ""), re.IGNORECASE | re.DOTALL) for name in ("negation", "nothing_applies")
)
_CLAUSE_BREAK = re.compile(r"\n|[.;!?](?=\s|\Z)|\bbut\b")
_REASON_CLAUSE = re.compile(r"\b(?:because|since)\b[^\n.;!?]*", re.IGNORECASE)
_BRACKETED_LIST = re.compile(r"\[[^\]]*\]")
Verdicts: TypeAlias = list[tuple[str, bool]]
"""Pairs of a name in the answer (usually an id) and whether that experience applies."""


def read_selection(answer: str, candidates: Sequence[str]) -> tuple[str, ...] | None:
    """Parse the ids of the selected experiences from a model's answer.

    Args:
        answer: An object of ids and verdicts, a list of ids, or a list of objects that contain an id. It may be nested
            under a key, in a code fence, or between prose. Plain text is accepted if it contains no brackets.
        candidates: The ids of the candidates. A name matches an id exactly. If that is unambiguous, it also matches
            with other case or surrounding blanks. Other names are ignored.

    Returns:
        The selected ids without duplicates, in the order of the candidates. Empty if the answer states that nothing
        applies. None if the answer cannot be parsed, is cut off, or selects only unknown ids.
    """
    text = strip_reasoning(answer).strip().lstrip("\ufeff") if isinstance(answer, str) else ""
    if is_cut_off(text):
        return None
    ids = tuple(filter(None, candidates))
    value: Any = read_objects(text) or read_json(text)
    if not value:
        answer_list = read_json(text, wanted=list)
        if answer_list is not None and _NO.search(_BRACKETED_LIST.sub("", text)):
            return None  # the text around the list may negate it, such as "None of [1, 2]"
        value = value if answer_list is None else answer_list
    verdicts: Verdicts | None = None
    if value is not None:
        verdicts = _read_value(value, ids)
    elif not set("{[<") & set(text):
        verdicts = _read_text(text, ids)
    if verdicts is None:
        return None
    applies_by_id: dict[str, bool] = {}
    for name, applies in verdicts:
        if (candidate := _find_candidate(name, ids)) is not None:
            applies_by_id[candidate] = applies and applies_by_id.get(candidate, True)
    if not applies_by_id and any(applies for _, applies in verdicts):
        return None
    return tuple(name for name in dict.fromkeys(candidates) if applies_by_id.get(name))


def _read_value(value: Any, ids: Sequence[str]) -> Verdicts | None:
    """Return the verdicts of an object or a list; None if it cannot be parsed."""
    verdicts: Verdicts = []
    if isinstance(value, list):
        for each in value:
            nested = _read_value(each, ids) if isinstance(each, dict) else [(str(each), True)]
            if nested is None or isinstance(each, bool | list):
                return None
            verdicts += nested
        return verdicts
    entry_id = next((value[key] for key in _ID_KEYS if key in value), None)
    if isinstance(entry_id, str | int) and not isinstance(entry_id, bool):  # {"id": "exp-1", "relevant": true}
        return [(str(entry_id), _parse_verdict(value) is not False)]
    keys = [key for key, each in value.items() if _find_candidate(key, ids) is not None or _is_verdict(key, each, ids)]
    entries = {key: value[key] for key in keys}
    for key, each in entries.items():
        if _find_candidate(key, ids) is not None and not isinstance(each, list):
            verdicts.append((key, _parse_verdict(each) is True))
            continue
        if isinstance(each, dict | list):
            nested = _read_value(each, ids)
        else:
            value_id = _find_candidate(str(each), ids)  # {"selected": "exp-1"}
            nested = [(key, _parse_verdict(each) is True)] if value_id is None else [(value_id, True)]
        if nested is None:
            return None
        verdicts += [(name, applies and not _is_negative(key)) for name, applies in nested]  # {"rejected": ["exp-2"]}
    return verdicts if entries or not value else None


def _is_verdict(key: str, value: Any, ids: Sequence[str]) -> bool:
    """Return whether an entry contains a verdict. {"explanation": "It reads files."} does not."""
    if key.casefold() in _IGNORED_KEYS:
        return False
    if isinstance(value, dict | list) or _parse_verdict(value) is not None:
        return True
    return _find_candidate(str(value), ids) is not None


def _parse_verdict(value: Any) -> bool | None:
    """Return whether a value states that an experience applies; None if it is unclear.

    All flags of an object must agree, such as {"relevant": true, "excluded": false}.
    """
    if isinstance(value, str):
        return True if _YES.match(value) else False if _NO.search(value) else None
    if isinstance(value, dict):
        flags = {key: _parse_verdict(each) for key, each in value.items() if key.casefold() not in _IGNORED_KEYS}
        return all(each is not _is_negative(key) for key, each in flags.items() if each is not None) if flags else None
    return None if isinstance(value, list) else bool(value) and value >= _YES_THRESHOLD


def _is_negative(key: str) -> bool:
    """Return whether a key is negative, such as "rejected" or "notRelevant"."""
    return _NO.search(re.sub(r"_|(?<=[a-z])(?=[A-Z])", " ", key)) is not None


def _read_text(text: str, ids: Sequence[str]) -> Verdicts | None:
    """Parse plain text. An id applies unless its clause contains a negation."""
    # Ids that are single characters or numbers could occur in the text by chance.
    findable_ids = [each for each in ids if len(each) > 1 and not each.isdigit()]
    longest_first = sorted(map(re.escape, findable_ids), key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w.-])(?:{'|'.join(longest_first)})(?![\w-])", re.IGNORECASE)
    verdicts: Verdicts = []
    for clause in _CLAUSE_BREAK.split(_REASON_CLAUSE.sub("", text)) if findable_ids else ():
        mentioned = pattern.findall(clause)
        negated = _NO.search(clause) is not None
        # Which of several ids a negation refers to is unclear.
        if negated and len({name.casefold() for name in mentioned}) != 1:
            return [] if not mentioned and not verdicts and _NOTHING_APPLIES.match(text) else None
        verdicts += [(name, not negated) for name in mentioned]
    return verdicts or None


def _find_candidate(name: str, ids: Sequence[str]) -> str | None:
    """Return the candidate id that matches a name; None if the name is unknown or ambiguous."""
    matches = {each for each in ids if each.strip().casefold() == name.strip().casefold()}
    return name if name in ids else matches.pop() if len(matches) == 1 else None


# -- the selection -------------------------------------------------------------------------------------------------

Strategy: TypeAlias = Literal["lexical", "model", "auto"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """The experiences that apply to a query, with scores and reasons.

    Attributes:
        query: The query.
        role: The role of the caller; None for no role.
        experiences: The experiences that apply, the best first.
        candidates: The ids of the considered experiences.
        scores: The keyword score of each candidate's condition, from 0 to 1, by id.
        reasons: The reason for each selected experience, by id.
        strategy: "lexical", "model" or "auto".
        asked: The ids of the experiences about which the model was asked.
        fell_back: The reason for the fallback from the model to keyword scores, as a sentence. "" without a fallback.
        known: The considered experiences, by id.
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
        """The ids of the experiences that apply, the best first."""
        return tuple(each.exp_id for each in self.experiences)

    @property
    def section(self) -> str:
        """The instructions as a section of a prompt; "" if none applies."""
        return section(self.experiences)
