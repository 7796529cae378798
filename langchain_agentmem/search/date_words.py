"""The words that name times in English, German, French, Spanish, Italian, Portuguese and Dutch: one table to replace.

Every word has a kind, one character, and a number. `dates` writes a query as a string of kinds and looks for patterns
in it, so another language is a matter of more words here. Words are in lower case and without accents, but for those
that would mean something else without. Left out is what is more often another word: Portuguese abbreviations such
as "ter", German "So", the Dutch "na".

Kinds: `M` a month, `m` one that is also a name or a word and counts only in company, `v` one that counts only between
a day and a year. `W` a weekday, `w` one that needs company, `z` one that is only ever passed over before a date. `S` a
season, `s` one that needs company. `H` and `h` the same of feast days. `t` a day counted from today. `d k n y` day,
week, month and year, `e` weekend, `q` quarter, `u` hours and minutes. `c` a count, `i` one that is an article or a
preposition too, `j` the "an" that is English for one and French for a year; 0 stands for a few. `L T X` last, this and
next before their noun, `l` the ones that may follow it. `P` past. `a` ago after its time, `A` before it, `V` the German
one that also means before. `p` in, `n` on and at, `o` of, `r` an article, `b` between, `&` and, `>` to, `f` from,
`C` since, `F` after, `B` before, `U` until, `Y` by. `Q` a quarter by its number. `.` is no time at all.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from types import MappingProxyType

_BY_POSITION = (  # kind, number of the first group, groups of words
    (
        "M",
        1,
        (
            "january januar janner janvier enero gennaio janeiro januari|february februar fevrier febrero febbraio "
            "fevereiro februari|marz marzo março maart|aprile abril|maggio maio|juin junio giugno junho juni|july "
            "juillet luglio julho juli|aout agosto|september septembre septiembre settembre setembro|october "
            "oktober octobre octubre ottobre outubro|november novembre noviembre novembro|december dezember "
            "decembre diciembre dicembre dezembro"
        ),
    ),
    (
        "m",
        1,
        (
            "jan janv|feb febr fev fevr|march mars mar mrt|april apr avril avr abr|may mai mayo mei|june jun|jul "
            "juil julio|august aug augustus|sep sept|oct okt|nov|dec dez"
        ),
    ),
    ("v", 1, "gen ene|||||giu|lug||set|ott out||dic"),
    (
        "W",
        0,
        (
            "monday montag lundi lunes lunedi segunda-feira maandag|"
            "tuesday dienstag mardi martes martedi terca-feira dinsdag|"
            "wednesday mittwoch mercredi miercoles mercoledi quarta-feira woensdag|"
            "thursday donnerstag jeudi jueves giovedi quinta-feira donderdag|"
            "friday freitag vendredi viernes venerdi sexta-feira vrijdag|"
            "saturday samstag sonnabend samedi sabado sabato zaterdag|sunday sonntag dimanche domenica zondag"
        ),
    ),
    ("w", 0, "|tue tues|wed|thu thur thurs|fri||domingo"),
    ("z", 0, "mon|||||sat|sun"),
    (
        "S",
        0,
        (
            "fruhling fruhjahr printemps primavera voorjaar|summer sommer verano verao zomer|"
            "autumn herbst automne otono autunno outono herfst|winter hiver invierno inverno"
        ),
    ),
    ("s", 0, "spring lente|ete estate|fall|"),
    ("h", 0, "christmas xmas weihnachten navidad natale natal kerst kerstmis|||halloween|new-year neujahr|"),
    (
        "H",
        0,
        (
            "a-noel|christmas-eve heiligabend nochebuena|new-year-s-eve new-years-eve silvester nochevieja||"
            "new-year-s-day new-years-day|valentine-s-day valentines-day"
        ),
    ),
    (
        "t",
        -2,
        (
            "vorgestern avant-hier anteayer antier altro-ieri anteontem eergisteren|"
            "yesterday last-night gestern hier ayer ieri ontem gisteren|"
            "today tonight this-morning this-afternoon this-evening heute aujourd-hui hoy oggi hoje vandaag|"
            "tomorrow morgen demain manana domani amanha|ubermorgen apres-demain dopodomani overmorgen"
        ),
    ),
    (
        "c",
        0,
        (
            "few several paar quelques algunos algunas alcuni alcune alguns algumas enkele|"
            "one ein eine einem einer einen un une uno una um uma een|two couple zwei deux dos due dois duas twee|"
            "three drei trois tres tre drie|four vier quatre cuatro quattro quatro|five funf cinq cinco cinque vijf|"
            "six sechs seis sei zes|seven sieben siete sette sete zeven|eight acht huit ocho otto oito|"
            "nine neun neuf nueve nove negen|ten zehn dix diez dieci dez tien|eleven elf onze once undici|"
            "twelve zwolf douze doce dodici doze twaalf"
        ),
    ),
)
_ALIKE = (  # kind, number, words
    ("i", 1, "a"),
    ("j", 1, "an"),
    ("d", 0, "day days tag tage tagen jour jours dia dias giorno giorni dag dagen"),
    ("k", 0, "week weeks woche wochen semaine semaines semana semanas settimana settimane weken"),
    ("n", 0, "month months monat monate monaten monats mois mes meses mese mesi maand maanden"),
    ("y", 0, "year years jahr jahre jahren jahres annee annees ans ano anos anno anni jaar jaren"),
    ("e", 0, "weekend wochenende week-end fin-de-semana fine-settimana fim-de-semana"),
    ("q", 0, "quarter quartal trimestre kwartaal"),
    ("u", 60, "hour hours stunde stunden heure heures hora horas ora ore uur uren"),
    ("u", 1, "minute minutes minuten minuto minutos minuti minuut"),
    (
        "L",
        -1,
        "last vorig letzte letzten letzter letztes letztem vorige vorigen vergangene vergangenen afgelopen laatste",
    ),
    ("T", 0, "this diese diesen dieser dieses diesem cette este esta questo questa deze dit"),
    ("X", 1, "next nachste nachsten nachster nachstes kommende kommenden volgende komende"),
    ("l", -1, "dernier derniere pasado pasada scorso scorsa passado passada"),
    ("l", 1, "prochain prochaine proximo proxima prossimo prossima"),
    ("P", 0, "past"),
    ("a", 8, "ago"),  # a month in Spanish, between a day and a year
    ("a", 0, "back fa geleden atras"),
    ("A", 0, "il-y-a hace há"),
    ("V", 0, "vor"),
    (
        "p",
        0,
        "in im en nel nell em during early late mid end beginning start middle ende durante wahrend pendant tijdens",
    ),
    ("n", 0, "on at for over around um al a-la op am le el"),
    ("o", 0, "of de del di van d"),
    ("r", 0, "the la les il lo l der die das dem den au du"),
    ("b", 0, "between zwischen entre tra fra tussen"),
    ("&", 0, "and und et y e"),
    (">", 0, "to - \u2013 \u2014"),
    ("f", 0, "from von vom dal vanaf"),
    ("C", 0, "since seit depuis desde sinds"),
    ("F", 0, "after nach apres despues dopo depois following"),
    ("B", 0, "before avant antes prima voor"),
    ("U", 0, "until till through bis hasta jusqu jusque fino ate tot"),
    ("Y", 0, "by"),
    (".", 0, "mardi-gras"),
    ("Q", 1, "q1"),
    ("Q", 2, "q2"),
    ("Q", 3, "q3"),
    ("Q", 4, "q4"),
)


def bare(word: str) -> str:
    """A word in lower case without its accents."""
    word = unicodedata.normalize("NFKD", word.lower())
    return "".join(character for character in word if not "\u0300" <= character <= "\u036f")


def _entries() -> Iterator[tuple[str, tuple[str, int]]]:
    for kind, first, groups in _BY_POSITION:
        for number, words in enumerate(groups.split("|"), first):
            for word in words.split():
                yield word, (kind, number)
    for kind, number, words in _ALIKE:
        for word in words.split():
            yield word, (kind, number)


KINDS = MappingProxyType({word: entry for word, entry in _entries() if len(word) == 1 or "-" not in word})
"""Single words to their kind and number."""

PHRASES = MappingProxyType({tuple(word.split("-")): entry for word, entry in _entries() if "-" in word[1:-1]})
"""What takes two to four words, likewise."""

PHRASE_STARTS = frozenset(words[0] for words in PHRASES)

TELLING = frozenset(
    bare(max(word.split("-"), key=len)) for word, (kind, _) in _entries() if kind in "MmWwSsHhtdknyequQ"
)
"""Without one of these and without a digit, a text names no time."""


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


ORDINALS = _words("st nd rd th er ere \xba \xaa o")

VERBS = _words("may march")
"""Months that are months only if written like one, or in company that no verb has."""

NO_MONTH_BEFORE = _words("be have not also never well even still")

NOT_AFTER = {
    "hier": _words("ich ist wir der das und wo was wer sind ik het een wat waar zijn heb"),
    "morgen": _words("guten goede jeden am heute gestern der den"),
    "manana": _words("la esta cada"),
}
"""What these words do not name a day next to: "hier" is German and Dutch for here."""

COUNTED = _words(
    "messages message words word tokens steps times people users dollars euros pounds usd eur gbp dollar euro km kg m "
    "miles meters metres calories kcal points percent pages lines rows items files hours minutes seconds days weeks "
    "months years bytes mb gb kb views likes followers photos students nachrichten leute worter"
)
"""A number before one of these is no year."""

NO_PLURAL = _words("was has does this his its as is us yes plus")
"""They end in s and still may follow a year."""

LABELS = _words(
    "room flight port page line number no nr code pin error version ver v release build id issue pr chapter route "
    "model windows office extension usd eur gbp ticket order invoice python phone"
)
"""A number after one of these is no date."""
