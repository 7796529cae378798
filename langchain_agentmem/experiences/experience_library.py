r"""`ExperienceLibrary`: a folder of handcrafted experiences.

    library = memory.experiences("experience")
    chain = library.selector(role="Planner") | prompt | model

An experience states *when* it applies and *what* to do then, in a YAML file that people write, review and edit. Every
selection reads the current files of the folder.

    from pathlib import Path

    from langchain_core.prompts import ChatPromptTemplate

    from langchain_agentmem import AgentMemory

    Path("experience").mkdir(exist_ok=True)
    Path("experience/handcrafted_exp_files.yaml").write_text('''
    exp_id: file-validation
    who: [CodeInterpreter]
    when: Use when files are read or written, or a FileNotFoundError occurred.
    what: Check that the file exists before you open it.
    ''')

    with AgentMemory("agent.db") as memory:
        library = memory.experiences("experience")
        assert library.validate().ok  # `problems` has the reason for each unusable file; the others are loaded
        selector = library.selector(role="CodeInterpreter")  # with model=…, a model chooses; it sees no instructions
        prompt = ChatPromptTemplate([("system", "You write Python.\n{experiences}"), ("user", "{question}")])
        print((selector | prompt).invoke({"question": "Read sales.csv and write the totals to a file."}).to_string())
        print(selector.select("What is the capital of Peru?").ids)  # no experience applies

Without a model, experiences are chosen by the words of their conditions (`strategy="lexical"`). A model chooses more
accurately. `strategy="auto"` asks a model only about experiences for which the words are not decisive. If a model
fails or its answer cannot be parsed, the choice by words applies, and hooks receive an event.

`ExperienceSelector` puts the instructions of the experiences that apply to a query into its prompt:

    selector = memory.experiences("experience").selector(role="Planner", model=model)

    chain = selector | prompt | model              # a prompt with the variable {experiences}
    builder.add_node("experience", selector)       # a state with the key "experiences" or "llm_input_messages"

`selector.select(query).section` returns only the text. The selector is also a LangChain `BaseExampleSelector`, for
few-shot prompts. Roles, rounds, posts and attachments are those of the agent framework TaskWeaver.

The context of a selection contains the questions of the last rounds and the errors that followed. It is read from the
rounds of a session or from messages:

    User: Load the sales of May.
    Execution: FAILURE
    Error: FileNotFoundError: sales.csv

With `prompt_log_path`, the path of the main prompt's log, the prompt of a selection is written to a file next to it:
for `planner_prompt_log_0_1.json`, to `planner_experience_selection_log_0_1.json`. The file contains a list of messages,
each with "role" and "content". If it cannot be written, the selection continues.
"""

from __future__ import annotations

import itertools
import json
import logging
import math
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias, TypedDict, Unpack

from annotated_types import Ge
from langchain_core.example_selectors import BaseExampleSelector
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

from langchain_agentmem.base.argument_checks import check_flag, check_timeout, check_value
from langchain_agentmem.base.concurrency import awaited, check_cancelled, run_in_worker
from langchain_agentmem.base.events import ExperienceSelectionFellBack
from langchain_agentmem.base.files import check_path, write_atomically
from langchain_agentmem.base.hooks import FirstFailures
from langchain_agentmem.base.namespaces import check_config
from langchain_agentmem.conversations import prompt_notes
from langchain_agentmem.conversations.log_entries import find_shared_entries, select_rounds
from langchain_agentmem.conversations.prompt_notes import PromptNoteItem
from langchain_agentmem.conversations.session_memory import SessionMemory
from langchain_agentmem.errors import InvalidInput, is_graph_bubble_up, safe_repr
from langchain_agentmem.experiences import experience as experience_files
from langchain_agentmem.experiences import model_choice
from langchain_agentmem.experiences.experience import PROMPT_PART, Experience, LibraryCheck, format_instructions
from langchain_agentmem.experiences.lexical_choice import THRESHOLD, UNSURE_RANGE, mark_best, score_conditions
from langchain_agentmem.experiences.model_choice import Selection, SelectionTemplate, Strategy
from langchain_agentmem.language_models.model_calls import ModelLike, ask_model, usable_model
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.messages.history_repair import is_from_user, role_of
from langchain_agentmem.messages.message_marks import is_injected
from langchain_agentmem.messages.prompt_forms import MemoryRunnable, insert_texts, question_of, read_form
from langchain_agentmem.messages.role_rounds import AttachmentType, Round
from langchain_agentmem.storage.database import Database, MemoryLike, database_of
from langchain_agentmem.storage.queries import digest
from langchain_agentmem.tracing import shorten_text

