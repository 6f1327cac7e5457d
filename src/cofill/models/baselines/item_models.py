"""Baselines with a weight for every pair of items: EASE, and item-based nearest neighbours.

    score_j = sum_i x_i B_ij          x_i: the grade of what a user did, B_ii = 0

EASE is a linear autoencoder over items with a zero diagonal, in closed form (Steck: "Embarrassingly Shallow
Autoencoders for Sparse Data", WWW 2019):

    minimise  |X - X B|^2 + lambda |B|^2  with diag(B) = 0          X: users x items, grades of what they did
    P = (X'X + lambda I)^-1                    B_ij = -P_ij / P_jj, 0 where i = j

As in the paper B is dense, items x items, so the catalogue has a limit. The list scorer of every other model here is a
weighted form of this, of low rank where the catalogue is large.

Item-based k nearest neighbours: items that the same people chose speak for each other (Sarwar, Karypis, Konstan, Riedl:
"Item-based Collaborative Filtering Recommendation Algorithms", WWW 2001; for lists as in Deshpande and Karypis 2004,
with the shrinkage of Koren and Bell):

    B_ij = sum_u x_ui x_uj / (|x_i| |x_j| + shrinkage)   for those i that are among the k most similar to j, else 0

Items that came later are folded in as they would have been fitted; weights among the others stay.
"""

from abc import abstractmethod
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from cofill.arrays import Arrays, Doubles, Floats, Ints, Longs
from cofill.data.sparse import SparseRows
from cofill.errors import DataError
from cofill.models.baselines.popularity import ListBaseline, ListBaselineSettings, LivePopularity, Point, Validation
from cofill.models.lists.feedback import Feedback, as_csr, sparse_times
from cofill.models.lists.item_weights import (
    ExactWeights,
    FoldIn,
    ItemEmbedding,
    ItemVectors,
    PairWeights,
    column_lengths,
    gram_of,
    keys_by_number,
    regression_weights,
    weighted_sums,
)
from cofill.models.lists.scorer import LinearScorer, ListScorer, Sides
from cofill.progress import Done

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST_ITEMS = 15_000
"""A catalogue of that size takes two gigabytes to invert and one to keep."""

# Items that are compared with all others at once: memory is this many times the items.
_BLOCK = 512


class ItemScorer(LinearScorer):
    """Weights between items, and a faint hint of what is popular; features say nothing."""

    weights: PairWeights

    def __init__(self, feedback: Feedback, sides: Sides, weights: PairWeights) -> None:
        super().__init__(feedback, sides, weights)
        self._popularity = LivePopularity(feedback)
        self.following.append(self._popularity)

    def of_people(self, done: SparseRows, about: object = None, recent: object = None) -> Floats:
        scores = super().of_people(done)
        scores += self._popularity.hint()
        return scores

    def arrays(self) -> Arrays:
        return self.weights.arrays()


class ItemModel(ListBaseline):
    """A baseline with weights between items."""

    weights_class: ClassVar[type[PairWeights]]

    @abstractmethod
    def _weights(self, graded: SparseRows, point: Point) -> PairWeights:
        """From grades (users x items), with these settings."""

    def _fitted_scorer(self, feedback: Feedback, point: Point, done: Done) -> ItemScorer:
        return ItemScorer(feedback, self._sides, self._weights(feedback.trained(), point))

    def _load_scorer(self, arrays: Arrays, feedback: Feedback) -> ItemScorer:
        kept = {field.name: arrays[field.name] for field in fields(self.weights_class)}
        return ItemScorer(feedback, self._sides, self.weights_class(**kept))


# EASE


class EASESettings(ListBaselineSettings):
    """What EASE is given by name."""

    penalty: Annotated[float, Field(gt=0)] | Literal["auto"] = Field(
        default="auto",
        description="L2 regularisation of the weights between items: lambda; auto chooses it on validation ratings",
    )


def ease_of(gram: Doubles, penalty: float) -> tuple[Floats, Doubles]:
    """B (items, items) and the diagonal of P, from X'X."""
    weights = gram + penalty * np.eye(len(gram))
    precision = regression_weights(weights, np.ones(len(gram)))
    return weights.astype(np.float32), precision


class EASE(ItemModel):
    """A linear autoencoder over items, in closed form.

    >>> EASE(penalty=300).fit("ratings.csv").recommend(42)
    """

    kind = "ease"
    settings_class = EASESettings
    weights_class = ExactWeights
    grids = {"penalty": tuple(5.0 * 2**power for power in range(12))}  # noqa: RUF012
    start = {"penalty": 160.0}  # noqa: RUF012
    most_tried = 6

    def _fit_scorer(self, feedback: Feedback, done: Done) -> ListScorer:
        if feedback.items > MOST_ITEMS:
            raise DataError(
                f"EASE keeps a number for every pair of items, and there are {feedback.items:,} items, more than "
                f"{MOST_ITEMS:,}",
                "use another algorithm, such as means: its lists come from the low-rank form of EASE",
            )
        return super()._fit_scorer(feedback, done)

    def _validate(self, validation: Validation, point: Point) -> float:
        weights = ease_of(validation.gram, point["penalty"])[0]
        return validation.ndcg(lambda did: sparse_times(did, weights))

    def _weights(self, graded: SparseRows, point: Point) -> ExactWeights:
        gram = gram_of(graded, np.float64)  # in double precision: a small penalty makes much of rounding
        embedding = ItemEmbedding.of_gram(gram, keys_by_number(len(gram)), self._settings.seed)
        weights, precision = ease_of(gram, point["penalty"])
        nothing = np.zeros((1, len(weights)), np.float32)  # the paper has no constant
        return ExactWeights(
            np.bincount(graded.indices, minlength=graded.columns).astype(np.int32),
            np.zeros((len(weights) + 1, 0), np.float32),
            *embedding,
            np.concatenate([weights, nothing]),
            np.append(precision, 0.0),
            np.array(FoldIn(point["penalty"])),
        )

    def facts(self) -> list[tuple[str, str]]:
        return [("penalty", f"{FoldIn(*self.scorer.arrays()['numbers']).ridge:g}")]


