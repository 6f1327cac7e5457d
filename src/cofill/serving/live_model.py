"""The live model: synchronised with the database before every answer, and replaced without downtime."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from cofill.errors import ModelFileError
from cofill.serving.database import Store
from cofill.serving.disk import Disk, is_disk_full
from cofill.serving.problems import busy
from cofill.serving.served_model import ServedModel, read_card

log = logging.getLogger("cofill.serving")

_SECONDS_BETWEEN_LOOKS = 1.0


class LiveModel:
    """The served model, which many threads use one at a time."""

    def __init__(self, folder: Path, store: Store, seconds: float) -> None:
        """`seconds`: how long a request may wait for the lock."""
        self._folder = folder
        self._store = store
        self.seconds = seconds
        self.draining = False
        """Whether the server is about to stop, and wants no new requests."""
        self._turns = Turns()
        self._reloading = threading.Lock()
        self._stopping = threading.Event()
        self._follower = threading.Thread(target=self._follow, name="follower", daemon=True)
        self._looked: Callable[[LiveModel, int], None] = lambda live, lag: None
        self._generation = store.counter().generation
        self._served = self._fresh()

    def start(self, looked: "Callable[[LiveModel, int], None]") -> None:
        """Start polling for changes by other processes between requests; `looked` is called with their number."""
        self._looked = looked
        try:
            self._store.next_generation()  # others may still serve what was in the folder before
        except SQLAlchemyError as error:
            if not is_disk_full(error):  # which is no reason to answer nobody
                raise
        self._follower.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._follower.is_alive():
            self._follower.join(5)

    @contextmanager
    def asked(self) -> Iterator[ServedModel]:
        """The model, with every change applied that any process acknowledged before this call."""
        with self._turn(self.seconds):
            self._catch_up()
            yield self._served

    @property
    def served(self) -> ServedModel:
        """The model without synchronising it: for what does not change, and for metrics."""
        return self._served

    @property
    def disk(self) -> Disk:
        """The one that the database is on."""
        return self._store.disk

    def lag(self) -> int:
        """The number of changes in the database that this process has not applied yet."""
        return max(0, self._store.counter().change - self._served.applied)

    def reload(self) -> ServedModel:
        """Reload the model here and then in every other process; a broken model changes nothing."""
        with self._reloading:
            fresh = self._fresh()  # while the old one answers
            self._store.next_generation()
            self._swap(fresh)
        return fresh

    def _catch_up(self) -> None:
        counter, served = self._store.counter(), self._served
        if counter.change != served.applied:
            served.apply(self._store.changes_since(served.applied))
            served.applied = counter.change

    @contextmanager
    def _turn(self, seconds: float) -> Iterator[None]:
        if not self._turns.acquire(seconds):
            raise busy()
        try:
            yield
        finally:
            self._turns.release()

    def _swap(self, fresh: ServedModel) -> None:
        with self._turn(threading.TIMEOUT_MAX):
            self._served = fresh
        log.info("serving %s, version %s", self._folder, fresh.card.version)

    def _fresh(self) -> ServedModel:
        """The model in the folder, with all live changes in the database applied."""
        fresh = ServedModel(self._folder)
        change = self._store.counter().change
        fresh.apply(self._store.changes_since(0))
        fresh.applied = change
        return fresh

    def _follow(self) -> None:
        """Poll once a second for changes by other processes, and for a replaced model."""
        failing = False
        while not self._stopping.wait(_SECONDS_BETWEEN_LOOKS):
            try:
                self._store.disk.look(self._store.touch)
                self._looked(self, self.lag())
                with self._turn(threading.TIMEOUT_MAX):
                    self._catch_up()
                self._reload_with_others()
                failing = False
            except Exception as error:  # whatever it is, it may pass
                if not failing:
                    reason = str(error).partition("\n")[0] or type(error).__name__
                    log.error("cannot follow the other processes: %s", reason)
                failing = True

    def _reload_with_others(self) -> None:
        generation = self._store.counter().generation
        if generation == self._generation:
            return
        with self._reloading:
            try:
                if read_card(self._folder) != self._served.card:
                    started = time.monotonic()
                    self._swap(self._fresh())
                    log.info("followed another process in %.1f seconds", time.monotonic() - started)
            except ModelFileError:
                self._generation = generation  # a broken one is not tried every second
                raise
            self._generation = generation


class Turns:
    """A fair (first in, first out) lock: `release` hands it to the thread that waited longest.

    `threading.Lock` goes to whoever is quickest, which is a thread that has just given it back: while two clients sent
    batches, a quick question waited for up to 0.7 seconds.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self, timeout: float) -> bool:
        """Acquire the lock; False if that took longer than so many seconds."""
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
        """Stop waiting; False if the lock was handed over at the last moment."""
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