logger = logging.getLogger(__name__)

SELECTION_PROMPT, MODEL_ALIAS = "experience.selection_prompt_path", "experience.llm_alias"
"""Keys of a configuration of TaskWeaver."""
ROUNDS = 3
"""The maximum number of past rounds that a selection reads, as in TaskWeaver."""
_CACHE_SIZE = 256
"""The maximum number of cached answers of a model."""

LONGEST_LINE = 1_000
"""The maximum number of characters of a query, a status or an error in the context.

A longer error keeps its end, which states the cause."""

_LABELS = {AttachmentType.execution_status: "Execution", AttachmentType.code_error: "Error"}
"""The labels of attachments in the context."""
PROMPT_LOG, SELECTION_LOG = "prompt_log", "experience_selection_log"
"""Parts of the names of log files."""

Session: TypeAlias = SessionMemory | Callable[[RunnableConfig], SessionMemory]


class SelectionRequest(NamedTuple):
    """A request to select experiences.

    Attributes:
        query: The query; "" for the last query of the session.
        messages: The messages that contain the query.
        config: The config of the run.
        context: The context that the caller passed; None to read it from the session or the messages.
        log: The file to which the prompt of the selection is written; None for no log.
    """

    query: str
    messages: Sequence[BaseMessage]
    config: RunnableConfig
    context: str | None = None
    log: Path | None = None


class SelectorOptions(TypedDict, total=False):
    """The keyword options of `ExperienceSelector`."""

    role: str | None
    model: ModelLike | None
    strategy: Strategy | None
    template: str | SelectionTemplate | None
    max_selected: int | None
    session: Session | None
    query: Callable[[Any], str] | None
    enabled: bool
    timeout: float | None


