"""`AuditEntry`, and the chain over entries that reveals changed, removed or moved entries.

An entry has a digest of a random salt and of every field that never changes. It also has a *link*: the digest of the
previous link and of this digest. So a link covers every entry up to its own. A copy of a link outside of the database
proves later that no entry before it was changed. An erased entry leaves its digest and its link. Its salt is erased
too, so that nobody can verify a guess of the content. The chain stays valid.

A chain by itself proves nothing against an attacker who can write to the database and recompute every later link. A
head stored elsewhere reveals this. Such an attacker can also empty an entry as `erase` does, which no head reveals:
monitor the number of `erased` entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from langchain_agentmem.base.clock import check_time, from_micros
from langchain_agentmem.base.encoding import quote_json
from langchain_agentmem.base.namespaces import Namespace
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.messages.message import Message
from langchain_agentmem.storage.queries import LINK_BYTES

Kind: TypeAlias = Literal["exchange", "call", "todo", "reflection", "reference"]
"""The kind of an entry: a prompt with its reply, a captured model call, a todo, an agent's reflection on its work, or a
reference text."""
KINDS: tuple[Kind, ...] = get_args(Kind)

Status: TypeAlias = Literal["open", "done"]
STATUSES: tuple[Status, ...] = get_args(Status)
"""The states of a todo."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEntry:
    """One entry of the audit trail.

    Attributes:
        id: The id, unique in its namespace.
        kind: "exchange" for a prompt and its reply, "call" for a captured model call, "todo", "reflection" or
            "reference".
        prompt: The prompt. For a call, the newest user message.
        reply: The reply.
        created_at: The time of creation. Without a time zone: UTC.
        conversation_id: The conversation. Default: None.
        namespace: The namespace. Default: the root.
        junk: The names of the rules that classify it as junk and hide it. Default: (), a visible entry.
        status: "open" or "done" for a todo. Default: None.
        title: The title of a reference. Default: None.
        model: The name of the model. Default: None.
        error: The error of a failed call. Default: None.
        input_tokens: The number of tokens of the prompt. Default: None, unknown.
        output_tokens: The number of tokens of the reply. Default: None, unknown.
        duration: The seconds that a call took. Default: None, unknown.
        run_id: The LangChain run of the call. Default: None.
        parent_run_id: The parent of that run. Default: None.
        thread_id: The LangGraph thread of the call. Default: None.
        messages: For a call, the messages that the model received, followed by its answers, each with its `role` and
            `content`. `to_langchain(message)` converts one. Default: ().
        extra: Further data: anything that `encoding.to_plain` can write. Default: {}.
        archived: True if it is stored compressed. Default: False.

    Raises:
        InvalidInput: The kind or the status is unknown.
    """

    id: str
    kind: Kind
    prompt: str
    reply: str
    created_at: datetime
    conversation_id: str | None = None
    namespace: Namespace = ()
    junk: tuple[str, ...] = ()
    status: str | None = None
    title: str | None = None
    model: str | None = None
    error: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    duration: float | None = None
    run_id: str | None = None
    parent_run_id: str | None = None
    thread_id: str | None = None
    messages: tuple[Message, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    archived: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidInput(f"Unknown kind of entry {safe_repr(self.kind)}. Valid kinds: {', '.join(KINDS)}.")
        if (self.status in STATUSES) != (self.kind == "todo"):
            raise InvalidInput(f"status must be 'open' or 'done' for a todo, else None, got {safe_repr(self.status)}.")
        if self.created_at.tzinfo is not UTC:
            object.__setattr__(self, "created_at", from_micros(check_time(self.created_at, "created_at")))

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def text(self) -> str:
        """The searchable text: prompt and reply."""
        return f"{self.prompt}\n{self.reply}"


SALT_BYTES = 16
"""Bytes of the salt of an entry, the key of its digest."""


class ChainHead(NamedTuple):
    """The end of the chain at some time.

    Attributes:
        sequence: The number of its last entry, counted from 1; 0 for an empty chain.
        link: The link of that entry, which covers every entry up to it, 32 bytes.
    """

    sequence: int
    link: bytes

    def __str__(self) -> str:
        """Return the head as text to keep elsewhere; `ChainHead.parse` reads it."""
        return f"{self.sequence}:{self.link.hex()}"

    @classmethod
    def parse(cls, text: str) -> ChainHead:
        """Read a head from its text.

        Args:
            text: The result of `str(head)`.

        Raises:
            InvalidInput: The text is not a head.
        """
        sequence, colon, link = text.strip().partition(":") if isinstance(text, str) else ("", "", "")
        try:
            head = cls(int(sequence), bytes.fromhex(link))
        except ValueError:
            head = cls(-1, b"")
        if not colon or head.sequence < 0 or len(head.link) != LINK_BYTES:
            raise InvalidInput(
                f"Invalid head {safe_repr(text)} of an audit trail. Expected '<number>:<64 hex digits>'."
            )
        return head


EMPTY_CHAIN = ChainHead(0, bytes(LINK_BYTES))
"""The head of an empty chain."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChainReport:
    """The result of a check of the chain.

    Attributes:
        entries: The number of checked entries, erased ones included.
        erased: The number of erased entries among them.
        problems: The problems, as sentences; empty if the chain is valid.
        head: The end of the chain.
    """

    entries: int
    erased: int
    problems: tuple[str, ...]
    head: ChainHead

    @property
    def ok(self) -> bool:
        """True if the check found no problem."""
        return not self.problems


def entry_digest(salt: bytes, fields: Sequence[Any], body: bytes, messages: Sequence[bytes] = ()) -> bytes:
    """Compute the digest of an entry.

    Args:
        salt: The salt.
        fields: The columns that never change: path, key, kind, conversation, thread, time and mark.
        body: The stored body with texts and metadata, uncompressed.
        messages: The digest of the body of each message, in order.
    """
    message_bytes = b"".join(messages)
    path, key, kind, conversation, thread, created_at, mark = fields
    # The same text as from `write_plain` for a list of the fields, in half the time.
    header = (
        f"[{quote_json(path)},{quote_json(key)},{quote_json(kind)},"
        f"{'null' if conversation is None else quote_json(conversation)},"
        f"{'null' if thread is None else quote_json(thread)},{created_at:d},"
        f"{'null' if mark is None else quote_json(mark)},"
        f"{len(body)},{len(message_bytes)}]\n"
    )
    content = header.encode("utf-8", "surrogatepass") + body + message_bytes
    return blake2b(content, digest_size=LINK_BYTES, key=salt).digest()
