"""A parser of pages that tells markup from text."""

from __future__ import annotations

import itertools
from html.parser import HTMLParser

HOSTILE = (
    '<script>alert(1)</script><img src=x onerror=alert(2)>" onmouseover="alert(3) javascript:alert(4) '
    "{{ 7 * 7 }} \u202egpj"
)
"""Hostile text for contents and names."""


FIELDS = ("input", "select", "textarea")


class Page(HTMLParser):
    """A page: its texts, links, fields and tables."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self._label: str | None = None
        """The attribute `for` of the label that is open."""
        self._typed = False
        """Return whether a form field is open."""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if self._label is not None and tag in FIELDS:
            given["label"] = "around it"
        if tag == "label":
            self._label = given.get("for", "")
        self._typed = tag == "textarea"
        self.tags.append((tag, given))

    def handle_endtag(self, tag: str) -> None:
        if tag == "label":
            self._label = None
        self._typed = False

    def handle_data(self, data: str) -> None:
        if not self._typed:
            self.text += data

    @property
    def links(self) -> list[str]:
        return [given["href"] for tag, given in self.tags if tag == "a"]

    def all(self, tag: str) -> list[dict[str, str]]:
        return [given for name, given in self.tags if name == tag]


def harmless(html: str) -> Page:
    """Check that nothing on a page runs, loads or leads elsewhere, and that everything can be reached and is named."""
    page = Page(html)
    for tag, given in page.tags:
        assert not any(name.startswith("on") or name == "style" for name in given), (tag, given)
        assert tag not in {"img", "iframe", "object", "embed", "style", "base"}, tag
        for name in ("href", "src", "action"):
            assert given.get(name, "/").startswith(("/", "#")), (tag, given)
        assert tag != "script" or "src" in given
    assert "\u202e" not in page.text
    assert "49 " not in page.text
    headings = [int(tag[1]) for tag, _ in page.tags if tag in {"h1", "h2", "h3", "h4"}]
    assert headings[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(headings))
    labelled = {given.get("for") for given in page.all("label")}
    for given in (given for tag, given in page.tags if tag in FIELDS):
        named = given.get("type") == "hidden" or "label" in given or "aria-label" in given
        assert named or given["id"] in labelled, given
    assert all("scope" in given for given in page.all("th"))
    assert all("aria-label" in given for given in page.all("nav") + page.all("progress"))
    identifiers = [given["id"] for _, given in page.tags if "id" in given]
    assert len(identifiers) == len(set(identifiers))
    return page
