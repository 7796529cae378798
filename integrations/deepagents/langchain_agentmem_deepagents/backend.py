"""`AgentMemoryBackend`, the file backend; see the docstring of the package."""

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
from langchain_agentmem_deepagents.edit_lock import exclusive
from langchain_agentmem_deepagents.files import (
    ENTRIES,
    FILES,
    bytes_of,
    delete_ops,
    file_info,
    format_error,
    normalize_folder,
    pages,
    path_error,
    put_ops,
    replace_text,
    text_error,
    text_of,
)

SHARED: Final = ("/memories/", "/skills/")
"""The default folders whose files all threads of a namespace share."""

_MakeOps: TypeAlias = Callable[[tuple[str, ...], str], list[Op]]
"""A function that returns the operations on a file, given the labels of its namespace and its path."""

_Entries: TypeAlias = Callable[[bool], list[tuple[str, dict[str, Any]]]]  # the type of `AgentMemoryBackend._entries`

_ALL = 2**31  # a limit that no number of files reaches


class AgentMemoryBackend(BackendProtocol):
    """The files of a deep agent, stored in an `AgentMemory`.

    Args:
        memory: The memory. The agent needs its checkpointer: `checkpointer=memory.checkpointer`.
        namespace: The namespace of the files. Default: the running config's, else the root.
        shared: The folders whose files all threads of the namespace share; `("/",)` for all files. Default: `SHARED`.

    Raises:
        InvalidInput: An argument is invalid. Without a thread, methods raise it for all but the shared files.
    """

    def __init__(
        self, memory: AgentMemory, namespace: Sequence[str] | None = None, *, shared: Iterable[str] = SHARED
    ) -> None:
        if not isinstance(memory, AgentMemory):
            raise InvalidInput(f"memory must be an AgentMemory such as AgentMemory('agent.db'), not {memory!r:.100}.")
        folders = [shared] if isinstance(shared, str) else list(shared)
        wrong = [each for each in folders if not isinstance(each, str) or path_error(each.rstrip("/") or "/x")]
        if wrong or isinstance(shared, str):
            raise InvalidInput(f"shared must be a list of folders such as '/memories/', not {shared!r:.100}.")
        self._memory = memory
        self._namespace = memory.byte_store(namespace).namespace if namespace else None
        self._shared = tuple(each.rstrip("/") + "/" for each in folders)
        self._config: RunnableConfig | None = None

    def at(self, config: RunnableConfig) -> AgentMemoryBackend:
        """Return a read-only backend for the files of a thread, at a checkpoint or now.

        Shared files are always current.

        Args:
            config: The config of a thread or of a checkpoint, such as those of LangGraph's `get_state_history`.

        Raises:
            InvalidInput: The config has no thread.
        """
        self._memory.thread_store.at(config)  # raises an error for an invalid config
        backend = AgentMemoryBackend(self._memory, self._namespace, shared=self._shared)
        backend._config = config
        return backend

    def __repr__(self) -> str:
        return f"AgentMemoryBackend({self._memory!r}, {self._namespace!r}, shared={self._shared!r})"

    # -- reading -----------------------------------------------------------------------------------------------

    def ls(self, path: str) -> LsResult:
        """List a folder, in order of paths: files with sizes, and folders, whose paths end with "/"."""
        base = normalize_folder(path)
        if problem := path_error(base or "/x"):  # "" is the root, which `path_error` would refuse; "/x" is any path
            return LsResult(error=format_error(problem, path))
        below = base + "/"
        entries: list[FileInfo] = []
        folders: set[str] = set()
        for key, entry in self._list(base):
            name, inner, _ = key[len(below) :].partition("/")
            if inner:
                folders.add(f"{below}{name}/")
            elif name:
                entries.append(file_info(key, entry))
        entries += [FileInfo(path=each, is_dir=True, size=0, modified_at="") for each in folders]
        return LsResult(entries=sorted(entries, key=lambda each: each["path"]))

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Read lines of a text file, or a whole file of another type."""
        if problem := path_error(file_path):
            return ReadResult(error=format_error(problem, file_path))
        data = self._get([file_path]).get(file_path)
        if data is None:
            return ReadResult(error=f"File '{file_path}' not found")
        if _get_backend_read_file_type(file_path) != "text":
            return ReadResult(file_data=data)
        return slice_read_response(data, offset, limit)

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Find the lines that contain a text. Only some files are loaded at a time."""
        base = normalize_folder(path)
        if problem := path_error(base or "/x"):
            return GrepResult(error=format_error(problem, path))
        try:
            found = self._find_matching(base, glob or None)
        except InvalidGlobPatternError as error:
            return GrepResult(error=str(error))
        matches: list[GrepMatch] = []
        for page in pages([(key, entry) for key, entry in found if entry["encoding"] != "base64"]):
            left = None if max_count is None else max_count - len(matches)
            part = grep_matches_from_files(dict(sorted(self._get(page).items())), pattern, "/", max_count=left)
            matches += part.matches or []
            if part.truncated:
                return GrepResult(matches=matches, truncated=True)
        return GrepResult(matches=matches)

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Find the files whose paths match a pattern, the last modified first."""
        base = normalize_folder(path)
        if problem := path_error(base or "/x"):
            return GlobResult(error=format_error(problem, path))
        try:
            found = self._find_matching(base, pattern)
        except InvalidGlobPatternError as error:
            return GlobResult(error=str(error))
        infos = [file_info(key, entry) for key, entry in found]
        return GlobResult(matches=sorted(infos, key=lambda each: each["modified_at"], reverse=True))

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Return the bytes of files."""
        existing = self._get(path for path in paths if not path_error(path))
        entries = cache(self._entries)
        answers = []
        for path in paths:
            if path in existing:
                answers.append(FileDownloadResponse(path, content=bytes_of(existing[path])))
            else:
                problem = path_error(path) or (IS_DIRECTORY if self._list(path, entries) else FILE_NOT_FOUND)
                answers.append(FileDownloadResponse(path, error=problem))
        return answers

    # -- writing -----------------------------------------------------------------------------------------------

    def write(self, file_path: str, content: str) -> WriteResult:
        """Write a text file, and replace an existing one."""
        if problem := self._refusal(file_path) or text_error(content):
            return WriteResult(error=format_error(problem, file_path))
        self._put({file_path: (content, "utf-8")})
        return WriteResult(path=file_path)

    def edit(
        self,
        file_path: str,
        old_string: str,
        new_string: str,
        replace_all: bool = False,  # noqa: FBT001, FBT002 - the protocol's signature
    ) -> EditResult:
        """Replace a text in a file. Concurrent edits are applied one after the other; none is lost."""
        if problem := self._refusal(file_path) or text_error(old_string) or text_error(new_string):
            return EditResult(error=format_error(problem, file_path))
        store, labels = self._store(shared=file_path.startswith(self._shared)), self._labels()
        get = GetOp((*labels, FILES), file_path)
        claim_namespace = (*labels, f"{ENTRIES}_edited")
        with exclusive(file_path, claim_namespace, store if store is self._memory.store else None) as claimed:
            if not claimed:
                return EditResult(error=f"Error: File '{file_path}' is being edited by others. Try again.")
            item = _item(store.batch([get])[0])
            written: FileData | None = None
            while item is not None:
                before = cast("FileData", item.value)
                edited = replace_text(before, old_string, new_string, replace_all=replace_all)
                if isinstance(edited, str):
                    if written is not None:  # this edit replaced `before`, which another writer wrote: restore it
                        store.batch(put_ops(labels, file_path, before))
                    return EditResult(error=edited)
                # A batch reads before it writes, so `item` shows whether the edited version was still current.
                item = _item(store.batch([get, *put_ops(labels, file_path, edited[0])])[0])
                if item is not None and item.value == (before if written is None else written):
                    return EditResult(path=file_path, occurrences=edited[1])
                written = edited[0]
            if written is not None:
                store.batch(delete_ops(labels, file_path))  # the file was deleted meanwhile
        return EditResult(error=f"Error: File '{file_path}' not found")

    def delete(self, file_path: str) -> DeleteResult:
        """Delete a file, or a folder with all its files."""
        base = normalize_folder(file_path)
        if problem := self._refusal(base or "/x"):
            return DeleteResult(error=format_error(problem, file_path))
        paths = [key for key, _ in self._list(base)]
        if not paths:
            return DeleteResult(error=f"Error: File '{file_path}' not found")
        self._run(paths, delete_ops)
        return DeleteResult(path=file_path)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write files, as text if they are UTF-8, else in base64.

        The thread's files are written in one transaction, and the shared files in another.
        """
        answers = [FileUploadResponse(path, error=self._refusal(path)) for path, _ in files]
        self._put(
            {path: text_of(content) for (path, content), each in zip(files, answers, strict=True) if not each.error}
        )
        return answers

    # -- storage ----------------------------------------------------------------------------------------------

    def _labels(self) -> tuple[str, ...]:
        """Return the namespace of the files."""
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
                "These files belong to a thread, but no thread is running. Pass thread_id in the run's config. Outside "
                f"of runs, read them with backend.at(config), or use shared files, below {', '.join(self._shared)}."
            )
        return self._memory.thread_store

    def _refusal(self, path: Any) -> str | None:
        """Return the error for a file that cannot be written; None if it can."""
        return path_error(path) or (None if self._config is None else PERMISSION_DENIED)

    def _entries(self, shared: bool) -> list[tuple[str, dict[str, Any]]]:  # noqa: FBT001 - the key of a cache
        """Return the paths and entries of all files of a store, without reading the files."""
        namespace = (*self._labels(), ENTRIES)
        found = cast("list[Item]", self._store(shared=shared).batch([SearchOp(namespace, limit=_ALL)])[0])
        return [(item.key, item.value) for item in found if item.namespace == namespace]

    def _list(self, base: str, entries: _Entries | None = None) -> list[tuple[str, dict[str, Any]]]:
        """Return the entries of the file at a path and of all files below it, in order."""
        below = base + "/"
        flags = [True] if any(below.startswith(each) or each.startswith(below) for each in self._shared) else []
        if not below.startswith(self._shared):
            flags.append(False)
        found = [each for shared in flags for each in (entries or self._entries)(shared)]
        return sorted((key, entry) for key, entry in found if key == base or key.startswith(below))

    def _find_matching(self, base: str, pattern: str | None) -> list[tuple[str, dict[str, Any]]]:
        """Return the files at or below a path that match a pattern.

        If the path is that of a file, return only this file.
        """
        matches = (lambda _: True) if pattern is None else compile_grep_include_glob(pattern)
        found = self._list(base)
        if base in dict(found):
            return [each for each in found if each[0] == base and matches(base.rpartition("/")[2])]
        return [(key, entry) for key, entry in found if matches(key[len(base) + 1 :])]

    def _get(self, paths: Iterable[str]) -> dict[str, FileData]:
        """Return the existing files at some paths."""
        found = self._run(paths, lambda labels, path: [GetOp((*labels, FILES), path)])
        return {path: cast("FileData", item.value) for path, item in found.items() if item is not None}

    def _put(self, contents: Mapping[str, tuple[str, str]]) -> None:
        """Write files; existing ones keep their creation time."""
        entries = self._run(contents, lambda labels, path: [GetOp((*labels, ENTRIES), path)])
        times = {path: None if item is None else item.value.get("created_at") for path, item in entries.items()}
        files = {
            path: create_file_data(content, created_at=times[path], encoding=encoding)
            for path, (content, encoding) in contents.items()
        }
        self._run(files, lambda labels, path: put_ops(labels, path, files[path]))

    def _run(self, paths: Iterable[str], make_ops: _MakeOps) -> dict[str, Item | None]:
        """Run operations on files, in one transaction per store; return the first result of each file."""
        answers: dict[str, Item | None] = {}
        wanted = list(dict.fromkeys(paths))
        for shared in (True, False):
            selected = [path for path in wanted if path.startswith(self._shared) is shared]
            if selected:
                labels = self._labels()
                parts = [make_ops(labels, path) for path in selected]
                results = self._store(shared=shared).batch([op for part in parts for op in part])
                firsts = accumulate(map(len, parts[:-1]), initial=0)
                answers |= {path: _item(results[first]) for path, first in zip(selected, firsts, strict=True)}
        return answers


def _item(result: Any) -> Item | None:
    return cast("Item | None", result)
