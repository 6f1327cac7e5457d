"""Kinds of columns of a table: numbers, categories (one or several a cell), flags, texts, dates, pictures; or skipped.

Numbers and dates are standardised, and cut off at 5 standard deviations. Each category has a feature column of its own;
too many of them are reduced, as the words of texts are (tf-idf).
"""

import difflib
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
import polars as pl
from pydantic import Field, FiniteFloat, StrictStr

from cofill.arrays import Doubles, Floats, Longs
from cofill.data.cells import DECIMAL_COMMA, THOUSANDS, is_number
from cofill.data.columns import USUAL_NAMES, YEAR_AT_END, normalised
from cofill.data.features.columns import (
    MISSING,
    Cells,
    Coded,
    Mismatch,
    ReadableColumn,
    Weighted,
    is_read,
    legible,
    misplaced,
)
from cofill.data.features.kind import CLIP, LISTED, Kind, Learn, TermKind, TermNames, unit_rows
from cofill.data.vocabulary import INT64
from cofill.errors import DataError, quoted

if TYPE_CHECKING:
    from cofill.data.features.kind import Matrix

# Numbers

NAMES_AN_ID = re.compile(r"(^|[a-z_\-. ])(id|Id|ID|IDs|ids)$")
# Digits that measure nothing: 00501, 98107-2117; not 00.
CODE = re.compile(r"0+[1-9]\d*|\d+(-\d+)+")
# The share of such cells from which on the others are codes, too: 10 to 12 % of the zip codes of MovieLens.
CODES_AT_LEAST = 0.05
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

    def encoded(self, of: Cells) -> Floats:
        numbers = parsed_numbers(self.name, of, self.parse)
        with np.errstate(over="ignore"):
            scaled = np.clip((numbers - self.mean) / (self.spread or np.inf), -CLIP, CLIP)
        return np.nan_to_num(scaled).astype(np.float32)[:, None]

    @classmethod
    def measured(cls, name: str, of: Cells, parse: Callable[[Any], float | None], slips: bool) -> dict[str, Any]:
        """Learn a column. `slips`: its kind was detected, not given, so some cells may fail to parse."""
        try:
            numbers = parsed_numbers(name, of, parse)
        except DataError as slip:
            told = f", or pass columns={{{name!r}: 'category'}} if these are categories" if slips else ""
            raise DataError(slip.found, slip.remedy + told, where=slip.where) from slip
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
    types: ClassVar[tuple[Any, ...]] = (pl.Int64, pl.Float64)

    @classmethod
    def fits(cls, name: str, column: Coded) -> Learn | None:
        if column.share(is_code) >= CODES_AT_LEAST:
            return None
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
    def condition(cls, value: Any) -> int | float | None:
        number = written_number(value)
        return number if number is None or INT64.min <= number <= INT64.max else float(number)

    @classmethod
    def converted(cls, cells: pl.Series) -> pl.Series:
        """Days as the bare years that stand beside them."""
        return cells.dt.year().cast(pl.Int64) if cells.dtype == pl.Date else cells


def parsed_numbers(name: str, of: Cells, parse: Callable[[Any], float | None]) -> Doubles:
    """(height,): the number of each cell, NaN where there is none."""
    found = [np.nan if one is None else one for one in of.parsed(name, parse)]
    return np.array([*found, np.nan], np.float64)[of.columns[name].codes]


def standard(numbers: Doubles) -> tuple[float, float]:
    """Mean and standard deviation of `numbers` (n,), however large; a spread of 0 if all are equal."""
    if not len(numbers) or numbers.min() == numbers.max():
        return float(numbers[0]) if len(numbers) else 0.0, 0.0
    unit = float(np.abs(numbers).max())
    scaled = numbers / unit  # squares of the largest numbers would overflow
    return float(scaled.mean()) * unit, float(scaled.std()) * unit


def is_code(value: object) -> bool:
    return isinstance(value, str) and CODE.fullmatch(value) is not None


def all_numbers(column: Coded) -> bool:
    """Whether all cells are numbers, or NA."""
    return column.all_read(parse_number)


