"""How experiences are selected for one query: what the folder holds, how the session stands, what feedback says.

`Selecting.selecting` reads from top to bottom. What it notes on the side, tallies and logs of prompts, never fails it.

The situation is what the last rounds asked, and how that went, made of the rounds of a session or of messages:

    User: Load the sales of May.
    Execution: FAILURE
    Error: FileNotFoundError: sales.csv

What a model is asked is written to a file beside the log of the main prompt: for `planner_prompt_log_0_1.json` that is
`planner_experience_selection_log_0_1.json`, a list of messages, each with "role" and "content".
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from langchain_agentmem.base import concurrency
from langchain_agentmem.base.events import ExperienceSelectionFellBack, FirstFailures
from langchain_agentmem.base.files import path_of_file, whole_file
from langchain_agentmem.base.namespaces import path_of, range_of, resolve
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations.log_entries import role_rounds, shared_entries
from langchain_agentmem.conversations.session_memory import SessionMemory
from langchain_agentmem.errors import AgentMemoryError, InvalidInput
from langchain_agentmem.experiences import experience_part
from langchain_agentmem.experiences.experience import Experience, Folders
from langchain_agentmem.experiences.lexical_choice import UNSURE, judged
from langchain_agentmem.experiences.model_choice import AnswerReading, Selection, SelectionTemplate, Strategy, selected
from langchain_agentmem.language_models.model_calls import Ask, Do, Run, Work
from langchain_agentmem.messages.history_shape import is_said_by_user, role_of
from langchain_agentmem.messages.prompt_forms import last_said
from langchain_agentmem.messages.role_rounds import AttachmentType, Round
from langchain_agentmem.storage.queries import digest
from langchain_agentmem.tracing import brief

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


logger = logging.getLogger(__name__)

FEEDBACK = 0.25
"""How much of its score an experience gains or loses at most by what is said of its help."""
LONGEST_ANSWER = 100_000
"""Characters of a model's answer that are read."""
_DOUBT = 4
"""How many reports it takes until they count half."""
_REMEMBERED = 256
"""How many answers of a model are remembered."""
_CONTEXT = "\n\nConversation Context:\n"
SUB_PATH = "experience_sub_path"
"""The type of the shared entry by which a session names the folder of its experiences."""

Session: TypeAlias = SessionMemory | str | Callable[[RunnableConfig], SessionMemory]
PromptLog: TypeAlias = Path | Callable[[RunnableConfig], str | os.PathLike[str]]


class SelectionRequest(NamedTuple):
    """What is to be selected for.

    Attributes:
        query: The query; "" for what the session asked last.
        messages: The messages that it stands among.
        config: The run.
        context: The situation, if whoever asks tells it.
        log: Where it is noted what a model is asked, if whoever asks names it.
    """

    query: str
    messages: Sequence[BaseMessage]
    config: RunnableConfig
    context: str | None = None
    log: Path | None = None


