"""Inverses of many matrices are those of each, small or large; rounding does not spoil them."""

import numpy as np
import pytest

from cofill.models.cfn.gp_batch import cholesky, explained_by, times_inverse


@pytest.mark.parametrize("sides", [1, 3])
@pytest.mark.parametrize("rows", [0, 1, 2, 7, 40, 41, 90])
def test_every_matrix_by_itself(rows: int, sides: int) -> None:
    rng = np.random.default_rng(rows)
    half = rng.normal(size=(5, rows, 12))
    matrices = (half @ half.transpose(0, 2, 1) / 12 + 0.5 * np.eye(rows)).astype(np.float32)
    right = rng.normal(size=(5, rows, sides)).astype(np.float32)
    before = matrices.copy(), right.copy()
    factors = cholesky(matrices)
    found = times_inverse(factors, right)
    expected = np.linalg.solve(matrices.astype(np.float64), right.astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    explained = np.einsum("bnm,bnm->bm", right.astype(np.float64), expected)
    np.testing.assert_allclose(explained_by(factors, right.transpose(0, 2, 1)), explained, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(matrices, before[0])
    np.testing.assert_array_equal(right, before[1])


@pytest.mark.parametrize("rows", [3, 60])
def test_a_kernel_that_single_precision_takes_for_indefinite(rows: int) -> None:
    """As where codes are all alike and noise is next to nothing."""
    matrices = (np.full((2, rows, rows), 100.0) + 1e-6 * np.eye(rows)).astype(np.float32)
    matrices[1] = np.eye(rows)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(matrices)
    found = times_inverse(cholesky(matrices), np.ones((2, rows, 1), np.float32))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[1, :, 0], 1.0, rtol=1e-6)
    again = (matrices[0].astype(np.float64) @ found[0].astype(np.float64))[:, 0]
    np.testing.assert_allclose(again, 1.0, rtol=0, atol=1e-3)
