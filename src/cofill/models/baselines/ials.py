"""iALS: matrix factorisation of implicit feedback by alternating least squares.

Hu, Koren, Volinsky: "Collaborative Filtering for Implicit Feedback Datasets", ICDM 2008, as tuned by Rendle, Krichene,
Zhang, Koren: "Revisiting the Performance of iALS on Item Recommendation Benchmarks", RecSys 2022.

    minimise  sum over what people did of c (t - p_u . q_i)^2  +  unobserved * sum over all u, i of (p_u . q_i)^2
              + penalty * (sum_u (n_u + unobserved * items)^power |p_u|^2 + the same of items)

where n_u is with how many items user u did something. A grade is either the label t, with c = 1, or the confidence c,
with t = 1. While the items stand still, every user is a ridge regression of its own, and the other way round: the sum
over all pairs needs Q'Q alone, which all rows share. Rows take a few steps of conjugate gradients from where they are.

Lists solve for the vector of whoever asks, in closed form, from what they did by now. For an item that they know
already, the score is what it would be without it. An item that came later, or of which a tenth of the ratings has
changed, is solved for from those who rated it, by their vectors in training, or since if there were none.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.config import Settings
from cofill.data.sparse import SparseRows
from cofill.models.baselines.base import RowShards, solve_rows
from cofill.models.baselines.popularity import ListBaseline, ListBaselineSettings, LivePopularity, Point, Validation
from cofill.models.lists.feedback import Feedback
from cofill.models.lists.gram import Done, unseen
from cofill.models.lists.scorer import Arrays, Followed, ListScorer, Sides

GradesAs = Literal["labels", "confidence"]

# Standard deviation of a vector's length before the first step.
_START_LENGTH = 0.1
_GRIDS = {
    "unobserved": (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6),
    "penalty": (0.0016, 0.0025, 0.004, 0.0065, 0.01, 0.016, 0.025, 0.04),
    "rank": (16, 32, 64, 128, 256),
}
_START = {"unobserved": 0.2, "penalty": 0.0065, "rank": 128.0}
_MOST_TRIED = 14
# Half of the usual iterations tell settings apart.
_ITERATIONS_TRIED = 8


class IALSSettings(ListBaselineSettings):
    """What iALS is given by name."""

    rank: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        default="auto", description="factors of a user and of an item; auto chooses it on validation ratings"
    )
    unobserved: Annotated[float, Field(gt=0)] | Literal["auto"] = Field(
        default="auto",
        description="weight of every pair of user and item as one that was not chosen: alpha0; auto chooses it on "
        "validation ratings",
    )
    penalty: Annotated[float, Field(gt=0)] | Literal["auto"] = Field(
        default="auto",
        description="L2 regularisation of factors: lambda; auto chooses it on validation ratings",
    )
    power: float = Field(
        default=1.0, ge=0, le=1, description="how far regularisation grows with what a user or item has: nu"
    )
    grades_as: GradesAs = Field(
        default="labels",
        description="what a grade is: labels (what is predicted) or confidence (how much a prediction of 1 counts)",
    )
    iterations: int = Field(default=16, ge=1, description="times that all users and all items are solved for")
    steps: int = Field(default=3, ge=1, description="steps of conjugate gradients for a user or an item each time")
    threads: int = Field(default=0, ge=0, le=1024, description="threads that share the work; 0: all cores at hand")


class Objective(NamedTuple):
    """The numbers of what is minimised."""

    unobserved: float
    penalty: float
    power: float
    as_labels: bool

    def ridges(self, counts: Longs, others: int) -> Floats:
        """(rows,): the regularisation of rows with so many entries, out of so many."""
        ridges: Floats = (self.penalty * (counts + self.unobserved * others) ** self.power).astype(np.float32)
        return ridges

    def told(self, grades: Floats) -> tuple[Floats, Floats]:
        """Confidences and labels; what counts nothing is as if nobody had done it."""
        there = (grades != 0).astype(np.float32)
        return (there, grades) if self.as_labels else (grades, there)


@dataclass(frozen=True)
class IALSFactors:
    """Vectors of the fitted items, and what others are solved for with."""

    items: Floats  # (items, rank)
    of_users: Floats  # (rank, rank): P'P
    users: int
    objective: Objective

    @property
    def of_items(self) -> Floats:
        """(rank, rank): Q'Q"""
        gram: Floats = self.items.T @ self.items
        return gram

    def user_equations(self, vectors: Floats, grades: Floats, of_items: Floats) -> tuple[Doubles, Doubles]:
        """A, b of A p = b for a user with grades (n,) of items with vectors (n, rank)."""
        return self._equations(vectors, grades, of_items, len(self.items))

    def item_from(self, users: Floats, grades: Floats) -> Floats:
        """(rank,): the vector of an item with grades (n,) of users with vectors (n, rank)."""
        left, right = self._equations(users, grades, self.of_users, self.users)
        vector: Floats = np.linalg.solve(left, right).astype(np.float32)
        return vector

    def _equations(self, vectors: Floats, grades: Floats, gram: Floats, others: int) -> tuple[Doubles, Doubles]:
        confidence, labels = self.objective.told(grades)
        known = vectors.astype(np.float64)
        left = self.objective.unobserved * gram.astype(np.float64) + (known.T * confidence) @ known
        ridge = self.objective.ridges(np.array([np.count_nonzero(grades)]), others)[0]
        left[np.diag_indices_from(left)] += ridge
        right: Doubles = known.T @ (confidence * labels).astype(np.float64)
        return left, right


