"""Compactions of graphs are made ahead of need, so that no turn waits for a model that summarizes.

When a context has come near its threshold, it is compacted in a thread, to a little less than usual: what is said until
the threshold is passed must fit too. What comes of it is kept in the database and not used yet; the turn that passes
the threshold finds it there. Where it is not ready by then, that turn compacts itself, as it would without this.

The right to do it is a job, one for each conversation, so that several processes ask the model once. A model that fails
leaves nothing behind; a later turn has it tried again.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from hashlib import blake2b

from langchain_agentmem.base import forks
from langchain_agentmem.compaction.situation import Size
from langchain_agentmem.conversations.message_log import Address
from langchain_agentmem.errors import MemoryClosed
from langchain_agentmem.language_models.model_calls import Work, perform
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.job_queue import Job, Wanted

logger = logging.getLogger(__name__)

KIND = "compaction"
"""The kind of the jobs."""
EARLY = 0.8
"""At which share of the threshold a context is compacted ahead."""
AT_ONCE = 4
"""Compactions that are made at the same time."""
LEAST_SHARE = 0.3
"""How much of the target a compaction that is made ahead may use at least."""


class Ahead:
    """Makes compactions in the background. One object serves any number of conversations and threads."""

    def __init__(self) -> None:
        self._news = forks.condition()  # guards what follows
        self.renew()
        forks.renewed(self)

    def renew(self) -> None:
        """Begin without threads, and with nothing to do."""
        self._begun: set[Address] = set()
        self._waiting: deque[tuple[Database, Address, str, Callable[[], Work[object]]]] = deque()
        self._threads = 0

    def begin(self, database: Database, at: Address, lane: str, make: Callable[[], Work[object]]) -> bool:
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


def early(limit: Size) -> Size:
    """The size from which on a context is compacted ahead, by the size beyond which it must be."""
    return Size(
        tokens=None if limit.tokens is None else int(limit.tokens * EARLY),
        messages=None if limit.messages is None else int(limit.messages * EARLY),
        rounds=None if limit.rounds is None else int(limit.rounds * EARLY),
    )


def usable_share(limit: Size, target: Size) -> float:
    """Which share of the target may be used, so that there is room for what is said until the threshold is passed."""
    if limit.tokens is None or target.tokens is None:
        return 1.0
    return max(LEAST_SHARE, 1 - limit.tokens * (1 - EARLY) / target.tokens)


def _made(database: Database, make: Callable[[], Work[object]], job: Job) -> None:
    del job
    # In a context of its own: the run of the turn that began it may be over, and is no parent for what is done here.
    contextvars.Context().run(perform, make(), database)


def _wanted(at: Address, lane: str) -> Wanted:
    # Not the name itself: it may be of a person, and who erases a conversation does not look among the jobs.
    mark = blake2b(f"{lane}\x1f{at.name}".encode("utf-8", "surrogatepass"), digest_size=20)
    return Wanted(at.path, KIND, mark.hexdigest())
