"""Parsers of foreign input, each as a target of a fuzzer.

A target takes bytes, and returns or raises one of our errors; so does what it reads through. Its seeds are inputs that
it is made for. `twisted` makes others of them: bytes that are changed, and JSON of which a part is something else.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import sqlite3
import warnings
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import yaml

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit.legacy_json import read_document
from langchain_agentmem.base import encoding, fencing, namespaces, redaction
from langchain_agentmem.base.argument_checks import DEFAULT_LIMITS
from langchain_agentmem.base.clock import to_micros
from langchain_agentmem.checkpoints.checkpoint_saver import AgentMemorySaver
from langchain_agentmem.errors import AgentMemoryError
from langchain_agentmem.experiences import model_choice
from langchain_agentmem.experiences.experience import Experience, parse_file
from langchain_agentmem.facts import fact_extraction
from langchain_agentmem.facts.fact_extraction import PendingMessage
from langchain_agentmem.language_models import lenient_json, summarization
from langchain_agentmem.layers.resource_memory import build_resource_snapshot
from langchain_agentmem.messages.message import Message, body_text, decode_body
from langchain_agentmem.messages.role_rounds import Conversation, Retention
from langchain_agentmem.search import analysis, dates
from langchain_agentmem.storage import is_postgres, postgres
from langchain_agentmem.stores import item_search
from langchain_agentmem.threads import value_store
from tests import everything
from tests.importers import sources

NOW = to_micros(datetime(2026, 1, 1, 12, tzinfo=UTC))
LONG = 60_000
"""Characters of inputs that say the same again and again: they tell of a reader whose time grows faster."""


class Target(NamedTuple):
    """A reader.

    Attributes:
        run: Has it read.
        seeds: What it is made for.
        allowed: What it may raise beside our own errors, as its docstring says.
        repeats: Whether inputs that say the same again and again are read, too.
    """

    run: Callable[[bytes], object]
    seeds: list[bytes]
    allowed: tuple[type[Exception], ...] = ()
    repeats: bool = True

    def __call__(self, data: bytes) -> None:
        """Read an input."""
        with contextlib.suppress(AgentMemoryError, *self.allowed):
            self.run(data)


def text_of(data: bytes) -> str:
    """The bytes as text; surrogates stay what they are."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def _query(data: bytes) -> None:
    text = text_of(data)
    analysis.analyze_query(text)
    analysis.analyze_text(text, "user")
    analysis.to_first_person(text, analysis.speaker_words(text))
    analysis.answer_kinds(text)


def _date(data: bytes) -> None:
    text = text_of(data)
    for moment in (NOW, to_micros(datetime(1, 1, 2, tzinfo=UTC)), to_micros(datetime(9999, 12, 30, tzinfo=UTC))):
        for span in dates.find_times(text, moment):
            assert span.start < span.end, (text, span)
        fact_extraction.parse_period(text, text[::-1], moment)


def _answer(data: bytes) -> None:
    text = text_of(data)
    for wanted in (dict, list):
        lenient_json.read_json(text, wanted=wanted)
    lenient_json.read_objects(text)
    some = [PendingMessage(str(n), Message(role="user", content="x", message_id=str(n)), NOW, None) for n in range(2)]
    fact_extraction.parse_answer(text, some)
    model_choice.read_selection(text, ["deploy", "rename things", "e1"])
    summarization.read_summary(text, {}, (), 3)


def _prompt(data: bytes) -> None:
    text = text_of(data)
    shown = fencing.fence_text("memory", text, by=text[:50])
    assert len(re.findall(r"</memory(?!\w)", shown)) == 1, text
    fencing.sanitize_line(text)
    redaction.redact(text)
    with contextlib.suppress(ValueError, RecursionError):
        redaction.redact_value(json.loads(text))


def _yaml(data: bytes) -> None:
    parse_file(data)
    text = text_of(data)
    for kind in (Experience, Conversation, Retention):
        with contextlib.suppress(AgentMemoryError):
            kind.from_yaml(text)
        with contextlib.suppress(AgentMemoryError):
            kind.from_json(text)
    model_choice.SelectionTemplate(text)


def _stored(data: bytes) -> None:
    """Bodies and recipes, of which the checksums fit."""
    for read in (
        encoding.decode,
        lambda given: decode_body(given, "m"),
        lambda given: body_text(given, with_calls=True),
        lambda given: value_store.unpack(value_store.add_checksum(given)),
    ):
        with contextlib.suppress(AgentMemoryError, value_store.DamagedValue):
            read(data)


