"""Messages and questions whose words are as frequent as in a language: few everywhere, most of them rare (Zipf).

The most frequent words are English ones that say little. The others are made of syllables; the word at place r of the
vocabulary stands in about 1.8 / r of the messages. Everything follows from a seed.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

FUNCTION_WORDS = """
    the i you and to a it that of in is was for my me have do we on so with this be not but are what at like just if
    they he about can your had there all as from or how when she up no been out get then would will did them were an
    by more who his her some now could our their which than one into here has its only where why after before because
""".split()  # noqa: SIM905 - words read better as words
VOCABULARY = 50_000
LEAST_RARE, MOST_RARE = 200, 5_000  # places: in 0.9 % to 0.04 % of the messages
_SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "el", "ir", "on", "ur")]


def vocabulary() -> list[str]:
    """All words, the most frequent first."""
    dice = random.Random(1)
    words = dict.fromkeys(FUNCTION_WORDS)
    while len(words) < VOCABULARY:
        words["".join(dice.choices(_SYLLABLES, k=dice.choice((2, 2, 3))))] = None
    return list(words)


class Language:
    """Says things, and asks for them."""

    def __init__(self) -> None:
        self.words = vocabulary()
        self._weights = list(itertools.accumulate(1 / (place + 1.5) for place in range(len(self.words))))

    def messages(self, seed: int) -> Iterator[str]:
        """Messages without end, of 20 words on the average.

        Args:
            seed: The same gives the same.
        """
        dice = random.Random(seed)
        while True:
            length = min(200, 1 + int(dice.lognormvariate(2.65, 0.8)))
            yield " ".join(dice.choices(self.words, cum_weights=self._weights, k=length))

    def rare_questions(self, count: int, seed: int = 7) -> list[str]:
        """Questions with a word that is in fewer than one message of a hundred, and two that are more frequent."""
        dice = random.Random(seed)
        return [
            self._question(dice, dice.randrange(LEAST_RARE, MOST_RARE), dice.randrange(120, 600)) for _ in range(count)
        ]

    def common_questions(self, count: int, seed: int = 8) -> list[str]:
        """Questions whose words are all in more than one message of a hundred."""
        dice = random.Random(seed)
        least, most = len(FUNCTION_WORDS), 170
        return [self._question(dice, dice.randrange(least, most), dice.randrange(least, most)) for _ in range(count)]

    def _question(self, dice: random.Random, *places: int) -> str:
        said = [self.words[place] for place in (*places, dice.randrange(len(FUNCTION_WORDS), 170))]
        dice.shuffle(said)
        return f"what did you say about {said[0]} and the {said[1]} when we were {said[2]}?"
