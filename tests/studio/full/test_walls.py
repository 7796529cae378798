"""Isolation in Studio: a part of a memory shows nothing of the rest, and hostile names are escaped."""

from urllib.parse import quote

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_agentmem import AgentMemory, Experience
from langchain_agentmem.studio import sample
from tests.studio.markup import HOSTILE, harmless
from tests.support.graphs import line

NAMESPACE = ('"><b>', "a/b")

PAGES = """
/ /threads /threads?q=hives /threads?namespace=marek /thread?id=HIVES /thread?id=HIVES&namespace=marek
/thread?id=HIVES&namespace=marek&show=memory /conversation?id=HIVES&namespace=marek /memory?namespace=marek
/search?q=hives /search?q=hives&namespace=marek /facts?namespace=marek /facts /experiences?namespace=marek /audit
/audit?namespace=marek /audit/chain?namespace=marek&verify=1 /corrections /corrections?namespace=marek
/correct?kind=core&key=hives&namespace=marek /erase?namespace=marek
""".replace("HIVES", sample.HIVES).split()


@pytest.fixture
def sample_memory(url, tmp_path):
    with AgentMemory(url) as memory:
        sample.play_story(memory, tmp_path)
        yield memory


def test_namespaced_studio_shows_no_other_namespace(sample_memory, browse):
    whole, part = browse(sample_memory), browse(sample_memory.within(sample.IRENA))
    assert "four hives" in whole.text_of("/search?q=hives")
    for page in PAGES:
        text = part.get(page).text
        for told in ("four hives", "Four hives", ">hives<", 'href="/threads?namespace=marek'):
            assert told not in text, page


def test_namespaced_studio_cannot_erase_or_correct_other_namespaces(sample_memory, browse):
    part = browse(sample_memory.within(sample.IRENA))
    part.submit("/erase?namespace=marek", "/corrections", name="marek")
    part.submit("/erase/rehearse?namespace=marek", "/corrections")
    part.submit("/correct?kind=core&key=hives&namespace=marek", "/corrections", value="0", do="save", version="")
    assert len(sample_memory.conversation(sample.HIVES, sample.MAREK)) == 2
    assert sample_memory.layers("main", sample.MAREK).core.get("hives") == {"hives": "4"}


def hostile(memory):
    """Store something of every kind of which everything that can be named is named by a hostile text."""
    config = {"configurable": {"thread_id": HOSTILE, "agentmem_namespace": NAMESPACE}}
    call = {"id": HOSTILE, "name": HOSTILE, "args": {HOSTILE: HOSTILE}}

    def answer(_, config):
        memory.layers(config).core.set("k", HOSTILE)
        memory.thread_store.put(("p",), HOSTILE, {"text": HOSTILE})
        return {"messages": [AIMessage("", id=f"{HOSTILE} a", tool_calls=[call])]}

    said = HumanMessage(HOSTILE, id=HOSTILE, name="javascript:alert(1)")
    line(memory.checkpointer, answer).invoke({"messages": [said]}, config)
    layers, trail = memory.layers(HOSTILE, NAMESPACE), memory.within(NAMESPACE).audit
    layers.core.set("k", HOSTILE)
    layers.archival.write(HOSTILE, [HOSTILE[:40]])
    memory.store.put((*NAMESPACE, "notes"), HOSTILE, {"text": HOSTILE})
    memory.corrections.core("k", f"{HOSTILE}!", by=HOSTILE[:50], namespace=NAMESPACE)
    trail.add(HOSTILE, HOSTILE, HOSTILE)
    trail.add_reference(HOSTILE, title=HOSTILE)
    trail.add_todo_from_chat(f"Please add {HOSTILE} to the page.")
    return memory.facts(HOSTILE, NAMESPACE).add_fact(
        HOSTILE, HOSTILE, "lives in", "<b>", source=[(HOSTILE, HOSTILE)] * 3
    )


@pytest.mark.sqlite_suffices
def test_hostile_names_are_escaped_on_every_page(memory, browse, tmp_path):
    fact, evil = hostile(memory), Experience(HOSTILE, [HOSTILE], HOSTILE, HOSTILE)
    (tmp_path / "handcrafted_exp_evil.yaml").write_text(evil.to_yaml(), encoding="utf-8")
    browser, text = browse(memory, experiences=memory.experiences(tmp_path)), quote(HOSTILE)
    browser.settled("/")  # what each namespace holds is known from then on
    whose, tabs = "namespace=" + quote('"><b>/a%2Fb'), ("messages", "memory", "diff", "compaction", "prompts")
    pages = [
        f"/{kind}?{whose}&id={text}&message={text}&show={tab}" for kind in ("thread", "conversation") for tab in tabs
    ]
    pages += [f"/thread?{whose}&id={text}&{name}={text}" for name in ("channel", "summary", "show", "message")]
    pages += [
        f"/memory?{whose}&branch={text}",
        f"/facts?{whose}&branch={text}&entity={text}",
        "/experiences",
        "/corrections",
    ]
    pages += [
        f"/fact?{whose}&branch={text}&id={fact}",
        f"/threads?{whose}&q=script",
        f"/correct?{whose}&kind=core&key=k",
    ]
    pages += [f"/search?{whose}&q={text}{more}" for more in ("", "&kind=audit", "&order=time", f"&conversation={text}")]
    pages += [f"/audit{more}{whose}" for more in ("?", "?q=script&", f"?conversation={text}&", "/todos?")]
    for page in pages:
        assert "<script>alert(1)</script>" in (shown := harmless(browser.settled(page)).text), page
        assert "\\u202egpj" in shown, page
    for page in ("/", "/threads", "/audit", f"/threads?role={text}", f"/audit/chain?{whose}", f"/facts?{whose}"):
        harmless(browser.settled(page))
    for page, code in ((f"/thread?id={text}&namespace=<b>", 404), (f"/thread?{whose}&id={text}&at={text}", 404),
                       (f"/fact?id={text}", 404), (f"/facts?before={text}", 400), (f"/corrections?start={text}", 400),
                       (f"/correct?kind=record&key={text}", 404), (f"/correct?kind={text}&key=x", 400)):  # fmt: skip
        harmless(browser.text_of(page, code))
    where = f"/erase?{whose}&conversation={text}"
    harmless(browser.submit(where, form_on=where, name="<b>").text)
