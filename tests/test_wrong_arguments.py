"""Every argument of every method raises only errors of this package, and refused calls write nothing."""

import math
from random import Random

import pytest

from tests.fuzz import __main__ as fuzz
from tests.fuzz.surface import learns, parts_of
from tests.fuzz.values import Hostile, Values, deep, endless

WRONG = [Hostile, endless, lambda: deep(list), lambda: b"x", lambda: {"a": [b"x"]}, lambda: "\ud800", lambda: math.nan]


@pytest.mark.sqlite_suffices
@pytest.mark.parametrize("first", range(4))
def test_every_argument_is_validated_before_any_write(memory, tmp_path, monkeypatch, first):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fuzz, "PATIENCE", 3_600)  # however busy the machine is
    (tmp_path / "experiences").mkdir()
    fuzzer, values = fuzz.Fuzzer(7, None, tmp_path), Values(Random(7), tmp_path)
    for part in [each for each in parts_of(memory, tmp_path) if not learns(each)][first::4]:
        fuzzer.sweep_part(part, values, memory, WRONG, awaited=False)
    assert not fuzzer.failures, "\n".join(fuzzer.failures.values())
    assert memory.admin.verify().problems == ()
