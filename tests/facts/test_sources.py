"""Sources of facts: removing a message removes the facts without another source."""

import json
from datetime import UTC, datetime

import pytest
from langchain_core.messages import HumanMessage
from langgraph.types import Command, interrupt

from langchain_agentmem import AgentMemory, Retention
from langchain_agentmem.facts import fact_extraction
from langchain_agentmem.facts.fact import FactsConfig
from langchain_agentmem.messages.role_rounds import Post
from tests.support.graphs import Log, at, beside, line
from tests.upkeep.test_integrity import stored_bytes

from .scripted import Scripted

MAYA = ("user", "Maya", "lives in")


def day(number):
    return datetime(2025, 1, number, tzinfo=UTC)


def triples(facts, **asked):
    return {(fact.subject, fact.predicate, fact.object) for fact in facts.as_of(**asked)}


def homes(facts, subject="Maya"):
    """The homes of a subject with their first and last days."""
    lived = facts.history(subject, "lives in")
    return [(fact.object, fact.valid_from.day, fact.valid_to and fact.valid_to.day) for fact in lived]


def message_of(key, text):
    return {"role": "user", "content": text, "message_id": key}


def say(memory, conversation, *ids, namespace=None):
    chat = memory.conversation(conversation, namespace)
    for key in ids:
        chat.add(message_of(key, f"message {key}"))
    return chat


def moved(facts):
    """Add homes of Maya: Oslo (source `a`), Rome (`b` and `c`) and Lima (`c`)."""
    oslo = facts.add_fact(*MAYA, "Oslo", valid_from=day(1), source=("a", "chat"))
    rome = facts.add_fact(*MAYA, "Rome", valid_from=day(5), source=[("b", "chat"), ("c", "chat")])
    lima = facts.add_fact(*MAYA, "Lima", valid_from=day(9), source=("c", "chat"))
    return oslo, rome, lima


REMOVALS = {
    "clear": lambda memory, chat: chat.clear(),
    "reset": lambda memory, chat: chat.reset_memory(),
    "erase the conversation": lambda memory, chat: memory.erase(conversation_id="chat"),
    "erase the thread": lambda memory, chat: memory.erase(thread_id="chat"),
    "erase the namespace": lambda memory, chat: memory.erase(namespace=()),
}


