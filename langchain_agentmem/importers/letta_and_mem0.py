"""Readers for Letta and mem0.

Letta: the sources are agent files (.af), which its server exports, and the database of the server.

An agent's memory is imported into a namespace named after the agent, or into that of its owner if the import's
namespace has keys. Blocks become core memory. Passages become records of archival memory. Messages become
conversations, whose ids are those in Letta. Messages without a conversation id form one named after the agent.

Current agent files list agents and blocks separately. Older files contain one agent with its "core_memory". Neither
form contains passages. To import the passages of the agent NAME, save the list that Letta's API returns as NAME.json.

Messages of people and the agent are imported without Letta's JSON envelope, and so are tool calls and their results. A
lone call of `send_message` becomes a reply of the agent. System prompts, heartbeats and logins are not imported.

mem0: the source is the result of its `get_all`, saved as JSON.

A memory becomes a record of archival memory with the same id, in the namespace of its user. Its categories become tags.
So do its agent, run and app ids, with a prefix such as "agent:". Its other fields become details of the record.
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
from langchain_agentmem.layers.layer import DEFAULT_IMPORTANCE
from langchain_agentmem.layers.memory_layers import record_draft
from langchain_agentmem.rewinding.memory_rows import CORE, VersionDraft, encode_text
from langchain_agentmem.storage.foreign_tables import ForeignTables, foreign_tables

_TABLE_COLUMNS = {"agents": {"id", "name"}, "block": {"id", "label", "value"}, "messages": {"id", "role", "agent_id"}}
_MESSAGE_ID = re.compile(r"message-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Row = Mapping[str, Any]


class _Agent(NamedTuple):
    """An agent of Letta: its id, its name, and the import target for its memory."""

    key: str
    name: str
    target: batches.ImportTarget


def read_letta(source: Any, to: batches.ImportTarget) -> Generator[batches.SourceEntry]:
    """Yield the memory of Letta's agents. The module's docstring describes it.

    Args:
        source: An agent file, a list of passages, a folder of such files, or the server's database. The database is a
            SQLite file or the URL of a PostgreSQL database.
        to: The target.

    Raises:
        InvalidInput: The source is none of these.
    """
    given = batches.path_or_url(source)
    if isinstance(given, Path) and not batches.is_sqlite(given):
        yield from batches.read_files(given, (".af", ".json"), _agents_in_file, to)
        return
    with foreign_tables(given) as tables:
        if not all(columns <= tables.columns.get(name, frozenset()) for name, columns in _TABLE_COLUMNS.items()):
            raise InvalidInput(f"{tables.name} has no tables of agents, blocks and messages, as Letta's server has.")
        yield from _agents_in_tables(tables, to)


def _make_agent(row: Row, names: batches.StableIds, to: batches.ImportTarget) -> _Agent | None:
    """Return an agent. Return None if `ImportTarget.only` excludes it."""
    key, name = str(row.get("id") or row.get("name")), names.next_id(row.get("name") or row.get("id"), row)
    if to.keys:
        target = to.target_for(name, [{"agent": name, "agent_id": key}])
    else:
        target = to._replace(namespace=(*to.namespace, name)) if to.wants(name, key) else None
    return None if target is None else _Agent(key, name, target)


# -- files ---------------------------------------------------------------------------------------------------------


def _agents_in_file(path: Path, name: str, to: batches.ImportTarget) -> Iterator[batches.SourceEntry]:
    given, at = batches.parse_file(path, to.limits), batches.time_of_file(path)
    if isinstance(given, list) and given and all(isinstance(each, Mapping) and "text" in each for each in given):
        if (agent := _make_agent({"name": name}, batches.StableIds(), to)) is not None:
            yield from _passage_batches(agent, given)
        return
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{safe_repr(str(path))} is neither an agent file of Letta nor a list of passages.")
    if isinstance(given.get("core_memory"), list):
        agents, blocks = [{**given, "memory_blocks": given["core_memory"]}], {}
    elif isinstance(given.get("agents"), list) and isinstance(given.get("blocks"), list):
        agents, blocks = given["agents"], {each["id"]: each for each in given["blocks"]}
    else:
        raise InvalidInput(f"{safe_repr(str(path))} is not an agent file of Letta: no agents or core_memory.")
    at, names = batches.time_of(given.get("created_at"), at), batches.StableIds()
    for row in agents:
        try:
            agent = _make_agent(row, names, to)
        except batches.MALFORMED_ERRORS as error:
            yield batches.SkippedEntry(f"the agent {safe_repr(row, 200)}", batches.skip_reason(error))
            continue
        if agent is not None:
            agent_blocks = [blocks[each] for each in row.get("block_ids") or () if each in blocks]
            yield from _core_batches(agent, [*agent_blocks, *(row.get("memory_blocks") or ())], at)
            yield from _conversation_batches(agent, agent.name, row.get("messages") or ())


# -- tables --------------------------------------------------------------------------------------------------------


def _agents_in_tables(tables: ForeignTables, to: batches.ImportTarget) -> Iterator[batches.SourceEntry]:
    found: dict[str, _Agent] = {}
    names = batches.StableIds()
    for row in _live_rows(tables, "agents", "created_at", "id"):
        try:
            if (agent := _make_agent(row, names, to)) is not None:
                found[agent.key] = agent
        except batches.MALFORMED_ERRORS as error:
            yield batches.SkippedEntry(f"the agent {safe_repr(row.get('name'))}", batches.skip_reason(error))
    own_agents = {key: [agent] for key, agent in found.items()}
    blocks = {each["id"]: each for each in _live_rows(tables, "block")}
    for agent, rows in _rows_by_agent(tables, "blocks_agents", own_agents, "agent_id"):
        ids = [each["block_id"] for each in rows]
        yield from _core_batches(agent, [blocks[each] for each in ids if each in blocks], to.now)
    messages = _live_rows(tables, "messages", "agent_id", "conversation_id", "sequence_id", "created_at", "id")
    for (key, name), group in groupby(messages, lambda row: (row["agent_id"], row.get("conversation_id"))):
        if (writer := found.get(key)) is not None:
            yield from _conversation_batches(writer, name or writer.name, list(group))
    archives: dict[str, list[_Agent]] = defaultdict(list)
    for agent, rows in _rows_by_agent(tables, "archives_agents", own_agents, "agent_id"):
        for each in rows:
            archives[each["archive_id"]].append(agent)
    archive_rows = _rows_by_agent(tables, "archival_passages", archives, "archive_id")
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
    for key, group in groupby(_live_rows(tables, table, column, "created_at", "id"), lambda row: row[column]):
        rows = list(group)
        for agent in agents.get(key, ()):
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


def _core_batches(agent: _Agent, blocks: Iterable[Row], at: int) -> Iterator[batches.SourceEntry]:
    def make_draft(block: Row) -> VersionDraft | None:
        label, value = check_name(block["label"], "a key"), block["value"]
        if not value:
            return None
        [(key, safe_value)] = redact_value({label: check_text(value, "A value")}).items()
        time = batches.time_of(block.get("updated_at") or block.get("created_at"), at)
        return VersionDraft(CORE, key, encode_text(safe_value), time, importance=DEFAULT_IMPORTANCE)

    name = f"a block of the agent {safe_repr(agent.name)}"
    return batches.memory_batches(agent.target, blocks, make_draft, lambda _: name)


def _passage_batches(agent: _Agent, rows: Iterable[Row]) -> Iterator[batches.SourceEntry]:
    names = batches.StableIds()

    def make_draft(row: Row) -> VersionDraft:
        text = batches.redact_text(row["text"], "A passage")
        key = check_id(names.next_id(row.get("id"), text), "record")
        more = redact_value(batches.to_json_types(row.get("metadata_") or row.get("metadata")))
        tags = [redact(str(each)) for each in batches.to_json_types(row.get("tags")) or ()]
        time = batches.time_of(row.get("created_at"), agent.target.now)
        return record_draft(key, text, tags, time, **({"letta": more} if more else {}))

    name = f"a passage of the agent {safe_repr(agent.name)}"
    return batches.memory_batches(agent.target, rows, make_draft, lambda _: name)


def _conversation_batches(agent: _Agent, name: str, rows: Sequence[Row]) -> Iterator[batches.SourceEntry]:
    try:
        if entries := _log_entries(rows, agent.target):
            yield batches.conversation_batch(agent.target, name, entries)
    except batches.MALFORMED_ERRORS as error:
        label = f"the conversation {safe_repr(name)}"
        yield batches.SkippedEntry(label, batches.skip_reason(error), len(rows), "messages")


def _log_entries(rows: Sequence[Row], to: batches.ImportTarget) -> list[LogEntry]:
    """Return the log entries of message rows, oldest first."""
    found: list[LogEntry] = []
    spoken_calls: set[str] = set()
    names = batches.StableIds()
    for at, _, row in sorted((batches.time_of(each.get("created_at"), to.now), n, each) for n, each in enumerate(rows)):
        given = row.get("id")
        key = given if isinstance(given, str) and _MESSAGE_ID.fullmatch(given) else None
        messages = _parse_messages(row, spoken_calls)
        found += [batches.log_entry({**each, "message_id": names.next_id(key, at, each)}, at) for each in messages]
    return found


def _parse_messages(row: Row, spoken_calls: set[str]) -> list[dict[str, Any]]:
    """Return the messages of a row. An internal message of Letta has none.

    Args:
        row: The row.
        spoken_calls: The ids of the `send_message` calls before. Their results are omitted. New calls are added.
    """
    role, text, parts = row["role"], *_parse_content(row)
    name = {"name": row["name"]} if row.get("name") else {}
    if role == "tool":
        returns = [each for each in row.get("tool_returns") or () if each.get("tool_call_id")]
        ids = [row["tool_call_id"]] if row.get("tool_call_id") else [each["tool_call_id"] for each in returns]
        results = {each["tool_call_id"]: each.get("func_response") or each.get("tool_return") for each in returns}
        answers = {key: _unpack_text(text or results.get(key) or "")[0] for key in ids if key not in spoken_calls}
        return [{"role": "tool", "tool_call_id": key, "content": answer, **name} for key, answer in answers.items()]
    if role == "user":
        text, is_internal = _unpack_text(text)
        others = [each for each in parts if each["type"] != "text"]
        content = [*([{"type": "text", "text": text}] if text else []), *others] if others else text
        return [] if is_internal else [{"role": "user", "content": content, **name}]
    calls = list(row.get("tool_calls") or ())
    if role not in ("assistant", "approval") or (role == "approval" and not calls):
        return []
    if (speech := _speech_text(calls)) is not None:
        spoken_calls.add(calls[0]["id"])
        thoughts = [{"type": "reasoning", "reasoning": text}] if text else []
        thoughts += [each for each in parts if each["type"] == "reasoning"]
        return [{"role": "assistant", "content": [*thoughts, {"type": "text", "text": speech}]}]
    content = text if all(each["type"] == "text" for each in parts) else parts
    return [{"role": "assistant", "content": content, "tool_calls": calls, **name}]


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
    given: Any = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for each in given:
        kind = each["type"]
        if kind == "text":
            parts.append({"type": "text", "text": check_text(each["text"], "A text")} if each["text"] else None)
        elif kind == "reasoning":
            parts.append({"type": "reasoning", "reasoning": each["reasoning"]})
        elif kind == "summarized_reasoning":
            parts.append({"type": "reasoning", "reasoning": "\n".join(one["text"] for one in each["summary"])})
        elif kind == "image":
            source = each["source"]
            data = {"base64": source.get("data"), "mime_type": source.get("media_type")}
            parts.append({"type": "image", **({"url": source["url"]} if "url" in source else data)})
    present = [each for each in parts if each]
    return "\n".join(each["text"] for each in present if each["type"] == "text"), present


def _unpack_text(text: str) -> tuple[str, bool]:
    """Return the text in Letta's JSON envelope, and whether it is an internal message."""
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


