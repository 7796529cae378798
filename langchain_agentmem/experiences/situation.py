"""The situation in which experiences are selected: what the last rounds asked, and how that went (document 000).

    User: Load the sales of May.
    Execution: FAILURE
    Error: FileNotFoundError: sales.csv

It is made of the rounds of a session, or of messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import BaseMessage, ToolMessage

from langchain_agentmem.messages.history_shape import is_said_by_user
from langchain_agentmem.messages.role_rounds import AttachmentType, Round

LONGEST_LINE = 1_000
"""Characters that are shown of a query, a status or an error: of an error its end, where it says what went wrong."""

_TOLD = {AttachmentType.execution_status: "Execution", AttachmentType.code_error: "Error"}


def of_rounds(rounds: Sequence[Round], most: int) -> str:
    """The situation after some rounds.

    Args:
        rounds: The rounds as a role sees them.
        most: How many count, from the end.
    """
    lines = []
    for each in rounds[-most:] if most else ():
        lines.append(_line("User", each.user_query))
        lines += [
            _line(_TOLD[attachment.type], attachment.content)
            for post in each.post_list
            for attachment in post.attachment_list
            if attachment.type in _TOLD
        ]
    return "\n".join(filter(None, lines))


def of_messages(messages: Sequence[BaseMessage], most: int, query: str) -> str:
    """The situation after some messages: what a user said begins a round, and tools tell what failed.

    What went well changes nothing, so that a model that selects need not be asked again after each call of a tool.

    Args:
        messages: A history.
        most: How many rounds count, from the end.
        query: What is asked now, which alone is no situation.
    """
    starts = [place for place, message in enumerate(messages) if is_said_by_user(message)][-most:] if most else []
    lines = []
    for message in messages[starts[0] :] if starts else ():
        if isinstance(message, ToolMessage) and message.status == "error":
            lines += [_line("Execution", "FAILURE"), _line("Error", str(message.text))]
        elif is_said_by_user(message):
            lines.append(_line("User", str(message.text)))
    return "" if lines == [_line("User", query)] else "\n".join(filter(None, lines))


def _line(name: str, text: str) -> str:
    text = " ".join(text.split())
    cut = text[-LONGEST_LINE:] if name == "Error" else text[:LONGEST_LINE]
    return f"{name}: {cut}" if cut else ""
