"""Text as data in a prompt: between two marks that nothing in the text can end, or open again.

    <note by="Maya">
    Does `a < b` hold? &lt;/note> It does.
    </note>

Only what could be taken for the marks is escaped, so that code stays as it was written. `unfenced` gives back exactly
the text. Fences of different names may stand in each other.
"""

from __future__ import annotations

import html
import re
from functools import lru_cache

from langchain_agentmem.errors import InvalidInput

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def fenced(tag: str, text: str, **attributes: object) -> str:
    """Write a text as data.

    Args:
        tag: The name of the marks: a letter, then letters, digits, hyphens and underscores.
        text: Anything.
        attributes: What the opening mark tells of it, in this order; those that are None are left out.

    Returns:
        The opening mark on a line, the text, and the closing mark on a line.

    Raises:
        InvalidInput: The tag or the name of an attribute is none.
    """
    told = "".join(f' {_name(key)}="{_quoted(value)}"' for key, value in attributes.items() if value is not None)
    escaped = _hidden(_name(tag)).sub(lambda match: "&lt;" if match.group() == "<" else "&amp;", text)
    return f"<{tag}{told}>\n{escaped}\n</{tag}>"


def unfenced(tag: str, block: str) -> str | None:
    """Read what `fenced` wrote.

    Args:
        tag: The name of the marks.
        block: The whole of it.

    Returns:
        Exactly the text that was fenced; None if this is no such block.

    Raises:
        InvalidInput: The tag is none.
    """
    match = re.fullmatch(rf"<{_name(tag)}(?: [\w-]+=\"[^\"<>\n]*\")*>\n(.*)\n</{tag}>", block, re.DOTALL)
    if not match or _marks(tag).search(match.group(1)):
        return None
    return _shown(tag).sub(lambda match: "<" if match.group() == "&lt;" else "&", match.group(1))


def _name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"{name!r:.100} cannot name a fence: a letter, then letters, digits, hyphens, underscores.")
    return name


def _quoted(value: object) -> str:
    return _UNSAFE.sub(lambda match: f"&#x{ord(match.group()):x};", html.escape(str(value)))


# A mark as a careless reader may see it: with blanks or signs before the name, in any case.
_REST = r"[^\w<&]*(?i:{tag})(?!\w)"


@lru_cache
def _marks(tag: str) -> re.Pattern[str]:
    return re.compile("<(?=" + _REST.replace("{tag}", tag) + ")")


@lru_cache
def _hidden(tag: str) -> re.Pattern[str]:
    rest = _REST.replace("{tag}", tag)
    return re.compile(f"<(?={rest})|&(?=(?:amp;)*lt;{rest})")


@lru_cache
def _shown(tag: str) -> re.Pattern[str]:
    rest = _REST.replace("{tag}", tag)
    return re.compile(f"&lt;(?={rest})|&amp;(?=(?:amp;)*lt;{rest})")
