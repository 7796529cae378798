"""Runs that LangSmith receives from its own client."""

import langsmith
from langchain_core.tracers.context import tracing_v2_enabled
from langsmith import get_current_run_tree, run_trees, traceable, tracing_context

from tests.tracing.conftest import forget_environment
from tests.tracing.loopback import arrive
from tests.tracing.trees import remember


class TestLangSmith:
    def test_environment_variable_enables_tracing_outside_graphs(self, tracing, server, langsmith_on):
        remember(tracing)
        arrive(langsmith_on)

        run = server.run("memory.conversation.add")
        assert run["inputs"] == {"messages": 2}
        assert run["outputs"] == {"ids": ["m1", "m2"]}
        assert run["extra"]["metadata"]["agentmem_database"] == "sqlite"

    def test_context_manager_enables_tracing_outside_graphs(self, tracing, server, client):
        for switched_on in (tracing_v2_enabled(client=client), tracing_context(enabled=True, client=client)):
            with switched_on:
                remember(tracing)
        arrive(client)

        assert server.shapes == [("memory.conversation.add", [])] * 2

    def test_step_nests_between_traceable_functions(self, tracing, server, langsmith_on):
        @traceable(name="inner")
        def inner():
            return 1

        @traceable(name="outer")
        def outer():
            with tracing.step("memory.compaction.run"):
                assert get_current_run_tree().name == "memory.compaction.run"
                inner()
                remember(tracing)
            assert get_current_run_tree().name == "outer"
            inner()

        outer()
        arrive(langsmith_on)

        assert server.shapes == [
            ("outer", [("memory.compaction.run", [("inner", []), ("memory.conversation.add", [])]), ("inner", [])])
        ]

    def test_unreachable_server_changes_nothing(self, tracing, monkeypatch, heard):
        monkeypatch.setenv("LANGSMITH_TRACING", "true")
        monkeypatch.setenv("LANGSMITH_ENDPOINT", "http://127.0.0.1:1")
        monkeypatch.setenv("LANGSMITH_API_KEY", "not-a-key")
        forget_environment()
        client = langsmith.Client()
        monkeypatch.setattr(run_trees, "_CLIENT", client)
        try:
            assert remember(tracing).has_listeners
        finally:
            client.cleanup(timeout=0)
            client.session.close()
