"""Workflows of Studio in a browser: time travel, search, correction, undo, erasure; with and without scripts."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from langchain_agentmem import AgentMemory
from langchain_agentmem.studio import sample

from .serving import NAMESPACE_QUERY, THREAD

with_and_without_scripts = pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])


def page_is_kept(page):
    """Return a check that the page was not reloaded since this call."""
    page.evaluate("window.kept = true")
    return lambda: page.evaluate("window.kept === true")


class TestToken:
    def test_second_browser_is_refused(self, chromium, served, visit):
        visit()
        stranger = chromium.new_page()
        answer = stranger.goto(f"{served.root}/threads")
        assert (answer.status, stranger.locator("h1").count()) == (403, 0)
        stranger.close()

    def test_token_is_removed_from_the_url(self, visit):
        assert "token" not in visit().url


class TestSlider:
    def test_slider_changes_the_checkpoint_without_reload(self, visit):
        page = visit(THREAD)
        kept = page_is_kept(page)
        assert page.get_by_text(sample.TALK[-1].reply).count()
        page.get_by_role("slider").focus()
        page.keyboard.press("Home")
        expect(page.get_by_text(re.compile("Checkpoint 1 of"))).to_be_visible()
        expect(page.get_by_text(sample.TALK[-1].reply)).to_have_count(0)
        assert kept()
        assert "number=1" in page.url
        page.go_back()
        expect(page.get_by_text(sample.TALK[-1].reply).first).to_be_visible()

    def test_slider_keeps_the_focus(self, visit):
        page = visit(THREAD)
        slider = page.get_by_role("slider")
        slider.focus()
        page.keyboard.press("ArrowLeft")
        expect(page.get_by_text(re.compile("Checkpoint 69 of"))).to_be_visible()
        expect(page.get_by_role("slider")).to_be_focused()

    def test_rapid_key_presses_are_all_applied(self, visit):
        page = visit(THREAD)
        page.get_by_role("slider").focus()
        for pause in (0, 0, 20, 300, 20, 0):
            page.keyboard.press("ArrowLeft")
            page.wait_for_timeout(pause)
        expect(page.get_by_text(re.compile("Checkpoint 64 of"))).to_be_visible()
        assert page.get_by_role("slider").input_value() == "64"

    @pytest.mark.parametrize("name", ["Previous", "Memory", "step 30, loop"])
    def test_followed_link_keeps_the_keyboard_focus(self, visit, name):
        page = visit(THREAD)
        page.get_by_role("link", name=name, exact=True).first.focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**&*=*&*=*")
        expect(page.get_by_role("link", name=name, exact=True).first).to_be_focused()

    def test_slider_has_a_button_without_scripts(self, visit):
        page = visit(THREAD, java_script_enabled=False)
        page.get_by_role("link", name="First").click()
        expect(page.get_by_text(re.compile("Checkpoint 1 of"))).to_be_visible()
        page.get_by_role("button", name="Go").click()
        expect(page.get_by_text(re.compile("Checkpoint 1 of"))).to_be_visible()

    @with_and_without_scripts
    def test_step_page_shows_its_changes(self, visit, scripts):
        page = visit(f"{THREAD}&number=7&show=messages", java_script_enabled=scripts)
        page.get_by_role("link", name="This step").click()
        expect(page.locator("ins, del").first).to_be_visible()


@with_and_without_scripts
def test_search_results_show_their_reasons(visit, scripts):
    page = visit(f"/search?{NAMESPACE_QUERY}", java_script_enabled=scripts)
    page.locator("main input[name=q]").fill("walnuts")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Walnuts make Irena ill").first).to_be_visible()
    assert page.locator("progress, meter").count() > 0


@with_and_without_scripts
def test_facts_are_shown_as_of_a_time(visit, scripts):
    page = visit(f"/facts?{NAMESPACE_QUERY}&valid=2020-01-01", java_script_enabled=scripts)
    lives = page.locator("tr.holds").filter(has_text="lives in")
    expect(lives).to_have_count(1)
    expect(lives).to_contain_text("Olomouc")


def test_facts_slider_changes_the_time_without_reload(visit):
    page = visit(f"/facts?{NAMESPACE_QUERY}")
    kept = page_is_kept(page)
    expect(page.locator("canvas").first).to_be_visible()
    page.get_by_role("slider").focus()
    page.keyboard.press("Home")
    expect(page.locator("tr.holds").filter(has_text="lives in")).to_have_count(0)
    assert kept()


def language(served) -> str:
    with AgentMemory(served.database) as memory:
        return memory.layers("main", sample.IRENA).core.get("language")["language"]


@with_and_without_scripts
def test_value_is_corrected_and_the_correction_undone(visit, served, scripts):
    before, after = language(served), "Irena writes Moravian to her family."
    page = visit(f"/memory?{NAMESPACE_QUERY}", java_script_enabled=scripts)
    page.get_by_role("row").filter(has_text="language").get_by_role("link", name="Correct").click()
    page.get_by_label("Value", exact=True).fill(after)
    page.get_by_role("button", name="Save as a new version").click()
    expect(page.get_by_role("region", name="Current value")).to_contain_text(after)
    assert language(served) == after
    newest = page.get_by_role("region", name="Corrections", exact=True).get_by_role("row").nth(1)
    expect(newest).to_contain_text("ada")
    expect(newest).to_contain_text(before)
    newest.get_by_role("button", name="Undo").click()
    page.goto(f"{served.root}/corrections?{NAMESPACE_QUERY}")
    expect(page.get_by_role("row").nth(1)).to_contain_text("undo")
    assert language(served) == before


def test_second_editor_sees_the_current_value(visit, served):
    where = f"/correct?kind=core&{NAMESPACE_QUERY}&key=language"
    first, second = visit(where), visit(where)
    first.get_by_label("Value", exact=True).fill("the first")
    first.get_by_role("button", name="Save as a new version").click()
    expect(first.get_by_role("region", name="Current value")).to_contain_text("the first")
    second.get_by_label("Value", exact=True).fill("the second")
    second.get_by_role("button", name="Save as a new version").click()
    expect(second.get_by_role("alert")).to_be_visible()
    expect(second.get_by_role("region", name="Current value")).to_contain_text("the first")
    assert language(served) == "the first"


@with_and_without_scripts
def test_erasure_has_a_preview_and_asks_for_name(visit, served, scripts):
    name = "hives-of-a-neighbour" if scripts else "hives-of-another"
    with AgentMemory(served.database) as memory:
        memory.conversation(name, ("neighbours", name)).add_user_message("I have bees, too.")
    page = visit(f"/erase?namespace=neighbours/{name}", java_script_enabled=scripts)
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("row").filter(has_text="entries")).to_contain_text("1")
    for typed, left in (("irena", 1), (f"neighbours/{name}", 0)):
        page.get_by_label("To erase permanently").fill(typed)
        page.get_by_role("button", name="Erase").click()
        expect(page.get_by_role("status" if left == 0 else "alert")).to_be_visible()
        with AgentMemory(served.database) as memory:
            assert len(memory.conversation(name, ("neighbours", name))) == left
    with AgentMemory(served.database) as memory:
        assert len(memory.conversation(sample.GIFT, sample.IRENA)) > 0
