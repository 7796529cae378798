r"""What of an audit trail is junk: rules as data (OPUS).

Junk is hidden with the names of the rules that say so, and never destroyed. Whether a short text is junk depends on the
other side: "ok" is an answer where something was asked for, and noise after "I see". So a rule may have a pattern for
the other side too, which lets the entry stay. And a todo, which has no reply, is no junk for that.

    JunkRule(name="heartbeat", pattern=r"^heartbeat \d+$", field="prompt")
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, get_args

from langchain_agentmem.audit.audit_entry import EXCHANGE, KINDS, Kind
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput

Field: TypeAlias = Literal["prompt", "reply", "both", "either"]

_FIELDS: tuple[Field, ...] = get_args(Field)


@dataclasses.dataclass(frozen=True, kw_only=True)
class JunkRule:
    """By which entries are junk.

    Attributes:
        name: What the reason is called.
        pattern: A regular expression, searched for with letter case aside. Of a text of more than 4,000 characters only
            the first and the last 2,000 are looked at, with a word between them that says so.
        field: Where: in the "prompt", the "reply" (the default), in "both" of them, or in "either".
        kinds: Which kinds of entries it is for. Default: exchanges and calls, so that a rule about empty replies does
            not hide every todo.
        unless: A regular expression, or None. Where it is found the entry stays. It is searched for on the other side:
            in the prompt for a rule about replies, and the other way round; for "both" and "either" on both sides.

    Raises:
        InvalidInput: A pattern is no regular expression, or something else is none of what it can be.
    """

    name: str
    pattern: str
    field: Field = "reply"
    kinds: tuple[Kind, ...] = ("exchange", "call")
    unless: str | None = None
    _find: re.Pattern[str] = dataclasses.field(init=False, repr=False, compare=False)
    _stays: re.Pattern[str] | None = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidInput(f"A junk rule has a name, a text, not {safe_repr(self.name)}.")
        if self.field not in _FIELDS:
            raise InvalidInput(f"{self._place('field')} is one of {', '.join(_FIELDS)}, not {safe_repr(self.field)}.")
        kinds: Any = (self.kinds,) if isinstance(self.kinds, str) else self.kinds
        if not isinstance(kinds, Iterable) or not (kinds := tuple(kinds)) or any(kind not in KINDS for kind in kinds):
            raise InvalidInput(f"{self._place('kinds')} are some of {', '.join(KINDS)}, not {safe_repr(self.kinds)}.")
        object.__setattr__(self, "kinds", kinds)
        object.__setattr__(self, "_find", self._compiled("pattern", self.pattern))
        stays = None if self.unless is None else self._compiled("unless", self.unless)
        object.__setattr__(self, "_stays", stays)

    def hides(self, kind: Kind, prompt: str, reply: str) -> bool:
        """Whether an entry is junk by this rule.

        Args:
            kind: What the entry is.
            prompt: Its prompt.
            reply: Its reply.
        """
        if kind not in self.kinds:
            return False
        find = self._find.search
        others: tuple[str, ...]
        if self.field == "prompt":
            found, others = find(prompt), (reply,)
        elif self.field == "reply":
            found, others = find(reply), (prompt,)
        else:
            found = (find(prompt) and find(reply)) if self.field == "both" else (find(prompt) or find(reply))
            others = (prompt, reply)
        return bool(found) and not (self._stays and any(map(self._stays.search, others)))

    def _compiled(self, name: str, pattern: Any) -> re.Pattern[str]:
        if not isinstance(pattern, str):
            raise InvalidInput(f"{self._place(name)} is a regular expression as text, not {type(pattern).__name__}.")
        try:
            return re.compile(pattern, re.IGNORECASE)
        except (re.error, OverflowError, RecursionError) as error:
            raise InvalidInput(
                f"{self._place(name)} is no regular expression: {error}, in {safe_repr(pattern)}."
            ) from error

    def _place(self, name: str) -> str:
        return f"{safe_repr(name)} of the junk rule {safe_repr(self.name)}"


def reasons(
    kind: Kind, prompt: str | None, reply: str | None, rules: Iterable[JunkRule] | None = None
) -> tuple[str, ...]:
    """Why an entry is junk.

    Args:
        kind: What the entry is.
        prompt: What the user asked; None is as good as empty.
        reply: What the agent answered; None is as good as empty.
        rules: By which rules. Default: `RULES`.

    Returns:
        The names of the rules that hide it, each once, in the order of the rules; () if it is no junk.

    Raises:
        InvalidInput: There is no such kind, or the prompt or reply is no text.
    """
    if kind not in KINDS:
        raise InvalidInput(f"The kind of an entry is one of {', '.join(KINDS)}, not {safe_repr(kind)}.")
    if not (prompt is None or isinstance(prompt, str)) or not (reply is None or isinstance(reply, str)):
        raise InvalidInput("The prompt and the reply of an entry are texts, or None.")
    asked, answered = _seen(prompt or ""), _seen(reply or "")
    found = (rule.name for rule in (RULES if rules is None else rules) if rule.hides(kind, asked, answered))
    return tuple(dict.fromkeys(found))


def _seen(text: str) -> str:
    """What rules see of a text, so that none takes them long. One of nothing but blanks is seen as a short one."""
    if len(text) <= 2 * _SEEN:
        return text
    return " " if _ALL_BLANK.match(text) else f"{text[:_SEEN]}\n(more)\n{text[-_SEEN:]}"


def _words(text: str) -> str:
    """Alternatives, as they stand on several lines, with spaces and apostrophes as people write them."""
    alternatives = (line.strip() for line in text.strip().splitlines())
    return "(?:" + "|".join(alternatives).replace(" ?", r"\s?").replace(" ", r"[\s,]+").replace("'", "['\u2019]?") + ")"


def _some(alternatives: str) -> str:
    """A pattern for where one of these stands near the beginning."""
    return rf"\A(?=(?s:.{{0,60}}?)(?<![^\W_]){alternatives}(?![^\W_]))"


def _only(*alternatives: str, least: int = 1, most: int = 6) -> str:
    """A pattern for texts in which nothing but these stands, with any marks and emoji between, before and after."""
    return rf"\A[\W_]{{0,80}}+(?:(?:{'|'.join(alternatives)})(?![^\W_])[\W_]{{0,80}}+){{{least},{most}}}\Z"


_BLANK = r"[\s\x00\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]*+"
_ALL_BLANK = re.compile(rf"{_BLANK}\Z")
_SEEN = 2_000
_EMOJI = r"[\u2190-\u21ff\u2300-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"

# Single words that say little, each with what may hang on it.
_YES_NO = _words("""
    y
    n
    ye+s+
    ye+a+h*
    y[eu]+p+
    no+
    nope
    nah
    right
    """)
_OK = _words("""
    k+
    o+k+(?:a+y+|ey|ie)?(?: dokey)?
    sure
    al+ ?right
    fine
    agreed
    got it
    gotcha
    noted
    understood
    roger(?: that)?
    will do
    sounds (?:good|great|fine)
    no problem
    """)
_PRAISE = _words("""
    cool
    nice(?: one| work| job)?
    great(?: job| work| stuff)?
    (?:very )?good(?: job| work)?
    awesome
    perfect
    amazing
    excellent
    wonderful
    sweet
    neat
    fantastic
    brilliant
    lovely
    """)
_THANKS = _words("""
    (?:many |big )?than(?:k|x)s?(?: (?:a (?:lot|million|bunch|ton)|so much|again|mate|man|buddy))*
    thank (?:you|u)(?: (?:so|very) much| a lot| again)*
    (?:thank you|thanks)(?: so much| a lot)? for (?:(?:all|your|the) )*(?:help|that|this|everything|info|answer)
    thanks for (?:asking|nothing|trying)
    th(?:n|a)?x
    ty(?:sm|vm)?
    cheers
    (?:much )?appreciated
    (?:I )?appreciate it
    """)
_NOISE = _words("""
    l+o+l+
    lmf?ao+
    rofl
    xd+
    (?:a?h[ae]){2,}h*
    ha+h*
    h+u+h+
    h+m+
    u+[hm]+
    e+[rhm]+
    meh
    o+h+
    a+[hw]+
    wow+
    whatever
    interesting
    (?:woo+(?:hoo+)?|ya+y|hooray|omg|oops)
    exactly
    indeed
    """)
_HAILED = _words("""
    there
    again
    all
    everyone
    (?:team|guys|folks|buddy|man|mate|friend)
    (?:agent|assistant|bot|claude|chatgpt|ai)
    (?-i:[A-Z][a-z]+)
    """)
_GREETING = _words(f"""
    (?:hi+|hello+|hey+|hiya|yo|howdy|greetings|(?:good )?morning|good (?:afternoon|evening|day))(?: {_HAILED})?
    (?:welcome(?: back)?|bye+|good ?bye)(?: {_HAILED})?
    good ?night(?: all| everyone)?
    sup
    cya
    """)
_TALK = _words("""
    how are you(?: doing| today| feeling)*
    how's it going
    how do you do
    what's up
    you too
    you're (?:very |so |most )?welcome
    you are (?:very |so |most )?welcome
    see (?:you|ya)(?: (?:later|soon|tomorrow|around|then|next week|on monday))?
    talk to you (?:later|soon)
    (?:have|enjoy) (?:a|your|the) (?:(?:nice|good|great|lovely) )?(?:day|evening|night|weekend|one)
    that's (?:all|it)(?: for (?:now|today))?
    never ?mind
    nvm
    no worries
    my pleasure
    brb
    ttyl
    gn
    hold on
    wait
    let me (?:think|see)
    (?:and )?(?:you|yourself)
    (?:that|this|it) (?:works|worked|helped|helps)
    I'm back
    (?:just )?(?:give me )?(?:a|one) (?:sec|second|moment|minute|min)
    (?:I'm |I was )?(?:just )?kidding
    I see
    I know
    makes sense
    """)
_PROBE = _words("""
    are you (?:there|here|alive|awake|working|online)
    is this(?: thing)? (?:on|working)
    (?:is )?any(?:one|body) (?:there|here)
    (?:can|do) you (?:hear|read) me
    (?:mic )?check
    (?:just )?checking
    a ?b ?c
    x ?y ?z
    \\d{1,5}
    prompt
    message
    question
    (?:debug|test): [^?\\n]{1,60}
    """)
_SMALL_TALK = r"\A(?=\s*+\S)" + _only(_YES_NO, _OK, _PRAISE, _THANKS, _NOISE, _GREETING, _TALK, _PROBE, least=0)

# What agents say when there is nothing to say: how a sentence begins, and a rest that tells nothing in particular.
_REST = (
    r"(?:(?!\b(?:I(?:['\u2019](?:ve|ll)| have| will| also)|by the way|but|however|because|since)\b|\d|`|://)"
    r"[^.!?\n]){0,120}+"
)
_PHRASE = _words("""
    glad
    happy to
    always
    (?:I'm|I am) (?:always )?(?:here|ready|glad|happy|doing|good|fine|well|just|an ai|not sure|sorry|afraid|working)
    (?:just )?let me know
    (?:please )?feel free
    (?:please )?don't hesitate
    if (?:you|there)
    is there (?:any|some)
    (?:I )?hope
    what(?:'s| is) (?:on your mind|up|next)
    what (?:else|do you want)
    doing (?:great|well|fine|good)
    good luck
    talk to you
    ready when
    looking forward
    wish(?:ing)? you
    that's (?:great|good|wonderful|awesome|nice|fine|ok|okay|right|perfect) to
    don't worry
    anything else
    any ?time
    of course
    certainly
    how (?:can|may|could|might) I
    what (?:can|else can|could) I
    what (?:would you like|do you need|brings you|are you looking)
    how (?:are|about) you
    and you
    not much
    nice to (?:meet|see)
    good to (?:hear|see|know|have)
    great to (?:hear|see|know|have)
    have a
    take (?:care|your time)
    sleep well
    enjoy
    sorry
    same
    likewise
    (?:it|this|that) (?:looks|seems|appears|was|is)(?: to be)? (?:like|as if|you|a|an|that)
    (?:it|everything|that)(?:'s| is) (?:working|fine|ok|okay)
    I (?:see|got|received|noticed|hear) (?:your|the|a|you)
    (?:your )?(?:test(?:ing)?|message) (?:was )?(?:received|successful|passed|complete|worked|works|ok|okay)
    loud and clear
    I (?:do not|don't|did not|didn't|could not|couldn't) (?:understand|catch|get|quite)
    (?:could|can|would) you (?:please )?(?:clarify|rephrase|explain|elaborate|provide|tell me|give me|be more)
    (?:p[io]ng|pong)
    (?:debug|test|dummy) (?:reply|response|message|mode)
    response
    reply
    """)
_CANNED = _only(_YES_NO, _OK, _PRAISE, _THANKS, _NOISE, _GREETING, _TALK, _PHRASE + _REST, most=8)
_NOT_CANNED = rf"\A(?!{_CANNED}|{_BLANK}\Z|[\W_]{{1,80}}\Z)"

_TEST = _words("""
    (?:test(?:ing|s|ed)?){1,4}\\d{0,6}
    t[es]s?t
    p[io]ng
    debug(?:ging)?
    dummy
    sample
    mock
    (?:foo|ba[rz]){1,3}
    qux
    hello world
    lorem ipsum[a-z,.\\s]{0,400}+
    asdf\\w{0,40}
    qwer\\w{0,40}
    zxcv\\w{0,40}
    s?df(?:s?df)+
    """)
_TEST_AND = _words("""
    (?:this|that|it) is
    just
    only
    an?
    my
    the
    please
    ignore(?: this| it| me)*
    (?:one|two|three)
    \\d{1,5}
    prompt
    message
    entry
    input
    question
    request
    user
    assistant
    agent
    of (?:the|our|my) [a-z]{1,20}(?: [a-z]{1,20})?
    """)
_MASH = (
    r"(?:(?P<one>[a-z])(?P=one){2,40}|(?P<two>[a-z]{2,3})(?P=two){2,40}|(?P<more>[a-z;]{3,5})(?P=more){1,40})"
    r"[a-z;]{0,3}"
)
_TEST_ENTRY = (
    rf"{_some(_TEST)}(?!\W*run\b){_only(_TEST, _TEST_AND, _GREETING, most=8)}"
    rf"|\A\W*{_MASH}\W{{0,20}}\Z|\A\s*\[(?:test|debug)\][^?]{{0,200}}\Z"
)
_RESULT = (
    r"\b\d+\s?(?:ms|s|%|tests?|passed|failed|errors?|files?)\b|\b(?:passed|fails?|failed|traceback|exception)\b|`|/\w"
)
_SUBSTANCE = rf"\A(?!{_CANNED})(?:(?s:.){{100}}|(?s:.){{0,100}}?(?:{_RESULT}))|\b(?:pass|green)\b|\bline \d"
_TEST_REPLY = _only(
    r"(?:this is )?(?:just )?(?:an? )?(?:test|dummy|debug|sample|mock) (?:reply|response|answer|message"
    r"|output)(?: \d+)?",
    r"asdf\w{0,40}",
    r"lorem ipsum[\w,.\s]{0,400}+",
    most=1,
)

# What of a prompt makes a short reply one that counts.
_LONG = r"\A\s*+\S(?s:.){200}"
_OTHER_SCRIPT = r"[\u0370-\u1fff\u2e80-\u302f\u3031-\ud7ff\uf900-\ufdff]"
_WH = r"(?:what|who|whom|whose|when|where|which|why|how)(?:['\u2019]?(?:s|re|d|ll))?\b(?!\W+(?:about|if|not|come)\b)"
_FIRST = (
    r"\A\W*(?:(?:please|pls|now|then|ok|okay|also|and|just|so|hey|hi|hello|thanks|yes|yeah|no|great|but|or|first|next"
    r"|actually|well|cool)\b\W+)*"
)
_QUESTION = (
    rf"[?\u037e\u055e\u061f\uff1f]|{_FIRST}(?:{_WH}|(?:is|are|was|were|do|does|did|can|could|will|would|shall"
    rf"|should|may"
    r"|have|has|had)\s+(?:I|you|we|they|he|she|it|the|this|that|there|any|my|our|your)\b|any\b|you\b)|\A\W*\w+\W*\Z"
    r"|\b\w+ or \w+\W*\Z"
)
_VERBS = re.sub(
    r"\s+",
    "|",
    """accept add adjust analy[sz]e answer apply approve archive ask assign attach book build buy calculate call
    cancel change check choose classify clean clear close collect combine comment commit compare compile
    complete compress compute configure confirm connect continue convert copy correct count create cut debug
    decide define delete deploy describe design determine disable discard display do document don['\u2019]?t
    download draft drop echo edit email enable ensure estimate evaluate execute exit explain export extract
    fetch fill filter find finish fix focus follow forget format forward generate get give go group guess
    handle help hide highlight hold identify ignore implement import improve include increase decrease reduce
    inform insert inspect install invite invoke join keep kill launch leave let['\u2019]?s let list listen
    load lock log look lower mail make mark measure merge migrate modify monitor move mute name notify open
    order organi[sz]e parse paste patch pause pay perform pick ping plan play plot post prepare print proceed
    process produce provide publish pull push put quit raise rate read rebuild recommend record redo refactor
    refund register reject release reload remember remind remove rename render repeat replace reply report
    reschedule reserve reset resize resolve respond restart restore retry return revert review rewrite roll
    rotate run save say scale scan schedule search select send separate serve set share ship show shut
    simplify skip solve sort split spell start stay stop store submit subscribe suggest summari[sz]e swap
    switch sync take tag talk tell terminate test text touch trace track train transfer translate trim try
    turn type uncheck undo uninstall unlock unsubscribe update upgrade upload use validate verify visit wait
    wake warn watch wipe write zip""",
)
_NO_VERB = (
    r"(?!(?:I|you|we|he|she|they|that|this|these|those|what|like|not|quite|such|in|on|at|of|for|with|by|as|to|from"
    r"|about"
    r"|after|before|over|under|is|\w+(?:s|ed|ing))\b)"
)
_REQUEST = (
    rf"{_FIRST}(?:{_VERBS}|never(?!\s*mind)|always|go ahead|{_NO_VERB}\w+\s+(?:the|my|this|all|it|them|me))\b"
    rf"|\b(?:please|pls|bitte|por favor|per favore|s['\u2019]il"
    r"|make sure|from now on|let['\u2019]?s|do it|keep it|I(?:['\u2019]d| would) like|(?:I|we) (?:need|want)"
    r"|you (?:can|could|should|must|may|need))\b"
)
_TOLD = (
    r"\b(?:my|our)\b|\b(?:I|we) (?:live|work|prefer|use|hate|love|own|study|have|moved|\w{2,}ed)\b|://|@\w|\w/\w"
    r"|\b(?:I['\u2019]?m|I am|we['\u2019]re|we are) (?:an?|from|in|at|on|allergic|vegan|vegetarian|married|based)\b"
    r"|\d|\w\W{1,3}(?-i:[A-Z][a-z]{2,})|`"
)
_WORDING = (
    r"\b(?:translat\w+|mean(?:s|ing)?|synonym|antonym|opposite|word|phrase|say|said|called|call|spell|rhymes?|emoji"
    r"|symbol"
    r"|sign|operator|character|punctuation|mark|key|print|prints|output|outputs|answer|reply|respond|rate|describe"
    r"|mood)\b"
    r"|['\u2018\"\u201c\u00ab`]\w+['\u2019\"\u201d\u00bb`]"
)
_COUNTS = rf"{_LONG}|{_OTHER_SCRIPT}|{_WORDING}"
_TELLS = rf"\A(?!{_FIRST}(?:{_VERBS})\b)(?=[^?]*\Z)(?s:.){{0,200}}?(?:{_TOLD})"
_ASKS = rf"{_COUNTS}|{_QUESTION}|{_REQUEST}|{_TOLD}"
_ASKS_CONSENT = rf"{_COUNTS}|\A(?!{_FIRST}{_WH}[^,;?]*\?*\W*\Z)(?s:.){{0,200}}?(?:{_QUESTION}|{_REQUEST}|{_TOLD})"
_HOW = rf"{_FIRST}how(?:['\u2019]s|\s+(?:is|was|are|were|did|has|have|do\s+you\s+(?:feel|like))\b)"

_SPOKEN: tuple[Kind, ...] = (EXCHANGE,)
RULES: tuple[JunkRule, ...] = (
    JunkRule(name="empty", pattern=rf"\A{_BLANK}\Z", field="either", kinds=_SPOKEN),
    JunkRule(name="empty", pattern=rf"\A{_BLANK}\Z", kinds=("reference", "digest")),
    JunkRule(name="empty", pattern=rf"\A{_BLANK}(?:\[TODO\])?{_BLANK}\Z", field="prompt", kinds=("todo",)),
    JunkRule(
        name="incomplete reflection",
        pattern=(
            r"\A\s*+(?:\[SELF-REFLECTION\]\s*+)?(?:Agent status report\b\s*+)?"
            r"(?:[^\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{0,20}|(?s:.){0,6})\s*+\Z"
        ),
        kinds=("reflection",),
    ),
    JunkRule(name="small talk", pattern=_SMALL_TALK, field="prompt", unless=_NOT_CANNED),
    JunkRule(name="test entry", pattern=_TEST_ENTRY, field="prompt", unless=_SUBSTANCE),
    JunkRule(name="test reply", pattern=_TEST_REPLY, kinds=_SPOKEN, unless=rf"{_LONG}|\b(?:{_TEST}|say|write|echo)\b"),
    JunkRule(name="filler", pattern=_only(_NOISE, _THANKS, _GREETING), kinds=_SPOKEN, unless=rf"{_COUNTS}|{_TELLS}"),
    JunkRule(
        name="filler",
        pattern=_some(_PRAISE) + _only(_PRAISE, _NOISE, _THANKS),
        kinds=_SPOKEN,
        unless=rf"{_COUNTS}|{_TELLS}|{_HOW}",
    ),
    JunkRule(
        name="filler",
        pattern=_some(_OK) + _only(_OK, _PRAISE, _NOISE, _THANKS),
        kinds=_SPOKEN,
        unless=_ASKS_CONSENT,
    ),
    JunkRule(
        name="filler",
        pattern=_some(_YES_NO) + _only(_YES_NO, _OK, _PRAISE, _NOISE, _THANKS),
        kinds=_SPOKEN,
        unless=_ASKS,
    ),
    JunkRule(name="no words", pattern=rf"\A(?!{_BLANK}\Z)(?=[\W_]*?{_EMOJI})[\W_]*+\Z", kinds=_SPOKEN, unless=_ASKS),
    JunkRule(
        name="filler", pattern=r"\A(?=\s*+\S)[\s\U0001f600-\U0001f606\U0001f923]*+\Z", kinds=_SPOKEN, unless=_COUNTS
    ),
    JunkRule(
        name="no words",
        pattern=rf"\A(?!{_BLANK}\Z)(?:(?!{_EMOJI})[\W_])*+\Z",
        kinds=_SPOKEN,
        unless=rf"{_COUNTS}",
    ),
)
"""The three patterns of OPUS and its list: empty prompts and replies, one word that says nothing, reflections
of at most 20 characters, tests and debugging."""
