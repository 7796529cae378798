"""Every example runs as a reader would run it, and prints what it promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..forking import Forks  # noqa: TID252 - what tests share lies beside them

EXAMPLES = Path(__file__).parent.parent.parent / "examples"

PRINTS = {
    "experiences.py": [
        "user> Hello!\n    human   Hello!\nagent> How can I help?",
        "    system  Ask for the order number before you promise anything.",
        "agent> What is the number of your order?",
        "late-parcel: chosen 0 of 3, never applies\nrefund-needs-order: chosen 2 of 3, helps",
        "proposed_exp_warranty-first.yaml, which counts when somebody has reviewed and renamed it",
        "  - I want a refund for the kettle.\nwhat: |-\n  What the user corrected:\n  - No, check its warranty first.",
    ],
    "edit_and_regenerate.py": [
        "agent> this memory:     ['My sister Ana lives in Lisbon.']",
        (
            "agent> this memory:     ['My sister Ana lives in Porto.']\n"
            "  LangGraph store: ['My sister Ana lives in Lisbon.', 'My sister Ana lives in Porto.']"
        ),
        "shows what was known there: ['My sister Ana lives in Lisbon.']",
    ],
    "long_chat.py": [
        "the thread holds 120 messages",
        "human: Day 1: I planted a medlar tree",
        "human: This is a record of",
        "of 119 messages.",
        "Day 12: I planted a walnut tree at the wall, and wrote its name on slate number 84.",
    ],
    "where_in_march.py": [
        "Ana lives in Lisbon (from 2024-01-08 until 2024-04-01). 20 January: 'Ana moved to Lisbon on 2024-01-08.'",
        "Ana lives in Porto (since 2024-04-01). 02 May: 'Ana moved to Porto on 2024-04-01. I forgot to tell you.'",
        "on 20 April she lived in Porto; what we knew on that day was Lisbon",
        "    Ana lives in Lisbon, from 2024-01-08 until 2024-04-01\n    Ana lives in Porto, since 2024-04-01",
    ],
    "quickstart.py": ["You told me: My sister Ana lives in Lisbon", "recalled from 'monday'", "because of ana +"],
}


def test_every_example_has_its_promise():
    assert {path.name for path in EXAMPLES.glob("*.py")} == PRINTS.keys()


@pytest.fixture(scope="module")
def forks(tmp_path_factory):
    modules = ("langgraph.graph", "langchain_agentmem.stores.checkpoints", "langchain_agentmem.compaction.node")
    with Forks(tmp_path_factory.mktemp("outputs"), *modules) as forks:
        yield forks


@pytest.mark.parametrize("name", sorted(PRINTS))
def test_an_example_keeps_its_promise(name, tmp_path, monkeypatch, forks):
    monkeypatch.chdir(tmp_path)
    run = forks.run(f"import runpy; runpy.run_path({str(EXAMPLES / name)!r}, run_name='__main__')")
    assert (run.returncode, run.stderr) == (0, "")
    for promised in PRINTS[name]:
        assert promised in run.stdout
    assert list(tmp_path.iterdir()) == []
