"""What a model was asked when it selected experiences, as a file beside the log of the main prompt (document 000).

Beside `planner_prompt_log_0_1.json` stands `planner_experience_selection_log_0_1.json`: a list of messages, each with
"role" and "content".
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from langchain_core.messages import BaseMessage

from langchain_agentmem.base.files import whole_file
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.messages.history_shape import role_of

MAIN, OURS = "prompt_log", "experience_selection_log"
_LONGEST_NAME = 60


def beside(main: Path) -> Path:
    """The log of a selection, beside that of the main prompt.

    Args:
        main: The main prompt's: its name has "prompt_log" in it.

    Raises:
        InvalidInput: It has not, and so would be overwritten.
    """
    if MAIN not in main.name or OURS in main.name:
        raise InvalidInput(
            f"The log of a prompt is a file with {safe_repr(MAIN)} in its name, not {safe_repr(main.name)}."
        )
    return main.with_name(main.name.replace(MAIN, OURS))


def within(folder: Path, role: str | None, round_number: int, post_number: int) -> Path:
    """The log of a selection in the folder of a session.

    Args:
        folder: The folder.
        role: Who asks; None for nobody in particular.
        round_number: Which round it is, from 0.
        post_number: How many posts the round has.
    """
    named = re.sub(r"[^\w-]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", role or "agent")).lower()[:_LONGEST_NAME]
    return folder / f"{named}_{OURS}_{round_number}_{post_number}.json"


def dump_prompt_file(messages: Sequence[BaseMessage], path: Path) -> None:
    """Write messages to a file, whole or not at all.

    Args:
        messages: What a model is asked.
        path: Where to. A file that is there is replaced.

    Raises:
        InvalidInput: The file cannot be written.
    """
    told = [{"role": role_of(each), "content": str(each.content)} for each in messages]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"The folder of {safe_repr(str(path))} cannot be made: {error}.") from error
    with whole_file(path) as file:
        json.dump(told, file, indent=2)
