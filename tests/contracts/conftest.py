"""A failure of a contract shows both sides."""

import pytest

pytest.register_assert_rewrite(*(f"tests.contracts.store_{name}" for name in ("contract", "expiring", "indexing")))
