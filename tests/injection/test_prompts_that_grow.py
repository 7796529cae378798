"""Memory that was injected into the prompts of a thread stays there, which keeps prompt caches valid."""

import asyncio
import sqlite3
from contextlib import closing, contextmanager
from itertools import pairwise

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.clock import from_micros
from langchain_agentmem.base.namespaces import ThreadKey
from langchain_agentmem.compaction import CompactionState, ManagedMemoryConfig
from langchain_agentmem.conversations import prompt_notes
from langchain_agentmem.errors import StorageError
from langchain_agentmem.messages.message_marks import Summary, is_injected, summary_message
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.testing import assert_valid_for_providers
from tests.support.graphs import at, line
from tests.support.models import calling, kinds_shown

QUESTIONS = ("Which fruit tree did I plant?", "What is the dog called?", "Where is the kettle?", "And the fruit tree?")
LIMIT = 30.0
"""Seconds after which a test considers a call blocked."""
CORE_ONLY = {"recall": 0, "archival": 0}
SWEEP_TRIGGERS = {
    "another note": lambda memory: memory.inject("user-42").invoke(history_up_to(1), at()),
    "prune": lambda memory: memory.admin.prune(keep_checkpoints=1),
    "prune elsewhere": lambda memory: memory.admin.prune(namespace=("ada",), retention=Retention(keep_last=1)),
}
SMALL = ManagedMemoryConfig(threshold_tokens=900, token_counter="estimate")


def history_up_to(count):
    """A history that ends with its question number `count`."""
    history = [SystemMessage("Be kind.", id="s")]
    for number, question in enumerate(QUESTIONS[: count + 1]):
        if number:
            history.append(AIMessage(f"answer {number}", id=f"a{number}"))
        history.append(HumanMessage(question, id=f"q{number}"))
    return history


def texts(messages):
    return "\n".join(str(message.text) for message in messages)


@pytest.fixture
def layers(memory):
    layers = memory.layers("user-42")
    layers.core.set("name", "Ada")
    layers.archival.write("Ada planted a quince as her fruit tree.")
    layers.archival.write("The dog is called Bello.")
    layers.archival.write("The kettle is in the cellar.")
    return layers


class TestPromptGrowth:
    async def test_prompts_only_grow_at_the_end(self, memory, layers):
        inject = memory.inject("user-42")
        prompts = []
        for number in range(4):
            history, call = history_up_to(number), calling("look", f"call-{number}")
            prompts.append(inject.invoke(history, at()))
            prompts.append(
                await inject.ainvoke([*history, call, ToolMessage("seen", tool_call_id=f"call-{number}")], at())
            )
        for before, after in pairwise(prompts):
            whole = len(before) - 2 * ("tool" in kinds_shown(before))
            assert after[:whole] == before[:whole]
            assert_valid_for_providers(after)
        brought = ["recalled", "human", "ai"]
        assert kinds_shown(prompts[-2]) == ["system", "core", *brought * 3, "human"]
        for text in ("quince", "Bello", "cellar"):  # what stands already is not brought again
            assert texts(prompts[-2]).count(text) == 1

    def test_another_process_shows_the_same_prompt(self, url):
        with AgentMemory(url) as memory:
            layers = memory.layers("user-42")
            layers.core.set("name", "Ada")
            layers.archival.write("Ada planted a quince as her fruit tree.")
            before = memory.inject("user-42").invoke(history_up_to(0), at())
            layers.core.set("name", "Ada Lovelace")
        with AgentMemory(url) as memory:
            after = memory.inject("user-42").invoke(history_up_to(1), at())
            assert after[: len(before)] == before
            assert "changed since\n**name**: Ada Lovelace" in texts(after[len(before) :])

    def test_injected_events_facts_and_messages_stay(self, memory):
        layers = memory.layers("t", namespace=("ada",))
        layers.recall.append("visit", "Ada bought a fruit tree.")
        memory.facts("t", namespace=("ada",)).add_fact("user", "Ada", "planted", "a fruit tree")
        memory.conversation("old", namespace=("ada",)).add_user_message("My fruit tree is a quince.")
        inject = memory.inject("t", namespace=("ada",))
        before = inject.invoke(history_up_to(0), at())
        assert all(text in texts(before) for text in ("bought a fruit", "planted a fruit", "is a quince"))
        assert inject.invoke(history_up_to(2), at())[: len(before)] == before

    def test_time_ordered_messages_stay_unchanged(self, memory):
        chat = memory.conversation("old", ("ada",))
        for text in ["I have never met Kelly.", "Here I met Kelly.", "Kelly likes hats and I like Kelly."]:
            chat.add_user_message(text)
        memory.layers("t", namespace=("ada",)).archival.write("Kelly was to be met.")
        inject = memory.inject("t", namespace=("ada",))
        asked = HumanMessage("Have I ever met Kelly?", id="q0")
        before = inject.invoke([asked], at())
        assert "perhaps replaced later] I have never met Kelly." in texts(before)
        assert f"- [record, {from_micros(memory.database.now()):%Y-%m-%d}] Kelly was to be met." in texts(before)
        history = [asked, AIMessage("You did.", id="a0"), HumanMessage("Where is the kettle?", id="q1")]
        assert inject.invoke(history, at())[: len(before)] == before

    def test_users_in_one_memory_stay_separate(self, memory):
        injections = []
        for name in ("Ada", "Bob"):
            whose = ("users", name)
            memory.layers("main", namespace=whose).core.set("name", name)
            injections.append(memory.inject("main", namespace=whose))
        for _ in range(2):
            for inject, name in zip(injections, ("Ada", "Bob"), strict=True):
                [core] = [each for each in inject.invoke(history_up_to(0), at()) if is_injected(each, "core")]
                assert f"**name**: {name}" in core.text
        assert {each.reader for each in memory.conversation("t").prompt_notes()} == {"users/Ada/main", "users/Bob/main"}

    def test_changed_question_with_same_id_recalls_anew(self, memory, layers):
        inject = memory.inject("user-42")
        before = texts(inject.invoke([HumanMessage(QUESTIONS[0], id="q0")], at()))
        after = texts(inject.invoke([HumanMessage(QUESTIONS[1], id="q0")], at()))
        assert ("quince" in before, "Bello" in before) == (True, False)
        assert ("quince" in after, "Bello" in after) == (False, True)


