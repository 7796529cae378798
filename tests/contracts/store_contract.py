"""Contract suites for LangGraph stores, which tests of a `BaseStore` inherit.

    from tests.contracts.store_contract import ExpiringStoreContract, IndexedStoreContract, StoreContract


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
"""

from __future__ import annotations

import pytest

for _name in ("batching", "calling", "expiring", "filtering", "indexing", "keeping", "naming", "searching"):
    pytest.register_assert_rewrite(f"tests.contracts.store_{_name}")  # so that a failure shows both sides

from tests.contracts.store_batching import BatchContract  # noqa: E402
from tests.contracts.store_expiring import ExpiringStoreContract  # noqa: E402
from tests.contracts.store_filtering import FilterContract  # noqa: E402
from tests.contracts.store_indexing import IndexedStoreContract  # noqa: E402
from tests.contracts.store_keeping import KeepingContract  # noqa: E402
from tests.contracts.store_naming import NamespaceContract  # noqa: E402
from tests.contracts.store_searching import SearchContract  # noqa: E402

__all__ = ["ExpiringStoreContract", "IndexedStoreContract", "StoreContract"]


class StoreContract(KeepingContract, NamespaceContract, SearchContract, FilterContract, BatchContract):
    """What every LangGraph store must do. The fixture `store` is to be supplied."""
