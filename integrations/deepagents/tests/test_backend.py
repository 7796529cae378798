"""The backend alone: sharing, isolation, errors and concurrent edits."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

import pytest
from deepagents.backends.protocol import FileUploadResponse
from langchain_agentmem_deepagents import ENTRIES, AgentMemoryBackend
from langgraph.store.base import GetOp, SearchOp

from langchain_agentmem import AgentMemory, InvalidInput

HOSTILE = [
    "/../etc/passwd", "/a/../../b", "/memories/../secret.md", "..", "a.txt", "", "~/x", "/a//b", "/./a", "/a\0b",
    "/a\nb", "C:\\x", "/a\\..\\b", "/\ud800", "/" + "x" * 2_001, None, 7,
]  # fmt: skip


@pytest.fixture
def backend(memory):
    return AgentMemoryBackend(memory)


def paths(result):
    return [entry["path"] for entry in result.entries]


def test_memories_are_shared_and_files_are_per_thread(memory, backend, within, thread):
    def work():
        backend.write("/memories/ana.md", "Ana lives in Lisbon.")
        backend.write("/plan.md", "Buy a ticket.")
        return paths(backend.ls("/"))

    assert within(memory, thread("monday"), work) == ["/memories/", "/plan.md"]
    assert within(memory, thread("tuesday"), lambda: paths(backend.ls("/"))) == ["/memories/"]
    assert within(memory, thread("tuesday"), lambda: backend.grep("Lisbon").matches[0]["path"]) == "/memories/ana.md"


def test_shared_folders_are_configurable(memory, within, thread):
    backend = AgentMemoryBackend(memory, shared=["/team", "/memories/all/"])
    files = [("/team/a", b"1"), ("/memories/all/b", b"2"), ("/memories/c", b"3"), ("/teamwork", b"4")]
    within(memory, thread("monday"), lambda: backend.upload_files(files))
    seen = within(memory, thread("tuesday"), lambda: [info["path"] for info in backend.glob("**").matches])
    assert sorted(seen) == ["/memories/all/b", "/team/a"]
    everything = AgentMemoryBackend(memory, shared=("/",))
    assert everything.write("/anywhere.md", "no thread is needed").path == "/anywhere.md"


def test_namespaces_are_isolated(memory, backend, within, thread):
    def work():
        backend.upload_files([("/memories/x.md", b"the code is 4711"), ("/x.md", b"the code is 4711")])

    within(memory, thread("t", ("alice",)), work)
    for name, other in (("t", ("bob",)), ("t", ("alice", "sister")), ("t", ("ali",)), ("elsewhere", ())):
        config = thread(name, other)
        assert within(memory, config, lambda: backend.grep("4711").matches) == []
        assert within(memory, config, lambda: backend.read("/memories/x.md").error) is not None
        assert within(memory, config, lambda: backend.delete("/").error) is not None
        assert backend.at(config).glob("*").matches == []
    assert len(within(memory, thread("t", ("alice",)), lambda: backend.grep("4711").matches)) == 2
    assert len(AgentMemoryBackend(memory, ("alice",)).ls("/memories/").entries) == 1, "a namespace that was given"
    assert AgentMemoryBackend(memory, ("bob",)).ls("/memories/").entries == []


def test_checkpoint_shows_its_files_read_only(memory, backend, within, thread):
    config = thread()
    within(memory, config, lambda: backend.write("/plan.md", "first"))
    then = memory.checkpointer.get_tuple(config).config
    within(memory, config, lambda: backend.edit("/plan.md", "first", "second"))
    assert backend.at(then).read("/plan.md").file_data["content"] == "first"
    assert backend.at(config).read("/plan.md").file_data["content"] == "second"
    seen = backend.at(then)
    assert seen.upload_files([("/plan.md", b"")]) == [FileUploadResponse("/plan.md", "permission_denied")]
    for result in (
        seen.write("/plan.md", ""), seen.edit("/plan.md", "f", "g"), seen.delete("/"), seen.write("/memories/x", "")
    ):  # fmt: skip
        assert result.error.startswith("Error: permission_denied: ")
    assert backend.at(then).read("/plan.md").file_data["content"] == "first"


def test_only_shared_files_are_reachable_without_thread(backend):
    backend.write("/memories/a.md", "here")
    assert paths(backend.ls("/memories")) == ["/memories/a.md"]
    for reach in (lambda: backend.ls("/"), lambda: backend.write("/a.md", ""), lambda: backend.read("/a.md")):
        with pytest.raises(InvalidInput, match="Pass thread_id in the run's config"):
            reach()
    with pytest.raises(InvalidInput):
        backend.at({})


@pytest.mark.parametrize("hostile", HOSTILE, ids=ascii)
def test_invalid_path_is_refused_and_changes_nothing(memory, hostile):
    backend = AgentMemoryBackend(memory, shared=("/",))
    backend.write("/memories/a.md", "here")
    assert backend.download_files([hostile])[0].error == "invalid_path"
    assert backend.upload_files([(hostile, b"x"), ("/ok", b"y")])[0].error == "invalid_path"
    assert backend.read("/ok").file_data["content"] == "y", "the others are kept"
    for result in (backend.read(hostile), backend.write(hostile, "x"), backend.edit(hostile, "a", "b")):
        assert result.error.startswith("Error: invalid_path: ")
    if hostile not in ("", None, "a.txt"):  # the root, or a folder that is not there
        for result in (
            backend.ls(hostile),
            backend.grep("here", hostile),
            backend.glob("*", hostile),
            backend.delete(hostile),
        ):
            assert result.error.startswith("Error: invalid_path: ")
    assert sorted(info["path"] for info in backend.glob("**").matches) == ["/memories/a.md", "/ok"]


def test_folders_and_files_have_different_errors(memory):
    backend = AgentMemoryBackend(memory, shared=("/",))
    backend.write("/d/e/a.md", "here")
    errors = [each.error for each in backend.download_files(["/d", "/d/e", "/d/", "/d/e/a.md", "/d/e/a"])]
    assert errors == ["is_directory", "is_directory", "is_directory", None, "file_not_found"]
    assert backend.upload_files([("/d/", b"")])[0].error == "is_directory"


def test_invalid_text_is_refused_and_bytes_are_preserved(memory):
    backend = AgentMemoryBackend(memory, shared=("/",))
    assert "invalid_text" in backend.write("/a", "\ud800").error
    backend.write("/a", "nul \0 and all")
    assert "invalid_text" in backend.edit("/a", "nul", "\udfff").error
    assert "invalid_text" in backend.write("/a", None).error
    contents = [b"nul \0 and all", bytes(range(256)), b"", "\ufeffé\r\n\u2028".encode()]
    names = ["/a", "/b.png", "/c", "/d"]
    backend.upload_files(list(zip(names[1:], contents[1:], strict=True)))
    assert [each.content for each in backend.download_files(names)] == contents
    assert backend.edit("/b.png", "a", "b").error == "Error: Cannot edit binary files with text replacements."


def test_current_text_is_searchable_and_replaced_is_not(memory, backend, within, thread):
    config = thread("monday", ("alice",))

    def work():
        backend.write("/memories/ana.md", "Ana lives in Lisbon.")
        backend.write("/plan.md", "Buy a ticket to Porto.")
        backend.edit("/plan.md", "Porto", "Faro")

    within(memory, config, work)
    [found] = memory.search("Lisbon", namespace=("alice",), limit=1)
    assert (found.id, found.text) == ("/memories/ana.md", "Ana lives in Lisbon.")
    assert [each.id for each in memory.search("Faro", config=config)] == ["/plan.md"]
    assert memory.search("Porto", config=config) == []
    assert memory.search("Lisbon", namespace=("bob",)) == []


@pytest.mark.parametrize("folder", ["/memories", "/work"])
def test_large_files_are_edited_read_and_searched(memory, backend, within, thread, folder):
    text = "".join(f"line {number} of a long text\n" for number in range(40_000))

    def work():
        backend.write(f"{folder}/long.txt", text)
        result = backend.edit(f"{folder}/long.txt", "line 39999 of", "the last of")
        window = backend.read(f"{folder}/long.txt", offset=39_998, limit=5)
        return result.occurrences, window.file_data["content"], backend.grep("the last", folder).matches[0]["line"]

    assert len(text) > 1_000_000
    window = "line 39998 of a long text\nthe last of a long text\n"
    assert within(memory, thread(), work) == (1, window, 40_000)


@pytest.mark.parametrize("folder", ["/memories", "/work"])
def test_listing_many_files_reads_no_contents(memory, backend, within, thread, folder):
    text = "a line that is long enough to be told from nothing\n" * 20
    files = [(f"{folder}/d{n % 10}/{n}.md", f"{text}number {n}\n".encode()) for n in range(600)]
    store = memory.store if folder == "/memories" else memory.thread_store
    asked, batch = [], store.batch

    def work():
        assert not any(each.error for each in backend.upload_files(files))
        assert [each["path"] for each in backend.grep("number 599", folder).matches] == [f"{folder}/d9/599.md"]
        assert len(backend.grep("number", folder, max_count=7).matches) == 7
        store.batch = lambda ops: asked.extend(ops := list(ops)) or batch(ops)
        assert len(backend.ls(folder).entries) == 10
        assert len(backend.ls(f"{folder}/d3").entries) == 60
        assert len(backend.glob("*9.md", folder).matches) == 60
        missing = [f"{folder}/none/{n}" for n in range(50)]
        assert {each.error for each in backend.download_files([*missing, f"{folder}/d3"])} == {
            "file_not_found",
            "is_directory",
        }

    within(memory, thread(), work)
    searches = [op for op in asked if isinstance(op, SearchOp)]
    assert len(searches) == 4
    assert {op.namespace_prefix for op in searches} == {(ENTRIES,)}
    assert not [
        op for op in asked if isinstance(op, GetOp) and not op.key.startswith((f"{folder}/none/", f"{folder}/d3"))
    ]


def test_concurrent_edits_lose_nothing(path, postgres):
    """Eight threads of this process and another process edit one file."""
    words = [f"<{number}>" for number in range(32)]
    script = (
        "import sys; from langchain_agentmem import AgentMemory\n"
        "from langchain_agentmem_deepagents import AgentMemoryBackend\n"
        "for url in sys.argv[1:3]:\n"
        "    with AgentMemory(url) as memory:\n"
        "        backend = AgentMemoryBackend(memory)\n"
        "        print(backend.read('/memories/tally.md').error, flush=True)\n"
        "        for word in sys.argv[3:]: assert not backend.edit('/memories/tally.md', word, word[1:-1]).error\n"
    )
    with AgentMemory(path) as sqlite, AgentMemory(postgres) as other_engine, ThreadPoolExecutor(8) as pool:
        backends = [AgentMemoryBackend(memory) for memory in (sqlite, other_engine)]
        for backend in backends:
            backend.write("/memories/tally.md", " ".join(words))
        arguments = [sys.executable, "-c", script, str(path), postgres, *words[::2]]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as other:
            for backend in backends:
                assert other.stdout.readline() == "None\n", "it finds the file"
                edits = pool.map(
                    lambda word, at: at.edit("/memories/tally.md", word, word[1:-1]), words[1::2], repeat(backend)
                )
                assert [each.error for each in edits] == [None] * 16
            assert other.wait(120) == 0
        for backend in backends:
            kept = backend.read("/memories/tally.md").file_data["content"]
            assert kept == " ".join(word[1:-1] for word in words)


def test_edit_keeps_concurrent_writes_and_deletions(memory):
    mine, other = AgentMemoryBackend(memory), AgentMemoryBackend(memory)
    batch = memory.store.batch

    def interrupted(by):
        """Edit a file that says something else once it was read."""
        mine.write("/memories/a.md", "one two")
        between = [by]

        def then(ops):
            result = batch(ops)
            if between and result[0] is not None:
                between.pop()()
            return result

        memory.store.batch = then
        return mine.edit("/memories/a.md", "two", "2").error

    assert interrupted(lambda: other.write("/memories/a.md", "1 two")) is None
    assert mine.read("/memories/a.md").file_data["content"] == "1 2"
    assert "not found" in interrupted(lambda: other.write("/memories/a.md", "all new"))
    assert mine.read("/memories/a.md").file_data["content"] == "all new"
    assert "not found" in interrupted(lambda: other.delete("/memories/a.md"))
    assert mine.ls("/memories").entries == []


def test_edit_lock_timeout_is_an_error_without_changes(memory, monkeypatch):
    backend = AgentMemoryBackend(memory)
    backend.write("/memories/a.md", "one")
    monkeypatch.setattr("langchain_agentmem_deepagents.edit_lock.LOCK_TIMEOUT", 0)
    memory.store.put((f"{ENTRIES}_edited",), "/memories/a.md", {"held": True})  # by another process
    assert "Try again" in backend.edit("/memories/a.md", "one", "two").error
    memory.store.delete((f"{ENTRIES}_edited",), "/memories/a.md")
    assert backend.edit("/memories/a.md", "one", "two").error is None


@pytest.mark.parametrize(
    "wrong", [{"memory": "agent.db"}, {"shared": "/a"}, {"shared": ["a"]}, {"shared": ["/a/../b"]}]
)
def test_invalid_backend_options_are_refused(memory, wrong):
    with pytest.raises(InvalidInput):
        AgentMemoryBackend(**{"memory": memory, **wrong})
    with pytest.raises(InvalidInput):
        AgentMemoryBackend(memory, "alice")


def test_backend_works_on_postgres(postgres, within, thread):
    with AgentMemory(postgres) as memory:
        backend = AgentMemoryBackend(memory)
        config = thread()
        odd = "nul \0 and é".encode()
        within(memory, config, lambda: backend.upload_files([("/a", odd), ("/memories/b", bytes(range(256)))]))
        then = memory.checkpointer.get_tuple(config).config
        within(memory, config, lambda: backend.edit("/a", "nul", "nil"))
        both = backend.at(then).download_files(["/a", "/memories/b"])
        assert [each.content for each in both] == [odd, bytes(range(256))]
        assert backend.at(config).grep("nil").matches[0]["path"] == "/a"
        assert [each.id for each in memory.search("nil", config=config)] == ["/a"]
