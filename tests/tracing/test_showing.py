"""Values in traces are converted to readable plain data."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from langchain_agentmem.tracing import summarize_value


@dataclass
class Part:
    when: datetime
    names: tuple[str, ...]


def test_any_value_becomes_readable_json():
    for value, readable in (
        (("acme", "user"), ["acme", "user"]), ({1: {"a"}}, {"1": ["a"]}), (b"1234", "<4 bytes>"),
        (float("nan"), "nan"), ("half \ud800 a pair", "half \\ud800 a pair"), ("ganze Wörter", "ganze Wörter"),
        (Part(datetime(2026, 1, 2, tzinfo=UTC), ("x",)), {"when": "2026-01-02T00:00:00+00:00", "names": ["x"]}),
        (ValueError("bad"), "bad"),
    ):  # fmt: skip
        assert summarize_value(value) == readable
        json.dumps(summarize_value(value), allow_nan=False).encode()
    endless: list[Any] = []
    endless.append(endless)

    assert "…" in json.dumps(summarize_value(endless), ensure_ascii=False)
