"""The live model: synchronised with the database before every answer, and replaced without downtime.

One thread asks it, so that questions are answered first come, first served, and each process needs memory for one.
Several models may be served at once. A person always gets the same one, in every process: it goes by a hash of the id.
If the shares change, only as many people change models as have to. Without an id the model is drawn at random.
"""

import asyncio
import logging
import random
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.exc import TimeoutError as DatabaseTimeoutError

from cofill.errors import CofillError, DataError, ModelFileError
from cofill.serving.live.kept import KeptModels
from cofill.serving.live.served import ServedModel, read_card
from cofill.serving.live.store import Counter, Store, is_disk_full
from cofill.serving.settings import ServingSettings

log = logging.getLogger("cofill.serving")

_SECONDS_BETWEEN_LOOKS = 1.0
_LONGEST_WAIT = 60.0  # seconds, until a model that could not be read is tried again
_SECONDS_FOR_A_LOOK = 5.0  # into the database; one that is stopped says nothing, and no time-out of its own ends that
_SECONDS_FOR_CHANGES = 20.0
_IDLE = 2.0  # times as long as it worked, the follower rests

_Answer = TypeVar("_Answer")
Looked = Callable[["LiveModel", int], None]
Answered = Callable[[str, float], None]


class NoModelBeforeError(CofillError):
    """There is no model to go back to."""


def chosen(who: object, shares: Sequence[float]) -> int:
    """Which of several models a person gets, by the shares that they have; None is nobody known."""
    ends = list(accumulate(shares))[:-1]
    if who is None:
        return bisect_right(ends, random.random())  # no secret
    digest = blake2b(str(who).encode("utf-8", "surrogatepass"), digest_size=8, person=b"cofill-split").digest()
    return bisect_right(ends, int.from_bytes(digest, "big") / 2**64)


class Variant:
    """One of the models that are served at once; of one alone, that one."""

    def __init__(self, name: str, folder: Path, share: float) -> None:
        self.name, self.folder, self.share = name, folder, share
        self.kept = KeptModels(folder)
        self.served: ServedModel

    def note(self) -> None:
        """Keep the model that is served now, so that one can go back to it after the next."""
        self.kept.keep(self.served.card.version)


