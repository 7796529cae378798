"""What importing the package loads, in a fresh interpreter."""

from __future__ import annotations

import json
import subprocess
import sys


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


class TestPublicNames:
    def test_a_star_import_brings_them(self):
        code = (
            "from langchain_agentmem import *\n"
            "import langchain_agentmem as package\n"
            "print(all(name in globals() for name in package.__all__))"
        )
        assert run(code) == "True\n"


class TestImporting:
    def test_it_loads_nothing_heavy(self):
        code = (
            "import sys, json\n"
            "import langchain_agentmem\n"
            "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
        )
        loaded = set(json.loads(run(code)))
        assert not loaded & {
            "langgraph",
            "psycopg",
            "numpy",
            "langchain_core",
            "pydantic",
            "yaml",
            "tiktoken",
            "sqlite3",
        }

    def test_opening_sqlite_and_a_first_message_load_what_they_need(self):
        code = (
            "import json, sys\nfrom langchain_agentmem import AgentMemory\n"
            "with AgentMemory() as memory:\n    memory.conversation('chat').add_user_message('Hello')\n"
            "print(json.dumps(sorted(sys.modules)))"
        )
        loaded = set(json.loads(run(code)))
        others = {
            "cryptography", "httpx", "langchain", "langgraph", "numpy", "packaging.requirements", "psycopg",
            "snowballstemmer", "sqlcipher3", "tiktoken", "yaml",
        }  # fmt: skip
        ours = {
            "audit", "base.redaction", "checkpoints", "compaction",
            "conversations.conversation_part", "conversations.session_memory", "facts",
            "language_models.token_estimate", "language_models.tokens", "layers", "messages.prompt_forms", "parts",
            "rewinding.outlook", "rewinding.thread_memory", "search.database_search", "search.memory_search",
            "search.ranking", "search.timeline", "search.vectors", "storage.postgres", "stores.agent_store",
            "threads",
        }  # fmt: skip
        assert "langchain_agentmem.search.analysis" in loaded, "it was indexed"
        assert loaded.isdisjoint(others | {f"langchain_agentmem.{name}" for name in ours})
