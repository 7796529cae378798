"""Parsing of dates and time expressions in queries."""

import unicodedata
from datetime import UTC, date, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from langchain_agentmem.base.clock import to_micros
from langchain_agentmem.search.dates import MAX_CHARS, find_times


def words(text):
    return text.split()


NOW = to_micros(datetime(2024, 6, 19, 15, 30, tzinfo=UTC))  # a Wednesday
ENGLISH = words("January February March April May June July August September October November December")
FOREIGN_MONTHS = {
    "{d}. {m} {y}": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "{d} {m} {y}": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "{d} de {m} de {y}": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    " {d} {m} {y} ": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    " {d} de {m} de {y} ": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "  {d} {m} {y} ": "januari februari maart april mei juni juli augustus september oktober november december",
}


def at(text):
    return to_micros(datetime.fromisoformat(text).replace(tzinfo=UTC))


def found(text, now=NOW):
    return [(span.start, span.end, span.words) for span in find_times(text, now)]


def period(text, now=NOW):
    [span] = find_times(text, now)
    return span.start, span.end


def ordinal(number):
    return f"{number}{'th' if 10 < number < 20 else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


class TestWrittenDates:
    @given(st.dates(date(1950, 1, 1), date(2100, 12, 31)))
    @example(date(2024, 2, 29))
    @example(date(2000, 12, 31))
    def test_days_are_parsed_in_every_date_format(self, day):
        y, m, d, name = day.year, day.month, day.day, ENGLISH[day.month - 1]
        english = (
            f"{d} {name} {y}|{d} {name}, {y}|{ordinal(d)} of {name} {y}|{d} {name[:3]} {y}|{d}-{name[:3]}-{y}|"
            f"{y} {name} {d}|{name} {d}, {y}|{name} {d} {y}|{name} {d},{y}|{name} {ordinal(d)}, {y}|"
            f"{name[:3]}. {d}, {y}|{name.lower()} {d} {y}|{name.upper()} {d} {y}"
        )
        numbers = (
            f"{y}-{m:02}-{d:02}|{y}/{m:02}/{d:02}|{y}/{m}/{d}|{y}.{m:02}.{d:02}|{d:02}.{m:02}.{y}|{d}.{m}.{y}|{m}/{d}/{y}|"
            f"{m:02}/{d:02}/{y}|{d:02}-{m:02}-{y}|{y}年{m}月{d}日|{y}年 {m:02}月 {d:02}日|{y}년 {m}월 {d}일"
        )
        elsewhere = [form.format(d=d, m=words(names)[m - 1], y=y).strip() for form, names in FOREIGN_MONTHS.items()]
        start = (day - date(1970, 1, 1)) // timedelta(microseconds=1)
        for written in [*english.split("|"), *numbers.split("|"), *elsewhere]:
            expected = [(start, start + 24 * 60 * 60 * 1_000_000, written)]
            for text in (written, f"So what did we say on {written}?", f"{written}: what was it"):
                assert found(text) == expected

    @given(st.integers(1950, 2100), st.integers(1, 12))
    def test_months_and_years_are_parsed_exactly(self, year, month):
        name = ENGLISH[month - 1]
        start, end = at(f"{year}-{month:02}-01"), at(f"{year + month // 12}-{month % 12 + 1:02}-01")
        for told in f"{name} {year}|{name} of {year}|{name[:3]} {year}|{year}-{month:02}|{year}年{month}月".split("|"):
            assert found(f"What happened in {told}?") == [(start, end, told)]
        assert found(f"the plans of {year}") == [(at(f"{year}-01-01"), at(f"{year + 1}-01-01"), str(year))]

    @given(st.dates(date(1950, 1, 1), date(2100, 12, 31)), st.integers(0, 60))
    def test_date_range_includes_its_last_day(self, day, length):
        last = day + timedelta(days=length)
        expected = (at(day.isoformat()), at((last + timedelta(days=1)).isoformat()))
        one, two = f"{day.day} {ENGLISH[day.month - 1]}", f"{last.day} {ENGLISH[last.month - 1]} {last.year}"
        assert period(f"between {one} {day.year} and {two}") == expected
        assert period(f"from {day} to {last}") == expected
        assert period(f"between {one} and {two}") == expected, "the year holds for both"

    def test_invalid_calendar_dates_are_ignored(self):
        for text in [
            "31 February 2023", "February 30, 2023", "2023-02-29", "29.02.2023", "2023-13-01", "0 May", "2023-00-10",
            "2023-13", "13/13", "0001-01-01", "9999-12-31", "9" * 900 + "-05-08", "8 May " + "9" * 900, "8 May 1899",
            "2201", "31 June", "13/13/2023", "2023年13月1日", "32 May", "00.05.2023", "27-31 February 2023",
        ]:  # fmt: skip
            assert not find_times(text, NOW), text

    def test_slash_dates_are_month_first_when_valid(self):
        assert period("5/8/2023")[0] == at("2023-05-08")
        assert period("13/8/2023")[0] == at("2023-08-13")
        assert period("8.5.2023")[0] == period("08-05-2023")[0] == at("2023-05-08")


