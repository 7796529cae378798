"""Files of single programs: what TaskWeaver keeps, memories that MARSYS saved, OPUS' agent_memory.json.

TaskWeaver writes a session as YAML or JSON: rounds, their posts, their attachments; the ids tell the times. Beside them
are experiences, which go to a folder that `AgentMemory.experiences` reads. MARSYS'
`save_to_file` writes the messages without ids and times, facts as sentences. OPUS keeps prompts and replies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_agentmem.audit import audit_store
from langchain_agentmem.audit.audit_entry import AuditEntry
from langchain_agentmem.audit.junk_rules import reasons
from langchain_agentmem.audit.legacy_json import drafts_of, read_document
from langchain_agentmem.base.clock import micros, moment
from langchain_agentmem.base.data_tables import read_yaml
from langchain_agentmem.base.namespaces import namespace_of
from langchain_agentmem.conversations.log_entries import post_entry, round_entry
from langchain_agentmem.conversations.message_log import LogEntry
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.experiences.experience import Experience, read_experience
from langchain_agentmem.importers import parcels
from langchain_agentmem.layers.memory_layers import record
from langchain_agentmem.messages.role_rounds import Attachment, Conversation
from langchain_agentmem.storage.transfer import PAGE, pages

if TYPE_CHECKING:
    from langchain_agentmem.agent_memory import AgentMemory

_TIME = re.compile(r"-(\d{8}-\d{6})-")


# -- TaskWeaver ----------------------------------------------------------------------------------------------------


def read_taskweaver(source: Any, to: parcels.Destination, stack: ExitStack) -> Iterator[parcels.Thing]:
    """Sessions and experiences of TaskWeaver.

    Args:
        source: A YAML or JSON file, or a folder in which, and below which, such files are.
        to: Where they go.
        stack: Nothing stays open.

    Raises:
        InvalidInput: There is no such file, or it is no session.
    """
    del stack
    return parcels.of_files(parcels.path_given(source), (".yaml", ".yml", ".json"), _session, to)


def _session(path: Path, name: str, to: parcels.Destination) -> Iterator[parcels.Thing]:
    given = parcels.value_of_file(path, to.limits, json.loads if path.suffix.lower() == ".json" else read_yaml)
    if isinstance(given, Mapping) and "rounds" not in given and ("exp_id" in given or "experience_text" in given):
        yield from _experience(path, name, to)
        return
    if not isinstance(given, Mapping) or not isinstance(given.get("rounds"), list):
        raise InvalidInput(f"{safe_repr(str(path))} is no session of TaskWeaver: it has no rounds.")
    dropped = _with_ids(given, parcels.Names())
    session = Conversation.from_dict(given)
    own, entries = given.get("id"), _entries(session, parcels.time_of_file(path))
    key = own if isinstance(own, str) and own else name
    what, build = f"the session {safe_repr(key)}", partial(parcels.conversation, name=key, entries=entries)
    found = [*parcels.owned(to, key, what, len(entries), build)]
    yield from found
    if dropped and found:
        why_dropped = f"TaskWeaver has no such types any more: {', '.join(sorted(set(dropped)))}."
        yield parcels.LeftOut(f"attachments in {safe_repr(path.name)}", why_dropped, len(dropped))


def _experience(path: Path, name: str, to: parcels.Destination) -> Iterator[parcels.Thing]:
    read = read_experience(path.read_bytes())
    if isinstance(read, str):
        raise InvalidInput(read)
    if not to.chosen.has(read.exp_id, name):
        return
    what = f"the experience {safe_repr(read.exp_id)}"
    if to.experiences is None:
        yield parcels.LeftOut(
            what, "name the folder that experiences go to: experiences=…, --experiences.", holds="experiences"
        )
        return
    folders = name.split("/")[:-1]
    below = folders[folders.index("experience") + 1 :] if "experience" in folders else folders
    store = partial(_store_experience, read, to.experiences.joinpath(*below))
    yield parcels.Parcel(holds="experiences", what=what, count=1, store=store)


def _store_experience(
    experience: Experience, directory: Path, memory: AgentMemory, *, dry_run: bool
) -> tuple[int, int]:
    """Write an experience to a folder, unless that has one of its id."""
    if not dry_run:
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"Experiences cannot be written to {safe_repr(str(directory))}: {error}.") from error
    library = memory.experiences(directory) if directory.is_dir() else None
    if library and experience.exp_id in {each.exp_id for each in library.load()}:
        return 0, 1
    if library and not dry_run:
        library.add(experience)
    return 1, 0


def _with_ids(given: Mapping[str, Any], names: parcels.Names) -> list[str]:
    """Give those an id that have none; gives the types of the attachments that are no more."""
    dropped = []
    for each in given["rounds"]:
        each["id"] = names.given(each.get("id"), "round", each.get("user_query"))
        for post in each.get("post_list") or ():
            post["id"] = names.given(post.get("id"), "post", post.get("send_from"), post.get("message"))
            for attached in post.get("attachment_list") or ():
                attached["id"] = names.given(attached.get("id"), "attachment", attached.get("content"))
                if Attachment.from_dict(attached) is None:
                    dropped.append(str(attached["type"]))
    return dropped


def _entries(session: Conversation, otherwise: int) -> list[LogEntry]:
    entries: list[LogEntry] = []
    for each in session.rounds:
        begun = _time_in(each.id, otherwise)
        entries.append(round_entry(each, begun))
        entries += [post_entry(post, each.id, _time_in(post.id, begun)) for post in each.post_list]
    return entries


def _time_in(name: str, otherwise: int) -> int:
    """The time that an id of TaskWeaver's tells."""
    if (found := _TIME.search(name)) is None:
        return otherwise
    try:
        return micros(datetime.strptime(found[1], "%Y%m%d-%H%M%S").replace(tzinfo=UTC))
    except ValueError:
        return otherwise


