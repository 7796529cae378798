"""The random histories for tests of compaction contain every documented situation."""

from collections import Counter

from langchain_agentmem.testing import provider_problems

from .histories import SHAPES, WEIGHTS, Chat, random_history

SEEDS = range(700)


def test_every_situation_occurs_often():
    happened, valid = Counter[str](), 0
    for seed in SEEDS:
        chat = Chat(seed, None)
        valid += not provider_problems(chat.write())
        happened.update([chat.shape, f"ids of {chat.ids}", f"calls of {chat.ids_of_calls}", *{*chat.happened}])
    wanted = {*SHAPES, *WEIGHTS, "ids of all", "ids of some", "ids of none", "calls of own", "calls of reused"}
    assert wanted == {*happened}
    assert min(happened.values()) >= 5, happened
    assert 50 < valid < 650


def test_seeds_are_reproducible_in_new_objects():
    for seed in SEEDS[::50]:
        first, again = random_history(seed), random_history(seed)
        assert again == first
        assert not {id(message) for message in again} & {id(message) for message in first}


def test_size_is_respected():
    sizes = [len(random_history(seed, size=300)) for seed in range(200)]
    assert sum(300 <= size <= 330 for size in sizes) > 180
    assert all(0 < len(random_history(seed, size=1)) < 40 for seed in range(200))
