import pytest

pytest.register_assert_rewrite(*(f"tests.contracts.store_{name}" for name in ("contract", "expiring", "indexing")))


@pytest.fixture
def store(memory):
    return memory.store
