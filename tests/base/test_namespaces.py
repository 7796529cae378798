"""Namespaces: paths, ranges, templates, ids and configs."""

import re
import uuid

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from langchain_agentmem.base.namespaces import (
    Scopes,
    check_config,
    check_id,
    format_namespace,
    namespace_of,
    parse_namespace,
    parse_scopes,
    path_of,
    path_range,
)
from langchain_agentmem.errors import InvalidInput, MessageError

pytestmark = pytest.mark.sqlite_suffices

labels = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="".join(map(chr, [*range(32), 127]))),
    min_size=1,
    max_size=6,
) | st.sampled_from(["a", "ab", "a b", "a!", "\x80", "\uffff", "\U0010ffff", "\U0010ffff" * 200])
namespaces = st.lists(labels, max_size=4).map(tuple).filter(lambda ns: sum(len(x.encode()) + 1 for x in ns) <= 1_000)


class TestPaths:
    @given(namespaces)
    def test_paths_round_trip(self, namespace):
        assert namespace_of(path_of(namespace)) == namespace

    @given(namespaces)
    @example(("-a",))  # which comes before "/"
    def test_formatted_namespaces_round_trip(self, namespace):
        assert parse_namespace(format_namespace(namespace)) == namespace

    @given(namespaces, namespaces)
    def test_different_namespaces_have_different_paths(self, one, other):
        assert (path_of(one) == path_of(other)) == (one == other)

    @given(namespaces, namespaces)
    def test_range_holds_exactly_the_namespaces_below(self, prefix, other):
        low, high = path_range(prefix)
        for namespace in (other, (prefix + other)[:4]):
            path = path_of(namespace).encode()
            assert (low.encode() <= path < high.encode()) == (namespace[: len(prefix)] == prefix)

    def test_invalid_namespace_is_rejected(self):
        long = [("x" * 201,), ("x" * 200,) * 11]
        for wrong in ("text", ("",), ("a\0",), ("a\x1f",), ("\ud800",), *long, (1,), (None,), None, 5, {"a": 1}, {"a"}):
            with pytest.raises(InvalidInput, match="namespace"):
                pytest.fail(f"{wrong!r} gave {path_of(wrong)!r}")
        assert path_of(["a", "b"]) == path_of(("a", "b"))

    def test_string_error_suggests_a_tuple(self):
        for written, meant in (("alice", "('alice',)"), ("users/ada", "('users', 'ada')"), ("/", "('/',)")):
            with pytest.raises(InvalidInput, match=re.escape(f"write {meant} instead")):
                path_of(written)

    def test_longest_namespace_has_2000_bytes(self):
        longest = ("x" * 200,) * 9 + ("x" * 190,)
        assert len(path_of(longest)) == 2_000
        with pytest.raises(InvalidInput, match="has 2001"):
            path_of((*longest[:-1], "x" * 191))


def test_keys_match_namespaces_of_template_length():
    scopes = parse_scopes(("users", "{user_id}"))
    assert scopes.keys_of(path_of(("users", "ada"))) == {"user_id": "ada"}
    assert scopes.keys_of(path_of(("users",))) == scopes.keys_of(path_of(("users", "ada", "notes"))) == {}


def test_ids_are_normalized_and_invalid_ones_rejected():
    number = uuid.uuid4()
    for right in (7, number, "x" * 500):
        assert check_id(right, "thread") == str(right)
    for wrong in ("", "a\0", "a\nb", "\ud800", "x" * 501, True, None, 1.5, b"x", ()):
        with pytest.raises(InvalidInput, match="conversation"):
            check_id(wrong, "conversation")
        with pytest.raises(MessageError, match="message"):
            check_id(wrong, "message", MessageError)


def test_config_namespace_defaults_to_the_root():
    assert Scopes().resolve(None, {"configurable": {"agentmem_namespace": ["a", "b"]}}) == ("a", "b")
    for config in (None, {}, {"configurable": None}, {"configurable": {}}):
        assert Scopes().resolve((), config) == ()
    with pytest.raises(InvalidInput):
        Scopes().resolve(None, {"configurable": {"agentmem_namespace": "alice"}})
    of_a_class = {type("Key", (str,), {})("configurable"): {"thread_id": "t"}}
    assert check_config(of_a_class) is of_a_class