@pytest.mark.sqlite_suffices
class TestMessageRemoval:
    def test_removal_deletes_unsupported_facts_and_reopens_ended_ones(self, memory):
        for number, (removal, given) in enumerate((("remove_by_id", "c"), ("delete_memory", 2), ("delete_memory", -1))):
            mine = memory.within((f"{number}",))
            chat, facts = say(mine, "chat", "a", "b", "c"), mine.facts("user")
            _, rome, lima = moved(facts)
            assert homes(facts) == [("Oslo", 1, 5), ("Rome", 5, 9), ("Lima", 9, None)]
            getattr(chat, removal)(given)
            assert homes(facts) == [("Oslo", 1, 5), ("Rome", 5, None)]
            assert facts.get(lima) is None
            assert facts.get(rome).sources == ("b",)
            assert facts.from_message("c") == facts.contradictions() == facts.search("Lima") == []

    @pytest.mark.parametrize("how", REMOVALS)
    def test_conversation_removal_deletes_its_facts(self, memory, how):
        chat, facts = say(memory, "chat", "a", "b", "c"), memory.facts("user")
        moved(facts)
        facts.add_fact(*MAYA, "Oslo", valid_from=day(2), source=("a", "another"))
        facts.add_fact("user", "Maya", "likes", "tea")
        for source in (("gone before", "chat"), ("a", "later")):
            facts.add_fact("user", "Maya", "likes", "figs", source=source)
        REMOVALS[how](memory, chat)
        if how == "erase the namespace":
            assert triples(facts) == set()
        else:
            assert triples(facts) == {("Maya", "lives in", "Oslo"), ("Maya", "likes", "tea"), ("Maya", "likes", "figs")}
            assert homes(facts) == [("Oslo", 2, None)]
            told = [each.conversation_id for each in facts.history("Maya", "likes")[-1].mentions]
            assert told == (["chat", "later"] if how == "reset" else ["later"])

    def test_removal_deletes_the_fact_on_every_branch(self, memory):
        chat, facts = say(memory, "chat", "a", "b"), memory.facts("user")
        key = facts.add_fact(*MAYA, "Oslo", valid_from=day(1), source=("a", "chat"))
        before = facts.fork("before the second source")
        facts.add_fact(*MAYA, "Oslo", valid_from=day(2), source=("b", "chat"))
        after = facts.fork("after it")
        after.update(key, obj="Bergen")
        deep = after.fork("of the fork")
        facts.remove_by_id(key)
        other = memory.facts("of another's")
        other.add_fact(*MAYA, "Oslo", source=("a", "chat"))
        chat.remove_by_id("a")
        assert homes(before) == []
        assert homes(facts) == []
        assert homes(other) == []
        assert [homes(each) for each in (after, deep)] == [[("Bergen", 2, None)]] * 2
        assert deep.get(key).sources == ("b",)
        # Also nothing says that it was known once.
        assert homes(before) == before.as_of(recorded=memory.facts("user").now) == []
        chat.remove_by_id("b")
        assert [homes(each) for each in (after, deep)] == [[], []]
        kept = memory.admin.stats()
        assert memory.erase(namespace=()).memories == kept["memories"]

    def test_fact_undone_on_a_fork_stays_undone(self, memory):
        """On the fork `a` is the only source; `b` of the parent stays hidden there."""
        chat, facts = say(memory, "chat", "a"), memory.facts("user")
        facts.add(message_of("b", "said here"))
        key = facts.add_fact(*MAYA, "Oslo", source=["b", ("a", "chat")])
        fork = facts.fork("fork")
        fork.remove_by_id("b")
        assert fork.get(key).sources == ("a",)
        deep = fork.fork("deep")
        chat.remove_by_id("a")
        assert fork.get(key) is None
        assert deep.get(key) is None
        assert fork.as_of() == deep.as_of() == []
        assert [fact.object for fact in fork.search("Oslo")] == []
        assert facts.get(key).sources == ("b",)

    def test_removal_deletes_damaged_facts(self, raw):
        for there, damage in (
            ('"fields":{', '"fields":7,"x":{'), ('"do":"set"', '"to":"set"'), ('"told":[', '"told":[7,'), ("{", "")
        ):  # fmt: skip
            with AgentMemory(":memory:") as memory:
                chat, facts = say(memory, "chat", "a", "b"), memory.facts("user")
                key = facts.add_fact(*MAYA, "Oslo", source=("a", "chat"))
                facts.update(key, obj="Bergen")
                facts.add_fact(*MAYA, "Bergen", source=("b", "chat"))
                facts.add_fact("user", "Ben", "likes", "tea", source=("b", "chat"))
                damaging = "update memory set extra = replace(extra, :there, :damage) where label = 'lives in'"
                raw(memory, damaging, there=there, damage=damage)
                chat.remove_by_id("a")
                assert triples(facts) == {("Ben", "likes", "tea")}, damage

    def test_removal_in_another_conversation_keeps_facts(self, memory):
        say(memory, "chat", "a")
        other, facts = say(memory, "other", "a"), memory.facts("user")
        facts.add_fact(*MAYA, "Oslo", source=("a", "chat"))
        facts.add_fact("user", "Maya", "likes", "tea", source=[("a", "other"), ("a", "chat")])
        facts.add_fact("user", "Maya", "likes", "rice", source=("a", "other"))
        other.remove_by_id("a")
        assert triples(facts) == {("Maya", "lives in", "Oslo"), ("Maya", "likes", "tea")}
        memory.conversation("other").clear()
        memory.erase(conversation_id="other")
        assert triples(facts) == {("Maya", "lives in", "Oslo"), ("Maya", "likes", "tea")}

    def test_removal_deletes_facts_sourced_by_id_only(self, memory):
        """A source without a conversation may be in any, so its facts are removed as well."""
        other, facts = say(memory, "other", "a"), memory.facts("user")
        facts.add(message_of("a", "text"))
        facts.add_fact(*MAYA, "Oslo", source="a")
        facts.add_fact("user", "Maya", "likes", "tea", source=("a", "chat"))
        other.remove_by_id("a")
        assert triples(facts) == {("Maya", "likes", "tea")}
        facts.remove_by_id("a")
        assert triples(facts) == {("Maya", "likes", "tea")}

    def test_removal_in_another_namespace_keeps_facts(self, memory):
        mine, theirs = memory.facts("user", ("ana",)), memory.facts("user", ("ana", "work"))
        for facts in (mine, theirs):
            facts.add_fact(*MAYA, "Oslo", source=("a", "chat"))
        say(memory, "chat", "a").remove_by_id("a")
        memory.erase(conversation_id="chat")
        assert triples(mine) == triples(theirs) == {("Maya", "lives in", "Oslo")}
        say(memory, "chat", "a", namespace=("ana",)).remove_by_id("a")
        assert (triples(mine), triples(theirs)) == (set(), {("Maya", "lives in", "Oslo")})

    def test_removal_deletes_corrected_and_undone_facts(self, memory):
        chat, facts = say(memory, "chat", "a"), memory.facts("user")
        likes = ("user", "Maya", "likes")
        corrected, undone, both = (
            facts.add_fact(*likes, thing, source=("a", "chat")) for thing in ("tea", "rice", "figs")
        )
        facts.update(corrected, obj="coffee")
        facts.update(corrected, obj="cocoa", valid_from=day(2), valid_to=day(20))
        facts.undo(undone)
        facts.add_fact(*likes, "figs", source=("z", "elsewhere"))
        facts.undo(both)  # the second source
        facts.undo(both)  # and that is taken back
        known = facts.now
        chat.remove_by_id("a")
        assert triples(facts) == {("Maya", "likes", "figs")}
        assert [fact.object for fact in facts.as_of(recorded=known)] == ["figs"]
        facts.undo(both)
        assert facts.as_of() == []
        assert [facts.get(key) for key in (corrected, undone)] == [None, None]


