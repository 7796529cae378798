"""`AgentMemoryRetriever`: search in LangChain chains, with filters and overrides."""

import json
from datetime import UTC, datetime

import pytest
from langchain_core.documents import Document
from langchain_core.load import dumps
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_tests.integration_tests import RetrieversIntegrationTests

from langchain_agentmem import AgentMemoryRetriever, InvalidInput
from langchain_agentmem.search.ranking import Weights
from tests.tracing.trees import Collector

pytestmark = pytest.mark.sqlite_suffices


class TestStandard(RetrieversIntegrationTests):
    """LangChain's standard tests of a retriever."""

    @pytest.fixture(autouse=True)
    def _filled(self, memory):
        chat = memory.conversation("c", ("alice",))
        for city in ("Lisbon", "Porto", "Faro", "Evora"):
            chat.add(role="user", content=f"My sister lived in {city}.")
        self.memory = memory

    @property
    def retriever_constructor(self):
        return AgentMemoryRetriever

    @property
    def retriever_constructor_params(self):
        return {"memory": self.memory, "namespace": ("alice",)}

    @property
    def retriever_query_example(self):
        return "Where did my sister live?"


@pytest.fixture
def filled(memory):
    at = datetime(2025, 5, 1, tzinfo=UTC)
    for who in ("alice", "bob"):
        chat = memory.conversation("c", (who,))
        for n, role in enumerate(("user", "assistant")):
            chat.add({"role": role, "content": f"{who} likes tea {n}", "name": who.title(), "created_at": at})
    memory.store.put(("alice", "likes"), "drink", {"text": "tea, green"})
    return memory


def texts(documents):
    return sorted(each.page_content for each in documents)


class TestDocuments:
    async def test_documents_equal_the_search_results(self, filled):
        found = filled.search("who likes tea?", namespace=("alice",))
        documents = filled.retriever(namespace=("alice",)).invoke("who likes tea?")
        assert await filled.retriever(namespace=("alice",)).ainvoke("who likes tea?") == documents
        assert [(each.id, each.page_content) for each in documents] == [(each.id, each.text) for each in found]
        assert [each.metadata["score"] for each in documents] == [each.score for each in found]
        assert len(documents) == 3

    def test_metadata_describes_the_entry_as_json(self, filled):
        documents = filled.retriever(namespace=("alice",)).invoke("tea")
        message = next(each for each in documents if each.page_content == "alice likes tea 0")
        metadata = dict(message.metadata)
        assert isinstance(metadata.pop("score"), float)
        assert "tea +" in metadata.pop("why")
        said = {"created_at": "2025-05-01T00:00:00+00:00", "role": "user", "name": "Alice"}
        assert metadata == {"kind": "message", "namespace": ["alice"], "conversation_id": "c", **said}
        item = next(each for each in documents if each.metadata["kind"] == "item")
        assert (item.id, item.metadata["namespace"]) == ("drink", ["alice", "likes"])
        assert item.metadata["conversation_id"] is None
        assert not item.metadata.keys() & {"role", "name"}
        for each in documents:
            assert json.loads(json.dumps(each.metadata)) == each.metadata


