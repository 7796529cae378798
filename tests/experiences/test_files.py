"""Every selection reads the current folder, and a bad file affects no other file."""

from __future__ import annotations

import json
import os
import re
import time
from itertools import permutations
from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.experiences.experience import MAX_FILE_BYTES, MAX_TEXT_LENGTH, Experience, ExperienceFolder

from .conftest import CHARTS, FILES, REFUNDS, TEXTS

GOOD = "exp_id: good\nwho: [Planner]\nwhen: Use when all is well.\nwhat: Go on.\n"


def experience_yaml(exp_id, what="Go on.", more=""):
    return f"exp_id: {exp_id}\nwhen: Use when all is well.\nwhat: {what}\n{more}"


def ids(folder):
    return [each.exp_id for each in folder.read().experiences]


def problems(folder):
    return {problem.path: problem.reason for problem in folder.read().problems}


class TestExperience:
    def test_fields_have_the_documented_order(self):
        experience = Experience("a", ["Planner"], "Use when it rains.", "Take a coat.")
        assert experience == Experience(exp_id="a", who=("Planner",), when="Use when it rains.", what="Take a coat.")
        assert hash(experience)
        assert experience.to_dict() == {
            "exp_id": "a", "who": ["Planner"], "when": "Use when it rains.", "what": "Take a coat."
        }  # fmt: skip

    @given(
        st.builds(
            Experience,
            st.from_regex(r"[^\W_][\w .'\"{}:#&*!|>%@`-]{0,20}", fullmatch=True),
            st.lists(st.text(st.characters(codec="utf-8", categories=["L", "P", "Zs"]), max_size=9), max_size=3),
            st.text(min_size=1, max_size=60).filter(str.strip),
            st.text(min_size=1, max_size=60).filter(str.strip),
        )
    )
    def test_experience_round_trips_in_every_format(self, experience):
        assert Experience.from_dict(experience.to_dict()) == experience
        assert Experience.from_json(experience.to_json()) == experience
        assert Experience.from_yaml(experience.to_yaml()) == experience

    def test_missing_who_applies_to_all_roles(self):
        for who in (None, (), [], "", [""], " "):
            experience = Experience.from_dict({"exp_id": "a", "who": who, "when": "b", "what": "c"})
            assert (experience.who, experience.is_for("Planner"), experience.is_for(None)) == ((), True, True), who
        for who in ("Planner", ["Planner"], ("Planner", " Planner "), {"Planner"}):
            experience = Experience("a", who, "b", "c")
            assert experience.who == ("Planner",), who
            # Who has no role is given everything, and people write the names of roles in any case.
            assert all(map(experience.is_for, ("Planner", "", " planner ", "PLANNER")))
            assert not experience.is_for("CodeInterpreter")

    def test_legacy_text_fills_when_and_what(self):
        old = Experience.from_dict({"exp_id": 1, "experience_text": "Label the axes.", "raw_experience_path": ["x"]})
        assert (old.exp_id, old.when, old.what) == ("1", "Label the axes.", "Label the axes.")
        both = Experience.from_dict({"exp_id": 1, "experience_text": "old", "when": None, "what": "new"})
        assert (both.when, both.what) == ("old", "new")

    def test_invalid_fields_are_rejected_with_reasons(self):
        good = {"exp_id": "a", "when": "b", "what": "c"}
        for fields, said in (
            ({}, "exp_id"), ({"exp_id": ""}, "id"), ({"exp_id": True}, "id"), (good | {"exp_id": "a\nb"}, "control"),
            ({"exp_id": ["a"]}, "id"), ({"exp_id": "a", "when": "b"}, "'what' is missing"),
            ({"exp_id": "a", "what": "b"}, "'when' is missing"), (good | {"when": " \n"}, "'when'"),
            (good | {"what": ["c"]}, "'what'"), (good | {"what": "c" * (MAX_TEXT_LENGTH + 1)}, "100,001"),
            (good | {"who": {"Planner": 1}}, "roles"), (good | {"who": [["Planner"]]}, "roles"), (good | {"who": 3},
            "roles"),
        ):  # fmt: skip
            with pytest.raises(InvalidInput, match=said):
                Experience.from_dict(fields)


