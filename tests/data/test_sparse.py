"""Known ratings that come, change and go: every reader says what a plain dictionary says."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.arrays import Ints
from cofill.data.sparse import KnownRatings, SparseRows, known_arrays, known_from

ROWS, COLUMNS = 3, 4
MOST = 6  # rows and columns that later ratings may have
TRAINED = {(0, 0): 1.0, (0, 2): 5.0, (1, 1): 3.3, (2, 0): 2.0, (2, 1): 4.0, (2, 3): 1.0}
Pairs = dict[tuple[int, int], float]
Step = tuple[int, int, float | None]

index = st.integers(0, MOST - 1)
changes = st.lists(st.tuples(index, index, st.sampled_from([None, 1.0, 2.0, 3.3, 4.0, 5.0])), max_size=25)


def index_of(place: int) -> Ints:
    return np.array([place], np.int32)


def fresh() -> KnownRatings:
    pairs = sorted(TRAINED)
    indptr = np.searchsorted([row for row, _ in pairs], range(ROWS + 1)).astype(np.int64)
    columns = np.array([column for _, column in pairs], np.int32)
    trained = SparseRows(indptr, columns, np.array([TRAINED[pair] for pair in pairs], np.float32), COLUMNS)
    return KnownRatings(trained, trained.transpose())


def changed(steps: list[Step]) -> tuple[KnownRatings, Pairs]:
    """Ratings after some were added (those with a value) and removed, and what is right."""
    known, right = fresh(), dict(TRAINED)
    for row, column, rating in steps:
        before = right.get((row, column))
        if rating is None:
            assert known.remove(index_of(row), index_of(column)).tolist() == [before is not None]
            right.pop((row, column), None)
        else:
            assert known.add(index_of(row), index_of(column), np.array([rating])).tolist() == [before != rating]
            right[row, column] = rating
    return known, right


def state(known: KnownRatings) -> dict[str, Any]:
    """All that is known, from every reader."""
    return {
        "rows": [[array.tolist() for array in known.row(i)] for i in range(MOST)],
        "columns": [[array.tolist() for array in known.column(i)] for i in range(MOST)],
        "updates": known.updates(),
        "counts": [
            np.pad(counts, (0, MOST - len(counts))).tolist() for counts in (known.row_counts, known.column_counts)
        ],
        "changed": [known.changed_rows().tolist(), known.changed_columns().tolist()],
    }


@settings(deadline=None)
@given(changes)
def test_every_reader_follows(steps: list[Step]) -> None:
    known, right = changed(steps)
    for i in range(MOST):
        in_row = {column: np.float32(rating) for (row, column), rating in sorted(right.items()) if row == i}
        in_column = {row: np.float32(rating) for (row, column), rating in sorted(right.items()) if column == i}
        for (indices, ratings), expected in ((known.row(i), in_row), (known.column(i), in_column)):
            assert indices.dtype == np.int32
            assert ratings.dtype == np.float32
            assert (indices.tolist(), ratings.tolist()) == (list(expected), list(expected.values()))
    rows, columns = (array.ravel().astype(np.int32) - 1 for array in np.indices((MOST + 1, MOST + 1)))
    pairs = list(zip(rows.tolist(), columns.tolist(), strict=True))
    assert known.contains(rows, columns).tolist() == [pair in right for pair in pairs]

    assert [known.rating(*pair) for pair in pairs if min(pair) >= 0] == [
        right[pair] and np.float32(right[pair]) if pair in right else None for pair in pairs if min(pair) >= 0
    ]
    assert known.row_counts.sum() == known.column_counts.sum() == len(right)

    later = {pair: rating for pair, rating in right.items() if rating != TRAINED.get(pair)}
    gone = sorted(set(TRAINED) - set(right))
    updates: dict[tuple[int, int], Any] = later | dict.fromkeys(gone)
    assert [(row, column) for row, column, _ in known.updates()] == sorted(updates)
    assert [rating for _, _, rating in known.updates()] == pytest.approx([updates[pair] for pair in sorted(updates)])
    for i in range(MOST):
        assert known.later_in_row(i) == pytest.approx({c: r for (row, c), r in later.items() if row == i})
        assert known.row_as_trained(i) == (i < ROWS and i not in {row for row, _ in [*later, *gone]})
        assert known.column_as_trained(i) == (i < COLUMNS and i not in {column for _, column in [*later, *gone]})
    assert known.changed_rows().tolist() == sorted({row for row, _ in [*later, *gone]})
    assert known.changed_columns().tolist() == sorted({column for _, column in [*later, *gone]})


@settings(deadline=None)
@given(changes, st.randoms(use_true_random=False))
def test_only_what_it_came_to_counts(steps: list[Step], random: Any) -> None:
    """Neither the way there nor the order is left to be seen."""
    known, right = changed(steps)
    straight: list[Step] = [(*pair, rating) for pair, rating in right.items() if rating != TRAINED.get(pair)]
    straight += [(*pair, None) for pair in set(TRAINED) - set(right)]
    random.shuffle(straight)
    assert state(changed(straight)[0]) == state(known)


@settings(deadline=None)
@given(changes)
def test_what_is_kept_comes_back(steps: list[Step]) -> None:
    known = changed(steps)[0]
    back = known_from(known_arrays(known), known.rows, known.columns)
    assert state(back) == state(known)
    assert (back.rows, back.columns) == (known.rows, known.columns)


@settings(deadline=None)
@given(changes, changes)
def test_a_transposed_view_sees_every_change_and_passes_its_own_on(first: list[Step], second: list[Step]) -> None:
    known, _ = changed(first)
    view = known.transposed()
    for row, column, rating in second:
        if rating is None:
            view.remove(index_of(column), index_of(row))
        else:
            view.add(index_of(column), index_of(row), np.array([rating]))
    now = state(known)
    turned = state(view)
    assert turned["rows"] == now["columns"]
    assert turned["columns"] == now["rows"]
    assert turned["changed"] == now["changed"][::-1]
    assert (view.rows, view.columns) == (known.columns, known.rows)
    assert turned["counts"] == now["counts"][::-1]
    assert turned["updates"] == sorted(((c, r, v) for r, c, v in now["updates"]), key=lambda one: one[:2])
