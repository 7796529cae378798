"""Options and arguments are checked by pydantic; an invalid one gives a one-sentence error."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict

import pytest
from annotated_types import Ge
from langchain_core.messages import HumanMessage
from pydantic import Field, field_validator

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.argument_checks import Options, _type_adapter, check_options, check_value
from langchain_agentmem.errors import InvalidInput


class Config(Options):
    count: int = Field(default=1, ge=1)
    size: int | str | None = None
    names: Sequence[str] = ()
    weights: Mapping[str, float] = {}
    kind: Literal["a", "b"] = "a"
    make: Callable[[], Any] | None = None
    on: bool = True

    @field_validator("kind")
    @classmethod
    def _allowed(cls, kind: str) -> str:
        if kind == "b":
            raise ValueError("kind 'b' is for tests.")
        return kind


class Given(TypedDict, total=False):
    limit: int
    make: Callable[[], Any]


WRONG = [
    ({"count": 0}, "count must be greater than or equal to 1, got 0."),
    ({"count": True}, "count must be a valid integer, got True."),
    ({"count": "postgresql://a:secret@b/c"}, "count must be a valid integer, got 'postgresql://a:***@b/c'."),
    ({"size": 1.5}, "size must be a valid integer or be a valid string, got 1.5."),
    ({"names": "abc"}, "names must be a list, got 'abc'."),
    ({"names": ["a", 3]}, "names[1] must be a valid string, got 3."),
    ({"weights": {"a": math.nan}}, "weights must be a finite number, got nan."),
    ({"kind": "c"}, "kind must be 'a' or 'b', got 'c'."),
    ({"kind": "b"}, "kind 'b' is for tests."),
    ({"make": 3}, "make must be callable, got 3."),
    ({"on": 1}, "on must be a valid boolean, got 1."),
    ({"counts": 1}, "Unknown option 'counts'. Valid options: count, size, names, weights, kind, make, on."),
]


@pytest.mark.parametrize(("given", "fault"), WRONG)
def test_a_wrong_option_is_one_sentence(given, fault):
    with pytest.raises(InvalidInput) as caught:
        Config(**given)
    assert str(caught.value) == fault


def test_options_are_frozen_comparable_and_checked():
    config = Config(count=3)
    with pytest.raises(Exception, match="frozen"):
        config.count = 4
    assert config.replace(count=4) == Config(count=4) != config
    with pytest.raises(InvalidInput):
        config.replace(count=0)
    assert pickle.loads(pickle.dumps(config)) == config


def test_keyword_options_and_values_are_checked_alike():
    assert check_options(Given, {"limit": 3}) == {"limit": 3}
    with pytest.raises(InvalidInput, match=r"limit must be a valid integer, got '3'\."):
        check_options(Given, {"limit": "3"})
    with pytest.raises(InvalidInput, match=r"Unknown option 'limits'\. Valid options: limit, make\."):
        check_options(Given, {"limits": 3})
    assert check_value(Annotated[int, Ge(1)] | None, None, "n") is None
    with pytest.raises(InvalidInput, match=r"n must be greater than or equal to 1, got 0\."):
        check_value(Annotated[int, Ge(1)] | None, 0, "n")


def test_repeated_calls_build_no_type_adapters():
    def calls(memory, number):
        memory.conversation(f"c{number}").add_user_message("Ana likes quinces.")
        memory.session(f"s{number}").create_round("quinces")
        memory.facts("f").add_fact("user", f"Ana {number}", "likes", "quinces", confidence=0.5)
        memory.layers("b").core.set("fruit", "quince", importance=3, ttl=60.0)
        memory.search("quinces", kinds=["message"], roles=["user"], limit=3)
        memory.compaction(model=None).invoke([HumanMessage("quinces")])
        memory.audit.add("quinces?", "Quinces.", "c")

    with AgentMemory() as memory:
        calls(memory, 1)
        made = _type_adapter.cache_info().misses
        calls(memory, 2)
    assert _type_adapter.cache_info().misses == made
