"""The contents of a checkpoint, prepared for pages and commands. Only `changes_between` reads the database."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_agentmem.base.namespaces import format_namespace
from langchain_agentmem.base.safe_repr import format_count
from langchain_agentmem.messages.langchain_messages import from_langchain, to_langchain
from langchain_agentmem.messages.message import Message, ToolCallMsg
from langchain_agentmem.messages.message_marks import is_from_compaction, is_injected, summary_in

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

    from langchain_agentmem.agent_memory import AgentMemory
    from langchain_agentmem.checkpoints.checkpoint_listing import CheckpointChanges
    from langchain_agentmem.rewinding.branches import BranchDiff

_INTERNAL_PREFIXES = ("__", "branch:")
"""The prefixes of the names of LangGraph's internal channels."""
_REASONING_KEYS = {"reasoning": "reasoning", "thinking": "thinking", "redacted_thinking": "data"}
"""The types of content blocks with a model's reasoning. Each value is the key of the block's text or encrypted data."""
_KNOWN_BLOCKS = ("text", "tool_use", "tool_call", "function_call", "input_text", "output_text", "refusal")
"""The types of content blocks that are shown as text or calls."""


class ShownChange(NamedTuple):
    """A difference between two memories.

    Attributes:
        layer: One of "messages", "state", "posts", "items", "core", "recall", "archival" or "facts".
        key: The id, key or name of the entry that differs.
        before: The text in the first memory; None if the entry is missing there.
        after: The text in the second memory; None if the entry is missing there.
    """

    layer: str
    key: str
    before: str | None
    after: str | None

    @property
    def kind(self) -> str:
        """The kind of the change: "added", "removed" or "changed"."""
        return "added" if self.before is None else "removed" if self.after is None else "changed"


class ShownMessage(NamedTuple):
    """A message prepared for display.

    It contains only text, so that a page loads no external images or files.

    Attributes:
        message: The message.
        key: The id of the message; None if it has none.
        mark: The kind of a generated message: "summary", "memory" or "shortened"; else None.
        reasoning: A model's reasoning, if it is available as text.
        other_content: The types of content blocks that are not shown, and the number of images, such as "2 images".
    """

    message: Message
    key: str | None
    mark: str | None = None
    reasoning: tuple[str, ...] = ()
    other_content: tuple[str, ...] = ()

    @property
    def calls(self) -> Sequence[ToolCallMsg]:
        """The tool calls of the message."""
        return self.message.tool_calls or ()


def is_message_list(value: Any) -> bool:
    """Return True if the value of a channel is a non-empty list or tuple of messages."""
    from langchain_core.messages import BaseMessage  # noqa: PLC0415 - most commands do not need it

    return isinstance(value, list | tuple) and bool(value) and all(isinstance(each, BaseMessage) for each in value)


def messages_in(checkpoint_tuple: CheckpointTuple) -> dict[str, BaseMessage]:
    """Return the messages of a checkpoint by id; those without an id by channel and index."""
    return {
        each.id or f"{channel}[{index}]": each
        for channel, value in checkpoint_tuple.checkpoint["channel_values"].items()
        if is_message_list(value)
        for index, each in enumerate(value)
    }


def state_of(checkpoint_tuple: CheckpointTuple) -> dict[str, Any]:
    """Return the state without messages and LangGraph's internal channels, as JSON values.

    Values that JSON cannot represent are converted to strings.
    """
    return {
        name: json.loads(json.dumps(value, default=str, skipkeys=True))
        for name, value in checkpoint_tuple.checkpoint["channel_values"].items()
        if not name.startswith(_INTERNAL_PREFIXES) and not is_message_list(value)
    }


def interrupts_of(checkpoint_tuple: CheckpointTuple) -> Iterator[Any]:
    """Yield the values of a checkpoint's interrupts, and a text for each failed task."""
    for _, channel, value in checkpoint_tuple.pending_writes or ():
        if channel == "__interrupt__":
            for each in value if isinstance(value, list | tuple) else [value]:
                yield json.loads(json.dumps(getattr(each, "value", each), default=str, skipkeys=True))
        elif channel == "__error__":
            yield f"a task failed: {value}"


