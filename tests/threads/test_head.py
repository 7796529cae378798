"""Version numbers and their short form, and packing of checkpoint heads."""

import json
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.threads.checkpoint_log import next_version, pack_header, short_versions, unpack_header

OURS = st.builds(
    lambda number, rest: f"{number:032}.{rest}", st.integers(0, 10**7), st.from_regex(r"[\w-]{8}", fullmatch=True)
)
UNUSUAL = st.sampled_from(
    [0, 1, 7, 1.5, "7", "1.x", "", "=", "=1", ".", "a.b", f"{3:032}", f"{3:031}.x", f"{3:032}.", "\u0663" * 32 + ".x"]
)
STOCK = st.builds(lambda number, rest: f"{number:032}.{rest:016}", st.integers(0, 10**6), st.floats(0, 1))
VERSIONS = OURS | STOCK | UNUSUAL | st.text(max_size=40) | st.integers(0, 2**53) | st.floats(0, 1e9)


class TestNextVersion:
    @given(VERSIONS.filter(lambda version: re.match(r"\d+(\.|$)", str(version), re.ASCII)))
    def test_next_version_is_greater(self, version):
        number = version.split(".")[0] if isinstance(version, str) else str(int(version))
        assume(not isinstance(version, str) or len(str(int(number) + 2)) <= len(number))
        following = next_version(version)
        assert int(following.split(".")[0]) == int(number) + 1
        assert next_version(following) > following
        assert type(version) is not str or following > version

    def test_next_version_rejects_non_numeric_versions(self):
        for version in ("", "v1", "9", "99.x", ".1", "\u0663", "-1", "=1"):
            with pytest.raises(InvalidInput, match="No version can follow"):
                pytest.fail(f"{next_version(version)} follows {version!r}")

    def test_next_version_is_compatible_with_stock_savers(self):
        for version in (None, 1, 1.0, f"{1:032}.0.25"):
            following = next_version(version)
            assert re.fullmatch(r"\d{32}\.[\w-]{8}", following), version
            assert InMemorySaver().get_next_version(following, None) > following, version
        assert next_version(None).startswith(f"{1:032}.")


TIMES = (
    "2026-01-01T00:00:00+00:00",
    "2026-11-27T07:56:17.516642+00:00",
    "2026-11-27T07:56:17.5+00:00",
    "2026-11-27T07:56:17.516642",
    "2026-11-27T09:56:17.516642+02:00",
    "then",
    "",
    5,
    None,
)
CHANNELS = st.dictionaries(st.text(max_size=4), VERSIONS, max_size=4)
SEEN = st.dictionaries(st.text(max_size=4), CHANNELS, max_size=3)


@st.composite
def checkpoints(draw):
    versions = draw(CHANNELS)
    seen = draw(SEEN)
    for name in draw(st.sets(st.text(max_size=4), max_size=3)):  # what nodes have seen is mostly what there is
        seen[name] = dict(draw(st.lists(st.sampled_from(list(versions.items())), max_size=3))) if versions else {}
    checkpoint = {
        "v": draw(st.sampled_from([1, 2, 3, 4])),
        "id": draw(st.text(min_size=1, max_size=4)),
        "ts": draw(st.sampled_from(TIMES)),
        "channel_values": {name: name for name in versions},
        "channel_versions": versions,
        "versions_seen": seen,
        "updated_channels": draw(
            st.none() | st.lists(st.text(max_size=4) | st.sampled_from([*versions, "a"]), max_size=3)
        ),
    }
    return checkpoint | draw(st.dictionaries(st.sampled_from(["new", "newer"]), st.integers(-9, 9), max_size=2))


def unpacked(checkpoint):
    versions, serde = short_versions(checkpoint), JsonPlusSerializer(allowed_msgpack_modules=None)
    stored = serde.loads_typed(serde.dumps_typed(pack_header(checkpoint, versions)))
    return unpack_header(stored, json.loads(json.dumps(versions)), checkpoint["id"], checkpoint["channel_values"])


class TestHead:
    @pytest.mark.slow
    @given(checkpoints())
    def test_unpacking_restores_the_packed_checkpoint(self, checkpoint):
        again = unpacked(checkpoint)
        assert again == checkpoint
        assert repr(again["channel_versions"]) == repr(checkpoint["channel_versions"])  # which shows types and order
        for node, seen in checkpoint["versions_seen"].items():
            assert list(again["versions_seen"][node]) == list(seen)

    def test_old_and_unknown_checkpoint_fields_are_kept(self):
        old = {"v": 1, "id": "x", "ts": "then", "channel_values": {}, "channel_versions": {"a": 1}, "versions_seen": {}}
        none = {"updated_channels": None}
        for more in ({}, {"pending_sends": [1, 2]}, {"pending_sends": []}, {"v": 5, "surprise": {"a": [1]}}):
            assert unpacked(old | more) == old | none | more, more
        new = old | {"v": 5, "updated_channels": ["a"], "surprise": {"a": [1]}}
        assert unpacked(new) == new

    def test_packed_versions_are_written_once(self):
        versions = {f"channel {n}": next_version(None) for n in range(20)}
        checkpoint = {"v": 4, "id": "x", "ts": "", "channel_values": {}, "channel_versions": versions}
        checkpoint["versions_seen"] = {f"node {n}": dict(versions) for n in range(3)}
        packed = pack_header(checkpoint, short_versions(checkpoint))
        assert json.dumps(packed).count(".") == 0
        assert all(seen == [place for each in range(20) for place in (each, each)] for seen in packed[2].values())
