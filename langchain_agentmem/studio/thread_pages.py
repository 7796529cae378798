"""The pages of threads, conversations and named branches.

A thread is shown at a checkpoint, with its messages, memory, changes, compactions and prompts. The page of a
conversation without checkpoints shows only its messages, compactions and prompts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from langchain_agentmem.base.concurrency import run_in_worker
from langchain_agentmem.base.namespaces import Namespace, ThreadId, check_id, format_namespace
from langchain_agentmem.compaction.dropped_messages import areplaced_messages
from langchain_agentmem.errors import MessageError, safe_repr
from langchain_agentmem.messages.message_marks import summary_in
from langchain_agentmem.studio import application as web
from langchain_agentmem.studio import thread_views as views

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

    from langchain_agentmem import AgentMemory, ConversationMemory
    from langchain_agentmem.checkpoints.checkpoint_listing import CheckpointHistory, CheckpointSummary
    from langchain_agentmem.conversations.prompt_notes import PromptNote
    from langchain_agentmem.facts.kg_memory import KGMemory
    from langchain_agentmem.layers.layered_memory import LayeredMemory

LOG_PANELS = ("messages", "compaction", "prompts")
"""The panels of a conversation without checkpoints: the values of the URL parameter `show`."""
TITLE_MESSAGES = 8
"""The number of messages, from the first, that are searched for the title of a thread."""
MAX_ITEMS = 200
"""The maximum number of a thread's items that are compared between two checkpoints."""
COLUMN_WIDTH, ROW_HEIGHT, LAST_COLUMN = 14, 30, 10
"""The size of the columns and rows in the drawing of the tree, in pixels, and the index of the last column."""

TemplateValues = dict[str, Any]
"""The values for a template."""


ROLES = ("user", "assistant", "system", "tool")
"""The roles that the filter of the list of threads suggests."""


class ShownThread(NamedTuple):
    """The thread or conversation that a page shows.

    Attributes:
        memory: The memory.
        namespace: The namespace of the thread.
        name: The id of the thread or conversation.
        history: A page of checkpoints that contains `checkpoint`; None for a conversation without checkpoints.
        checkpoint: The checkpoint that the page shows.
        config: The config of the checkpoint.
        state: The checkpoint with its channel values; None if it was deleted meanwhile.
    """

    memory: AgentMemory
    namespace: Namespace
    name: str
    history: CheckpointHistory | None = None
    checkpoint: CheckpointSummary | None = None
    config: RunnableConfig | None = None
    state: CheckpointTuple | None = None

    @property
    def chat(self) -> ConversationMemory:
        """The conversation with the thread's id."""
        return self.memory.conversation(self.name, self.namespace)


async def threads(request: Request) -> Response:
    """Show a page of threads, the most recently changed first."""
    params, namespace = request.query_params, web.namespace_param(request) or ()
    start = web.number_param(request, "start")
    filters = {"query": params.get("q") or None, "role": params.get("role") or None}
    times: dict[str, Any] = {name: web.time_param(request, name) for name in ("since", "until")}
    options: dict[str, Any] = {**filters, **times, "limit": web.PAGE, "offset": start}
    page = await web.studio_of(request).memory.admin.athreads(namespace, sizes=False, **options)
    return web.render_page(
        request,
        "threads.html",
        page=page,
        has_filters=any(params.values()),
        query=params,
        roles=ROLES,
        **web.paging_values(page.total, start),
        **times,
    )


