"""Events for tests of hooks, and the warnings logged for hooks."""

from datetime import UTC, datetime

from langchain_agentmem.base.events import MemoryResetEvent, MessagesStored, MessageUpdated

STORED = MessagesStored(namespace=("acme",), conversation_id="c", message_ids=("m1", "m2"))
UPDATED = MessageUpdated(namespace=("acme",), conversation_id="c", message_id="m1")
RESET = MemoryResetEvent(agent_name="Researcher", timestamp=datetime(2026, 1, 2, tzinfo=UTC))


def warnings_in(caplog):
    return [record for record in caplog.records if record.name == "langchain_agentmem.base.hooks"]
