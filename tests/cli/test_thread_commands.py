"""The commands that read: one database with everything, as escaped text and as JSON."""

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
from .commands import stdout_of

HOSTILE = "\x1b[31mred\x1b[0m \u202egpj.exe [bold]plain[/bold] :smile: \x07\x9b2J"
SHOWN = r"\x1b[31mred\x1b[0m \u202egpj.exe [bold]plain[/bold] :smile: \x07\x9b2J"
NAMESPACE = ("ada", "private")


class State(MessagesState, total=False):
    turns: int
    note: str


def config(**more):
    return {"configurable": {"thread_id": "trip", "agentmem_namespace": NAMESPACE, **more}}


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
    memory.conversation("trip", NAMESPACE).add(Message(role="user", content="a logged heron", message_id="l1"))
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
        printed = stdout_of(run(*arguments, **at))
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", printed)
        return printed.splitlines()

    return call


@pytest.fixture
def read_json(run):
    """The JSON that a command printed."""
    return lambda *arguments, **at: commands.read_json(run(*arguments, "--json", **at))


@pytest.fixture
def error_of(run):
    """The one line that a refused command printed."""
    return lambda *arguments, code=2, **at: commands.error_of(run(*arguments, **at), code)


@pytest.fixture
def checkpoints(read_json):
    """Ids of checkpoints: where the thread forks, the end of each of its branches, and the newest."""
    every = read_json("branches", "trip")
    parents = [each["parent_id"] for each in every]
    ends = [each["checkpoint_id"] for each in every if each["checkpoint_id"] not in parents]
    fork = next(name for name in parents if parents.count(name) == 3)
    return {"fork": fork, "train": ends[0], "air": ends[1], "sea": ends[2]}


class TestThreads:
    def test_columns_are_plain_and_not_truncated(self, lines, read_json):
        heading, *rows = lines("threads", "list")
        assert heading.split("  ")[0] == "thread"
        newest = read_json("threads", "list")[1]["checkpoint_id"]
        assert [re.split(r" {2,}", row)[:5] for row in rows] == [
            ["talk", "ben", "0", "0", "60"],
            ["trip", "ada/private", "19", "2", "9"],
        ]
        assert newest in rows[1]

    def test_threads_are_filtered_by_words_role_and_time(self, read_json, run):
        def found(*options):
            return [each["thread_id"] for each in read_json("threads", "list", *options)]

        [talk, trip] = read_json("threads", "list")
        assert found("--query", "heron plain") == ["talk"]
        assert found("--query", "no such words") == []
        assert found("--role", "assistant", "--namespace", "ada") == ["trip"]
        assert found("--role", "Nobody") == []
        assert found("--since", trip["changed_at"]) == ["talk", "trip"]
        assert found("--until", talk["changed_at"]) == ["trip"]
        ran = run("threads", "list", "--since", "yesterday")
        assert (ran.returncode, "Invalid time" in ran.stderr) == (2, True)

    def test_root_thread_is_moved_into_a_namespace(self, lines, read_json, error_of, path):
        with AgentMemory(path) as memory:
            for name in ("monday", "tuesday"):
                memory.conversation(name).add(Message(role="user", content="a heron", message_id="m"))
        assert lines("threads", "move", "monday", "users/ada", at=path) == ["Moved monday to users/ada."]
        moved = read_json("threads", "move", "tuesday", "users/ada", at=path)
        assert moved == {"namespace": ["users", "ada"], "thread_id": "tuesday"}
        assert {tuple(each["namespace"]) for each in read_json("threads", "list", at=path)} == {("users", "ada")}
        again = error_of("threads", "move", "monday", "users/ada", at=path)
        assert again == "There is a conversation 'monday' in ('users', 'ada') already."
        assert "'nobody' in the root" in error_of("threads", "move", "nobody", "users/ada")

    def test_namespace_and_limit_options_report_the_remainder(self, lines, read_json):
        assert [each["thread_id"] for each in read_json("threads", "list", "--namespace", "ada")] == ["trip"]
        assert lines("threads", "list", "--limit", "1")[-1] == "… and 1 more: --limit 2"
        assert len(read_json("threads", "list", "--limit", "1")) == 1
        [told_of] = lines("threads", "list", "--namespace", "nobody")
        assert told_of == (
            "There are no threads and no conversations in nobody. Entries exist under --namespace ben, "
            "--namespace ada/private, --namespace ada."
        )

    def test_thread_list_is_limited_unless_json(self, path, lines, read_json):
        with AgentMemory(path) as memory:
            for n in range(253):
                memory.conversation(f"c{n}").add(role="user", content="x")
        found = lines("threads", "list", at=path)
        assert (len(found), found[-1]) == (52, "… and 203 more: --limit 253")
        assert len(read_json("threads", "list", at=path)) == 253


