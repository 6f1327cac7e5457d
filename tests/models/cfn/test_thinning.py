"""Rows with few of their ratings: which these are, in one process and in several."""

import numpy as np
import pytest

from cofill.data.sparse import SparseRows
from cofill.exchange import ALONE, Exchange
from cofill.models.cfn import gp_fit
from cofill.models.cfn.gp_fit import first_at_random, thinned
from cofill.models.rng import draws_of_entries, seed_of
from tests.models.several_processes import together

ROWS, COLUMNS = 40, 30
LENGTHS = (1, 2, 5, 8)


def some_rows() -> SparseRows:
    rng = np.random.default_rng(0)
    known = rng.random((ROWS, COLUMNS)) < rng.random((ROWS, 1))
    known[3], known[4] = False, np.arange(COLUMNS) == 7  # one without ratings, and one with a single one
    row, column = np.nonzero(known)
    indptr = np.concatenate([[0], np.cumsum(known.sum(1))]).astype(np.int64)
    return SparseRows(indptr, column.astype(np.int32), rng.normal(size=len(row)).astype(np.float32), COLUMNS)


def keys(count: int) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    return np.random.default_rng(count).integers(0, 2**63, count).astype(np.uint64)


def kept_of(
    rows: SparseRows, lengths: tuple[int, ...], columns: slice = slice(None), exchange: Exchange = ALONE
) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Places of the ratings that are left; row i has the length number i."""
    first = first_at_random(rows, max(lengths), 5, keys(ROWS), keys(COLUMNS)[columns], exchange)
    counts = exchange.all_reduce(rows.counts())
    left, kept = thinned(rows, first, np.resize(lengths, ROWS), counts)
    np.testing.assert_array_equal(left.values, rows.values[kept])
    np.testing.assert_array_equal(left.indices, rows.indices[kept])
    np.testing.assert_array_equal(left.counts(), np.diff(np.searchsorted(kept, rows.indptr)))
    return kept


def kept_pairs(
    rows: SparseRows, kept: "np.ndarray[tuple[int], np.dtype[np.int64]]", first: int = 0
) -> set[tuple[int, int]]:
    row = np.repeat(np.arange(rows.rows), rows.counts())[kept]
    return set(zip(row.tolist(), (rows.indices[kept] + first).tolist(), strict=True))


def test_a_row_keeps_the_ratings_with_the_smallest_draws() -> None:
    rows = some_rows()
    seed = seed_of(5, gp_fit._THINNING_DRAW, 1)
    draws = draws_of_entries(seed, keys(ROWS), keys(COLUMNS), rows.indptr, rows.indices)
    for length in LENGTHS:
        kept = kept_of(rows, (length,))
        for row in range(ROWS):
            entries = np.arange(rows.indptr[row], rows.indptr[row + 1])
            wanted = min(length, max(len(entries) // 2, 1))
            smallest = np.sort(entries[np.argsort(draws[entries])][:wanted])
            np.testing.assert_array_equal(kept[(kept >= rows.indptr[row]) & (kept < rows.indptr[row + 1])], smallest)
    assert not len(kept_of(rows, (0,)))


def test_some_rows_at_a_time_are_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = kept_of(some_rows(), LENGTHS)
    for ratings in (1, 50, 10**6):
        monkeypatch.setattr(gp_fit, "_DRAWN_AT_ONCE", ratings)
        np.testing.assert_array_equal(kept_of(some_rows(), LENGTHS), whole)


@pytest.mark.parametrize("lengths", [LENGTHS, (0,), (0, 3)])
@pytest.mark.parametrize("cut", [0, 11, COLUMNS])
def test_several_processes_keep_what_one_keeps(cut: int, lengths: tuple[int, ...]) -> None:
    """Also one that has no column at all."""
    rows = some_rows()
    by_column = rows.transpose()

    def of_process(exchange: Exchange) -> set[tuple[int, int]]:
        columns = slice(0, cut) if exchange.rank == 0 else slice(cut, COLUMNS)
        own = by_column.take(np.arange(COLUMNS)[columns]).transpose()
        return kept_pairs(own, kept_of(own, lengths, columns, exchange), columns.start)

    first, second = together(2, of_process)
    assert first | second == kept_pairs(rows, kept_of(rows, lengths))
    assert not first & second
