"""Lists of threads, conversations and branches with sizes, and the history of checkpoints without values."""

from dataclasses import replace

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from langchain_agentmem import AgentMemorySaver, InvalidInput
from langchain_agentmem.errors import CheckpointUnreadable
from langchain_agentmem.messages.role_rounds import Post
from tests.support.graphs import at, line


def talking(memory):
    return line(memory.checkpointer, lambda state: {"messages": [AIMessage(f"answer {len(state['messages'])}")]})


def id_in(config):
    return config["configurable"]["checkpoint_id"]


def say(graph, text, config):
    graph.invoke({"messages": [HumanMessage(text)]}, config)


class TestThreads:
    def test_thread_and_conversation_are_merged_newest_first(self, memory):
        graph = talking(memory)
        say(graph, "hello", at("both"))
        say(graph, "hello", at("only", agentmem_namespace=("ada",)))
        memory.conversation("both").add_user_message("hello")
        memory.conversation("talk", ("ada", "private")).add_messages([HumanMessage("a"), AIMessage("b")])
        found = memory.admin.threads()
        assert found.total == 3
        assert [(each.namespace, each.thread_id, each.checkpoints, each.messages) for each in found.threads] == [
            (("ada", "private"), "talk", 0, 2),
            ((), "both", 3, 3),
            (("ada",), "only", 3, 2),
        ]
        by_id = {each.thread_id: each for each in found.threads}
        assert by_id["talk"].checkpoint_id is None
        assert by_id["both"].checkpoint_id == id_in(memory.checkpointer.get_tuple(at("both")).config)
        changed = [each.changed_at for each in found.threads]
        assert changed == sorted(changed, reverse=True)

    async def test_threads_are_filtered_by_namespace_and_id(self, memory):
        for namespace in ((), ("ada",), ("ada", "private"), ("adam",)):
            memory.conversation("talk", namespace).add_user_message("hello")
        memory.conversation("other", ("ada",)).add_user_message("hello")
        assert memory.admin.threads(("ada",)).total == 3
        assert memory.admin.threads(thread_id="talk").total == 4
        few = await memory.admin.athreads(("ada",), thread_id="talk", limit=1)
        assert ([each.namespace for each in few.threads], few.total) == ([("ada", "private")], 2)
        pages = [memory.admin.threads(limit=2, offset=offset) for offset in (0, 2, 4, 6)]
        assert [[each.namespace for each in page.threads] for page in pages] == [
            [("ada",), ("adam",)], [("ada", "private"), ("ada",)], [()], [],
        ]  # fmt: skip
        assert {page.total for page in pages} == {5}
        assert memory.admin.threads(limit=0).threads == ()
        for wrong in ({"limit": -1}, {"limit": True}, {"limit": "3"}, {"offset": -1}):
            with pytest.raises(InvalidInput, match=next(iter(wrong))):
                memory.admin.threads(**wrong)
        with pytest.raises(InvalidInput):
            memory.admin.threads("ada")

    def test_title_is_the_first_user_message(self, memory):
        graph = talking(memory)
        say(graph, "Which\n  birds\tnest here? " + "x" * 500, at("birds"))
        chat = memory.conversation("edited")
        chat.add_messages([AIMessage("Welcome."), HumanMessage("Wher?", id="q")])
        chat.update("q", content="Where?")
        memory.conversation("unasked").add_ai_message("Hello.")
        say(graph, "first", at("rewound"))
        graph.update_state(at("rewound"), {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES)]})
        titles = {each.thread_id: each.title for each in memory.admin.threads().threads}
        assert titles.pop("birds") == "Which birds nest here? " + "x" * 96 + "…"
        assert titles == {"edited": "Where?", "unasked": "", "rewound": "first"}

    def test_query_matches_one_message_or_the_id(self, memory):
        say(talking(memory), "Our herons nest in the alders.", at("one", agentmem_namespace=("ada",)))
        memory.conversation("two", ("ben",)).add_messages([HumanMessage("A heron!"), AIMessage("In an alder?")])
        memory.conversation("heron-3").add_user_message("hello")

        def found(query, namespace=()):
            return {each.thread_id for each in memory.admin.threads(namespace, query=query).threads}

        assert found("heron") == {"one", "two", "heron-3"}
        assert found("heron alder") == {"one"}
        assert found("heron", ("ben",)) == {"two"}
        assert found("ron-3") == {"heron-3"}
        for nothing in ("Heron-3", "%", "_", '"', "heron or nothing", "\0", "\ud800", "...", "heron -zebra*"):
            assert found(nothing) == set(), nothing
        assert len(found("")) == 3

    def test_threads_are_filtered_by_role_and_change_time(self, memory, clock):
        memory.conversation("asked").add_user_message("hello")
        then = clock()
        team = memory.session("team")
        team.add_post(team.create_round("Plan it.").id, Post.create("Plan it.", "User", "Planner"))
        team.add_post(team.create_round("Go on.").id, Post.create("Begin.", "Planner", "Coder"))
        memory.conversation("told").add_ai_message("hello")

        def found(**wanted):
            return {each.thread_id for each in memory.admin.threads(**wanted).threads}

        assert found(role="user") == {"asked", "team"}
        assert found(role="Planner") == {"team"}
        assert found(role="tool") == found(role="\0") == set()
        assert found(since=then) == {"team", "told"}
        assert found(until=then) == {"asked"}
        assert found(since=then, role="user", query="plan") == {"team"}
        [told] = memory.admin.threads(thread_id="told").threads
        assert found(since=told.changed_at) == {"told"}
        assert found(until=told.changed_at) == {"asked", "team"}
        for wrong in ({"since": "today"}, {"until": 3}, {"role": 3}, {"query": b"a"}, {"sizes": None}):
            with pytest.raises(InvalidInput):
                memory.admin.threads(**wrong)

    def test_shared_content_counts_once_and_sizes_are_optional(self, memory):
        say(talking(memory), text := "x" * 50_000, at())
        alone = memory.admin.threads().threads[0].bytes
        memory.conversation("t").add_user_message(text)  # which the two share
        assert 50_000 < alone <= memory.admin.threads().threads[0].bytes < 1.1 * alone
        [with_sizes], [without] = memory.admin.threads().threads, memory.admin.threads(sizes=False).threads
        assert with_sizes.checkpoints == 3
        assert without == replace(with_sizes, checkpoints=None, forks=None, bytes=None)
        memory.erase(thread_id="t")
        assert memory.admin.threads().total == 0