def are_mostly_numbers(name: str, column: Coded) -> bool:
    """Whether nearly all cells are numbers, and the others are no codes with letters."""
    numbers, others = column.once(numbers_and_others)
    if not numbers or numbers.total() < MOST * (numbers.total() + others.total()) or NAMES_AN_ID.search(name):
        return False
    both = numbers + others
    return not (  # ids of another catalogue, of which some have letters, such as the ISBN 074322678X
        len(both) >= 0.8 * both.total()
        and all(float(value).is_integer() for value in numbers)
        and any(isinstance(value, str) and value.isalnum() and not value.isalpha() for value in others)
    )


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
    there = [number for number in found if number is not None]
    whole = all(float(number).is_integer() and INT64.min <= int(number) <= INT64.max for number in there)
    make: Callable[[Any], int | float] = int if whole else float
    numbers = [None if number is None else make(number) for number in found]
    return ReadableColumn(Number.called, pl.Series(numbers, dtype=Number.types[not whole])).taken(column.codes)


# Categories


def parse_category(value: object) -> str:
    """The name of a category: 3, 3.0 and "3" are the same."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, (str, int, float, Decimal, date)):
        return str(value)
    raise misplaced(value, "one category")


class Choices(TermKind):
    """A kind whose cells name categories, one or more."""

    separator: Annotated[StrictStr, Field(min_length=1)] = "|"
    """Between the categories of a cell, where it can have several."""
    choices: tuple[StrictStr, ...] = ()
    """The categories that have a feature column each."""

    @abstractmethod
    def parse(self, value: Any) -> tuple[str, ...]:
        """The categories of one cell."""

    @classmethod
    def chosen(cls, name: str, of: Cells, choices: set[str], separator: str, reduce_to: int) -> Self:
        """What is learned of a column with these categories; the terms are yet to be chosen if there are many."""
        about = cls.seen(name, of) | {"distinct": len(choices), "separator": separator}
        return cls(**about, terms=()) if len(choices) > reduce_to else cls(**about, choices=tuple(sorted(choices)))

    @classmethod
    def condition(cls, value: Any) -> str:
        return parse_category(value)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}={choice}" for choice in self.choices)

    @property
    def categories(self) -> tuple[str, ...]:
        return self.choices

    @property
    def suggestions(self) -> tuple[str, ...]:
        return self.choices or tuple(map(str, self.terms or ()))

    def numbers(self, value: Any) -> Doubles:
        hot = np.zeros(len(self.choices))
        hot[[self._place(name) for name in self.parse(value)]] = 1.0
        return hot

    def counted(self, value: Any) -> dict[Any, float]:
        return dict.fromkeys(self.parse(value), 1.0)

    @cached_property
    def _place_of_choice(self) -> dict[str, int]:
        return {choice: place for place, choice in enumerate(self.choices)}

    def _place(self, name: str) -> int:
        if name not in self._place_of_choice:
            near = difflib.get_close_matches(name, self.choices, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            known = ", ".join(quoted(choice) for choice in self.choices[:LISTED])
            more = f" and {len(self.choices) - LISTED} more" if len(self.choices) > LISTED else ""
            raise Mismatch(f"found the unknown category {quoted(name)}", f"{hint}known are {known}{more}")
        return self._place_of_choice[name]


class Category(Choices):
    """One of several things that exclude each other."""

    called: ClassVar[str] = "category"
    holds: ClassVar[str] = "one category"
    types: ClassVar[tuple[Any, ...]] = (pl.String,)

    @classmethod
    def fits(cls, name: str, column: Coded) -> Learn | None:
        if are_foreign_ids(name, column):
            return None
        if not column.is_text():
            return cls.learn if column.all_read(parse_category) else None
        return None if column.nearly_all_differ() or normalised(name) in USUAL_NAMES["title"] else cls.learn

    @classmethod
    def learn(cls, name: str, of: Cells, reduce_to: int) -> Self:
        return cls.chosen(name, of, set(of.parsed(name, parse_category)), "|", reduce_to)

    def parse(self, value: Any) -> tuple[str, ...]:
        return (parse_category(value),)

    def in_words(self, value: Any) -> str:
        return legible(parse_category(value))

    def suggested(self) -> str | None:
        return next((name for name in self.suggestions if name.isprintable()), None)


# Flags

FLAGS = {"0": 0.0, "1": 1.0, "false": 0.0, "true": 1.0, "no": 0.0, "yes": 1.0}
PAIRS = ({"0", "1"}, {"false", "true"}, {"no", "yes"})


def parse_flag(value: object) -> float | None:
    """0 or 1; None for NA."""
    if isinstance(value, str) and value.upper() == "NA":
        return None
    key = _plain(value)
    if key not in FLAGS:
        raise misplaced(value, "0 or 1, true or false, yes or no")
    return FLAGS[key]


class Flag(Kind):
    """Yes or no."""

    called: ClassVar[str] = "flag"
    holds: ClassVar[str] = "yes or no"
    types: ClassVar[tuple[Any, ...]] = (pl.Boolean,)

    @classmethod
    def fits(cls, name: str, column: Coded) -> Learn | None:
        found: set[str] = set()
        for value in column.distinct:
            found.add(_plain(value) if is_read(_plain, value) else "")
            if len(found) > 2:
                return None
        return cls.learn if found in PAIRS else None

    @classmethod
    def learn(cls, name: str, of: Cells, reduce_to: int) -> Self:
        of.parsed(name, parse_flag)
        return super().learn(name, of, reduce_to)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    def numbers(self, value: Any) -> Doubles:
        return np.array([parse_flag(value) or 0.0])

    def in_words(self, value: Any) -> bool | None:
        return self.condition(value)

    def suggested(self) -> str:
        return "yes"

    @classmethod
    def condition(cls, value: Any) -> bool | None:
        flag = parse_flag(value)
        return None if flag is None else bool(flag)


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, (bool, str)) else parse_category(value)


# Several categories a cell

SEPARATORS = ("|", ";", ", ")
# Lists in cells: how many cells are one, how long a part is, how many parts stand in other cells too.
LISTS_AT_LEAST = 0.05
LIST_PART_WORDS = 4.0
LIST_PARTS_REPEATED = 0.3


def parse_several(value: object, separator: str) -> tuple[str, ...]:
    """Categories without repetition: a cell such as Comedy|Drama, or a list of them."""
    parts = value.split(separator) if isinstance(value, str) else value
    if isinstance(parts, Weighted):
        raise misplaced(value, "a list of categories")
    named = (parse_category(part).strip() for part in (parts if isinstance(parts, (tuple, list)) else (parts,)))
    return tuple(dict.fromkeys(part for part in named if part not in MISSING))


class Several(Choices):
    """Things that do not exclude each other."""

    called: ClassVar[str] = "several"
    holds: ClassVar[str] = "categories"
    one: ClassVar[str] = Category.holds
    types: ClassVar[tuple[Any, ...]] = (pl.List(pl.String),)

    @classmethod
    def fits(cls, name: str, column: Coded) -> Learn | None:
        if all(isinstance(value, tuple) for value in column.distinct):
            return cls.learn if column.all_read(lambda value: parse_several(value, "|")) else None
        if not column.is_text():
            return None
        separator = next((mark for mark in SEPARATORS if _holds_lists(column, mark)), None)
        return None if separator is None else partial(cls.learn, separator=separator)

    @classmethod
    def told(cls, column: Coded) -> Learn:
        return partial(cls.learn, separator=max(SEPARATORS, key=lambda mark: _lists(column, mark)))

    @classmethod
    def learn(cls, name: str, of: Cells, reduce_to: int, separator: str = "|") -> Self:
        found = of.parsed(name, lambda value: parse_several(value, separator))
        return cls.chosen(name, of, {choice for each in found for choice in each}, separator, reduce_to)

    def parse(self, value: Any) -> tuple[str, ...]:
        return parse_several(value, self.separator)

    def in_words(self, value: Any) -> list[str] | None:
        return [legible(name) for name in self.parse(value)] or None

    @property
    def belongs(self) -> str:
        return f"{self.holds} with {self.separator!r} between them"

    def suggested(self) -> str | None:
        return suggested_part(self.suggestions, self.separator)


def lists_in_words(found: "list[list[str]]") -> ReadableColumn:
    """Lists of categories or tags; an empty one is missing."""
    return ReadableColumn(Several.called, pl.Series([each or None for each in found], dtype=Several.types[0]))


def suggested_part(parts: tuple[str, ...], separator: str) -> str | None:
    """One of those that can stand between separators."""
    return next((part for part in parts if part.isprintable() and separator not in part), None)


def _lists(column: Coded, separator: str) -> float:
    """The share of cells that have a separator."""
    return column.share(lambda value: isinstance(value, str) and separator in value)


def _holds_lists(column: Coded, separator: str) -> bool:
    """Whether cells are lists of categories. A text has commas as well, but its parts are long and differ."""
    if _lists(column, separator) < LISTS_AT_LEAST:
        return False
    found: Counter[str] = Counter()
    for value, count in zip(column.distinct, column.counts().tolist(), strict=True):
        for part in parse_several(value, separator):
            found[part] += count
    parts = max(found.total(), 1)
    length = sum(len(part.split()) * count for part, count in found.items()) / parts
    repeated = sum(count for count in found.values() if count > 1) / parts
    return length <= LIST_PART_WORDS and (separator == "|" or repeated >= LIST_PARTS_REPEATED)


# Texts

LONGEST_TEXT = 500
# Words in a cell, on average, from which on cells are texts.
LONG_TEXT = 5.0
WORD = re.compile(r"[^\W\d_]{2,}")
_MOST_USUAL = """
about after all also am an and any are as at be because been before being but by can could did do does for from
had has have he her here him his how if in into is it its just me more most my no not of off on one only or
other our out over own she so some than that the their them then there these they this those through to too
under until up very was we were what when where which while who whom why will with would you your
"""
STOP_WORDS = frozenset(_MOST_USUAL.split())


def parse_text(value: object) -> str:
    """A text; a number is none."""
    if not isinstance(value, str):
        raise misplaced(value, "a text")
    return value


class Text(TermKind):
    """Something to read, such as a plot."""

    called: ClassVar[str] = "text"
    holds: ClassVar[str] = "a text"
    types: ClassVar[tuple[Any, ...]] = (pl.String,)
    searched: ClassVar[bool] = True
    summarised: ClassVar[bool] = False

    terms: TermNames

    @classmethod
    def fits(cls, name: str, column: Coded) -> Learn | None:
        if not column.is_text():
            return None
        length = np.average([len(value.split()) for value in column.distinct], weights=column.counts())
        return cls.learn if float(length) > LONG_TEXT else None

    @classmethod
    def learn(cls, name: str, of: Cells, reduce_to: int) -> Self:
        of.parsed(name, parse_text)
        return cls(**cls.seen(name, of), terms=())

    def counted(self, value: Any) -> dict[Any, float]:
        """The words in lower case, in order: two letters or more, without those that every text has."""
        words = Counter(word for word in WORD.findall(parse_text(value).lower()) if word not in STOP_WORDS)
        return {word: float(count) for word, count in words.items()}

    def weights(self, found_in: Longs, filled: int) -> Floats:
        """The inverse document frequency; 1 for a word that all texts have."""
        return np.asarray(np.log((1.0 + filled) / (1.0 + found_in)) + 1.0, np.float32)

    def weighed(self, counts: "Matrix", weights: Floats) -> "Matrix":
        matrix = counts.astype(np.float64)
        matrix.data = np.log1p(matrix.data) * weights[matrix.indices]
        return unit_rows(matrix)

    def in_words(self, value: Any) -> str:
        return legible(str(value)[:LONGEST_TEXT])

    @classmethod
    def condition(cls, value: Any) -> str | None:
        return parse_text(value).lower() or None

    @classmethod
    def equal(cls, cells: pl.Series, value: Any) -> pl.Series:
        """Which texts contain `value`, in upper or in lower case."""
        return cells.str.to_lowercase().str.contains(cls.wanted(value), literal=True)


# Dates

YEARS = (1000, 2999)
USUAL_YEARS = (1900, 2100)
SPEAKS_OF_TIME = re.compile(r"year|date|released?|born|birth", re.IGNORECASE)
# The share of titles with a year from which on a column that is said to be dates holds titles.
HALF = 0.5
# Of a day that was written as a decimal year.
ROUNDING = 1e-3
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


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
    types: ClassVar[tuple[Any, ...]] = (pl.Date,)

    lenient: bool = False
    """The cells are titles, and those without a year are unknown."""

    @classmethod
    def fits(cls, name: str, column: Coded) -> Learn | None:
        if column.once(all_numbers):
            return cls.learn if _are_years(name, column.distinct) else None
        if all(isinstance(value, (date, str)) and is_read(parse_year, value) for value in column.distinct):
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
        column = of.columns[self.name]
        if self.lenient:
            texts = of.parsed(self.name, lambda value: legible(str(value)[:LONGEST_TEXT]))
            return ReadableColumn(Text.called, pl.Series(texts, dtype=pl.String)).taken(column.codes)
        found = of.parsed(self.name, parse_moment)
        if not any(isinstance(moment, date) for moment in found):
            return numbers_in_words(found, column)
        return ReadableColumn(self.called, _days(found)).taken(column.codes)

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
    def condition(cls, value: Any) -> float | date | None:
        return parse_moment(value)

    @classmethod
    def equal(cls, cells: pl.Series, value: Any) -> pl.Series:
        return cells.is_between(*cls.bounds(value))

    @classmethod
    def bounds(cls, value: Any) -> tuple[Any, Any]:
        """The first and the last day that a date or a year stands for."""
        moment = cls.wanted(value)
        if isinstance(moment, float) and moment.is_integer():
            return date(int(moment), 1, 1), date(int(moment), 12, 31)
        return _day_of(moment), _day_of(moment)

    @classmethod
    def converted(cls, cells: pl.Series) -> pl.Series:
        """Bare years as the first of their days."""
        return cells if cells.dtype == pl.Date else _days(cells.cast(pl.Float64).to_list())


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
    day, month, in_year = text.split("-")
    return date(int(in_year), MONTHS.index(month.lower()) + 1, int(day))


def _days_of(year: int) -> int:
    return 366 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 365


def _days(moments: Iterable[float | date | None]) -> pl.Series:
    return pl.Series([None if moment is None else _day_of(moment) for moment in moments], dtype=pl.Date)


def _day_of(moment: float | date) -> date:
    """The day of a date, or that at which a decimal year stands."""
    if isinstance(moment, date):
        return moment.date() if isinstance(moment, datetime) else moment
    year = int(moment)
    return date(year, 1, 1) + timedelta(days=int((moment - year) * _days_of(year) + ROUNDING))


def _are_years(name: str, values: Iterable[Any]) -> bool:
    """Whether numbers are years, by the name of their column too."""
    if not SPEAKS_OF_TIME.search(name):
        return False
    found = (number for value in values if (number := parse_number(value)) is not None)
    return all(number.is_integer() and USUAL_YEARS[0] <= number <= USUAL_YEARS[1] for number in found)


def _ends_in_year(value: object) -> bool:
    return isinstance(value, str) and YEAR_AT_END.search(value) is not None


# Pictures, and what is skipped

IMAGE_NAMES = frozenset({"image", "imageurl", "cover", "coverurl", "picture", "pictureurl", "poster", "posterurl"})
ADDRESSES = ("https://", "http://")
IMAGE_BEGINNINGS = (*ADDRESSES, "data:image/", "/")
NAMES_AN_ADDRESS = re.compile(r"zip|postal|postcode|phone|e-?mail|url$|link$", re.IGNORECASE)


class Image(Kind):
    """A picture of an item, such as a poster or a cover: on the web, on the server itself, or in the cell itself."""

    called: ClassVar[str] = "image"
    holds: ClassVar[str] = "the address of a picture"
    types: ClassVar[tuple[Any, ...]] = (pl.String,)
    used: ClassVar[bool] = False
    summarised: ClassVar[bool] = False

    @classmethod
    def fits(cls, name: str, column: Coded) -> Learn | None:
        named = normalised(name) in IMAGE_NAMES and bool(column.distinct)
        return cls.learn if named and column.share(cls.condition) >= MOST else None

    def in_words(self, value: Any) -> str | None:
        return legible(value) if self.condition(value) else None

    @classmethod
    def condition(cls, value: Any) -> Any:
        return value if isinstance(value, str) and value.startswith(IMAGE_BEGINNINGS) else None


class Skip(Kind):
    """A column that is not used: URLs, ids of other catalogues, titles, and whatever fits no kind."""

    called: ClassVar[str] = "skip"
    holds: ClassVar[str] = "anything"
    used: ClassVar[bool] = False

    @classmethod
    def fits(cls, name: str, column: Coded) -> Learn | None:
        useless = not column.distinct or NAMES_AN_ADDRESS.search(name) or column.share(_is_address) >= MOST
        return cls.learn if useless else None


def _is_address(value: object) -> bool:
    return isinstance(value, str) and value.startswith(ADDRESSES)
