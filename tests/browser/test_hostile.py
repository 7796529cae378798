"""Hostile memories are escaped in a browser, in every field of every page."""

from __future__ import annotations

import re
from collections import Counter
from urllib.parse import quote

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from langchain_agentmem import AgentMemory, Experience
from langchain_agentmem.audit.audit_trail import AuditTrail
from langchain_agentmem.compaction import CompactionState

from .conftest import opened
from .serving import serving

ELEMENTS = "<script>alert(1)</script><img src=x onerror=alert(2)><svg onload=alert(3)>"
HANDLER = '" onmouseover="alert(4)" autofocus onfocus=\'alert(5)\''
LINK = "javascript:alert(6)"
TURNED = "safe\u202etxt.exe\u2066\u200b"
UNBROKEN = "W" * 200
HOSTILE = f"{ELEMENTS} {HANDLER} {LINK} {TURNED} {{{{7*7}}}} {UNBROKEN}"
NAME = "\"><img src=x onerror=alert(7)>'& \u202e"
"""A hostile name for ids, labels and keys."""
UNSEEN = """() => [document.body.innerText, ...[...document.querySelectorAll("*")]
    .flatMap(each => [...each.attributes]).filter(each => each.name !== "value").map(each => each.value)]
    .filter(each => /[\\u202e\\u2066\\u200b]/.test(each))"""
"""Finds what turns text around or cannot be seen, but in the fields of forms, which send back what is there."""
NAMESPACE = ("users", NAME.replace(".", ""))


def fill(memory: AgentMemory, folder) -> None:
    def answer(state, config):
        memory.layers(config).write(core={NAME: HOSTILE})
        memory.layers(config).archival.write(HOSTILE, tags=[NAME, UNBROKEN])
        memory.layers(config).recall.append(NAME, HOSTILE)
        memory.facts(config).add_fact("user", NAME, LINK, ELEMENTS)
        memory.thread_store.put(("notes", NAME.replace(".", "")), NAME, {NAME: HOSTILE})
        call = {"name": "look", "args": {NAME: HOSTILE}, "id": NAME}
        return {"messages": [AIMessage(HOSTILE, id=f"{NAME}2", tool_calls=[call])]}

    builder = StateGraph(CompactionState, input_schema=MessagesState).add_node("answer", answer)
    builder.add_node("recall", memory.inject())
    graph = builder.add_edge(START, "recall").add_edge("recall", "answer").compile(checkpointer=memory.checkpointer)
    config = {"configurable": {"thread_id": NAME, "agentmem_namespace": NAMESPACE}}
    for number in range(2):
        said = HumanMessage(HOSTILE, id=f"{NAME}{number}", name=NAME)
        graph.invoke({"messages": [said]}, config)
    main = memory.facts("main", NAMESPACE)
    main.declare(LINK)
    for thing in (HANDLER, TURNED):
        main.add_fact("user", NAME, LINK, thing)
    memory.layers("main", NAMESPACE).core.set(NAME, HOSTILE)
    trail = AuditTrail(memory, NAMESPACE)
    trail.add(HOSTILE, HOSTILE, NAME)
    trail.add_todo_from_chat(f"Please add {HOSTILE} to the list.")
    library = memory.experiences(folder)
    library.add(Experience(f"e {ELEMENTS[:40]}", who=(NAME,), when=HOSTILE, what=HOSTILE))
    memory.settle()


@pytest.fixture(scope="module")
def served(chromium, tmp_path_factory):
    folder, experiences = tmp_path_factory.mktemp("hostile"), tmp_path_factory.mktemp("experiences")
    with AgentMemory(folder / "agent.db") as memory:
        fill(memory, experiences)
    with serving(folder / "agent.db", "--experiences", str(experiences)) as address:
        yield opened(chromium, folder / "agent.db", address)


def links(page) -> list[str]:
    """Return the links of a page within Studio."""
    return page.eval_on_selector_all("main a[href]", "found => found.map(each => each.href)")


def test_hostile_memories_are_escaped_on_every_linked_page(visit, served):
    """Follows all links, three of each shape."""
    page = visit()
    waiting, seen, shapes = [f"{served.root}/"], set(), Counter()
    told = ""
    while waiting:
        where = waiting.pop(0)
        shape = re.sub(r"=[^&]*", "", where)
        if where in seen or shapes[shape] == 3:
            continue
        seen.add(where)
        shapes[shape] += 1
        assert page.goto(where).status in {200, 404}, where
        found = links(page) + page.eval_on_selector_all("nav a[href]", "found => found.map(each => each.href)")
        assert [each for each in found if not each.startswith(f"{served.root}/")] == [], where
        made = page.eval_on_selector_all(
            "img, iframe, object, embed, script:not([src]), [onmouseover], [onfocus], [onerror], [onload]",
            "found => found.map(each => each.outerHTML)",
        )
        assert made == [], where
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280, where  # nothing sticks out
        assert page.evaluate(UNSEEN) == [], where
        told += page.inner_text("body")
        waiting += found
    assert ELEMENTS in told
    assert LINK in told
    assert "{{7*7}}" in told
    assert "\\u202e" in told
    assert {each.removeprefix(served.root).partition("?")[0] for each in seen} >= {
        "/", "/threads", "/thread", "/memory", "/facts", "/search", "/experiences", "/audit",
        "/corrections", "/correct",
    }  # fmt: skip


@pytest.mark.parametrize("asked", [HOSTILE, NAME, LINK])
def test_hostile_url_parameters_are_escaped(visit, served, asked):
    page = visit()
    for path in (
        "search?q",
        "threads?query",
        "thread?id",
        "facts?subject",
        "facts?valid",
        "audit?query",
        "erase?namespace",
    ):
        page.goto(f"{served.root}/{path}={quote(asked, safe='')}")
        assert page.locator("img, script:not([src]), [onmouseover], [onfocus]").count() == 0
        assert page.locator("h1").count() == 1
