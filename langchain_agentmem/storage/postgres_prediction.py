"""The statements of an operation whose rows are predicted: one batch, for which a session waits once.

A write usually reads rows whose contents this process knows: what it wrote last. So the operation first runs on a
`PredictedTransaction`, which returns the predicted rows, and collects the queries instead of sending them. The server
then runs them as one batch with a commit, which also checks the predictions. If one is wrong, the check divides by
zero, nothing is stored, and the operation runs again on the stored rows.

The first statement of the batch takes the locks, and checks the rows that these return. Only the next statement sees
everything that other transactions committed before. It checks the other predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from langchain_agentmem.storage.queries import load_queries, number_parameters, prefix_parameters
from langchain_agentmem.storage.transaction import Expectation, Prediction, Rows, Transaction

_LOCKS, _ROWS, _COPIES = range(3)
_STAGES = dict.fromkeys(("insert_part", "set_numbers", "insert_value", "insert_checkpoint", "insert_write"), _ROWS)
_STAGES |= {"lock_store": _LOCKS, "lock_thread": _LOCKS, "store_content": _LOCKS, "copy_parts": _COPIES}
"""The statement of a batch in which a query runs. Parts refer to contents, and copies to parts of earlier statements.

No other write is allowed. A batch is not counted in the table `receipt`: if the answer to its commit is lost, the
operation runs again, and these queries then store the same rows under the same keys."""
_MAX_MERGED = 12
"""The maximum number of queries in a statement, since the server plans each combination of queries."""


class UnpredictableError(Exception):
    """A query whose rows are not predicted, or that cannot be part of a batch."""


class PredictedTransaction(Transaction):
    """A transaction that collects queries, and returns predicted rows.

    Args:
        check_sizes: Raises an error if a query writes a value that is too large.
        prediction: The prediction of the rows.
    """

    __slots__ = ("_check_sizes", "_prediction", "_stages")

    def __init__(self, check_sizes: Callable[[str, dict[str, Any]], None], prediction: Prediction) -> None:
        self._check_sizes, self._prediction = check_sizes, prediction
        self._stages: tuple[list[tuple[str, str, dict[str, Any]]], ...] = ([], [], [])

    def run(self, query: str, parameters: dict[str, Any], *, lazy: bool = False) -> Rows:
        """Add a query to the batch, and return its predicted rows.

        Raises:
            UnpredictableError: The rows are not predicted, or the query cannot be part of a batch.
        """
        del lazy
        self._check_sizes(query, parameters)
        expected = self._prediction.expect(query, parameters)
        if expected is None and query not in _STAGES:
            raise UnpredictableError
        rows, condition, values = expected or Expectation(())
        if expected is None or condition:
            self._stages[_STAGES.get(query, _ROWS)].append((query, condition, {**parameters, **values}))
        return rows

    def run_many(self, query: str, rows: list[dict[str, Any]]) -> None:
        """Add a query to the batch, once for each dictionary of parameters."""
        for parameters in rows:
            self.run(query, parameters)

    def statements(self) -> Iterator[tuple[bytes, list[Any]]]:
        """Yield the statements of the batch, each with the values of its parameters."""
        for stage, entries in enumerate(self._stages):
            step = 1 if stage == _COPIES else _MAX_MERGED  # a copy may read an earlier copy
            for start in range(0, len(entries), step):
                chunk = entries[start : start + step]
                text, names = _merge(tuple((query, condition) for query, condition, _ in chunk))
                yield text, [chunk[index][2][name] for index, name in names]


@cache
def _merge(shape: tuple[tuple[str, str], ...]) -> tuple[bytes, list[tuple[int, str]]]:
    """Return one statement that runs several queries, and fails if a prediction is wrong.

    Args:
        shape: The name of each query, and the condition that a row must meet. The condition of a write is empty.

    Returns:
        The statement, and for each of its parameters the index of the query and the name.
    """
    queries = load_queries("postgres")
    writes: list[str] = []
    checks = ["true"]
    for index, (name, condition) in enumerate(shape):
        sql = queries[name].rstrip("; \n")
        text = f"exists (select from ({sql}) r where {condition})" if condition else f"w{index} as ({sql})"
        (checks if condition else writes).append(prefix_parameters(text, f"q{index}"))
    # The server runs the writes from the last to the first. Contents must be stored in the order of their keys.
    text = f"with {', '.join(reversed(writes))} " if writes else ""
    text, names = number_parameters(f"{text}select 1 / cast({' and '.join(checks)} as integer)", "$")
    numbered_names = [(int(name[1 : name.index("_")]), name[name.index("_") + 1 :]) for name in names]
    return text.encode(), numbered_names
