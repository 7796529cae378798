"""Exports that somebody has damaged are refused whole."""

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit import audit_store
from langchain_agentmem.errors import InvalidInput
from tests.audit.entries import read
from tests.audit.test_transfer import fill, lines, write_lines


class TestDamage:
    DAMAGE = (
        {"id": ""}, {"id": None}, {"kind": "x"}, {"created_at": 2**70}, {"created_at": "now"},
        {"conversation": "a\0b"}, {"thread": ""}, {"junk": [1]}, {"junk": "filler"}, {"status": "open"},
        {"mark": "xyz"}, {"mark": "00"}, {"shelf": 99}, {"messages": [[1, 99]]}, {"messages": [[-1, 1]]},
        {"messages": "1"}, {"body": None}, {"body": {}}, {"body": {"prompt": 1, "reply": ""}},
        {"body": {"said": 9, "answered": 1}}, {"body": {"prompt": "a", "said": 0, "reply": "b"}},
        {"body": {"prompt": "a", "reply": "b", "extra": [1]}}, {"body": {"prompt": "a", "reply": "b", "tokens": 5}},
        {"body": {"prompt": "a", "reply": "b", "tokens": [1]}}, {"body": {"prompt": "a", "reply": "b", "tokens": "ab"}},
        {"body": {"prompt": "a", "reply": "b", "tokens": [True, 1.5]}},
        {"body": {"prompt": "a", "reply": "b", "duration": "long"}}, {"body": {"said": 0.5, "answered": 1}},
        {"body": {"said": 0.0, "answered": 1}}, {"messages": [[1, 2**40 - 1]]},
    )  # fmt: skip

    MESSAGES = ({"number": "1"}, {"shelf": None}, {"body": 1}, {"body": {"role": ""}})

    def test_nothing_is_imported_of_it(self, new_database, tmp_path):
        path, of = tmp_path / "export.jsonl", {}
        with AgentMemory(new_database("sqlite")) as memory:
            fill(memory)
            memory.export(path)
        told = lines(path)
        of["audit_entry"] = next(n for n, each in enumerate(told) if each.get("kind") == "call")
        of["audit_message"] = next(n for n, each in enumerate(told) if each.get("record") == "audit_message")
        changed = {str(damage): (of["audit_entry"], damage) for damage in self.DAMAGE}
        changed |= {str(damage): (of["audit_message"], damage) for damage in self.MESSAGES}
        damaged = {name: [*told[:n], told[n] | damage, *told[n + 1 :]] for name, (n, damage) in changed.items()}
        damaged["no message"] = told[: of["audit_message"]] + told[of["audit_message"] + 1 :]
        for name in ("id", "junk", "messages", "body", "mark", "replaced"):
            damaged[f"no {name}"] = [
                {key: value for key, value in each.items() if key != name or each["record"] != "audit_entry"}
                for each in told
            ]
        with AgentMemory(new_database("sqlite")) as there:
            for name, records in damaged.items():
                with pytest.raises(InvalidInput):
                    there.import_(write_lines(path, records))
                stats = there.admin.stats()
                assert (stats["audit"], stats["contents"], stats["namespaces"]) == (0, 0, 0), name
                assert read(there, audit_store.head).sequence == 0, name
