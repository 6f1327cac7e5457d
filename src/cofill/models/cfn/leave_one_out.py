"""The codes of rows without one of their ratings: exact, and as cheap as one term of a sum."""

from typing import Any

import numpy as np
import numpy.typing as npt

from cofill.compiling import compiled
from cofill.data.described import SideFeatures
from cofill.data.sparse import SparseRows
from cofill.exchange import ALONE, Exchange
from cofill.models.cfn.kernels import prefetch_row
from cofill.models.cfn.network import CFNetwork, summed_inputs
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
        self._sums, self._ones = (  # (rows, k)
            exchange.sum_(summed_inputs(network.input.weight, rows.indptr, rows.indices, each))
            for each in (values, np.ones_like(values))
        )

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What the rows owe to all columns, for the file of a model in shards."""
        return {"totals": self._totals, "sums": self._sums, "ones": self._ones}

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
        found._sums, found._ones = arrays["sums"], arrays["ones"]
        return found

    def __call__(self, rows: Ints, columns: Ints, ratings: Floats) -> Without:
        scaling = self._scaling
        own = scaling.without_column(columns, ratings)
        counts = self._counts[rows] - 1
        total = counts + scaling.damping
        expected = self._expected[rows]
        means = np.divide(
            self._totals[rows] - own + scaling.damping * expected, total, out=expected.copy(), where=total > 0
        ).astype(np.float32)
        z = np.empty((len(rows), self._sums.shape[1]), np.float32)
        _sums_without(
            self._sums, self._ones, self._network.input.weight, rows, columns, own,
            np.float32(scaling.presence) - means, scaling.input_scale(counts), z,
        )  # fmt: skip
        features = self._features[rows]
        if scaling.marks_empty:
            features = np.column_stack([features, (counts == 0).astype(np.float32)])
        z += self._network.input.offset(features)
        return Without(self._network.code(z, features), means, counts, self._described[rows])


@compiled
def _sums_without(
    sums: Floats,
    ones: Floats,
    weight: Floats,
    rows: Ints,
    columns: Ints,
    own: Floats,
    shift: Floats,
    scale: Floats,
    z: Floats,
) -> None:
    """What the input layer sums up for rows, each without its `own` rating of a column, with all others shifted."""
    for e in range(len(rows)):
        if e + 1 < len(rows):
            prefetch_row(weight, columns[e + 1])
            prefetch_row(sums, rows[e + 1])
            prefetch_row(ones, rows[e + 1])
        w, z_e, sum_e, one_e = weight[columns[e]], z[e], sums[rows[e]], ones[rows[e]]
        for q in range(z.shape[1]):
            z_e[q] = ((one_e[q] - w[q]) * shift[e] + sum_e[q] - own[e] * w[q]) * scale[e]