def fit_factors(
    graded: SparseRows, rank: int, objective: Objective, iterations: int, *, steps: int, seed: int, threads: int,
    done: Done,
) -> IALSFactors:  # fmt: skip
    """Alternate over users and items."""
    by_user = _nonzero(graded)
    by_item = by_user.transpose()
    users = np.zeros((by_user.rows, rank), np.float32)
    rng = np.random.default_rng(seed)
    items = rng.standard_normal((by_item.rows, rank), np.float32) * np.float32(_START_LENGTH / np.sqrt(rank))
    items[by_item.counts() == 0] = 0
    with RowShards(threads) as shards:
        for iteration in range(iterations):
            solve_side(shards, by_user, items, objective, steps, users)
            solve_side(shards, by_item, users, objective, steps, items)
            done((iteration + 1) / iterations)
        solve_side(shards, by_user, items, objective, 4 * steps, users)
    return IALSFactors(items, users.T @ users, by_user.rows, objective)


def solve_side(
    shards: RowShards, rows: SparseRows, others: Floats, objective: Objective, steps: int, vectors: Floats
) -> None:
    """Steps towards the vectors of all rows, in place, given those of the others."""
    confidence, labels = objective.told(rows.values)
    ridges = objective.ridges(rows.counts(), len(others))
    gram: Floats = (objective.unobserved * (others.T @ others)).astype(np.float32)
    given = (rows.indptr, rows.indices, confidence, labels, others, gram, ridges, steps, 0.0)
    shards.run(rows, lambda first, last: solve_rows(*given, first, last, vectors))


def _nonzero(rows: SparseRows) -> SparseRows:
    """Without entries that count nothing."""
    kept = rows.values != 0
    if kept.all():
        return rows
    ends = np.concatenate([[0], np.cumsum(kept)])
    return SparseRows(ends[rows.indptr].astype(np.int64), rows.indices[kept], rows.values[kept], rows.columns)


