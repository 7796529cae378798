"""A file with anything wrong in it is refused, or can be read."""

from __future__ import annotations

import json

import pytest

from langchain_agentmem.errors import InvalidInput
from tests.facts.test_documents import busy, looks

GONE = object()


def places(value, at=()):
    """Where something stands in nested lists and dictionaries."""
    if at:
        yield at
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in pairs:
        yield from places(inner, (*at, name))


def spoiled(records, at, junk):
    """The same records with junk at a place, or with nothing."""
    copy = json.loads(json.dumps(records))
    place = copy
    for name in at[:-1]:
        place = place[name]
    if junk is GONE:
        del place[at[-1]]
    else:
        place[at[-1]] = junk
    return copy


@pytest.mark.sqlite_suffices
class TestFiles:
    @pytest.mark.slow
    def test_with_anything_wrong_in_them_are_refused_or_can_be_read(self, here, alone, tmp_path):
        """What is taken in can be looked at, whatever was done to the file."""
        facts, _ = busy(here)
        path = tmp_path / "kg.json"
        facts.save_to_file(path)
        whole = json.loads(path.read_text())
        other, refused, taken = here.facts("c"), 0, 0
        every = [(at, junk) for at in places(whole["entries"]) for junk in (GONE, None, "x", [], -1, 10**30)]
        for at, junk in every[::4]:
            path.write_text(json.dumps({**whole, "entries": spoiled(whole["entries"], at, junk)}))
            try:
                other.load_from_file(path)
            except InvalidInput:
                refused += 1
            else:
                taken += 1
                looks(other)
                other.contradictions()
        assert min(refused, taken) > 20
