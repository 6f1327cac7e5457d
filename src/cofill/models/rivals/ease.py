"""EASE: a linear autoencoder over items with a zero diagonal, in closed form.

Steck: "Embarrassingly Shallow Autoencoders for Sparse Data", WWW 2019.

    minimise  |X - X B|^2 + lambda |B|^2  with diag(B) = 0          X: users x items, grades of what they did
    P = (X'X + lambda I)^-1                    B_ij = -P_ij / P_jj, 0 where i = j

As in the paper B is dense, items x items, so the catalogue has a limit. The list scorer of every other model here is
a low-rank form of this, weighted, which has none.

An item j that came later is added to the regression as it would have been in training, by the inverse of a block
matrix: with g the sums of its grades times those of the others, s its squared grades, and v = P g,

    B_ij = v_i                  B_jk = v_k / r / (P_kk + v_k^2 / r)              r = s + lambda - g.v

One that was fitted is taken out first: v_i - P_ij v_j / P_jj. Weights among the others stay as they were fitted.
"""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from cofill.config import Settings
from cofill.data.sparse import SparseRows
from cofill.errors import DataError
from cofill.models.lists.feedback import Feedback
from cofill.models.lists.item_weights import Done
from cofill.models.lists.scorer import Arrays, Doubles, Floats, Ints, Sides
from cofill.models.rivals.item_embedding import ItemEmbedding, squared_norms
from cofill.models.rivals.item_to_item import ItemToItemScorer, Together
from cofill.models.rivals.list_rival import ListRival, ListRivalSettings
from cofill.models.rivals.validation import Validation, climbed

MOST_ITEMS = 15_000
"""A catalogue of that size takes two gigabytes to invert and one to keep."""

_PENALTIES = tuple(5.0 * 2**power for power in range(12))
_START = 160.0
_MOST_TRIED = 6
# Rows of a sparse matrix that are multiplied at once.
_BLOCK = 1024


class EASESettings(ListRivalSettings):
    """What EASE is given by name."""

    penalty: Annotated[float, Field(gt=0)] | Literal["auto"] = Field(
        default="auto",
        description="L2 regularisation of the weights between items: lambda; auto chooses it on validation ratings",
    )


class Weights:
    """B and the diagonal of P."""

    def __init__(self, weights: Floats, precision: Doubles) -> None:
        self.weights = weights  # (items, items)
        self.precision = precision  # (items,)

    @classmethod
    def of(cls, gram: Doubles, penalty: float) -> "Weights":
        """From X'X (items, items)."""
        from scipy.linalg.lapack import dpotrf, dpotri

        ridged = np.array(gram, np.float64, order="F")
        ridged[np.diag_indices_from(ridged)] += penalty
        factor, failed = dpotrf(ridged, lower=1, overwrite_a=1)
        inverse, failed_too = dpotri(factor, lower=1, overwrite_c=1)
        assert not failed, "a Gram matrix with a ridge has a Cholesky factor"
        assert not failed_too
        precision = inverse.diagonal().copy()
        lower = np.tril(inverse, -1).astype(np.float32)
        weights = lower + lower.T
        weights /= -precision.astype(np.float32)
        return cls(weights, precision)

    def products(self, done: SparseRows) -> Floats:
        """(n, items): x B."""
        from scipy.sparse import csr_array

        matrix = csr_array((done.values, done.indices, done.indptr), shape=(done.rows, len(self.precision)))
        scores: Floats = np.asarray(matrix @ self.weights, np.float32)
        return scores

    def inverse_times(self, vector: Doubles) -> Doubles:
        """P v."""
        scaled = self.precision * vector
        image: Doubles = scaled - self.weights @ scaled
        return image

    def inverse_column(self, item: int) -> Doubles:
        """P e_item."""
        column: Doubles = -self.weights[:, item].astype(np.float64) * self.precision[item]
        column[item] = self.precision[item]
        return column


def gram_of(graded: SparseRows) -> Doubles:
    """X'X (items, items)."""
    from scipy.sparse import csr_array

    values = graded.values.astype(np.float64)  # a small penalty makes much of rounding
    matrix = csr_array((values, graded.indices, graded.indptr), shape=(graded.rows, graded.columns))
    by_item = matrix.T.tocsr()
    gram = np.empty((graded.columns, graded.columns))
    for first in range(0, graded.columns, _BLOCK):
        gram[first : first + _BLOCK] = (by_item[first : first + _BLOCK] @ matrix).toarray()
    return gram