class IALSScorer(ListScorer):
    """Vectors of items, and the closed form of whoever asks."""

    def __init__(self, feedback: Feedback, sides: Sides, factors: IALSFactors, ratings: Ints) -> None:
        """`ratings` (fitted items,): how many people did something with each."""
        super().__init__(feedback, sides)
        self.factors, self._ratings = factors, ratings
        self._of_items = factors.of_items
        self._popularity = LivePopularity(feedback)
        self._followed = Followed(feedback, ratings, self._folded_in)
        self._vectors: tuple[int, Floats] = (-1, factors.items)  # as they stood at a version of what was followed

    # Questions

    def many(self, done: SparseRows) -> Floats:
        vectors = self._now()
        scores = np.zeros((done.rows, len(vectors)), np.float32)
        for row in range(done.rows):
            items, grades = done.row(row)
            if len(items):
                code, alone = self._code(vectors[items], grades)
                np.matmul(vectors, code, out=scores[row])
                scores[row, items] = alone
        return scores + self._popularity.hint()

    def _code(self, vectors: Floats, grades: Floats) -> tuple[Floats, Floats]:
        """The vector (rank,) of somebody with grades (n,) of items with vectors (n, rank), and their scores (n,).

        Each score is what it would be without the item (Sherman and Morrison), the ridge as it is.
        """
        from scipy.linalg import cholesky, solve_triangular

        left, right = self.factors.user_equations(vectors, grades, self._of_items)
        lower = cholesky(left, lower=True, check_finite=False)
        both = np.column_stack([vectors.T.astype(np.float64), right])
        halfway = solve_triangular(lower, both, lower=True, check_finite=False)
        code = solve_triangular(lower, halfway[:, -1], lower=True, trans=1, check_finite=False)
        confidence, labels = self.factors.objective.told(grades)
        leverage = confidence * (halfway[:, :-1] ** 2).sum(0)
        alone = (vectors @ code - leverage * labels) / np.maximum(1 - leverage, 1e-6)
        return code.astype(np.float32), alone.astype(np.float32)

    def shares(self, items: Ints, grades: Floats, asked: Ints) -> Doubles:
        vectors = self._now()
        if not len(items):
            return np.zeros((len(asked), 0))
        left, _ = self.factors.user_equations(vectors[items], grades, self._of_items)
        confidence, labels = self.factors.objective.told(grades)
        known = vectors[items].astype(np.float64)
        inputs = known.T * (confidence * labels)
        found: Doubles = vectors[asked].astype(np.float64) @ np.linalg.solve(left, inputs)
        for place in np.flatnonzero(np.isin(asked, items)).tolist():
            own = int(np.flatnonzero(items == asked[place])[0])
            without = left - confidence[own] * np.outer(known[own], known[own])
            found[place] = known[own] @ np.linalg.solve(without, inputs)
            found[place, own] = 0.0
        return found

    def scored(self) -> Bools:
        return np.asarray(self._now().any(axis=1), np.bool_)

    def item_vectors(self) -> Floats:
        return self._now()

    # Following

    def changed(self, users: Iterable[int], items: Iterable[int]) -> None:
        items = set(items)
        self._popularity.changed(items)
        self._followed.changed(users, items)

    def _now(self) -> Floats:
        """(items, rank): the vectors of items as they stand now."""
        followed = self._followed.up_to_date()
        if self._vectors[0] != followed.version:
            vectors = np.zeros((self.feedback.items, self.factors.items.shape[1]), np.float32)
            vectors[: len(self.factors.items)] = self.factors.items
            vectors[followed.unrated] = 0
            for item, vector in followed.items.items():
                vectors[item] = vector
            self._vectors = followed.version, vectors
        return self._vectors[1]

    def _folded_in(self, item: int, users: Ints, grades: Floats) -> Floats:
        users, grades = users[grades != 0], grades[grades != 0]
        if not len(users):
            return np.zeros(self.factors.items.shape[1], np.float32)
        return self.factors.item_from(np.stack([self._user(int(user)) for user in users]), grades)

    def _user(self, user: int) -> Floats:
        """The vector of a user from what they did in training, or since if that was nothing, of the fitted items."""
        items, grades = self._followed.did(user)
        left, right = self.factors.user_equations(self.factors.items[items], grades, self._of_items)
        vector: Floats = np.linalg.solve(left, right).astype(np.float32)
        return vector

    # Keeping

    def arrays(self) -> Arrays:
        own = self.factors
        return {
            "items": own.items,
            "of_users": own.of_users,
            "ratings": self._ratings,
            "numbers": np.array([own.users, *map(float, own.objective)], np.float64),
        }

    @classmethod
    def restored(cls, arrays: Arrays, feedback: Feedback, sides: Sides) -> "IALSScorer":
        users, unobserved, penalty, power, as_labels = arrays["numbers"].tolist()
        objective = Objective(unobserved, penalty, power, bool(as_labels))
        factors = IALSFactors(arrays["items"], arrays["of_users"], int(users), objective)
        return cls(feedback, sides, factors, arrays["ratings"])


class IALS(ListBaseline):
    """Matrix factorisation of implicit feedback by alternating least squares.

    >>> IALS(rank=64, unobserved=0.1, penalty=0.01).fit("ratings.csv").recommend(42)
    """

    kind = "ials"
    settings_class: ClassVar[type[Settings]] = IALSSettings
    scorer_class = IALSScorer

    def _fit_scorer(self, feedback: Feedback, done: Done) -> IALSScorer:
        settings = self._settings
        assert isinstance(settings, IALSSettings)

        def fitted(graded: SparseRows, point: Point, iterations: int, done: Done) -> IALSFactors:
            objective = Objective(point["unobserved"], point["penalty"], settings.power, settings.grades_as == "labels")
            rank, steps, seed, threads = int(point["rank"]), settings.steps, settings.seed, settings.threads
            return fit_factors(graded, rank, objective, iterations, steps=steps, seed=seed, threads=threads, done=done)

        def measure(validation: Validation, point: Point) -> float:
            factors = fitted(validation.train, point, min(settings.iterations, _ITERATIONS_TRIED), unseen)

            def scores(did: SparseRows) -> Floats:
                users = np.zeros((did.rows, factors.items.shape[1]), np.float32)
                with RowShards(settings.threads) as shards:
                    solve_side(shards, _nonzero(did), factors.items, factors.objective, 8 * settings.steps, users)
                return np.asarray(users @ factors.items.T, np.float32)

            return validation.ndcg(scores)

        point = self._chosen(feedback, _GRIDS, _START, measure, _MOST_TRIED, done)
        graded = feedback.trained()
        factors = fitted(graded, point, settings.iterations, done)
        ratings = np.bincount(graded.indices, minlength=graded.columns).astype(np.int32)
        return IALSScorer(feedback, self._sides, factors, ratings)

    def facts(self) -> list[tuple[str, str]]:
        scorer = self.scorer
        assert isinstance(scorer, IALSScorer)
        objective = scorer.factors.objective
        return [
            ("rank", str(scorer.factors.items.shape[1])),
            ("unobserved", f"{objective.unobserved:g}"),
            ("penalty", f"{objective.penalty:g}"),
        ]
