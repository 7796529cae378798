"""`CompactionNode`: a graph's history in, the context for its model out.

    builder = StateGraph(CompactionState)
    builder.add_node("compact", memory.compaction(model))
    builder.add_node("answer", lambda state: {"messages": [chat.invoke(state["llm_input_messages"])]})

The history in the state stays as it is; what the model is to be shown stands under a key of its own. Where a graph
cannot afford to carry its history, `shrink=True` replaces it. Given a list of messages instead of a state, the node
gives a list, so that `node | model` is a chain.

The state of a graph that has a compaction node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from langchain_core.messages import AnyMessage, BaseMessage
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.graph import MessagesState

from langchain_agentmem.compaction.compacted_context import ConversationOption
from langchain_agentmem.compaction.compaction_config import ManagedMemoryConfig
from langchain_agentmem.compaction.graph_compactor import Compactor
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.language_models.model_calls import ModelLike
from langchain_agentmem.language_models.tokens import Countable, ToolLike
from langchain_agentmem.messages.history_repair import without_stand_ins
from langchain_agentmem.messages.prompt_forms import (
    CONTEXT,
    HISTORY,
    MemoryRunnable,
    converted,
    history_in,
    keys_in_state,
    state_update,
)
from langchain_agentmem.storage.database import MemoryLike, database_of


class CompactionOptions(TypedDict, total=False):
    """What `CompactionNode` takes beside the memory, the model and the configuration."""

    shrink: bool
    conversation_id: str | None
    namespace: Sequence[str] | None
    share_conversation: bool
    tools: Sequence[ToolLike]
    system: Countable | None
    window: int | None


class CompactionNode(MemoryRunnable):
    """Keeps the context of a graph or chain in its budget.

    The history is recorded in the conversation of the thread, message by message, each once; `memory.search` finds what
    left the context, and `memory.tools()` bring it back. What is to be forgotten must leave the state as well: whatever
    stands in the history is recorded again after a restart.

    What was compacted is kept in the database: the next turn, a restart or another process goes on from there, and on
    another branch of the thread that counts which is true there.

    It stands before the model and hears of no refusal: where a provider says that it was given too much all the same,
    `CompactionMiddleware` answers that; here the budget is to be smaller.

    A nested graph is recorded in a conversation of its own, which a search leaves out unless it is named. Without a
    thread in the config, as in a plain chain, and in a nested graph that saves no checkpoints, nothing is recorded, and
    this object alone remembers what it compacted.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        model: What summarizes: a LangChain model, a function from messages to text, or a name such as
            "openai:gpt-5-mini". Default None: summaries are made of what was said, without a model.
        config: The budget and what is done to keep it. Default: `ManagedMemoryConfig()`.
        shrink: Whether the state's history itself is replaced by the context, at every compaction. The key
            "llm_input_messages" is not needed then. Default False.
        conversation_id: Where to record. Default: the conversation of the run.
        namespace: Whose it is. Default: that of the run.
        share_conversation: Whether a nested graph is recorded in its caller's conversation. Default False: it has its
            own.
        tools: The tools that the agent's model is given: their schemas take room too. Default: none.
        system: What is sent to the model before the messages, and does not stand among them. Default: nothing.
        window: The tokens that the agent's model takes. Default: those of `model`, if it tells.

    Raises:
        InvalidInput: An argument is wrong.
        StorageError: The database cannot be opened.
    """

    def __init__(
        self,
        memory: MemoryLike,
        model: ModelLike | None = None,
        config: ManagedMemoryConfig | None = None,
        *,
        shrink: bool = False,
        conversation_id: str | None = None,
        namespace: Sequence[str] | None = None,
        share_conversation: bool = False,
        tools: Sequence[ToolLike] = (),
        system: Countable | None = None,
        window: int | None = None,
    ) -> None:
        self._conversation = ConversationOption(conversation_id, namespace, share_conversation).checked()
        self._compactor = Compactor(database_of(memory), config, model, window=window)
        self._database = self._compactor.database
        self._shrink = shrink
        counter = self._compactor.counter
        counter.count_text("")  # chooses how to count now: that reads a file, which is not for an event loop to do
        self._overhead = counter.count((), tools=tools, system=system) if tools or system is not None else 0

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """Give the context of a history.

        Args:
            input: A state that has the history under "messages", messages, or a prompt.
            config: The run: its thread is where the history is recorded.
            **kwargs: Not used.

        Returns:
            For a state, its update: the context under "llm_input_messages". For messages or a prompt, the messages of
            the context.

        Raises:
            InvalidInput: There are no messages, or the state of the graph lacks that key.
        """
        return super().invoke(input, config, **kwargs)

    _writes = True

    def _run(self, given: Any, config: RunnableConfig) -> Any:
        is_state = not isinstance(given, str | Sequence | PromptValue | BaseMessage)
        found = given
        if is_state:
            found = history_in(given)
        elif isinstance(given, PromptValue):
            found = given.to_messages()
        if isinstance(found, str | bytes) or not isinstance(found, Sequence):
            raise InvalidInput(
                f"There are no messages in this: {safe_repr(given)}. Give messages, a prompt, or a state that has a "
                f"list of them under '{HISTORY}'."
            )
        messages = converted(found)
        key = HISTORY if self._shrink else CONTEXT
        in_graph = is_state and keys_in_state(config, key) is not None
        at = self._conversation.of(self._compactor.database, ensure_config(config))
        view = self._compactor.viewing(messages, at, overhead=self._overhead)
        if not is_state:
            return view.messages
        if not self._shrink:
            return state_update([(key, view.messages)]) if in_graph else {key: view.messages}
        if not view.compacted:
            return {}
        from langgraph.types import Overwrite  # noqa: PLC0415 - only those who shrink a graph's state need it

        # The only update that replaces a history under `add_messages` and under a DeltaChannel alike.
        value = Overwrite(without_stand_ins(view.messages))
        return state_update([(key, value)]) if in_graph else {key: value}


class CompactionState(MessagesState):
    """A history under `messages`, and under `llm_input_messages` what the model is to be shown of it."""

    llm_input_messages: list[AnyMessage]
