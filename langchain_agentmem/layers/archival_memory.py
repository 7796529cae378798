"""Archival memory: records that are kept for good, and found by search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_agentmem.base.argument_checks import ALL, EVERYTHING, limit_given, name_given, text_given, texts_given
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.base.origins import rank_of
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.layers.layer import Layer, Record, bounded, record_of, redraft
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import Change
from langchain_agentmem.rewinding.memory_rows import RECORD, Kept, RowDraft, View, body_of
from langchain_agentmem.storage import Transaction, queries, query


class ArchivalMemory(Layer):
    """The records of a layered memory. Every method has an awaited twin, with an `a` before its name."""

    _part = "archival"

    def write(self, content: str, tags: Sequence[str] = ()) -> str:
        """Write a record. A record that says the same already gets the tags that it lacks instead.

        Args:
            content: What it says.
            tags: By which it can be told from others. Default: none.

        Returns:
            Its id.

        Raises:
            InvalidInput: An argument is wrong.
        """
        clean, marks = self._checked(content, tags)
        with self._step("write", content=clean, characters=len(clean), tags=marks) as step:
            key = self._written(clean, marks)
            step.finish(lambda: {"record_id": key})
        return key

    awrite = awaited(write, writes=True)

    def _written(self, clean: str, marks: Sequence[str]) -> str:
        """Write a record that was checked, as a detail of a step."""
        key = self._ground.database.new_id()

        def make(tx: Transaction, change: Change) -> str:
            return add_record(tx, change, key, clean, marks)

        return self._change(None, make)

    def update(self, record_id: str, content: str | None = None, tags: Sequence[str] | None = None) -> bool:
        """Change a record; what is not given stays as it is.

        Args:
            record_id: Which record.
            content: What it says now. Default: the same.
            tags: Its tags now; an empty list takes them all. Default: the same.

        Returns:
            Whether there is such a record.

        Raises:
            InvalidInput: Neither is given, or one is wrong.
        """
        if content is None and tags is None:
            raise InvalidInput("Give the new content of the record, its new tags, or both.")
        clean = None if content is None else self._clean(content)
        marks = None if tags is None else self._marks(tags)
        key = name_given(record_id, "the id of a record")

        def make(tx: Transaction, change: Change) -> bool:
            there = memory_rows.named(tx, change.view, RECORD, [key])
            if key in there:
                change.drafts.append(next_version(there[key], clean, marks))
            return key in there

        return self._change("update", make, record_id=key, content=clean, tags=marks)

    aupdate = awaited(update, writes=True)

    def get(self, record_id: str) -> Record | None:
        """One record by its id, or None."""
        return self._one(RECORD, "record", name_given(record_id, "the id of a record"), record_of)

    aget = awaited(get)

    def delete(self, record_id: str) -> bool:
        """Delete a record. Returns whether it was there."""
        key = name_given(record_id, "the id of a record")
        return self._deleted(RECORD, key, record_id=key)

    adelete = awaited(delete, writes=True)

    def search(self, query: str, limit: int | None = None, tags: Sequence[str] | None = None) -> list[Record]:
        """Find records.

        Args:
            query: Any text; "*" stands for every record, the newest first.
            limit: Most records. Default: `retrieval_k` of the settings (8); with "*", all.
            tags: Only records that have all of these tags. Default: any.

        Returns:
            The best first.

        Raises:
            InvalidInput: An argument is wrong.
        """
        everything = text_given(query, "A query").strip() == EVERYTHING
        most = self.settings.retrieval_k if limit is None and not everything else limit_given(limit)
        marks = [] if tags is None else self._marks(tags)

        return self._found(
            RECORD,
            query,
            most,
            lambda: self._listed(None, marks, most),
            lambda kept: _has(kept, marks),
            tags=marks or None,
        )

    asearch = awaited(search)

    def all(self, tags: Sequence[str] | None = None, limit: int | None = None) -> list[Record]:
        """The records, in the order in which they were last written.

        Args:
            tags: Only records that have all of these tags. Default: any.
            limit: Most records, the newest ones. Default: all.
        """
        return self._listed("all", [] if tags is None else self._marks(tags), limit_given(limit))

    aall = awaited(all)  # noqa: A003 - the method

    def _listed(self, verb: str | None, marks: Sequence[str], most: int = ALL) -> list[Record]:
        """List the newest records that have all of some tags, perhaps as a detail of another step."""
        newest = None if marks else bounded(most)

        def look(tx: Transaction, view: View) -> list[Record]:
            kept = memory_rows.newest(tx, view, RECORD, limit=newest)
            there = [record_of(each) for each in kept if _has(each, marks)]
            return there[max(0, len(there) - most) :]

        return self._look(verb, look, limit=bounded(most), tags=sorted(set(marks)) or None)

    def _checked(self, content: Any, tags: Any = ()) -> tuple[str, list[str]]:
        """Content and tags, checked and without secrets.

        Raises:
            InvalidInput: One is wrong.
        """
        return self._clean(content), self._marks(tags)

    def _clean(self, content: Any) -> str:
        return self._ground.clean(text_given(content, "The content of a record"))

    def _marks(self, tags: Any) -> list[str]:
        """Tags that a user gave, each once."""
        clean, given = self._ground.clean, texts_given(tags, "Tags")
        self._ground.database.limits.check("tags", len(given), "The list of tags")
        return list(dict.fromkeys(clean(name_given(each, "a tag")) for each in given))


def record(key: str, content: str, tags: Sequence[str], now: int, **details: Any) -> RowDraft:
    """A record to be written.

    Args:
        key: Its id.
        content: What it says.
        tags: Its tags.
        now: When it is written.
        details: What else belongs to it, as JSON knows it.
    """
    extra = {"tags": list(tags), **details}
    return RowDraft(RECORD, key, body_of(content), now, extra=extra, findable=True)


def add_record(tx: Transaction, change: Change, key: str, content: str, tags: Sequence[str]) -> str:
    """Add a record to a change, unless what is seen there has one that says the same: that is told again.

    Nothing is written where that adds nothing. What another thread wrote is written on this one's own line as well, so
    that it stays when the other is rewound; a more trusted source replaces the record's.

    Args:
        tx: The transaction.
        change: The change.
        key: The id of a new record.
        content: What it says.
        tags: Its tags.

    Returns:
        The id of the record.
    """
    new = change.signed(record(key, content, tags, change.now))
    found = query.keys_saying(tx, **change.view.parameters(), kind=RECORD, hash=queries.digest(body_of(content)))
    there = memory_rows.named(tx, change.view, RECORD, [row["key"] for row in found]) if found else {}
    same = [kept for kept in there.values() if kept.text == content and kept.label is None]
    if not same:
        change.drafts.append(new)
        return key
    old = min(same, key=lambda kept: rank_of(kept.source))
    marks = list(dict.fromkeys([*old.extra.get("tags", ()), *tags]))
    draft = next_version(old, None, marks)._replace(expires_at=None)
    if rank_of(new.source) < rank_of(old.source):
        change.drafts.append(draft)
    elif _has(old, tags):
        if old.thread != change.thread or old.expires_at is not None:
            change.drafts.append(draft._replace(moved=True, source=old.source, actor=old.actor))
    else:
        change.drafts.append(draft)
    return old.key


def _has(kept: Kept, tags: Sequence[str]) -> bool:
    """Whether a record has all of some tags."""
    return set(tags) <= set(kept.extra.get("tags", ()))


def next_version(kept: Kept, content: str | None, tags: Sequence[str] | None) -> RowDraft:
    """The next version of a record, which is the same but for what is given."""
    extra = dict(kept.extra)
    if tags is not None:
        extra["tags"] = list(tags)
    body = kept.body if content is None else body_of(content)
    if "words" in extra:  # what stands for other texts is found by them, too
        texts = [text for _, _, text in extra.get("events", ())]
        extra["words"] = "\n".join([memory_rows.text_of(body), *texts, *extra["tags"]])
    return redraft(kept, body=body, extra=extra)
