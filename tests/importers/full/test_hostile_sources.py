"""Any source gives a report or an error of this package; `tests/fuzz` alters sources of each kind."""

from contextlib import suppress

import pytest

from langchain_agentmem import InvalidInput
from langchain_agentmem.importers.import_runner import READERS

pytestmark = pytest.mark.sqlite_suffices

GARBAGE = (
    b"", bytes(range(256)) * 64, b"SQLite format 3\0" + bytes(100), b"Dear diary,\n", b"[" * 20_000, b"[]", b"{}",
    b'[null, 1, "x", [], {}, {"type": 7}]',
    b'{"results": [1, null, {"memory": 3}], "messages": [1, {}], "rounds": [{"id": {}}]}',
)  # fmt: skip


@pytest.mark.parametrize("kind", READERS)
def test_garbage_is_reported_without_partial_imports(memory, tmp_path, kind):
    for garbage in GARBAGE:
        for ending in (".json", ".yaml", ".db"):
            path = tmp_path / f"source{ending}"
            path.write_bytes(garbage)
            with suppress(InvalidInput):
                assert not memory.import_from(kind, path).added, garbage
    assert memory.admin.verify().ok
    assert memory.admin.stats()["namespaces"] == 0
