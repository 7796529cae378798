"""Threads and conversations, and one of them at a checkpoint: what was said, remembered, done and shown to the model.

A conversation that no thread belongs to is the same without a tree; a named branch of memory shows what it holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from langchain_agentmem.base.concurrency import in_worker
from langchain_agentmem.base.namespaces import Namespace, ThreadId, id_of, named
from langchain_agentmem.compaction.dropped_messages import amessages_behind
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

OF_LOGS = ("messages", "compaction", "prompts")
"""The panels of a conversation without checkpoints, by their names in addresses."""
FIRST = 8
"""Number of first messages searched for the title of a thread."""
MOST_ITEMS = 200
"""Maximum number of items of a thread to compare with those before."""
LANE, ROW, MOST_LANES = 14, 30, 10
"""The width of a lane of the tree, the height of a row, and the maximum number of lanes."""

Shown = dict[str, Any]
"""The values for a template."""


ROLES = ("user", "assistant", "system", "tool")
"""Roles that a form proposes."""


class ThreadAddress(NamedTuple):
    """The thread or conversation that a page shows.

    Attributes:
        memory: The memory.
        namespace: The namespace of the thread.
        name: Its id.
        history: Its checkpoints around the shown one; None for a conversation without any.
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
        """The conversation of its id."""
        return self.memory.conversation(self.name, self.namespace)


async def threads(request: Request) -> Response:
    """Show a page of threads, the most recently changed first."""
    asked, namespace = request.query_params, web.namespace_asked(request) or ()
    start = web.number_asked(request, "start")
    wanted: dict[str, Any] = {
        "query": asked.get("q") or None,
        "role": asked.get("role") or None,
        "since": web.time_asked(request, "since"),
        "until": web.time_asked(request, "until"),
        "limit": web.PAGE,
        "offset": start,
    }
    found = await web.studio_of(request).memory.admin.athreads(namespace, sizes=False, **wanted)
    return web.page(
        request,
        "threads.html",
        found=found,
        bare=not any(asked.values()),
        asked=asked,
        since=wanted["since"],
        until=wanted["until"],
        roles=ROLES,
        neighbours=web.pages_of(found.total, start),
        start=start,
    )


async def thread(request: Request) -> Response:
    """Show a thread at a checkpoint, or the conversation of its id if it has none."""
    place = _asked(request)
    config = _thread_config(place)
    if subgraph := request.query_params.get("ns"):
        config["configurable"]["checkpoint_ns"] = subgraph
    history, chosen = await _window(request, place, config)
    if chosen is None:
        if subgraph:
            raise web.missing(f"The thread {safe_repr(place.name)} has no subgraph {safe_repr(subgraph)}.")
        return await _logged(request, place)
    config["configurable"]["checkpoint_id"] = chosen.checkpoint_id
    saver = place.memory.checkpointer
    state = await saver.aget_tuple(config)
    place = place._replace(history=history, checkpoint=chosen, config=config, state=state)
    shown, ends = await asyncio.gather(
        _panel(request, place, _PANELS), saver.ahistory(config, ends=True, limit=web.PAGE)
    )
    whose = place.namespace if state is None else state.config["configurable"]["thread_id"].namespace
    if whose != place.namespace:  # a thread of any namespace is found by its id alone where the root has none
        found = await place.memory.admin.athreads((), thread_id=place.name, sizes=False)
        if place.namespace in {each.namespace for each in found.threads}:
            return await _logged(request, _asked(request))
        return web.back(request, "/thread", **{**request.query_params, "namespace": whose})
    around = [None, *(each.checkpoint_id for each in history.checkpoints), None]
    at = around.index(chosen.checkpoint_id)
    return web.page(
        request,
        "thread.html",
        **shown,
        place=place,
        tree=drawn(history.checkpoints),
        number=history.total - history.newer - history.checkpoints.index(chosen),
        neighbours={"previous": around[at + 1], "next": around[at - 1], "parent": chosen.parent_id},
        ends=ends,
        title=question(state) or place.name,
        subgraph=subgraph,
    )


async def conversation(request: Request) -> Response:
    """Show the log of a conversation."""
    place = _asked(request)
    found = await place.memory.checkpointer.ahistory(_thread_config(place), limit=0)
    return await _logged(request, place, of_thread=bool(found.total))


async def memory_branch(request: Request) -> Response:
    """Show the memory of a named branch."""
    memory, namespace = web.studio_of(request).memory, web.namespace_asked(request) or ()
    name = request.query_params.get("branch") or "main"
    layers, facts = memory.layers(name, namespace), memory.facts(name, namespace)
    shown, tree, ancestors = await asyncio.gather(_held(request, layers, facts), layers.atree(), layers.aancestors())
    if tree.created_at is None and name != "main":  # which begins with the first write, and is empty before
        raise web.missing(f"There is no branch {safe_repr(name)} in this namespace.")
    branches, waiting = [], [tree]
    while waiting:
        branches.append(each := waiting.pop())
        waiting += reversed(each.children)
    return web.page(
        request,
        "memory.html",
        **shown,
        namespace=namespace,
        branch=name,
        ancestors=ancestors,
        branches=[each.name for each in branches],
    )


