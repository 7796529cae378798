"""Verification reports every entry that was changed, removed, moved or added outside the trail."""

import re
from hashlib import blake2b

import pytest

from langchain_agentmem.audit import audit_entry, audit_rows, audit_store
from langchain_agentmem.audit.audit_entry import ChainHead
from langchain_agentmem.base.namespaces import path_range
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput
from langchain_agentmem.storage import queries
from langchain_agentmem.threads.value_store import LIST, pack

from .entries import add, call, entry, hide, read, todo, write

EVERYWHERE = path_range(())
CHANGED = "update content set body = :body where id in (select content_id from part where number = {})"


def packed_ranges(*ranges):
    """A recipe of a list, as it is stored."""
    return pack([LIST, *ranges])


@pytest.fixture(params=["waiting", "settled"])
def filled(memory, request):
    """Seven entries, of which the last two are model calls; they wait for the indexes, or are in them as most are."""
    add(
        memory,
        entry("first", "one", conversation_id="c"),
        entry("second", "two", conversation_id="c"),
        todo("third"),
        entry("fourth", "four", conversation_id="d", thread_id="t"),
        entry("fifth", "five"),
        call(["hello"], "hi", conversation_id="c"),
        call(["hello", "hi", "more"], "less", conversation_id="c"),
    )
    if request.param == "settled":
        write(memory, audit_store.settle)
    return memory


def problems(memory, since=None):
    return list(read(memory, audit_store.verify, since).problems)


class TestIntactChain:
    def test_used_trail_verifies(self, filled):
        ids = {each.prompt: each.id for each in read(filled, audit_store.load_last, "", 9)}
        assert hide(filled, "second", "rule") == 1
        write(filled, audit_store.set_status, "", ids["[TODO] third"], "done")
        write(filled, audit_store.archive, *EVERYWHERE, 2**62)
        report = read(filled, audit_store.verify)
        assert (report.ok, report.problems, report.entries, report.erased) == (True, (), 7, 0)
        assert report.head == read(filled, audit_store.load_head)
        assert filled.admin.verify().problems == ()
        assert filled.admin.verify().checked["audit"] == 7

    def test_empty_trail_verifies(self, memory):
        assert read(memory, audit_store.load_head) == audit_entry.EMPTY_CHAIN
        report = audit_entry.ChainReport(entries=0, erased=0, problems=(), head=audit_entry.EMPTY_CHAIN)
        assert read(memory, audit_store.verify) == report

    def test_erasure_keeps_the_chain_valid_and_is_reported(self, filled):
        kept = read(filled, audit_store.load_head)
        assert filled.erase(conversation_id="c").audit == 4
        report = read(filled, audit_store.verify, kept)
        assert (report.problems, report.entries, report.erased, report.head) == ((), 7, 4, kept)
        assert filled.admin.verify().ok

    def test_verification_works_across_pages(self, filled, monkeypatch):
        monkeypatch.setattr(audit_store, "CHAIN_PAGE", 2)
        monkeypatch.setattr(audit_store, "MESSAGE_PAGE", 1)
        assert problems(filled) == []

    def test_digest_is_computed_as_documented(self, memory, raw):
        [kept] = add(memory, entry("p", "r", id="e", conversation_id="c"))
        [row] = raw(memory, "select salt, digest, link, body, created_at from audit")
        fields = f'["","e","exchange","c",null,{row["created_at"]},null,{len(row["body"])},0]'
        told = fields.encode() + b"\n" + bytes(row["body"])
        expected = blake2b(told, digest_size=32, key=bytes(row["salt"])).digest()
        assert bytes(row["digest"]) == expected
        assert bytes(row["link"]) == blake2b(bytes(32) + expected, digest_size=32).digest()
        assert read(memory, audit_store.get, "", "e") == kept


