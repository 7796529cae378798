"""`agentmem experiences`: checks of a folder as plain text, JSON and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from langchain_agentmem import Experience

FILES = Experience(
    "file-validation", ("Coder",), "Use when files are read, or a FileNotFoundError occurred.", "Look first — naïvely."
)
CHARTS = Experience("charts", (), "Use when a chart or a plot is drawn. \x1b[31m\u202e", "Label both axes.")


@pytest.fixture
def experiences(agentmem):
    return lambda *arguments: agentmem("experiences", *arguments)


@pytest.fixture
def folder(tmp_path) -> Path:
    path = tmp_path / "experience"
    (path / "below").mkdir(parents=True)
    (path / "handcrafted_exp_files.yaml").write_text(FILES.to_yaml(), encoding="utf-8")
    (path / "below" / "handcrafted_exp_charts.yaml").write_text(CHARTS.to_yaml(), encoding="utf-8")
    return path


class TestCheck:
    def test_loaded_experiences_are_listed(self, experiences, folder):
        run = experiences("check", folder)
        assert (run.returncode, run.stderr) == (0, "")
        assert run.stdout == (
            "file-validation  (Coder)\n"
            "   Use when files are read, or a FileNotFoundError occurred.\n"
            "1 experience; 0 files not loaded.\n"
        )
        run = experiences("check", folder, "--subfolders")
        assert "charts  (all roles)" in run.stdout
        assert run.stdout.endswith("2 experiences; 0 files not loaded.\n")

    def test_files_not_loaded_are_reported_and_exit_one(self, experiences, folder):
        (folder / "handcrafted_exp_bad.yaml").write_text("exp_id: [")
        (folder / "handcrafted_exp_twice.yaml").write_text(FILES.to_yaml(), encoding="utf-8")
        run = experiences("check", folder)
        assert (run.returncode, run.stderr) == (1, "")
        assert "handcrafted_exp_bad.yaml: It is not valid YAML" in run.stdout
        assert "handcrafted_exp_twice.yaml: The exp_id 'file-validation' is already used in" in run.stdout
        assert run.stdout.endswith("1 experience; 2 files not loaded.\n")

    def test_unknown_field_is_a_warning_only(self, experiences, folder):
        (folder / "handcrafted_exp_files.yaml").write_text(FILES.to_yaml() + "whne: typo\n", encoding="utf-8")
        run = experiences("check", folder)
        assert run.returncode == 0
        assert "'whne'" in run.stdout
        assert run.stdout.endswith("1 experience; 0 files not loaded.\n")

    def test_json_has_experiences_and_problems(self, experiences, folder):
        (folder / "handcrafted_exp_bad.yaml").write_text("exp_id: [")
        run = experiences("check", folder, "--subfolders", "--json")
        assert run.returncode == 1
        assert run.stdout.isascii()
        found = json.loads(run.stdout)
        assert found["ok"] is False
        assert found["experiences"] == [FILES.to_dict(), CHARTS.to_dict()]
        [problem] = found["problems"]
        assert (problem["path"], problem["is_loaded"]) == ("handcrafted_exp_bad.yaml", False)
