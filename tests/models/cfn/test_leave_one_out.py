"""A row without one of its ratings, from sums that were kept, is that row read again without the rating."""

from typing import Any

import numpy as np
import pytest

from cofill.data.described import SideFeatures
from cofill.data.sparse import SparseRows
from cofill.models.cfn.codes import LeaveOneOut
from cofill.models.cfn.network import encode_rows
from tests.models.cfn.described_matrix import fitted, matrix


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"cold_ratio": 0.0},
        {"hidden": (12, 6, 12), "activation": "sigmoid"},
        {"orientation": "user", "length_power": 0.5, "presence": 0.4},
        {"mean_damping": 0.0, "presence": 0.0},
        {"decoder": "network"},
    ],
    ids=["marked", "unmarked", "stack", "presence", "undamped", "network"],
)
def test_it_is_the_row_read_again(shape: dict[str, Any]) -> None:
    trained = fitted(**{"decoder": "process", **shape})
    network, scaling, world = trained.network, trained.part.scaling, matrix()
    # Rows of the training, and some that have one rating, or two.
    rows = [world.rows.row(row) for row in (0, 3, 10, 20)]
    rows += [(np.array([4], np.int32), np.array([5], np.float32)), (np.array([7], np.int32), np.array([1], np.float32))]
    rows += [(np.array([0, 9], np.int32), np.array([1, 4], np.float32))]
    features = world.row_features[[0, 3, 10, 20, 5, 10, 6]]
    known = SparseRows(
        np.cumsum([0, *(len(columns) for columns, _ in rows)]).astype(np.int64),
        np.concatenate([columns for columns, _ in rows]),
        np.concatenate([ratings for _, ratings in rows]),
        world.rows.columns,
    )
    left_out = LeaveOneOut.of(network, scaling, known, SideFeatures(features))
    of = np.repeat(np.arange(known.rows), known.counts()).astype(np.int32)
    found = left_out(of, known.indices, known.values)
    assert found.counts.tolist() == (known.counts()[of] - 1).tolist()
    assert found.described.tolist() == features[of].any(axis=1).tolist()
    for place, row in enumerate(of.tolist()):
        columns, ratings = known.row(row)
        kept = columns != known.indices[place]
        mean = scaling.mean_of(columns[kept], ratings[kept], features[row])
        assert found.means[place] == pytest.approx(float(mean), abs=1e-5)
        alone = SparseRows(np.array([0, kept.sum()]), columns[kept], ratings[kept], known.columns)
        code = encode_rows(network, scaling.down(alone, features[row : row + 1], means=np.array([mean])))[0]
        np.testing.assert_allclose(found.codes[place], code, rtol=0, atol=2e-5)
    # In any order, and one at a time.
    order = np.random.default_rng(0).permutation(len(of))
    shuffled = left_out(of[order], known.indices[order], known.values[order])
    np.testing.assert_allclose(shuffled.codes, found.codes[order], rtol=0, atol=1e-6)
    single = left_out(of[:1], known.indices[:1], known.values[:1])
    np.testing.assert_allclose(single.codes, found.codes[:1], rtol=0, atol=1e-6)
