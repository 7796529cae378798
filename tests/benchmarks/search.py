"""How long a search takes: in a namespace of its own, among many others, and in a large one.

    python tests/benchmarks/search.py [--postgres] [--only small|many|large] [--namespaces 200] [--each 500]
                                      [--large 100000] [--full]

`small`: one namespace of 10,000 messages. `many`: many namespaces, written in turns, and the same searches in the same
namespace alone in a database of its own, one after the other; what counts is the ratio. `large`: one namespace with
very many messages, once for questions whose rarest word is in fewer than one message of a hundred, once for questions
of common words only. `--full` measures 1,000 namespaces of 1,000, and 1,000,000 messages in one.

Words are as frequent as in a language (`natural.py`). Beside ours stands what one would write by hand: a table of
messages and FTS5 with bm25(), joined and filtered by namespace; on PostgreSQL a tsvector with GIN and ts_rank(). It
looks at each message by itself, and knows nothing of neighbours, conversations, speakers and dates.
"""

from __future__ import annotations

import itertools
import re
import sqlite3
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from natural import FUNCTION_WORDS, Language
from places import NAMES, databases, given_options, in_turns

from langchain_agentmem import AgentMemory

BATCH = 50
CONVERSATION = 100
QUESTIONS = 200
WARM = 5
BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
WORD = re.compile(r"\w+")

Find = Callable[[str, str], int]
"""Searches for ten in a namespace, (namespace, question), and gives how many were found."""


class Batch(NamedTuple):
    """Messages that are written together."""

    namespace: str
    conversation: str
    texts: Sequence[str]
    begin: int


def batches(language: Language, namespaces: Sequence[str], each: int) -> Iterator[Batch]:
    """All messages, the namespaces in turns. What a namespace holds depends on its name alone."""
    sources = {name: language.messages(int(name.partition("-")[2])) for name in namespaces}
    for begin in range(0, each, BATCH):
        for name, source in sources.items():
            texts = list(itertools.islice(source, min(BATCH, each - begin)))
            yield Batch(name, f"chat-{begin // CONVERSATION}", texts, begin)


def feed(memory: AgentMemory, source: Iterable[Batch]) -> float:
    """Store everything; gives messages a second."""
    began, count = time.perf_counter(), 0
    for batch in source:
        chat = memory.conversation(batch.conversation, namespace=(batch.namespace,))
        chat.add_messages([_message(text, batch.begin + place) for place, text in enumerate(batch.texts)])
        count += len(batch.texts)
    return count / (time.perf_counter() - began)


def _message(text: str, place: int) -> BaseMessage:
    told = {"created_at": (BEGIN + timedelta(minutes=place)).isoformat()}
    return (AIMessage if place % 2 else HumanMessage)(text, additional_kwargs=told)


def ours(memory: AgentMemory) -> Find:
    return lambda namespace, question: len(memory.search(question, namespace=(namespace,), limit=10))


# -- by hand -----------------------------------------------------------------------------------------------------


def fts5_by_hand(stack: ExitStack, path: str, source: Iterable[Batch]) -> Find:
    connection = stack.enter_context(closing(sqlite3.connect(path, isolation_level=None)))
    connection.execute("pragma journal_mode = wal")
    connection.execute("create table message (id integer primary key, namespace text, conversation text, body text)")
    connection.execute("create index message_namespace on message (namespace)")
    connection.execute("create virtual table words using fts5 (body, content = 'message', content_rowid = 'id')")
    connection.execute("begin")
    numbers = itertools.count(1)
    for batch in source:
        rows = [(next(numbers), batch.namespace, batch.conversation, text) for text in batch.texts]
        connection.executemany("insert into message values (?, ?, ?, ?)", rows)
        connection.executemany("insert into words (rowid, body) values (?, ?)", [(row[0], row[3]) for row in rows])
    connection.execute("commit")
    return lambda namespace, question: len(
        connection.execute(
            "select message.id, message.body from words join message on message.id = words.rowid "
            "where words match ? and message.namespace = ? order by bm25(words) limit 10",
            (" OR ".join(wanted(question)), namespace),
        ).fetchall()
    )


def tsvector_by_hand(stack: ExitStack, url: str, source: Iterable[Batch]) -> Find:
    import psycopg

    connection = stack.enter_context(psycopg.connect(url, autocommit=True))
    connection.execute(
        "create table message (id bigserial primary key, namespace text, conversation text, body text, words tsvector)"
    )
    with connection.cursor() as cursor, cursor.copy("copy message (namespace, conversation, body) from stdin") as copy:
        for batch in source:
            for text in batch.texts:
                copy.write_row((batch.namespace, batch.conversation, text))
    connection.execute("update message set words = to_tsvector('simple', body)")
    connection.execute("create index message_namespace on message (namespace)")
    connection.execute("create index message_words on message using gin (words)")
    connection.execute("vacuum analyze message")
    return lambda namespace, question: len(
        connection.execute(
            "select id, body from message "
            "where words @@ to_tsquery('simple', %(wanted)s) and namespace = %(namespace)s "
            "order by ts_rank(words, to_tsquery('simple', %(wanted)s)) desc limit 10",
            {"wanted": " | ".join(wanted(question)), "namespace": namespace},
        ).fetchall()
    )


