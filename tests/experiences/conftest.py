"""A folder of experiences, an in-memory database and models with scripted answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from langchain_agentmem import AgentMemory, Experience, ExperienceLibrary
from tests.support.models import ScriptedModel

FILES = Experience(
    "files",
    ["CodeInterpreter"],
    "Use when the user asks for a file operation, or FileNotFoundError occurred.",
    "Check os.path.exists() before a file is read.",
)
CHARTS = Experience("charts", ["Planner"], "Use when a chart or plot is wanted.", "Label both axes of every chart.")
REFUNDS = Experience("refunds", [], "Use when a customer wants a refund.", "Never promise a refund: open a ticket.")

TEXTS = yaml.safe_load(Path(__file__).with_name("texts.yaml").read_text("utf-8"))
"""Cases of tests that are only texts."""
PLOT, LOAD, WEATHER = "Draw a chart or plot of the sales.", "Do a file operation: load sales.csv", "How do bees sleep?"


class ExperienceFiles:
    """A folder, and the files that a test puts into it."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.path = path

    def put(self, name: str, text: str | bytes) -> Path:
        """Write a file, whatever it is called, with exactly this in it."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    def write(self, *experiences: Experience, below: str = "") -> None:
        """Write experiences, each to the file that is called after it."""
        for each in experiences:
            self.put(f"{below}handcrafted_exp_{each.exp_id}.yaml", each.to_yaml())


def ids_in(messages: Any) -> list[str]:
    """Return the ids of the experiences that a model is shown."""
    return re.findall(r"--- Experience \d+ \(ID: (.*)\) ---", messages[0].text)


class SelectingModel(ScriptedModel):
    """A model that selects by a table from id to answer, or says what it is told to."""

    answers: Any = None

    def __init__(self, answers: Any = None, **fields: Any) -> None:
        super().__init__(answers=answers, **fields)

    @property
    def shown(self) -> list[str]:
        """The ids that it was shown the last time."""
        return ids_in(self.asked[-1])

    def reply(self, messages: Any) -> Any:
        """Select."""
        said = self.answers(messages) if callable(self.answers) else self.answers
        if not isinstance(said, str | BaseException):
            said = json.dumps({name: name in (said or ()) for name in ids_in(messages)})
        self.replies = [said]
        return super().reply(messages)


@pytest.fixture
def shelf(tmp_path: Path) -> ExperienceFiles:
    """An empty folder."""
    return ExperienceFiles(tmp_path / "experience")


@pytest.fixture
def filled(shelf: ExperienceFiles) -> ExperienceFiles:
    """A folder with three experiences."""
    shelf.write(FILES, CHARTS, REFUNDS)
    return shelf


@pytest.fixture
def events() -> list[Any]:
    """What `quick` has told its hooks."""
    return []


@pytest.fixture
def in_memory(events: list[Any]) -> Iterator[AgentMemory]:
    """A memory in memory, for what has nothing to do with engines."""
    with AgentMemory(":memory:", hooks=[events.append]) as memory:
        yield memory


@pytest.fixture
def library(in_memory: AgentMemory, filled: ExperienceFiles) -> ExperienceLibrary:
    """The three experiences, with a memory in memory."""
    return in_memory.experiences(filled.path)