PERIODS = {
    # Without a year it is the latest that has begun.
    "on the 8th of May": "2024-05-08 2024-05-09", "in july": "2023-07-01 2023-08-01",
    "29 February": "2024-02-29 2024-03-01", "last May": "2024-05-01 2024-06-01", "next May": "2025-05-01 2025-06-01",
    "winter": "2023-12-01 2024-03-01", "last summer": "2023-06-01 2023-09-01",
    "summer of 2022": "2022-06-01 2022-09-01", "in Q3": "2023-07-01 2023-10-01",
    "at Christmas": "2023-12-25 2023-12-26", "5月8日": "2024-05-08 2024-05-09",
    "New Year's Eve": "2023-12-31 2024-01-01", "the 1990s": "1990-01-01 2000-01-01",
    "2019-2021": "2019-01-01 2022-01-01", "3-9 May": "2024-05-03 2024-05-10",
    "May 3\u20139, 2023": "2023-05-03 2023-05-10", "from May to July 2023": "2023-05-01 2023-08-01",
    "between 20 December and 3 January": "2023-12-20 2024-01-04", "from May to July 8, 2023": "2023-05-01 2023-07-09",
    # From today.
    "today": "2024-06-19 2024-06-20", "last year": "2023-01-01 2024-01-01", "yesterday": "2024-06-18 2024-06-19",
    "last week": "2024-06-10 2024-06-17", "last weekend": "2024-06-15 2024-06-17", "next week": "2024-06-24 2024-07-01",
    "on Monday": "2024-06-17 2024-06-18", "last Wednesday": "2024-06-12 2024-06-13",
    "this Friday": "2024-06-21 2024-06-22", "three days ago": "2024-06-16 2024-06-17",
    "two hours ago": "2024-06-19T13:00 2024-06-19T14:00", "a few days ago": "2024-06-14 2024-06-18",
    "the last two weeks": "2024-06-05 2024-06-20", "two weekends ago": "2024-06-07 2024-06-10",
    "in the past few days": "2024-06-14 2024-06-20",
    # Around a date.
    "after 3 May 2023": "2023-05-04 2023-05-11", "before 3 May 2023": "2023-04-26 2023-05-03",
    "the week before 9 June 2023": "2023-06-02 2023-06-09", "before 2023": "2022-01-01 2023-01-01",
    "until May 2023": "2023-05-01 2023-06-01", "by 7 November, 2022": "2022-11-01 2022-11-08",
    "since 3 May": "2024-05-03 2024-06-19T15:30:00.000001", "the day after May 8, 2023": "2023-05-09 2023-05-10",
    "two weeks before August 11, 2023": "2023-07-25 2023-08-01", "the week of June 7": "2024-06-03 2024-06-10",
    "last weekend before April 10, 2023": "2023-04-08 2023-04-10", "the weekend of 1 June": "2024-06-01 2024-06-03",
    "the Friday before 9 June 2023": "2023-06-02 2023-06-03", "the day before yesterday": "2024-06-17 2024-06-18",
}  # fmt: skip


class TestPeriods:
    def test_time_expressions_resolve_to_expected_periods(self):
        for text, expected in PERIODS.items():
            assert period(text) == tuple(map(at, expected.split())), text

    def test_leap_day_without_year_skips_non_leap_century(self):
        assert period("29 February", at("2103-06-01"))[0] == at("2096-02-29")


class TestRelativeTimes:
    def test_month_ago_is_clamped_to_shorter_month(self):
        assert period("a month ago", at("2024-03-31")) == (at("2024-02-14"), at("2024-03-16"))

    def test_periods_after_the_year_2200_are_ignored(self):
        assert period("this year", at("2200-06-01")) == (at("2200-01-01"), at("2201-01-01"))
        assert not find_times("next year", at("2200-06-01"))
        assert not find_times("today", at("2201-01-01"))


def test_times_keep_text_order_and_source_words():
    text = "Was it yesterday, last Friday or between 3 May and 9 May 2023?"
    assert [span.words for span in find_times(text, NOW)] == [
        "yesterday",
        "last Friday",
        "between 3 May and 9 May 2023",
    ]


