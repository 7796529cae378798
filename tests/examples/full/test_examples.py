"""Every example runs as a reader would run it, and prints what it promises."""

import ast
import importlib
import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"
DOCS = EXAMPLES.parent / "docs"
LINES = 80
"""With more of them nobody reads it as one story."""
OURS = ("langchain_agentmem", "langchain_core", "langgraph")
"""What is installed without any extra."""
EXTRAS = {"langchain": "agents", "langgraph.checkpoint.sqlite": "import", "langgraph.checkpoint.postgres": "import"}
PUBLIC = ("langchain_agentmem", "langchain_agentmem.compaction")

PRINTS = {
    "agent.py": [
        "agent> Good to know.",
        "     user: **garden**: In the hills, with late frosts.",
        "This is a record of 6 earlier messages of this conversation that are not shown.",
        "     user: The diary of March was read.",
        "     user: Keep the root ball whole.",
        "assistant: After the last frost, in the middle of May. Keep its root ball whole.",
    ],
    "chains.py": [
        "    human   **name**: Ada\n",
        "    human   - Ada eats no nuts.\n",
        "    human   Which dishes with nuts are there?\n",
        "    human   You know: The harbour kitchen closes at ten.\n    human   When does the kitchen close?",
        "    system  Ask for how many people.\n",
        "    human   When shall we eat?\n    ai      At eight.\n    human   Is that not late?\n4 messages are kept",
    ],
    "edit_and_regenerate.py": [
        "agent> this memory:     ['My sister Ana lives in Lisbon.']",
        (
            "agent> this memory:     ['My sister Ana lives in Porto.']\n"
            "  LangGraph store: ['My sister Ana lives in Lisbon.', 'My sister Ana lives in Porto.']"
        ),
        "shows what was known there: ['My sister Ana lives in Lisbon.']",
    ],
    "experiences.py": [
        "user> Hello!\n    human   Hello!\nagent> How can I help?",
        "    human   Ask for the order number before you promise anything.",
        "agent> What is the number of your order?",
    ],
    "monday_tuesday.py": [
        "ada, tuesday> Where do I live?\n            > Home: Lisbon",
        "bob, tuesday> Where do I live?\n            > I know nothing of you.",
        "goes back to before Monday\nada, tuesday> Where do I live?\n            > I know nothing of you.",
        "deletes that conversation",
        "ada, tuesday> Where do I live?\n            > Home: Porto",
        "memories erased\nada, friday> Where do I live?\n           > I know nothing of you.",
    ],
    "long_run.py": [
        "the thread holds 7,000 tokens in 80 messages",
        "the model was shown 1,600 tokens at most: True",
        "  human Day 1\n  human This is a record of",
        "agent> Report of day 12: a walnut tree was planted at slate 84.  (recall_dropped was called)",
    ],
    "move_from_agent_memory_json.py": [
        "4 entries added, 1 lost: The file ends within an entry",
        "a copy of the damaged file is kept: True\nonce more: 0 are new",
        "['How many trees are there?', 'Where is the medlar?', 'Is it ripe?']",
        "hidden: [('thanks', ('small talk', 'filler'))]",
        "to be done: [TODO] Count the quinces (01 February 2025)",
        "found: At the wall.\nnothing was changed: True\n5 entries written back",
    ],
    "move_from_memory_tables.py": [
        "moved: {'memories': 5}\nmain\n  faster loops\n  less memory\n",
        "root:  {'goal': 'Solve it in 10 s.'}\nchild: {'goal': 'Solve it in 10 s.', 'best': '12 s with OpenMP'}",
        "02 June 2024 09:00 phase_complete: The baseline takes 40 s.\n  02 June 2024 10:00 execution_result: OpenMP",
        "found: Static scheduling wins over dynamic. ('openmp',)",
        "a sibling sees nothing of it: []",
        "## Retrieved Context\n- [record, ",
        ", import memgpt] Static scheduling wins over dynamic.",
    ],
    "move_from_message_dicts.py": [
        "given back as it was: True",
        "[{'role': 'user', 'content': 'And in Porto, in May?'}] was And in Porto?\nadditional state: {'step': 3}",
        "'Fact (user): Paris is capital of France.'",
        "beside Portugal: Lisbon",
        "6 messages, and a search finds: How warm is it in Lisbon?",
    ],
    "move_from_message_history.py": [
        "ada> When does it open?  That is your question 2.",
        "ada> Is there a ferry?  That is your question 3.\nfound: Where is the harbour?",
        "ada> How much is it?  That is your question 4.",
    ],
    "move_from_rounds.py": [
        "[('Plot the sales of May.', 'finished', 2), ('Send it to the moon.', 'failed', 0)]",
        "Planner to CodeInterpreter: Draw a bar chart of sales.csv. ['plan']",
        "2 rounds, 3 messages",
        "'The chart is in sales.png.' in 'sales', because of chart +",
        "True ['Check that a file is there before you read it.']\n('7',)",
    ],
    "move_from_sqlite_saver.py": [
        "moved 2 threads with 180 checkpoints\nonce more: 0 are new, 180 are there already",
        "ada> Answer 31. You began with 'Hello on day 0'.",
        "93 states of the past are there; from one of them:\nada> Answer 3.",
    ],
    "postgresql.py": [
        "one>   I know 1 things.\nother> I know 2 things. The thread goes on there.\nvisits: 40\n",
        "found: My sister Ana lives in Lisbon.\nwhole: True\nerased: []",
    ],
    "quickstart.py": ["You told me: My sister Ana lives in Lisbon", "recalled from 'monday'", "because of ana +"],
    "several_agents.py": [
        "the team knows: {'traveller': 'Ada'}\nhotels knows:   {'traveller': 'Ada', 'hotels': '90 euros'",
        "hotels finds:   ['The Harbour Inn has a room for 90 euros a night.']",
        "hotels and trains differ in 'cheapest': 'hotels, 90 euros' and 'trains, 60 euros'",
        "the team knows: {'cheapest': 'trains, 60 euros', 'hotels': '90 euros', 'trains': '60 euros', ",
        "trip\n  trip, hotels\n  trip, trains\n--- another tenant sees nothing of it\n{} []\n",
        "record | The night train to Lisbon costs 60 euros. | train +",
    ],
    "tracing.py": [
        " ms  LangGraph\n",
        "memory.compaction.compact  tokens_before=221  tokens_after=80  summary=A walk was told of.",
        "memory.injection.inject  query=What gift would Ana like?  records=Ana likes green tea",
        "memory.experience.select  query=What gift would Ana like?  chosen=one-gift",
        " ms  │  └─ mem_archival_search\n",
        "memory.facts.learn  turns=Ana likes green tea",
    ],
    "where_in_march.py": [
        "Ana lives in Lisbon (from 2024-01-08 until 2024-04-01). 20 January: 'Ana moved to Lisbon on 2024-01-08.'",
        "Ana lives in Porto (since 2024-04-01). 02 May: 'Ana moved to Porto on 2024-04-01. I forgot to tell you.'",
        "on 20 April she lived in Porto; what we knew on that day was Lisbon",
        "    Ana lives in Lisbon, from 2024-01-08 until 2024-04-01\n    Ana lives in Porto, since 2024-04-01",
    ],
    "workflow.py": [
        "   system: You plan trips. The user's name is Ada.\n",
        "     user: **diet**: No nuts.\n",
        "     user: This is a record of 4 earlier messages of this conversation that are not shown.\n",
        "     user: They saw many trams.\n",
        "] Ana lives in Lisbon\n     user: </recalled_memory>\n",
        "     user: Ask for how many people.\n",
        "     user: Book a table near Ana, please.\n",
        "core memory: {'diet': 'No nuts.'}\nfacts: ['Ana lives in Lisbon']\n",
        "audit: 4 calls of the model, whole: True",
    ],
}
"""What each prints: among other things, in this order."""


