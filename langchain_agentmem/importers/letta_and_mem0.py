"""Readers for Letta and mem0.

Letta: the source is an agent file (.af), which a Letta server exports, or the database of the server.

An agent's memory is imported into a namespace with the name of the agent. If the target's namespace has keys, the
memory is imported into the namespace of the agent's owner. Blocks become core memory. Passages become records of
archival memory. Messages become conversations with their ids in Letta. Messages without a conversation id become a
conversation with the name of the agent.

Current agent files list agents and blocks separately. Older files contain one agent with its "core_memory". Neither
form contains passages. To import the passages of the agent NAME, save the list that Letta's API returns as NAME.json.

Letta stores texts in a JSON envelope with their time. Only the text in it is imported. A reply that consists of one
call of `send_message` becomes a message with the sent text. System prompts, heartbeats and logins are not imported.

mem0: the source is the result of its `get_all`, saved as JSON.

A memory becomes a record of archival memory with the same id, in the namespace of its user. The categories become tags,
and the agent, run and app ids become tags such as "agent:planner". All other fields become details of the record.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

from langchain_agentmem.base.argument_checks import check_name, check_text
from langchain_agentmem.base.namespaces import check_id
from langchain_agentmem.base.redaction import redact, redact_value
from langchain_agentmem.conversations.message_log import LogEntry
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.importers import batches
from langchain_agentmem.importers.batches import ImportTarget, SkippedEntry, SourceEntry
from langchain_agentmem.layers.layer import DEFAULT_IMPORTANCE
from langchain_agentmem.layers.memory_layers import draft_record
from langchain_agentmem.rewinding.memory_rows import CORE, VersionDraft, encode_text
from langchain_agentmem.storage.foreign_tables import ForeignTables, foreign_tables

_TABLE_COLUMNS = {"agents": {"id", "name"}, "block": {"id", "label", "value"}, "messages": {"id", "role", "agent_id"}}
_MESSAGE_ID = re.compile(r"message-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Row = Mapping[str, Any]


class _Agent(NamedTuple):
    """An agent of Letta: its id, its name, and the import target for its memory."""

    id: str
    name: str
    target: ImportTarget


def read_letta(source: Any, target: ImportTarget) -> Generator[SourceEntry]:
    """Yield the memory of Letta's agents, as the module's docstring describes.

    Args:
        source: An agent file, a JSON file with a list of passages, a folder of such files, or the server's database:
            a SQLite file or the URL of a PostgreSQL database.
        target: The target.

    Raises:
        InvalidInput: The source is none of these.
    """
    location = batches.path_or_url(source)
    if isinstance(location, Path) and not batches.is_sqlite(location):
        yield from batches.read_files(location, (".af", ".json"), _read_agent_file, target)
        return
    with foreign_tables(location) as tables:
        if not all(columns <= tables.columns.get(name, frozenset()) for name, columns in _TABLE_COLUMNS.items()):
            raise InvalidInput(f"{tables.name} has no tables of agents, blocks and messages, as Letta's server has.")
        yield from _read_agent_tables(tables, target)


def _make_agent(row: Row, ids: batches.StableIds, target: ImportTarget) -> _Agent | None:
    """Return an agent. Return None if `ImportTarget.only` excludes it."""
    agent_id, name = str(row.get("id") or row.get("name")), ids.next_id(row.get("name") or row.get("id"), row)
    if target.keys:
        agent_target = target.target_for(name, [{"agent": name, "agent_id": agent_id}])
    else:
        agent_target = target._replace(namespace=(*target.namespace, name)) if target.wants(name, agent_id) else None
    return None if agent_target is None else _Agent(agent_id, name, agent_target)


# -- files ---------------------------------------------------------------------------------------------------------


def _read_agent_file(path: Path, name: str, target: ImportTarget) -> Iterator[SourceEntry]:
    data, created_at = batches.parse_file(path, target.limits), batches.time_of_file(path)
    if isinstance(data, list) and data and all(isinstance(each, Mapping) and "text" in each for each in data):
        if (agent := _make_agent({"name": name}, batches.StableIds(), target)) is not None:
            yield from _passage_batches(agent, data)
        return
    if not isinstance(data, Mapping):
        raise InvalidInput(f"{safe_repr(str(path))} is neither an agent file of Letta nor a list of passages.")
    if isinstance(data.get("core_memory"), list):
        agents, blocks = [{**data, "memory_blocks": data["core_memory"]}], {}
    elif isinstance(data.get("agents"), list) and isinstance(data.get("blocks"), list):
        agents, blocks = data["agents"], {each["id"]: each for each in data["blocks"]}
    else:
        raise InvalidInput(f"{safe_repr(str(path))} is not an agent file of Letta: no agents or core_memory.")
    created_at, ids = batches.time_of(data.get("created_at"), created_at), batches.StableIds()
    for row in agents:
        try:
            agent = _make_agent(row, ids, target)
        except batches.MALFORMED_ERRORS as error:
            yield SkippedEntry(f"the agent {safe_repr(row, 200)}", batches.skip_reason(error))
            continue
        if agent is not None:
            agent_blocks = [blocks[each] for each in row.get("block_ids") or () if each in blocks]
            yield from _core_batches(agent, [*agent_blocks, *(row.get("memory_blocks") or ())], created_at)
            yield from _conversation_batches(agent, agent.name, row.get("messages") or ())


# -- tables --------------------------------------------------------------------------------------------------------


def _read_agent_tables(tables: ForeignTables, target: ImportTarget) -> Iterator[SourceEntry]:
    agents: dict[str, _Agent] = {}
    ids = batches.StableIds()
    for row in _live_rows(tables, "agents", "created_at", "id"):
        try:
            if (agent := _make_agent(row, ids, target)) is not None:
                agents[agent.id] = agent
        except batches.MALFORMED_ERRORS as error:
            yield SkippedEntry(f"the agent {safe_repr(row.get('name'))}", batches.skip_reason(error))
    own_agents = {agent_id: [agent] for agent_id, agent in agents.items()}
    blocks = {each["id"]: each for each in _live_rows(tables, "block")}
    for agent, rows in _rows_by_agent(tables, "blocks_agents", own_agents, "agent_id"):
        agent_blocks = [blocks[each["block_id"]] for each in rows if each["block_id"] in blocks]
        yield from _core_batches(agent, agent_blocks, target.now)
    messages = _live_rows(tables, "messages", "agent_id", "conversation_id", "sequence_id", "created_at", "id")
    for (agent_id, conversation), group in groupby(messages, lambda row: (row["agent_id"], row.get("conversation_id"))):
        if (writer := agents.get(agent_id)) is not None:
            yield from _conversation_batches(writer, conversation or writer.name, list(group))
    agents_by_archive: dict[str, list[_Agent]] = defaultdict(list)
    for agent, rows in _rows_by_agent(tables, "archives_agents", own_agents, "agent_id"):
        for each in rows:
            agents_by_archive[each["archive_id"]].append(agent)
    archive_rows = _rows_by_agent(tables, "archival_passages", agents_by_archive, "archive_id")
    for agent, rows in chain(archive_rows, _rows_by_agent(tables, "agent_passages", own_agents, "agent_id")):
        yield from _passage_batches(agent, rows)


def _rows_by_agent(
    tables: ForeignTables, table: str, agents: Mapping[str, Sequence[_Agent]], column: str
) -> Iterator[tuple[_Agent, list[Row]]]:
    """Yield each agent with the rows of a table that belong to it.

    Args:
        tables: The tables.
        table: The name of the table.
        agents: The agents by the values of the column.
        column: The column that refers to agents or to their archives.
    """
    for value, group in groupby(_live_rows(tables, table, column, "created_at", "id"), lambda row: row[column]):
        rows = list(group)
        for agent in agents.get(value, ()):
            yield agent, rows


def _live_rows(tables: ForeignTables, table: str, *order: str) -> Iterator[Row]:
    """Yield the rows of a table that are not marked as deleted, with parsed JSON columns.

    Nothing is yielded for a missing table.
    """
    for row in tables.rows(table, *order) if table in tables.columns else ():
        if not row.get("is_deleted"):
            yield {name: _parse_column(name, value) for name, value in row.items() if name != "embedding"}


def _parse_column(name: str, value: Any) -> Any:
    is_json = name in ("content", "tool_calls", "tool_returns", "tags", "metadata_") and isinstance(value, str)
    try:
        return json.loads(value) if is_json else value
    except ValueError:
        return value


# -- the memory of an agent ----------------------------------------------------------------------------------------


def _core_batches(agent: _Agent, blocks: Iterable[Row], default_time: int) -> Iterator[SourceEntry]:
    def make_draft(block: Row) -> VersionDraft | None:
        label, value = check_name(block["label"], "a key"), block["value"]
        if not value:
            return None
        [(key, safe_value)] = redact_value({label: check_text(value, "A value")}).items()
        time = batches.time_of(block.get("updated_at") or block.get("created_at"), default_time)
        return VersionDraft(CORE, key, encode_text(safe_value), time, importance=DEFAULT_IMPORTANCE)

    title = f"a block of the agent {safe_repr(agent.name)}"
    return batches.memory_batches(agent.target, blocks, make_draft, lambda _: title)


def _passage_batches(agent: _Agent, rows: Iterable[Row]) -> Iterator[SourceEntry]:
    ids = batches.StableIds()

    def make_draft(row: Row) -> VersionDraft:
        text = batches.redact_text(row["text"], "A passage")
        record_id = check_id(ids.next_id(row.get("id"), text), "record")
        details = redact_value(batches.to_json_types(row.get("metadata_") or row.get("metadata")))
        tags = [redact(str(each)) for each in batches.to_json_types(row.get("tags")) or ()]
        time = batches.time_of(row.get("created_at"), agent.target.now)
        return draft_record(record_id, text, tags, time, **({"letta": details} if details else {}))

    title = f"a passage of the agent {safe_repr(agent.name)}"
    return batches.memory_batches(agent.target, rows, make_draft, lambda _: title)


def _conversation_batches(agent: _Agent, chat_id: str, rows: Sequence[Row]) -> Iterator[SourceEntry]:
    try:
        if entries := _log_entries(rows, agent.target):
            yield batches.conversation_batch(agent.target, chat_id, entries)
    except batches.MALFORMED_ERRORS as error:
        yield SkippedEntry(f"the conversation {safe_repr(chat_id)}", batches.skip_reason(error), len(rows), "messages")


def _log_entries(rows: Sequence[Row], target: ImportTarget) -> list[LogEntry]:
    """Return the log entries of message rows, oldest first."""
    entries: list[LogEntry] = []
    spoken_calls: set[str] = set()
    ids, now = batches.StableIds(), target.now
    for time, _, row in sorted((batches.time_of(each.get("created_at"), now), n, each) for n, each in enumerate(rows)):
        row_id = row.get("id")
        own_id = row_id if isinstance(row_id, str) and _MESSAGE_ID.fullmatch(row_id) else None
        keyed = ({**each, "message_id": ids.next_id(own_id, time, each)} for each in _parse_messages(row, spoken_calls))
        entries += [batches.log_entry(each, time) for each in keyed]
    return entries


def _parse_messages(row: Row, spoken_calls: set[str]) -> list[dict[str, Any]]:
    """Return the messages of a row. Return [] for a message that Letta itself sent.

    Args:
        row: The row.
        spoken_calls: The ids of earlier `send_message` calls, whose results are omitted. The row's call is added.
    """
    role, text, parts = row["role"], *_parse_content(row)
    name_field = {"name": row["name"]} if row.get("name") else {}
    if role == "tool":
        returns = [each for each in row.get("tool_returns") or () if each.get("tool_call_id")]
        ids = [row["tool_call_id"]] if row.get("tool_call_id") else [each["tool_call_id"] for each in returns]
        results = {each["tool_call_id"]: each.get("func_response") or each.get("tool_return") for each in returns}
        answers = {each: _unpack_text(text or results.get(each) or "")[0] for each in ids if each not in spoken_calls}
        return [{"role": "tool", "tool_call_id": each, "content": answers[each], **name_field} for each in answers]
    if role == "user":
        text, is_internal = _unpack_text(text)
        others = [each for each in parts if each["type"] != "text"]
        content = [*([{"type": "text", "text": text}] if text else []), *others] if others else text
        return [] if is_internal else [{"role": "user", "content": content, **name_field}]
    calls = list(row.get("tool_calls") or ())
    if role not in ("assistant", "approval") or (role == "approval" and not calls):
        return []
    if (speech := _speech_text(calls)) is not None:
        spoken_calls.add(calls[0]["id"])
        thoughts = [{"type": "reasoning", "reasoning": text}] if text else []
        thoughts += [each for each in parts if each["type"] == "reasoning"]
        return [{"role": "assistant", "content": [*thoughts, {"type": "text", "text": speech}]}]
    content = text if all(each["type"] == "text" for each in parts) else parts
    return [{"role": "assistant", "content": content, "tool_calls": calls, **name_field}]


def _speech_text(calls: Sequence[Row]) -> str | None:
    """Return the text of a lone `send_message` call, or None if there is no such call."""
    if len(calls) != 1 or calls[0]["function"]["name"] != "send_message":  # older kinds of agents reply with this call
        return None
    try:
        text = json.loads(calls[0]["function"]["arguments"])["message"]
    except (LookupError, TypeError, ValueError):  # the model's token limit may truncate the arguments; the call is kept
        return None
    return text if isinstance(text, str) else None


def _parse_content(row: Row) -> tuple[str, list[dict[str, Any]]]:
    """Return the text of a row, and its content blocks in LangChain's form."""
    content = row.get("content") or row.get("text") or []
    parts: list[dict[str, Any] | None] = []
    blocks: Any = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for each in blocks:
        kind = each["type"]
        if kind == "text":
            parts.append({"type": "text", "text": check_text(each["text"], "A text")} if each["text"] else None)
        elif kind == "reasoning":
            parts.append({"type": "reasoning", "reasoning": each["reasoning"]})
        elif kind == "summarized_reasoning":
            parts.append({"type": "reasoning", "reasoning": "\n".join(part["text"] for part in each["summary"])})
        elif kind == "image":
            source = each["source"]
            data = {"base64": source.get("data"), "mime_type": source.get("media_type")}
            parts.append({"type": "image", **({"url": source["url"]} if "url" in source else data)})
    present = [each for each in parts if each]
    return "\n".join(each["text"] for each in present if each["type"] == "text"), present


