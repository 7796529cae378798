"""A checkpoint without its values: what it knows of versions, written briefly.

Channel versions are long strings that stand in a checkpoint many times over. They are kept once, in a short form, in a
column of their own, so that values can be found and collected without the serializer; `versions_seen` refers to them
and to their channels by their places there, and so does `updated_channels`. What was written before names channels.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any

from langchain_agentmem.base.clock import micros, moment
from langchain_agentmem.base.encoding import as_json
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.threads.value_recipe import Damaged

WIDTH = 32
SHORT_WIDTH = 6
_DISTINCT_BYTES = 6
_KNOWN = ("v", "ts", "id", "channel_values", "channel_versions", "versions_seen", "updated_channels", "pending_sends")


def next_version(current: str | float | None) -> str:
    """A version that follows another, and that no fork of the thread will ever give again.

    Args:
        current: The version before, as this or another saver made it; None for the first.

    Raises:
        InvalidInput: It is neither text nor number, or a text that no number with as many digits can follow.
    """
    distinct = secrets.token_urlsafe(_DISTINCT_BYTES)
    if not isinstance(current, str):
        if current is not None and not (isinstance(current, int | float) and abs(current) < 10**WIDTH):
            raise InvalidInput(
                f"No version can follow {safe_repr(current)}: a version is a text, or a number of up to {WIDTH} digits."
            )
        return f"{int(current or 0) + 1:0{WIDTH}}.{distinct}"
    number = current.partition(".")[0]
    following = f"{int(number) + 1:0{len(number)}}.{distinct}" if number.isdecimal() else ""
    if following <= current:
        raise InvalidInput(
            f"No version can follow {safe_repr(current)}: a version begins with its number, with leading zeros."
        )
    return following


def with_texts(checkpoint: dict[str, Any], digest: Callable[[Any], str]) -> dict[str, Any]:
    """A checkpoint of another saver, whose versions may be numbers.

    Numbers mean different values in the forks of a thread, and no text could follow them. So each becomes a text that
    is ordered like it and tells the value too.

    Args:
        checkpoint: The checkpoint.
        digest: Tells one value from another.
    """
    versions, values = checkpoint["channel_versions"], checkpoint["channel_values"]
    if not any(isinstance(version, int | float) for version in versions.values()):
        return checkpoint

    def text(channel: str, version: Any) -> Any:
        if not isinstance(version, int | float):
            return version
        own = channel in values and version == versions.get(channel)
        return f"{int(version):0{WIDTH}}.{version}.{digest(values[channel]) if own else ''}"

    seen = {
        node: {channel: text(channel, version) for channel, version in channels.items()}
        for node, channels in checkpoint["versions_seen"].items()
    }
    return checkpoint | {
        "channel_versions": {channel: text(channel, version) for channel, version in versions.items()},
        "versions_seen": seen,
    }


def short(version: Any) -> str:
    """The form in which a version is stored."""
    if type(version) is str:
        number, dot, distinct = version.partition(".")
        if dot and number.isdecimal() and number.isascii() and len(number) == WIDTH:
            return f"{int(number):0{SHORT_WIDTH}}.{distinct}"
    return "=" + json.dumps(version)


def full(text: str) -> Any:
    """Undo `short`."""
    if text.startswith("="):
        return json.loads(text[1:])
    number, _, distinct = text.partition(".")
    return f"{int(number):0{WIDTH}}.{distinct}"


def versions_of(checkpoint: dict[str, Any]) -> dict[str, str]:
    """The channel versions of a checkpoint in their short form."""
    return {channel: short(version) for channel, version in checkpoint["channel_versions"].items()}


def written(versions: dict[str, str]) -> str:
    """Channel versions as they are stored, in a column that SQL can read. The checksum of the head guards them too."""
    return as_json(versions)


def read(text: str) -> dict[str, str]:
    """Undo `written`.

    Raises:
        Damaged: They are something else.
    """
    try:
        versions = json.loads(text)
    except ValueError as error:
        raise Damaged(f"its versions: {error}") from error
    if type(versions) is not dict or not all(type(version) is str for version in versions.values()):
        raise Damaged("its versions are no versions")
    return versions


def fold(checkpoint: dict[str, Any], versions: dict[str, str]) -> list[Any]:
    """Write a checkpoint without values and channel versions.

    Args:
        checkpoint: The checkpoint.
        versions: `versions_of` it.

    Returns:
        What `unfold` understands: a list of plain values, and of whatever pending sends hold.
    """
    places = {version: place for place, version in enumerate(versions.values())}
    channels = {channel: place for place, channel in enumerate(versions)}

    def version_at(text: str) -> int | str:
        return places.get(text, text)

    seen = {
        node: [each for one, version in there.items() for each in (channels.get(one, one), version_at(short(version)))]
        for node, there in checkpoint.get("versions_seen", {}).items()
    }
    updated = checkpoint.get("updated_channels")
    rest = {name: value for name, value in checkpoint.items() if name not in _KNOWN}
    folded = [
        checkpoint.get("v"),
        _brief(checkpoint.get("ts")),
        seen,
        [channels.get(each, each) for each in updated] if type(updated) is list else updated,
        checkpoint.get("pending_sends"),
        rest or None,
    ]
    while folded[-1] is None:
        folded.pop()
    return folded


def unfold(folded: Any, versions: dict[str, str], checkpoint_id: str, values: dict[str, Any]) -> dict[str, Any]:
    """Undo `fold`.

    Args:
        folded: What `fold` gave.
        versions: The channel versions in their short form.
        checkpoint_id: The checkpoint's id.
        values: The channels' values.

    Raises:
        Damaged: It is not what `fold` gave.
    """
    if type(folded) is not list or len(folded) < 3 or type(folded[2]) is not dict:  # noqa: PLR2004 - v, ts and seen
        raise Damaged("it is no checkpoint")
    v, ts, seen, updated, sends, rest = folded + [None] * (6 - len(folded))
    names, texts = list(versions), list(versions.values())

    def name(each: Any) -> Any:
        return names[each] if type(each) is int else each

    def pairs(there: Any) -> Iterable[tuple[Any, Any]]:
        return there.items() if type(there) is dict else zip(there[::2], there[1::2], strict=True)

    checkpoint = {
        "v": v,
        "id": checkpoint_id,
        "ts": moment(*ts).isoformat() if type(ts) is list else ts,
        "channel_values": values,
        "channel_versions": {channel: full(text) for channel, text in versions.items()},
        "versions_seen": {
            node: {name(one): full(each if type(each) is str else texts[each]) for one, each in pairs(there)}
            for node, there in seen.items()
        },
        "updated_channels": list(map(name, updated)) if type(updated) is list else updated,
    }
    if sends is not None:
        checkpoint["pending_sends"] = sends
    return checkpoint | (rest or {})


def _brief(ts: Any) -> Any:
    """A time as a list of the number that it stands for, where it is written as LangGraph does; else as it is."""
    with suppress(ValueError, TypeError, OverflowError):
        at = micros(datetime.fromisoformat(ts))
        if moment(at).isoformat() == ts:
            return [at]
    return ts
