"""This backend behaves like deepagents' own backends."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from deepagents.backends import FilesystemBackend, StateBackend, StoreBackend
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_agentmem_deepagents import FILES, AgentMemoryBackend
from langgraph.store.memory import InMemoryStore

from langchain_agentmem import AgentMemory

NAMES = [
    "/a.txt",
    "/d/b.md",
    "/d/e/c.py",
    "/d/e",
    "/d",
    "/d2/b.md",
    "/d/.hid.md",
    "/ä b*.txt",
    "/p.png",
    "/v.mkv",
    "/[x]",
]
LEAVES = ["/a.txt", "/d/b.md", "/d/e/c.py", "/d2/b.md", "/d/.hid.md", "/ä b.txt"]
PIECES = ["one", "two\n", "\n", "  ", "é😀", "\tone two", "a.b|c", ""]
GLOBS = [
    "*",
    "*.md",
    "**/*.md",
    "/*.txt",
    "d/*",
    "d/**",
    "[ab].*",
    "*.{py,md}",
    "{",
    "../*",
    "b.md",
    "[!a]*",
    ".hid.md",
]

names, pieces = st.sampled_from(NAMES), st.sampled_from(PIECES)
folders = st.sampled_from(["/", "/d", "/d/", "/d/e", "/a.txt", "/none", "/d2/b.md"])
texts = st.lists(st.sampled_from([*PIECES, "\r\n", "\r", "\x85", "\0"]), max_size=6).map("".join)
lines = st.lists(pieces, max_size=5).map("".join)
windows = st.integers(-2, 6)


operations = st.one_of(
    st.tuples(st.just("write"), names, texts),
    st.tuples(st.just("edit"), names, pieces, pieces, st.booleans()),
    st.tuples(st.just("read"), names, windows, windows),
    st.tuples(st.just("delete"), st.one_of(names, folders)),
    st.tuples(st.just("ls"), folders),
    st.tuples(st.just("grep"), pieces, st.none() | folders, st.none() | st.sampled_from(GLOBS), st.none()),
    st.tuples(st.just("grep"), pieces, st.none() | folders, st.none(), st.integers(0, 4)),
    st.tuples(st.just("glob"), st.sampled_from(GLOBS), st.none() | folders),
    st.tuples(st.just("upload_files"), st.lists(st.tuples(names, st.binary(max_size=8)), max_size=3)),
    st.tuples(st.just("download_files"), st.lists(names, max_size=3)),
)


def result_of(backend: Any, name: str, *arguments: Any) -> Any:
    """Return the result of an operation without times, in a fixed order."""
    if name == "grep":
        *arguments, most = arguments
        result = asdict(backend.grep(*arguments, max_count=most))
        if result["matches"] is not None:
            found = sorted((each["path"], each["line"], each["text"]) for each in result["matches"])
            result["matches"] = found if most is None else len(found)
        return result
    result = getattr(backend, name)(*arguments)
    answers = [asdict(each) for each in result] if isinstance(result, list) else [asdict(result)]
    for each in answers:
        if each.get("error") == "is_directory":  # those with folders that are nothing by themselves do not know them
            each["error"] = "file_not_found"
        for info in [each.get("file_data") or {}, *(each.get("entries") or ()), *(each.get("matches") or ())]:
            for moment in ("modified_at", "created_at"):
                info[moment] = bool(info.get(moment))
        if name == "glob" and each["matches"] is not None:
            each["matches"].sort(key=lambda info: info["path"])
    return answers


@settings(max_examples=40)
@given(script=st.lists(operations, max_size=12))
def test_thread_files_behave_like_state_backend(script, within_memory):
    memory, within, config = within_memory()

    def compare() -> None:
        ours, theirs = AgentMemoryBackend(memory), StateBackend()
        for operation in script:
            assert result_of(ours, *operation) == result_of(theirs, *operation), operation

    within(memory, config, compare)


@settings(max_examples=40)
@given(script=st.lists(operations, max_size=12))
def test_shared_files_behave_like_store_backend(script, within_memory):
    memory, _, config = within_memory()
    label = config["configurable"]["thread_id"]
    ours = AgentMemoryBackend(memory, (label,), shared=("/",))
    theirs = StoreBackend(store=InMemoryStore(), namespace=lambda _: ("files",))
    for operation in script:
        assert result_of(ours, *operation) == result_of(theirs, *operation), operation
    same = StoreBackend(store=memory.store, namespace=lambda _: (label, FILES))
    paths = [info["path"] for info in ours.glob("**").matches]
    assert same.download_files(paths) == ours.download_files(paths), "StoreBackend reads what we keep"


on_disk = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(LEAVES), lines),
    st.tuples(st.just("edit"), st.sampled_from(LEAVES), pieces, pieces, st.booleans()),
    st.tuples(st.just("delete"), st.sampled_from(LEAVES)),
    st.tuples(st.just("glob"), st.sampled_from(GLOBS)),
    st.tuples(st.just("download_files"), st.lists(st.sampled_from([*LEAVES, "/d/../a.txt"]), max_size=3)),
)
"""Operations that a file system supports, too: its folders are objects, and its files have other types."""


@settings(max_examples=40)
@given(script=st.lists(on_disk, max_size=12))
def test_files_behave_like_filesystem_backend(script, within_memory, tmp_path_factory):
    memory, _, config = within_memory()
    ours = AgentMemoryBackend(memory, (config["configurable"]["thread_id"],), shared=("/",))
    theirs = FilesystemBackend(tmp_path_factory.mktemp("root"), virtual_mode=True)
    for operation in script:
        mine, other = result_of(ours, *operation), result_of(theirs, *operation)
        if operation[0] == "delete" and mine[0]["error"]:
            mine[0]["error"] = mine[0]["error"].replace("File '", "'")
        assert mine == other, operation
    if ours.ls("/d").entries:
        assert ours.download_files(["/d"]) == theirs.download_files(["/d"]), "is_directory"


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    with AgentMemory(tmp_path_factory.mktemp("same") / "agent.db") as memory:
        yield memory


@pytest.fixture
def within_memory(opened, within, thread):
    """A thread, or a namespace, that nobody has used."""

    def fresh() -> Any:
        fresh.count += 1
        return opened, within, thread(f"t{fresh.count}-{id(fresh)}")

    fresh.count = 0
    return fresh
