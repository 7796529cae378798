"""Core memory: a few keys and values that are always in the prompt.

It has a budget, counted in the characters of its `key: value` lines. When a call exceeds it, what matters least, and of
that what was written least recently, goes to archival memory, whence `restore` brings it back. What the call wrote
stays, and so do the protected keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid5

from langchain_agentmem.base.argument_checks import name_given, text_given, texts_given
from langchain_agentmem.base.clock import micros, moment, time_given
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.base.redaction import redact_value
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.layers.archival_memory import record
from langchain_agentmem.layers.layer import PROTECTED_KEYS, Layer, LayersConfig, Written, origin
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import Change
from langchain_agentmem.rewinding.memory_rows import CORE, RECORD, Kept, RowDraft, View, body_of, moved
from langchain_agentmem.storage import Transaction

EVICTED = "CORE_EVICT"
"""The tag of what left core memory to make room."""
USUAL = 3
"""The importance of what is given none."""
MOST = 5
ATTEMPTS = 5
"""How often a value is made smaller, while others take the room that it was to have."""
_SECOND = 1_000_000
_LAST = micros(datetime.max.replace(tzinfo=UTC))
"""The last end that there can be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CoreEntry(Written):
    """A value of core memory.

    Attributes:
        key: Its key.
        value: What it says.
        importance: From 1 to 5.
        expires_at: When it ends, in UTC; None for never.
        created_at: When the key was first set.
        updated_at: When this value was.
        thread_id: The thread that set it; None for a branch.
        source: Where it comes from: "user", "model", "tool", "import", "person"; None for the application's code.
        actor: Who that is, such as a tool's name.
    """

    key: str
    value: str
    importance: int
    expires_at: datetime | None
    created_at: datetime
    updated_at: datetime


class Setting(NamedTuple):
    """A value to be set.

    Attributes:
        key: Its key.
        value: What it says.
        importance: From 1 to 5.
        expires_at: When it ends, in microseconds since 1970.
    """

    key: str
    value: str
    importance: int = USUAL
    expires_at: int | None = None


class TooLarge(NamedTuple):
    """A value for which there is no room, whatever else would leave.

    Attributes:
        setting: The value.
        room: How many characters of it there is room for; less than one if there is none for its key.
    """

    setting: Setting
    room: int


