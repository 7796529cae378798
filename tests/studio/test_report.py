"""A report: what Studio shows, as one file that needs nothing else."""

from __future__ import annotations

import re
import stat
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from langchain_agentmem import AgentMemory, InvalidInput
from langchain_agentmem.studio import sample
from langchain_agentmem.studio.report import write_report

HOSTILE = (
    "<script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "</style></main><img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "\u202etxt.exe",
    "&lt;script&gt; stays what it is",
)


class Elements(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def told(self) -> str:
        return " ".join(self.text.split())


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    with AgentMemory() as memory:
        sample.live(memory, tmp_path_factory.mktemp("experiences"))
        yield memory


@pytest.fixture
def of(tmp_path):
    def write(memory, **options):
        path = tmp_path / "report.html"
        write_report(memory, path, replace=True, **options)
        return Elements(path.read_text(encoding="utf-8"))

    return write


class TestAThread:
    @pytest.fixture
    def page(self, lived, of):
        return of(lived, namespace=sample.IRENA, thread_id=sample.GIFT)

    @pytest.mark.slow("in every form")
    def test_it_tells_what_was_said_remembered_compacted_and_shown(self, page):
        told = page.told()
        for turn in sample.TALK:
            assert turn.said in told
            assert turn.reply in told
        assert sample.OTHERWISE[0].reply not in told, "what was abandoned is no part of it"
        assert "train 7:12 from Brno on 9 October" in told
        assert "Marek keeps bees" in told
        assert "Her brother Marek, a beekeeper" in told
        assert "an end" in told, "its tree has forks"

    def test_it_says_why_each_prompt_showed_what_it_showed(self, lived, page):
        chat = lived.conversation(sample.GIFT, sample.IRENA)
        asked = {each.id for each in chat.messages}
        notes = [note for note in chat.shown() if note.message_id in asked]
        told = page.told()
        assert told.count(", and why") == len({note.message_id for note in notes}) > 3
        assert [note.part for note in notes if note.part not in told] == []
        assert any(tag == "progress" for tag, _ in page.elements)

    def test_it_loads_nothing_and_leads_nowhere(self, page):
        assert not {tag for tag, _ in page.elements} & {"a", "base", "form", "iframe", "img", "input", "link", "script"}
        assert not {name for _, found in page.elements for name in found} & {"href", "src", "style", "action"}
        assert not [name for _, found in page.elements for name in found if name.startswith(("on", "hx-"))]
        [policy] = [found["content"] for _, found in page.elements if found.get("http-equiv")]
        assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

    def test_it_offers_no_corrections(self, page):
        assert "Correct" not in page.told()
        assert "Walnuts make Irena ill. 3 " in page.told()

    def test_its_headings_are_in_order(self, page):
        levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
        assert levels[:2] == [1, 2]
        assert all(later <= earlier + 1 for earlier, later in pairwise(levels))


class TestATenant:
    def test_it_tells_of_threads_memory_facts_and_audit(self, lived, of):
        told = of(lived, namespace=sample.IRENA).told()
        for heading in ("Threads", "Memory", "Facts", "Audit"):
            assert heading in told
        assert sample.TALK[0].said in told, "a thread is called by its first question"
        assert "a copper smoker" in told
        assert sample.OF_MAREK.said not in told

        assert "The chain holds" in told

    def test_without_a_namespace_it_tells_of_everybody(self, lived, of):
        told = of(lived).told()
        assert sample.OF_MAREK.said in told
        assert "Largest tenants" in told
        assert "being counted" not in told, "it waits for what takes long"

    @pytest.mark.slow
    @pytest.mark.parametrize("newest", ["question number 120.", "Older", "After these"])
    def test_a_list_is_told_to_its_end(self, of, newest):
        with AgentMemory() as memory:
            for number in range(120):
                memory.conversation(f"talk {number}", ("many",)).add_user_message(f"question number {number}.")
            memory.conversation("last", ("many",)).add_user_message(newest)
            told = of(memory, namespace=("many",)).told()
        assert newest in told
        found = re.findall(r"question number (\d+)\.\s?talk", told)
        assert found == [str(number) for number in reversed(range(120))]


def test_a_long_thread_is_told_in_its_order_to_the_last_page(of):
    with AgentMemory() as memory:
        said = [HumanMessage(f"this is number {number}.", id=f"m{number}") for number in range(180)]
        graph = StateGraph(MessagesState).add_node("answer", lambda _: {"messages": [AIMessage("the end.")]})
        graph = graph.add_edge(START, "answer").compile(checkpointer=memory.checkpointer)
        graph.invoke({"messages": said}, {"configurable": {"thread_id": "long"}})
        told = of(memory, thread_id="long").told()
    messages = told.partition(" Memory ")[0]
    assert re.findall(r"this is number (\d+)\.", messages) == [str(number) for number in range(180)]
    assert messages.endswith("the end.")


def test_a_conversation_without_a_thread_is_told_too(of):
    with AgentMemory() as memory:
        memory.conversation("alone").add_user_message("nobody answers")
        told = of(memory, thread_id="alone").told()
    assert "nobody answers" in told


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_remembered_stays_text(of, text):
    with AgentMemory() as memory:
        memory.conversation(text[:100], (text.replace(".", "")[:100],)).add_user_message(text)
        memory.layers("main", ("n",)).core.set("key", text)
        memory.facts("main", ("n",)).add_fact("user", text, text, text)
        memory.audit.add(text, text)
        thread = of(memory, namespace=(text.replace(".", "")[:100],), thread_id=text[:100])
        tenant = of(memory, namespace=("n",))
    shown = text.replace("\u202e", "\\u202e")
    assert shown in thread.text
    assert shown in tenant.text
    for page in (thread, tenant):
        assert {tag for tag, _ in page.elements} & {"script", "img"} == set()
        assert not [name for _, found in page.elements for name in found if name.startswith("on")]


class TestTheFile:
    def test_one_that_is_there_is_not_replaced_by_itself(self, lived, tmp_path):
        path = tmp_path / "report.html"
        path.write_text("mine")
        with pytest.raises(InvalidInput, match="is there"):
            write_report(lived, path)
        assert path.read_text() == "mine"
        write_report(lived, path, replace=True)
        assert "<h1" in path.read_text()

    def test_nothing_is_half_written(self, lived, tmp_path):
        with pytest.raises(InvalidInput, match="no thread"):
            write_report(lived, tmp_path / "report.html", namespace=("irena",), thread_id="nobody")
        with pytest.raises(InvalidInput, match="cannot be written"):
            write_report(lived, tmp_path / "nowhere" / "report.html")
        assert list(tmp_path.iterdir()) == []

    def test_only_its_owner_reads_it(self, lived, tmp_path):
        write_report(lived, tmp_path / "report.html")
        assert stat.S_IMODE((tmp_path / "report.html").stat().st_mode) == 0o600
