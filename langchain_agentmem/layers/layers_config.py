"""How a layered memory behaves: its budgets and windows, and what is done when they are exceeded.

Everything is checked when it is built. The names are those of document 004, where it has one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal

from langchain_agentmem.base.argument_checks import check_flag, check_whole, patterns_given
from langchain_agentmem.base.redaction import DEFAULT, SecretPattern
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput

PROTECTED_KEYS = ("RESOURCE_INDEX", "resource_digest", "idea_md_summary", "phase0_summary")
"""Keys of core memory that never leave it by themselves (document 004)."""
SECTION_BUDGETS: Mapping[str, int] = MappingProxyType({"archival_snippet": 3000})


@dataclass(frozen=True, kw_only=True, slots=True)
class LayersConfig:
    """How a layered memory behaves (document 004).

    Attributes:
        enabled: Whether agents should use it; `is_enabled()` says so to them. Default: True.
        core_max_chars: How much core memory holds, in characters of its `key: value` lines. Default: 2,000.
        protected_keys: Keys of core memory that are never moved to archival memory to make room.
        oversize: What happens to a value that is larger than the whole budget: "compress" it, or "refuse" it with an
            `InvalidInput`. Default: "compress".
        recall_max_events: How many events stay when old ones are consolidated, and how many `recent` gives.
            Default: 20.
        retrieval_k: How many records a search gives. Default: 8.
        archival_max_chars: How long one record may be; a longer one is compressed or refused, as `oversize` says.
            Default: None, as long as it likes.
        pressure_thresholds: From which share of the budgets on the pressure is medium, high and critical. Default:
            .70, .85 and .95.
        auto_consolidate: Whether old events are consolidated by themselves. Default: True.
        recall_consolidation_threshold: At how many times `recall_max_events` that is done. Default: 1.5.
        consolidate_later: Whether a model that consolidates by itself is asked in the background, so that who appends
            an event does not wait for it. The memory of a thread is always consolidated at once. Default: True.
        max_compression_iterations: How often a model is asked to compress one text. Default: 3.
        section_budgets: How much of a prompt its sections may take. Default: 3,000 characters for a record.
        redact_secrets: Whether secrets are taken out of everything before it enters. Default: True.
        secret_patterns: What is taken for a secret; see `patterns_with`. Default: `secrets.DEFAULT`.
        max_memory_read_rounds: How often a model without tools may read before it has to answer. Default: 2.
        final_memory_filename_md: The name of the exported text. Default: "final_memory_for_paper.md".
        final_memory_filename_json: The name of the exported data. Default: "final_memory_for_paper.json".

    Raises:
        InvalidInput: A value cannot work.
    """

    enabled: bool = True
    core_max_chars: int = 2000
    protected_keys: Sequence[str] = PROTECTED_KEYS
    oversize: Literal["compress", "refuse"] = "compress"
    recall_max_events: int = 20
    retrieval_k: int = 8
    archival_max_chars: int | None = None
    pressure_thresholds: Sequence[float] = (0.70, 0.85, 0.95)
    auto_consolidate: bool = True
    recall_consolidation_threshold: float = 1.5
    consolidate_later: bool = True
    max_compression_iterations: int = 3
    section_budgets: Mapping[str, int] = field(default_factory=lambda: SECTION_BUDGETS)
    redact_secrets: bool = True
    secret_patterns: Sequence[SecretPattern] = DEFAULT
    max_memory_read_rounds: int = 2
    final_memory_filename_md: str = "final_memory_for_paper.md"
    final_memory_filename_json: str = "final_memory_for_paper.json"

    def __post_init__(self) -> None:
        for name, least in (
            ("core_max_chars", 1),
            ("recall_max_events", 1),
            ("retrieval_k", 1),
            ("max_compression_iterations", 1),
            ("max_memory_read_rounds", 0),
        ):
            check_whole(name, getattr(self, name), least)
        if self.archival_max_chars is not None:
            check_whole("archival_max_chars", self.archival_max_chars, 1)
        for each in fields(self):
            if each.type == "bool":
                check_flag(each.name, getattr(self, each.name))
        if self.oversize not in ("compress", "refuse"):
            raise InvalidInput(f'oversize must be "compress" or "refuse", not {safe_repr(self.oversize)}.')
        _threshold(self.recall_consolidation_threshold)
        object.__setattr__(self, "protected_keys", _texts("protected_keys", self.protected_keys))
        object.__setattr__(self, "pressure_thresholds", _levels(self.pressure_thresholds))
        object.__setattr__(self, "section_budgets", _budgets(self.section_budgets))
        object.__setattr__(self, "secret_patterns", patterns_given(self.secret_patterns))
        for name in ("final_memory_filename_md", "final_memory_filename_json"):
            _file_name(name, getattr(self, name))

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> LayersConfig:
        """Take what concerns layered memory out of a configuration as document 004 has them.

        Args:
            config: Settings by name. Those that are for something else, such as `db_path`, are left alone.

        Raises:
            InvalidInput: It is no mapping, or a value cannot work.
        """
        if not isinstance(config, Mapping):
            raise InvalidInput(f"A configuration is a mapping of names to values, not {type(config).__name__}.")
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in config.items() if name in known})

    @property
    def consolidates_at(self) -> int:
        """The number of events beyond which old ones are consolidated."""
        return max(self.recall_max_events, math.floor(self.recall_max_events * self.recall_consolidation_threshold))

    @property
    def patterns(self) -> Sequence[SecretPattern]:
        """What is taken out of texts; nothing where secrets are not redacted."""
        return self.secret_patterns if self.redact_secrets else ()


def _threshold(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value < math.inf:
        raise InvalidInput(f"recall_consolidation_threshold must be a number of 1 or more, not {safe_repr(value)}.")


def _texts(name: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence | set | frozenset):
        raise InvalidInput(f"{name} must be a list of texts, not {safe_repr(values)}.")
    if wrong := [each for each in values if not isinstance(each, str)]:
        raise InvalidInput(f"{name} must be a list of texts; {safe_repr(wrong[0])} is none.")
    return tuple(values)


def _levels(values: Any) -> tuple[float, ...]:
    if (
        isinstance(values, str | Mapping)
        or not isinstance(values, Sequence)
        or len(values) != 3  # noqa: PLR2004 - medium, high and critical
        or any(isinstance(each, bool) or not isinstance(each, int | float) for each in values)
        or not 0 < values[0] < values[1] < values[2] < math.inf
    ):
        raise InvalidInput(f"pressure_thresholds must be three ascending numbers above 0, not {safe_repr(values)}.")
    return tuple(map(float, values))


def _budgets(values: Any) -> Mapping[str, int]:
    if not isinstance(values, Mapping):
        raise InvalidInput(f"section_budgets must map names of sections to numbers, not {safe_repr(values)}.")
    for name, value in values.items():
        check_whole(f"section_budgets[{safe_repr(name)}]", value, 0)
    return MappingProxyType({**SECTION_BUDGETS, **values})


def _file_name(name: str, value: Any) -> None:
    if not isinstance(value, str) or not value or value in (".", "..") or any(sign in value for sign in "/\\\x00"):
        raise InvalidInput(f"{name} must be the name of a file without a folder, not {safe_repr(value)}.")
