"""Redaction of secrets in layered memory, without false positives."""

from __future__ import annotations

import copy
import json
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_agentmem.base.redaction import redact, redact_value
from langchain_agentmem.errors import InvalidInput

S = "Zq7xT2mB9wL4kR8vN3cY"  # 20 letters and digits
HEX = "9f86d081884c7d659a2feaa0c55ad015"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7bq1\nxkZp0aFQ==\n-----END RSA PRIVATE KEY-----"

CASES = json.loads(Path(__file__).with_name("cases.json").read_text("utf-8"))


def expand_placeholders(text):
    """Replace the placeholders of a case, which keep secret scanners from reporting this repository."""
    for name, value in (("{S}", S), ("{HEX}", HEX), ("{JWT}", JWT), ("{PEM}", PEM), ("\u00a6", "")):
        text = text.replace(name, value)
    return text


SECRET = [(expand_placeholders(text), expand_placeholders(secret)) for text, secret in CASES["secret"]]
"""Texts, and the secrets that redaction must remove from them."""
NO_SECRET = [expand_placeholders(text) for text in CASES["no_secret"]]


JSON_PIECES = [
    "password=", "password: ", 'password="', "api_key=abc", "abc", "\\", '"', "'", "\n", " ", "Cookie: a=b", "-u a:b",
    "--token ",
    f"sk-{S}", "Authorization: Bearer ", "https://u:p", "@h", "{", "}", ",", ":", "=", "password is x1", PEM, PEM[:70],
]  # fmt: skip


class TestRedaction:
    def test_secrets_are_redacted_and_other_lines_stay(self):
        for text, secret in SECRET:
            left, amid = redact(text), redact(f"first line\n{text}\nlast line")
            assert secret not in left + amid, text
            assert "***" in left, text
            assert redact(left) == left, text
            assert amid.startswith("first line\n"), text
            assert amid.endswith("\nlast line"), text

    @given(st.lists(st.sampled_from(JSON_PIECES) | st.text(max_size=4)).map("".join))
    def test_redacted_json_stays_valid_json(self, text):
        value = {"context": text, "password": 12345678, "more": {"a": [text, {"api_key": text}]}}
        left = json.loads(redact(json.dumps(value)))
        assert set(left) == {"context", "password", "more"}
        assert left["password"] == "***"


class TestFalsePositives:
    def test_text_without_secrets_is_unchanged(self):
        for text in NO_SECRET:
            assert redact(text) == text
            amid = f"first line\n{text}\nlast line"
            assert redact(amid) == amid

    @given(st.text())
    def test_redaction_is_idempotent(self, text):
        once = redact(text)
        assert redact(once) == once


class TestValues:
    def test_values_are_redacted_by_pattern_and_key_name(self):
        key, schema = f"sk-{S}", {"password": {"type": "string", "description": "The user's password"}}
        for value, left in (
            ({"password": "swordfish", "pin": 1, "max_token": 4096}, {"password": "***", "pin": 1, "max_token": 4096}),
            ({"db": {"DB_PASSWORD": 12345678}, "nextToken": "a"}, {"db": {"DB_PASSWORD": "***"}, "nextToken": "a"}),
            ({"password": ["swordfish", "two"]}, {"password": ["***", "***"]}),
            ({"name": "DB_PASSWORD", "value": "swordfish"}, {"name": "DB_PASSWORD", "value": "***"}),
            ({key: 1, f"{key}9": 2}, {"***": 1, "*** 2": 2}),
            ({f"key {key}": "v", "tags": [f"owner:{key}", "plain"]}, {"key ***": "v", "tags": ["owner:***", "plain"]}),
            (schema, schema),
            ({"a": (key, 1.5), "b": {key}, 3: b"b", "d": True}, {"a": ("***", 1.5), "b": {"***"}, 3: b"b", "d": True}),
        ):
            before = copy.deepcopy(value)
            assert redact_value(value) == left
            assert value == before

    def test_a_self_referencing_value_is_rejected(self):
        value: list = []
        value.append(value)
        with pytest.raises(InvalidInput, match="contains itself"):
            redact_value(value)


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", CASES["openings"])
def test_long_repetitive_text_is_redacted_in_linear_time(piece):
    redact(piece * (100_000 // len(piece)))
    for rest in string.punctuation + "a1 ":
        redact(piece + rest * 10_000)