def test_every_example_has_its_promise():
    assert {path.name for path in EXAMPLES.glob("*.py")} == PRINTS.keys()


def ran(forks, name, *arguments, **environment):
    program = f"import runpy; runpy.run_path({str(EXAMPLES / name)!r}, run_name='__main__')"
    return forks.run(program, *arguments, **environment)


@pytest.mark.parametrize("name", sorted(PRINTS))
def test_an_example_keeps_its_promise(name, tmp_path, monkeypatch, forks, request):
    arguments = []
    if name == "postgresql.py":
        arguments.append(request.getfixturevalue("new_database")("postgres"))
    monkeypatch.chdir(tmp_path)
    run = ran(forks, name, *arguments)
    assert (run.returncode, run.stderr) == (0, "")
    at = 0
    for promised in PRINTS[name]:
        assert promised in run.stdout[at:]
        at = run.stdout.index(promised, at)
    assert list(tmp_path.iterdir()) == []


class TestPostgresql:
    def test_its_example_takes_the_url_from_the_environment_too(self, new_database, forks):
        run = ran(forks, "postgresql.py", AGENTMEM_URL=new_database("postgres"))
        assert (run.returncode, run.stderr) == (0, "")
        assert run.stdout.endswith("erased: []\n")

    def test_its_example_says_what_to_give_it(self, forks):
        run = ran(forks, "postgresql.py")
        assert run.returncode == 1
        assert run.stdout == ""
        assert "python examples/postgresql.py postgresql://" in run.stderr