# Nearest neighbours


class ItemKNNSettings(ListBaselineSettings):
    """What item-based nearest neighbours are given by name."""

    neighbours: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        default="auto",
        description="most similar items that speak for an item: k; auto chooses it on validation ratings",
    )
    shrinkage: Annotated[float, Field(ge=0)] | Literal["auto"] = Field(
        default="auto",
        description="added to the product of lengths below a cosine similarity, against those that rest on few people; "
        "auto chooses it on validation ratings",
    )


@dataclass(frozen=True, eq=False)
class Neighbours(PairWeights):
    """For each item the k most similar others; a new one joins those whose neighbour it would have been."""

    indptr: Longs  # sparse rows, targets x inputs
    indices: Ints
    values: Floats
    numbers: Doubles  # (2,): k and the shrinkage

    @property
    def rows(self) -> SparseRows:
        """The similarities, targets x inputs."""
        return SparseRows(self.indptr, self.indices, self.values, self.items)

    @cached_property
    def matrix(self) -> "csr_array":
        return as_csr(self.rows, self.items + 1).T.tocsr()

    @cached_property
    def least(self) -> Floats:
        """(items,): the similarity of the last neighbour of each item; 0 where there is none."""
        least, full = np.zeros(self.items, np.float32), self.rows.counts() > 0
        if full.any():
            least[full] = np.minimum.reduceat(self.values, self.indptr[:-1][full])
        return least

    @classmethod
    def of(
        cls, graded: SparseRows, count: int, shrinkage: float, embedding: ItemEmbedding | None = None
    ) -> "Neighbours":
        """From grades (users x items). Without an embedding, items cannot be compared, and later ones be folded in."""
        items, matrix = graded.columns, as_csr(graded)
        by_item = matrix.T.tocsr()
        norms = column_lengths(graded)
        chosen, values = [], []
        for first in range(0, items, _BLOCK):
            block = np.asarray((by_item[first : first + _BLOCK] @ matrix).toarray(), np.float64)
            rows = np.arange(len(block))
            block[rows, first + rows] = 0.0
            for row in _similarity(block, norms[first : first + _BLOCK, None] * norms, shrinkage):
                chosen.append(strongest(row, count))
                values.append(row[chosen[-1]])
        return cls(
            np.bincount(graded.indices, minlength=items).astype(np.int32),
            np.zeros((items + 1, 0), np.float32),
            *(embedding or ItemEmbedding(np.zeros((items, 0), np.float32), norms)),
            np.cumsum([0, *map(len, chosen)], dtype=np.int64),
            np.concatenate(chosen).astype(np.int32),
            np.concatenate(values),
            np.array([count, shrinkage], np.float64),
        )

    def folded_in(self, item: int, users: SparseRows, grades: Floats) -> ItemVectors:
        count, shrinkage = int(self.numbers[0]), float(self.numbers[1])
        own, sums = weighted_sums(users, grades, FoldIn(0.0), self.items)
        sums = sums[:-1]
        if item >= 0:
            sums[item] = 0.0
        similar = _similarity(sums, self.norms * np.sqrt(own), shrinkage)
        crowded = self.rows.counts() >= count
        inputs = np.where(crowded & (similar < self.least), np.float32(0), similar)
        targets = np.zeros(len(similar) + 1, np.float32)
        chosen = strongest(similar, count)
        targets[chosen] = similar[chosen]
        return ItemVectors(inputs, targets, ItemEmbedding(self.embedding, self.norms).folded_in(sums, own))


def strongest(similar: Floats, count: int) -> Longs:
    """The indices, ascending, of the greatest so many that are above 0."""
    positive = np.flatnonzero(similar > 0)
    if len(positive) > count:
        positive = positive[np.sort(np.argpartition(-similar[positive], count - 1)[:count])]
    return positive


def _similarity(together: Doubles, lengths: Doubles, shrinkage: float) -> Floats:
    below = lengths + shrinkage
    return np.divide(together, below, out=np.zeros_like(together), where=below > 0).astype(np.float32)


class ItemKNN(ItemModel):
    """Item-based k nearest neighbours by cosine similarity.

    >>> ItemKNN(neighbours=100, shrinkage=10).fit("ratings.csv").recommend(42)
    """

    kind = "item-knn"
    settings_class = ItemKNNSettings
    weights_class = Neighbours
    grids = {  # noqa: RUF012
        "neighbours": (10, 20, 40, 80, 160, 320),
        "shrinkage": (0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0),
    }
    start = {"neighbours": 80.0, "shrinkage": 10.0}  # noqa: RUF012
    most_tried = 12

    def _validate(self, validation: Validation, point: Point) -> float:
        matrix = Neighbours.of(validation.train, int(point["neighbours"]), point["shrinkage"]).matrix
        return validation.ndcg(lambda did: sparse_times(did, matrix))

    def _weights(self, graded: SparseRows, point: Point) -> Neighbours:
        embedding = ItemEmbedding.of(graded, self._settings.seed)
        return Neighbours.of(graded, int(point["neighbours"]), point["shrinkage"], embedding)

    def facts(self) -> list[tuple[str, str]]:
        count, shrinkage = self.scorer.arrays()["numbers"]
        return [("neighbours", f"{count:g}"), ("shrinkage", f"{shrinkage:g}")]