def read_mem0(source: Any, to: batches.ImportTarget) -> Generator[batches.SourceEntry]:
    """Yield the memories of mem0. The module's docstring describes them.

    Args:
        source: A JSON file with the result of `get_all`.
        to: The target.

    Raises:
        InvalidInput: The source is not such a file.
    """
    path = batches.parse_path(source)
    if batches.is_sqlite(path):  # such as mem0's history.db
        raise InvalidInput(f"{safe_repr(str(path))} is a SQLite file. Save the result of mem0's get_all as JSON.")
    given = batches.parse_file(path, to.limits)
    lists = given if isinstance(given, Mapping) else {"results": given}
    found = lists.get("results", lists.get("memories"))
    if not isinstance(found, list):
        raise InvalidInput(f"{safe_repr(str(path))} is not a result of mem0's get_all: it has no list of results.")
    by_user: dict[str | None, list[Any]] = {}
    for each in found:
        user = each.get("user_id") if isinstance(each, Mapping) else None
        if not isinstance(user, str | None):
            yield batches.SkippedEntry(f"the memory {safe_repr(each, 200)}", "its user is not text.", holds="memories")
        elif to.wants(user):
            by_user.setdefault(user, []).append(each)
    for user, rows in by_user.items():
        labels = () if user is None else (user,)
        make = partial(_memory_draft, to)
        yield from batches.memory_batches(to, rows, make, lambda row: f"the memory {safe_repr(row, 200)}", *labels)
    if isinstance(relations := lists.get("relations"), list) and relations:
        yield batches.SkippedEntry("relations", "only memories are read.", len(relations), "relations")


def _memory_draft(to: batches.ImportTarget, given: Mapping[str, Any]) -> VersionDraft:
    text = batches.redact_text(given["memory"], "A memory")
    tags = [f"{tag}:{given[name]}" for name, tag in _TAG_PREFIXES.items() if given.get(name)]
    tags += [str(each) for each in given.get("categories") or ()]
    details = {key: each for key, each in given.items() if key not in _KNOWN_FIELDS and each not in (None, {}, [])}
    key = check_id(batches.StableIds().next_id(given.get("id"), text), "record")
    end = None if given.get("expiration_date") is None else batches.time_of(given["expiration_date"], to.now)
    if end is not None and end <= to.now:
        raise InvalidInput("it has expired.")
    created = batches.time_of(given.get("created_at"), to.now)
    more = {"mem0": batches.to_json_types(details)} if details else {}
    return record_draft(key, text, tags, created, **more)._replace(expires_at=end)
