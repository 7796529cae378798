"""What a role-based conversation is made of (document 000).

A `Conversation` is a list of `Round`s, one for each user query. A round is a list of `Post`s that roles send
to each other, and a post may carry `Attachment`s: a plan, a thought, the result of an execution. A
`SharedMemoryEntry` travels as an attachment and is seen by every role. `Retention` says how long things are
kept.

All of them are values: frozen, compared by content, free of clocks and storage. Each goes to a dictionary, to
JSON or to YAML and comes back equal, with the ids it had. Dictionaries written by older systems load too: ids
that are missing are made, and attachments whose type no longer exists are dropped.

Reading is strict about types and generous about age: what is malformed is refused with a sentence that names it. Users
import these names from `langchain_agentmem.model`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Literal, Self

from langchain_agentmem.base.encoding import is_plain
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput

__all__ = [
    "Attachment",
    "AttachmentType",
    "Conversation",
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
        prefix: What the id names. Document 000 uses ``conv``, ``round``, ``post``, ``atta`` and ``sme``.

    Returns:
        The prefix, the time in UTC to the second, and four random bytes in hexadecimal.
    """
    return f"{prefix}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"


class Portable:
    """A value that goes to a dictionary, to JSON or to YAML, and comes back equal."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Give a dictionary made of JSON's own types."""
        raise NotImplementedError

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self | None:
        """Build the value from what `to_dict` gave.

        Args:
            data: A dictionary, from this package or from an older system.

        Returns:
            The value. None only for an attachment of a type that no longer exists.

        Raises:
            InvalidInput: The data is not a mapping, or has a wrong type inside.
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
        return cls._required(data)

    def to_yaml(self) -> str:
        """Write the value as YAML text."""
        import yaml  # noqa: PLC0415 - only those who write YAML pay for it

        data = self.to_dict()
        text = str(yaml.safe_dump(data, allow_unicode=True, sort_keys=False))
        if yaml.safe_load(text) == data:
            return text
        # Some rare characters (NEL, line separators, a byte order mark) survive only when they are escaped.
        return str(yaml.safe_dump(data, default_style='"', sort_keys=False))

    @classmethod
    def from_yaml(cls, text: str) -> Self:
        """Read the value from YAML text. Only plain YAML is read; tags that name Python objects are refused.

        Raises:
            InvalidInput: The text is not YAML, or does not describe this kind of value.
        """
        import yaml  # noqa: PLC0415

        try:
            data = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, AttributeError, RecursionError) as error:
            raise InvalidInput(f"This is not YAML that can be read: {error}") from error
        return cls._required(data)

    @classmethod
    def _required(cls, data: Any) -> Self:
        value = cls.from_dict(data)
        if value is None:
            raise InvalidInput(f"{cls.__name__}: the type {safe_repr(data.get('type'))} no longer exists.")
        return value


def fields_of(cls: type, data: Any, *required: str) -> dict[str, Any]:
    """Check that data is a dictionary with these keys, and copy it."""
    if not isinstance(data, Mapping):
        raise InvalidInput(f"{cls.__name__}: expected a dictionary, not {type(data).__name__}.")
    for key in required:
        if data.get(key) is None:
            raise InvalidInput(f"{cls.__name__}: {safe_repr(key)} is missing from {sorted(map(str, data))}.")
    return dict(data)


def id_of(cls: type, fields: Mapping[str, Any]) -> str:
    """Give the id that data holds, or nothing."""
    given = fields.get("id")
    if given is not None and not isinstance(given, str):
        raise InvalidInput(f"{cls.__name__}: 'id' must be text, not {safe_repr(given)}.")
    return given or ""


def list_of(cls: type, fields: Mapping[str, Any], key: str) -> list[Any]:
    """Give a list that data holds under a key; a missing one is empty."""
    items = fields.get(key)
    if items is None:
        return []
    if not isinstance(items, list | tuple):
        raise InvalidInput(f"{cls.__name__}: {safe_repr(key)} must be a list, not {type(items).__name__}.")
    return list(items)


def settle_id(value: Any, prefix: str) -> None:
    """Give a new value an id, unless it has one."""
    if not isinstance(value.id, str):
        raise InvalidInput(f"{type(value).__name__}: 'id' must be text, not {safe_repr(value.id)}.")
    if not value.id:
        object.__setattr__(value, "id", new_id(prefix))


def check_text(value: Any, *names: str) -> None:
    """Check that these fields are text."""
    for name in names:
        text = getattr(value, name)
        if not isinstance(text, str):
            raise InvalidInput(f"{type(value).__name__}: {safe_repr(name)} must be text, not {type(text).__name__}.")


def settle_tuple(value: Any, name: str, kind: type) -> None:
    """Turn a field into a tuple, and check what it holds."""
    try:
        items = tuple(getattr(value, name))
    except TypeError as error:
        raise InvalidInput(f"{type(value).__name__}: {safe_repr(name)} must be a list of {kind.__name__}.") from error
    for item in items:
        if not isinstance(item, kind):
            raise InvalidInput(
                f"{type(value).__name__}: {safe_repr(name)} holds a {type(item).__name__}, not a {kind.__name__}."
            )
    object.__setattr__(value, name, items)


def json_copy(value: Any) -> Any:
    """Copy JSON-able data; a tuple becomes a list, as JSON would make it."""
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise InvalidInput("Attachment: the keys of 'extra' must be text.")
        return {key: json_copy(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_copy(item) for item in value]
    if not is_plain(value):
        raise InvalidInput(
            f"Attachment: 'extra' must be JSON-able; {type(value).__name__} {safe_repr(value, 60)} is not."
        )
    return value


RoundState = Literal["created", "finished", "failed"]
Scope = Literal["round", "conversation"]


class AttachmentType(Enum):
    """What an attachment holds. The 22 types of document 000; a value is its own name."""

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


_ATTACHMENT_TYPES = {kind.value: kind for kind in AttachmentType}


def _kind(given: Any) -> AttachmentType:
    kind = given if isinstance(given, AttachmentType) else _ATTACHMENT_TYPES.get(str(given))
    if kind is None:
        raise InvalidInput(f"There is no attachment type {safe_repr(given)}. See AttachmentType.")
    return kind


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedMemoryEntry(Portable):
    """What one role shares with all others.

    Attributes:
        type: What it is: ``"plan"``, ``"experience_sub_path"``, or any name of your own.
        scope: ``"round"``: seen while its round is the last one. ``"conversation"``: seen from then on.
        content: The text shared.
        id: Default: a new id.
    """

    type: str
    scope: Scope
    content: str
    id: str = ""

    def __post_init__(self) -> None:
        settle_id(self, "sme")
        check_text(self, "type", "content")
        if self.scope not in ("round", "conversation"):
            raise InvalidInput(f"A shared entry's scope is 'round' or 'conversation', not {safe_repr(self.scope)}.")

    @classmethod
    def create(cls, type: str, scope: Scope, content: str, id: str | None = None) -> Self:  # noqa: A002
        """Make an entry, with a new id unless one is given."""
        return cls(type=type, scope=scope, content=content, id=id or "")

    def to_dict(self) -> dict[str, Any]:
        """Give ``{"id", "type", "scope", "content"}``."""
        return {"id": self.id, "type": self.type, "scope": self.scope, "content": self.content}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build an entry. A missing id is made.

        Raises:
            InvalidInput: Something is missing or has a wrong type.
        """
        fields = fields_of(cls, data, "type", "scope", "content")
        return cls(type=fields["type"], scope=fields["scope"], content=fields["content"], id=id_of(cls, fields))


