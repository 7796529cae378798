"""What chosen experiences say, as a section of a prompt that nothing in them can leave.

    These instructions hold for what is asked now.
    <experiences>
    <experience id="file-validation">
    Check that the file exists before it is read.
    </experience>
    </experiences>

It stands in the system's role, since handcrafted experiences are instructions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from langchain_core.messages import BaseMessage

from langchain_agentmem.base.fencing import fenced, harmless
from langchain_agentmem.experiences.experience import Experience
from langchain_agentmem.messages.history_shape import role_of
from langchain_agentmem.messages.injected import block, injected, is_injected

PART: Final = "experiences"


def section(experiences: Iterable[Experience]) -> str:
    """The instructions of experiences as a section of a prompt; "" where there are none.

    Only what they say is shown, not when it applies. What could end the section, or a message, is escaped.

    Args:
        experiences: Those that were chosen, the most important first.
    """
    text = told(experiences)
    return block(PART, text) if text else ""


def with_section(messages: Sequence[BaseMessage], experiences: Iterable[Experience]) -> list[BaseMessage]:
    """Messages with such a section behind the system messages at their beginning, in the place of one from before.

    Args:
        messages: A context. It is not changed.
        experiences: Those that were chosen.
    """
    said = [message for message in messages if not is_injected(message, PART)]
    text = told(experiences)
    start = next((place for place, each in enumerate(said) if role_of(each) != "system"), len(said))
    return [*said[:start], injected(PART, text, "system"), *said[start:]] if text else said


def told(experiences: Iterable[Experience]) -> str:
    """What experiences say, each in a fence of its own, without what stands around them all.

    Args:
        experiences: Those that were chosen.
    """
    return "\n".join(fenced("experience", harmless(each.what.strip()), id=each.exp_id) for each in experiences)
