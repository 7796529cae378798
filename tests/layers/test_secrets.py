"""What is secret does not enter layered memory, and what only looks so stays as it was."""

from __future__ import annotations

import json
import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_agentmem.base.redaction import DEFAULT, SecretPattern, patterns_with, redact, redact_value
from langchain_agentmem.errors import InvalidInput

S = "Zq7xT2mB9wL4kR8vN3cY"  # 20 letters and digits
HEX = "9f86d081884c7d659a2feaa0c55ad015"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7bq1\nxkZp0aFQ==\n-----END RSA PRIVATE KEY-----"

# A text, and what must not be left of it.
SECRET = [
    (f"api_key={S}", S),
    ("api_key=abc", "abc"),
    (f"API_KEY: {S}", S),
    (f"OPENAI_API_KEY={S}", S),
    (f"export OPENAI_API_KEY='{S}'", S),
    (f"api-key: {S}", S),
    (f"api key: {S}", S),
    (f"apiKey = {S}", S),
    (f'"apiKey": "{S}"', S),
    (f"const openaiApiKey = `{S}`;", S),
    (f"x-api-key: {S}", S),
    (f'curl -H "X-Api-Key: {S}" https://api.example.org/v1', S),
    ('"password": "x"', '"x"'),
    ('{"user": "maya", "password": "hunter2"}', "hunter2"),
    ("{'password': 'hunter2'}", "hunter2"),
    (json.dumps(json.dumps({"password": "hunter2"})), "hunter2"),
    (json.dumps(json.dumps({"password": 'hun"ter"2'})), "ter"),
    (json.dumps({"password": 'hun"ter"2'}), "ter"),
    ("password: hunter2", "hunter2"),
    ("Password: hunter2, and the user is maya", "hunter2"),
    ("  - password: hunter2", "hunter2"),
    ("password: swordfish", "swordfish"),
    ("passwd = swordfish", "swordfish"),
    ("db_password=a,b;c&d)e", "b;c&d)e"),
    ("DB_PASS=swordfish", "swordfish"),
    ("PGPASSWORD=swordfish psql -h localhost", "swordfish"),
    ("pwd=swordfish", "swordfish"),
    ('passphrase: "correct horse battery staple"', "battery"),
    ("password=123456", "123456"),
    ("config['password'] = 'swordfish'", "swordfish"),
    ("'password' => 'swordfish',", "swordfish"),
    ('password: str = "swordfish"', "swordfish"),
    ('password = SecretStr("swordfish")', "swordfish"),
    ('password = """swordfish"""', "swordfish"),
    ("login(user='maya', password='swordfish')", "swordfish"),
    ("--password swordfish", "swordfish"),
    ("tool --api-key=abc --verbose", "abc"),
    (f"tool --token {S} run", S),
    ("the password is hunter2.", "hunter2"),
    ("My api key is 'swordfish'", "swordfish"),
    ("client_secret: swordfish", "swordfish"),
    ("CLIENT_SECRET=swordfish", "swordfish"),
    ("secret=swordfish", "swordfish"),
    (f"secret: {S}", S),
    ('"secret": "swordfish"', "swordfish"),
    (f"token: {S}", S),
    ("token=abc123", "abc123"),
    (f'"token": "{S}"', S),
    ("access_token=swordfish", "swordfish"),
    (f'"refreshToken": "{S}"', S),
    ("https://api.example.org/v1?access_token=swordfish&page=2", "swordfish"),
    (f"https://api.example.org/v1?page=2&token={S}", S),
    (f"aws_secret_access_key = {S}{S}", S),
    ("AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
    ("id AKIAIOSFODNN7EXAMPLE, region eu", "AKIAIOSFODNN7EXAMPLE"),
    (f"DefaultEndpointsProtocol=https;AccountName=me;AccountKey={S}==;EndpointSuffix=x", S),
    ("sk-abcdefghijklmnopqrst", "abcdefghijklmnopqrst"),
    (f"use sk-{S}, please", S),
    (f"sk-proj-{S}_{S}-{S}", S),
    ("sk-proj-abcdefghijklmnop", "abcdefghijklmnop"),
    (f"sk-ant-api03-{S}-{S}AA", S),
    (f"sk-or-v1-{HEX}", HEX),
    (f"key=sk-{S}", S),
    (f"hf_{S}", S),
    ("hf_AbCdEfGhIj", "hf_AbCdEfGhIj"),
    (f"(ghp_{S}{S[:16]})", S),
    (f"github_pat_11ABC_{S}", S),
    (f"git clone https://ghp_{S}{S[:16]}@github.com/x/y", S),
    (f"glpat-{S}", S),
    ("xoxb-" + "123456789012-abcdefghij", "123456789012"),
    (f"AIza{S}{S[:15]}", S),
    ("sk_live_" + S, S),
    (f"gsk_{S}", S),
    ("https://hooks.slack.com/services/" + "T00000000/B00000000/XXXXabcd", "XXXXabcd"),
    (f"Authorization: Bearer {S}", S),
    ("Authorization: Bearer abc", "abc"),
    ('{"Authorization": "Bearer abcdef"}', "abcdef"),
    ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    (f"authorization: token {S}", S),
    (f"bearer {S}", S),
    ("Cookie: sessionid=swordfish; theme=dark", "swordfish"),
    ("postgresql://maya:swordfish@db.example.org/x", "swordfish"),
    ("postgresql://maya:sword@fish@db.example.org/x", "fish"),
    ("redis://:swordfish@localhost:6379/0", "swordfish"),
    ("https://maya:swordfish@example.org", "swordfish"),
    ("postgresql://u:p@h", ":p@"),
    ("curl -u maya:swordfish https://example.org", "swordfish"),
    (JWT, "eyJzdWIi"),
    (f"the header was {JWT}.", "dozjgNry"),
    (PEM, "MIIEp"),
    (PEM.replace("\n", "\\n"), "MIIEp"),
    (PEM[:60] + "MIIEpAIBAAKCAQEA7bq1", "MIIEp"),
    ("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQVYBF\n-----END PGP PRIVATE KEY BLOCK-----", "lQVYBF"),
    ("123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1", "AAHdq"),
    ("django SECRET_KEY = 'django-insecure-#x'", "insecure"),
    ("wifi password: kräuter7", "kräuter7"),
    ("パスワード password=ひみつ鍵", "ひみつ鍵"),
    (json.dumps({"text": "password=swordfish"}), "swordfish"),
    (json.dumps({"text": "he said password: hunter2"}), "hunter2"),
    ("note: 'the api_key=abc is old'", "abc"),
    ("password='a\"b'", 'a"b'),
]

NO_SECRET = [
    "max_token: 4096",
    "max_tokens=4096",
    "max_token=4096",
    '"max_token": 4096',
    '"max_token": "4096"',
    "token_count = 12",
    "tokens: 300",
    "total_token: 12k",
    "token: 4096",
    "tokens per second: 12.5",
    "cost_per_token=0.0002",
    "time to first token: 0.35s",
    'eos_token: "</s>"',
    "tokenizer.pad_token = tokenizer.eos_token",
    'pad_token="[PAD]"',
    "token: str",
    "token: str | None = None",
    "def login(user: str, password: str) -> None:",
    "password: Optional[str] = None",
    "password = None",
    "password=None, token=None",
    "password = get_password()",
    'password = os.environ["DB_PASSWORD"]',
    'api_key=os.getenv("OPENAI_API_KEY")',
    "api_key=settings.openai_api_key",
    "api_key = self._key(name)",
    "password == other.password",
    "if token != expected:",
    "api_key=<your key>",
    "api_key=YOUR_API_KEY",
    "api_key: your-api-key-here",
    "api_key=${OPENAI_API_KEY}",
    "password: $DB_PASSWORD",
    "password={{ vault.password }}",
    "password: ***",
    "api_key=...",
    "password: ''",
    'password: ""',
    "the secret: be kind",
    "The secret: patience.",
    "Secret: practice makes perfect",
    "the secret is out",
    "The secret of the sauce: butter",
    '"secret": "be kind to all"',
    "Password: required",
    "password: must have at least 12 characters",
    "The password is too short",
    "the password is 8 characters long",
    "passwords: 3",
    "password_length = 12",
    "password_min_length: 12",
    "secret_name: prod/db",
    "API key: needed for the search",
    "Access token: expires after one hour",
    "token: a word or a part of one",
    "primary_key: user_id",
    "foreign key: conversation_id",
    "public_key: abcdef123",
    "keyboard: mechanical87",
    "author: Maya7",
    "the basic understanding of bearer bonds",
    "Basic programming1 is fun",
    "Bearer authentication is used",
    "scikit-learn and sk-learn-based-pipelines-for-all",
    "hf_transformers is a package",
    "from hf_hub_download import x",
    "risk-assessment-of-the-second-quarter-of-2026",
    "task-1234567890123456789",
    "https://example.org:8080/a@b",
    "http://localhost:8000/users/maya@example.org",
    "see https://example.org/a:b and mail maya@example.org",
    "docker run -u 1000:1000 image",
    "at 12:30 we met; ratio 3:2",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    "id: 018f4e1c-7a3b-7c4d-9e2f-1a2b3c4d5e6f",
    "-----BEGIN CERTIFICATE-----\nMIIEpAIBAAKCAQEA7bq1\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIEpAIBAAKCAQEA7bq1\n-----END PUBLIC KEY-----",
    "A file that starts with -----BEGIN PRIVATE KEY----- is a key.",
    "next_token=abc123",
    'eos_token: "endoftext1"',
    "has_password=maybe1, is_secret=_is_named_so",
    "ssh_key_path=/home/maya/.ssh/id_ed25519",
    "private_key: ./certs/server.pem",
    "PWD=/home/maya/project",
    "3 pass: 12, fail: 0",
    "Maya's token of love: a ring",
    "Cookie: a small file that a browser keeps",
    "RESOURCE_USED resource_id:document:api_notes:local:notes:a.md",
    "",
]


JSON_PIECES = [
    "password=", "password: ", 'password="', "api_key=abc", "abc", "\\", '"', "'", "\n", " ", "Cookie: a=b", "-u a:b",
    "--token ",
    f"sk-{S}", "Authorization: Bearer ", "https://u:p", "@h", "{", "}", ",", ":", "=", "password is x1", PEM, PEM[:70],
]  # fmt: skip


class TestASecret:
    @pytest.mark.parametrize(("text", "secret"), SECRET)
    def test_is_taken_out(self, text, secret):
        assert secret in text
        left = redact(text)
        assert secret not in left
        assert "***" in left

    @pytest.mark.parametrize("text", [text for text, _ in SECRET])
    def test_is_taken_out_once(self, text):
        assert redact(redact(text)) == redact(text)

    @pytest.mark.parametrize(("text", "secret"), SECRET)
    def test_is_taken_out_amid_other_lines_which_stay(self, text, secret):
        left = redact(f"first line\n{text}\nlast line")
        assert secret not in left
        assert left.startswith("first line\n")
        assert left.endswith("\nlast line")

    def test_leaves_what_stands_around_it(self):
        text = 'Use {"user": "maya", "password": "x", "port": 5432} and OPENAI_API_KEY=abc for https://u:p@h/x?a=1.'
        assert redact(text) == (
            'Use {"user": "maya", "password": "***", "port": 5432} and OPENAI_API_KEY=*** for https://u:***@h/x?a=1.'
        )

    def test_leaves_json_that_can_be_read(self):
        value = {"a": {"password": 'x"y', "token": S}, "text": f"sk-{S}"}
        assert json.loads(redact(json.dumps(value))) == {"a": {"password": "***", "token": "***"}, "text": "***"}

    @given(st.lists(st.sampled_from(JSON_PIECES) | st.text(max_size=4)).map("".join))
    @settings(max_examples=500)
    def test_leaves_json_that_can_be_read_whatever_is_in_it(self, text):
        value = {"context": text, "password": 12345678, "more": {"a": [text, {"api_key": text}]}}
        left = json.loads(redact(json.dumps(value)))
        assert set(left) == {"context", "password", "more"}
        assert left["password"] == "***"

    def test_is_found_in_json_where_a_line_begins_with_it(self):
        for text in (f"a\nsk-{S}", f"a\napi_key={S}", f"a\n\tpassword: {S}"):
            assert S not in redact(json.dumps({"text": text}))


class TestNoSecret:
    @pytest.mark.parametrize("text", NO_SECRET)
    def test_stays_as_it_was(self, text):
        assert redact(text) == text

    @pytest.mark.parametrize("text", NO_SECRET)
    def test_stays_as_it_was_amid_other_lines(self, text):
        amid = f"first line\n{text}\nlast line"
        assert redact(amid) == amid

    @given(st.text())
    @settings(max_examples=300)
    def test_any_text_is_taken_and_what_is_redacted_stays_so(self, text):
        once = redact(text)
        assert redact(once) == once


class TestA15:
    """The original made `max_token=***` of a number, and left `"password": "x"`, `sk-proj-…`, keys and tags."""

    def test_a_number_of_tokens_stays(self):
        assert redact("max_token: 4096") == "max_token: 4096"

    def test_a_password_in_json_goes(self):
        assert redact('"password": "x"') == '"password": "***"'

    def test_a_key_of_a_project_goes(self):
        assert redact("sk-proj-abc123def456ghi789") == "***"

    def test_keys_and_tags_are_redacted_too(self):
        value = {f"key sk-{S}": "v", "tags": [f"owner:sk-{S}", "plain"]}
        assert redact_value(value) == {"key ***": "v", "tags": ["owner:***", "plain"]}


class TestValues:
    def test_what_is_named_as_a_secret_is_taken_out_whatever_it_looks_like(self):
        value = {"password": "swordfish", "pin": 1, "db": {"DB_PASSWORD": 12345678, "max_token": 4096}}
        assert redact_value(value) == {"password": "***", "pin": 1, "db": {"DB_PASSWORD": "***", "max_token": 4096}}

    def test_a_list_of_them_is(self):
        assert redact_value({"password": ["swordfish", "two"]}) == {"password": ["***", "***"]}

    def test_a_named_pair_is(self):
        assert redact_value({"name": "DB_PASSWORD", "value": "swordfish"}) == {"name": "DB_PASSWORD", "value": "***"}

    def test_a_schema_is_none(self):
        schema = {"password": {"type": "string", "minLength": 8, "description": "The user's password"}}
        assert redact_value(schema) == schema

    def test_the_types_of_containers_and_of_other_values_stay(self):
        value = {"a": (f"sk-{S}", 1.5), "b": {f"sk-{S}"}, 3: None, "c": b"bytes", "d": True}
        assert redact_value(value) == {"a": ("***", 1.5), "b": {"***"}, 3: None, "c": b"bytes", "d": True}

    def test_what_is_given_is_not_changed(self):
        value = {"password": ["swordfish"]}
        redact_value(value)
        assert value == {"password": ["swordfish"]}

    def test_two_keys_that_become_one_both_stay(self):
        assert redact_value({f"sk-{S}": 1, f"sk-{S}9": 2}) == {"***": 1, "*** 2": 2}

    def test_one_that_contains_itself_is_refused(self):
        value: list = []
        value.append(value)
        with pytest.raises(InvalidInput, match="contains itself"):
            redact_value(value)


class TestPatternsOfTheUser:
    def test_are_added_to_ours(self):
        patterns = patterns_with([r"\bBADGE-\d{6}\b", re.compile(r"room (?P<secret>\d+)")])
        assert redact(f"BADGE-123456 in room 42, sk-{S}", patterns) == "*** in room ***, ***"
        assert redact_value(["BADGE-123456"], patterns) == ["***"]

    def test_can_decide(self):
        even = SecretPattern(name="even", regex=r"\d+", is_secret=lambda match: int(match.group()) % 2 == 0)
        assert redact("1 2 3 4", [even]) == "1 *** 3 ***"

    def test_take_the_place_of_ours(self):
        assert redact(f"sk-{S} password=x1", ()) == f"sk-{S} password=x1"
        assert redact_value({"password": "x"}, ()) == {"password": "x"}

    @pytest.mark.parametrize("regex", ["(", "x*", "", 3, None, b"bytes"])
    def test_that_cannot_work_are_refused(self, regex):
        with pytest.raises(InvalidInput, match="pattern"):
            SecretPattern(name="odd", regex=regex)

    @pytest.mark.parametrize("extra", ["abc", 3, SecretPattern(name="a", regex="b")])
    def test_are_a_list(self, extra):
        with pytest.raises(InvalidInput, match="a list"):
            patterns_with(extra)


PIECES = [
    "password=", 'password="', "password='", "password: ", '\\"password\\": \\"', "password=`", "a", "-a", "--a", ".a",
    "a://", "a://:", "a://:a", "https://a:a", "@", "eyJ", "eyJaaaaa.", "-eyJ", "sk-", "sk-a-", "hf_", "ghp_", "bearer ",
    "basic ", "authorization: ", "cookie:", "cookie:a", "-u a", "--user a:", "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN ", "A", "=", "\\", '"', "'", "`", "_", "<", "password: str[", "api ", "api_key=\\\\", "password is ",
    "password is a1", "1", "12345678:", "secret_", " ", "\n", "\t", "--password ", "key:", "a_token:", "xox", "SG.a",
    "https://hooks.slack.com/services/", "%", "*", "é", "\x00", "\ud800",
]  # fmt: skip


LENGTH = 100_000


class TestTime:
    """A quadratic pattern would take minutes for texts as long as these."""

    @pytest.mark.timeout(60)
    @pytest.mark.parametrize("piece", PIECES)
    def test_one_piece_over_and_over_is_read(self, piece):
        text = piece * (LENGTH // len(piece))
        assert isinstance(redact(text), str)

    @pytest.mark.timeout(60)
    @pytest.mark.parametrize("piece", PIECES)
    def test_what_begins_like_a_secret_and_goes_on_is_read(self, piece):
        for rest in string.punctuation + "a1 ":
            text = piece + rest * 10_000
            assert isinstance(redact(text), str)
        assert isinstance(redact(piece + "a" * LENGTH), str)

    def test_every_pattern_of_ours_has_a_name(self):
        assert len({pattern.name for pattern in DEFAULT}) == len(DEFAULT)
