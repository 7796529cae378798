"""Threads that people correct: every checkpoint shows what it had, and the newest what it was corrected to."""

from __future__ import annotations

from random import Random

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

from langchain_agentmem import AgentMemory


class Story:
    """A thread of which it is known what each checkpoint is to show."""

    def __init__(self, memory, thread):
        self.memory, self.name = memory, thread
        self.config = {"configurable": {"thread_id": thread}}
        self.shows = {}
        builder = StateGraph(MessagesState).add_node("remember", self.remember).add_edge(START, "remember")
        self.graph = builder.compile(checkpointer=memory.checkpointer)

    def remember(self, state, config):
        self.memory.layers(config).core.set("city", state["messages"][-1].text)
        return {"messages": [AIMessage("ok")]}

    @property
    def head(self):
        return max(self.shows, default=None)

    def at(self, checkpoint):
        return (
            {"configurable": {**self.config["configurable"], "checkpoint_id": checkpoint}}
            if checkpoint
            else self.config
        )

    def noted(self, before, after):
        """What is new shows what was there, and the newest what was said."""
        found = [state.config["configurable"]["checkpoint_id"] for state in self.graph.get_state_history(self.config)]
        new = [each for each in found if each not in self.shows]
        self.shows.update(dict.fromkeys(new, before), **{max(new): after})

    def say(self, text, checkpoint=None):
        before = self.shows.get(checkpoint or self.head)
        self.graph.invoke({"messages": [("user", text)]}, self.at(checkpoint))
        self.noted(before, text)

    def update(self, checkpoint):
        self.graph.update_state(self.at(checkpoint), {"messages": [("user", "edited")]})
        self.noted(self.shows[checkpoint], self.shows[checkpoint])

    def correct(self, text):
        made = self.memory.corrections.core("city", text, by="Maria", thread_id=self.name)
        before, self.shows[self.head] = self.shows[self.head], text
        return made, before

    def undo(self, made, before):
        self.memory.corrections.undo(made.id, by="Maria")
        self.shows[self.head] = before

    def check(self):
        shown = {each: self.memory.layers(self.at(each)).core.get().get("city") for each in self.shows}
        assert shown == self.shows
        assert self.memory.layers(self.config).core.get().get("city") == self.shows[self.head]


def test_one_branch_holds_all_of_it_where_nobody_goes_back(raw):
    with AgentMemory() as memory:
        story = Story(memory, "a")
        for number in range(3):
            story.say(f"city {number}")
            for text in (f"City {number}", f"CITY {number}"):
                story.correct(text)
            story.check()
        assert raw(memory, "select count(*) as branches from branch where kind = 'thread'") == [{"branches": 1}]


@pytest.mark.parametrize("seed", range(3))
def test_any_story(seed):
    random = Random(seed)
    with AgentMemory() as memory:
        stories = [Story(memory, "a")]
        stories[0].say("first")
        for number in range(14):
            story, text = random.choice(stories), f"city {number}"
            event = random.choice(["say", "say", "correct", "correct", "undo", "back", "update", "copy"])
            if event == "say":
                story.say(text)
            elif event == "back":
                story.say(text, random.choice([*story.shows]))
            elif event == "update":
                story.update(random.choice([*story.shows]))
            elif event == "copy" and len(stories) < 3:
                other = Story(memory, f"copy {number}")
                memory.checkpointer.copy_thread(story.name, other.name)
                other.shows = dict(story.shows)
                stories.append(other)
            else:
                done = story.correct(text)
                if event == "undo":
                    story.undo(*done)
            for each in stories:
                each.check()
        assert memory.admin.verify().ok
        memory.checkpointer.prune([each.name for each in stories])
        for each in stories:
            each.shows = {each.head: each.shows[each.head]}
            each.check()
        assert memory.admin.verify().ok
