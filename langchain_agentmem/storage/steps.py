"""Operations on the database, written once.

An operation is a generator: it yields statements, is sent their rows, and returns a value. It does no I/O
itself, so one body serves SQLite and PostgreSQL, synchronous and asynchronous callers, and tests that have
no database at all. An engine runs the whole generator in one transaction; it is given a *factory* of the
generator, because an operation that lost a race is run again from its first line.

    def rename(branch_id, name):
        rows = yield query.rename_branch(branch=branch_id, name=name)
        return rows[0]["id"]

    engine.write(lambda: rename(7, "main"))
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, TypeAlias, TypeVar

T = TypeVar("T")

Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Sequence[Any]
"""The rows of one statement, each readable as `row["column"]`; empty for a statement that returns none."""


def values_of(row: Any) -> Iterable[Any]:
    """What stands in the columns of a row, in their order: by these a long walk is shorter than by their names."""
    return row.values() if isinstance(row, dict) else row


class Statement(NamedTuple):
    """A named query with its parameters.

    Args:
        query: The name of the query, as in the `.sql` files.
        parameters: Values by name; a list of such mappings runs the query once for each, and returns no rows.
        ahead: Whether its rows are looked at only after the statements that follow it, so that an engine need not
            wait for them before.
    """

    query: str
    parameters: dict[str, Any] | list[dict[str, Any]]
    ahead: bool = False


Steps: TypeAlias = Generator[Statement, Rows, T]
"""An operation: yields statements, is sent their rows, returns a `T`."""

Operation: TypeAlias = Callable[[], Steps[T]]
"""Makes the operation; called once for each attempt."""


class Rehearsed(Exception):
    """An operation has come to its end, and nothing of it is to stay.

    Attributes:
        value: What it returned.
    """

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def rehearsal(make: Operation[Any]) -> Operation[NoReturn]:
    """The operation that does the same, raises `Rehearsed` at its end, and so is taken back as a whole."""

    def steps() -> Steps[NoReturn]:
        raise Rehearsed((yield from make()))

    return steps


def drive(steps: Steps[T], execute: Callable[[Statement], Rows]) -> T:
    """Run an operation to its end.

    Args:
        steps: The operation.
        execute: Runs one statement and gives its rows.

    Returns:
        What the operation returns.
    """
    send = steps.send
    try:
        statement = next(steps)
        while True:
            statement = send(execute(statement))
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]  # StopIteration is not generic
    finally:
        steps.close()
