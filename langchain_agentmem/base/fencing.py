"""Fences for text that is data in a prompt: nothing in the text can open or close its own fence.

    <note by="Maya">
    Does `a < b` hold? &lt;/note> It does.
    </note>

Only text that looks like one of the tags is escaped, so code stays unchanged. Different texts result in different
blocks. Fences with different tag names can be nested.

`sanitize_text` removes invisible characters. It also escapes tokens that a model or its server interprets as the end of
a message. These changes cannot be undone.
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache

from langchain_agentmem.base.encoding import replace_surrogates

__all__ = ["fence_text", "sanitize_text"]

_UNSAFE_IN_ATTRIBUTE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

_FILLERS = r"\u115f\u1160\u3164\uffa0"  # invisible, but letters in Unicode
_INVISIBLE = (
    rf"[\xad\u034f\u061c{_FILLERS}\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    r"\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def fence_text(tag: str, text: str, **attributes: object) -> str:
    """Enclose a text in an opening and a closing tag that mark it as data.

    Args:
        tag: The name of the tags: a letter, then letters, digits, hyphens and underscores.
        text: Any text.
        attributes: The attributes of the opening tag, in order. Attributes with the value None are omitted.

    Returns:
        The opening tag on its own line, the text, and the closing tag on its own line.
    """
    pairs = "".join(f' {key}="{_quote_attribute(value)}"' for key, value in attributes.items() if value is not None)
    escaped = _tag_pattern(tag).sub(lambda match: "&lt;" if match.group() == "<" else "&amp;", text)
    return f"<{tag}{pairs}>\n{escaped}\n</{tag}>"


def _quote_attribute(value: object) -> str:
    return _UNSAFE_IN_ATTRIBUTE.sub(lambda match: f"&#x{ord(match.group()):x};", html.escape(str(value)))


# A model may recognize a tag despite blanks or signs before its name, capital letters, or invisible characters in it.
# So the patterns allow all of these.
_BEFORE, _AFTER = rf"(?:[^\w<&]|[{_FILLERS}])*", rf"(?![^\W{_FILLERS}])"


def _tag_name_regex(tag: str) -> str:
    return _BEFORE + "(?i:" + f"{_INVISIBLE}*".join(map(re.escape, tag)) + ")" + _AFTER


@lru_cache
def _tag_pattern(tag: str) -> re.Pattern[str]:
    name = _tag_name_regex(tag)
    # "&lt;" before the name is escaped too, so that different texts result in different blocks.
    return re.compile(f"<(?={name})|&(?=(?:amp;)*lt;{name})")


# --- Characters and tokens that control a model ----------------------------------------------------------------------

_LINE_BREAKS = re.compile(r"\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_INVISIBLE_RUN = re.compile(f"{_INVISIBLE}+")
_JOINER_RUN, _VARIATION_SELECTORS = re.compile(r"\ufe0f?\u200d|\u200c"), re.compile(r"[\ufe0e\ufe0f]")
_LOOKALIKES = str.maketrans({"\uff1c": "<", "\ufe64": "<", "\uff1e": ">", "\ufe65": ">"})
_TAG_NAME = re.compile(r"(?<=<)([^\w<]*)(\w+)")

# Tags whose content a model does not read as data: parts of prompts and calls. `_CONTROL_TOKENS` adds the tags of this
# package.
_TAG_NAMES = (
    r"system|user|assistant|human|developer|instructions?|sys|bos|eos|(?:start|end)_of_turn|think(?:ing)?|"
    r"tool_(?:calls?|use|results?|response)|function_(?:calls?|results?)|invoke"
)
_CONTROL_TOKENS = re.compile(
    rf"<(?={_BEFORE}(?i:(?:core_|recalled_)?memory(?:_update|_results)?){_AFTER})"
    rf"|<(?={_BEFORE}(?i:{_TAG_NAMES})(?=[\s/>])[^>]{{0,80}}>|/?s>)"
    r"|<(?=[|\uff5c][^>\n]{1,60}[|\uff5c]>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)(?:\]|\Z))"  # tokens such as [INST]
)


def sanitize_text(text: str) -> str:
    """Make untrusted text safe to show to a model.

    Line breaks of every kind become newlines. Control characters except tabs are removed. Invisible characters are
    removed, except joiners and variation selectors that scripts and emoji need. Lone surrogates become U+FFFD.

    Tokens and tags that end a message, or begin another message or a call, are escaped. Full-width and small angle
    brackets first become ASCII, and so do tag names in look-alike characters.

    Args:
        text: Any text.

    Returns:
        The safe text. A text without any of these characters and tokens is returned unchanged.
    """
    text = replace_surrogates(_LINE_BREAKS.sub("\n", text))
    text = _INVISIBLE_RUN.sub(_filter_invisible, _CONTROLS.sub("", text)).translate(_LOOKALIKES)
    text = _TAG_NAME.sub(_normalize_tag_name, text)
    return _CONTROL_TOKENS.sub(lambda match: "&lt;" if match.group() == "<" else "&#91;", text)


def _filter_invisible(match: re.Match[str]) -> str:
    """Return a run of invisible characters if the script or emoji around needs it, else ""."""
    run, start, end = match.group(), match.start(), match.end()
    before, after = match.string[max(0, start - 1) : start], match.string[end : end + 1]
    if before.isascii():
        return ""
    return run if _VARIATION_SELECTORS.fullmatch(run) or (_JOINER_RUN.fullmatch(run) and not after.isascii()) else ""


def _normalize_tag_name(match: re.Match[str]) -> str:
    """Convert a tag name in look-alike characters to ASCII, if possible."""
    name = unicodedata.normalize("NFKC", match.group(2))
    return match.group(1) + name if name.isascii() else match.group()


def sanitize_line(text: str) -> str:
    """Make untrusted text safe to show to a model, and join it into one line."""
    return sanitize_text(" ".join(sanitize_text(text).split()))
