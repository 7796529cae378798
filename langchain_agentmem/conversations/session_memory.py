"""`SessionMemory`: rounds of posts between roles, over the same log as a conversation.

A session and a conversation with one id are two views of one log. A post is a message whose name is its sender, with
additional fields for recipient, round and attachments. A message that was added to the conversation is a post between
"User" and "Assistant", and a user's message begins a round. So each view shows the entries that the other one wrote.

    session = memory.session("task-7")
    round_ = session.create_round("Plot the sales of May.")
    session.add_post(round_.id, send_from="User", send_to="Planner", message=round_.user_query)
    session.finish_round(round_.id)

Use both views of one log:

    from langchain_agentmem import AgentMemory

    memory = AgentMemory("agent.db")
    session = memory.session("task-7")
    task = session.create_round("Plot the sales of May.")
    session.add_post(task.id, send_from="User", send_to="Planner", message="Plot the sales of May.")
    session.add_post(task.id, send_from="Planner", send_to="Coder", message="Draw a bar chart.")
    session.finish_round(task.id)

    print([post.message for post in session.get_role_rounds("Coder")[0].post_list])
    print(memory.conversation("task-7").messages)  # the same log, as messages
    memory.close()
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, Self
from uuid import UUID

from langchain_core.messages import BaseMessage, HumanMessage
from pydantic import Field, model_validator

from langchain_agentmem.base import encoding
from langchain_agentmem.base.argument_checks import Options, check_flag, check_instance
from langchain_agentmem.base.concurrency import awaited, run_in_worker
from langchain_agentmem.base.encoding import read_plain, write_plain
from langchain_agentmem.base.namespaces import ThreadKey, ThreadLike, check_id, path_of
from langchain_agentmem.conversations import log_entries, message_log
from langchain_agentmem.conversations.compaction_records import CompactionRecord, load_headers, load_record
from langchain_agentmem.conversations.conversation_part import TEXT_COLUMNS
from langchain_agentmem.conversations.log_entries import build_rounds, make_post_entry, make_round_entry, select_rounds
from langchain_agentmem.conversations.log_memory import LogMemory, check_retention
from langchain_agentmem.conversations.message_log import AppendResult, LogEntry, is_same_content
from langchain_agentmem.errors import InvalidInput, MessageError, safe_repr
from langchain_agentmem.language_models.model_calls import compaction_key
from langchain_agentmem.messages import role_rounds
from langchain_agentmem.messages.message_marks import Summary, format_summary, summary_in, summary_message
from langchain_agentmem.messages.role_rounds import Attachment, Conversation, Post, Retention, Round, SharedMemoryEntry
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_rows import MemoryVersion, MemoryView, VersionDraft, WriteTarget
from langchain_agentmem.rewinding.thread_memory import ThreadPosition, thread_position
from langchain_agentmem.search.search_index import DocumentSeries
from langchain_agentmem.storage import Transaction, queries
from langchain_agentmem.storage.database import Database, MemoryLike, database_of

POST_KIND, ROUND_KIND = "thread_post", "thread_round"
"""The kinds of memory rows that contain the posts and rounds of a thread's session."""
_SLOT = attrgetter("slot")