class ExperienceSelector(MemoryRunnable, BaseExampleSelector):
    """A Runnable that inserts the instructions of applicable experiences into a model's input.

    It returns its input with the instructions inserted. The type of the input determines their position:

    - Messages, or a prompt made of messages: The instructions are inserted before the last user message. In a thread
      they stay there as long as that message is in the context, so that a provider's prompt cache stays valid. An
      instruction that the context already contains is not inserted again. No conversation stores the instructions.
    - A text, or a text prompt: The instructions are inserted before the text.
    - A dictionary: The instructions are stored as text under "experiences", for a prompt with this variable. The text
      is "" if no experience applies. If the dictionary has "messages", they are also inserted there.
    - The state of a graph: The messages are written to "llm_input_messages" and the text to "experiences", if the state
      has these keys. The history does not change. If an earlier node, such as a compaction, has written
      "llm_input_messages", the selector extends these messages. In a chain that is a node, first extract the
      variables or messages: given the whole state, the selector returns only an update of the state.

    Each call selects among the current files of the folder. Without a model, the choice depends on the words of the
    conditions. An answer of the model is cached for its query, context and conditions. If the model fails, chooses only
    unknown ids, or its answer is cut off or unreadable, the choice by words applies. Hooks then receive
    `ExperienceSelectionFellBack`.

    Args:
        library: The library of experiences.
        role: The role of the caller; case is ignored. Only experiences for this role, or for all roles, are considered.
            Default: all experiences.
        model: The model that selects: a LangChain model, a function from messages to text, or a model's name. Default:
            None.
        strategy: "lexical" to select by words; "model" to ask the model; "auto" to ask the model only about experiences
            for which the words are not decisive. Default: "model" if a model is passed, else "lexical".
        template: The prompt for the model: a text with `{experiences}`, `{user_query}` and `{context}`, or a
            `SelectionTemplate`. Literal braces are doubled. Default: a built-in template.
        max_selected: The maximum number of chosen experiences. Default: no limit.
        session: A `SessionMemory`, or a function that returns one for a config, such as `memory.session`. Its last
            three rounds are the context. A post's `SharedMemoryEntry` of the type "experience_sub_path" names the
            subfolder to read. Default: None; the context is read from the messages of the input.
        query: A function that returns the query for an input. Default: the last user message. For a dictionary without
            messages: "input", "question", "query" or "user_query", or its only text. If the input has no query, the
            last query of the session is used.
        enabled: True to select; False to return the input without instructions. Default: True.
        timeout: The maximum number of seconds to wait for the model. Default: no limit.

    Raises:
        InvalidInput: An argument is invalid.
        MissingExtra: The model is a name, and langchain is not installed.
    """

    def __init__(self, library: ExperienceLibrary, **options: Unpack[SelectorOptions]) -> None:
        if not isinstance(library, ExperienceLibrary):
            raise InvalidInput(f"library must be an ExperienceLibrary, got {safe_repr(library)}.")
        valid_names = SelectorOptions.__annotations__
        if unknown := [name for name in options if name not in valid_names]:
            raise InvalidInput(f"Unknown option {safe_repr(unknown[0])}. Valid options: {', '.join(valid_names)}.")
        self.library = library
        self.role = (check_value(str | None, options.get("role"), "role") or "").strip() or None
        self.enabled = check_flag("enabled", options.get("enabled", True))
        model, template = options.get("model"), options.get("template")
        self._model: Any = usable_model(model)
        strategy: Strategy | None = check_value(Strategy | None, options.get("strategy"), "strategy")
        self.strategy: Strategy = strategy or ("lexical" if model is None else "model")
        if self.strategy != "lexical" and model is None:
            raise InvalidInput(f"The strategy {safe_repr(strategy)} needs a model. Pass model=….")
        if not isinstance(template, SelectionTemplate):
            template = model_choice.DEFAULT_TEMPLATE if template is None else SelectionTemplate(template)
        self._template = template
        self._max_selected = check_value(Annotated[int, Ge(1)] | None, options.get("max_selected"), "max_selected")
        self._timeout = check_timeout(options.get("timeout"))
        session, query = options.get("session"), options.get("query")
        self._session: Session | None = check_value(SessionMemory | Callable[..., Any] | None, session, "session")
        self._query: Callable[[Any], str] | None = check_value(Callable[..., Any] | None, query, "query")
        self._database: Database = library.database
        self._counter = TokenCounter()
        self._failures = FirstFailures(logger)
        self._answers: OrderedDict[bytes, tuple[str, ...]] = OrderedDict()

    @staticmethod
    def from_config(
        config: Mapping[str, Any],
        library: ExperienceLibrary,
        models: Mapping[str, ModelLike] | None = None,
        **options: Unpack[SelectorOptions],
    ) -> ExperienceSelector:
        """Create a selector from a configuration of TaskWeaver.

        Args:
            config: The configuration. Three keys are read. "planner.use_experience" or
                "code_generator.use_experience", depending on the role, enables the selector. Default: False.
                "experience.selection_prompt_path" is the path of a file with the template. Default: the built-in
                template. "experience.llm_alias" is the alias of the model. Default: `model` of the options.
            library: The library of experiences.
            models: Models by alias. Default: none.
            **options: Options of the selector, which take precedence over `config`. `role` is required: "Planner",
                "CodeInterpreter" or "CodeGenerator". For another role, the first key contains its name, such as
                "web_explorer.use_experience" for "WebExplorer".

        Raises:
            InvalidInput: A value is invalid, the template cannot be used, or no model has the alias.
        """
        if not isinstance(config, Mapping) or not isinstance(models, Mapping | None):
            raise InvalidInput("config must be a mapping of keys to values, and models a mapping of aliases to models.")
        if not isinstance(role := options.get("role"), str) or not role.strip():
            raise InvalidInput('from_config needs a role, such as role="Planner", which determines the keys to read.')
        name = re.sub(r"\W+|(?<=[a-z0-9])(?=[A-Z])", "_", role.strip()).lower()
        prefix = "code_generator" if name == "code_interpreter" else name  # as in TaskWeaver
        selector_options: SelectorOptions = {"enabled": config.get(f"{prefix}.use_experience", False)}
        if path := config.get(SELECTION_PROMPT):
            selector_options["template"] = SelectionTemplate.from_file(path)
        if alias := config.get(MODEL_ALIAS):
            if not isinstance(alias, str) or alias not in (models or {}):
                aliases = ", ".join(map(repr, models or {})) or "none"
                raise InvalidInput(f"Unknown model {safe_repr(alias)}. models has: {aliases:.200}.")
            selector_options["model"] = (models or {})[alias]
        selector_options.update(options)
        return library.selector(**selector_options)

    # -- as a Runnable ------------------------------------------------------------------------------------------

    def _run(self, given: Any, config: RunnableConfig) -> Any:
        form = read_form(given, config, PROMPT_PART, add_text=True)
        request = SelectionRequest(question_of(self._query, given, form.messages), form.messages, config)
        selection = self._run_selection(request)
        texts = self._place_by_question(request, selection)
        return form.fill(lambda messages: insert_texts(messages, PROMPT_PART, texts), selection.section)

    # -- like TaskWeaver's retrieve_experience ------------------------------------------------------------------

    def select(
        self,
        query: object,
        *,
        context: str | None = None,
        config: RunnableConfig | None = None,
        prompt_log_path: str | os.PathLike[str] | None = None,
    ) -> Selection:
        """Select the experiences that apply, with reasons (TaskWeaver's `retrieve_experience`).

        Args:
            query: A text, or any input of `invoke`.
            context: The context, as text. Default: read from the session or the messages.
            config: The config of the run. Default: the config of the current run.
            prompt_log_path: The path of the main prompt's log. The log of the selection is written next to it. Default:
                no log.

        Raises:
            InvalidInput: An argument is invalid.
        """
        check_value(str | None, context, "context")
        messages = read_form(query, {}, PROMPT_PART).messages
        log = None if prompt_log_path is None else selection_log_path(check_path(prompt_log_path))
        question = question_of(self._query, query, messages)
        run_config = ensure_config(check_config(config))
        return self._run_selection(SelectionRequest(question, messages, run_config, context, log))

    aselect = awaited(select)

    # -- as an example selector ---------------------------------------------------------------------------------

    def select_examples(self, input_variables: dict[str, str]) -> list[dict[str, Any]]:
        """Return the experiences that apply as examples: "exp_id", "who", "when" and "what".

        Args:
            input_variables: The variables of the prompt.
        """
        return [each.to_dict() for each in self.select(input_variables).experiences]

    async def aselect_examples(self, input_variables: dict[str, str]) -> list[dict[str, Any]]:
        """Run `select_examples` asynchronously."""
        return await run_in_worker(partial(self.select_examples, input_variables))

    def add_example(self, example: dict[str, str]) -> Path:
        """Add an experience to the library; see `ExperienceLibrary.add`.

        Args:
            example: A dictionary with "exp_id", "when" and "what". "who" is optional.
        """
        return self.library.add(Experience.from_dict(example))

    async def aadd_example(self, example: dict[str, str]) -> Path:
        """Run `add_example` asynchronously."""
        return await run_in_worker(partial(self.add_example, example))

    # -- helpers ------------------------------------------------------------------------------------------------

    def _run_selection(self, request: SelectionRequest) -> Selection:
        if not self.enabled:
            return Selection(query=request.query, role=self.role, strategy=self.strategy)

        def trace_inputs() -> dict[str, Any]:  # only when tracing: `resolve` fails if the config lacks a key
            options = {"query": shorten_text(request.query), "role": self.role, "strategy": self.strategy}
            return {**options, "namespace": self._database.scopes.resolve(None, request.config)}

        with self._database.step("experience.select", trace_inputs, config=request.config) as step:
            selection = self._select(request)
            scores, reasons = selection.scores, selection.reasons
            chosen = [{"exp_id": each, "score": scores[each], "reason": reasons[each]} for each in selection.ids]
            ids = {"candidate_ids": selection.candidates, "asked_ids": selection.asked}
            step.finish(lambda: {"chosen": chosen, "fell_back": selection.fell_back, **ids})
        return selection

    def _insert_experiences(self, messages: Sequence[BaseMessage], config: RunnableConfig) -> list[BaseMessage]:
        """Insert the instructions, each before the user message (question) it was chosen for.

        Args:
            messages: The context. It is not changed.
            config: The config of the run.
        """
        request = SelectionRequest(question_of(self._query, messages, messages), messages, config)
        return insert_texts(messages, PROMPT_PART, self._place_by_question(request, self._run_selection(request)))

    def _place_by_question(self, request: SelectionRequest, selection: Selection) -> dict[str | None, str]:
        """Return the instructions to insert before each question, by its id; store the notes."""
        # Prompt notes record what a thread's prompts already contain: `placed` has those instructions by question id.
        originals = [message for message in request.messages if not is_injected(message)]
        notes = prompt_notes.load_notes(self._database, request.config, originals, f"{PROMPT_PART} {self.role or ''}")
        if notes.start is None:  # the first selection for this prompt
            notes.restart({}, 0)
        texts: dict[str | None, str] = {}
        placed = {id_: parts[PROMPT_PART].items for id_, parts in notes.active_notes().items() if PROMPT_PART in parts}
        used_ids = {item.id for items in placed.values() for item in items}
        new_ids = [each for each in selection.ids if each not in used_ids]
        scores, reasons = selection.scores, selection.reasons
        new = [PromptNoteItem("experience", each, round(scores[each], 4), reason=reasons[each]) for each in new_ids]
        current_items = (*placed.pop(notes.question_id or "", ()), *new)
        for question_id, items in (*placed.items(), (notes.question_id, current_items)):
            if text := format_instructions(selection.known[item.id] for item in items if item.id in selection.known):
                texts[question_id] = text
        notes.add_note(PROMPT_PART, current_items, self._counter.count_text(texts.get(notes.question_id, "")))
        notes.store_notes(self._database)
        return texts

    def _select(self, request: SelectionRequest) -> Selection:
        """Select experiences of the folder by words, and with a model if the strategy requires it."""
        rounds = self._load_rounds(request.config)
        query = request.query.strip() or (rounds[-1].user_query.strip() if rounds else "")
        entries = find_shared_entries(rounds, "experience_sub_path")
        sub_path = entries[0].content.strip() if entries else ""  # of the oldest entry, as in TaskWeaver
        candidates = {each.exp_id: each for each in self.library.load(sub_path or None) if each.is_for(self.role)}
        ids = tuple(candidates)
        empty = Selection(query=query, role=self.role, candidates=ids, strategy=self.strategy, known=candidates)
        if not query or not candidates:
            return empty
        context = self._describe_context(request, rounds)
        results = score_conditions(query, context, [each.when for each in candidates.values()])
        scores = {exp_id: each.score for exp_id, each in zip(ids, results, strict=True)}
        reasons = {exp_id: each.reason for exp_id, each in zip(ids, results, strict=True)}
        leading_ids = set(itertools.compress(ids, mark_best(results)))
        applicable_ids = {exp_id for exp_id in leading_ids if scores[exp_id] >= THRESHOLD}
        # The model is asked about scores of at least `low`. Leading conditions with at least `high` apply without it.
        low, high = {"lexical": (math.inf, math.inf), "model": (0, math.inf), "auto": UNSURE_RANGE}[self.strategy]
        asked_ids = [each for each in ids if scores[each] >= low and not (each in leading_ids and scores[each] >= high)]
        fallback_reason = ""
        if asked_ids:
            messages = self._make_prompt(query, context, [candidates[exp_id] for exp_id in asked_ids])
            if request.log is not None:
                self._write_log(request.log, messages)
            ids_or_reason = self._ask_model(query, messages, asked_ids)
            if isinstance(ids_or_reason, str):
                fallback_reason = ids_or_reason
            else:
                applicable_ids = (applicable_ids - set(asked_ids)) | set(ids_or_reason)
                reasons |= dict.fromkeys(ids_or_reason, "the model chose it")
        # `sorted` is stable: experiences with equal scores keep the order of the library.
        selected_ids = sorted((each for each in ids if each in applicable_ids), key=lambda each: -scores[each])
        selected_ids = selected_ids[: self._max_selected]
        return replace(
            empty,
            experiences=tuple(candidates[exp_id] for exp_id in selected_ids),
            scores=scores,
            reasons={exp_id: reasons[exp_id] for exp_id in selected_ids},
            asked=tuple(asked_ids),
            fell_back=fallback_reason,
        )

    def _make_prompt(self, query: str, context: str, candidates: Sequence[Experience]) -> list[BaseMessage]:
        """Return the prompt for a model, with the candidates' conditions but no instructions."""
        texts = [f"(ID: {each.exp_id}) ---\n{each.when.strip()}" for each in candidates]
        conditions = "\n\n".join(f"--- Experience {number} {text}" for number, text in enumerate(texts, 1))
        context = f"\n\nConversation Context:\n{context}" if context else ""
        system = self._template.fill(experiences=conditions, user_query=query, context=context)
        return [SystemMessage(system), HumanMessage(f"Select relevant experiences for: {query}")]

    def _ask_model(self, query: str, messages: Sequence[BaseMessage], ids: list[str]) -> tuple[str, ...] | str:
        """Return the ids that a model chooses. If it fails, emit an event and return the reason."""
        key = digest("\x1f".join([*ids, *(str(each.content) for each in messages)]).encode("utf-8", "surrogatepass"))
        if (cached := self._answers.get(key)) is not None:
            return cached
        failure, reason = None, "The model's answer cannot be parsed, or chooses only unknown ids."
        inputs, model, timeout = {"query": query, "role": self.role, "exp_ids": ids}, self._model, self._timeout
        try:
            answer = ask_model(self._database, model, messages, "experience.choose", timeout, inputs=lambda: inputs)
            answer_ids = model_choice.read_selection(str(answer)[:100_000], ids)
        except Exception as error:  # a failure of the model must not end the run
            if is_graph_bubble_up(error):
                raise
            failure, answer_ids, reason = error, None, f"The model failed: {type(error).__name__}."
        if answer_ids is None:
            event = partial(ExperienceSelectionFellBack, role=self.role, query=query, reason=reason, error=failure)
            self._database.emit(event)
            return reason
        self._answers[key] = answer_ids
        if len(self._answers) > _CACHE_SIZE:
            self._answers.popitem(last=False)
        return answer_ids

    def _load_rounds(self, config: RunnableConfig) -> list[Round]:
        """Return the rounds of the session; empty without a session."""
        if self._session is None:
            return []
        session = self._session if isinstance(self._session, SessionMemory) else self._session(config)
        if not isinstance(session, SessionMemory):
            raise InvalidInput(f"session must return a SessionMemory, got {type(session).__name__}.")
        return list(session.to_conversation().rounds)

    def _describe_context(self, request: SelectionRequest, rounds: Sequence[Round]) -> str:
        if request.context is not None:
            return request.context
        if self._session is None:
            return describe_messages(request.messages, request.query)
        if self.role is None:
            return describe_rounds([each for each in rounds if each.state != "failed"])
        return describe_rounds(select_rounds(rounds, self.role, include_failures=False))

    def _write_log(self, path: Path, messages: Sequence[BaseMessage]) -> None:
        """Write the prompt of a selection to a file, completely or not at all."""
        try:
            with write_atomically(path, make_folder=True) as file:
                json.dump([{"role": role_of(each), "content": str(each.content)} for each in messages], file, indent=2)
        except Exception as error:  # noqa: BLE001 - a failed log must not end the selection
            self._failures.report("log", "The prompt of a selection cannot be logged.", error=error)


