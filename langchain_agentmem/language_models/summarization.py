"""The one summarizer: messages become a summary that goes on from the one before, and no message is passed over.

What is too long for one call is folded: the summary of a piece goes into the call for the next. A model that says that
it was given too much is given half. Where the model fails, what it gave so far is kept, and the rest is extracted
without it. Equal messages and equal replies give equal summaries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_agentmem.base.argument_checks import flag_fields, number_field, text_field, whole_field
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import AgentMemoryError, InvalidInput
from langchain_agentmem.language_models.extract import clip, extract
from langchain_agentmem.language_models.model_calls import Ask, Work, is_too_large
from langchain_agentmem.language_models.prompts import answer, question
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.language_models.transcript import Turn, cost, images_of, parts_of, turn_of
from langchain_agentmem.messages.summary import KeptImage, Summary, sections, summary_in

NAME = "compaction.summarize"
"""What the calls of the model are called in a trace."""

_EARLIER = "earlier record"
_SHARE_OF_ANSWER = 3
_SHARE_OF_EARLIER = 2
_LEAST_SHARE = 4
_LEAST = 64
_LEAST_TOO_LARGE = 300
"""What is smaller than so many tokens is not halved: a model that takes less is of no use here."""
_HALVINGS = 8
_SHRINKS_TO = 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class Summarized:
    """What came of summarizing.

    Attributes:
        summary: The summary; never empty if something was said.
        failure: What went wrong with the model, in which case the summary is provisional; None if nothing did.
        calls: How often the model was asked.
    """

    summary: Summary
    failure: Exception | None = None
    calls: int = 0


def summarizing(
    messages: Sequence[BaseMessage],
    *,
    earlier: Summary | None,
    model: Any,
    config: SummarizationConfig,
    counter: TokenCounter,
    output_tokens: int,
    input_tokens: int,
) -> Work[Summarized]:
    """Summarize messages.

    Args:
        messages: What leaves the context, oldest first; not changed. A summary among them is taken for `earlier` where
            none is given.
        earlier: The summary of what left before; None if there is none.
        model: What `usable_model` gives. None: the summary is extracted without a model.
        config: Its images, its prompt and its timeout; whether it is enabled is for others to ask.
        counter: Counts tokens.
        output_tokens: What the summary may cost, in tokens, its images not counted.
        input_tokens: What one question may cost, in tokens.

    Returns:
        The summary, which counts in `stands_for` all messages it goes back to.
    """
    said, earlier = _continued(messages, earlier)
    fold = _Fold(list(map(turn_of, said)), earlier, config, counter, output_tokens, input_tokens)
    failure: Exception | None = None
    while model is not None and fold.rest:
        wish = fold.next_question()
        try:
            reply = yield Ask(model, wish, NAME, config.timeout)
        except Exception as error:  # noqa: BLE001 - whatever a model raises, the run goes on
            if is_too_large(error) and fold.halve():
                continue
            failure = error
            break
        if not fold.take(reply):
            failure = AgentMemoryError(f"The model's reply is no summary of what it was given: {safe_repr(reply)}")
            break
    summary = fold.finished()
    count = (earlier.stands_for if earlier else 0) + len(said)
    return Summarized(summary=replace(summary, stands_for=count), failure=failure, calls=fold.calls)


class _Fold:
    """What is summarized so far, and what is not yet."""

    def __init__(
        self,
        turns: list[Turn],
        earlier: Summary | None,
        config: SummarizationConfig,
        counter: TokenCounter,
        output_tokens: int,
        input_tokens: int,
    ) -> None:
        self.rest = deque(turns)
        self.calls = 0
        self._earlier = earlier
        self._running = earlier
        self._kept: tuple[KeptImage, ...] = earlier.kept_images if earlier else ()
        self._piece: list[Turn] = []
        self._config = config
        self._counter = counter
        self._with_images = config.include_image_payload_bytes
        self._output = output_tokens
        self._limit = input_tokens
        self._halvings = 0
        self._asked = 0
        self._replaced = counter.count_text(sections(earlier)) if earlier else 0
        self._make_room()

    def next_question(self) -> list[BaseMessage]:
        """The question about the next piece: as many turns as there is room for, one at least."""
        self.calls += 1
        frame = self._count(self._question(()))
        room = whole = max(self._limit - frame, self._limit // _LEAST_SHARE, _LEAST)
        while self.rest:
            turn = self.rest.popleft()
            needed = cost(turn, self._counter, with_images=self._with_images)
            # A turn that is too long for any question is cut, so that this one is not nearly empty.
            if needed > room and (not self._piece or (needed > whole and room > whole // 2)):
                turn, *others = parts_of(turn, room, self._counter, with_images=self._with_images)
                self.rest.extendleft(reversed(others))
            elif needed > room:
                self.rest.appendleft(turn)
                break
            self._piece.append(turn)
            room -= needed
        asked = self._question(self._piece)
        self._asked = self._count(asked)
        return asked

    def halve(self) -> bool:
        """Take the piece back and ask for half as much from now on; False where that would be too little."""
        self._halvings += 1
        if self._asked <= _LEAST_TOO_LARGE or self._halvings > _HALVINGS:
            return False
        self._take_back()
        self._limit = min(self._limit, self._asked) // 2
        self._make_room()
        return True

    def take(self, reply: str) -> bool:
        """Take a reply for the summary of all so far; False where it is none."""
        images = {image.image_id: image for image in self._kept}
        for name, image in images_of(self._piece).items():
            images.pop(name, None)  # what comes again is as new as where it came last
            images[name] = image
        found = answer(reply, images, self._kept, self._config.max_retained_images)
        replaced = self._replaced + sum(
            cost(turn, self._counter, with_images=True) for turn in self._piece if turn.role != _EARLIER
        )
        if found is None or self._cost(found) >= (max(replaced, self._goal) if self.rest else replaced):
            return False
        self._replaced = replaced
        self._running = clip(found, self._goal if self.rest else self._output, self._counter)
        self._kept = self._running.kept_images
        self._piece = []
        return True

    def finished(self) -> Summary:
        """The summary, with what no model has summarized extracted."""
        self._take_back()
        if not self.rest and self._running is not None:
            return clip(self._running, self._output, self._counter)
        # Of an earlier record that was itself cut in parts, nothing counts as summarized before all of it is.
        turns = [turn for turn in self.rest if turn.role != _EARLIER]
        base = self._running if len(turns) == len(self.rest) else self._earlier
        left = self._replaced + sum(cost(turn, self._counter) for turn in turns)
        budget = min(self._output, max(_LEAST, int(left * _SHRINKS_TO)))
        most = self._config.max_retained_images
        kept = self._kept if most is None else self._kept[len(self._kept) - min(most, len(self._kept)) :]
        return replace(extract(turns, base, budget, self._counter), kept_images=kept)

    @property
    def _goal(self) -> int:
        """What a summary may cost that goes into another question."""
        return min(self._output, max(_LEAST, self._limit // _SHARE_OF_ANSWER))

    def _make_room(self) -> None:
        """A summary that would fill the question is summarized anew, in parts, as a turn before all others."""
        running = self._running
        if running and self.rest and self._cost(running) > max(_LEAST, self._limit // _SHARE_OF_EARLIER):
            if not any(turn.role == _EARLIER for turn in self.rest):
                self._earlier = running
            self.rest.appendleft(Turn(_EARLIER, None, sections(running)))
            self._running = None

    def _take_back(self) -> None:
        self.rest.extendleft(reversed(self._piece))
        self._piece = []

    def _question(self, turns: Sequence[Turn]) -> list[BaseMessage]:
        return question(
            turns,
            self._running,
            self._kept,
            tokens=self._goal,
            prompt=self._config.prompt,
            with_images=self._with_images,
        )

    def _cost(self, summary: Summary) -> int:
        return self._counter.count_text(sections(summary))

    def _count(self, messages: Iterable[BaseMessage]) -> int:
        return sum(map(self._counter.count_message, messages))


def _continued(messages: Sequence[BaseMessage], earlier: Summary | None) -> tuple[list[BaseMessage], Summary | None]:
    """The messages without the summary that they begin from."""
    said: list[BaseMessage] = []
    for message in messages:
        summary = summary_in(message)
        if summary is None or (earlier is not None and summary != earlier):
            said.append(message)
        else:
            earlier = summary
    return said, earlier


@dataclass(frozen=True, kw_only=True, slots=True)
class SummarizationConfig:
    """Old messages become a summary, which goes on from the summary before.

    Attributes:
        enabled: Whether it is done at all. Default True.
        grace_recent_messages: The so-manyth last assistant message and all after it are never summarized; where there
        is
            none, the last user message and all after it. Default 1.
        output_max_tokens: What a summary may have, in tokens. Default 6,000.
        include_original_instruction: Whether the first user message stays, word for word. Default True.
        include_image_payload_bytes: Whether the model that summarizes is shown the images themselves, and not only told
            of them. Default False.
        max_retained_images: Most images that are kept beside the summary. Default None: as many as the model names.
        After
            a provider refused a payload as too large: 5.
        input_max_tokens: Most tokens that the model is given in one call; what is longer is summarized in pieces.
        Default
            None: four fifths of the model's window where it is known, else the threshold, at least 8,000.
        timeout: Seconds to wait for the model. Default 120. None: for ever.
        prompt: Instructions to use in place of ours, with `{content}` for what is to be summarized and
            `{PREVIOUS_SUMMARY}` for the summary before. Other braces mean themselves. Default None.
    """

    enabled: bool = True
    grace_recent_messages: int = 1
    output_max_tokens: int = 6_000
    include_original_instruction: bool = True
    include_image_payload_bytes: bool = False
    max_retained_images: int | None = None
    input_max_tokens: int | None = None
    timeout: float | None = 120.0
    prompt: str | None = None

    def __post_init__(self) -> None:
        whole_field(self, "grace_recent_messages", least=0)
        whole_field(self, "output_max_tokens", least=1)
        whole_field(self, "max_retained_images", least=0, optional=True)
        whole_field(self, "input_max_tokens", least=100, optional=True)
        number_field(self, "timeout", optional=True)
        if self.timeout == 0:
            raise InvalidInput("timeout must be more than 0 seconds; None waits for ever.")
        flag_fields(self)
        if self.prompt is not None:
            text_field(self, "prompt")
            if "{content}" not in self.prompt:
                raise InvalidInput("A prompt for summaries needs {content}, where what is to be summarized is put.")