def test_injected_memory_is_listed_with_reasons(path, lines, read_json):
    with AgentMemory(path) as memory:
        memory.layers("ada").core.set("name", "Ada")
        record = memory.layers("ada").archival.write("The heron nests by the lake.")
        memory.conversation("t").add_messages([question := HumanMessage("Where does the heron nest?", id="q")])
        memory.inject("ada").invoke([question], {"configurable": {"thread_id": "t"}})
    found, begun = read_json("why", "t", at=path)
    assert (found["message_id"], found["kind"], found["id"], found["part"]) == ("q", "record", record, "archival")
    assert found["signals"]["heron"] > 0
    assert (begun["part"], begun["kind"], begun["id"], begun["score"]) == ("start", "core", "name", None)
    head, *rows = lines("why", "t", at=path)
    assert head.split() == ["for", "message", "part", "kind", "id", "score", "why"]
    assert "heron +" in rows[0]
    assert read_json("why", "t", "--message", "other", at=path) == []
    assert lines("why", "t", "--message", "other", at=path) == ["No injected memory is recorded for this thread."]


class TestShow:
    def test_show_prints_core_memory_of_a_branch(self, path, lines, read_json):
        with AgentMemory(path) as memory:
            memory.layers("main").core.set("name", "Ada")
        assert lines("show", "--branch", "main", at=path)[1:] == ["name = Ada"]
        assert [each["key"] for each in read_json("show", "--branch", "main", at=path)["core"]] == ["name"]

    def test_show_prints_messages_with_roles(self, lines):
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
        assert rest[-1] == "(the log of the conversation has 9 messages: agentmem show DATABASE trip --conversation)"

    def test_show_at_a_checkpoint_prints_its_state(self, lines, read_json, checkpoints):
        shown = lines("show", "trip", "--at", checkpoints["fork"])
        assert [line for line in shown if line.startswith(("user", "assistant"))] == ["user  m1", "assistant  a1"]
        assert shown[2:4] == [f"   Hello {SHOWN}", "   and good day"]
        found = read_json("show", "trip", "--at", checkpoints["air"], "--namespace", "ada")
        assert found["namespace"] == ["ada", "private"]
        assert [each["id"] for each in found["messages"]] == ["m1", "a1", "m3", "a3"]
        assert found["messages"][0]["text"] == f"Hello {HOSTILE}\nand good day"
        assert found["messages"][1]["tool_calls"] == [{"id": "call-1", "name": "look", "arguments": '{"at": "map"}'}]
        assert (found["checkpoint_id"], found["state"]["turns"], found["waits"]) == (checkpoints["air"], 3, [])

    def test_earlier_messages_are_counted(self, lines, read_json):
        shown = lines("show", "trip", "--limit", "2")
        assert shown[1] == "… 3 earlier: --limit 5"
        assert [each["id"] for each in read_json("show", "trip", "--limit", "2")["messages"]] == ["m5", "a5"]

    def test_injected_messages_are_shown_with_the_option_only(self, path, lines, read_json):
        with AgentMemory(path) as memory:
            memory.layers("ada", NAMESPACE).core.set("name", "Ada")
            bring = line(
                memory.checkpointer, lambda state: {"messages": memory.inject("ada").invoke(state["messages"])}
            )
            bring.invoke({"messages": [HumanMessage("Who am I?", id="m1")]}, config())
        without, with_it = lines("show", "trip", at=path), lines("show", "trip", "--with-memory", at=path)
        assert "(memory injected 1 message: --with-memory)" in without
        assert ["name**: Ada" in "".join(each) for each in (without, with_it)] == [False, True]
        assert [read_json("show", "trip", *more, at=path)["total"] for more in ([], ["--with-memory"])] == [1, 2]

    def test_conversation_is_shown_at_end_or_around_message(self, lines, read_json):
        shown = lines("show", "talk", "--limit", "2")
        assert shown[0] == "conversation ben/talk: 60 messages"
        assert shown[1] == "… 58 earlier: --limit 60"
        assert re.fullmatch(r"user \(Ben\)  x58  \d{4}-\d\d-\d\d \d\d:\d\d", shown[2])
        assert shown[3:5] == ["   heron 58", f"   {SHOWN}"]
        assert len([line for line in lines("show", "talk") if line.startswith(("user", "assistant"))]) == 50
        assert len(read_json("show", "talk")["messages"]) == 60
        around = read_json("show", "talk", "--around", "x30", "--limit", "3")
        assert [each["id"] for each in around["messages"]] == ["x29", "x30", "x31"]
        logged = read_json("show", "trip", "--conversation")
        assert (logged["kind"], [each["id"] for each in logged["messages"]]) == (
            "conversation",
            ["m1", "a1", "a3", "m4", "m5", "a5", "l1"],
        )

    def test_slash_in_a_label_is_percent_encoded(self, read_json, lines, error_of, path):
        with AgentMemory(path) as memory:
            for label in ("a/b", "a%2Fb", "100%"):
                memory.conversation("talk", (label, "c")).add(role="user", content=label)
        assert {line.split()[1] for line in lines("threads", "list", at=path)[1:]} == {
            "a%2Fb/c",
            "a%252Fb/c",
            "100%25/c",
        }
        for written, label in (("a%2Fb/c", "a/b"), ("a%252Fb", "a%2Fb"), ("100%25", "100%"), ("100%", "100%")):
            shown = read_json("show", "talk", "--namespace", written, at=path)
            assert shown["messages"][0]["text"] == label
        assert "a%2Fb/c" in error_of("show", "talk", at=path)

    def test_empty_label_is_refused(self, error_of):
        of_threads = (("threads", "list"), ("show", "trip"), ("branches", "trip"), ("facts", "--thread", "trip"))
        others = (("search", "heron"), ("branches",), ("diff", "main", "draft"), ("facts",))
        for command in (*of_threads, *others, ("audit", "report"), ("audit", "todos")):
            for written in ("", "ada/"):
                said = error_of(*command, "--namespace", written)
                assert said.startswith(f"Invalid namespace {written!r}. Write labels separated by /"), command

    def test_missing_objects_are_refused(self, error_of, path, checkpoints):
        assert "'nobody'. See: agentmem threads list DATABASE" in error_of("show", "nobody")
        assert "in ben" in error_of("show", "trip", "--namespace", "ben")
        assert (
            error_of("show", "trip", "--at", "x")
            == "'trip' has no checkpoint 'x'. See: agentmem branches DATABASE trip"
        )
        assert "no checkpoints" in error_of("show", "talk", "--at", checkpoints["air"])
        assert "--at" in error_of("show", "trip", "--conversation", "--at", "x")
        assert "x99" in error_of("show", "talk", "--around", "x99")
        with AgentMemory(path) as memory:
            for name in ("ada", "ben"):
                memory.conversation("talk", (name,)).add(role="user", content="x")
        assert error_of("show", "talk", at=path).endswith("2 namespaces: ada, ben. Select one with --namespace.")


