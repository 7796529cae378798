"""Experiences in Studio: their texts and their roles."""

from __future__ import annotations

import re

import pytest

from langchain_agentmem import Experience
from langchain_agentmem.studio.application import PAGE
from tests.studio.markup import Page, harmless

FILES = Experience("files", ["Coder", "Planner"], "Use when files are read.", "Check that the file exists.")
PLOTS = Experience("plots", [], "Use when plots are drawn.", "Name the axes.")


@pytest.fixture
def folder(tmp_path):
    for each in (FILES, PLOTS):
        (tmp_path / f"handcrafted_exp_{each.exp_id}.yaml").write_text(each.to_yaml(), encoding="utf-8")
    return tmp_path


@pytest.fixture
def library(memory, folder):
    return memory.experiences(folder)


def listed(html: str) -> list[str]:
    """The ids of the experiences in the table."""
    return re.findall(r'<th scope="row"><bdi>(.*?)</bdi></th>\s*<td>', html)


def test_page_without_library_mentions_the_option(memory, browse):
    assert "--experiences" in harmless(browse(memory).text_of("/experiences")).text


def test_page_shows_texts_and_roles_of_experiences(memory, library, browse):
    page = harmless(browse(memory, experiences=library).text_of("/experiences"))
    assert "Check that the file exists." in page.text
    assert "Use when plots are drawn." in page.text
    assert "Coder, Planner" in " ".join(page.text.split())
    assert "all roles" in page.text


def test_experiences_are_filtered_by_role(memory, library, browse):
    browser = browse(memory, experiences=library)
    assert listed(browser.text_of("/experiences?role=coder")) == ["files", "plots"]
    assert listed(browser.text_of("/experiences?role=Writer")) == ["plots"]
    roles = [each["value"] for each in Page(browser.text_of("/experiences")).all("option")]
    assert roles == ["", "Coder", "Planner"]


def test_files_not_loaded_are_listed_with_reasons(memory, library, folder, browse):
    (folder / "handcrafted_exp_bad<b>.yaml").write_text("{", encoding="utf-8")
    page = harmless(browse(memory, experiences=library).text_of("/experiences"))
    assert "handcrafted_exp_bad<b>.yaml" in page.text
    assert "not valid YAML" in page.text


def test_experiences_are_paged(memory, tmp_path, browse):
    for number in range(PAGE + 1):
        (tmp_path / f"handcrafted_exp_{number}.yaml").write_text(f"exp_id: e{number}\nwhen: files\nwhat: b\n")
    library = memory.experiences(tmp_path)
    browser = browse(memory, experiences=library)
    [older] = [each for each in Page(browser.text_of("/experiences")).links if "start=" in each]
    assert older == f"/experiences?start={PAGE}"
    assert len(listed(browser.text_of(older))) == 1
    assert "start" in browser.text_of("/experiences?start=-1", 400)
