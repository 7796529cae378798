"""Correct uses of every public option, which type checkers accept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, assert_type

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime
from langgraph.store.base import IndexConfig
from psycopg_pool import ConnectionPool

from langchain_agentmem import (
    AgentMemory,
    AgentMemoryRetriever,
    AgentMemorySaver,
    AgentMemoryStore,
    Budget,
    CompactionNode,
    CompactionState,
    ConversationMemory,
    Experience,
    ExperienceSelector,
    Fact,
    FactsConfig,
    KGMemory,
    LayeredMemory,
    LayersConfig,
    ManagedConversationMemory,
    ManagedMemoryConfig,
    MemoryInjection,
    Message,
    Recollection,
    RememberFacts,
    Retention,
    SessionMemory,
    Tenants,
    TokenCounter,
    fact_tools,
    layer_tools,
)
from langchain_agentmem.layers.layer import Record

chat_model = FakeListChatModel(responses=["Well."])


def reply_text(messages: list[BaseMessage]) -> str:
    return str(messages[-1].content)


async def reply_message(messages: list[BaseMessage]) -> AIMessage:
    return AIMessage(reply_text(messages))


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    return word


def models(memory: AgentMemory) -> None:
    memory.compaction(chat_model)
    memory.compaction(chat_model | StrOutputParser())
    memory.compaction(chat_model.bind(stop=["."]).with_retry())
    memory.compaction(RunnableLambda(reply_text))
    memory.compaction(reply_text)
    memory.compaction(reply_message)
    memory.compaction(lambda messages: messages[0])
    memory.compaction("openai:gpt-5-mini")
    memory.compaction(None)


def parts(memory: AgentMemory, config: RunnableConfig, path: Path) -> None:
    assert_type(memory.checkpointer, AgentMemorySaver)
    assert_type(memory.store, AgentMemoryStore)
    assert_type(memory.conversation("monday", ("ada",), retention=Retention()), ConversationMemory)
    assert_type(memory.managed_conversation(model=reply_text, config=ManagedMemoryConfig()), ManagedConversationMemory)
    assert_type(memory.session(config, namespace=["ada"]), SessionMemory)
    assert_type(memory.layers("ada", settings=LayersConfig(), model=chat_model), LayeredMemory)
    assert_type(memory.layers(config, scope="thread"), LayeredMemory)
    assert_type(memory.facts({"configurable": {"thread_id": "1"}}, model=reply_text, settings=FactsConfig()), KGMemory)
    assert_type(memory.remember_facts(reply_text, branch="ada", roles=["user"]), RememberFacts)
    assert_type(memory.within(user_id="ada"), AgentMemory)
    ConversationMemory(path, "monday")
    ConversationMemory(memory, "monday")
    KGMemory("postgresql://host/name", "ada", model=reply_message)
    LayeredMemory(memory.database, "ada")


def tenants(pool: ConnectionPool[Any]) -> None:
    with Tenants(pool, str.lower, max_open=10, timeout=5.0).of("ada") as memory:
        assert_type(memory, AgentMemory)


def indexes(theirs: IndexConfig, path: Path) -> None:
    AgentMemory(path, index=theirs)
    AgentMemory(path, index={"embed": "static", "fields": ["text"]})
    AgentMemoryStore(path, index={"embed": "static", "text_fields": ["text"]}, ttl={"default_ttl": 60})
    AgentMemoryStore.from_conn_string("agent.db", index=theirs)


def nodes(state: CompactionState, runtime: Runtime[None]) -> CompactionState:
    with AgentMemory() as memory:
        memory.layers(runtime).core.set("city", "Lisbon", importance=4, ttl=60)
        memory.session(runtime)
        memory.facts(runtime)
    return state


def tools(given: ToolRuntime[None, CompactionState]) -> None:
    with AgentMemory() as memory:
        memory.layers(given)
        memory.thread_store.at(given)
        memory.inject(given)


def made_by_type(memory: AgentMemory) -> None:
    assert_type(memory.create(), ConversationMemory | SessionMemory | LayeredMemory | KGMemory)
    memory.create("kg", branch_or_config="ada", model=reply_text)


def contexts(memory: AgentMemory) -> None:
    node = memory.compaction(
        reply_text, ManagedMemoryConfig(),
        shrink=False, conversation_id="c", namespace=("a",), tools=[look_up, {"name": "f"}, reply_text],
        system="Be kind.",
        window=100_000,
    )  # fmt: skip
    assert_type(node, CompactionNode)
    builder = StateGraph(CompactionState)
    builder.add_node("compact", node)
    builder.add_edge(START, "compact")
    builder.compile(checkpointer=memory.checkpointer, store=memory.store)
    injection = memory.inject(
        "ada", namespace=("a",), query=str, kinds=["message"], limit=4, budget={"core": 500, "unit": "tokens"},
        role="user",
    )  # fmt: skip
    assert_type(injection, MemoryInjection)
    memory.inject(memory.layers("ada"), budget=Budget(total=2_000))
    memory.inject(budget=2_000) | chat_model
    handler = memory.audit.handler(redact=True)
    chat_model.invoke("Hello", {"callbacks": [handler]})


def searches(memory: AgentMemory, retriever: AgentMemoryRetriever) -> None:
    day = datetime(2026, 1, 1, tzinfo=UTC)
    found = memory.search("tea", namespace=("a",), limit=3, kinds=["fact"], before=day, order="time")
    assert_type(found, list[Recollection])
    retriever = memory.retriever(
        namespace=("a",), k=4, kinds=["message"], conversation_id="c", roles=["user"], before=day, after=day,
        everything=False, abandoned=True, order="score", tags=["t"], metadata={"a": 1}, name="r",
    )  # fmt: skip
    AgentMemoryRetriever(memory=memory, limit=3)
    retriever | (lambda documents: documents[0].page_content)


def conversations(chat: ConversationMemory) -> None:
    assert_type(chat.add(role="user", content="Hello.", images=["a.png"]), str)
    chat.add(HumanMessage("Hello."))
    chat.add({"role": "user", "content": [{"type": "text", "text": "Hello."}]})
    chat.add(role="assistant", tool_calls=[{"name": "look_up", "args": {}, "id": "1"}])
    chat.update("id", content="Hi.", name=None, created_at=datetime.now(UTC))
    chat.replace_memory(-1, role="user", content="Hi.")
    chat.replace_memory(0, Message(role="user", content="Hi."))
    TokenCounter(chat_model).count([HumanMessage("Hi."), ("user", "Hi."), "Hi.", {"role": "user", "content": "Hi."}])


def facts(kg: KGMemory) -> None:
    day = datetime(2026, 1, 1, tzinfo=UTC)
    assert_type(kg.add_fact("user", "Ana", "lives in", "Lisbon", valid_from=day, source="message-1"), str)
    kg.add_fact("user", "Ana", "knows", "Ben", source=[("message-1", "monday"), HumanMessage("…", id="m")])
    kg.update("id", subject="Ana", obj="Porto", valid_to=None, confidence=0.5)
    kg.update("id", content="I live in Porto.")
    kg.replace_memory(0, predicate="lives in")
    assert_type(kg.as_of(day, subject="Ana"), list[Fact])
    kg.format_for_prompt("Ana", 500)
    fact_tools(kg)


def layers(layered: LayeredMemory, memory: AgentMemory) -> None:
    layered.write({"city": {"value": "Lisbon", "importance": 5}}, ["A note."], {"content": "A record.", "tags": ["a"]})
    layered.core.set("city", "Lisbon", ttl=datetime.now(UTC))
    assert_type(layered.archival.search("tea"), list[Record])
    layered.context("tea")
    layer_tools(layered, model=reply_text)


def experiences(memory: AgentMemory, path: Path) -> None:
    library = memory.experiences(path, subfolders=True)
    selector = library.selector(
        role="Planner", model=reply_text, strategy="auto", template="{experiences} {user_query} {context}",
        max_selected=3, session=memory.session, query=str, enabled=True, timeout=5,
    )  # fmt: skip
    assert_type(selector, ExperienceSelector)
    ExperienceSelector.from_config(
        {}, library, {"small": "openai:gpt-5-mini", "own": reply_text}, role="Planner", timeout=5
    )
    assert_type(library.add(Experience(exp_id="1", when="…", what="…")), Path)


async def awaited(memory: AgentMemory, layered: LayeredMemory) -> None:
    assert_type(await memory.asearch("tea"), list[Recollection])
    assert_type(await memory.conversation("c").aadd(role="user", content="Hi."), str)
    await memory.conversation("c").aupdate("id", content="Hi.")
    await memory.facts("ada").areplace_memory(0, subject="Ana")
    await memory.facts("ada").aadd_fact("user", "Ana", "knows", "Ben", confidence=0.9)
    await layered.acontext("tea")


MODELS: list[Callable[[list[BaseMessage]], str | Awaitable[AIMessage]]] = [reply_text, reply_message]
