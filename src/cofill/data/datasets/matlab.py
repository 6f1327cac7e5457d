"""Data sets that are one MATLAB file (version 7.3, which is HDF5): ratings, splits and links as matrices.

HDF5 shows a matrix of MATLAB transposed; here it is users by items again. Ids are MATLAB's numbers, from 1.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cofill.data.datasets.catalogue import Dataset, again
from cofill.data.ratings import Ratings
from cofill.errors import DataError, DatasetError
from cofill.extras import require

MOST_CELLS = 100_000_000
Matrix = npt.NDArray[np.float64]
Link = tuple[int, int, float]


def check_content(entry: Dataset, path: Path) -> None:
    """Raise if a matrix is missing or damaged, or if ratings are missing."""
    if (found := len(read_ratings(entry, path))) != entry.ratings:
        missing = f"it has {found:,} ratings instead of {entry.ratings:,}; it is not {entry.name}, or not all of it"
        raise _fault(entry, path, missing)


def read_ratings(entry: Dataset, path: Path, masks: Sequence[str] = ()) -> Ratings:
    """The ratings that are marked with 1 in one of the `masks`; else all, those of training and of test."""
    masks = masks or [mask for fold in entry.folds[:1] for mask in fold]
    values, *marks = _matrices(entry, path, (entry.ratings_member, *masks))
    for name, mark in zip(masks, marks, strict=True):
        if mark.shape != values.shape or not np.isin(mark, (0.0, 1.0)).all():
            raise _fault(entry, path, f"{name} has no 0 or 1 for each cell of {entry.ratings_member}")
    marked = np.sum(marks, axis=0)
    users, items = np.nonzero(marked)
    if not len(users) or marked.max() > 1.0:
        raise _fault(entry, path, f"{' and '.join(masks)} mark no rating, or one of them twice")
    try:
        return Ratings.read((users + 1, items + 1, values[users, items]), scale=entry.scale)
    except DataError as error:
        raise _fault(entry, path, f"{entry.ratings_member}: {error}") from error


def read_links(entry: Dataset, path: Path, name: str) -> list[Link]:
    """Who is linked to whom, and how much."""
    (links,) = _matrices(entry, path, (name,))
    if links.shape[0] != links.shape[1] or not np.isfinite(links).all():
        raise _fault(entry, path, f"{name} is no square of numbers")
    ones, others = np.nonzero(links)
    return list(zip((ones + 1).tolist(), (others + 1).tolist(), links[ones, others].tolist(), strict=True))


def _matrices(entry: Dataset, path: Path, names: Sequence[str]) -> list[Matrix]:
    require("a MATLAB file", "hdf5", "h5py")
    h5py: Any = import_module("h5py")
    try:
        with h5py.File(path, "r") as file:
            return [_matrix(entry, path, file, name) for name in names]
    except (OSError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise _fault(entry, path, f"truncated or damaged, or not to be read ({reason})") from error


def _matrix(entry: Dataset, path: Path, file: Any, name: str) -> Matrix:
    found = file.get(name)
    shape = getattr(found, "shape", None)
    if shape is None or len(shape) != 2 or found.dtype.kind not in "fiub" or found.size > MOST_CELLS:
        raise _fault(entry, path, f"there is no matrix {name} of the usual size inside")
    return np.asarray(found, np.float64).T


def _fault(entry: Dataset, path: Path, problem: str) -> DatasetError:
    return DatasetError(f"{path}: {problem}. {again(entry)}")
