"""The commands that read: one database with everything, shown as text that commands no terminal, and as JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph import MessagesState
from langgraph.types import interrupt

from langchain_agentmem import AgentMemory, Message
from tests.support.graphs import line

from . import commands
from .commands import fine

HOSTILE = "\x1b[31mred\x1b[0m \u202egpj.exe [bold]plain[/bold] :smile: \x07\x9b2J"
SHOWN = r"\x1b[31mred\x1b[0m \u202egpj.exe [bold]plain[/bold] :smile: \x07\x9b2J"
WHOSE = ("ada", "private")


class State(MessagesState, total=False):
    turns: int
    note: str


def config(**more):
    return {"configurable": {"thread_id": "trip", "agentmem_namespace": WHOSE, **more}}


def fill(memory: AgentMemory) -> None:
    """A thread that forks twice and waits, a long conversation, branches, and facts that changed."""

    def answer(state, config):
        turn = len(state["messages"])
        memory.layers(config).core.set("turn", str(turn))
        memory.facts(config).add_fact("user", "Ana", "visits", f"City {turn}")
        session = memory.session(config)
        session.add_post(session.create_round("q").id, send_from="User", send_to="Planner", message=f"go {turn}")
        memory.thread_store.put(("prefs",), "seat", {"row": turn})
        call = {"id": f"call-{turn}", "name": "look", "args": {"at": "map"}}
        reply = AIMessage(f"answer {turn}", id=f"a{turn}", tool_calls=[call])
        gone = [RemoveMessage("m1")] if turn == 5 else []
        return {"messages": [*gone, reply], "turns": turn, "note": HOSTILE}

    def ask(state):
        if state["turns"] == 5:
            interrupt({"question": f"sure? {HOSTILE}"})
        return {}

    app = line(memory.checkpointer, answer, ask, state=State)
    app.invoke({"messages": [HumanMessage(f"Hello {HOSTILE}\nand good day", id="m1")]}, config())
    first = memory.checkpointer.history(config()).checkpoints[0].checkpoint_id
    app.invoke({"messages": [HumanMessage("By sea", id="m2")]}, config())
    for text, key in (("By air", "m3"), ("By train", "m4")):
        app.invoke({"messages": [HumanMessage(text, id=key)]}, config(checkpoint_id=first))
    app.invoke({"messages": [HumanMessage("Really?", id="m5")]}, config())
    memory.conversation("trip", WHOSE).add(Message(role="user", content="a logged heron", message_id="l1"))
    talk = memory.conversation("talk", ("ben",))
    for n in range(60):
        role = "assistant" if n % 2 else "user"
        talk.add(
            Message(role=role, name="Ben" if n == 58 else None, content=f"heron {n}\r\n{HOSTILE}", message_id=f"x{n}")
        )
    main = memory.layers("main", ("ada",))
    main.core.set("name", "Ada")
    facts = memory.facts("main", ("ada",))
    turin, lisbon = datetime(2024, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)
    facts.add_fact("user", "Ana", "lives in", "Turin", valid_from=turin, confidence=0.5, source="m1")
    facts.add_fact("user", "Ana", "lives in", "Lisbon", valid_from=lisbon)
    facts.add_fact("user", "Lisbon", "lies in", "Portugal", valid_from=turin)
    draft = main.fork("draft")
    draft.core.set("name", f"Ada {HOSTILE}")
    draft.recall.append("asked", "how is the heron")
    draft.fork("deep")
    main.fork("other")


@pytest.fixture(scope="module")
def database(tmp_path_factory) -> str:
    path = str(tmp_path_factory.mktemp("reading") / "memory.db")
    with AgentMemory(path) as memory:
        fill(memory)
    return path


def on(path: str, arguments: Sequence[str]) -> list[str]:
    """The arguments of a command on a database."""
    words = 2 if arguments[0] in {"threads", "audit"} else 1
    return [*arguments[:words], path, *arguments[words:]]


@pytest.fixture
def run(agentmem, database):
    """Runs a command on a database."""
    return lambda *arguments, at=database, **environment: agentmem(*on(at, arguments), **environment)


@pytest.fixture
def lines(run):
    """The lines that a command printed that found nothing wrong, and no others."""

    def call(*arguments: str, **at: str) -> list[str]:
        printed = fine(run(*arguments, **at))
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", printed)
        return printed.splitlines()

    return call


@pytest.fixture
def told(run):
    """The JSON that a command printed."""
    return lambda *arguments, **at: commands.told(run(*arguments, "--json", **at))


@pytest.fixture
def refused(run):
    """The one line that a refused command printed."""
    return lambda *arguments, code=2, **at: commands.refused(run(*arguments, **at), code)


@pytest.fixture
def checkpoints(told):
    """Ids of checkpoints: where the thread forks, the end of each of its branches, and the newest."""
    every = told("branches", "trip")
    parents = [each["parent_id"] for each in every]
    ends = [each["checkpoint_id"] for each in every if each["checkpoint_id"] not in parents]
    fork = next(name for name in parents if parents.count(name) == 3)
    return {"fork": fork, "train": ends[0], "air": ends[1], "sea": ends[2]}


class TestThreads:
    def test_as_plain_columns_that_are_not_cut(self, lines, told):
        heading, *rows = lines("threads", "list")
        assert heading.split("  ")[0] == "thread"
        newest = told("threads", "list")[1]["checkpoint_id"]
        assert [re.split(r" {2,}", row)[:5] for row in rows] == [
            ["talk", "ben", "0", "0", "60"],
            ["trip", "ada/private", "19", "2", "9"],
        ]
        assert newest in rows[1]

    def test_those_of_words_of_a_role_and_of_a_time(self, told, run):
        def found(*options):
            return [each["thread_id"] for each in told("threads", "list", *options)]

        [talk, trip] = told("threads", "list")
        assert found("--query", "heron plain") == ["talk"]
        assert found("--query", "no such words") == []
        assert found("--role", "assistant", "--namespace", "ada") == ["trip"]
        assert found("--role", "Nobody") == []
        assert found("--since", trip["changed_at"]) == ["talk", "trip"]
        assert found("--until", talk["changed_at"]) == ["trip"]
        ran = run("threads", "list", "--since", "yesterday")
        assert (ran.returncode, "no time such as" in ran.stderr) == (2, True)

    def test_one_of_the_root_moves_into_a_namespace(self, lines, told, refused, path):
        with AgentMemory(path) as memory:
            for name in ("monday", "tuesday"):
                memory.conversation(name).add(Message(role="user", content="a heron", message_id="m"))
        assert lines("threads", "move", "monday", "users/ada", at=path) == ["monday is in users/ada."]
        moved = told("threads", "move", "tuesday", "users/ada", at=path)
        assert moved == {"namespace": ["users", "ada"], "thread_id": "tuesday"}
        assert {tuple(each["namespace"]) for each in told("threads", "list", at=path)} == {("users", "ada")}
        again = refused("threads", "move", "monday", "users/ada", at=path)
        assert again == "There is a conversation 'monday' in ('users', 'ada') already."
        assert "'nobody' in the root" in refused("threads", "move", "nobody", "users/ada")

    def test_a_namespace_a_limit_and_how_many_more_there_are(self, lines, told):
        assert [each["thread_id"] for each in told("threads", "list", "--namespace", "ada")] == ["trip"]
        assert lines("threads", "list", "--limit", "1")[-1] == "… and 1 more: --limit 2"
        assert len(told("threads", "list", "--limit", "1")) == 1
        [told_of] = lines("threads", "list", "--namespace", "nobody")
        assert told_of == (
            "There are no threads and no conversations in nobody. Elsewhere there is something: --namespace ben, "
            "--namespace ada/private, --namespace ada."
        )

    def test_many_are_paged(self, path, lines, told):
        with AgentMemory(path) as memory:
            for n in range(253):
                memory.conversation(f"c{n}").add(role="user", content="x")
        found = lines("threads", "list", at=path)
        assert (len(found), found[-1]) == (52, "… and 203 more: --limit 253")
        assert len(told("threads", "list", at=path)) == 253


class TestWhy:
    def test_what_prompts_were_shown_is_told_with_the_reasons(self, path, lines, told):
        with AgentMemory(path) as memory:
            memory.layers("ada").core.set("name", "Ada")
            record = memory.layers("ada").archival.write("The heron nests by the lake.")
            memory.conversation("t").add_messages([question := HumanMessage("Where does the heron nest?", id="q")])
            memory.inject("ada").invoke([question], {"configurable": {"thread_id": "t"}})
        found, begun = told("why", "t", at=path)
        assert (found["message_id"], found["kind"], found["id"], found["part"]) == ("q", "record", record, "archival")
        assert found["signals"]["heron"] > 0
        assert (begun["part"], begun["kind"], begun["id"], begun["score"]) == ("start", "core", "name", None)
        head, *rows = lines("why", "t", at=path)
        assert head.split() == ["for", "message", "part", "kind", "id", "score", "why"]
        assert "heron +" in rows[0]
        assert told("why", "t", "--message", "other", at=path) == []
        assert lines("why", "t", "--message", "other", at=path) == ["Nothing is known of the prompts of this thread."]


class TestShow:
    def test_the_core_memory_of_a_branch(self, path, lines, told):
        with AgentMemory(path) as memory:
            memory.layers("main").core.set("name", "Ada")
        assert lines("show", "--branch", "main", at=path)[1:] == ["name = Ada"]
        assert [each["key"] for each in told("show", "--branch", "main", at=path)["core"]] == ["name"]

    def test_a_thread_says_who_said_what(self, lines):
        head, *rest = lines("show", "trip")
        assert re.fullmatch(r"thread ada/private/trip: 5 messages at checkpoint \S+ \(step 9, loop\)", head)
        assert rest[:9] == [
            "assistant  a1",
            "   answer 1",
            '   calls look {"at": "map"}  call-1',
            "user  m4",
            "   By train",
            "assistant  a3",
            "   answer 3",
            '   calls look {"at": "map"}  call-3',
            "user  m5",
        ]
        assert f"state note = {SHOWN}" in rest
        assert any(line.startswith('waits: {"question": "sure? ') for line in rest)
        assert rest[-1] == "(its conversation's log holds 9 messages: agentmem show DATABASE trip --conversation)"

    def test_at_a_checkpoint_it_is_as_it_was(self, lines, told, checkpoints):
        shown = lines("show", "trip", "--at", checkpoints["fork"])
        assert [line for line in shown if line.startswith(("user", "assistant"))] == ["user  m1", "assistant  a1"]
        assert shown[2:4] == [f"   Hello {SHOWN}", "   and good day"]
        found = told("show", "trip", "--at", checkpoints["air"], "--namespace", "ada")
        assert found["namespace"] == ["ada", "private"]
        assert [each["id"] for each in found["messages"]] == ["m1", "a1", "m3", "a3"]
        assert found["messages"][0]["text"] == f"Hello {HOSTILE}\nand good day"
        assert found["messages"][1]["tool_calls"] == [{"id": "call-1", "name": "look", "arguments": '{"at": "map"}'}]
        assert (found["checkpoint_id"], found["state"]["turns"], found["waits"]) == (checkpoints["air"], 3, [])

    def test_what_came_before_is_counted(self, lines, told):
        shown = lines("show", "trip", "--limit", "2")
        assert shown[1] == "… 3 before these: --limit 5"
        assert [each["id"] for each in told("show", "trip", "--limit", "2")["messages"]] == ["m5", "a5"]

    def test_what_memory_brought_for_a_prompt_is_shown_if_that_is_wanted(self, path, lines, told):
        with AgentMemory(path) as memory:
            memory.layers("ada", WHOSE).core.set("name", "Ada")
            bring = line(
                memory.checkpointer, lambda state: {"messages": memory.inject("ada").invoke(state["messages"])}
            )
            bring.invoke({"messages": [HumanMessage("Who am I?", id="m1")]}, config())
        without, with_it = lines("show", "trip", at=path), lines("show", "trip", "--with-memory", at=path)
        assert "(memory put in 1 message of its own: --with-memory)" in without
        assert ["name**: Ada" in "".join(each) for each in (without, with_it)] == [False, True]
        assert [told("show", "trip", *more, at=path)["total"] for more in ([], ["--with-memory"])] == [1, 2]

    def test_a_conversation_by_its_end_or_around_a_message(self, lines, told):
        shown = lines("show", "talk", "--limit", "2")
        assert shown[0] == "conversation ben/talk: 60 messages"
        assert shown[1] == "… 58 before these: --limit 60"
        assert re.fullmatch(r"user \(Ben\)  x58  \d{4}-\d\d-\d\d \d\d:\d\d", shown[2])
        assert shown[3:5] == ["   heron 58", f"   {SHOWN}"]
        assert len([line for line in lines("show", "talk") if line.startswith(("user", "assistant"))]) == 50
        assert len(told("show", "talk")["messages"]) == 60
        around = told("show", "talk", "--around", "x30", "--limit", "3")
        assert [each["id"] for each in around["messages"]] == ["x29", "x30", "x31"]
        logged = told("show", "trip", "--conversation")
        assert (logged["kind"], [each["id"] for each in logged["messages"]]) == (
            "conversation",
            ["m1", "a1", "a3", "m4", "m5", "a5", "l1"],
        )

    def test_a_slash_within_a_label_is_written_as_in_urls(self, told, lines, refused, path):
        with AgentMemory(path) as memory:
            for label in ("a/b", "a%2Fb", "100%"):
                memory.conversation("talk", (label, "c")).add(role="user", content=label)
        assert {line.split()[1] for line in lines("threads", "list", at=path)[1:]} == {
            "a%2Fb/c",
            "a%252Fb/c",
            "100%25/c",
        }
        for written, label in (("a%2Fb/c", "a/b"), ("a%252Fb", "a%2Fb"), ("100%25", "100%"), ("100%", "100%")):
            shown = told("show", "talk", "--namespace", written, at=path)
            assert shown["messages"][0]["text"] == label
        assert "a%2Fb/c" in refused("show", "talk", at=path)

    def test_a_label_that_is_empty_is_refused(self, refused):
        of_threads = (("threads", "list"), ("show", "trip"), ("branches", "trip"), ("facts", "--thread", "trip"))
        others = (("search", "heron"), ("branches",), ("diff", "main", "draft"), ("facts",))
        for command in (*of_threads, *others, ("audit", "report"), ("audit", "todos")):
            for written in ("", "ada/"):
                said = refused(*command, "--namespace", written)
                assert said.startswith(f"{written!r} is no namespace: write labels separated by /"), command

    def test_what_is_not_there_is_refused(self, refused, path, checkpoints):
        assert "'nobody'. See: agentmem threads list DATABASE" in refused("show", "nobody")
        assert "in ben" in refused("show", "trip", "--namespace", "ben")
        assert (
            refused("show", "trip", "--at", "x") == "'trip' has no checkpoint 'x'. See: agentmem branches DATABASE trip"
        )
        assert "no checkpoints" in refused("show", "talk", "--at", checkpoints["air"])
        assert "--at" in refused("show", "trip", "--conversation", "--at", "x")
        assert "x99" in refused("show", "talk", "--around", "x99")
        with AgentMemory(path) as memory:
            for name in ("ada", "ben"):
                memory.conversation("talk", (name,)).add(role="user", content="x")
        assert refused("show", "talk", at=path).endswith("2 namespaces: ada, ben. Say --namespace.")


class TestSearch:
    def test_each_option_narrows_it(self, told):
        def kinds(*options):
            return {each["kind"] for each in told("search", "heron", "--everything", "--limit", "100", *options)}

        assert kinds() == {"message", "event"}
        assert kinds("--kind", "event") == {"event"}
        assert kinds("--kind", "event", "--kind", "message") == {"message", "event"}
        assert [each["id"] for each in told("search", "heron", "--everything", "--conversation", "trip")] == ["l1"]
        of_role = told("search", "heron", "--everything", "--role", "assistant", "--limit", "100")
        assert {int(each["id"][1:]) % 2 for each in of_role} == {1}
        assert told("search", "heron", "--everything", "--before", "2000-01-01") == []
        assert told("search", "heron", "--everything", "--after", "2999-01-01T00:00+02:00") == []
        assert len(told("search", "heron", "--everything", "--after", "2000-01-01", "--limit", "3")) == 3


class TestBranches:
    def test_checkpoints_are_a_tree_of_which_a_limit_leaves_the_oldest_out(self, lines, told, checkpoints):
        shown = lines("branches", "trip")
        drawn = [re.match(r"[ +-]*", line)[0] for line in shown]
        assert drawn == [""] * 4 + ["   "] * 6 + ["+- "] + ["   "] * 3 + ["+- "] + [""] * 4
        assert shown[-4].startswith(f"{checkpoints['fork']}  step 2  loop  ")
        assert lines("branches", "trip", "--limit", "3")[-1] == "… and 16 more: --limit 19"
        assert len(told("branches", "trip", "--limit", "3")) == 3

    def test_named_branches_are_a_tree(self, lines, told):
        shown = [re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "TIME", line) for line in lines("branches")]
        assert shown == [
            "ada",
            "  main  TIME  4 of its own",
            "  +- draft  TIME  2 of its own",
            "     +- deep  TIME  0 of its own",
            "  +- other  TIME  0 of its own",
        ]
        assert [(each["name"], each["parent"]) for each in told("branches", "--namespace", "ada")] == [
            ("main", None),
            ("draft", "main"),
            ("deep", "draft"),
            ("other", "main"),
        ]
        [told_of] = lines("branches", "--namespace", "ben")
        assert told_of.endswith("Elsewhere there is something: --namespace ada/private, --namespace ada.")
        assert "no checkpoints" in lines("branches", "talk")[0]


class TestDiff:
    def test_two_branches(self, lines, told):
        shown = lines("diff", "main", "draft")
        assert shown[:3] == ["core", "  - name: Ada", f"  + name: Ada {SHOWN}"]
        assert shown[3] == "recall"
        assert shown[4].endswith(": how is the heron")
        found = told("diff", "draft", "main")
        assert (found["from"], found["to"], found["namespace"], found["thread_id"]) == ("draft", "main", ["ada"], None)
        assert [(each["layer"], each["change"]) for each in found["changes"]] == [
            ("core", "changed"),
            ("recall", "removed"),
        ]
        assert lines("diff", "draft", "deep") == ["Nothing differs."]

    def test_two_checkpoints_in_all_that_follows_the_thread(self, told, lines, checkpoints):
        found = told("diff", checkpoints["fork"], checkpoints["sea"], "--thread", "trip")
        changes = {(each["layer"], each["change"]): (each["from"], each["to"]) for each in found["changes"]}
        assert changes["state", "changed"] == ("1", "3")
        assert changes["items", "changed"] == ('{"row": 1}', '{"row": 3}')
        assert changes["core", "changed"] == ("1", "3")
        assert changes["facts", "added"] == (None, "Ana visits City 3")
        assert changes["posts", "added"] == (None, "User -> Planner: go 3")
        said = [each["key"] for each in found["changes"] if each["layer"] == "messages"]
        assert said == ["m2", "a3"]
        shown = lines("diff", checkpoints["air"], "--thread", "trip", "--limit", "2")
        assert shown[1:3] == ["  - m1: user: Hello " + SHOWN + " and good day", "  - m3: user: By air"]
        assert re.fullmatch(r"… and \d+ more: --limit \d+", shown[-1])
        assert lines("diff", "--thread", "trip", checkpoints["sea"], checkpoints["sea"]) == ["Nothing differs."]

    def test_what_is_not_there_is_refused(self, refused, checkpoints):
        assert refused("diff", "main", "nope") == (
            "No namespace has the branches 'main', 'nope'. See: agentmem branches DATABASE"
        )
        assert "branches 'main'" in refused("diff", "main", "draft", "--namespace", "ben")
        assert "Name two" in refused("diff", "main")
        assert "no checkpoint 'main'" in refused("diff", "main", checkpoints["air"], "--thread", "trip")


class TestFacts:
    def test_what_holds_what_held_and_how_it_changed(self, lines, told):
        assert [line.rsplit("  ", 1)[0] for line in lines("facts")] == [
            "Lisbon lies in Portugal  since 2024-01-01",
            "Ana lives in Lisbon  since 2025-01-01",
        ]
        then = lines("facts", "Ana", "--as-of", "2024-05-05")
        assert then[0].startswith("Ana lives in Turin  from 2024-01-01 until 2025-01-01  50% sure  ")
        assert then[1] == "   told by user: m1"
        assert [each["object"] for each in told("facts", "Ana", "--history")] == ["Turin", "Lisbon"]
        assert [each["subject"] for each in told("facts", "Lisbon")] == ["Lisbon", "Ana"]
        assert told("facts", "--known", "2020-01-01") == []
        assert lines("facts", "Nobody") == [
            "No such facts are known. Elsewhere there is something: --namespace ada/private."
        ]
        assert lines("facts", "--limit", "1")[-1] == "… and 1 more: --limit 2"

    def test_neighbours(self, lines, told):
        near = told("facts", "Ana", "--neighbours", "--depth", "2")
        assert [(each["name"], each["distance"]) for each in near] == [("Lisbon", 1), ("Portugal", 2)]
        assert near[1]["fact"]["predicate"] == "lies in"
        assert lines("facts", "Ana", "--neighbours")[0] == "Lisbon  (1 away)"

    def test_those_of_a_thread_at_a_checkpoint(self, told, checkpoints):
        at_fork = told("facts", "--thread", "trip", "--at", checkpoints["fork"])
        assert [each["object"] for each in at_fork] == ["City 1"]
        assert [each["object"] for each in told("facts", "--thread", "trip")] == ["City 1", "City 3", "City 5"]

    def test_what_makes_no_sense_is_refused(self, refused):
        assert "branches 'nope'" in refused("facts", "--branch", "nope")
        for arguments in (["--history"], ["--neighbours"], ["--at", "x"], ["Ana", "--history", "--neighbours"]):
            assert refused("facts", *arguments)


EVERY = {
    "threads": ["threads", "list"],
    "show": ["show", "trip"],
    "show a conversation": ["show", "talk", "--limit", "3"],
    "search": ["search", "heron", "--everything", "--limit", "3"],
    "branches": ["branches"],
    "branches of a thread": ["branches", "trip"],
    "diff": ["diff", "main", "draft"],
    "facts": ["facts"],
    "neighbours": ["facts", "Ana", "--neighbours"],
    "audit": ["audit", "list", "--limit", "1"],
}


class TestEveryCommand:
    def test_its_help_documents_every_key_of_its_json(self, run, told):
        for name, arguments in EVERY.items():
            documented = run(*arguments, "--help").stdout.partition("JSON:")[2]
            found = told(*arguments)
            rows = [found, *found.get("messages", ()), *found.get("changes", ())] if isinstance(found, dict) else found
            for key in {key for row in rows for key in row if name != "audit"}:
                assert re.search(rf"\b{key}\b", documented), (name, key)

    def test_a_file_that_may_only_be_read_is_enough_and_is_left_as_it_was(self, database, lines, told):
        before = Path(database).read_bytes()
        for arguments in EVERY.values():
            assert told(*arguments, at=f"file:{database}?mode=ro") == told(*arguments)
        lines("show", "trip", at=f"file:{database}?mode=ro")
        assert Path(database).read_bytes() == before

    def test_a_terminal_is_shown_tables_and_colours_and_no_color_none(self, run, monkeypatch):
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "300")
        monkeypatch.setenv("TERM", "xterm-256color")
        assert "─" in run("threads", "list").stdout
        coloured = run("diff", "main", "draft").stdout
        assert re.search(r"\x1b\[3[12]m", coloured)
        assert SHOWN in coloured
        assert "\x1b" not in run("diff", "main", "draft", "--no-color").stdout
        monkeypatch.setenv("NO_COLOR", "1")
        assert "\x1b" not in run("diff", "main", "draft").stdout

    def test_without_a_database_nothing_is_guessed(self, refused, tmp_path):
        typo = str(tmp_path / "typo.db")
        for arguments in EVERY.values():
            assert "There is no database at" in refused(*arguments, at=typo)
        for place in (f"file:{typo}?mode=rw", f"file:{typo}"):
            assert "There is no database at" in refused("threads", "list", at=place)
        assert not Path(typo).exists()
        (tmp_path / "text.txt").write_text("not a database " * 100)
        assert "not a database" in refused("threads", "list", code=3, at=str(tmp_path / "text.txt"))

    def test_the_exit_codes_are_listed(self, run):
        listed = run("--help").stdout
        for code, start in ((0, "all is well"), (1, "a check"), (2, "a command"), (3, "the database"), (130, "interr")):
            assert re.search(rf"^ +{code} +{start}", listed, re.MULTILINE)
