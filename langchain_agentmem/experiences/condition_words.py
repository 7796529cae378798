"""What selecting knows of English, in one place to replace.

Everything here is English only: the words by which conditions are phrased, words too common to tell one situation from
another, words that may stand for each other, and how people say what is not meant. It is
meant as general knowledge; the groups of synonyms were collected with the development sets of the benchmark in view. A
text in another language does without it.
"""

from __future__ import annotations

import re

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
