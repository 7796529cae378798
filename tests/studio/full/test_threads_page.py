"""The list of threads in Studio: titles, sizes, filters and pages."""

import re
from html import unescape

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from tests.support.graphs import line

ADA = ("users", "ada")


def say(memory, text, thread_id, namespace=(), **at):
    graph = line(memory.checkpointer, lambda _: {"messages": [AIMessage("Yes.")]})
    config = {"configurable": {"thread_id": thread_id, "agentmem_namespace": namespace, **at}}
    graph.invoke({"messages": [HumanMessage(text)]}, config)
    return config


def rows_of(text):
    """The cells of a table's body, as text."""
    body = text[text.index("<tbody>") : text.index("</tbody>")]
    return [
        [
            " ".join(unescape(re.sub(r"<[^>]+>", " ", cell)).split())
            for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        ]
        for row in re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    ]


def ids_on(text):
    return re.findall(r'<bdi class="id quiet">([^<]*)</bdi>', text)


def test_rows_show_title_namespace_and_sizes(memory, browse):
    config = say(memory, "Where do herons nest?", "t", ADA)
    first = memory.checkpointer.history(config).checkpoints[0].checkpoint_id
    for text in ("And when?", "And why?"):
        say(memory, text, "t", ADA, checkpoint_id=first)
    memory.conversation("talk").add_ai_message("Welcome.")
    page = browse(memory).settled("/threads")
    [talk, thread] = rows_of(page)
    assert talk[:2] == ["talk talk", "/"]
    assert talk[3] == "1"
    assert thread[:2] == ["Where do herons nest? t", "users/ada"]
    assert thread[3] == "6"
    assert 'href="/thread?namespace=users%2Fada&amp;id=t"' in page
    assert 'href="/threads?namespace=users%2Fada"' in page


def test_threads_are_filtered_by_words_role_time_namespace(memory, browse, clock):
    memory.conversation("one", ADA).add_user_message("The heron nests here.")
    memory.conversation("two", ("users", "ben")).add_ai_message("A heron?")
    clock.pass_time(days=1)
    memory.conversation("three").add_user_message("hello")
    browser = browse(memory)

    def found(**asked):
        return set(ids_on(browser.get("/threads", params=asked).text))

    assert found(q="heron") == {"one", "two"}
    assert found(q="heron", namespace="users/ada") == {"one"}
    assert found(q="heron", role="assistant") == {"two"}
    assert found(since="2026-01-02T00:00") == {"three"}
    assert found(until="2026-01-02T00:00+00:00", namespace="users") == {"one", "two"}
    assert found(q="nothing like it") == set()
    assert "No matching threads." in browser.text_of("/threads?q=nothing")


@pytest.mark.sqlite_suffices
def test_form_keeps_the_submitted_filters(memory, browse):
    text = browse(memory).text_of("/threads?q=a+%22b%22&role=user&since=2026-01-02T03:04:05&namespace=users/ada")
    assert 'name="q" value="a &#34;b&#34;"' in text
    assert 'name="role" value="user"' in text
    assert 'name="since" value="2026-01-02T03:04"' in text
    assert 'name="namespace" value="users/ada"' in text


@pytest.mark.sqlite_suffices
def test_page_has_fifty_threads_and_links_to_others(memory, browse):
    for number in range(120):
        memory.conversation(f"c{number}").add_user_message("hello")
    browser = browse(memory)
    *_, text = shown = browser.walk("/threads?q=hello")
    every = [ids_on(each) for each in shown]
    assert [len(each) for each in every] == [50, 50, 20]
    assert [name for each in every for name in each] == [f"c{number}" for number in reversed(range(120))]
    assert "101 to 120 of 120" in text
    assert '<a href="/threads?q=hello&amp;start=50">Newer</a>' in text
    assert '<a href="/threads?q=hello">Newest</a>' in text
    assert "No matching threads." in browser.text_of("/threads?q=hello&start=500")


@pytest.mark.parametrize("asked", ["namespace=a//b", "since=today", "until=1e9", "start=-1", "start=x", "since=%00"])
@pytest.mark.sqlite_suffices
def test_invalid_parameters_are_refused(memory, browse, asked):
    text = browse(memory).text_of(f"/threads?{asked}", status=400)
    assert 'role="alert"' in text
