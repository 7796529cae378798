"""Digests: what was asked, decided and done in a conversation, as an entry of the audit trail.

    memory.audit.digest("monday")                               # without a model: what was asked, and an outline
    memory.audit.digest("monday", model="openai:gpt-5-mini")

A digest says in `extra` what it stands for. It goes on from the one before with what is new, and where nothing is new
the one before is given back and no model is asked. Where entries that it stands for are gone or hidden since, it is
made from what is left. A model is given what was said as data between marks; where it fails, or where there is none,
the digest is made without, and the next one with a model is made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_agentmem.audit import audit_store
from langchain_agentmem.audit.audit_entry import CALL, DIGEST, EXCHANGE, REFLECTION, AuditEntry
from langchain_agentmem.audit.audit_rows import EntryDraft
from langchain_agentmem.audit.audit_store import is_said
from langchain_agentmem.base.namespaces import namespace_of
from langchain_agentmem.language_models.model_calls import Run, Work, usable_model
from langchain_agentmem.language_models.summarization import SummarizationConfig, extract, summarizing, turn_of
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.messages.message_marks import Summary, sections
from langchain_agentmem.storage import Steps

MARK = "[DIGEST]"
"""What the prompt of a digest begins with."""
OUTPUT_TOKENS, INPUT_TOKENS = 800, 8_000
PAGE = 200
LONGEST = 8_000
"""Characters of a prompt or reply that a digest is made of: of a longer one, how it begins and how it ends."""

_KINDS = (CALL, EXCHANGE, REFLECTION)


def digesting(
    path: str, conversation: str, *, clock: Callable[[], datetime], new_id: Callable[[], str], model: Any = None
) -> Work[AuditEntry | None]:
    """Make the digest of a conversation, or give the one that is there if nothing is new.

    Args:
        path: The path of the namespace.
        conversation: The conversation.
        clock: Tells the time.
        new_id: Gives ids.
        model: What `usable_model` takes. Default None: it is made without a model.

    Returns:
        The digest; None where nothing was said.
    """
    asked = usable_model(model)
    counter = TokenCounter("estimate")
    kept: _Kept = yield Run("audit.digested", partial(_kept, path, conversation), shown=False)
    entry, summary = kept.entry, kept.summary
    if summary is not None and summary.provisional and asked is not None:
        kept, summary = _Kept(entry), None  # with a model, from the beginning
    if summary is not None and not kept.has_more:
        return entry
    covered, last = kept.covered, None
    failure: Exception | None = None
    after: int | None = kept.after
    while after is not None:
        page: audit_store.ListedEntries = yield Run(
            "audit.list", partial(_page, path, conversation, after), shown=False
        )
        messages = _messages(page.entries)
        if messages and asked is not None and failure is None:
            made = yield from summarizing(
                messages,
                earlier=summary,
                model=asked,
                config=SummarizationConfig(),
                counter=counter,
                output_tokens=OUTPUT_TOKENS,
                input_tokens=INPUT_TOKENS,
            )
            failure = made.failure
            summary = made.summary if failure is None else _extracted(messages, summary, counter)
        elif messages:
            summary = _extracted(messages, summary, counter)
        covered += len(page.entries)
        last = page.entries[-1].id if page.entries else last
        after = page.after
    if summary is None or last is None:
        return None
    title = f"conversation {conversation}"
    draft = AuditEntry(
        id=new_id(),
        kind=DIGEST,
        prompt=f"{MARK} {title}",
        reply=sections(summary),
        created_at=clock(),
        conversation_id=conversation,
        namespace=namespace_of(path),
        title=title,
        model=None if asked is None or summary.provisional else _name_of(model),
        extra={
            "stands_for": {"conversation_id": conversation, "entries": covered, "last": last},
            "summary": summary.to_dict(),
            **({"failure": f"{type(failure).__name__}: {failure}"[:500]} if failure else {}),
        },
    )
    put = partial(audit_store.put_reference, path, EntryDraft(draft, title))
    written, _ = yield Run("audit.add_digest", put, write=True, shown=False)
    return written  # type: ignore[no-any-return]  # what Run gives is not typed


class _Kept(NamedTuple):
    """A digest that is there, and how far it goes.

    Attributes:
        entry: The digest; None where there is none.
        summary: What it says; None where it must be made anew.
        after: The number in the chain of the last entry that it stands for.
        covered: How many entries it stands for.
        has_more: Whether there are newer ones.
    """

    entry: AuditEntry | None = None
    summary: Summary | None = None
    after: int = 0
    covered: int = 0
    has_more: bool = True


def _kept(path: str, conversation: str) -> Steps[_Kept]:
    entry = yield from audit_store.marked(path, DIGEST, f"conversation {conversation}")
    if entry is None:
        return _Kept()
    stands_for = entry.extra.get("stands_for", {})
    last = max((yield from audit_store.numbers_named(path, [stands_for.get("last", "")])), default=0)
    covered, after = 0, 0
    while after <= last and (numbers := (yield from _following(path, conversation, after, audit_store.PAGE))):
        covered += sum(number <= last for number in numbers)
        after = numbers[-1]
    if not last or covered != stands_for.get("entries"):
        return _Kept(entry)
    return _Kept(entry, Summary.from_dict(entry.extra.get("summary", {})), last, covered, after > last)


def _following(path: str, conversation: str, after: int, limit: int) -> Steps[list[int]]:
    """The numbers of what was said behind a number."""
    return audit_store.following(path, after, limit=limit, conversation=conversation, kinds=_KINDS)


def _page(path: str, conversation: str, after: int) -> Steps[audit_store.ListedEntries]:
    return audit_store.page(path, after, limit=PAGE, conversation=conversation, kinds=_KINDS, messages=False)


def _messages(entries: Iterable[AuditEntry]) -> list[BaseMessage]:
    """What was said, as messages. Calls that answer one prompt are one turn, and its last reply counts."""
    turns: list[list[str]] = []
    calls = False
    for entry in entries:
        if entry.kind == REFLECTION:
            turns.append(["", entry.reply])
        elif is_said(entry):
            reply = entry.reply if entry.error is None else f"{entry.reply}\n[Failed: {entry.error}]".strip()
            if turns and turns[-1][0] == entry.prompt and (calls or entry.kind == CALL):
                turns[-1][1] = reply or turns[-1][1]
            else:
                turns.append([entry.prompt, reply])
        calls = entry.kind == CALL
    messages: list[BaseMessage] = []
    for prompt, reply in turns:
        messages += [HumanMessage(_shortened(prompt))] if prompt.strip() else []
        messages += [AIMessage(_shortened(reply))] if reply.strip() else []
    return messages


def _extracted(messages: Sequence[BaseMessage], earlier: Summary | None, counter: TokenCounter) -> Summary:
    """A summary without a model: what was asked, and an outline."""
    summary = extract(list(map(turn_of, messages)), earlier, OUTPUT_TOKENS, counter)
    return replace(summary, stands_for=len(messages) + (earlier.stands_for if earlier else 0))


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}\n…\n{text[-LONGEST // 2 :]}"


def _name_of(model: Any) -> str:
    """What a model is called."""
    if isinstance(model, str):
        return model
    names = (getattr(model, name, None) for name in ("model_name", "model", "__name__"))
    return next((name for name in names if isinstance(name, str) and name), type(model).__name__)
