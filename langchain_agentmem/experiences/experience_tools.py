"""Tools by which an agent proposes an experience, and says whether one helped.

    agent = create_agent(model, tools=library.tools(), middleware=[ExperienceMiddleware(library)])

What it proposes is a file that a person has to review (`proposing.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool
from pydantic import Field

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.experiences.drafting import Draft
from langchain_agentmem.experiences.experience_proposals import FOLDER, LONGEST
from langchain_agentmem.language_models.binding import Whose
from langchain_agentmem.language_models.tool_arguments import Arguments, Text, Texts
from langchain_agentmem.language_models.tool_calling import Call, Calls
from langchain_agentmem.language_models.tool_factory import Operation, chosen, tool_of
from langchain_agentmem.language_models.tool_results import passage

_SHOWN = 200
"""How much of a name a sentence shows, in characters."""


class ExperiencePropose(Arguments):
    """An experience."""

    when: Text = Field(
        min_length=1,
        max_length=LONGEST,
        description='When it applies: "Use when …", in words that users say, errors by their names.',
    )
    what: Text = Field(
        min_length=1, max_length=LONGEST, description="What to do then, in a few sentences; understandable by itself."
    )
    who: Texts | None = Field(default=None, description="The roles it is for. Leave out for everybody.")
    exp_id: Text | None = Field(
        default=None, description="A short name such as check-file-first. Leave out to have one made."
    )


class ExperienceFeedback(Arguments):
    """Whether an experience helped."""

    exp_id: Text = Field(description="The id of the experience, as it stands beside its instruction.")
    helped: bool = Field(description="Whether following it helped.")
    note: Text = Field(default="", max_length=LONGEST, description="Why, in a sentence.")


def experience_tools(library: Any, include: Iterable[str] | None = None) -> list[BaseTool]:
    """The tools `experience_propose` and `experience_feedback`.

    Args:
        library: An `ExperienceLibrary`.
        include: The names of those that are wanted, in this order. Default: both.

    Raises:
        InvalidInput: There is no such tool.
    """
    whose = Whose(type(library), "experiences", library)
    return chosen([tool_of(operation, whose) for operation in OPERATIONS], include)


def _propose(library: Any, given: ExperiencePropose) -> Calls[str]:
    named = {"exp_id": (given.exp_id or "").strip() or None, "who": given.who or ()}
    path: Path = yield Call(library, "propose", (Draft(given.when, given.what),), named)
    return f"It is proposed, in {safe_repr(f'{FOLDER}/{path.name}')}. It is not in use until a person has reviewed it."


def _feedback(library: Any, given: ExperienceFeedback) -> Calls[str]:
    yield Call(library, "feedback", (given.exp_id.strip(), given.helped, given.note))
    verdict = "helped" if given.helped else "did not help"
    return f"It is noted that {safe_repr(passage(given.exp_id.strip(), most=_SHOWN))} {verdict}."


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="experience_propose",
        about=(
            "Propose an instruction for situations like this one, so that the next time goes well from the beginning: "
            "after the user corrected you, or when something failed and something else worked. A person reviews it "
            "before it counts."
        ),
        arguments=ExperiencePropose,
        do=_propose,
        adds=True,
    ),
    Operation(
        name="experience_feedback",
        about="Say whether an instruction that you were given as an experience helped. It is then given more or less.",
        arguments=ExperienceFeedback,
        do=_feedback,
        adds=True,
    ),
)
"""What a model can do with experiences."""