@pytest.mark.sqlite_suffices
def test_removal_of_fact_message_deletes_pending_extraction(memory):
    facts = memory.facts("user")
    for key in ("a", "b"):
        facts.add(message_of(key, f"text of {key}"))
    facts.add_fact(*MAYA, "Oslo", valid_from=day(1), source="a")
    facts.add_fact(*MAYA, "Rome", valid_from=day(5), source="b")
    fork = facts.fork("fork")
    assert facts.remove_by_id("b")
    assert homes(facts) == [("Oslo", 1, None)]
    assert (facts.pending_count(), facts.retrieve_by_id("b")) == (1, None)
    # A branch is nobody's but its own: what the fork was told, it keeps.
    assert homes(fork) == [("Oslo", 1, 5), ("Rome", 5, None)]
    assert fork.pending_count() == 2
    assert not facts.remove_by_id("b")


@pytest.mark.sqlite_suffices
def test_edited_message_keeps_facts_and_updates_evidence(memory):
    chat, facts = say(memory, "chat", "a"), memory.facts("user")
    key = facts.add_fact(*MAYA, "Oslo", source=("a", "chat"))
    chat.update("a", content="I moved to Oslo.")
    assert facts.get(key).sources == ("a",)
    assert [each.text for each in facts.evidence(key)] == ["I moved to Oslo."]
    chat.replace_memory(0, role="user", content="I never did.")
    assert [each.text for each in facts.evidence(key)] == ["I never did."]
    chat.remove_by_id("a")
    assert facts.get(key) is None


@pytest.mark.sqlite_suffices
def test_session_reset_deletes_facts_of_its_posts(memory):
    session, facts = memory.session("s"), memory.facts("user")
    opened = session.create_round("What do we know?")
    post = session.add_post(opened.id, Post(send_from="finder", send_to="user", message="Maya lives in Oslo."))
    facts.add_fact(*MAYA, "Oslo", source=(post.id, "s"))
    facts.add_fact("user", "Maya", "asks", "a question", source=(opened.id, "s"))
    facts.add_fact("user", "Maya", "likes", "tea", source=("z", "t"))
    session.finish_round(opened.id)
    assert len(triples(facts)) == 3
    session.reset_memory()
    assert triples(facts) == {("Maya", "likes", "tea")}


def test_retention_keeps_facts(memory):
    facts = memory.facts("user")
    chat = memory.conversation("chat", retention=Retention(keep_last=2))
    chat.add_messages([HumanMessage(f"message {key}", id=key) for key in "abcd"])
    key = facts.add_fact(*MAYA, "Oslo", source=("a", "chat"))
    chat.add(message_of("e", "message e"))
    assert len(chat) == 2
    assert facts.get(key).sources == ("a",)
    assert [each.text for each in facts.evidence(key)] == [None]
    chat.reset_memory()
    assert facts.get(key) is not None  # the message was gone long before
    chat.clear()
    assert facts.get(key) is None  # this is about all of the conversation, whenever it was said


# -- threads ---------------------------------------------------------------------------------------------------------


def unusable_answer(_, some):
    """An unusable answer for nonsense, or an alias proposal."""
    text = " ".join(each.text for each in some)
    if "nonsense" in text:
        return f"I cannot say what to make of {text}"
    same = dict(zip(("name", "same_as"), text.split(), strict=False))
    return {"facts": [], "same": [{**same, "why": text}]} if "alias" in text else None


