"""Settings chosen on validation ratings: a tenth of what people did is held out, and lists are to find it.

The measure is NDCG@10 as `cofill.evaluation` defines it: relevant is what was rated in the upper quarter of the scale,
and its gain is the rating less the lowest; of interactions, all are relevant alike. Test ratings are never seen here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cofill.data.sparse import SparseRows
from cofill.models.lists.feedback import Feedback
from cofill.models.lists.item_weights import Done
from cofill.models.results import best_of
from cofill.models.rivals.list_rival import liked_from

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

Point = dict[str, float]
"""Settings by name."""
Scores = Callable[[SparseRows], Floats]
"""(n, items) scores from the grades of what n people did."""

_HELD_OUT = 0.1
_LENGTH = 10
# So many people tell settings apart that differ; more would take time.
_MOST_USERS = 3000
_MOST_RATINGS = 2_000_000
_CHUNK = 256


@dataclass(frozen=True)
class Validation:
    """Grades to learn from, and for some of the users what is to be found."""

    train: SparseRows  # grades, users x items
    users: Longs  # whose lists are measured
    found: SparseRows  # the gains of what was held out, row by row of `users`

    @classmethod
    def of(cls, feedback: Feedback, seed: int) -> "Validation | None":
        """None where there is too little to hold any out."""
        rng = np.random.default_rng(seed)
        known, graded = feedback.main.known.trained, feedback.trained()
        people = _some_users(known, rng)
        chosen = np.repeat(people, known.counts()) & (rng.random(known.nnz) < _HELD_OUT)
        gains = _gains(feedback, known.values)
        rows = np.repeat(np.arange(known.rows), known.counts())
        relevant = chosen & (gains > 0)
        wanted = np.unique(rows[relevant])
        if not len(wanted):
            return None
        train = _without(graded, people, rows[chosen] * graded.columns + known.indices[chosen])
        if not train.nnz:
            return None
        wanted = np.sort(rng.permutation(wanted)[:_MOST_USERS])
        kept = relevant & np.isin(rows, wanted)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=known.rows)[wanted])])
        found = SparseRows(indptr.astype(np.int64), known.indices[kept], gains[kept], graded.columns)
        return cls(train, wanted.astype(np.int64), found)

    def ndcg(self, scores_of: Scores) -> float:
        """The mean NDCG@10 of the users."""
        total = 0.0
        discounts = 1.0 / np.log2(np.arange(2, _LENGTH + 2))
        for first in range(0, len(self.users), _CHUNK):
            done = self.train.take(self.users[first : first + _CHUNK])
            for place, scores in enumerate(scores_of(done)):
                scores[done.row(place)[0]] = -np.inf
                items, gains = self.found.row(first + place)
                gain_of = dict(zip(items.tolist(), gains.tolist(), strict=True))
                hits = np.array([gain_of.get(item, 0.0) for item in best_of(scores, _LENGTH)])
                best = np.sort(gains)[::-1][:_LENGTH]
                total += float(hits @ discounts[: len(hits)]) / float(best @ discounts[: len(best)])
        return total / len(self.users)


def _some_users(known: SparseRows, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """(users,): who takes part; all, unless they have done very much together."""
    people = np.ones(known.rows, np.bool_)
    if known.nnz > _MOST_RATINGS:
        order = rng.permutation(known.rows)
        people[order[np.cumsum(known.counts()[order]) > _MOST_RATINGS]] = False
    return people


def _gains(feedback: Feedback, values: Floats) -> Floats:
    grades = feedback.main.grades
    if not grades.rated:
        return np.ones(len(values), np.float32)
    liked = values >= np.float32(liked_from(grades.scale))
    return np.where(liked, values - np.float32(grades.scale.low), np.float32(0)).astype(np.float32)


def _without(graded: SparseRows, people: npt.NDArray[np.bool_], held_out: Longs) -> SparseRows:
    """What is left of some people without what was held out, given as row * columns + column."""
    rows = np.repeat(np.arange(graded.rows), graded.counts())
    kept = ~np.isin(rows * graded.columns + graded.indices, held_out)
    kept &= np.append(people, np.ones(graded.rows - len(people), np.bool_))[rows]
    counts = np.bincount(rows[kept], minlength=graded.rows)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return SparseRows(indptr, graded.indices[kept], graded.values[kept], graded.columns)


def climbed(
    grids: Mapping[str, Sequence[float]], start: Point, measure: Callable[[Point], float], done: Done, most: int
) -> Point:
    """The best point found by steps on a grid, one setting at a time, until none is better or `most` were measured.

    A setting without a grid stays where it starts. `done` hears the share of `most` that is measured.
    """
    measured: dict[tuple[float, ...], float] = {}

    def value(point: Point) -> float:
        key = tuple(point.values())
        if key not in measured:
            if len(measured) >= most:
                return -np.inf
            measured[key] = measure(point)
            done(len(measured) / most)
        return measured[key]

    best, reached = dict(start), value(start)
    improved = True
    while improved and len(measured) < most:
        improved = False
        for name, grid in grids.items():
            for step in (1, -1):
                place = int(np.argmin(np.abs(np.log(np.array(grid) / best[name])))) + step
                while 0 <= place < len(grid):
                    tried = best | {name: grid[place]}
                    if not value(tried) > reached:
                        break
                    best, reached, improved, place = tried, value(tried), True, place + step
    done(1.0)
    return best