def test_the_picture_shows_what_the_command_prints_today(forks):
    drawn = runpy.run_path(str(DOCS / "picture.py"))["picture"](
        ran(forks, "tracing.py").stdout, "python examples/tracing.py"
    )
    kept = (DOCS / "tracing.svg").read_text(encoding="utf-8")

    assert timeless(kept) == timeless(drawn), f"Draw it anew, as {DOCS / 'picture.py'} says."
    assert "@font-face" not in kept  # nothing is fetched to show it


def timeless(svg):
    """What stands in a picture, without how long it all took."""
    return re.sub(r"[\d.]+(?= ms)", "", " ".join(re.findall(r">([^<>]*)</text>", svg)).replace("&#160;", " ")).split()


@pytest.mark.parametrize("name", sorted(PRINTS))
class TestAReader:
    def test_is_told_what_to_run_and_what_it_needs(self, name):
        told = " ".join((ast.get_docstring(ast.parse(code(name))) or "").split())
        assert f"`python examples/{name}" in told
        assert re.search(r"It needs ((no extra and )?no key|the extra `\[\w+\]` and no key)\b", told)

    def test_reads_one_story(self, name):
        assert len(code(name).splitlines()) < LINES

    def test_needs_the_extra_that_is_named_and_no_other(self, name):
        named = re.findall(r"the extra `\[(\w+)\]` and no key", " ".join(code(name).split()))
        modules = {module for module, _ in imports(name)}
        others = {module for module in modules if module.split(".")[0] not in {*sys.stdlib_module_names, *OURS}}
        needed = {extra for module in modules for part, extra in EXTRAS.items() if f"{module}.".startswith(f"{part}.")}
        if name == "postgresql.py":
            needed.add("postgres")  # for its URL
        assert needed == set(named)
        assert {module for module in others if module.split(".")[0] not in EXTRAS} == set()

    def test_is_shown_public_names_only(self, name):
        tree = ast.walk(ast.parse(code(name)))
        assert [each.attr for each in tree if isinstance(each, ast.Attribute) and each.attr[0] == "_"] == []
        for module, names in imports(name):
            if module.startswith("langchain_agentmem"):
                assert module in PUBLIC
                assert set(names) <= set(dir(importlib.import_module(module)))


def imports(name):
    """The modules that an example imports, and what it takes of them."""
    for each in ast.walk(ast.parse(code(name))):
        if isinstance(each, ast.ImportFrom):
            yield each.module, [alias.name for alias in each.names]
        elif isinstance(each, ast.Import):
            yield from ((alias.name, []) for alias in each.names)


def code(name):
    return (EXAMPLES / name).read_text(encoding="utf-8")
