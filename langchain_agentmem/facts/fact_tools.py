"""The tools with which an agent stores and finds facts, and `RememberFacts`, the graph node that extracts them.

    agent = create_agent(model, tools=fact_tools(memory), checkpointer=memory.checkpointer)

    builder.add_node("facts", memory.remember_facts(model))
    builder.add_edge("answer", "facts")

The tools return short text or JSON, like the tools for core, archival and recall memory.

The node processes each new message of its state once. It stores the messages with the facts, and both are rewound with
the thread. If the node is executed again, it therefore stores no fact twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, TypedDict

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool
from pydantic import Field

from langchain_agentmem.base.argument_checks import check_flag, check_instance, parse_texts
from langchain_agentmem.base.clock import from_micros, to_micros
from langchain_agentmem.base.data_tables import load_data_table
from langchain_agentmem.base.namespaces import check_id, configurable_of, path_of
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.facts.fact import Fact, FactsConfig
from langchain_agentmem.facts.fact_extraction import PendingMessage, extract_facts, parse_period, summarize
from langchain_agentmem.facts.fact_store import FactChanges, FactsContext
from langchain_agentmem.facts.kg_memory import KGMemory
from langchain_agentmem.language_models import tool_factory
from langchain_agentmem.language_models.model_calls import ModelLike, usable_model
from langchain_agentmem.language_models.tool_arguments import Arguments, Text
from langchain_agentmem.language_models.tool_factory import ToolOperation, clamp_limit, fit_results, make_tools, shorten
from langchain_agentmem.messages.langchain_messages import from_langchain
from langchain_agentmem.messages.message import Message
from langchain_agentmem.messages.message_marks import is_synthetic
from langchain_agentmem.messages.prompt_forms import MemoryRunnable, convert_messages
from langchain_agentmem.rewinding.branches import BranchPosition, MemoryPosition
from langchain_agentmem.rewinding.graph_runs import list_nested_graphs
from langchain_agentmem.rewinding.thread_memory import conversation_of_run, thread_position
from langchain_agentmem.storage.database import MemoryLike, database_of
from langchain_agentmem.storage.queries import digest

MAX_SOURCES = 3
"""The maximum number of sources per fact, and of facts per sentence, in the answer of a tool."""
MAX_QUOTE_CHARS = 200
"""The maximum number of characters of a source, a fact or a name in the answer of a tool."""


class FactAdd(Arguments):
    """The arguments of `fact_add`."""

    subject: Text = Field(description="The person or thing that the fact is about, by full name; never a pronoun.")
    predicate: Text = Field(description='The relation, in a few words, such as "lives in" or "likes".')
    object: Text = Field(description="The value, or the related person or thing.")
    valid_from: Text | None = Field(
        default=None, description="The date since when the fact holds, such as 2024-03-01. Omit for now."
    )
    valid_to: Text | None = Field(
        default=None, description="The date when the fact ceased to hold. Omit if it still holds."
    )


class FactSearch(Arguments):
    """The arguments of `fact_search`."""

    query: Text = Field(description='The search text: a few words or a question; "*" for the newest.')
    limit: int = Field(default=10, description="The maximum number of results.")


class FactHistory(Arguments):
    """The arguments of `fact_history`."""

    subject: Text = Field(description="The name of the person or thing that the facts are about.")
    predicate: Text | None = Field(default=None, description='Only this relation, such as "lives in". Omit for all.')


def fact_tools(
    memory: MemoryLike | KGMemory,
    branch_or_config: str | Mapping[str, Any] | None = None,
    namespace: Sequence[str] | None = None,
    *,
    settings: FactsConfig | None = None,
) -> list[BaseTool]:
    """Return the tools `fact_add`, `fact_search` and `fact_history`.

    The tools call no model.

    Args:
        memory: An `AgentMemory`, the path or URL of a database, or the `KGMemory` that all tools use.
        branch_or_config: The name of a branch, or a config with a `thread_id`. Default: the thread of the run that
            calls the tool. The facts of a thread are rewound with it.
        namespace: The namespace of the facts. Default: the namespace of the run.
        settings: The settings of the facts. A `KGMemory` has its own settings. Default: `FactsConfig()`.

    Raises:
        InvalidInput: An argument is wrong.
    """
    return make_tools(OPERATIONS, KGMemory, "facts", memory, branch_or_config, namespace, settings=settings)


def _add_fact(facts: KGMemory, arguments: FactAdd) -> str:
    start, end = (None if at is None else from_micros(at) for at in _parse_times(arguments, facts.now))
    triple = arguments.subject, arguments.predicate, arguments.object
    fact_id = facts.add_fact("assistant", *triple, valid_from=start, valid_to=end)
    history = facts.history(arguments.subject, arguments.predicate)
    contradictions = facts.contradictions(arguments.subject, arguments.predicate)
    pairs = [each.facts for each in contradictions if fact_id in {fact.id for fact in each.facts}]
    parts = [
        f"The fact is kept, with the id {fact_id}",
        _describe_facts("it is now known", [fact for fact in history if fact.id == fact_id]),
        _describe_facts("it ended", [fact for fact in history if fact.ended_by == fact_id]),
        _describe_facts("it contradicts", [fact for pair in pairs for fact in pair if fact.id != fact_id]),
    ]
    return "; ".join(part for part in parts if part) + "."


def _search_facts(facts: KGMemory, arguments: FactSearch) -> Any:
    results = facts.search(arguments.query, limit=clamp_limit(arguments.limit))
    return fit_results("found", [_message_dict(fact) if fact.raw else _fact_dict(fact) for fact in results])


def _read_history(facts: KGMemory, arguments: FactHistory) -> Any:
    all_facts = facts.history(arguments.subject, arguments.predicate)
    if not all_facts:
        names = filter(None, (arguments.subject, arguments.predicate))
        names_text = " and ".join(safe_repr(shorten(name, limit=MAX_QUOTE_CHARS)) for name in names)
        return f"Nothing is known of {names_text}; fact_search finds by words."
    newest_first = []
    for fact in reversed(all_facts[-tool_factory.MAX_RESULTS :]):
        evidence = facts.evidence(fact.id)
        newest_first.append(_fact_dict(fact) | {"sources": list(map(_source_dict, evidence[:MAX_SOURCES]))})
        if evidence[MAX_SOURCES:]:
            newest_first[-1]["more_sources"] = len(evidence) - MAX_SOURCES
    history = fit_results("history", newest_first)["history"][::-1]  # omits the oldest facts if there is no room
    omitted = {"left_out": len(all_facts) - len(history)} if len(all_facts) > len(history) else {}
    return {"history": history, **omitted}


_OPERATION_TEXTS = load_data_table("facts/fact_operations.yaml")
OPERATIONS = (
    ToolOperation(name="fact_add", arguments=FactAdd, run=_add_fact, **_OPERATION_TEXTS["fact_add"]),
    ToolOperation(name="fact_search", arguments=FactSearch, run=_search_facts, **_OPERATION_TEXTS["fact_search"]),
    ToolOperation(name="fact_history", arguments=FactHistory, run=_read_history, **_OPERATION_TEXTS["fact_history"]),
)
"""The operations on facts that a model can call."""


def _parse_times(arguments: Any, now: datetime) -> tuple[int | None, int | None]:
    """Return the stated start and end; None if omitted. The start "now" also means None."""
    start, end = ((each or "").strip() or None for each in (arguments.valid_from, arguments.valid_to))
    start = None if start is not None and start.lower() == "now" else start
    times = parse_period(start, end, to_micros(now))
    for name, stated, parsed in zip(("valid_from", "valid_to"), (start, end), times, strict=True):
        if stated is not None and parsed is None:
            value = safe_repr(shorten(stated, limit=MAX_QUOTE_CHARS))
            raise InvalidInput(f"{name} must be a date or a time, such as 2024-03-01, not {value}.")
    return times


def _fact_dict(fact: Fact) -> dict[str, Any]:
    fields = {"id": fact.id, "text": shorten(fact.text), "valid_from": fact.valid_from, "valid_to": fact.valid_to}
    return fields if fact.confidence is None else {**fields, "confidence": fact.confidence}


def _message_dict(fact: Fact) -> dict[str, Any]:
    note = f"(a part of message {fact.id})"
    return {"id": fact.id, "text": shorten(fact.text, note), "said_by": fact.subject, "time": fact.valid_from}


def _source_dict(evidence: Any) -> dict[str, Any]:
    text = None if evidence.text is None else shorten(evidence.text, limit=MAX_QUOTE_CHARS)
    fields = {"said_by": evidence.role, "time": evidence.recorded_at, "message": evidence.message_id, "text": text}
    return {name: value for name, value in fields.items() if value is not None}


def _describe_facts(lead: str, facts: Sequence[Fact]) -> str:
    """Format facts as a part of a sentence; "" if there are none."""
    texts = [f"{safe_repr(shorten(fact.text, limit=MAX_QUOTE_CHARS))}, {fact.period}" for fact in facts[:MAX_SOURCES]]
    more = [f"and {len(facts) - MAX_SOURCES} more"] if facts[MAX_SOURCES:] else []
    return f"{lead}: {', '.join([*texts, *more])}" if facts else ""


class RememberFactsOptions(TypedDict, total=False):
    """The options of `RememberFacts` except the memory and the model."""

    branch: str | None
    namespace: Sequence[str] | None
    roles: Sequence[str]
    settings: FactsConfig | None
    share_conversation: bool


class RememberFacts(MemoryRunnable):
    """A graph node that extracts facts from new messages of its state.

    The input is the state of a graph, or messages. By default, the facts belong to the thread and the namespace of the
    run. The node does not change the state. If the extraction fails, no error is raised and the messages remain
    pending. Later runs of the node try again, with growing pauses. During a pause, the node does not call the model for
    failed messages. Summaries, injected memory, and messages of a nested graph without checkpoints are skipped.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        model: The model that extracts facts: a LangChain model, a function from messages to text, or the name of a
            model.
        branch: The name of the branch that stores the facts. All threads share this branch. Default: the memory of the
            thread, which is rewound with the thread.
        namespace: The namespace of the branch. Only with `branch`. Default: that of the current run, else the root.
        roles: The roles of the messages to process. Default: "user" and "assistant".
        settings: The settings of the facts. Default: `FactsConfig()`.
        share_conversation: True to treat messages of a nested graph as part of its caller's conversation. Use it for a
            graph that processes its caller's messages. Default: False; the nested graph has its own conversation.

    Raises:
        InvalidInput: An argument is wrong.
        StorageError: The database cannot be opened.
    """

    def __init__(
        self,
        memory: MemoryLike,
        model: ModelLike,
        *,
        branch: str | None = None,
        namespace: Sequence[str] | None = None,
        roles: Sequence[str] = ("user", "assistant"),
        settings: FactsConfig | None = None,
        share_conversation: bool = False,
    ) -> None:
        self._model = usable_model(model)
        if self._model is None:
            raise InvalidInput("To extract facts, pass a model: memory.remember_facts(model).")
        if namespace is not None:
            path_of(namespace)  # raises InvalidInput now, not in the first run
        self._database = database_of(memory)
        self._branch = None if branch is None else check_id(branch, "branch")
        self._namespace = namespace
        self._share_conversation = check_flag("share_conversation", share_conversation)
        self._roles = frozenset(parse_texts(roles, "Roles"))
        self._settings = check_instance(FactsConfig, settings, "settings") or FactsConfig()

    _writes = True

    def _run(self, state: Any, config: RunnableConfig) -> dict[str, Any]:
        """Extract facts from the new messages of a state, in one traced step."""
        config = ensure_config(config)
        if self._branch is None:
            point: MemoryPosition = thread_position(self._database, config)
        else:
            scopes = self._database.scopes
            point = BranchPosition(path_of(scopes.resolve(self._namespace, config)), self._branch, scopes)
        context = FactsContext(database=self._database, point=point, settings=self._settings)
        conversation = conversation_of_run(self._database, config, of_caller=self._share_conversation)
        messages = [_ensure_id(each) for each in self._list_messages(state) if not is_synthetic(each)]
        if conversation is None and list_nested_graphs(configurable_of(config)):
            messages = []  # the caller of a nested graph without checkpoints processes its messages
        selected = [message for message in messages if message.role in self._roles]
        own_ids = {message.message_id for message in selected}

        def should_extract(pending: PendingMessage) -> bool:
            # Each of several parallel nodes processes only its own new messages, since each may be executed again.
            is_own = pending.conversation == conversation and pending.message.message_id in own_ids
            return is_own or pending.listed or pending.failed

        with context.step("facts.remember", message_ids=[message.message_id for message in selected]) as step:
            add = partial(FactChanges.add_messages, messages=selected, conversation=conversation, listed=False)
            new_ids = context.write_facts(None, add) if selected else []
            outcomes = extract_facts(context, self._model, should_extract=should_extract, respect_pauses=True)
            step.finish(lambda: {"new_ids": new_ids, **summarize(outcomes)})
        return {}

    def _list_messages(self, state: Any) -> list[BaseMessage]:
        messages: Any = state.get("messages") if isinstance(state, Mapping) else getattr(state, "messages", state)
        messages = [messages] if isinstance(messages, BaseMessage) else messages
        if isinstance(messages, str) or not isinstance(messages, Sequence):
            raise InvalidInput(f"The node needs messages, or a state with 'messages', not {safe_repr(state)}.")
        return convert_messages(messages)


def _ensure_id(message: BaseMessage) -> Message:
    """Convert a message. If it has no valid id, derive a stable id from its content."""
    result = from_langchain(message)
    with contextlib.suppress(InvalidInput):
        if message.id and check_id(message.id, "message"):
            return result
    content = f"{message.id or ''}\x1f{result.role}\x1f{result.name}\x1f{result.text}"
    return replace(result, message_id=f"said-{digest(content.encode('utf-8', 'surrogatepass')).hex()[:32]}")
