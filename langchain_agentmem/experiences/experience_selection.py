"""How experiences are selected for one query: what the folder holds, how the session stands, what feedback says.

What a selection notes on the side, tallies and logs of prompts, never fails it.

The situation in which experiences are selected: what the last rounds asked, and how that went (document 000).

    User: Load the sales of May.
    Execution: FAILURE
    Error: FileNotFoundError: sales.csv

It is made of the rounds of a session, or of messages.

What a model was asked when it selected experiences, as a file beside the log of the main prompt (document 000).

Beside `planner_prompt_log_0_1.json` stands `planner_experience_selection_log_0_1.json`: a list of messages, each with
"role" and "content".
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from langchain_agentmem.base.events import ExperienceSelectionFellBack, FirstFailures
from langchain_agentmem.base.files import path_of_file, whole_file
from langchain_agentmem.base.namespaces import path_of, range_of, resolve
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations.log_entries import role_rounds, shared_entries
from langchain_agentmem.conversations.session_memory import SessionMemory
from langchain_agentmem.errors import AgentMemoryError, InvalidInput
from langchain_agentmem.experiences import experience_part
from langchain_agentmem.experiences.experience import Experience, Folders
from langchain_agentmem.experiences.model_choice import ChoiceFailure, Chooser, Selection, WantedAnswer
from langchain_agentmem.language_models.model_calls import Do, Run, Work
from langchain_agentmem.messages.history_shape import is_said_by_user, role_of
from langchain_agentmem.messages.prompt_forms import last_said
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


logger = logging.getLogger(__name__)

SUB_PATH = "experience_sub_path"
"""The type of the shared entry by which a session names the folder of its experiences (document 000)."""

Session: TypeAlias = SessionMemory | str | Callable[[RunnableConfig], SessionMemory]
PromptLog: TypeAlias = Path | Callable[[RunnableConfig], str | os.PathLike[str]]


class SelectionRequest(NamedTuple):
    """What is to be selected for.

    Attributes:
        query: The query; "" for what the session asked last.
        messages: The messages that it stands among.
        config: The run.
        context: The situation, if whoever asks tells it.
        main_log: The log of the main prompt, if whoever asks names it.
    """

    query: str
    messages: Sequence[BaseMessage]
    config: RunnableConfig
    context: str | None = None
    main_log: Path | None = None


class Selecting:
    """Selects experiences. May be used from any thread.

    Args:
        folders: Where they are.
        namespace: Whose feedback counts; None for that of the run.
        role: Who asks; None for nobody in particular.
        chooser: Who chooses.
        session: Tells the situation and the sub folder.
        rounds: How many rounds the situation goes back.
        prompt_log: Where it is noted what a model is asked.
    """

    def __init__(
        self,
        folders: Folders,
        *,
        namespace: Sequence[str] | None,
        role: str | None,
        chooser: Chooser,
        session: Session | None,
        rounds: int,
        prompt_log: PromptLog | None,
    ) -> None:
        self.database = folders.database
        self._folders = folders
        self._namespace = namespace
        self._role = role
        self._chooser = chooser
        self._session = session
        self._rounds = rounds
        self._prompt_log = prompt_log
        self._texts = itertools.count()
        self._failures = FirstFailures(logger)

    def selecting(self, request: SelectionRequest) -> Work[Selection]:
        """Select.

        Args:
            request: For what.

        Raises:
            InvalidInput: The session names a folder that is not within the library, or cannot be read here.
        """
        rounds = yield from self._rounds_of(request.config)
        query = request.query.strip() or (rounds[-1].user_query.strip() if rounds else "")
        named = shared_entries(rounds, SUB_PATH)
        below = named[0].content.strip() if named else ""
        shelf = yield Do(partial(self._folders.look, below or None))
        candidates = [each for each in shelf.experiences if each.is_for(self._role)]
        if not query or not candidates:
            return Selection(
                query=query,
                role=self._role,
                candidates=tuple(each.exp_id for each in candidates),
                strategy=self._chooser.strategy,
            )
        namespace = resolve(self._namespace, request.config)
        wanted = WantedAnswer(query, self._role, self._situation(request, rounds))
        selection = yield from self._chooser.choosing(
            wanted,
            candidates,
            (yield from self._tallies(namespace)),
            log=partial(self._logging, self._log_of(request, rounds)),
            failed=partial(self._fell_back, wanted),
        )
        yield from self._counting(namespace, candidates, selection)
        return selection

    def _rounds_of(self, config: RunnableConfig) -> Work[list[Round]]:
        """The rounds of the session as the role sees them."""
        session = self._session
        if session is None:
            return []
        if isinstance(session, str):
            session = SessionMemory(self.database, session, namespace=resolve(self._namespace, config))
        elif not isinstance(session, SessionMemory):
            session = session(config)
            if not isinstance(session, SessionMemory):
                raise InvalidInput(f"session must give a SessionMemory, not {type(session).__name__}.")
        rounds = yield Do(session.to_conversation, session.ato_conversation)
        return list(rounds.rounds)

    def _situation(self, request: SelectionRequest, rounds: Sequence[Round]) -> str:
        if request.context is not None:
            return request.context
        if self._session is None:
            return of_messages(request.messages, self._rounds, request.query)
        seen = [each for each in rounds if each.state != "failed"]
        if self._role is not None:
            seen = role_rounds(rounds, self._role, include_failures=False)
        return of_rounds(seen, self._rounds)

    def _tallies(self, namespace: tuple[str, ...]) -> Work[Mapping[str, experience_part.Tally]]:
        tallies: Mapping[str, experience_part.Tally] = {}
        try:
            tallies = yield Run(
                "experience.tallies", partial(experience_part.counts, *range_of(namespace)), shown=False
            )
        except AgentMemoryError as error:
            self._failures.report("tallies", "Experiences are selected without feedback.", error=error)
        return tallies

    def _counting(
        self, namespace: tuple[str, ...], candidates: Sequence[Experience], selection: Selection
    ) -> Work[None]:
        ids = [each.exp_id for each in candidates]
        make = partial(experience_part.count, path_of(namespace), ids, selection.ids, now=self.database.now())
        try:
            yield Run("experience.count", make, write=True, shown=False)
        except AgentMemoryError as error:
            self._failures.report("counting", "Which experiences are chosen is not counted.", error=error)

    def _fell_back(self, wanted: WantedAnswer, failure: ChoiceFailure) -> None:
        self.database.emit(
            partial(
                ExperienceSelectionFellBack,
                role=wanted.role,
                query=wanted.query,
                reason=failure.reason,
                error=failure.error,
            )
        )

    def _log_of(self, request: SelectionRequest, rounds: Sequence[Round]) -> Path | None:
        """Where it is to be noted what a model is asked."""
        if request.main_log is not None:
            return beside(request.main_log)
        if self._prompt_log is None:
            return None
        if not isinstance(self._prompt_log, Path):
            try:
                return beside(path_of_file(self._prompt_log(request.config)))
            except Exception as error:  # noqa: BLE001 - what is noted on the side never fails a selection
                self._failures.report("log", "What a model is asked cannot be logged.", error=error)
                return None
        place = last_said(request.messages)
        if rounds:
            numbers = len(rounds) - 1, len(rounds[-1].post_list)
        elif place is not None and len(request.messages) > 1:
            said = sum(last_said([each]) == 0 for each in request.messages)
            numbers = said - 1, len(request.messages) - 1 - place
        else:
            numbers = next(self._texts), 0
        return within(self._prompt_log, self._role, *numbers)

    def _logging(self, path: Path | None, messages: Sequence[BaseMessage]) -> Work[None]:
        if path is None:
            return
        try:
            yield Do(partial(dump_prompt_file, messages, path))
        except AgentMemoryError as error:
            self._failures.report("log", "What a model is asked cannot be logged.", error=error)


def shown(selection: Selection) -> dict[str, Any]:
    """A selection as a trace shows it."""
    scores = {exp_id: round(score, 3) for exp_id, score in selection.scores.items()}
    return {
        "chosen": [
            {"exp_id": exp_id, "score": scores[exp_id], "reason": selection.reasons[exp_id]} for exp_id in selection.ids
        ],
        "candidates": [{"exp_id": exp_id, "score": scores.get(exp_id)} for exp_id in selection.candidates],
        "asked_ids": selection.asked,
        "strategy": selection.strategy,
        **({"fell_back": selection.fell_back} if selection.fell_back else {}),
    }
