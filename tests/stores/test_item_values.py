"""Encoding of item values and their indexed text."""

from datetime import UTC, date, datetime
from decimal import Decimal
from types import MappingProxyType
from uuid import UUID

import pytest

from langchain_agentmem.base.encoding import json_value
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput
from langchain_agentmem.stores.item_rows import (
    check_key,
    decode_value,
    encode_texts,
    encode_value,
    full_text,
    indexed_text,
)

RICH = {
    "text": "Bücher \ud800 \0",
    "big": 2**80,
    "float": float("inf"),
    "pair": (1, 2),
    "set": {3},
    "bytes": b"\0\xff",
    "at": datetime(2026, 5, 1, 12, 30, 0, 7, tzinfo=UTC),
    "id": UUID(int=7),
    "money": Decimal("1.10"),
    3: "a number as a key",
}


class TestEncoding:
    def test_values_round_trip_through_encoding(self):
        assert decode_value(encode_value(RICH), "", "k") == RICH
        assert list(decode_value(encode_value({"b": 1, "a": 2}), "", "k")) == ["b", "a"]

    def test_any_mapping_can_be_encoded(self):
        assert decode_value(encode_value(MappingProxyType({"a": 1})), "", "k") == {"a": 1}

    def test_unsupported_values_are_rejected(self):
        refused = [(value, "must be a dictionary") for value in ([1], "text", 3, None)]
        refused += [({"x": x}, r"x.*cannot be stored as JSON") for x in (object(), [lambda: 0], Exception("no"))]
        for value, says in refused:
            with pytest.raises(InvalidInput, match=says):
                encode_value(value)

    def test_damaged_value_error_names_the_item(self):
        for data in (b"", b"{", b"[1]", b"\xff", b'{"$agentmem": "new"}'):
            with pytest.raises(DatabaseUnreadable, match=r"'k' in \('a',\)"):
                decode_value(data, "a\x1f", "k")

    def test_keys_accept_text_and_reject_invalid_values(self):
        for key in ("k", "a.b", "line\nbreak", "日本" * 300, "%_*", " "):
            assert check_key(key) == key
        for wrong in ("", "a\0b", "\ud800", "日" * 700, 7, None, b"k"):
            with pytest.raises(InvalidInput, match="key of an item"):
                check_key(wrong)


class TestIndexedText:
    def test_full_text_contains_values_without_keys(self):
        value = {"name": "Ana", "more": [1, 2.5, True, None, {"city": "Lisbon"}], "when": date(2026, 5, 1), "raw": b"x"}
        assert full_text(value).split("\n") == ["Ana", "1", "2.5", "Lisbon", "2026-05-01"]

    def test_json_value_formats_other_types_readably(self):
        view = json_value(RICH)
        assert view["at"] == "2026-05-01T12:30:00.000007+00:00"
        assert view["pair"] == [1, 2]
        assert view["money"] == "1.10"
        assert view["bytes"] is None

    def test_indexed_text_is_derived_from_stored_bytes(self):
        stored = encode_value(RICH)
        assert indexed_text(stored, encode_texts(None)) == full_text(decode_value(stored, "", "k"))
        assert set(indexed_text(stored, None).split("\n")) == set(full_text(RICH).split("\n"))
        assert full_text({"set": {"c", "a", "b"}}) == "a\nb\nc"
        assert indexed_text(None, encode_texts(("one", "two"))) == "one\ntwo"

    def test_damaged_value_has_no_indexed_text(self):
        assert indexed_text(b"{", None) == ""
        assert indexed_text(b"[]", None) == ""
