"""Any sequence of operations leaves what a plain list would hold."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from langchain_core.messages import AIMessage, HumanMessage

from langchain_agentmem import AgentMemory, Message, MessageError

ROLES = st.sampled_from(["user", "assistant", "tool"])
TEXT = st.text(st.characters(exclude_categories=()), max_size=3)
INDEX = st.integers(-6, 6)

numbers = itertools.count()


class Conversation(RuleBasedStateMachine):
    """The log beside a list of (id, role, content), and a list of versions for each id."""

    memory: AgentMemory
    ids = Bundle("ids")

    @initialize(described=st.booleans())
    def begin(self, described: bool) -> None:
        self.description = "Be kind." if described else None
        self.chat = self.memory.conversation(f"chat-{next(numbers)}", description=self.description)
        self.rows: list[list[Any]] = []
        self.versions: dict[str, list[Any]] = {}
        if described:
            [first] = self.chat.retrieve_all(include_ids=True)
            self._append(first["message_id"], "system", "Be kind.")

    def _append(self, key: str, role: str, content: str) -> str:
        self.rows.append([key, role, content])
        self.versions[key] = [(role, content)]
        return key

    def _edit(self, key: str, role: str, content: str) -> None:
        row = next(row for row in self.rows if row[0] == key)
        if row[1:] != [role, content]:
            row[1:] = role, content
            self.versions[key].append((role, content))

    def _drop(self, key: str) -> None:
        self.rows = [row for row in self.rows if row[0] != key]
        del self.versions[key]

    @rule(target=ids, role=ROLES, content=TEXT)
    def add(self, role: str, content: str) -> str:
        return self._append(self.chat.add(role=role, content=content), role, content)

    @rule(texts=st.lists(TEXT, max_size=3))
    def add_messages(self, texts: list[str]) -> None:
        given = [
            (HumanMessage if number % 2 else AIMessage)(text, id=f"own-{next(numbers)}")
            for number, text in enumerate(texts)
        ]
        self.chat.add_messages(given)
        for message in given:
            self._append(message.id, "user" if message.type == "human" else "assistant", message.content)

    @rule(key=ids, role=ROLES, content=TEXT)
    def add_again(self, key: str, role: str, content: str) -> None:
        message = Message(role=role, content=content, message_id=key)
        if key not in self.versions:
            self.chat.add(message)
            self._append(key, role, content)
        elif (role, content) in self.versions[key]:  # a step that is run again repeats its first words
            self.chat.add(message)
        else:
            with pytest.raises(MessageError):
                self.chat.add(message)

    @rule(key=ids, content=TEXT)
    def update(self, key: str, content: str) -> None:
        if key in self.versions:
            self.chat.update(key, content=content)
            self._edit(key, self.versions[key][-1][0], content)
        else:
            with pytest.raises(MessageError):
                self.chat.update(key, content=content)

    @rule(key=consumes(ids))
    def remove(self, key: str) -> None:
        assert self.chat.remove_by_id(key) is (key in self.versions)
        if key in self.versions:
            self._drop(key)

    @rule(idx=INDEX)
    def delete(self, idx: int) -> None:
        try:
            key = self.rows[idx][0]
        except IndexError:
            with pytest.raises(MessageError):
                self.chat.delete_memory(idx)
        else:
            self.chat.delete_memory(idx)
            self._drop(key)

    @rule(idx=INDEX, role=ROLES, content=TEXT)
    def replace(self, idx: int, role: str, content: str) -> None:
        try:
            key = self.rows[idx][0]
        except IndexError:
            with pytest.raises(MessageError):
                self.chat.replace_memory(idx, role=role, content=content)
        else:
            self.chat.replace_memory(idx, role=role, content=content)
            self._edit(key, role, content)

    @rule(n=st.integers(0, 5), role=ROLES)
    def look(self, n: int, role: str) -> None:
        start = max(0, len(self.rows) - n)
        while 0 < start < len(self.rows) and self.rows[start][1] == "tool":  # results are given with their calls
            start -= 1
        recent = [content for _, _, content in self.rows[start:]]
        assert [each["content"] for each in self.chat.retrieve_recent(n)] == recent
        own = [content for _, each, content in self.rows if each == role]
        assert [each["content"] for each in self.chat.retrieve_by_role(role)] == own
        assert len(self.chat.retrieve_by_role(role, n)) == min(n, len(own))

    @rule()
    def open_again(self) -> None:
        self.chat = self.memory.conversation(self.chat.conversation_id)

    @invariant()
    def both_hold_the_same(self) -> None:
        if not hasattr(self, "rows"):
            return
        shown = self.chat.retrieve_all(include_ids=True)
        assert [[each["message_id"], each["role"], each["content"]] for each in shown] == self.rows
        assert len(self.chat) == len(self.rows)

    def teardown(self) -> None:
        for key, versions in getattr(self, "versions", {}).items():
            kept = [(each.message.role, each.message.content) for each in self.chat.history_of(key)]
            assert kept == versions
        if hasattr(self, "chat"):
            self.chat.clear()


@pytest.fixture
def machine(memory: AgentMemory) -> type[Conversation]:
    return type("ConversationOf", (Conversation,), {"memory": memory})


@pytest.mark.slow("in every form")
def test_a_conversation_is_what_a_list_would_be(memory, machine):
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=60 if memory.database.engine.dialect == "sqlite" else 12,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert memory.admin.verify().problems == ()
    assert memory.admin.stats()["messages"] == 0
    assert memory.admin.stats()["content_bytes"] == 0
