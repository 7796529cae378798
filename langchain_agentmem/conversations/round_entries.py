"""Rounds and posts, made of what the log holds (document 000)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain_agentmem.base import encoding
from langchain_agentmem.conversations import message_log
from langchain_agentmem.messages import decode_body
from langchain_agentmem.messages.role_rounds import Attachment, AttachmentType, Post, Round, SharedMemoryEntry

USER, ASSISTANT = "User", "Assistant"

TEMPORAL_START, TEMPORAL_END = "{{DELIMITER_START_TEMPORAL}}", "{{DELIMITER_END_TEMPORAL}}"
_TEMPORAL = re.compile(re.escape(TEMPORAL_START) + ".*?" + re.escape(TEMPORAL_END), re.DOTALL)


def temporal(text: str) -> str:
    """Mark text that only the round it is said in should show (document 000).

    `get_role_rounds` leaves it out of all rounds but the last. Marks are obeyed in posts of agents only: what a
    user writes is never cut.
    """
    return f"{TEMPORAL_START}{text}{TEMPORAL_END}"


def assembled(rounds: Sequence[message_log.Stored], messages: Sequence[message_log.Stored]) -> list[Round]:
    """Rounds with their posts. Messages that belong to no round make rounds of their own, one for each question.

    Args:
        rounds: The rounds of a conversation.
        messages: Its messages.
    """
    made: dict[str, Round] = {}
    began: dict[str, tuple[int, int]] = {}
    posts: dict[str, list[Post]] = {}
    for order, row in enumerate(rounds):
        fields = encoding.decode(row.body)
        made[row.key] = Round.create(fields["user_query"], id=row.key, state=fields["state"])
        began[row.key] = (row.slot, order)
    loose = ""
    for order, row in enumerate(messages):
        if row.kind == message_log.DESCRIPTION:
            continue
        post = _as_post(row)
        if row.round_key in made:
            posts.setdefault(row.round_key, []).append(post)
            continue
        asks = row.role == "user"  # by whatever name the user goes
        if not loose or asks:
            loose = f"round-{row.key}"
            query = post.message if asks else ""
            made[loose] = Round.create(query, id=loose, state="created" if asks else "finished")
            began[loose] = (row.slot, order)
        elif made[loose].state == "created":
            made[loose] = Round.create(made[loose].user_query, id=loose, state="finished")  # it has an answer
        posts.setdefault(loose, []).append(post)
    in_order = sorted(made, key=began.__getitem__)
    return [made[key].with_post(*posts.get(key, ())) for key in in_order]


def _as_post(row: message_log.Stored) -> Post:
    message = decode_body(row.body, row.key)
    is_user = message.role == "user"
    attachments = () if row.attachments is None else encoding.decode(row.attachments)
    kept = [value for each in attachments if (value := Attachment.from_dict(each)) is not None]
    return Post.create(
        message.text,
        message.name or (USER if is_user else ASSISTANT),
        row.recipient or (ASSISTANT if is_user else USER),
        id=row.key,
    ).with_attachment(*kept)


def role_rounds(rounds: Sequence[Round], role: str, *, include_failures: bool) -> list[Round]:
    """The rounds as one role sees them, see `SessionMemory.get_role_rounds`."""
    kept = [each for each in rounds if include_failures or each.state != "failed"]
    return [
        Round.create(each.user_query, id=each.id, state=each.state).with_post(
            *(
                _without_marks(post, keep_text=each is kept[-1])
                for post in each.post_list
                if role in (post.send_from, post.send_to)
            )
        )
        for each in kept
    ]


def shared_entries(rounds: Sequence[Round], entry_type: str) -> list[SharedMemoryEntry]:
    """What roles share in these rounds under one type, see `SessionMemory.get_shared_memory_entries`."""
    newest: dict[str, SharedMemoryEntry] = {}
    for each in rounds:
        for post in each.post_list:
            for attachment in post.get_attachment(AttachmentType.shared_memory_entry):
                entry = attachment.extra
                if not isinstance(entry, SharedMemoryEntry) or entry.type != entry_type:
                    continue
                if entry.scope == "conversation" or each is rounds[-1]:
                    newest.pop(post.send_from, None)  # a newer entry also moves to the end
                    newest[post.send_from] = entry
    return list(newest.values())


def _without_marks(post: Post, *, keep_text: bool) -> Post:
    if post.send_from == USER or TEMPORAL_START not in post.message:
        return post
    text = post.message
    text = text.replace(TEMPORAL_START, "").replace(TEMPORAL_END, "") if keep_text else _TEMPORAL.sub("", text)
    return Post.create(text, post.send_from, post.send_to, id=post.id).with_attachment(*post.attachment_list)