class ExperienceLibrary:
    """A folder of YAML files with experiences.

    Blocking methods have async versions such as `aload`. Each file has one experience or a list of them. Files `*.yaml`
    and `*.yml` are read, except hidden files and files whose names begin with `raw_exp_`. Files are ordered by depth,
    then by name. If two experiences have the same `exp_id`, only the first is loaded. An unusable file is skipped: a
    warning is logged once, and `validate` reports the reason.

    Attributes:
        database: The database of the memory.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        directory: The folder.
        subfolders: True to also read the files in subfolders. Default: False.

    Raises:
        InvalidInput: The folder does not exist, or an argument is invalid.
        StorageError: The database cannot be opened.
    """

    def __init__(self, memory: MemoryLike, directory: str | os.PathLike[str], *, subfolders: bool = False) -> None:
        self.database = database_of(memory)
        self._folder = experience_files.ExperienceFolder(directory, subfolders=subfolders)

    def __repr__(self) -> str:
        return f"ExperienceLibrary({safe_repr(str(self.directory))})"

    @property
    def directory(self) -> Path:
        """The path of the folder."""
        return self._folder.directory

    def selector(self, **options: Unpack[SelectorOptions]) -> ExperienceSelector:
        """Return a Runnable that inserts instructions of applicable experiences into its input.

        Args:
            **options: Options of `ExperienceSelector`, such as `role`, `model`, `strategy`, `max_selected`, `session`.

        Raises:
            InvalidInput: An argument is invalid.
        """
        return ExperienceSelector(self, **options)

    # -- the experiences in the folder --------------------------------------------------------------------------

    def load(self, sub_path: str | None = None) -> list[Experience]:
        """Return the experiences in the folder (TaskWeaver's `load_experience`).

        A warning is logged once for each unusable file. `validate` returns the reasons.

        Args:
            sub_path: The subfolder to read. Default: the folder itself.

        Raises:
            InvalidInput: The subfolder is outside of the folder, or does not exist.
        """
        return list(self._folder.load(sub_path).experiences)

    aload = awaited(load)

    def validate(self, sub_path: str | None = None) -> LibraryCheck:
        """Check every file, and report problems.

        Args:
            sub_path: The subfolder to check. Default: the folder itself.

        Raises:
            InvalidInput: The subfolder is outside of the folder, or does not exist.
        """
        return self._folder.read(sub_path)

    avalidate = awaited(validate)

    def add(self, experience: Experience) -> Path:
        """Write an experience to a new file. Later selections include it.

        Args:
            experience: The experience to write.

        Returns:
            The path of the file.

        Raises:
            InvalidInput: The library already has this `exp_id`, or the file cannot be written.
        """
        if not isinstance(experience, Experience):
            raise InvalidInput(f"experience must be an Experience, got {type(experience).__name__}.")
        with self.database.step("experience.add", experience.to_dict) as step:
            check = self._folder.read()
            if (file := check.files.get(experience.exp_id)) is not None:
                name = safe_repr(experience.exp_id)
                raise InvalidInput(f"The library has {name} already, in {safe_repr(file)}. Change it there.")
            check_cancelled()
            path = experience_files.write_new_file(self.directory, experience.exp_id, experience.to_yaml())
            step.finish(lambda: {"file": path.name})
        return path

    aadd = awaited(add)


