"""`both`: a method that is written once, as work, has a form that waits and one that is awaited."""

from __future__ import annotations

import inspect

import pytest

from langchain_agentmem.language_models.model_calls import Do, Performer, Work, both


class Shelf(Performer):
    _database = None

    def __init__(self):
        self.read = []

    def _get_work(self, key: str, *, times: int = 1) -> Work[str]:
        """What stands under a key."""
        value = yield Do(lambda: self.read.append(key) or key.upper())
        return value * times

    get, aget = both(_get_work)


class TestBoth:
    async def test_they_do_the_same(self):
        shelf = Shelf()
        assert (shelf.get("a", times=2), await shelf.aget("a", times=2)) == ("AA", "AA")
        assert shelf.read == ["a", "a"]

    def test_they_say_what_they_are(self):
        assert (Shelf.get.__name__, Shelf.aget.__qualname__) == ("get", "Shelf.aget")
        assert inspect.getdoc(Shelf.get) == "What stands under a key."
        assert inspect.getdoc(Shelf.aget) == "`get`, awaited."
        for twin in (Shelf.get, Shelf.aget):
            signature = inspect.signature(twin)
            assert list(signature.parameters) == ["self", "key", "times"]
            assert signature.return_annotation == "str"
        assert inspect.iscoroutinefunction(Shelf.aget)
        assert not inspect.iscoroutinefunction(Shelf.get)

    async def test_wrong_arguments_are_refused_as_pythons_own(self):
        with pytest.raises(TypeError, match=r"^Shelf\.get\(\) got .*nothing"):
            Shelf().get("a", nothing=1)
        with pytest.raises(TypeError, match="key"):
            await Shelf().aget()
