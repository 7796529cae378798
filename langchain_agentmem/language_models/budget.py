"""How much room memory has in a prompt, in characters or in tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from langchain_agentmem.base.argument_checks import check_whole
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.clipping import clipped
from langchain_agentmem.language_models.tokens import TokenCounter

CORE, RECALL, ARCHIVAL = SECTIONS = ("core", "recall", "archival")
"""The sections of a prompt, in their order."""
CUT = "..."
"""What stands where a text was cut (document 004)."""
_CHARS_PER_TOKEN = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """How much room there is, for all and for each section, headings included.

    What does not fit is left out: of core memory the least important and least recently updated first, of events the
    oldest, of records the worst. Where not even one line fits, it is cut.

    Attributes:
        total: For everything; core memory comes first, then events, then records. Default None: as much as it takes.
        core: For core memory. Default None: as much as it takes.
        recall: For events. Default None: as much as they take.
        archival: For records. Default None: as much as they take.
        archival_snippet: For one record; a longer one is shortened. Default 3,000.
        unit: What all of them count: "characters" or "tokens". Default "characters".

    Raises:
        InvalidInput: A value cannot be one.
    """

    total: int | None = None
    core: int | None = None
    recall: int | None = None
    archival: int | None = None
    archival_snippet: int = 3000
    unit: Literal["characters", "tokens"] = "characters"

    def __post_init__(self) -> None:
        for name in ("total", *SECTIONS, "archival_snippet"):
            value = getattr(self, name)
            if value is None and name != "archival_snippet":
                continue
            check_whole(f"The budget {safe_repr(name)}", value)
        if self.unit not in ("characters", "tokens"):
            raise InvalidInput(f'A budget counts "characters" or "tokens", not {safe_repr(self.unit)}.')

    @classmethod
    def of(cls, given: int | Mapping[str, Any] | Budget | None, defaults: Mapping[str, Any] | None = None) -> Budget:
        """The budget that somebody means.

        Args:
            given: A budget; a number, which is the total in characters; a mapping of the names of a budget's fields to
                their values; or None.
            defaults: What holds where the user says nothing, such as `section_budgets` of the settings, in
                characters. Names that are for something else are left alone.

        Raises:
            InvalidInput: It is none of these.
        """
        if isinstance(given, Budget):
            return given
        names = {each.name for each in fields(cls)}
        if given is None:
            given = {}
        elif isinstance(given, int) and not isinstance(given, bool):
            given = {"total": given}
        if not isinstance(given, Mapping):
            raise InvalidInput(f"A budget is a number of characters, a mapping or a Budget, not {safe_repr(given)}.")
        if unknown := [name for name in given if name not in names]:
            raise InvalidInput(f"A budget has no {safe_repr(unknown[0])}; it has {', '.join(sorted(names))}.")
        if given.get("unit", "characters") != "characters":
            return cls(**given)  # the defaults count something else
        return cls(**{name: value for name, value in (defaults or {}).items() if name in names} | dict(given))


class Measure:
    """Says how large texts are in the unit of a budget, and cuts them.

    Args:
        budget: The budget.
        counter: Counts tokens. Default: a new one.
    """

    def __init__(self, budget: Budget, counter: TokenCounter | None = None) -> None:
        self._counter = (counter or TokenCounter()) if budget.unit == "tokens" else None

    def size(self, text: str) -> int:
        """How large a text is."""
        return len(text) if self._counter is None else self._counter.count_text(text)

    def cut(self, text: str, room: int) -> str:
        """The beginning of a text that is too large, with a sign that it was cut; "" where there is no room."""
        if self.size(text) <= room:
            return text
        if self._counter is None:
            return text[: room - len(CUT)] + CUT if room > len(CUT) else ""
        return clipped(text, room, self._counter, marker=CUT) if room > self.size(CUT) else ""

    def characters(self, room: int) -> int:
        """How many characters so much room holds, roughly."""
        return room if self._counter is None else room * _CHARS_PER_TOKEN
