"""Helper operations on a table of numbers and on a conversation, and a counter of round trips."""

import threading
from functools import partial

import psycopg
import psycopg_pool
from langchain_core.messages import HumanMessage

from langchain_agentmem.base.concurrency import run_in_worker
from langchain_agentmem.base.namespaces import ThreadKey
from langchain_agentmem.conversations import message_log
from langchain_agentmem.storage.postgres_session import Session

KILL = (
    "select pg_terminate_backend(pid) from pg_stat_activity "
    "where datname = current_database() and pid <> pg_backend_pid()"
)
THREAD = ThreadKey("", "c")


def adding(*numbers):
    def steps(tx):
        for number in numbers:
            tx.run("add", {"n": number})

    return steps


def numbers(engine):
    def steps(tx):
        return [row["n"] for row in tx.run("all", {})]

    return engine.read(steps)


def echo(tx, given):
    return list(tx.run("echo", given))


def kill_all(engine):
    with psycopg.connect(engine._url, autocommit=True) as connection:
        connection.execute(KILL)


class TripCounter:
    """Counts how often a session waits for the server."""

    def __init__(self, monkeypatch):
        self.count = 0
        wait = Session._wait

        def counting(session, answer):
            self.count += 1
            return wait(session, answer)

        monkeypatch.setattr(Session, "_wait", counting)


def pool_of(url, size):
    kept = {"prepare_threshold": None}  # as its owner has to say to psycopg behind a pooler
    return psycopg_pool.ConnectionPool(url, min_size=1, max_size=size, open=True, kwargs=kept)


def add_texts(memory, *said, conversation="c"):
    memory.conversation(conversation).add_messages([HumanMessage(text) for text in said])


def texts_of(memory, conversation="c"):
    return [message.text for message in memory.conversation(conversation).messages]


def entry(key, body=b'{"content":"x","role":"user"}', **more):
    return message_log.LogEntry(key, body, "x", created_at=1, role="user", **more)


def appending(*entries, at=THREAD):
    return lambda tx: message_log.append(tx, at, list(entries), now=1)


def keys(engine, at=THREAD):
    return [row.key for row in engine.read(lambda tx: message_log.messages(tx, at))]


async def awrite(engine, operation):
    return await run_in_worker(partial(engine.write, operation), writes=True)


class HeldOperation:
    """An operation that takes its steps, and then waits in its transaction until it is told to go on."""

    def __init__(self, steps):
        self.steps = steps
        self.inside, self.go_on = threading.Event(), threading.Event()
        self.ended = False

    def __call__(self, tx):
        self.steps(tx)
        self.inside.set()
        assert self.go_on.wait(120)
        self.ended = True
