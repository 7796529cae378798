"""Corrections of threads: every checkpoint shows its own value, the newest the corrected one."""

from random import Random

import pytest
from langchain_core.messages import AIMessage

from langchain_agentmem import AgentMemory
from tests.support.graphs import at, line


class CorrectedThread:
    """A thread with the expected value of each checkpoint."""

    def __init__(self, memory, thread, shows=()):
        self.memory, self.name, self.shows = memory, thread, dict(shows)
        self.graph = line(memory.checkpointer, self.remember)

    def remember(self, state, config):
        self.memory.layers(config).core.set("city", state["messages"][-1].text)
        return {"messages": [AIMessage("ok")]}

    @property
    def head(self):
        return max(self.shows, default=None)

    def at(self, checkpoint=None):
        return at(self.name, **({"checkpoint_id": checkpoint} if checkpoint else {}))

    def noted(self, before, after):
        """Record that new checkpoints show `before`, and the newest `after`."""
        history = self.graph.get_state_history(self.at())
        new = {each.config["configurable"]["checkpoint_id"] for each in history} - self.shows.keys()
        self.shows.update(dict.fromkeys(new, before), **{max(new): after})

    def say(self, text, checkpoint=None):
        before = self.shows.get(checkpoint or self.head)
        self.graph.invoke({"messages": [("user", text)]}, self.at(checkpoint))
        self.noted(before, text)

    def update(self, checkpoint):
        self.graph.update_state(self.at(checkpoint), {"messages": [("user", "edited")]})
        self.noted(self.shows[checkpoint], self.shows[checkpoint])

    def correct(self, text, *, undone=False):
        made = self.memory.corrections.core("city", text, by="Maria", thread_id=self.name)
        if undone:
            self.memory.corrections.undo(made.id, by="Maria")
        else:
            self.shows[self.head] = text

    def check(self):
        shown = {each: self.memory.layers(self.at(each)).core.get().get("city") for each in self.shows}
        assert shown == self.shows
        assert self.memory.layers(self.at()).core.get().get("city") == self.shows[self.head]


@pytest.mark.parametrize("seed", range(3))
def test_random_corrections_show_at_the_expected_checkpoints(seed):
    random = Random(seed)
    with AgentMemory() as memory:
        stories = [CorrectedThread(memory, "a")]
        stories[0].say("first")
        for number in range(14):
            story, text = random.choice(stories), f"city {number}"
            match random.choice(["say", "say", "correct", "correct", "undo", "back", "update", "copy"]):
                case "say":
                    story.say(text)
                case "back":
                    story.say(text, random.choice([*story.shows]))
                case "update":
                    story.update(random.choice([*story.shows]))
                case "copy" if len(stories) < 3:
                    memory.checkpointer.copy_thread(story.name, text)
                    stories.append(CorrectedThread(memory, text, story.shows))
                case event:
                    story.correct(text, undone=event == "undo")
            for each in stories:
                each.check()
        assert memory.admin.verify().ok
        memory.checkpointer.prune([each.name for each in stories])
        for each in stories:
            each.shows = {each.head: each.shows[each.head]}
            each.check()
        assert memory.admin.verify().ok