async def thread(request: Request) -> Response:
    """Show a thread at a checkpoint, or its conversation if it has no checkpoints."""
    target = _requested_thread(request)
    config = _thread_config(target)
    if subgraph := request.query_params.get("ns"):
        config["configurable"]["checkpoint_ns"] = subgraph
    history, checkpoint = await _load_history(request, target, config)
    if checkpoint is None:
        if subgraph:
            raise web.not_found(f"The thread {safe_repr(target.name)} has no subgraph {safe_repr(subgraph)}.")
        return await _log_page(request, target)
    config["configurable"]["checkpoint_id"] = checkpoint.checkpoint_id
    saver = target.memory.checkpointer
    state = await saver.aget_tuple(config)
    target = target._replace(history=history, checkpoint=checkpoint, config=config, state=state)
    load_heads = saver.ahistory(config, ends=True, limit=web.PAGE)
    panel, heads = await asyncio.gather(_load_panel(request, target, _PANELS), load_heads)
    namespace = target.namespace if state is None else state.config["configurable"]["thread_id"].namespace
    if namespace != target.namespace:
        # The URL selects the root, which has no such checkpoints: these are of a thread in another namespace.
        # If the root has a conversation with this id, show that. Otherwise redirect to the URL of the found thread.
        page = await target.memory.admin.athreads((), thread_id=target.name, sizes=False)
        if target.namespace in {each.namespace for each in page.threads}:
            return await _log_page(request, _requested_thread(request))
        return web.redirect(request, "/thread", **{**request.query_params, "namespace": namespace})
    neighbour_ids = [None, *(each.checkpoint_id for each in history.checkpoints), None]
    i = neighbour_ids.index(checkpoint.checkpoint_id)
    return web.render_page(
        request,
        "thread.html",
        **panel,
        target=target,
        tree=draw_tree(history.checkpoints),
        # The number of the checkpoint, counted from the first. The history lists the newest first.
        number=history.total - history.newer - history.checkpoints.index(checkpoint),
        neighbours={"previous": neighbour_ids[i + 1], "next": neighbour_ids[i - 1], "parent": checkpoint.parent_id},
        heads=heads,  # the newest checkpoint of each fork
        title=thread_title(state) or target.name,
        subgraph=subgraph,
    )


async def conversation(request: Request) -> Response:
    """Show the log of a conversation."""
    target = _requested_thread(request)
    history = await target.memory.checkpointer.ahistory(_thread_config(target), limit=0)
    return await _log_page(request, target, has_thread=bool(history.total))


async def memory_branch(request: Request) -> Response:
    """Show the memory of a named branch."""
    memory, namespace = web.studio_of(request).memory, web.namespace_param(request) or ()
    name = request.query_params.get("branch") or "main"
    layers, facts = memory.layers(name, namespace), memory.facts(name, namespace)
    load_values = _load_layers(request, layers, facts)
    values, tree, ancestors = await asyncio.gather(load_values, layers.atree(), layers.aancestors())
    if tree.created_at is None and name != "main":  # "main" exists, and is empty, before its first write
        raise web.not_found(f"There is no branch {safe_repr(name)} in this namespace.")
    branches, pending = [], [tree]
    while pending:
        branches.append(each := pending.pop())
        pending += reversed(each.children)
    values |= {"namespace": namespace, "branch": name, "ancestors": ancestors}
    return web.render_page(request, "memory.html", **values, branches=[each.name for each in branches])


def _thread_config(target: ShownThread) -> RunnableConfig:
    return {"configurable": {"thread_id": ThreadId(target.name, target.namespace)}}


def _requested_thread(request: Request) -> ShownThread:
    name = check_id(web.required_param(request, "id"), "thread")
    return ShownThread(web.studio_of(request).memory, web.namespace_param(request) or (), name)


