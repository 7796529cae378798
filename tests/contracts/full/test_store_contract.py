"""The contract suite for stores, proved on the stores of LangGraph: it finds every defect known of them."""

from __future__ import annotations

from typing import ClassVar

import pytest
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from tests.contracts.store_contract import ExpiringStoreContract, IndexedStoreContract, StoreContract

pytestmark = pytest.mark.slow("in every form")


class TestInMemoryStore(StoreContract):
    """LangGraph's store in memory."""

    known_defects: ClassVar = {
        "test_an_update_keeps_created_at": "an update sets created_at anew",
        "test_what_was_put_stays_the_callers": "only the outermost dictionary of a value is copied",
        "test_what_was_got_stays_the_stores": "a value that is read is the very one that is stored",
        "test_what_is_not_json_is_refused": "a value may be anything",
        "test_a_batch_is_written_whole_or_not_at_all": "a value may be anything, so nothing is refused",
        "test_a_batch_refuses_an_invalid_label_too": "operations are not checked",
        "test_a_namespace_without_items_is_not_listed": "a namespace outlives its last item",
        "test_what_was_updated_last_comes_first": "the order is that of insertion",
        "test_of_one_time_the_smaller_key_comes_first": "the order is that of insertion",
        "test_operators_compare_texts": "the operators of order take numbers only: ValueError",
        "test_a_missing_key_has_no_order": "the operators of order fail on a missing key: TypeError",
        "test_values_of_other_kinds_have_no_order": "the operators of order fail on a text: ValueError",
        "test_dotted_keys_match": "a dotted key means nothing",
    }

    @pytest.fixture
    def store(self):
        return InMemoryStore()


class TestInMemoryStoreWithVectors(IndexedStoreContract):
    """The same with embeddings."""

    known_defects: ClassVar = {
        "test_one_text_may_come_twice_in_a_batch": "it is embedded once and expected twice: ValueError",
        "test_what_is_indexed_no_more_leaves_no_old_vector": "vectors of the value before stay",
    }

    @pytest.fixture
    def make_store(self):
        return lambda index: InMemoryStore(index=index)


# From Python 3.12 on, sqlite3 says so whenever it is given a time, and this store gives it times.
tells_sqlite3_times = pytest.mark.filterwarnings(
    "ignore:The default datetime adapter is deprecated:DeprecationWarning:langgraph.store.sqlite.base"
)


@tells_sqlite3_times
class TestSqliteStore(StoreContract):
    """LangGraph's store on SQLite. Its `abatch` is not implemented; `AsyncSqliteStore` has no synchronous methods."""

    ways = ("sync",)
    known_defects: ClassVar = {
        "test_an_update_keeps_created_at": "an update inserts the row anew",
        "test_times_are_in_utc": "times have no time zone",
        "test_what_is_put_after_a_deletion_is_new": "times are whole seconds",
        "test_what_was_updated_last_comes_first": "times are whole seconds",
        "test_of_one_time_the_smaller_key_comes_first": "of one time the order is not defined",
        "test_what_json_has_no_word_for_is_refused_or_kept_exactly[a time]": "a time becomes a text",
        "test_a_value_must_be_equal[a list]": "a list never matches",
        "test_a_value_must_be_equal[a key with quotes]": "such keys are refused",
        "test_a_value_must_be_equal[a key with a space]": "such keys are refused",
        "test_a_value_must_be_equal[a key with a percent sign]": "such keys are refused",
        "test_a_missing_key_is_not_equal": "$ne does not match a missing key",
        "test_every_key_must_match": "$ne does not match a missing key",
        "test_values_of_other_kinds_have_no_order[$lt]": "texts are compared with numbers",
        "test_values_of_other_kinds_have_no_order[$lte]": "texts are compared with numbers",
        "test_nested_keys_match": "a nested key is taken for an operator: ValueError",
    }

    @pytest.fixture
    def store(self):
        with SqliteStore.from_conn_string(":memory:") as store:
            store.setup()
            yield store


OVER = "items whose time is over are read until somebody sweeps"


@tells_sqlite3_times
class TestSqliteStoreWithExpiry(ExpiringStoreContract):
    """The same with a time to live. Its clock is the database's, so time passes by setting back what is stored."""

    ways = ("sync",)
    kind = SqliteStore
    known_defects: ClassVar = {
        "test_an_item_is_gone_when_its_time_is_over": OVER,
        "test_the_default_is_for_items_without_a_time_of_their_own": OVER,
        "test_a_fraction_of_a_minute_counts": OVER,
        "test_a_call_decides_before_the_configuration[False-True]": OVER,
        "test_a_call_decides_before_the_configuration[False-False]": OVER,
        "test_a_call_decides_before_the_configuration[False-None]": OVER,
        "test_a_call_decides_before_the_configuration[None-False]": OVER,
        "test_reading_does_not_bring_back_what_is_over": OVER,
        "test_an_update_sets_the_time_anew": OVER,
        "test_what_is_put_after_its_end_is_new": "an update inserts the row anew, and times are whole seconds",
        "test_limits_do_not_count_what_is_over": OVER,
    }

    @pytest.fixture
    def make_store(self):
        opened = []

        def make(ttl):
            context = self.kind.from_conn_string(":memory:", ttl=ttl)
            store = context.__enter__()
            opened.append((context, store))
            store.setup()
            return store

        make.opened = opened
        yield make
        for context, _ in opened:
            context.__exit__(None, None, None)

    @pytest.fixture
    def pass_minutes(self, make_store):
        def set_back(minutes):
            for _, store in make_store.opened:
                for column in ("created_at", "updated_at", "expires_at"):
                    store.conn.execute(
                        f"update store set {column} = datetime({column}, ?)", (f"-{minutes * 60} seconds",)
                    )

        return set_back


class SweptStore(SqliteStore):
    """The store on SQLite, swept before everything that it does."""

    def batch(self, ops):
        self.sweep_ttl()
        return super().batch(ops)


class TestSweptStore(TestSqliteStoreWithExpiry):
    """Where somebody always sweeps, the store keeps the contract of expiry: the suite asks for nothing more."""

    kind = SweptStore
    known_defects: ClassVar = {
        "test_a_call_decides_before_the_configuration[True-False]": "the configuration decides before the call",
        "test_a_call_decides_before_the_configuration[True-None]": "the configuration decides before the call",
        "test_a_call_decides_before_the_configuration[None-None]": "it has to be configured",
        "test_what_is_put_after_its_end_is_new": "the clock of this test stands still, and rows go back instead",
    }
