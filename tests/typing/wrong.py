"""Wrong uses: a type checker reports every marked line and no other."""

from __future__ import annotations

from langchain_core.messages import BaseMessage

from langchain_agentmem import (
    AgentMemory,
    AgentMemoryRetriever,
    AgentMemorySaver,
    AgentMemoryStore,
    ConversationMemory,
    ExperienceLibrary,
    ExperienceSelector,
    KGMemory,
    LayeredMemory,
    RememberFacts,
    SessionMemory,
    TokenCounter,
    layer_tools,
)


def counted(messages: list[BaseMessage]) -> int:
    return len(messages)


def parts(memory: AgentMemory) -> None:
    AgentMemory("agent.db", pool_sise=3)  # wrong: there is no such option
    AgentMemory(7)  # wrong: no path
    AgentMemory("agent.db", index={"embedding": "static"})  # wrong: it is called embed
    AgentMemoryStore("agent.db", index={"field": ["text"]})  # wrong: it is called fields
    AgentMemoryStore("agent.db", ttl={"default": 60})  # wrong: it is called default_ttl
    AgentMemory("agent.db", synchronous="OFF")  # wrong: "NORMAL" or "FULL"
    AgentMemorySaver.from_conn_string("agent.db", pool_sise=3)  # wrong: there is no such option
    memory.compaction(model=7)  # wrong: no model
    memory.compaction(counted)  # wrong: a model answers with text or a message
    memory.compaction(shrinks=True)  # wrong: there is no such option
    memory.compaction(window="big")  # wrong: a number
    memory.compaction(tools=[7])  # wrong: no tool
    memory.compaction(config={"threshold_tokens": 100})  # wrong: a ManagedMemoryConfig
    memory.layers(7)  # wrong: a name, a config or a runtime
    memory.layers("ada", scope="threads")  # wrong: "shared" or "thread"
    memory.facts("ada", model=7)  # wrong: no model
    memory.facts(["ada"])  # wrong: a name, a config or a runtime
    memory.session(session_id=1.5)  # wrong: no id
    memory.remember_facts()  # wrong: there is no model
    memory.remember_facts(None)  # wrong: there is no model
    memory.remember_facts(len, role=["user"])  # wrong: it is called roles
    memory.inject("ada", kind=["message"])  # wrong: it is called kinds
    memory.inject(limit="8")  # wrong: a number
    memory.inject(role="assistant")  # wrong: "user" or "system"
    memory.inject(budget="2000")  # wrong: a number, a mapping or a Budget
    memory.audit.handler(redacted=True)  # wrong: it is called redact
    memory.audit.handler(redact="yes")  # wrong: True, False or a function
    memory.studio(users="ada")  # wrong: it is called user


def made_by_type(memory: AgentMemory) -> None:
    memory.create(7)  # wrong: no name
    memory.create("session").core.get()  # wrong: a session has no layers


def searches(memory: AgentMemory) -> None:
    memory.search("tea", order="newest")  # wrong: "score" or "time"
    memory.search("tea", kinds=7)  # wrong: a list of kinds
    memory.search("tea", kinds=["messages"])  # wrong: "message"
    memory.retriever(kinds=("facts",))  # wrong: "fact"
    memory.inject(kinds=["recall"])  # wrong: "event"
    memory.audit.last(kinds=["todos"])  # wrong: "todo"
    memory.audit.todos("closed")  # wrong: "open" or "done"
    memory.corrections.history("archival", "id")  # wrong: "record"
    memory.retriever(limits=3)  # wrong: it is called limit
    memory.retriever(before="2026-01-01")  # wrong: a datetime
    AgentMemoryRetriever(limit=3)  # wrong: of which memory
    memory.search("tea")[0].txt.upper()  # wrong: it is called text


def conversations(memory: AgentMemory, chat: ConversationMemory) -> None:
    ConversationMemory(7)  # wrong: no memory
    SessionMemory(memory, session_id=1.5)  # wrong: no id
    chat.add(role="user", contents="Hi.")  # wrong: it is called content
    chat.add(role="user", content=7)  # wrong: text, a dictionary or a list
    chat.add(7)  # wrong: no message
    chat.add(role="assistant", tool_calls=["look_up"])  # wrong: values or dictionaries
    chat.update("id", contents="Hi.")  # wrong: it is called content
    chat.update(content="Hi.")  # wrong: of which message
    chat.replace_memory(0, rôle="user")  # wrong: it is called role
    chat.replace_memory("0", role="user")  # wrong: a number
    chat.add_work(role="user", content="Hi.")  # wrong: there is no such method
    TokenCounter(7)  # wrong: it cannot count
    TokenCounter().count(7)  # wrong: no messages


def facts(kg: KGMemory, memory: AgentMemory) -> None:
    kg.add_fact("user", "Ana", "lives in", "Lisbon", valid_from="March")  # wrong: a datetime
    kg.add_fact("user", "Ana", "lives in", "Lisbon", sources="message-1")  # wrong: it is called source
    kg.update("id", objekt="Porto")  # wrong: it is called obj
    kg.update("id", confidence="high")  # wrong: a number
    kg.format_for_prompt("Ana", "500")  # wrong: a number, a mapping or a Budget
    RememberFacts(memory, 7)  # wrong: no model
    RememberFacts(memory, None)  # wrong: there is no model


def layers(layered: LayeredMemory, memory: AgentMemory) -> None:
    layered.core.set("city", "Lisbon", importance="high")  # wrong: a number
    layered.core.set("city", "Lisbon", ttl="tomorrow")  # wrong: seconds or a datetime
    layered.write(recall=7)  # wrong: texts or mappings
    layered.read("everything")  # wrong: there is no such layer
    layered.consolidate("urgent")  # wrong: there is no such level
    layered.core.setting_of("city", "Lisbon")  # wrong: there is no such method
    layer_tools(7)  # wrong: no memory


def experiences(library: ExperienceLibrary) -> None:
    library.selector(rol="Planner")  # wrong: it is called role
    library.selector(strategy="words")  # wrong: there is no such strategy
    library.selector(max_selected="3")  # wrong: a number
    library.add("Be kind.")  # wrong: an Experience
    ExperienceSelector.from_config({}, library, role="Planner", time=5)  # wrong: it is called timeout


async def awaited(chat: ConversationMemory, kg: KGMemory) -> None:
    await chat.aadd(role="user", contents="Hi.")  # wrong: it is called content
    await chat.aupdate("id", contents="Hi.")  # wrong: it is called content
    await kg.aupdate("id", confidence="high")  # wrong: a number
    chat.aadd(role="user", content="Hi.").upper()  # wrong: not awaited