def display_message(source: BaseMessage | Message) -> ShownMessage:
    """Prepare a message of a checkpoint or of a conversation for display."""
    message = source if isinstance(source, Message) else from_langchain(source)
    lc_message = to_langchain(source) if isinstance(source, Message) else source
    content = lc_message.content if isinstance(lc_message.content, list) else ()
    blocks = [each for each in content if isinstance(each, dict)]
    reasoning = [block.get(_REASONING_KEYS[block["type"]]) for block in blocks if block.get("type") in _REASONING_KEYS]
    known = {*_KNOWN_BLOCKS, *_REASONING_KEYS}
    other_content = [str(block.get("type") or "a block") for block in blocks if block.get("type") not in known]
    if message.images:
        other_content.append(format_count(len(message.images), "images"))
    mark = None if not is_from_compaction(lc_message) else "shortened"
    if summary_in(lc_message) is not None or is_injected(lc_message):
        mark = "memory" if is_injected(lc_message) else "summary"
    return ShownMessage(
        message, source.message_id if isinstance(source, Message) else source.id, mark,
        tuple(each for each in reasoning if isinstance(each, str) and each), tuple(other_content),
    )  # fmt: skip


# -- differences ---------------------------------------------------------------------------------------------------


def changes_in(layer: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[ShownChange]:
    """Yield the differences between two mappings from key to text."""
    for key in dict.fromkeys([*before, *after]):
        if before.get(key) != after.get(key):
            yield ShownChange(layer, key, before.get(key), after.get(key))


def changes_of_state(changes: CheckpointChanges) -> Iterator[ShownChange]:
    """Yield the differences in messages and state between two checkpoints."""
    checkpoints = (changes.before, changes.after)
    messages = [{} if each is None else messages_in(each) for each in checkpoints]
    lines = ({key: _format_message_line(each) for key, each in group.items()} for group in messages)
    yield from changes_in("messages", *lines)
    channel_values = [{} if each is None else each.checkpoint["channel_values"] for each in checkpoints]
    # An empty channel of messages looks like other state, so the channel is skipped if either checkpoint has messages.
    channels = {name for values in channel_values for name, value in values.items() if is_message_list(value)}
    states = [{} if each is None else state_of(each) for each in checkpoints]
    texts = [{name: as_text(value) for name, value in state.items() if name not in channels} for state in states]
    yield from changes_in("state", *texts)


def changes_between(memory: AgentMemory, changes: CheckpointChanges, max_items: int) -> Iterator[ShownChange]:
    """Yield the differences between two checkpoints.

    The differences cover messages, state, posts of sessions, items of the thread's store, layers and facts.

    Args:
        memory: The memory that contains both checkpoints.
        changes: Both checkpoints, with the values that differ.
        max_items: The maximum number of items of the thread to compare.
    """
    yield from changes_of_state(changes)
    if changes.before is not None:
        configs = (changes.before.config, changes.after.config)
        yield from changes_in("posts", *(_load_posts(memory, each) for each in configs))
        yield from changes_in("items", *(_load_items(memory, each, max_items) for each in configs))
        before, after = (memory.layers(each) for each in configs)
        yield from changes_of_layers(before.diff(after))


def _load_posts(memory: AgentMemory, config: RunnableConfig) -> dict[str, str]:
    posts = [post for role_round in memory.session(config).rounds for post in role_round.post_list]
    return {post.id: f"{post.send_from} -> {post.send_to}: {post.message}" for post in posts}


def _load_items(memory: AgentMemory, config: RunnableConfig, max_items: int) -> dict[str, str]:
    items = memory.thread_store.at(config).search((), limit=max_items)
    return {format_namespace(each.namespace, each.key): as_text(each.value) for each in items}


def changes_of_layers(diff: BranchDiff) -> Iterator[ShownChange]:
    """Yield the differences in layers and facts.

    In `diff`, `mine` is the earlier memory and `theirs` the later one.
    """
    for layer in ("core", "recall", "archival", "facts"):
        difference = getattr(diff, layer)
        for key, text in difference.mine.items():
            yield ShownChange(layer, key, text, None)
        for key, text in difference.theirs.items():
            yield ShownChange(layer, key, None, text)
        for key, each in difference.changed.items():
            yield ShownChange(layer, key, each.mine, each.theirs)


def as_text(value: Any) -> str:
    """Return a value of a state, or of an item, as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _format_message_line(lc_message: BaseMessage) -> str:
    message = from_langchain(lc_message)
    calls = "".join(f" [calls {call.name} {call.arguments}]" for call in message.tool_calls or ())
    return f"{message.role}: {message.text}{calls}"
