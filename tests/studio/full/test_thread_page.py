"""The thread page of Studio: state, memory, changes, compaction and prompts at any checkpoint."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import MessagesState
from langgraph.graph.message import _messages_delta_reducer
from langgraph.types import interrupt

from langchain_agentmem import AgentMemory
from langchain_agentmem.compaction import (
    ActiveContextPolicyConfig,
    CompactionNode,
    CompactionState,
    ManagedMemoryConfig,
    SummarizationConfig,
)
from tests.studio.markup import Page
from tests.support.graphs import line

NAMESPACE = ("users", "ada")


class State(MessagesState, total=False):
    note: str


def config(thread="t", **more):
    return {"configurable": {"thread_id": thread, "agentmem_namespace": NAMESPACE, **more}}


def graph_that_remembers(memory, text="{}"):
    """A graph whose every turn writes to each layer; `text` is what stands around what it writes."""

    def answer(state, config):
        turn = len(state["messages"]) // 2
        layers = memory.layers(config)
        layers.core.set(text.format("name"), text.format(f"core {turn}"))
        layers.recall.append(text.format("asked")[:60], text.format(f"event {turn}"))
        layers.archival.write(text.format(f"record {turn}"), tags=[text.format("tag")[:40]])
        memory.facts(config).add_fact("user", "Ana", text.format("visits"), text.format(f"city {turn}"))
        memory.thread_store.put(
            (text.format("prefs").replace(".", ""),), text.format("seat"), {"row": text.format(f"item {turn}")}
        )
        return {
            "messages": [AIMessage(text.format(f"answer {turn}"), id=f"a{turn}")],
            "note": text.format(f"note {turn}"),
        }

    return compiled(memory, answer)


def compiled(memory, answer, state=State):
    return line(memory.checkpointer, answer, state=state)


def ask(graph, text, key, **more):
    graph.invoke({"messages": [HumanMessage(text, id=key)]}, config(**more))


def newest(memory, thread="t"):
    return memory.checkpointer.history(config(thread)).checkpoints[0].checkpoint_id


class Pages:
    """The pages of one Studio, by what is asked of them."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser

    def __call__(self, path: str = "/thread", status: int = 200, **asked: Any) -> str:
        given = {"namespace": "users/ada", "id": "t", **asked}
        answer = self.browser.get(path, params={key: value for key, value in given.items() if value is not None})
        assert answer.status_code == status, answer.text
        return answer.text

    def follow(self, html: str, label: str) -> str:
        """The page behind a link."""
        [link] = dict.fromkeys(re.findall(rf'href="([^"]+)"[^>]*>{label}</a>', html))
        return self.browser.text_of(link.replace("&amp;", "&"))


@pytest.fixture
def pages(memory, browse) -> Pages:
    return Pages(browse(memory))


def step_of(html: str) -> int:
    return int(re.search(r"Checkpoint (\d+) of", html)[1])


class TestCheckpointNavigation:
    def test_links_visit_every_checkpoint(self, memory, pages):
        graph = graph_that_remembers(memory)
        for number in range(3):
            ask(graph, f"question {number}", f"h{number}")
        html, seen = pages(), []
        while True:
            seen.append(step_of(html))
            if ">Previous</a>" not in html:
                break
            html = pages.follow(html, "Previous")
        assert seen == list(range(9, 0, -1))
        assert step_of(pages.follow(html, "Last")) == 9
        assert step_of(pages.follow(pages.follow(html, "Next"), "First")) == 1

    def test_newest_checkpoint_is_default_and_slider_selects_others(self, memory, pages):
        graph = graph_that_remembers(memory)
        for each, text in enumerate(("Where is the kettle?", "And the cups?")):
            ask(graph, text, f"h{each}")
        html = pages()
        assert '<h1 dir="auto">Where is the kettle?</h1>' in html
        assert "answer 1" in html
        assert "note 1" in html
        assert "Checkpoint 6 of 6" in html
        for number, shown in ((1, 1), (4, 4), (6, 6), (7, 6), (999, 6)):
            html = pages(number=number)
            assert step_of(html) == shown
            assert re.search(rf'<input type="range"[^>]*min="1" max="6" value="{shown}"', html)

    def test_tree_shows_forks_and_links_every_checkpoint(self, memory, pages):
        graph = graph_that_remembers(memory)
        ask(graph, "one", "h0")
        first = newest(memory)
        for number in (1, 2):
            ask(graph, f"fork {number}", f"f{number}", checkpoint_id=first)
        page = Page(html := pages(at=first))
        assert len(page.all("circle")) == 9
        assert {each.checkpoint_id for each in memory.checkpointer.history(config()).checkpoints} == {
            link.partition("at=")[2].partition("&")[0] for link in page.links if "at=" in link
        }
        assert html.count("latest</span>") == 2
        assert html.count("2 children</span>") == 1
        assert html.count('aria-current="step"') == 1
        assert "2 forks" in html

    def test_tree_of_a_long_thread_is_windowed(self, memory, pages):
        graph = compiled(memory, lambda _: {"note": "x"})
        for number in range(45):
            graph.invoke(
                {"messages": [HumanMessage(f"q{number}", id=f"h{number}")]} if number < 3 else {"note": "y"}, config()
            )
        html = pages(number=60)
        assert (len(Page(html).all("circle")), step_of(html)) == (50, 60)
        assert "135 checkpoints" in html

    def test_missing_objects_and_invalid_parameters_are_refused(self, memory, pages):
        ask(graph_that_remembers(memory), "one", "h0")
        assert "no thread and no conversation" in pages(id="nobody", status=404)
        assert "no checkpoint" in pages(at="nowhere", status=404)
        pages(namespace="users", status=404)
        for wrong in ({"id": None}, {"number": "-1"}, {"number": "x"}, {"before": "9" * 30}, {"namespace": "a//b"}):
            pages(status=400, **wrong)
        pages(show="something")


