"""Which conditions a query meets, judged by words alone: pure arithmetic, without a model and without a database.

A word that few conditions have tells much, one that is everywhere little, and one that only means the same less. Of the
situations that a condition lists the best one counts. A word that another condition explains better counts for that
one. What a condition says it is not for speaks against it. What went before counts where a query is about that.

The constants were tuned on two sets in `tests/benchmarks/experiences`. On a third that nobody had tuned on, words alone
find 60 % of what applies, and 58 % of what they choose does (an F1 of 0.59): a first choice, and no substitute for a
model. More rules (topics, turns of phrase, slips of the keyboard) fitted the two sets better and were no help there,
which is why they are gone; so that set is no longer one that nothing was chosen by.

What a text says, as far as choosing experiences needs it: words with their weights, compounds, and what is denied.

A condition lists situations, and each is a clause of its own. A name of a program, such as `FileNotFoundError`, is one
word and the words that it is made of; "roll back" and "rollback" are the same; British spelling is American. What a
condition says it is not for is kept apart.

Where each word of some conditions stands, and by what else it is found: words that mean the same, roots, compounds.

Of all candidates together it is known how rare each key is: a word that few conditions have tells much.

What selecting knows of English, in one place to replace.

Everything here is English only: the words by which conditions are phrased, words too common to tell one situation from
another, words that may stand for each other, and how people say what is not meant. It is
meant as general knowledge; the groups of synonyms were collected with the development sets of the benchmark in view. A
text in another language does without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from langchain_agentmem.search.analysis import STOP_WORDS, question, terms
from langchain_agentmem.search.ranking import rarity

PHRASING = frozenset(
    # how conditions begin, and who is meant
    "use used uses using apply applies applied applying applicable relevant "  # noqa: SIM905 - words read better as words
    "select selects selected choose chosen whenever user users person people someone agent agents assistant bot "
    "case cases situation situations scenario scenarios instance instances example examples etc eg ie kind "
    "kinds sort sorts type types lot lots "
    # how somebody asks
    "ask asks asked asking want wants wanted wanting need needs needed wish wishes wished like likes liked "
    "request requests requested requesting require requires required help helps helped helping please tell "
    "mention mentions mentioned mentioning say says said talk talks speak concern concerns concerning regarding "
    "involve involves involving relate related question questions task tasks occur occurs occurred occurring "
    "happen happens happened thank thanks hi hello hey ok okay yes sorry thing things stuff way ways bit "
    # what joins
    "while whether until till since although though however otherwise whatever whichever".split()
)
"""Words that say nothing about when something applies, besides stop words."""

COMMON = frozenset(
    # verbs
    "get give go come make take put do show look see find know think try start begin keep let seem become turn "  # noqa: SIM905 - words read better as words
    "set bring leave feel work run call check handle deal provide allow include contain create add change "
    "query write read open move send receive answer explain describe consider understand mean plan prepare "
    "fix solve improve finish end stop happen live believe hold stand hear play point wait follow must "
    # adjectives and adverbs
    "new old good bad best better great small big large little long short high low right wrong different same next "
    "last first second early late able possible sure full whole main real simple easy hard quick quickly "
    "certain special specific general common current now today tomorrow yesterday always never often soon later "
    "before after back away together once ago actually maybe really properly correctly instead "
    # nouns
    "time day week month year hour minute morning evening night part place number name word line list item group "
    "end side top problem issue reason result point fact information info detail content text page data world home "
    "man woman friend family life hand system process company team one two three four five ten "
    "version project step option job idea couple area "
    # what fills
    "something everything nothing everyone everybody nobody weird strange nice fine ready enough anyway somehow wonder "
    "guess hope huge whole stuff several various".split()
)
"""Words that are everywhere: one of them alone tells little."""

_GROUPS = (
    # data
    "csv tsv excel xlsx spreadsheet|file document|folder directory|dataframe dataset table|column field|row record|"
    "chart plot graph diagram histogram visualize visualization figure heatmap scatterplot|draw sketch plot|"
    "database db sql postgres postgresql mysql sqlite|missing null nan empty blank absent|duplicate repeated dedupe|"
    "forecast predict prediction projection extrapolate|outlier anomaly anomalous|average mean median|"
    "correlation correlate relationship|merge join combine|load read open import parse|save store write|"
    "upload attach attachment|download fetch|convert conversion transform|analyze analysis analytics|"
    "summary summarize overview recap tldr digest sumup|significance significant pvalue hypothesis|"
    "abtest splittest experiment variant|trend timeseries seasonal|calculate compute calculation|sum total|"
    "increase rise growth grow|decrease decline fall|compare comparison versus vs|image picture photo screenshot|"
    "timezone tz utc dst daylightsaving|date datetime timestamp|encoding utf unicode mojibake umlaut garbled|"
    "delimiter separator|count howmany|clean cleanup tidy|aggregate groupby|"
    "map geo coordinate latitude longitude gps|train fit|model classifier|machinelearning ml|dashboard report|"
    "notebook jupyter ipynb|anonymize mask redact pseudonymize|personaldata pii gdpr privacy|"
    "presentation slide powerpoint deck|typo spelling grammar proofread|"
    # code and operations
    "lint linter format formatter|environment env venv virtualenv|cache caching redis|retry reattempt|cpu processor|"
    "dns domain|network firewall vpn connection|oncall pager incident alert|infrastructure terraform ansible|"
    "cloud aws azure gcp|queue backlog kafka rabbitmq broker|failover replica replication|stuck freeze hang frozen|"
    "kill terminate|hack breach compromise phishing|browser chrome firefox safari|"
    "mobile smartphone phone android ios|accessibility a11y screenreader|leak leakage|"
    "delete remove erase wipe purge drop getridof|error exception traceback stacktrace|"
    "fail failure break notwork doesntwork dontwork|crash crashloop|bug defect|"
    "slow performance latency optimize fast speed speedup takeforever toolong|test unittest pytest|"
    "flaky intermittent|debug troubleshoot diagnose|install installation pip setup|package library module dependency|"
    "upgrade update bump|deploy deployment release rollout ship golive|rollback revert undo|production prod live|"
    "container docker pod kubernetes k8s kubectl|memory ram oom outofmemory|restart reboot|disk storage nospaceleft|"
    "outage incident downtime unavailable isdown godown sitedown servicedown|monitor alert alarm|"
    "certificate cert tls ssl https|secret credential token apikey|"
    "permission privilege access denied forbidden unauthorized|vulnerability security exploit cve|"
    "backup snapshot restore|migrate migration|config configuration configure setting|api endpoint|"
    "ratelimit throttle 429 toomanyrequest quota|timeout hang unresponsive|git commit repository repo rebase|"
    "pullrequest pr mergerequest diff|review critique lookover|refactor restructure simplify|"
    "documentation docstring readme docs|cron schedule recurring periodic|"
    "concurrency thread parallel async deadlock racecondition|regex regexp regularexpression|ci pipeline|"
    "code function script program|server host|frontend ui css|application app|administrator admin|"
    "authentication auth|authorization permission|dependency dep|parameter param|argument arg|variable var|"
    "directory dir|temporary temp tmp|maximum max|minimum min|average avg|statistics stats|message msg|"
    "specification spec|development dev|staging stage|picture pic|"
    # writing and language
    "email mail|message reply letter note|draft write compose|rephrase reword rewrite paraphrase polish|"
    "polite friendly courteous formal tone|shorten concise brief condense|translate translation|"
    # customers
    "refund moneyback payback giveback chargeback reimburse|bill charge payment pay debit|invoice bill|"
    "receipt invoice|twice double twotime|price cost fee howmuch|discount coupon voucher promo promocode|"
    "order purchase buy|delivery deliver ship shipment shipping|parcel package shipment|late delay overdue|"
    "damage broken smash defective faulty|return exchange sendback|warranty guarantee|"
    "cancel terminate unsubscribe quit|subscription subscribe membership plan|login signin logon authenticate|"
    "password passcode credential|2fa mfa twofactor authenticator otp|lockout lock block|account profile|"
    "angry upset furious annoyed frustrated mad rude outraged|complain complaint|manager supervisor boss|"
    "lawyer attorney legal sue lawsuit court|customer client|"
    # travel, money, home
    "flight airline plane fly airfare|hotel accommodation hostel lodging|book reserve reservation|"
    "trip travel journey vacation holiday|country abroad foreign overseas international|visa passport|"
    "vaccination vaccine vaccinate shot jab immunization|luggage baggage suitcase|train rail railway|"
    "weather rain snow sunny temperature|news headline|internet web online website site|search lookup google|"
    "stock equity|currency exchangerate dollar euro pound yen franc usd eur gbp jpy chf|salary wage payroll|tax vat|"
    "expense expenditure spending cost|reimburse reimbursement payback|employee staff colleague coworker|"
    "recipe dish cook bake|ingredient substitute|replace swap substitute|allergy allergic intolerance|"
    "vegan vegetarian plantbased|serving portion|meeting appointment calendar|reschedule postpone|deadline due|"
    "contract agreement|audit compliance|interview candidate recruit hire|resume cv|onboarding newhire|"
    "pto leave vacation|doctor medical health|transcript transcribe|giftcard voucher|"
    # home, health, learning, work
    "rent lease rental|tenant renter|landlord lessor|apartment flat condo|house home property|sofa couch|leak drip|"
    "repair fix mend|mechanic garage|car vehicle automobile|tyre tire|petrol gas gasoline fuel|bike bicycle|"
    "vet veterinarian|dog puppy|cat kitten|child kid toddler|baby infant newborn|parent mother father mom dad mum|"
    "physician doctor gp|medicine medication drug pill|ill sick unwell|ache pain hurt sore|symptom sign|injury "
    "wound hurt|"
    "prescribe prescription|vaccine immunisation|pregnant pregnancy|workout exercise gym fitness|jog run|diet "
    "nutrition|"
    "calorie kcal|teacher tutor instructor|student pupil learner|exam quiz midterm|homework assignment|grade mark "
    "score|"
    "lecture lesson class|enroll enrol register signup|essay paper thesis|scholarship grant|garden yard lawn|plant "
    "shrub|"
    "fertilizer compost|bug insect pest|movie film|song track tune|present gift|party celebration|wedding marriage|"
    "guest visitor|"
    "fire dismiss layoff|resign quit|colleague teammate|raise payrise|promotion promote|sick absent absence illness|"
    "timeoff holiday leave|shift roster rota|freelancer contractor|remote homeoffice wfh|workshop seminar training "
    "course|"
    "minutes protocol|agenda program|conference event summit|venue location|sponsor sponsorship|volunteer helper|"
    "fundraise donate donation charity|survey poll questionnaire|press journalist media|campaign advertisement "
    "advert ad|"
    "post tweet publish|follower subscriber|keyword seo ranking|competitor rival competition|prospect lead|pitch "
    "proposal offer|"
    "quote estimate offer|supplier vendor|inventory stock warehouse|procurement purchasing sourcing|overdraft loan "
    "credit|"
    "mortgage homeloan|insurance insurer policy cover coverage|claim reimbursement|accident crash collision|theft "
    "stolen steal burglary|"
    "fraud scam fraudulent unauthorised|identity id passport|sign signature esign|confidential nda secret|"
    "copyright trademark patent|"
    "regulation rule law|child minor|elderly senior|disabled disability wheelchair|noise loud noisy|neighbour neighbor|"
    "electricity power|blackout outage|heating radiator boiler|trash garbage rubbish waste|recycle recycling|solar "
    "photovoltaic|"
    "printer print printing|toner ink|laptop notebook computer pc|monitor display screen|headset headphone "
    "earphone|wifi wlan wireless|"
    "router modem|phone telephone call|sms text|video clip footage|audio sound|subtitle caption|logo brand "
    "branding|font typeface|"
    "colour palette|layout design|mockup wireframe prototype|bigger larger enlarge|smaller reduce shrink compress|"
    "begin start launch|end finish complete|broken kaputt defect|strange odd weird unusual abnormal|wrong "
    "incorrect erroneous|"
    "missing lack absent|hurry urgent urgency asap|sad grief bereavement|suicide selfharm|emergency urgent|"
    # what stems do not bring together
    "compress compression|expand expansion|submit submission|permit permission|divide division|describe description|"
    "receive receipt|sell sale|fly flight|weigh weight|grow growth|die death dead|live life|speak speech|advise advice|"
    "compare comparison|apply application applicant|explain explanation|pronounce pronunciation|repeat repetition|"
    "reduce reduction|respond response|propose proposal|arrive arrival|approve approval|refuse refusal|discover "
    "discovery|"
    "recover recovery|marry marriage|store storage|pack package packing|high height|long length|deep depth|wide width|"
    "strong strength|hot heat|safe safety|frequent frequency|accurate accuracy|private privacy|vacant vacancy|"
    "absent absence|"
    "urgent urgency|anger angry|solve solution|resolve resolution|install installation|transcribe transcription|"
    "abbreviate abbreviation|cancel cancellation|verify verification|notify notification|classify classification|"
    "simplify simplification|identify identification|modify modification|qualify qualification|clarify clarification|"
    "multiply multiplication|publish publication|consume consumption|assume assumption|redeem redemption|extend "
    "extension|"
    "convert conversion|invade invasion|include inclusion|conclude conclusion|persuade persuasion|detect detection|"
    "inject injection|inspect inspection|prescribe prescription|transcript transcription|buy bought|pay payment|"
    "decide decision|succeed success|lose lost loss|grey gray|cheque check|licence license|defence defense|"
    "programme program|catalogue catalog|practise practice|tyre tire|enquiry inquiry|choice choose|proof prove|"
    "reply response respond|expire expiry expiration validity valid"
)
SYNONYMS = tuple(tuple(group.split()) for group in _GROUPS.split("|"))
"""Words that may stand for each other, in groups. Those of two words are written as one: "moneyback"."""

NEGATIVE = re.compile(
    r"\b(?:do|does|should|must)(?:\s+not|n['\u2019]t)\s+(?:be\s+)?(?:use|used|apply|applies|applied|select|selected|choose|chosen)\b"
    r"|\bnever\s+(?:use|apply|select|choose)\b"
    r"|\bnot\s+(?:when|whenever|for|if|in\s+case|where|to\s+be\s+used|applicable|relevant|needed|about|meant|intended)\b"
    r"|\b(?:unless|except|excluding|other\s+than|rather\s+than|as\s+opposed\s+to|instead\s+of|but\s+not)\b"
    r"|^\W*(?:skip|ignore|avoid)\b",
    re.IGNORECASE,
)
"""Where a condition begins to say when it does not apply."""

FOLLOW_UP = re.compile(
    r"\b(?:again|same|its?|them|others?|another|continue|go\s+on|instead|once\s+more|next|still)\b"
    r"|\b(?:that|this|these|those)(?=\s*(?:$|[.,;:!?'\u2019]|(?:can|could|is|are|was|were|does|did|do|will|would|not|one|too)\b))",
    re.IGNORECASE,
)
"""What a query says that is about what went before."""

NOT_MEANT = re.compile(
    r"\b(?:(?:do|does|did)(?:\s+not|n['\u2019]?t)\s+(?:want|need|mean|care)|no\s+need|without|instead\s+of|rather\s+than"
    r"|not\s+(?:about|a|an|the)|nothing\s+to\s+do\s+with|have\s+no\s+interest\s+in)\b[^.,;:!?\n]{0,40}",
    re.IGNORECASE,
)
"""What a query says it is not about."""


MOST_CHARACTERS = 6_000
"""Of a longer text its beginning and its end are read, so many in all."""
LONGEST_COMPOUND = 4
"""So many words may be written as one: "file not found error"."""
FAINT = 0.4
"""What a common word and a part of a program's name count. Any other word counts 1."""
AKIN = 0.7
"""What a word counts that only means the same, or of which only the root is the same."""