class ThreadLog:
    """The log of a thread's session. Its methods replace the functions of `message_log`.

    The entries are rows in the memory of the thread, which rewind with the thread. The argument `at` is ignored.

    Args:
        position: The running task, or the checkpoint to read.
        database: The database of the thread.
    """

    def __init__(self, position: ThreadPosition, database: Database) -> None:
        self._position, self._database = position, database

    def append(
        self,
        tx: Transaction,
        at: ThreadKey,
        entries: Sequence[LogEntry],
        *,
        now: int,
        retention: Retention | None = None,
    ) -> AppendResult:
        """Add entries at the end, all of them or none.

        Raises:
            InvalidInput: No task is running.
            MessageError: A key is taken by other content.
            StepIsOver: Another attempt of the task has replaced this one.
        """
        del at, retention  # a thread's session keeps all entries
        view, target = self._position.open_for_write(tx, now)
        existing = _load_by_key(tx, view, [entry.key for entry in entries])
        new_entries: list[LogEntry] = []
        for entry in entries:
            old = existing.setdefault(entry.key, entry)
            if old is entry:
                new_entries.append(entry)
            elif not is_same_content(old, entry):
                raise message_log.key_taken_error(entry.key)
        self._write(tx, target, list(map(_draft_from_entry, new_entries)), now)
        return AppendResult([entry.key for entry in new_entries], [])

    def update(
        self, tx: Transaction, at: ThreadKey, key: str, change: Callable[[LogEntry], LogEntry], *, now: int
    ) -> bool:
        """Store a new version of an existing entry, which replaces the old one.

        Returns:
            True if the new version differs. If False, nothing was written.

        Raises:
            InvalidInput: No task is running.
            StepIsOver: Another attempt of the task has replaced this one.
        """
        del at
        view, target = self._position.open_for_write(tx, now)
        old = _load_by_key(tx, view, [key])[key]
        entry = change(old)
        if entry.body == old.body:
            return False
        self._write(tx, target, [_draft_from_entry(entry._replace(slot=old.slot))], now)
        return True

    def clear(self, tx: Transaction, at: ThreadKey, *, keep_description: bool) -> int:
        """Delete all entries. Past checkpoints still show them.

        Returns:
            The number of deleted entries.

        Raises:
            InvalidInput: No task is running.
            StepIsOver: Another attempt of the task has replaced this one.
        """
        del at, keep_description  # a thread's session has no description
        now = self._database.now()
        view, target = self._position.open_for_write(tx, now)
        versions = [each for kind in (ROUND_KIND, POST_KIND) for each in memory_rows.load_current(tx, view, kind)]
        drafts = [VersionDraft(each.kind, each.key, None, now) for each in versions]
        self._write(tx, target, drafts, now)
        return len(drafts)

    def get(self, tx: Transaction, at: ThreadKey, key: str) -> LogEntry | None:
        """Return one entry by its key, or None."""
        del at
        return _load_by_key(tx, self._view(tx), [key]).get(key)

    def rounds(self, tx: Transaction, at: ThreadKey) -> tuple[list[LogEntry], list[LogEntry]]:
        """Return the rounds and all messages, each in the order of writing."""
        del at
        view = self._view(tx)
        rounds, posts = (memory_rows.load_current(tx, view, kind) for kind in (ROUND_KIND, POST_KIND))
        return sorted(map(_entry_from_version, rounds), key=_SLOT), sorted(map(_entry_from_version, posts), key=_SLOT)

    def _view(self, tx: Transaction) -> MemoryView:
        return self._position.view(tx, self._database.now())

    def _write(self, tx: Transaction, target: WriteTarget, drafts: Sequence[VersionDraft], now: int) -> None:
        series = DocumentSeries(self._position.path, POST_KIND, self._position.name)
        memory_rows.write(tx, target, drafts, series=series, now=now)


def is_thread_like(value: Any) -> bool:
    """Return True for a config or a runtime of LangGraph, False for an id."""
    return isinstance(value, Mapping) or hasattr(value, "stream_writer")


def _load_by_key(tx: Transaction, view: MemoryView, keys: Iterable[str]) -> dict[str, LogEntry]:
    """Return rounds and posts by their keys. A round and a post never have the same key."""
    listed = list(keys)
    round_versions = memory_rows.load_named(tx, view, ROUND_KIND, listed)
    versions = round_versions | memory_rows.load_named(tx, view, POST_KIND, listed)
    return {key: _entry_from_version(version) for key, version in versions.items()}


def _draft_from_entry(entry: LogEntry) -> VersionDraft:
    """Convert an entry to a draft of a memory row.

    A new version stores the row number of the first version, by which entries are sorted.
    """
    extra: dict[str, Any] = {name: value for name in TEXT_COLUMNS if (value := getattr(entry, name)) is not None}
    if entry.attachments is not None:
        extra["attachments"] = read_plain(entry.attachments)
    if entry.slot:
        extra["first"] = entry.slot
    if entry.is_searchable:
        extra["words"] = entry.search_text
        if entry.role != "tool" and entry.sender is not None:
            extra["speaker"] = entry.sender
    return VersionDraft(
        ROUND_KIND if entry.kind == message_log.ROUND else POST_KIND,
        entry.key,
        entry.body,
        entry.created_at,
        label=entry.kind,
        extra=extra,
        findable=entry.is_searchable,
    )


