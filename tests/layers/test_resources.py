"""Resource snapshots: description of a resource file, workspace boundary and storage in memory."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from types import MappingProxyType
from unittest.mock import Mock

import pytest
import yaml

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.layers.layer import LayersConfig
from langchain_agentmem.layers.layered_memory import LayeredMemory
from langchain_agentmem.layers.resource_memory import build_resource_snapshot, path_below

pytestmark = pytest.mark.sqlite_suffices

SECRET = "sk-Zq7xT2mB9wL4kR8vN3cY"


def write(path: Path, text: str | bytes = "") -> Path:
    path.parent.resolve().mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.fixture
def workspace(tmp_path) -> Path:
    """A workspace with two folders, and a file with a secret outside of it."""
    root = tmp_path / "workspace"
    for path, text in {
        "data/baseline/main.c": "int main(void) { return 0; }\n", "data/baseline/Makefile": "all: main\n",
        "data/baseline/src/deep.h": "#pragma once\n", "data/baseline/.git/config": "[remote]\n",
        "data/baseline/node_modules/x/index.js": "x\n", "data/manifest.json": '{"baseline": "C"}',
        "../workspace2/secret.txt": "outside",
    }.items():  # fmt: skip
        write(root / path, text)
    return root


RESOURCES = {
    "local": [{"name": "data", "host_path": "data", "mount_path": "/workspace/input/data", "read_only": True}],
    "github": [{"name": "solver", "repo": "example/solver", "ref": "v1", "dest": "/workspace/solver"}],
    "huggingface": [{"name": "small", "type": "model", "repo_id": "example/small", "revision": "main"}],
    "items": [
        {"name": "baseline", "class": "template", "source": "local", "resource": "data", "path": "baseline"},
        {"name": "manifest", "class": "document", "source": "local", "resource": "data", "path": "manifest.json"},
        {"name": "docs", "class": "document", "source": "github", "resource": "solver", "path": "README.md"},
    ],
}


def snapshot_of(workspace: Path, resources: object = RESOURCES, name: str = "resources.yaml", **options) -> dict:
    text = json.dumps(resources) if name.endswith(".json") else yaml.safe_dump(resources)
    return build_resource_snapshot(write(workspace / name, text), **options)


def snapshot_of_item(workspace: Path, **item) -> dict:
    """The snapshot of the only item of a file."""
    return snapshot_of(workspace, {"items": [item]})["items"][0]


class TestSnapshot:
    def test_snapshot_has_the_documented_keys(self, workspace):
        snapshot = snapshot_of(workspace)
        assert set(snapshot) == {"digest", "resource_file_sha", "config_normalized", "items"}
        assert snapshot["digest"].startswith("sha256:")
        assert len(snapshot["digest"]) == len("sha256:") + 64
        keys = {"id", "class", "fetch_status", "path", "tree_summary", "content_excerpt"}
        assert all(keys <= set(item) for item in snapshot["items"])
        assert [(item["id"], item["class"], item["fetch_status"]) for item in snapshot["items"]] == [
            ("document:docs:github:solver:README.md", "github", "pending"),
            ("document:manifest:local:data:manifest.json", "local_data", "available"),
            ("model:small:huggingface:small:.", "huggingface", "pending"),
            ("template:baseline:local:data:baseline", "local_data", "available"),
        ]

    def test_snapshot_shows_folder_tree_and_file_excerpts(self, workspace):
        baseline = snapshot_of(workspace)["items"][3]
        assert baseline["tree_summary"] == "Makefile\nmain.c\nsrc/\nsrc/deep.h"
        assert baseline["content_excerpt"] == (
            "File: Makefile (10 bytes)\nall: main\n\n\nFile: main.c (29 bytes)\nint main(void) { return 0; }\n\n\n"
            "File: src/deep.h (13 bytes)\n#pragma once\n"
        )
        assert baseline["path"] == "/workspace/input/data/baseline"

    def test_include_files_selects_the_excerpts(self, workspace):
        files = ["src/deep.h", "missing.c"]
        seen = snapshot_of_item(workspace, **{"class": "template", "path": "data/baseline", "include_files": files})
        deep = "File: src/deep.h (13 bytes)\n#pragma once\n"
        assert seen["content_excerpt"] == f"{deep}\n\nFile: missing.c (not readable)"
        assert (seen["fetch_status"], seen["reason"]) == ("available", "missing.c: There is no file at this path.")

    def test_excerpts_respect_the_limits_of_the_class(self, workspace):
        for number in range(20):
            write(workspace / "many" / f"{number:02}.txt", "short")
            write(workspace / "long" / f"{number:02}.txt", "word " * 1_000)
        limits = {"template": (12, 3_500, 12_000), "setup": (8, 3_000, 8_000), "document": (4, 3_000, 8_000)}
        for kind, (files, chars, total) in limits.items():
            seen = [snapshot_of_item(workspace, **{"class": kind, "path": path}) for path in ("many", "long")]
            many, long = (each["content_excerpt"] for each in seen)
            assert many.count("File: ") == files
            assert total - 100 < len(long) <= total
            first = long.split("\n\n")[0].partition("\n")[2]
            assert chars - 20 < len(first) <= chars

    def test_secrets_are_redacted_before_truncation(self, workspace):
        write(workspace / "notes.md", f"the key is {SECRET} and so on")
        assert snapshot_of_item(workspace, path="notes.md")["content_excerpt"].endswith("the key is *** and so on")
        write(workspace / "cut.md", f"{SECRET} is the key")
        assert "sk-" not in snapshot_of_item(workspace, path="cut.md", max_chars=15)["content_excerpt"]
        write(workspace / ".env", "DB_PASSWORD=swordfish")
        assert "swordfish" not in str(snapshot_of_item(workspace, path=".env"))
        shown = snapshot_of(workspace, [{"path": "notes.md"}], config=MappingProxyType({"redact_secrets": False}))
        assert SECRET in str(shown)

    def test_unresolved_paths_are_pending_and_not_read(self, workspace):
        items = snapshot_of(workspace, resolve_paths=False)["items"]
        assert {item["fetch_status"] for item in items} == {"pending"}
        assert not any(item["content_excerpt"] or item["tree_summary"] for item in items)


class TestUnreadableFiles:
    def test_binary_files_are_described_without_content(self, workspace):
        for data, shown in (
            (b"\x89PNG\0\0" * 100, " (600 bytes, binary)"), ("äöü".encode("latin-1") * 50, " (150 bytes, binary)"),
            ("Grüße".encode("utf-16"), " (12 bytes, binary)"), ("\ufeffGrüße".encode(), " (10 bytes)\nGrüße"),
            (("a" + "ü" * 150_000).encode(), None), (b"", " (0 bytes)\n"),
        ):  # fmt: skip
            write(workspace / "file.txt", data)
            excerpt = snapshot_of_item(workspace, path="file.txt")["content_excerpt"]
            assert "\ufffd" not in excerpt
            assert shown is None or excerpt == f"File: file.txt{shown}"

    def test_invisible_characters_in_file_names_are_escaped(self, workspace):
        write(workspace / "odd" / "my\u3000notes.txt", "Hello.")
        seen = snapshot_of_item(workspace, path="odd", **{"class": "template"})
        assert (seen["tree_summary"], seen["reason"]) == ("my\\u3000notes.txt", "")
        assert seen["content_excerpt"] == "File: my\\u3000notes.txt (6 bytes)\nHello."

    def test_missing_files_and_pipes_are_failed(self, workspace):
        os.mkfifo(workspace / "pipe")
        os.mkfifo(workspace / "data" / "baseline" / "pipe.c")
        for path in ("pipe", "nothing.txt"):
            seen = snapshot_of_item(workspace, path=path)
            assert (seen["fetch_status"], seen["reason"]) == ("failed", "There is no file or folder at this path.")
        assert "pipe.c?" in snapshot_of_item(workspace, path="data/baseline")["tree_summary"]

    def test_unreadable_files_are_failed_with_the_reason(self, workspace, monkeypatch):
        opened = Path.open

        def deny(path, *arguments, **options):
            if path.name == "manifest.json":
                raise PermissionError(13, "Permission denied")
            return opened(path, *arguments, **options)

        monkeypatch.setattr(Path, "open", deny)
        seen = snapshot_of_item(workspace, path="data/manifest.json")
        assert (seen["fetch_status"], seen["reason"]) == ("failed", "It cannot be read: Permission denied.")
        monkeypatch.setattr(Path, "iterdir", Mock(side_effect=PermissionError(13, "Permission denied")))
        seen = snapshot_of_item(workspace, path="data/baseline")
        assert (seen["fetch_status"], seen["reason"]) == ("failed", "It cannot be read: Permission denied.")

    def test_a_long_tree_summary_is_truncated(self, workspace):
        for number in range(600):
            write(workspace / "many" / f"{number:03}", "")
        tree = snapshot_of_item(workspace, path="many")["tree_summary"]
        assert tree.startswith("000\n001")
        assert tree.endswith("\n… and more")
        assert len(tree) <= 2_020


class TestWorkspaceBoundary:
    def test_paths_and_links_outside_the_workspace_fail(self, workspace):
        outside = workspace.parent / "workspace2"
        links = {"file": outside / "secret.txt", "folder": outside, "relative": "../workspace2/secret.txt"}
        for name, to in (links | {"twice": "relative"}).items():
            (workspace / name).symlink_to(to)
        for path in (
            "../workspace2/secret.txt", "data/../../workspace2/secret.txt", f"{outside}/secret.txt", "/etc/passwd",
            f"{workspace}/../workspace2/secret.txt", f"{workspace}2/secret.txt", "..", "/",
            "file", "folder", "folder/secret.txt", "relative", "twice",
        ):  # fmt: skip
            seen = snapshot_of_item(workspace, path=path)
            assert (seen["fetch_status"], seen["reason"]) == ("failed", "It is outside of the workspace."), path
            assert (seen["tree_summary"], seen["content_excerpt"]) == ("", ""), path

    def test_included_files_outside_the_workspace_fail(self, workspace):
        secret = workspace.parent / "workspace2" / "secret.txt"
        (workspace / "data" / "baseline" / "leak.c").symlink_to(secret)
        for name in ("../../../workspace2/secret.txt", str(secret), "leak.c"):
            seen = snapshot_of_item(workspace, path="data/baseline", include_files=[name])
            assert (seen["fetch_status"], seen["content_excerpt"]) == ("failed", "")
        seen = snapshot_of_item(workspace, path="data/baseline")
        assert "leak.c@" in seen["tree_summary"]
        assert "outside" not in seen["content_excerpt"]

    def test_absolute_paths_must_be_below_the_workspace(self, workspace):
        whole, inside = "/workspace2/a", "/workspace/a/b"
        assert [str(path_below(path, "/workspace/")) for path in (whole, inside, "/workspace")] == [whole, "a/b", "."]
        manifest = workspace / "data" / "manifest.json"
        for path in (str(manifest), "data/manifest.json"):
            seen = snapshot_of_item(workspace, path=path)
            assert (seen["fetch_status"], seen["path"]) == ("available", str(manifest))


class TestDigest:
    """Known defect A19 of the original: the digest contained times and paths of files."""

    def test_digest_does_not_depend_on_place_or_time(self, workspace, tmp_path):
        def resources(workspace):
            absolute = {"name": "absolute", "host_path": str(workspace / "data")}
            item = {"class": "document", "resource": "absolute", "path": "manifest.json"}
            return RESOURCES | {"local": [*RESOURCES["local"], absolute], "items": [*RESOURCES["items"], item]}

        before = snapshot_of(workspace, resources(workspace))
        copy = tmp_path / "elsewhere" / "workspace"
        shutil.copytree(workspace, copy)
        for path in copy.rglob("*"):
            os.utime(path, (1, 1))
        after = snapshot_of(copy, resources(copy))
        assert after["digest"] == before["digest"]
        assert [item["digest"] for item in after["items"]] == [item["digest"] for item in before["items"]]
        assert str(tmp_path) not in json.dumps(snapshot_of(workspace)["config_normalized"])

    def test_digest_changes_with_the_content(self, workspace):
        baseline, manifest = workspace / "data" / "baseline", workspace / "data" / "manifest.json"
        write(manifest, "x" * 100_001)
        digests = [snapshot_of(workspace)["digest"]]
        write(baseline / ".git" / "index", "changed")  # by tools, which does not count
        assert snapshot_of(workspace)["digest"] == digests[0]
        for change in (
            lambda: write(baseline / "main.c", "int main(void) { return 1; }\n"),
            lambda: write(baseline / "new.bin", "x"),
            (baseline / "Makefile").unlink,
            lambda: write(manifest, "x" * 100_000 + "y"),  # beyond what is shown
        ):
            change()
            digests.append(snapshot_of(workspace)["digest"])
        assert len({*digests}) == 5


class TestResourceFile:
    def test_invalid_or_unreadable_resource_files_are_rejected(self, workspace, tmp_path):
        cases = json.loads(Path(__file__).with_name("cases.json").read_text("utf-8"))["resource_files"]
        neither, long = "neither JSON nor YAML", f"items: [{{path: {'a' * 600}}}]"
        cases += [("[" * 100_000, neither), (b"\xff\xfe\x00", neither), (long, "more than 480 characters")]
        for text, wrong in (*cases, ("x" * 600_000, "more than 500,000 bytes")):
            with pytest.raises(InvalidInput, match=wrong):
                build_resource_snapshot(write(tmp_path / "resources", text))
        with pytest.raises(InvalidInput, match="cannot be read"):
            build_resource_snapshot(tmp_path / "nothing.yaml")
        for config in (3, {"workspace_root": 3}, {"workspace_root": "/nothing/here"}):
            with pytest.raises(InvalidInput):
                snapshot_of(workspace, config=config)

    def test_items_may_name_their_own_source(self, workspace):
        resources = [
            {"class": "github", "repo": "example/solver"},
            {"class": "huggingface", "repo_id": "example/small"},
            {"repo": "example/other"},
            {"class": "local_data", "path": "data/manifest.json"},
        ]
        assert [item["id"] for item in snapshot_of(workspace, resources, "resources.json")["items"]] == [
            "github:other:github:example/other:.",
            "github:solver:github:example/solver:.",
            "huggingface:small:huggingface:example/small:.",
            "local_data:manifest.json:local::data/manifest.json",
        ]


@pytest.fixture
def layers(memory) -> LayeredMemory:
    return memory.layers("b")


@pytest.fixture
def file(workspace) -> Path:
    return write(workspace / "resources.yaml", yaml.safe_dump(RESOURCES))


class TestResourceMemory:
    def test_load_stores_items_searchable_by_text_and_tags(self, layers, file):
        snapshot = layers.resources.load(file)
        assert snapshot == build_resource_snapshot(file)
        assert layers.resources.items() == snapshot["items"]
        assert layers.core.get(["resource_digest"]) == {"resource_digest": snapshot["digest"]}
        index = layers.core.get()["RESOURCE_INDEX"]
        assert "- template:baseline:local:data:baseline (available)" in index
        assert "- model:small:huggingface:small:. (pending)" in index
        (hit,) = layers.archival.search("pragma once", tags=["resource:template:baseline"])
        head = "Resource: baseline\nId: template:baseline:local:data:baseline\nClass: template\n"
        assert hit.content.startswith(head)
        assert {"RESOURCE_ITEM", "resource_class:template", "resource_source:local_data"} <= set(hit.tags)
        assert len(layers.archival.search("*", tags=["RESOURCE_PENDING"])) == 2

    def test_reload_rewrites_only_changed_items(self, layers, file, workspace):

        def loaded():
            layers.resources.load(file)
            return {record.tags[1]: record for record in layers.archival.all(["RESOURCE_ITEM"])}

        before = loaded()
        assert loaded() == before
        write(workspace / "data" / "manifest.json", "changed")
        after = loaded()
        changed = [key for key in after if after[key] != before[key]]
        assert changed == ["resource_id:document:manifest:local:data:manifest.json"]
        assert after[changed[0]].id == before[changed[0]].id

    def test_reload_deletes_only_items_removed_from_the_file(self, layers, file, workspace):
        layers.resources.load(file)
        layers.resources.load(write(workspace / "more.yaml", "items: [{path: data/manifest.json}]"))
        assert len(layers.resources.items()) == 5
        write(file, yaml.safe_dump(RESOURCES | {"items": RESOURCES["items"][:1]}))
        layers.resources.load(file)
        assert [item["name"] for item in layers.resources.items()] == ["solver", "manifest.json", "small", "baseline"]
        assert layers.core.get()["RESOURCE_INDEX"].startswith("4 resources;")

    def test_index_is_truncated_to_the_remaining_core_budget(self, memory, file):
        layers = memory.layers("small", settings=LayersConfig(core_max_chars=600))
        layers.core.set("idea_md_summary", "x" * 400)
        layers.resources.load(file)
        assert layers.core.get()["RESOURCE_INDEX"].startswith("4 resources;")

    def test_load_without_room_for_the_index_writes_nothing(self, memory, file):
        layers = memory.layers("small", settings=LayersConfig(core_max_chars=60))
        with pytest.raises(InvalidInput, match="Core memory is too small"):
            layers.resources.load(file)
        assert (layers.resources.items(), layers.core.get()) == ([], {})

    def test_secrets_in_resources_are_redacted(self, layers, workspace):
        write(workspace / "notes.md", f"the key is {SECRET}")
        file = write(workspace / "r.yaml", f"items: [{{path: notes.md, notes: 'key {SECRET}', name: 'a {SECRET}'}}]")
        layers.resources.load(file)
        layers.resources.track_usage("a", "read", f"with {SECRET}")
        told = layers.resources.items(), layers.resources.uses(), layers.core.get(), layers.archival.all()
        assert SECRET not in str(told)

    def test_track_usage_keeps_every_context(self, layers):
        for wrong in (("", "read"), (3, "read"), ("a", "eat"), ("a", "read", 3)):
            with pytest.raises(InvalidInput):
                layers.resources.track_usage(*wrong)
        contexts = [*(f"context {number}" for number in range(12)), None]
        for context in contexts:
            layers.resources.track_usage("a", "reference", context)
        assert [each["context"] for each in layers.resources.uses()] == contexts
