"""Limits on input can be set, errors name them, and rejected input leaves no trace."""

import asyncio
import json
import re
from itertools import product
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage
from langgraph.store.base import PutOp

from langchain_agentmem import AgentMemory, AgentMemorySaver, LimitExceeded, MemoryLimits
from langchain_agentmem.base import argument_checks, encoding, namespaces
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.experiences import experience
from langchain_agentmem.facts import fact
from langchain_agentmem.language_models import tool_factory
from langchain_agentmem.layers import resource_memory
from langchain_agentmem.messages import provider_content
from langchain_agentmem.rewinding import search_view
from langchain_agentmem.search import analysis, dates
from langchain_agentmem.storage.engine import DatabaseOptions
from langchain_agentmem.storage.queries import DIALECTS, load_queries, value_parameters
from langchain_agentmem.stores import byte_store, item_rows, item_search
from langchain_agentmem.studio import application
from langchain_agentmem.upkeep.admin import Admin
from tests.living import one_node, thread

ROOT = Path(__file__).parents[2]
SMALL = MemoryLimits(value_bytes=2_000, batch=5, query_chars=100, conditions=3, tags=2, import_bytes=3_000)
FIXED = {
    "Characters of a namespace label": namespaces.MAX_LABEL_CHARS,
    "Bytes of a namespace, all labels together": namespaces.MAX_PATH_BYTES,
    "Characters of an id": namespaces.MAX_ID_CHARS,
    "Characters of a core key, a tag, a kind of event": argument_checks.MAX_NAME_CHARS,
    "Bytes of an item key": item_rows.MAX_KEY_BYTES,
    "Bytes of a byte store key": byte_store.MAX_KEY_BYTES,
    "Characters of the subject, predicate or object of a fact": fact.MAX_CHARS,
    "Levels of nested lists and dictionaries": encoding.MAX_DEPTH,
    "Levels of a store filter": item_search.MAX_DEPTH,
    "Results of a search": search_view.MAX_HITS,
    "Characters of a text that are indexed for search": analysis.MAX_TEXT_CHARS,
    "Words of a query that are searched": analysis.MAX_QUERY_TERMS,
    "Characters of a query that are scanned for times": dates.MAX_CHARS,
    "Characters of a list that a tool returns (always at least one result)": tool_factory.MAX_LIST_LENGTH,
    "Bytes of an image file that is sent to a model": provider_content.MAX_IMAGE_BYTES,
    "Bytes of an experience file": experience.MAX_FILE_BYTES,
    "Bytes of a resource file": resource_memory.MAX_FILE_BYTES,
    "Bytes of a form that is sent to Studio": application.LARGEST_FORM,
}
"""What cannot be set, as the page tells it."""


def check_limit(name, call):
    with pytest.raises(LimitExceeded, match=rf"the limit {name} is .*limits=MemoryLimits\({name}="):
        call()


@pytest.fixture
def memory(url):
    with AgentMemory(url, limits=SMALL) as memory:
        yield memory