def test_each_option_filters_results(read_json):
    def kinds(*options):
        return {each["kind"] for each in read_json("search", "heron", "--everything", "--limit", "100", *options)}

    assert kinds() == {"message", "event"}
    assert kinds("--kind", "event") == {"event"}
    assert kinds("--kind", "event", "--kind", "message") == {"message", "event"}
    assert [each["id"] for each in read_json("search", "heron", "--everything", "--conversation", "trip")] == ["l1"]
    of_role = read_json("search", "heron", "--everything", "--role", "assistant", "--limit", "100")
    assert {int(each["id"][1:]) % 2 for each in of_role} == {1}
    assert read_json("search", "heron", "--everything", "--before", "2000-01-01") == []
    assert read_json("search", "heron", "--everything", "--after", "2999-01-01T00:00+02:00") == []
    assert len(read_json("search", "heron", "--everything", "--after", "2000-01-01", "--limit", "3")) == 3


class TestBranches:
    def test_checkpoint_tree_is_drawn_and_limited_to_newest(self, lines, read_json, checkpoints):
        shown = lines("branches", "trip")
        drawn = [re.match(r"[ +-]*", line)[0] for line in shown]
        assert drawn == [""] * 4 + ["   "] * 6 + ["+- "] + ["   "] * 3 + ["+- "] + [""] * 4
        assert shown[-4].startswith(f"{checkpoints['fork']}  step 2  loop  ")
        assert lines("branches", "trip", "--limit", "3")[-1] == "… and 16 more: --limit 19"
        assert len(read_json("branches", "trip", "--limit", "3")) == 3

    def test_named_branches_are_drawn_as_a_tree(self, lines, read_json):
        shown = [re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "TIME", line) for line in lines("branches")]
        assert shown == [
            "ada",
            "  main  TIME  4 own entries",
            "  +- draft  TIME  2 own entries",
            "     +- deep  TIME  0 own entries",
            "  +- other  TIME  0 own entries",
        ]
        assert [(each["name"], each["parent"]) for each in read_json("branches", "--namespace", "ada")] == [
            ("main", None),
            ("draft", "main"),
            ("deep", "draft"),
            ("other", "main"),
        ]
        [told_of] = lines("branches", "--namespace", "ben")
        assert told_of.endswith("Entries exist under --namespace ada/private, --namespace ada.")
        assert "no checkpoints" in lines("branches", "talk")[0]


