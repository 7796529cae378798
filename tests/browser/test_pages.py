"""Every page of Studio in a browser: errors, accessibility, small screens, keyboard, with and without scripts."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from .serving import PAGES

every_page = pytest.mark.parametrize("path", PAGES.values(), ids=PAGES)


@every_page
def test_page_opens_without_browser_errors(visit, path):
    page = visit(path)
    assert page.locator("h1").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280, "nothing sticks out"


@every_page
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_has_no_serious_accessibility_violations(visit, path, scheme):
    page = visit(path, color_scheme=scheme)
    found = Axe().run(page).response["violations"]
    serious = [each for each in found if each["impact"] in {"serious", "critical"}]
    assert [(each["id"], [node["html"] for node in each["nodes"]][:5]) for each in serious] == []


@every_page
def test_page_fits_a_phone_screen(visit, path):
    page = visit(path)
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("header").first.bounding_box()["height"] < 200, "what the page is about is in sight"


@every_page
def test_page_is_readable_without_scripts(visit, path):
    with_scripts, without = visit(path), visit(path, java_script_enabled=False)
    assert without.locator("h1").inner_text() == with_scripts.locator("h1").inner_text()
    assert without.locator("main :is(table, article, dl, form, li)").count() > 0


@every_page
def test_keyboard_reaches_every_control(visit, path):
    page = visit(path)
    wanted = page.evaluate(
        """() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary")]
            .filter(each => each.checkVisibility() && !each.disabled && each.type !== "hidden" && each.tabIndex >= 0)
            .filter(each => each.type !== "radio" || each.checked).length"""
    )
    reached = set()
    for _ in range(10 * wanted):  # a field of a time has several places
        page.keyboard.press("Tab")
        place, tag, outline = page.evaluate(
            """() => { const at = document.activeElement;
                const place = [...document.querySelectorAll("*")].indexOf(at);
                return [place, at.tagName, getComputedStyle(at).outlineStyle] }"""
        )
        if tag == "BODY":
            break
        reached.add(place)
        assert outline != "none", "who is there sees where"
    assert len(reached) >= wanted


def test_skip_link_leads_to_the_content(visit):
    page = visit()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"


def test_enter_follows_a_link(visit):
    page = visit()
    page.get_by_role("link", name="Threads", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/threads")
    assert page.get_by_role("navigation", name="Pages").locator("[aria-current=page]").inner_text() == "Threads"
