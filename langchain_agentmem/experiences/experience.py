"""`Experience`: an instruction, with the condition under which it applies (document 000).

    Experience("file-validation", ["CodeInterpreter"], "Use when files are read.", "Check that the file exists first.")

Whoever selects is shown the condition, and the prompt is given the instruction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from langchain_agentmem.base.namespaces import id_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.messages.role_rounds import Portable, fields_of

LONGEST = 100_000
"""Characters that a condition or an instruction may have."""


@dataclass(frozen=True, slots=True)
class Experience(Portable):
    """An instruction, and when it applies. The order of the fields is that of document 000.

    Attributes:
        exp_id: What it is known by, within a library. A number becomes text.
        who: The roles it is meant for, as a tuple; empty for all. Any iterable, one name or None is accepted.
        when: The condition, which whoever selects is shown.
        what: The instruction, which is put into the prompt.

    Raises:
        InvalidInput: Something is empty, too long or of a wrong type.
    """

    exp_id: str
    who: tuple[str, ...] = ()
    when: str = ""
    what: str = ""

    def __post_init__(self) -> None:
        exp_id: Any = self.exp_id
        if isinstance(exp_id, int | float) and not isinstance(exp_id, bool):
            exp_id = str(exp_id)
        if isinstance(exp_id, str):
            exp_id = exp_id.strip()
        object.__setattr__(self, "exp_id", id_of(exp_id, "experience"))
        object.__setattr__(self, "who", _roles(self.who))
        for name in ("when", "what"):
            text: Any = getattr(self, name)
            if not isinstance(text, str) or not text.strip():
                raise InvalidInput(
                    f"The experience {safe_repr(self.exp_id)} has no {safe_repr(name)}: write it as a text."
                )
            if len(text) > LONGEST:
                raise InvalidInput(
                    f"{safe_repr(name)} of the experience {safe_repr(self.exp_id)} has {len(text):,} "
                    f"characters; {LONGEST:,} are allowed."
                )

    def is_for(self, role: str | None) -> bool:
        """Whether a role is meant.

        Args:
            role: Its name; None or "" for whoever asks without a role, for whom everything is meant.
        """
        return not role or not self.who or role in self.who

    def to_dict(self) -> dict[str, Any]:
        """Give ``{"exp_id", "who", "when", "what"}``."""
        return {"exp_id": self.exp_id, "who": list(self.who), "when": self.when, "what": self.what}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build an experience.

        Args:
            data: What `to_dict` gives. An older form has ``experience_text``, which stands for what is missing of
                ``when`` and ``what``; anything else in it is ignored.

        Raises:
            InvalidInput: Something is missing or has a wrong type.
        """
        fields = fields_of(cls, data, "exp_id")
        legacy = fields.get("experience_text")
        when, what = (legacy if fields.get(name) is None else fields[name] for name in ("when", "what"))
        if when is None or what is None:
            missing = "when" if when is None else "what"
            raise InvalidInput(f"Experience: {safe_repr(missing)} is missing from {safe_repr(sorted(map(str, data)))}.")
        return cls(fields["exp_id"], fields.get("who") or (), when, what)


def _roles(given: Any) -> tuple[str, ...]:
    """Names of roles, each once."""
    names = [given] if isinstance(given, str) else [] if given is None else given
    if isinstance(names, Mapping) or not isinstance(names, Iterable):
        raise InvalidInput(f"The roles of an experience are a list of names, not {type(given).__name__}.")
    listed = [name.strip() if isinstance(name, str) else name for name in names]
    if not all(isinstance(name, str) for name in listed):
        raise InvalidInput("The roles of an experience are a list of names: one of them is no text.")
    return tuple(dict.fromkeys(name for name in listed if name))