def remembering(memory, **options):
    """A graph that extracts facts from its messages."""
    return line(memory.checkpointer, memory.remember_facts(Scripted(meanwhile=unusable_answer), **options))


def waiting_graph(memory):
    """A graph whose left node has finished while its right node is interrupted."""

    def left(state, config):
        memory.facts(config).add_fact(*MAYA, state["log"][-1], source=(state["log"][-1], "t"))

    def right(state):
        interrupt("Well?")

    return beside(memory.checkpointer, left=left, right=right)


class TestThreads:
    def test_removed_message_leaves_past_checkpoints_and_forks(self, memory):
        graph = remembering(memory)
        for said in ("Maya lives in Oslo", "Maya lives in Rome", "Ben likes figs indeed"):
            graph.invoke({"messages": [HumanMessage(said, id=said)]}, at())
        early = list(memory.checkpointer.list(at()))[-3].config
        graph.invoke({"messages": [HumanMessage("Ben likes rice indeed", id="rice")]}, early)
        memory.checkpointer.copy_thread("t", "copy")
        chat = memory.conversation("t")
        points = [each.config for thread in ("t", "copy") for each in memory.checkpointer.list(at(thread))]
        before = [objects(memory, point) for point in points]
        assert {"Oslo", "rice", "Rome", "figs"} == set().union(*before)
        chat.remove_by_id("Maya lives in Oslo")
        chat.remove_by_id("rice")
        assert [objects(memory, point) for point in points] == [each - {"Oslo", "rice"} for each in before]

    @pytest.mark.parametrize("thread", ["t", "copy"])
    def test_removal_reaches_facts_waiting_for_a_checkpoint(self, memory, raw, thread):
        """If the thread is deleted, only the finished tasks of its copy identify the owner."""
        graph = waiting_graph(memory)
        graph.invoke({"log": ["Oslo"]}, at(), durability="sync")
        assert memory.admin.stats()["waiting_groups"] == 1
        if thread == "copy":
            memory.checkpointer.copy_thread("t", "copy")
            memory.checkpointer.delete_thread("t")
            say(memory, "t", "Oslo", namespace=("another",)).clear()
            rows = raw(memory, "select branch_id from memory where kind = 'fact' and deleted = 0")
            assert [row["branch_id"] for row in rows] == [None]
        say(memory, "t", "Oslo").remove_by_id("Oslo")
        graph.invoke(Command(resume="yes"), at(thread), durability="sync")
        assert memory.admin.stats()["waiting_groups"] == 0
        assert memory.facts(at(thread)).as_of() == []

    def test_removal_reaches_groups_on_two_branches(self, memory):
        def note(state, config):
            memory.facts(config).add_fact(*MAYA, "Oslo", source=("a", "t"))
            memory.facts(config).add_fact(*MAYA, "Rome", source=("b", "t"))

        graph = line(memory.checkpointer, line(True, note, state=Log), state=Log)
        graph.invoke({"log": ["one"]}, at(), durability="sync")
        configs = [each.config["configurable"] for each in memory.checkpointer.list(at())]
        [inside] = {each["checkpoint_ns"] for each in configs} - {""}
        views = [memory.facts(at()), memory.facts(at(checkpoint_ns=inside))]
        assert [len(each.history("Maya")) for each in views] == [2, 2]
        say(memory, "t", "a").remove_by_id("a")
        assert [[fact.object for fact in each.history("Maya")] for each in views] == [["Rome"], ["Rome"]]

    def test_thread_erasure_removes_inherited_facts_of_copies(self, memory):
        """A copy has the messages too, but inherits their facts until it extracts them."""
        graph = remembering(memory)
        graph.invoke({"messages": [HumanMessage("Maya lives in Oslo", id="a")]}, at())
        for copy in ("read", "unread"):
            memory.checkpointer.copy_thread("t", copy)
        graph.invoke({"messages": [HumanMessage("Maya likes tea indeed", id="b")]}, at("read"))
        assert objects(memory, at("unread")) == {"Oslo"}
        memory.erase(thread_id="t")
        assert objects(memory, at("unread")) == set()
        assert objects(memory, at("read")) == {"Oslo", "tea"}
        [oslo] = memory.facts(at("read")).as_of(obj="Oslo")
        assert {each.conversation_id for each in oslo.mentions} == {"read"}


def objects(memory, config):
    return {fact.object for fact in memory.facts(config).as_of()}


