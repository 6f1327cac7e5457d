"""One cell of a table or of a description: what it says as a number, a date, a category, tags and so on."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from cofill.data.layout import is_number
from cofill.data.origin import quoted
from cofill.data.vocabulary import Id
from cofill.errors import DataError

MISSING = frozenset({"", "N/A", "n/a", "NaN", "nan", "NULL", "null", "\\N", "(no genres listed)"})
FLAGS = {"0": 0.0, "1": 1.0, "false": 0.0, "true": 1.0, "no": 0.0, "yes": 1.0}
YEARS = (1000, 2999)
YEAR_AT_END = re.compile(r"\(([12]\d{3})\)\s*$")
LEAST_WEIGHT, MOST_WEIGHT = 1e-9, 1e9
SEVERAL_SEPARATORS = ("|", ";", ", ")


class Mismatch(Exception):
    """A cell that is not what its column holds: the problem, and the next step."""

    def __init__(self, problem: str, advice: str = "correct it, or leave it empty") -> None:
        super().__init__(problem)
        self.advice = advice


class Weighted(tuple[tuple[object, object], ...]):
    """Pairs of a term and its weight: what a mapping in a description says."""


@dataclass(frozen=True)
class Coded:
    """A column of n cells: the different ones, and where each of them stands."""

    distinct: list[Any]
    codes: npt.NDArray[np.int64]
    """(n,): positions in `distinct`; -1 where a cell is missing."""

    @property
    def missing(self) -> int:
        return int(np.count_nonzero(self.codes < 0))

    def counts(self) -> npt.NDArray[np.int64]:
        """How often each of the different cells stands there."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.distinct))

    def taken(self, rows: npt.NDArray[np.int64]) -> "Coded":
        """The cells of some rows, in that order."""
        return Coded(self.distinct, self.codes[rows])


@dataclass(frozen=True)
class Cells:
    """Columns of the same height, by name, and how an error about one of their cells is said."""

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
            raise self.error(int(self.rows[first]), column, str(worst), worst.advice)
        return found


def coded(values: Iterable[object]) -> Coded:
    """Cells of any kind, sorted out; empty ones and NaN are missing."""
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


def number(value: object) -> float | None:
    """A finite number; None for NA, as some write what is missing."""
    if isinstance(value, str):
        if value.upper() == "NA":
            return None
        if not is_number(value):
            raise Mismatch(_found(value, "a number"))
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise Mismatch(_found(value, "a number"))
    try:
        found = float(value)
    except OverflowError:
        found = float("inf")
    if not np.isfinite(found):
        raise Mismatch(_found(value, "a finite number"))
    return found


def flag(value: object) -> float | None:
    """0 or 1."""
    if isinstance(value, str) and value.upper() == "NA":
        return None
    key = str(value).lower() if isinstance(value, (bool, str)) else category(value)
    if key not in FLAGS:
        raise Mismatch(_found(value, "0 or 1, true or false, yes or no"))
    return FLAGS[key]


