"""Search queries, filters and results."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.search.analysis import extract_terms

pytestmark = pytest.mark.sqlite_suffices

UNUSUAL_QUERIES = [
    "", " ", '"', "'", "''; drop table entry; --", '"unclosed', "cat AND dog", "cat NEAR/2 dog", "NOT cat", "cat*",
    "^cat", "terms : cat", "{a b} : c", "cat + dog", "(cat", "a & b | !c <-> d:*", "\\", "cat\\'s", "%s %(x)s :x ? $1",
    "😀", "cat\0dog", "\ud800 cat", "\U00020000\U00020001", "the of and", "cat " * 25_000,
    " ".join(f"w{n}" for n in range(20_000)),
]  # fmt: skip


@pytest.fixture
def conversation_memory(memory):
    chat = memory.conversation("c")
    chat.add(role="user", content="The cat sat on the mat.", name="Ann")
    chat.add(role="assistant", content="A dog and a cat.")
    chat.add(role="user", content="to be or not to be")
    return memory


class TestQueries:
    def test_unusual_queries_find_matching_messages(self, conversation_memory):
        for query in UNUSUAL_QUERIES:
            found = {each.text for each in conversation_memory.search(query)}
            assert "cat" not in query or {"The cat sat on the mat.", "A dog and a cat."} <= found, query[:20]

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.text(max_size=60))
    def test_message_is_found_by_its_own_text(self, memory, text):
        chat = memory.conversation("c")
        message_id = chat.add(role="user", content=text)
        found = memory.search(text, limit=1000)
        assert (message_id in {each.id for each in found}) == bool(extract_terms(text)), extract_terms(text)
        chat.remove_by_id(message_id)


def test_first_results_do_not_depend_on_the_limit(memory):
    luck, fruits = random.Random(5), ["apple", "pear", "plum", "fig", "kiwi", "lime", "melon"]
    for number in range(6):
        texts = [" ".join([f"day{n}", *luck.choices(fruits, k=luck.randint(1, 9))]) for n in range(90)]
        roles = luck.choices(["user", "assistant"], k=90)
        messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
        memory.conversation(f"c{number}").add_messages(messages)
    for query in ("apple", "Which pear or plum did I buy?", "fig kiwi lime melon " * 20):
        everything = memory.search(query, limit=540)
        assert len(everything) > 200
        scores = [each.score for each in everything]
        assert scores == sorted(scores, reverse=True)
        assert scores == pytest.approx([sum(each.why.parts().values()) for each in everything])
        for limit in (1, 10, 50, 100, 300):
            found = [each.id for each in memory.search(query, limit=limit)]
            assert found[:10] == [each.id for each in everything[:limit]][:10]


class TestFilters:
    def test_invalid_search_arguments_are_rejected(self, memory):
        for name, values in {
            "limit": [-1, 1.5, True, 10**9], "kinds": [["dream"], "message"], "roles": ["user"], "namespace": ["a"],
            "conversation_id": [""], "before": ["yesterday"], "weights": [0.5],
        }.items():  # fmt: skip
            for value in values:
                with pytest.raises(InvalidInput):
                    memory.search("x", **{name: value})
        with pytest.raises(InvalidInput):
            memory.search(b"x")

    def test_invalid_weights_create_no_database(self, tmp_path):
        with pytest.raises(InvalidInput, match="weights"):
            AgentMemory(tmp_path / "memory.db", weights={"date": 1.0})
        assert not list(tmp_path.iterdir())


def test_result_has_its_source_and_score_explanation(conversation_memory):
    [found] = conversation_memory.search("Who sat on a mat?", limit=1)
    assert (found.kind, found.text, found.conversation_id) == ("message", "The cat sat on the mat.", "c")
    assert found.value.name == "Ann"
    assert set(found.why.terms) == {"sat", "mat"}
    assert found.score == pytest.approx(sum(found.why.parts().values()))
    assert str(found.why).startswith("sat +")
