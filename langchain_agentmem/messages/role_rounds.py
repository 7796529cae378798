"""The values of a role-based conversation: rounds, posts, attachments, shared entries.

A `Conversation` is a list of `Round`s, one for each user query. A round is a list of `Post`s that roles send
to each other, and a post may carry `Attachment`s: a plan, a thought, the result of an execution. A
`SharedMemoryEntry` is stored as an attachment and visible to every role. `MessageContent` is the thought and the next
action of an agent. `Retention` limits the messages that are kept.

All of them are values: frozen, compared by content, independent of clocks and storage. Each converts to a dictionary,
to JSON or to YAML and back without loss, ids included. Dictionaries of older systems load too: missing ids are
created, and attachments whose type no longer exists are dropped.

Reading is strict about types: malformed data raises an error that names the problem. Users import these names from
`langchain_agentmem.model`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from langchain_agentmem.base.argument_checks import Options
from langchain_agentmem.base.data_tables import parse_yaml
from langchain_agentmem.errors import InvalidInput, safe_repr

__all__ = [
    "Attachment",
    "AttachmentType",
    "Conversation",
    "MessageContent",
    "Post",
    "Retention",
    "Round",
    "RoundState",
    "Scope",
    "SharedMemoryEntry",
    "new_id",
]


def new_id(prefix: str) -> str:
    """Make an id such as ``"conv-20260102-030405-1a2b3c4d"``.

    Args:
        prefix: The kind of object. TaskWeaver uses ``conv``, ``round``, ``post``, ``atta`` and ``sme``.

    Returns:
        The prefix, the time in UTC to the second, and four random bytes in hexadecimal.
    """
    return f"{prefix}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"


class Portable:
    """A value that converts to a dictionary, to JSON or to YAML and back without loss."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary of JSON types, with the keys in the order of the fields."""
        raise NotImplementedError

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self | None:
        """Build the value from the result of `to_dict`.

        Args:
            data: A dictionary, from this package or from an older system.

        Returns:
            The value. None only for an attachment of a type that no longer exists.

        Raises:
            InvalidInput: The data is not a mapping, or a value in it has a wrong type.
        """
        raise NotImplementedError

    def to_json(self, *, indent: int | None = None) -> str:
        """Write the value as JSON text.

        Args:
            indent: Spaces to indent by. Default: all on one line.
        """
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the value from JSON text.

        Raises:
            InvalidInput: The text is not JSON, or does not describe this kind of value.
        """
        try:
            data = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidInput(f"This is not JSON: {error}") from error
        return cls._load_required(data)

    def to_yaml(self) -> str:
        """Write the value as YAML text."""
        import yaml  # noqa: PLC0415 - loaded on use

        data = self.to_dict()
        text = str(yaml.safe_dump(data, allow_unicode=True, sort_keys=False))
        if yaml.safe_load(text) == data:
            return text
        # Some rare characters (NEL, line separators, a byte order mark) survive only when they are escaped.
        return str(yaml.safe_dump(data, default_style='"', sort_keys=False))

    @classmethod
    def from_yaml(cls, text: str) -> Self:
        """Read the value from plain YAML text; tags of Python objects are refused.

        Raises:
            InvalidInput: The text is not YAML, or does not describe this kind of value.
        """
        return cls._load_required(parse_yaml(text))

    @classmethod
    def _load_required(cls, data: Any) -> Self:
        value = cls.from_dict(data)
        if value is None:
            raise InvalidInput(f"{cls.__name__}: the type {safe_repr(data.get('type'))} no longer exists.")
        return value


def check_dict(cls: type, data: Any, *required: str) -> dict[str, Any]:
    """Check that data is a dictionary with these keys, and copy it."""
    if not isinstance(data, Mapping):
        raise InvalidInput(f"{cls.__name__}: expected a dictionary, not {type(data).__name__}.")
    for key in required:
        if data.get(key) is None:
            raise InvalidInput(f"{cls.__name__}: {safe_repr(key)} is missing from {sorted(map(str, data))}.")
    return dict(data)


def json_copy(value: Any) -> Any:
    """Copy a value through JSON: tuples become lists, and attachment types their names."""
    try:
        copy = json.loads(text := json.dumps(value, allow_nan=False, default=_encode_type))
        if json.dumps(copy) != text:
            raise ValueError("two keys of one dictionary are the same text")  # noqa: TRY301 - converted below
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"The value must be JSON-able: {error}") from error
    return copy


def _encode_type(value: Any) -> str:
    if isinstance(value, AttachmentType):
        return value.value
    raise TypeError(f"{type(value).__name__} {safe_repr(value, 60)} is not JSON-able")


class PortableModel(Options, Portable):
    """A value that converts to a dictionary of its fields."""

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary of JSON types, with the keys in the order of the fields."""
        data: dict[str, Any] = json_copy(self.model_dump())
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build the value from the result of `to_dict` or an older system; ignore unknown keys.

        Raises:
            InvalidInput: A field is missing or has a wrong type.
        """
        given = check_dict(cls, data)
        try:
            return cls(**{name: given[name] for name in cls.model_fields if given.get(name) is not None})
        except InvalidInput as error:
            raise InvalidInput(f"{cls.__name__}: {error}") from error


class IdentifiedModel(PortableModel):
    """A value with an id.

    Attributes:
        id: The id. Default: a new id.
    """

    _prefix: ClassVar[str]  # the first part of new ids, see `new_id`

    id: str = Field(default="", validate_default=True)

    @field_validator("id")
    @classmethod
    def _default_id(cls, given: str) -> str:
        return given or new_id(cls._prefix)


def _tuple_validator(kind: type[IdentifiedModel]) -> BeforeValidator:
    """Make a validator that converts an iterable of values or dictionaries to a tuple.

    Attachments of types that no longer exist are dropped.
    """

    def to_tuple(given: Any) -> Any:
        if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
            return given
        values = ((each, kind.from_dict(each) if isinstance(each, Mapping) else each) for each in given)
        return tuple(value for each, value in values if value is not None or each is None)

    return BeforeValidator(to_tuple)


RoundState = Literal["created", "finished", "failed"]
Scope = Literal["round", "conversation"]


class AttachmentType(Enum):
    """The type of an attachment: TaskWeaver's 22 types. Each value equals its name."""

    plan = "plan"
    current_plan_step = "current_plan_step"
    plan_reasoning = "plan_reasoning"
    stop = "stop"
    thought = "thought"
    reply_type = "reply_type"
    reply_content = "reply_content"
    verification = "verification"
    code_error = "code_error"
    execution_status = "execution_status"
    execution_result = "execution_result"
    artifact_paths = "artifact_paths"
    revise_message = "revise_message"
    function = "function"
    web_exploring_plan = "web_exploring_plan"
    web_exploring_screenshot = "web_exploring_screenshot"
    web_exploring_link = "web_exploring_link"
    session_variables = "session_variables"
    shared_memory_entry = "shared_memory_entry"
    invalid_response = "invalid_response"
    text = "text"
    image_url = "image_url"