async def test_parents_precede_forks_and_count_own_entries(memory):
    main = memory.layers("main", ("ada",))
    main.core.set("name", "Ada")
    main.core.set("name", "Ada L.")
    draft = main.fork("draft")
    draft.archival.write("a record")
    draft.fork("deep")
    memory.layers("main").core.set("name", "Ben")
    found = memory.admin.branches()
    assert [(each.namespace, each.name, each.parent, each.own_entries) for each in found] == [
        ((), "main", None, 1),
        (("ada",), "main", None, 1),
        (("ada",), "draft", "main", 1),
        (("ada",), "deep", "draft", 0),
    ]
    assert await memory.admin.abranches(("ada",)) == found[1:]
    assert memory.admin.branches(("nobody",)) == []


class TestHistory:
    async def test_history_equals_list_without_values(self, memory):
        graph = talking(memory)
        for text in ("one", "two"):
            say(graph, text, at())
        saver, asked = memory.checkpointer, ("step", "source")
        say(graph, "other", at(checkpoint_id=saver.history(at()).checkpoints[3].checkpoint_id))
        every = [
            (id_in(each.config), each.parent_config and id_in(each.parent_config), *map(each.metadata.get, asked))
            for each in saver.list(at())
        ]
        found = saver.history(at())
        assert [(each.checkpoint_id, each.parent_id, each.step, each.source) for each in found.checkpoints] == every
        assert found.total == len(every) == 9
        few = await saver.ahistory(at(), limit=2)
        assert (few.checkpoints, few.total) == (found.checkpoints[:2], 9)

    def test_history_page_starts_at_offset_or_around_checkpoint(self, memory):
        graph, saver = talking(memory), memory.checkpointer
        for text in ("one", "two", "three"):
            say(graph, text, at())
        every = saver.history(at()).checkpoints
        for asked, first in (
            ({"offset": 3}, 3),
            ({"offset": 10}, 9),
            *(({"around": every[place].checkpoint_id}, first) for place, first in ((4, 2), (1, 0), (8, 6))),
        ):
            page = saver.history(at(), limit=4, **asked)
            assert (page.checkpoints, page.total, page.newer) == (every[first : first + 4], 9, first)

    def test_history_counts_children_and_lists_leaves(self, memory):
        graph, saver = talking(memory), memory.checkpointer
        assert saver.history(at(), ends=True).total == 0
        say(graph, "one", at())
        first = saver.history(at()).checkpoints[0].checkpoint_id
        for text in ("two", "three"):
            say(graph, text, at(checkpoint_id=first))
        found = saver.history(at())
        followers = {each.checkpoint_id: each.followers for each in found.checkpoints}
        assert followers[first] == 2
        [thread] = memory.admin.threads().threads
        assert thread.forks == 1
        ends = saver.history(at(), ends=True)
        assert [each.checkpoint_id for each in ends.checkpoints] == [
            each for each, more in followers.items() if not more
        ]
        assert (ends.total, saver.history(at(), ends=True, limit=1, offset=1).newer) == (2, 1)

    def test_missing_thread_is_empty_and_invalid_arguments_refused(self, memory):
        saver = memory.checkpointer
        assert saver.history(at("nobody")).checkpoints == ()
        for config, asked in (({}, {}), *((at(), {name: -1}) for name in ("limit", "offset", "around"))):
            with pytest.raises(InvalidInput):
                saver.history(config, **asked)

    def test_damage_error_names_the_checkpoint(self, memory, raw):
        say(talking(memory), "one", at())
        newest = memory.checkpointer.history(at()).checkpoints[0].checkpoint_id
        raw(memory, "update checkpoint set metadata = head where name = :name", name=newest)
        with pytest.raises(CheckpointUnreadable, match=newest):
            AgentMemorySaver(memory).history(at())
