"""Isolation of clients in their namespaces."""

from __future__ import annotations

import json

import pytest
from langchain_agentmem_mcp import create_server, tokens_of
from mcp import Client, MCPError

from langchain_agentmem import AgentMemory, InvalidInput

from .conftest import asking

SECRET = "The treasure lies under the quince tree."


@pytest.fixture
def shared(url):
    """A memory in which Bob, and somebody whose name begins like Alice's, keep what Alice must not see."""
    with AgentMemory(url) as memory:
        for who in (("bob",), ("alice2",), ()):
            memory.conversation("treasure", who).add(role="user", content=SECRET)
            memory.store.put((*who, "x"), "treasure", {"text": SECRET})
            layers = memory.layers("main", who)
            layers.core.set("treasure", SECRET)
            layers.archival.write(SECRET)
            memory.facts("main", who).add_fact("user", "treasure", "lies under", "the quince tree")
        yield memory


class TestMemoryWithin:
    async def test_namespaced_memory_is_served(self, url):
        with AgentMemory(url, namespace=("users", "{user_id}")) as memory:
            for who in ("ada", "ben"):
                own = memory.within(user_id=who)
                own.conversation("talk").add(role="user", content=f"The heron of {who}.")
                own.layers().core.set("bird", f"{who}'s heron")
            async with Client(create_server(memory.within(user_id="ada"))) as client:
                [hit] = (await client.call_tool("search_memory", {"query": "heron"})).structured_content["results"]
                core = (await client.read_resource("agentmem://core")).contents[0].text
                prompt = (await client.get_prompt("with_memory", {"task": "A heron?"})).messages[0].content.text
                heard = await client.call_tool("remember", {"text": "It is grey."})
            assert "heron of ada" in json.dumps(hit)
            assert "ada's heron" in core
            assert "heron of ada" in prompt
            assert "ben" not in core + prompt
            assert not heard.is_error
            assert [each.text for each in memory.within(user_id="ada").search("grey")] == ["It is grey."]
            with pytest.raises(InvalidInput, match="within"):
                create_server(memory)


class TestRootNamespace:
    async def test_root_namespace_searches_the_whole_database(self, shared):
        async with Client(create_server(shared)) as client:
            found = await asking(client)("search_memory", query="treasure", kinds=["message"])
        assert sorted(each["namespace"] for each in found["results"]) == [[], ["alice2"], ["bob"]]


