"""Rewind equality for the store and the session of a thread: they stand on what the layers stand on, and go with it."""

from __future__ import annotations

import itertools

import pytest

from langchain_agentmem import Conversation, Post, Round

from .adapters import Real
from .oracle import World, followed, report
from .worlds import random_script

EXAMPLES = {"sqlite": 18, "postgres": 4}
NS = ("notes",)


class Items(Real):
    """`memory.thread_store`."""

    def remember(self, config, name):
        self.memory.thread_store.at(config).put(NS, name, {"text": name})

    async def aremember(self, config, name):
        await self.memory.thread_store.at(config).aput(NS, name, {"text": name})

    def remembered(self, config):
        return _in_order(self.memory.thread_store.at(config).search(NS, limit=10_000))

    async def aremembered(self, config):
        return _in_order(await self.memory.thread_store.at(config).asearch(NS, limit=10_000))


def _in_order(items):
    return [item.key for item in sorted(items, key=lambda item: item.created_at)]


class Rounds(Real):
    """`memory.session(config)`: a round for each thing, and a post in it."""

    def remember(self, config, name):
        self.memory.session(config).import_(_talk(name))

    async def aremember(self, config, name):
        await self.memory.session(config).aimport_(_talk(name))

    def remembered(self, config):
        return _whole(self.memory.session(config).rounds)

    async def aremembered(self, config):
        return _whole(await self.memory.session(config).arounds())


def _talk(name):
    """Both at once: a task that calls others sees what they have written so far."""
    return Conversation.create([Round.create(name).with_post(Post.create(name, "a", "b"))])


def _whole(rounds):
    assert [[post.message for post in each.post_list] for each in rounds] == [[each.user_query] for each in rounds]
    return [each.user_query for each in rounds]


@pytest.mark.slow("in every form")
@pytest.mark.parametrize("adapter", [Items, Rounds])
@pytest.mark.parametrize("kind", EXAMPLES)
def test_it_is_what_state_says_at_every_checkpoint_and_in_every_node(kind, adapter, new_database):
    url, numbers = new_database(kind), itertools.count()

    def make():
        return World(adapter(url), f"{next(numbers)} ")

    checks = 0
    for seed in range(EXAMPLES[kind]):
        script = random_script(seed)
        world = followed(script, make)
        if world.differences:
            pytest.fail(report(seed, script, make), pytrace=False)
        checks += world.checks
    assert checks > 10 * EXAMPLES[kind]
