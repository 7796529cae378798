"""Rewrites the assertions of the contracts, so that a failure shows both values."""

import pytest

pytest.register_assert_rewrite(*(f"tests.contracts.store_{name}" for name in ("contract", "expiring", "indexing")))