_SILENT = STOP_WORDS | PHRASING
_INSIDE = re.compile(  # fooBar, OOMKilled; not iPhone, NaNs
    r"(?<=[A-Za-z][a-z\d])(?=[A-Z](?:[a-z]{2}|[A-Z]))|(?<=[A-Z])(?=[A-Z][a-z]{2})"
)
_NAME = re.compile(r"[^\W\d]\w*")
_BULLET = re.compile(r"(?:[-*+\u2022]|\d+[.)])\s")
_SENTENCE = re.compile(r"(?<=[.;!?]) ")
_DOTTED = re.compile(r"\b(e\.g|i\.e|etc|vs|approx)\.", re.IGNORECASE)
_FRAGMENT = re.compile(r"[,:;()]|\b(?:or|and)\b", re.IGNORECASE)
_OUR = re.compile(r"^(\w{3,})our")  # favourit(e), never hour; a wrong one is wrong in both texts
_PLURAL = re.compile(r"^(\d{2,})s$")  # 429s
_RE = re.compile(r"^(\w{3,})tr$")  # centr(e)
_LONG_NUMBER = 3  # 429 says something, 2 hardly
_SHORTEST_ISE = 6  # organis(e), never axis
_ENDING = re.compile(r"^(\w{5,}?)(?:i|ur|al|ment|er|or|anc|enc)$")  # deliver and deliveri, which is delivery


