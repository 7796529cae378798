"""The wheel contains every file of the package, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def shipped(tmp_path_factory) -> set[str]:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


class TestWheel:
    def test_wheel_contains_every_file_of_the_package(self, shipped):
        package = ROOT / "langchain_agentmem"
        files = {
            path.relative_to(ROOT).as_posix()
            for path in package.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert files <= shipped
        plain, served = (
            {".json", ".py", ".pyi", ".sql", ".toml", ".typed", ".yaml"},
            {".css", ".html", ".js", ".svg", ".txt"},
        )
        assert {Path(name).suffix for name in files} == plain | served
        assert {Path(name).parts[1] for name in files if Path(name).suffix in served} == {"studio"}

    def test_wheel_contains_nothing_else(self, shipped):
        others = {name for name in shipped if not name.startswith("langchain_agentmem/")}
        assert all(".dist-info/" in name for name in others)
