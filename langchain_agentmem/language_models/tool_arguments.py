"""The arguments of each memory operation that a model can call.

Models sometimes write a string instead of a list, a number as a string, or an alias of an argument. All these forms are
accepted. Any other form is an error that the model reads, never a guess. An unknown name is an error too, because a
model would believe that an ignored argument had an effect.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

ARGUMENT_ALIASES: Mapping[str, str] = {
    "event_type": "kind",
    "type": "kind",
    "k": "limit",
    "text": "content",
    "id": "record_id",
    "key": "keys",
    "child_node_name": "name",
    "parent_node_id": "node_id",
    "obj": "object",
    "relation": "predicate",
    "entity": "subject",
}
"""The aliases of arguments, each with the name of its field."""


def _to_text(value: Any) -> Any:
    """Convert a JSON value to a string; return null and values of other types unchanged."""
    try:
        return json.dumps(value, ensure_ascii=False) if isinstance(value, bool | int | float | list | dict) else value
    except (TypeError, RecursionError) as error:
        raise ValueError(f"This is not JSON: {error}") from error


def _to_texts(value: Any) -> Any:
    """Convert a string, or a list that is written as a JSON string, to a list of strings."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return [value]
    if isinstance(value, str):
        return [value] if value else []
    return [_to_text(each) for each in value] if isinstance(value, list | tuple) else value


Text = Annotated[str, BeforeValidator(_to_text)]
Texts = Annotated[list[str], BeforeValidator(_to_texts)]
BranchId = Annotated[Text | None, Field(description="This branch, or a fork of it. Default: this branch.")]


class Arguments(BaseModel):
    """The arguments of an operation. Null selects the default of an optional argument."""

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def normalize_names(cls, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Replace aliases by the names of the fields, and omit nulls of optional arguments.

        A value under the name of the field takes precedence over a value under an alias.
        """
        fields, normalized = cls.model_fields, {}
        for written_name, value in arguments.items():
            field_name = ARGUMENT_ALIASES.get(written_name, written_name)
            name = field_name if written_name not in fields and field_name in fields else written_name
            is_default = value is None and name in fields and not fields[name].is_required()
            if not is_default and (name == written_name or name not in normalized):
                normalized[name] = value
        return normalized

    @model_validator(mode="before")
    @classmethod
    def _normalize(cls, arguments: Any) -> Any:
        return cls.normalize_names(arguments) if isinstance(arguments, Mapping) else arguments


class CoreGet(Arguments):
    """The arguments of `mem_core_get`."""

    keys: Texts | None = Field(default=None, description="The keys of the notes. Default: all notes.")


class CoreSet(Arguments):
    """The arguments of `mem_core_set`."""

    key: Text = Field(description="A short name for the note, such as user_name or current_plan.")
    value: Text = Field(description="The text of the note. It replaces the previous text.")
    importance: int = Field(
        default=3,
        ge=1,
        le=5,
        description="From 1 to 5. When the notes grow too large, the least important move to the archive first.",
    )
    ttl: float | None = Field(default=None, gt=0, description="The seconds until the note expires. Default: never.")


class CoreDel(Arguments):
    """The arguments of `mem_core_del`."""

    key: Text = Field(description="The key of the note.")


class RecallAppend(Arguments):
    """The arguments of `mem_recall_append`."""

    content: Text = Field(description="What happened.", min_length=1)
    kind: Text = Field(default="note", description="The kind of event, in one word, such as decision or error.")


class RecallSearch(Arguments):
    """The arguments of `mem_recall_search`."""

    query: Text = Field(description='What to search for, in words that the event may contain; "*" for the newest.')
    limit: int = Field(default=10, description="The maximum number of events.")


class RecallEvict(Arguments):
    """The arguments of `mem_recall_evict`."""

    ids: Texts | None = Field(default=None, description="The ids of the events to remove.")
    kind: Text | None = Field(default=None, description="Remove events of this kind. With oldest, only the oldest.")
    oldest: int | None = Field(default=None, ge=1, description="The number of oldest events to remove.")


class NoArguments(Arguments):
    """The arguments of operations without arguments."""


class ArchivalWrite(Arguments):
    """The arguments of `mem_archival_write`."""

    content: Text = Field(description="The text of the record. It must be understandable by itself.", min_length=1)
    tags: Texts = Field(default=[], description="Labels for filtering records, such as results.")


class ArchivalUpdate(Arguments):
    """The arguments of `mem_archival_update`."""

    record_id: Text = Field(description="The id of the record.")
    content: Text | None = Field(default=None, description="The new text. Default: unchanged.")
    tags: Texts | None = Field(default=None, description="The new tags, which replace all tags. Default: unchanged.")


class ArchivalSearch(Arguments):
    """The arguments of `mem_archival_search`."""

    query: Text = Field(description='What to search for; "*" for the newest records.')
    limit: int = Field(default=10, description="The maximum number of records.")
    tags: Texts | None = Field(default=None, description="Only records that have all of these tags.")


class ArchivalGet(Arguments):
    """The arguments of `mem_archival_get`."""

    record_id: Text = Field(description="The id of the record.")


class NodeFork(Arguments):
    """The arguments of `mem_node_fork`."""

    name: Text = Field(description="The name of the new branch.")
    node_id: Text | None = Field(default=None, description="The branch to fork. Default: this branch.")


class NodeRead(Arguments):
    """The arguments of `mem_node_read`."""

    scope: Literal["all", "core", "recall", "archival"] = Field(default="all", description="The layers to read.")
    node_id: BranchId = None


class NodeWrite(Arguments):
    """The arguments of `mem_node_write`."""

    core: dict[str, Text] | None = Field(default=None, description="Notes: each key with its text.")
    recall: Text | None = Field(default=None, description="The text of an event.")
    archival: Texts | None = Field(default=None, description="The texts of records.")
    node_id: BranchId = None

    @model_validator(mode="after")
    def _check_content(self) -> NodeWrite:
        if not self.core and not self.recall and not self.archival:
            raise ValueError("Give core, recall or archival.")
        return self


class Consolidate(Arguments):
    """The arguments of `consolidate`."""

    level: Literal["medium", "high", "critical"] | None = Field(
        default=None, description="How much memory is freed. Default: as much as is needed."
    )
