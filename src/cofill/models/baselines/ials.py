"""iALS: matrix factorisation of implicit feedback by alternating least squares.

Hu, Koren, Volinsky: "Collaborative Filtering for Implicit Feedback Datasets", ICDM 2008, as tuned by Rendle, Krichene,
Zhang, Koren: "Revisiting the Performance of iALS on Item Recommendation Benchmarks", RecSys 2022.

    minimise  sum over what people did of c (t - p_u . q_i)^2  +  unobserved * sum over all u, i of (p_u . q_i)^2
              + penalty * (sum_u (n_u + unobserved * items)^power |p_u|^2 + the same of items)

where n_u is with how many items user u did something. A grade is either the label t, with c = 1, or the confidence c,
with t = 1. While the items stand still, every user is a ridge regression of its own, and the other way round: the sum
over all pairs needs Q'Q alone, which all rows share. Rows take a few steps of conjugate gradients from where they are.

Lists solve for the vector of the user who asks, in closed form, from what they did by now. For an item that they know
already, the score is what it would be without it. An item that came later, or of which a tenth of the ratings has
changed, is solved for from those who rated it, by their vectors in training, or since if there were none.
"""

from dataclasses import dataclass, fields, replace
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from cofill.arrays import Arrays, Doubles, Floats, Ints, Longs
from cofill.data.sparse import SparseRows
from cofill.models.baselines.base import solve_ridges
from cofill.models.baselines.popularity import BaselineScorer, ListBaseline, ListBaselineSettings, Point, Validation
from cofill.models.lists.feedback import Feedback, entries_where
from cofill.models.lists.scorer import Followed, Sides
from cofill.progress import Done, unseen

GradesAs = Literal["labels", "confidence"]

# Standard deviation of a vector's length before the first step.
_START_LENGTH = 0.1
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
        """Confidences and labels; what counts nothing is as if it had not been done."""
        mask = (grades != 0).astype(np.float32)
        return (mask, grades) if self.as_labels else (grades, mask)

    def equations(self, vectors: Floats, grades: Floats, gram: Floats, others: int) -> tuple[Doubles, Doubles]:
        """A, b of A x = b for a row with grades (n,) of n out of so many others, with vectors (n, rank); `gram` (rank,
        rank) is that of all of these.
        """
        confidence, labels = self.told(grades)
        known = vectors.astype(np.float64)
        left = self.unobserved * gram.astype(np.float64) + (known.T * confidence) @ known
        left[np.diag_indices_from(left)] += self.ridges(np.array([np.count_nonzero(grades)]), others)[0]
        right: Doubles = known.T @ (confidence * labels).astype(np.float64)
        return left, right

    def solve_side(self, rows: SparseRows, others: Floats, steps: int, threads: int, vectors: Floats) -> None:
        """Steps towards the vectors of all rows, in place, given those of the others."""
        confidence, labels = self.told(rows.values)
        rows, ridges = replace(rows, values=labels), self.ridges(rows.counts(), len(others))
        gram: Floats = (self.unobserved * (others.T @ others)).astype(np.float32)
        solve_ridges(rows, others, ridges, vectors, confidence=confidence, gram=gram, steps=steps, threads=threads)


@dataclass(frozen=True, eq=False)
class IALSFactors:
    """Vectors of the fitted items, and what others are solved for with. A model file keeps every field."""

    items: Floats  # (items, rank)
    of_users: Floats  # (rank, rank): P'P
    ratings: Ints  # (items,): how many people did something with each
    numbers: Doubles  # (5,): how many users there are, and the objective

    @property
    def objective(self) -> Objective:
        unobserved, penalty, power, as_labels = self.numbers[1:].tolist()
        return Objective(unobserved, penalty, power, bool(as_labels))


def fit_factors(
    graded: SparseRows, rank: int, objective: Objective, iterations: int, *, steps: int, seed: int, threads: int,
    done: Done,
) -> IALSFactors:  # fmt: skip
    """Alternate over users and items."""
    by_user = entries_where(graded, graded.values != 0)
    by_item = by_user.transpose()
    users = np.zeros((by_user.rows, rank), np.float32)
    rng = np.random.default_rng(seed)
    items = rng.standard_normal((by_item.rows, rank), np.float32) * np.float32(_START_LENGTH / np.sqrt(rank))
    items[by_item.counts() == 0] = 0
    for iteration in range(iterations):
        objective.solve_side(by_user, items, steps, threads, users)
        objective.solve_side(by_item, users, steps, threads, items)
        done((iteration + 1) / iterations)
    objective.solve_side(by_user, items, 4 * steps, threads, users)
    ratings = np.bincount(graded.indices, minlength=graded.columns).astype(np.int32)
    return IALSFactors(items, users.T @ users, ratings, np.array([by_user.rows, *objective], np.float64))


