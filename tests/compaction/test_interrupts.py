"""Models, processors and functions may interrupt their graph, which then resumes with the answer."""

import pytest
from langchain.agents import create_agent
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

from langchain_agentmem import AgentMemory, ManagedMemoryConfig, MemoryMiddleware
from langchain_agentmem.base.events import CompactionEvent
from langchain_agentmem.compaction import CompactionState, summary_in
from langchain_agentmem.layers.layer import LayersConfig
from langchain_agentmem.layers.layer_tools import layer_tools
from tests.compaction.summarizers import AgentModel, Summarizer, budget, talk
from tests.compaction.test_middleware import LARGE, SMALL, agent_of, question
from tests.support.graphs import at, line
from tests.support.models import calling
from tests.word_embeddings import WordEmbeddings

pytestmark = pytest.mark.sqlite_suffices


def interrupting_model():
    """A model that asks a person before it summarizes."""
    return Summarizer(usual=lambda messages: interrupt("May I?") and Summarizer().summary())


async def invoke_and_resume(do, graph, given, asked="May I?"):
    """Invoke a graph that interrupts once, resume it, and return its result."""
    stopped = await do(graph, "invoke", given, at())
    assert [each.value for each in stopped["__interrupt__"]] == [asked]
    return await do(graph, "invoke", Command(resume="Seven."), at())


async def test_summarizing_model_can_interrupt_a_node(url, do):
    events = []
    with AgentMemory(url, hooks=[events.append]) as memory:
        seen = []

        def answer(state):
            seen.append(state["llm_input_messages"])
            return {"messages": [AIMessage("done")]}

        graph = line(
            memory.checkpointer, memory.compaction(interrupting_model(), budget(600)), answer, state=CompactionState
        )
        await invoke_and_resume(do, graph, {"messages": talk(30)})
    [summary] = filter(None, map(summary_in, seen[0]))
    assert not summary.provisional
    statuses = [each.status for each in events if isinstance(each, CompactionEvent)]
    assert statuses == ["started", "started", "completed"], "nothing has failed"


def processor(messages, situation):
    return messages[-2:] if interrupt("May I?") else messages


def counter():
    """A counter of tokens that asks once."""
    answers = []

    def count(text: str) -> int:
        if not answers:
            answers.append(interrupt("May I?"))
        return len(text)

    return count


NODES = {  # each with how many rounds it is given, how many messages it shows, and what stands there
    "a processor": (lambda memory: memory.compaction(None, budget(600, processor_order=[processor])), 30, 2, ""),
    "a counter": (lambda memory: memory.compaction(None, ManagedMemoryConfig(token_counter=counter())), 1, 2, ""),
    "a function": (lambda memory: memory.inject("b", query=lambda _: interrupt("May I?")), 1, 3, "Ada"),
}


@pytest.mark.parametrize(("node", "rounds", "count", "word"), NODES.values(), ids=NODES)
async def test_node_callbacks_can_interrupt(memory, do, node, rounds, count, word):
    memory.layers("b").core.set("name", "Ada")
    graph = line(memory.checkpointer, node(memory), state=CompactionState)
    shown = (await invoke_and_resume(do, graph, {"messages": talk(rounds)}))["llm_input_messages"]
    assert len(shown) == count
    assert word in str(shown)


async def test_summarizing_model_can_interrupt_a_conversation(memory, do):
    chat = memory.managed_conversation("c", config=budget(600), model=interrupting_model())

    def add(state):
        if chat.get_raw_messages():  # they were added before the graph stopped
            chat.compact_if_needed()
        else:
            chat.add_messages(talk(30))

    async def aadd(state):
        if await chat.aget_raw_messages():
            await chat.acompact_if_needed()
        else:
            await chat.aadd_messages(talk(30))

    await invoke_and_resume(do, line(memory.checkpointer, RunnableLambda(add, aadd)), {"messages": []})
    assert any(summary_in(each) for each in chat.get_context())


async def test_interrupt_is_not_taken_for_an_overflow(memory, do):
    words = "prompt is too long: 9 tokens > 8 maximum"
    model = AgentModel(lambda messages: interrupt(words))
    agent = agent_of(memory, model, LARGE)
    done = await invoke_and_resume(do, agent, {"messages": [*talk(40), question(0)]}, words)
    assert len(model.asked) == 2, "once before the answer, and not again with a smaller context"
    assert done["messages"][-1].text == "Seven."


@pytest.mark.parametrize("config", [SMALL, LARGE], ids=["before the call", "after a refusal"])
async def test_summarizing_model_can_interrupt_an_agent(memory, do, config):
    refused = []

    def refuse(call):
        if config is LARGE and len(refused) < 2:  # once more when the graph goes on
            refused.append(call)
            return ContextOverflowError("too much")
        return None

    agent = agent_of(memory, AgentModel(refuse=refuse), config, summarizer=interrupting_model())
    done = await invoke_and_resume(do, agent, {"messages": [*talk(40), question(0)]})
    assert done["messages"][-1].text.startswith("answer")
    assert len(refused) == (2 if config is LARGE else 0)


async def invoke_tool(do, memory, tool, **arguments):
    """Call a tool that interrupts, and check that it succeeds."""
    call = "call", lambda state: {"messages": [calling(tool.name, **arguments)]}
    done = await invoke_and_resume(do, line(memory.checkpointer, call, ToolNode([tool])), {"messages": []})
    assert done["messages"][-1].status == "success"


async def test_compressing_model_can_interrupt_a_tool(memory, do):
    def asked(messages):
        return interrupt("May I?") and "short"

    settings = LayersConfig(recall_max_events=2, section_budgets={"archival_snippet": 20})
    layers = memory.layers("b", settings=settings, model=asked)
    for text in ("long " * 50, "The newest stay.", "All of them."):
        layers.recall.append("note", text)
    [tool] = [each for each in layer_tools(layers) if each.name == "mem_recall_summarize"]
    await invoke_tool(do, memory, tool)
    assert [each.content for each in layers.archival.all()] == ["short"]


async def test_embeddings_can_interrupt_a_search(new_database, do, caplog):
    class Asking(WordEmbeddings):
        def embed_documents(self, texts):
            return [super(Asking, self).embed_query(text) for text in texts]

        def embed_query(self, text):
            assert interrupt("May I?")
            return super().embed_query(text)

    with AgentMemory(new_database("sqlite"), index={"embed": Asking(16), "dims": 16}) as memory:
        memory.store.put(("birds",), "k", {"text": "herons"})
        memory.settle()

        def search(state):
            [found] = memory.store.search(("birds",), query="herons")
            return {"messages": [AIMessage(found.key)]}

        async def asearch(state):
            [found] = await memory.store.asearch(("birds",), query="herons")
            return {"messages": [AIMessage(found.key)]}

        graph = line(memory.checkpointer, RunnableLambda(search, asearch))
        done = await invoke_and_resume(do, graph, {"messages": []})
        assert done["messages"][-1].text == "k"
    assert caplog.messages == []


async def test_query_function_can_interrupt_a_middleware(memory, do):
    memory.layers("b").core.set("name", "Ada")
    model = AgentModel()
    middleware = MemoryMiddleware(memory, "b", query=lambda _: interrupt("May I?"))
    agent = create_agent(model, middleware=[middleware], checkpointer=memory.checkpointer)
    await invoke_and_resume(do, agent, {"messages": [question(0)]})
    assert len(model.asked) == 1
    assert "Ada" in str(model.asked)
