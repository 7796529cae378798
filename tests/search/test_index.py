"""Updates and rebuilds of the full-text index."""

from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory, Message
from langchain_agentmem.messages import message as messages
from langchain_agentmem.search import analysis, search_index


def texts(memory, query):
    return sorted(each.text for each in memory.search(query, limit=1000))


def test_edits_and_removals_update_indexed_and_unindexed_documents(memory, raw):
    chat = memory.conversation("c")
    early = [chat.add(role="user", content=f"early {n}") for n in range(4)]
    memory.database.engine.write(search_index.index_waiting)
    late = [chat.add(role="user", content=f"late {n}") for n in range(4)]
    for number, ids in enumerate((early, late)):
        chat.update(ids[0], content=f"edited once {number}")
        chat.update(ids[1], content="edited once")
        chat.update(ids[1], content=f"edited twice {number}")
        chat.remove_by_id(ids[2])
        chat.update(ids[3], content="gone")
        chat.remove_by_id(ids[3])
    for _ in range(2):
        assert texts(memory, "edited") == ["edited once 0", "edited once 1", "edited twice 0", "edited twice 1"]
        assert texts(memory, "once") == ["edited once 0", "edited once 1"]
        for word in ("early", "late", "gone"):
            assert texts(memory, word) == []
        assert memory.admin.verify().problems == ()
        memory.database.engine.write(search_index.index_waiting)
    for message in chat.messages:
        chat.update(message.id, content="")
    assert texts(memory, "edited") == []
    memory.database.engine.write(search_index.index_waiting)
    if memory.database.engine.dialect == "sqlite":
        raw(memory, "create virtual table temp.words using fts5vocab (main, search_index, row)")
        assert raw(memory, "select term from temp.words") == []


def test_database_of_another_analysis_version_is_reindexed(url, monkeypatch):
    with AgentMemory(url) as memory:
        chat = memory.conversation("c")
        chat.add_messages([HumanMessage(f"word{n}") for n in range(100)])
        chat.update(chat.messages[3].id, content="changed")
        memory.session("c").create_round("query")
    real = analysis._split_text
    monkeypatch.setattr(analysis, "VERSION", analysis.VERSION + 1)
    monkeypatch.setattr(analysis, "_split_text", lambda text: [term[::-1] for term in real(text)])
    with AgentMemory(url) as memory:
        assert [texts(memory, word) for word in ("word7", "changed", "query")] == [["word7"], ["changed"], ["query"]]
        chat = memory.conversation("c")
        chat.remove_by_id(chat.messages[7].id)
        assert texts(memory, "word7") == []
        assert memory.admin.verify().problems == ()


def test_reindexing_adds_arguments_of_older_tool_calls(url, monkeypatch):
    calls = [{"id": f"c{n}", "name": "look", "arguments": {"city": f"Lisbon{n}"}} for n in range(3)]
    with monkeypatch.context() as before:
        before.setattr(analysis, "VERSION", analysis.VERSION - 1)
        before.setattr(messages, "_join_arguments", lambda text, calls: text)
        with AgentMemory(url) as memory:
            said = [Message(role="assistant", content=f"word{n}", tool_calls=[calls[n]]) for n in range(3)]
            memory.conversation("c").add_messages(said)
            assert texts(memory, "Lisbon1") == []
    with AgentMemory(url) as memory:
        chat = memory.conversation("c")
        [hit] = memory.search("Lisbon1")
        assert hit.id == chat.messages[1].id
        chat.remove_by_id(hit.id)
        assert texts(memory, "Lisbon1") == []
        assert len(texts(memory, "Lisbon0")) == 1
        assert memory.admin.verify().problems == ()
