"""Models that answer by a script: what a message tells is written in it, so each message has its facts whoever asks.

    Maya Ortiz | lives in | Lisbon | 2024-03-01
    Maya Ortiz | likes | tea
    Maya likes rain

A model here reads the messages that it was shown, as they stand in the prompt, and answers with the facts of each.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

CASES = json.loads(Path(__file__).with_name("cases.json").read_text("utf-8"))
"""Tables of the tests: what is given, and what comes of it."""
_MESSAGE = re.compile(r'<message number="(\d+)" speaker="([^"]*)" time="([^"]*)">\n(.*?)\n</message>', re.DOTALL)
_SENTENCE = re.compile(r"(\w+) (lives in|works at|likes) (\w+)()()")
_FACT = re.compile(r"^([^|\n]+) \| ([^|\n]+) \| ([^|\n]+?)(?: \| ([\d-]*)(?: \| ([\d-]+))?)?$", re.MULTILINE)


class Shown(NamedTuple):
    """A message as a model was shown it."""

    number: int
    speaker: str
    time: str
    text: str


def shown(messages: Sequence[BaseMessage]) -> list[Shown]:
    """The messages that a model was shown."""
    found = _MESSAGE.findall(str(messages[-1].content))
    return [Shown(int(number), speaker, time, text) for number, speaker, time, text in found]


def facts_in(text: str, **more: Any) -> list[dict[str, Any]]:
    """The facts that a text tells."""
    found = []
    for subject, predicate, obj, start, end in [*_FACT.findall(text), *_SENTENCE.findall(text)]:
        fact = {**more, "subject": subject, "predicate": predicate, "object": obj}
        found.append(fact | ({"valid_from": start} if start else {}) | ({"valid_to": end} if end else {}))
    return found


def told(some: Sequence[Shown]) -> dict[str, Any]:
    """The right answer."""
    return {"facts": [fact for each in some for fact in facts_in(each.text, message=each.number)]}


def fenced(answer: dict[str, Any]) -> str:
    return f"```json\n{json.dumps(answer, indent=2)}\n```"


def amid_prose(answer: dict[str, Any]) -> str:
    return f"Here is what I found:\n\n{json.dumps(answer)}\n\nShall I look for more?"


def pythonic(answer: dict[str, Any]) -> str:
    return repr(answer)


def cut_off(answer: dict[str, Any]) -> str:
    """It stopped before the last brackets."""
    return json.dumps(answer)[:-2]


def bare_list(answer: dict[str, Any]) -> str:
    return json.dumps(answer["facts"])


def unnumbered(answer: dict[str, Any]) -> str:
    return json.dumps([{key: fact[key] for key in fact if key != "message"} for fact in answer["facts"]])


def worded(answer: dict[str, Any]) -> str:
    """It writes numbers as texts."""
    return json.dumps({"facts": [{**fact, "message": f" {fact['message']} "} for fact in answer["facts"]]})


def as_message(answer: dict[str, Any]) -> AIMessage:
    return AIMessage([{"type": "text", "text": json.dumps(answer)}])


STYLES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "json": json.dumps,
    "object": dict,
    "fenced": fenced,
    "amid prose": amid_prose,
    "pythonic": pythonic,
    "cut off": cut_off,
    "bare list": bare_list,
    "unnumbered": unnumbered,
    "worded": worded,
    "message": as_message,
}
"""How a right answer may look."""


class Scripted:
    """A function from messages to an answer; it knows what it was shown.

    Args:
        style: How its answer looks.
        meanwhile: Called whenever it is asked, with how often it was before, and what it is shown; what it raises is
            raised, and what it returns, unless None, is the answer.
    """

    def __init__(
        self,
        style: Callable[[dict[str, Any]], Any] = json.dumps,
        meanwhile: Callable[[int, list[Shown]], Any] = lambda *_: None,
    ) -> None:
        self.style, self.meanwhile = style, meanwhile
        self.calls: list[list[Shown]] = []
        self.prompts: list[Sequence[BaseMessage]] = []
        self._lock = threading.Lock()

    def __call__(self, messages: Sequence[BaseMessage]) -> Any:
        with self._lock:
            some, before = shown(messages), len(self.calls)
            self.calls.append(some)
            self.prompts.append(messages)
        answer = self.meanwhile(before, some)
        return self.style(told(some)) if answer is None else answer

    @property
    def texts(self) -> list[list[str]]:
        """What it was shown, call for call."""
        return [[each.text for each in some] for some in self.calls]


class Awaited(Scripted):
    """The same, to be awaited."""

    def __call__(self, messages: Sequence[BaseMessage]) -> Any:
        async def answer() -> Any:
            await asyncio.sleep(0)
            return super(Awaited, self).__call__(messages)

        return answer()


class ChatModel(BaseChatModel):
    """A chat model that knows no structured output."""

    script: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        del stop, run_manager
        return ChatResult(generations=[ChatGeneration(message=self._message(self.script(messages), **kwargs))])

    def _message(self, answer: Any, **kwargs: Any) -> AIMessage:
        del kwargs
        return answer if isinstance(answer, AIMessage) else AIMessage(answer)


class ToolModel(ChatModel):
    """A chat model that answers by calling a tool, where it is given one.

    Attributes:
        fails: Whether it refuses to.
        asked: Whether it was given one, call for call.
    """

    fails: bool = False
    asked: list[bool] = Field(default_factory=list)

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        del kwargs
        return self.bind(tools=list(tools))

    def _message(self, answer: Any, **kwargs: Any) -> AIMessage:
        self.asked.append("tools" in kwargs)
        if "tools" not in kwargs:
            return super()._message(answer)
        if self.fails:
            raise ValueError("This model takes no tools.")
        call = {"name": kwargs["tools"][0].get("title", "facts"), "args": json.loads(answer), "id": "call"}
        return AIMessage("", tool_calls=[call])