class SpokenWords(NamedTuple):
    """A text, or a clause of one.

    Attributes:
        words: Its terms, and what each counts.
        compounds: What adjacent words make when they are written as one, with these words.
        names: The names of programs in it: as their parts make them, and as they are when nobody sees the parts.
        spelled: How each term was spelled.
    """

    words: dict[str, float]
    compounds: dict[str, tuple[str, ...]]
    names: dict[str, str]
    spelled: dict[str, str]


class Clause(NamedTuple):
    """A situation.

    Attributes:
        said: What it says.
        company: For each word the alternative that it stands in, "statistically significant" say, as words with what
            they count: half of it says less than all.
    """

    said: SpokenWords
    company: dict[str, dict[str, float]]


class Condition(NamedTuple):
    """A condition, read.

    Attributes:
        clauses: The situations it applies to.
        against: Those for which it says that it does not.
    """

    clauses: tuple[Clause, ...]
    against: tuple[Clause, ...]


def read(condition: str) -> Condition:
    """What a condition says.

    Args:
        condition: Anything; no text is invalid.
    """
    return _read(within(condition))


@lru_cache(maxsize=4_096)
def _read(condition: str) -> Condition:
    clauses: list[str] = []
    against: list[str] = []
    listing = False  # what a list that began with "Not for:" names
    for sentence in _sentences(condition):
        denial = NEGATIVE.search(sentence)
        listing = listing and bool(_BULLET.match(sentence))
        if denial:
            before, after = sentence[: denial.start()], sentence[denial.end() :]
            if before.rstrip().endswith("(") and ")" in after:  # what follows the brackets belongs to what went before
                after, _, rest = after.partition(")")
                before += rest
            clauses.append(before)
            against.append(after)
            listing = sentence.endswith(":")
        else:
            (against if listing else clauses).append(sentence)
    return Condition(_clauses(clauses), _clauses(against))