def _parse_type(given: Any) -> AttachmentType:
    kind = given if isinstance(given, AttachmentType) else AttachmentType.__members__.get(str(given))
    if kind is None:
        raise InvalidInput(f"Unknown attachment type {safe_repr(given)}. See AttachmentType.")
    return kind


class SharedMemoryEntry(IdentifiedModel):
    """An entry that one role shares with all others.

    Attributes:
        type: Its type: ``"plan"``, ``"experience_sub_path"``, or any name of your own.
        scope: ``"round"``: valid only while its round is the last one. ``"conversation"``: always valid.
        content: The shared text.
        id: The id. Default: a new id.
    """

    _prefix = "sme"

    type: str
    scope: Scope
    content: str

    @classmethod
    def create(cls, type: str, scope: Scope, content: str, id: str | None = None) -> Self:  # noqa: A002
        """Make an entry, with a new id unless one is given."""
        return cls(type=type, scope=scope, content=content, id="" if id is None else id)


class Attachment(IdentifiedModel):
    """A typed attachment of a post.

    Attributes:
        type: Its type. The name of a type is accepted too.
        content: Its text.
        extra: Additional JSON-able data. A `SharedMemoryEntry` when the type is ``shared_memory_entry``.
            Default None.
        id: The id. Default: a new id.
    """

    _prefix = "atta"

    type: Annotated[AttachmentType, BeforeValidator(_parse_type)]
    content: str
    extra: Any = None

    @field_validator("extra")
    @classmethod
    def _normalize_extra(cls, extra: Any, info: ValidationInfo) -> Any:
        if info.data.get("type") is AttachmentType.shared_memory_entry:
            if isinstance(extra, Mapping):
                return SharedMemoryEntry.from_dict(extra)
            if isinstance(extra, SharedMemoryEntry):
                return extra
        return json_copy(extra)

    def __hash__(self) -> int:
        return hash(self.id)

    @classmethod
    def create(
        cls,
        type: AttachmentType | str,  # noqa: A002
        content: str,
        extra: Any = None,
        id: str | None = None,  # noqa: A002
    ) -> Self:
        """Make an attachment, with a new id unless one is given."""
        return cls(type=_parse_type(type), content=content, extra=extra, id="" if id is None else id)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self | None:  # type: ignore[override]  # None for old types
        """Build an attachment.

        Args:
            data: The dictionary. A missing id is created. Content that is None becomes empty, and a list of texts
                (older artifact paths) becomes lines.

        Returns:
            The attachment, or None if its type was removed (``init_plan``, ``python``, …) or is unknown.

        Raises:
            InvalidInput: A field is missing or has a wrong type.
        """
        given = check_dict(cls, data, "type")
        if isinstance(given["type"], str) and given["type"] not in AttachmentType.__members__:
            return None
        content: Any = given.get("content")
        if isinstance(content, list) and all(isinstance(line, str) for line in content):
            content = "\n".join(content)
        return super().from_dict(given | {"content": "" if content is None else content})