async def _load_history(
    request: Request, target: ShownThread, config: RunnableConfig
) -> tuple[CheckpointHistory, CheckpointSummary | None]:
    """Return a page of checkpoints, and the requested checkpoint, by default the newest.

    A request identifies a checkpoint by its id or by its number, counted from the first. The returned checkpoint is
    None if the thread has no checkpoints.

    Raises:
        HTTPException: The checkpoint does not exist.
    """
    saver, at = target.memory.checkpointer, request.query_params.get("at")
    if at:
        history = await saver.ahistory(config, limit=web.PAGE, around=at)
        checkpoint = next((each for each in history.checkpoints if each.checkpoint_id == at), None)
        if checkpoint is None:
            raise web.not_found(f"The thread {safe_repr(target.name)} has no checkpoint {safe_repr(at)}.")
        return history, checkpoint
    newer = 0  # the number of checkpoints that are newer than the requested one
    if number := web.number_param(request, "number"):
        total = (await saver.ahistory(config, limit=0)).total
        newer = max(total - number, 0)
    history = await saver.ahistory(config, limit=web.PAGE, offset=max(0, newer - web.PAGE // 2))
    return history, next(iter(history.checkpoints[newer - history.newer :]), None)


async def _load_panel(request: Request, target: ShownThread, tabs: Sequence[str] | Mapping[str, Any]) -> TemplateValues:
    requested = request.query_params.get("show", "")
    tab = requested if requested in tabs else "messages"
    return {"tab": tab, "tabs": {each: _PANELS[each][0] for each in tabs}, **await _PANELS[tab][1](request, target)}


async def _log_page(request: Request, target: ShownThread, *, has_thread: bool = False) -> Response:
    """Show the log of a conversation. If it has a thread, the page links to the thread.

    Raises:
        HTTPException: The conversation does not exist.
    """
    panel = await _load_panel(request, target, LOG_PANELS)
    if not panel["messages"]:
        page = await target.memory.admin.athreads(target.namespace, thread_id=target.name)
        if target.namespace not in {each.namespace for each in page.threads}:
            raise web.not_found(f"There is no thread and no conversation {safe_repr(target.name)} in this namespace.")
    return web.render_page(request, "thread.html", **panel, target=target, title=target.name, has_thread=has_thread)


# -- messages -----------------------------------------------------------------------------------------------------


async def _messages_panel(request: Request, target: ShownThread) -> TemplateValues:
    """Return a page of messages.

    For a checkpoint, also return its other channel values and its interrupts.
    """
    marked = request.query_params.get("message")
    if target.config is None:
        return {"marked": marked, **await _load_log(request, target)}
    state = target.state
    if state is None:
        raise web.not_found("This checkpoint was deleted meanwhile.")
    channels = _message_channels(state)
    channel = select_channel(state, request.query_params.get("channel"))
    messages = state.checkpoint["channel_values"][channel] if channel else []
    ids = [each.id for each in messages]
    end = web.number_param(request, "before") or len(messages)
    if marked and marked in ids:
        end = max(web.PAGE, ids.index(marked) + 1 + web.PAGE // 2)
    end = min(end, len(messages))
    first = max(0, end - web.PAGE)
    return {
        "messages": list(map(views.display_message, messages[first:end])),
        "marked": marked,
        "channel": channel,
        "channels": channels,
        "excerpt": {"first": first, "total": len(messages)} if channel else None,
        "state": {name: views.as_text(value) for name, value in views.state_of(state).items()},
        "interrupts": list(map(views.as_text, views.interrupts_of(state))),
    }


async def _load_log(request: Request, target: ShownThread) -> TemplateValues:
    """Return a page of the messages of a log.

    The URL parameter `message` is the id of the message in the middle of the page. The URL parameter `until` is the id
    of the message after the page. Default: the newest messages.
    """
    around, until = request.query_params.get("message"), request.query_params.get("until")
    before, after = (web.PAGE // 2, web.PAGE // 2 - 1) if around else (web.PAGE, 0)
    try:
        messages = await target.chat.aaround(around or until or None, before=before, after=after)
    except MessageError as error:
        raise web.not_found(str(error)) from error
    # Omit the message `until` itself: it is the first message of the page of newer messages.
    messages = messages[:-1] if until and not around else messages
    empty: TemplateValues = {"channel": None, "channels": (), "excerpt": None, "state": {}, "interrupts": ()}
    return {**empty, "messages": list(map(views.display_message, messages)), "until": until, "around": around}


def _message_channels(state: CheckpointTuple) -> list[str]:
    return [name for name, value in state.checkpoint["channel_values"].items() if views.is_message_list(value)]


def select_channel(state: CheckpointTuple, requested: str | None) -> str | None:
    """Return the name of the message channel to show.

    It is the requested channel, else "messages", else the first.
    """
    channels = _message_channels(state)
    return next((each for each in (requested, "messages", *channels) if each in channels), None)


def thread_title(state: CheckpointTuple | None) -> str | None:
    """Return the title of a thread: its first user message; None if there is none."""
    channel = None if state is None else select_channel(state, None)
    if state is None or channel is None:
        return None
    messages = map(views.display_message, state.checkpoint["channel_values"][channel][:TITLE_MESSAGES])
    texts = (each.message.text for each in messages if each.message.role == "user" and not each.mark)
    return next(filter(None, (" ".join(text.split()) for text in texts)), None)


# -- memory ------------------------------------------------------------------------------------------------------


async def _memory_panel(request: Request, target: ShownThread) -> TemplateValues:
    """Return the memory of a thread at a checkpoint.

    At the newest checkpoint, it is the memory that the next run sees.
    """
    memory, config, checkpoint, history = target.memory, target.config, target.checkpoint, target.history
    if config and history and not history.newer and checkpoint == history.checkpoints[0]:
        newest = {name: value for name, value in config["configurable"].items() if name != "checkpoint_id"}
        config, checkpoint = {"configurable": newest}, None
    start = web.number_param(request, "items")
    values, items = await asyncio.gather(
        _load_layers(request, memory.layers(config), memory.facts(config), checkpoint),
        memory.thread_store.at(config or {}).asearch((), limit=web.PAGE + 1, offset=start),
    )
    item_texts = [(format_namespace(each.namespace, each.key), views.as_text(each.value)) for each in items]
    return {**values, "items": _make_page(item_texts, start)}


async def _load_layers(
    request: Request, layers: LayeredMemory, facts: KGMemory, checkpoint: CheckpointSummary | None = None
) -> TemplateValues:
    """Return core memory, and one page each of records, events and facts, newest first."""
    starts = {name: web.number_param(request, name) for name in ("records", "events", "facts")}
    core, records, events, latest_facts = await asyncio.gather(
        layers.core.aentries(),
        layers.archival.aall(limit=starts["records"] + web.PAGE + 1),
        layers.recall.arecent(starts["events"] + web.PAGE + 1),
        facts.alatest(starts["facts"] + web.PAGE + 1, valid=checkpoint.created_at if checkpoint else facts.now),
    )
    loaded = {"records": records[::-1], "events": events[::-1], "facts": latest_facts}
    return {"core": core, **{name: _make_page(loaded[name][start:], start) for name, start in starts.items()}}


def _make_page(objects: Sequence[Any], start: int) -> TemplateValues:
    """Return a page of objects for a template, and whether a next page exists.

    Args:
        objects: The objects of the page, and the first object of the next page if there is one.
        start: The index of the first object among all objects.
    """
    return {"objects": objects[: web.PAGE], "start": start, "more": len(objects) > web.PAGE}


async def _step_panel(request: Request, target: ShownThread) -> TemplateValues:
    """Return the values that a step added, changed and removed."""
    del request  # the signature is that of all panels
    memory, config = target.memory, target.config
    pair = None if config is None else await memory.checkpointer.achanges(config)
    if pair is None:
        raise web.not_found("This checkpoint was deleted meanwhile.")
    layers: dict[str, list[views.ShownChange]] = {}
    for each in await run_in_worker(lambda: [*views.changes_between(memory, pair, MAX_ITEMS)]):
        layers.setdefault(each.layer, []).append(each)
    return {"changes": layers, "unknown": pair.before is None and pair.after.parent_config is not None}


# -- prompts ------------------------------------------------------------------------------------------------------


async def _compactions_panel(request: Request, target: ShownThread) -> TemplateValues:
    """Return the summaries, and the original messages that the selected summary replaces."""
    records = await target.chat.acompactions(web.PAGE)
    summaries: dict[str, BaseMessage] = {}
    if target.config is not None and target.checkpoint is not None:
        summaries = {} if target.state is None else _select_summaries(views.messages_in(target.state).values())
        records = [each for each in records if each.created_at <= target.checkpoint.created_at]
    in_state = set(summaries)
    for record in records:
        added = _select_summaries(record.generated_messages)
        summaries |= {key: each for key, each in added.items() if key not in in_state}
    requested, start = request.query_params.get("summary"), web.number_param(request, "behind")
    selected = requested if requested in summaries else next(iter(summaries), None)
    originals: Sequence[Any] = ()
    if selected:
        location: dict[str, Any] = {"conversation_id": target.name, "namespace": target.namespace}
        originals = await areplaced_messages(target.memory, selected, **location, offset=start, limit=web.PAGE + 1)
    made_by = {key: record for record in reversed(records) for key in _select_summaries(record.generated_messages)}
    return {
        "messages": [],
        "summaries": {key: views.display_message(each) for key, each in summaries.items()},
        "in_state": in_state,
        "made_by": made_by,
        "chosen": selected,
        "originals": _make_page(list(map(views.display_message, originals)), start),
    }


def _select_summaries(messages: Iterable[BaseMessage]) -> dict[str, BaseMessage]:
    return {each.id: each for each in messages if each.id and summary_in(each) is not None}


async def _prompts_panel(request: Request, target: ShownThread) -> TemplateValues:
    """Return a page of messages, each with the number of memory items before it in prompts.

    For the selected message, also return these items with their texts and the reasons for their selection.
    """
    values = await _messages_panel(request, target)
    messages: Sequence[views.ShownMessage] = values["messages"]
    by_message: dict[str, list[PromptNote]] = {}
    for each in await target.chat.aprompt_notes([each.key for each in messages if each.key]):
        by_message.setdefault(each.message_id, []).append(each)
    questions = [each for each in messages if each.key in by_message]
    requested = request.query_params.get("message")
    selected = requested if requested in by_message else (questions[-1].key if questions else None)
    shown_notes = by_message.get(selected or "", [])
    texts = await _item_texts(target, shown_notes)
    return {
        **values,
        "questions": questions,
        "chosen": selected,
        "counts": {key: sum(len(note.items) for note in group) for key, group in by_message.items()},
        "notes": [(note, [(item, texts.get((item.kind, item.id))) for item in note.items]) for note in shown_notes],
        "max_score": max((abs(item.score) for note in shown_notes for item in note.items if item.score), default=1.0),
    }


async def _message_text(target: ShownThread, message_id: str) -> str | None:
    """Return the text of a message of the thread; None if it does not exist."""
    try:
        [message] = await target.chat.aaround(message_id, before=0, after=0)
    except MessageError:
        return None
    return message.text


async def _item_texts(target: ShownThread, notes: Sequence[PromptNote]) -> dict[tuple[str, str], str]:
    """Return the texts of the items in notes, by kind and id, without deleted items.

    At most one page of texts is loaded. Notes on core memory contain its values, so these are not loaded. The items of
    a note with a `reader` are not loaded, because they are in another memory.
    """
    texts = {("core", key): value for note in notes for key, value in note.values.items()}
    loaders: dict[str, Callable[[str], Awaitable[Any]]] = {"message": partial(_message_text, target)}
    if target.config is not None:
        layers, facts = target.memory.layers(target.config), target.memory.facts(target.config)
        loaders |= {"record": layers.archival.aget, "event": layers.recall.aget, "fact": facts.aget}
    item_keys = [(item.kind, item.id) for note in notes if not note.reader for item in note.items]
    missing = [each for each in item_keys if each[0] in loaders and each not in texts][: web.PAGE]
    values = await asyncio.gather(*(loaders[kind](item_id) for kind, item_id in missing))
    pairs = zip(missing, values, strict=True)
    return texts | {item_key: str(getattr(value, "content", value)) for item_key, value in pairs if value}


_PANELS: Mapping[str, tuple[str, Callable[[Request, ShownThread], Awaitable[TemplateValues]]]] = {
    "messages": ("Messages", _messages_panel),
    "memory": ("Memory", _memory_panel),
    "diff": ("This step", _step_panel),
    "compaction": ("Compactions", _compactions_panel),
    "prompts": ("Prompts", _prompts_panel),
}
"""The title and the function of each panel of a checkpoint, by the value of the URL parameter `show`."""


# -- the tree ------------------------------------------------------------------------------------------------------


class DrawnRow(NamedTuple):
    """A checkpoint in the drawing of the tree.

    Attributes:
        checkpoint: The checkpoint.
        x: The x coordinate of its dot.
        y: The y coordinate of its dot.
        line: The points of the SVG line to its parent; to the lower edge if the parent is not drawn. "" without parent.
    """

    checkpoint: CheckpointSummary
    x: int
    y: int
    line: str


def draw_tree(checkpoints: Sequence[CheckpointSummary]) -> list[DrawnRow]:
    """Draw checkpoints as a tree, with one row each and the newest at the top.

    The line from a checkpoint down to its parent has its own column, so it crosses no dots of other checkpoints.
    Columns after `LAST_COLUMN` are drawn at `LAST_COLUMN`.

    Args:
        checkpoints: The checkpoints, the newest first.
    """
    y_by_id = {each.checkpoint_id: ROW_HEIGHT * index + ROW_HEIGHT // 2 for index, each in enumerate(checkpoints)}
    columns: list[str | None] = []  # the id of the checkpoint that each column's line leads down to
    x_by_id: dict[str, int] = {}
    for each in checkpoints:
        own_columns = [column for column, expected_id in enumerate(columns) if expected_id == each.checkpoint_id]
        for column in own_columns:
            columns[column] = None
        free_columns = [column for column, expected_id in enumerate(columns) if expected_id is None]
        column = (own_columns or free_columns or [len(columns)])[0]
        columns[column : column + 1] = [each.parent_id]
        x_by_id[each.checkpoint_id] = COLUMN_WIDTH * min(column, LAST_COLUMN) + COLUMN_WIDTH // 2
    drawing = []
    for each in checkpoints:
        x, y, line = x_by_id[each.checkpoint_id], y_by_id[each.checkpoint_id], ""
        if each.parent_id in y_by_id:
            parent_y = y_by_id[each.parent_id]
            line = f"{x},{y} {x},{parent_y - ROW_HEIGHT // 2} {x_by_id[each.parent_id]},{parent_y}"
        elif each.parent_id is not None:
            line = f"{x},{y} {x},{ROW_HEIGHT * len(checkpoints)}"
        drawing.append(DrawnRow(each, x, y, line))
    return drawing
