"""The process in which one library is trained and asked. It runs in the environment of that library.

    python -m peer_libraries.answering PROBLEM.npz MODULE:FUNCTION KINDS SEED ANSWER.npz

So it imports numpy and nothing of cofill; `with_cofill.py` does. FUNCTION is given the problem and a seed, and returns
a `Model`. Before it is timed it is run once on a few ratings: importing and compiling are nobody's seconds.

What a library cannot predict (nan) gets the mean of the training ratings; somebody of whom it has no rating gets the
items with the most ratings, unless the library says otherwise (`stranger_list`). Predictions are clipped to the scale.
"""

import contextlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

LENGTH = 10  # of lists
BLOCK = 256  # users scored at once

Doubles = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Problem:
    """What a library is given and asked. Users and items of the training part are numbered from 0; -1 is not in it."""

    user: Ints
    item: Ints
    rating: Floats
    day: Ints  # since 1970; empty where there are no times
    test_user: Ints
    test_item: Ints
    test_day: Ints
    asked: Ints  # users who want a list
    low: float
    high: float

    @property
    def users(self) -> int:
        return int(self.user.max()) + 1

    @property
    def items(self) -> int:
        return int(self.item.max()) + 1

    @property
    def liked_from(self) -> float:
        """What counts as liked: 4 of 1 to 5."""
        return self.low + 0.75 * (self.high - self.low)

    def matrix(self, values: npt.NDArray[Any] | None = None, chosen: npt.NDArray[np.bool_] | None = None) -> Any:
        """(users, items), sparse: the ratings, or other values of the same pairs; of all or of some."""
        from scipy import sparse

        kept = np.ones(len(self.user), np.bool_) if chosen is None else chosen
        data = (self.rating if values is None else values)[kept]
        return sparse.csr_matrix((data, (self.user[kept], self.item[kept])), shape=(self.users, self.items))

    def popular(self) -> Ints:
        """(items,): from the most to the least rated."""
        return np.argsort(-np.bincount(self.item, minlength=self.items), kind="stable").astype(np.int32)

    def part(self, chosen: npt.NDArray[np.bool_]) -> "Problem":
        """The same with some of the training ratings; users and items keep their numbers."""
        day = self.day[chosen] if len(self.day) else self.day
        return replace(self, user=self.user[chosen], item=self.item[chosen], rating=self.rating[chosen], day=day)

    @classmethod
    def read(cls, path: str) -> "Problem":
        with np.load(path, allow_pickle=False) as kept:
            arrays = {name: kept[name] for name in cls.__dataclass_fields__}
        return cls(**arrays | {name: float(arrays[name]) for name in ("low", "high")})


class Model(Protocol):
    """What a fitted library does; one of the two is enough.

    It may have `chosen`, a text of what a search chose, and `stranger_list(n)` for somebody without a rating.
    """

    def predict(self, users: Ints, items: Ints, days: Ints) -> npt.NDArray[Any]: ...
    def lists(self, users: Ints, n: int) -> npt.NDArray[Any]:
        """(users, n): best first, -1 where nothing is left; all users have training ratings."""
        ...


Fit = Callable[[Problem, int], Model]


def best_of_scores(problem: Problem, users: Ints, n: int, scores: Callable[[Ints], npt.NDArray[Any]]) -> Ints:
    """Lists of the items with the highest scores that a user has not rated; `scores` (users, items) of some users."""
    known = problem.matrix()
    found = np.full((len(users), n), -1, np.int32)
    for first in range(0, len(users), BLOCK):
        block = users[first : first + BLOCK]
        own = np.array(scores(block), np.float64)
        rows = known[block]
        own[np.repeat(np.arange(len(block)), np.diff(rows.indptr)), rows.indices] = -np.inf
        width = min(n, own.shape[1])
        best = np.argsort(-own, axis=1, kind="stable")[:, :width]
        best[np.take_along_axis(own, best, axis=1) == -np.inf] = -1
        found[first : first + BLOCK, :width] = best
    return found