@pytest.mark.sqlite_suffices
class TestTampering:
    CHANGES = (
        ("body", b'{"prompt":"Second","reply":"two"}', 2), ("created_at", 1, 2), ("conversation", "d", 2),
        ("conversation", None, 2), ("thread", "u", 4), ("kind", "reference", 2), ("key", "mine", 2),
        ("mark", b"another mark", 3), ("messages", packed_ranges(0, 2), 7),
        ("messages", b"nonsense", 7), ("messages", None, 7),
        ("messages", packed_ranges(0, 90), 7), ("messages", packed_ranges(0, 2**40), 7), ("salt", b"another salt", 2),
        ("body", b"x", 5),
    )  # fmt: skip

    @pytest.mark.parametrize(("column", "value", "number"), CHANGES)
    def test_changed_field_is_reported(self, filled, raw, column, value, number):
        raw(filled, f"update audit set {column} = :value where sequence = :number", value=value, number=number)
        [problem] = problems(filled)
        assert f"number {number}" in problem
        assert "is damaged" in problem
        assert problem in filled.admin.verify().problems

    BROKEN = (
        ("update audit set digest = salt where sequence = 2", ["is damaged", "does not follow"]),
        (
            """update audit set link = digest where sequence = 7;
            update audit_head set link = (select link from audit where sequence = 7)""",
            ["does not follow"],
        ),
        ("delete from part where number = 0", ["is damaged"] * 2),
        (
            "delete from audit where sequence in (2, 3, 5)",
            ["numbers 2 to 3 of the audit trail are missing", "numbers 5 to 5 of the audit trail are missing"],
        ),
        ("delete from audit where sequence > 5", [r"head \(number 7\) does not match the last entry \(number 5\)"]),
        (
            "update audit_head set sequence = 5, link = (select link from audit where sequence = 5)",
            [r"the stored head \(number 5\) does not match"],
        ),
        (
            "insert into audit (sequence, link, digest) select 8, link, digest from audit where sequence = 7",
            ["number 8 of the audit trail does not follow", r"stored head \(number 7\) does not match"],
        ),
        ("update audit set kind = null where sequence = 4", ["number 4 .* was erased, but still has salt, "]),
    )

    @pytest.mark.parametrize(("changes", "told"), BROKEN, ids=lambda each: each[:40] if isinstance(each, str) else "")
    def test_broken_chain_is_reported(self, filled, raw, changes, told):
        for change in changes.split(";"):
            raw(filled, change)
        found = problems(filled)
        assert all(re.search(says, "\n".join(found)) for says in told), found
        assert len(found) == len(told), found

    def test_changed_message_text_is_reported(self, filled, raw):
        raw(filled, CHANGED.format(2), body=b'{"role":"user","content":"forged"}')
        [problem] = problems(filled)
        assert problem == "message 2 of part store 1 in the audit trail is damaged (checksum mismatch)"

    def test_changed_or_missing_head_is_reported(self, filled, raw):
        raw(filled, "update audit_head set link = (select link from audit where sequence = 5)")
        assert problems(filled) == ["the stored head (number 7) does not match the last entry (number 7)"]
        raw(filled, "update audit_head set sequence = 99")
        assert problems(filled)
        raw(filled, "delete from audit_head")
        assert problems(filled) == ["the stored head (none) does not match the last entry (number 7)"]

    def test_excess_problems_are_counted(self, filled, raw, monkeypatch):
        monkeypatch.setattr(audit_store, "MOST_PROBLEMS", 3)
        raw(filled, "update audit set salt = digest where sequence < 7")
        found = problems(filled)
        assert (len(found), found[-1]) == (4, "there are 3 more problems")

    def test_search_index_mismatches_are_reported(self, filled, raw):
        write(filled, audit_store.settle)
        raw(filled, "update audit set document_id = null where sequence = 2")
        raw(filled, "update audit set hidden = 1 where sequence = 1")
        found = filled.admin.verify().problems
        assert "number 2 of the audit trail is not in the search index" in found
        assert "number 1 of the audit trail is hidden, but in the search index" in found


