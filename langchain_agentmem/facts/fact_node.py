"""`RememberFacts`: a node of a graph that extracts facts from the new messages of its state, from each once.

    builder.add_node("facts", memory.remember_facts(model))
    builder.add_edge("answer", "facts")

Which messages were read is remembered with the facts, so both are rewound with the thread, and a node that is executed
again reads again and remembers once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config

from langchain_agentmem.base.argument_checks import texts_given
from langchain_agentmem.base.namespaces import config_given, id_of, path_of, resolve
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.facts import fact_commands
from langchain_agentmem.facts.fact import FactsConfig
from langchain_agentmem.facts.learning import FactsGround, Learned, Teacher, learning
from langchain_agentmem.facts.source_texts import Due
from langchain_agentmem.language_models.model_calls import Work, aperform, perform, usable_model
from langchain_agentmem.messages import Message, from_langchain
from langchain_agentmem.messages.placement import converted
from langchain_agentmem.messages.synthetic_messages import is_filler
from langchain_agentmem.rewinding.branches import BranchAt, Standpoint
from langchain_agentmem.rewinding.graph_runs import runs_of
from langchain_agentmem.rewinding.memory_access import as_step
from langchain_agentmem.rewinding.thread_memory import thread_point
from langchain_agentmem.storage.database import Database, HasDatabase, database_of
from langchain_agentmem.storage.queries import digest
from langchain_agentmem.tracing import within

ROLES = ("user", "assistant")
"""Whose messages are read unless something else is said."""


class RememberFacts(Runnable[Any, dict[str, Any]]):
    """Extracts facts from the messages of a state that it has not read yet.

    It changes nothing in the state. What fails goes no further: the messages wait, and are tried again when the node
    runs next, up to `max_attempts` of the settings. Summaries, and memory that was put into the context, are not read.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        model: Who extracts facts: a LangChain model, a function from messages to text, or the name of a model.
        branch: The name of the branch that the facts go to, shared by all threads. Default: the thread's own memory,
            which is rewound with it.
        namespace: Whose branch it is. Default: the running config's, else the root.
        roles: Whose messages are read. Default: the user's and the assistant's.
        messages_key: Where the state has its messages. Default: "messages".
        settings: How facts are kept and learned. Default: `FactsConfig()`.

    Raises:
        InvalidInput: An argument is wrong.
        StorageError: The database cannot be opened.
    """

    def __init__(
        self,
        memory: HasDatabase | Database | Any,
        model: Any,
        *,
        branch: str | None = None,
        namespace: Sequence[str] | None = None,
        roles: Sequence[str] = ROLES,
        messages_key: str = "messages",
        settings: FactsConfig | None = None,
    ) -> None:
        usable = usable_model(model)
        if usable is None:
            raise InvalidInput("To extract facts a model is needed: memory.remember_facts(model).")
        if branch is not None:
            id_of(branch, "branch")
        if namespace is not None:
            path_of(namespace)
        if settings is not None and not isinstance(settings, FactsConfig):
            raise InvalidInput(f"settings must be a FactsConfig, not {type(settings).__name__}.")
        if not isinstance(messages_key, str) or not messages_key:
            raise InvalidInput(f"messages_key must be the name of a key, not {safe_repr(messages_key)}.")
        self._database = database_of(memory)
        self._teacher = Teacher(usable)
        self._branch = branch
        self._namespace = namespace
        self._roles = frozenset(texts_given(roles, "Roles"))
        self._messages_key = messages_key
        self._settings = settings or FactsConfig()

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:  # noqa: A002
        """Extract facts from the new messages of a state.

        Args:
            input: The state of a graph, or messages.
            config: The run; its thread and namespace say whose facts they are.
            **kwargs: Not used.

        Returns:
            An empty update of the state.

        Raises:
            InvalidInput: There are no messages in this, or no thread and no branch is named.
        """
        config = config_given(config)
        del kwargs
        if self._database.tracing.shows_content:
            return self._call_with_config(self._remember, input, config)
        with within(config) as complete:  # LangChain would show the whole state
            return self._remember(input, None, complete)

    async def ainvoke(
        self,
        input: Any,  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """`invoke`, awaited."""
        config = config_given(config)
        del kwargs
        if self._database.tracing.shows_content:
            return await self._acall_with_config(self._aremember, input, config)
        with within(config) as complete:
            return await self._aremember(input, None, complete)

    def _remember(self, given: Any, run_manager: Any, config: RunnableConfig) -> dict[str, Any]:
        del run_manager
        perform(self._seen(given, config), self._database)
        return {}

    async def _aremember(self, given: Any, run_manager: Any, config: RunnableConfig) -> dict[str, Any]:
        del run_manager
        await aperform(self._seen(given, config), self._database)
        return {}

    def _seen(self, given: Any, config: RunnableConfig) -> Work[None]:
        """What the node does, as one step."""
        config = ensure_config(config)
        ground = FactsGround(database=self._database, point=self._point(config), settings=self._settings)
        thread = (config.get("configurable") or {}).get("thread_id")
        conversation = None if thread is None else id_of(thread, "thread")
        said = [_identified(each) for each in self._messages(given) if not is_filler(each)]
        read = [message for message in said if message.role in self._roles]
        yield from as_step(
            ground,
            "facts.remember",
            self._remembering(ground, read, conversation),
            outputs=lambda done: {"new_ids": done[0], **done[1].told()},
            message_ids=lambda: [message.message_id for message in read],
        )

    def _remembering(
        self, ground: FactsGround, read: Sequence[Message], conversation: str | None
    ) -> Work[tuple[list[str], Learned]]:
        new: list[str] = []
        if read:
            new = yield from fact_commands.keeping(ground, read, conversation=conversation, own=False, shown=False)
        mine = {message.message_id for message in read}

        def wanted(due: Due) -> bool:
            # What others have brought just now, side by side with this, they extract themselves: they may be executed
            # again, and this may.
            is_mine = due.conversation == conversation and due.message.message_id in mine
            return is_mine or due.listed or due.attempts > 0

        return new, (yield from learning(ground, self._teacher, wanted=wanted, patient=True))

    def _point(self, config: RunnableConfig) -> Standpoint:
        if self._branch is not None:
            return BranchAt(path_of(resolve(self._namespace, config)), self._branch)
        return thread_point(runs_of(self._database), config)

    def _messages(self, given: Any) -> list[BaseMessage]:
        key = self._messages_key
        found: Any = given.get(key) if isinstance(given, Mapping) else getattr(given, key, given)
        if isinstance(found, BaseMessage):
            found = [found]
        if isinstance(found, str) or not isinstance(found, Sequence):
            raise InvalidInput(
                f"There are no messages in this: {safe_repr(given)}. Give messages, or a state with {safe_repr(key)}."
            )
        return converted(found)


def _identified(message: BaseMessage) -> Message:
    """A message with an id: its own, or one that is made of it and what it says, so that it is the same next time."""
    told = from_langchain(message)
    if message.id and _can_be_kept(message.id):
        return told
    said = f"{message.id or ''}\x1f{told.role}\x1f{told.name}\x1f{told.text}"
    return replace(told, message_id=f"said-{digest(said.encode('utf-8', 'surrogatepass')).hex()[:32]}")


def _can_be_kept(name: str) -> bool:
    try:
        id_of(name, "message")
    except InvalidInput:
        return False
    return True