def popular_list(problem: Problem, n: int) -> Ints:
    found = np.full(n, -1, np.int32)
    found[: min(n, problem.items)] = problem.popular()[:n]
    return found


@dataclass(frozen=True)
class Lap:
    """Seconds on the clock, and of processors, those of helper processes too."""

    wall: float
    processor: float


@contextlib.contextmanager
def timed(laps: dict[str, Lap], name: str) -> Iterator[None]:
    wall, processor = time.perf_counter(), processor_seconds()
    yield
    laps[name] = Lap(time.perf_counter() - wall, processor_seconds() - processor)


def processor_seconds() -> float:
    return sum(os.times()[:4])


def peak_bytes() -> int:
    """Of this process; Linux counts what the parent had into ru_maxrss, so it is asked in another way there."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def answer(problem: Problem, fit: Fit, kinds: tuple[str, ...], seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrays of answers, and what it took."""
    with contextlib.suppress(Exception):  # said when it is measured
        small = few(problem)
        asked(small, fit(small, seed), kinds, {})
    laps: dict[str, Lap] = {}
    with timed(laps, "fit"):
        model = fit(problem, seed)
    arrays = asked(problem, model, kinds, laps)
    return arrays, {
        **{name: {"wall": lap.wall, "processor": lap.processor} for name, lap in laps.items()},
        "peak_bytes": peak_bytes(),
        "chosen": getattr(model, "chosen", ""),
        "versions": {found.metadata["Name"]: found.version for found in distributions()},
    }


def asked(problem: Problem, model: Model, kinds: tuple[str, ...], laps: dict[str, Lap]) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    if "ratings" in kinds:
        with timed(laps, "predict"):
            told = np.asarray(model.predict(problem.test_user, problem.test_item, problem.test_day), np.float64)
        if told.shape != problem.test_user.shape:
            raise ValueError(f"{problem.test_user.shape} predictions were asked for and {told.shape} came")
        if np.isinf(told).any():
            raise ArithmeticError(f"{int(np.isinf(told).sum()):,} predictions are infinite")
        arrays["fallback"] = np.array(int(np.isnan(told).sum()))
        told = np.where(np.isnan(told), problem.rating.mean(), told)
        arrays["predictions"] = np.clip(told, problem.low, problem.high)
    if "lists" in kinds:
        known = problem.asked >= 0
        with timed(laps, "list"):
            lists = np.full((len(problem.asked), LENGTH), -1, np.int32)
            lists[known] = model.lists(problem.asked[known], LENGTH)
            own: Callable[[int], Ints] | None = getattr(model, "stranger_list", None)
            lists[~known] = popular_list(problem, LENGTH) if own is None else own(LENGTH)
        arrays["lists"] = lists
    return arrays


def few(problem: Problem) -> Problem:
    """The ratings of some users among some items, and a few questions."""
    small = problem.part((problem.user < 60) & (problem.item < 80))
    if not len(small.user):
        return problem
    questions = slice(0, 20)
    users, user = np.unique(small.user, return_inverse=True)
    item = np.unique(small.item, return_inverse=True)[1]
    here = user.astype(np.int32), item.astype(np.int32)
    day = small.day[questions] if len(small.day) else small.day
    return replace(
        small,
        user=here[0],
        item=here[1],
        test_user=here[0][questions],
        test_item=here[1][questions],
        test_day=day,
        asked=np.arange(min(5, len(users)), dtype=np.int32),
    )


def main(arguments: list[str]) -> None:
    path, place, kinds, seed, target = arguments
    module, _, name = place.partition(":")
    fit: Fit = getattr(import_module(module), name)
    arrays, told = answer(Problem.read(path), fit, tuple(kinds.split(",")), int(seed))
    beside = Path(target).with_suffix(".part.npz")
    np.savez_compressed(beside, **arrays, told=np.array(json.dumps(told)))
    beside.replace(target)


if __name__ == "__main__":
    main(sys.argv[1:])
