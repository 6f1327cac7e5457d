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

MOST_CELLS = 100_000_000
Matrix = npt.NDArray[np.float64]
Link = tuple[int, int, float]


def check_content(entry: Dataset, path: Path) -> None:
    """Raise if a matrix is missing or damaged, or if ratings are missing."""
    ratings = read_ratings(entry, path, _masks(entry))
    if len(ratings) != entry.ratings:
        raise DatasetError(
            f"{path}: it has {len(ratings):,} ratings instead of {entry.ratings:,}; it is not {entry.name}, "
            f"or not all of it. {again(entry)}"
        )


def read_whole(entry: Dataset, path: Path) -> Ratings:
    """All ratings: those of the training part and those of the test part."""
    return read_ratings(entry, path, _masks(entry))


def read_ratings(entry: Dataset, path: Path, masks: Sequence[str]) -> Ratings:
    """The ratings that are marked with 1 in one of the `masks`."""
    values, *marks = _matrices(entry, path, (entry.ratings_member, *masks))
    for name, mark in zip(masks, marks, strict=True):
        if mark.shape != values.shape:
            raise _fault(entry, path, f"{name} is {_size(mark)}, {entry.ratings_member} is {_size(values)}")
        if not ((mark == 0.0) | (mark == 1.0)).all():
            raise _fault(entry, path, f"{name} has cells that are neither 0 nor 1")
    marked = sum(marks[1:], start=marks[0])
    if marked.max(initial=0.0) > 1.0:
        user, item = np.argwhere(marked > 1.0)[0] + 1
        raise _fault(entry, path, f"the rating of user {user} for item {item} is in both {' and '.join(masks)}")
    users, items = np.nonzero(marked)
    if not len(users):
        raise _fault(entry, path, f"no rating is marked in {' or '.join(masks)}")
    try:
        return Ratings.read((users + 1, items + 1, values[users, items]), scale=entry.scale)
    except DataError as error:
        raise _fault(entry, path, f"{entry.ratings_member}: {error}") from error


def read_links(entry: Dataset, path: Path, name: str) -> list[Link]:
    """Who is linked to whom, and how much."""
    (links,) = _matrices(entry, path, (name,))
    if links.shape[0] != links.shape[1]:
        raise _fault(entry, path, f"{name} is {_size(links)} and not square")
    if not np.isfinite(links).all():
        raise _fault(entry, path, f"{name} has cells that are no numbers")
    ones, others = np.nonzero(links)
    return list(zip((ones + 1).tolist(), (others + 1).tolist(), links[ones, others].tolist(), strict=True))


def _masks(entry: Dataset) -> tuple[str, ...]:
    return tuple(mask for fold in entry.folds[:1] for mask in fold)


def _matrices(entry: Dataset, path: Path, names: Sequence[str]) -> list[Matrix]:
    try:
        h5py: Any = import_module("h5py")
    except ImportError as error:
        raise DatasetError(
            f"{path}: a MATLAB file is read with h5py, which is not installed. Run: pip install 'cofill[hdf5]'"
        ) from error
    try:
        with h5py.File(path, "r") as file:
            return [_matrix(entry, path, file, name) for name in names]
    except PermissionError as error:
        raise DatasetError(f"{path}: cannot be read (Permission denied). Check its permissions.") from error
    except (OSError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DatasetError(f"{path}: truncated or damaged ({reason}). {again(entry)}") from error


def _matrix(entry: Dataset, path: Path, file: Any, name: str) -> Matrix:
    found = file.get(name)
    shape = getattr(found, "shape", None)
    if shape is None or len(shape) != 2 or found.dtype.kind not in "fiub":
        raise _fault(entry, path, f"there is no matrix {name} inside")
    if found.size > MOST_CELLS:
        raise _fault(entry, path, f"{name} is {shape[1]:,} x {shape[0]:,}, too large to be part of {entry.name}")
    return np.asarray(found, np.float64).T


def _size(matrix: Matrix) -> str:
    return f"{matrix.shape[0]:,} x {matrix.shape[1]:,}"


def _fault(entry: Dataset, path: Path, problem: str) -> DatasetError:
    return DatasetError(f"{path}: {problem}. {again(entry)}")
