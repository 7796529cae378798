"""Concurrent writers of the audit trail lose no entry, and the chain stays valid."""

from concurrent.futures import ThreadPoolExecutor

import psycopg

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit.audit_trail import AuditTrail
from langchain_agentmem.upkeep import integrity
from tests.emptying import direct
from tests.support.locks import await_waiter


def add(trail, name, count):
    return [trail.add(f"Where is {name}-{number}?", "At home.", name).id for number in range(count)]


def test_concurrent_writes_archiving_and_erasure_keep_all_entries(memory):
    trail = memory.audit
    ann = AuditTrail(memory, ("ann",))

    def others(_):
        trail.filter_junk()
        trail.search("home")
        trail.archive(memory.database.clock())
        assert trail.verify().ok
        ann.add("Where is Ann?", "At home.")
        memory.database.write("care.erase", lambda tx: integrity.erase(tx, namespace=("ann",)))

    with ThreadPoolExecutor(4) as pool:
        work = [pool.submit(add, trail, f"t{number}", 60) for number in range(3)]
        list(pool.map(others, range(5)))
        added = [each for one in work for each in one.result()]
    assert {each.id for each in trail.last(999)} == set(added)
    assert memory.admin.verify().ok


def test_add_waiting_for_namespace_erasure_uses_new_namespace(new_database):
    """On PostgreSQL a statement that waited for a lock sees the rest of the database as it was before it waited."""
    erase = (
        """update audit set salt = null, namespace_id = null, key = null, kind = null, hidden = null, created_at = null,
            archived = null, body = null""",
        "delete from namespace where path <> ''",
    )
    with AgentMemory(new_database("postgres")) as memory, ThreadPoolExecutor(1) as pool:
        ann = AuditTrail(memory, ("ann",))
        ann.add("Where is Ann?", "At home.")
        with psycopg.connect(direct(memory.database.engine._url), options="-c search_path=agentmem") as connection:
            connection.execute("select * from audit_head for update")
            adding = pool.submit(ann.add, "Where is Bob?", "At home.")
            await_waiter(connection, adding)
            for sql in erase:
                connection.execute(sql)
        added = adding.result()
        assert ann.last() == [added]
        assert memory.admin.verify().ok


def test_concurrent_duplicate_todos_and_references_are_stored_once(memory):
    trail = memory.audit
    with ThreadPoolExecutor(6) as pool:
        todos = list(pool.map(lambda _: trail.add_todo_from_chat("Fix the build. Add a test."), range(12)))
        references = list(pool.map(lambda _: trail.add_reference("Be kind.", "Manners"), range(12)))
    assert sorted(each.prompt for found in todos for each in found) == ["[TODO] Add a test.", "[TODO] Fix the build."]
    assert len({each.id for each in references}) == 1
    assert trail.head().sequence == 3