class TestMessages:
    def test_messages_are_paged_and_requested_one_is_marked(self, memory, pages):
        def many(_):
            return {"messages": [HumanMessage(f"said {number}.", id=f"m{number}") for number in range(130)]}

        ask(compiled(memory, many), "one", "h0")
        html = pages()
        assert "said 129." in html
        assert "82 to 131 of 131 messages" in html
        older = pages.follow(html, "Older")
        assert "said 79." in older
        assert "said 129." not in older
        assert "said 129." in pages.follow(older, "Newest")
        marked = pages(message="m20")
        assert re.search(
            r'<article class="message here" id="marked"[^>]*>(?:(?!</article>).)*said 20\.', marked, re.DOTALL
        )
        assert "said 129." in pages(message="nobody")

    def test_newest_messages_are_first_without_ids(self, memory, pages):
        class Plain(TypedDict):
            messages: list[AnyMessage]

        said = [HumanMessage(f"said {number}.") for number in range(130)]
        ask(compiled(memory, lambda _: {"messages": said}, state=Plain), "one", None)
        assert "81 to 130 of 130 messages" in pages()

    def test_tool_calls_reasoning_and_media_load_nothing(self, memory, pages):
        def answer(_):
            thought = {"type": "thinking", "thinking": "I should look", "signature": "x"}
            image = {"type": "image_url", "image_url": {"url": "https://example.com/spy.png"}}
            call = {"id": "call-1", "name": "look", "args": {"at": "map"}}
            return {
                "messages": [
                    AIMessage([thought, {"type": "text", "text": "Let me see."}], id="a0", tool_calls=[call]),
                    ToolMessage([{"type": "text", "text": "a map"}, image], tool_call_id="call-1", id="r0"),
                ]
            }

        ask(compiled(memory, answer), "one", "h0")
        html = pages()
        for text in (
            "I should look",
            "Let me see.",
            "calls <code>look</code>",
            "answers <span",
            "a map",
            "(not shown)",
        ):
            assert text in html
        assert not {tag for tag, _ in Page(html).tags} & {"img", "iframe", "object", "embed", "video", "audio"}
        assert "example.com" not in html

    def test_long_message_is_truncated_unless_requested(self, memory, pages):
        ask(graph_that_remembers(memory), "x" * 50_000 + "the end", "h0")
        html = pages()
        assert "the end" not in html
        assert "40,007 more characters" in html
        assert "the end" in pages.follow(html, "show all")

    def test_interrupts_and_errors_of_a_checkpoint_are_shown(self, memory, pages):
        def sure(state):
            if state["messages"][-1].content == "fail":
                raise ValueError("no luck")
            interrupt({"question": "Are you sure?"})

        graph = compiled(memory, sure)
        ask(graph, "one", "h0")
        assert "Are you sure?" in pages()
        with pytest.raises(ValueError, match="no luck"):
            ask(graph, "fail", "h1", thread_id="u")
        assert "no luck" in pages(id="u")

    def test_subgraph_has_its_own_page_linked_from_thread(self, memory, pages):
        def inside(state, config):
            memory.layers(config).core.set("checkpoint_position", "underground")
            return {"messages": [AIMessage("from inside", id="i0")], "note": "kept inside"}

        sub = line(True, inside, state=State)
        ask(compiled(memory, lambda state: {"messages": sub.invoke(state)["messages"]}), "one", "h0")
        html = pages()
        assert "from inside" in html
        assert "kept inside" not in html
        [subgraph] = memory.checkpointer.history(config()).subgraphs
        beneath = pages(ns=subgraph)
        assert "kept inside" in beneath
        assert "kept inside" in pages(ns=subgraph, number=999)
        assert "underground" in pages(ns=subgraph, show="memory")
        assert "underground" in pages(ns=subgraph, show="diff")
        assert "kept inside" not in pages.follow(beneath, "Parent thread")
        pages(ns="nowhere", status=404)

    def test_delta_channel_links_to_the_conversation_log(self, memory, pages):
        class ByChanges(TypedDict):
            messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]

        ask(compiled(memory, lambda _: {"messages": [AIMessage("told", id="a0")]}, ByChanges), "one", "h0")
        for tab in ("memory", "diff", "compaction", "prompts"):
            pages(show=tab)
        html = pages()
        assert "There are no messages in this state" in html
        assert ">told</div>" in pages("/conversation")

    def test_pages_work_with_any_memory_options(self, new_database, browse):
        template = {"namespace": ("users", "{user_id}")}
        for options, again in (({"record": ()}, {}), ({}, {"read_only": True}), (template, template)):
            database = new_database("sqlite")
            with AgentMemory(database, **options) as memory:
                graph = compiled(memory, lambda _: {"messages": [AIMessage("said to all", id="a0")]})
                whose = {"user_id": "ada"} if options == template else {"agentmem_namespace": NAMESPACE}
                graph.invoke({"messages": [("user", "one")]}, {"configurable": {"thread_id": "t", **whose}})
            with AgentMemory(database, **{**options, **again}) as memory:
                pages = Pages(browse(memory))
                for tab in ("memory", "diff", "compaction", "prompts"):
                    pages(show=tab)
                assert "said to all" in pages()


