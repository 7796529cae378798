"""Entries for tests of the audit trail, and functions to add, read and hide them."""

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from langchain_core.runnables import RunnableLambda

from langchain_agentmem.audit import audit_rows, audit_store
from langchain_agentmem.audit.audit_entry import AuditEntry
from langchain_agentmem.audit.audit_rows import EntryDraft
from langchain_agentmem.messages.message import Message
from langchain_agentmem.storage import query
from tests.support.graphs import line

BEGIN = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
SENTENCES = yaml.safe_load((Path(__file__).parent / "report_sentences.yaml").read_text(encoding="utf-8"))
"""What users and agents say, by what a report makes of it."""
_numbers = itertools.count(1)


def entry(prompt="What is the capital of France?", reply="Paris.", **fields):
    """An entry with an id of its own, a minute after the one before."""
    number = next(_numbers)
    given = {"id": f"entry-{number}", "kind": "exchange", "created_at": BEGIN + timedelta(minutes=number)}
    return AuditEntry(prompt=prompt, reply=reply, **{**given, **fields})


def todo(text, status="open", **fields):
    return entry(f"[TODO] {text}", "", kind="todo", status=status, **fields)


def without_ids(entry):
    """An entry whose messages have no ids of their own: the trail keeps what they say."""
    return replace(entry, messages=tuple(replace(each, message_id="-") for each in entry.messages))


def call(history, reply, **fields):
    """A model call: the messages that the model was given, as texts of user and assistant in turn, and its reply."""
    said = [
        Message(role="assistant" if place % 2 else "user", content=text, message_id=f"m-{place}-{text[:20]}")
        for place, text in enumerate([*history, reply])
    ]
    return entry(history[-1], reply, kind="call", messages=tuple(said), **fields)


def echo(messages):
    return f"Well, {messages[-1].text}"


def model_graph(model, saver=None):
    """A graph of one node, which asks a model."""

    def call(state):
        return {"messages": [model.invoke(state["messages"])]}

    async def acall(state):
        return {"messages": [await model.ainvoke(state["messages"])]}

    return line(saver, RunnableLambda(call, acall))


def add_all(memory, entries, path=""):
    memory.database.engine.write(lambda tx: audit_store.add(tx, path, [EntryDraft(each) for each in entries]))


def add(memory, *entries, path="", mark=None):
    """Add each entry in a transaction of its own, and give them."""
    for each in entries:
        memory.database.engine.write(lambda tx, each=each: audit_store.add(tx, path, [EntryDraft(each, mark)]))
    return list(entries)


def read(memory, operation, *arguments, **named):
    return memory.database.engine.read(lambda tx: operation(tx, *arguments, **named))


def write(memory, operation, *arguments, **named):
    return memory.database.engine.write(lambda tx: operation(tx, *arguments, **named))


def hide(memory, prompt, *rules):
    """Have an entry judged junk by some rules, or by none; says how many entries that changes."""

    def reasons(_kind, asked, _reply):
        return rules if asked == prompt else ()

    return write(memory, audit_store.apply_rules, "", reasons).entries


def versions(tx, title):
    """Every version of a reference, from the oldest to the newest."""
    audit_store.settle(tx)
    found = query.audit_entries_of_mark(tx, path="", kind="reference", mark=audit_rows.encode_mark(title))
    return sorted(audit_store.load_by_number(tx, [row["sequence"] for row in found]), key=lambda each: each.created_at)


def entry_with_mark(tx, path, kind, mark):
    """The shown entry of a kind that bears a mark, such as the reference of a title."""
    audit_store.settle(tx)
    found = query.audit_entries_of_mark(tx, path=path, kind=kind, mark=audit_rows.encode_mark(mark))
    shown = [row["sequence"] for row in found if row["hidden"] != audit_rows.REPLACED]
    return next(iter(audit_store.load_by_number(tx, shown)), None)
