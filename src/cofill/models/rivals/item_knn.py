"""Item-based k nearest neighbours: items that the same people chose speak for each other.

Sarwar, Karypis, Konstan, Riedl: "Item-based Collaborative Filtering Recommendation Algorithms", WWW 2001; for lists as
in Deshpande and Karypis 2004, with the shrinkage of Koren and Bell.

    similarity_ij = sum_u x_ui x_uj / (|x_i| |x_j| + shrinkage)          x_ui: the grade of what user u did with item i
    score_j = sum of x_i similarity_ij over those i that are among the k most similar to j
"""

from typing import Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cofill.config import Settings
from cofill.data.sparse import SparseRows
from cofill.models.lists.feedback import Feedback
from cofill.models.lists.item_weights import Done
from cofill.models.lists.scorer import Arrays, Doubles, Floats, Ints, Sides
from cofill.models.rivals.item_embedding import ItemEmbedding, squared_norms
from cofill.models.rivals.item_to_item import ItemToItemScorer, Together
from cofill.models.rivals.list_rival import ListRival, ListRivalSettings
from cofill.models.rivals.validation import Validation, climbed

Longs = npt.NDArray[np.int64]

_NEIGHBOURS = (10, 20, 40, 80, 160, 320)
_SHRINKAGE = (0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
_START = {"neighbours": 80.0, "shrinkage": 10.0}
_MOST_TRIED = 12
# Items that are compared with all others at once: memory is this many times the items.
_BLOCK = 512


class ItemKNNSettings(ListRivalSettings):
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


class Neighbours:
    """For each item the k most similar others, as sparse rows of targets x inputs."""

    def __init__(self, rows: SparseRows) -> None:
        from scipy.sparse import csr_array

        self.rows = rows
        by_target = csr_array((rows.values, rows.indices, rows.indptr), shape=(rows.rows, rows.columns))
        self._by_input = by_target.T.tocsr()
        full = rows.counts() > 0
        self.least: Floats = np.zeros(rows.rows, np.float32)
        """(items,): the similarity of the last neighbour of each item; 0 where there is none."""
        if full.any():
            self.least[full] = np.minimum.reduceat(rows.values, rows.indptr[:-1][full])

    @classmethod
    def of(cls, graded: SparseRows, neighbours: int, shrinkage: float) -> "Neighbours":
        """From grades (users x items)."""
        from scipy.sparse import csr_array

        items = graded.columns
        matrix = csr_array((graded.values, graded.indices, graded.indptr), shape=(graded.rows, items))
        by_item = matrix.T.tocsr()
        norms = np.sqrt(squared_norms(graded))
        counts, indices, values = [], [], []
        for first in range(0, items, _BLOCK):
            block = np.asarray((by_item[first : first + _BLOCK] @ matrix).toarray(), np.float64)
            rows = np.arange(len(block))
            block[rows, first + rows] = 0.0
            similar = _similarity(block, norms[first : first + _BLOCK, None] * norms, shrinkage)
            for row in similar:
                chosen = strongest(row, neighbours)
                counts.append(len(chosen))
                indices.append(chosen)
                values.append(row[chosen])
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(SparseRows(indptr, np.concatenate(indices).astype(np.int32), np.concatenate(values), items))

    def products(self, done: SparseRows) -> Floats:
        """(n, items): the scores of what n people did."""
        from scipy.sparse import csr_array

        did = csr_array((done.values, done.indices, done.indptr), shape=(done.rows, self.rows.rows))
        scores: Floats = np.asarray((did @ self._by_input).toarray(), np.float32)
        return scores

    def at(self, inputs: Ints, targets: Ints) -> Doubles:
        """(m, n)"""
        found = np.zeros((len(targets), len(inputs)))
        for place, target in enumerate(targets.tolist()):
            neighbours, similar = self.rows.row(target)
            row = np.zeros(self.rows.columns)
            row[neighbours] = similar
            found[place] = row[inputs]
        return found


def strongest(similar: Floats, count: int) -> Longs:
    """The indices, ascending, of the greatest so many that are above 0."""
    positive = np.flatnonzero(similar > 0)
    if len(positive) > count:
        positive = positive[np.sort(np.argpartition(-similar[positive], count - 1)[:count])]
    return positive


def _similarity(together: Doubles, lengths: Doubles, shrinkage: float) -> Floats:
    below = lengths + shrinkage
    return np.divide(together, below, out=np.zeros_like(together), where=below > 0).astype(np.float32)


class ItemKNNScorer(ItemToItemScorer):
    """The neighbours of each item; a new one joins those whose neighbour it would have been."""

    def __init__(
        self,
        feedback: Feedback,
        sides: Sides,
        embedding: ItemEmbedding,
        norms: Doubles,
        neighbours: Neighbours,
        numbers: tuple[int, float],
    ) -> None:
        """`numbers` are k and the shrinkage."""
        super().__init__(feedback, sides, embedding, norms)
        self.neighbours = neighbours
        self.count, self.shrinkage = numbers

    def _products(self, done: SparseRows) -> Floats:
        return self.neighbours.products(done)

    def _weights(self, inputs: Ints, targets: Ints) -> Doubles:
        return self.neighbours.at(inputs, targets)

    def _inputs_and_targets(self, together: Together) -> tuple[Floats, Floats]:
        similar = _similarity(together.sums, self._norms * np.sqrt(together.own), self.shrinkage)
        crowded = self.neighbours.rows.counts() >= self.count
        inputs = np.where(crowded & (similar < self.neighbours.least), np.float32(0), similar)
        targets = np.zeros_like(similar)
        chosen = strongest(similar, self.count)
        targets[chosen] = similar[chosen]
        return inputs, targets

    def arrays(self) -> Arrays:
        rows = self.neighbours.rows
        return {
            "indptr": rows.indptr,
            "indices": rows.indices,
            "values": rows.values,
            "norms": self._norms,
            "vectors": self._embedding.vectors,
            "numbers": np.array([self.count, self.shrinkage], np.float64),
        }

    @classmethod
    def restored(cls, arrays: Arrays, feedback: Feedback, sides: Sides) -> "ItemKNNScorer":
        norms, vectors = arrays["norms"], arrays["vectors"]
        indptr, indices, values = arrays["indptr"], arrays["indices"], arrays["values"]
        count, shrinkage = arrays["numbers"].tolist()
        items = len(norms)
        if items > feedback.items or len(indptr) != items + 1 or vectors.ndim != 2 or len(vectors) != items:
            raise ValueError("the neighbours are of another number of items")
        if indptr[0] != 0 or (np.diff(indptr) < 0).any() or not indptr[-1] == len(indices) == len(values):
            raise ValueError("the neighbours have no consistent length")
        if len(indices) and not 0 <= indices.min() <= indices.max() < items:
            raise ValueError("a neighbour is an item that does not exist")
        neighbours = Neighbours(SparseRows(indptr, indices, values, items))
        return cls(feedback, sides, ItemEmbedding(vectors), norms, neighbours, (int(count), shrinkage))


class ItemKNN(ListRival):
    """Item-based k nearest neighbours by cosine similarity.

    >>> ItemKNN(neighbours=100, shrinkage=10).fit("ratings.csv").recommend(42)
    """

    kind = "item-knn"
    settings_class: ClassVar[type[Settings]] = ItemKNNSettings
    scorer_class = ItemKNNScorer

    def _fit_scorer(self, feedback: Feedback, done: Done) -> ItemKNNScorer:
        settings = self._settings
        assert isinstance(settings, ItemKNNSettings)
        neighbours, shrinkage = self._chosen(settings, feedback, done)
        graded = feedback.trained()
        return ItemKNNScorer(
            feedback,
            self._sides,
            ItemEmbedding.fit(graded, settings.seed),
            np.sqrt(squared_norms(graded)),
            Neighbours.of(graded, neighbours, shrinkage),
            (neighbours, shrinkage),
        )

    def _chosen(self, settings: ItemKNNSettings, feedback: Feedback, done: Done) -> tuple[int, float]:
        given = {"neighbours": settings.neighbours, "shrinkage": settings.shrinkage}
        start = {name: _START[name] if value == "auto" else float(value) for name, value in given.items()}
        every = {"neighbours": _NEIGHBOURS, "shrinkage": _SHRINKAGE}
        grids = {name: every[name] for name, value in given.items() if value == "auto"}
        validation = Validation.of(feedback, settings.seed) if grids else None
        if validation is not None:
            train = validation.train

            def measured(point: dict[str, float]) -> float:
                found = Neighbours.of(train, int(point["neighbours"]), point["shrinkage"])
                return validation.ndcg(found.products)

            start = climbed(grids, start, measured, done, _MOST_TRIED)
        return int(start["neighbours"]), start["shrinkage"]

    def facts(self) -> list[tuple[str, str]]:
        scorer = self.scorer
        assert isinstance(scorer, ItemKNNScorer)
        return [("neighbours", str(scorer.count)), ("shrinkage", f"{scorer.shrinkage:g}")]
