"""Random sequences of operations, compared with a plain list."""

import random
from contextlib import nullcontext

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_agentmem import Message, MessageError

ROLES = ("user", "assistant", "tool")
TEXTS = ("", "a", "b", "é\0", "🦜", " ")


def raises_if(wrong):
    return pytest.raises(MessageError) if wrong else nullcontext()


class Conversation:
    """A conversation, a list of [id, role, content], and the versions of each id."""

    def __init__(self, memory, dice):
        self.memory, self.dice, self.made = memory, dice, 0
        self.chat = memory.conversation("chat", description="Be kind." if dice.random() < 0.5 else None)
        self.rows = [[each["message_id"], "system", "Be kind."] for each in self.chat.retrieve_all(include_ids=True)]
        self.versions = {key: [(role, text)] for key, role, text in self.rows}
        self.ids = ["never there"]

    def append(self, key, role, text):
        self.rows.append([key, role, text])
        self.versions[key] = [(role, text)]
        self.ids.append(key)

    def edit(self, row, role, text):
        if row[1:] != [role, text]:
            row[1:] = role, text
            self.versions[row[0]].append((role, text))

    def drop(self, row):
        self.rows.remove(row)
        del self.versions[row[0]]

    def step(self):
        """Apply a random operation to the conversation and the list."""
        self.role, self.text = self.dice.choice(ROLES), self.dice.choice(TEXTS)
        self.key, self.at = self.dice.choice(self.ids), self.dice.randrange(-6, 6)
        self.named = next((row for row in self.rows if row[0] == self.key), None)
        self.placed = self.rows[self.at] if -len(self.rows) <= self.at < len(self.rows) else None
        own = (self.add, self.add_messages, self.add_again, self.update, self.remove, self.delete, self.replace)
        self.dice.choice(own)()

    def add(self):
        self.append(self.chat.add(role=self.role, content=self.text), self.role, self.text)

    def add_messages(self):
        kinds = self.dice.choices([("user", HumanMessage), ("assistant", AIMessage)], k=self.dice.randrange(3))
        given = [(role, kind(self.text, id=f"{len(self.ids)}-{n}")) for n, (role, kind) in enumerate(kinds)]
        self.chat.add_messages([message for _, message in given])
        for role, message in given:
            self.append(message.id, role, self.text)

    def add_again(self):
        # A step that is run again repeats its first words.
        with raises_if(self.named and (self.role, self.text) not in self.versions[self.key]):
            self.chat.add(Message(role=self.role, content=self.text, message_id=self.key))
            if not self.named:
                self.append(self.key, self.role, self.text)

    def update(self):
        with raises_if(not self.named):
            self.chat.update(self.key, content=self.text)
            self.edit(self.named, self.named[1], self.text)

    def remove(self):
        assert self.chat.remove_by_id(self.key) is bool(self.named)
        if self.named:
            self.drop(self.named)

    def delete(self):
        with raises_if(not self.placed):
            self.chat.delete_memory(self.at)
            self.drop(self.placed)

    def replace(self):
        with raises_if(not self.placed):
            self.chat.replace_memory(self.at, role=self.role, content=self.text)
            self.edit(self.placed, self.role, self.text)

    def check(self):
        shown = self.chat.retrieve_all(include_ids=True)
        assert [[each["message_id"], each["role"], each["content"]] for each in shown] == self.rows
        n, role = self.dice.randrange(6), self.dice.choice(ROLES)
        start = max(0, len(self.rows) - n)
        while 0 < start < len(self.rows) and self.rows[start][1] == "tool":  # results are given with their calls
            start -= 1
        assert [each["content"] for each in self.chat.retrieve_recent(n)] == [text for _, _, text in self.rows[start:]]
        own = [text for _, each, text in self.rows if each == role]
        assert [each["content"] for each in self.chat.retrieve_by_role(role)] == own
        assert len(self.chat.retrieve_by_role(role, n)) == min(n, len(own))
        for key, versions in self.versions.items():
            assert [(each.message.role, each.message.content) for each in self.chat.history_of(key)] == versions


@pytest.mark.parametrize("seed", range(2))
def test_conversation_behaves_like_a_list(memory, seed):
    for more in range(5):
        both = Conversation(memory, random.Random(seed * 100 + more))
        for _ in range(25):
            both.step()
            both.check()
        both.chat.clear()
    assert memory.admin.verify().problems == ()
    assert (memory.admin.stats()["messages"], memory.admin.stats()["content_bytes"]) == (0, 0)
