"""The package as its users import it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from importlib import resources
from types import ModuleType
from typing import Any

import pytest

import langchain_agentmem
from langchain_agentmem.base.concurrency import awaited


def modules() -> list[ModuleType]:
    names = [each.name for each in pkgutil.walk_packages(langchain_agentmem.__path__, "langchain_agentmem.")]
    return [importlib.import_module(name) for name in names if not name.endswith("__main__")]


class TestPublicNames:
    def test_public_names_are_sorted_and_exist(self):
        names = langchain_agentmem.__all__
        assert names == sorted(set(names), key=lambda name: (not name.isupper(), name[0].islower(), name))
        values = {name: getattr(langchain_agentmem, name) for name in names}
        assert {name for name, value in values.items() if getattr(value, "__name__", name) != name} == set()

    def test_exports_equal_the_public_names(self):
        needing_an_extra = {"CompactionMiddleware", "ExperienceMiddleware", "MemoryMiddleware"}
        assert set(langchain_agentmem._MODULES) == {*langchain_agentmem.__all__, *needing_an_extra}
        assert set(langchain_agentmem.__all__) <= set(dir(langchain_agentmem))
        public = {"AgentMemory", "ConversationMemory", "SessionMemory", "Message", "MessageError", "Recollection"}
        assert public <= set(langchain_agentmem.__all__)

    def test_compaction_exports_its_own_names(self):
        from langchain_agentmem import compaction

        assert compaction.__all__ == sorted(set(compaction.__all__))
        assert set(compaction._MODULES) == {*compaction.__all__, "CompactionMiddleware"}  # which needs an extra
        assert all(getattr(compaction, name).__name__ == name for name in compaction._MODULES)
        with pytest.raises(AttributeError, match="no attribute 'Unknown'"):
            compaction.Unknown  # noqa: B018

    def test_unknown_name_raises_attribute_error(self):
        with pytest.raises(AttributeError, match="no attribute 'Unknown'"):
            langchain_agentmem.Unknown  # noqa: B018

    def test_package_has_the_typing_marker(self):
        assert resources.files("langchain_agentmem").joinpath("py.typed").is_file()

    def test_version_has_three_parts(self):
        assert langchain_agentmem.__version__.count(".") == 2


def public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """A module, its public classes and functions, and their public members."""
    yield module.__name__, module
    for name, thing in vars(module).items():
        if name.startswith("_") or getattr(thing, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(thing) or inspect.isfunction(thing):
            yield f"{module.__name__}.{name}", thing
        if inspect.isclass(thing):
            for each, member in vars(thing).items():
                if not each.startswith("_") and (
                    inspect.isfunction(member) or isinstance(member, property | classmethod)
                ):
                    yield f"{module.__name__}.{name}.{each}", member


class TestDocumentation:
    def test_every_public_object_has_a_docstring(self):
        things = [each for module in modules() for each in public(module)]
        assert len(things) > 300
        assert [name for name, thing in things if not inspect.getdoc(thing)] == []


PARTS = ["Admin", "AgentMemory", "AuditTrail", "ExperienceLibrary", "KGMemory", "LayeredMemory"]
PARTS += ["ConversationMemory", "ManagedConversationMemory", "SessionMemory"]
WITHOUT_IO = re.findall(r"\w+", """
    within conversation managed_conversation session create compaction tools layers inject facts
    remember_facts studio experiences written_by byte_store retriever set_event_context get_messages
    forget at selector handler entries aentries is_enabled
""")  # fmt: skip
BY_HAND = {"close", "create_round", "add_messages", "add_user_message", "add_ai_message", "clear", "get_raw_messages"}
BY_HAND |= {"compact_if_needed", "compact_for_payload_error"}
"""Methods whose twin is written out, as its name or its interface differs. All others are called in a worker."""


class TestAsyncTwins:
    @pytest.mark.parametrize("name", ["aget", "asearch", "aput", "adelete", "alist_namespaces", "abatch"])
    def test_async_methods_of_the_store_are_coroutine_functions(self, name):
        assert inspect.iscoroutinefunction(getattr(langchain_agentmem.AgentMemoryStore, name))

    @pytest.mark.parametrize("name", PARTS)
    def test_io_methods_have_async_twins_with_equal_parameters(self, name):
        part = getattr(langchain_agentmem, name)
        checked = 0
        own = [each for each in part.__mro__ if each.__module__.startswith("langchain_agentmem.")]
        for verb, member in [each for kind in own for each in vars(kind).items()]:
            if verb.startswith("_") or not inspect.isfunction(member) or inspect.iscoroutinefunction(member):
                continue
            if verb in WITHOUT_IO:
                continue
            twin = getattr(part, f"a{verb}")
            assert inspect.iscoroutinefunction(twin), verb
            assert twin.__code__ is awaited(len).__code__ or verb in BY_HAND, verb
            assert list(inspect.signature(member).parameters.values()) == list(
                inspect.signature(twin).parameters.values()
            ), verb
            checked += 1
        assert checked > 2