class TestConversationPage:
    def test_conversation_without_checkpoints_shows_its_log(self, memory, pages):
        chat = memory.conversation("t", NAMESPACE)
        for number in range(70):
            chat.add(role="user", content=f"said {number}.")
        html = pages()
        assert "said 69." in html
        assert 'type="range"' not in html
        older = pages.follow(html, "Older")
        assert "said 19." in older
        assert "said 20." not in older
        assert "said 69." in pages("/conversation")
        assert "said 69." in pages(show="memory"), "of which a conversation has none"

    def test_message_is_marked_or_not_found(self, memory, pages):
        chat = memory.conversation("t", NAMESPACE)
        keys = [chat.add(role="user", content=f"said {number}.") for number in range(70)]
        assert 'id="marked"' in pages(message=keys[3])
        chat.remove_by_id(keys[3])
        assert "said 3." not in pages(message=keys[4])
        pages(message=keys[3], status=404)
        pages(until="nobody", status=404)

    def test_conversation_log_keeps_messages_removed_from_state(self, memory, pages):
        ask(graph_that_remembers(memory), "one", "h0")
        ask(compiled(memory, lambda _: {"messages": [RemoveMessage(id="h0")]}), "two", "h1")
        assert ">one</div>" not in pages()
        assert ">one</div>" in (log := pages("/conversation"))
        assert ">one</div>" not in pages.follow(log, "<bdi>thread</bdi>")
        assert ">one</div>" in pages.follow(pages(message="h0"), "Find it in the conversation log")


class TestMemoryTab:
    def test_memory_is_shown_as_of_a_checkpoint(self, memory, pages):
        graph = graph_that_remembers(memory)
        ask(graph, "one", "h0")
        first = newest(memory)
        ask(graph, "two", "h1")
        was, html = pages(at=first, show="memory"), pages(show="memory")
        for layer in ("core", "event", "record", "city", "item"):
            assert f"{layer} 0" in was, layer
            assert f"{layer} 1" not in was, layer
            assert f"{layer} 1" in html, layer
        assert "core 0" not in html
        assert "record 0" in html

    def test_memory_is_paged(self, memory, pages):
        def much(_, config):
            for number in range(60):
                memory.layers(config).archival.write(f"record {number}.")

        ask(compiled(memory, much), "one", "h0")
        html = pages(show="memory")
        assert "record 59." in html
        assert "record 9." not in html
        after = pages.follow(html, "Next")
        assert "record 9." in after
        assert "record 59." not in after

    def test_branch_page_shows_values_and_parent(self, memory, pages):
        main = memory.layers("main", NAMESPACE)
        main.core.set("name", "Ada")
        draft = main.fork("draft")
        draft.core.set("name", "Ada L.")
        memory.facts("draft", NAMESPACE).add_fact("user", "Ada", "likes", "tea")
        assert ">Ada</div>" in pages("/memory")
        html = pages("/memory", branch="draft")
        assert ">Ada L.</div>" in html
        assert "<bdi>tea</bdi>" in html
        assert "forked from" in html
        pages("/memory", branch="nowhere", status=404)
        assert "Empty." in pages("/memory", namespace="nobody")


