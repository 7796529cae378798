"""One self-contained page of what Studio shows of a thread, a tenant or all of a memory, to send to somebody.

It is made of Studio's own pages: they are asked for within this process, page after page, and what needs a server is
taken out of them, which is links, forms, scripts and navigation. So a report says what Studio says, in the same words.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Sequence
from html.parser import HTMLParser
from http import HTTPStatus
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlencode, urlsplit
from xml.etree.ElementTree import Element, TreeBuilder, tostring

from markupsafe import Markup
from starlette.types import ASGIApp, Message

from langchain_agentmem import __version__
from langchain_agentmem.base.files import check_free, path_of_file, whole_file
from langchain_agentmem.base.namespaces import named, namespace_of, path_of
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.studio.application import STATIC, TEMPLATES, application

if TYPE_CHECKING:
    from langchain_agentmem.agent_memory import AgentMemory

MOST = 20
"""Pages of one list that a report has, at most."""
WAIT = 0.1
"""Seconds until a page is asked for again that is still counting."""
OLDER, AFTER = "Older", "After these"
"""What links to the next page of a list say."""
HEADINGS = {"h1": "h3", "h2": "h3", "h3": "h4", "h4": "h5"}
"""What becomes of headings below those of the report."""
TITLES = {
    "/": "Overview", "/threads": "Threads", "/tenants": "Tenants", "/memory": "Memory", "/facts": "Facts",
    "/audit": "Audit", "/audit/chain": "The chain of the audit trail",
}  # fmt: skip
LIVE = {"nav", "form", "script", "button", "canvas", "input", "select", "textarea", "link", "style", "template"}
"""What needs a server, or a script. Of a link its text stays."""
ACTIONS = {"/correct", "/erase", "/undo"}
"""Where links lead of which nothing stays."""
KEPT = {"class", "dir", "scope", "colspan", "datetime", "value", "max", "aria-label", "aria-hidden", "open"}
DRAWN = {"svg", "g", "line", "polyline", "path", "circle", "rect", "text", "title"}
"""Elements of pictures, of which every attribute stays that leads nowhere."""
VOID = {"br", "hr", "img", "input", "link", "meta", "wbr"}


class Chapter(NamedTuple):
    """A chapter of a report.

    Attributes:
        title: Its heading.
        content: What it holds.
    """

    title: str
    content: Sequence[Element]


def write_report(
    memory: AgentMemory,
    path: str | os.PathLike[str],
    *,
    namespace: Sequence[str] | None = None,
    thread_id: str | None = None,
    replace: bool = False,
) -> None:
    """Write a report to a file, whole or not at all. Of a list that is longer it has the first 1,000 things.

    Args:
        memory: What it tells of.
        path: The file, HTML in UTF-8, which only its owner may read.
        namespace: Whose memory. Default: everybody's; of a thread, the root.
        thread_id: Only this thread or conversation. Default: everything there.
        replace: Whether a file that is there is replaced. Default: not.

    Raises:
        InvalidInput: There is no such thread, or the file is there, or it cannot be written.
    """
    target = path_of_file(path)
    check_free(target, force=replace)
    text = asyncio.run(report(memory, namespace=namespace, thread_id=thread_id))
    with whole_file(target) as file:
        file.write(text)


async def report(memory: AgentMemory, *, namespace: Sequence[str] | None = None, thread_id: str | None = None) -> str:
    """A report as HTML; arguments and errors as for `write_report`."""
    pages = _Pages(application(memory, user=""))
    whose = namespace_of(path_of(namespace or ()))
    where = {} if namespace is None else {"namespace": named(whose)}
    if thread_id is None:
        parts = await pages.of_tenant(where)
        title = "Memory" if namespace is None else f"Memory of {named(whose)}"
    else:
        parts = await pages.of_thread({**where, "id": thread_id})
        title = f"Thread {named(whose, thread_id)}"
    return TEMPLATES.get_template("report.html").render(
        title=title,
        version=__version__,
        now=memory.database.clock(),
        style=Markup(STATIC["style.css"][0].decode()),  # noqa: S704 - our own file
        parts=[(part.title, Markup("".join(map(_written, part.content)))) for part in parts],  # noqa: S704 - escaped there
    )


class _Pages:
    """Studio's pages, as elements.

    Args:
        studio: The application.
    """

    def __init__(self, studio: ASGIApp) -> None:
        self._studio = studio

    async def of_thread(self, asked: dict[str, str]) -> list[Chapter]:
        thread = f"/thread?{urlencode(asked)}"
        main = await self.get(thread)
        parts = [Chapter("Messages", await self.whole(thread, "panel", before=True))]
        if tree := _found(main, "class", "panel tree"):
            tree[0].tag = "div"
            parts.insert(0, Chapter("Checkpoints", tree))
            panel = await self.part(f"{thread}&show=memory", "panel")
            sections = [
                each
                for section in panel.findall("section")
                for each in await self.whole(f"{thread}&show=memory", section.get("aria-labelledby", ""))
            ]
            parts.append(Chapter("Memory", sections))
        parts.append(Chapter("Compactions", await self._chosen(f"{thread}&show=compaction", "summaries", "behind")))
        parts.append(Chapter("Prompts", await self._chosen(f"{thread}&show=prompts", "questions", "why")))
        return parts

    async def of_tenant(self, asked: dict[str, str]) -> list[Chapter]:
        pages = ("/threads", "/memory", "/facts", "/audit", "/audit/chain") if asked else ("/", "/threads", "/tenants")
        where = urlencode({**asked, "verify": 1})
        return [Chapter(TITLES[path], await self.whole(f"{path}?{where}", "content")) for path in pages]

    async def _chosen(self, path: str, choices: str, shown: str) -> list[Element]:
        """What a page shows of each thing that can be chosen on it."""
        main = await self.get(path)
        listed = _found(main, "aria-labelledby", choices)
        links = [link.get("href", "") for each in listed for link in each.iter("a")]
        return listed + [each for link in dict.fromkeys(links) for each in await self.whole(link, shown)] or _found(
            main, "id", "panel"
        )

    async def whole(self, path: str, name: str, *, before: bool = False) -> list[Element]:
        """A part of a page with all that its next pages have of it.

        Args:
            path: The page.
            name: The part, see `part`.
            before: Whether what comes on the next page stands before what this one has.
        """
        first = part = await self.part(path, name)
        for _ in range(MOST - 1):
            links = chain.from_iterable(each.iter("a") for each in _found(part, "class", "paging"))
            following = next((each.get("href") for each in links if _text(each) in {OLDER, AFTER}), None)
            if following is None:
                break
            part = await self.part(following, name)
            holder, there = _items(first)
            if not there:
                break
            place = [*holder].index(there[0]) if before else [*holder].index(there[-1]) + 1
            holder[place:place] = _items(part)[1]
        return [first]

    async def part(self, path: str, name: str) -> Element:
        """What is called by a heading of this id, or by this id itself; else all of the page."""
        main = await self.get(path)
        return next(iter(_found(main, "aria-labelledby", name) + _found(main, "id", name)), main)

    async def get(self, path: str) -> Element:
        """The main part of a page.

        Raises:
            InvalidInput: There is no such page.
        """
        main = await self._asked(urlsplit(path))
        while _found(main, "aria-busy", "true"):  # something is still being counted
            await asyncio.sleep(WAIT)
            main = await self._asked(urlsplit(path))
        return main

    async def _asked(self, where: SplitResult) -> Element:
        told: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request"}

        async def send(message: Message) -> None:
            told.append(message)

        scope: dict[str, Any] = {
            "type": "http", "method": "GET", "path": unquote(where.path), "root_path": "", "scheme": "http",
            "query_string": where.query.encode(), "headers": [],
        }  # fmt: skip
        await self._studio(scope, receive, send)
        reader = _Reader()
        reader.feed(b"".join(each.get("body", b"") for each in told).decode())
        [main] = reader.end().iter("main")
        if told[0]["status"] != HTTPStatus.OK:
            raise InvalidInput(_text(_found(main, "class", "problem")[0]))
        return main


class _Reader(HTMLParser):
    """Reads a page of ours as elements."""

    def __init__(self) -> None:
        super().__init__()
        self._builder = TreeBuilder()
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._builder.start(tag, {name: value or "" for name, value in attrs})
        self._open.append(tag)
        if tag in VOID:
            self.handle_endtag(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        while tag in self._open and self._builder.end(self._open.pop()).tag != tag:
            pass  # what may go without an end, such as an option, ends with what it is in

    def handle_data(self, data: str) -> None:
        self._builder.data(data)

    def end(self) -> Element:
        self.close()
        return self._builder.close()


def _found(within: Element, name: str, value: str) -> list[Element]:
    return [each for each in within.iter() if each.get(name) == value]


def _text(element: Element) -> str:
    return "".join(element.itertext()).strip()


def _items(part: Element) -> tuple[Element, list[Element]]:
    """The element whose list the first links to more are about, which is the one before them, and what it lists."""
    found: tuple[Element, list[Element]] = (part, [])
    passed: set[Element] = set()
    linked = False
    for each in part.iter():
        if each in passed:
            continue
        listed = (
            [] if each.tag in {"nav", "thead"} else next(filter(None, map(each.findall, ("article", "tr", "li"))), [])
        )
        if each.tag == "nav" or listed:
            passed.update(each.iter())
        if listed:
            found = (each, listed)
        linked |= each.get("class") == "paging"
        if linked and found[1]:
            break
    return found


def _written(element: Element) -> str:
    """An element without what needs a server."""
    kept = _kept(element)
    root = Element("div")
    _fill(root, kept)
    return tostring(root, encoding="unicode", method="html")


def _kept(element: Element) -> Iterator[Element | str]:
    """What of an element stays: itself, or its texts and what it holds where only these do."""
    leads = urlsplit(element.get("href", "")).path if element.tag == "a" else ""
    if element.tag not in LIVE and leads not in ACTIONS:
        inside = (element.text or "", *(each for child in element for each in (*_kept(child), child.tail or "")))
        if element.tag in {"a", "main"}:
            yield from inside
        else:
            drawn = element.tag in DRAWN
            attributes = {
                name: value
                for name, value in element.items()
                if name in KEPT or (drawn and not name.startswith(("on", "href", "xlink", "style", "id")))
            }
            made = Element(HEADINGS.get(element.tag, element.tag), attributes)
            _fill(made, inside)
            yield made


def _fill(element: Element, content: Iterable[Element | str]) -> None:
    """Put texts and elements into an element."""
    last: Element | None = None
    for each in content:
        if isinstance(each, Element):
            element.append(each)
            last = each
        elif last is None:
            element.text = (element.text or "") + each
        else:
            last.tail = (last.tail or "") + each
