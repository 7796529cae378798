import pytest

from langchain_agentmem.audit.audit_trail import AuditTrail


@pytest.fixture
def trail(memory):
    return memory.audit


@pytest.fixture
def ann(memory):
    return AuditTrail(memory, ("ann",))


@pytest.fixture
def bob(memory):
    return AuditTrail(memory, ("bob",))
