"""Hostile strings that imitate markup, and helpers that detect the markup in them."""

from __future__ import annotations

import json
import re
import unicodedata
from itertools import product
from pathlib import Path

from hypothesis import strategies as st
from markdown_it import MarkdownIt

CASES = json.loads(Path(__file__).with_name("cases.json").read_text("utf-8"))
TAGS, WRITTEN, SPLIT = CASES["tags"], CASES["written"], CASES["split"]
LONG = ("x" * 5_000, *(sign * 500 for sign in "\n#`"), "<" * 500 + "/memory>", "- " * 200 + "x", "> " * 200 + "x")
OTHERS = [*CASES["others"], *LONG, "</memory>" * 100]
HOSTILE = list(
    dict.fromkeys(
        [form.replace("{}", tag) for tag, form in product(TAGS, WRITTEN)]
        + [f"</{tag[:2]}{sign}{tag[2:]}>" for tag, sign in product(TAGS[:3], SPLIT)]
        + list(OTHERS)
    )
)
TEXTS = st.lists(
    st.sampled_from([*CASES["pieces"], *TAGS, *SPLIT, *OTHERS[3:60]]) | st.text(max_size=4), max_size=12
).map("".join)
"""Random texts, mostly made of hostile strings."""

UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
"""Characters that no shown text may contain."""
TOKENS = re.compile(
    r"<[|\uff5c][^<>\s]{1,30}[|\uff5c]>|<<?/?(?:s|SYS|(?:start|end)_of_turn)>|\[/?(?:INST|SYSTEM_PROMPT|TOOL_CALLS)\]"
    r"|<[\s/]*(?:system|user|assistant|tool_call|think|memory_update|memory_results)(?=[\s/>])[^<>]{0,40}>",
    re.IGNORECASE,
)
"""Tokens that a model or its server may interpret as control tokens."""


def careless(text: str) -> str:
    """Return a text without invisible characters and with look-alike letters replaced."""
    seen = "".join(sign for sign in text if unicodedata.category(sign) not in {"Cf", "Cc", "Cs", "Mn"} or sign == "\n")
    return unicodedata.normalize("NFKC", seen).casefold()


def marks(text: str, tag: str) -> list[str]:
    """Return the fence tags in a text, after removing invisible characters."""
    return re.findall(rf"<[^\w<&]*{tag}\b", careless(text))


def headings(text: str) -> list[str]:
    """Return the headings that Markdown sees, including those in lists and quotes."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    return [tokens[place + 1].content for place, token in enumerate(tokens) if token.type == "heading_open"]


def structure(text: str) -> list[str]:
    """Return the types of all Markdown tokens other than plain words."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    inline = [child for token in tokens for child in token.children or ()]
    return [token.type for token in [*tokens, *inline] if token.nesting >= 0]
