"""The known ratings of a model as arrays for its file, and back, checked."""

from typing import Any

import numpy as np

from cofill.data.known import KnownRatings
from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows

Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]


def known_arrays(known: KnownRatings) -> Arrays:
    """The ratings of the training, row by row, those that came later, and which of the former are gone."""
    later_rows, later_columns, later_ratings = known.later()
    removed_rows, removed_columns = known.removed()
    return {
        "indptr": known.trained.indptr,
        "indices": known.trained.indices,
        "values": known.trained.values,
        "shape": np.array([known.trained.rows, known.trained.columns], np.int64),
        "later.rows": later_rows,
        "later.columns": later_columns,
        "later.ratings": later_ratings,
        "removed.rows": removed_rows,
        "removed.columns": removed_columns,
    }


def known_from(arrays: Arrays, scale: Scale, rows_known: int, columns_known: int) -> KnownRatings:
    """Known ratings of so many rows and columns, from their arrays; ValueError where they make no sense."""
    rows, columns = (int(size) for size in arrays["shape"])
    trained = SparseRows(arrays["indptr"], arrays["indices"], arrays["values"], columns)
    if len(trained.indptr) != rows + 1 or (np.diff(trained.indptr) < 0).any():
        raise ValueError("the rows of the ratings are out of order")
    if not trained.indptr[0] == 0 or not trained.indptr[-1] == len(trained.indices) == len(trained.values):
        raise ValueError("the ratings have no consistent length")
    if trained.nnz and not 0 <= int(trained.indices.min()) <= int(trained.indices.max()) < trained.columns:
        raise ValueError("a rating points at a column that does not exist")
    within = np.diff(trained.indices.astype(np.int64)) > 0
    within[np.setdiff1d(trained.indptr[1:-1], [0, trained.nnz]) - 1] = True  # from one row to the next
    if not within.all():
        raise ValueError("the ratings of a row are out of order")
    for values in (trained.values, arrays["later.ratings"]):
        if values.dtype != np.float32 or not ((values >= scale.low) & (values <= scale.high)).all():
            raise ValueError("a rating is outside the scale")
    for name, most in (("later.rows", rows_known), ("later.columns", columns_known)):
        if ((arrays[name] < 0) | (arrays[name] >= most)).any():
            raise ValueError("a later rating points at a row or column that does not exist")
    if rows > rows_known or columns > columns_known:
        raise ValueError("there is another number of users and items than the ratings have")
    known = KnownRatings(trained, trained.transpose())
    for row, column, rating in zip(
        arrays["later.rows"].tolist(), arrays["later.columns"].tolist(), arrays["later.ratings"].tolist(), strict=True
    ):
        known.add(row, column, rating)
    _remove(known, arrays)
    known.grow(rows_known, columns_known)
    return known


def _remove(known: KnownRatings, arrays: Arrays) -> None:
    """Take out what is gone; a model that was written before ratings could go says nothing of it."""
    rows, columns = (arrays.get(f"removed.{side}", np.empty(0, np.int32)) for side in ("rows", "columns"))
    if len(rows) != len(columns) or not (rows.dtype.kind == columns.dtype.kind == "i"):
        raise ValueError("the removed ratings have no consistent length")
    later = set(zip(*(indices.tolist() for indices in known.later()[:2]), strict=True))
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        if row < 0 or (row, column) in later or not known.remove(row, column):
            raise ValueError("a rating is said to be removed that was not trained on")