def _asked(data: bytes) -> None:
    """What a caller names or filters by."""
    text = text_of(data)
    with contextlib.suppress(AgentMemoryError):
        namespaces.path_of(namespaces.parse_namespace(text))
    with contextlib.suppress(AgentMemoryError):
        namespaces.check_id(text, "conversation")
    with contextlib.suppress(AgentMemoryError):
        namespaces.parse_scopes(text.split("/"), bare_threads=False, on_thread_delete="keep")
    if is_postgres(text):
        with contextlib.suppress(AgentMemoryError):
            postgres.mask_address(text)
    with contextlib.suppress(ValueError, RecursionError):
        wanted = item_search.check_filter(json.loads(text), DEFAULT_LIMITS)
        if wanted is not None:
            item_search.required_text(wanted)
            item_search.matches_filter({"a": {"b": 1}, "text": "x"}, wanted)


def _files(folder: Path) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        path = folder / f"given{'.json' if data[:1] in b'{[' else '.yaml'}"
        path.write_bytes(data)
        for reader in (build_resource_snapshot, read_document, model_choice.SelectionTemplate.from_file):
            with contextlib.suppress(AgentMemoryError):
                reader(path)

    return read


KINDS = {
    "taskweaver": ("given.yaml", sources.taskweaver), "mem0": ("given.json", sources.mem0),
    "marsys": ("given.json", sources.marsys), "opus": ("given.json", sources.opus),
    "chat-history": ("given.json", sources.chat_files),
}  # fmt: skip
"""Files that other programs wrote, and what they are called here."""
TABLES = {
    "memgpt": sources.memgpt, "chat-history": sources.chat_history,
    "langgraph-saver": sources.saver, "langgraph-store": sources.store, "langmem": sources.store,
}  # fmt: skip
"""Databases that other programs wrote."""


class _Fresh:
    """A memory that is made anew now and then."""

    def __init__(self, every: int) -> None:
        self._every, self._used, self._memory = every, 0, AgentMemory()

    def __call__(self) -> AgentMemory:
        self._used += 1
        if self._used % self._every == 0:
            self._memory.close()
            self._memory = AgentMemory()
        return self._memory


def _imports(folder: Path) -> Target:
    memory, seeds = _Fresh(100), []
    for number, (_, make) in enumerate(KINDS.values()):
        (made := folder / f"source{number}").mkdir()
        path = make(made)
        path = next(each for each in sorted(path.rglob("*.*")) if each.is_file()) if path.is_dir() else path
        seeds.append(bytes([number]) + path.read_bytes())

    def read(data: bytes) -> None:
        kind, (name, _) = list(KINDS.items())[data[0] % len(KINDS)] if data else ("mem0", ("given.json", None))
        path = folder / (name if data[1:2] not in (b"{", b"[") else "given.json")
        path.write_bytes(data[1:])
        memory().import_from(kind, path)

    return Target(read, seeds, repeats=False)


def _foreign(folder: Path) -> Target:
    """Databases of others in which a value is something else."""
    memory = _Fresh(50)
    found = []
    for number, (kind, make) in enumerate(TABLES.items()):
        (made := folder / f"tables{number}").mkdir()
        path = make(made)
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("pragma journal_mode = delete")
            found += [(kind, path, *place) for place in _places(connection)]

    def read(data: bytes) -> None:
        kind, path, table, column, row = found[int.from_bytes(data[:2], "big") % len(found)]
        with (
            contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection,
            _changed(connection, table, column, row, _value(data[2:])),
        ):
            memory().import_from(kind, path)

    return Target(read, _one_of_each([each[2:4] for each in found], b"t[]"), repeats=False)


def _exports(folder: Path) -> Target:
    memory_of, path = _Fresh(50), folder / "given.db"
    with AgentMemory() as memory:
        memory.conversation("c").add(role="user", content="herons")
        memory.layers("a").core.set("name", "Ana")
        memory.store.put(("docs",), "one", {"text": "quinces"})
        memory.export(path)

    def read(data: bytes) -> None:
        path.write_bytes(data)
        memory_of().import_(path)

    return Target(read, [path.read_bytes()], repeats=False)


