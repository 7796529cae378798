"""Histories as they really occur, sound and broken, made from a seed.

    messages = random_history(7)                  # always the same; a list of LangChain messages
    messages = random_history(7, size=1_000)      # about so many of them

Most seeds give a conversation of turns: the user says something, the assistant calls tools, tools answer, the assistant
answers. What goes wrong in practice goes wrong here too, each in its share of the seeds; `WEIGHTS` lists it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

SHAPES = {
    "turns": 72,
    "assistant first": 7,
    "tools for ever": 7,  # one user message, and rounds of tools to the end
    "users only": 5,
    "tools only": 5,
    "systems only": 2,
    "no user": 2,
}
"""What a history is as a whole, with how often of 100."""

WEIGHTS = {
    "system in the middle": 0.03, "another user message": 0.10, "empty message": 0.02, "image of the user": 0.08,
    "image of a tool": 0.05, "image of the assistant": 0.06, "name": 0.05, "huge message": 0.02, "reasoning": 0.25,
    "calls in the content too": 0.25, "calls in the content only": 0.02, "invalid call": 0.04,
    "shuffled results": 0.30, "interleaved calls": 0.08, "missing result": 0.05, "late result": 0.04,
    "duplicate result": 0.03, "orphan result": 0.03, "no answer": 0.10,
}  # fmt: skip
"""How likely each is at each of its occasions."""

WORDS = (
    *("invoice", "deploy", "Oslo", "kettle", "Tuesday", "budget", "rollback", "garden", "passport", "schema"),
    *("ticket", "violin", "retry", "Lisbon", "index", "oven", "train", "password", "bridge", "salary"),
    *("harbour", "cache", "wedding", "permit", "server", "mountain", "receipt", "branch", "doctor", "lantern"),
)
PHRASES = (
    "Bitte prüfe die Rechnung vom 3. März.",
    "请把会议改到星期五下午。",
    "明日の京都の天気を教えてください。",
    "Проверь, пожалуйста, журнал ошибок.",
    "من فضلك أعد إرسال التقرير.",
    "कृपया बजट की पुष्टि करें।",
    "👩‍💻 ship it 🚀🚀",
    "Où est la clé de la cave ?",
)
TOOLS = ("search", "read_file", "run_tests", "weather", "send-mail")
FILLER = "2026-01-01T12:00:00Z INFO worker=7 request served in 12 ms, nothing unusual was seen\n" * 600
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def random_history(seed: int, *, size: int | None = None) -> list[BaseMessage]:
    """A history of that seed.

    Args:
        seed: Which one.
        size: About how many messages; a turn is not cut short. Default: between 1 and 60, as the seed says.

    Returns:
        New messages, at least one.
    """
    return Chat(seed, size).write()


class Chat:
    """One history while it is written, and what happened in it."""

    def __init__(self, seed: int, size: int | None) -> None:
        self.random = random.Random(seed)
        self.size = size or self.random.randint(1, 60)
        self.happened: Counter[str] = Counter()
        self.shape = self.random.choices([*SHAPES], [*SHAPES.values()])[0]
        self.ids = self.random.choice(("all", "all", "some", "none"))
        self.ids_of_calls = self.random.choice(("own", "own", "own", "reused"))
        self.messages: list[BaseMessage] = []
        self.late: list[ToolMessage] = []
        self.calls_made = 0

    def write(self) -> list[BaseMessage]:
        for _ in range(self.random.choice((0, 1, 1, 1, 2, 3))):
            self.say_system()
        if self.shape == "assistant first":
            self.turn()
        if self.shape == "tools for ever":
            self.say_user()
        more = {
            "tools for ever": self.round,
            "users only": self.say_user,
            "tools only": lambda: self.add(self.result(self.call())),
            "systems only": self.say_system,
            "no user": self.turn,
        }.get(self.shape, self.whole_turn)
        while len(self.messages) < (min(self.size, 6) if self.shape == "systems only" else self.size):
            more()
        if more == self.whole_turn and self.random.random() < 0.15:  # it ends while tools are called
            self.say_user()
            self.add(self.assistant(self.calls()))
        return self.messages

    # --- What they are made of

    def whole_turn(self) -> None:
        self.say_user()
        self.turn()
        if self.chance("system in the middle"):
            self.say_system()

    def say_system(self) -> None:
        self.add(SystemMessage(self.text()))

    def say_user(self) -> None:
        name = self.random.choice(("Ada", "Dr. Who")) if self.chance("name") else None
        self.add(HumanMessage(self.spoken(), name=name))
        while self.chance("another user message"):
            self.add(HumanMessage(self.spoken()))
        if self.late and self.random.random() < 0.7:
            self.add(self.late.pop(0))

    def turn(self) -> None:
        for _ in range(self.random.choice((0, 0, 1, 1, 2, 4))):
            self.round()
        if self.chance("orphan result"):
            self.add(self.result(self.call()))
        if not self.chance("no answer"):
            self.add(self.assistant([]))

    def round(self) -> None:
        """Calls and their results, as well as they came."""
        calls = self.calls()
        invalid = [self.invalid_call()] if self.chance("invalid call") else []
        self.add(self.assistant(calls, invalid))
        if self.chance("interleaved calls"):
            more = self.calls()
            self.add(self.result(calls.pop(0)))
            self.add(self.assistant(more))
            calls += more
        if self.chance("shuffled results"):
            self.random.shuffle(calls)
        answered = [*calls, *(invalid if self.random.random() < 0.5 else [])]
        for call in answered:
            if self.chance("missing result"):
                continue
            if self.chance("late result"):
                self.late.append(self.result(call))
                continue
            self.add(self.result(call))
            if self.chance("duplicate result"):
                self.add(self.result(call))

    def assistant(self, calls: list[ToolCall], invalid: list[InvalidToolCall] | None = None) -> AIMessage:
        silent = bool(calls) and self.random.random() < 0.5
        if not calls and not invalid and self.chance("empty message"):
            return AIMessage(self.nothing())
        text = "" if silent else self.text()
        blocks = [*self.thoughts()]
        if self.chance("image of the assistant"):
            blocks.append(self.image())
        in_content = bool(calls) and self.chance("calls in the content too")
        if not blocks and not in_content:
            return AIMessage(text, tool_calls=calls, invalid_tool_calls=invalid or [])
        said: Any = [*blocks, *([{"type": "text", "text": text}] if text else [])]
        if in_content:
            said += [{"type": "tool_use", "id": c["id"], "name": c["name"], "input": c["args"]} for c in calls]
        if in_content and self.chance("calls in the content only"):
            calls = []
        return AIMessage(said, tool_calls=calls, invalid_tool_calls=invalid or [])

    def thoughts(self) -> Iterator[dict[str, Any]]:
        if not self.chance("reasoning"):
            return
        kind = self.random.choice(("thinking", "redacted", "both", "openai"))
        if kind in {"thinking", "both"}:
            yield {"type": "thinking", "thinking": self.text(), "signature": f"Eq{self.random.getrandbits(96):x}"}
        if kind in {"redacted", "both"}:
            yield {"type": "redacted_thinking", "data": f"Em{self.random.getrandbits(128):x}"}
        if kind == "openai":
            summary = [{"type": "summary_text", "text": self.text()}]
            yield {"type": "reasoning", "id": f"rs_{self.random.getrandbits(64):x}", "summary": summary}

    def calls(self) -> list[ToolCall]:
        if self.ids_of_calls == "reused":
            self.calls_made = 0  # as models do that count their calls anew in each message
        return [self.call() for _ in range(self.random.choice((1, 1, 1, 2, 3, 4)))]

    def call(self) -> ToolCall:
        arguments = {"query": self.random.choice(WORDS), "limit": self.random.randint(1, 9)}
        return ToolCall(name=self.random.choice(TOOLS), args=arguments, id=self.call_id())

    def invalid_call(self) -> InvalidToolCall:
        return InvalidToolCall(
            name=self.random.choice(TOOLS),
            args='{"query": ',
            id=self.call_id(),
            error="cut off",
            type="invalid_tool_call",
        )

    def call_id(self) -> str:
        self.calls_made += 1
        return f"call_{self.calls_made}"

    def result(self, call: Any) -> ToolMessage:
        content: Any = FILLER[:20_000] if self.chance("huge message") else "" if self.chance("empty message") else None
        if content is None and self.chance("image of a tool"):
            content = [{"type": "text", "text": "A screenshot."}, self.image()]
        return ToolMessage(self.text() if content is None else content, tool_call_id=call["id"], name=call["name"])

    def spoken(self) -> Any:
        if self.chance("empty message"):
            return self.nothing()
        if self.chance("huge message"):
            return FILLER[: self.random.randint(8_000, 20_000)]
        if self.chance("image of the user"):
            return [{"type": "text", "text": self.text()}, *(self.image() for _ in range(self.random.randint(1, 3)))]
        return self.text()

    def nothing(self) -> Any:
        return self.random.choice(("", "\n\n", [], [{"type": "text", "text": ""}]))

    def image(self) -> dict[str, Any]:
        kind = self.random.choice(("data", "link", "standard", "anthropic"))
        if kind == "standard":
            return {"type": "image", "base64": PIXEL, "mime_type": "image/png"}
        if kind == "anthropic":
            return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
        address = f"data:image/png;base64,{PIXEL}" if kind == "data" else "https://example.org/kitchen.png"
        return {"type": "image_url", "image_url": {"url": address}}

    def text(self) -> str:
        if self.random.random() < 0.2:
            return self.random.choice(PHRASES)
        return " ".join(self.random.choices(WORDS, k=self.random.choice((3, 8, 20, 60)))) + "."

    def chance(self, what: str) -> bool:
        happens = self.random.random() < WEIGHTS[what]
        self.happened.update([what] * happens)
        return happens

    def add(self, message: BaseMessage) -> None:
        if self.ids == "all" or (self.ids == "some" and self.random.random() < 0.5):
            message.id = f"m{len(self.messages)}"
        self.messages.append(message)
