"""`AuditEntry`, and the chain that reveals changed, removed or moved entries.

The digest of an entry covers all fields that never change, and is keyed by a random salt. The *link* of an entry is a
digest of the previous link and the entry's digest. So a link depends on every entry up to its own. A copy of a link
outside of the database proves later that these entries are unchanged. An erased entry keeps only its digest and its
link, so the chain stays valid. Its salt is erased too, so that nobody can check a guess of the content.

The chain alone does not protect against an attacker who can write to the database and recompute every later link. A
comparison with a head that is stored elsewhere reveals this. The attacker can also erase an entry as `erase` does. A
comparison of heads does not reveal this, so monitor the number of `erased` entries.
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
"""The kind of an entry.

"exchange" is a prompt with its reply. "call" is a captured model call. "todo" is a todo. "reflection" is an agent's
reflection on its own work. "reference" is a reference text.
"""
KINDS: tuple[Kind, ...] = get_args(Kind)

Status: TypeAlias = Literal["open", "done"]
STATUSES: tuple[Status, ...] = get_args(Status)
"""The states of a todo."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEntry:
    """One entry of the audit trail.

    Attributes:
        id: The id, unique in its namespace.
        kind: The kind, see `Kind`.
        prompt: The prompt. For a call: the text of the newest user message, or else of the newest message.
        reply: The reply.
        created_at: The time of creation. A time without a time zone is in UTC.
        conversation_id: The id of the conversation. Default: None.
        namespace: The namespace. Default: the root.
        junk: The names of the rules that classify the entry as junk and hide it. Default: (), not junk.
        status: "open" or "done" for a todo. Default: None.
        title: The title of a reference. Default: None.
        model: The name of the model. Default: None.
        error: The error of a failed call. Default: None.
        input_tokens: The number of tokens of the prompt. Default: None, unknown.
        output_tokens: The number of tokens of the reply. Default: None, unknown.
        duration: The duration of a call in seconds. Default: None, unknown.
        run_id: The id of the LangChain run of the call. Default: None.
        parent_run_id: The id of the parent run. Default: None.
        thread_id: The id of the LangGraph thread of the call. Default: None.
        messages: For a call, the messages that the model received, followed by its answers. `to_langchain(message)`
            converts one to a LangChain message. Default: ().
        extra: Further data, of any types that `base.encoding.to_plain` can convert. Default: {}.
        archived: True if the entry is archived, which means compressed. Default: False.

    Raises:
        InvalidInput: The kind is unknown, the status does not fit the kind, or the time is invalid.
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
"""The length of an entry's salt in bytes. The salt is the key of the entry's digest."""


class ChainHead(NamedTuple):
    """The last entry of the chain at some time.

    Attributes:
        sequence: The number of the last entry, counted from 1. 0 for an empty chain.
        link: The link of the last entry, 32 bytes. It depends on every entry of the chain.
    """

    sequence: int
    link: bytes

    def __str__(self) -> str:
        """Return the head as a text to store elsewhere. `ChainHead.parse` parses this text."""
        return f"{self.sequence}:{self.link.hex()}"

    @classmethod
    def parse(cls, text: str) -> ChainHead:
        """Parse the text of a head.

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
        entries: The number of checked entries, including erased entries.
        erased: The number of erased entries.
        problems: Descriptions of the problems. Empty if the chain is valid.
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
        fields: The columns that never change: path, key, kind, conversation, thread, creation time, and the mark that
            related entries share, see `audit_rows.EntryDraft`.
        body: The uncompressed body of the entry, with its texts and metadata.
        messages: The digests of the bodies of the messages, in order.
    """
    message_bytes = b"".join(messages)
    path, key, kind, conversation, thread, created_at, mark = fields
    # A JSON list of the fields, built in half the time of `write_plain`. The lengths separate body and messages.
    header = (
        f"[{quote_json(path)},{quote_json(key)},{quote_json(kind)},"
        f"{'null' if conversation is None else quote_json(conversation)},"
        f"{'null' if thread is None else quote_json(thread)},{created_at:d},"
        f"{'null' if mark is None else quote_json(mark)},"
        f"{len(body)},{len(message_bytes)}]\n"
    )
    content = header.encode("utf-8", "surrogatepass") + body + message_bytes
    return blake2b(content, digest_size=LINK_BYTES, key=salt).digest()
