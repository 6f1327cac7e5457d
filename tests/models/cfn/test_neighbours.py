"""The table of nearest rows against sorting, and sums over it against a dense kernel that was cut."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.data.sparse import SparseRows
from cofill.models.cfn import neighbours
from cofill.models.cfn.gp import local_kernel
from cofill.models.cfn.neighbours import Neighbours, add_rows, local_at_pairs, nearest_to
from tests.models.cfn.codes import Floats, some_codes, some_ratings, some_space

LAW = settings(max_examples=25, deadline=None)


def directions(count: int, seed: int = 0) -> Floats:
    return some_space(seed).directions(some_codes(count, seed))


def all_of(count: int) -> npt.NDArray[np.bool_]:
    return np.ones(count, np.bool_)


def cut_kernel(found: Floats, most: int, rated: npt.NDArray[np.bool_]) -> Floats:
    """(rows, rows): of each row to the nearest of those that were rated, by sorting."""
    cosines = found @ found.T
    cut = np.zeros_like(cosines)
    usable = np.flatnonzero(rated)
    for row in range(len(found)):
        chosen = usable[np.argsort(-cosines[row, usable], kind="stable")[:most]]
        cut[row, chosen] = local_kernel(cosines[row, chosen])
    return cut


def dense(table: Neighbours, count: int) -> Floats:
    whole = np.zeros((count, count), np.float32)
    np.put_along_axis(whole, table.rows.astype(np.int64), table.kernel, 1)
    return whole


@LAW
@given(
    count=st.integers(1, 40), most=st.integers(1, 50), seed=st.integers(0, 99), step=st.sampled_from([1, 100, 10**6])
)
def test_the_table_has_the_nearest_rows(count: int, most: int, seed: int, step: int) -> None:
    found = directions(count, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "_AT_ONCE", step)
        table = Neighbours.of(found, most, all_of(count))
    assert table.rows.shape == table.kernel.shape == (count, min(most, count))
    np.testing.assert_allclose(dense(table, count), cut_kernel(found, most, all_of(count)), rtol=0, atol=1e-5)
    np.testing.assert_allclose(table.kernel.max(axis=1), 1, rtol=1e-5)  # a row is nearest to itself
    for row in range(0, count, 7):
        near = nearest_to(found[row], found, most, all_of(count))
        assert near.rows.tolist() == sorted(near.rows.tolist()) == table.rows[row].tolist()
        np.testing.assert_allclose(near.kernel, table.kernel[row], rtol=0, atol=1e-5)


@LAW
@given(count=st.integers(2, 30), most=st.integers(1, 12), seed=st.integers(0, 99))
def test_rows_without_ratings_are_near_to_none(count: int, most: int, seed: int) -> None:
    """But have nearest rows themselves."""
    found, rated = directions(count, seed), np.arange(count) % 3 != 1
    table = Neighbours.of(found, most, rated)
    np.testing.assert_allclose(dense(table, count), cut_kernel(found, most, rated), rtol=0, atol=1e-5)
    near = nearest_to(found[1], found, most, rated)
    np.testing.assert_allclose(np.sort(near.kernel), np.sort(table.kernel[1]), rtol=0, atol=1e-5)


@LAW
@given(count=st.integers(1, 30), most=st.integers(1, 35), seed=st.integers(0, 99))
def test_the_table_the_other_way_round(count: int, most: int, seed: int) -> None:
    table = Neighbours.of(directions(count, seed), most, all_of(count))
    again = np.zeros((count, count), np.float32)
    for row in range(count):
        near_to, kernel = table.by_rated.row(row)
        again[near_to, row] = kernel
    np.testing.assert_array_equal(again, dense(table, count))


def ratings(count: int, seed: int) -> tuple[SparseRows, Floats]:
    """Column by column, and a pull for each."""
    lengths = np.random.default_rng(seed).integers(0, count + 1, 12).tolist()
    by_column = some_ratings(lengths, count, seed).by_column
    return by_column, by_column.values


@LAW
@given(count=st.integers(1, 30), most=st.integers(1, 35), seed=st.integers(0, 99))
def test_every_sum_is_that_of_the_dense_kernel(count: int, most: int, seed: int) -> None:
    table = Neighbours.of(directions(count, seed), most, all_of(count))
    by_column, pull = ratings(count, seed)
    pulls = np.zeros((count, by_column.rows), np.float32)
    columns = np.repeat(np.arange(by_column.rows), by_column.counts())
    pulls[by_column.indices, columns] = pull
    expected = dense(table, count) @ pulls  # (rows, columns)

    for column in range(by_column.rows):
        at = slice(by_column.indptr[column], by_column.indptr[column + 1])
        out = np.zeros(count, np.float32)
        near_to = table.by_rated
        add_rows(near_to.indptr, near_to.indices, near_to.values, by_column.indices[at], pull[at], out)
        np.testing.assert_allclose(out, expected[:, column], rtol=0, atol=1e-4)

    by_row = by_column.transpose()
    pull_by_row = pull[np.argsort(by_column.indices, kind="stable")]
    np.testing.assert_array_equal(pull_by_row, by_row.values)
    for row in range(count):
        out = np.zeros(by_column.rows, np.float32)
        add_rows(by_row.indptr, by_row.indices, pull_by_row, table.rows[row], table.kernel[row], out)
        np.testing.assert_allclose(out, expected[row], rtol=0, atol=1e-4)

    rng = np.random.default_rng(seed)
    asked = np.sort(rng.integers(0, by_column.rows, 50)).astype(np.int32)
    rows = rng.integers(0, count, 50).astype(np.int32)
    memory, out = np.zeros(count, np.float32), np.full(50, np.nan, np.float32)
    local_at_pairs(table.rows, table.kernel, by_column.indptr, by_column.indices, pull, rows, asked, memory, out)
    np.testing.assert_allclose(out, expected[rows, asked], rtol=0, atol=1e-4)
    assert not memory.any()


def test_of_very_many_rows_most_of_the_nearest_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in clusters of all sizes, some of which were not rated, and some all alike."""
    monkeypatch.setattr(neighbours, "MOST_COMPARED", 1000)
    monkeypatch.setattr(neighbours, "_GROUP", 50)
    monkeypatch.setattr(neighbours, "_COMPARED", 600)
    rng = np.random.default_rng(0)
    centres, of = rng.normal(size=(60, 24)), np.minimum(rng.geometric(0.05, 4000), 60) - 1
    found = (centres[of] + 0.5 * rng.normal(size=(4000, 24))).astype(np.float32)
    found[:300] = found[0]
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    rated = rng.random(4000) < 0.8
    table = Neighbours.of(found, 20, rated)
    assert rated[table.rows].all()
    assert all(len(set(rows)) == 20 for rows in table.rows.tolist())
    cosines = np.einsum("ij,imj->im", found, found[table.rows])
    np.testing.assert_allclose(table.kernel, local_kernel(cosines), rtol=1e-3, atol=1e-6)
    exact = np.sort(np.where(rated, found @ found.T, -2), axis=1)[:, -20:]
    recall = (cosines >= exact[:, :1] - 1e-5).mean()
    assert recall > 0.9
    own = np.flatnonzero(rated & (np.arange(4000) >= 300))
    assert (table.rows[own] == own[:, None]).any(1).all()  # a row is among its own nearest


def test_no_rows_at_all() -> None:
    table = Neighbours.of(np.empty((0, 4), np.float32), 5, all_of(0))
    assert table.rows.shape == (0, 0)
    assert table.by_rated.indptr.tolist() == [0]