class TestIsolation:
    async def test_other_namespaces_are_invisible(self, shared):
        [theirs] = shared.search("treasure", namespace=("bob",), kinds=["message"])
        [record] = shared.search("treasure", namespace=("bob",), kinds=["record"])
        async with Client(create_server(shared, namespace=("alice",))) as client:
            answers = [
                await client.call_tool(name, arguments)
                for name, arguments in (
                    ("search_memory", {"query": "treasure"}),
                    ("search_memory", {"query": "treasure", "conversation_id": "treasure"}),
                    ("search_memory", {"query": "treasure", "namespace": ["..", "bob"]}),
                    ("search_memory", {"query": "treasure", "namespace": ["bob"]}),
                    ("search_facts", {"query": "*"}),
                    ("facts_at", {}),
                    ("fact_history", {"subject": "treasure"}),
                    ("read_core_memory", {}),
                    ("list_conversations", {}),
                    ("read_conversation", {"conversation_id": "treasure"}),
                    ("read_conversation", {"conversation_id": "treasure", "around": theirs.id}),
                    ("forget", {"record_id": record.id}),
                    ("delete_core_memory", {"key": "treasure"}),
                )
            ]
            text = json.dumps([each.model_dump(mode="json") for each in answers])
            for uri in ("agentmem://conversations/treasure", "agentmem://conversations/..%2Fbob%2Ftreasure"):
                with pytest.raises(MCPError, match="There is no conversation"):
                    await client.read_resource(uri)
            core = (await client.read_resource("agentmem://core")).contents[0].text
            prompt = (await client.get_prompt("with_memory", {"task": "Where does it lie?"})).messages[0].content.text
        for told in ("quince", "alice2"):
            assert told not in text + core + prompt
        assert shared.layers("main", ("bob",)).core.get() == {"treasure": SECRET}
        assert shared.layers("main", ("bob",)).archival.get(record.id)

    async def test_writes_stay_in_the_namespace_or_below(self, shared):
        async with Client(create_server(shared, namespace=("alice",))) as client:
            ask = asking(client)
            for below in (None, ["work"], ["..", "bob"]):
                await ask("remember", text="A pear.", namespace=below)
                await ask("set_core_memory", key="fruit", value="pear", namespace=below)
                await ask("add_fact", subject="pear", predicate="is", object="ripe", namespace=below)
            places = {tuple(each["namespace"]) for each in (await ask("search_memory", query="pear"))["results"]}
            assert places == {(), ("work",), ("..", "bob")}
            assert len((await ask("search_memory", query="pear", namespace=["work"]))["results"]) == 2
        assert shared.search("pear", namespace=("bob",)) == []
        assert len(shared.search("pear", namespace=("alice",))) == 6

    async def test_namespaces_are_relative_to_the_client(self, memory):
        memory.conversation("talk", ("company", "alice", "work")).add_user_message("Pears.")
        async with Client(create_server(memory, namespace=("company", "alice"))) as client:
            ask = asking(client)
            shown = [await ask("search_memory", query="pears"), await ask("list_conversations")]
            assert shown[0]["results"][0]["namespace"] == ["work"]
            assert "company" not in json.dumps(shown)


class TestTokens:
    async def test_missing_token_is_refused(self, shared):
        server = create_server(shared, tokens={"a-long-random-token": ("alice",)})
        async with Client(server) as client:
            for tool in (await client.list_tools()).tools:
                given = {"query": "x", "text": "x", "record_id": "x", "key": "x", "value": "x", "conversation_id": "x"}
                given |= {"subject": "x", "predicate": "x", "object": "x"}
                arguments = {name: value for name, value in given.items() if name in tool.input_schema["properties"]}
                result = await client.call_tool(tool.name, arguments)
                assert result.is_error
                assert "bearer token" in result.content[0].text
            with pytest.raises(MCPError, match="bearer token"):
                await client.read_resource("agentmem://core")
            with pytest.raises(MCPError, match="bearer token"):
                await client.get_prompt("with_memory", {"task": "x"})

    def test_tokens_are_read_from_json(self):
        text = '{"a-long-random-token": "team/alice", "another-long-token": ["bob"]}'
        assert tokens_of(text) == {"a-long-random-token": ("team", "alice"), "another-long-token": ("bob",)}

    @pytest.mark.parametrize(
        "text",
        [
            "a-long-random-token",
            "[]",
            "{}",
            '{"short": "alice"}',
            '{"a-long-random-\\u0000token": "alice"}',
            '{"a-long-random-token": ""}',
            '{"a-long-random-token": []}',
            '{"a-long-random-token": "a//b"}',
            '{"a-long-random-token": null}',
        ],
    )
    def test_invalid_tokens_are_refused_without_quoting_them(self, text):
        with pytest.raises(InvalidInput) as refused:
            tokens_of(text)
        assert "a-long-random" not in str(refused.value).replace('{"a-long-random-token": "alice"}', "")

    @pytest.mark.parametrize(
        "given",
        [
            {"namespace": ("a\x1fb",)},
            {"namespace": "alice"},
            {"branch": ""},
            {"tokens": {"a-long-random-token": ("a\nb",)}},
            {"tokens": {"a-long-random-token": (5,)}},
            {"tokens": {"a-long-random-token": ()}},
            {"tokens": {}},
        ],
    )
    def test_invalid_server_options_are_refused(self, memory, given):
        with pytest.raises(InvalidInput):
            create_server(memory, **given)
