"""A kind of side information: how its cells are detected, learned, encoded, displayed and filtered.

A kind is a subclass of `Kind` in `kinds` or `lists`, and an entry in the list there. An instance is one column as it
was learned. What needs nothing learned are class methods: to judge, to learn, and to filter cells in words.
"""

import difflib
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

from cofill.arrays import Bools, Doubles, Floats, Longs
from cofill.data.features.columns import Cells, Coded, Mismatch, ReadableColumn, legible
from cofill.data.vocabulary import Id
from cofill.errors import quoted

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    Matrix = csr_array[Any, tuple[int, int]]

Count = Annotated[int, Field(ge=0)]
TermNames = tuple[StrictStr, ...] | tuple[StrictInt, ...]
Learn = Callable[[str, Cells, int], "Kind"]
"""Learns the column of a name from its cells; more categories than the number are reduced, as texts are."""
CLIP = 5.0
MOST_VALUES = 100
LISTED = 10


class Summary(NamedTuple):
    """A summary of a readable column, for building filters."""

    values: tuple[tuple[str | bool, int], ...] = ()
    """Each value and how often it is there, the most frequent first."""
    low: Any = None
    """The least and the greatest of kinds that have an order; None if all are missing."""
    high: Any = None


class Kind(BaseModel):
    """One learned column: everything needed to encode another cell of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    called: ClassVar[str]
    """The kind's name in files, in Python and on the command line."""
    holds: ClassVar[str]
    """What belongs into a cell, for an error message."""
    one: ClassVar[str] = ""
    """What a condition of a filter names, where that is not a whole cell."""
    types: ClassVar[tuple[Any, ...]] = ()
    """The polars types that cells in words may have; none if there are no such cells."""
    in_tables: ClassVar[bool] = True
    """Whether the column of a table can be of this kind."""
    used: ClassVar[bool] = True
    """Whether a model learns from it."""
    ordered: ClassVar[bool] = False
    """Whether a filter can have bounds."""
    summarised: ClassVar[bool] = True
    """Whether its values can be listed, or have an order."""
    searched: ClassVar[bool] = False
    """Whether a filter looks into the cells, instead of naming a value that they have or not."""

    name: StrictStr
    kind: StrictStr
    distinct: Count | None
    missing: Count
    example: StrictStr

    # To judge and to learn.

    @classmethod
    def fits(cls, name: str, column: Coded) -> Learn | None:
        """Detect this kind: how to learn a column whose kind was not given; None if it is of another kind."""
        return None

    @classmethod
    def told(cls, column: Coded) -> Learn:
        """How to learn a column that the caller says is of this kind."""
        return cls.learn

    @classmethod
    def learn(cls, name: str, of: Cells, reduce_to: int) -> Self:
        """The column `name` of `of`."""
        return cls(**cls.seen(name, of))

    @classmethod
    def seen(cls, name: str, of: Cells) -> dict[str, Any]:
        """The fields that are kept for a column of any kind."""
        column = of.columns[name]
        about = {"distinct": len(column.distinct), "missing": column.missing, "example": column.example()}
        return {"name": name, "kind": cls.called, **about}

    # To encode.

    @property
    def names(self) -> tuple[str, ...]:
        """The names of this column's own feature columns."""
        return ()

    @property
    def categories(self) -> tuple[str, ...]:
        """The possible values of a cell, if they are a closed list."""
        return ()

    @property
    def suggestions(self) -> tuple[str, ...]:
        """What a form offers for a cell: the categories, or what is known of an open list; none for other kinds."""
        return self.categories

    def numbers(self, value: Any) -> Doubles:
        """(len(names),): one cell as it is encoded; Mismatch if it is no cell of this column."""
        return np.zeros(len(self.names))

    def encoded(self, of: Cells) -> Floats:
        """(height, len(names)): the numbers of this column's cells; zeros where one is missing."""
        parsed = of.parsed(self.name, self.numbers)
        table = np.array([*parsed, np.zeros(len(self.names))], np.float32)
        encoded: Floats = table[of.columns[self.name].codes]  # -1, which is missing, takes the last row
        return encoded

    def card(self) -> dict[str, Any]:
        """What was learned, ready for JSON; `model_validate` is the inverse."""
        return self.model_dump(mode="json", exclude_defaults=True)

    # To put into words.

    def words(self, of: Cells) -> ReadableColumn | None:
        """The cells of this column in readable form; None if there is no such form."""
        if not self.types:
            return None
        found = of.parsed(self.name, self.in_words)
        return ReadableColumn(self.called, pl.Series(found, dtype=self.types[0])).taken(of.columns[self.name].codes)

    def in_words(self, value: Any) -> Any:
        """One cell in readable form, of kinds that have `types`; None if it is as good as missing."""
        return value

    def also_in_words(self, of: Cells) -> Mapping[str, ReadableColumn]:
        """What else titles say, by the name of the column that it becomes, unless there is one of that name."""
        return {}

    @property
    def belongs(self) -> str:
        """What a description must contain here, for error messages and help."""
        return self.holds

    def suggested(self) -> str | None:
        """An example value for a description; None if there is no short one."""
        return None

    # To filter cells in words.

    @classmethod
    def condition(cls, value: Any) -> Any:
        """What a value of a condition means; None or Mismatch if it does not fit the kind."""
        return None

    @classmethod
    def wanted(cls, value: Any) -> Any:
        """As `condition`; Mismatch if the value does not fit."""
        value = legible(value.strip()) if isinstance(value, str) else value
        try:
            found = cls.condition(value)
        except Mismatch:
            found = None
        if found is None:
            raise cls._misfit(value)
        return found

    @classmethod
    def equal(cls, cells: pl.Series, value: Any) -> pl.Series:
        """(n,): which cells equal the value of a condition, null where missing."""
        wanted = cls.wanted(value)
        return cells.list.contains(wanted) if isinstance(cells.dtype, pl.List) else cells == wanted

    @classmethod
    def bounds(cls, value: Any) -> tuple[Any, Any]:
        """The least and the greatest cell that a value stands for, of kinds that are `ordered`."""
        return cls.wanted(value), cls.wanted(value)

    @classmethod
    def summed_up(cls, cells: pl.Series) -> Summary:
        """A summary of the cells (n,), none of which is null."""
        if not cls.summarised:
            return Summary()
        if cls.ordered:
            return Summary(low=cells.min(), high=cells.max())
        found = _single(cells).alias("value").value_counts(name="count")
        counted = sorted(found.iter_rows(), key=lambda row: (-row[1], row[0]))
        return Summary(tuple(counted[:MOST_VALUES]))

    @classmethod
    def converted(cls, cells: pl.Series) -> pl.Series:
        """Cells in words of the same column that were found to be of another kind, as cells of this kind."""
        return cells

    @classmethod
    def met(cls, cells: pl.Series, condition: object) -> Bools:
        """(n,): which cells meet a condition: a value, a list of values, or bounds; Mismatch if it does not fit."""
        if isinstance(condition, Mapping):
            low, high = cls._ends(condition)
            above = cells.is_not_null() if low is None else cells >= low
            return _filled(above if high is None else above & (cells <= high))
        met = np.zeros(len(cells), np.bool_)
        for value in condition if isinstance(condition, (list, tuple, set, frozenset)) else [condition]:
            met |= _filled(cls.equal(cells, value))
        return met

    @classmethod
    def instead(cls, cells: pl.Series, value: object) -> str:
        """What to say about a value that no cell has: the nearest that there is."""
        there = _single(cells.drop_nulls()).unique()
        if not len(there):
            return "nothing is known of any item there"
        if not cls.ordered:
            return _nearest_name(str(value), sorted(map(str, there.to_list())))
        wanted = cls.bounds(value)[0]
        return f"the nearest is {min(there.sort().to_list(), key=lambda there_is: abs(there_is - wanted))}"

    @classmethod
    def _ends(cls, bounds: Mapping[Any, object]) -> tuple[Any, Any]:
        """The least and the greatest cell within bounds; None for one that is open."""
        given = {key: bound for key, bound in bounds.items() if bound is not None}
        if not cls.ordered or not given or not bounds.keys() <= {"min", "max"}:
            raise cls._misfit(dict(bounds))
        low = cls.bounds(given["min"])[0] if "min" in given else None
        high = cls.bounds(given["max"])[1] if "max" in given else None
        if low is not None and high is not None and low > high:
            raise Mismatch(f"the min {quoted(given['min'])} is above the max {quoted(given['max'])}", "swap them")
        return low, high

    @classmethod
    def _misfit(cls, value: object) -> Mismatch:
        takes = ", a list of values, or {'min': ..., 'max': ...}" if cls.ordered else " or a list of values"
        return Mismatch(
            f"found {quoted(value)} where {cls.one or cls.holds} belongs",
            f"a column of kind {cls.called} takes a value{takes}",
        )


