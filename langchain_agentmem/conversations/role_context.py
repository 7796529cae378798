"""One role's rounds, and the summary that stands for the old ones.

What was summarized is known by the ids of its rounds, not by their number: a round that fails, or is removed, moves no
other. The rounds themselves stay as they are. What is kept is a compaction of the lane of the role.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Annotated, Any, NamedTuple, Self

from langchain_core.messages import BaseMessage, HumanMessage
from pydantic import Field, Strict, model_validator

from langchain_agentmem.base.namespaces import id_of
from langchain_agentmem.base.options import Options
from langchain_agentmem.conversations import message_log
from langchain_agentmem.conversations.compaction_records import CompactionRecord, headers, keep, load
from langchain_agentmem.conversations.log_entries import assembled, role_rounds
from langchain_agentmem.messages.message_marks import Summary, sections, summary_in, summary_message
from langchain_agentmem.messages.provider_content import ImageFiles, PartOf
from langchain_agentmem.messages.role_rounds import Attachment, AttachmentType, PortableModel, Post, Round
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.background import Lease

KEPT = 3
"""Compactions of a role that are kept: an edit of what the newest one stands for leads back to one before it."""


class CompactorConfig(Options):
    """When a role's rounds are summarized.

    Attributes:
        threshold: So many rounds without a summary are too many. Default 10.
        retain_recent: How many of the newest rounds stay. Default 3; at least 1, since the newest is still going on.
        prompt_template_path: A YAML file whose key `content` has the instructions for the model, with `{content}` for
            the rounds and `{PREVIOUS_SUMMARY}` for the summary before. Other braces mean themselves. A file that cannot
            be used is passed over. Default "": our instructions.
        enabled: Whether it is done at all. Default True.

    Raises:
        InvalidInput: A value is wrong, or they do not go together.
    """

    threshold: int = Field(default=10, ge=1)
    retain_recent: int = Field(default=3, ge=1)
    prompt_template_path: str = ""
    enabled: bool = True

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.threshold <= self.retain_recent:
            raise ValueError(
                f"threshold ({self.threshold}) must be more than retain_recent ({self.retain_recent}), or there is "
                "nothing to summarize."
            )
        return self


class CompactedMessage(PortableModel):
    """The summary that stands for a role's oldest rounds.

    Attributes:
        end_index: The number of the last round that it stands for, counted from 1 without the failed ones, as they were
            when it was made.
        summary: Its text.
        start_index: The number of the first one: always 1.
        round_ids: The ids of the rounds, without those that have come back since something was added to them.
    """

    start_index: int = 1
    end_index: int
    summary: str
    round_ids: Annotated[tuple[str, ...], Strict(strict=False)] = ()

    def to_system_message(self) -> str:
        """The summary as a text for the system's part of a prompt."""
        return f"[Conversation History Summary (Rounds {self.start_index}-{self.end_index})]\n{self.summary}"


class SeenRounds(NamedTuple):
    """What a role has of a session, as of one moment.

    Attributes:
        rest: The rounds that no summary stands for.
        record: The compaction of the others, or None.
        slots: The newest row of each round.
    """

    rest: list[Round]
    record: CompactionRecord | None
    slots: dict[str, int]

    @property
    def summary(self) -> Summary | None:
        """The summary of the others."""
        return _summary_in(self.record) if self.record else None

    @property
    def compacted(self) -> CompactedMessage | None:
        """The summary of the others, as a caller is given it."""
        if self.record is None:
            return None
        back = {each.id for each in self.rest}
        return CompactedMessage(
            end_index=self.record.reached,
            summary=_text(_summary_in(self.record)),
            round_ids=tuple(key for key in self.record.dropped if key not in back),
        )

    def due(self, config: CompactorConfig) -> list[Round]:
        """The rounds that are to be summarized now; none as long as there are few."""
        if not config.enabled or len(self.rest) < config.threshold:
            return []
        return self.rest[: len(self.rest) - config.retain_recent]


def seen_by(
    tx: Transaction,
    at: message_log.Address,
    role: str,
    *,
    include_failures: bool = False,
    log: Any = message_log,
) -> SeenRounds:
    """What a role has of a session.

    Args:
        tx: The transaction.
        at: The session.
        role: The role.
        include_failures: Whether failed rounds are there. Default: no.
        log: The session's log. Only that of conversations has summaries.

    Raises:
        StorageError: What is kept of the compaction is damaged.
    """
    begun, said = log.rounds(tx, at)
    newest = headers(tx, at, lane_of(role)) if log is message_log else []
    record = load(tx, at, newest[0].id) if newest else None
    rounds = role_rounds(assembled(begun, said), role, include_failures=include_failures)
    rows = {row.key: row.slot for row in (*begun, *said)}
    slots = {
        each.id: max(rows.get(key, 0) for key in (each.id, *(post.id for post in each.post_list))) for each in rounds
    }
    gone = set(record.dropped) if record else set()
    reach = record.slot or 0 if record else 0
    rest = [each for each in rounds if each.id not in gone or slots[each.id] > reach]
    return SeenRounds(rest, record, slots)


