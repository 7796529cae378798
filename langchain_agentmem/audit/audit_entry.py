"""`AuditEntry`, and the chain over entries that shows whether one was changed, removed, or moved.

An entry has a digest, of a random salt and of everything of it that never changes, and a *link*: the digest of the link
before and of this digest. So a link stands for everything up to its entry, and whoever keeps one elsewhere can prove
later that nothing before it was changed. What is erased leaves its digest and its link. Without the salt, which is
erased too, nothing can be learned from them, not even whether a guess was right; and the chain still holds.

A chain by itself proves nothing against somebody who may write to the database and computes every link anew from some
place on. Against that helps a head that was kept elsewhere. Who may write to the database can also empty an entry
as `erase` does, which no head tells: watch how many are `erased`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from langchain_agentmem.base.clock import moment, time_given
from langchain_agentmem.base.encoding import quoted
from langchain_agentmem.base.namespaces import Namespace
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.messages.message import Message
from langchain_agentmem.storage.queries import LINK_BYTES

Kind: TypeAlias = Literal["exchange", "call", "todo", "reflection", "reference"]
"""What an entry is: a prompt with its reply, a model call that was captured, something to do, what an agent says of its
own work, a text to look things up in."""
KINDS: tuple[Kind, ...] = get_args(Kind)

Status: TypeAlias = Literal["open", "done"]
STATUSES: tuple[Status, ...] = get_args(Status)
"""What a todo can be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEntry:
    """One entry of the audit trail.

    Attributes:
        id: What it is called, unique in its namespace.
        kind: "exchange" for a prompt and its reply, "call" for a model call that was captured, "todo", "reflection"
            or "reference".
        prompt: What was asked. Of a call, its newest message from the user.
        reply: What was answered.
        created_at: When. Without a time zone, UTC.
        conversation_id: To which conversation it belongs. Default None: to none.
        namespace: Where it is. Default: the root.
        junk: The names of the rules by which it is junk, and hidden. Default (): it is shown.
        status: Of a todo, "open" or "done". Default None.
        title: Of a reference. Default None.
        model: The name of the model. Default None.
        error: What went wrong, where a call failed. Default None.
        input_tokens: Tokens of the prompt. Default None: not known.
        output_tokens: Tokens of the reply. Default None: not known.
        duration: Seconds that a call took. Default None: not known.
        run_id: The run of LangChain that it was. Default None.
        parent_run_id: The run that this one was part of. Default None.
        thread_id: The thread of LangGraph that it was made in. Default None.
        messages: Of a call, the messages that the model was given and, after them, those that it answered with, each
            with its `role` and `content`; `to_langchain(message)` makes LangChain's of one. Default ().
        extra: Whatever else is known of it; anything that `encoding.to_plain` can write. Default {}.
        archived: Whether it is kept compressed. Default False.

    Raises:
        InvalidInput: There is no such kind or status.
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
            raise InvalidInput(f"There is no kind of entry {safe_repr(self.kind)}; there are {', '.join(KINDS)}.")
        if (self.status in STATUSES) != (self.kind == "todo"):
            raise InvalidInput(
                f"A todo is 'open' or 'done', and nothing else has a status: not {safe_repr(self.status)}."
            )
        if self.created_at.tzinfo is not UTC:
            object.__setattr__(self, "created_at", moment(time_given(self.created_at, "created_at")))

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def text(self) -> str:
        """What a search finds it by: prompt and reply."""
        return f"{self.prompt}\n{self.reply}"


SALT_BYTES = 16
"""Bytes of the salt of an entry, by which its digest is keyed."""


class ChainHead(NamedTuple):
    """An end of the chain.

    Attributes:
        sequence: The place of its last entry, counted from 1; 0 where there is none.
        link: What stands for everything up to there, 32 bytes.
    """

    sequence: int
    link: bytes

    def __str__(self) -> str:
        """As a text to be kept elsewhere, which `ChainHead.of` reads."""
        return f"{self.sequence}:{self.link.hex()}"

    @classmethod
    def of(cls, text: str) -> ChainHead:
        """Read a head that was kept as text.

        Args:
            text: What `str(head)` gave.

        Raises:
            InvalidInput: It is no head.
        """
        sequence, colon, link = text.strip().partition(":") if isinstance(text, str) else ("", "", "")
        try:
            head = cls(int(sequence), bytes.fromhex(link))
        except ValueError:
            head = cls(-1, b"")
        if not colon or head.sequence < 0 or len(head.link) != LINK_BYTES:
            raise InvalidInput(f"{safe_repr(text)} is no head of an audit trail: a head is '<number>:<64 hex digits>'.")
        return head


START = ChainHead(0, bytes(LINK_BYTES))
"""The head of an empty chain."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChainReport:
    """What a check of the chain found.

    Attributes:
        entries: How many places of the chain were looked at.
        erased: How many of them are of entries that were erased.
        problems: What is wrong, in sentences; empty when all is well.
        head: Where the chain ends.
    """

    entries: int
    erased: int
    problems: tuple[str, ...]
    head: ChainHead

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def digest(salt: bytes, fields: Sequence[Any], body: bytes, messages: Sequence[bytes] = ()) -> bytes:
    """The digest of an entry.

    Args:
        salt: Its salt.
        fields: What stands in its columns and never changes: path, key, kind, conversation, thread, time and mark.
        body: Its text and what goes with it, uncompressed.
        messages: The digest of the body of each message, in order.
    """
    said = b"".join(messages)
    path, key, kind, conversation, thread, created_at, mark = fields
    # As `write_plain` writes a list of them, in half the time.
    line = (
        f"[{quoted(path)},{quoted(key)},{quoted(kind)},{'null' if conversation is None else quoted(conversation)},"
        f"{'null' if thread is None else quoted(thread)},{created_at:d},{'null' if mark is None else quoted(mark)},"
        f"{len(body)},{len(said)}]\n"
    )
    whole = line.encode("utf-8", "surrogatepass") + body + said
    return blake2b(whole, digest_size=LINK_BYTES, key=salt).digest()
