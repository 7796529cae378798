"""What ranking knows of English, in one place to replace.

Everything here is English only: stop words, irregular forms, what a question asks for and what a message tells. A
text in another language does without: a few words may coincide, a "?" counts everywhere, and digits do too, but
nothing else is found and nothing depends on it. No rule knows a name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType

STOP_WORDS = frozenset(
    # articles, pronouns and what points
    "a an the this that these those i me my mine myself you your yours yourself he him his himself she her hers "  # noqa: SIM905 - words read better as words
    "herself it its itself we us our ours ourselves they them their theirs themselves someone somebody anyone "
    "anybody something anything there here "
    # verbs that only help
    "am is are was were be been being do does did doing done have has had having can could may might must shall should "
    "will would let "
    # questions
    "what which who whom whose when where why how "
    # what joins
    "and or but nor so if then than because as of at by for with about into onto through during from up down in out on "
    "off over under to upon within without between among across along around toward towards via per "
    # what fills
    "not no only just also too very really quite rather even ever still yet again already please tell any some such "
    "both each either neither other another same own more most much many few "
    # what tokens leave of contractions
    "s t d ll m re ve don didn doesn isn aren wasn weren hasn haven hadn wouldn couldn shouldn mustn ain".split()
)
"""Function words that questions are made of, pieces of contractions included. English only."""

_FORMS = (  # the base, then its other forms; those that are words of their own ("rose", "ground", "lives") are left out
    "arise arose arisen|awake awoke awoken|beat beaten|become became|begin began begun|bend bent|bet|bind|bite bitten|"
    "bleed bled|blow blew blown|break broke broken|breed bred|bring brought|build built|burn burnt|buy bought|"
    "catch caught|choose chose chosen|cling clung|come came|creep crept|deal dealt|dig dug|draw drew drawn|"
    "dream dreamt|drink drank drunk|drive drove driven|dwell dwelt|eat ate eaten|fall fell fallen|feed fed|feel felt|"
    "fight fought|find found|flee fled|fling flung|fly flew flown|forbid forbade forbidden|forget forgot forgotten|"
    "forgive forgave forgiven|freeze froze frozen|get got gotten|give gave given|go went gone|grow grew grown|"
    "hang hung|hear heard|hide hid hidden|hold held|keep kept|kneel knelt|know knew known|lead led|leap leapt|"
    "learn learnt|leave left|lend lent|lie lain|light lit|lose lost|make made|mean meant|meet met|"
    "mistake mistook mistaken|outgrow outgrew outgrown|overcome overcame|oversleep overslept|pay paid|prove proven|"
    "rebuild rebuilt|repay repaid|retell retold|rewrite rewrote rewritten|ride rode ridden|ring rang rung|run ran|"
    "say said|see saw seen|seek sought|sell sold|send sent|sew sewn|shake shook shaken|shine shone|shoot shot|"
    "show shown|shrink shrank shrunk|sing sang sung|sink sank sunk|sit sat|sleep slept|slide slid|speak spoke spoken|"
    "speed sped|spend spent|spill spilt|spin spun|spit spat|spoil spoilt|spring sprang sprung|stand stood|"
    "steal stole stolen|stick stuck|sting stung|stink stank stunk|stride strode|strike struck|strive strove striven|"
    "swear swore sworn|sweep swept|swell swollen|swim swam swum|swing swung|take took taken|teach taught|"
    "tear tore torn|tell told|think thought|throw threw thrown|undergo underwent undergone|"
    "understand understood|undertake undertook undertaken|wake woke woken|wear wore worn|weave wove woven|weep wept|"
    "win won|withdraw withdrew withdrawn|withhold withheld|write wrote written|"
    "child children|grandchild grandchildren|man men|woman women|person people|foot feet|tooth teeth|goose geese|"
    "mouse mice|louse lice|ox oxen|wife wives|knife knives|wolf wolves|half halves|shelf shelves|loaf loaves|"
    "thief thieves|calf calves|scarf scarves|elf elves|cactus cacti|fungus fungi|criterion criteria|"
    "phenomenon phenomena|analysis analyses|crisis crises|thesis theses|hypothesis hypotheses|diagnosis diagnoses|"
    "index indices|appendix appendices|matrix matrices|alumnus alumni|bacterium bacteria|curriculum curricula|"
    "fisherman fishermen|fireman firemen|policeman policemen|businessman businessmen|gentleman gentlemen|"
    "salesman salesmen|snowman snowmen"
)
BASE_FORMS: Mapping[str, str] = MappingProxyType(
    {form: base for base, *forms in (group.split() for group in _FORMS.split("|")) for form in forms}
)
"""Irregular verbs and nouns to their base form, in lower case. English only."""

# "When" asks where a question begins, after a preposition or after a verb of asking: "the day when we met" does not.
_ASKING = (
    r"(?:^\W*|[^\w\s'\u2019]\s*|\b(?:and|or|but|so|then|since|until|till|by|from|with|to|for|of|about|at|on|in|exactly|just|"
    r"know|knows|remember|recall|tell me|remind me|wonder|wondering|guess|ask|asked)\s+)"
)
_ASKS = {
    "time": re.compile(
        rf"{_ASKING}when\b|\bwhat(?:'s|\s+is|\s+was)\s+the\s+(?:date|day|time)\b"
        r"|\b(?:what|which)\s+(?:\w+\s+)?(?:date|day|weekday|week|weekend|month|year|season|hour|time)\b"
        r"|\bhow\s+(?:long|soon|recently|late|early)\b"
    ),
    "number": re.compile(
        r"\bhow\s+(?:many|much|often|old|far|tall|big|large|heavy|high|fast|frequently)\b"
        r"|\b(?:what|which)(?:\s+is|\s+was|'s)?(?:\s+the)?\s+(?:number|age|amount|percentage|price|cost|score|total)\b"
    ),
    "person": re.compile(
        rf"{_ASKING}(?:who|whom|whose)\b|\b(?:what|which)\s+(?:person|people|man|woman|friend|colleague|relative)\b"
    ),
    "place": re.compile(
        rf"{_ASKING}where\b|\b(?:what|which)\s+(?:\w+\s+)?(?:city|cities|country|countries|place|places|town|state|"
        r"village|street|address|location|continent|island|region|area|venue)\b"
    ),
}
LONGEST_QUESTION = 1_000
"""Characters of a question that are looked at."""


def as_spoken(question: str, names: Collection[str]) -> str:
    """A question about somebody as that person would speak: what people say of themselves names nobody.

    Args:
        question: The question.
        names: The words by which it names them.
    """
    for name in names:
        question = re.sub(rf"\b{re.escape(name)}['\u2019]s\b", "my", question, flags=re.IGNORECASE)
        question = re.sub(rf"\b{re.escape(name)}\b", "I", question, flags=re.IGNORECASE)
    return question


def asks_for(question: str) -> frozenset[str]:
    """What would answer a question: any of "time", "number", "person" and "place". English only.

    Args:
        question: Anything; no text is invalid.

    Returns:
        The kinds of answer it asks for; empty for a text that asks for none of them, and in other languages.
    """
    lowered = question[:LONGEST_QUESTION].lower()
    return frozenset(kind for kind, pattern in _ASKS.items() if pattern.search(lowered))


_LETTERS_AND_DIGITS = bytes(
    ord(chr(code).lower()) if chr(code).isalnum() and code < 128 else 32  # noqa: PLR2004 - ASCII
    for code in range(256)
)
_NO_DIGITS = bytes(code for code in range(256) if not 48 <= code <= 57)  # noqa: PLR2004 - "0" to "9"
_TIME_WORDS = frozenset(
    b"monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays "
    b"saturdays sundays january february april june july august september october november december jan feb "
    b"apr jul aug sept oct nov dec today yesterday tomorrow tonight day days week weeks weekend weekends "
    b"month months year years hour hours minute minutes decade decades century ago clock noon midnight "
    b"morning afternoon evening night nights spring summer autumn winter christmas easter halloween "
    b"thanksgiving birthday anniversary recently lately soon".split()
)
_NUMBER_WORDS = frozenset(
    b"zero two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    b"seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred hundreds "
    b"thousand thousands million millions billion dozen dozens couple several once twice half".split()
)
_FIRST_PERSON = frozenset(b"i me my mine myself we our ours ourselves".split())
# Each of these begins with a class of characters: re skips to one quickly, and looks around only there.
_TIME_IN_DIGITS = re.compile(
    r"[0-9](?:(?<=\b1)9[0-9]{2}\b|(?<=\b2)0[0-9]{2}\b|(?<=\bMay .)|(?<=\bMarch .)"  # 1999, 2020, May 8
    r"| ?[aApP]\.?[mM]\b|:[0-9]{2}\b|(?:st|nd|rd|th)? (?:of )?(?:May|March)\b)"  # 8 pm, 8:30, 8th of May
)
_DAY_OR_MONTH = (
    r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?\b"
    r"|(?:January|February|March|April|May|June|July|August|September|October|November|December)\b"
)
_PROPER_NOUN = re.compile(
    r"[A-Z\xc0-\xd6\xd8-\xde](?=[^\W\d_])(?:(?<=[\w,;)'\u2019%&-] .)|(?<=\b[MDS][rst]\. .)|(?<=\bMrs\. .))"
    rf"(?<!(?={_DAY_OR_MONTH}).)"
)


def tells(text: str) -> frozenset[str]:
    """What a message tells, in the words of `asks_for` and a few more. English only, but for question marks and digits.

    Args:
        text: Anything; no text is invalid. Takes linear time.

    Returns:
        Any of "time" (a word, or a year or an hour in digits), "number" (digits, or a word for a number; "one" is
        mostly a pronoun and does not count), "proper noun" (a capitalised word inside a sentence that is no day or
        month; it may be a person or a place), "question" (a question mark) and "first person" (I, my, we, our; not
        "us", which is a country too).
    """
    plain = text.encode("ascii", "replace")
    words = set(plain.translate(_LETTERS_AND_DIGITS).split())
    digits = plain.translate(None, _NO_DIGITS)
    found = []
    if not _TIME_WORDS.isdisjoint(words) or (digits and _TIME_IN_DIGITS.search(text)):
        found.append("time")
    if digits or not _NUMBER_WORDS.isdisjoint(words):
        found.append("number")
    if _PROPER_NOUN.search(text):
        found.append("proper noun")
    if "?" in text or (not text.isascii() and ("\uff1f" in text or "\u061f" in text)):
        found.append("question")
    if not _FIRST_PERSON.isdisjoint(words):
        found.append("first person")
    return frozenset(found)
