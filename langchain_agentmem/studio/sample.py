"""The sample data of Studio, for the demo, the browser tests and the screenshots in the documentation.

A LangGraph graph with a scripted model writes the data, so it is the same each time. It has a compacted conversation
with a fork, an interrupted thread, and changed core memory and facts. It also has prompts that contain memory, a used
experience, and a second user with separate memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.audit.audit_trail import AuditTrail
from langchain_agentmem.base.data_tables import load_data_table
from langchain_agentmem.base.namespaces import CONFIG_KEY
from langchain_agentmem.compaction import ActiveContextPolicyConfig, CompactionState, ManagedMemoryConfig
from langchain_agentmem.experiences.experience import Experience
from langchain_agentmem.experiences.experience_library import ExperienceLibrary

IRENA, MAREK = ("irena",), ("marek",)  # namespaces
GIFT, ORDER, HIVES = "birthday-gift", "smoker-order", "hives"  # thread ids
LIVES_FACT = ("Irena", "lives in")  # subject and predicate


class StoryTurn(NamedTuple):
    """A user message of the story, with the reply and the memory that the agent writes.

    Attributes:
        text: The user message.
        reply: The reply of the model.
        core: The values written to core memory.
        record: The record written to archival memory, if any.
        facts: Subject, predicate, object, and start of validity of each fact.
        tool_query: The argument of the tool call before the reply, if any.
    """

    text: str
    reply: str
    core: Mapping[str, str] = {}
    record: str = ""
    facts: Sequence[tuple[str, str, str, str]] = ()
    tool_query: str = ""


_STORY = load_data_table("studio/sample.yaml")
TALK, ALTERNATIVE_TALK = (tuple(StoryTurn(**turn) for turn in _STORY[name]) for name in ("talk", "alternative_talk"))
ORDER_TURN, MAREK_TURN = StoryTurn(**_STORY["order"]), StoryTurn(**_STORY["marek"])
_SCRIPT = {turn.text: turn for turn in (*TALK, *ALTERNATIVE_TALK, ORDER_TURN, MAREK_TURN)}  # by user message

EXPERIENCES = tuple(Experience(**each) for each in _STORY["experiences"])


class ScriptedModel(BaseChatModel):
    """A model that answers each message of the story with its scripted reply."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        turn = next(_SCRIPT[part] for message in reversed(messages) for part in _text_parts(message) if part in _SCRIPT)
        reply = AIMessage(turn.reply)
        if turn.tool_query and messages[-1].type != "tool":
            reply = AIMessage("", tool_calls=[{"name": "timetable", "args": {"of": turn.tool_query}, "id": "look-up"}])
        return ChatResult(generations=[ChatGeneration(message=reply)])


def play_story(memory: AgentMemory, folder: Path) -> ExperienceLibrary:
    """Play the story into a memory, unless the memory already contains it.

    Args:
        memory: The memory to fill.
        folder: An empty folder for the experience library.

    Returns:
        The experience library.
    """
    library = memory.experiences(folder)
    for experience in EXPERIENCES:
        library.add(experience)
    if len(memory.conversation(GIFT, IRENA)):
        return library
    agent = _build_agent(memory, library)

    def send(turn: StoryTurn, thread: str, namespace: tuple[str, ...] = IRENA, at: RunnableConfig | None = None) -> Any:
        config = at or {"configurable": {"thread_id": thread, CONFIG_KEY: namespace}}
        return agent.invoke({"messages": [HumanMessage(turn.text)]}, {**config, "callbacks": [memory.audit.handler()]})

    for turn in TALK:
        send(turn, GIFT)
    thread: RunnableConfig = {"configurable": {"thread_id": GIFT, CONFIG_KEY: IRENA}}
    turn_ends = [state for state in agent.get_state_history(thread) if not state.next]
    for turn, state in zip(ALTERNATIVE_TALK, turn_ends[2:4], strict=True):  # fork after two earlier turns
        send(turn, GIFT, at=state.config)
    agent.update_state(turn_ends[0].config, None)  # the end of TALK becomes the newest checkpoint again
    send(ORDER_TURN, ORDER)  # stops at an interrupt
    send(MAREK_TURN, HIVES, MAREK)

    branch = memory.layers("main", IRENA)
    branch.core.set("language", "Irena writes Czech to her family.")
    branch.fork("without-surprise").core.set("language", "Irena tells Marek everything.")
    facts = memory.facts("main", IRENA)
    facts.declare(LIVES_FACT[1], "has his birthday on")
    for day in ("9 October", "10 October"):  # two contradicting facts
        facts.add_fact("user", "Marek", "has his birthday on", day, valid_from=datetime(1985, 10, 9, tzinfo=UTC))
    memory.store.put((*IRENA, "shopping"), "smoker", {"text": "copper smoker with leather bellows", "price": 84})
    trail = AuditTrail(memory, IRENA)
    trail.add("Is the smoker still to be had?", "Yes, two are left.", GIFT)
    trail.add("hm", "", GIFT)
    trail.add_todo_from_chat("Please add the neighbour's key to the list. Test the smoker before the ninth.")
    memory.settle()
    return library


