"""The page where a person decides on proposals for experiences."""

from __future__ import annotations

import html
import re

import pytest

from langchain_agentmem.experiences.experience_proposals import Draft


@pytest.fixture
def library(memory, tmp_path):
    (tmp_path / "experience").mkdir()
    return memory.experiences(tmp_path / "experience")


@pytest.fixture
def browser(memory, browse, library):
    return browse(memory, experiences=library)


def propose(library, what="Check that the file exists.", exp_id="check-file"):
    return library.propose(Draft("Use when files are read.", what), exp_id=exp_id).name


def decide(browser, file, do, **fields):
    text = browser.text_of("/proposals")
    form = text[text.index(f'file={file}"') :]
    version = re.search(r'name="version" value="(\w+)"', form)[1]
    written = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", form, re.DOTALL)
    given = {"version": version, "do": do} | ({"text": html.unescape(written[1])} if written else {}) | fields
    return browser.submit(f"/proposals?file={file}", form_on="/proposals", **given)


def test_what_is_put_to_use_counts_and_says_who_approved_it(library, browser):
    file = propose(library)
    assert library.load() == []
    decide(browser, file, "approved")
    assert [each.exp_id for each in library.load()] == ["check-file"]
    [proposal] = library.proposals()
    assert (proposal.state, proposal.file) == ("approved", "handcrafted_exp_check-file.yaml")
    assert re.search(r"^# Approved on [\d: -]+ UTC by 'ada'\.$", proposal.text, re.MULTILINE)
    assert "In use (1)" in browser.text_of("/proposals")


def test_it_is_taken_out_of_use_again(library, browser):
    file = propose(library)
    decide(browser, file, "approved")
    decide(browser, "handcrafted_exp_check-file.yaml", "proposed")
    [proposal] = library.proposals()
    assert (proposal.state, library.load()) == ("proposed", [])
    decide(browser, proposal.file, "approved")
    assert len(library.load()) == 1
    assert library.proposals()[0].text.count("# Approved on") == 2


def test_it_is_corrected_on_the_way(library, browser):
    file = propose(library)
    text = library.proposals()[0].text.replace("Check that", "Make sure that")
    decide(browser, file, "approved", text=text.replace("\n", "\r\n"))
    [experience] = library.load()
    assert experience.what == "Make sure that the file exists."


def test_what_is_rejected_counts_nowhere_and_may_be_considered_again(library, browser):
    file = propose(library)
    decide(browser, file, "rejected")
    [proposal] = library.proposals()
    assert (proposal.state, library.load()) == ("rejected", [])
    decide(browser, proposal.file, "proposed")
    assert [each.state for each in library.proposals()] == ["proposed"]


def test_what_cannot_be_used_stays_with_what_was_written(library, browser):
    file = propose(library)
    answer = decide(browser, file, "approved", text="exp_id: [")
    assert answer.status_code == 400
    assert "exp_id: [</textarea>" in answer.text
    assert [each.state for each in library.proposals()] == ["proposed"]
    assert library.load() == []


def test_an_id_is_not_used_twice(library, browser):
    file = propose(library)
    propose(library, "Another.", exp_id="other")
    decide(browser, file, "approved")
    text = next(each for each in library.proposals() if each.state == "proposed").text
    answer = decide(browser, "proposed_exp_other.yaml", "approved", text=text.replace("other", "check-file"))
    assert answer.status_code == 400
    assert len(library.load()) == 1


def test_of_two_who_decide_the_second_reads_it_again(library, browser):
    file = propose(library)
    text = browser.text_of("/proposals")
    version = re.search(r'name="version" value="(\w+)"', text)[1]
    path = library.directory / "proposed" / file
    path.write_text(path.read_text(encoding="utf-8") + "# seen\n", encoding="utf-8")
    answer = browser.submit(f"/proposals?file={file}", form_on="/proposals", version=version, do="approved")
    assert (answer.status_code, library.load()) == (409, [])
    decide(browser, file, "approved")
    propose(library, exp_id="another")
    answer = browser.submit(f"/proposals?file={file}", form_on="/proposals", version=version, do="approved")
    assert answer.status_code == 404


@pytest.mark.parametrize("file", ["../secret.yaml", "/etc/passwd", "proposed_exp_x.yaml", "handcrafted_exp_own.yaml"])
def test_no_other_file_is_reached(library, browser, file):
    (library.directory.parent / "secret.yaml").write_text("exp_id: a\nwhen: b\nwhat: c\n", encoding="utf-8")
    (library.directory / "handcrafted_exp_own.yaml").write_text("exp_id: a\nwhen: b\nwhat: c\n", encoding="utf-8")
    propose(library)
    answer = browser.submit(f"/proposals?file={file}", form_on="/proposals", do="rejected", version="")
    assert answer.status_code == 404
    assert len(library.load()) == 1


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "</textarea><img src=x>", "\u202eturned"])
def test_hostile_texts_stay_text(library, browser, text):
    file = propose(library, what=text)
    assert "<script>alert" not in browser.text_of("/proposals")
    assert "<img" not in browser.text_of("/proposals")
    decide(browser, file, "approved")
    shown = browser.text_of("/proposals")
    assert "<script>alert" not in shown
    assert "\u202e" not in shown


def test_without_a_library_there_is_no_such_page(memory, browse):
    assert "--experiences" in browse(memory).text_of("/proposals", 404)


def test_a_decision_that_is_none_is_refused(library, browser):
    file = propose(library)
    assert decide(browser, file, "burn").status_code == 400
    assert [each.state for each in library.proposals()] == ["proposed"]
