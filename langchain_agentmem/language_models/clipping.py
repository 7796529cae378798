"""The beginning of a text, as much of it as a number of tokens allows."""

from __future__ import annotations

from langchain_agentmem.language_models.tokens import TokenCounter


def clipped(text: str, tokens: int, counter: TokenCounter, *, marker: str = "") -> str:
    """Cut a text where it would cost more than so many tokens, at a blank where one is near.

    Args:
        text: Any text.
        tokens: What the result may cost, the marker included.
        counter: Counts tokens.
        marker: What stands where it was cut. Default: nothing.

    Returns:
        The text itself, where it is short enough.
    """
    if counter.count_text(text) <= tokens:
        return text
    low, high = 0, min(len(text), max(0, tokens) * 16)  # no token is longer than some 16 characters, on the whole
    while low < high:
        middle = (low + high + 1) // 2
        if counter.count_text(text[:middle] + marker) <= tokens:
            low = middle
        else:
            high = middle - 1
    blank = text.rfind(" ", low - min(low, 40), low)
    at_blank = text[:blank].rstrip() + marker
    return at_blank if blank > 0 and counter.count_text(at_blank) <= tokens else text[:low] + marker
