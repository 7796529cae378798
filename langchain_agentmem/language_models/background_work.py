"""Work that models do in the background, ahead of need: at most once at a time for each conversation, in threads."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import TypeAlias

from langchain_agentmem.base import forks
from langchain_agentmem.errors import MemoryClosed
from langchain_agentmem.language_models.model_calls import Work, perform
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.job_queue import Job, Wanted

logger = logging.getLogger(__name__)
KIND = "compaction"
"""The kind of the jobs."""
AT_ONCE = 4
"""Compactions that are made at the same time."""


Place: TypeAlias = tuple[str, str]
"""A conversation or a branch: the path of its namespace, and its name."""


class Ahead:
    """Makes compactions in the background. One object serves any number of conversations and threads."""

    def __init__(self) -> None:
        self._news = forks.condition()  # guards what follows
        self.renew()
        forks.renewed(self)

    def renew(self) -> None:
        """Begin without threads, and with nothing to do."""
        self._begun: set[Place] = set()
        self._waiting: deque[tuple[Database, Place, str, Callable[[], Work[object]]]] = deque()
        self._threads = 0

    def begin(self, database: Database, at: Place, lane: str, make: Callable[[], Work[object]]) -> bool:
        """Have a compaction made, unless one of the conversation is being made. Never waits.

        Args:
            database: Where it is kept.
            at: The conversation.
            lane: Whose context it is.
            make: Gives the work.

        Returns:
            Whether it was begun.
        """
        with self._news:
            if at in self._begun:
                return False
            self._begun.add(at)
            self._waiting.append((database, at, lane, make))
            if self._threads < AT_ONCE:
                self._threads += 1
                threading.Thread(target=self._run, name="agentmem-ahead", daemon=True).start()
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing is being made, or until time is up.

        Args:
            timeout: Seconds. Default: for ever.

        Returns:
            Whether nothing is being made.
        """
        with self._news:
            return self._news.wait_for(lambda: not self._begun, timeout)

    def _run(self) -> None:
        while True:
            with self._news:
                if not self._waiting:
                    self._threads -= 1
                    return
                database, at, lane, make = self._waiting.popleft()
            try:
                database.worker.attempt(_wanted(at, lane), partial(_made, database, make))
            except MemoryClosed:
                pass
            except Exception:  # the turn that needs it will compact itself
                logger.warning("A context could not be compacted ahead of need.", exc_info=True)
            finally:
                with self._news:
                    self._begun.discard(at)
                    self._news.notify_all()


def _made(database: Database, make: Callable[[], Work[object]], job: Job) -> None:
    del job
    # In a context of its own: the run of the turn that began it may be over, and is no parent for what is done here.
    contextvars.Context().run(perform, make(), database)


def _wanted(at: Place, lane: str) -> Wanted:
    path, name = at
    # Not the name itself: it may be of a person, and who erases a conversation does not look among the jobs.
    mark = blake2b(f"{lane}\x1f{name}".encode("utf-8", "surrogatepass"), digest_size=20)
    return Wanted(path, KIND, mark.hexdigest())
