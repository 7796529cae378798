"""Experiences in Studio: how often each was chosen, and whether it helped."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from langchain_agentmem import Experience
from langchain_agentmem.studio.application import PAGE

from .markup import HOSTILE, Page, harmless

FILES = Experience("files", ["Coder", "Planner"], "Use when files are read.", "Check that the file exists.")
PLOTS = Experience("plots", [], "Use when plots are drawn.", "Name the axes.")


@pytest.fixture
def folder(tmp_path):
    for each in (FILES, PLOTS):
        (tmp_path / f"handcrafted_exp_{each.exp_id}.yaml").write_text(each.to_yaml(), encoding="utf-8")
    return tmp_path


@pytest.fixture
def library(memory, folder):
    library = memory.experiences(folder)
    for labels in ((), ("users", "ada")):
        memory.experiences(folder, labels).selector().select("Read the files.")
    library.feedback("files", helped=True, note="It was not there.", conversation_id="chat")
    return library


def rows(html: str) -> dict[str, list[str]]:
    """The cells of each line of the table, by the id of the experience, its texts left out."""
    [table] = re.findall(r"<tbody>(.*?)</tbody>", html, re.DOTALL)[:1] or [""]
    found = [
        [
            " ".join(Page(cell).text.split())
            for cell in re.split(r"</t[hd]>", re.sub(r"<details>.*?</details>", "", row, flags=re.DOTALL))
        ]
        for row in table.split("</tr>")
    ]
    return {row[0]: row[1:-1] for row in found if len(row) > 1}


def test_without_a_library_it_tells_what_the_database_knows(memory, library, browse):
    html = browse(memory).text_of("/experiences")
    found = rows(html)
    assert [row[:4] for row in found.values()] == [["2", "2 1.00", "1", "0"], ["2", "0 0.00", "0", "0"]]
    assert (found["files"][4], found["plots"][4:]) == ("helps", ["never applies", "never"])
    page = harmless(html)
    assert "It was not there." in page.text
    assert "Check that the file exists." not in page.text
    assert "without a library" in page.text


def test_with_one_it_tells_what_they_say_and_for_whom(memory, library, browse):
    page = harmless(html := browse(memory, experiences=library).text_of("/experiences"))
    assert "Check that the file exists." in page.text
    assert "Use when plots are drawn." in page.text
    assert (rows(html)["files"][0], rows(html)["plots"][0]) == ("Coder, Planner", "everybody")


def test_in_a_namespace_and_below(memory, library, browse):
    browser = browse(memory)
    assert rows(browser.text_of("/experiences?namespace=users"))["files"][0] == "1"
    assert "No experience was considered in" in browser.text_of("/experiences?namespace=other")
    assert browse(memory.within(("users", "ada"))).text_of("/experiences").count("<tr>") == 3


def test_by_role(memory, library, browse):
    browser = browse(memory, experiences=library)
    assert list(rows(browser.text_of("/experiences?role=coder"))) == ["files", "plots"]
    assert list(rows(browser.text_of("/experiences?role=Writer"))) == ["plots"]
    roles = [each["value"] for each in Page(browser.text_of("/experiences")).all("option")]
    assert roles == ["", "Coder", "Planner"]


def test_what_the_library_never_considered_or_has_no_more_is_there_too(memory, library, folder, browse):
    (folder / "handcrafted_exp_new.yaml").write_text("exp_id: new\nwhen: a\nwhat: b\n", encoding="utf-8")
    (folder / "handcrafted_exp_plots.yaml").unlink()
    found = rows(html := browse(memory, experiences=library).text_of("/experiences"))
    assert found["new"][-2:] == ["never considered", "never"]
    assert "plots no longer in the library" in found
    assert "no longer" not in browse(memory).text_of("/experiences")
    assert html.count("no longer") == 1


def test_files_that_do_not_count_are_told_with_the_reason(memory, library, folder, browse):
    (folder / "handcrafted_exp_bad<b>.yaml").write_text("{", encoding="utf-8")
    page = harmless(browse(memory, experiences=library).text_of("/experiences"))
    assert "handcrafted_exp_bad<b>.yaml" in page.text
    assert "not YAML" in page.text


def test_a_page_at_a_time(memory, tmp_path, browse):
    for number in range(PAGE + 1):
        (tmp_path / f"handcrafted_exp_{number}.yaml").write_text(f"exp_id: e{number}\nwhen: files\nwhat: b\n")
    library = memory.experiences(tmp_path)
    browser = browse(memory, experiences=library)
    [older] = [each for each in Page(browser.text_of("/experiences")).links if "start=" in each]
    assert older == f"/experiences?start={PAGE}"
    assert len(rows(browser.text_of(older))) == 1
    assert "start" in browser.text_of("/experiences?start=-1", 400)


def test_nothing_is_known_yet(memory, browse, tmp_path):
    assert "No experience was considered yet" in browse(memory).text_of("/experiences")
    harmless(browse(memory, experiences=memory.experiences(tmp_path)).text_of("/experiences"))


@pytest.mark.sqlite_suffices
def test_hostile_texts_stay_text(memory, browse, tmp_path: Path):
    evil = Experience(HOSTILE, [HOSTILE], HOSTILE, HOSTILE)
    (tmp_path / "handcrafted_exp_evil.yaml").write_text(evil.to_yaml(), encoding="utf-8")
    library = memory.experiences(tmp_path)
    library.feedback(HOSTILE, helped=False, note=HOSTILE, conversation_id=HOSTILE)
    for asked in ({}, {"experiences": library}):
        page = harmless(browse(memory, **asked).text_of("/experiences"))
        assert page.text.count("<script>alert(1)</script>") >= 3
