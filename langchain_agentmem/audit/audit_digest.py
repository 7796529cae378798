"""Digests: what was asked, decided and done in a conversation, or in a span of time, as an entry of the audit trail.

    memory.audit.digest("monday")                               # without a model: what was asked, and an outline
    memory.audit.digest("monday", model="openai:gpt-5-mini")

A digest says in `extra` what it stands for. It goes on from the one before with what is new, and where nothing is new
the one before is given back and no model is asked. Where entries that it stands for are gone or hidden since, it is
made from what is left. A model is given what was said as data between marks; where it fails, or where there is none,
the digest is made without, and the next one with a model is made anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_agentmem.audit import audit_store
from langchain_agentmem.audit.audit_entry import CALL, DIGEST, EXCHANGE, OPEN, REFLECTION, AuditEntry
from langchain_agentmem.audit.audit_rows import EntryDraft
from langchain_agentmem.audit.audit_store import is_said
from langchain_agentmem.audit.legacy_json import MARKS
from langchain_agentmem.base.clock import LATEST, micros, moment, time_given
from langchain_agentmem.base.namespaces import id_of, namespace_of
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.model_calls import Run, Work, usable_model
from langchain_agentmem.language_models.summarization import SummarizationConfig, clip, extract, summarizing, turn_of
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.messages.message_marks import Summary, sections
from langchain_agentmem.storage import Steps, query

MARK = "[DIGEST]"
"""What the prompt of a digest begins with."""
OUTPUT_TOKENS, INPUT_TOKENS = 800, 8_000
PAGE = 200
LONGEST = 8_000
"""Characters of a prompt or reply that a digest is made of: of a longer one, how it begins and how it ends."""

_KINDS = (CALL, EXCHANGE, REFLECTION)
_MOST_DECISIONS = 20
_SENTENCE = re.compile(r"(?<=[.!?\n])\s+|\n")
_SHORT, _LONG = 12, 240
_DECIDES = re.compile(
    r"\b(?:we(?:['\u2019]ve| have|['\u2019]ll| will)? (?:decided|agreed|chose|settled|go(?:ing)? with|use|keep|stay)"
    r"|I(?:['\u2019]ve| have|['\u2019]ll| will)? (?:decided|chose|chosen|go(?:ing)? with|take|settled)"
    r"|let['\u2019]?s (?:use|go with|keep|take|stick|drop|skip|not)|go with|stick (?:with|to)"
    r"|decided (?:to|on|that|against)|the decision|agreed(?: on| to| that)|from now on|instead of)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class DigestSubject:
    """What a digest is of: a conversation, or all that was said in a span of time.

    Attributes:
        conversation_id: The conversation. Default None.
        since: When the span begins. Default None.
        until: When it ends, this time excluded. Default None: it does not end.

    Raises:
        InvalidInput: Neither is given or both are, or the span ends before it begins.
    """

    conversation_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        for name in ("since", "until"):
            at = getattr(self, name)
            if at is not None:
                object.__setattr__(self, name, moment(time_given(at, name)))
        if self.conversation_id is not None:
            object.__setattr__(self, "conversation_id", id_of(self.conversation_id, "conversation"))
        if (self.conversation_id is None) == (self.since is None) or (self.until is not None and self.since is None):
            raise InvalidInput("A digest is of a conversation, or of the time from since to until.")
        if self.since is not None and self.until is not None and self.until <= self.since:
            raise InvalidInput("until must be later than since.")

    @property
    def title(self) -> str:
        """What the digest is called; of one subject there is one digest that is shown."""
        if self.since is None:
            return f"conversation {self.conversation_id}"
        return f"{self.since.isoformat()} to {self.until.isoformat() if self.until else 'now'}"

    def told(self) -> dict[str, str]:
        """The subject as JSON has it."""
        if self.conversation_id is not None:
            return {"conversation_id": self.conversation_id}
        span = {"since": self.since, "until": self.until}
        return {name: at.isoformat() for name, at in span.items() if at is not None}


def digesting(
    path: str,
    subject: DigestSubject,
    *,
    clock: Callable[[], datetime],
    new_id: Callable[[], str],
    model: Any = None,
    counter: TokenCounter | None = None,
    config: SummarizationConfig | None = None,
    output_tokens: int = OUTPUT_TOKENS,
    input_tokens: int = INPUT_TOKENS,
) -> Work[AuditEntry | None]:
    """Make a digest, or give the one that is there if nothing is new.

    Args:
        path: The path of the namespace.
        subject: Of what.
        clock: Tells the time.
        new_id: Gives ids.
        model: What `usable_model` takes. Default None: it is made without a model.
        counter: Counts tokens. Default: the estimate.
        config: Its prompt and its timeout are used. Default: those of `SummarizationConfig`.
        output_tokens: What a digest may have, in tokens.
        input_tokens: What one question to the model may have, in tokens.

    Returns:
        The digest; None where nothing was said.
    """
    asked = usable_model(model)
    counter = counter or TokenCounter("estimate")
    kept: _Kept = yield Run("audit.digested", partial(_kept, path, subject), shown=False)
    entry, summary = kept.entry, kept.summary
    if summary is not None and summary.provisional and asked is not None:
        kept, summary = _Kept(entry), None  # with a model, from the beginning
    if summary is not None and not kept.has_more:
        return entry
    after, covered = kept.after, kept.covered
    failure: Exception | None = None
    last: str | None = None
    while True:
        page: audit_store.ListedEntries = yield Run("audit.list", partial(_page, path, subject, after), shown=False)
        messages = _messages(page.entries)
        if messages and asked is not None and failure is None:
            made = yield from summarizing(
                messages,
                earlier=summary,
                model=asked,
                config=config or SummarizationConfig(),
                counter=counter,
                output_tokens=output_tokens,
                input_tokens=input_tokens,
            )
            failure = made.failure
            summary = made.summary if failure is None else _extracted(messages, summary, output_tokens, counter)
        elif messages:
            summary = _extracted(messages, summary, output_tokens, counter)
        covered += len(page.entries)
        last = page.entries[-1].id if page.entries else last
        if page.after is None:
            break
        after = page.after
    if summary is None or last is None:
        return None
    if summary.provisional:
        todos = yield Run("audit.open_todos", partial(_open_todos, path, subject), shown=False)
        summary = clip(replace(summary, open_threads=todos), output_tokens, counter)
    draft = AuditEntry(
        id=new_id(),
        kind=DIGEST,
        prompt=f"{MARK} {subject.title}",
        reply=sections(summary),
        created_at=clock(),
        conversation_id=subject.conversation_id,
        namespace=namespace_of(path),
        title=subject.title,
        model=None if asked is None or summary.provisional else _name_of(model),
        extra={
            "stands_for": {**subject.told(), "entries": covered, "last": last},
            "summary": summary.to_dict(),
            **({"failure": f"{type(failure).__name__}: {failure}"[:500]} if failure else {}),
        },
    )
    put = partial(audit_store.put_reference, path, EntryDraft(draft, subject.title))
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


def _kept(path: str, subject: DigestSubject) -> Steps[_Kept]:
    entry = yield from audit_store.marked(path, DIGEST, subject.title)
    if entry is None:
        return _Kept()
    said = entry.extra.get("stands_for", {})
    found = yield query.audit_named(path=path, keys=json.dumps([said.get("last", "")]))
    waiting = yield query.audit_unsettled(path=path)
    last = [row["sequence"] for row in (*found, *waiting) if row["key"] == said.get("last")]
    if not last:
        return _Kept(entry)
    covered, after, more = 0, 0, False
    while numbers := (yield from _following(path, subject, after, audit_store.PAGE)):
        covered += sum(number <= last[0] for number in numbers)
        after = numbers[-1]
        if more := after > last[0]:
            break
    if covered != said.get("entries"):
        return _Kept(entry)
    return _Kept(entry, Summary.from_dict(entry.extra.get("summary", {})), last[0], covered, more)


def _following(path: str, subject: DigestSubject, after: int, limit: int) -> Steps[list[int]]:
    """The numbers of what was said behind a number."""
    if subject.since is None:
        return (
            yield from audit_store.following(
                path, after, limit=limit, conversation=subject.conversation_id, kinds=_KINDS
            )
        )
    until = LATEST + 1 if subject.until is None else micros(subject.until)
    found = yield query.audit_in_span(path=path, after=after, since=micros(subject.since), until=until, limit=limit)
    return [row["sequence"] for row in found]


def _page(path: str, subject: DigestSubject, after: int) -> Steps[audit_store.ListedEntries]:
    numbers = yield from _following(path, subject, after, PAGE)
    entries = yield from audit_store.of_numbers(numbers, messages=False)
    return audit_store.ListedEntries(entries, numbers[-1] if len(numbers) == PAGE else None)


def _open_todos(path: str, subject: DigestSubject) -> Steps[tuple[str, ...]]:
    """The open todos that stand in what was said."""
    todos = yield from audit_store.of_status(path, OPEN)
    texts = [todo.prompt.removeprefix(MARKS["todo"][0]).strip() for todo in todos]
    wanted = {text: plain for text in texts if (plain := _words(text))}
    found: set[str] = set()
    after = 0
    while wanted and (numbers := (yield from _following(path, subject, after, PAGE))):
        for entry in (yield from audit_store.of_numbers(numbers, messages=False)):
            prompt = _words(entry.prompt)
            found |= {text for text, plain in wanted.items() if plain in prompt}
        after = numbers[-1]
    return tuple(text for text in wanted if text in found)


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


def _extracted(messages: Sequence[BaseMessage], earlier: Summary | None, tokens: int, counter: TokenCounter) -> Summary:
    """A summary without a model: what was asked, an outline, and what was decided, word for word."""
    summary = extract(list(map(turn_of, messages)), earlier, tokens, counter)
    said = (" ".join(each.split()) for message in messages for each in _SENTENCE.split(str(message.text)))
    sentences = (each for each in said if _SHORT <= len(each) <= _LONG and not each.endswith("?"))
    decided = [each for each in sentences if _DECIDES.search(each)]
    facts = tuple(dict.fromkeys((*summary.salient_facts, *decided)))[-_MOST_DECISIONS:]
    count = len(messages) + (earlier.stands_for if earlier else 0)
    return clip(replace(summary, salient_facts=facts, stands_for=count), tokens, counter)


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}\n…\n{text[-LONGEST // 2 :]}"


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _name_of(model: Any) -> str:
    """What a model is called."""
    if isinstance(model, str):
        return model
    names = (getattr(model, name, None) for name in ("model_name", "model", "__name__"))
    return next((name for name in names if isinstance(name, str) and name), type(model).__name__)