class LiveModel:
    """The served model, or several of them."""

    def __init__(self, settings: ServingSettings, store: Store) -> None:
        self.store = store
        self.draining = False
        """Whether the server is about to stop, and wants no new requests."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._looking = ThreadPoolExecutor(1, thread_name_prefix="database-look")
        self._reloading = threading.Lock()
        self._stopping = threading.Event()
        self._follower = threading.Thread(target=self._follow, name="follower", daemon=True)
        self._looked: Looked = lambda live, lag: None
        self._answered: Answered = lambda name, seconds: None
        self._generation = store.counter().generation
        self._read_at, self._wait = 0.0, 0.0
        self._stale_seconds = settings.stale_seconds
        self._seen, self._away = time.monotonic(), False  # the database, and whether it did not answer since
        self.variants = [Variant(name, folder, settings.shares[name]) for name, folder in settings.models.items()]
        for variant in self.variants:
            variant.served = self._fresh(variant)

    def start(self, looked: Looked, answered: Answered | None = None) -> None:
        """Start polling for changes by other processes between requests; `looked` is called with their number.

        `answered` is called with the name of a model and the seconds that an answer of it for a person took.
        """
        self._looked = looked
        self._answered = answered or self._answered
        for variant in self.variants:
            variant.note()
        try:
            self.store.next_generation()  # others may still serve what was in the folder before
            self._looked(self, 0)
        except SQLAlchemyError as error:
            if not is_disk_full(error):  # which is no reason to answer nobody
                raise
        self._follower.start()

    def stop(self) -> None:
        self._stopping.set()
        self.store.written.set()
        if self._follower.is_alive():
            self._follower.join(5)
        for executor in (self._thread, self._looking):
            executor.shutdown(wait=False, cancel_futures=True)

    # Asking

    async def ask(self, question: Callable[[ServedModel], _Answer], model: str | None = None) -> _Answer:
        """What the model answers, with every change applied that any process acknowledged before this call.

        Of several, the one of that name, or else the first. A question that is cancelled in time is not asked. While
        the database is away, an answer with a model's version says that it is `stale`.
        """
        variant = self._named(model)
        return await asyncio.wrap_future(self._thread.submit(self._asked, variant, question))

    async def ask_for(
        self, who: object, question: Callable[[ServedModel], _Answer], model: str | None = None
    ) -> _Answer:
        """The same, but of several models the one that this person gets, None being nobody known."""
        started = time.perf_counter()
        named = None if model is None else self._named(model)

        def asked() -> tuple[_Answer, str]:
            variant = self._of_person(who) if named is None else named
            return self._asked(variant, question), variant.name

        answer, name = await asyncio.wrap_future(self._thread.submit(asked))
        self._answered(name, time.perf_counter() - started)
        return answer

    def _of_person(self, who: object) -> Variant:
        """The variant of a person; of one who became another, that of the other."""
        if len(self.variants) > 1 and isinstance(who, int | str):
            self._up_to_date(self.variants[0])
            who = self.served.person(who)
        return self.variants[chosen(who, [variant.share for variant in self.variants])]

    def _up_to_date(self, variant: Variant) -> None:
        if not self.stale:  # else the follower looks whether it is back, so that no question waits for that
            try:
                self._catch_up(variant)
            except SQLAlchemyError:
                self._note_away()
                if not self.stale:
                    raise

    def _asked(self, variant: Variant, question: Callable[[ServedModel], _Answer]) -> _Answer:
        self._up_to_date(variant)
        answer = question(variant.served)
        if self.stale and isinstance(answer, dict) and "model_version" in answer:
            answer["stale"] = True
        return answer

    @property
    def stale(self) -> bool:
        """Whether questions are answered without the database, which does not answer, and did a while ago."""
        return self._away and time.monotonic() - self._seen < self._stale_seconds

    def _note_away(self) -> None:
        self._away = self.store.away = True

    def _looked_up(self, look: Callable[[], _Answer], seconds: float = _SECONDS_FOR_A_LOOK) -> _Answer:
        """What is found in the database; an error if it does not answer in time."""
        try:
            return self._looking.submit(look).result(seconds)
        except TimeoutError:
            raise DatabaseTimeoutError(f"no answer of the database within {seconds:g} seconds") from None

    def _in_turn(self, work: Callable[[], _Answer]) -> _Answer:
        """Work that waits for its turn like questions; not for their own thread."""
        return self._thread.submit(work).result()

    def _named(self, model: str | None) -> Variant:
        if model is None:
            return self.variants[0]
        for variant in self.variants:
            if variant.name == model:
                return variant
        known = ", ".join(variant.name for variant in self.variants)
        raise DataError(f"model: there is no model {model!r} here; there is {known}")

    @property
    def served(self) -> ServedModel:
        """The first model without synchronising it: for what does not change, and for metrics."""
        return self.variants[0].served

    def lag(self) -> int:
        """The number of changes in the database that this process has not applied yet."""
        try:
            change = self._looked_up(self.store.counter).change
        except SQLAlchemyError:
            self._note_away()
            raise
        return max(0, *(change - variant.served.applied for variant in self.variants))

    # Replacing

    def reload(self, model: str | None = None) -> ServedModel:
        """Reload the models, or that one, here and then in every other process; a broken one changes nothing."""
        chosen = self.variants if model is None else [self._named(model)]
        with self._reloading:
            fresh = [self._fresh(variant) for variant in chosen]  # while the old ones answer
            self.store.next_generation()
            for variant, served in zip(chosen, fresh, strict=True):
                self._swap(variant, served)
        return fresh[0]

    def roll_back(self, model: str | None = None) -> ServedModel:
        """Serve the model that was served before, here and in every other process; its folder has it again."""
        if model is None and len(self.variants) > 1:
            names = " or ".join(variant.name for variant in self.variants)
            raise DataError(f"model: say which one goes back to the model before: {names}")
        variant = self._named(model)
        with self._reloading:
            current = variant.served.card.version
            if read_card(variant.folder).version != current:
                raise NoModelBeforeError(
                    f"{variant.name}: has a model that is not served yet, which would be lost; reload first"
                )
            version = variant.kept.before(current)
            if version is None:
                raise NoModelBeforeError("there is no model before this one; a server keeps it once it has reloaded")
            fresh = self._fresh(variant, variant.kept.path(version))
            variant.kept.put_back(version)
            self.store.next_generation()
            self._swap(variant, fresh)
        return fresh

    def _swap(self, variant: Variant, fresh: ServedModel) -> None:
        self._in_turn(lambda: setattr(variant, "served", fresh))
        self._looked(self, 0)
        log.info("serving %s, version %s", variant.folder, fresh.card.version)
        variant.note()

    def _fresh(self, variant: Variant, folder: Path | None = None) -> ServedModel:
        """The model in its folder, or in another, with all live changes in the database applied."""
        fresh = ServedModel(folder or variant.folder, variant.name)
        counter = self.store.counter()
        fresh.learned = fresh.learned_of(counter.database)
        if fresh.learned > counter.change:
            self._renew(counter, fresh.learned)
            counter, fresh.learned = self.store.counter(), 0
        fresh.apply(self.store.changes_since(0, fresh.learned))
        fresh.applied, fresh.database = counter.change, counter.database
        return fresh

    # Following

    def _catch_up(self, variant: Variant) -> bool:
        """Apply what is new; whether anything was."""
        counter, served = self._looked_up(self.store.counter), variant.served
        new = (counter.change, counter.database) != (served.applied, served.database)
        if new:
            self._apply(variant, counter)
        self._seen, self._away, self.store.away = time.monotonic(), False, False
        return new

    def _apply(self, variant: Variant, counter: Counter) -> None:
        served = variant.served
        if counter.database != served.database or counter.change < served.applied:
            if counter.database == served.database:
                self._renew(counter, served.applied)
            kept = variant.kept.path(served.card.version)  # the folder may have a model that is not served yet
            variant.served = self._fresh(variant, kept if kept.is_dir() else None)
            return
        changes = partial(self.store.changes_since, served.applied, served.learned)
        served.apply(self._looked_up(changes, _SECONDS_FOR_CHANGES))
        served.applied = counter.change

    def _renew(self, counter: Counter, known: int) -> None:
        """Tell all processes that the database went back, by a restored backup or a replica that lagged behind."""
        log.error("the database went back from change %d to %d; all of it is read again", known, counter.change)
        try:
            self.store.renew(counter.database)
        except SQLAlchemyError as error:  # a replica may take no writes yet
            log.error("the other processes cannot be told: %s", str(error).partition("\n")[0])

    def _follow(self) -> None:
        """Take in what this process has written, at once; once a second look for what others have, and for a model.

        Whoever asks takes in what is new too. But most questions come later than that, and then it is done already.
        """
        failing = False
        due = time.monotonic() + _SECONDS_BETWEEN_LOOKS
        while not self._stopping.is_set():
            self.store.written.wait(max(0.0, due - time.monotonic()))
            self.store.written.clear()
            if self._stopping.is_set():
                return
            began = time.monotonic()
            try:
                if began >= due:
                    due = began + _SECONDS_BETWEEN_LOOKS
                    lag = self.lag()
                    self._take_in()
                    self._reload_with_others()
                    self._looked(self, lag)
                    self.store.empty_log()
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
            if self._in_turn(partial(self._catch_up, variant)):
                self._in_turn(variant.served.settle)

    def _reload_with_others(self) -> None:
        generation = self.store.counter().generation
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
