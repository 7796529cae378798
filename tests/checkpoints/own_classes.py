"""User-defined classes, graphs with states made of them, and helpers that show those states.

Scripts import it as `tests.checkpoints.own_classes`, so that an object has one class in every process.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Interrupt, Send, interrupt
from pydantic import BaseModel
from pydantic.v1 import BaseModel as OldModel

T = TypeVar("T")


class Mood(enum.Enum):
    GLAD = "glad"


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Place:
    name: str
    mood: Mood = Mood.GLAD
    messages: list[AnyMessage] = dataclasses.field(default_factory=list)


class Leg(NamedTuple):
    start: Place
    end: Place


class Trip(BaseModel):
    title: str
    days: list[int]
    colour: Colour = Colour.RED


class Box(BaseModel, Generic[T]):
    value: T


class OldTrip(OldModel):
    title: str
    level: Level = Level.HIGH


SAID = [HumanMessage("Where to?", id="m1"), AIMessage("To Lisbon. " * 60, id="m2")]
LONG = list(range(300))
LISBON = Place("Lisbon", messages=SAID)
OWN = {
    "place": LISBON,
    "leg": Leg(LISBON, Place("Sintra")),
    "trip": Trip(title="Portugal", days=LONG),
    "old": OldTrip(title="Spain"),
    "mood": Mood.GLAD,
    "colour": Colour.RED,
    "level": Level.HIGH,
    "several": [Place(f"Town {n}") for n in range(50)] + [Mood.GLAD, Leg(LISBON, LISBON), Trip(title="x", days=[1])],
    "named": {f"key {n}": Place(f"Village {n}", messages=SAID) for n in range(50)},
    "deep": {"legs": [{"first": [Leg(LISBON, LISBON)]}, HumanMessage("between", id="m3")], "colour": [Colour.RED]},
    "said": [
        HumanMessage("hello", id="m4", additional_kwargs={"colour": Colour.RED, "level": [Level.HIGH]}),
        AIMessage("hello", id="m5", response_metadata={"mood": Mood.GLAD}),
    ],
}
CLASSES = (Mood, Colour, Level, Place, Leg, Trip, OldTrip)


class Own(TypedDict, total=False):
    place: Place
    leg: Leg
    trip: Trip
    old: OldTrip
    mood: Mood
    colour: Colour
    level: Level
    several: list[Any]
    named: dict[str, Any]
    deep: dict[str, Any]
    said: list[AnyMessage]
    answer: Any
    seen: str


def own_graph(saver):
    """Return a graph that stores an object of every class, sends one to a node, and interrupts with one."""

    def make(_):
        return OWN

    def ask(state):
        answer = interrupt(OWN["trip"])
        return {"answer": answer, "seen": shown(state)}

    def look(sent):
        return {"seen": interrupt({"leg": sent["leg"]}) and shown(sent)}

    builder = StateGraph(Own)
    builder.add_node("make", make)
    builder.add_node("look", look)
    builder.add_node("ask", ask)
    builder.add_edge(START, "make")
    builder.add_conditional_edges("make", lambda _: [Send("look", {"leg": OWN["leg"]})], ["look"])
    builder.add_edge("look", "ask")
    return builder.compile(checkpointer=saver)


def own_workflow(saver):
    """Return an entrypoint whose task returns an object and interrupts with it."""

    @task
    def plan(title: str) -> Trip:
        return Trip(title=title, days=LONG)

    @task
    def travel(trip: Trip) -> Leg:
        return Leg(Place(trip.title), LISBON)

    @entrypoint(checkpointer=saver)
    def run(title: str, *, previous: Any = None) -> Leg:
        trip = plan(title).result()
        answer = interrupt(trip)
        leg = travel(trip).result()
        return entrypoint.final(value=[previous, trip, answer, leg], save=leg)

    return run


def begin(graph, config):
    """Run until the interrupt."""
    graph.invoke({}, config)
    graph.invoke(Command(resume=LISBON), config)


def shown(value: Any) -> str:
    """Return a value with the classes of all its parts, with sorted keys and without interrupt ids."""
    if isinstance(value, Interrupt):
        return f"Interrupt {shown(value.value)}"
    if isinstance(value, dict):
        items = ", ".join(f"{key!r}: {shown(value[key])}" for key in sorted(value, key=repr))
        return f"{{{items}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if type(value) is tuple:
        return f"({', '.join(map(shown, value))})"
    return f"{type(value).__name__} {value!r}"


def snapshot(state) -> dict[str, str]:
    """Return the contents of a graph state, without its ids."""
    return {
        "values": shown(state.values),
        "interrupts": shown([each.value for each in state.interrupts]),
        "tasks": shown([(each.name, each.result) for each in state.tasks]),
        "source": str(state.metadata["source"]),
    }


def history(graph, config) -> list[dict[str, str]]:
    """Return all states of a thread."""
    return [snapshot(state) for state in graph.get_state_history(config)]


def pending(saver, config) -> str:
    """Return the pending writes of the newest checkpoint, without task ids."""
    return shown([(channel, value) for _, channel, value in saver.get_tuple(config).pending_writes])
