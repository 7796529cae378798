"""Statements of README, ARCHITECTURE and .ci; `test_site.py` has what README shares with the other pages."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.pages import ROOT, blocks_of

README = (ROOT / "README.md").read_text(encoding="utf-8")


class TestReadme:
    def test_readme_begins_with_two_commands(self):
        commands = blocks_of("README.md", "sh")
        assert len(commands) == 2
        assert "langchain_agentmem demo" in commands[0]
        assert "pytest" in commands[1]
        assert all("pip install" in command and "-m venv" in command for command in commands)

    def test_every_figure_appears_in_the_benchmarks(self):
        told = (ROOT / "tests" / "benchmarks" / "README.md").read_text(encoding="utf-8")
        measured = set(re.findall(r"[\d.,]*\d", told))
        sums = {"132": "14 74 44", "229": "62 57 110", "541": "200 101 60 180"}  # over four histories
        rows = re.findall(r"^\|(.*)\|[^|]*`[a-z]+\.py\b.*\|$", README, re.MULTILINE)
        assert len(rows) == 10
        figures = [each for row in rows for each in re.findall(r"(?<![\w.,])[\d.,]*\d", row)]
        parts = [part for each in figures for part in sums.get(each, each).split()]
        assert [each for each in parts if not {each, f"0{each}"} & measured] == []
        assert sums.keys() <= set(figures)
        assert all(sum(map(int, each.split())) == int(total) for total, each in sums.items())

    def test_every_link_is_absolute(self):
        assert re.findall(r"\]\((?!https://)[^)]*\)", README) == []


class TestStudioPage:
    TEXT = (ROOT / "docs" / "studio.md").read_text(encoding="utf-8")

    def test_studio_application_admits_authenticated_users(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        [code] = blocks_of("docs/studio.md", "python")
        made: dict[str, Any] = {}
        exec(compile(code, "docs/studio.md", "exec"), made)
        client = TestClient(made["app"])
        assert client.get("/memory/").status_code == 401
        answer = client.get("/memory/", headers={"X-Signed-In": "Ada"})
        made["memory"].close()
        assert (answer.status_code, '<p class="who">Ada</p>' in answer.text) == (200, True)

    @pytest.mark.parametrize("picture", sorted(set(re.findall(r"\]\((images/[^)]+)\)", TEXT))))
    def test_images_exist_and_are_small(self, picture):
        assert (ROOT / "docs" / picture).stat().st_size < 150_000


class TestCi:
    SCRIPT, FULL = ((ROOT / ".ci" / name).read_text(encoding="utf-8") for name in ("run", "full"))

    @pytest.fixture
    def python_of(self, tmp_path):
        """What `.ci/full` takes for a version of Python, where only these programs are on the path."""
        [function] = re.findall(r"^python_of\(\) .*?^}$", self.FULL, re.DOTALL | re.MULTILINE)

        def find(version, programs):
            for name, script in programs.items():
                path = tmp_path / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"#!/bin/sh\n{script}\n")
                path.chmod(0o755)
            run = subprocess.run(
                [shutil.which("bash"), "-euo", "pipefail", "-c", f"{function}\npython_of {version} || echo none"],
                env={"PATH": str(tmp_path)},
                capture_output=True,
                text=True,
                check=True,
            )
            return run.stdout.strip().removeprefix(f"{tmp_path}/")

        return find

    def test_ci_runs_the_test_command_of_the_readme(self):
        extraction = re.search(r'^command="(\$\(.*\))"$', self.SCRIPT, re.MULTILINE)
        assert extraction
        run = subprocess.run(
            ["bash", "-c", f'printf %s "{extraction[1]}"'], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert run.stdout.strip() == blocks_of("README.md", "sh")[1].strip()

    def test_ci_runs_every_python_in_the_classifiers(self):
        [listing] = re.findall(r"^    for version in \$\((.*)\); do$", self.FULL, re.MULTILINE)
        run = subprocess.run(["bash", "-c", listing], cwd=ROOT, capture_output=True, text=True, check=True)
        with (ROOT / "pyproject.toml").open("rb") as file:
            classifiers = tomllib.load(file)["project"]["classifiers"]
        named = [each.rpartition(" ")[2] for each in classifiers if re.search(r":: 3\.\d+$", each)]
        assert len(named) >= 3
        assert run.stdout.split() == named

    def test_python_must_run_and_match_its_version(self, python_of):
        assert python_of("3.12", {}) == "none"
        assert python_of("3.12", {"python3.12": "echo 3.12"}) == "python3.12"
        assert python_of("3.13", {"python3.13": "exit 127"}) == "none"  # a shim of pyenv, of a version not chosen
        assert python_of("3.14", {"python3.14": "echo 3.13"}) == "none"

    def test_pyenv_versions_are_found_behind_shims(self, python_of, tmp_path):
        shims = {"python3.12": "exit 127", "pyenv": f"echo {tmp_path}"}
        versions = {"versions/3.12.7/bin/python": "exit 1", "versions/3.12.9/bin/python": "echo 3.12"}
        assert python_of("3.12", shims | versions) == "versions/3.12.9/bin/python"


class TestArchitecture:
    TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")

    def test_architecture_names_every_folder(self):
        package = ROOT / "langchain_agentmem"
        folders = {path.parent.name for path in package.glob("*/*.py")}
        assert [name for name in sorted(folders) if f"{name}/" not in self.TEXT] == []


FOREIGN_NAMES = (  # names of other programs that the pages mention and no code here uses
    "AnthropicPromptCachingMiddleware PurePath cipher_memory_security citus enable_schema_based_sharding "
    "log_min_duration_statement log_statement maintenance_work_mem pg_stat_all_tables pg_stat_replication "
    "pg_stat_statements pg_tde pgcrypto shared_buffers"
)
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/**/*.md")} - {ROOT / "CHANGELOG.md"})


@pytest.fixture(scope="module")
def names_in_code() -> set[str]:
    """Return all words of the code and of file names."""
    folders = ("langchain_agentmem", "tests", "integrations", "examples", ".ci")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    code = [path for path in files if path.suffix not in {".md", ".pyc", ".png"}]
    texts = (path.read_text(encoding="utf-8", errors="ignore") for path in code)
    return set(re.findall(r"\w+", " ".join((FOREIGN_NAMES, *map(str, files), *texts))))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_in_code_spans_exist(page, names_in_code):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`([\w.]+(?:\(\))?)`", text)
    names = {re.sub("_(FILE|COMMAND)$", "", name) for span in spans for name in re.findall(r"[A-Za-z_]\w*", span)}
    assert sorted(names - names_in_code) == []
