"""How long the parts of batches take, as measured in this process: what cannot be done in time is refused at once.

Each answer adds to a running mean of the seconds that a part of its kind takes: a list, an explained item, a predicted
rating, an interval, the wait for a turn. Before a batch is begun, its parts are added up.
"""

import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple, TypeVar

from cofill.serving.problem_types import ProblemType
from cofill.serving.problems import ProblemError

WAIT = "wait"
"""The kind of a part that is the wait for a turn."""
_NEWEST = 0.1  # what the last measurement counts for, once there are many
_FEWEST = 3  # measurements that tell something
_STALE = 60.0  # seconds after which a measurement tells nothing: the machine may have less to do by now
_SAFE = 0.8  # of the time that is left, which a batch may be expected to take


_Served = TypeVar("_Served")


class _Mean(NamedTuple):
    seconds: float
    number: int
    when: float


class Pace:
    """Running means of seconds, which many threads add to."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._means: dict[Hashable, _Mean] = {}
        self._lock = threading.Lock()

    @contextmanager
    def measured(self, kind: Hashable, parts: int = 1) -> Iterator[None]:
        """Add how long the block took, which did so many parts."""
        started = self._clock()
        yield
        self.note(kind, (self._clock() - started) / max(parts, 1))

    def note(self, kind: Hashable, seconds: float) -> None:
        """Add what one part took."""
        with self._lock:
            mean = self._known(kind)
            count = mean.number + 1
            newest = max(1 / count, _NEWEST)
            self._means[kind] = _Mean(mean.seconds + newest * (seconds - mean.seconds), count, self._clock())

    def _known(self, kind: Hashable) -> _Mean:
        mean = self._means.get(kind)
        return mean if mean is not None and self._clock() - mean.when < _STALE else _Mean(0.0, 0, 0.0)

    def knows(self, kinds: Iterable[Hashable]) -> bool:
        """Whether enough parts of all these kinds were measured of late."""
        return all(self._known(kind).number >= _FEWEST for kind in kinds)

    def check_time(self, left: float) -> None:
        """Give up the rest of a batch for which nobody waits any more."""
        if left < 0:
            raise ProblemError(503, "the batch took too long; send fewer at once", kind=ProblemType.OUT_OF_TIME)

    @contextmanager
    def turn(self, model: AbstractContextManager[_Served]) -> Iterator[_Served]:
        """Ask the model, and add how long it took to get a turn."""
        started = self._clock()
        with model as served:
            self.note(WAIT, self._clock() - started)
            yield served

    def check(self, parts: Mapping[Hashable, int], size: int, left: float) -> None:
        """Refuse a batch of a size that consists of such parts if it would not be done in `left` seconds.

        Nothing is refused before enough is known of its parts, and a batch of one never.
        """
        if not self.knows(parts):
            return
        expected = sum(number * self._known(kind).seconds for kind, number in parts.items())
        if size > 1 and expected > _SAFE * left:
            most = max(1, min(size - 1, int(size * _SAFE * left / expected)))
            about = f"{size:,} at once would take about {expected:,.1f} seconds, and {left:,.1f} are left"
            kind = ProblemType.BATCH_TOO_LARGE
            raise ProblemError(422, f"{about}; send at most {most:,}", kind=kind, at_most=most)