class TestStoredSizes:
    LONG = "x" * 3_000

    def test_oversized_values_are_rejected_without_traces(self, memory):
        talk, layers = memory.conversation("c"), memory.layers("user")
        graph = one_node(lambda state: {"n": self.LONG}, memory)
        for call in (
            lambda: talk.add_messages([HumanMessage("short"), HumanMessage(self.LONG)]),
            lambda: asyncio.run(talk.aadd_messages([HumanMessage(self.LONG)])),
            lambda: memory.within(("a",)).conversation("c").add_user_message(self.LONG),
            lambda: memory.session("s").create_round(self.LONG),
            lambda: memory.store.batch([PutOp(("a",), "k", {"a": 1}), PutOp(("a",), "l", {"a": self.LONG})]),
            lambda: memory.byte_store().mset([("a", b"short"), ("b", self.LONG.encode())]),
            lambda: layers.archival.write(self.LONG, ["tag"]),
            lambda: memory.audit.add(self.LONG, "short"),
            lambda: graph.invoke({"n": 1}, thread()),
        ):
            check_limit("value_bytes", call)
        stats = memory.admin.stats()
        assert [stats[name] for name in ("messages", "items", "blobs", "records", "audit", "rounds")] == [0] * 6
        assert memory.admin.verify().ok

    def test_batch_limits_writes_per_call(self, memory):
        talk = memory.conversation("c")
        for texts in (map(str, range(6)), ["the same"] * 6):
            check_limit("batch", lambda texts=texts: talk.add_messages([HumanMessage(text) for text in texts]))
        check_limit("batch", lambda: memory.byte_store().mset([(str(n), b"x") for n in range(6)]))
        check_limit("batch", lambda: memory.store.batch([PutOp(("a",), str(n), {"n": n}) for n in range(6)]))
        assert talk.messages == []
        talk.add_messages([HumanMessage(str(n)) for n in range(5)])
        assert len(talk.messages) == 5

    @pytest.mark.sqlite_suffices
    def test_every_query_writing_bytes_is_measured(self):
        measured, others = (
            {name for name in load_queries(each) if value_parameters(each, name) is not None} for each in DIALECTS
        )
        assert measured >= {
            "store_content", "put_blob", "insert_item", "insert_item_returning", "update_item", "audit_add",
            "insert_value", "insert_checkpoint", "insert_write", "insert_compaction",
            "insert_memory", "insert_entries", "save_prompt_note",
        }  # fmt: skip
        assert measured == others

    @pytest.mark.parametrize("character", ["x", "ü", "😀", "\ud800"])
    def test_texts_are_measured_in_bytes(self, character):
        longest = character * (2_000 // len(character.encode(errors="surrogatepass")))
        SMALL.check_rows("query", ["value"], {"value": longest})
        check_limit("value_bytes", lambda: SMALL.check_rows("query", ["value"], {"value": longest + character}))


class TestQueryLimits:
    def test_long_queries_are_rejected(self, memory):
        query, layers, facts = "x" * 101, memory.layers("user"), memory.facts("user")
        for call in (
            lambda: memory.search(query), lambda: memory.retriever().invoke(query),
            lambda: memory.store.search(("a",), query=query), lambda: memory.audit.search(query),
            lambda: layers.archival.search(query), lambda: layers.recall.search(query), lambda: facts.search(query),
        ):  # fmt: skip
            check_limit("query_chars", call)

    def test_filters_names_and_tags_are_limited(self, memory):
        operators, archival = {"$gt": 1, "$lt": 2, "$ne": 3, "$eq": 4}, memory.layers("user").archival
        for wanted in ({"a": 1, "b": 2, "c": {"d": 1, "e": {"$gt": 1}}}, {"a": [1, 2, 3, 4]}, {"a": operators}):
            check_limit("conditions", lambda wanted=wanted: memory.store.search(("a",), filter=wanted))
        check_limit("conditions", lambda: memory.search("x", roles=["a", "b", "c", "d"]))
        for call in (lambda tags: archival.write("x", tags), lambda tags: list(archival.all(tags=tags))):
            check_limit("tags", lambda call=call: call(["a", "b", "c"]))


@pytest.mark.sqlite_suffices
class TestImports:
    def test_oversized_exported_values_are_rejected(self, memory, tmp_path):
        with AgentMemory() as other:
            other.conversation("c").add_user_message("y" * 4_000)
            other.byte_store().mset([("k", b"b" * 4_000)])
            other.export(tmp_path / "long.db")
        check_limit("value_bytes", lambda: memory.import_(tmp_path / "long.db"))
        assert memory.conversation("c").messages == []

    def test_copies_and_restores_ignore_smaller_limits(self, url, tmp_path, monkeypatch):
        with AgentMemory(url) as memory:
            memory.byte_store(("b",)).mset([("k", b"b" * 4_000)])
            memory.conversation("c").add_messages(
                [HumanMessage("y" * 4_000), *(HumanMessage(str(n)) for n in range(9))]
            )
            memory.export(tmp_path / "all.jsonl")
            # As if these had been larger than the usual limits.
            monkeypatch.setitem(DatabaseOptions._field_defaults, "limits", SMALL)
            monkeypatch.setattr(
                DatabaseOptions.__new__, "__defaults__", tuple(DatabaseOptions._field_defaults.values())
            )
            memory.admin.copy(copied := str(tmp_path / "copied.db"))
        Admin.restore(tmp_path / "all.jsonl", restored := str(tmp_path / "restored.db"))
        for each in (copied, restored):
            with AgentMemory(each) as memory:
                assert memory.byte_store(("b",)).mget(["k"]) == [b"b" * 4_000]
                assert len(memory.conversation("c").messages) == 10

    def test_oversized_import_files_are_rejected(self, memory, tmp_path):
        path = tmp_path / "memories.json"
        path.write_text(json.dumps({"results": [{"id": "1", "memory": "m" * 4_000}]}))
        check_limit("import_bytes", lambda: memory.import_from("mem0", path))
        check_limit("import_bytes", lambda: memory.import_from("opus", path))
        check_limit("import_bytes", lambda: memory.conversation("c").load_from_file(path))


@pytest.mark.sqlite_suffices
def test_invalid_limits_are_rejected():
    for name, wrong in product(MemoryLimits.model_fields, [0, -1, 1.5, "1", True, None]):
        with pytest.raises(InvalidInput, match=f"{name} must be"):
            SMALL.replace(**{name: wrong})
    with pytest.raises(InvalidInput, match="limits must be MemoryLimits"):
        AgentMemory(limits={"batch": 1})
    with AgentMemorySaver.from_conn_string(":memory:", limits=SMALL) as saver:
        assert saver.database.limits == SMALL


@pytest.mark.sqlite_suffices
class TestDocumentation:
    PAGE = (ROOT / "docs" / "reference" / "limits.md").read_text(encoding="utf-8")

    def test_every_limit_is_documented(self):
        told = " ".join(MemoryLimits.__doc__.partition("Attributes:")[2].partition("Raises:")[0].split())
        each = re.findall(r"(\w+): (.*?) Default: (.*?)\.(?= \w+: |$| )", told)
        assert [name for name, _, _ in each] == [*MemoryLimits.model_fields]
        rows = [f"| `{name}` | {what} | {default} |" for name, what, default in each]
        assert rows == [line for line in self.PAGE.splitlines() if line.startswith("| `")]

    def test_fixed_limits_are_documented(self):
        rows = [f"| {what} | {most:,} |" for what, most in FIXED.items()]
        assert rows == [line for line in self.PAGE.splitlines() if re.match(r"\| [A-Z].* \| [\d,]+ \|$", line)]