def _build_agent(memory: AgentMemory, library: ExperienceLibrary) -> Any:
    """Build the agent of the story, a graph that uses every kind of memory."""

    def timetable(state: CompactionState) -> dict[str, Any]:
        [call] = state["messages"][-1].tool_calls  # type: ignore[union-attr]  # always an AIMessage
        reply = {"role": "tool", "content": "7:12 Brno - 8:55 Olomouc", "tool_call_id": call["id"], "name": "timetable"}
        return {"messages": [reply]}

    def answer(state: CompactionState) -> dict[str, Any]:
        if state["messages"][-1].text == ORDER_TURN.text:
            interrupt({"question": "Order the copper smoker for 84 €?"})
        return {"messages": [ScriptedModel().invoke(state["llm_input_messages"])]}

    def learn(state: CompactionState) -> None:
        turn = next(_SCRIPT[each.text] for each in reversed(state["messages"]) if each.text in _SCRIPT)
        layers = memory.layers()
        for key, value in turn.core.items():
            layers.core.set(key, value)
        if turn.record:
            layers.archival.write(turn.record)
        layers.recall.append("asked", turn.text)

    def next_node(state: CompactionState) -> str:
        return "timetable" if getattr(state["messages"][-1], "tool_calls", ()) else "learn"

    context_policy = ActiveContextPolicyConfig(min_reduction_ratio=0.1)
    budget = ManagedMemoryConfig(threshold_tokens=445, token_counter="estimate", active_context=context_policy)  # noqa: S106
    builder = StateGraph(CompactionState, input_schema=MessagesState)
    builder.add_node("compact", memory.compaction(_summarize, budget)).add_node("recall", memory.inject())
    builder.add_node("advise", library.selector()).add_node(answer).add_node(timetable).add_node(learn)
    builder.add_node("facts", memory.remember_facts(_extract_facts))
    builder.add_edge(START, "compact").add_edge("compact", "recall").add_edge("recall", "advise")
    builder.add_edge("advise", "answer").add_conditional_edges("answer", next_node, ["timetable", "learn"])
    builder.add_edge("timetable", "compact").add_edge("learn", "facts").add_edge("facts", END)
    return builder.compile(checkpointer=memory.checkpointer)


def _text_parts(message: BaseMessage) -> list[str]:
    """Return the text of each content block of a message. Injected memory has its own blocks."""
    blocks = [message.content] if isinstance(message.content, str) else message.content
    return [each if isinstance(each, str) else str(each.get("text")) for each in blocks]


def _summarize(_: Any) -> str:
    return "Irena moved from Olomouc to Brno in March. Her brother Marek, a beekeeper, turns forty on 9 October."


def _extract_facts(messages: Any) -> str:
    """Return the scripted facts of the messages in an extraction prompt, as JSON."""
    prompt = messages if isinstance(messages, str) else "\n".join(message.text for message in messages)
    rows = [
        {"message": 1, "subject": subject, "predicate": predicate, "object": value, "valid_from": valid_from}
        for text, turn in _SCRIPT.items()
        if text in prompt
        for subject, predicate, value, valid_from in turn.facts
    ]
    return json.dumps({"facts": rows})