class TestDiff:
    def test_diff_compares_two_branches(self, lines, read_json):
        shown = lines("diff", "main", "draft")
        assert shown[:3] == ["core", "  - name: Ada", f"  + name: Ada {SHOWN}"]
        assert shown[3] == "recall"
        assert shown[4].endswith(": how is the heron")
        found = read_json("diff", "draft", "main")
        assert (found["from"], found["to"], found["namespace"], found["thread_id"]) == ("draft", "main", ["ada"], None)
        assert [(each["layer"], each["change"]) for each in found["changes"]] == [
            ("core", "changed"),
            ("recall", "removed"),
        ]
        assert lines("diff", "draft", "deep") == ["No differences."]

    def test_diff_compares_two_checkpoints_in_every_layer(self, read_json, lines, checkpoints):
        found = read_json("diff", checkpoints["fork"], checkpoints["sea"], "--thread", "trip")
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
        assert lines("diff", "--thread", "trip", checkpoints["sea"], checkpoints["sea"]) == ["No differences."]

    def test_missing_objects_are_refused(self, error_of, checkpoints):
        assert error_of("diff", "main", "nope") == (
            "No namespace has the branches 'main', 'nope'. See: agentmem branches DATABASE"
        )
        assert "branches 'main'" in error_of("diff", "main", "draft", "--namespace", "ben")
        assert "Pass two branches" in error_of("diff", "main")
        assert "no checkpoint 'main'" in error_of("diff", "main", checkpoints["air"], "--thread", "trip")