class CoreMemory(Layer):
    """The keys and values of a layered memory. Every method has an awaited twin, with an `a` before its name."""

    _part = "core"

    def get(self, keys: Iterable[str] | str | None = None) -> dict[str, str]:
        """Values by key.

        Args:
            keys: Which keys; those that are not there are left out. Default: all, in the order in which they were
                first set, those of one write by name.

        Raises:
            InvalidInput: The keys are no texts.
        """
        wanted = None if keys is None else [self._key(key) for key in texts_given(_listed(keys), "Keys")]

        def look(tx: Transaction, view: View) -> dict[str, str]:
            if wanted is None:
                return {each.key: each.text for each in everything(tx, view)}
            there = memory_rows.named(tx, view, CORE, wanted)
            return {key: there[key].text for key in wanted if key in there}

        return self._look("get", look, keys=wanted)

    aget = awaited(get)

    def entries(self) -> list[CoreEntry]:
        """Everything, with importance and times, in the order in which the keys were first set."""

        def look(tx: Transaction, view: View) -> list[CoreEntry]:
            return [entry_of(each) for each in everything(tx, view)]

        return self._look("read", look)

    aentries = awaited(entries)

    def set(self, key: str, value: str, importance: int = USUAL, ttl: float | datetime | None = None) -> None:
        """Set a value.

        Args:
            key: Its key: 1 to 500 characters, none of them a control character.
            value: What it says.
            importance: From 1 to 5; the least important leaves first when room is needed. Default: 3.
            ttl: How long it holds: seconds from now, or the time when it ends (without a time zone: UTC). Default: for
                ever.

        Raises:
            InvalidInput: An argument is wrong, or there is no room for the value.
        """
        setting = self._setting_of(key, value, importance, ttl)
        with self._step("set", entries=[setting]) as step:
            _, change, _ = self._place([setting])
            step.finish(lambda: {"evicted": change.evicted})

    aset = awaited(set, writes=True)  # noqa: A003 - the method

    def _place(
        self, settings: Sequence[Setting], also: Callable[[Transaction, Change], bool] | None = None
    ) -> tuple[Sequence[Setting], Change, bool]:
        """Set values that were checked, all of them or none, in one change with whatever else.

        Args:
            settings: The values. Those for which there is no room are compressed.
            also: What else belongs to the change.

        Returns:
            The values as they were set, the change, and what the other returned.

        Raises:
            InvalidInput: There is no room.
        """

        def make(tx: Transaction, change: Change) -> tuple[TooLarge | None, Change, bool]:
            too_large = self._add_to(tx, change, settings) if settings else None
            more = False if also is None or too_large is not None else also(tx, change)
            return too_large, change, more

        for _ in range(ATTEMPTS + len(settings)):
            too_large, change, more = self._change(None, make)
            if too_large is None:
                return settings, change, more
            settings = self._smaller(settings, too_large)
        raise InvalidInput(NO_ROOM)

    def delete(self, key: str) -> bool:
        """Delete a value. Returns whether it was there."""
        wanted = self._key(key)
        return self._deleted(CORE, wanted, key=wanted)

    adelete = awaited(delete, writes=True)

    def restore(self, key: str) -> bool:
        """Bring back what left core memory to make room, with its importance and its end. Something else may leave.

        Args:
            key: Its key. A value that it has by now is replaced.

        Returns:
            Whether archival memory has it.
        """
        wanted = self._key(key)

        def make(tx: Transaction, change: Change) -> bool:
            found = memory_rows.newest(tx, change.view, RECORD, limit=1, label=_label(wanted))
            if not found:
                return False
            [old] = found
            value, importance = str(old.extra["value"]), int(old.extra["importance"])
            too_large = self._add_to(tx, change, [Setting(wanted, value, importance, old.expires_at)])
            if too_large is not None:
                raise InvalidInput(NO_ROOM)
            change.drafts[:] = [
                moved(each, old) if (each.kind, each.key) == (CORE, wanted) else each for each in change.drafts
            ]
            change.remove(RECORD, old.key)
            return True

        return self._change("restore", make, key=wanted)

    arestore = awaited(restore, writes=True)

    def _setting_of(self, key: Any, value: Any, importance: Any = USUAL, ttl: Any = None) -> Setting:
        """A value to be set, checked and without secrets.

        Raises:
            InvalidInput: An argument is wrong.
        """
        if isinstance(importance, bool) or not isinstance(importance, int) or not 1 <= importance <= MOST:
            raise InvalidInput(f"importance must be a whole number from 1 to {MOST}, not {safe_repr(importance)}.")
        name = name_given(key, "a key of core memory")
        patterns = self.settings.patterns
        # A name tells what is a secret too: {"db_password": "x"}.
        [(clean, said)] = redact_value({name: text_given(value, "A value of core memory")}, patterns).items()
        return Setting(clean, said, importance, self._ending(ttl))

    def _add_to(self, tx: Transaction, change: Change, settings: Sequence[Setting]) -> TooLarge | None:
        """Add what sets some values to a change, and what moves others out of the way.

        Returns:
            None; or, without having added anything, the value for which there is no room.
        """
        there = {each.key: each for each in everything(tx, change.view)}
        fit = fitting(there.values(), settings, self.settings)
        if isinstance(fit, TooLarge):
            return fit
        for each in settings:
            begun = there[each.key].created_at if each.key in there else change.now
            draft = RowDraft(CORE, each.key, body_of(each.value), begun, importance=each.importance)
            change.drafts.append(draft._replace(expires_at=each.expires_at))
        self._evict(change, fit)
        return None

    def _evict(self, change: Change, entries: Iterable[Kept]) -> None:
        """Add to a change what moves values to archival memory."""
        for each in entries:
            change.remove(CORE, each.key)
            change.evicted.append(each.key)
            # Two threads that have the same version leave archive one record.
            key = str(uuid5(NAMESPACE_OID, f"{each.key}\x1f{each.number}"))
            content, tags = f"Core evicted: {each.key}\n{each.text}", [EVICTED, f"core_key:{each.key}"]
            details = {"value": each.text, "importance": each.importance, "since": each.created_at}
            archived = record(key, content, tags, change.now, **details)
            archived = archived._replace(label=_label(each.key), expires_at=each.expires_at)
            change.drafts.append(moved(archived, each))

    def _smaller(self, settings: Sequence[Setting], too_large: TooLarge) -> list[Setting]:
        """The values, with the one for which there was no room compressed.

        Raises:
            InvalidInput: There is no room at all.
        """
        wanted, room = too_large
        if room < 1:
            raise InvalidInput(NO_ROOM)
        value = self._ground.compressor.compress(wanted.value, room, f"the core memory {safe_repr(wanted.key)}")
        return [each._replace(value=value) if each is wanted else each for each in settings]

    def _key(self, key: Any) -> str:
        return self._ground.clean(name_given(key, "a key of core memory"))

    def _ending(self, ttl: Any) -> int | None:
        if ttl is None:
            return None
        now = self._ground.now()
        if isinstance(ttl, datetime):
            end = time_given(ttl, "ttl")
        elif isinstance(ttl, int | float) and not isinstance(ttl, bool):
            # Infinite, and what is no number, is not below the bound; nor is an int that no float can be.
            end = now + int(ttl * _SECOND) if abs(ttl) < _LAST / _SECOND else _LAST + 1
        else:
            raise InvalidInput(f"ttl must be a number of seconds or a datetime, not {safe_repr(ttl)}.")
        if not now < end <= _LAST:
            is_local = isinstance(ttl, datetime) and ttl.tzinfo is None
            read = ", which was read as UTC, since it has no time zone" if is_local else ""
            raise InvalidInput(
                "ttl must end in the future and before the year 10000: give seconds from now, a later time, or None to "
                f"keep it, not {ttl!s:.100}{read}."
            )
        return end