class TestDiffTab:
    def test_diff_shows_additions_changes_and_removals(self, memory, pages):
        graph = graph_that_remembers(memory)
        ask(graph, "one", "h0")
        ask(graph, "two", "h1")
        html = pages(show="diff")
        for layer in ("answer", "note", "core", "event", "record", "city", "item"):
            assert re.search(rf"<ins[^>]*>[^<]*{layer} 1", html), layer
        for layer in ("note", "core", "item"):
            assert re.search(rf"<del[^>]*>[^<]*{layer} 0", html), layer
        assert "record 0" not in html
        assert "[]" not in html, "messages are no other state where one of the two has no others"

    def test_diff_shows_deleted_values(self, memory, pages):
        ask(graph_that_remembers(memory), "one", "h0")

        def forget(_, config):
            layers = memory.layers(config)
            layers.core.delete("name")
            layers.archival.delete(layers.archival.all()[0].id)
            return {"messages": [RemoveMessage(id="h0")]}

        ask(compiled(memory, forget), "two", "h1")
        html = pages(show="diff")
        for text in ("core 0", "record 0", "user: one"):
            assert re.search(rf"<del[^>]*>{text}", html), text

    def test_diff_without_parent_says_parent_was_deleted(self, memory, pages):
        graph = graph_that_remembers(memory)
        ask(graph, "one", "h0")
        memory.checkpointer.prune(["t"])
        assert "previous checkpoint was deleted" in pages(show="diff")


class TestCompactionTab:
    @pytest.fixture
    def compacted(self, memory):
        limits = ActiveContextPolicyConfig(
            mode="compaction", processor_order=["summarization"], summarization=SummarizationConfig(timeout=None)
        )
        settings = ManagedMemoryConfig(threshold_tokens=2_000, token_counter=len_of_words, active_context=limits)
        graph = line(
            memory.checkpointer,
            CompactionNode(memory, lambda _: "the gist of it all", settings),
            lambda state: {"messages": [AIMessage("word " * 100, id=f"a{len(state['messages'])}")]},
            state=CompactionState,
        )
        for number in range(40):
            ask(graph, f"question {number}. " + "word " * 50, f"h{number}")

    def test_summaries_are_shown_beside_replaced_messages(self, compacted, pages):
        html = pages(show="compaction")
        assert "the gist of it all" in html
        assert "in this state" in html
        assert "question 0." in html
        assert "question 39." not in html
        pages(show="compaction", summary="sum-nothing")
        assert "Nothing was summarized." in pages(show="compaction", number=3)
        assert "the gist of it all" in pages("/conversation", show="compaction")


def len_of_words(text):
    return len(str(text).split())


@pytest.mark.parametrize("asked", ["id=t", "namespace=/&id=t"])
def test_thread_without_namespace_parameter_is_resolved(memory, browse, asked):
    ask(graph_that_remembers(memory), "one", "h0")
    assert f'of <bdi class="name">{"/".join(NAMESPACE)}</bdi>' in browse(memory).text_of(f"/thread?{asked}&show=memory")
    memory.conversation("t").add_user_message("of the root")
    assert "of the root" in browse(memory).text_of(f"/thread?{asked}")


class TestPromptsTab:
    def test_injected_memory_is_shown_with_its_reasons(self, memory, pages):
        memory.layers("main", NAMESPACE).archival.write("Ana's kettle is in the blue cupboard.")
        memory.layers("main", NAMESPACE).core.set("mood", "sunny")
        inject = memory.inject()

        def answer(state, config):
            inject.invoke(state["messages"], config)
            return {"messages": [AIMessage("There.", id=f"a{len(state['messages'])}")]}

        graph = compiled(memory, answer)
        ask(graph, "Where is Ana's kettle?", "h0")
        html = pages(show="prompts")
        assert "blue cupboard" in html
        assert "kettle</bdi></dt>" in html
        assert "<progress" in html
        ask(graph, "Nothing at all", "h1")
        assert "blue cupboard" in pages(show="prompts", message="h0")

    def test_injected_messages_are_shown_with_their_text(self, memory, pages):
        ask(graph_that_remembers(memory), "The kettle is in the blue cupboard.", "h0")
        inject = memory.inject()

        def answer(state, config):
            inject.invoke(state["messages"][-1:], config)
            return {"messages": [AIMessage("There.", id="a1")]}

        ask(compiled(memory, answer), "Where is the kettle?", "h1")
        found = re.findall(r'<th scope="row">.*?</th>', pages(show="prompts", message="h1"), re.DOTALL)
        assert [each for each in found if "message=h0" in each and "blue cupboard" in each]
