"""Rows with few of their ratings: which these are, in one process and in several."""

import numpy as np
import pytest

from cofill.data.sparse import SparseRows
from cofill.exchange import ALONE, Exchange
from cofill.models.cfn import first_decoder
from cofill.models.cfn.first_decoder import Thinning
from cofill.models.portion import Portion
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


def portion_of(columns: slice = slice(None), exchange: Exchange = ALONE) -> Portion:
    return Portion(keys(ROWS), keys(COLUMNS)[columns], COLUMNS, exchange)


def kept_pairs(thinned: SparseRows, first_column: int = 0) -> set[tuple[int, int]]:
    rows = np.repeat(np.arange(thinned.rows), thinned.counts())
    return set(zip(rows.tolist(), (thinned.indices + first_column).tolist(), strict=True))


@pytest.mark.parametrize("at_once", [1, 50, 10**6])
def test_a_row_keeps_the_ratings_with_the_smallest_draws(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_decoder, "_SORTED_AT_ONCE", at_once)
    rows, portion = some_rows(), portion_of()
    thinning = Thinning(rows, max(LENGTHS), 5, portion)
    seed = seed_of(5, first_decoder._THINNING_DRAW, 1)
    draws = draws_of_entries(seed, portion.row_keys, portion.column_keys, rows.indptr, rows.indices)
    for length in LENGTHS:
        thinned, kept = thinning.rows((length,))
        np.testing.assert_array_equal(thinned.values, rows.values[kept])
        np.testing.assert_array_equal(thinned.indices, rows.indices[kept])
        for row in range(ROWS):
            entries = np.arange(rows.indptr[row], rows.indptr[row + 1])
            wanted = min(length, max(len(entries) // 2, 1))
            smallest = np.sort(entries[np.argsort(draws[entries])][:wanted])
            np.testing.assert_array_equal(kept[thinned.indptr[row] : thinned.indptr[row + 1]], smallest)
    nothing, _ = thinning.rows((0,))
    assert nothing.nnz == 0


@pytest.mark.parametrize("cut", [0, 11, COLUMNS])
def test_several_processes_keep_what_one_keeps(cut: int) -> None:
    """Also one that has no column at all."""
    rows = some_rows()
    by_column = rows.transpose()
    whole, _ = Thinning(rows, max(LENGTHS), 5, portion_of()).rows(LENGTHS)

    def of_process(exchange: Exchange) -> set[tuple[int, int]]:
        columns = slice(0, cut) if exchange.rank == 0 else slice(cut, COLUMNS)
        own = by_column.take(np.arange(COLUMNS)[columns]).transpose()
        thinned, _ = Thinning(own, max(LENGTHS), 5, portion_of(columns, exchange)).rows(LENGTHS)
        return kept_pairs(thinned, columns.start)

    first, second = together(2, of_process)
    assert first | second == kept_pairs(whole)
    assert not first & second