def _entry_from_version(version: MemoryVersion) -> LogEntry:
    texts: dict[str, Any] = {name: version.extra.get(name) for name in TEXT_COLUMNS}
    attachments = version.extra.get("attachments")
    return LogEntry(
        version.key,
        version.body,
        "",
        version.created_at,
        kind=version.label or message_log.MESSAGE,
        attachments=None if attachments is None else write_plain(attachments),
        written_at=version.written_at,
        slot=version.extra.get("first", version.number),
        **texts,
    )


ROLE_LANE = "role:"
"""The prefix of the lane of a role's compactions, see `compaction_records`."""
MAX_COMPACTIONS = 3
"""The number of compactions kept for a role. If an edit deletes the newest, an earlier one is used."""


class CompactorConfig(Options):
    """The conditions for a summary of a role's rounds.

    Attributes:
        threshold: The number of unsummarized rounds that triggers a summary. Default: 10.
        retain_recent: The number of newest rounds that are not summarized; at least 1, since the newest round may get
            further posts. Default: 3.
        prompt_template_path: A YAML file whose key `content` has the instructions for the model, with `{content}` for
            the rounds and `{PREVIOUS_SUMMARY}` for the previous summary. Other braces are literal. A file that cannot
            be used is ignored. Default: "", for the built-in instructions.
        enabled: True to summarize rounds. Default: True.

    Raises:
        InvalidInput: A value is invalid, or `threshold` is not greater than `retain_recent`.
    """

    threshold: int = Field(default=10, ge=1)
    retain_recent: int = Field(default=3, ge=1)
    prompt_template_path: str = ""
    enabled: bool = True

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.threshold <= self.retain_recent:
            raise ValueError(f"threshold ({self.threshold}) must be greater than retain_recent ({self.retain_recent}).")
        return self


class CompactedMessage(role_rounds.PortableModel):
    """The summary that replaces a role's oldest rounds.

    Attributes:
        end_index: The number of the last round in the summary, counted from 1. Rounds that had failed when the summary
            was made are not counted.
        summary: The text of the summary.
        start_index: The number of the first round: always 1.
    """

    start_index: int = 1
    end_index: int
    summary: str

    def to_system_message(self) -> str:
        """Return the summary as text for the system message of a prompt."""
        return f"[Conversation History Summary (Rounds {self.start_index}-{self.end_index})]\n{self.summary}"


class RoleHistory(NamedTuple):
    """A role's view of a session at one moment.

    Attributes:
        remaining: The rounds that are not summarized, or have posts that are newer than the summary.
        record: The compaction with the summary of the other rounds, or None.
        slots: The `LogEntry.slot` of the newest post of each round, or of a round without posts, by the round's id.
    """

    remaining: list[Round]
    record: CompactionRecord | None
    slots: dict[str, int]

    @property
    def summary(self) -> Summary | None:
        """The summary of the summarized rounds, or None."""
        message: Any = self.record and self.record.items[0]
        return message and (summary_in(message) or Summary())

    @property
    def compacted_message(self) -> CompactedMessage | None:
        """The summary and the numbers of the summarized rounds, or None."""
        if self.record is None or (summary := self.summary) is None:
            return None
        is_prose = replace(summary, summary="").is_empty  # without lists, so no headings are needed
        text = summary.summary if is_prose else format_summary(summary)
        return CompactedMessage(end_index=self.record.reached, summary=text)

    def next_record(self, rounds: Sequence[Round], summary: Summary, *, tried: bool, saved: int) -> CompactionRecord:
        """Return the next compaction, whose summary also covers some of the remaining rounds.

        Args:
            rounds: The remaining rounds that the summary covers.
            summary: The new summary, which includes the previous one.
            tried: True if a model was available.
            saved: The number of tokens that the summary saves for these rounds.
        """
        previous = self.record or CompactionRecord(digest=b"", reached=0, items=())
        digest = queries.digest(previous.digest + format_summary(summary).encode())
        new_ids = [each.id for each in rounds if each.id not in previous.dropped]
        return CompactionRecord(
            digest=digest,
            reached=previous.reached + len(new_ids),
            items=(summary_message(summary, id=f"sum-{digest.hex()[:16]}"),),
            dropped=(*(key for key in previous.dropped if key in self.slots), *new_ids),
            parent=previous.id or None,
            provisional=summary.provisional,
            tried=tried,
            saved=saved + previous.saved,
            slot=max(previous.slot or 0, *(self.slots[each.id] for each in rounds)),
        )

    def due_rounds(self, config: CompactorConfig) -> list[Round]:
        """Return the rounds to summarize now. The list is empty below the threshold."""
        if not config.enabled or len(self.remaining) < config.threshold:
            return []
        return self.remaining[: -config.retain_recent]


