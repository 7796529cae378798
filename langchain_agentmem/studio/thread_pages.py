"""The pages of threads, conversations and named branches.

A thread is shown at a checkpoint, with its messages, memory, changes, compactions and prompts. A conversation without a
thread has the same page without the tree.
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
"""The panels of a conversation without checkpoints: the values of `show` in addresses."""
TITLE_MESSAGES = 8
"""The number of messages, from the first, that are searched for the title of a thread."""
MAX_ITEMS = 200
"""The maximum number of a thread's items that are compared between two checkpoints."""
LANE_WIDTH, ROW_HEIGHT, MAX_LANES = 14, 30, 10
"""The width of a lane of the tree, the height of a row, and the index of the last lane."""

TemplateValues = dict[str, Any]
"""The values for a template."""


ROLES = ("user", "assistant", "system", "tool")
"""The roles that the form of the list of threads suggests."""


class ThreadAddress(NamedTuple):
    """The thread or conversation that a page shows.

    Attributes:
        memory: The memory.
        namespace: The namespace of the thread.
        name: The id of the thread or conversation.
        history: The checkpoints around the shown one; None for a conversation without checkpoints.
        checkpoint: The shown checkpoint.
        config: The config that names the checkpoint.
        state: The state of the checkpoint.
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
    options: dict[str, Any] = {
        "query": params.get("q") or None,
        "role": params.get("role") or None,
        "since": web.time_param(request, "since"),
        "until": web.time_param(request, "until"),
        "limit": web.PAGE,
        "offset": start,
    }
    found = await web.studio_of(request).memory.admin.athreads(namespace, sizes=False, **options)
    return web.render_page(
        request,
        "threads.html",
        found=found,
        bare=not any(params.values()),
        query=params,
        since=options["since"],
        until=options["until"],
        roles=ROLES,
        neighbours=web.page_links(found.total, start),
        start=start,
    )


async def thread(request: Request) -> Response:
    """Show a thread at a checkpoint, or its conversation if it has no checkpoints."""
    place = _requested_thread(request)
    config = _thread_config(place)
    if subgraph := request.query_params.get("ns"):
        config["configurable"]["checkpoint_ns"] = subgraph
    history, chosen = await _load_window(request, place, config)
    if chosen is None:
        if subgraph:
            raise web.not_found(f"The thread {safe_repr(place.name)} has no subgraph {safe_repr(subgraph)}.")
        return await _log_page(request, place)
    config["configurable"]["checkpoint_id"] = chosen.checkpoint_id
    saver = place.memory.checkpointer
    state = await saver.aget_tuple(config)
    place = place._replace(history=history, checkpoint=chosen, config=config, state=state)
    history_ends = saver.ahistory(config, ends=True, limit=web.PAGE)
    panel, ends = await asyncio.gather(_load_panel(request, place, _PANELS), history_ends)
    owner = place.namespace if state is None else state.config["configurable"]["thread_id"].namespace
    if owner != place.namespace:  # if the root has no such thread, the id finds one in any namespace
        found = await place.memory.admin.athreads((), thread_id=place.name, sizes=False)
        if place.namespace in {each.namespace for each in found.threads}:
            return await _log_page(request, _requested_thread(request))
        return web.redirect(request, "/thread", **{**request.query_params, "namespace": owner})
    neighbour_ids = [None, *(each.checkpoint_id for each in history.checkpoints), None]
    at = neighbour_ids.index(chosen.checkpoint_id)
    return web.render_page(
        request,
        "thread.html",
        **panel,
        place=place,
        tree=draw_tree(history.checkpoints),
        number=history.total - history.newer - history.checkpoints.index(chosen),
        neighbours={"previous": neighbour_ids[at + 1], "next": neighbour_ids[at - 1], "parent": chosen.parent_id},
        ends=ends,
        title=thread_title(state) or place.name,
        subgraph=subgraph,
    )


async def conversation(request: Request) -> Response:
    """Show the log of a conversation."""
    place = _requested_thread(request)
    found = await place.memory.checkpointer.ahistory(_thread_config(place), limit=0)
    return await _log_page(request, place, of_thread=bool(found.total))


async def memory_branch(request: Request) -> Response:
    """Show the memory of a named branch."""
    memory, namespace = web.studio_of(request).memory, web.namespace_param(request) or ()
    name = request.query_params.get("branch") or "main"
    layers, facts = memory.layers(name, namespace), memory.facts(name, namespace)
    pending_values = _load_layers(request, layers, facts)
    values, tree, ancestors = await asyncio.gather(pending_values, layers.atree(), layers.aancestors())
    if tree.created_at is None and name != "main":  # "main" exists, and is empty, before its first write
        raise web.not_found(f"There is no branch {safe_repr(name)} in this namespace.")
    branches, pending = [], [tree]
    while pending:
        branches.append(each := pending.pop())
        pending += reversed(each.children)
    values |= {"namespace": namespace, "branch": name, "ancestors": ancestors}
    return web.render_page(request, "memory.html", **values, branches=[each.name for each in branches])


def _thread_config(place: ThreadAddress) -> RunnableConfig:
    return {"configurable": {"thread_id": ThreadId(place.name, place.namespace)}}


def _requested_thread(request: Request) -> ThreadAddress:
    name = check_id(web.required_param(request, "id"), "thread")
    return ThreadAddress(web.studio_of(request).memory, web.namespace_param(request) or (), name)


async def _load_window(
    request: Request, place: ThreadAddress, config: RunnableConfig
) -> tuple[CheckpointHistory, CheckpointSummary | None]:
    """Return a page of checkpoints, and the requested one of them. Default: the newest.

    A request names a checkpoint by its id or its number. The checkpoint is None if the thread has none.

    Raises:
        HTTPException: The checkpoint does not exist.
    """
    saver, at = place.memory.checkpointer, request.query_params.get("at")
    if at:
        history = await saver.ahistory(config, limit=web.PAGE, around=at)
        found = next((each for each in history.checkpoints if each.checkpoint_id == at), None)
        if found is None:
            raise web.not_found(f"The thread {safe_repr(place.name)} has no checkpoint {safe_repr(at)}.")
        return history, found
    newer = 0
    if number := web.number_param(request, "number"):
        total = (await saver.ahistory(config, limit=0)).total
        newer = min(max(total - number, 0), max(total - 1, 0))
    history = await saver.ahistory(config, limit=web.PAGE, offset=max(0, newer - web.PAGE // 2))
    return history, next(iter(history.checkpoints[newer - history.newer :]), None)


async def _load_panel(
    request: Request, place: ThreadAddress, tabs: Sequence[str] | Mapping[str, Any]
) -> TemplateValues:
    requested = request.query_params.get("show", "")
    tab = requested if requested in tabs else "messages"
    return {"tab": tab, "tabs": {each: _PANELS[each][0] for each in tabs}, **await _PANELS[tab][1](request, place)}


async def _log_page(request: Request, place: ThreadAddress, *, of_thread: bool = False) -> Response:
    """Show a conversation by its log.

    Raises:
        HTTPException: The conversation does not exist.
    """
    panel = await _load_panel(request, place, LOG_PANELS)
    if not panel["messages"]:
        found = await place.memory.admin.athreads(place.namespace, thread_id=place.name)
        if place.namespace not in {each.namespace for each in found.threads}:
            raise web.not_found(f"There is no thread and no conversation {safe_repr(place.name)} in this namespace.")
    return web.render_page(request, "thread.html", **panel, place=place, title=place.name, of_thread=of_thread)


# -- messages -----------------------------------------------------------------------------------------------------


async def _messages_panel(request: Request, place: ThreadAddress) -> TemplateValues:
    """Return a page of messages.

    For a checkpoint, also return the rest of its state and the values of its interrupts.
    """
    marked = request.query_params.get("message")
    if place.config is None:
        return {"marked": marked, **await _load_log(request, place)}
    found = place.state
    if found is None:
        raise web.not_found("This checkpoint was deleted meanwhile.")
    channels = _message_channels(found)
    channel = channel_of(found, request.query_params.get("channel"))
    messages = found.checkpoint["channel_values"][channel] if channel else []
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
        "state": {name: views.as_text(value) for name, value in views.state_of(found).items()},
        "waits": list(map(views.as_text, views.interrupts_of(found))),
    }


async def _load_log(request: Request, place: ThreadAddress) -> TemplateValues:
    """Return a page of the log: around a message, before a message, or the newest messages."""
    around, until = request.query_params.get("message"), request.query_params.get("until")
    before, after = (web.PAGE // 2, web.PAGE // 2 - 1) if around else (web.PAGE, 0)
    try:
        messages = await place.chat.aaround(around or until or None, before=before, after=after)
    except MessageError as error:
        raise web.not_found(str(error)) from error
    messages = messages[:-1] if until and not around else messages
    empty: TemplateValues = {"channel": None, "channels": (), "excerpt": None, "state": {}, "waits": ()}
    return {**empty, "messages": list(map(views.display_message, messages)), "until": until, "around": around}


def _message_channels(found: CheckpointTuple) -> list[str]:
    return [name for name, value in found.checkpoint["channel_values"].items() if views.is_message_list(value)]


def channel_of(found: CheckpointTuple, requested: str | None) -> str | None:
    """Return the channel of messages to show: the requested one, "messages", or the first."""
    channels = _message_channels(found)
    return next((each for each in (requested, "messages", *channels) if each in channels), None)


def thread_title(found: CheckpointTuple | None) -> str | None:
    """Return the title of a thread: its first user message; None if there is none."""
    channel = None if found is None else channel_of(found, None)
    if found is None or channel is None:
        return None
    messages = map(views.display_message, found.checkpoint["channel_values"][channel][:TITLE_MESSAGES])
    texts = (each.message.text for each in messages if each.message.role == "user" and not each.mark)
    return next(filter(None, (" ".join(text.split()) for text in texts)), None)


# -- memory ------------------------------------------------------------------------------------------------------


async def _memory_panel(request: Request, place: ThreadAddress) -> TemplateValues:
    """Return the memory of a thread at a checkpoint.

    At the newest checkpoint, it is the memory that the next run sees.
    """
    memory, config, checkpoint, history = place.memory, place.config, place.checkpoint, place.history
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
    found = {"records": records[::-1], "events": events[::-1], "facts": latest_facts}
    return {"core": core, **{name: _make_page(found[name][start:], start) for name, start in starts.items()}}


def _make_page(found: Sequence[Any], start: int) -> TemplateValues:
    """Return a page of objects, and whether more exist.

    The caller loads one object more than fits on a page.
    """
    return {"here": found[: web.PAGE], "start": start, "more": len(found) > web.PAGE}


async def _step_panel(request: Request, place: ThreadAddress) -> TemplateValues:
    """Return the values that a step added, changed and removed."""
    del request
    memory, config = place.memory, place.config
    found = None if config is None else await memory.checkpointer.achanges(config)
    if found is None:
        raise web.not_found("This checkpoint was deleted meanwhile.")
    changes = await run_in_worker(lambda: [*views.changes_between(memory, found, MAX_ITEMS)])
    layers: dict[str, list[views.ShownChange]] = {}
    for each in changes:
        layers.setdefault(each.layer, []).append(each)
    return {"changes": layers, "unknown": found.before is None and found.after.parent_config is not None}


# -- prompts ------------------------------------------------------------------------------------------------------


async def _compactions_panel(request: Request, place: ThreadAddress) -> TemplateValues:
    """Return the summaries, and the original messages that the chosen one replaces."""
    records = await place.chat.acompactions(web.PAGE)
    summaries: dict[str, BaseMessage] = {}
    if place.config is not None and place.checkpoint is not None:
        summaries = {} if place.state is None else _summaries(views.messages_in(place.state).values())
        records = [each for each in records if each.created_at <= place.checkpoint.created_at]
    in_state = set(summaries)
    for record in records:
        new = _summaries(record.generated_messages)
        summaries |= {key: each for key, each in new.items() if key not in in_state}
    requested, start = request.query_params.get("summary"), web.number_param(request, "behind")
    chosen = requested if requested in summaries else next(iter(summaries), None)
    originals: Sequence[Any] = ()
    if chosen:
        location: dict[str, Any] = {"conversation_id": place.name, "namespace": place.namespace}
        originals = await areplaced_messages(place.memory, chosen, **location, offset=start, limit=web.PAGE + 1)
    made_by = {key: record for record in reversed(records) for key in _summaries(record.generated_messages)}
    return {
        "messages": [],
        "summaries": {key: views.display_message(each) for key, each in summaries.items()},
        "in_state": in_state,
        "made_by": made_by,
        "chosen": chosen,
        "behind": _make_page(list(map(views.display_message, originals)), start),
    }


def _summaries(messages: Iterable[BaseMessage]) -> dict[str, BaseMessage]:
    return {each.id: each for each in messages if each.id and summary_in(each) is not None}


async def _prompts_panel(request: Request, place: ThreadAddress) -> TemplateValues:
    """Return a page of messages with the memory in their prompts.

    For one message, the items and the reasons for their selection are returned too.
    """
    values = await _messages_panel(request, place)
    messages: Sequence[views.ShownMessage] = values["messages"]
    notes = await place.chat.aprompt_notes([each.key for each in messages if each.key])
    by_message: dict[str, list[PromptNote]] = {}
    for each in notes:
        by_message.setdefault(each.message_id, []).append(each)
    questions = [each for each in messages if each.key in by_message]
    requested = request.query_params.get("message")
    chosen = requested if requested in by_message else (questions[-1].key if questions else None)
    chosen_notes = by_message.get(chosen or "", [])
    texts = await _item_texts(place, chosen_notes)
    return {
        **values,
        "questions": questions,
        "chosen": chosen,
        "counts": {key: sum(len(note.items) for note in group) for key, group in by_message.items()},
        "notes": [(note, [(item, texts.get((item.kind, item.id))) for item in note.items]) for note in chosen_notes],
        "most": max((abs(item.score) for note in chosen_notes for item in note.items if item.score), default=1.0),
    }


async def _message_text(place: ThreadAddress, key: str) -> str | None:
    """Return the text of a message of the thread; None if it does not exist."""
    try:
        [found] = await place.chat.aaround(key, before=0, after=0)
    except MessageError:
        return None
    return found.text


async def _item_texts(place: ThreadAddress, notes: Sequence[PromptNote]) -> dict[tuple[str, str], str]:
    """Return the texts of the items in a prompt that still exist.

    At most one page of texts is loaded, in addition to the texts that the notes contain.
    """
    texts = {("core", key): value for note in notes for key, value in note.values.items()}
    readers: dict[str, Callable[[str], Awaitable[Any]]] = {"message": partial(_message_text, place)}
    if place.config is not None:
        layers, facts = place.memory.layers(place.config), place.memory.facts(place.config)
        readers |= {"record": layers.archival.aget, "event": layers.recall.aget, "fact": facts.aget}
    missing = [
        (item.kind, item.id)
        for note in notes
        if not note.reader
        for item in note.items
        if item.kind in readers and (item.kind, item.id) not in texts
    ][: web.PAGE]
    found = await asyncio.gather(*(readers[kind](key) for kind, key in missing))
    pairs = zip(missing, found, strict=True)
    return texts | {each: str(getattr(value, "content", value)) for each, value in pairs if value}


_PANELS: Mapping[str, tuple[str, Callable[[Request, ThreadAddress], Awaitable[TemplateValues]]]] = {
    "messages": ("Messages", _messages_panel),
    "memory": ("Memory", _memory_panel),
    "diff": ("This step", _step_panel),
    "compaction": ("Compactions", _compactions_panel),
    "prompts": ("Prompts", _prompts_panel),
}
"""The panels of a checkpoint, by their names in addresses."""


# -- the tree ------------------------------------------------------------------------------------------------------


class DrawnRow(NamedTuple):
    """A checkpoint in the drawing of the tree.

    Attributes:
        checkpoint: The checkpoint.
        x: The x coordinate of its dot.
        y: The y coordinate of its dot.
        line: The points of the line to its parent, or out of the drawing; "" if the checkpoint has no parent.
    """

    checkpoint: CheckpointSummary
    x: int
    y: int
    line: str


def draw_tree(found: Sequence[CheckpointSummary]) -> list[DrawnRow]:
    """Draw checkpoints as a tree, with one row each and the newest at the top.

    The line from a checkpoint down to its parent has its own lane, and crosses no dot in between. Lanes after
    `MAX_LANES` are drawn in its place.

    Args:
        found: The checkpoints, the newest first.
    """
    y_by_id = {each.checkpoint_id: ROW_HEIGHT * index + ROW_HEIGHT // 2 for index, each in enumerate(found)}
    lanes: list[str | None] = []
    x_by_id: dict[str, int] = {}
    for each in found:
        own_lanes = [lane for lane, expected_id in enumerate(lanes) if expected_id == each.checkpoint_id]
        for lane in own_lanes:
            lanes[lane] = None
        free_lanes = [lane for lane, expected_id in enumerate(lanes) if expected_id is None]
        lane = (own_lanes or free_lanes or [len(lanes)])[0]
        lanes[lane : lane + 1] = [each.parent_id]
        x_by_id[each.checkpoint_id] = LANE_WIDTH * min(lane, MAX_LANES) + LANE_WIDTH // 2
    drawing = []
    for each in found:
        x, y, line = x_by_id[each.checkpoint_id], y_by_id[each.checkpoint_id], ""
        if each.parent_id in y_by_id:
            parent_y = y_by_id[each.parent_id]
            line = f"{x},{y} {x},{parent_y - ROW_HEIGHT // 2} {x_by_id[each.parent_id]},{parent_y}"
        elif each.parent_id is not None:
            line = f"{x},{y} {x},{ROW_HEIGHT * len(found)}"
        drawing.append(DrawnRow(each, x, y, line))
    return drawing