class TestArguments:
    def test_filters_limit_the_documents(self, filled):
        filled.conversation("d", ("alice",)).add(role="user", content="more tea")

        def found(**arguments):
            return texts(filled.retriever(namespace=("alice",), **arguments).invoke("tea"))

        both = ["alice likes tea 0", "alice likes tea 1"]
        assert found() == [*both, "more tea", "tea, green"]
        assert found(kinds=["item"]) == ["tea, green"]
        assert found(conversation_id="c") == both
        assert found(roles=["assistant"]) == ["alice likes tea 1"]
        assert found(before=datetime(2025, 6, 1)) == both
        assert found(after=datetime(2025, 6, 1, tzinfo=UTC), kinds=("message",)) == ["more tea"]
        assert found(weights=Weights(date=0.0)) == found()
        assert found(limit=0) == found(k=0) == found(kinds=[]) == found(roles=[]) == []

    def test_invoke_arguments_override_the_configuration(self, filled):
        retriever = filled.retriever(namespace=("alice",), k=1)
        assert retriever.limit == 1
        assert len(retriever.invoke("tea")) == 1
        assert len(retriever.invoke("tea", k=2)) == len(retriever.bind(limit=2).invoke("tea")) == 2
        assert texts(retriever.invoke("tea", limit=9, namespace=("bob",), roles=["user"])) == ["bob likes tea 0"]
        assert len(retriever.invoke("tea")) == 1

    async def test_invalid_arguments_are_rejected_immediately(self, filled):
        for wrong in (
            {"limit": -1}, {"limit": "3"}, {"limit": True}, {"k": 1.5}, {"k": 1, "limit": 1}, {"kinds": ["dream"]},
            {"kinds": "message"}, {"roles": "user"}, {"namespace": "alice"}, {"namespace": ("",)},
            {"conversation_id": ""}, {"before": "yesterday"}, {"after": 3}, {"weights": {"date": 1}}, {"dept": 3},
        ):  # fmt: skip
            with pytest.raises(InvalidInput):
                filled.retriever(**wrong)
            with pytest.raises(InvalidInput):
                filled.retriever().invoke("tea", **wrong)
            with pytest.raises(InvalidInput):
                await filled.retriever().ainvoke("tea", **wrong)
        for wrong in ({"tags": 3}, {"metadata": "x"}, {"name": 5}):  # what LangChain refuses
            with pytest.raises(InvalidInput, match=next(iter(wrong))):
                filled.retriever(**wrong)
        for wrong in ({}, {"memory": "agent.db"}, {"memory": None}):
            with pytest.raises(InvalidInput, match="AgentMemory"):
                AgentMemoryRetriever(**wrong)

    def test_repr_and_dumps_hide_the_memory(self, memory):
        retriever = memory.retriever(namespace=("a",))
        assert "AgentMemory(" not in repr(retriever)
        assert "memory" not in retriever.model_dump()
        assert "AgentMemory(" not in dumps(retriever)


class TestChains:
    async def test_namespace_defaults_to_that_of_the_run(self, filled):
        retriever = filled.retriever(kinds=["message"], roles=["user"])
        bob = {"configurable": {"agentmem_namespace": ("bob",)}}

        within = RunnableLambda(lambda question: list(retriever.invoke(question)))
        for chain in (retriever, RunnableLambda(str) | retriever, within):
            assert texts(chain.invoke("tea", bob)) == ["bob likes tea 0"]
            assert texts(await chain.ainvoke("tea", bob)) == ["bob likes tea 0"]
            assert texts(chain.batch(["tea"], bob)[0]) == ["bob likes tea 0"]
        assert texts(retriever.invoke("tea")) == []  # nobody said anything in the root
        everywhere = filled.retriever(kinds=["message"], roles=["user"], everything=True)
        assert texts(everywhere.invoke("tea")) == ["alice likes tea 0", "bob likes tea 0"]
        alices = filled.retriever(namespace=("alice",), roles=["user"])
        assert texts(alices.invoke("tea", bob)) == ["alice likes tea 0"]

    def test_limit_is_a_configurable_field(self, filled):
        retriever = filled.retriever(namespace=("alice",)).configurable_fields(limit=ConfigurableField(id="many"))
        assert len(retriever.invoke("tea")) == 3
        assert len(retriever.invoke("tea", {"configurable": {"many": 2}})) == 2

    async def test_trace_has_one_retriever_run(self, filled):
        retriever = filled.retriever(namespace=("alice",), k=1, tags=["own"], metadata={"team": "blue"})
        chain = RunnableLambda(str) | retriever
        synchronous, awaited = Collector(), Collector()
        chain.invoke("tea", {"callbacks": [synchronous]})
        await chain.ainvoke("tea", {"callbacks": [awaited]})
        for collector in (synchronous, awaited):
            [root] = collector.roots
            step = root.child_runs[-1]
            assert (step.name, step.run_type, step.error) == ("memory.retrieval.search", "retriever", None)
            assert [type(each) for each in step.outputs["documents"]] == [Document]
            assert (step.inputs, step.child_runs, "own" in step.tags) == ({"query": "tea"}, [], True)
            told = step.extra["metadata"]
            assert (told["limit"], told["agentmem_namespace"], told["team"]) == (1, "alice", "blue")
            assert told["ls_retriever_name"] == "agentmemory"
