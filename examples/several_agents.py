"""Share one memory between several agents, each on its own branch.

Run it with `python examples/several_agents.py`. It needs no extra and no key, because the agents are functions. At the
end, the results are written to the team's branch. An agent can also be a graph, a process or a machine: it opens the
database and passes the name of its branch.
"""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from langchain_agentmem import AgentMemory, LayeredMemory

FOUND = {
    "hotels": ("The Harbour Inn has a room for 90 euros a night.", "90"),
    "trains": ("The night train to Lisbon costs 60 euros.", "60"),
}


def research(mine: LayeredMemory, topic: str) -> None:
    """Research one topic on a fork. The fork shows the team's memory, and its own changes stay private."""
    text, price = FOUND[topic]
    mine.recall.append("searched", f"{topic} for {mine.core.get()['traveller']}")
    mine.archival.write(text, tags=[topic])
    mine.core.set(topic, f"{price} euros")
    mine.core.set("cheapest", f"{topic}, {price} euros")  # both agents write this key


def main(database: Path) -> None:
    with AgentMemory(database) as memory:
        ours = memory.layers("trip", namespace=("acme",))  # one namespace per tenant
        ours.core.set("traveller", "Ada")
        hotels, trains = (ours.fork(f"trip, {topic}") for topic in FOUND)  # nothing is copied
        with ThreadPoolExecutor() as pool:
            list(pool.map(research, (hotels, trains), FOUND))

        print("--- while they work")
        print("the team knows:", ours.core.get())
        print("hotels knows:  ", hotels.core.get())
        print("hotels finds:  ", [record.content for record in hotels.archival.search("costs euros")])
        for key, changed in hotels.diff(trains).core.changed.items():
            print(f"hotels and trains differ in {key!r}: {changed.mine!r} and {changed.theirs!r}")

        print("--- they are done")
        for agent, topic in ((hotels, "hotels"), (trains, "trains")):
            ours.write(
                core={topic: agent.core.get()[topic]},
                archival=[{"text": each.content, "tags": each.tags} for each in agent.archival.all(tags=[topic])],
            )
        ours.core.set("cheapest", trains.core.get()["cheapest"])  # the decision of the team
        print("the team knows:", dict(sorted(ours.core.get().items())))
        print("and finds:     ", [record.content for record in ours.archival.search("what costs 60 euros")])
        print(ours.tree())

        print("--- another tenant sees nothing of it")
        print(memory.layers("trip", namespace=("globex",)).core.get(), memory.search("Lisbon", namespace=("globex",)))
        [found] = memory.search("Which train goes to Lisbon?", namespace=("acme",), limit=1)
        print(found.kind, "|", found.text, "|", found.why)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary) / "agent.db")