@pytest.mark.sqlite_suffices
class TestExternalHead:
    def test_head_reveals_a_recomputed_chain(self, filled, raw):
        kept = read(filled, audit_store.load_head)
        self.forge(filled, raw, 5)
        add(filled, entry("later", "on"))
        assert problems(filled) == problems(filled, audit_entry.EMPTY_CHAIN) == [], (
            "nothing inside the database can tell"
        )
        assert problems(filled, kept) == ["the chain up to number 7 has changed since the given head was read"]

    def test_head_reveals_a_truncated_chain(self, filled, raw):
        kept = read(filled, audit_store.load_head)
        raw(filled, "delete from audit where sequence > 5")
        raw(filled, "update audit_head set sequence = 5, link = (select link from audit where sequence = 5)")
        assert problems(filled) == []
        assert problems(filled, kept) == ["the chain up to number 7 has changed since the given head was read"]

    def test_head_round_trips_as_text(self, filled):
        kept = read(filled, audit_store.load_head)
        assert ChainHead.parse(str(kept)) == ChainHead.parse(f" {kept}\n") == kept
        for text in ("", "7", "7:xyz", "-1:" + "0" * 64, f"{kept}0", "x:" + "0" * 64, None, 5):
            with pytest.raises(InvalidInput, match="Invalid head"):
                ChainHead.parse(text)

    @staticmethod
    def forge(memory, raw, number):
        """Change an entry, and compute everything anew from there on, as who may write to the database can."""
        link = bytes(raw(memory, "select link from audit where sequence = :n", n=number - 1)[0]["link"])
        body = b'{"prompt":"forged","reply":"text"}'
        raw(memory, "update audit set body = :body where sequence = :n", body=body, n=number)
        for row in read(memory, all_rows):
            if row["sequence"] < number:
                continue
            digest = bytes(row["digest"]) if row["sequence"] > number else audit_rows.compute_digest(row, {})
            link, n = queries.next_link(link, digest), row["sequence"]
            raw(memory, "update audit set digest = :d, link = :link where sequence = :n", d=digest, link=link, n=n)
        raw(memory, "update audit_head set link = :link", link=link)


@pytest.mark.sqlite_suffices
class TestDamage:
    """What is damaged is told of, and stops nothing else."""

    @pytest.mark.parametrize(
        ("column", "value"),
        [
            ("body", b"x"),
            *(("messages", each) for each in (b"x", packed_ranges(1, 900_000), packed_ranges(5, 2), None)),
        ],
    )
    def test_damaged_entry_can_be_erased_and_trail_continues(self, filled, raw, column, value):
        raw(filled, f"update audit set {column} = :value where sequence = 7", value=value)
        for each, number in ((audit_store.load_last, 9), (audit_store.load_page, 0)):
            with pytest.raises(DatabaseUnreadable, match="number 7, is damaged"):
                read(filled, each, "", number)
        assert read(filled, audit_store.load_last, "", 9, kinds=["todo", "exchange"])
        write(filled, audit_store.settle)
        assert write(filled, audit_store.apply_rules, "", lambda *_: ["all"]).entries >= 6
        add(filled, entry("later", "on"))
        assert len(filled.search("later", kinds=["audit"])) == 1
        write(filled, audit_store.archive, *EVERYWHERE, 2**62)
        assert len(problems(filled)) == 1
        assert filled.erase(conversation_id="c").audit == 4
        assert problems(filled) == []
        assert [each.prompt for each in read(filled, audit_store.load_last, "", 9)] == ["later"]

    def test_damaged_message_is_reported(self, filled, raw):
        raw(filled, CHANGED.format(0), body=b"{")
        with pytest.raises(DatabaseUnreadable, match="damaged"):
            read(filled, audit_store.load_last, "", 9)
        write(filled, audit_store.settle)
        assert filled.erase(conversation_id="c").audit == 4
        assert filled.admin.verify().ok


def all_rows(tx):
    from langchain_agentmem.storage import query

    return query.audit_chain(tx, after=0, limit=99)