def _nearest_name(wanted: str, names: Sequence[str]) -> str:
    """The name that is most like another, whether in upper or in lower case; the first of all if none is."""
    folded = {name.casefold(): name for name in reversed(names)}
    near = difflib.get_close_matches(wanted.strip().casefold(), folded, 1)
    if near:
        return f"did you mean {quoted(folded[near[0]])}?"
    more = f" and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    return f"there are {', '.join(map(quoted, names[:LISTED]))}{more}"


def _single(cells: pl.Series) -> pl.Series:
    """Each value by itself of cells that hold several."""
    return cells.list.explode().drop_nulls() if isinstance(cells.dtype, pl.List) else cells


def _filled(met: pl.Series) -> Bools:
    return met.fill_null(value=False).to_numpy().astype(np.bool_)


class TermKind(Kind):
    """A kind with many different terms, which are counted and reduced to a few columns."""

    terms: TermNames | None = None
    """What the column adds to the reduced block of its source; None if it stands for itself."""

    @abstractmethod
    def counted(self, value: Any) -> Mapping[Any, float]:
        """The terms of one cell, known or not, and how often each is there."""

    def place(self, term: Id) -> int:
        """Where a term stands in `terms`; -1 if it is unknown."""
        return self._places.get(str(term), -1)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {str(term): place for place, term in enumerate(self.terms or ())}

    def weights(self, found_in: Longs, filled: int) -> Floats:
        """(terms,): weights of terms that occur in so many of all `filled` cells."""
        return np.ones(len(found_in), np.float32)

    def weighed(self, counts: "Matrix", weights: Floats) -> "Matrix":
        """The counts (rows, terms) as they enter the reduction."""
        return unit_rows(counts.astype(np.float64))

    def card(self) -> dict[str, Any]:
        """As that of any kind; the terms, which can be thousands, stand last."""
        found = super().card()
        return found | ({"terms": found.pop("terms")} if "terms" in found else {})


def unit_rows(matrix: "Matrix") -> "Matrix":
    """Rows divided by their lengths."""
    from scipy.sparse import diags_array

    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1))).ravel()
    normal: Any = diags_array(1.0 / np.where(lengths > 0, lengths, 1.0)) @ matrix
    scaled: Matrix = normal.tocsr()
    return scaled