def category(value: object) -> str:
    """The name of a category: 3, 3.0 and "3" are the same."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, (str, int, float, Decimal, date)):
        return str(value)
    raise Mismatch(_found(value, "one category"))


def several(value: object, separator: str) -> tuple[str, ...]:
    """Categories without repetition: a cell such as Comedy|Drama, or a list of them."""
    parts = value.split(separator) if isinstance(value, str) else value
    if isinstance(parts, Weighted):
        raise Mismatch(_found(value, "a list of categories"))
    named = (category(part).strip() for part in (parts if isinstance(parts, (tuple, list)) else (parts,)))
    return tuple(dict.fromkeys(part for part in named if part not in MISSING))


def year(value: object, lenient: bool) -> float | None:
    """A date as a decimal year. `lenient`: the column holds titles, of which a few have no year."""
    found = moment(value, lenient)
    if isinstance(found, datetime):
        seconds = (found - datetime(found.year, 1, 1, tzinfo=UTC)).total_seconds()
        return found.year + seconds / 86_400 / days_of(found.year)
    if isinstance(found, date):
        return found.year + (found.timetuple().tm_yday - 1) / days_of(found.year)
    return found


def moment(value: object, lenient: bool) -> float | date | None:
    """A year, perhaps with a fraction, a day, or a time of a day in UTC: whichever the cell says."""
    if isinstance(value, datetime):
        try:
            return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        except OverflowError as error:
            raise Mismatch(_found(value, "a date")) from error
    if isinstance(value, date):
        return value
    if isinstance(value, str):
        return _written_moment(value, lenient)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and YEARS[0] <= value <= YEARS[1]:
        return float(value)
    raise Mismatch(_found(value, "a year or a date"))


def days_of(of_year: int) -> int:
    """How many days a year has."""
    return 366 if of_year % 4 == 0 and (of_year % 100 != 0 or of_year % 400 == 0) else 365


def _written_moment(text: str, lenient: bool) -> float | date | None:
    if text.upper() == "NA":
        return None
    at_end = YEAR_AT_END.search(text)
    if at_end:
        return float(at_end[1])
    if lenient:
        return None
    if is_number(text):
        return moment(float(text), lenient=False)
    for read in (date.fromisoformat, datetime.fromisoformat, _day_month_year):
        try:
            return moment(read(text), lenient=False)
        except ValueError:
            continue
    raise Mismatch(_found(text, "a year or a date"))


def _day_month_year(text: str) -> date:
    """A date such as 01-Jan-1995, in English whatever the locale."""
    months = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
    day, month, in_year = text.split("-")
    return date(int(in_year), months.index(month.lower()) + 1, int(day))


def text(value: object) -> str:
    """A text; a number is none."""
    if not isinstance(value, str):
        raise Mismatch(_found(value, "a text"))
    return value


def tags(value: object) -> dict[str, float]:
    """Tags in lower case with their counts: funny|space, a list of tags, or a mapping of tags to counts."""
    counts: dict[str, float] = {}
    for term, count in _weighted(value, "tags: a list, a mapping of tags to counts, or 'a|b'"):
        if not isinstance(term, str):
            raise Mismatch(_found(term, "a tag, which is text,"))
        if count < 0:
            raise Mismatch(_found(count, f"the count of the tag {term!r}, 0 or more,"))
        tag = term.strip().lower()
        if tag and count:
            counts[tag] = counts.get(tag, 0.0) + count
    return counts


def links(value: object) -> dict[Id, float]:
    """Ids with the weights of the links to them: 3|17, a list of ids, or a mapping of ids to weights."""
    weights: dict[Id, float] = {}
    for term, weight in _weighted(value, "links: a list of ids, or a mapping of ids to weights"):
        if isinstance(term, bool) or not isinstance(term, (str, int)) or term == "":
            raise Mismatch(_found(term, "an id, which is a string or an integer,"))
        if not is_usual_weight(weight):
            raise Mismatch(_found(weight, "a weight of ordinary size"))
        id = term.strip() if isinstance(term, str) else term
        weights[id] = weights.get(id, 0.0) + weight
    return weights


def is_usual_weight(weight: float) -> bool:
    """Whether sums and products with a weight stay within what numbers can hold."""
    return weight == 0.0 or LEAST_WEIGHT <= abs(weight) <= MOST_WEIGHT


def _weighted(value: object, belongs: str) -> list[tuple[object, float]]:
    if isinstance(value, Weighted):
        weights = [(term, number(weight)) for term, weight in value]
        return [(term, weight) for term, weight in weights if weight is not None]
    if isinstance(value, str):
        return [(part, 1.0) for part in value.split("|") if part.strip()]
    if isinstance(value, tuple):
        return [(part, 1.0) for part in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return [(value, 1.0)]
    raise Mismatch(_found(value, belongs))


def vector(value: object, length: int) -> npt.NDArray[np.float64]:
    """(length,): finite numbers."""
    parts: Any = re.split(r"[|\s]+", value) if isinstance(value, str) else value
    if not isinstance(parts, (tuple, list)) or isinstance(parts, Weighted):
        raise Mismatch(_found(value, f"a vector of {length} numbers"))
    if len(parts) != length:
        raise Mismatch(f"found {len(parts)} numbers where a vector of {length} belongs")
    found = [number(part) for part in parts]
    if any(part is None or abs(part) > np.finfo(np.float32).max for part in found):
        raise Mismatch(_found(value, f"a vector of {length} finite numbers"))
    return np.array(found, np.float64)


def _found(value: object, belongs: str) -> str:
    return f"found {quoted(value)} where {belongs} belongs"