# -- the context, and the log of prompts ------------------------------------------------------------------------------


def describe_rounds(rounds: Sequence[Round]) -> str:
    """Describe the last three rounds as the context of a selection."""
    lines = []
    for each in rounds[-ROUNDS:]:
        lines.append(_format_line("User", each.user_query))
        attachments = [attachment for post in each.post_list for attachment in post.attachment_list]
        lines += [_format_line(_LABELS[part.type], part.content) for part in attachments if part.type in _LABELS]
    return "\n".join(filter(None, lines))


def describe_messages(messages: Sequence[BaseMessage], query: str) -> str:
    """Describe messages as the context of a selection: user messages, and errors of tools.

    Each user message begins a round. Successful tool calls do not change the context, so that the cached answer of a
    model stays valid.

    Args:
        messages: The history of messages.
        query: The current query. The result is "" if the context would contain only this query.
    """
    starts = [index for index, message in enumerate(messages) if is_from_user(message)][-ROUNDS:]
    lines = []
    for message in messages[starts[0] :] if starts else ():
        if isinstance(message, ToolMessage) and message.status == "error":
            lines += [_format_line("Execution", "FAILURE"), _format_line("Error", str(message.text))]
        elif is_from_user(message):
            lines.append(_format_line("User", str(message.text)))
    return "" if lines == [_format_line("User", query)] else "\n".join(filter(None, lines))


def _format_line(name: str, text: str) -> str:
    text = " ".join(text.split())
    cut = text[-LONGEST_LINE:] if name == "Error" else text[:LONGEST_LINE]
    return f"{name}: {cut}" if cut else ""


def selection_log_path(prompt_log: Path) -> Path:
    """Return the path of the log of a selection, next to the log of the main prompt.

    Args:
        prompt_log: The path of the main prompt's log. Its name contains "prompt_log".

    Raises:
        InvalidInput: The name does not contain "prompt_log", or it contains "experience_selection_log".
    """
    if PROMPT_LOG not in prompt_log.name or SELECTION_LOG in prompt_log.name:
        rule = f"must contain '{PROMPT_LOG}' and not '{SELECTION_LOG}'"
        raise InvalidInput(f"The log's name {rule}, got {safe_repr(prompt_log.name)}.")
    return prompt_log.with_name(prompt_log.name.replace(PROMPT_LOG, SELECTION_LOG))
