"""`excerpt` and `changes` of the checkpointer: what is seen of a checkpoint, however long the thread.

A list of messages is ranges of parts of a shelf. So a page of it costs what the page has, and what one checkpoint has
otherwise than another is told by their ranges; only that is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple

from langchain_agentmem.base.argument_checks import check_whole
from langchain_agentmem.checkpoints.checkpoint_codec import Reading, address, text_of
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.threads import checkpoint_log
from langchain_agentmem.threads import value_store as shelves
from langchain_agentmem.threads.checkpoint_log import Saved
from langchain_agentmem.threads.thread_lines import find
from langchain_agentmem.threads.value_codec import ELEMENTS
from langchain_agentmem.threads.value_recipe import LIST, PART, Range, Recipe, read_ranges, without, written_ranges
from langchain_agentmem.threads.value_store import MESSAGE

_TWO = 2


class Excerpt(NamedTuple):
    """Which messages of a list are there.

    Attributes:
        first: The place of the first of them in the list, from 0.
        total: How many the list has.
    """

    first: int
    total: int


class CheckpointExcerpt(NamedTuple):
    """A checkpoint, of whose long lists of messages a part is there.

    Attributes:
        found: The checkpoint, as `get_tuple` gives it but for these lists.
        lists: Which messages of each list of messages are there, by channel.
    """

    found: CheckpointTuple
    lists: Mapping[str, Excerpt]


class CheckpointChanges(NamedTuple):
    """What tells two checkpoints apart: of the values of each only those that the other has not.

    Of a list of messages these are the messages that the other has not, or has otherwise.

    Attributes:
        before: The earlier one; None where there is none.
        after: The later one.
    """

    before: CheckpointTuple | None
    after: CheckpointTuple


def excerpt(
    reading: Reading, config: RunnableConfig, messages: int, before: int | None, around: str | None
) -> CheckpointExcerpt | None:
    """A checkpoint with a part of its messages; the other arguments are those of `AgentMemorySaver.excerpt`.

    Args:
        reading: What reads it.
        config: The checkpoint.
        messages: How many.
        before: Where they end.
        around: A message that is to be among them.
    """
    check_whole("messages", messages, 1)
    if before is not None:
        check_whole("before", before, 0)
    wanted = None if around is None else text_of(around, "message")
    at, ns, name = address(config, reading.database.scopes)
    lists: dict[str, Excerpt] = {}
    recall = reading.coding.known.take

    def cut(tx: Transaction, found: list[Saved]) -> list[Saved]:
        lists.clear()
        for saved in found:
            shelf = saved.thread.place.shelf
            places = (
                [] if wanted is None else [row["number"] for row in query.parts_named(tx, shelf=shelf, name=wanted)]
            )
            ranges = _message_lists(tx, saved, recall)
            for channel, each in ranges.items():
                total = sum(high - low for low, high in each)
                there = next((place for number in places if (place := _place(each, number)) is not None), None)
                end = total if before is None else min(before, total)
                if there is not None:
                    end = min(total, max(messages, there + 1 + messages // 2))
                lists[channel] = Excerpt(first := max(0, end - messages), total)
                saved.values[channel] = [LIST, *written_ranges(_between(each, first, end))]
        return found

    def look(tx: Transaction) -> Saved | None:
        return checkpoint_log.get(tx, at, ns, name, recall, cut)

    saved = reading.run("thread.excerpt", config, at, look)
    if saved is None:
        return None
    return CheckpointExcerpt(reading.tuple(config, saved, at, ns), lists)


def changes(reading: Reading, config: RunnableConfig, since: str | None) -> CheckpointChanges | None:
    """What a checkpoint has otherwise than another; the arguments are those of `AgentMemorySaver.changes`.

    Args:
        reading: What reads them.
        config: The later one.
        since: The earlier one.
    """
    at, ns, name = address(config, reading.database.scopes)
    earlier = None if since is None else text_of(since, "checkpoint")
    recall = reading.coding.known.take

    def look(tx: Transaction) -> list[Saved] | None:
        thread = find(tx, at, ns)
        if thread is None or thread.line is None:
            return None
        names = [name, earlier]
        if earlier is None:
            rows = (
                query.latest_checkpoint(tx, line=thread.line)
                if name is None
                else query.checkpoint_named(tx, line=thread.line, name=name)
            )
            names = [row[key] for row in rows for key in ("name", "parent") if row[key] is not None]
        found = checkpoint_log.load(tx, thread, thread.line, names, recall, differing)
        return found or None

    def differing(tx: Transaction, found: list[Saved]) -> list[Saved]:
        if len(found) < _TWO:
            return [each if each.parent is None else each._replace(values={}) for each in found]
        mine, theirs = found
        ours = _message_lists(tx, mine, recall)
        others = _message_lists(tx, theirs, recall)
        for channel in [*mine.values]:
            if mine.values[channel] == theirs.values.get(channel):
                del mine.values[channel], theirs.values[channel]
            elif channel in ours and channel in others:
                here, there = ours[channel], others[channel]
                mine.values[channel] = [LIST, *written_ranges(without(here, there))]
                theirs.values[channel] = [LIST, *written_ranges(without(there, here))]
        return found

    found = reading.run("thread.changes", config, at, look)
    if found is None or (since is not None and len(found) < _TWO):
        return None
    after, *before = [reading.tuple(config, each, at, ns) for each in found]
    return CheckpointChanges(before[0] if before else None, after)


def _message_lists(tx: Transaction, saved: Saved, recall: shelves.Recall) -> dict[str, list[Range]]:
    """Where the messages of each channel lie that is a list of them, told by its first part."""
    lists = {name: list(read_ranges(recipe[1:])) for name, recipe in saved.values.items() if recipe[0] == LIST}
    firsts: dict[str, int] = {name: ranges[0][0] for name, ranges in lists.items() if ranges}
    recipes: list[Recipe] = [[PART, number] for number in firsts.values()]
    parts = shelves.fetch(tx, saved.thread.place.shelf, recipes, recall)
    return {
        name: lists[name]
        for name, number in firsts.items()
        if number in parts and getattr(parts[number], "form", MESSAGE) != ELEMENTS
    }


def _between(ranges: Sequence[Range], first: int, end: int) -> list[Range]:
    """The parts from one place to another of those in some ranges."""
    found, place = [], 0
    for low, high in ranges:
        start, stop = max(low, low + first - place), min(high, low + end - place)
        if start < stop:
            found.append((start, stop))
        place += high - low
    return found


def _place(ranges: Sequence[Range], number: int) -> int | None:
    """The place of a part among those in some ranges; None if it is in none."""
    place = 0
    for low, high in ranges:
        if low <= number < high:
            return place + number - low
        place += high - low
    return None
