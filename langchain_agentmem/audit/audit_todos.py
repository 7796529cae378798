"""What a text asks to be done: one todo for each sentence that asks for something (OPUS).

The document's keywords are looked for as whole words, and where they ask: "Fix the build", "we should add a test", "the
page needs a title". A sentence that reports ("I added a test"), speaks of a thing ("the test is green") or asks a
question ("What should I eat?") gives none; a request in the form of a question ("Can you fix it?") does.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

LONGEST = 500
"""Characters that a todo may have."""

_NEWLINE = re.compile(r"\r\n?|[\n\v\f\u0085\u2028\u2029]")
_FENCE = re.compile(r"[ \t>]{0,12}(`{3,}|~{3,})")
_BULLET = re.compile(
    r"[\s>]{0,40}(?:(?:[-*+\u2022\u25e6\u25aa\u2013\u2014\u00b7]|\(?\d{1,3}[.):]|\(?[a-z][.)]|#{1,6})(?=\s)\s+)?"
)
_BOX = re.compile(r"\[([ xX\u2713\u2714]?)\]\s+")
_LABEL = re.compile(r"(?:\[TODO\]|TODO\b)\s*[:\-\u2013]?\s*")
_NUMBER = re.compile(r"(?<=[\s:;,.])\(?\d{1,2}[.)]\s+(?=[^\W\d_])")
_END = re.compile(r"(?<![.!?\u2026])[.!?\u2026]++[\"'\u201d\u2019)\]*_]*+(?=\s)|[\u3002\uff01\uff1f]")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|approx|resp|incl|no|dr|mr|mrs|ms|st|[a-z])\.\Z", re.IGNORECASE
)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]+")

# What is not looked at for keywords: code, addresses, paths, what is quoted.
_QUOTED = re.compile(r"`[^`]{0,300}+`|(?<!\w)\"[^\"]{0,300}+\"|\u201c[^\u201d]{0,300}+\u201d|~~[^~]{0,300}+~~")
_TOKEN = re.compile(r"(?<!\S)(?:[^\s@/\\.]*+[@/\\.]|\S{201})\S*+")  # the others are none of these
_MARKS = "\"'()[]<>,;:.!?*\u2026\u3002\uff01\uff1f"
_ADDRESS = re.compile(r"\w{1,20}://|www\.|[^@]{1,100}@.|[\w.~-]{0,80}[/\\].{0,200}\.\w|[\w-]{1,100}\.\w", re.DOTALL)
_LONGEST_WORD = 200

_ANY = re.compile("want|should|need|add|improv|fix|build|creat|upgrad|refactor|test|document", re.IGNORECASE)
"""Where this is nowhere, nothing is asked for; most of a long text need not be looked at more closely."""
_LEFT, _RIGHT = r"(?<![\w/\\@#.-])", r"(?![\w\\@-]|/\w*\.)"
_VERBS = "add|improve|fix|build|create|upgrade|refactor|test|document"
"""The keywords of OPUS, with "want", "should" and "need"."""
_DO = rf"(?:{_VERBS}){_RIGHT}"
_DOING = rf"(?:adding|improving|fixing|building|creating|upgrading|refactoring|testing|documenting){_RIGHT}"
_LEAD = (
    r"(?:(?:please|pls|plz|kindly|also|and|then|so|but|ok|okay|now|next|first|firstly|second|secondly|third|finally"
    r"|lastly"
    r"|just|hey|hi|hello|thanks|yes|no|great|well|maybe|perhaps|again|afterwards?|later|today|tomorrow|instead|still"
    r"|quickly|do|try to|remember to|make sure to|be sure to|in addition|after that|one more thing"
    r"|by the way)\b[\s,:;\u2013-]*){0,6}"
)
_STARTS = re.compile(rf"\W*{_LEAD}(?:@?\w{{1,30}},\s*)?(?:please\s+)?{_DO}", re.IGNORECASE)
# "Test results are in", "The build 42 failed": a thing, of which something is said.
_THING = re.compile(
    rf"\W*{_LEAD}(?:{_VERBS}|need)s?"
    r"(?:\s+(?!(?:an?|the|that|what|which|whether|who|if|all|every|each|where|how|why|when|my|our|your|its?|this"
    r"|these|those"
    r"|some|more|any|in|on|for|to|with)\b)[\w#-]{1,30}){0,3}"
    r"\s+(?:is|are|was|were|has|had|have|failed|passed|fails|passes|dropped|went|broke|succeeded|seems?|looks?"
    r"|works?|worked"
    r"|took|takes|finished|crashed|ran|attached|merged|can(?:not|'t)?|did|does|will)\b",
    re.IGNORECASE,
)
_TRIGGER = re.compile(
    rf"{_LEFT}(?:(?:please|pls|plz|let['\u2019]?s|lets|must|gotta|kindly|ought to|why (?:not|don['\u2019]?t (?:you"
    rf"|we))"
    r"|help (?:me|us)(?: to)?|(?:can|could|would|will) (?:you|we|someone|somebody|anyone)(?: guys| all)?"
    r"|(?:I|we|you)(?:['\u2019]d| would) (?:like|love)(?: you| us| it if you)? to|you (?:can|could|must|may)"
    r"|(?<!\bused )(?:have|has|got|like you|asking you|ask you|don['\u2019]?t forget|do not forget|remember"
    r"|important|time|try"
    r"|necessary|goal is|task is|job is|step is|thing is|make sure|be sure|crucial|essential|better|best|good|nice"
    r"|great|helpful"
    r"|useful|possible|able)(?: for (?:you|us|me))? to)"
    rf"(?:\s+(?:also|just|quickly|then|please|now|finally|really|kindly|maybe|at least))*\s+{_DO}"
    rf"|would you mind {_DOING}"
    rf"|(?:how|what) about {_DOING})",
    re.IGNORECASE,
)
_WOULD_BE = re.compile(rf"{_LEFT}{_DOING}.{{0,200}}\bwould (?:be|help|make)\b", re.IGNORECASE)
_WANTS = re.compile(
    rf"{_LEFT}(?:wants?|needs?|should(?:n['\u2019]?t)?){_RIGHT}|\b(?:is|are|still|be) needed\b|\bneeded\W*\Z",
    re.IGNORECASE,
)
_WANTS_NOTHING = re.compile(
    r"\b(?:do|does|did|wo|would|will|ca|can|could)(?:n['\u2019]?t| not)(?: really| even| actually| ever)? (?:want"
    r"|need)"
    r"|\b(?:never|no longer|not|no one|nobody|hardly|barely) (?:wants?|needs?)\b|\bneed(?:n['\u2019]?t| not)\b"
    r"|\bneeds? (?:no(?:thing)?|not|neither)\b(?! only)|\b(?:nothing|anything|everything|all|none)(?: else"
    r"| that)? (?:\w+ )?(?:wants?|needs?|is needed)\b"
    r"|\b(?:if|when|whenever|whatever|whichever|wherever|as|in case|unless|than|all|anything|everything|someone"
    r"|what) "
    r"(?:you|we|they|one|I|he|she|it) (?:ever |really |still |might )?(?:wants?|needs?|should)\b"
    r"|\b(?:the|a|an|no|in|any|special|basic|my|your|our|their|his|her|its|of|without|for) (?:needs?|wants?)\b"
    r"|\bas needed\b|\bif needed\b|\bwhen needed\b|\b(?:as|like) \w+ should\b|(?:^|\W)should (?:you|there|anyone"
    r"|anything|the need)\b"
    r"|\bshould (?:now |already |also |all |just |probably )*(?:be (?:fine|ok|okay|good|enough|working|there|able"
    r"|done|ready|safe|here|back)"
    r"|work(?!\s+(?:on|with|in|for|without))|do (?:it|the trick)|suffice|help)\b"
    r"|\bshould(?:n['\u2019]?t)?(?: not)?(?:['\u2019]ve| have) (?:\w+ed|been|done|told|made|known|gone|said|seen"
    r"|come|left|kept"
    r"|built|taken|given|thought|found|read|put|sent|got|had|gotten|written)\b"
    r"|\bI should (?:mention|say|note|add that|warn|admit|explain|know|point out)\b",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"\b(?:(?:can|could|would|will) (?:you|we|someone|somebody|anyone)|would you mind|(?:how|what) about|shall we"
    rf"|why (?:not|don['\u2019]?t (?:you|we))|is it possible to|would it be possible to"
    rf"|may I ask you to)\b.{{0,200}}?"
    rf"{_LEFT}(?:{_DO}|{_DOING})",
    re.IGNORECASE,
)
_ASKED_NICELY = re.compile(
    r"\bplease\b|,\s*(?:ok(?:ay)?|will you|can you|could you|would you|right|yes)\s*\?", re.IGNORECASE
)
_QUESTION = re.compile(
    r"\W*(?:(?:and|but|so|ok|hey|hi|hello|also|well)\b[\s,]*){0,3}(?:(?:why|how|who|whose|which)\b(?! about\b)"
    r"|what\b(?! about\b)(?![^?]{0,80}?\b(?:is|are)\b(?!\s+(?:the|a|an)\b))|(?:when|where)\s+(?:do|does|did|should"
    r"|is|are|will|can)\b"
    r"|(?:should|do|does|did|is|are|was|were|can|could|will|would|shall|may|have|has)\s+(?:I|we|you|it|they|he|she"
    r"|the|this"
    r"|that|there|anyone|my|our)\b)",
    re.IGNORECASE,
)
_CLOSING = "\"')]*_ "
_LIST_FOLLOWS = re.compile(r":[*_\s]*\Z")


def todos_in(text: str | None) -> list[str]:
    """Find what a text asks to be done.

    Args:
        text: What somebody wrote; None for nothing. Code blocks are left out.

    Returns:
        A sentence each, of at most 500 characters, in their order, none twice. The items of a list give one each; those
        that say only what, under a line that asks ("Please add:"), say it with that line.
    """
    if not isinstance(text, str):
        return []
    found: dict[str, str] = {}
    for sentence in _asking(text):
        found.setdefault(todo_key(sentence), sentence)
    found.pop("", None)
    return list(found.values())


def todo_key(text: str) -> str:
    """Give what two todos have in common that are the same.

    Args:
        text: A todo.

    Returns:
        The text with letter case, spaces and the marks at its end aside.
    """
    plain = " ".join(unicodedata.normalize("NFC", text).casefold().split())
    return plain.rstrip(" .!?\u2026,;:\u3002\uff01\uff1f")


def _asking(text: str) -> Iterator[str]:
    header, listed = "", False
    for line, is_item in _lines(text):
        if not line or not (header or _ANY.search(line)):
            continue
        if header and not is_item:
            if not listed:
                yield header
            header, listed = "", False
        for sentence in _sentences(line):
            asks = _asks(sentence)
            if asks and not is_item and _LIST_FOLLOWS.search(sentence):
                header, listed = sentence, False
            elif asks:
                yield sentence
            elif header and is_item:
                yield f"{header} {sentence}"[:LONGEST].rstrip()
            listed = listed or is_item
    if header and not listed:
        yield header


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """The lines that are prose, without what marks them, and whether each is an item of a list."""
    fence = ""
    for raw in _NEWLINE.split(text):
        mark = _FENCE.match(raw)
        if fence:
            if mark and mark[1].startswith(fence):
                fence = ""
            continue
        if mark:
            fence = mark[1]
            continue
        bullet = _BULLET.match(raw)
        rest = raw[bullet.end() :] if bullet else raw
        is_item = bool(bullet and bullet.group().strip(" \t>"))
        if box := _BOX.match(rest):
            if box[1].strip():  # done already
                yield "", True
                continue
            rest, is_item = rest[box.end() :], True
        if label := _LABEL.match(rest):
            rest = rest[label.end() :]
        yield _CONTROL.sub(" ", rest), is_item


def _sentences(line: str) -> Iterator[str]:
    """The sentences of a line, none cut within code, an address or a quotation."""
    hidden = _hidden(line) if len(line) > 1 else line
    ends = sorted(
        {match.end() for match in _END.finditer(hidden) if not _is_abbreviation(line, match)}
        | {match.start() for match in _NUMBER.finditer(hidden)}
    )
    start = 0
    for end in [*ends, len(line)]:
        sentence = line[start:end]
        start = end
        if len(sentence) > LONGEST:
            sentence = _cut(sentence.lstrip()[: LONGEST + 1])
        sentence = _NUMBER.sub("", f" {sentence}", count=1) if _NUMBER.match(f" {sentence}", 1) else sentence
        if sentence := " ".join(sentence.split()).strip("*_ "):
            yield sentence


def _is_abbreviation(text: str, end: re.Match[str]) -> bool:
    return end.group() == "." and bool(_ABBREVIATION.search(text[max(0, end.start() - 12) : end.end()]))


def _cut(text: str) -> str:
    """The beginning of a text, up to a space where there is one."""
    if len(text) <= LONGEST:
        return text
    space = text.rfind(" ", LONGEST // 2, LONGEST)
    return text[: space if space > 0 else LONGEST]


def _hidden(text: str) -> str:
    """A text in which what is no prose is as long as it was, and holds no keyword and no end of a sentence."""
    return _TOKEN.sub(_without_address, _QUOTED.sub(lambda match: "_" * len(match.group()), text))


def _without_address(match: re.Match[str]) -> str:
    token = match.group()
    bare = token.strip(_MARKS)
    if len(bare) <= _LONGEST_WORD and not _ADDRESS.match(bare):
        return token
    at = token.find(bare)
    return f"{token[:at]}{'_' * len(bare)}{token[at + len(bare) :]}"


def _asks(sentence: str) -> bool:
    plain = _hidden(sentence).replace("\u2019", "'")
    if plain.rstrip(_CLOSING).endswith("?") or _QUESTION.match(plain):
        if _REQUEST.search(plain):
            return True
        return bool(_STARTS.match(plain) and _ASKED_NICELY.search(plain))
    if _THING.match(plain):
        return bool(_WANTS.search(plain[plain.find(" ") + 1 :]) and not _WANTS_NOTHING.search(plain))
    if _STARTS.match(plain) or _TRIGGER.search(plain) or _WOULD_BE.search(plain):
        return True
    return bool(_WANTS.search(_WANTS_NOTHING.sub(" ", plain)))