class TestCoreMemory:
    def test_core_changes_are_appended_until_a_compaction(self, memory, layers):
        inject = memory.inject("user-42", budget=CORE_ONLY)
        before = inject.invoke(history_up_to(0), at())
        layers.core.set("city", "Oslo")
        layers.core.set("name", "Ada L.")
        after = inject.invoke(history_up_to(1), at())
        assert after[:3] == before
        assert "**name**: Ada L.\n**city**: Oslo" in after[-2].text
        told = ["system", "core", "human", "ai", "recalled", "human", "ai", "human"]
        assert kinds_shown(inject.invoke(history_up_to(2), at())) == told
        summary = summary_message(Summary(summary="The user asked."), id="sum-1")
        anew = inject.invoke([history_up_to(0)[0], summary, *history_up_to(2)[-3:]], at())
        assert kinds_shown(anew) == ["system", "core", "human", "human", "ai", "human"]
        assert "**name**: Ada L.\n**city**: Oslo" in anew[1].text

    def test_core_changes_without_room_restart_the_prompt(self, memory, layers):
        inject = memory.inject("user-42", budget={"core": 120, "recall": 0, "archival": 0})
        inject.invoke(history_up_to(0), at())
        layers.core.set("name", "Grace")
        layers.core.set("city", "Oslo " * 20)
        prompt = texts(inject.invoke(history_up_to(1), at()))
        assert "Ada" not in prompt
        assert ("Grace" in prompt) or ("Oslo" in prompt)

    def test_abandoned_branch_leaves_nothing_in_the_prompt(self, memory):
        def remember(state, config):
            core, text = memory.layers(config).core, state["messages"][-1].text
            if text == "Forget it.":  # so the prompt begins anew
                core.delete("tree")
            core.set("fruit" if text == "Forget it." else "tree", text)

        seen = []

        def see(state):
            seen.append(state["llm_input_messages"])

        graph = line(memory.checkpointer, remember, memory.inject(), see, state=CompactionState)
        for text in ("quince", "pear", "Forget it."):
            graph.invoke({"messages": [HumanMessage(text)]}, at())
        assert kinds_shown(seen[-1])[:2] == ["core", "human"]
        assert "**fruit**: Forget it." in seen[-1][0].text
        beginning = [*graph.get_state_history(at())][-1]
        graph.invoke({"messages": [HumanMessage("fig", id=seen[0][-1].id)]}, beginning.config)
        assert "quince" not in texts(seen[-1])
        past = next(each for each in graph.get_state_history(at()) if len(each.values.get("messages", ())) == 1)
        graph.invoke({"messages": [HumanMessage("plum")]}, past.config)
        assert [part in texts(seen[-1]) for part in ("pear", "Forget it.", "**tree**: plum")] == [False, False, True]


