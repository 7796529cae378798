"""LangGraph's own tests, with our checkpointer and store in place of the stock ones: a command, and its pytest plugin.

    python tests/contracts/langgraph_suite.py            # with the stock classes, then with ours, and what differs
    python tests/contracts/langgraph_suite.py --keep /tmp/suites -k weather

It takes the tests of the installed versions from their source distributions on PyPI, with pip, into a temporary folder,
and ends with 1 if a test fails with ours that passes with the stock ones and is not named in `DIFFERENT`. What it found
that had to be mended is in `test_langgraph_cases.py`, which needs no network.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

REPLACED = "AGENTMEM_SUITE_REPLACES"
REPORT = "AGENTMEM_SUITE_REPORT"
NEEDED = ("pytest-mock", "redis")
"""What the suites import beside what the tests of this package do; installed into the temporary folder."""

SUITES: dict[str, tuple[str, ...]] = {
    "langgraph": ("-k", "sqlite or in_memory", "-p", "no:asyncio"),
    "langgraph-checkpoint-sqlite": (),
}
"""The packages, and which of their tests are run: those that a saver or store of ours can stand in."""

TABLES = "it looks into the tables of the stock class, or migrates them"
BOTH_WAYS = "one class serves both ways, so a synchronous call in a running loop is served"
FILTERS = "no key of a filter is refused: none is put into SQL"
NOT_NEW = "it puts values and says that no channel is new, where only new ones are stored"
DIFFERENT = {
    "test_no_running_loop": BOTH_WAYS,
    "test_informative_async_errors": BOTH_WAYS,
    "test_checkpoint_search_sql_injection_prevention": FILTERS,
    "test_sql_injection_vulnerability": FILTERS,
    "test_namespace_labels_with_trailing_newline": "labels have no control characters",
    "test_scores": "a search by words and vectors has scores of its own",
    "test_vector_store_initialization": TABLES,
    "test_nonnull_migrations": TABLES,
    "test_writes_task_path_migration.py": TABLES,
    "test_walk_step_looks_up_the_parent_by_primary_key": TABLES,
    "test_delta_parent_walk.py": NOT_NEW,
    "test_seed_present_when_snapshot_in_ancestor_sync": NOT_NEW,
    "test_ttl_override_default": "reading puts the end off unless told otherwise, as LangGraph documents it",
}
"""What fails with ours, and why it may. The key is a part of the test's name."""


def pytest_configure(config: Any) -> None:
    """Put our classes where the suites import the stock ones from, before they do."""
    if os.environ.get(REPLACED) != "yes":
        return
    import langgraph.checkpoint.sqlite
    import langgraph.checkpoint.sqlite.aio
    import langgraph.store.memory
    import langgraph.store.sqlite
    import langgraph.store.sqlite.aio

    from langchain_agentmem import AgentMemorySaver, AgentMemoryStore

    class Store(AgentMemoryStore):
        """Made of nothing, as `InMemoryStore` is."""

        def __init__(self, memory: Any = ":memory:", **options: Any) -> None:
            super().__init__(memory, **options)

    langgraph.checkpoint.sqlite.SqliteSaver = AgentMemorySaver  # type: ignore[misc,assignment]
    langgraph.checkpoint.sqlite.aio.AsyncSqliteSaver = AgentMemorySaver  # type: ignore[misc,assignment]
    langgraph.store.memory.InMemoryStore = Store  # type: ignore[misc,assignment]
    for module in (langgraph.store.sqlite, langgraph.store.sqlite.aio):
        module.SqliteStore = module.AsyncSqliteStore = AgentMemoryStore  # type: ignore[attr-defined]


outcomes: dict[str, str] = {}


def pytest_runtest_logreport(report: Any) -> None:
    """Remember what came of each test."""
    if report.when == "call" or report.failed:
        outcomes[report.nodeid] = "failed" if "failed" in (report.outcome, outcomes.get(report.nodeid)) else "passed"


def pytest_sessionfinish() -> None:
    """Write it down."""
    if os.environ.get(REPORT):
        Path(os.environ[REPORT]).write_text(json.dumps(outcomes))


def fetched(package: str, folder: Path) -> Path:
    """The source distribution of the installed version of a package, unpacked."""
    name = f"{package.replace('-', '_')}-{version(package)}"
    if not (folder / name).is_dir():
        pip("download", "--no-binary", package, "--dest", folder, f"{package}=={version(package)}")
        with tarfile.open(next(folder.glob(f"{name}.tar.gz"))) as archive:
            archive.extractall(folder, filter="data")
    return folder / name


def pip(command: str, *arguments: Any) -> None:
    """Run pip quietly, without dependencies."""
    subprocess.run([sys.executable, "-m", "pip", command, "--quiet", "--no-deps", *map(str, arguments)], check=True)


def run(suite: str, folder: Path, extra: Path, more: Sequence[str], *, ours: bool) -> dict[str, str]:
    """Run a suite, and tell what came of each of its tests."""
    home, report = fetched(suite, folder), folder / "report.json"
    report.unlink(missing_ok=True)
    environment = os.environ | {
        "NO_DOCKER": "true",
        "PYTHONPATH": os.pathsep.join([str(extra), str(Path(__file__).parent), str(Path(__file__).parents[2])]),
        REPLACED: "yes" if ours else "no",
        REPORT: str(report),
    }
    options = ("-p", Path(__file__).stem, "-o", "addopts=", "-q", "--tb=no", "--timeout=120", *SUITES[suite], *more)
    subprocess.run([sys.executable, "-m", "pytest", *options, "tests"], cwd=home, env=environment, check=False)
    found: dict[str, str] = json.loads(report.read_text())
    return found


def main() -> int:
    """Run all suites, both ways."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--keep", type=Path, help="a folder for what is downloaded")
    given, more = parser.parse_known_args()
    unexplained = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        extra = folder / "extra"
        if not extra.is_dir():
            pip("install", "--target", extra, *NEEDED)
        for suite in SUITES:
            stock, ours = (run(suite, folder, extra, more, ours=which) for which in (False, True))
            failed = sorted(name for name in ours if ours[name] == "failed" and stock.get(name) == "passed")
            print(
                f"{suite} {version(suite)}: {_passed(stock)} with the stock classes, {_passed(ours)} with ours",
                flush=True,
            )
            for name in failed:
                why = next((why for part, why in DIFFERENT.items() if part in name), None)
                unexplained += why is None
                print(f"  {name}: {why or 'NOT EXPLAINED'}")
    return 1 if unexplained else 0


def _passed(outcomes: dict[str, str]) -> str:
    return f"{list(outcomes.values()).count('passed')} of {len(outcomes)}"


if __name__ == "__main__":
    sys.exit(main())