@dataclass(frozen=True, kw_only=True, slots=True)
class Attachment(Portable):
    """Something typed that a post carries.

    Attributes:
        type: What it holds. The name of a type is accepted too.
        content: Its text.
        extra: More about it, JSON-able. A `SharedMemoryEntry` when the type is ``shared_memory_entry``.
            Default None.
        id: Default: a new id.
    """

    type: AttachmentType
    content: str
    extra: Any = None
    id: str = ""

    def __post_init__(self) -> None:
        settle_id(self, "atta")
        kind = _kind(self.type)
        object.__setattr__(self, "type", kind)
        check_text(self, "content")
        extra = self.extra
        if kind is AttachmentType.shared_memory_entry and isinstance(extra, Mapping):
            object.__setattr__(self, "extra", SharedMemoryEntry.from_dict(extra))
        elif isinstance(extra, SharedMemoryEntry):
            if kind is not AttachmentType.shared_memory_entry:
                raise InvalidInput(
                    f"A SharedMemoryEntry belongs in a shared_memory_entry, not in {safe_repr(kind.value)}."
                )
        else:
            object.__setattr__(self, "extra", json_copy(extra))

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
        return cls(type=_kind(type), content=content, extra=extra, id=id or "")

    def to_dict(self) -> dict[str, Any]:
        """Give ``{"id", "type", "content", "extra"}``."""
        extra = self.extra.to_dict() if isinstance(self.extra, SharedMemoryEntry) else json_copy(self.extra)
        return {"id": self.id, "type": self.type.value, "content": self.content, "extra": extra}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self | None:
        """Build an attachment.

        Args:
            data: A missing id is made. Content that is None becomes empty, and a list of texts (older
                artifact paths) becomes lines.

        Returns:
            The attachment, or None when its type has been removed (``init_plan``, ``python``, …) or is
            unknown.

        Raises:
            InvalidInput: Something is missing or has a wrong type.
        """
        fields = fields_of(cls, data, "type")
        if not isinstance(fields["type"], str | AttachmentType):
            raise InvalidInput(f"Attachment: 'type' must be text, not {safe_repr(fields['type'])}.")
        if not isinstance(fields["type"], AttachmentType) and fields["type"] not in _ATTACHMENT_TYPES:
            return None
        content: Any = fields.get("content")
        if isinstance(content, list) and all(isinstance(line, str) for line in content):
            content = "\n".join(content)
        return cls(
            type=_kind(fields["type"]),
            content="" if content is None else content,
            extra=fields.get("extra"),
            id=id_of(cls, fields),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Post(Portable):
    """A message from one role to another.

    Attributes:
        message: Its text. Default empty.
        send_from: The role that speaks.
        send_to: The role spoken to. Default ``"Unknown"``.
        attachment_list: What it carries, as a tuple; any iterable is accepted. Default empty.
        id: Default: a new id.
    """

    message: str = ""
    send_from: str
    send_to: str = "Unknown"
    attachment_list: tuple[Attachment, ...] = ()
    id: str = ""

    def __post_init__(self) -> None:
        settle_id(self, "post")
        if self.message is None:
            object.__setattr__(self, "message", "")
        check_text(self, "message", "send_from", "send_to")
        settle_tuple(self, "attachment_list", Attachment)

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
        given: Any = attachment_list  # they are settled as a tuple
        return cls(
            message=message or "",
            send_from=send_from,
            send_to=send_to,
            attachment_list=given,
            id=id or "",
        )

    def get_attachment(self, type: AttachmentType) -> tuple[Attachment, ...]:  # noqa: A002
        """Give the attachments of one type, in their order."""
        return tuple(attachment for attachment in self.attachment_list if attachment.type is type)

    def with_attachment(self, *attachments: Attachment) -> Self:
        """Give a copy, under the same id, that carries these attachments too."""
        return replace(self, attachment_list=(*self.attachment_list, *attachments))

    def without_attachment(self, *types: AttachmentType) -> Self:
        """Give a copy, under the same id, without the attachments of these types."""
        kept = tuple(attachment for attachment in self.attachment_list if attachment.type not in types)
        return replace(self, attachment_list=kept)

    def to_dict(self) -> dict[str, Any]:
        """Give ``{"id", "message", "send_from", "send_to", "attachment_list"}``."""
        return {
            "id": self.id,
            "message": self.message,
            "send_from": self.send_from,
            "send_to": self.send_to,
            "attachment_list": [attachment.to_dict() for attachment in self.attachment_list],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build a post. It keeps its id; attachments of removed types are dropped.

        Raises:
            InvalidInput: Something is missing or has a wrong type.
        """
        fields = fields_of(cls, data, "send_from")
        loaded = (Attachment.from_dict(item) for item in list_of(cls, fields, "attachment_list"))
        return cls(
            message=fields.get("message"),  # type: ignore[arg-type]  # None becomes empty
            send_from=fields["send_from"],
            send_to=fields.get("send_to", "Unknown"),
            attachment_list=tuple(attachment for attachment in loaded if attachment is not None),
            id=id_of(cls, fields),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Round(Portable):
    """One query of the user, and the posts that answer it.

    Attributes:
        user_query: What the user asked.
        state: ``"created"``, ``"finished"`` or ``"failed"``. Default ``"created"``.
        post_list: The posts in order, as a tuple; any iterable is accepted. Default empty.
        id: Default: a new id.
    """

    user_query: str
    state: RoundState = "created"
    post_list: tuple[Post, ...] = ()
    id: str = ""

    def __post_init__(self) -> None:
        settle_id(self, "round")
        check_text(self, "user_query")
        if self.state not in ("created", "finished", "failed"):
            raise InvalidInput(f"A round's state is 'created', 'finished' or 'failed', not {safe_repr(self.state)}.")
        settle_tuple(self, "post_list", Post)

    @classmethod
    def create(
        cls,
        user_query: str,
        id: str | None = None,  # noqa: A002
        state: RoundState = "created",
        post_list: Iterable[Post] = (),
    ) -> Self:
        """Begin a round, with a new id unless one is given."""
        posts: Any = post_list  # they are settled as a tuple
        return cls(user_query=user_query, state=state, post_list=posts, id=id or "")

    def with_post(self, *posts: Post) -> Self:
        """Give a copy, under the same id, with these posts at its end."""
        return replace(self, post_list=(*self.post_list, *posts))

    def to_dict(self) -> dict[str, Any]:
        """Give ``{"id", "user_query", "state", "post_list"}``."""
        return {
            "id": self.id,
            "user_query": self.user_query,
            "state": self.state,
            "post_list": [post.to_dict() for post in self.post_list],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build a round. It and its posts keep their ids.

        Raises:
            InvalidInput: Something is missing or has a wrong type.
        """
        fields = fields_of(cls, data, "user_query")
        return cls(
            user_query=fields["user_query"],
            state=fields.get("state", "created"),
            post_list=tuple(Post.from_dict(post) for post in list_of(cls, fields, "post_list")),
            id=id_of(cls, fields),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation(Portable):
    """An ordered run of rounds under one id.

    Attributes:
        rounds: The rounds in order, as a tuple; any iterable is accepted. Default empty.
        enabled: False for an example that is kept but not used. Default True.
        id: Default: a new id.
    """

    rounds: tuple[Round, ...] = ()
    enabled: bool = True
    id: str = ""

    def __post_init__(self) -> None:
        settle_id(self, "conv")
        if not isinstance(self.enabled, bool):
            raise InvalidInput(f"Conversation: 'enabled' must be True or False, not {safe_repr(self.enabled)}.")
        settle_tuple(self, "rounds", Round)

    @classmethod
    def create(cls, rounds: Iterable[Round] = (), id: str | None = None) -> Self:  # noqa: A002
        """Make a conversation, with a new id unless one is given."""
        given: Any = rounds  # as above
        return cls(rounds=given, id=id or "")

    @property
    def roles(self) -> set[str]:
        """Every role that sends or receives a post."""
        posts = [post for each in self.rounds for post in each.post_list]
        return {post.send_from for post in posts} | {post.send_to for post in posts}

    def with_round(self, *rounds: Round) -> Self:
        """Give a copy, under the same id, with these rounds at its end."""
        return replace(self, rounds=(*self.rounds, *rounds))

    def to_dict(self) -> dict[str, Any]:
        """Give ``{"id", "enabled", "rounds"}``."""
        return {"id": self.id, "enabled": self.enabled, "rounds": [each.to_dict() for each in self.rounds]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build a conversation. A dump without ``enabled`` is enabled; everything keeps its id.

        Raises:
            InvalidInput: Something has a wrong type.
        """
        fields = fields_of(cls, data)
        return cls(
            rounds=tuple(Round.from_dict(each) for each in list_of(cls, fields, "rounds")),
            enabled=fields.get("enabled", True),
            id=id_of(cls, fields),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Retention(Portable):
    """How long things are kept. With neither limit, for ever.

    Attributes:
        keep_last: Keep this many of the newest, at least 1. Default None: no limit.
        max_age: Keep what is younger than this. Default None: no limit.
    """

    keep_last: int | None = None
    max_age: timedelta | None = None

    def __post_init__(self) -> None:
        keep = self.keep_last
        if keep is not None and (type(keep) is not int or keep < 1):
            raise InvalidInput(f"keep_last must be a whole number of at least 1, or None; not {safe_repr(keep)}.")
        age: Any = self.max_age
        if age is not None and (not isinstance(age, timedelta) or age <= timedelta(0)):
            raise InvalidInput(f"max_age must be a timedelta above zero, or None; not {safe_repr(age)}.")

    @property
    def off(self) -> bool:
        """True when everything is kept."""
        return self.keep_last is None and self.max_age is None

    def to_dict(self) -> dict[str, Any]:
        """Give ``{"keep_last", "max_age"}``, the age as days, seconds and microseconds."""
        age = self.max_age
        parts = None if age is None else {"days": age.days, "seconds": age.seconds, "microseconds": age.microseconds}
        return {"keep_last": self.keep_last, "max_age": parts}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build a retention.

        Args:
            data: ``max_age`` may be what `to_dict` gives, or a number of seconds.

        Raises:
            InvalidInput: A limit has a wrong type or value.
        """
        fields = fields_of(cls, data)
        age: Any = fields.get("max_age")
        try:
            if isinstance(age, Mapping):
                age = timedelta(**age)
            elif isinstance(age, int | float) and not isinstance(age, bool):
                age = timedelta(seconds=age)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInput(f"Retention: {safe_repr(age)} is not an age: {error}") from error
        return cls(keep_last=fields.get("keep_last"), max_age=age)
