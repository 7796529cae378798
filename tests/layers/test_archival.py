"""Archival memory: records with tags, partial updates and search."""

import pytest

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.model_calls import written_by
from langchain_agentmem.layers.layered_memory import LayeredMemory
from langchain_agentmem.layers.memory_layers import draft_record
from langchain_agentmem.rewinding.branches import apply_change

pytestmark = pytest.mark.sqlite_suffices


class TestRecords:
    def test_get_returns_a_record_by_its_id(self, layers):
        record_id = layers.archival.write("Guided scheduling wins.", tags=["results", "openmp", "results"])
        record = layers.archival.get(record_id)
        assert (record.id, record.content, record.tags) == (record_id, "Guided scheduling wins.", ("results", "openmp"))
        assert record.created_at == record.updated_at
        assert layers.archival.get("nobody") is None
        assert layers.archival.update("nobody", "text") is False
        assert layers.archival.delete("nobody") is False

    def test_update_changes_only_the_given_fields(self, layers):
        record_id = layers.archival.write("one", tags=["a"])
        assert layers.archival.update(record_id, "two") is True
        assert (layers.archival.get(record_id).content, layers.archival.get(record_id).tags) == ("two", ("a",))
        assert layers.archival.update(record_id, tags=["b", "c"]) is True
        record = layers.archival.get(record_id)
        assert (record.content, record.tags) == ("two", ("b", "c"))
        assert record.created_at < record.updated_at
        layers.archival.update(record_id, tags=[])
        assert layers.archival.get(record_id).tags == ()

    def test_delete_removes_a_record_from_search_and_storage(self, layers, memory, raw):
        record_id = layers.archival.write("a record about otters")
        assert layers.archival.delete(record_id) is True
        assert layers.archival.get(record_id) is None
        assert layers.archival.all() == layers.archival.search("otters") == []
        assert raw(memory, "select * from content") == []

    def test_all_returns_records_in_write_order(self, layers):
        ids = [layers.archival.write(f"record {number}", tags=[f"t{number % 2}"]) for number in range(5)]
        assert [record.id for record in layers.archival.all()] == ids
        assert [record.id for record in layers.archival.all(limit=2)] == ids[3:]
        assert [record.id for record in layers.archival.all(tags=["t0"])] == ids[::2]
        assert [record.id for record in layers.archival.all(tags=["t0"], limit=1)] == ids[4:]

    def test_secrets_in_content_and_tags_are_redacted(self, layers):
        token = "token = ghp_abcdefghijklmnopqrstuvwxyz0123456789"
        record_id = layers.archival.write(token, tags=["password=hunter2x"])
        record = layers.archival.get(record_id)
        assert "ghp_" not in record.content
        assert record.tags == ("password=***",)


class TestDeduplication:
    def test_equal_texts_become_one_record_with_merged_tags(self, layers, memory, raw):
        [own] = {layers.archival.write("Ada likes tea.", tags=tags) for tags in ([], ["a"], ["b", "a"], ["a"], [])}
        [record] = layers.archival.all()
        assert (record.id, record.tags) == (own, ("a", "b"))
        written = layers.write(archival=["Ada likes tea.", {"content": "New.", "tags": ["n"]}, "New."]).archival
        assert written == (own, written[1], written[1])
        tags = {each.content: each.tags for each in layers.archival.all()}
        assert tags == {"Ada likes tea.": ("a", "b"), "New.": ("n",)}
        before = raw(memory, "select count(*) as n from memory")
        assert layers.archival.write("New.") == written[1]
        assert raw(memory, "select count(*) as n from memory") == before  # nothing new, nothing written

    def test_equal_texts_merge_only_within_visible_branches(self, layers):
        early = layers.archival.write("Ada likes tea.")
        draft = layers.fork("draft")
        late = layers.archival.write("Ada likes rye.")
        assert layers.at("other").archival.write("Ada likes tea.") != early
        assert draft.archival.write("Ada likes rye.") != late
        assert draft.archival.write("Ada likes tea.", tags=["draft"]) == early
        assert (draft.archival.get(early).tags, layers.archival.get(early).tags) == (("draft",), ())
        layers.archival.delete(early)
        assert layers.archival.write("Ada likes tea.") != early

    def test_a_more_trusted_writer_raises_the_records_trust(self, layers, memory):
        with written_by("tool", "web"):
            record_id = layers.archival.write("Ada likes tea.")
        with written_by("user"):
            assert layers.archival.write("Ada likes tea.") == record_id
        with written_by("tool", "web"):
            assert layers.archival.write("Ada likes tea.") == record_id
        assert [each.id for each in memory.search("tea", trust="user")] == [record_id]

    def test_rewriting_an_expiring_record_removes_its_expiry(self, layers, memory, clock):
        now = memory.database.now()
        ending = draft_record("r", "Ada likes tea.", (), now)._replace(expires_at=now + 1_000_000_000)
        memory.database.engine.write(
            lambda tx: apply_change(tx, layers._context.point, lambda tx, change: change.drafts.append(ending), now)
        )
        assert layers.archival.write("Ada likes tea.") == "r"
        clock.pass_time(minutes=30)
        assert layers.archival.get("r").content == "Ada likes tea."


def test_invalid_arguments_are_rejected(layers):
    for tags in (5, {"a": 1}, [5], [""], ["a\nb"], ["x" * 501]):
        with pytest.raises(InvalidInput):
            layers.archival.write("text", tags=tags)
    with pytest.raises(InvalidInput, match="new content"):
        layers.archival.update("id")
    for limit in (-1, 1.5, True, "8"):
        with pytest.raises(InvalidInput, match="limit"):
            layers.archival.search("text", limit=limit)


class TestSearch:
    @pytest.fixture
    def layers(self, memory):
        layers = LayeredMemory(memory, "main")
        self.ids = [
            layers.archival.write(text, tags=tags.split())
            for text, tags in (
                ("OpenMP: guided scheduling beats dynamic scheduling by 12 %.", "results cpu"),
                ("The GPU port is slower than expected; memory bandwidth.", "results gpu"),
                ("Maya prefers tea over coffee.", "people"),
                ("Kernels are compiled with -O3.", "cpu"),
            )
        ]
        return layers

    def test_search_ranks_hits_and_requires_all_tags(self, layers):
        found = layers.archival.search("which scheduling is best?")
        assert found[0].id == self.ids[0]
        assert found[0].score > 0
        assert "scheduling" in found[0].why.terms
        assert [record.id for record in layers.archival.search("*", tags=["results", "gpu"])] == [self.ids[1]]
        assert layers.archival.search("scheduling", tags=["results", "people"]) == []

    def test_search_filters_by_tags_before_the_limit(self, layers):
        wanted = layers.archival.write("openmp scheduling", tags=["wanted"])
        for number in range(30):
            layers.archival.write(f"openmp scheduling {number}", tags=["other"])
        assert [each.id for each in layers.archival.search("openmp", limit=1, tags=["wanted"])] == [wanted]

    def test_a_star_query_returns_all_records_newest_first(self, layers):
        assert [record.id for record in layers.archival.search("*")] == self.ids[::-1]
        assert [record.id for record in layers.archival.search(" * ", limit=2)] == self.ids[:1:-1]