def _database(folder: Path) -> Target:
    """A database of ours in which a stored value is something else, by somebody who knows of checksums."""
    path = folder / "memory.db"
    with AgentMemory(path) as memory:
        everything.fill(memory)
        memory.settle()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma journal_mode = delete")
        found = [each for each in _places(connection) if each[1] in _HOLDING]

    def read(data: bytes) -> None:
        table, column, row = found[int.from_bytes(data[:2], "big") % len(found)]
        value = data[3:] if column in _BYTES else text_of(data[3:]).replace("\ud800", "")
        if column in ("recipe", "head", "metadata") and isinstance(value, bytes):
            value = value_store.add_checksum(value)
        checksum = zlib.crc32(value if isinstance(value, bytes) else b"")
        with (
            contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection,
            contextlib.ExitStack() as as_is,
        ):
            as_is.enter_context(_changed(connection, table, column, row, value))
            if table in ("item", "blob", "compaction"):
                as_is.enter_context(_changed(connection, table, "checksum", row, checksum))
            _read_all(path, folder / "out.jsonl")

    return Target(read, _one_of_each([each[:2] for each in found], b"b[]", b"b[1"), repeats=False)


def _one_of_each(places: list[tuple[str, ...]], *values: bytes) -> list[bytes]:
    """Inputs that put values into each column once, by the place of its first row."""
    return [places.index(each).to_bytes(2, "big") + value for each in dict.fromkeys(places) for value in values]


_HOLDING = frozenset({"body", "value", "recipe", "head", "metadata", "extra", "versions", "groups", "junk", "messages",
                      "indexed", "payload", "note"})  # fmt: skip
"""Columns that hold what something reads."""


_BYTES = frozenset({"body", "value", "recipe", "head", "metadata", "payload", "note"})


def _read_all(path: Path, out: Path) -> None:
    """Whatever a user may ask of a memory."""
    with AgentMemory(path) as memory:
        talk, layers = memory.conversation("c"), memory.layers("user-42", ("a",))
        for look in (
            lambda: talk.messages,
            lambda: memory.session("c").get_role_rounds("User"),
            lambda: memory.managed_conversation("managed").messages,
            lambda: [memory.store.get(each.namespace, each.key) for each in memory.store.search((), limit=100)],
            lambda: list(memory.byte_store().yield_keys()) and memory.byte_store().mget(["k\ud800", "a" * 2000]),
            lambda: [list(AgentMemorySaver(memory).list(None, limit=20))],
            memory.audit.entries,
            memory.audit.verify,
            lambda: [layers.core.entries(), layers.recall.recent(5), layers.archival.search("heron")],
            lambda: memory.facts("user-42", ("a",)).as_of(),
            lambda: memory.search("Ana herons Lisbon", everything=True, limit=50),
            memory.admin.verify,
            lambda: memory.export(out),
        ):
            with contextlib.suppress(AgentMemoryError):
                look()


def _places(connection: sqlite3.Connection) -> list[tuple[str, str, int]]:
    """Columns of the first rows of each table."""
    tables = [name for (name,) in connection.execute("select name from sqlite_schema where type = 'table'")]
    found = []
    for table in tables:
        if "_fts" in table or table.startswith(("sqlite_", "fts_", "search_", "agentmem_")):
            continue
        with contextlib.suppress(sqlite3.OperationalError):  # it has no rowid
            rows = [row for (row,) in connection.execute(f'select rowid from "{table}" order by rowid limit 12')]
            about = connection.execute(f'pragma table_info("{table}")').fetchall()
            columns = [name for _, name, kind, _, _, key in about if not key and kind.lower() in ("blob", "text", "")]
            found += [(table, column, row) for column in columns for row in rows]
    return found


def _value(data: bytes) -> Any:
    """A value for a column: bytes, text, or a number."""
    kind, rest = data[:1], data[1:]
    return {b"n": None, b"i": int.from_bytes(rest[:7], "big"), b"t": text_of(rest).replace("\ud800", "")}.get(
        kind, rest
    )


@contextlib.contextmanager
def _changed(connection: sqlite3.Connection, table: str, column: str, row: int, value: Any) -> Iterator[None]:
    """Put a value into a row as long as the block."""
    [(before,)] = connection.execute(f'select "{column}" from "{table}" where rowid = ?', (row,))
    put = f'update "{table}" set "{column}" = ? where rowid = ?'
    try:
        with contextlib.suppress(sqlite3.IntegrityError, UnicodeEncodeError):
            connection.execute(put, (value, row))
        yield
    finally:
        connection.execute(put, (before, row))


def _with_seeds(name: str, run: Callable[[bytes], object]) -> Target:
    """A reader of texts, with those in `seeds`, between lines of four hyphens."""
    seeds = (Path(__file__).parent / "seeds" / f"{name}.txt").read_bytes().removesuffix(b"\n").split(b"\n----\n")
    recipes = [value_store.pack(each)[4:] for each in ([0, 1], [1, 0, 3, 1, 2])]
    return Target(run, [*seeds, *recipes] if name == "stored" else seeds)