def said(text: str) -> SpokenWords:
    """The words of a text, each with what it counts.

    Args:
        text: Anything; no text is invalid.
    """
    split = _INSIDE.sub(" ", text)
    spelled = question(split).words
    asked = {term: word for word, term in reversed(spelled.items())}
    telling = {term for word, term in spelled.items() if word not in _SILENT}  # "personal" is not "person"
    run = [term for term in terms(split) if term in asked]
    names = {"".join(terms(_INSIDE.sub(" ", name))): american(name.lower()) for name in _names(text)}
    parts = {part for name in _names(text) for part in terms(_INSIDE.sub(" ", name))} if names else ()
    faint = _stems(COMMON)
    words: dict[str, float] = {}
    for term in run:
        if term not in telling or (len(term) == 1 and term.isascii() and not term.isdigit()):
            continue
        small = term.isdigit() and len(term) < _LONG_NUMBER
        weight = FAINT if small or term in faint or term in parts else 1.0
        word = american(term)
        words[word] = max(words.get(word, 0.0), weight)
    compounds = {
        "".join(group): group
        for length in range(2, LONGEST_COMPOUND + 1)
        for group in zip(*(run[start:] for start in range(length)), strict=False)
    }
    return SpokenWords(words, compounds, names, {american(term): word for term, word in asked.items()} | asked)


