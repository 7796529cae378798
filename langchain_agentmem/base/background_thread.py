"""A thread that looks after something as long as there is something to do, and is told when there may be more.

Whoever tells it never waits. What fails is tried again after a pause that grows; the thread ends when there is nothing
to do, and another begins with the next word.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from langchain_agentmem.base import forks

RETRIES = 8
"""How often what fails is tried again before the next word comes."""


class Looked(NamedTuple):
    """What a look came to.

    Attributes:
        again_in: The seconds after which another look makes sense; None if all is done.
        failed: Whether something failed.
        over: Whether there is nothing to be looked after any more.
    """

    again_in: float | None = None
    failed: bool = False
    over: bool = False


class Attendant:
    """Looks after something.

    Args:
        look: Looks, and does what there is to do.
        name: The name of the thread.
    """

    def __init__(self, look: Callable[[], Looked], name: str) -> None:
        self._look = look
        self._name = name
        self._news = forks.condition()  # guards what follows
        self._started = False
        self.renew()
        forks.renewed(self)

    def renew(self) -> None:
        """Begin without a thread."""
        self._changed = False
        self._thread: threading.Thread | None = None

    def start(self) -> bool:
        """Look from now on, when there is word. Returns whether it did not yet."""
        with self._news:
            begun, self._started = not self._started, True
            return begun

    def stop(self) -> None:
        """Look no more. Nothing is waited for."""
        with self._news:
            self._started = False
            self._news.notify_all()

    def notify(self) -> None:
        """There may be something to do. Does nothing unless started; never waits."""
        with self._news:
            if not self._started:
                return
            self._changed = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._news.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until there is nothing to do, or until time is up.

        Args:
            timeout: Seconds. Default: for ever.

        Returns:
            Whether there is nothing to do.
        """
        with self._news:
            return self._news.wait_for(lambda: self._thread is None, timeout)

    def _run(self) -> None:
        failures = 0
        while True:
            with self._news:
                if not (self._started and self._changed):
                    self._thread = None
                    self._news.notify_all()
                    return
                self._changed = False
            looked = self._look()
            if looked.over:
                self.stop()
            failures = failures + 1 if looked.failed else 0
            with self._news:
                if self._changed:
                    failures = 0
                elif looked.again_in is not None and failures <= RETRIES:
                    self._news.wait_for(lambda: self._changed or not self._started, looked.again_in)
                    self._changed = True
