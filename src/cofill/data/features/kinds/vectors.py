"""Vectors of numbers, such as embeddings, from every source: all divided by one number."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, FiniteFloat

from cofill.arrays import Doubles
from cofill.data.cells import Origin
from cofill.data.features.columns import Cells, Coded, Mismatch, Weighted, misplaced
from cofill.data.features.kind import CLIP, Count, Kind, Learn
from cofill.data.features.kinds.number import parse_number
from cofill.data.features.source import Fitted, Reading, Source, WholeSource, no_block
from cofill.data.table import Table, explained, read_raw
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import DataError, quoted


def parse_vector(value: object, length: int) -> Doubles:
    """(length,): finite numbers."""
    parts: Any = re.split(r"[|\s]+", value) if isinstance(value, str) else value
    if not isinstance(parts, (tuple, list)) or isinstance(parts, Weighted):
        raise misplaced(value, f"a vector of {length} numbers")
    if len(parts) != length:
        raise Mismatch(f"found {len(parts)} numbers where a vector of {length} belongs")
    found = [parse_number(part) for part in parts]
    if any(part is None or abs(part) > np.finfo(np.float32).max for part in found):
        raise misplaced(value, f"a vector of {length} finite numbers")
    return np.array(found, np.float64)


class Vectors(Kind, WholeSource):
    """An id and its numbers."""

    called: ClassVar[str] = "vectors"
    holds: ClassVar[str] = "a vector"
    in_tables: ClassVar[bool] = False
    flag_help: ClassVar[str] = "a Parquet file with a vector for each {side}, such as an embedding"
    taken: ClassVar[str] = "the source holds vectors; pass kind='vectors', or another source"

    spread: Annotated[FiniteFloat, Field(ge=0.0)] = 0.0
    """What all numbers are divided by, so that a vector has length 1 on average, as other features do."""
    length: Count = 0

    @classmethod
    def fits(cls, name: str, column: Coded) -> Learn | None:
        return cls.learn if any(_is_vector(value) for value in column.distinct) else None

    @classmethod
    def learn(cls, name: str, of: Cells, reduce_to: int) -> Self:
        """The vectors in a table are refused: they have a source of their own."""
        of.parsed(name, _refuse_vector)
        return super().learn(name, of, reduce_to)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}[{position}]" for position in range(self.length))

    def numbers(self, value: Any) -> Doubles:
        return np.clip(parse_vector(value, self.length) / (self.spread or 1.0), -CLIP, CLIP)

    @property
    def belongs(self) -> str:
        return f"{self.length} numbers with '|' between them"

    @classmethod
    def takes(cls, source: Any, told: bool) -> bool:
        """{id: vector}, (ids, array), or the path of a .npy file."""
        if isinstance(source, Mapping) or is_npy(source):
            return True
        pair = isinstance(source, tuple) and len(source) == 2
        return pair and (told or (isinstance(source[1], np.ndarray) and source[1].ndim == 2))

    @classmethod
    def fit(cls, source: Any, reading: Reading) -> Fitted:
        name = reading.name or cls.called
        if isinstance(source, Mapping):
            return cls._fit_mapping(source, name)
        if not is_npy(source):
            return cls._fit_arrays(list(source[0]), source[1], name, "the vectors")
        path, ids = Path(source), reading.ids
        if ids is None:
            raise DataError(
                "a .npy file has no ids",
                "pass ids=..., one for each row, or the path of a file of them",
                where=str(path),
            )
        array = _load_npy(path)
        if isinstance(ids, (str, os.PathLike)):
            raw = read_raw(ids, **reading.layout, least=1)
            ids = raw.ids(reading._replace(id=None).id_position(raw) if len(raw.names) > 1 else 0)[0]
        return cls._fit_arrays(list(ids), array, name, str(path))

    @classmethod
    def fit_raw(cls, raw: Table, reading: Reading) -> Fitted:
        """From a table with an id and either a column of vectors or a column for each number."""
        id_at, name, label = reading.id_position(raw), reading.name or cls.called, raw.origin.name
        ids = raw.ids(id_at)[0]
        _refuse_repeated_ids(ids, label, raw.origin)
        others = [at for at in range(len(raw.names)) if at != id_at]
        if len(others) == 1 and all(isinstance(cell, (list, tuple, np.ndarray)) for cell in raw.columns[others[0]]):
            return cls._fitted(name, ids, _stacked(ids, raw.columns[others[0]], label), label)
        found = np.empty((raw.height, len(others)))
        for place, at in enumerate(others):
            for row, cell in enumerate(raw.columns[at]):
                try:
                    number = parse_number(cell.strip() if isinstance(cell, str) else cell)
                except Mismatch as problem:
                    raise raw.error(row, raw.names[at], str(problem), "correct it, or leave the id out") from problem
                found[row, place] = np.nan if number is None else number
        return cls._fitted(name, ids, found, label)

    @classmethod
    def _fit_mapping(cls, vectors: Mapping[Any, Any], name: str) -> Fitted:
        label = "the vectors"
        if not vectors:
            raise DataError("there are none", "pass at least one, such as {42: [0.1, 0.7]}", where=label)
        return cls._fit_arrays(list(vectors), _stacked(list(vectors), list(vectors.values()), label), name, label)

    @classmethod
    def _fit_arrays(cls, ids: Sequence[Any], array: Any, name: str, label: str) -> Fitted:
        """From an array (n, d) and an id for each of its rows."""
        ids = [id.item() if isinstance(id, np.generic) else id for id in ids]
        array = np.asarray(array)
        if array.ndim != 2 or array.dtype.kind not in "iufb":
            raise DataError(
                f"found an array of shape {array.shape} and type {array.dtype}",
                "pass numbers of shape (ids, length)",
                where=label,
            )
        if len(ids) != len(array):
            raise DataError(
                f"{len(ids)} ids for {len(array)} rows", "give one id for each row, in the same order", where=label
            )
        if not len(array):
            raise DataError("there are no vectors", "each id needs one", where=label)
        _refuse_repeated_ids(ids, label)
        return cls._fitted(name, Vocabulary(ids).ids, array.astype(np.float64), label)

    @classmethod
    def _fitted(cls, name: str, ids: Sequence[Id], vectors: Doubles, label: str) -> Fitted:
        """From vectors (n, d)."""
        if not vectors.shape[1]:
            raise DataError("the vectors are empty", "each needs at least one number", where=label)
        with np.errstate(over="ignore"):
            values = vectors.astype(np.float32)
        if not np.isfinite(values).all():
            row, at = (int(place) for place in np.argwhere(~np.isfinite(values))[0])
            raise DataError(
                f"the vector of the id {quoted(ids[row])} has {vectors[row, at]} at position {at}",
                "every number must be finite: correct it, or leave the id out",
                where=label,
            )
        with np.errstate(over="ignore"):
            spread = float(np.sqrt((vectors**2).sum(1).mean()))
        if not np.isfinite(spread):
            raise DataError(
                f"the vectors have numbers up to {np.abs(vectors).max():.3g}", "divide them by that", where=label
            )
        spread = spread or 1.0
        length = values.shape[1]
        example = f"{values[0, 0]:.4g}, ..." if length > 1 else f"{values[0, 0]:.4g}"
        about: dict[str, Any] = {"name": name, "kind": cls.called, "distinct": None, "missing": 0, "example": example}
        column = cls(**about, length=length, spread=spread)
        scaled = np.clip(vectors / spread, -CLIP, CLIP).astype(np.float32)
        return Fitted(list(ids), scaled, Source(cls.called, name, None, (column,), *no_block()))


def is_npy(source: object) -> bool:
    """Whether `source` is the path of a .npy file."""
    return isinstance(source, (str, os.PathLike)) and Path(source).suffix == ".npy"


def _is_vector(value: object) -> bool:
    """Whether a cell is a list of numbers of which some have a point; one of integers may be one of categories."""
    if not isinstance(value, tuple) or isinstance(value, Weighted):
        return False
    there = [part for part in value if part is not None]
    numbers = all(isinstance(part, (int, float)) and not isinstance(part, bool) for part in there)
    return numbers and any(isinstance(part, float) for part in there)


def _refuse_vector(value: object) -> None:
    if _is_vector(value):
        raise Mismatch(
            f"found {quoted(value)}, a vector, where categories belong",
            "read vectors with kind='vectors', or leave the column out",
        )


def _refuse_repeated_ids(ids: Sequence[Any], label: str, origin: Origin | None = None) -> None:
    """DataError that names an id which stands in two rows."""
    place = origin or Origin(label)
    first_of: dict[Any, int] = {}
    for row, id in enumerate(ids):
        first = first_of.setdefault(id, row)
        if first != row:
            both = f"in {place.unit} {place.line(first)} and in {place.unit} {place.line(row)}"
            raise DataError(f"the id {quoted(id)} is {both}", "keep one of them", where=label)


def _load_npy(path: Path) -> npt.NDArray[Any]:
    """The array in a .npy file. Objects in it, which would have to be unpickled, are refused."""
    with explained(path, "the .npy file"):
        try:
            return np.asarray(np.load(path, allow_pickle=False))
        except (ValueError, EOFError) as error:
            if "allow_pickle" in str(error) or "pickle" in str(error).lower():
                raise DataError(
                    "this holds Python objects or is no .npy file",
                    "save plain numbers with np.save(path, array.astype('float32'))",
                    where=str(path),
                ) from error
            raise DataError(f"not a .npy file, or a broken one ({error})", "write it again", where=str(path)) from error


def _stacked(ids: Sequence[Any], vectors: Sequence[Any], label: str) -> Doubles:
    """Vectors of equal length as the rows of an array."""
    rows: list[Doubles] = []
    for id, vector in zip(ids, vectors, strict=True):
        try:
            row = np.asarray(vector, np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"the vector of the id {quoted(id)} is {quoted(vector)}", "pass plain numbers", where=label
            ) from error
        if row.ndim != 1:
            raise DataError(
                f"the vector of the id {quoted(id)} has shape {row.shape}", "pass one dimension", where=label
            )
        if rows and len(row) != len(rows[0]):
            raise DataError(
                f"the vector of the id {quoted(id)} has {len(row)} numbers where that of {quoted(ids[0])} has "
                f"{len(rows[0])}",
                "give all of them the same length",
                where=label,
            )
        rows.append(row)
    return np.stack(rows)