def within(text: str) -> str:
    """As much of a text as is read."""
    half = MOST_CHARACTERS // 2
    return text if len(text) <= MOST_CHARACTERS else f"{text[:half]}\n{text[-half:]}"


@lru_cache(maxsize=20_000)
def american(term: str) -> str:
    """A term as American spelling has it, so that both are one."""
    if not term.isascii():
        return term
    if len(term) >= _SHORTEST_ISE and term.endswith(("is", "ys")):
        term = "".join(terms(f"{term[:-1]}ze"))
    return _PLURAL.sub(r"\1", _RE.sub(r"\1ter", _OUR.sub(r"\1or", term)))


@lru_cache(maxsize=20_000)
def akin(term: str) -> tuple[tuple[str, float], ...]:
    """The terms that may stand for a term, itself first, and what each counts."""
    return ((term, 1.0), *((other, AKIN) for other in _synonyms().get(term, ())))


@lru_cache(maxsize=20_000)
def root(term: str) -> str:
    """What words of one family share that the stemmer leaves apart, such as "deliver" and "delivery"."""
    return _ENDING.sub(r"\1", term)


def _names(text: str) -> Iterator[str]:
    for match in _NAME.finditer(text):
        name = match.group().strip("_")
        if "_" in name or _INSIDE.search(name):
            yield name


