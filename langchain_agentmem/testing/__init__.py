"""Contract suites for LangGraph stores, to inherit in the tests of any `BaseStore`. Needs the extra `[testing]`.

    import pytest

    from langchain_agentmem import AgentMemoryStore  # or yours
    from langchain_agentmem.testing import ExpiringStoreContract, IndexedStoreContract, StoreContract


    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self):
            with AgentMemoryStore.from_conn_string(":memory:") as store:
                yield store

`StoreContract` is what every store must do, `IndexedStoreContract` what it must do with vectors, and
`ExpiringStoreContract` with a time to live; inherit each in a class of its own. Every test runs once through the
synchronous methods and once through the awaited ones; `ways` says which of them a store has. A test that a store is
known to fail is named in `known_defects` with the reason; it has to fail then, so that a mended defect is noticed.

LangGraph publishes no such suite, and where the stores that it ships disagree, this one takes a side: `$ne` matches a
missing key and the operators of order do not; nested and dotted keys both match; without a query the item that was
updated last comes first, and of those of one time the smaller key.

And for messages: `assert_valid_for_providers(messages)` fails where a provider would refuse them, and
`provider_problems(messages)` says why. No fixture is needed.
"""

from __future__ import annotations

import pytest

for _module in ("batching", "calling", "expiring", "filtering", "indexing", "keeping", "naming", "searching"):
    pytest.register_assert_rewrite(f"{__name__}.{_module}")  # so that a failure shows both sides

from langchain_agentmem.testing.batching import BatchContract  # noqa: E402
from langchain_agentmem.testing.calling import Calls, Contract  # noqa: E402
from langchain_agentmem.testing.embeddings import WordEmbeddings  # noqa: E402
from langchain_agentmem.testing.expiring import ExpiringStoreContract  # noqa: E402
from langchain_agentmem.testing.filtering import FilterContract  # noqa: E402
from langchain_agentmem.testing.indexing import IndexedStoreContract  # noqa: E402
from langchain_agentmem.testing.keeping import KeepingContract  # noqa: E402
from langchain_agentmem.testing.naming import NamespaceContract  # noqa: E402
from langchain_agentmem.testing.providers import assert_valid_for_providers, provider_problems  # noqa: E402
from langchain_agentmem.testing.searching import SearchContract  # noqa: E402

__all__ = [
    "Calls",
    "Contract",
    "ExpiringStoreContract",
    "IndexedStoreContract",
    "StoreContract",
    "WordEmbeddings",
    "assert_valid_for_providers",
    "provider_problems",
]


class StoreContract(KeepingContract, NamespaceContract, SearchContract, FilterContract, BatchContract):
    """What every LangGraph store must do. The fixture `store` is to be supplied."""
