"""Factories of core entries, events and records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from langchain_agentmem.layers.layer import CoreEntry, Event, Record

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def entry(key: str, value: str, importance: int = 3, *, made: float = 0, updated: float | None = None) -> CoreEntry:
    times = {"created_at": at(made), "updated_at": at(made if updated is None else updated)}
    return CoreEntry(key=key, value=value, importance=importance, expires_at=None, **times)


def event(number: int, content: str | None = None, kind: str = "note") -> Event:
    return Event(id=f"e{number}", kind=kind, content=content or f"event {number}", created_at=at(number))


def record(number: int, content: str | None = None, score: float | None = None, tags: tuple[str, ...] = ()) -> Record:
    content = f"record {number}" if content is None else content
    return Record(
        id=f"r{number}", content=content, tags=tags, created_at=at(number), updated_at=at(number), score=score
    )


def contents(things):
    return [each.content for each in things]
