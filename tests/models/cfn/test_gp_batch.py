"""All columns at once are each column by itself, however they are put into batches: weights, factors, variances."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from cofill.models.cfn import gp
from cofill.models.cfn.codes import CodeSpace, EncodedRows
from cofill.models.cfn.gp import (
    ColumnWeights,
    Expected,
    KernelInputs,
    KernelParams,
    KernelParts,
    Posterior,
    batches,
    cholesky,
    explained_by,
    local_kernel,
    solve_columns,
    times_inverse,
)
from tests.models.cfn.codes import AMPLITUDES, Floats, Rated, some_codes, some_ratings, some_space

ROWS = 40
LENGTHS = [3, 0, 1, 17, 40, 8, 8, 25, 0, 2, 31, 5]
FEATURES = np.random.default_rng(7).normal(size=(len(LENGTHS), 2)).astype(np.float32)


def expected(space: CodeSpace, columns: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
    return space.expected(FEATURES[columns]), FEATURES[columns, 0] * np.float32(0.3)


def solved(space: CodeSpace, rated: Rated, amplitudes: KernelParams) -> ColumnWeights:
    return solve_columns(rated.columns(space, lambda at: expected(space, at)), amplitudes)


def one_by_one(space: CodeSpace, rated: Rated, amplitudes: KernelParams) -> ColumnWeights:
    found = []
    weights, biases = expected(space, np.arange(len(LENGTHS)))
    for column in range(len(LENGTHS)):
        at = slice(int(rated.by_column.indptr[column]), int(rated.by_column.indptr[column + 1]))
        shrinkage = amplitudes.shrinkage(rated.counts[at], rated.described[at])
        seen = KernelInputs.of(space, rated.codes[at], shrinkage)
        targets = rated.by_column.values[at] - rated.means[at]
        about = Expected(weights[column], float(biases[column]))
        own = amplitudes.for_column(len(targets))
        found.append(Posterior(space, own, seen, targets, about).weights())
    linear, cosine, bias = (np.stack([part[n] for part in found]) for n in range(3))
    return ColumnWeights(linear, cosine, bias, np.concatenate([part.alpha for part in found]))


def assert_same(one: ColumnWeights, other: ColumnWeights, within: float) -> None:
    for name, ours, theirs in zip(one._fields, one, other, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=within, err_msg=name)


KINDS = {
    "local": AMPLITUDES,
    "no local kernel": replace(AMPLITUDES, local=0.0),  # longer columns in the primal
    "short columns are others": replace(AMPLITUDES, short=(0.3, 0.1, 0.2, 0.1)),
    "short columns in the primal": replace(AMPLITUDES, local=0.0, short=(0.3, 0.1, 0.2, 0.0)),
    "features count": replace(AMPLITUDES, features=4.0),
    "biases alone": replace(AMPLITUDES, taste=0.0, cosine=0.0, local=0.0, mean=0.0),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_all_at_once_are_each_by_itself(kind: str, seed: int) -> None:
    space, rated = some_space(seed, features=2), some_ratings(LENGTHS, ROWS, seed)
    assert_same(solved(space, rated, KINDS[kind]), one_by_one(space, rated, KINDS[kind]), 1e-4)


@pytest.mark.parametrize("numbers", [1, 100, 2000])
def test_what_is_padded_changes_nothing(numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    space, rated = some_space(features=2), some_ratings(LENGTHS, ROWS)
    whole = solved(space, rated, AMPLITUDES)
    monkeypatch.setattr(gp, "_NUMBERS", numbers)
    parts = list(batches(rated.by_column.indptr, np.arange(len(LENGTHS)), 6))
    assert len(parts) > 1
    assert sorted(np.concatenate([part.columns for part in parts]).tolist()) == list(range(len(LENGTHS)))
    places = np.concatenate([part.places[part.mask] for part in parts])
    assert sorted(places.tolist()) == list(range(sum(LENGTHS)))
    assert_same(solved(space, rated, AMPLITUDES), whole, 1e-5)


def test_very_long_columns_are_solved_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the local kernel, as a posterior of their own would be."""
    space, rated = some_space(features=2), some_ratings(LENGTHS, ROWS)
    monkeypatch.setattr(gp, "MOST_LOCAL", 20)
    found = solved(space, rated, AMPLITUDES)
    assert_same(found, one_by_one(space, rated, AMPLITUDES), 1e-4)
    lengths = np.repeat(LENGTHS, LENGTHS)
    assert not found.alpha[lengths > 20].any()
    assert found.alpha[lengths <= 20].any()


def test_how_far_it_is_is_told() -> None:
    shares: list[float] = []
    space, rated = some_space(), some_ratings(LENGTHS, ROWS)
    for amplitudes in (AMPLITUDES, replace(AMPLITUDES, local=0.0)):
        shares.clear()
        data = rated.columns(space, lambda at: (space.expected(FEATURES[at, :0]), np.zeros(len(at), np.float32)))
        solve_columns(data, amplitudes, shares.append)
        assert shares == sorted(shares)
        assert shares[-1] == pytest.approx(1)