# -- traces ----------------------------------------------------------------------------------------------------------

SECRETS = ("zyxquorvex", "wubblefrond", "plovernook", "quixotry", "brindlefork", "jibtagged", "threadgrackle")
TELLING = ("zyxquorvex lives in wubblefrond", "nonsense about plovernook", "quixotry brindlefork alias, they say")


def tell_secrets(memory):
    """Store facts, corrections, failures and proposals that quote a thread, and others."""
    thread = "threadgrackle"
    shared = remembering(memory, branch="user", settings=FactsConfig(max_attempts=1))
    own = remembering(memory)
    facts = memory.facts("user")
    for number, said in enumerate((*TELLING, "Maya likes tea indeed")):
        for graph in (shared, own):
            graph.invoke({"messages": [HumanMessage(said, id=f"a{number}")]}, at(thread))
    [fact] = facts.history("zyxquorvex")
    facts.update(fact.id, obj="jibtagged")
    facts.fork("fork").update(fact.id, obj="jibtagged too")
    assert len(facts.failures()) == 1
    return thread


def traces(memory, url):
    pages = stored_bytes(memory, url)
    return sorted({word for content in pages.values() for word in SECRETS if word.encode() in content})


@pytest.mark.sqlite_suffices
class TestTraces:
    def test_erased_thread_leaves_no_bytes_in_storage(self, url, raw):
        with AgentMemory(url) as memory:
            thread = tell_secrets(memory)
            facts = memory.facts("user")
            facts.add_fact("user", "Ben", "likes", "figs")
            facts.add_fact("user", "Maya", "likes", "tea", source=("z", "another"))
            if memory.database.engine.dialect == "postgres":
                raw(memory, "analyze")
            assert traces(memory, url) == sorted(SECRETS)
            memory.erase(thread_id=thread)
            assert traces(memory, url) == []
            assert {fact.text for fact in facts.as_of()} == {"Maya likes tea", "Ben likes figs"}
            assert facts.failures() == []
            assert memory.admin.verify().problems == ()

    def test_erased_conversation_leaves_no_bytes_in_storage(self, url, monkeypatch):
        monkeypatch.setattr(fact_extraction, "MAX_BATCH_MESSAGES", 1)
        with AgentMemory(url) as memory:
            facts = memory.facts(
                "user", model=Scripted(meanwhile=unusable_answer), settings=FactsConfig(max_attempts=1)
            )
            for number, text in enumerate(TELLING):
                memory.conversation("chat").add(message_of(f"a{number}", text))
                facts.add(message_of(f"a{number}", text))
            facts.drain()
            [fact] = facts.history("zyxquorvex")
            facts.update(fact.id, obj="jibtagged")
            memory.facts("other").add_fact(*MAYA, "threadgrackle", source=("a1", "chat"))
            facts.remove_by_id(fact.id)
            assert traces(memory, url) == sorted(SECRETS)
            memory.erase(conversation_id="chat")
            assert traces(memory, url) == []
            assert memory.admin.verify().problems == ()


@pytest.mark.sqlite_suffices
class TestRemovalDuringExtraction:
    @pytest.mark.parametrize("answer", ["no", "wrong"])
    def test_answer_about_a_removed_message_is_discarded(self, url, answer):
        """The answer may quote the removed message."""
        with AgentMemory(url) as memory:
            chat = memory.conversation("chat")

            def model(messages):
                shown = str(messages[-1].content)
                chat.remove_by_id("a")
                if answer == "no":
                    return f"What am I to make of {shown}"
                told = {"subject": "Maya", "predicate": "likes", "object": "zyxquorvex", "message": 1}
                same = {"name": "zyxquorvex", "same_as": "Maya", "why": "zyxquorvex"}
                return json.dumps({"facts": [told, {"subject": shown}], "same": [same]})

            facts = memory.facts("user", settings=FactsConfig(max_attempts=1))
            for key, text in (("a", "zyxquorvex"), ("b", "Maya likes tea")):
                chat.add(message_of(key, text))
                facts.add(message_of(key, text))
            asked = memory.facts("user", model=model, settings=FactsConfig(max_attempts=1))
            asked.drain()
            assert asked.pending_count() == (1 if answer == "no" else 0)
            # Neither a search nor a look at failures would still tell of what is gone.
            told = [*(fact.text for fact in facts.search("zyxquorvex")), *map(repr, facts.failures())]
            assert "zyxquorvex" not in " ".join(told)
            assert facts.as_of() == []
