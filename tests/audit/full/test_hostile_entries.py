"""The audit trail accepts None, bytes, huge text and unusual text by one rule.

None is an empty text; bytes are read as UTF-8; text is kept to the letter. Anything else is refused, and nothing is
written.
"""

import json
import random
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit.audit_trail import AuditTrail
from langchain_agentmem.audit.junk_rules import find_todos, junk_reasons
from langchain_agentmem.errors import InvalidInput

pytestmark = pytest.mark.sqlite_suffices

BINARY = bytes(range(256)) * 20
UNUSUAL_TEXTS = {
    "nul": "a\0b, and c\0",
    "only nul": "\0\0\0",
    "control": "".join(map(chr, range(32))) + "\x7f\x85",
    "half a letter": "left \ud83d and right \udc00 alone",
    "swapped": "\udc00\ud83d, as no letter is",
    "bidirectional": "\u202egnihtemos\u202c \ufeff\u200b",
    "beyond": "\U0010ffff \uffff \ufffe",
    "looks binary": BINARY.decode("latin-1"),
    "JSON": '{"prompt": "\\ud83d", "body": [1, 2]}\\',
    "SQL": "'; drop table audit; -- :kind ? %s %(name)s $1",
    "regular expression": "(a+)+$ [[ \\",
    "compressed": "x\x9c\x03\x00\x00\x00\x00\x01",
    "marks": "[TODO] [SELF-REFLECTION] [REFERENCE] \x1f",
    "one long word": "a" * 100_000,
    "a long line of blanks": " " * 100_000,
    "many lines": "\r\n\v\f\u2028" * 20_000,
    "letters on letters": "e" + "\u0301" * 10_000,
}


def check_usable(trail):
    """Nothing is wrong with the trail, and it can be used."""
    entry = trail.add("Where is Zarathustra?", "At home.")
    assert [each.value for each in trail.search("Zarathustra", 1)] == [entry]
    assert trail.verify().ok


class TestUnusualTexts:
    def test_unusual_texts_round_trip_in_every_kind(self, trail):
        for name, strange in UNUSUAL_TEXTS.items():
            entry = trail.add(strange, strange)
            assert (entry.prompt, entry.reply) == (strange, strange)
            assert trail.last(1, include_junk=True) == [entry]
            assert trail.get(entry.id) == entry
            for todo in trail.add_todo_from_chat(f"Please fix {strange}"):
                assert trail.get(todo.id) == todo
                assert len(todo.prompt) <= 600
            assert trail.add_todo_from_chat(f"Please fix {strange}") == []
            note = trail.add_self_reflection(strange)
            kept = trail.add_reference(strange, f"About {name}: {strange}")
            assert (note.reply, kept.reply, kept.title) == (strange, strange, f"About {name}: {strange}")
            assert trail.add_reference(strange, kept.title) == kept == trail.get(kept.id)
        check_usable(trail)

    def test_unusual_texts_survive_document_export_and_import(self, memory, trail, tmp_path):
        for strange in UNUSUAL_TEXTS.values():
            trail.add(strange, strange)
        trail.archive(datetime.max)
        trail.export_document(tmp_path / "m.json")
        there = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))["history"]
        assert [each["reply"] for each in there] == list(UNUSUAL_TEXTS.values())
        ann = AuditTrail(memory, ("ann",))
        assert ann.import_document(tmp_path / "m.json").added == len(UNUSUAL_TEXTS)
        assert [(each.prompt, each.reply) for each in ann.entries()] == [
            (each, each) for each in UNUSUAL_TEXTS.values()
        ]
        check_usable(ann)


class TestNonTextValues:
    def test_bytes_are_decoded_and_none_becomes_empty(self, trail):
        for value in (b"At home.", bytearray(b"At home."), memoryview(b"At home."), AIMessage("At home.").text):
            assert trail.add("Where is Ann?", value).reply == "At home."
            assert trail.add_reference(value, "Ann").reply == "At home."
            assert trail.add_self_reflection(value).reply == "At home."
        assert len(trail.add_todo_from_chat(b"Fix the build.")) == 1
        assert [each.value.reply for each in trail.search(b"Ann", 1)] == ["At home."]
        assert trail.search(None) == trail.search("") == []
        assert trail.add_self_reflection(None).reply == ""
        assert trail.add_reference(None, "Nothing").reply == ""
        assert trail.add_reference("x" * 300, "Long").reply == "x" * 300  # no file has such a name
        assert trail.add_todo_from_chat(None) == []

    def test_other_types_are_rejected(self, trail):
        for value in (7, 1.5, True, ["a"], {"a": 1}, object(), AIMessage("a")):
            for call in (
                lambda text: trail.add(text, "x"),
                lambda text: trail.add("x", text),
                trail.add_todo_from_chat,
                trail.add_self_reflection,
                lambda text: trail.add_reference(text, "x"),
            ):
                with pytest.raises(InvalidInput, match=type(value).__name__):
                    call(value)
        assert trail.head().sequence == 0


def incompressible_text(size):
    """Text that no compression makes smaller."""
    return random.Random(7).randbytes(size // 2).hex()


def test_document_with_huge_and_unusual_entries_is_imported(trail, tmp_path):
    path = tmp_path / "m.json"
    odd = [{"prompt": text, "reply": text, "more": float("nan"), "n": 10**50} for text in UNUSUAL_TEXTS.values()]
    odd.append({"prompt": "What is in it?", "reply": incompressible_text(3_000_000), "x": float("inf")})
    path.write_text(json.dumps({"history": odd}))
    done = trail.import_document(path)
    assert (done.added, done.lost) == (len(odd), ())
    assert [each.prompt for each in trail.last(99, include_junk=True)] == [each["prompt"] for each in odd]
    assert trail.import_document(path).added == 0
    check_usable(trail)


@pytest.fixture(scope="module")
def one_trail():
    with AgentMemory(":memory:") as memory:
        yield memory.audit


@given(prompt=st.text() | st.binary() | st.none(), reply=st.text() | st.binary() | st.none())
def test_any_text_round_trips(one_trail, prompt, reply):
    entry = one_trail.add(prompt, reply)
    assert one_trail.last(1, include_junk=True) == [entry]
    for text, kept in ((prompt, entry.prompt), (reply, entry.reply)):
        assert kept == (text if isinstance(text, str) else (text or b"").decode("utf-8", "replace"))


def test_no_text_causes_slow_parsing():
    for piece in ("add ", ".", "`", '"a ', "http://", "should ", "a", "1. ", "- ", "a/", "please ", "a. ", "~~"):
        assert len(find_todos(piece * (100_000 // len(piece)))) < 10, piece
    for piece in ("ok ", " ", "\n", "😀", "test ", "lorem ipsum ", "if you ", "glad ", "sdf", "\u200b", "?", "\x00"):
        for size in (3_900, 300_000):
            text = (piece * (size // len(piece) + 1))[:size]
            for entry in ((text, "ok"), ("ok", text), (text, text), (f"{text}!x", f"{text}!x")):
                assert isinstance(junk_reasons("exchange", *entry), tuple), piece