def _unpack_text(text: str) -> tuple[str, bool]:
    """Return the text in Letta's JSON envelope, and True for a message of Letta itself."""
    try:
        envelope = json.loads(text)
    except (ValueError, RecursionError):
        return text, False
    if not isinstance(envelope, Mapping) or "time" not in envelope:
        return text, False
    message = envelope.get("message")
    is_internal = envelope.get("type", "user_message") != "user_message"
    if message is None:
        return text, is_internal
    return message if isinstance(message, str) else json.dumps(message, ensure_ascii=False), is_internal


# -- mem0 ----------------------------------------------------------------------------------------------------------


_TAG_PREFIXES = {"agent_id": "agent", "run_id": "run", "app_id": "app"}
_KNOWN_FIELDS = frozenset({"id", "memory", "user_id", "categories", "created_at", "expiration_date", *_TAG_PREFIXES})
"""The fields of mem0 that a record stores separately. All other fields become the details of the record."""


def read_mem0(source: Any, target: ImportTarget) -> Generator[SourceEntry]:
    """Yield the memories of mem0, as the module's docstring describes.

    Args:
        source: A JSON file with the result of `get_all`.
        target: The target.

    Raises:
        InvalidInput: The source is not such a file.
    """
    path = batches.parse_path(source)
    if batches.is_sqlite(path):  # such as mem0's history.db
        raise InvalidInput(f"{safe_repr(str(path))} is a SQLite file. Save the result of mem0's get_all as JSON.")
    data = batches.parse_file(path, target.limits)
    result = data if isinstance(data, Mapping) else {"results": data}
    memories = result.get("results", result.get("memories"))
    if not isinstance(memories, list):
        raise InvalidInput(f"{safe_repr(str(path))} is not a result of mem0's get_all: it has no list of results.")
    by_user: dict[str | None, list[Any]] = {}
    for each in memories:
        user = each.get("user_id") if isinstance(each, Mapping) else None
        if not isinstance(user, str | None):
            yield SkippedEntry(_describe_memory(each), "its user is not text.", holds="memories")
        elif target.wants(user):
            by_user.setdefault(user, []).append(each)
    for user, rows in by_user.items():
        labels = () if user is None else (user,)
        make_draft = partial(_memory_draft, target)
        yield from batches.memory_batches(target, rows, make_draft, _describe_memory, *labels)
    if isinstance(relations := result.get("relations"), list) and relations:
        yield SkippedEntry("relations", "only memories are read.", len(relations), "relations")


def _describe_memory(memory: Row) -> str:
    return f"the memory {safe_repr(memory, 200)}"


def _memory_draft(target: ImportTarget, memory: Mapping[str, Any]) -> VersionDraft:
    text = batches.redact_text(memory["memory"], "A memory")
    tags = [f"{tag}:{memory[name]}" for name, tag in _TAG_PREFIXES.items() if memory.get(name)]
    tags += [str(each) for each in memory.get("categories") or ()]
    details = {key: each for key, each in memory.items() if key not in _KNOWN_FIELDS and each not in (None, {}, [])}
    record_id = check_id(batches.StableIds().next_id(memory.get("id"), text), "record")
    end = memory.get("expiration_date")
    expires_at = None if end is None else batches.time_of(end, target.now)
    if expires_at is not None and expires_at <= target.now:
        raise InvalidInput("it has expired.")
    created = batches.time_of(memory.get("created_at"), target.now)
    more = {"mem0": batches.to_json_types(details)} if details else {}
    return draft_record(record_id, text, tags, created, **more)._replace(expires_at=expires_at)
