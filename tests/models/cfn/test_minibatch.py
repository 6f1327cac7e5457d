"""The mark of rows that show nothing, as noise leaves them."""

from typing import get_args

import numpy as np
import pytest
import torch

from cofill.config import Noise
from cofill.data.sparse import SparseRows
from cofill.models.cfn.corruption import Corruption
from cofill.models.cfn.minibatch import corrupt, gather
from cofill.models.cfn.scaling import ScaledRows

EMPTY, ROWS, COLUMNS = 3, 60, 5


def rows(presence: float, *, marks_empty: bool = True) -> ScaledRows:
    """Row 3 has no ratings, the others all five; some ratings are exactly zero, and some exactly -presence."""
    counts = np.full(ROWS, COLUMNS)
    counts[EMPTY] = 0
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    indices = np.tile(np.arange(COLUMNS, dtype=np.int32), ROWS - 1)
    values = np.random.default_rng(0).choice([0.0, -presence, 1.0], len(indices)).astype(np.float32)
    mark = (counts == 0).astype(np.float32)
    features = np.column_stack([np.arange(ROWS, dtype=np.float32), mark])
    known = SparseRows(indptr, indices, values, COLUMNS)
    return ScaledRows(known, np.ones(ROWS, np.float32), features, presence, marks_empty=marks_empty)


@pytest.mark.parametrize("noise", get_args(Noise))
@pytest.mark.parametrize("presence", [0.0, 0.5])
def test_a_row_is_marked_when_all_of_its_ratings_are_hidden(noise: Noise, presence: float) -> None:
    clean = gather(rows(presence), np.arange(ROWS))
    assert np.flatnonzero(clean.features[:, -1]).tolist() == [EMPTY]
    generator = torch.Generator().manual_seed(0)
    noisy = corrupt(clean, Corruption(noise, 0.3, cold_ratio=0.4), generator)
    silent = np.array([not noisy.entries.inputs[noisy.entries.rows == row].any() for row in range(ROWS)])
    hidden = np.array([noisy.entries.corrupted[noisy.entries.rows == row].all() for row in range(ROWS)])
    assert 10 < (silent & hidden).sum() < 40
    np.testing.assert_array_equal(noisy.features[:, -1], silent & hidden)
    np.testing.assert_array_equal(noisy.features[:, 0], clean.features[:, 0])
    assert np.flatnonzero(clean.features[:, -1]).tolist() == [EMPTY]  # what was clean stays clean


@pytest.mark.parametrize("noise", get_args(Noise))
def test_noise_alone_leaves_no_row_silent(noise: Noise) -> None:
    noisy = corrupt(gather(rows(0.5), np.arange(ROWS)), Corruption(noise, 0.9), torch.Generator().manual_seed(0))
    assert np.flatnonzero(noisy.features[:, -1]).tolist() == [EMPTY]


def test_features_that_are_no_marks_stay_as_they_are() -> None:
    clean = gather(rows(0.5, marks_empty=False), np.arange(ROWS))
    noisy = corrupt(clean, Corruption(cold_ratio=1.0), torch.Generator().manual_seed(0))
    assert noisy.features is clean.features