def keep_rounds(
    tx: Transaction,
    at: message_log.Address,
    role: str,
    seen: SeenRounds,
    going: Sequence[Round],
    summary: Summary,
    lease: Lease,
    *,
    now: int,
    tried: bool,
    saved: int,
) -> bool:
    """Keep the summary of rounds, if they are still what was summarized and nobody else was quicker.

    Args:
        tx: The transaction.
        at: The session.
        role: The role.
        seen: What it had when the summary was begun.
        going: The rounds that were summarized then.
        summary: The summary, which goes on from the one before.
        lease: The lease, which whoever writes must still hold.
        now: When, in microseconds since 1970.
        tried: Whether a model was asked.
        saved: By how many tokens the summary is shorter than what it stands for now.

    Returns:
        Whether it was kept.
    """
    found = message_log.locked(tx, at)
    if found is None or not lease.holds(tx):
        return False
    here = seen_by(tx, at, role)
    names = {each.id for each in going}
    same = [each for each in here.rest if each.id in names] == [*going]
    if not same or (here.record and here.record.id) != (seen.record and seen.record.id):
        return False
    before = seen.record.dropped if seen.record else ()
    new = [each.id for each in going if each.id not in set(before)]
    dropped = tuple(dict.fromkeys((*(key for key in before if key in here.slots), *new)))
    digest = _digest(going, seen.record)
    record = CompactionRecord(
        digest=digest,
        reached=(seen.record.reached if seen.record else 0) + len(new),
        items=(summary_message(summary, id=f"sum-{digest.hex()[:16]}"),),
        dropped=dropped,
        parent=seen.record.id if seen.record else None,
        provisional=summary.provisional,
        tried=tried,
        saved=saved + (seen.record.saved if seen.record else 0),
        slot=max((seen.record.slot or 0 if seen.record else 0, *(here.slots[each.id] for each in going))),
    )
    keep(tx, at, lane_of(role), record, now=now, anew=True)
    query.prune_compactions(tx, branch=found[0], lane=lane_of(role), limit=KEPT)
    return True


def lane_of(role: str) -> str:
    """The lane of a role's compactions.

    Raises:
        InvalidInput: It cannot be a role.
    """
    return f"role:{id_of(role, 'role')}"


def told(rounds: Sequence[Round], first: int, images: ImageFiles) -> list[BaseMessage]:
    """Rounds as messages for a model that summarizes them: every post, and all that goes with it.

    Args:
        rounds: The rounds.
        first: The number of the first one.
        images: Reads the image files that are attached.
    """
    messages: list[BaseMessage] = []
    for number, each in enumerate(rounds, first):
        messages.append(HumanMessage(f"--- Round {number} ---\nUser Query: {each.user_query}"))
        messages += [_told(post, images) for post in each.post_list]
    return messages


def _told(post: Post, images: ImageFiles) -> BaseMessage:
    text = f"{post.send_from} -> {post.send_to}: {post.message}"
    blocks: list[str | dict[Any, Any]] = [{"type": "text", "text": text}]
    for attachment in post.attachment_list:
        blocks += _blocks(attachment, images.of(post.id))
    return HumanMessage(blocks if len(blocks) > 1 else text, name=post.send_from)


def _blocks(attachment: Attachment, part_of: PartOf) -> Iterator[str | dict[Any, Any]]:
    kind = attachment.type.value
    if attachment.type is AttachmentType.image_url and attachment.content:
        yield {"type": "text", "text": f"[{kind}]"}
        yield part_of(attachment.content)
        return
    extra = attachment.to_dict().get("extra")
    more = f"\n{json.dumps(extra, ensure_ascii=False, default=str)}" if extra is not None else ""
    yield {"type": "text", "text": f"[{kind}] {attachment.content}{more}"}


def _summary_in(record: CompactionRecord) -> Summary:
    found = [summary for item in record.items if isinstance(item, BaseMessage) and (summary := summary_in(item))]
    return found[0] if found else Summary()


def _text(summary: Summary) -> str:
    """A summary's text; one that is nothing but prose has no headings."""
    bare = replace(summary, summary="")
    return sections(summary) if not bare.is_empty else summary.summary


def _digest(going: Sequence[Round], before: CompactionRecord | None) -> bytes:
    said = json.dumps([each.to_dict() for each in going], default=str)
    return blake2b((before.digest if before else b"") + said.encode(), digest_size=20).digest()