class TestRemovedMemory:
    def test_edited_record_is_shown_as_edited(self, memory, layers):
        inject = memory.inject("user-42")
        inject.invoke(history_up_to(0), at())
        [record] = [each for each in layers.archival.all() if "quince" in each.content]
        layers.archival.update(record.id, "Ada planted a medlar as her fruit tree.")
        found = texts(inject.invoke(history_up_to(1), at()))
        assert "medlar" in found
        assert "quince" not in found

    @pytest.mark.parametrize("whose", [("ada",), ()])
    def test_same_id_in_another_namespace_is_not_shown(self, memory, whose):
        inject = memory.inject(kinds=["message"], **({"namespace": whose} if whose else {}))
        memory.conversation("other", namespace=whose).add_user_message("Nothing.")
        chat = memory.conversation("old" if whose else "t", namespace=whose)
        chat.add_messages([HumanMessage("The fruit tree is a quince.", id="m")])
        assert "quince" in texts(inject.invoke(history_up_to(0), at()))
        chat.remove_by_id("m")
        memory.conversation("hers", namespace=("bob",)).add_messages([HumanMessage("The secret of Bob.", id="m")])
        assert "Bob" not in texts(inject.invoke(history_up_to(1), at()))

    def test_compaction_drops_the_oldest_injections(self, memory, layers, monkeypatch):
        inject = memory.inject("user-42", limit=1)
        for number in range(3):
            whole = inject.invoke(history_up_to(number), at())
        monkeypatch.setattr(prompt_notes, "MAX_RESTART_TOKENS", 20)
        assert inject.invoke(history_up_to(2), at()) == whole  # not before
        summary = summary_message(Summary(summary="The user asked."), id="sum-1")
        anew = inject.invoke([*history_up_to(2)[:1], summary, *history_up_to(2)[1:]], at())
        assert kinds_shown(anew) == ["system", "core", "human", "human", "ai", "human", "ai", "recalled", "human"]

    @pytest.mark.parametrize("gone", [{"conversation_id": "t"}, {"thread_id": "t"}, {"namespace": ("ada",)}])
    def test_notes_are_erased_with_their_scope(self, memory, gone):
        layers = memory.layers("user-42", namespace=("ada",))
        layers.core.set("name", "Ada")
        layers.archival.write("Ada planted a quince as her fruit tree.")
        for thread in ("t", "other"):
            run = at(thread, namespace=("ada",))
            memory.conversation(thread, namespace=("ada",)).add_messages(history_up_to(0))
            memory.inject("user-42", namespace=("ada",)).invoke(history_up_to(0), run)
        memory.erase(**{"namespace": ("ada",), **gone})
        assert memory.conversation("t", namespace=("ada",)).prompt_notes() == []
        left = memory.conversation("other", namespace=("ada",)).prompt_notes()
        assert [each.part for each in left] == (
            [] if "namespace" in gone else ["archival"]
        )  # its core may be what t said

    @pytest.mark.parametrize("thread", [None, "gone"])
    def test_notes_of_other_threads_are_erased_with_memory(self, memory, thread):
        memory.layers("main", namespace=("ada",)).core.set("name", "Ada")
        inject = memory.inject("main", namespace=("ada",))
        inject.invoke(history_up_to(0), at())
        memory.erase(namespace=("bob",), thread_id=thread)
        assert len(memory.conversation("t").prompt_notes()) == 1
        memory.erase(namespace=("ada",), thread_id=thread)
        assert memory.conversation("t").prompt_notes() == []

    @pytest.mark.parametrize("write", SWEEP_TRIGGERS)
    def test_expired_notes_are_swept(self, memory, layers, raw, clock, write):
        def keys():
            return {row["key"] for row in raw(memory, "select key from prompt_note")}

        memory.inject("user-42").invoke(history_up_to(0), at())
        clock.pass_time(days=30, minutes=1)
        assert memory.conversation("t").prompt_notes() == []  # after thirty days nobody is told of them,
        assert keys() == {"q0"}  # and they are swept
        memory.admin.prune(keep_checkpoints=1, dry_run=True)
        assert keys() == {"q0"}
        SWEEP_TRIGGERS[write](memory)
        assert "q0" not in keys()