class TestFolderContents:
    def test_every_yaml_file_counts_except_sessions(self, shelf):
        shelf.write(FILES)
        names = ("B.Yml", "exp_legacy.yml", "handcrafted_exp_a.YAML", "refunds.yaml")
        for name in names:
            shelf.put(name, experience_yaml(name))
        for name in ("raw_exp_session.yaml", "notes.md", ".handcrafted_exp_half.yaml", "handcrafted_exp_a.yaml.bak"):
            shelf.put(name, "{")  # which are none
        look = ExperienceFolder(shelf.path).read()
        assert look.problems == ()
        assert look.files == {**{name: name for name in names}, "files": "handcrafted_exp_files.yaml"}

    def test_bad_list_item_costs_only_itself(self, shelf):
        items = [FILES.to_dict(), {"exp_id": "half"}, "word", {**CHARTS.to_dict(), "role": "x"}, FILES.to_dict()]
        shelf.put("rules.yaml", json.dumps(items))
        look = ExperienceFolder(shelf.path).read()
        assert look.experiences == (FILES, CHARTS)
        assert look.files == {"files": "rules.yaml", "charts": "rules.yaml"}
        assert [(problem.reason[:22], problem.is_loaded) for problem in look.problems] == [
            ("Item 2: 'when' is miss", False),
            ("Item 3: It is not a ma", False),
            ("Item 4: Unknown keys: ", True),
            ("The exp_id 'files' is ", False),
        ]

    def test_subfolders_are_read_on_request(self, shelf):
        for name in ("b/handcrafted_exp_1", "a/z/handcrafted_exp_1", "handcrafted_exp_2", "a/handcrafted_exp_2"):
            shelf.put(f"{name}.yaml", experience_yaml(name.replace("/", ".")))
        assert ids(ExperienceFolder(shelf.path)) == ["handcrafted_exp_2"]
        assert ids(ExperienceFolder(shelf.path, subfolders=True)) == [
            "handcrafted_exp_2", "a.handcrafted_exp_2", "b.handcrafted_exp_1", "a.z.handcrafted_exp_1"
        ]  # fmt: skip

    def test_folder_links_are_not_followed(self, shelf):
        shelf.write(FILES)
        (shelf.path / "again").symlink_to(shelf.path, target_is_directory=True)
        assert ids(ExperienceFolder(shelf.path, subfolders=True)) == ["files"]

    def test_ids_are_read_as_written(self, shelf):
        for text in ("1", "no", "2026-01-02", "1e3", "0x1f", "007"):
            shelf.put("handcrafted_exp_a.yaml", experience_yaml(text))
            assert ids(ExperienceFolder(shelf.path)) == [text]
        for value, text in ((1, "1"), (-7, "-7"), (1.5, "1.5"), (" a ", "a")):
            assert Experience(value, (), "b", "c").exp_id == text

    def test_unknown_keys_are_reported_but_loaded(self, shelf):
        shelf.put("handcrafted_exp_a.yaml", experience_yaml("a", more="role: Planner\nwho_: []\n"))
        [problem] = ExperienceFolder(shelf.path).read().problems
        assert problem.is_loaded
        assert "'role', 'who_'" in problem.reason
        assert str(problem) == f"handcrafted_exp_a.yaml: {problem.reason}"
        assert ids(ExperienceFolder(shelf.path)) == ["a"]


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{to}: &{to} [{', '.join([f'*{of}'] * 9)}]\n" for of, to in zip("abcdefghijk", "bcdefghijkl", strict=True)
)
BAD: dict[str, str | bytes] = TEXTS["bad_files"] | {
    "empty-list": "[]",
    "two": f"{GOOD}---\n{GOOD}",
    "twice": f"{GOOD}when: Use never.\n",
    "long-int": f"exp_id: !!int {'9' * 5000}\nwhen: b\nwhat: c\n",
    "bomb": BOMB + "exp_id: bomb\nwhen: *l\nwhat: c\n",
    "bomb-who": BOMB + "exp_id: bomb\nwho: *l\nwhen: b\nwhat: c\n",
    "deep": "exp_id: " + "[" * 3000,
    "deep-map": "{a: " * 3000,
    "latin": "exp_id: a\nwhen: café\nwhat: c\n".encode("latin-1"),
    "utf16": GOOD.encode("utf-16"),
    "huge": "exp_id: a\nwhen: b\nwhat: " + "c" * MAX_FILE_BYTES,
    "long": "exp_id: a\nwhen: b\nwhat: " + "c" * (MAX_TEXT_LENGTH + 1),
    "long-id": f"exp_id: {'a' * 2000}\nwhen: b\nwhat: c\n",
}


class TestBadFiles:
    def test_reason_describes_the_error(self, shelf):
        for name, said in {
            "tab": r"YAML.*line 2", "twice": "duplicate key 'when'", "python": "could not determine a constructor",
            "latin": "UTF-8", "no-when": "'when' is missing", "huge": "300,000 are allowed", "empty-list": "a mapping",
        }.items():  # fmt: skip
            shelf.put("handcrafted_exp_bad.yaml", BAD[name])
            [reason] = problems(ExperienceFolder(shelf.path)).values()
            assert re.search(said, reason), (name, reason)
            assert str(shelf.path) not in reason

    def test_non_files_are_reported_without_blocking(self, shelf):
        shelf.write(FILES)
        (shelf.path / "handcrafted_exp_folder.yaml").mkdir()
        os.mkfifo(shelf.path / "handcrafted_exp_pipe.yaml")
        (shelf.path / "handcrafted_exp_link.yaml").symlink_to(shelf.path / "nowhere")
        (shelf.path / "handcrafted_exp_loop.yaml").symlink_to(shelf.path / "handcrafted_exp_loop.yaml")
        (shelf.path / "handcrafted_exp_zero.yaml").symlink_to("/dev/zero")
        folder = ExperienceFolder(shelf.path)
        assert ids(folder) == ["files"]
        assert list(problems(folder)) == [
            f"handcrafted_exp_{name}.yaml" for name in ("folder", "link", "loop", "pipe", "zero")
        ]

    def test_unreadable_paths_are_reported_until_readable(self, shelf, monkeypatch):
        shelf.write(FILES, CHARTS)
        for experience, below in ((CHARTS, "locked/"), (REFUNDS, "open/")):
            shelf.write(experience, below=below)
        folder = ExperienceFolder(shelf.path, subfolders=True)
        read, scan = type(shelf.path).read_bytes, os.scandir
        for kind, real in ((type(shelf.path), read), (os, scan)):

            def refused(path, real=real):
                if str(path).endswith(("charts.yaml", "locked")):
                    raise PermissionError(13, "Permission denied", str(path))
                return real(path)

            monkeypatch.setattr(kind, real.__name__, refused)
        assert ids(folder) == ["files", "refunds"]
        assert problems(folder) == {
            "handcrafted_exp_charts.yaml": "It cannot be read: Permission denied.",
            "locked": "The folder cannot be read: Permission denied.",
        }
        monkeypatch.undo()
        assert ids(folder) == ["charts", "files", "refunds"]


