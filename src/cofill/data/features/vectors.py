"""Dense vectors of every source -> an array with a row for each id."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cofill.data.features import cells as cells
from cofill.data.features.cells import Mismatch
from cofill.data.features.fitting import Fitted, fit_vectors
from cofill.data.features.table import RawTable
from cofill.data.origin import Origin, quoted
from cofill.data.reading import explained
from cofill.data.vocabulary import Vocabulary
from cofill.errors import DataError

Vectors = npt.NDArray[np.float64]


def is_vectors(source: object) -> bool:
    """Whether `source` is {id: vector} or (ids, array)."""
    if isinstance(source, Mapping):
        return True
    return isinstance(source, tuple) and len(source) == 2 and isinstance(source[1], np.ndarray) and source[1].ndim == 2


def is_npy(source: object) -> bool:
    """Whether `source` is the path of a .npy file."""
    return isinstance(source, (str, os.PathLike)) and Path(source).suffix == ".npy"


def fit_arrays(ids: Sequence[Any], array: Any, name: str, label: str) -> Fitted:
    """An array (n, d) and an id for each of its rows."""
    ids = [id.item() if isinstance(id, np.generic) else id for id in ids]
    array = np.asarray(array)
    if array.ndim != 2 or array.dtype.kind not in "iufb":
        raise DataError(
            f"{label}: found an array of shape {array.shape} and type {array.dtype}; "
            "pass numbers of shape (ids, length)"
        )
    if len(ids) != len(array):
        raise DataError(f"{label}: {len(ids)} ids for {len(array)} rows; give one id for each row, in the same order")
    if not len(array):
        raise DataError(f"{label}: there are no vectors; each id needs one")
    refuse_repeated_ids(ids, label)
    vocabulary = Vocabulary(ids)
    return fit_vectors(name, vocabulary.ids, array.astype(np.float64), label)


def refuse_repeated_ids(ids: Sequence[Any], label: str, origin: Origin | None = None) -> None:
    """DataError that names an id which stands in two rows."""
    place = origin or Origin(label)
    first_of: dict[Any, int] = {}
    for row, id in enumerate(ids):
        first = first_of.setdefault(id, row)
        if first != row:
            both = f"in {place.unit} {place.line(first)} and in {place.unit} {place.line(row)}"
            raise DataError(f"{label}: the id {quoted(id)} is {both}; keep one of them")


def fit_mapping(vectors: Mapping[Any, Any], name: str) -> Fitted:
    """{id: vector}."""
    label = "the vectors"
    if not vectors:
        raise DataError(f"{label}: there are none; pass at least one, such as {{42: [0.1, 0.7]}}")
    return fit_arrays(list(vectors), _stacked(list(vectors), list(vectors.values()), label), name, label)


def load_npy(path: Path) -> npt.NDArray[Any]:
    """The array in a .npy file. Objects in it, which would have to be unpickled, are refused."""
    with explained(path, "the .npy file"):
        try:
            return np.asarray(np.load(path, allow_pickle=False))
        except (ValueError, EOFError) as error:
            if "allow_pickle" in str(error) or "pickle" in str(error).lower():
                raise DataError(
                    f"{path}: this holds Python objects or is no .npy file; save plain numbers with "
                    "np.save(path, array.astype('float32'))"
                ) from error
            raise DataError(f"{path}: not a .npy file, or a broken one ({error}); write it again") from error


def fit_raw_vectors(raw: RawTable, id_at: int, name: str) -> Fitted:
    """A table with an id and either a column of vectors or a column for each number."""
    ids = raw.ids(id_at)[0]
    label = raw.origin.name
    refuse_repeated_ids(ids, label, raw.origin)
    others = [at for at in range(len(raw.names)) if at != id_at]
    if len(others) == 1 and all(isinstance(cell, (list, tuple, np.ndarray)) for cell in raw.columns[others[0]]):
        return fit_vectors(name, ids, _stacked(ids, raw.columns[others[0]], label), label)
    found = np.empty((raw.height, len(others)))
    for place, at in enumerate(others):
        for row, cell in enumerate(raw.columns[at]):
            try:
                number = cells.number(cell.strip() if isinstance(cell, str) else cell)
            except Mismatch as problem:
                raise raw.error(row, raw.names[at], str(problem), "correct it, or leave the id out") from problem
            found[row, place] = np.nan if number is None else number
    return fit_vectors(name, ids, found, label)


def _stacked(ids: Sequence[Any], vectors: Sequence[Any], label: str) -> Vectors:
    """Vectors of equal length as the rows of an array."""
    rows: list[Vectors] = []
    for id, vector in zip(ids, vectors, strict=True):
        try:
            row = np.asarray(vector, np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"{label}: the vector of the id {quoted(id)} is {quoted(vector)}; pass plain numbers"
            ) from error
        if row.ndim != 1:
            raise DataError(f"{label}: the vector of the id {quoted(id)} has shape {row.shape}; pass one dimension")
        if rows and len(row) != len(rows[0]):
            raise DataError(
                f"{label}: the vector of the id {quoted(id)} has {len(row)} numbers where that of {quoted(ids[0])} has "
                f"{len(rows[0])}; give all of them the same length"
            )
        rows.append(row)
    return np.stack(rows)
