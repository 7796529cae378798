"""Dates in queries."""

from datetime import UTC, datetime, timedelta

import pytest

from langchain_agentmem.search.ranking import WEIGHTS


def day(year, month, number, hour=12):
    return datetime(year, month, number, hour, tzinfo=UTC)


def say(memory, said, namespace=("a",), name="c", role="user"):
    chat = memory.conversation(name, namespace)
    for at, text in said:
        chat.add({"role": role, "content": text, "created_at": at})


def texts(memory, query, **options):
    return [each.text for each in memory.search(query, **{"namespace": ("a",)} | options)]


class TestDatesInQueries:
    """The clock of these tests is in January 2026."""

    def test_month_is_resolved_from_the_latest_message(self, memory):
        trips = [(day(year, 5, 10), f"A trip to the sea, number {year}.") for year in (2021, 2022, 2023, 2024, 2025)]
        say(memory, [*trips[:3], (day(2023, 8, 1), "It rains.")])
        say(memory, [*trips, (day(2025, 12, 1), "It snows.")], ("b",))
        say(memory, [*trips[:2], (day(2022, 6, 1), "It is hot.")], ("c",))
        asked = "Which trip to the sea was in May?"
        for namespace, year in ((("a",), 2023), (("b",), 2025), (("c",), 2022)):
            found = memory.search(asked, namespace=namespace)
            assert found[0].text.endswith(f"{year}.")
            assert found[0].why.signals["date"] == pytest.approx(WEIGHTS.at_length(1)["date"])
        assert memory.search(asked, everything=True)[0].text.endswith("2025.")

    def test_future_messages_do_not_shift_the_month(self, memory):
        trips = [(day(year, 5, 10), f"A trip to the sea, number {year}.") for year in (2024, 2025, 2027)]
        say(memory, [*trips, (day(2027, 12, 1), "Beep.")])
        assert texts(memory, "Which trip to the sea was in May?")[0].endswith("2025.")

    def test_date_only_query_finds_messages_of_day(self, memory):
        chat = memory.conversation("c", ("a",))
        chat.add_messages(
            {"role": "user", "content": f"Note {n:03}.", "created_at": day(2025, 1, 1) + timedelta(days=n)}
            for n in range(200)
        )
        expected = f"Note {(day(2025, 5, 8) - day(2025, 1, 1)).days:03}."
        for asked in ("What was it on 8 May 2025?", "8 May 2025", "2025-05-08", "on the 8th of May"):
            assert texts(memory, asked)[0] == expected, asked
