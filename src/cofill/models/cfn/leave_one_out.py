"""The codes of rows without one of their ratings: exact, and as cheap as one term of a sum."""

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from cofill.data.described import SideFeatures
from cofill.data.sparse import SparseRows
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

    def __init__(self, network: CFNetwork, scaling: Scaling, rows: SparseRows, features: SideFeatures) -> None:
        self._network, self._scaling = network, scaling
        self._features, self._described = features.trained, features.trained_described
        values = scaling.without_column(rows.indices, rows.values)
        self._counts = rows.counts()
        self._totals = rows.row_sums(values)
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
