"""What was recalled, as it stands in a prompt: between two marks, escaped, so that it is data and stays data.

Anybody may have written what a memory holds, so it must not pass for the user's words or for instructions.
Every character that could end the fence or begin another is escaped, and `unfence` gives back exactly what
`fence` was given.

    <memory>
    <recollection speaker="Maya" said="2024-03-02">I planted two quince trees.</recollection>
    </memory>
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import NamedTuple

from langchain_agentmem.search.memory_search import Recollection

OPEN, CLOSE = "<memory>", "</memory>"

_PASSAGE = re.compile(r'<recollection speaker="([^"]*)" said="([^"]*)">([^<]*)</recollection>')


class Passage(NamedTuple):
    """One thing that was said.

    Attributes:
        speaker: Who said it.
        said: When, as a date.
        text: What was said.
    """

    speaker: str
    said: str
    text: str


def passage(found: Recollection) -> Passage:
    """What a prompt shows of a recollection.

    Args:
        found: The recollection.
    """
    return Passage(speaker_of(found), f"{found.created_at:%Y-%m-%d}", found.text)


def speaker_of(found: Recollection) -> str:
    """Who said it: the message's name, else its role.

    Args:
        found: The recollection.
    """
    return str(found.value.name or found.value.role)


def fence(passages: Iterable[Passage]) -> str:
    """Write passages as a block of data.

    Args:
        passages: In the order in which the model is to read them.
    """
    lines = [
        '<recollection speaker="{}" said="{}">{}</recollection>'.format(*map(html.escape, each)) for each in passages
    ]
    return "\n".join([OPEN, *lines, CLOSE])


def unfence(block: str) -> list[Passage]:
    """Read the passages of a block that `fence` wrote.

    Args:
        block: The block; any other text gives no passages.
    """
    if not (block.startswith(OPEN) and block.endswith(CLOSE)):
        return []
    return [Passage(*map(_unescape, each)) for each in _PASSAGE.findall(block)]


def _unescape(text: str) -> str:
    """Undo `html.escape`, and nothing else: `html.unescape` would also read references that it never writes."""
    for escaped, plain in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#x27;", "'"), ("&amp;", "&")):
        text = text.replace(escaped, plain)
    return text
