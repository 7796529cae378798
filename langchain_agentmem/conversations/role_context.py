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

from langchain_agentmem.base.namespaces import ThreadKey, id_of
from langchain_agentmem.base.options import Options
from langchain_agentmem.conversations import message_log
from langchain_agentmem.conversations.compaction_records import CompactionRecord, headers, load
from langchain_agentmem.conversations.log_entries import assembled, role_rounds
from langchain_agentmem.messages.message_marks import Summary, sections, summary_in, summary_message
from langchain_agentmem.messages.provider_content import ImageFiles, PartOf
from langchain_agentmem.messages.role_rounds import Attachment, AttachmentType, PortableModel, Post, Round
from langchain_agentmem.storage import Transaction

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
        if self.record is None:
            return None
        items = (item for item in self.record.items if isinstance(item, BaseMessage))
        return next(filter(None, map(summary_in, items)), Summary())

    @property
    def compacted(self) -> CompactedMessage | None:
        """The summary of the others, as a caller is given it."""
        if self.record is None or (summary := self.summary) is None:
            return None
        is_prose = replace(summary, summary="").is_empty  # which has no headings
        back = {each.id for each in self.rest}
        return CompactedMessage(
            end_index=self.record.reached,
            summary=summary.summary if is_prose else sections(summary),
            round_ids=tuple(key for key in self.record.dropped if key not in back),
        )

    def record_with(self, going: Sequence[Round], summary: Summary, *, tried: bool, saved: int) -> CompactionRecord:
        """Return the compaction in which a summary also stands for some of the rounds that no summary stands for.

        Args:
            going: The rounds.
            summary: The summary, which goes on from the one before.
            tried: Whether a model was there to ask.
            saved: By how many tokens the summary is shorter than what it stands for now.
        """
        before = self.record or CompactionRecord(digest=b"", reached=0, items=())
        told = json.dumps([each.to_dict() for each in going], default=str)
        digest = blake2b(before.digest + told.encode(), digest_size=20).digest()
        new = [each.id for each in going if each.id not in before.dropped]
        return CompactionRecord(
            digest=digest,
            reached=before.reached + len(new),
            items=(summary_message(summary, id=f"sum-{digest.hex()[:16]}"),),
            dropped=(*(key for key in before.dropped if key in self.slots), *new),
            parent=before.id or None,
            provisional=summary.provisional,
            tried=tried,
            saved=saved + before.saved,
            slot=max(before.slot or 0, *(self.slots[each.id] for each in going)),
        )

    def due(self, config: CompactorConfig) -> list[Round]:
        """The rounds that are to be summarized now; none as long as there are few."""
        if not config.enabled or len(self.rest) < config.threshold:
            return []
        return self.rest[: len(self.rest) - config.retain_recent]


def seen_by(tx: Transaction, at: ThreadKey, role: str, *, include_failures: bool = False) -> SeenRounds:
    """What a role has of a session.

    Args:
        tx: The transaction.
        at: The session.
        role: The role.
        include_failures: Whether failed rounds are there. Default: no.

    Raises:
        StorageError: What is kept of the compaction is damaged.
    """
    begun, said = message_log.rounds(tx, at)
    newest = headers(tx, at, lane_of(role))
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