class IALSScorer(BaselineScorer):
    """Vectors of items, and the closed form of the user who asks."""

    def __init__(self, feedback: Feedback, sides: Sides, factors: IALSFactors) -> None:
        super().__init__(feedback, sides)
        self.factors = factors
        self._of_items: Floats = factors.items.T @ factors.items
        self._followed = Followed(feedback, factors.ratings, self._folded_in)
        self.following.append(self._followed)

    # Questions

    def of_people(self, done: SparseRows, about: object = None, recent: object = None) -> Floats:
        vectors = self.item_vectors()
        scores = np.zeros((done.rows, len(vectors)), np.float32)
        for row in range(done.rows):
            items, grades = done.row(row)
            if len(items):
                parts, leverage = self._parts(items, grades)
                scores[row] = vectors @ parts.sum(1).astype(np.float32)
                own = (vectors[items].T * parts).sum(0)
                scores[row, items] = (scores[row, items] - own) / np.maximum(1 - leverage, 1e-6)
        return scores + self._popularity.hint()

    def _parts(self, items: Ints, grades: Floats) -> tuple[Doubles, Doubles]:
        """(rank, n): the vector of a user as a sum over what they did, and the leverage (n,) of each.

        What is said of an item without the item itself, the ridge as it is, is divided by 1 - leverage (Sherman and
        Morrison).
        """
        known = self.item_vectors()[items]
        confidence, labels = self.factors.objective.told(grades)
        solved = np.linalg.solve(self._equations(known, grades)[0], known.T.astype(np.float64))
        return solved * (confidence * labels), confidence * (known.T * solved).sum(0)

    def _equations(self, vectors: Floats, grades: Floats) -> tuple[Doubles, Doubles]:
        return self.factors.objective.equations(vectors, grades, self._of_items, len(self.factors.items))

    def shares(self, items: Ints, grades: Floats, asked: Ints) -> Doubles:
        parts, leverage = self._parts(items, grades)
        found: Doubles = self.item_vectors()[asked].astype(np.float64) @ parts
        place, own = np.nonzero(asked[:, None] == items)
        found[place, own] = 0.0
        found[place] /= np.maximum(1 - leverage[own], 1e-6)[:, None]
        return found

    def item_vectors(self) -> Floats:
        return self._followed.rows(lambda: self.factors.items, np.asarray)

    def _folded_in(self, item: int, users: Ints, grades: Floats) -> Floats:
        users, grades = users[grades != 0], grades[grades != 0]
        if not len(users):
            return np.zeros(self.factors.items.shape[1], np.float32)
        vectors = np.stack([self._user(int(user)) for user in users])
        objective, others = self.factors.objective, int(self.factors.numbers[0])
        found = np.linalg.solve(*objective.equations(vectors, grades, self.factors.of_users, others))
        return found.astype(np.float32)

    def _user(self, user: int) -> Floats:
        """The vector of a user from what they did in training, or since if that was nothing, of the fitted items."""
        items, grades = self._followed.did(user)
        return np.linalg.solve(*self._equations(self.factors.items[items], grades)).astype(np.float32)

    def arrays(self) -> Arrays:
        return {field.name: getattr(self.factors, field.name) for field in fields(self.factors)}


class IALS(ListBaseline):
    """Matrix factorisation of implicit feedback by alternating least squares.

    >>> IALS(rank=64, unobserved=0.1, penalty=0.01).fit("ratings.csv").recommend(42)
    """

    kind = "ials"
    settings_class = IALSSettings
    grids = {  # noqa: RUF012
        "unobserved": (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6),
        "penalty": (0.0016, 0.0025, 0.004, 0.0065, 0.01, 0.016, 0.025, 0.04),
        "rank": (16, 32, 64, 128, 256),
    }
    start = {"unobserved": 0.2, "penalty": 0.0065, "rank": 128.0}  # noqa: RUF012
    most_tried = 14
    _settings: IALSSettings

    def _factors(self, graded: SparseRows, point: Point, iterations: int, done: Done) -> IALSFactors:
        own = self._settings
        objective = Objective(point["unobserved"], point["penalty"], own.power, own.grades_as == "labels")
        rank, how = int(point["rank"]), {"steps": own.steps, "seed": own.seed, "threads": own.threads}
        return fit_factors(graded, rank, objective, iterations, **how, done=done)

    def _validate(self, validation: Validation, point: Point) -> float:
        own = self._settings
        factors = self._factors(validation.train, point, min(own.iterations, _ITERATIONS_TRIED), unseen)

        def scores(did: SparseRows) -> Floats:
            users = np.zeros((did.rows, factors.items.shape[1]), np.float32)
            did = entries_where(did, did.values != 0)
            factors.objective.solve_side(did, factors.items, 8 * own.steps, own.threads, users)
            return np.asarray(users @ factors.items.T, np.float32)

        return validation.ndcg(scores)

    def _fitted_scorer(self, feedback: Feedback, point: Point, done: Done) -> IALSScorer:
        factors = self._factors(feedback.trained(), point, self._settings.iterations, done)
        return IALSScorer(feedback, self._sides, factors)

    def _load_scorer(self, arrays: Arrays, feedback: Feedback) -> IALSScorer:
        kept = {field.name: arrays[field.name] for field in fields(IALSFactors)}
        return IALSScorer(feedback, self._sides, IALSFactors(**kept))

    def facts(self) -> list[tuple[str, str]]:
        found = self.scorer.arrays()
        unobserved, penalty = found["numbers"][1:3]
        return [("rank", str(found["items"].shape[1])), ("unobserved", f"{unobserved:g}"), ("penalty", f"{penalty:g}")]