class TestFacts:
    def test_facts_command_shows_current_past_and_history(self, lines, read_json):
        assert [line.rsplit("  ", 1)[0] for line in lines("facts")] == [
            "Lisbon lies in Portugal  since 2024-01-01",
            "Ana lives in Lisbon  since 2025-01-01",
        ]
        then = lines("facts", "Ana", "--as-of", "2024-05-05")
        assert then[0].startswith("Ana lives in Turin  from 2024-01-01 until 2025-01-01  50% sure  ")
        assert then[1] == "   from user: m1"
        assert [each["object"] for each in read_json("facts", "Ana", "--history")] == ["Turin", "Lisbon"]
        assert [each["subject"] for each in read_json("facts", "Lisbon")] == ["Lisbon", "Ana"]
        assert read_json("facts", "--known", "2020-01-01") == []
        assert lines("facts", "Nobody") == ["No facts found. Entries exist under --namespace ada/private."]
        assert lines("facts", "--limit", "1")[-1] == "… and 1 more: --limit 2"

    def test_neighbours_lists_entities_by_distance(self, lines, read_json):
        near = read_json("facts", "Ana", "--neighbours", "--depth", "2")
        assert [(each["name"], each["distance"]) for each in near] == [("Lisbon", 1), ("Portugal", 2)]
        assert near[1]["fact"]["predicate"] == "lies in"
        assert lines("facts", "Ana", "--neighbours")[0] == "Lisbon  (1 away)"

    def test_thread_facts_are_shown_at_a_checkpoint(self, read_json, checkpoints):
        at_fork = read_json("facts", "--thread", "trip", "--at", checkpoints["fork"])
        assert [each["object"] for each in at_fork] == ["City 1"]
        assert [each["object"] for each in read_json("facts", "--thread", "trip")] == ["City 1", "City 3", "City 5"]

    def test_invalid_options_are_refused(self, error_of):
        assert "branches 'nope'" in error_of("facts", "--branch", "nope")
        for command in (
            "facts --history", "facts --neighbours", "facts --at x", "facts Ana --history --neighbours",
            "facts --branch main --thread trip", "facts Ana --depth 1", "show --branch main --around x1",
            "show --branch main --at x", "show --branch main --conversation", "show --branch main --with-memory",
            "show talk --with-memory",
        ):  # fmt: skip
            assert "--" in error_of(*command.split())


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
    def test_help_documents_every_json_key(self, run, read_json):
        for name, arguments in EVERY.items():
            documented = run(*arguments, "--help").stdout.partition("JSON:")[2]
            found = read_json(*arguments)
            rows = [found, *found.get("messages", ()), *found.get("changes", ())] if isinstance(found, dict) else found
            for key in {key for row in rows for key in row if name != "audit"}:
                assert re.search(rf"\b{key}\b", documented), (name, key)

    def test_read_only_file_is_readable_and_stays_unchanged(self, database, lines, read_json):
        before = Path(database).read_bytes()
        for arguments in EVERY.values():
            assert read_json(*arguments, at=f"file:{database}?mode=ro") == read_json(*arguments)
        lines("show", "trip", at=f"file:{database}?mode=ro")
        assert Path(database).read_bytes() == before

    def test_terminal_output_has_colors_unless_disabled(self, run, monkeypatch):
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

    def test_missing_database_is_refused_and_not_created(self, error_of, tmp_path):
        typo = str(tmp_path / "typo.db")
        for arguments in EVERY.values():
            assert "There is no database at" in error_of(*arguments, at=typo)
        for place in (f"file:{typo}?mode=rw", f"file:{typo}"):
            assert "There is no database at" in error_of("threads", "list", at=place)
        assert not Path(typo).exists()
        (tmp_path / "text.txt").write_text("not a database " * 100)
        assert "not a database" in error_of("threads", "list", code=3, at=str(tmp_path / "text.txt"))

    def test_help_lists_exit_codes(self, run):
        listed = run("--help").stdout
        for code, start in ((0, "success"), (1, "a check"), (2, "usage error"), (3, "database error"), (130, "interr")):
            assert re.search(rf"^ +{code} +{start}", listed, re.MULTILINE)
