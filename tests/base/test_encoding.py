"""The lossless JSON encoding of values."""

import json
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from langchain_agentmem.base.encoding import MAX_DEPTH, TAG, decode, encode, from_plain, is_plain, to_plain, write_plain
from langchain_agentmem.errors import InvalidInput

TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
KEYS = st.one_of(TEXT, st.just(TAG), st.just("value"))
ZONES = st.sampled_from([None, UTC, timezone(timedelta(hours=5, minutes=30)), ZoneInfo("Europe/Paris")])
ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    TEXT,
    st.just(TAG),
    st.binary(max_size=5),
    st.dates(),
    st.datetimes(timezones=ZONES),
    st.times(),
    st.timedeltas(),
    st.uuids(),
    st.decimals(allow_nan=False),
    st.complex_numbers(allow_nan=False),
)
HASHABLE = st.recursive(ATOMS, lambda inner: st.lists(inner, max_size=2).map(tuple), max_leaves=3)
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.sets(HASHABLE, max_size=3),
        st.frozensets(HASHABLE, max_size=3),
        st.dictionaries(KEYS, inner, max_size=3),
        st.dictionaries(HASHABLE, inner, max_size=2),
    ),
    max_leaves=8,
)


def shape(value):
    """A value with its types written out, since 1 == 1.0 == True."""
    name = type(value).__name__
    if isinstance(value, dict):
        return name, sorted(((shape(k), shape(v)) for k, v in value.items()), key=repr)
    if isinstance(value, list | tuple):
        return name, [shape(item) for item in value]
    if isinstance(value, set | frozenset):
        return name, sorted((shape(item) for item in value), key=repr)
    return name, repr(value)


class TestRoundTrips:
    @given(VALUES)
    def test_every_value_survives_with_its_types(self, value):
        assert shape(decode(encode(value))) == shape(value)

    def test_edge_values_survive(self):
        mine = {TAG: "bytes", "value": "aGk="}
        moment = datetime(2025, 10, 26, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Paris"))
        times = [time(1, 2, fold=1), time(3, tzinfo=UTC), time(4, tzinfo=ZoneInfo("Asia/Tokyo"))]
        small = [b"\0\xff", bytearray(b"x"), date(2026, 1, 2), UUID(int=7), Decimal("-0.10"), 1 - 2j, -0.0]
        texts = {text: [text] for text in ("", "\0", "a\0b", "\ud800", "\ud83d\ude00", "😀", "\u2028")}
        for value in (mine, {"a": [mine, {TAG: mine}]}, moment, times, small, texts):
            assert shape(decode(encode(value))) == shape(value)
        nan, up, down = decode(encode([float("nan"), float("inf"), float("-inf")]))
        assert (nan != nan, up, down) == (True, float("inf"), float("-inf"))  # noqa: PLR0124 - that is what NaN means
        assert decode(encode(moment)).fold == 1
        assert decode(encode([10**5000, -(10**5000)])) == [10**5000, -(10**5000)]  # too long for decimal digits
        assert len(decode(encode("\ud83d\ude00"))) == 2

    def test_subclasses_become_their_base_types(self):
        point = namedtuple("point", "x y")  # noqa: PYI024
        number = IntEnum("number", "one")
        value = [point(1, 2), number.one, OrderedDict(a=1), type("Name", (str,), {})("n")]
        assert shape(decode(encode(value))) == shape([(1, 2), 1, {"a": 1}, "n"])


class TestCanonical:
    @given(st.dictionaries(st.text(), st.text() | st.integers() | st.booleans() | st.none()))
    def test_flat_values_encode_as_plain_json(self, value):
        assert write_plain(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    def test_encoding_is_compact_utf_8(self):
        assert write_plain({"a": "\ud800", "b": 1}) == b'{"a":"\xed\xa0\x80","b":1}'
        assert write_plain({"a": 2**70}) == b'{"a":1180591620717411303424}'
        assert encode({"b": "é", "a": [1, 2]}) == '{"a":[1,2],"b":"é"}'.encode()

    def test_key_and_member_order_is_irrelevant(self):
        assert encode({"a": 1, "b": {1, 2, 3}}) == encode({"b": {3, 2, 1}, "a": 1})
        assert encode({2: "b", "x": 0}) == encode({"x": 0, 2: "b"})

    def test_types_are_distinguished(self):
        assert len({encode(value) for value in (1, 1.0, True, "1", b"1", (1,), [1], {1})}) == 8


class TestRefusals:
    def test_object_error_names_place_and_type(self):
        class Row(BaseModel):
            x: int

        with pytest.raises(InvalidInput, match=r"artifact\.rows\[3\]: an object of type .*Row .*model_dump"):
            encode({"artifact": {"rows": [1, 2, 3, Row(x=1)]}})
        with pytest.raises(InvalidInput, match="asdict"):
            encode((1, {"a": dataclass(type("Row", (), {}))()}))

    def test_unserializable_and_cyclic_values_are_rejected(self):
        for value in (object(), Enum("E", "a").a, memoryview(b"x"), print):
            with pytest.raises(InvalidInput, match="cannot be stored as JSON"):
                encode([value])
        loop = []
        loop.append(loop)
        with pytest.raises(InvalidInput, match="refers to itself"):
            encode(loop)

    def test_deep_values_are_kept_up_to_the_limit(self):
        deep = ()
        for _ in range(MAX_DEPTH - 1):
            deep = (deep,)
        assert decode(encode(deep)) == deep
        with pytest.raises(InvalidInput, match="nested"):
            encode([deep])

    def test_damaged_bytes_are_refused(self):
        for data in (
            b"", b"{", b'{"a":1}x', b"\xff", b"NaN", b'{"$agentmem":"bytes","value":"!"}', b'{"$agentmem":"bytes"}',
            b'{"$agentmem":"os.system","value":"x"}', b'{"$agentmem":["list"],"value":"x"}', b"[" * 100_000,
            b'{"$agentmem":"datetime","value":{"iso":5}}', b'{"$agentmem":"set","value":[[1]]}',
        ):  # fmt: skip
            with pytest.raises(InvalidInput):
                pytest.fail(f"{data[:50]!r} gave {decode(data)!r}")

    def test_unknown_time_zone_becomes_its_offset(self):
        data = b'{"$agentmem":"datetime","value":{"fold":0,"iso":"2026-01-02T03:00:00+01:00","zone":"No/Where"}}'
        assert decode(data) == datetime(2026, 1, 2, 2, tzinfo=UTC)


@given(VALUES)
def test_plain_values_survive_plain_json(value):
    assert shape(from_plain(json.loads(json.dumps(to_plain(value))))) == shape(value)
    if is_plain(value):
        assert shape(json.loads(json.dumps(value))) == shape(value)
    else:
        assert to_plain(value) != value or not isinstance(value, dict | list)
