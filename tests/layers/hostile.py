"""Strings that want to be taken for something else than data, and what a careless reader takes them for."""

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
"""Any text, most of them made of what is hostile."""

UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
"""What no text that is shown may hold."""
TOKENS = re.compile(
    r"<[|\uff5c][^<>\s]{1,30}[|\uff5c]>|<<?/?(?:s|SYS|(?:start|end)_of_turn)>|\[/?(?:INST|SYSTEM_PROMPT|TOOL_CALLS)\]"
    r"|<[\s/]*(?:system|user|assistant|tool_call|think|memory_update|memory_results)(?=[\s/>])[^<>]{0,40}>",
    re.IGNORECASE,
)
"""What a model or its server may take for more than text."""


def careless(text: str) -> str:
    """A text as somebody sees it who sees no invisible characters and takes look-alike letters for each other."""
    seen = "".join(sign for sign in text if unicodedata.category(sign) not in {"Cf", "Cc", "Cs", "Mn"} or sign == "\n")
    return unicodedata.normalize("NFKC", seen).casefold()


def marks(text: str, tag: str) -> list[str]:
    """The marks of a fence that a careless reader sees."""
    return re.findall(rf"<[^\w<&]*{tag}\b", careless(text))


def headings(text: str) -> list[str]:
    """The headings that Markdown sees, those in lists and quotes included."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    return [tokens[place + 1].content for place, token in enumerate(tokens) if token.type == "heading_open"]


def structure(text: str) -> list[str]:
    """Everything that Markdown sees but words: the types of all tokens that open or are something."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    inline = [child for token in tokens for child in token.children or ()]
    return [token.type for token in [*tokens, *inline] if token.nesting >= 0]
