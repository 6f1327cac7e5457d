"""Baselines with a weight for every pair of items: EASE, and item-based nearest neighbours.

    score_j = sum_i x_i B_ij          x_i: the grade of what somebody did, B_ii = 0

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

from functools import cache
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from cofill.arrays import Doubles, Floats, Ints, Longs
from cofill.config import Settings
from cofill.data.sparse import SparseRows
from cofill.errors import DataError
from cofill.models.baselines.popularity import HintedScorer, ListBaseline, ListBaselineSettings, Point, Validation
from cofill.models.lists.feedback import Feedback
from cofill.models.lists.gram import (
    Done,
    ItemEmbedding,
    column_lengths,
    gram_of,
    keys_by_number,
    regression_weights,
    sparse_times,
)
from cofill.models.lists.item_weights import ExactWeights, ItemVectors, PairWeights, Penalties, weighted_sums
from cofill.models.lists.scorer import Arrays, Sides

MOST_ITEMS = 15_000
"""A catalogue of that size takes two gigabytes to invert and one to keep."""

_EASE_GRIDS = {"penalty": tuple(5.0 * 2**power for power in range(12))}
_EASE_START = {"penalty": 160.0}
_EASE_TRIED = 6
_KNN_GRIDS = {"neighbours": (10, 20, 40, 80, 160, 320), "shrinkage": (0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)}
_KNN_START = {"neighbours": 80.0, "shrinkage": 10.0}
_KNN_TRIED = 12
# Items that are compared with all others at once: memory is this many times the items.
_BLOCK = 512


# EASE


class EASESettings(ListBaselineSettings):
    """What EASE is given by name."""

    penalty: Annotated[float, Field(gt=0)] | Literal["auto"] = Field(
        default="auto",
        description="L2 regularisation of the weights between items: lambda; auto chooses it on validation ratings",
    )


def ease_of(gram: Doubles, penalty: float) -> tuple[Floats, Doubles]:
    """B (items, items) and the diagonal of P, from X'X."""
    return regression_weights(gram + penalty * np.eye(len(gram)))


class EASEScorer(HintedScorer):
    """The weights between items, exact for those of the training and for each that came later."""

    weights: ExactWeights

    @classmethod
    def restored(cls, arrays: Arrays, feedback: Feedback, sides: Sides) -> "EASEScorer":
        return cls(feedback, sides, ExactWeights.restored(arrays))


class EASE(ListBaseline):
    """A linear autoencoder over items, in closed form.

    >>> EASE(penalty=300).fit("ratings.csv").recommend(42)
    """

    kind = "ease"
    settings_class: ClassVar[type[Settings]] = EASESettings
    scorer_class = EASEScorer

    def _fit_scorer(self, feedback: Feedback, done: Done) -> EASEScorer:
        graded = feedback.trained()
        if graded.columns > MOST_ITEMS:
            raise DataError(
                f"EASE keeps a number for every pair of items, and there are {graded.columns:,} items, more than "
                f"{MOST_ITEMS:,}",
                "use another algorithm, such as means: its lists come from the low-rank form of EASE",
            )

        @cache
        def held_out_gram(validation: Validation) -> Doubles:
            return gram_of(validation.train, np.float64)

        def measure(validation: Validation, point: Point) -> float:
            weights = ease_of(held_out_gram(validation), point["penalty"])[0]
            return validation.ndcg(lambda did: sparse_times(did, weights))

        penalty = self._chosen(feedback, _EASE_GRIDS, _EASE_START, measure, _EASE_TRIED, done)["penalty"]
        gram = gram_of(graded, np.float64)  # in double precision: a small penalty makes much of rounding
        embedding = ItemEmbedding.of_gram(gram, self._settings.seed, keys_by_number(len(gram)))
        weights, precision = ease_of(gram, penalty)
        ratings = np.bincount(graded.indices, minlength=graded.columns).astype(np.int32)
        nothing = np.zeros((1, len(weights)), np.float32)  # the paper has no constant
        fitted = ExactWeights(
            np.concatenate([weights, nothing]), np.append(precision, 0.0), ratings, embedding,
            np.zeros((len(weights) + 1, 0), np.float32), (penalty, 1.0), Penalties(0, penalty, 0.0, 0.0, 0.0),
        )  # fmt: skip
        return EASEScorer(feedback, self._sides, fitted)

    def facts(self) -> list[tuple[str, str]]:
        assert isinstance(self.scorer, EASEScorer)
        return [("penalty", f"{self.scorer.weights.ridge:g}")]


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