class Post(IdentifiedModel):
    """A message from one role to another.

    Attributes:
        message: Its text. Default empty.
        send_from: The role that sends the post.
        send_to: The role that receives it. Default ``"Unknown"``.
        attachment_list: Its attachments, as a tuple; any iterable is accepted. Default empty.
        id: The id. Default: a new id.
    """

    _prefix = "post"

    message: str = ""
    send_from: str
    send_to: str = "Unknown"
    attachment_list: Annotated[tuple[Attachment, ...], _tuple_validator(Attachment)] = ()

    @classmethod
    def create(
        cls,
        message: str | None,
        send_from: str,
        send_to: str = "Unknown",
        attachment_list: Iterable[Attachment] = (),
        id: str | None = None,  # noqa: A002
    ) -> Self:
        """Make a post, with a new id unless one is given. A message of None becomes empty."""
        given: Any = {"message": "" if message is None else message, "attachment_list": attachment_list}
        return cls(send_from=send_from, send_to=send_to, id="" if id is None else id, **given)

    def get_attachment(self, type: AttachmentType) -> tuple[Attachment, ...]:  # noqa: A002
        """Return the attachments of one type, in order."""
        return tuple(attachment for attachment in self.attachment_list if attachment.type is type)

    def with_attachment(self, *attachments: Attachment) -> Self:
        """Return a copy with the same id and these attachments at its end."""
        return self.replace(attachment_list=(*self.attachment_list, *attachments))


class Round(IdentifiedModel):
    """One query of the user, and the posts that answer it.

    Attributes:
        user_query: The user's question.
        state: ``"created"``, ``"finished"`` or ``"failed"``. Default ``"created"``.
        post_list: The posts in order, as a tuple; any iterable is accepted. Default empty.
        id: The id. Default: a new id.
    """

    _prefix = "round"

    user_query: str
    state: RoundState = "created"
    post_list: Annotated[tuple[Post, ...], _tuple_validator(Post)] = ()

    @classmethod
    def create(
        cls,
        user_query: str,
        id: str | None = None,  # noqa: A002
        state: RoundState = "created",
        post_list: Iterable[Post] = (),
    ) -> Self:
        """Make a round, with a new id unless one is given."""
        posts: Any = post_list  # validated as a tuple
        return cls(user_query=user_query, state=state, post_list=posts, id="" if id is None else id)

    def with_post(self, *posts: Post) -> Self:
        """Return a copy with the same id and these posts at its end."""
        return self.replace(post_list=(*self.post_list, *posts))


class Conversation(IdentifiedModel):
    """An ordered sequence of rounds with one id.

    Attributes:
        rounds: The rounds in order, as a tuple; any iterable is accepted. Default empty.
        enabled: False for an example that is stored but not used. Default True.
        id: The id. Default: a new id.
    """

    _prefix = "conv"

    enabled: bool = True
    rounds: Annotated[tuple[Round, ...], _tuple_validator(Round)] = ()

    @property
    def roles(self) -> set[str]:
        """Every role that sends or receives a post."""
        posts = [post for each in self.rounds for post in each.post_list]
        return {post.send_from for post in posts} | {post.send_to for post in posts}


class MessageContent(PortableModel):
    """The thought and the next action of an agent.

    New code passes a plain dictionary as content instead.

    Attributes:
        thought: Its reasoning. Default None.
        next_action: "call_tool", "invoke_agent" or "final_response". Default None.
        action_input: The JSON-able input of the action. Default None.

    Raises:
        InvalidInput: A field has a wrong type, or the action is unknown.
    """

    thought: str | None = None
    next_action: Literal["call_tool", "invoke_agent", "final_response"] | None = None
    action_input: Annotated[dict[str, Any], AfterValidator(json_copy)] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are set."""
        return {name: value for name, value in super().to_dict().items() if value is not None}


class Retention(Options):
    """A limit on the messages that are kept. Default: no limit.

    Attributes:
        keep_last: The number of newest messages to keep, at least 1. Default None: no limit.
        max_age: The maximum age of messages, greater than 0. Default None: no limit.
    """

    keep_last: int | None = Field(default=None, ge=1)
    max_age: timedelta | None = Field(default=None, gt=timedelta(0))

    @property
    def is_off(self) -> bool:
        """True if there is no limit."""
        return self.keep_last is None and self.max_age is None
