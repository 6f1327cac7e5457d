"""What the columns of a table hold, judged by all of their cells."""

import re
from collections import Counter
from collections.abc import Callable
from datetime import date
from typing import Any, Literal, NamedTuple

import numpy as np

from cofill.data.features import cells as cells
from cofill.data.features.cells import Coded, Mismatch
from cofill.data.roles import USUAL_NAMES, normalised

Kind = Literal["number", "flag", "category", "several", "date", "text", "skip"]
FLAG_PAIRS = ({"0", "1"}, {"false", "true"}, {"no", "yes"})
SPEAKS_OF_TIME = re.compile(r"year|date|released?|born|birth", re.IGNORECASE)
NAMES_AN_ADDRESS = re.compile(r"zip|postal|postcode|phone|e-?mail|url$|link$", re.IGNORECASE)
NAMES_AN_ID = re.compile(r"(^|[a-z_\-. ])(id|Id|ID|IDs|ids)$")
USUAL_YEARS = (1900, 2100)
MOST = 0.9
HALF = 0.5
NEARLY_ALL = 0.8
LONG_TEXT = 5.0
# Lists in cells: how many cells are one, how long a part is, how many parts stand in other cells too.
LISTS_AT_LEAST = 0.05
LIST_PART_WORDS = 4.0
LIST_PARTS_REPEATED = 0.3


class Judgement(NamedTuple):
    """The kind of a column, and how its cells are read."""

    kind: Kind
    separator: str = "|"
    """Between the categories of a cell, if the kind is several."""
    lenient: bool = False
    """If the kind is date: the cells are titles, and those without a year are unknown."""
    slips: bool = False
    """A few cells are not what most are, and are refused where they stand."""
    vectors: bool = False
    """The cells are lists of numbers with a point: no categories, and refused."""


def judged(name: str, column: Coded) -> Judgement:
    """The kind of a column whose kind nobody has said."""
    values = column.distinct
    if not values or NAMES_AN_ADDRESS.search(name) or _share(column, _is_address) >= MOST:
        return Judgement("skip")
    if any(is_vector(value) for value in values):
        return Judgement("several", vectors=True)
    if all(isinstance(value, tuple) for value in values):
        return Judgement("several" if all(_reads(cells.several, value, "|") for value in values) else "skip")
    plain = {str(value).lower() if isinstance(value, (str, bool)) else _category(value) for value in values}
    if plain in FLAG_PAIRS:
        return Judgement("flag")
    if all(_reads(cells.number, value) for value in values):
        return _judged_numbers(name, column, values)
    if all(
        isinstance(value, date) or (isinstance(value, str) and _reads(cells.year, value, False)) for value in values
    ):
        years_at_end = all(isinstance(value, str) and cells.YEAR_AT_END.search(value) for value in values)
        return Judgement("date", lenient=years_at_end)
    numbers, others = _numbers_and_others(column)
    if numbers.total() >= MOST * (numbers.total() + others.total()) and not _are_codes(name, numbers, others):
        return _judged_numbers(name, column, list(numbers))._replace(slips=True)
    if not all(isinstance(value, str) for value in values):
        return Judgement("category" if all(_reads(cells.category, value) for value in values) else "skip")
    return _judged_texts(name, column)


def as_told(kind: Kind, column: Coded) -> Judgement:
    """The kind that the caller has set, and how the cells of `column` are read as such."""
    if kind == "several":
        return Judgement(kind, separator=max(cells.SEVERAL_SEPARATORS, key=lambda mark: _lists(column, mark)))
    if kind == "date":
        with_year = _share(column, lambda value: isinstance(value, str) and bool(cells.YEAR_AT_END.search(value)))
        return Judgement(kind, lenient=with_year >= HALF)
    return Judgement(kind)


def _judged_numbers(name: str, column: Coded, values: list[Any]) -> Judgement:
    found = [number for value in values if (number := cells.number(value)) is not None]
    whole = all(number.is_integer() for number in found)
    if SPEAKS_OF_TIME.search(name) and whole and all(USUAL_YEARS[0] <= number <= USUAL_YEARS[1] for number in found):
        return Judgement("date")
    if whole and NAMES_AN_ID.search(name) and _nearly_all_differ(column):
        return Judgement("skip")  # an id of another catalogue: its size says nothing
    return Judgement("number")


def _numbers_and_others(column: Coded) -> tuple[Counter[Any], Counter[Any]]:
    """How often each number and each other cell is there; NA, which is as good as empty, is neither."""
    numbers: Counter[Any] = Counter()
    others: Counter[Any] = Counter()
    for value, count in zip(column.distinct, column.counts().tolist(), strict=True):
        try:
            if cells.number(value) is not None:
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
        len(both) >= NEARLY_ALL * both.total()
        and all(float(value).is_integer() for value in numbers)
        and any(isinstance(value, str) and value.isalnum() and not value.isalpha() for value in others)
    )


def _judged_texts(name: str, column: Coded) -> Judgement:
    if _share(column, lambda value: bool(cells.YEAR_AT_END.search(value))) >= MOST:
        return Judgement("date", lenient=True)
    separator = next((mark for mark in cells.SEVERAL_SEPARATORS if _holds_lists(column, mark)), None)
    if separator is not None:
        return Judgement("several", separator=separator)
    counts = column.counts()
    if float(np.average([len(value.split()) for value in column.distinct], weights=counts)) > LONG_TEXT:
        return Judgement("text")
    if _nearly_all_differ(column) or normalised(name) in USUAL_NAMES["title"]:
        return Judgement("skip")
    return Judgement("category")


def _lists(column: Coded, separator: str) -> float:
    """The share of cells that have a separator."""
    return _share(column, lambda value: isinstance(value, str) and separator in value)


def _holds_lists(column: Coded, separator: str) -> bool:
    """Whether cells are lists of categories. A text has commas as well, but its parts are long and differ."""
    if _lists(column, separator) < LISTS_AT_LEAST:
        return False
    found: Counter[str] = Counter()
    for value, count in zip(column.distinct, column.counts().tolist(), strict=True):
        for part in cells.several(value, separator):
            found[part] += count
    parts = max(found.total(), 1)
    length = sum(len(part.split()) * count for part, count in found.items()) / parts
    repeated = sum(count for count in found.values() if count > 1) / parts
    return length <= LIST_PART_WORDS and (separator == "|" or repeated >= LIST_PARTS_REPEATED)


def _share(column: Coded, holds: Callable[[Any], bool]) -> float:
    """The share of the cells that are there for which something holds."""
    counts = column.counts()
    held = sum(count for value, count in zip(column.distinct, counts.tolist(), strict=True) if holds(value))
    return float(held / max(int(counts.sum()), 1))


def is_vector(value: object) -> bool:
    """Whether a cell is a list of numbers of which some have a point; one of integers may be one of categories."""
    if not isinstance(value, tuple) or isinstance(value, cells.Weighted):
        return False
    there = [part for part in value if part is not None]
    numbers = all(isinstance(part, (int, float)) and not isinstance(part, bool) for part in there)
    return numbers and any(isinstance(part, float) for part in there)


def _is_address(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("http://", "https://"))


def _nearly_all_differ(column: Coded) -> bool:
    return len(column.distinct) >= NEARLY_ALL * int(column.counts().sum())


def _category(value: object) -> str:
    try:
        return cells.category(value)
    except Mismatch:
        return ""


def _reads(parse: Callable[..., Any], *arguments: object) -> bool:
    try:
        parse(*arguments)
    except Mismatch:
        return False
    return True
