"""What importing the package loads, in a fresh interpreter."""

from __future__ import annotations

import copy
import json
import pickle
import re
import subprocess
import sys

from langchain_agentmem.base.lazy_imports import lazy_pattern

HEAVY = {"langgraph", "psycopg", "numpy", "langchain_core", "pydantic", "yaml", "tiktoken", "sqlite3"}


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def loaded_by(code: str) -> set[str]:
    return set(json.loads(run(f"import json, sys\n{code}\nprint(json.dumps(sorted(sys.modules)))")))


class TestPublicNames:
    def test_star_import_provides_every_public_name(self):
        code = "from langchain_agentmem import *\nimport langchain_agentmem as package\n"
        assert run(f"{code}print(all(name in globals() for name in package.__all__))") == "True\n"


class TestImporting:
    def test_package_import_loads_no_heavy_libraries(self):
        assert HEAVY.isdisjoint(name.partition(".")[0] for name in loaded_by("import langchain_agentmem"))

    def test_tracing_without_listeners_imports_no_tracing_libraries(self):
        program = "from langchain_agentmem.tracing import Tracing\nwith Tracing().step('memory.conversation.add'): pass"
        libraries = {"langchain_core", "langgraph", "langsmith", "numpy", "psycopg"}
        assert libraries.isdisjoint(name.partition(".")[0] for name in loaded_by(program))

    def test_first_sqlite_message_imports_no_unused_modules(self):
        loaded = loaded_by(
            "from langchain_agentmem import AgentMemory\n"
            "with AgentMemory() as memory:\n    memory.conversation('chat').add_user_message('Hello')"
        )
        others = {
            "httpx", "langchain", "langgraph", "numpy", "packaging.requirements", "psycopg",
            "sqlcipher3", "tiktoken", "yaml",
        }  # fmt: skip
        ours = {
            "audit", "base.events", "base.fencing", "base.redaction", "checkpoints", "compaction",
            "conversations.compaction_records", "conversations.conversation_part", "conversations.prompt_notes",
            "conversations.session_memory", "facts", "language_models", "layers", "messages.message_marks",
            "messages.prompt_forms", "messages.role_rounds", "parts", "rewinding", "search.memory_search",
            "search.ranking", "search.timeline", "search.vectors", "storage.part", "storage.postgres",
            "storage.transfer", "stores", "threads", "upkeep.database_copy", "upkeep.integrity",
        }  # fmt: skip
        assert "langchain_agentmem.search.analysis" in loaded, "it was indexed"
        assert loaded.isdisjoint(others | {f"langchain_agentmem.{name}" for name in ours})

    def test_lazy_pattern_equals_its_compiled_pattern(self):
        lazy, compiled = lazy_pattern("(?P<word>b+)|c", re.IGNORECASE), re.compile("(?P<word>b+)|c", re.IGNORECASE)
        for _ in range(2):  # the first use compiles the pattern
            assert lazy.findall("aBbC") == compiled.findall("aBbC")
            assert lazy.sub(r"<\g<word>>", "aBbC") == compiled.sub(r"<\g<word>>", "aBbC")

    def test_unused_lazy_pattern_can_be_copied_and_pickled(self):
        lazy = lazy_pattern("b+")
        assert copy.copy(lazy).findall("abb") == pickle.loads(pickle.dumps(lazy)).findall("abb") == ["bb"]
