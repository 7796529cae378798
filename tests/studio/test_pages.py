"""Every page of Studio: display, correction, erasure and access control."""

from __future__ import annotations

import html
import re

from langchain_core.messages import AIMessage, HumanMessage

from langchain_agentmem import AgentMemory, Experience
from tests.support.graphs import line

from .markup import HOSTILE, harmless

ADA, BEN = ("users", "ada"), ("users", "ben")
AT_ADA = "namespace=users/ada"
THREAD = {"configurable": {"thread_id": "t", "agentmem_namespace": ADA}}
PAGES = {
    "/": "users/ada",
    "/threads": "Where is the heron?",
    f"/thread?{AT_ADA}&id=t": "At the pond.",
    f"/thread?{AT_ADA}&id=t&show=memory": "Lisbon",
    f"/thread?{AT_ADA}&id=t&show=diff": "At the pond.",
    f"/thread?{AT_ADA}&id=t&show=prompts": "No memory is recorded",
    f"/thread?{AT_ADA}&id=t&show=compaction": "Nothing was summarized.",
    f"/conversation?{AT_ADA}&id=t": "At the pond.",
    f"/memory?{AT_ADA}&branch=draft": "Porto",
    "/search?q=heron": "score 1.",
    f"/facts?{AT_ADA}": "Ada lives in Lisbon",
    f"/audit?{AT_ADA}": "Who waits?",
    f"/audit/todos?{AT_ADA}": "Please add a page",
    f"/audit/chain?{AT_ADA}&verify=1": "The chain is valid",
    "/experiences": "Look first.",
    f"/correct?{AT_ADA}&kind=core&key=city": "Lisbon",
    "/corrections": "There are no corrections",
    f"/erase?{AT_ADA}": "users/ada",
}


def fill(memory: AgentMemory, text: str = "") -> None:
    """Store something of everything that a page shows, each with a text."""

    def answer(_, config):
        memory.layers(config).core.set("city", f"Lisbon{text}")
        return {"messages": [AIMessage(f"At the pond.{text}", id="a")]}

    graph = line(memory.checkpointer, answer)
    graph.invoke({"messages": [HumanMessage(f"Where is the heron?{text}", id="h")]}, THREAD)
    layers = memory.layers("main", ADA)
    layers.core.set("city", f"Lisbon{text}")
    layers.fork("draft").core.set("city", "Porto")
    memory.facts("main", ADA).add_fact("user", "Ada", "lives in", f"Lisbon{text}")
    memory.within(ADA).audit.add(f"Who waits?{text}", "The heron.")
    memory.within(ADA).audit.add_todo_from_chat("Please add a page for the herons.")


def test_every_page_shows_stored_data_and_escapes_it(memory, browse, tmp_path):
    fill(memory, f" {HOSTILE}")
    evil = Experience("e", ["Coder"], f"Use when {HOSTILE}", f"Look first. {HOSTILE}")
    (tmp_path / "handcrafted_exp_e.yaml").write_text(evil.to_yaml(), encoding="utf-8")
    browser = browse(memory, experiences=memory.experiences(tmp_path))
    for page, shown in PAGES.items():
        assert shown in " ".join(harmless(browser.settled(page)).text.split()), page


def test_correction_stores_its_author_and_can_be_undone(memory, browser):
    core, where = memory.layers(namespace=ADA).core, f"/correct?{AT_ADA}&kind=core&key=city"
    core.set("city", "Lisbon")
    version = re.search(r'name="version" value="(\w+)"', browser.text_of(where))
    browser.submit(where, form_on=where, version=version[1], value="Porto", importance="5")
    [entry] = core.entries()
    assert (entry.value, entry.importance, entry.actor, entry.source) == ("Porto", 5, "ada", "person")
    assert ", by <bdi>ada</bdi>" in browser.text_of(where)
    [undo] = re.findall(r'action="([^"]*/undo[^"]*)"', browser.text_of(where))
    browser.submit(html.unescape(undo), form_on=where)
    assert core.get("city") == {"city": "Lisbon"}


def test_erasure_requires_the_exact_namespace_name(memory, browser):
    for namespace in (ADA, BEN):
        memory.conversation("chat", namespace).add_user_message("Hello there")
    where = f"/erase?{AT_ADA}"
    assert browser.submit(where, form_on=where, name="users/ben").status_code == 400
    assert len(memory.conversations(ADA)) == 1
    browser.submit(where, form_on=where, name="users/ada")
    assert (memory.conversations(ADA), len(memory.conversations(BEN))) == ([], 1)


def test_missing_csrf_token_or_read_only_prevents_changes(tmp_path, browse):
    with AgentMemory(tmp_path / "a.db") as memory:
        memory.conversation("chat", ADA).add_user_message("Hi")
        asked, here = {"name": "users/ada"}, {"Origin": "http://testserver"}
        assert browse(memory).post(f"/erase?{AT_ADA}", data=asked, headers=here).status_code == 403
    with AgentMemory(tmp_path / "a.db", read_only=True) as memory:
        assert "<form" not in browse(memory).text_of(f"/erase?{AT_ADA}")
        assert len(memory.conversations(ADA)) == 1


def test_token_opens_one_session_under_its_own_host(memory):
    from starlette.testclient import TestClient

    from langchain_agentmem.studio.application import application

    studio = application(memory, user="ada", token="secret", hosts={"127.0.0.1:1"})
    client, other = (TestClient(studio, base_url="http://127.0.0.1:1", follow_redirects=False) for _ in range(2))
    assert client.get("/").status_code == client.get("/?token=wrong").status_code == 403
    assert client.get("/?token=secret", headers={"Host": "evil.example"}).status_code == 421
    assert client.get("/?token=secret").status_code == 303
    assert (client.get("/").status_code, other.get("/?token=secret").status_code) == (200, 403)


def test_namespaced_studio_shows_no_other_data(memory, browse):
    memory.conversation("chat-1", ADA).add_user_message("a grey bird, the heron")
    browser = browse(memory.within(BEN))
    for page in ("/", "/threads", "/search?q=heron", "/corrections", "/audit"):
        assert not re.search("chat-1|grey bird", browser.settled(page)), page
