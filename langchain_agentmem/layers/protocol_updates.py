"""What a model's words ask of its memory, and what becomes of that.

    update = parse('Hello Ada! <memory_update>{"mem_core_set": {"user_name": "Ada"}}</memory_update>')
    update.text                      # "Hello Ada!"
    apply(update, layers).log        # ("mem_core_set: The note 'user_name' is kept.",)

Nothing is raised, whatever the model wrote, and one operation that fails keeps none of the others from being done.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from langchain_agentmem.base.fencing import fenced
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.tool_factory import Calls, acalled, called, failure, told
from langchain_agentmem.layers.normalization import Request, requests_of
from langchain_agentmem.layers.protocol_blocks import RESULTS, blocks_in, cut, unmarked, without
from langchain_agentmem.rewinding.memory_access import whose
from langchain_agentmem.tracing import Step, brief

logger = logging.getLogger(__name__)

MOST_TOLD = 40_000
"""How much one reply may read, in characters; what is beyond is not shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Update:
    """What a reply asks of the memory.

    Attributes:
        requests: The operations, in the order in which they are to be done.
        problems: What is wrong with the others, in sentences for the model.
        text: The reply without the blocks.
    """

    requests: tuple[Request, ...] = ()
    problems: tuple[str, ...] = ()
    text: str = ""


class Found(NamedTuple):
    """What an operation found.

    Attributes:
        name: The operation.
        asked: Its arguments.
        result: What the model is told.
    """

    name: str
    asked: dict[str, Any]
    result: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of an update.

    Attributes:
        reads: What was read, for the model.
        log: What was done, and what was not, a line for each operation.
        problems: What the model did wrong, in sentences for it.
        text: The reply without the blocks.
    """

    reads: tuple[Found, ...] = ()
    log: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    text: str = ""

    @property
    def results(self) -> str:
        """What the model is told, as a block; empty if there is nothing that it would have to know."""
        if not self.reads and not self.problems:
            return ""
        lines: list[str] = []
        room = MOST_TOLD
        for name, asked, result in self.reads:
            line = told({"operation": name, "asked": asked, "result": result})
            room -= len(line)
            if room < 0 and lines:
                line = told({"operation": name, "asked": asked, "problem": "not shown: too much was read at once"})
            lines.append(line)
        lines += [told({"done": line}) for line in self.log]
        lines += [told({"problem": problem}) for problem in self.problems]
        return fenced(RESULTS, "\n".join(lines))


def parse(reply: str | BaseMessage) -> Update:
    """Read what a reply asks of the memory; whatever it is, nothing is raised.

    Args:
        reply: What a model wrote.
    """
    text = reply if isinstance(reply, str) else str(reply.text) if isinstance(reply, BaseMessage) else ""
    blocks = blocks_in(text)
    requests, problems = requests_of(update for block in blocks for update in block.updates)
    unreadable = [block.problem for block in blocks if block.problem is not None]
    return Update(
        requests=tuple(requests),
        problems=(*unreadable[:10], *problems),
        text=unmarked(cut(text, without(text, blocks))),
    )


def apply(update: Update, layers: Any) -> Outcome:
    """Do what a reply asks for: core memory first, then archival, then recall, then what tidies up.

    What goes wrong with one operation keeps none of the others from being done, and is not raised.

    Args:
        update: What `parse` read.
        layers: The `LayeredMemory`.
    """
    return Applying(layers).apply(update)


async def aapply(update: Update, layers: Any) -> Outcome:
    """`apply`, awaited."""
    return await Applying(layers).aapply(update)


class Applying:
    """Does what replies ask for, each as a step of a trace with what was done beneath.

    Args:
        layers: The `LayeredMemory`.
    """

    def __init__(self, layers: Any) -> None:
        self._layers = layers

    def apply(self, update: Update, *, reads: bool = True, done: set[str] | None = None) -> Outcome:
        """Do what a reply asks for; arguments as for `applying`."""
        if not (update.requests or update.problems):
            return Outcome(text=update.text)
        with self._step(update) as step:
            outcome = called(applying(update, self._layers, reads=reads, done=done))
            step.finish(lambda: _shown(outcome))
        return outcome

    async def aapply(self, update: Update, *, reads: bool = True, done: set[str] | None = None) -> Outcome:
        """`apply`, awaited."""
        if not (update.requests or update.problems):
            return Outcome(text=update.text)
        async with self._step(update) as step:
            outcome = await acalled(applying(update, self._layers, reads=reads, done=done))
            step.finish(lambda: _shown(outcome))
        return outcome

    def _step(self, update: Update) -> Step:
        ground = self._layers.facts_ground
        step: Step = ground.database.tracing.step(
            "memory.protocol.apply",
            inputs=lambda: whose(ground, requests=[_asked(each) for each in update.requests]),
        )
        return step


def _asked(request: Request) -> dict[str, Any]:
    """An operation with its arguments, as a trace shows it: on one line, as what a model gives may have any keys."""
    arguments = request.arguments.model_dump(exclude_none=True, exclude_defaults=True)
    return {"operation": request.operation.name, "arguments": brief(told(arguments))}


def _shown(outcome: Outcome) -> dict[str, Any]:
    """What a trace shows of an outcome."""
    reads = [{"operation": each.name, "result": brief(told(each.result))} for each in outcome.reads]
    return {"reads": reads, "done": [brief(each) for each in outcome.log], "problems": list(outcome.problems)}


def applying(update: Update, layers: Any, *, reads: bool = True, done: set[str] | None = None) -> Calls[Outcome]:
    """`apply`, as calls.

    Args:
        update: What `parse` read.
        layers: The `LayeredMemory`.
        reads: Whether anybody will be told what is read. Default: yes.
        done: What was done for an earlier reply of the same answer: what adds to memory is not done twice. What is
            done now is added.
    """
    found: list[Found] = []
    log: list[str] = []
    problems = list(update.problems)
    new: set[str] = set()
    for request in update.requests:
        operation = request.operation
        asked = request.arguments.model_dump(exclude_none=True, exclude_defaults=True)
        same = f"{operation.name} {json.dumps(asked, sort_keys=True)}"
        if operation.reads and not reads:
            log.append(f"{operation.name}: not read, since the answer has to be given now")
            continue
        if operation.adds and done is not None and same in done:
            log.append(f"{operation.name}: done before, and not again")
            continue
        try:
            result = yield from operation.do(layers, request.arguments)
        except InvalidInput as error:
            problems.append(f"{operation.name}: {failure(error)}")
        except Exception as error:  # the agent's run goes on
            logger.warning("The memory operation %s failed; the run goes on.", operation.name, exc_info=error)
            log.append(f"{operation.name}: {failure(error)}")
        else:
            new.add(same)
            if operation.reads:
                found.append(Found(operation.name, asked, result))
            else:
                log.append(f"{operation.name}: {result if isinstance(result, str) else told(result)}")
    if done is not None:
        done |= new
    return Outcome(reads=tuple(found), log=tuple(log), problems=tuple(problems), text=update.text)
