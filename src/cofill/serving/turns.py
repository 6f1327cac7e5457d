"""A lock that is had in the order in which it was asked for.

`threading.Lock` goes to whoever is quickest, which is a thread that has just given it back: while two clients sent
batches, a quick question waited for up to 0.7 seconds.
"""

import threading
from collections import deque


class Turns:
    """Give it back in the end: `release` hands it to whoever has waited for the longest."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self, timeout: float) -> bool:
        """False if it was not had within so many seconds."""
        with self._guard:
            if not self._taken:
                self._taken = True
                return True
            own = threading.Lock()
            own.acquire()
            self._waiting.append(own)
        try:
            if own.acquire(timeout=min(timeout, threading.TIMEOUT_MAX)):
                return True
        except BaseException:
            if not self._left(own):
                self.release()
            raise
        return not self._left(own)

    def _left(self, own: threading.Lock) -> bool:
        """Wait no longer; False if it was handed over in the last moment."""
        with self._guard:
            if own in self._waiting:
                self._waiting.remove(own)
                return True
        return False

    def release(self) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()  # it stays taken
            else:
                self._taken = False