# -- MARSYS --------------------------------------------------------------------------------------------------------


def read_marsys(source: Any, to: parcels.Destination, stack: ExitStack) -> Iterator[parcels.Thing]:
    """What MARSYS' `save_to_file` wrote; the name of the file is taken for the id of the conversation.

    Args:
        source: The file, or a folder of such files.
        to: Where it goes.
        stack: Nothing stays open.

    Raises:
        InvalidInput: It is no such file.
    """
    del stack
    return parcels.of_files(parcels.path_given(source), (".json",), _saved, to)


def _saved(path: Path, name: str, to: parcels.Destination) -> Iterator[parcels.Thing]:
    given = parcels.value_of_file(path, to.limits)
    if not isinstance(given, Mapping) or not isinstance(given.get("messages"), list):
        raise InvalidInput(f"{safe_repr(str(path))} was not written by MARSYS' save_to_file: it has no messages.")
    saved_at = parcels.time_of(given.get("timestamp"), parcels.time_of_file(path))
    messages = given["messages"]
    build = _facts if given.get("memory_type") == "kg" else _conversation
    made = partial(build, name, messages, saved_at)
    found = [*parcels.owned(to, name, f"the file {safe_repr(path.name)}", len(messages), made)]
    yield from found
    if found and given.get("additional_state"):
        yield parcels.LeftOut(
            f"the additional state in {safe_repr(path.name)}", "it is the state of an agent, and no memory."
        )


def _conversation(name: str, messages: Sequence[Any], saved_at: int, to: parcels.Destination) -> parcels.Parcel:
    names, entries = parcels.Names(), []
    for each in messages:
        key = names.given(each.get("message_id"), each)
        entries.append(parcels.said({**each, "message_id": key}, saved_at))
    return parcels.conversation(to, name, entries)


def _facts(name: str, messages: Sequence[Any], saved_at: int, to: parcels.Destination) -> parcels.Parcel:
    """Facts as records: in such a sentence nobody can tell the subject from the object."""
    names, drafts = parcels.Names(), []
    for each in messages:
        text = parcels.clean(each["content"], "A fact")
        drafts.append(record(names.given(None, each), text, ["fact", f"role:{each['role']}"], saved_at))
    return parcels.memories(to, f"the facts of {safe_repr(name)}", drafts)


# -- OPUS ----------------------------------------------------------------------------------------------------------


def read_opus(source: Any, to: parcels.Destination, stack: ExitStack) -> Iterator[parcels.Thing]:
    """Prompts and replies of an agent_memory.json, however damaged, as entries of the audit trail.

    Args:
        source: The file. It stays as it is, and no copy of a damaged one is kept beside it.
        to: Where they go.
        stack: Nothing stays open.

    Raises:
        InvalidInput: There is no such file.
    """
    del stack
    path = parcels.path_given(source)
    to.limits.check_file(path)
    loaded = read_document(path)
    path_ = to.path()
    here = [each for each in loaded.entries if to.chosen.has(each.conversation_id)]
    said = [each for each in here if each.prompt or each.reply]
    drafts = drafts_of(said, namespace_of(path_), moment(to.now), _judged)
    for number, page in enumerate(pages(drafts)):
        what = f"entries from {number * PAGE + 1:,} on, in {parcels.where(to)}"
        yield parcels.written("entries", what, len(page), path_, _added(path_, page))
    if empty := len(here) - len(said):
        yield parcels.LeftOut("entries", "they have neither prompt nor reply.", empty, "entries")
    for each in loaded.lost:
        yield parcels.LeftOut("an entry", each, holds="entries")


def _judged(entry: AuditEntry) -> AuditEntry:
    return replace(entry, junk=reasons(entry.kind, entry.prompt, entry.reply))


def _added(path: str, page: Sequence[Any]) -> parcels.Make:
    """How entries are written."""
    return lambda tx, now: range(audit_store.add_new(tx, path, page))  # noqa: ARG005 - as every `Make`
