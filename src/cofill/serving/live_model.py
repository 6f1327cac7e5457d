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
from cofill.serving.database import Counter, Store
from cofill.serving.disk import Disk, is_disk_full
from cofill.serving.kept_models import KeptModels
from cofill.serving.problems import ProblemError, busy
from cofill.serving.served_model import ServedModel, read_card
from cofill.serving.split import Choice, Split

log = logging.getLogger("cofill.serving")

_SECONDS_BETWEEN_LOOKS = 1.0
_LONGEST_WAIT = 60.0  # seconds, until a model that could not be read is tried again
_IDLE = 2.0  # times as long as it worked, the follower rests


class Variant:
    """One of the models that are served at once; of one alone, that one."""

    def __init__(self, choice: Choice) -> None:
        self.name, self.folder, self.share = choice
        self.kept = KeptModels(self.folder)
        self.served: ServedModel

    def note(self) -> None:
        """Keep the model that is served now, so that one can go back to it after the next."""
        self.kept.keep(self.served.card.version)


Looked = Callable[["LiveModel", int], None]
Answered = Callable[[str, float], None]


class LiveModel:
    """The served model, or several of them, which many threads use one at a time."""

    def __init__(self, folder: Path, store: Store, seconds: float, split: Split | None = None) -> None:
        """`seconds`: how long a request may wait for the lock. `split`: of several models, which answers whom."""
        self._split = split or Split([Choice(folder.name, folder, 1.0)])
        self._store = store
        self.seconds = seconds
        self.draining = False
        """Whether the server is about to stop, and wants no new requests."""
        self._turns = Turns()
        self._reloading = threading.Lock()
        self._stopping = threading.Event()
        self._follower = threading.Thread(target=self._follow, name="follower", daemon=True)
        self._looked: Looked = lambda live, lag: None
        self._answered: Answered = lambda name, seconds: None
        self._generation = store.counter().generation
        self._read_at, self._wait = 0.0, 0.0
        self.variants = [Variant(choice) for choice in self._split.choices]
        for variant in self.variants:
            variant.served = self._fresh(variant)

    def start(self, looked: Looked, answered: Answered | None = None) -> None:
        """Start polling for changes by other processes between requests; `looked` is called with their number.

        `answered` is called with the name of a model and the seconds that an answer of it for somebody took.
        """
        self._looked = looked
        self._answered = answered or self._answered
        for variant in self.variants:
            variant.note()
        try:
            self._store.next_generation()  # others may still serve what was in the folder before
            self._looked(self, 0)
        except SQLAlchemyError as error:
            if not is_disk_full(error):  # which is no reason to answer nobody
                raise
        self._follower.start()

    def stop(self) -> None:
        self._stopping.set()
        self._store.written.set()
        if self._follower.is_alive():
            self._follower.join(5)

    @contextmanager
    def asked(self, model: str | None = None) -> Iterator[ServedModel]:
        """The model, with every change applied that any process acknowledged before this call.

        Of several, the one of that name, or else the first.
        """
        variant = self.variants[0 if model is None else self._split.named(model)]
        with self._turn(self.seconds):
            self._catch_up(variant)
            yield variant.served

    @contextmanager
    def asked_for(self, who: object, model: str | None = None) -> Iterator[ServedModel]:
        """The same, but of several models the one that this person gets, None being nobody known."""
        started = time.perf_counter()
        variant = self.variants[self._split.chosen(who, model)]
        with self._turn(self.seconds):
            self._catch_up(variant)
            yield variant.served
        self._answered(variant.name, time.perf_counter() - started)

    @property
    def served(self) -> ServedModel:
        """The first model without synchronising it: for what does not change, and for metrics."""
        return self.variants[0].served

    @property
    def disk(self) -> Disk:
        """The one that the database is on."""
        return self._store.disk

    def lag(self) -> int:
        """The number of changes in the database that this process has not applied yet."""
        change = self._store.counter().change
        return max(0, *(change - variant.served.applied for variant in self.variants))

    def reload(self, model: str | None = None) -> ServedModel:
        """Reload the models, or that one, here and then in every other process; a broken one changes nothing."""
        chosen = self.variants if model is None else [self.variants[self._split.named(model)]]
        with self._reloading:
            fresh = [self._fresh(variant) for variant in chosen]  # while the old ones answer
            self._store.next_generation()
            for variant, served in zip(chosen, fresh, strict=True):
                self._swap(variant, served)
        return fresh[0]

    def roll_back(self, model: str | None = None) -> ServedModel:
        """Serve the model that was served before, here and in every other process; its folder has it again."""
        if model is None and len(self.variants) > 1:
            names = " or ".join(variant.name for variant in self.variants)
            raise ProblemError(422, f"model: say which one goes back to the model before: {names}")
        variant = self.variants[0 if model is None else self._split.named(model)]
        with self._reloading:
            current = variant.served.card.version
            if read_card(variant.folder).version != current:
                raise ProblemError(
                    409, f"{variant.name}: has a model that is not served yet, which would be lost; reload first"
                )
            version = variant.kept.before(current)
            if version is None:
                raise ProblemError(409, "there is no model before this one; a server keeps it once it has reloaded")
            fresh = self._fresh(variant, variant.kept.path(version))
            variant.kept.put_back(version)
            self._store.next_generation()
            self._swap(variant, fresh)
        return fresh

    def _catch_up(self, variant: Variant) -> bool:
        """Apply what is new; whether anything was."""
        counter, served = self._store.counter(), variant.served
        if (counter.change, counter.database) == (served.applied, served.database):
            return False
        if counter.database != served.database or counter.change < served.applied:
            if counter.database == served.database:
                self._renew(counter, served.applied)
            kept = variant.kept.path(served.card.version)  # the folder may have a model that is not served yet
            variant.served = self._fresh(variant, kept if kept.is_dir() else None)
            return True
        served.apply(self._store.changes_since(served.applied, served.learned))
        served.applied = counter.change
        return True

    @contextmanager
    def _turn(self, seconds: float) -> Iterator[None]:
        if not self._turns.acquire(seconds):
            raise busy()
        try:
            yield
        finally:
            self._turns.release()

    def _swap(self, variant: Variant, fresh: ServedModel) -> None:
        with self._turn(threading.TIMEOUT_MAX):
            variant.served = fresh
        self._looked(self, 0)
        log.info("serving %s, version %s", variant.folder, fresh.card.version)
        variant.note()

    def _fresh(self, variant: Variant, folder: Path | None = None) -> ServedModel:
        """The model in its folder, or in another, with all live changes in the database applied."""
        fresh = ServedModel(folder or variant.folder, variant.name)
        counter = self._store.counter()
        fresh.learned = fresh.learned_of(counter.database)
        if fresh.learned > counter.change:
            self._renew(counter, fresh.learned)
            counter, fresh.learned = self._store.counter(), 0
        fresh.apply(self._store.changes_since(0, fresh.learned))
        fresh.applied, fresh.database = counter.change, counter.database
        return fresh

    def _renew(self, counter: Counter, known: int) -> None:
        """Tell all processes that the database went back, by a restored backup or a replica that lagged behind."""
        log.error("the database went back from change %d to %d; all of it is read again", known, counter.change)
        try:
            self._store.renew(counter.database)
        except SQLAlchemyError as error:  # a replica may take no writes yet
            log.error("the other processes cannot be told: %s", str(error).partition("\n")[0])

    def _follow(self) -> None:
        """Take in what this process has written, at once; once a second look for what others have, and for a model.

        Whoever asks takes in what is new too. But most questions come later than that, and then it is done already.
        """
        failing = False
        due = time.monotonic() + _SECONDS_BETWEEN_LOOKS
        while not self._stopping.is_set():
            self._store.written.wait(max(0.0, due - time.monotonic()))
            self._store.written.clear()
            if self._stopping.is_set():
                return
            began = time.monotonic()
            try:
                if began >= due:
                    due = began + _SECONDS_BETWEEN_LOOKS
                    self._store.disk.look(self._store.touch)
                    lag = self.lag()
                    self._take_in()
                    self._reload_with_others()
                    self._looked(self, lag)
                    self._store.empty_log()
                else:
                    self._take_in()
                failing = False
            except Exception as error:  # whatever it is, it may pass
                if not failing:
                    reason = str(error).partition("\n")[0] or type(error).__name__
                    log.error("cannot follow the other processes: %s", reason)
                failing = True
            self._stopping.wait(_IDLE * (time.monotonic() - began))  # however much is written, questions come first

    def _take_in(self) -> None:
        for variant in self.variants:
            with self._turn(threading.TIMEOUT_MAX):
                changed = self._catch_up(variant)
            if changed:
                with self._turn(threading.TIMEOUT_MAX):
                    variant.served.settle()

    def _reload_with_others(self) -> None:
        generation = self._store.counter().generation
        if generation == self._generation or time.monotonic() < self._read_at:
            return
        with self._reloading:
            try:
                for variant in self.variants:
                    if read_card(variant.folder) != variant.served.card:
                        started = time.monotonic()
                        self._swap(variant, self._fresh(variant))
                        log.info("followed another process in %.1f seconds", time.monotonic() - started)
            except ModelFileError:  # it may be half-written
                self._wait = min(2 * self._wait or _SECONDS_BETWEEN_LOOKS, _LONGEST_WAIT)
                self._read_at = time.monotonic() + self._wait
                raise
            self._generation, self._wait = generation, 0.0


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