NO_ROOM = (
    "Core memory has no room for this: protected keys and what is set with it fill its budget. Delete or shorten some, "
    "or raise core_max_chars."
)


def everything(tx: Transaction, view: View) -> list[Kept]:
    """Core memory, in the order in which the keys were first set."""
    there = memory_rows.current(tx, view, CORE)
    return sorted(there, key=lambda each: (each.created_at, each.key))


def cost(key: str, value: str) -> int:
    """What a value takes of the budget, in characters: its line, and the break that ends it."""
    return len(f"{key}: {value}") + 1


def size(pairs: Iterable[tuple[str, str]]) -> int:
    """What keys and values take of the budget, in characters. The last line needs no break."""
    return max(0, sum(cost(*each) for each in pairs) - 1)


def fitting(there: Iterable[Kept], settings: Sequence[Setting], config: LayersConfig) -> list[Kept] | TooLarge:
    """What has to leave core memory so that values can be set.

    Args:
        there: What is in it.
        settings: The values; they stay.
        config: The budget, and the keys that stay too.

    Returns:
        What leaves: the least important, of that the least recently written; or the value for which there is no room.
    """
    new = {each.key: each for each in settings}
    others = [each for each in there if each.key not in new]
    staying = [each for each in others if each.key in PROTECTED_KEYS]
    least = size([*((each.key, each.value) for each in new.values()), *((each.key, each.text) for each in staying)])
    if (excess := least - config.core_max_chars) > 0:
        largest = max(new.values(), key=lambda each: len(each.value))
        # Where several are too large, each is left its share.
        share = (sum(len(each.value) for each in new.values()) - excess) // len(new)
        return TooLarge(largest, max(share, len(largest.value) - excess))
    return leaving(others, config, taken=sum(cost(each.key, each.value) for each in new.values()))


def leaving(
    entries: Iterable[Kept],
    config: LayersConfig,
    *,
    taken: int = 0,
    limit: int | None = None,
    wanted: Callable[[Kept], bool] = lambda _: True,
) -> list[Kept]:
    """What leaves first, until the rest is within the budget.

    Args:
        entries: What is in core memory.
        config: The budget, and the keys that stay.
        taken: Characters that are taken already, by lines with their breaks. Default: none.
        limit: Another budget.
        wanted: What may leave at all, protected keys apart. Default: everything.
    """
    entries = list(entries)
    limit = config.core_max_chars if limit is None else limit
    total = taken + sum(cost(each.key, each.text) for each in entries) - 1
    gone: list[Kept] = []
    for each in sorted(entries, key=lambda each: (each.importance or USUAL, each.written_at, each.number)):
        if total <= limit:
            break
        if each.key not in PROTECTED_KEYS and wanted(each):
            gone.append(each)
            total -= cost(each.key, each.text)
    return gone


def entry_of(kept: Kept) -> CoreEntry:
    """The value that a row is."""
    return CoreEntry(
        key=kept.key,
        value=kept.text,
        importance=kept.importance or USUAL,
        expires_at=None if kept.expires_at is None else moment(kept.expires_at),
        created_at=moment(kept.created_at),
        updated_at=moment(kept.written_at),
        **origin(kept),
    )


def _label(key: str) -> str:
    return f"{EVICTED} {key}"


def _listed(keys: Any) -> Any:
    return keys if isinstance(keys, str | Mapping) or not isinstance(keys, Iterable) else list(keys)
