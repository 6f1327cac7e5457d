"""The codes of rows without one of their ratings: exact, and as cheap as one term of a sum."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from cofill.data.described import SideFeatures
from cofill.data.sparse import SparseRows
from cofill.exchange import ALONE, Exchange
from cofill.models.cfn.network import CFNetwork
from cofill.models.cfn.scaling import Scaling
from cofill.models.decoder.solving import Without

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]


class LeaveOneOut:
    """Rows of the training, each without the rating of one column.

    What the input layer sums up is kept for every row, once weighted with its ratings and once with ones: the mean of a
    row, which is taken off each of its ratings, changes too when one of them is left out.
    """

    def __init__(
        self,
        network: CFNetwork,
        scaling: Scaling,
        rows: SparseRows,
        features: SideFeatures,
        exchange: Exchange = ALONE,
    ) -> None:
        """`rows` have the ratings of the columns that this process has."""
        self._network, self._scaling = network, scaling
        self._features, self._described = features.trained, features.trained_described
        values = scaling.without_column(rows.indices, rows.values)
        self._counts = exchange.sum_(rows.counts())
        self._totals = exchange.sum_(rows.row_sums(values))
        self._expected = scaling.overall + scaling.by_features.expected(features.trained)[:, 0].astype(np.float64)
        weight = network.input.weight.detach()
        indices = torch.from_numpy(rows.indices.astype(np.int64))
        starts = torch.from_numpy(rows.indptr[:-1])

        def summed(each: Floats) -> torch.Tensor:
            return functional.embedding_bag(
                indices, weight, starts, mode="sum", per_sample_weights=torch.from_numpy(each)
            )

        self._sums = summed(values)  # (rows, k)
        self._ones = summed(np.ones_like(values))
        for part in (self._sums, self._ones):
            exchange.sum_(part.numpy())

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What the rows owe to all columns, for the file of a model in shards."""
        return {"totals": self._totals, "sums": self._sums.numpy(), "ones": self._ones.numpy()}

    @classmethod
    def restored(
        cls,
        network: CFNetwork,
        scaling: Scaling,
        features: SideFeatures,
        counts: npt.NDArray[np.int64],
        arrays: dict[str, npt.NDArray[Any]],
    ) -> "LeaveOneOut":
        """From what a file kept, where only some columns are at hand; `counts` (rows,) are of all columns."""
        found = object.__new__(cls)
        found._network, found._scaling = network, scaling
        found._features, found._described = features.trained, features.trained_described
        found._counts, found._totals = counts, arrays["totals"]
        found._expected = scaling.overall + scaling.by_features.expected(features.trained)[:, 0].astype(np.float64)
        shape = (len(counts), network.input.weight.shape[1])
        if found._totals.shape != shape[:1] or arrays["sums"].shape != shape or arrays["ones"].shape != shape:
            raise ValueError("the sums of the rows have another shape than the network asks for")
        found._sums, found._ones = torch.from_numpy(arrays["sums"]), torch.from_numpy(arrays["ones"])
        return found

    @torch.no_grad()
    def __call__(self, rows: Ints, columns: Ints, ratings: Floats) -> Without:
        scaling = self._scaling
        own = scaling.without_column(columns, ratings)
        counts = self._counts[rows] - 1
        total = counts + scaling.damping
        expected = self._expected[rows]
        means = np.divide(
            self._totals[rows] - own + scaling.damping * expected, total, out=expected.copy(), where=total > 0
        ).astype(np.float32)
        weight = self._network.input.weight[torch.from_numpy(columns.astype(np.int64))]
        at = torch.from_numpy(rows.astype(np.int64))
        shift = torch.from_numpy(np.float32(scaling.presence) - means)[:, None]
        z = self._ones[at].sub_(weight).mul_(shift)
        z += self._sums[at]
        z -= torch.from_numpy(own)[:, None] * weight
        z *= torch.from_numpy(scaling.input_scale(counts))[:, None]
        features = self._features[rows]
        if scaling.marks_empty:
            features = np.column_stack([features, (counts == 0).astype(np.float32)])
        side = torch.from_numpy(features)
        z += self._network.input.offset(side)
        return Without(self._network.code(z, side), means, counts, self._described[rows])