@pytest.mark.parametrize("size", [1.0, 30.0])
def test_single_precision_is_precise_enough(size: float) -> None:
    """Noise is never far below what ratings scatter by; amplitudes may have grown to hundreds of times the first."""
    space, rated = some_space(features=2), some_ratings(LENGTHS, ROWS)
    large = KernelParams(0.2, 0.1 * size, 0.3 * size, size, size, 0.1, 0.6, 0.0)
    found, exact = solved(space, rated, large), one_by_one(space, rated, large)
    codes = some_codes(50, 5)
    ours, theirs = (codes @ f.linear[:, :-1].T + f.linear[:, -1] for f in (found, exact))
    for one, other in ((ours, theirs), (found.bias, exact.bias), (found.alpha, exact.alpha)):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=2e-3)


def test_rows_with_very_many_ratings_are_read_with_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """One rating more or less is not seen in their codes."""
    monkeypatch.setattr(gp, "LEFT_OUT", 20)
    space, rated = some_space(features=2), some_ratings(LENGTHS, ROWS)
    counts = np.random.default_rng(2).integers(0, 40, ROWS)
    whole = EncodedRows(some_codes(ROWS, 9), np.full(ROWS, 0.1, np.float32), counts, counts % 2 > 0)
    data = replace(rated.columns(space, lambda at: expected(space, at)), whole=whole)
    rows = rated.by_column.indices
    long = counts[rows] > 20
    mixed = replace(
        rated,
        codes=np.where(long[:, None], whole.codes[rows], rated.codes),
        means=np.where(long, whole.means[rows], rated.means),
        counts=np.where(long, counts[rows] - 1, rated.counts),
        described=np.where(long, whole.described[rows], rated.described),
    )
    assert 0 < long.sum() < len(long)
    assert_same(solve_columns(data, AMPLITUDES), one_by_one(space, mixed, AMPLITUDES), 1e-4)


# Parts of the kernel


@pytest.mark.parametrize("rows", [0, 1, 13])
def test_parts_times_vectors(rows: int) -> None:
    def projected(count: int) -> tuple[Floats, Floats]:
        along, directions = some_space().projected(some_codes(2 * count, count))
        return along.reshape(2, count, along.shape[1]), directions.reshape(2, count, along.shape[1])

    some, others = projected(rows), projected(7)
    vectors = np.random.default_rng(1).normal(size=(2, 7, 2)).astype(np.float32)
    taste, cosine = (one @ other.transpose(0, 2, 1) for one, other in zip(some, others, strict=True))
    between = KernelParts.between(some, others).times(vectors)
    for found, part in zip(between, (taste, cosine, local_kernel(cosine)), strict=True):
        np.testing.assert_allclose(found, part @ vectors, rtol=0, atol=1e-4)
    for found, part in zip(KernelParts.inside(others), others, strict=True):
        np.testing.assert_allclose(np.tril(found), np.tril(part @ part.transpose(0, 2, 1)), rtol=0, atol=1e-5)


# Many systems at once


@pytest.mark.parametrize("sides", [1, 3])
@pytest.mark.parametrize("rows", [0, 1, 2, 7, 40, 41, 90])
def test_every_matrix_by_itself(rows: int, sides: int) -> None:
    rng = np.random.default_rng(rows)
    half = rng.normal(size=(5, rows, 12))
    matrices = (half @ half.transpose(0, 2, 1) / 12 + 0.5 * np.eye(rows)).astype(np.float32)
    right = rng.normal(size=(5, rows, sides)).astype(np.float32)
    before = right.copy()
    factors = cholesky(matrices.copy)
    found = times_inverse(factors, right)
    expected = np.linalg.solve(matrices.astype(np.float64), right.astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    explained = np.einsum("bnm,bnm->bm", right.astype(np.float64), expected)
    np.testing.assert_allclose(explained_by(factors, right.transpose(0, 2, 1)), explained, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(right, before)


@pytest.mark.parametrize("rows", [3, 60])
def test_a_kernel_that_single_precision_takes_for_indefinite(rows: int) -> None:
    """As where codes are all alike and noise is next to nothing."""
    matrices = (np.full((2, rows, rows), 100.0) + 1e-6 * np.eye(rows)).astype(np.float32)
    matrices[1] = np.eye(rows)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(matrices)
    found = times_inverse(cholesky(matrices.copy), np.ones((2, rows, 1), np.float32))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[1, :, 0], 1.0, rtol=1e-6)
    again = (matrices[0].astype(np.float64) @ found[0].astype(np.float64))[:, 0]
    np.testing.assert_allclose(again, 1.0, rtol=0, atol=1e-3)


def test_codes_without_directions_have_no_products() -> None:
    """As where all codes are alike. BLAS rejects them, and would leave whatever was in the memory."""
    nothing = np.empty((2, 3, 0), np.float32)
    np.testing.assert_array_equal(KernelParts.inside((nothing, nothing)).taste, np.zeros((2, 3, 3)))