class TestChanges:
    @pytest.mark.parametrize("coarse", [False, True])
    def test_immediate_same_size_edit_is_seen(self, shelf, monkeypatch, coarse):
        stat = type(shelf.path).stat
        noon = time.time_ns()

        def rounded(path, **options):
            about = stat(path, **options)
            return SimpleNamespace(
                st_mode=about.st_mode, st_size=about.st_size, st_ino=1, st_mtime_ns=noon, st_ctime_ns=noon
            )

        if coarse:  # a file system whose clock has not moved on
            monkeypatch.setattr(type(shelf.path), "stat", rounded)
        folder = ExperienceFolder(shelf.path)
        for number in range(100, 130):
            shelf.put("handcrafted_exp_a.yaml", experience_yaml("a", f"Do {number}."))
            assert [each.what for each in folder.read().experiences] == [f"Do {number}."]

    def test_edit_with_unchanged_mtime_is_seen(self, shelf):
        for when in (time.time() - 1_000, time.time() + 100_000):
            file, folder = (
                shelf.put("handcrafted_exp_a.yaml", experience_yaml("a", "first")),
                ExperienceFolder(shelf.path),
            )
            os.utime(file, (when, when))
            assert [each.what for each in folder.read().experiences] == ["first"]
            shelf.put("handcrafted_exp_a.yaml", experience_yaml("a", "other"))
            os.utime(file, (when, when))
            assert [each.what for each in folder.read().experiences] == ["other"]

    def test_added_removed_and_renamed_files_are_seen(self, shelf):
        folder = ExperienceFolder(shelf.path)
        assert ids(folder) == []
        shelf.write(FILES, CHARTS)
        assert ids(folder) == ["charts", "files"]
        (shelf.path / "handcrafted_exp_charts.yaml").rename(shelf.path / "handcrafted_exp_z.yaml")
        assert ids(folder) == ["files", "charts"]
        (shelf.path / "handcrafted_exp_files.yaml").unlink()
        assert ids(folder) == ["charts"]
        shelf.put("handcrafted_exp_z.yaml", "{")
        assert ids(folder) == []
        assert list(problems(folder)) == ["handcrafted_exp_z.yaml"]
        shelf.put("handcrafted_exp_z.yaml", GOOD)
        assert ids(folder) == ["good"]
        assert problems(folder) == {}

    def test_removed_folder_can_return(self, shelf):
        shelf.write(FILES)
        folder = ExperienceFolder(shelf.path)
        folder.read()
        shelf.path.rename(shelf.path.with_name("elsewhere"))
        assert folder.read().experiences == ()
        assert "cannot be read" in problems(folder)["."]
        shelf.path.with_name("elsewhere").rename(shelf.path)
        assert ids(folder) == ["files"]

    def test_unchanged_files_are_not_parsed_again(self, shelf, monkeypatch):
        for number in range(500):
            shelf.put(f"handcrafted_exp_{number:03}.yaml", experience_yaml(number))
        folder = ExperienceFolder(shelf.path)
        assert len(ids(folder)) == 500
        read = []
        real = yaml.load
        monkeypatch.setattr(yaml, "load", lambda text, **options: read.append(text) or real(text, **options))
        assert len(ids(folder)) == 500
        assert read == []
        shelf.put("handcrafted_exp_007.yaml", experience_yaml("seven"))
        assert "seven" in ids(folder)
        assert read == [experience_yaml("seven")]

    def test_duplicate_id_resolves_by_file_name(self, shelf, monkeypatch):
        for name in "bac":
            shelf.put(f"handcrafted_exp_{name}.yaml", experience_yaml("same", f"From {name}."))
        for order in permutations([each.name for each in shelf.path.iterdir()]):
            monkeypatch.setattr(os, "walk", lambda path, order=order, **_: [(path, [], order)])
            look = ExperienceFolder(shelf.path).read()
            assert [each.what for each in look.experiences] == ["From a."]
            assert [problem.path for problem in look.problems] == ["handcrafted_exp_b.yaml", "handcrafted_exp_c.yaml"]
