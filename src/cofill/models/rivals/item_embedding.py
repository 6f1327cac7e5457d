"""Vectors of items from who chose them, for rivals that compare items without having any: similar, diversity.

The cosines of items over users are C = N'N, where the columns of N are those of the grades at length one. Vectors are
its largest eigenvectors, scaled: F F' is the best approximation to C of that rank. An item that came later, of which
the cosines c with the others are known, has the vector c F (F'F)^-1.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cofill.data.sparse import SparseRows
from cofill.models.lists.item_weights import gram_factor

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

_WIDTH = 64


@dataclass(frozen=True)
class ItemEmbedding:
    """A vector for every item that was fitted; zero for one without ratings."""

    vectors: Floats  # (items, width)

    @classmethod
    def fit(cls, graded: SparseRows, seed: int) -> "ItemEmbedding":
        """From grades (users x items)."""
        norms = np.sqrt(squared_norms(graded))
        lengths = np.where(norms > 0, norms, 1.0)[graded.indices]
        unit = SparseRows(graded.indptr, graded.indices, (graded.values / lengths).astype(np.float32), graded.columns)
        found = gram_factor(unit, min(_WIDTH, graded.columns), seed, lambda share: None, threads=1)
        return cls(found)

    def folded_in(self, cosines: Floats) -> Floats:
        """(width,): the vector of an item with these cosines (items,) with the others."""
        lengths = (self.vectors.astype(np.float64) ** 2).sum(0)
        inverse = np.divide(1.0, lengths, out=np.zeros(len(lengths)), where=lengths > 1e-6 * lengths.max(initial=1e-30))
        vector: Floats = ((cosines @ self.vectors) * inverse).astype(np.float32)
        return vector


def squared_norms(graded: SparseRows) -> Doubles:
    """(items,): the sum of the squared grades of each item."""
    sums = np.bincount(graded.indices, graded.values.astype(np.float64) ** 2, graded.columns)
    return sums.astype(np.float64)
