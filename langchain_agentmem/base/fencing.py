"""Text as data in a prompt: between two marks that nothing in the text can end, or open again.

    <note by="Maya">
    Does `a < b` hold? &lt;/note> It does.
    </note>

Only text that looks like the marks is escaped, so that code stays as it was written. No two texts result in the same
block. Fences of different names may be nested.

`harmless` removes characters that act on a reader without carrying text: invisible characters, and tokens that a model
or its server takes for the end of a message. This cannot be undone.
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache

from langchain_agentmem.base.encoding import replace_surrogates

__all__ = ["fenced", "harmless"]

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

_FILLERS = r"\u115f\u1160\u3164\uffa0"  # letters, as Unicode has it, that nobody sees
_UNSEEN = (
    rf"[\xad\u034f\u061c{_FILLERS}\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    r"\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def fenced(tag: str, text: str, **attributes: object) -> str:
    """Write a text as data.

    Args:
        tag: The name of the marks: a letter, then letters, digits, hyphens and underscores.
        text: Anything.
        attributes: What the opening mark tells of it, in this order; those that are None are left out.

    Returns:
        The opening mark on a line, the text, and the closing mark on a line.
    """
    told = "".join(f' {key}="{_quoted(value)}"' for key, value in attributes.items() if value is not None)
    escaped = _hidden(tag).sub(lambda match: "&lt;" if match.group() == "<" else "&amp;", text)
    return f"<{tag}{told}>\n{escaped}\n</{tag}>"


def _quoted(value: object) -> str:
    return _UNSAFE.sub(lambda match: f"&#x{ord(match.group()):x};", html.escape(str(value)))


# A mark as a careless reader may see it: with blanks or signs before the name, in any case, and whatever stands in it
# that is not seen.
_BEFORE, _AFTER = rf"(?:[^\w<&]|[{_FILLERS}])*", rf"(?![^\W{_FILLERS}])"


def _rest(tag: str) -> str:
    return _BEFORE + "(?i:" + f"{_UNSEEN}*".join(map(re.escape, tag)) + ")" + _AFTER


@lru_cache
def _hidden(tag: str) -> re.Pattern[str]:
    rest = _rest(tag)
    return re.compile(f"<(?={rest})|&(?=(?:amp;)*lt;{rest})")


# --- What acts on a reader -----------------------------------------------------------------------------------------

_BREAKS = re.compile(r"\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_UNSEEN_RUN = re.compile(f"{_UNSEEN}+")
_JOINS, _LOOKS = re.compile(r"\ufe0f?\u200d|\u200c"), re.compile(r"[\ufe0e\ufe0f]")
_LIKE_MARKS = str.maketrans({"\uff1c": "<", "\ufe64": "<", "\uff1e": ">", "\ufe65": ">"})
_NAMED = re.compile(r"(?<=<)([^\w<]*)(\w+)")

# Names of marks between which models read something else than data: parts of prompts, calls, and our own.
_NAMES = (
    r"system|user|assistant|human|developer|instructions?|sys|bos|eos|(?:start|end)_of_turn|think(?:ing)?|"
    r"tool_(?:calls?|use|results?|response)|function_(?:calls?|results?)|invoke"
)
_TOKENS = re.compile(
    rf"<(?={_BEFORE}(?i:(?:core_|recalled_)?memory(?:_update|_results)?){_AFTER})"
    rf"|<(?={_BEFORE}(?i:{_NAMES})(?=[\s/>])[^>]{{0,80}}>|/?s>)"
    r"|<(?=[|\uff5c][^>\n]{1,60}[|\uff5c]>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)(?:\]|\Z))"  # a label closes it
)


def harmless(text: str) -> str:
    """Make untrusted text safe to show to a model.

    Line breaks of every kind become newlines. Control characters and invisible characters are removed, though
    joiners and the like stay where scripts and emoji need them, and halves of characters are replaced. The tokens and
    tags that end a message, or begin another or a call, are escaped, also in look-alike characters.

    Args:
        text: Anything.

    Returns:
        The text. A harmless text is returned unchanged.
    """
    text = replace_surrogates(_BREAKS.sub("\n", text))
    text = _UNSEEN_RUN.sub(_needed, _CONTROLS.sub("", text)).translate(_LIKE_MARKS)
    return _TOKENS.sub(lambda match: "&lt;" if match.group() == "<" else "&#91;", _NAMED.sub(_plainly, text))


def _needed(match: re.Match[str]) -> str:
    """Return the invisible characters if the text around them needs them, else ""."""
    run, start, end = match.group(), match.start(), match.end()
    before, after = match.string[max(0, start - 1) : start], match.string[end : end + 1]
    if before.isascii():
        return ""
    return run if _LOOKS.fullmatch(run) or (_JOINS.fullmatch(run) and not after.isascii()) else ""


def _plainly(match: re.Match[str]) -> str:
    name = unicodedata.normalize("NFKC", match.group(2))
    return match.group(1) + name if name.isascii() else match.group()


def on_one_line(text: str) -> str:
    """Make untrusted text safe, on one line."""
    return harmless(" ".join(harmless(text).split()))
