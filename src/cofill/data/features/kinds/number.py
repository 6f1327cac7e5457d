"""Numbers: standardised, and cut off at 5 standard deviations."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, FiniteFloat

from cofill.arrays import Doubles
from cofill.data.cells import DECIMAL_COMMA, THOUSANDS, is_number
from cofill.data.features.columns import Cells, Coded, Mismatch, ReadableColumn, misplaced
from cofill.data.features.kind import CLIP, Kind, Learn

if TYPE_CHECKING:
    import polars as pl

NAMES_AN_ID = re.compile(r"(^|[a-z_\-. ])(id|Id|ID|IDs|ids)$")
INT64 = np.iinfo(np.int64)
# The share of numbers from which on other cells are slips, and not categories.
MOST = 0.9


def parse_number(value: object) -> float | None:
    """A finite number; None for NA, as some write what is missing."""
    if isinstance(value, str):
        if value.upper() == "NA":
            return None
        # A decimal comma; 1,000 could be a thousand, so it is none.
        if re.match(DECIMAL_COMMA, value) and not re.match(THOUSANDS, value):
            value = value.replace(",", ".")
        if not is_number(value):
            raise misplaced(value, "a number")
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise misplaced(value, "a number")
    try:
        found = float(value)
    except OverflowError:
        found = float("inf")
    if not np.isfinite(found):
        raise misplaced(value, "a finite number")
    return found


class Standardised(Kind):
    """A kind whose cells are measured on a scale."""

    ordered: ClassVar[bool] = True

    mean: FiniteFloat = 0.0
    spread: Annotated[FiniteFloat, Field(ge=0.0)] = 0.0
    """The standard deviation; 0 if all numbers are the same."""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    def parse(self, value: Any) -> float | None:
        """One cell as a number; None if it is as good as missing."""
        return parse_number(value)

    def numbers(self, value: Any) -> Doubles:
        number = self.parse(value)
        if number is None or not self.spread:
            return np.zeros(1)
        with np.errstate(over="ignore"):
            return np.clip([(number - self.mean) / self.spread], -CLIP, CLIP)

    @classmethod
    def measured(cls, name: str, of: Cells, parse: Callable[[Any], float | None], slips: bool) -> dict[str, Any]:
        """Learn a column. `slips`: its kind was detected, not given, so some cells may fail to parse."""
        read = _with_advice(parse, name) if slips else parse
        parsed = np.array([np.nan if found is None else found for found in of.parsed(name, read)] + [np.nan])
        numbers = parsed[of.columns[name].codes]
        there = np.sort(numbers[~np.isnan(numbers)])
        mean, spread = standard(there)
        about = cls.seen(name, of) | {"missing": int(np.isnan(numbers).sum()), "mean": mean, "spread": spread}
        if not spread and len(there):
            about["example"] += " in every row"
        return about


class Number(Standardised):
    """Anything that can be counted or measured."""

    called: ClassVar[str] = "number"
    holds: ClassVar[str] = "a number"

    @classmethod
    def fits(cls, name: str, column: Coded) -> Learn | None:
        if column.once(all_numbers):
            return None if are_foreign_ids(name, column) else cls.learn
        return partial(cls.learn, slips=True) if are_mostly_numbers(name, column) else None

    @classmethod
    def learn(cls, name: str, of: Cells, reduce_to: int, slips: bool = False) -> Self:
        return cls(**cls.measured(name, of, parse_number, slips))

    def words(self, of: Cells) -> ReadableColumn:
        return numbers_in_words(of.parsed(self.name, written_number), of.columns[self.name])

    def suggested(self) -> str:
        usual = np.format_float_positional(self.mean, precision=4, fractional=False, trim="-")
        return self.example if is_number(self.example) else usual

    @classmethod
    def types(cls) -> tuple[Any, ...]:
        import polars as pl

        return pl.Int64, pl.Float64

    @classmethod
    def equal(cls, cells: "pl.Series", value: Any) -> "pl.Series":
        met: pl.Series = cells == cls.bounds(value)[0]
        return met

    @classmethod
    def bounds(cls, value: Any) -> tuple[Any, Any]:
        number: int | float = cls.wanted(written_number, value)
        number = number if INT64.min <= number <= INT64.max else float(number)
        return number, number

    @classmethod
    def converted(cls, cells: "pl.Series") -> "pl.Series":
        """Days as the bare years that stand beside them."""
        import polars as pl

        return cells.dt.year().cast(pl.Int64) if cells.dtype == pl.Date else cells


class _Standard(NamedTuple):
    """Mean and standard deviation of the numbers that are there."""

    mean: float
    spread: float


def standard(numbers: npt.NDArray[np.float64]) -> _Standard:
    """Mean and standard deviation of `numbers` (n,), however large; a spread of 0 if all are equal."""
    if not len(numbers) or numbers.min() == numbers.max():
        return _Standard(float(numbers[0]) if len(numbers) else 0.0, 0.0)
    unit = float(np.abs(numbers).max())
    scaled = numbers / unit  # squares of the largest numbers would overflow
    return _Standard(float(scaled.mean()) * unit, float(scaled.std()) * unit)


def _with_advice(parse: Callable[[Any], float | None], name: str) -> Callable[[Any], float | None]:
    def read_or_advise(value: Any) -> float | None:
        try:
            return parse(value)
        except Mismatch as slip:
            told = f", or pass columns={{{name!r}: 'category'}} if these are categories"
            raise Mismatch(str(slip), slip.remedy + told) from slip

    return read_or_advise


def all_numbers(column: Coded) -> bool:
    """Whether all cells are numbers, or NA."""
    return column.all_read(parse_number)


def are_mostly_numbers(name: str, column: Coded) -> bool:
    """Whether nearly all cells are numbers, and the others are no codes with letters."""
    numbers, others = column.once(numbers_and_others)
    both = numbers.total() + others.total()
    return numbers.total() >= MOST * both and not _are_codes(name, numbers, others)


def numbers_and_others(column: Coded) -> tuple[Counter[Any], Counter[Any]]:
    """How often each number and each other cell is there; NA, which is as good as empty, is neither."""
    numbers: Counter[Any] = Counter()
    others: Counter[Any] = Counter()
    for value, count in zip(column.distinct, column.counts().tolist(), strict=True):
        try:
            if parse_number(value) is not None:
                numbers[value] += count
        except Mismatch:
            others[value] += count
    return numbers, others


def _are_codes(name: str, numbers: Counter[Any], others: Counter[Any]) -> bool:
    """Whether cells are ids of another catalogue, of which some have letters, such as the ISBN 074322678X."""
    if not numbers or NAMES_AN_ID.search(name):
        return True
    both = numbers + others
    return (
        len(both) >= 0.8 * both.total()
        and all(float(value).is_integer() for value in numbers)
        and any(isinstance(value, str) and value.isalnum() and not value.isalpha() for value in others)
    )


def are_foreign_ids(name: str, column: Coded) -> bool:
    """Whether cells are whole numbers that another catalogue knows its items by: their size says nothing."""
    return (
        NAMES_AN_ID.search(name) is not None
        and column.once(all_numbers)
        and all(number is None or number.is_integer() for number in map(parse_number, column.distinct))
        and column.nearly_all_differ()
    )


def written_number(value: object) -> float | int | None:
    """A number as it is written: an integer of any size stays an integer."""
    found = parse_number(value)
    if found is None or isinstance(value, int):
        return value if isinstance(value, int) else None
    try:
        return int(value) if isinstance(value, str) else found
    except ValueError:
        return found


def numbers_in_words(found: Sequence[float | int | None], column: Coded) -> ReadableColumn:
    """The numbers of the different cells of a column; integers if all of them are whole."""
    import polars as pl

    whole = all(
        number is None or (float(number).is_integer() and INT64.min <= int(number) <= INT64.max) for number in found
    )
    make: Callable[[Any], int | float] = int if whole else float
    numbers = [None if number is None else make(number) for number in found]
    cells = pl.Series(numbers, dtype=pl.Int64 if whole else pl.Float64)
    return ReadableColumn(Number.called, cells).taken(column.codes)
