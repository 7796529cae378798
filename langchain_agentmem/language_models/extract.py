"""What can be said of messages without a model: the user's requests as they are, and a line for everything else.

This stands in where no model is, or where one failed. Equal messages give equal summaries. What is too long is cut
where it can be spared most: each part gets its share of the room, and what one part does not need the others have.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from langchain_agentmem.language_models.tokens import TokenCounter, clipped
from langchain_agentmem.language_models.transcript import Turn
from langchain_agentmem.messages.summary import Summary, sections

CUT = " …"
_LINE = 240
"""Most characters of a line that tells of a message."""
_SENTENCE = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s")
_LEAST = 8
_MARGIN = 2
_GAPS = 24
"""Tokens for telling how many messages are not listed."""
_FIELDS = ("user_request", "summary", "salient_facts", "open_threads")
_SHARES = {"user_request": 3, "summary": 4, "salient_facts": 2, "open_threads": 1}


def extract(turns: Sequence[Turn], earlier: Summary | None, budget: int, counter: TokenCounter) -> Summary:
    """Summarize without a model.

    Args:
        turns: What leaves the context.
        earlier: The summary before, which is kept.
        budget: What the result may cost, in tokens.
        counter: Counts tokens.

    Returns:
        A provisional summary, which counts no messages and names no images of `turns`.
    """
    earlier = earlier or Summary()
    frame = counter.count_text(
        sections(Summary(user_request="x", summary="x", salient_facts=("x",), open_threads=("x",)))
    )
    room = max(_LEAST, budget - frame - _GAPS)
    requests = [turn.text for turn in turns if turn.role == "user" and turn.text.strip()]
    lines = [_line(turn) for turn in turns if turn.role != "user"]
    costs = {
        "earlier": sum(_costs(earlier, counter).values()),
        "requests": sum(counter.count_text(each) + 1 for each in requests),
        "lines": sum(counter.count_text(each) + 1 for each in lines),
    }
    rooms = shared(costs, {"earlier": 2, "requests": 1, "lines": 1}, room)
    before = _cut_to(earlier, rooms["earlier"], counter)
    said = _first_and_latest(requests, rooms["requests"], counter)
    done = _latest(lines, rooms["lines"], counter)
    found = replace(
        before,
        user_request="\n".join(filter(None, [before.user_request, said])),
        summary="\n".join(filter(None, [before.summary, done])),
        provisional=True,
    )
    return clip(found, budget, counter)


def clip(summary: Summary, budget: int, counter: TokenCounter) -> Summary:
    """A summary that costs at most so many tokens, its headings included; its images are not counted.

    Texts are cut at their end, and lists lose their last items first. What is within the budget stays as it is.

    Args:
        summary: The summary.
        budget: Tokens.
        counter: Counts tokens.
    """
    room = budget
    found = summary
    while counter.count_text(sections(found)) > budget:
        found = _cut_to(summary, room, counter)
        if room <= _LEAST:
            break
        room -= max(1, counter.count_text(sections(found)) - budget)
        room = max(room, _LEAST)
    return found


def shared(costs: dict[str, int], weights: dict[str, int], room: int) -> dict[str, int]:
    """Share out room by weight; what one does not need is shared among the others.

    Args:
        costs: What each would take.
        weights: How much of the room is due to each.
        room: What there is.
    """
    given = dict.fromkeys(costs, 0)
    wanting = [name for name, cost in costs.items() if cost > 0]
    while wanting:
        total = sum(weights[name] for name in wanting)
        modest = [name for name in wanting if costs[name] * total <= room * weights[name]]
        if not modest:
            return given | {name: room * weights[name] // total for name in wanting}
        for name in modest:
            given[name] = costs[name]
            room -= costs[name]
        wanting = [name for name in wanting if name not in modest]
    return given


def _costs(summary: Summary, counter: TokenCounter) -> dict[str, int]:
    return {
        name: counter.count_text(value)
        if isinstance(value, str)
        else sum(counter.count_text(f"- {x}\n") for x in value)
        for name in _FIELDS
        for value in [getattr(summary, name)]
    }


def _cut_to(summary: Summary, room: int, counter: TokenCounter) -> Summary:
    rooms = shared(_costs(summary, counter), _SHARES, max(room, 0))
    return replace(
        summary,
        user_request=_within(summary.user_request, rooms["user_request"], counter),
        summary=_within(summary.summary, rooms["summary"], counter),
        salient_facts=_first(summary.salient_facts, rooms["salient_facts"], counter),
        open_threads=_first(summary.open_threads, rooms["open_threads"], counter),
    )


def _within(text: str, room: int, counter: TokenCounter) -> str:
    short = clipped(text, max(0, room), counter, marker=CUT)
    return "" if short == CUT else short


def _first(items: Sequence[str], room: int, counter: TokenCounter) -> tuple[str, ...]:
    kept: list[str] = []
    for item in items:
        cost = counter.count_text(f"- {item}\n")
        if cost > room:
            return (*kept, _within(item, room - _MARGIN, counter))
        kept.append(item)
        room -= cost
    return tuple(kept)


def _first_and_latest(texts: Sequence[str], room: int, counter: TokenCounter) -> str:
    """The first and then the latest that fit, each word for word, in the order in which they were said.

    The first and the latest are there in any case, cut to a half of the room where they are longer.
    """
    order = [0, *range(len(texts) - 1, 0, -1)] if texts else []
    kept: dict[int, str] = {}
    for rank, at in enumerate(order):
        share = room if len(order) == 1 or rank else max(room // 2, room - counter.count_text(texts[order[1]]) - 1)
        text = texts[at].strip()
        cost = counter.count_text(text) + 1
        if cost > share:
            if rank > 1:
                break
            text = _within(text, share - 1, counter)
            cost = share
        kept[at] = text
        room -= cost
    return "\n".join(_with_gaps(kept, len(texts), "messages of the user"))


def _latest(lines: Sequence[str], room: int, counter: TokenCounter) -> str:
    kept: dict[int, str] = {}
    for at in range(len(lines) - 1, -1, -1):
        room -= counter.count_text(lines[at]) + 1
        if room < 0:
            break
        kept[at] = lines[at]
    if lines and not kept:
        kept[len(lines) - 1] = _within(lines[-1], room + counter.count_text(lines[-1]), counter)
    return "\n".join(_with_gaps(kept, len(lines), "messages"))


def _with_gaps(kept: dict[int, str], count: int, what: str) -> list[str]:
    """The texts in their order, and how many are missing between them."""
    told: list[str] = []
    after = 0
    for at in [*sorted(kept), count]:
        if at > after:
            told.append(f"({at - after} {what} not listed)")
        if at < count:
            told.append(kept[at])
        after = at + 1
    return told


def _line(turn: Turn) -> str:
    """One line for a message: who, and the first sentence of what was said; calls with their arguments."""
    who = turn.role if turn.name is None else f"{turn.role} {turn.name}"
    lines = [line.strip() for line in turn.text.splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith(("[Calls ", "[Result of "))]
    calls = [line for line in lines if line.startswith("[Calls ")]
    first = _SENTENCE.split(" ".join(said[:3]), maxsplit=1)[0]
    return f"{who}: {_short(' '.join([first, *(_short(each) for each in calls)]).strip())}"


def _short(text: str) -> str:
    words = " ".join(text.split())
    if len(words) <= _LINE:
        return words
    blank = words.rfind(" ", _LINE - 40, _LINE)
    return words[: blank if blank > 0 else _LINE] + CUT