def targets(folder: Path) -> dict[str, Callable[[], Target]]:
    """Every target by its name, made when it is wanted.

    Args:
        folder: Where files may be.
    """
    texts = {
        "queries": _query, "dates": _date, "answers": _answer, "prompts": _prompt, "yaml": _yaml,
        "stored": _stored, "asked": _asked, "configs": _files(folder),
    }  # fmt: skip
    return {name: functools.partial(_with_seeds, name, run) for name, run in texts.items()} | {
        "imports": functools.partial(_imports, folder),
        "foreign": functools.partial(_foreign, folder),
        "exports": functools.partial(_exports, folder),
        "database": functools.partial(_database, folder),
    }  # fmt: skip


_PARTS = (
    None, True, -1, 0, 1.5, 2**70, -(2**63), 10**400, 1e308, float("nan"), "", "x", "x" * 5_000, "\0", "\ud800", "1",
    "2026-13-45", "9999-12-31T23:59:59-14:00", [], {}, [[]], [None], {"a": None}, {"": {}}, [{"type": []}],
    {"$agentmem": "int", "value": "z"},
)  # fmt: skip


def twisted(seed: bytes, random: Random) -> bytes:
    """Something like a seed: JSON, or lines of it, of which a part is something else; or other bytes."""
    if random.random() < 0.6:
        for whole in (True, False):
            with contextlib.suppress(ValueError, RecursionError):
                start = next((n for n, byte in enumerate(seed[:2]) if byte in b"{["), 0)
                return seed[:start] + _other_json(seed[start:], random, whole=whole)
        with contextlib.suppress(yaml.YAMLError, ValueError, RecursionError):
            value = yaml.safe_load(seed)
            if isinstance(value, dict | list):
                return yaml.safe_dump(_other(value, random)).encode("utf-8", "surrogatepass")
    data = bytearray(seed)
    for _ in range(random.choice((1, 1, 2, 5, 20))):
        at, size = random.randint(0, len(data)), random.choice((1, 1, 2, 8, 50))
        match random.randrange(5):
            case 0:
                data[at : at + size] = random.randbytes(size)
            case 1:
                del data[at : at + size]
            case 2:
                data[at:at] = data[at : at + size] * random.choice((1, 2, 30))
            case 3:
                data[at:at] = random.choice(
                    (b'"', b"{", b"}", b"[", b"]", b"\\", b"\n", b"<", b"&", b":", b",", b"'", b"\xff")
                )
            case _:
                other = random.randint(0, len(data))
                data[at:at] = data[other : other + size]
    return bytes(data)


def _other_json(data: bytes, random: Random, *, whole: bool) -> bytes:
    if whole:
        return json.dumps(_other(json.loads(data), random)).encode()
    lines = data.splitlines()
    at = random.randrange(len(lines))
    match random.randrange(8):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, random.choice(lines))
        case _:
            lines[at] = json.dumps(_other(json.loads(lines[at]), random)).encode()
    return b"\n".join(lines)


def _other(value: Any, random: Random) -> Any:
    """A value of which a part is something else."""
    if not isinstance(value, dict | list) or not value or random.random() < 0.1:
        part = random.choice(_PARTS)
        return functools.reduce(lambda inner, _: [inner], range(3_000), 0) if random.random() < 0.02 else part
    made = dict(value) if isinstance(value, dict) else list(value)
    at = random.choice(list(made)) if isinstance(made, dict) else random.randrange(len(made))
    if random.random() < 0.1:
        del made[at]
    else:
        made[at] = _other(made[at], random)
    return made


def repeated(seed: bytes, random: Random) -> bytes:
    """A part of a seed, again and again, as long as no one writes by hand."""
    start = random.randrange(len(seed))
    part = seed[start : start + random.choice((1, 2, 3, 8, 30, 200))]
    return seed[:start] + part * (LONG // max(1, len(part))) + random.choice((b"", seed[start:]))


def inputs(target: Target, count: int, random: Random) -> Iterator[bytes]:
    """The seeds of a target, and so many others like them."""
    yield from target.seeds
    yield b""
    for number in range(count):
        seed = random.choice(target.seeds)
        is_long = target.repeats and number % 10 == 0
        yield repeated(seed, random) if is_long else twisted(seed, random)


warnings.simplefilter("ignore")