def _thread_config(place: ThreadAddress) -> RunnableConfig:
    return {"configurable": {"thread_id": ThreadId(place.name, place.namespace)}}


def _asked(request: Request) -> ThreadAddress:
    name = id_of(web.required(request, "id"), "thread")
    return ThreadAddress(web.studio_of(request).memory, web.namespace_asked(request) or (), name)


async def _window(
    request: Request, place: ThreadAddress, config: RunnableConfig
) -> tuple[CheckpointHistory, CheckpointSummary | None]:
    """Return the checkpoints around the requested one, and that one. Default: the newest.

    A request names a checkpoint by its id or its number.

    Raises:
        HTTPException: The checkpoint does not exist.
    """
    saver, at = place.memory.checkpointer, request.query_params.get("at")
    if at:
        history = await saver.ahistory(config, limit=web.PAGE, around=at)
        found = next((each for each in history.checkpoints if each.checkpoint_id == at), None)
        if found is None:
            raise web.missing(f"The thread {safe_repr(place.name)} has no checkpoint {safe_repr(at)}.")
        return history, found
    newer = 0
    if number := web.number_asked(request, "number"):
        total = (await saver.ahistory(config, limit=0)).total
        newer = min(max(total - number, 0), max(total - 1, 0))
    history = await saver.ahistory(config, limit=web.PAGE, offset=max(0, newer - web.PAGE // 2))
    return history, next(iter(history.checkpoints[newer - history.newer :]), None)


async def _panel(request: Request, place: ThreadAddress, tabs: Sequence[str] | Mapping[str, Any]) -> Shown:
    asked = request.query_params.get("show", "")
    tab = asked if asked in tabs else "messages"
    return {"tab": tab, "tabs": {each: _PANELS[each][0] for each in tabs}, **await _PANELS[tab][1](request, place)}


async def _logged(request: Request, place: ThreadAddress, *, of_thread: bool = False) -> Response:
    """Show a conversation by its log.

    Raises:
        HTTPException: The conversation does not exist.
    """
    shown = await _panel(request, place, OF_LOGS)
    if not shown["messages"]:
        found = await place.memory.admin.athreads(place.namespace, thread_id=place.name)
        if place.namespace not in {each.namespace for each in found.threads}:
            raise web.missing(f"There is no thread and no conversation {safe_repr(place.name)} in this namespace.")
    return web.page(request, "thread.html", **shown, place=place, title=place.name, of_thread=of_thread)


# -- messages -----------------------------------------------------------------------------------------------------


async def _messages(request: Request, place: ThreadAddress) -> Shown:
    """Return a page of messages; for a checkpoint also the rest of its state.

    The values on which the checkpoint waits are included.
    """
    marked = request.query_params.get("message")
    if place.config is None:
        return {"marked": marked, **await _of_log(request, place)}
    found = place.state
    if found is None:
        raise web.missing("This checkpoint was removed just now.")
    channels = _message_channels(found)
    channel = channel_of(found, request.query_params.get("channel"))
    messages = found.checkpoint["channel_values"][channel] if channel else []
    ids = [each.id for each in messages]
    end = web.number_asked(request, "before") or len(messages)
    if marked and marked in ids:
        end = max(web.PAGE, ids.index(marked) + 1 + web.PAGE // 2)
    end = min(end, len(messages))
    first = max(0, end - web.PAGE)
    return {
        "messages": list(map(views.message_shown, messages[first:end])),
        "marked": marked,
        "channel": channel,
        "channels": channels,
        "excerpt": {"first": first, "total": len(messages)} if channel else None,
        "state": {name: views.as_text(value) for name, value in views.state_of(found).items()},
        "waits": list(map(views.as_text, views.waits_of(found))),
    }


async def _of_log(request: Request, place: ThreadAddress) -> Shown:
    """Return a page of the log: around a message, the last ones, or those before one."""
    around, until = request.query_params.get("message"), request.query_params.get("until")
    before, after = (web.PAGE // 2, web.PAGE // 2 - 1) if around else (web.PAGE, 0)
    try:
        said = await place.chat.aaround(around or until or None, before=before, after=after)
    except MessageError as error:
        raise web.missing(str(error)) from error
    said = said[:-1] if until and not around else said
    nothing: Shown = {"channel": None, "channels": (), "excerpt": None, "state": {}, "waits": ()}
    return {**nothing, "messages": list(map(views.message_shown, said)), "until": until, "around": around}


def _message_channels(found: CheckpointTuple) -> list[str]:
    return [name for name, value in found.checkpoint["channel_values"].items() if views.is_messages(value)]


def channel_of(found: CheckpointTuple, asked: str | None) -> str | None:
    """Return the channel of messages to show: the requested one, "messages", or the first."""
    channels = _message_channels(found)
    return next((each for each in (asked, "messages", *channels) if each in channels), None)


def question(found: CheckpointTuple | None) -> str | None:
    """Return the title of a thread: its first user message; None if there is none."""
    channel = None if found is None else channel_of(found, None)
    if found is None or channel is None:
        return None
    messages = map(views.message_shown, found.checkpoint["channel_values"][channel][:FIRST])
    asked = (" ".join(each.message.text.split()) for each in messages if each.message.role == "user" and not each.mark)
    return next(filter(None, asked), None)


# -- memory ------------------------------------------------------------------------------------------------------


async def _memory(request: Request, place: ThreadAddress) -> Shown:
    """Show the memory of a thread at a checkpoint; at the newest one, as the next run sees it."""
    memory, config, checkpoint, history = place.memory, place.config, place.checkpoint, place.history
    if config and history and not history.newer and checkpoint == history.checkpoints[0]:
        newest = {name: value for name, value in config["configurable"].items() if name != "checkpoint_id"}
        config, checkpoint = {"configurable": newest}, None
    start = web.number_asked(request, "items")
    held, items = await asyncio.gather(
        _held(request, memory.layers(config), memory.facts(config), checkpoint),
        memory.thread_store.at(config or {}).asearch((), limit=web.PAGE + 1, offset=start),
    )
    shown = [(named(each.namespace, each.key), views.as_text(each.value)) for each in items]
    return {**held, "items": _part(shown, start)}


async def _held(
    request: Request, layers: LayeredMemory, facts: KGMemory, checkpoint: CheckpointSummary | None = None
) -> Shown:
    """Return core memory, and a page each of records, events and facts, the newest first."""
    starts = {name: web.number_asked(request, name) for name in ("records", "events", "facts")}
    core, records, events, held = await asyncio.gather(
        layers.core.aentries(),
        layers.archival.aall(limit=starts["records"] + web.PAGE + 1),
        layers.recall.arecent(starts["events"] + web.PAGE + 1),
        facts.alatest(starts["facts"] + web.PAGE + 1, valid=checkpoint.created_at if checkpoint else facts.now),
    )
    found = {"records": records[::-1], "events": events[::-1], "facts": held}
    return {"core": core, **{name: _part(found[name][start:], start) for name, start in starts.items()}}


def _part(found: Sequence[Any], start: int) -> Shown:
    """Return a page of objects, and whether there are more: one more was requested."""
    return {"here": found[: web.PAGE], "start": start, "more": len(found) > web.PAGE}


async def _step(request: Request, place: ThreadAddress) -> Shown:
    """Return the values that a step added, changed and removed."""
    del request
    memory, config = place.memory, place.config
    found = None if config is None else await memory.checkpointer.achanges(config)
    if found is None:
        raise web.missing("This checkpoint was removed just now.")
    changes = await in_worker(lambda: [*views.changes_between(memory, found, MOST_ITEMS)])
    layers: dict[str, list[views.ShownChange]] = {}
    for each in changes:
        layers.setdefault(each.layer, []).append(each)
    return {"changes": layers, "unknown": found.before is None and found.after.parent_config is not None}


# -- prompts ------------------------------------------------------------------------------------------------------


async def _compactions(request: Request, place: ThreadAddress) -> Shown:
    """Return the summaries, and the original messages behind the chosen one."""
    records = await place.chat.acompactions(web.PAGE)
    summaries: dict[str, BaseMessage] = {}
    if place.config is not None and place.checkpoint is not None:
        summaries = {} if place.state is None else _summaries(views.messages_in(place.state).values())
        records = [each for each in records if each.created_at <= place.checkpoint.created_at]
    held = set(summaries)
    summaries |= {key: each for record in records for key, each in _summaries(record.made).items() if key not in held}
    asked, start = request.query_params.get("summary"), web.number_asked(request, "behind")
    chosen = asked if asked in summaries else next(iter(summaries), None)
    behind: Sequence[Any] = ()
    if chosen:
        at: dict[str, Any] = {"conversation_id": place.name, "namespace": place.namespace}
        behind = await amessages_behind(place.memory, chosen, **at, offset=start, limit=web.PAGE + 1)
    made_by = {key: record for record in reversed(records) for key in _summaries(record.made)}
    return {
        "messages": [],
        "summaries": {key: views.message_shown(each) for key, each in summaries.items()},
        "in_state": held,
        "made_by": made_by,
        "chosen": chosen,
        "behind": _part(list(map(views.message_shown, behind)), start),
    }


def _summaries(messages: Iterable[BaseMessage]) -> dict[str, BaseMessage]:
    return {each.id: each for each in messages if each.id and summary_in(each) is not None}


async def _prompts(request: Request, place: ThreadAddress) -> Shown:
    """Return the memory in the prompts of a page of messages, with the reasons for one."""
    shown = await _messages(request, place)
    messages: Sequence[views.ShownMessage] = shown["messages"]
    notes = await place.chat.ashown([each.key for each in messages if each.key])
    by_message: dict[str, list[PromptNote]] = {}
    for each in notes:
        by_message.setdefault(each.message_id, []).append(each)
    questions = [each for each in messages if each.key in by_message]
    asked = request.query_params.get("message")
    chosen = asked if asked in by_message else (questions[-1].key if questions else None)
    told = by_message.get(chosen or "", [])
    texts = await _texts(place, told)
    return {
        **shown,
        "questions": questions,
        "chosen": chosen,
        "counts": {key: sum(len(note.items) for note in some) for key, some in by_message.items()},
        "notes": [(note, [(item, texts.get((item.kind, item.id))) for item in note.items]) for note in told],
        "most": max((abs(item.score) for note in told for item in note.items if item.score), default=1.0),
    }


async def _said(place: ThreadAddress, key: str) -> str | None:
    """Return the text of a message of the thread; None if it is not there or was deleted."""
    try:
        [found] = await place.chat.aaround(key, before=0, after=0)
    except MessageError:
        return None
    return found.text


async def _texts(place: ThreadAddress, notes: Sequence[PromptNote]) -> dict[tuple[str, str], str]:
    """Return the texts of the items that a prompt showed, if they still exist."""
    texts = {("core", key): value for note in notes for key, value in note.values.items()}
    readers: dict[str, Callable[[str], Awaitable[Any]]] = {"message": partial(_said, place)}
    if place.config is not None:
        layers, facts = place.memory.layers(place.config), place.memory.facts(place.config)
        readers |= {"record": layers.archival.aget, "event": layers.recall.aget, "fact": facts.aget}
    wanted = [
        (item.kind, item.id)
        for note in notes
        if not note.reader
        for item in note.items
        if item.kind in readers and (item.kind, item.id) not in texts
    ][: web.PAGE]
    found = await asyncio.gather(*(readers[kind](key) for kind, key in wanted))
    return texts | {
        each: str(getattr(value, "content", value)) for each, value in zip(wanted, found, strict=True) if value
    }


_PANELS: Mapping[str, tuple[str, Callable[[Request, ThreadAddress], Awaitable[Shown]]]] = {
    "messages": ("Messages", _messages),
    "memory": ("Memory", _memory),
    "diff": ("This step", _step),
    "compaction": ("Compactions", _compactions),
    "prompts": ("Prompts", _prompts),
}
"""The panels of a checkpoint, by their names in addresses."""


# -- the tree ------------------------------------------------------------------------------------------------------


class DrawnRow(NamedTuple):
    """A checkpoint in the drawing of the tree.

    Attributes:
        checkpoint: The checkpoint.
        x: The x coordinate of its dot.
        y: The y coordinate of its dot.
        line: The points of the line to its parent, or out of the drawing; "" if it has no parent.
    """

    checkpoint: CheckpointSummary
    x: int
    y: int
    line: str


def drawn(found: Sequence[CheckpointSummary]) -> list[DrawnRow]:
    """Draw checkpoints, a row each, the newest above.

    The line from a checkpoint down to its parent has its own lane, and crosses no dot between.

    Args:
        found: The checkpoints, the newest first.
    """
    rows = {each.checkpoint_id: ROW * index + ROW // 2 for index, each in enumerate(found)}
    lanes: list[str | None] = []
    columns: dict[str, int] = {}
    for each in found:
        leading = [lane for lane, wanted in enumerate(lanes) if wanted == each.checkpoint_id]
        for lane in leading:
            lanes[lane] = None
        free = [lane for lane, wanted in enumerate(lanes) if wanted is None]
        lane = (leading or free or [len(lanes)])[0]
        lanes[lane : lane + 1] = [each.parent_id]
        columns[each.checkpoint_id] = LANE * min(lane, MOST_LANES) + LANE // 2
    drawing = []
    for each in found:
        x, y, line = columns[each.checkpoint_id], rows[each.checkpoint_id], ""
        if each.parent_id in rows:
            below = rows[each.parent_id]
            line = f"{x},{y} {x},{below - ROW // 2} {columns[each.parent_id]},{below}"
        elif each.parent_id is not None:
            line = f"{x},{y} {x},{ROW * len(found)}"
        drawing.append(DrawnRow(each, x, y, line))
    return drawing
