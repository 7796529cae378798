"""`CompactionNode` converts the history of a graph into the context for its model.

    builder = StateGraph(CompactionState)
    builder.add_node("compact", memory.compaction(summarizer))
    builder.add_node("answer", lambda state: {"messages": [chat.invoke(state["llm_input_messages"])]})

The history in the state does not change; the context for the model has its own key. `CompactionState` has both keys.
With `shrink=True`, the context replaces the history instead, for graphs whose state must stay small. If the input is a
list of messages or a prompt, the node returns a list of messages, so that `node | chat` is a chain.
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
from langchain_agentmem.messages import prompt_forms
from langchain_agentmem.messages.history_repair import drop_placeholders
from langchain_agentmem.messages.prompt_forms import HISTORY_KEY, MemoryRunnable
from langchain_agentmem.storage.database import MemoryLike, database_of


class CompactionOptions(TypedDict, total=False):
    """The keyword options of `CompactionNode`."""

    shrink: bool
    conversation_id: str | None
    namespace: Sequence[str] | None
    share_conversation: bool
    tools: Sequence[ToolLike]
    system: Countable | None
    window: int | None


class CompactionNode(MemoryRunnable):
    """A runnable that keeps the context of a graph or chain within its budget.

    The history is recorded in the conversation of the thread, each message once. `memory.search` finds messages that
    left the context, and `memory.tools()` returns tools that retrieve them. To delete a message, remove it from the
    conversation and from the state. Otherwise the node records it again after a restart.

    Compactions are stored in the database. The next turn, a restart or another process continues from the stored
    compaction. Another branch of the thread uses the compaction that matches its history.

    The node runs before the model and does not receive the model's errors. If a provider refuses a context as too
    large, use `CompactionMiddleware`, which handles refusals, or set a smaller budget.

    A nested graph is recorded in its own conversation. A search includes that conversation only if you specify its id.
    Nothing is recorded without a thread in the config, or in a nested graph that saves no checkpoints. Compactions are
    then cached only in this object.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        model: The summarizer: a LangChain model, a function from messages to text, or a name such as
            "openai:gpt-5-mini". Default None: extractive summaries from the original messages, without a model.
        config: The budget and the policy. Default: `ManagedMemoryConfig()`.
        shrink: True replaces the history in the state with the context at every compaction. The state then needs no
            key "llm_input_messages". Default: False.
        conversation_id: The conversation that records the history. Default: the run's.
        namespace: The namespace of the conversation. Default: the run's.
        share_conversation: True records a nested graph in the conversation of the calling graph. Default: False.
        tools: The tools of the agent's model. Their schemas count as tokens of the context. Default: none.
        system: A system prompt that the application sends before the messages. Its tokens are counted. Default: none.
        window: The maximum input tokens of the agent's model. Set it if this model is not `model`, the summarizer.
            Default: the maximum of the summarizer, if its profile states it.

    Raises:
        InvalidInput: An argument is invalid.
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
        self._conversation = ConversationOption(conversation_id, namespace, share_conversation).validate()
        self._compactor = Compactor(database_of(memory), config, model, window=window)
        self._database = self._compactor.database
        self._shrink = shrink
        counter = self._compactor.counter
        self._overhead = counter.count((), tools=tools, system=system) if tools or system is not None else 0

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """Return the context of a history.

        Args:
            input: Messages, a prompt, or a state that has the history under "messages".
            config: The config of the run. Its thread selects the conversation that records the history.
            **kwargs: Not used.

        Returns:
            For messages or a prompt: the messages of the context. For a state: an update with the context under
            "llm_input_messages". With `shrink=True`, the update replaces "messages"; without a compaction, it is empty.

        Raises:
            InvalidInput: The input has no messages, or the graph's state schema lacks the key that the update sets.
        """
        return super().invoke(input, config, **kwargs)

    _writes = True

    def _run(self, input_value: Any, config: RunnableConfig) -> Any:
        is_state = not isinstance(input_value, str | Sequence | PromptValue | BaseMessage)
        history = input_value
        if is_state:
            history = prompt_forms.get_history(input_value)
        elif isinstance(input_value, PromptValue):
            history = input_value.to_messages()
        if isinstance(history, str | bytes) or not isinstance(history, Sequence):
            expected = f"Pass messages, a prompt, or a state with a list of messages under '{HISTORY_KEY}'."
            raise InvalidInput(f"The input has no messages: {safe_repr(input_value)}. {expected}")
        messages = prompt_forms.convert_messages(history)
        key = HISTORY_KEY if self._shrink else prompt_forms.CONTEXT_KEY  # the key of the state to update
        in_graph = is_state and prompt_forms.find_state_keys(config, key) is not None
        at = self._conversation.resolve(self._compactor.database, ensure_config(config))
        view = self._compactor.compact_history(messages, at, overhead=self._overhead)
        if not is_state:
            return view.messages
        if not self._shrink:
            return prompt_forms.make_state_update([(key, view.messages)]) if in_graph else {key: view.messages}
        if not view.compacted:
            return {}
        from langgraph.types import Overwrite  # noqa: PLC0415 - only shrink=True needs it

        # Overwrite is the only replacement that works both with the reducer `add_messages` and in a DeltaChannel.
        replacement = Overwrite(drop_placeholders(view.messages))
        return prompt_forms.make_state_update([(key, replacement)]) if in_graph else {key: replacement}


class CompactionState(MessagesState):
    """A graph state with the history in `messages`, and its context in `llm_input_messages`."""

    llm_input_messages: list[AnyMessage]
