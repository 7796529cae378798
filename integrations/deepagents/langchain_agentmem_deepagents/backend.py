"""`AgentMemoryBackend`, see the package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import Any, Final, TypeAlias, cast

from deepagents.backends.protocol import (
    FILE_NOT_FOUND,
    IS_DIRECTORY,
    PERMISSION_DENIED,
    BackendProtocol,
    DeleteResult,
    EditResult,
    FileData,
    FileDownloadResponse,
    FileInfo,
    FileUploadResponse,
    GlobResult,
    GrepMatch,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)
from deepagents.backends.utils import (
    InvalidGlobPatternError,
    _get_backend_read_file_type,
    compile_grep_include_glob,
    create_file_data,
    grep_matches_from_files,
    slice_read_response,
)
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.store.base import BaseStore, GetOp, Item, Op, SearchOp

from langchain_agentmem import AgentMemory, InvalidInput
from langchain_agentmem_deepagents.files import (
    ENTRIES,
    FILES,
    bytes_of,
    edited,
    fault,
    folder,
    info,
    no_text,
    pages,
    putting,
    removing,
    text_of,
    told,
)
from langchain_agentmem_deepagents.turns import turn

SHARED: Final = ("/memories/", "/skills/")
"""Folders whose files all threads of a namespace share, unless something else is asked for."""

_Asked: TypeAlias = Callable[[tuple[str, ...], str], list[Op]]
"""What a store is asked of a file, by the labels of its namespace and its path."""

_Entries: TypeAlias = Callable[[bool], list[tuple[str, dict[str, Any]]]]

_ALL = 2**31


class AgentMemoryBackend(BackendProtocol):
    """Files of a deep agent, kept in an `AgentMemory`.

    Args:
        memory: Where. The agent has its checkpointer: `checkpointer=memory.checkpointer`.
        namespace: Whose files they are. Default: the running config's, else the root.
        shared: Folders whose files all threads of the namespace share; `("/",)` for all. Default: `SHARED`.

    Raises:
        InvalidInput: An argument is wrong. Each method raises it too, for the files of a thread where none is running.
    """

    def __init__(
        self, memory: AgentMemory, namespace: Sequence[str] | None = None, *, shared: Iterable[str] = SHARED
    ) -> None:
        if not isinstance(memory, AgentMemory):
            raise InvalidInput(f"A backend needs an AgentMemory, not {memory!r:.100}: AgentMemory('agent.db').")
        folders = [shared] if isinstance(shared, str) else list(shared)
        wrong = [each for each in folders if not isinstance(each, str) or fault(each.rstrip("/") or "/x")]
        if wrong or isinstance(shared, str):
            raise InvalidInput(f"shared is a list of folders such as '/memories/', not {shared!r:.100}.")
        self._memory = memory
        self._namespace = memory.byte_store(namespace).namespace if namespace else None
        self._shared = tuple(each.rstrip("/") + "/" for each in folders)
        self._config: RunnableConfig | None = None

    def at(self, config: RunnableConfig) -> AgentMemoryBackend:
        """The same files at a checkpoint, or as a thread has them now; what is shared, as it is now. Read-only.

        Args:
            config: Names the thread, and maybe a checkpoint, as those of LangGraph's `get_state_history` do.

        Raises:
            InvalidInput: It names no thread.
        """
        self._memory.thread_store.at(config)  # says at once what is wrong
        seen = AgentMemoryBackend(self._memory, self._namespace, shared=self._shared)
        seen._config = config
        return seen

    def __repr__(self) -> str:
        return f"AgentMemoryBackend({self._memory!r}, {self._namespace!r}, shared={self._shared!r})"

    # -- reading -----------------------------------------------------------------------------------------------

    def ls(self, path: str) -> LsResult:
        """What is in a folder: files with their sizes, and folders, whose paths end with "/"; in order."""
        base = folder(path)
        if problem := fault(base or "/x"):
            return LsResult(error=told(problem, path))
        below = base + "/"
        entries: list[FileInfo] = []
        folders: set[str] = set()
        for key, entry in self._listed(base):
            name, inner, _ = key[len(below) :].partition("/")
            if inner:
                folders.add(f"{below}{name}/")
            elif name:
                entries.append(info(key, entry))
        entries += [FileInfo(path=each, is_dir=True, size=0, modified_at="") for each in folders]
        return LsResult(entries=sorted(entries, key=lambda each: each["path"]))

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Some lines of a text, or the whole of a file of another type."""
        if problem := fault(file_path):
            return ReadResult(error=told(problem, file_path))
        data = self._get([file_path]).get(file_path)
        if data is None:
            return ReadResult(error=f"File '{file_path}' not found")
        if _get_backend_read_file_type(file_path) != "text":
            return ReadResult(file_data=data)
        return slice_read_response(data, offset, limit)

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """The lines that hold a text, by the paths of their files. Only some files are in memory at a time."""
        base = folder(path)
        if problem := fault(base or "/x"):
            return GrepResult(error=told(problem, path))
        try:
            found = self._matching(base, glob or None)
        except InvalidGlobPatternError as error:
            return GrepResult(error=str(error))
        matches: list[GrepMatch] = []
        for page in pages([(key, entry) for key, entry in found if entry["encoding"] != "base64"]):
            room = None if max_count is None else max_count - len(matches)
            part = grep_matches_from_files(dict(sorted(self._get(page).items())), pattern, "/", max_count=room)
            matches += part.matches or []
            if part.truncated:
                return GrepResult(matches=matches, truncated=True)
        return GrepResult(matches=matches)

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """The files whose paths fit a pattern, the last modified first."""
        base = folder(path)
        if problem := fault(base or "/x"):
            return GlobResult(error=told(problem, path))
        try:
            found = self._matching(base, pattern)
        except InvalidGlobPatternError as error:
            return GlobResult(error=str(error))
        infos = [info(key, entry) for key, entry in found]
        return GlobResult(matches=sorted(infos, key=lambda each: each["modified_at"], reverse=True))

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """The bytes of files."""
        there = self._get(path for path in paths if not fault(path))
        entries = cache(self._entries)
        answers = []
        for path in paths:
            if path in there:
                answers.append(FileDownloadResponse(path, content=bytes_of(there[path])))
            else:
                problem = fault(path) or (IS_DIRECTORY if self._listed(path, entries) else FILE_NOT_FOUND)
                answers.append(FileDownloadResponse(path, error=problem))
        return answers

    # -- writing -----------------------------------------------------------------------------------------------

    def write(self, file_path: str, content: str) -> WriteResult:
        """Write a text, in the place of what the file held."""
        if problem := self._refusal(file_path) or no_text(content):
            return WriteResult(error=told(problem, file_path))
        self._put({file_path: (content, "utf-8")})
        return WriteResult(path=file_path)

    def edit(
        self,
        file_path: str,
        old_string: str,
        new_string: str,
        replace_all: bool = False,  # noqa: FBT001, FBT002 - the protocol's signature
    ) -> EditResult:
        """Replace a text in a file. Of edits at the same time none is lost: the later one edits what the first made."""
        if problem := self._refusal(file_path) or no_text(old_string) or no_text(new_string):
            return EditResult(error=told(problem, file_path))
        store, labels = self._store(shared=file_path.startswith(self._shared)), self._labels()
        get = GetOp((*labels, FILES), file_path)
        claims = (*labels, f"{ENTRIES}_edited")
        with turn(file_path, claims, store if store is self._memory.store else None) as mine:
            if not mine:
                return EditResult(error=f"Error: File '{file_path}' is being edited by others. Try again.")
            item = _item(store.batch([get])[0])
            written: FileData | None = None
            while item is not None:
                before = cast("FileData", item.value)
                made = edited(before, old_string, new_string, replace_all=replace_all)
                if isinstance(made, str):
                    if written is not None:  # somebody wrote this while we looked, and we wrote over it
                        store.batch(putting(labels, file_path, before))
                    return EditResult(error=made)
                # A batch reads what was there before it wrote, which tells whether that is what was edited.
                item = _item(store.batch([get, *putting(labels, file_path, made[0])])[0])
                if item is not None and item.value == (before if written is None else written):
                    return EditResult(path=file_path, occurrences=made[1])
                written = made[0]
            if written is not None:
                store.batch(removing(labels, file_path))  # it was deleted while we looked
        return EditResult(error=f"Error: File '{file_path}' not found")

    def delete(self, file_path: str) -> DeleteResult:
        """Delete a file, or a folder with everything in it."""
        base = folder(file_path)
        if problem := self._refusal(base or "/x"):
            return DeleteResult(error=told(problem, file_path))
        there = [key for key, _ in self._listed(base)]
        if not there:
            return DeleteResult(error=f"Error: File '{file_path}' not found")
        self._do(there, removing)
        return DeleteResult(path=file_path)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write files: as text what is UTF-8, else in base64. Those of the thread, and those shared, all at once."""
        answers = [FileUploadResponse(path, error=self._refusal(path)) for path, _ in files]
        self._put(
            {path: text_of(content) for (path, content), each in zip(files, answers, strict=True) if not each.error}
        )
        return answers

    # -- where files lie ---------------------------------------------------------------------------------------

    def _labels(self) -> tuple[str, ...]:
        """The namespace."""
        if self._namespace is not None:
            return self._namespace
        if self._config is None:
            return self._memory.byte_store().namespace
        given = (self._config.get("configurable") or {}).get("agentmem_namespace")
        return self._memory.byte_store(given).namespace if given else ()

    def _store(self, *, shared: bool) -> BaseStore:
        if shared:
            return self._memory.store
        if self._config is not None:
            return self._memory.thread_store.at(self._config)
        try:
            running = get_config().get("configurable") or {}
        except RuntimeError:
            running = {}
        if running.get("thread_id") is None:
            raise InvalidInput(
                "These files belong to a thread, and none is running here: give the run a thread_id. From outside, "
                f"look at them with backend.at(config), or use those that are shared: {', '.join(self._shared)}."
            )
        return self._memory.thread_store

    def _refusal(self, path: Any) -> str | None:
        """Why a file cannot be written; None if it can."""
        return fault(path) or (None if self._config is None else PERMISSION_DENIED)

    def _entries(self, shared: bool) -> list[tuple[str, dict[str, Any]]]:  # noqa: FBT001 - it is the key of a cache
        """What is told of all files of a store. None of them is read."""
        namespace = (*self._labels(), ENTRIES)
        found = cast("list[Item]", self._store(shared=shared).batch([SearchOp(namespace, limit=_ALL)])[0])
        return [(item.key, item.value) for item in found if item.namespace == namespace]

    def _listed(self, base: str, entries: _Entries | None = None) -> list[tuple[str, dict[str, Any]]]:
        """What is told of the file at a path and of all below it, in order."""
        below = base + "/"
        here = [True] if any(below.startswith(each) or each.startswith(below) for each in self._shared) else []
        if not below.startswith(self._shared):
            here.append(False)
        found = [each for shared in here for each in (entries or self._entries)(shared)]
        return sorted((key, entry) for key, entry in found if key == base or key.startswith(below))

    def _matching(self, base: str, pattern: str | None) -> list[tuple[str, dict[str, Any]]]:
        """Those files at or below a path that fit a pattern; the file at the path alone, if there is one."""
        fits = (lambda _: True) if pattern is None else compile_grep_include_glob(pattern)
        found = self._listed(base)
        if base in dict(found):
            return [each for each in found if each[0] == base and fits(base.rpartition("/")[2])]
        return [(key, entry) for key, entry in found if fits(key[len(base) + 1 :])]

    def _get(self, paths: Iterable[str]) -> dict[str, FileData]:
        """The files at some paths, but for those that are not there."""
        found = self._do(paths, lambda labels, path: [GetOp((*labels, FILES), path)])
        return {path: cast("FileData", item.value) for path, item in found.items() if item is not None}

    def _put(self, contents: Mapping[str, tuple[str, str]]) -> None:
        """Write files; they keep the time at which they were made."""
        there = self._do(contents, lambda labels, path: [GetOp((*labels, ENTRIES), path)])
        begun = {path: None if item is None else item.value.get("created_at") for path, item in there.items()}
        made = {
            path: create_file_data(content, created_at=begun[path], encoding=encoding)
            for path, (content, encoding) in contents.items()
        }
        self._do(made, lambda labels, path: putting(labels, path, made[path]))

    def _do(self, paths: Iterable[str], asked: _Asked) -> dict[str, Item | None]:
        """Ask the stores of files, each in one transaction. Gives the first answer for each file."""
        answers: dict[str, Item | None] = {}
        wanted = list(dict.fromkeys(paths))
        for shared in (True, False):
            mine = [path for path in wanted if path.startswith(self._shared) is shared]
            if mine:
                labels = self._labels()
                parts = [asked(labels, path) for path in mine]
                results = self._store(shared=shared).batch([op for part in parts for op in part])
                firsts = accumulate(map(len, parts[:-1]), initial=0)
                answers |= {path: _item(results[first]) for path, first in zip(mine, firsts, strict=True)}
        return answers


def _item(result: Any) -> Item | None:
    return cast("Item | None", result)