class EASEScorer(ItemToItemScorer):
    """The weights between items, exact for those of the training and for each that came later."""

    def __init__(
        self,
        feedback: Feedback,
        sides: Sides,
        embedding: ItemEmbedding,
        norms: Doubles,
        weights: Weights,
        penalty: float,
    ) -> None:
        super().__init__(feedback, sides, embedding, norms)
        self.weights, self.penalty = weights, penalty

    def _products(self, done: SparseRows) -> Floats:
        return self.weights.products(done)

    def _weights(self, inputs: Ints, targets: Ints) -> Doubles:
        found: Doubles = self.weights.weights[np.ix_(inputs, targets)].T.astype(np.float64)
        return found

    def _inputs_and_targets(self, together: Together) -> tuple[Floats, Floats]:
        weights, sums, precision = self.weights, together.sums, self.weights.precision
        targets = weights.inverse_times(sums)
        if together.item >= 0:  # without itself
            own = weights.inverse_column(together.item)
            targets -= own * (targets[together.item] / own[together.item])
            precision = precision - own**2 / own[together.item]
            targets[together.item] = precision[together.item] = 0.0
        rest = together.own + self.penalty - float(sums @ targets)
        rest = max(rest, 1e-3 * self.penalty)  # rounding; at least the penalty in exact arithmetic
        below = precision + targets**2 / rest
        inputs = np.divide(targets / rest, below, out=np.zeros_like(targets), where=below > 0)
        return inputs.astype(np.float32), targets.astype(np.float32)

    def arrays(self) -> Arrays:
        return {
            "weights": self.weights.weights,
            "precision": self.weights.precision,
            "norms": self._norms,
            "vectors": self._embedding.vectors,
            "penalty": np.array([self.penalty]),
        }

    @classmethod
    def restored(cls, arrays: Arrays, feedback: Feedback, sides: Sides) -> "EASEScorer":
        weights, norms, vectors = arrays["weights"], arrays["norms"], arrays["vectors"]
        items = len(norms)
        if items > feedback.items or weights.shape != (items, items) or arrays["precision"].shape != (items,):
            raise ValueError("there are weights of another number of items than the ratings have")
        if vectors.ndim != 2 or len(vectors) != items:
            raise ValueError("there are vectors of another number of items than the weights have")
        fitted = Weights(weights, arrays["precision"])
        return cls(feedback, sides, ItemEmbedding(vectors), norms, fitted, float(arrays["penalty"][0]))


class EASE(ListRival):
    """A linear autoencoder over items, in closed form.

    >>> EASE(penalty=300).fit("ratings.csv").recommend(42)
    """

    kind = "ease"
    settings_class: ClassVar[type[Settings]] = EASESettings
    scorer_class = EASEScorer

    def _fit_scorer(self, feedback: Feedback, done: Done) -> EASEScorer:
        settings = self._settings
        assert isinstance(settings, EASESettings)
        graded = feedback.trained()
        if graded.columns > MOST_ITEMS:
            raise DataError(
                f"EASE keeps a number for every pair of items, and there are {graded.columns:,} items, more than "
                f"{MOST_ITEMS:,}",
                "use another algorithm, such as means: its lists come from the low-rank form of EASE",
            )
        penalty = self._chosen(settings, feedback, done)
        return EASEScorer(
            feedback,
            self._sides,
            ItemEmbedding.fit(graded, settings.seed),
            np.sqrt(squared_norms(graded)),
            Weights.of(gram_of(graded), penalty),
            penalty,
        )

    def _chosen(self, settings: EASESettings, feedback: Feedback, done: Done) -> float:
        if settings.penalty != "auto":
            return settings.penalty
        validation = Validation.of(feedback, settings.seed)
        if validation is None:
            return _START
        gram = gram_of(validation.train)

        def measured(point: dict[str, float]) -> float:
            return validation.ndcg(Weights.of(gram, point["penalty"]).products)

        return climbed({"penalty": _PENALTIES}, {"penalty": _START}, measured, done, _MOST_TRIED)["penalty"]

    def facts(self) -> list[tuple[str, str]]:
        scorer = self.scorer
        assert isinstance(scorer, EASEScorer)
        return [("penalty", f"{scorer.penalty:g}")]