class TestOtherLanguages:
    """Names of months, seasons, weekdays and the days around today in other languages."""

    def test_foreign_day_and_month_names_are_parsed(self):
        for text, starts in {
            "gestern; vorgestern": "2024-06-18 2024-06-17", "am Montag, im März": "2024-06-17 2024-03-01",
            "am 8. Mai": "2024-05-08", "Was war vor drei Tagen?": "",
            "aujourd'hui, avant-hier": "2024-06-19 2024-06-17",
            "aujourd\u2019hui, en mars": "2024-06-19 2024-03-01", "Qu'est-ce que je t'ai dit hier ?": "",
            "la semaine dernière, en février, lundi": "2024-02-01 2024-06-17", "el 8 de mayo": "2024-05-08",
            "ayer, el viernes, en enero, en otoño": "2024-06-18 2024-06-14 2024-01-01 2023-09-01",
            "ieri, l'altro ieri, due giorni fa": "2024-06-18 2024-06-17", "fe\u0301vrier 2023": "2023-02-01",
            "ontem, em março, há três dias": "2024-06-18 2024-03-01", "我在2023年5月8日去了": "2023-05-08",
            "gisteren, 3 mei, vrijdag": "2024-06-18 2024-05-03 2024-06-14",
            "3月, 5月8日, 2022年": "2024-03-01 2024-05-08 2022-01-01",
            "\uff12\uff10\uff12\uff13年\uff15月\uff18日": "2023-05-08",
        }.items():  # fmt: skip
            assert [span.start for span in find_times(text, NOW)] == [at(day) for day in starts.split()], text

    def test_lowercase_may_is_a_month_beside_a_day(self):
        for text in ("8th of may", "may 8th", "on 8 may", "on may 8", "8th of may this year"):
            [found] = find_times(text, NOW)
            assert found == (at("2024-05-08"), at("2024-05-09"), text.removeprefix("on "))
        assert find_times("8 may come", NOW) == find_times("they may 8 times", NOW) == []


class TestNonDates:
    def test_texts_without_dates_yield_no_times(self):
        for text in [
            "may I", "May I ask you?", "march on", "March on!", "the second", "I can may be", "this may be",
            "it may last", "half a year ago", "Python 3.11.7", "version 2024.1.2", "v2023", "call +49 170 2023 555",
            "555-2023", "(555) 2023-1999", "192.168.20.23", "10.5.2023.1", "24/7", "8/5", "$2023", "2023€", "€ 2023",
            "2,023", "1999.99", "2023 dollars", "2000 messages", "2000 Nachrichten", "1950 steps", "room 2023", "#2023",
            "2023.txt", "foo_2023", "2023%", "sun", "sat down", "mon ami", "the sun sat", "a fall",
            "a spring in her step", "99999999999999999999", "12345", "0", "20:23", "1/2", "GPT-4 may help",
            "GPT-4 May help", "the top 10 may win", "Marco", "hier ist das", "What do April and June like?",
            "Is August nice to May?", "Guten Morgen", "j'ai été", "8 out of 10", "set 8 alarms", "to march on Rome",
            "😀", "", " ", "\0", "\ud800", "2023kg", "x2023", "recently", "lately", "9999 years ago",
            "the last day of school", "day by day", "years",
        ]:  # fmt: skip
            assert not find_times(text, NOW), text

    @given(
        st.lists(st.sampled_from(["yesterday", "in May 2023", "on 3 May", "last week", "2023-05-01"]) | st.text()),
        st.integers(-(2**63), 2**63) | st.just(NOW),
    )
    def test_find_times_never_raises(self, words, now):
        text = " ".join(words)
        for span in find_times(text, now):
            assert span.start < span.end
            assert span.words in unicodedata.normalize("NFKC", text)

    def test_repetitive_long_texts_parse_in_bounded_time(self):
        for part in [
            "a 1 ", "may 1 of the ", "1,1.1:1/1-1", "last ", "between 3 ", " ", "e\u0301", "- ", "1", "年", "of the ",
            "3 - ", "from May to ", "2023-05-08T", "the week before ", "\ufdfa",
        ]:  # fmt: skip
            assert find_times(part * 100_000, NOW) == find_times(part * 10_000, NOW), part

    def test_find_times_reads_at_most_max_chars(self):
        assert len(find_times("8 May 2023, " * 10_000, NOW)) <= MAX_CHARS // len("8 May 2023, ")
        assert not find_times("x" * 100_000 + " 8 May 2023", NOW)
        assert not find_times("x" * (MAX_CHARS - 5) + " 20230", NOW), "a number is not cut into a year"
