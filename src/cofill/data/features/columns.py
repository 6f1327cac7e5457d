"""One column as it was learned: how its cells become numbers, or terms of the reduced block."""

import difflib
from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StrictInt, StrictStr

from cofill.data.features import cells as cells
from cofill.data.features.cells import Cells, Coded, Mismatch
from cofill.data.features.kinds import Judgement, is_vector
from cofill.data.features.text import words
from cofill.data.origin import quoted
from cofill.data.vocabulary import Id, Vocabulary

Floats = npt.NDArray[np.float32]
ColumnKind = Literal["number", "flag", "category", "several", "date", "text", "skip", "tags", "links", "vectors"]
Count = Annotated[int, Field(ge=0)]
CLIP = 5.0
LISTED = 10
LONGEST_EXAMPLE = 40
HOLDS: dict[ColumnKind, str] = {
    "number": "a number",
    "flag": "yes or no",
    "category": "one category",
    "several": "categories",
    "date": "a year or a date",
    "text": "a text",
    "tags": "tags",
    "links": "ids",
    "vectors": "a vector",
}


class Column(BaseModel):
    """What was learned of one column; everything that is needed to encode another cell of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: StrictStr
    kind: ColumnKind
    distinct: Count | None
    missing: Count
    example: StrictStr
    mean: FiniteFloat = 0.0
    spread: Annotated[FiniteFloat, Field(ge=0.0)] = 0.0
    """The standard deviation of a number or date; 0 if it is constant."""
    separator: Annotated[StrictStr, Field(min_length=1)] = "|"
    lenient: bool = False
    choices: tuple[StrictStr, ...] = ()
    """The categories that have a column each."""
    terms: tuple[StrictStr, ...] | tuple[StrictInt, ...] | None = None
    """What the column adds to the reduced block; None if it stands for itself."""
    length: Count = 0
    """Of a vector."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the feature columns that this column has for itself."""
        if self.kind == "vectors":
            return tuple(f"{self.name}[{position}]" for position in range(self.length))
        if self.kind in ("number", "flag", "date"):
            return (self.name,)
        return tuple(f"{self.name}={choice}" for choice in self.choices)

    @property
    def holds(self) -> str:
        """What belongs into a cell, for an error message."""
        return HOLDS[self.kind]

    @cached_property
    def place_of_term(self) -> Vocabulary | dict[str, int]:
        """Where a term stands in `terms`; ids of links may be written as strings or integers."""
        if self.kind == "links":
            return Vocabulary(self.terms or ())
        return {str(term): place for place, term in enumerate(self.terms or ())}

    def encoded(self, of: Cells) -> Floats:
        """(height, width): the numbers of this column's cells; zeros where one is missing."""
        column = of.columns[self.name]
        table = np.zeros((len(column.distinct) + 1, len(self.names)))
        parsed = of.parsed(self.name, self._numbers)
        if parsed:
            table[:-1] = parsed
        encoded: Floats = table[column.codes].astype(np.float32)  # -1, which is missing, takes the last row
        return encoded

    def _numbers(self, value: object) -> npt.NDArray[np.float64]:
        if self.kind == "vectors":
            return np.clip(cells.vector(value, self.length) / (self.spread or 1.0), -CLIP, CLIP)
        if self.kind in ("category", "several"):
            named = (cells.category(value),) if self.kind == "category" else cells.several(value, self.separator)
            hot = np.zeros(len(self.choices))
            hot[[self._choice(name) for name in named]] = 1.0
            return hot
        if self.kind == "flag":
            return np.array([cells.flag(value) or 0.0])
        number = cells.number(value) if self.kind == "number" else cells.year(value, self.lenient)
        if number is None or not self.spread:
            return np.zeros(1)
        with np.errstate(over="ignore"):
            return np.clip([(number - self.mean) / self.spread], -CLIP, CLIP)

    @cached_property
    def _place_of_choice(self) -> dict[str, int]:
        return {choice: place for place, choice in enumerate(self.choices)}

    def _choice(self, name: str) -> int:
        if name not in self._place_of_choice:
            near = difflib.get_close_matches(name, self.choices, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            known = ", ".join(quoted(choice) for choice in self.choices[:LISTED])
            more = f" and {len(self.choices) - LISTED} more" if len(self.choices) > LISTED else ""
            raise Mismatch(f"found the unknown category {quoted(name)}", f"{hint}known are {known}{more}")
        return self._place_of_choice[name]

    def counted(self, value: object) -> dict[Any, float]:
        """The terms of one cell, known or not, and how often each is there."""
        if self.kind == "tags":
            return dict(cells.tags(value))
        if self.kind == "links":
            return dict(cells.links(value))
        if self.kind == "category":
            return {cells.category(value): 1.0}
        if self.kind == "several":
            return dict.fromkeys(cells.several(value, self.separator), 1.0)
        counts: dict[Any, float] = {}
        for word in words(cells.text(value)):
            counts[word] = counts.get(word, 0.0) + 1.0
        return counts

    def place(self, term: Id) -> int:
        """Where a term stands in `terms`; -1 if it is unknown."""
        known = self.place_of_term
        return int(known.find([term])[0]) if isinstance(known, Vocabulary) else known.get(str(term), -1)


class Standard(NamedTuple):
    """Mean and standard deviation of the numbers that are there."""

    mean: float
    spread: float


def standard(numbers: npt.NDArray[np.float64]) -> Standard:
    """Of `numbers` (n,), however large; a spread of 0 if they are all the same."""
    if not len(numbers) or numbers.min() == numbers.max():
        return Standard(float(numbers[0]) if len(numbers) else 0.0, 0.0)
    unit = float(np.abs(numbers).max())
    scaled = numbers / unit  # squares of the largest numbers would overflow
    return Standard(float(scaled.mean()) * unit, float(scaled.std()) * unit)


def learned(name: str, judgement: Judgement, of: Cells, reduce_to: int) -> Column:
    """The column `name` of `of`; its terms are yet to be chosen if it belongs to the reduced block."""
    column, kind = of.columns[name], judgement.kind
    if judgement.vectors:
        of.parsed(name, _refuse_vector)
    about: dict[str, Any] = {
        "name": name,
        "kind": kind,
        "distinct": len(column.distinct),
        "missing": column.missing,
        "example": _example(column),
    }
    if kind in ("number", "date"):
        read = cells.number if kind == "number" else lambda value: cells.year(value, judgement.lenient)
        read = _with_advice(read, name) if judgement.slips else read
        parsed = np.array([np.nan if found is None else found for found in of.parsed(name, read)] + [np.nan])
        numbers = parsed[column.codes]
        there = np.sort(numbers[~np.isnan(numbers)])
        mean, spread = standard(there)
        about["missing"] = int(np.isnan(numbers).sum())
        if not spread and len(there):
            about["example"] += " in every row"
        return Column(**about, mean=mean, spread=spread, lenient=judgement.lenient)
    if kind in ("category", "several"):
        read_several = cells.category if kind == "category" else lambda value: cells.several(value, judgement.separator)
        found = of.parsed(name, read_several)
        choices = sorted(set(found) if kind == "category" else {choice for each in found for choice in each})
        about |= {"distinct": len(choices), "separator": judgement.separator}
        return Column(**about, terms=()) if len(choices) > reduce_to else Column(**about, choices=tuple(choices))
    if kind == "text":
        of.parsed(name, cells.text)
        return Column(**about, terms=())
    if kind == "flag":
        of.parsed(name, cells.flag)
    return Column(**about)


def _refuse_vector(value: object) -> None:
    if is_vector(value):
        raise Mismatch(
            f"found {quoted(value)}, a vector, where categories belong",
            "read vectors with kind='vectors' (--item-vectors on the command line), or leave the column out",
        )


def _with_advice(read: Callable[[Any], float | None], name: str) -> Callable[[Any], float | None]:
    """As `read`, for a column whose kind nobody has said: its slips may be none."""

    def read_or_advise(value: Any) -> float | None:
        try:
            return read(value)
        except Mismatch as slip:
            kinds = f"columns={{{name!r}: 'category'}} (--feature-kind on the command line)"
            raise Mismatch(str(slip), f"{slip.advice}, or pass {kinds} if these are categories") from slip

    return read_or_advise


def _example(column: Coded) -> str:
    there = column.codes[column.codes >= 0]
    if not len(there):
        return ""
    value = column.distinct[there[0]]
    return shortened(", ".join(map(str, value)) if isinstance(value, tuple) else str(value))


def shortened(example: str) -> str:
    """An example on one line that fits a column of a printed table."""
    line = " ".join(example.split())
    return line if len(line) <= LONGEST_EXAMPLE else f"{line[: LONGEST_EXAMPLE - 3]}..."