@dataclass(kw_only=True, eq=False)
class Selecting:
    """Selects experiences. May be used from any thread.

    Attributes:
        folders: Where they are.
        namespace: Whose feedback counts; None for that of the run.
        role: Who asks; None for nobody in particular.
        strategy: How.
        model: Who is asked; None for "lexical".
        template: What it is asked.
        max_selected: Most that are chosen; None for all that apply.
        threshold: The score from which the words decide that one applies.
        timeout: Seconds to wait for the model; None for ever.
        session: Tells the situation and the sub folder.
        rounds: How many rounds the situation goes back.
        prompt_log: Where it is noted what a model is asked.
    """

    folders: Folders
    namespace: Sequence[str] | None
    role: str | None
    strategy: Strategy
    model: Any
    template: SelectionTemplate
    max_selected: int | None
    threshold: float
    timeout: float | None
    session: Session | None
    rounds: int
    prompt_log: PromptLog | None

    def __post_init__(self) -> None:
        self.database = self.folders.database
        self._texts = itertools.count()
        self._failures = FirstFailures(logger)
        self._known: dict[bytes, AnswerReading] = {}
        self._lock = concurrency.lock()  # guards what is known

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
        shelf = yield Do(partial(self.folders.look, below or None))
        candidates = [each for each in shelf.experiences if each.is_for(self.role)]
        nothing = Selection(
            query=query,
            role=self.role,
            candidates=tuple(each.exp_id for each in candidates),
            strategy=self.strategy,
        )
        if not query or not candidates:
            return nothing
        namespace = resolve(self.namespace, request.config)
        tallies = yield from self._tallies(namespace)
        context = self._situation(request, rounds)
        found = judged(query, context, [each.when for each in candidates])
        scores = {
            each.exp_id: weighed(said.score, tallies.get(each.exp_id))
            for each, said in zip(candidates, found, strict=True)
        }
        applies = {exp_id for exp_id, score in scores.items() if score >= self.threshold}
        reasons = {each.exp_id: said.reason for each, said in zip(candidates, found, strict=True)}
        open_ones = [each for each in candidates if self._is_open(scores[each.exp_id])]
        fell_back = ""
        if open_ones:
            messages = self._messages(query, context, open_ones)
            yield Do(partial(self._log, request, rounds, messages))
            reading = yield from self._asking(query, messages, [each.exp_id for each in open_ones])
            if isinstance(reading, str):
                fell_back = reading
            else:
                applies = (applies - {each.exp_id for each in open_ones}) | set(reading.chosen)
                reasons |= {each: reading.reasons.get(each, "the model chose it") for each in reading.chosen}
        chosen = sorted(
            (each for each in candidates if each.exp_id in applies),
            key=lambda each: (scores[each.exp_id], help_of(tallies.get(each.exp_id))),
            reverse=True,  # sorted keeps the order of the library among equals, also in reverse
        )[: self.max_selected]
        yield from self._counting(namespace, nothing.candidates, chosen)
        return replace(
            nothing,
            experiences=tuple(chosen),
            scores=scores,
            reasons={each.exp_id: reasons[each.exp_id] for each in chosen},
            asked=tuple(each.exp_id for each in open_ones),
            fell_back=fell_back,
        )

    def _is_open(self, score: float) -> bool:
        """Whether a model has to say if an experience applies."""
        low, high = UNSURE
        return self.strategy == "model" or (self.strategy == "auto" and low <= score < high)

    def _messages(self, query: str, context: str, candidates: Sequence[Experience]) -> list[BaseMessage]:
        """What a model is asked. Of the candidates it sees the conditions only."""
        shown = "\n\n".join(
            f"--- Experience {number} (ID: {each.exp_id}) ---\n{each.when.strip()}"
            for number, each in enumerate(candidates, 1)
        )
        context = f"{_CONTEXT}{context}" if context else ""
        system = self.template.fill(experiences=shown, user_query=query, context=context)
        return [SystemMessage(system), HumanMessage(f"Select relevant experiences for: {query}")]

    def _asking(self, query: str, messages: Sequence[BaseMessage], ids: list[str]) -> Work[AnswerReading | str]:
        """What a model chooses, or in a sentence why it was of no use, of which hooks are told."""
        key = digest("\x1f".join([*ids, *(str(each.content) for each in messages)]).encode("utf-8", "surrogatepass"))
        with self._lock:
            if (known := self._known.get(key)) is not None:
                return known
        failure, reason = None, "The model's answer says nothing that can be understood."
        try:
            answer = yield Ask(
                self.model,
                messages,
                "experience.choose",
                self.timeout,
                inputs=lambda: {"query": brief(query), "role": self.role, "exp_ids": ids},
            )
            reading = selected(str(answer)[:LONGEST_ANSWER], ids)
        except Exception as error:  # noqa: BLE001 - a model that fails must not end the run
            failure, reading, reason = error, None, f"The model failed: {type(error).__name__}."
        if reading is None:
            event = partial(ExperienceSelectionFellBack, role=self.role, query=query, reason=reason, error=failure)
            self.database.emit(event)
            return reason
        with self._lock:
            self._known[key] = reading
            if len(self._known) > _REMEMBERED:
                del self._known[next(iter(self._known))]
        return reading

    def _rounds_of(self, config: RunnableConfig) -> Work[list[Round]]:
        """The rounds of the session as the role sees them."""
        session = self.session
        if session is None:
            return []
        if isinstance(session, str):
            session = SessionMemory(self.database, session, namespace=resolve(self.namespace, config))
        elif not isinstance(session, SessionMemory):
            session = session(config)
            if not isinstance(session, SessionMemory):
                raise InvalidInput(f"session must give a SessionMemory, not {type(session).__name__}.")
        rounds = yield Do(session.to_conversation, session.ato_conversation)
        return list(rounds.rounds)

    def _situation(self, request: SelectionRequest, rounds: Sequence[Round]) -> str:
        if request.context is not None:
            return request.context
        if self.session is None:
            return of_messages(request.messages, self.rounds, request.query)
        seen = [each for each in rounds if each.state != "failed"]
        if self.role is not None:
            seen = role_rounds(rounds, self.role, include_failures=False)
        return of_rounds(seen, self.rounds)

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
        self, namespace: tuple[str, ...], candidates: Sequence[str], chosen: Sequence[Experience]
    ) -> Work[None]:
        ids = [each.exp_id for each in chosen]
        make = partial(experience_part.count, path_of(namespace), candidates, ids, now=self.database.now())
        try:
            yield Run("experience.count", make, write=True, shown=False)
        except AgentMemoryError as error:
            self._failures.report("counting", "Which experiences are chosen is not counted.", error=error)

    def _log_of(self, request: SelectionRequest, rounds: Sequence[Round]) -> Path | None:
        """Where it is to be noted what a model is asked."""
        if request.log is not None or self.prompt_log is None:
            return request.log
        if not isinstance(self.prompt_log, Path):
            return beside(path_of_file(self.prompt_log(request.config)))
        place = last_said(request.messages)
        if rounds:
            numbers = len(rounds) - 1, len(rounds[-1].post_list)
        elif place is not None and len(request.messages) > 1:
            said = sum(last_said([each]) == 0 for each in request.messages)
            numbers = said - 1, len(request.messages) - 1 - place
        else:
            numbers = next(self._texts), 0
        role = re.sub(r"[^\w-]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.role or "agent")).lower()
        return self.prompt_log / f"{role[:_LONGEST_NAME]}_{OURS}_{numbers[0]}_{numbers[1]}.json"

    def _log(self, request: SelectionRequest, rounds: Sequence[Round], messages: Sequence[BaseMessage]) -> None:
        """Write to a file what a model is asked, whole or not at all."""
        try:
            if (path := self._log_of(request, rounds)) is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                with whole_file(path) as file:
                    told = [{"role": role_of(each), "content": str(each.content)} for each in messages]
                    json.dump(told, file, indent=2)
        except Exception as error:  # noqa: BLE001 - what is noted on the side never fails a selection
            self._failures.report("log", "What a model is asked cannot be logged.", error=error)


def help_of(tally: experience_part.Tally | None) -> float:
    """How much an experience is said to help, from -1 to 1: the more reports there are, the more they count."""
    if tally is None:
        return 0.0
    return (tally.helped - tally.not_helped) / (tally.helped + tally.not_helped + _DOUBT)


def weighed(score: float, tally: experience_part.Tally | None) -> float:
    """A score with feedback in it, from 0 to 1."""
    return min(1.0, score * (1 + FEEDBACK * help_of(tally)))


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
