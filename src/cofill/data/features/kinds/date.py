"""Dates and years, also those at the end of titles: standardised as decimal years."""

import re
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from cofill.data.cells import is_number
from cofill.data.features.columns import Cells, Coded, ReadableColumn, is_read, misplaced
from cofill.data.features.kind import Learn
from cofill.data.features.kinds.number import (
    MOST,
    Standardised,
    all_numbers,
    are_mostly_numbers,
    numbers_and_others,
    numbers_in_words,
    parse_number,
)
from cofill.data.features.kinds.text import texts_in_words

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl

YEARS = (1000, 2999)
USUAL_YEARS = (1900, 2100)
YEAR_AT_END = re.compile(r"\(([12]\d{3})\)\s*$")
SPEAKS_OF_TIME = re.compile(r"year|date|released?|born|birth", re.IGNORECASE)
# The share of titles with a year from which on a column that is said to be dates holds titles.
HALF = 0.5
# Of a day that was written as a decimal year.
ROUNDING = 1e-3


def parse_year(value: object, lenient: bool = False) -> float | None:
    """A date as a decimal year. `lenient`: the column holds titles, of which a few have no year."""
    found = parse_moment(value, lenient)
    if isinstance(found, datetime):
        seconds = (found - datetime(found.year, 1, 1, tzinfo=UTC)).total_seconds()
        return found.year + seconds / 86_400 / _days_of(found.year)
    if isinstance(found, date):
        return found.year + (found.timetuple().tm_yday - 1) / _days_of(found.year)
    return found


def parse_moment(value: object, lenient: bool = False) -> float | date | None:
    """A year, perhaps with a fraction, a day, or a time of a day in UTC: whichever the cell says."""
    if isinstance(value, datetime):
        try:
            return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        except OverflowError as error:
            raise misplaced(value, "a date") from error
    if isinstance(value, date):
        return value
    if isinstance(value, str):
        return _written_moment(value, lenient)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and YEARS[0] <= value <= YEARS[1]:
        return float(value)
    raise misplaced(value, "a year or a date")


class Date(Standardised):
    """When something came to be."""

    called: ClassVar[str] = "date"
    holds: ClassVar[str] = "a year or a date"

    lenient: bool = False
    """The cells are titles, and those without a year are unknown."""

    @classmethod
    def fits(cls, name: str, column: Coded) -> Learn | None:
        if column.once(all_numbers):
            return cls.learn if _are_years(name, column.distinct) else None
        if all(_is_date(value) for value in column.distinct):
            return partial(cls.learn, lenient=all(map(_ends_in_year, column.distinct)))
        if SPEAKS_OF_TIME.search(name) and are_mostly_numbers(name, column):
            numbers, _ = column.once(numbers_and_others)
            return partial(cls.learn, slips=True) if _are_years(name, numbers) else None
        if column.is_text() and column.share(_ends_in_year) >= MOST:
            return partial(cls.learn, lenient=True)
        return None

    @classmethod
    def told(cls, column: Coded) -> Learn:
        return partial(cls.learn, lenient=column.share(_ends_in_year) >= HALF)

    @classmethod
    def learn(cls, name: str, of: Cells, reduce_to: int, lenient: bool = False, slips: bool = False) -> Self:
        return cls(**cls.measured(name, of, lambda value: parse_year(value, lenient), slips), lenient=lenient)

    def parse(self, value: Any) -> float | None:
        return parse_year(value, self.lenient)

    def words(self, of: Cells) -> ReadableColumn:
        """Days, or numbers if there are bare years only; titles are texts."""
        import polars as pl

        if self.lenient:
            return texts_in_words(self.name, of)
        column, found = of.columns[self.name], of.parsed(self.name, parse_moment)
        if not any(isinstance(moment, date) for moment in found):
            return numbers_in_words(found, column)
        days = [None if moment is None else _day_of(moment) for moment in found]
        return ReadableColumn(self.called, pl.Series(days, dtype=pl.Date)).taken(column.codes)

    def also_in_words(self, of: Cells) -> dict[str, ReadableColumn]:
        """The years that titles end in."""
        if not self.lenient:
            return {}
        return {"year": numbers_in_words(of.parsed(self.name, self.parse), of.columns[self.name])}

    @property
    def belongs(self) -> str:
        return "a title that ends in its year" if self.lenient else self.holds

    def suggested(self) -> str | None:
        return None if self.lenient else str(round(self.mean))

    @classmethod
    def types(cls) -> tuple[Any, ...]:
        import polars as pl

        return (pl.Date,)

    @classmethod
    def equal(cls, cells: "pl.Series", value: Any) -> "pl.Series":
        return cells.is_between(*cls.bounds(value))

    @classmethod
    def bounds(cls, value: Any) -> tuple[Any, Any]:
        """The first and the last day that a date or a year stands for."""
        moment = cls.wanted(parse_moment, value)
        if isinstance(moment, float) and moment.is_integer():
            return date(int(moment), 1, 1), date(int(moment), 12, 31)
        day = _day_of(moment)
        return day, day

    @classmethod
    def converted(cls, cells: "pl.Series") -> "pl.Series":
        """Bare years as the first of their days."""
        import polars as pl

        if cells.dtype == pl.Date:
            return cells
        return pl.Series([None if year is None else _day_of(float(year)) for year in cells], dtype=pl.Date)


def _written_moment(text: str, lenient: bool) -> float | date | None:
    if text.upper() == "NA":
        return None
    at_end = YEAR_AT_END.search(text)
    if at_end:
        return float(at_end[1])
    if lenient:
        return None
    if is_number(text):
        return parse_moment(float(text))
    for read in (date.fromisoformat, datetime.fromisoformat, _day_month_year):
        try:
            return parse_moment(read(text))
        except ValueError:
            continue
    raise misplaced(text, "a year or a date")


def _day_month_year(text: str) -> date:
    """A date such as 01-Jan-1995, in English whatever the locale."""
    months = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
    day, month, in_year = text.split("-")
    return date(int(in_year), months.index(month.lower()) + 1, int(day))


def _days_of(year: int) -> int:
    return 366 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 365


def _day_of(moment: float | date) -> date:
    """The day of a date, or that at which a decimal year stands."""
    if isinstance(moment, date):
        return moment.date() if isinstance(moment, datetime) else moment
    year = int(moment)
    return date(year, 1, 1) + timedelta(days=int((moment - year) * _days_of(year) + ROUNDING))


def _are_years(name: str, values: "Iterable[Any]") -> bool:
    """Whether numbers are years, by the name of their column too."""
    if not SPEAKS_OF_TIME.search(name):
        return False
    found = (number for value in values if (number := parse_number(value)) is not None)
    return all(number.is_integer() and USUAL_YEARS[0] <= number <= USUAL_YEARS[1] for number in found)


def _is_date(value: object) -> bool:
    return isinstance(value, date) or (isinstance(value, str) and is_read(parse_year, value))


def _ends_in_year(value: object) -> bool:
    return isinstance(value, str) and YEAR_AT_END.search(value) is not None