def load_role_history(tx: Transaction, at: ThreadKey, role: str, *, include_failures: bool = False) -> RoleHistory:
    """Read a role's view of a session.

    Args:
        tx: The transaction.
        at: The session.
        role: The role.
        include_failures: True to include failed rounds. Default: False.

    Raises:
        StorageError: The record of the role's newest compaction is damaged.
    """
    round_entries, messages = message_log.rounds(tx, at)
    headers = load_headers(tx, at, make_role_lane(role))
    record = load_record(tx, at, headers[0].id) if headers else None
    rounds = select_rounds(build_rounds(round_entries, messages), role, include_failures=include_failures)
    row_ids = {entry.key: entry.slot for entry in (*round_entries, *messages)}
    slots = {
        each.id: max(row_ids.get(key, 0) for key in (each.id, *(post.id for post in each.post_list))) for each in rounds
    }
    dropped = set(record.dropped) if record else set()
    last_slot = record.slot or 0 if record else 0
    # A summarized round remains if it has posts that are newer than the summary.
    remaining = [each for each in rounds if each.id not in dropped or slots[each.id] > last_slot]
    return RoleHistory(remaining, record, slots)


def make_role_lane(role: str) -> str:
    """Return the lane of a role's compactions.

    Raises:
        InvalidInput: The role is invalid.
    """
    return ROLE_LANE + check_id(role, "role")


def convert_rounds(rounds: Sequence[Round], first: int) -> list[BaseMessage]:
    """Convert rounds to messages for a summary: all posts, with the texts of attachments.

    Args:
        rounds: The rounds.
        first: The number of the first of these rounds, for the headings.
    """
    messages: list[BaseMessage] = []
    for number, each in enumerate(rounds, first):
        messages.append(HumanMessage(f"--- Round {number} ---\nUser Query: {each.user_query}"))
        for post in each.post_list:
            lines = [f"{post.send_from} -> {post.send_to}: {post.message}"]
            for attachment in post.attachment_list:
                is_image = attachment.type is role_rounds.AttachmentType.image_url
                lines.append(f"[{attachment.type.value}] {'an image' if is_image else attachment.content}")
                if (extra := attachment.to_dict().get("extra")) is not None:
                    lines.append(json.dumps(extra, ensure_ascii=False, default=str))
            messages.append(HumanMessage("\n".join(lines), name=post.send_from))
    return messages


