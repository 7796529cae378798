"""What a model says when it uses its memory: the arguments of each operation, as they may be spelled.

Models write a text where a list is wanted, a number as text, and names as one document or the other has them. All that
is understood; what cannot be is told to the model, never guessed. A name that means nothing is refused, since a
misspelled argument that is passed over in silence looks as if it had been obeyed.
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
"""Other names of arguments, with what they are called here."""


def _to_text(value: Any) -> Any:
    try:
        return json.dumps(value, ensure_ascii=False) if isinstance(value, bool | int | float | list | dict) else value
    except (TypeError, RecursionError) as error:
        raise ValueError(f"This is not JSON: {error}") from error


def _to_texts(value: Any) -> Any:
    """Take one text, or several; models write a list as text, too."""
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
BranchId = Annotated[
    Text | None, Field(description="This branch, or one that was forked from it. Leave out for this one.")
]


class Arguments(BaseModel):
    """The arguments of an operation. Null stands for the default of an optional argument."""

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def normalize_names(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments by the names that they have here, without the nulls of optional ones.

        Where a value is given under both names, that under the name that it has here counts.
        """
        fields, normalized = cls.model_fields, {}
        for given_name, value in given.items():
            name = given_name if given_name in fields else ARGUMENT_ALIASES.get(given_name, given_name)
            name = name if name in fields else given_name
            is_default = value is None and name in fields and not fields[name].is_required()
            if not is_default and (name == given_name or name not in normalized):
                normalized[name] = value
        return normalized

    @model_validator(mode="before")
    @classmethod
    def _normalize(cls, given: Any) -> Any:
        return cls.normalize_names(given) if isinstance(given, Mapping) else given


class CoreGet(Arguments):
    """Which notes."""

    keys: Texts | None = Field(default=None, description="The keys of the notes wanted. Leave out for all notes.")


class CoreSet(Arguments):
    """A note."""

    key: Text = Field(description="A short name for the note, such as user_name or current_plan.")
    value: Text = Field(description="What the note says. It replaces what it said before.")
    importance: int = Field(
        default=3,
        ge=1,
        le=5,
        description="From 1 to 5. When the notes grow too large, the least important move to the archive first.",
    )
    ttl: float | None = Field(
        default=None, gt=0, description="After how many seconds the note ends by itself. Leave out to keep it."
    )


class CoreDel(Arguments):
    """A note to delete."""

    key: Text = Field(description="The key of the note.")


class RecallAppend(Arguments):
    """An event."""

    content: Text = Field(description="What happened.", min_length=1)
    kind: Text = Field(default="note", description="What kind of event it is, in a word, such as decision or error.")


class RecallSearch(Arguments):
    """What events are looked for."""

    query: Text = Field(description='What to look for, in the words that were probably used; "*" for the newest.')
    limit: int = Field(default=10, description="How many events at most.")


class RecallEvict(Arguments):
    """Which events leave."""

    ids: Texts | None = Field(default=None, description="The ids of events.")
    kind: Text | None = Field(default=None, description="All events of this kind; with oldest, the oldest of them.")
    oldest: int | None = Field(default=None, ge=1, description="So many of the oldest events.")


class NoArguments(Arguments):
    """No arguments."""


class ArchivalWrite(Arguments):
    """A record."""

    content: Text = Field(description="What the record says; understandable by itself.", min_length=1)
    tags: Texts = Field(default=[], description="Words by which records can be told apart, such as results.")


class ArchivalUpdate(Arguments):
    """A change of a record."""

    record_id: Text = Field(description="The id of the record.")
    content: Text | None = Field(default=None, description="What it says now. Leave out to keep what it says.")
    tags: Texts | None = Field(default=None, description="All of its tags now. Leave out to keep them as they are.")


class ArchivalSearch(Arguments):
    """What records are looked for."""

    query: Text = Field(description='What to look for; "*" for the newest records.')
    limit: int = Field(default=10, description="How many records at most.")
    tags: Texts | None = Field(default=None, description="Only records that have all of these tags.")


class ArchivalGet(Arguments):
    """One record."""

    record_id: Text = Field(description="The id of the record.")


class NodeFork(Arguments):
    """A new branch."""

    name: Text = Field(description="The name of the new branch.")
    node_id: Text | None = Field(default=None, description="The branch it begins at. Leave out for this one.")


class NodeRead(Arguments):
    """What is read of a branch."""

    scope: Literal["all", "core", "recall", "archival"] = Field(default="all", description="Which layers.")
    node_id: BranchId = None


class NodeWrite(Arguments):
    """What is written to a branch."""

    core: dict[str, Text] | None = Field(default=None, description="Notes: keys with what they say.")
    recall: Text | None = Field(default=None, description="An event: what happened.")
    archival: Texts | None = Field(default=None, description="Records: what each of them says.")
    node_id: BranchId = None

    @model_validator(mode="after")
    def _check_content(self) -> NodeWrite:
        if not self.core and not self.recall and not self.archival:
            raise ValueError("Give core, recall or archival.")
        return self


class Consolidate(Arguments):
    """How thoroughly memory is tidied."""

    level: Literal["medium", "high", "critical"] | None = Field(
        default=None, description="How much room is made. Leave out for as much as is needed."
    )