def _sentences(text: str) -> Iterator[str]:
    """Sentences and items of lists; lines that were only wrapped are one."""
    paragraphs: list[list[str]] = [[]]
    for line in text.splitlines():
        words = " ".join(line.split())
        if not words or _BULLET.match(words):
            paragraphs.append([])
        if words:
            paragraphs[-1].append(words)
    for paragraph in paragraphs:
        yield from filter(None, _SENTENCE.split(_DOTTED.sub(r"\1", " ".join(paragraph))))


def _clauses(texts: list[str]) -> tuple[Clause, ...]:
    every = ((text, said(text)) for text in texts)
    return tuple(Clause(each, _company(text, each.words)) for text, each in every if each.words)


def _company(text: str, words: dict[str, float]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for fragment in _FRAGMENT.split(_INSIDE.sub(" ", text)):
        company = {word: words[word] for term in terms(fragment) if (word := american(term)) in words}
        for word in company:
            if word not in found or len(company) < len(found[word]):
                found[word] = company
    return found


@lru_cache(maxsize=1)
def _stems(words: frozenset[str]) -> frozenset[str]:
    return frozenset(term for word in words for term in terms(word))


@lru_cache(maxsize=1)
def _synonyms() -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for group in SYNONYMS:
        stems = [american("".join(terms(word))) for word in group]
        for stem in stems:
            found.setdefault(stem, {}).update(dict.fromkeys(other for other in stems if other != stem))
    return {stem: tuple(others) for stem, others in found.items()}


COMPOUND = "~"
"""How keys of what a condition has as several words begin."""
_ROOT = "/"
_LONGEST_KEPT = 3

Keys: TypeAlias = tuple[tuple[str, float], ...]
"""By what a word is found, and what each counts."""


class QueryPlace(NamedTuple):
    """Where a key stands."""

    condition: int
    clause: int
    strength: float
    word: str  # of the condition, or "" for several


class Index(NamedTuple):
    """Conditions by their words.

    Attributes:
        met: Where each key stands in what the conditions apply to.
        denied: And in what they do not apply to.
        rare: How rare each key is, 1 for one that a single condition has.
        clauses: The situations of each condition.
        against: Those for which it says that it does not apply.
    """

    met: Mapping[str, Sequence[QueryPlace]]
    denied: Mapping[str, Sequence[QueryPlace]]
    rare: Mapping[str, float]
    clauses: Sequence[Sequence[Clause]]
    against: Sequence[Sequence[Clause]]


@lru_cache(maxsize=20_000)
def keys_of(word: str) -> Keys:
    """By what a word of a query is found."""
    same = akin(word)
    return (*same, *((COMPOUND + key, worth) for key, worth in same), (_ROOT + root(word), AKIN))


@lru_cache(maxsize=8)
def indexed(conditions: tuple[str, ...]) -> Index:
    """The conditions by their words."""
    every = [read(condition) for condition in conditions]
    met: dict[str, list[QueryPlace]] = {}
    denied: dict[str, list[QueryPlace]] = {}
    holding: dict[str, set[int]] = {}
    for number, condition in enumerate(every):
        for places, situations in ((met, condition.clauses), (denied, condition.against)):
            for place, clause in enumerate(situations):
                for key, (strength, word) in _found_by(clause.said).items():
                    places.setdefault(key, []).append(QueryPlace(number, place, strength, word))
                    holding.setdefault(key, set()).add(number)
    most = rarity(len(every), 1)
    rare = {key: rarity(len(every), len(numbers)) / most for key, numbers in holding.items()}
    return Index(met, denied, rare, [each.clauses for each in every], [each.against for each in every])


def _found_by(clause: SpokenWords) -> dict[str, tuple[float, str]]:
    """The keys by which a clause is found, with what each counts and the word that it is of."""
    found: dict[str, tuple[float, str]] = {
        COMPOUND + key: (1.0, next((word for part in parts if (word := american(part)) in clause.words), ""))
        for key, parts in clause.compounds.items()
        if len(parts) <= _LONGEST_KEPT
    }
    for word, strength in clause.words.items():
        found[word] = strength, word
        found[_ROOT + root(word)] = max(found.get(_ROOT + root(word), (0.0, "")), (strength, word))
    for joined, plain in clause.names.items():
        found[joined] = found[plain] = 1.0, ""
    return found


THRESHOLD = 0.5
"""A condition with at least this score applies."""
UNSURE = (0.35, 0.65)
"""From the first to below the second, a model is worth asking."""

COVER = 0.5
"""The power of how much of an alternative is met: "price" is half of "stock prices"."""
AGAINST = 0.8
"""What a word counts where the condition says that it does not apply."""
STEEP = 2.0
"""How soon a word counts less where another condition explains the query better."""
LENGTH, SHORT = 0.4, 2.0
"""The power by which a long query needs more, and the length below which it hardly matters."""
HALF = 0.317
"""The evidence for which the score is one half."""
BEFORE = 0.8
"""What a word counts of what was asked before, or of an error, where the query is about that."""

_MOST_LINES, _LONGEST_LINE = 50, 2_000
_LABEL = re.compile(r"^(User|Execution|Error):", re.MULTILINE)


class Judged(NamedTuple):
    """How far a condition is met.

    Attributes:
        score: 0 to 1.
        terms: What each word of the query or its context added, or took away; together the score.
    """

    score: float
    terms: Mapping[str, float]

    @property
    def reason(self) -> str:
        """What of a query led to it, the most telling first."""
        terms = sorted(self.terms.items(), key=lambda each: -each[1])
        return ", ".join(f"{term} {worth:.2f}" for term, worth in terms if worth > 0)


_NOTHING = Judged(0.0, MappingProxyType({}))


class _Feature(NamedTuple):
    weight: float
    keys: Keys  # by which it is found, and what each counts


def judged(query: str, context: str, conditions: Sequence[str]) -> list[Judged]:
    """How far a query meets each of some conditions.

    Args:
        query: What the user asks; no text is invalid.
        context: Empty, or lines that begin with "User:", "Execution:" or "Error:", the oldest first.
        conditions: When each experience applies.

    Returns:
        One for each condition, in their order. The same for the same arguments.
    """
    if not conditions:
        return []
    index = indexed(tuple(conditions))
    asked = _asked(query, context, index)
    evidence = _evidence(asked.features, index)
    strongest: dict[str, float] = {}
    total = {number: sum(weighed.values()) for number, weighed in evidence.items()}
    for number, weighed in evidence.items():
        for key, worth in weighed.items():
            strongest[key] = max(strongest.get(key, 0.0), total[number] * worth)
    found = [_NOTHING] * len(conditions)
    for number, weighed in evidence.items():
        if total[number] <= 0:
            continue
        own = {
            key: worth * (total[number] * worth / strongest[key]) ** STEEP if worth > 0 else worth
            for key, worth in weighed.items()
        }
        left = sum(own.values())
        if left > 0:
            enough = left / (SHORT + asked.length) ** LENGTH
            score = enough / (enough + HALF)
            reasons: dict[str, float] = {}
            for key, worth in own.items():
                word = asked.spelled.get(key, key)
                reasons[word] = reasons.get(word, 0.0) + worth / left * score
            found[number] = Judged(score, MappingProxyType(reasons))
    return found


def _evidence(features: Mapping[str, _Feature], index: Index) -> dict[int, dict[str, float]]:
    """For each condition that has something in common with the query, what each feature is worth there."""
    denied = _worths(features, index.denied, index.rare, index.against)
    found = {}
    for number, clauses in _worths(features, index.met, index.rare, index.clauses).items():
        best = max(clauses.values(), key=lambda worths: sum(worths.values()))
        terms = dict(best)
        against: dict[str, float] = {}
        for worths in denied.get(number, {}).values():
            speaking = {key: worth for key, worth in worths.items() if worth > terms.get(key, 0.0)}
            if sum(speaking.values()) > sum(against.values()):
                against = speaking
        for key, worth in against.items():
            terms[key] = terms.get(key, 0.0) - AGAINST * worth
        found[number] = terms
    return found


def _worths(
    features: Mapping[str, _Feature],
    places: Mapping[str, Sequence[QueryPlace]],
    rare: Mapping[str, float],
    clauses: Sequence[Sequence[Clause]],
) -> dict[int, dict[int, dict[str, float]]]:
    """By condition and clause: what each feature is worth there."""
    met: dict[tuple[int, int], dict[str, tuple[float, str]]] = {}
    for name, (weight, keys) in features.items():
        for key, worth in keys:
            for condition, clause, strength, word in places.get(key, ()):
                value = weight * worth * strength * rare[key]
                terms = met.setdefault((condition, clause), {})
                if name not in terms or value > terms[name][0]:
                    terms[name] = value, word
    found: dict[int, dict[int, dict[str, float]]] = {}
    for (condition, clause), terms in met.items():
        words = {word for _, word in terms.values()}
        company = clauses[condition][clause].company
        found.setdefault(condition, {})[clause] = {
            name: value * _covered(company.get(word), words) for name, (value, word) in terms.items()
        }
    return found


def _covered(company: Mapping[str, float] | None, words: set[str]) -> float:
    if not company:
        return 1.0
    met = sum(weight for word, weight in company.items() if word in words)
    return float((met / sum(company.values())) ** COVER)


class _Asked(NamedTuple):
    features: Mapping[str, _Feature]  # what to look for
    length: float
    spelled: Mapping[str, str]


def _asked(query: str, context: str, index: Index) -> _Asked:
    text = within(query)
    own = said(text)
    spelled = dict(own.spelled)
    unmeant = said(" ".join(match.group() for match in NOT_MEANT.finditer(text))).words
    words = {word: weight for word, weight in own.words.items() if word not in unmeant}
    length = sum(words.values())
    features = {word: _Feature(weight, keys_of(word)) for word, weight in words.items()}
    features |= {word: _Feature(1.0, keys) for word, keys in _compounds(own, index, spelled)}
    if sum(own.words.values()) < 1 or FOLLOW_UP.search(text):
        for word, feature in _before(query, context, index, spelled):
            if word not in features or features[word].weight < feature.weight:
                features[word] = feature
    return _Asked(features, length, spelled)


def _before(query: str, context: str, index: Index, spelled: dict[str, str]) -> Iterator[tuple[str, _Feature]]:
    """What the round before adds: what was asked, and the errors."""
    first, *labelled = _LABEL.split(context)
    lines = [("User", first), *zip(labelled[::2], labelled[1::2], strict=True)]
    lines = [(kind, text.strip()) for kind, text in lines if text.strip()][-_MOST_LINES:]
    if lines and lines[-1] == ("User", query.strip()):
        lines.pop()
    last = max((place for place, (kind, _) in enumerate(lines) if kind == "User"), default=0)
    half = _LONGEST_LINE // 2
    for kind, text in lines[last:]:
        if kind == "Execution":  # whether it worked, not what it was about
            continue
        each = said(text if len(text) <= _LONGEST_LINE else f"{text[:half]}\n{text[-half:]}")
        for term, word in each.spelled.items():
            spelled.setdefault(term, word)
        # the last line of a traceback says what went wrong; above it only names do
        told = said(text.splitlines()[-1][:_LONGEST_LINE]) if kind == "Error" else each
        for word, weight in told.words.items():
            yield word, _Feature(BEFORE * weight, keys_of(word))
        if kind == "Error":
            for word, keys in _compounds(each, index, spelled):
                yield word, _Feature(BEFORE, keys)


def _compounds(text: SpokenWords, index: Index, spelled: dict[str, str]) -> Iterator[tuple[str, Keys]]:
    """Compounds and names of a text by which something is found: what is found is one word, or means the same.

    That both have the same words beside each other is no news, so those are not looked for in pieces.
    """
    for compound in (*text.compounds, *(name for name in text.names if name not in text.compounds)):
        same = akin(compound)
        keys = (*same, *((COMPOUND + key, worth) for key, worth in same[1:]))
        if known := tuple((key, worth) for key, worth in keys if key in index.rare):
            spelled.setdefault(compound, " ".join(spelled.get(part, part) for part in text.compounds.get(compound, ())))
            yield compound, known