class SessionMemory(LogMemory):
    """The rounds and posts of one session.

    A session with an id is a view of the log of the conversation with this id.

    With the config of a node, the session belongs to the node's thread, and is rewound with the thread. A checkpoint
    shows the session as it was at that time, and a fork continues from there. If a node is executed again, its posts
    are stored once. The graph needs this memory's checkpointer. Outside of nodes, pass the config of a thread or of a
    checkpoint; the session is then read-only. The session of a thread has its own entries, and is no view of a
    conversation. A `ContextCompactor` does not summarize its rounds, since that would change checkpoints. Events are
    emitted when a node writes, even if its writes are discarded later.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        session_id: The id. The first round or message creates the session. Default: a new id. A config, a `Runtime` or
            a `ToolRuntime` selects the session of a thread.
        namespace: The namespace. Default: that of the running config, else the root. For a thread, the config decides.
        retention: The limit on the messages that are kept after each addition. Default: no limit. Not supported for the
            session of a thread.

    Raises:
        InvalidInput: An argument is wrong, or is not supported for the session of a thread.
        StorageError: The database cannot be opened.
    """

    memory_type = "session"
    _trace_prefix = "session"

    def __init__(
        self,
        memory: MemoryLike = ":memory:",
        session_id: str | int | UUID | ThreadLike | None = None,
        *,
        namespace: Sequence[str] | None = None,
        retention: Retention | None = None,
    ) -> None:
        self._database = database_of(memory)
        self._retention = check_retention(retention)
        if is_thread_like(session_id):
            position = thread_position(self._database, session_id)
            if self._retention is not None or (namespace is not None and path_of(namespace) != position.path):
                raise InvalidInput(
                    "The session of a thread has the namespace of its config, and keeps all entries of its "
                    "checkpoints. Leave out namespace= and retention=."
                )
            self._id_name = "thread_id"
            self._key, self._log = ThreadKey(position.path, position.name), ThreadLog(position, self._database)
        else:
            if session_id is None:
                session_id = f"conv-{self._database.new_id()}"
            self._key = ThreadKey(path_of(self._database.scopes.resolve(namespace)), check_id(session_id, "session"))
        self.session_id = self._key.name

    @property
    def follows_thread(self) -> bool:
        """True if the session is rewound with a thread."""
        return isinstance(self._log, ThreadLog)

    # -- writing -----------------------------------------------------------------------------------------------

    def create_round(self, user_query: str) -> Round:
        """Create a round, and notify each `ContextCompactor` of this session.

        Args:
            user_query: The user's question.

        Returns:
            The round, in state "created" and without posts.
        """
        new_round = Round.create(user_query)
        append = self._append_operation([make_round_entry(new_round, self._database.now())])
        self._run("create_round", append, write=True, round_id=new_round.id, user_query=user_query)
        self._database.background.wake(compaction_key(self._key, ROLE_LANE))
        return new_round

    acreate_round = awaited(create_round, writes=True)

    def add_post(
        self,
        round_id: str,
        post: Post | None = None,
        *,
        send_from: str | None = None,
        send_to: str | None = None,
        message: str | None = None,
        attachments: Iterable[Attachment] = (),
    ) -> Post:
        """Add a post to a round.

        Args:
            round_id: The round.
            post: The post. It takes precedence over the following arguments.
            send_from: The role that sends the post.
            send_to: The role that receives it.
            message: The text of the post.
            attachments: The attachments. Default: none.

        Returns:
            The post.

        Raises:
            InvalidInput: Sender or recipient are missing, or `post` is not a `Post`.
            MessageError: The round does not exist, or the post's id is taken by other content.
        """
        post_fields: Any = {"send_from": send_from, "send_to": send_to, "attachment_list": attachments}
        new_post = check_instance(Post, post, "post") or Post.create(message, **post_fields)
        append = self._append_operation([make_post_entry(new_post, round_id, self._database.now())])

        def add(tx: Transaction) -> AppendResult:
            self._require_round(tx, round_id)
            return append(tx)

        self._announce_added(self._run("add_post", add, write=True, round_id=round_id, post=new_post))
        return new_post

    aadd_post = awaited(add_post, writes=True)

    def finish_round(self, round_id: str) -> None:
        """Set a round to "finished".

        Raises:
            MessageError: The round does not exist.
        """
        self._set_state("finish_round", round_id, "finished")

    afinish_round = awaited(finish_round, writes=True)

    def fail_round(self, round_id: str) -> None:
        """Set a round to "failed"; `get_role_rounds` leaves it out by default.

        Raises:
            MessageError: The round does not exist.
        """
        self._set_state("fail_round", round_id, "failed")

    afail_round = awaited(fail_round, writes=True)

    def reset_memory(self) -> None:
        """Remove all rounds and messages except the conversation's description."""
        self._run("reset", partial(self._log.clear, at=self._key, keep_description=True), write=True)
        self._announce_reset()

    areset_memory = awaited(reset_memory, writes=True)

    # -- reading -----------------------------------------------------------------------------------------------

    def to_conversation(self) -> Conversation:
        """Return the whole session as a value: all rounds with their posts, in order."""
        return Conversation(rounds=tuple(self._rounds()), id=self.session_id)

    ato_conversation = awaited(to_conversation)

    @property
    def rounds(self) -> list[Round]:
        """Every round with its posts, in order."""
        return self._rounds()

    async def arounds(self) -> list[Round]:
        """Run `rounds` asynchronously."""
        return await run_in_worker(self._rounds)

    def get_role_rounds(self, role: str, include_failure_rounds: bool = False) -> list[Round]:  # noqa: FBT001, FBT002
        """Return the rounds as one role sees them.

        All rounds are returned, so that a round has the same index for all roles. A round has only the posts that the
        role sent or received. Text marked by `temporal` is returned only in the last round.

        Args:
            role: The role.
            include_failure_rounds: True to return failed rounds too. Default: False.
        """
        failures = check_flag("include_failure_rounds", include_failure_rounds)
        return select_rounds(self._rounds(role=role), role, include_failures=failures)

    aget_role_rounds = awaited(get_role_rounds)

    def get_role_rounds_with_compaction(
        self,
        role: str,
        include_failure_rounds: bool = False,  # noqa: FBT001, FBT002
    ) -> tuple[list[Round], CompactedMessage | None]:
        """Return the rounds of a role without the summarized ones, and the summary.

        For a model, put the summary before the returned rounds. In TaskWeaver, callers slice the rounds by the
        summary's `end_index`. Do not slice the result: the summarized rounds are already left out, by their ids. A
        failed round is never summarized, so it is returned at any position if requested. A round that got posts after
        its summary is returned too.

        Args:
            role: The role, whose summaries a `ContextCompactor` makes.
            include_failure_rounds: True to return failed rounds too. Default: False.

        Returns:
            The rounds, and the summary or None.
        """
        _check_role(role)
        failures = check_flag("include_failure_rounds", include_failure_rounds)
        if self.follows_thread:
            return self.get_role_rounds(role, failures), None
        load_history = partial(load_role_history, at=self._key, role=role, include_failures=failures)
        history = self._run("read", load_history, role=role)
        return history.remaining, history.compacted_message

    aget_role_rounds_with_compaction = awaited(get_role_rounds_with_compaction)

    def get_shared_memory_entries(self, entry_type: str) -> list[SharedMemoryEntry]:
        """Return the entries of one type that roles share by attachments of their posts.

        An entry of scope "conversation" is valid in every round. An entry of scope "round" is valid only while its
        round is the last. The result has the newest valid entry of each sender, in conversation order.

        Args:
            entry_type: "plan", "experience_sub_path", or any other type.
        """
        return log_entries.find_shared_entries(self._rounds(type=entry_type), entry_type)

    aget_shared_memory_entries = awaited(get_shared_memory_entries)

    # -- plumbing ----------------------------------------------------------------------------------------------

    def _rounds(self, **inputs: Any) -> list[Round]:
        if "role" in inputs:
            _check_role(inputs["role"])
        return build_rounds(*self._run("read", partial(self._log.rounds, at=self._key), **inputs))

    def _require_round(self, tx: Transaction, round_id: str) -> LogEntry:
        entry = self._log.get(tx, self._key, check_id(round_id, "round", MessageError))
        if entry is None or entry.kind != message_log.ROUND:
            raise MessageError(
                f"The session {safe_repr(self.session_id)} has no round {safe_repr(round_id)} that can be "
                "changed. Call create_round() first. Rounds of plain messages are read-only."
            )
        return entry

    def _set_state(self, verb: str, round_id: str, state: role_rounds.RoundState) -> None:
        now = self._now_argument()

        def change(tx: Transaction) -> bool:
            old = self._require_round(tx, round_id)
            changed = Round.create(encoding.decode(old.body)["user_query"], id=old.key, state=state)
            new = make_round_entry(changed, old.created_at)
            return self._log.update(tx, self._key, old.key, lambda _: new, **now)

        self._run(verb, change, write=True, round_id=round_id)


def _check_role(role: Any) -> None:
    if not isinstance(role, str):
        raise MessageError(f"role must be a text, not {safe_repr(role)}.")
