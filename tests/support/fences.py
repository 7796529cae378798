"""Reads back the text of a fence."""

import re

from langchain_agentmem.base.fencing import _tag_name_regex


def unfenced(tag: str, block: str) -> str | None:
    """Return exactly the text that `fenced` was given; None if this is no such block."""
    match = re.fullmatch(rf"<{tag}(?: [\w-]+=\"[^\"<>\n]*\")*>\n(.*)\n</{tag}>", block, re.DOTALL)
    rest = _tag_name_regex(tag)
    if not match or re.search(f"<(?={rest})", match.group(1)):
        return None
    shown = re.compile(f"&lt;(?={rest})|&amp;(?=(?:amp;)*lt;{rest})")
    return shown.sub(lambda mark: "<" if mark.group() == "&lt;" else "&", match.group(1))
