"""Columns of cells: as found, as distinct values with codes, and as readable text."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from cofill.errors import DataError, quoted

_Answer = TypeVar("_Answer")

MISSING = frozenset({"", "N/A", "n/a", "NaN", "nan", "NULL", "null", "\\N", "(no genres listed)"})
LONGEST_EXAMPLE = 40


class Mismatch(Exception):
    """A cell that does not fit its column: the problem, and the remedy."""

    def __init__(self, problem: str, remedy: str = "correct it, or leave it empty (None)") -> None:
        super().__init__(problem)
        self.remedy = remedy


def misplaced(value: object, belongs: str) -> Mismatch:
    """The error about a value of the wrong kind."""
    return Mismatch(f"found {quoted(value)} where {belongs} belongs")


class Weighted(tuple[tuple[object, object], ...]):
    """Pairs of a term and its weight, from a mapping in a description."""


@dataclass(frozen=True)
class Coded:
    """A column of n cells in dictionary encoding: the distinct values, and the code of each cell."""

    distinct: list[Any]
    codes: npt.NDArray[np.int64]
    """(n,): positions in `distinct`; -1 where a cell is missing."""
    _answers: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def missing(self) -> int:
        return int(np.count_nonzero(self.codes < 0))

    def counts(self) -> npt.NDArray[np.int64]:
        """How often each distinct value occurs."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.distinct))

    def taken(self, rows: npt.NDArray[np.int64]) -> "Coded":
        """The cells of some rows, in that order."""
        return Coded(self.distinct, self.codes[rows])

    def once(self, question: "Callable[[Coded], _Answer]") -> _Answer:
        """A cached result of a function of these cells, which several kinds need."""
        if question not in self._answers:
            self._answers[question] = question(self)
        answer: _Answer = self._answers[question]
        return answer

    def share(self, holds: Callable[[Any], bool]) -> float:
        """The share of non-missing cells for which a predicate holds."""
        counts = self.counts()
        held = sum(count for value, count in zip(self.distinct, counts.tolist(), strict=True) if holds(value))
        return float(held / max(int(counts.sum()), 1))

    def all_read(self, parse: Callable[[Any], object]) -> bool:
        """Whether `parse` refuses none of the cells."""
        return all(is_read(parse, value) for value in self.distinct)

    def is_text(self) -> bool:
        """Whether all cells are text."""
        return all(isinstance(value, str) for value in self.distinct)

    def nearly_all_differ(self) -> bool:
        """Whether so few cells repeat that nothing can be learned from them."""
        return len(self.distinct) >= 0.8 * int(self.counts().sum())

    def example(self) -> str:
        """The first cell that is not missing."""
        there = self.codes[self.codes >= 0]
        if not len(there):
            return ""
        value = self.distinct[there[0]]
        return shortened(", ".join(map(str, value)) if isinstance(value, tuple) else str(value))


@dataclass(frozen=True)
class Cells:
    """Columns of the same height by name, and how errors name one of their cells."""

    columns: Mapping[str, Coded]
    rows: npt.NDArray[np.int64]
    """(height,): where each row stands in the source, from 0."""
    error: Callable[[int, str, str, str], DataError]
    """The error about a row of the source and a column: the problem, and the next step."""

    def parsed(self, column: str, parse: Callable[[Any], Any]) -> list[Any]:
        """`parse` of each different cell; the first cell in the source that it refuses is an error."""
        coded = self.columns[column]
        found: list[Any] = []
        refused: dict[int, Mismatch] = {}
        for code, value in enumerate(coded.distinct):
            try:
                found.append(parse(value))
            except Mismatch as mismatch:
                refused[code] = mismatch
        if refused:
            bad = np.flatnonzero(np.isin(coded.codes, list(refused)))
            first = int(bad[np.argmin(self.rows[bad])])
            worst = refused[int(coded.codes[first])]
            raise self.error(int(self.rows[first]), column, str(worst), worst.remedy)
        return found


class ReadableColumn(NamedTuple):
    """The cells of one column in words, null where one is missing."""

    kind: str
    """What the cells can be filtered as, which may be another kind than what was learned: bare years are numbers."""
    cells: pl.Series
    """Of one of the types that the kind names."""

    def taken(self, rows: npt.NDArray[np.integer[Any]]) -> "ReadableColumn":
        """The cells of some rows, in that order; null for -1."""
        wanted = pl.Series(rows.astype(np.int64))
        return self._replace(cells=self.cells.gather(wanted.set(wanted < 0, None)))


def coded(values: Iterable[object]) -> Coded:
    """Dictionary-encode cells of any kind; empty ones and NaN are missing."""
    if isinstance(values, pl.Series):
        if not (values.dtype.is_nested() or values.dtype in (pl.Null, pl.Object)):
            return _coded_series(values)
        values = values.to_list()
    places: dict[tuple[type, object], int] = {}
    cleaned: dict[tuple[type, object], int] = {}
    distinct: list[object] = []
    codes: list[int] = []
    for value in values:
        value = _hashable(value)
        key = (type(value), value)
        code = places.get(key)
        if code is None:
            value = _clean(value)
            code = -1
            if value is not None:
                code = cleaned.setdefault((type(value), value), len(distinct))
                if code == len(distinct):
                    distinct.append(value)
            places[key] = code
        codes.append(code)
    return Coded(distinct, np.array(codes, np.int64))


def _coded_series(cells: pl.Series) -> Coded:
    """The same of cells that are no lists."""
    if cells.dtype in (pl.String, pl.Categorical, pl.Enum):
        cells = cells.cast(pl.String).str.strip_chars()
        cells = cells.set(cells.is_in(list(MISSING)), None)
    elif cells.dtype.is_float():
        cells = cells.fill_nan(None)
    distinct = cells.drop_nulls().unique(maintain_order=True)
    numbered = pl.DataFrame({"cell": distinct, "code": np.arange(len(distinct))})
    coded = pl.DataFrame({"cell": cells}).join(numbered, on="cell", how="left", maintain_order="left")
    return Coded(distinct.to_list(), coded["code"].fill_null(-1).to_numpy())


def _hashable(value: object) -> object:
    if isinstance(value, np.ndarray):
        return _hashable(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return Weighted((_hashable(term), _hashable(weight)) for term, weight in value.items())
    if isinstance(value, Weighted):
        return value
    if isinstance(value, (list, tuple, set, frozenset)):
        parts = tuple(_hashable(part) for part in value)
        return tuple(sorted(parts, key=str)) if isinstance(value, (set, frozenset)) else parts
    return value if type(value).__hash__ is not None else repr(value)


def _clean(value: Any) -> object:
    if isinstance(value, str):
        value = value.strip()
        return None if value in MISSING else value
    if isinstance(value, (float, Decimal, datetime)) and value != value:
        return None  # NaN, or NaT of pandas
    return value


def is_read(parse: Callable[[Any], object], value: object) -> bool:
    """Whether `parse` accepts a value."""
    try:
        parse(value)
    except Mismatch:
        return False
    return True


def shortened(example: str) -> str:
    """An example on one line that fits a column of a printed table."""
    line = " ".join(example.split())
    return line if len(line) <= LONGEST_EXAMPLE else f"{line[: LONGEST_EXAMPLE - 3]}..."


def legible(text: str) -> str:
    """Text that can be written as UTF-8: lone surrogates, which JSON allows, become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")
