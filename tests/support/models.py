"""A chat model that answers by a script.

model = ScriptedModel("Hello.", AIMessage("", tool_calls=[…]), ValueError("It fails."), usual="Well.")
model = ScriptedModel(lambda messages: messages[-1].text.upper())
assert model.asked[0][-1].text == "Hi."
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from pydantic import Field, PrivateAttr

from langchain_agentmem.messages.message_marks import MEMORY_MARK

LIMIT = 60
"""Seconds after which a model that nobody lets go fails."""
Reply = str | AIMessage | BaseException | Callable[[list[BaseMessage]], Any]


class ScriptedModel(BaseChatModel):
    """Gives its replies one after the other, and then the usual one; it remembers what it was asked.

    Attributes:
        replies: Texts, messages, errors to raise, or functions of the messages that return one of these.
        usual: The reply when no more are left. Default: the last one again.
        asked: The messages of each call.
        tools: The names of the tools that were bound at each call.
        threads: The names of the threads that called.
        free: Calls wait until it is set. It is, at first.
        began: Counts the calls that have begun.
        model_name: What it is called, as models of providers are.
    """

    replies: list[Any] = Field(default_factory=list)
    usual: Any = None
    asked: list[Any] = Field(default_factory=list)
    tools: list[Any] = Field(default_factory=list)
    threads: list[str] = Field(default_factory=list)
    profile: dict[str, Any] | None = None
    model_name: str = ""
    _free: threading.Event = PrivateAttr(default_factory=threading.Event)
    _began: threading.Semaphore = PrivateAttr(default_factory=lambda: threading.Semaphore(0))

    def __init__(self, *replies: Reply, **options: Any) -> None:
        super().__init__(replies=list(replies), **options)
        if self.usual is None:
            self.usual = replies[-1] if replies else "Well."
        self._free.set()

    @property
    def free(self) -> threading.Event:
        return self._free

    @property
    def began(self) -> threading.Semaphore:
        return self._began

    @property
    def texts(self) -> list[str]:
        """The text of all messages of each call."""
        return ["\n".join(message.text for message in messages) for messages in self.asked]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self.bind(tools=list(tools), **kwargs)

    def reply(self, messages: list[BaseMessage]) -> Any:
        """Return what is next in the script."""
        self.asked.append(list(messages))
        self.threads.append(threading.current_thread().name)
        self._began.release()
        assert self._free.wait(LIMIT), "nobody let the model go on"
        answer = self.replies.pop(0) if self.replies else self.usual
        while callable(answer) and not isinstance(answer, BaseException):
            answer = answer(messages)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        del stop, run_manager
        self.tools.append([_name_of(tool) for tool in kwargs.get("tools", ())])
        answer = self.reply(messages)
        message = answer.model_copy() if isinstance(answer, AIMessage) else AIMessage(answer)
        return ChatResult(generations=[ChatGeneration(message=message)])


class StreamingModel(ScriptedModel):
    """A scripted model that streams, word by word, and waits before each until it is free; the word FAIL is an error.

    Attributes:
        model: Its name.
        streamed: How each call was answered, "whole" or "stream".
    """

    model: str = "scripted-1"
    streamed: list[str] = Field(default_factory=list)

    def _generate(self, messages: list[BaseMessage], *arguments: Any, **options: Any) -> Any:
        self.streamed.append("whole")
        return super()._generate(messages, *arguments, **options)

    def _chunks(self, messages: list[BaseMessage]) -> Iterator[ChatGenerationChunk]:
        self.streamed.append("stream")
        answer = self.reply(messages)
        message = answer if isinstance(answer, AIMessage) else AIMessage(answer)
        for word in re.findall(r"\S+\s*", message.text):
            if word == "FAIL":
                raise ConnectionError("cut off")
            yield ChatGenerationChunk(message=AIMessageChunk(word))
        for number, call in enumerate(message.tool_calls):
            chunk = tool_call_chunk(name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=number)
            yield ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=[chunk]))

    def _stream(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> Any:
        for chunk in self._chunks(messages):
            assert self._free.wait(LIMIT), "nobody let the model go on"
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _astream(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> Any:
        for chunk in self._chunks(messages):
            await (asyncio.sleep(0) if self._free.is_set() else asyncio.to_thread(self._free.wait, LIMIT))
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


def _name_of(tool: Any) -> str:
    if isinstance(tool, dict):
        return str(tool.get("name") or tool.get("title") or tool["function"]["name"])
    return str(getattr(tool, "name", None) or tool.__name__)


def calling(name: str, call_id: str = "call-1", /, **arguments: Any) -> AIMessage:
    """Return a message that calls one tool."""
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": call_id}])


@tool
def look(place: str) -> str:
    """Look somewhere."""
    return f"nothing in {place}"


def kinds_shown(messages: Sequence[BaseMessage]) -> list[str]:
    """Return the types of messages, and of those that bring memory what they bring."""
    return [message.additional_kwargs.get(MEMORY_MARK, message.type) for message in messages]