class TestPromptNotes:
    async def test_notes_record_the_source_of_each_injection(self, memory, layers):
        inject = memory.inject("user-42")
        inject.invoke(history_up_to(0), at())
        inject.invoke(history_up_to(1), at())
        notes = memory.conversation("t").prompt_notes()
        told = [("q0", "archival"), ("q0", "start"), ("q1", "archival")]
        assert [(each.message_id, each.part) for each in notes] == told
        [found] = notes[0].items
        assert found.kind == "record"
        assert layers.archival.get(found.id).content == "Ada planted a quince as her fruit tree."
        assert found.score > 0
        assert "fruit" in found.signals
        assert notes[0].created_at <= from_micros(memory.database.now())
        assert memory.conversation("t").prompt_notes("q1") == memory.conversation("t").prompt_notes(["q1"]) == notes[2:]
        assert memory.conversation("t").prompt_notes([]) == []
        assert "quince" not in repr(notes)  # a note does not have the text again
        assert await memory.conversation("t").aprompt_notes() == notes


@contextmanager
def write_lock(url):
    """Hold a write lock as another program would; readers are not blocked."""
    if url.startswith("postgresql://"):
        with psycopg.connect(url) as other:
            found = other.execute("select schemaname from pg_tables where tablename = 'prompt_note'").fetchall()
            for (schema,) in found:
                other.execute(f'lock table "{schema}".prompt_note in exclusive mode')
            yield
            other.rollback()
    else:
        with closing(sqlite3.connect(url, isolation_level=None)) as other:
            other.execute("begin immediate")
            yield
            other.rollback()


class TestConcurrentWriter:
    @pytest.fixture
    def memory(self, url):
        with AgentMemory(url, busy_timeout=2 * LIMIT) as memory:
            yield memory

    async def test_prompts_do_not_wait_for_a_write_lock(self, memory, layers, url, monkeypatch):
        inject = memory.inject("user-42")
        free = [inject.invoke(history_up_to(number), at("free")) for number in range(2)]
        with write_lock(url), monkeypatch.context() as hurried:
            hurried.setattr(prompt_notes, "WRITE_TIMEOUT", 0.1)
            assert await asyncio.wait_for(asyncio.to_thread(inject.invoke, history_up_to(0), at()), LIMIT) == free[0]
            assert await asyncio.wait_for(inject.ainvoke(history_up_to(0), at()), LIMIT) == free[0]
            assert memory.conversation("t").prompt_notes() == []
        assert [inject.invoke(history_up_to(number), at()) for number in range(2)] == free


class TestRobustness:
    def test_failing_notes_do_not_fail_the_prompt(self, memory, layers, monkeypatch, caplog):
        inject = memory.inject("user-42")
        expected = inject.invoke(history_up_to(0), at("other"))

        def broken(*_, **__):
            raise StorageError("no room")

        failing = type("Failing", (), {"__getattr__": broken})()
        for name, broke in (("_write_notes", broken), ("read_notes", broken), ("query", failing)):
            monkeypatch.setattr(prompt_notes, name, broke)
            prompt_notes._failures._reported.clear()
            assert texts(inject.invoke(history_up_to(0), at())) == texts(expected)
            memory.compaction(None, SMALL).invoke([HumanMessage(f"{n} " * 150, id=f"n{n}") for n in range(9)], at())
            assert "logged once" in caplog.text
            caplog.clear()

    @pytest.mark.parametrize("overhead", [0, 258])
    def test_compaction_counts_injected_memory(self, memory, layers, overhead):
        conversation = ThreadKey("", "t")
        memory.inject("user-42").invoke(history_up_to(2), at())
        tokens = prompt_notes.count_inserted_tokens(memory.database, conversation, ["q0", "q1", "q2"])
        assert tokens > 10
        compactor = memory.compaction(None, SMALL)._compactor
        history = [HumanMessage("x " * (250 if overhead else 500), id="q2"), AIMessage("y", id="a")]
        beside, alone = (
            compactor.compact_history(history, at, overhead=overhead).tokens
            for at in (conversation, ThreadKey("", "other"))
        )
        assert beside - alone >= tokens - 1
