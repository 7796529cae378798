"""What people do with Studio in a browser: go through time, search, correct, undo, erase; with and without scripts."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from langchain_agentmem import AgentMemory
from langchain_agentmem.studio import sample

from .serving import THREAD, WHOSE

with_and_without_scripts = pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])


def stays(page):
    """Whether the page has been kept, and only parts of it exchanged, since this was called."""
    page.evaluate("window.kept = true")
    return lambda: page.evaluate("window.kept === true")


class TestTheToken:
    def test_a_second_browser_is_not_let_in(self, chromium, served, visit):
        visit()
        stranger = chromium.new_page()
        answer = stranger.goto(f"{served.root}/threads")
        assert (answer.status, stranger.locator("h1").count()) == (403, 0)
        stranger.close()

    def test_it_has_left_the_address(self, visit):
        assert "token" not in visit().url


class TestTheSlider:
    def test_it_goes_through_time_without_leaving_the_page(self, visit):
        page = visit(THREAD)
        kept = stays(page)
        assert page.get_by_text(sample.TALK[-1].reply).count()
        page.get_by_role("slider").focus()
        page.keyboard.press("Home")
        expect(page.get_by_text(re.compile("Checkpoint 1 of"))).to_be_visible()
        expect(page.get_by_text(sample.TALK[-1].reply)).to_have_count(0)
        assert kept()
        assert "number=1" in page.url
        page.go_back()
        expect(page.get_by_text(sample.TALK[-1].reply).first).to_be_visible()

    def test_the_focus_stays_where_it_was(self, visit):
        page = visit(THREAD)
        slider = page.get_by_role("slider")
        slider.focus()
        page.keyboard.press("ArrowLeft")
        expect(page.get_by_text(re.compile("Checkpoint 69 of"))).to_be_visible()
        expect(page.get_by_role("slider")).to_be_focused()

    def test_without_scripts_there_is_a_button(self, visit):
        page = visit(THREAD, java_script_enabled=False)
        page.get_by_role("link", name="First").click()
        expect(page.get_by_text(re.compile("Checkpoint 1 of"))).to_be_visible()
        page.get_by_role("button", name="Go").click()
        expect(page.get_by_text(re.compile("Checkpoint 1 of"))).to_be_visible()

    @with_and_without_scripts
    def test_a_step_shows_what_it_changed(self, visit, scripts):
        page = visit(f"{THREAD}&number=7&show=messages", java_script_enabled=scripts)
        page.get_by_role("link", name="This step").click()
        expect(page.locator("ins, del").first).to_be_visible()


@with_and_without_scripts
def test_a_search_says_why(visit, scripts):
    page = visit(f"/search?{WHOSE}", java_script_enabled=scripts)
    page.locator("main input[name=query]").fill("walnuts")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Walnuts make Irena ill").first).to_be_visible()
    assert page.locator("progress, meter").count() > 0


@with_and_without_scripts
def test_facts_are_shown_as_of_a_time(visit, scripts):
    page = visit(f"/facts?{WHOSE}&valid=2020-01-01", java_script_enabled=scripts)
    expect(page.get_by_role("row").filter(has_text="Olomouc").filter(has_text="lives in")).to_have_count(1)
    expect(page.get_by_role("row").filter(has_text="Brno").filter(has_text="lives in")).to_have_count(0)


@with_and_without_scripts
def test_a_value_is_corrected_and_that_is_undone(visit, served, scripts):
    def value():
        with AgentMemory(served.database) as memory:
            return memory.layers("main", sample.IRENA).core.get("language")["language"]

    before = value()
    page = visit(f"/memory?{WHOSE}", java_script_enabled=scripts)
    page.get_by_role("row").filter(has_text="language").get_by_role("link", name="Correct").click()
    page.locator("main textarea").first.fill("Irena writes Moravian to her family.")
    page.locator("main form").filter(has=page.locator("textarea")).get_by_role("button").first.click()
    expect(page.get_by_text("Irena writes Moravian to her family.").first).to_be_visible()
    assert value() == "Irena writes Moravian to her family."
    page.get_by_role("link", name="Corrections", exact=True).first.click()
    expect(page.get_by_text("ada").first).to_be_visible()
    page.get_by_text("Undo").first.click()
    if page.locator("main").get_by_role("button", name=re.compile("Undo")).count():
        page.locator("main").get_by_role("button", name=re.compile("Undo")).first.click()
    expect(page.get_by_text(before).first).to_be_visible()
    assert value() == before


def test_erasing_is_rehearsed_and_asks_for_the_name(visit, served):
    page = visit("/tenants")
    page.get_by_role("row").filter(has_text="marek").get_by_role("link", name=re.compile("[Ee]rase")).click()
    page.get_by_role("button", name=re.compile("Rehearse|Show")).click()
    expect(page.locator("main")).to_contain_text("messages")
    name = page.locator("main input:not([type=hidden])").last
    name.fill("irena")
    page.locator("main").get_by_role("button", name=re.compile("^Erase")).click()
    with AgentMemory(served.database) as memory:
        assert len(memory.conversation(sample.HIVES, sample.MAREK)) > 0
    page.locator("main input:not([type=hidden])").last.fill("marek")
    page.locator("main").get_by_role("button", name=re.compile("^Erase")).click()
    page.wait_for_load_state()
    with AgentMemory(served.database) as memory:
        assert len(memory.conversation(sample.HIVES, sample.MAREK)) == 0
        assert len(memory.conversation(sample.GIFT, sample.IRENA)) > 0
