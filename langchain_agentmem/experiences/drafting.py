"""What can be learned of a conversation, put together from what was said: without a model, and for one.

The user's requests and the errors tell when it applies; what the user corrected, what failed and what was done in the
end tell what to do. It is a draft: it says what was said, and a person makes an instruction of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from langchain_core.messages import BaseMessage, ToolMessage

from langchain_agentmem.base.fencing import fenced, harmless
from langchain_agentmem.base.redaction import redact
from langchain_agentmem.language_models.transcript import turn_of
from langchain_agentmem.messages.history_shape import calls_of, is_said_by_user, role_of
from langchain_agentmem.messages.role_rounds import AttachmentType, Conversation, Post
from langchain_agentmem.messages.summary import summary_in
from langchain_agentmem.search.english import STOP_WORDS

USER = "User"
"""Whom a session calls the user."""
LINE = 300
"""Characters that a draft quotes of one thing that was said."""
TURN, TRANSCRIPT = 4_000, 60_000
"""Characters that a model is shown of one thing that was said, and of all."""
_REQUESTS, _CORRECTIONS, _FAILURES, _STEPS = 3, 5, 3, 3
"""How many of each a draft quotes, from the end."""
_TELLING = 2
"""How many words that are no stop words a request has, if it says anything."""

_CORRECTS = re.compile(
    r"\A\W*(?:no|nope|wrong|not|stop|wait|sorry|actually|rather|instead|again|still|but|"
    r"please (?:do not|don['\u2019]t|use))\b"
    r"|\b(?:(?:do|is|was|should)(?: not|n['\u2019]t)|never|always|instead|wrong|incorrect|mistake|not what|should have|"
    r"must|you (?:forgot|missed)|i (?:meant|said|told you|asked)|make sure|next time|from now on|prefer)\b",
    re.IGNORECASE,
)
_FAILS = re.compile(
    r"\A\W*(?:error|failed|failure|exception|traceback|\w+(?:Error|Exception))\b(?!\W{1,4}(?:null|none|false|0)\b)",
    re.IGNORECASE,
)
_SPEAKER = re.compile(
    r"^[ \t]*(user|human|customer|assistant|ai|agent|bot|tool|execution|error|system)[ \t]*:",
    re.IGNORECASE | re.MULTILINE,
)
_SPEAKERS = {"user": "user", "human": "user", "customer": "user", "tool": "tool", "execution": "tool", "error": "tool"}
_MARKS = re.compile(r"^\[(?:Calls|Result of call) [^\n]*\n?", re.MULTILINE)


def cleaned(text: str) -> str:
    """A text without secrets, and without what nobody sees, which may hide one."""
    return redact(harmless(text))


class Draft(NamedTuple):
    """What an experience would say.

    Attributes:
        when: The condition.
        what: The instruction.
    """

    when: str
    what: str


class Said(NamedTuple):
    """Something that was said, without secrets.

    Attributes:
        role: Who spoke: "user", "assistant", "tool", "record" for a summary.
        text: What.
        name: The speaker's name, or the tool's.
        failed: Whether it tells that something failed.
        step: The call that it is the result of.
    """

    role: str
    text: str
    name: str | None = None
    failed: bool = False
    step: str = ""


def of_messages(messages: Sequence[BaseMessage]) -> list[Said]:
    """What was said in messages; not what a system says, nor what was put into the prompt."""
    said = []
    steps: dict[str | None, str] = {}
    for message in messages:
        if role_of(message) == "system":
            continue
        for call in calls_of(message):
            steps[call.get("id")] = f"{call.get('name') or 'a tool'} {_arguments(call.get('args', call.get('input')))}"
        turn, step, failed = turn_of(message), "", False
        text = cleaned(turn.text)
        if isinstance(message, ToolMessage):
            step = cleaned(steps.get(message.tool_call_id, turn.name or ""))
            failed = message.status == "error" or _FAILS.match(_plain(text)) is not None
        role = "record" if summary_in(message) is not None else turn.role
        if role != "user" or is_said_by_user(message):
            said.append(Said(role, text, turn.name, failed, step))
    return said


def of_conversation(conversation: Conversation) -> list[Said]:
    """What was said in the rounds of a session, with what its attachments tell of code that was run."""
    said = []
    for each in conversation.rounds:
        query = cleaned(each.user_query)
        if query.strip() and not any(
            post.send_from == USER and post.message == each.user_query for post in each.post_list
        ):
            said.append(Said("user", query))
        for post in each.post_list:
            said += _of_post(post)
    return said


def of_text(text: str) -> list[Said]:
    """What was said according to a text: lines such as "User: …", "Assistant: …" and "Error: …", else one request."""
    text = cleaned(text)
    pieces = _SPEAKER.split(text)
    said = [Said("record", pieces[0])] if len(pieces) > 1 else [Said("user", text)]
    for name, told in zip(pieces[1::2], pieces[2::2], strict=True):
        speaker = name.lower()
        if speaker != "system":
            role = _SPEAKERS.get(speaker, "assistant")
            failed = role == "tool" and (speaker == "error" or _FAILS.match(told) is not None)
            said.append(Said(role, told.strip(), failed=failed))
    return [each for each in said if each.text.strip()]


def drafted(said: Sequence[Said]) -> Draft | None:
    """An experience made of what was said; None where the user said nothing and nothing failed."""
    asked = [_quoted(each.text) for each in said if each.role == "user" and each.text.strip()]
    corrections = [text for text in asked[1:] if _CORRECTS.search(text)][-_CORRECTIONS:]
    requests = [text for text in asked if text not in corrections]
    requests = [text for text in requests if _is_telling(text)] or requests
    requests = [*requests[:1], *requests[1:][-_REQUESTS + 1 :]]
    failures = [place for place, each in enumerate(said) if each.failed]
    if not asked and not failures:
        return None
    errors = _each(_error(said[place].text) for place in failures)
    when = [
        *_listed("Use when the user asks for something like this:", requests),
        *_listed(
            "Or when an error like this occurred:" if requests else "Use when an error like this occurred:", errors
        ),
    ]
    after = said[failures[-1] + 1 :] if failures else said
    done = _each(_quoted(each.step) for each in after if each.step and not each.failed)[-_STEPS:]
    failed = _each(_failure(said[place]) for place in failures)
    answer = next((text for each in reversed(after) if each.role == "assistant" and (text := _plain(each.text))), "")
    what = [
        *_listed("What the user corrected:", corrections),
        *_listed("What failed:", failed),
        *_listed("What was done in the end:", [*done, *([f"The answer: {_quoted(answer)}"] if answer else [])]),
    ]
    if not corrections and not failed:
        what.insert(0, "Nothing was corrected, and nothing is known to have failed. Say here what is to be done.")
    return Draft("\n".join(when), "\n".join(what))


def transcript(said: Sequence[Said]) -> str:
    """What was said as a model is shown it, as data: the first thing, and the latest that there is room for."""
    shown = [
        fenced(
            "message",
            each.text if len(each.text) <= TURN else f"{each.text[: TURN // 2]} … {each.text[-TURN // 2 :]}",
            role=each.role,
            name=each.name,
            failed="yes" if each.failed else None,
        )
        for each in said
    ]
    room = TRANSCRIPT - sum(map(len, shown[:1]))
    kept: list[str] = []
    for each in reversed(shown[1:]):
        room -= len(each)
        if room < 0:
            break
        kept.append(each)
    left_out = len(shown[1:]) - len(kept)
    gap = [f"({left_out} messages are left out here)"] if left_out else []
    return fenced("conversation", "\n".join([*shown[:1], *gap, *reversed(kept)]))


def _of_post(post: Post) -> Iterator[Said]:
    role = "user" if post.send_from == USER else "assistant"
    yield Said(role, cleaned(post.message), None if role == "user" else post.send_from)
    told: dict[AttachmentType, str] = {}
    for attachment in post.attachment_list:
        told[attachment.type] = cleaned(attachment.content)
    step = told.get(AttachmentType.reply_content, "")
    status = told.get(AttachmentType.execution_status, "")
    error = told.get(AttachmentType.code_error, "")
    if error.strip() or status.strip().upper().startswith("FAIL"):
        yield Said("tool", error or status, failed=True, step=step)
    elif result := told.get(AttachmentType.execution_result) or status:
        yield Said("tool", result, step=step)


def _is_telling(text: str) -> bool:
    """Whether a request says more than a greeting does."""
    words = re.findall(r"[^\W_]+", text.casefold())
    return len(set(words) - STOP_WORDS) >= _TELLING or not text.isascii()


def _plain(text: str) -> str:
    """What was said, without the marks for calls and results."""
    return _MARKS.sub("", f"{text}\n").strip()


def _quoted(text: str) -> str:
    """The beginning of what was said, on one line."""
    words = " ".join(text.split())
    return words if len(words) <= LINE else f"{words[:LINE].rsplit(' ', 1)[0]} …"


def _error(text: str) -> str:
    """What an error says: of a trace its last line."""
    lines = [line for line in _plain(text).splitlines() if line.strip()]
    return _quoted(lines[-1] if lines and any("Traceback" in line for line in lines) else "\n".join(lines))


def _failure(said: Said) -> str:
    error = _error(said.text)
    return f"{_quoted(said.step)}: {error}" if said.step else error


def _each(texts: Iterator[str]) -> list[str]:
    """The latest of some texts, each once."""
    return list(dict.fromkeys(text for text in texts if text))[-_FAILURES:]


def _listed(head: str, texts: Sequence[str]) -> list[str]:
    return [head, *(f"- {text}" for text in texts)] if texts else []


def _arguments(given: object) -> str:
    try:
        return given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return str(given)
