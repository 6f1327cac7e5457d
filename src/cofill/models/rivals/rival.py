"""What the factorising rivals share: from ratings to factors, a model file, and rows shared out among threads."""

from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cofill.config import ListSettings, Settings
from cofill.data.described import DescribedRatings
from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows
from cofill.models.known import KnownRatings, known_arrays, known_from
from cofill.models.recommender import Fitting, Kept, Recommender
from cofill.models.rivals.factors import FactorMatrix, Factors, Stars
from cofill.progress import Step
from cofill.workers import cores

Floats = npt.NDArray[np.float32]

Done = Callable[[int, int], None]
"""Called with the number of steps done, and of all."""


class RivalSettings(ListSettings):
    """What every rival is given by name."""

    mean_damping: float | None = Field(
        default=None,
        ge=0,
        description="ratings of average value added to the means that an unknown id is left to; unless given, it is "
        "learned from the data, apart for users and items (empirical Bayes, by EM)",
    )


class ThreadedSettings(RivalSettings):
    """Settings of a rival that works on several rows at once."""

    threads: int = Field(default=0, ge=0, le=1024, description="threads that share the work; 0: all cores at hand")


@dataclass(frozen=True)
class TrainingData:
    """What a rival learns from. Users and items without a rating are there too; nothing can be learned of them."""

    by_user: SparseRows  # ratings in stars, not centred
    by_item: SparseRows
    overall: float  # mean of all ratings
    user_features: Floats  # (users, P), P may be 0
    item_features: Floats  # (items, Q), Q may be 0


class Rival(Recommender):
    """A recommender that gives every user and every item a vector."""

    settings_class: ClassVar[type[Settings]]
    factors_class: ClassVar[type[Factors]]

    @abstractmethod
    def _factorise(self, data: TrainingData, done: Done) -> Factors:
        """Learn factors from the ratings."""

    def _learn(self, data: DescribedRatings, fitting: Fitting) -> FactorMatrix:
        given = data.ratings
        by_user, by_item = given.rows("user"), given.rows("item")
        stars = Stars(given.scale)
        training = TrainingData(
            replace(by_user, values=stars.down(by_user.values)),
            replace(by_item, values=stars.down(by_item.values)),
            float(stars.down(given.values).mean(dtype=np.float64)),
            data.users.values,
            data.items.values,
        )

        def done(steps: int, total: int) -> None:
            fitting.progress(Step(f"fitting {self.kind}", steps, total, steps / total))

        return FactorMatrix(
            self._factorise(training, done),
            KnownRatings(by_user, by_item),
            given.scale,
            self._damping,
            users_described=data.users.described,
            items_described=data.items.described,
        )

    @property
    def matrix(self) -> FactorMatrix:
        matrix = super().matrix
        assert isinstance(matrix, FactorMatrix)
        return matrix

    @property
    def _damping(self) -> float | None:
        assert isinstance(self._settings, RivalSettings)
        return self._settings.mean_damping

    # Keeping

    def parameters(self) -> int:
        return sum(array.size for array in self.matrix.factors.arrays().values())

    def _kept(self) -> Kept:
        matrix = self.matrix
        described = {"users": matrix.row_features, "items": matrix.column_features}
        weights = matrix.factors.arrays()
        weights |= {f"described.{side}": features.trained_described for side, features in described.items()}
        return Kept(weights, known_arrays(matrix.known))

    def _restored(self, kept: Kept, scale: Scale, users: object, items: object) -> FactorMatrix:
        weights = dict(kept.weights)
        users_described, items_described = weights.pop("described.users"), weights.pop("described.items")
        known = known_from(kept.ratings, scale, len(self.users), len(self.items))
        factors = self.factors_class.restored(weights)
        if factors.users.ndim != 2 or factors.items.ndim != 2 or factors.users.shape[1] != factors.items.shape[1]:
            raise ValueError("the vectors of users and items differ in width")
        if (len(factors.users), len(factors.items)) != (known.trained.rows, known.trained.columns):
            raise ValueError("there are vectors of another number of users and items than the ratings have")
        for described, count in ((users_described, known.trained.rows), (items_described, known.trained.columns)):
            if described.dtype != np.bool_ or described.shape != (count,):
                raise ValueError("it is not said of every user and item whether it has features")
        return FactorMatrix(
            factors, known, scale, self._damping, users_described=users_described, items_described=items_described
        )


# More shards than threads: one that finds its core taken by another program leaves its share to the others.
_SHARDS_A_THREAD = 8


class RowShards:
    """Threads that share out the rows of a matrix by the ratings they hold. Work happens inside its context.

    Each row is worked on alone, so the result is that of one thread, bit for bit.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads or cores()

    def __enter__(self) -> "RowShards":
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="cofill-rows")
        return self

    def __exit__(self, *problem: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def run(self, rows: SparseRows, work: Callable[[int, int], object]) -> None:
        """Calls `work(first, last)` for runs of rows that together are all of them."""
        count = self._threads * _SHARDS_A_THREAD if self._threads > 1 else 1
        # A row costs something even if it is empty.
        cost = rows.indptr + np.arange(rows.rows + 1)
        cuts = np.searchsorted(cost, np.linspace(0, cost[-1], count + 1)).tolist()
        list(self._pool.map(work, cuts[:-1], cuts[1:]))