class Neighbours(PairWeights):
    """For each item the k most similar others; a new one joins those whose neighbour it would have been."""

    def __init__(self, rows: SparseRows, count: int, shrinkage: float, ratings: Ints, embedding: ItemEmbedding) -> None:
        """`rows` are sparse, targets x inputs; `count` is k."""
        from scipy.sparse import csr_array

        by_target = csr_array((rows.values, rows.indices, rows.indptr), shape=(rows.rows, rows.columns + 1))
        super().__init__(by_target.T.tocsr(), ratings, embedding)
        self.rows, self.count, self.shrinkage = rows, count, shrinkage
        full = rows.counts() > 0
        self.least: Floats = np.zeros(rows.rows, np.float32)
        """(items,): the similarity of the last neighbour of each item; 0 where there is none."""
        if full.any():
            self.least[full] = np.minimum.reduceat(rows.values, rows.indptr[:-1][full])

    @classmethod
    def of(
        cls, graded: SparseRows, count: int, shrinkage: float, embedding: ItemEmbedding | None = None
    ) -> "Neighbours":
        """From grades (users x items). Without an embedding, items cannot be compared, and later ones be folded in."""
        from scipy.sparse import csr_array

        items = graded.columns
        matrix = csr_array((graded.values, graded.indices, graded.indptr), shape=(graded.rows, items))
        by_item = matrix.T.tocsr()
        norms = column_lengths(graded)
        counts, indices, values = [], [], []
        for first in range(0, items, _BLOCK):
            block = np.asarray((by_item[first : first + _BLOCK] @ matrix).toarray(), np.float64)
            rows = np.arange(len(block))
            block[rows, first + rows] = 0.0
            similar = _similarity(block, norms[first : first + _BLOCK, None] * norms, shrinkage)
            for row in similar:
                chosen = strongest(row, count)
                counts.append(len(chosen))
                indices.append(chosen)
                values.append(row[chosen])
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        found = SparseRows(indptr, np.concatenate(indices).astype(np.int32), np.concatenate(values), items)
        ratings = np.bincount(graded.indices, minlength=items).astype(np.int32)
        return cls(
            found, count, shrinkage, ratings, embedding or ItemEmbedding(np.zeros((items, 0), np.float32), norms)
        )

    def folded_in(self, item: int, users: SparseRows, grades: Floats) -> ItemVectors:
        own, sums = weighted_sums(users, grades, 1.0, 0.0, self.items)
        sums = sums[:-1]
        if item >= 0:
            sums[item] = 0.0
        similar = _similarity(sums, self.embedding.norms * np.sqrt(own), self.shrinkage)
        crowded = self.rows.counts() >= self.count
        inputs = np.where(crowded & (similar < self.least), np.float32(0), similar)
        targets = np.zeros(len(similar) + 1, np.float32)
        chosen = strongest(similar, self.count)
        targets[chosen] = similar[chosen]
        return ItemVectors(inputs, targets, self.embedding.folded_in(sums, own))

    def arrays(self) -> Arrays:
        return {
            "indptr": self.rows.indptr,
            "indices": self.rows.indices,
            "values": self.rows.values,
            "ratings": self.ratings,
            "embedding": self.embedding.vectors,
            "norms": self.embedding.norms,
            "numbers": np.array([self.count, self.shrinkage], np.float64),
        }


def strongest(similar: Floats, count: int) -> Longs:
    """The indices, ascending, of the greatest so many that are above 0."""
    positive = np.flatnonzero(similar > 0)
    if len(positive) > count:
        positive = positive[np.sort(np.argpartition(-similar[positive], count - 1)[:count])]
    return positive


def _similarity(together: Doubles, lengths: Doubles, shrinkage: float) -> Floats:
    below = lengths + shrinkage
    return np.divide(together, below, out=np.zeros_like(together), where=below > 0).astype(np.float32)


class ItemKNNScorer(HintedScorer):
    """The neighbours of each item."""

    weights: Neighbours

    @classmethod
    def restored(cls, arrays: Arrays, feedback: Feedback, sides: Sides) -> "ItemKNNScorer":
        count, shrinkage = arrays["numbers"].tolist()
        rows = SparseRows(arrays["indptr"], arrays["indices"], arrays["values"], len(arrays["ratings"]))
        embedding = ItemEmbedding(arrays["embedding"], arrays["norms"])
        return cls(feedback, sides, Neighbours(rows, int(count), shrinkage, arrays["ratings"], embedding))


class ItemKNN(ListBaseline):
    """Item-based k nearest neighbours by cosine similarity.

    >>> ItemKNN(neighbours=100, shrinkage=10).fit("ratings.csv").recommend(42)
    """

    kind = "item-knn"
    settings_class: ClassVar[type[Settings]] = ItemKNNSettings
    scorer_class = ItemKNNScorer

    def _fit_scorer(self, feedback: Feedback, done: Done) -> ItemKNNScorer:
        def measure(validation: Validation, point: Point) -> float:
            return validation.ndcg(
                Neighbours.of(validation.train, int(point["neighbours"]), point["shrinkage"]).products
            )

        point = self._chosen(feedback, _KNN_GRIDS, _KNN_START, measure, _KNN_TRIED, done)
        graded = feedback.trained()
        embedding = ItemEmbedding.of(graded, self._settings.seed)
        fitted = Neighbours.of(graded, int(point["neighbours"]), point["shrinkage"], embedding)
        return ItemKNNScorer(feedback, self._sides, fitted)

    def facts(self) -> list[tuple[str, str]]:
        assert isinstance(self.scorer, ItemKNNScorer)
        weights = self.scorer.weights
        return [("neighbours", str(weights.count)), ("shrinkage", f"{weights.shrinkage:g}")]
