"""No async method queries the database on the thread of the event loop."""

import asyncio
import inspect
from random import Random

import pytest

from langchain_agentmem.storage.sqlite import SqliteEngine
from tests.fuzz import __main__ as fuzz
from tests.fuzz.surface import methods_of, parts_of
from tests.fuzz.values import Values

pytestmark = pytest.mark.sqlite_suffices


def on_a_loop():
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def test_awaited_methods_keep_database_off_the_loop(memory, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiences").mkdir()
    monkeypatch.setattr(fuzz, "PATIENCE", 3_600)  # however busy the machine is
    fuzzer, values, asked = fuzz.Fuzzer(7, None, tmp_path), Values(Random(7), tmp_path), {}
    values.wrong = {"no such argument": None}  # so that all others are ordinary
    read, write = SqliteEngine.read, SqliteEngine.write

    def noting(run):
        def call(engine, do):
            asked.setdefault(name, []).append(on_a_loop())
            return run(engine, do)

        return call

    name = "opening"
    monkeypatch.setattr(SqliteEngine, "read", noting(read))
    monkeypatch.setattr(SqliteEngine, "write", noting(write))
    for part in parts_of(memory, tmp_path):
        for method in methods_of(part):
            if inspect.iscoroutinefunction(method.call):
                name = f"{type(part).__name__}.{method.name}"
                for _ in range(3):
                    fuzzer._guarded(name, lambda method=method: fuzzer._call(method, values), method)
    fuzzer.runner.close()
    asked.pop("opening", None)  # a background thread may read before the first method
    assert len(asked) > 100
    assert [name for name, places in asked.items() if any(places)] == []
    assert not fuzzer.failures, "\n".join(fuzzer.failures.values())