def wanted(question: str) -> list[str]:
    """A question's words without those that say little."""
    return [word for word in WORD.findall(question) if word not in FUNCTION_WORDS and word != "say"]


# -- measuring ---------------------------------------------------------------------------------------------------


def compare(finds: Mapping[str, Find], asked: Sequence[tuple[str, str]]) -> dict[str, list[float]]:
    """Milliseconds of each search, by name; the contenders take turns, so that noise hits them alike."""

    def act(find: Find) -> Callable[[], int]:
        questions = itertools.chain(asked[:WARM], asked)
        return lambda: find(*next(questions))

    taken = in_turns({name: act(find) for name, find in finds.items()}, len(asked), warm=len(asked[:WARM]))
    return {name: sorted(each / 1e3 for each in times) for name, times in taken.items()}


def p50(times: Sequence[float]) -> float:
    return statistics.median(times)


def p95(times: Sequence[float]) -> float:
    return times[min(len(times) - 1, len(times) * 95 // 100)]


def show(name: str, times: Sequence[float], base: Sequence[float] | None = None) -> None:
    ratio = "" if base is None else f"   {p50(times) / p50(base):6.2f} {p95(times) / p95(base):6.2f} times the first"
    print(f"  {name:<44} {p50(times):9.2f} {p95(times):9.2f}{ratio}", flush=True)


def table(title: str, finds: Mapping[str, Find], kinds: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Print what searches of each kind take, and how many times those of the first contender."""
    print(f"\n{title}\n  {'':<44} {'p50 ms':>9} {'p95 ms':>9}")
    for kind, asked in kinds.items():
        first = None
        for name, times in compare(finds, asked).items():
            show(f"{name}, {kind}", times, first)
            first = first or times


def settle(url: str) -> None:
    """What PostgreSQL does by itself after a while: count its rows and mark its pages."""
    if url.startswith("postgresql"):
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("vacuum analyze")


def small_or_large(engine: str, language: Language, count: int, kinds: Mapping[str, Sequence[str]]) -> None:
    """One namespace of so many messages: ours and by hand."""
    by_hand = tsvector_by_hand if engine == "postgres" else fts5_by_hand
    title = "tsvector by hand" if engine == "postgres" else "FTS5 by hand, joined"
    with databases(engine) as new, ExitStack() as stack:
        url = new()
        memory = stack.enter_context(AgentMemory(url))
        rate = feed(memory, batches(language, ["tenant-0"], count))
        settle(url)
        other = by_hand(stack, new(), batches(language, ["tenant-0"], count))
        about = f"{NAMES[engine]}, {count:,} messages in one namespace ({rate:,.0f} stored a second)"
        asked = {kind: [("tenant-0", question) for question in questions] for kind, questions in kinds.items()}
        table(about, {"langchain-agentmem": ours(memory), title: other}, asked)


def many(engine: str, language: Language, namespaces: int, each: int) -> None:
    """Many namespaces in one database, next to one of them alone."""
    names = [f"tenant-{number}" for number in range(namespaces)]
    probed = sorted({names[0], names[namespaces // 2], names[-1]})
    with databases(engine) as new, ExitStack() as stack:
        urls = {"": new(), **{name: new() for name in probed}}
        opened = {name: stack.enter_context(AgentMemory(url)) for name, url in urls.items()}
        rate = feed(opened[""], batches(language, names, each))
        for name in probed:
            feed(opened[name], batches(language, [name], each))
        for url in urls.values():
            settle(url)
        finds = {
            "alone in a database": lambda name, question: ours(opened[name])(name, question),
            f"among {namespaces:,} namespaces": ours(opened[""]),
        }
        by_hand = tsvector_by_hand if engine == "postgres" else fts5_by_hand
        finds["by hand, among as many"] = by_hand(stack, new(), batches(language, names, each))
        about = f"{NAMES[engine]}, {namespaces:,} namespaces of {each:,} messages ({rate:,.0f} stored a second)"
        kinds = {kind: list(zip(itertools.cycle(probed), asked)) for kind, asked in _kinds(language).items()}
        table(about, finds, kinds)


def _kinds(language: Language) -> dict[str, list[str]]:
    return {
        "with a rare word": language.rare_questions(QUESTIONS),
        "common words": language.common_questions(QUESTIONS),
    }


def main() -> None:
    options = given_options(
        __doc__, "postgres full", only=("all", "small", "many", "large"), namespaces=200, each=500, large=100_000
    )
    engine = "postgres" if options.postgres else "sqlite"
    namespaces, each, large = options.namespaces, options.each, options.large
    if options.full:
        namespaces, each, large = 1_000, 1_000, 1_000_000
    language = Language()
    if options.only in ("all", "small"):
        small_or_large(engine, language, 10_000, _kinds(language))
    if options.only in ("all", "many"):
        many(engine, language, namespaces, each)
    if options.only in ("all", "large"):
        small_or_large(engine, language, large, _kinds(language))


if __name__ == "__main__":
    main()
