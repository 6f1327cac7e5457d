"""Grades, from a dense matrix to a sparse one and back."""

import numpy as np

from cofill.arrays import Doubles
from cofill.data.sparse import SparseRows
from cofill.models.lists.feedback import joined


def sparse_of(grades: Doubles) -> SparseRows:
    rows = [(np.flatnonzero(row).astype(np.int32), row[row != 0].astype(np.float32)) for row in grades]
    return joined(rows, grades.shape[1])


def dense_of(rows: SparseRows) -> Doubles:
    dense = np.zeros((rows.rows, rows.columns))
    for index in range(rows.rows):
        columns, values = rows.row(index)
        dense[index, columns] = values
    return dense
