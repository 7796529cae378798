"""A new experience is proposed: by what a conversation teaches, or by an agent, to a person who reviews it.

    library.propose(memory.conversation("chat-7"), model=model)     # experience/proposed/proposed_exp_….yaml
    agent = create_agent(model, tools=library.tools(), middleware=[ExperienceMiddleware(library)])

No loader reads files that are called so. They begin with where the proposal comes from, and how it is put to use.

Without a model it is a draft of what was said. The user's requests and the errors tell when it applies; what the user
corrected, what failed and what was done in the end tell what to do. A person makes an instruction of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import yaml
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool
from pydantic import Field

from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.fencing import fenced, harmless
from langchain_agentmem.base.namespaces import running_config
from langchain_agentmem.base.redaction import redact
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations.conversation_memory import ConversationMemory
from langchain_agentmem.conversations.session_memory import SessionMemory
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.experiences.experience import PREFIX, SUFFIX, Experience, name_for, places, write_new
from langchain_agentmem.experiences.model_choice import prompt
from langchain_agentmem.language_models.lenient_json import read_json, strip_reasoning
from langchain_agentmem.language_models.model_calls import Ask, Do, Shown, Work
from langchain_agentmem.language_models.summarization import turn_of
from langchain_agentmem.language_models.tokens import Countable
from langchain_agentmem.language_models.tool_arguments import Arguments, Text, Texts
from langchain_agentmem.language_models.tool_factory import (
    Calls,
    Operation,
    OperationCall,
    Whose,
    chosen,
    passage,
    tool_of,
)
from langchain_agentmem.messages.history_shape import calls_of, is_said_by_user, role_of
from langchain_agentmem.messages.message_marks import summary_in
from langchain_agentmem.messages.prompt_forms import converted
from langchain_agentmem.messages.role_rounds import AttachmentType, Conversation
from langchain_agentmem.search.analysis import STOP_WORDS
from langchain_agentmem.tracing import brief

if TYPE_CHECKING:
    from langchain_agentmem.experiences.experience_library import ExperienceLibrary

FOLDER, PROPOSED = "proposed", "proposed_exp_"
"""Where proposals are, within the folder of a library, and how their files are called."""
NOT_IN_USE = "A proposal for an experience. It is not in use: nothing reads a file that is called like this one."
TO_USE = "To put it to use:"
"""What its first lines say."""
LONGEST = 10_000
"""Characters that a proposed condition or instruction may have."""
USER = "User"
"""Whom a session calls the user."""
LINE = 300
"""Characters that a draft quotes of one thing that was said."""
TURN, TRANSCRIPT = 4_000, 60_000
"""Characters that a model is shown of one thing that was said, and of all."""
_REQUESTS, _CORRECTIONS, _FAILURES, _STEPS = 3, 5, 3, 3
"""How many of each a draft quotes, from the end."""
_LETTERS = 3
"""A text with fewer letters tells nothing."""
_WORDS, _LONGEST_ID = 5, 60
"""How many words of a condition an id is made of, and how long it may be."""
_SHOWN = 200
"""How much of a name a sentence shows, in characters."""
_LISTED = "Made without a model: it only lists what was said. Say in your own words when it applies, and what to do."

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
_WORD = re.compile(r"[^\W_]+")
_MARKS = re.compile(r"^\[(?:Calls|Result of call) [^\n]*\n?", re.MULTILINE)


class Draft(NamedTuple):
    """What an experience would say.

    Attributes:
        when: The condition.
        what: The instruction.
    """

    when: str
    what: str


class ProposalTurn(NamedTuple):
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


class Origin(NamedTuple):
    """Where a proposal comes from.

    Attributes:
        told: The same in words and on one line, such as "the conversation 'chat-7'".
        said: What was said there.
        draft: What it is to say, where somebody has written it.
    """

    told: str
    said: Sequence[ProposalTurn] = ()
    draft: Draft | None = None


def proposing(library: ExperienceLibrary, source: Any, exp_id: str | None, who: Any, model: Any) -> Work[Path]:
    """Propose an experience, see `ExperienceLibrary.propose`. Returns the file."""
    path, _ = yield Shown(
        "experience.propose",
        _proposing(library, source, exp_id, who, model),
        inputs=lambda: {"source": type(source).__name__, "model": model is not None},
        outputs=lambda made: made[1],
    )
    return Path(path)


def _proposing(
    library: ExperienceLibrary, source: Any, exp_id: str | None, who: Any, model: Any
) -> Work[tuple[Path, dict[str, Any]]]:
    """The file, and what a trace shows of it."""
    origin: Origin = yield from _origin(source)
    draft, name, how = origin.draft or drafted(origin.said), "", ["It is as an agent wrote it."]
    checked = Experience("proposal" if exp_id is None else exp_id, who, *origin.draft or ("-", "-"))
    shelf = yield Do(library._folders.look)
    if exp_id is not None and (file := shelf.files.get(checked.exp_id)) is not None:
        raise InvalidInput(
            f"The library has {safe_repr(checked.exp_id)} already, in {safe_repr(file)}. Propose it by another exp_id."
        )
    if origin.draft is None:
        how = [_LISTED]
        if model is not None and origin.said:
            written = yield from _written(model, origin.said)
            if isinstance(written, str):
                how = [written, _LISTED]
            else:
                draft, name, how = *written, ["A model wrote it."]
    if draft is None:
        raise InvalidInput(f"Nothing can be learned from {origin.told}: no user said anything, and nothing failed.")
    exp_id = _name(name, draft.when, shelf.files) if exp_id is None else checked.exp_id
    experience = Experience(exp_id, who, *map(_clean, draft))
    renamed = f"{PREFIX}{name_for(exp_id)}{SUFFIX}"
    lines = [
        NOT_IN_USE,
        f"Made on {moment(library.database.now()):%Y-%m-%d %H:%M} UTC.",
        f"It comes from {origin.told}.",  # in which names are quoted as Python does, so that nothing ends a line
        *how,
        f"{TO_USE} read it, correct it, rename it to {renamed}, and move it up into the folder above.",
    ]
    text = "".join(f"# {line}\n" for line in lines) + _yaml(experience)
    path = yield Do(partial(_write, library.directory / FOLDER, exp_id, text))
    return path, {
        "exp_id": exp_id,
        "file": path.name,
        "from": origin.told,
        "how": " ".join(how),
        "when": brief(experience.when),
        "what": brief(experience.what),
    }


# -- where it comes from ---------------------------------------------------------------------------------------------


ProposalSource: TypeAlias = BaseChatMessageHistory | SessionMemory | Conversation | Sequence[Countable] | str | Draft
"""What an experience is learned from: a conversation, in whatever form; or a draft."""


def _origin(source: ProposalSource) -> Work[Origin]:
    if isinstance(source, Draft):
        thread = ((running_config() or {}).get("configurable") or {}).get("thread_id")
        where = "" if thread is None else f" in the thread {safe_repr(str(thread), 600)}"
        return Origin(f"an agent{where}", draft=source)
    if isinstance(source, str):
        return Origin("a text", of_messages(_in_text(source)))
    if isinstance(source, SessionMemory):
        source = yield Do(source.to_conversation, source.ato_conversation)
    if isinstance(source, Conversation):
        return Origin(f"the session {safe_repr(source.id, 600)}", of_messages(_in_rounds(source)))
    if isinstance(source, BaseChatMessageHistory):
        if isinstance(source, ConversationMemory):  # a managed conversation's `messages` are less
            messages = yield Do(lambda: source.raw_messages, source.araw_messages)
        else:
            messages = yield Do(lambda: source.messages, source.aget_messages)
        name = getattr(source, "conversation_id", None)
        return Origin(
            "a chat history" if name is None else f"the conversation {safe_repr(name, 600)}", of_messages(messages)
        )
    if isinstance(source, BaseMessage) or not isinstance(source, Sequence):
        raise InvalidInput(
            "An experience is proposed from a ConversationMemory, a SessionMemory, a list of messages or a text, not "
            f"from {type(source).__name__}."
        )
    messages = converted(source)
    return Origin(f"{len(messages)} messages", of_messages(messages))


def _in_rounds(conversation: Conversation) -> Iterator[BaseMessage]:
    """What was said in the rounds of a session, with what its attachments tell of code that was run."""
    for each in conversation.rounds:
        posted = any(post.send_from == USER and post.message == each.user_query for post in each.post_list)
        if not posted and each.user_query.strip():
            yield HumanMessage(each.user_query)
        for post in each.post_list:
            yield (HumanMessage if post.send_from == USER else AIMessage)(post.message, name=post.send_from)
            told = {attachment.type: attachment.content for attachment in post.attachment_list}
            step = told.get(AttachmentType.reply_content)
            status = told.get(AttachmentType.execution_status, "")
            error = told.get(AttachmentType.code_error, "").strip()
            if error or status.strip().upper().startswith("FAIL"):
                yield ToolMessage(error or status, status="error", name=step, tool_call_id="")
            elif result := told.get(AttachmentType.execution_result) or status:
                yield ToolMessage(result, name=step, tool_call_id="")


def _in_text(text: str) -> Iterator[BaseMessage]:
    """What was said according to a text: lines such as "User: …", "Assistant: …" and "Error: …", else one request."""
    before, *pieces = _SPEAKER.split(text)
    if before.strip():
        yield ToolMessage(before, tool_call_id="") if pieces else HumanMessage(before)
    for name, told in zip(map(str.lower, pieces[::2]), map(str.strip, pieces[1::2]), strict=True):
        if name in {"user", "human", "customer"}:
            yield HumanMessage(told)
        elif name in {"tool", "execution", "error"}:
            yield ToolMessage(told, status="error" if name == "error" else "success", tool_call_id="")
        elif name != "system":
            yield AIMessage(told)


def of_messages(messages: Iterable[BaseMessage]) -> list[ProposalTurn]:
    """What was said in messages; not what a system says, nor what was put into the prompt."""
    said = []
    steps: dict[str | None, str] = {}
    for message in messages:
        if role_of(message) == "system":
            continue
        for call in calls_of(message):
            given = json.dumps(call.get("args", call.get("input")) or {}, ensure_ascii=False, default=str)
            steps[call.get("id")] = f"{call.get('name') or 'a tool'} {given}"
        turn, step, failed = turn_of(message), "", False
        name = cleaned(turn.name or "")[:_LONGEST_ID] or None
        text = cleaned(turn.text)
        if isinstance(message, ToolMessage):
            step = cleaned(steps.get(message.tool_call_id, turn.name or ""))
            failed = message.status == "error" or _FAILS.match(_plain(text)) is not None
        role = "record" if summary_in(message) is not None else turn.role
        if role != "user" or is_said_by_user(message):
            said.append(ProposalTurn(role, text, name, failed, step))
    return said


def cleaned(text: str) -> str:
    """A text without secrets, and without what nobody sees, which may hide one."""
    return redact(harmless(text))


def _plain(text: str) -> str:
    """What was said, without the marks for calls and results."""
    return _MARKS.sub("", f"{text}\n").strip()


# -- what it says ----------------------------------------------------------------------------------------------------


def drafted(said: Sequence[ProposalTurn]) -> Draft | None:
    """An experience made of what was said; None where the user said nothing and nothing failed."""
    asked = [_quoted(each.text) for each in said if each.role == "user" and each.text.strip()]
    corrections = [text for text in asked[1:] if _CORRECTS.search(text)][-_CORRECTIONS:]
    requests = [text for text in asked if text not in corrections]
    telling = [text for text in requests if len(set(_WORD.findall(text.casefold())) - STOP_WORDS) > 1]  # no greeting
    requests = telling or requests
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


def transcript(said: Sequence[ProposalTurn]) -> str:
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


def _quoted(text: str) -> str:
    """The beginning of what was said, on one line."""
    words = " ".join(text.split())
    return words if len(words) <= LINE else f"{words[:LINE].rsplit(' ', 1)[0]} …"


def _error(text: str) -> str:
    """What an error says: of a trace its last line."""
    lines = [line for line in _plain(text).splitlines() if line.strip()]
    return _quoted(lines[-1] if lines and any("Traceback" in line for line in lines) else "\n".join(lines))


def _failure(said: ProposalTurn) -> str:
    error = _error(said.text)
    return f"{_quoted(said.step)}: {error}" if said.step else error


def _each(texts: Iterator[str]) -> list[str]:
    """The latest of some texts, each once."""
    return list(dict.fromkeys(text for text in texts if text))[-_FAILURES:]


def _listed(head: str, texts: Sequence[str]) -> list[str]:
    return [head, *(f"- {text}" for text in texts)] if texts else []


def _written(model: Any, said: Sequence[ProposalTurn]) -> Work[tuple[Draft, str] | str]:
    """What a model writes, with a name for it; or in a sentence why that is of no use."""
    messages = [SystemMessage(prompt("proposal")), HumanMessage(transcript(said))]
    try:
        answer = yield Ask(model, messages, "experience.draft")
    except Exception as error:  # noqa: BLE001 - the draft without a model is there all the same
        return f"The model failed with {type(error).__name__}."
    found = read_json(strip_reasoning(answer), complete=True)
    if isinstance(found, dict) and "when" not in found:  # some put it into another
        found = next((each for each in found.values() if isinstance(each, dict)), None)
    found = found if isinstance(found, dict) else {}
    draft = Draft(*(_text(found.get(name)) for name in Draft._fields))
    return (draft, str(found.get("exp_id") or "")) if all(draft) else "The model's answer could not be used."


def _text(given: Any) -> str:
    """A text that tells something, else ""."""
    if isinstance(given, list) and all(isinstance(each, str) for each in given):
        given = "\n".join(f"- {each}" for each in given)
    if not isinstance(given, str) or given in prompt("proposal") or len(given) > LONGEST:  # some repeat the question
        return ""
    return given if sum(map(str.isalpha, given)) >= _LETTERS else ""


def _name(given: str, when: str, taken: Mapping[str, str]) -> str:
    """An id that is free: what was given, else the words that say most about the first situation of a condition."""
    first = next((line for line in when.splitlines() if line.startswith("- ")), when)
    words = _WORD.findall(cleaned(first).casefold())
    telling = dict.fromkeys(word for word in words if word not in STOP_WORDS | {"use", "user", "asks"})
    slugs = (
        re.sub(r"\W+|_+", "-", cleaned(text).casefold())[:_LONGEST_ID].strip("-")
        for text in (given, " ".join([*telling][:_WORDS]))
    )
    name = next(filter(None, slugs), "experience")
    return next(free for number in count(1) if (free := name if number == 1 else f"{name}-{number}") not in taken)


# -- the file --------------------------------------------------------------------------------------------------------


def _write(folder: Path, exp_id: str, text: str) -> Path:
    try:
        folder.mkdir(exist_ok=True)
        for path in places(folder, PROPOSED, exp_id):
            if not path.is_file():
                break
            if _undated(path.read_text(encoding="utf-8", errors="replace")) == _undated(text):
                return path  # an agent that is run again proposes the same again
    except OSError as error:
        raise InvalidInput(
            f"{safe_repr(str(folder))} cannot be used for proposals: {error.strerror or error}."
        ) from error
    return write_new(folder, PROPOSED, exp_id, text)


def _undated(text: str) -> list[str]:
    lines = text.split("\n")
    return [*lines[:1], *lines[2:]]


def _clean(text: str) -> str:
    """A text without secrets and what nobody sees, that a person can read and correct."""
    lines = cleaned(text).strip().split("\n")
    return "\n".join(line.rstrip() for line in lines) or "…"


class _Readable(yaml.SafeDumper):
    """Writes texts of several lines as such."""


def _as_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Readable.add_representer(str, _as_text)


def _yaml(experience: Experience) -> str:
    given = experience.to_dict()
    text = yaml.dump(given, Dumper=_Readable, allow_unicode=True, sort_keys=False, width=120)
    return text if yaml.safe_load(text) == given else experience.to_yaml()


# -- as tools ---------------------------------------------------------------------------------------------------------


class ExperiencePropose(Arguments):
    """An experience."""

    when: Text = Field(
        min_length=1,
        max_length=LONGEST,
        description='When it applies: "Use when …", in words that users say, errors by their names.',
    )
    what: Text = Field(
        min_length=1, max_length=LONGEST, description="What to do then, in a few sentences; understandable by itself."
    )
    who: Texts | None = Field(default=None, description="The roles it is for. Leave out for everybody.")
    exp_id: Text | None = Field(
        default=None, description="A short name such as check-file-first. Leave out to have one made."
    )


class ExperienceFeedback(Arguments):
    """Whether an experience helped."""

    exp_id: Text = Field(description="The id of the experience, as it stands beside its instruction.")
    helped: bool = Field(description="Whether following it helped.")
    note: Text = Field(default="", max_length=LONGEST, description="Why, in a sentence.")


def experience_tools(library: Any, include: Iterable[str] | None = None) -> list[BaseTool]:
    """The tools `experience_propose` and `experience_feedback`.

    Args:
        library: An `ExperienceLibrary`.
        include: The names of those that are wanted, in this order. Default: both.

    Raises:
        InvalidInput: There is no such tool.
    """
    whose = Whose(type(library), "experiences", library)
    return chosen([tool_of(operation, whose) for operation in OPERATIONS], include)


def _propose(library: Any, given: ExperiencePropose) -> Calls[str]:
    named = {"exp_id": (given.exp_id or "").strip() or None, "who": given.who or ()}
    path: Path = yield OperationCall(library, "propose", (Draft(given.when, given.what),), named)
    return f"It is proposed, in {safe_repr(f'{FOLDER}/{path.name}')}. It is not in use until a person has reviewed it."


def _feedback(library: Any, given: ExperienceFeedback) -> Calls[str]:
    yield OperationCall(library, "feedback", (given.exp_id.strip(), given.helped, given.note))
    verdict = "helped" if given.helped else "did not help"
    return f"It is noted that {safe_repr(passage(given.exp_id.strip(), most=_SHOWN))} {verdict}."


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="experience_propose",
        about=(
            "Propose an instruction for situations like this one, so that the next time goes well from the beginning: "
            "after the user corrected you, or when something failed and something else worked. A person reviews it "
            "before it counts."
        ),
        arguments=ExperiencePropose,
        do=_propose,
    ),
    Operation(
        name="experience_feedback",
        about="Say whether an instruction that you were given as an experience helped. It is then given more or less.",
        arguments=ExperienceFeedback,
        do=_feedback,
    ),
)
"""What a model can do with experiences."""
