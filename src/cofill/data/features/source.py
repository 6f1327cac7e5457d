"""One source of side information as it was learned: its columns, and the base of its reduced block."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from cofill.data.features.cells import Cells
from cofill.data.features.columns import Column, Floats
from cofill.data.origin import quoted

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    Matrix = csr_array[Any, tuple[int, int]]

SourceKind = Literal["table", "tags", "links", "vectors"]


class UnknownFeatureWarning(UserWarning):
    """Tags, words or links of which not one is known: they say nothing."""


@dataclass(frozen=True, eq=False)
class Source:
    """All that is needed to describe somebody or something new by the columns of one source."""

    kind: SourceKind
    name: str
    """As people know it: the name of a file, "tags" and the like."""
    id_name: str | None
    """The column of the ids, which is no feature."""
    columns: tuple[Column, ...]
    base: Floats
    """(terms of all columns, width of the reduced block)."""
    weights: Floats
    """(terms of all columns,): how much each of them says."""

    @property
    def block(self) -> str:
        """What the reduced block is called."""
        return "+".join(column.name for column in self.long)

    @property
    def used(self) -> tuple[Column, ...]:
        """The columns that a description must have."""
        return tuple(column for column in self.columns if column.kind != "skip")

    @property
    def short(self) -> tuple[Column, ...]:
        """The columns that stand for themselves."""
        return tuple(column for column in self.used if column.terms is None)

    @property
    def long(self) -> tuple[Column, ...]:
        """The columns that are reduced together."""
        return tuple(column for column in self.used if column.terms is not None)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the feature columns."""
        own = tuple(name for column in self.short for name in column.names)
        return own + tuple(f"{self.block}[{position}]" for position in range(self.base.shape[1]))

    def widths(self) -> list[tuple[str, int]]:
        """How many feature columns each column has, and the reduced block."""
        own = [(column.name, len(column.names)) for column in self.short]
        return own + ([(self.block, self.base.shape[1])] if self.long else [])

    def encoded(self, of: Cells, new: bool = True) -> Floats:
        """(height, width): rows of cells; those of sources other than tables may be absent.

        `new`: they are not those that were learned from, so a cell without a known term is worth a warning.
        """
        parts = [
            column.encoded(of) if column.name in of.columns else self._nothing(column, of) for column in self.short
        ]
        if self.long:
            parts.append(self._reduced(of, new))
        height = len(of.rows)
        return np.concatenate(parts, axis=1) if parts else np.zeros((height, 0), np.float32)

    def _nothing(self, column: Column, of: Cells) -> Floats:
        return np.zeros((len(of.rows), len(column.names)), np.float32)

    def _reduced(self, of: Cells, new: bool) -> Floats:
        total = np.zeros((len(of.rows), self.base.shape[1]))
        ends = np.cumsum([0, *(len(column.terms or ()) for column in self.long)])
        for column, (begin, end) in zip(self.long, pairwise(ends.tolist()), strict=True):
            if column.name not in of.columns:
                continue
            counts = known_counts(column, of, new)
            matrix = weighed(column, counts, self.weights[begin:end])
            there = np.unique(matrix.indices)  # one description has few of many terms
            reduced = matrix[:, there] @ self.base[begin:end][there].astype(np.float64)
            reduced = np.concatenate([reduced, np.zeros((1, reduced.shape[1]))])
            total += reduced[of.columns[column.name].codes]  # -1, which is missing, takes the row of zeros
        return total.astype(np.float32)

    def card(self) -> dict[str, Any]:
        """What is learned except arrays, ready for JSON."""
        columns = [column.model_dump(mode="json", exclude_defaults=True) for column in self.columns]
        return {"kind": self.kind, "name": self.name, "id": self.id_name, "columns": columns}

    def arrays(self) -> dict[str, Floats]:
        """The arrays that belong to the card; none without a reduced block."""
        return {"base": self.base, "weights": self.weights} if self.long else {}

    @classmethod
    def restored(cls, card: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> "Source":
        """The inverse of `card` and `arrays`; ValueError if they do not fit together."""
        if card["kind"] not in ("table", "tags", "links", "vectors"):
            raise ValueError(f"features: there is no source of kind {card['kind']!r}")
        for key in ("name", "id"):
            if not isinstance(card[key], str) and not (key == "id" and card[key] is None):
                raise ValueError(f"features: the {key} of a source is {card[key]!r}")
        columns = tuple(Column.model_validate(column) for column in card["columns"])
        source = cls(card["kind"], card["name"], card["id"], columns, *no_block())
        terms = 0
        for column in source.used:
            for listed in (column.choices, column.terms or ()):
                if len(set(listed)) != len(listed):
                    raise ValueError(f"features: column {column.name!r} lists a category or term twice")
            reduced, always = column.terms is not None, column.kind in ("text", "tags", "links")
            if reduced != always and column.kind not in ("category", "several"):
                raise ValueError(f"features: column {column.name!r} is of kind {column.kind}, which its terms deny")
            terms += len(column.terms or ())
        if not source.long:
            return source
        base, weights = arrays["base"], arrays["weights"]
        if base.ndim != 2 or len(base) != terms or weights.shape != (terms,):
            raise ValueError(
                f"features: {source.block} has {terms} terms, but a base of shape {base.shape} "
                f"and weights of shape {weights.shape}"
            )
        for array in (base, weights):
            if array.dtype != np.float32 or not np.isfinite(array).all():
                raise ValueError(f"features: the arrays of {source.block} are not finite float32 numbers")
        return cls(card["kind"], card["name"], card["id"], columns, base, weights)


def no_block() -> tuple[Floats, Floats]:
    """Base and weights of a source without a reduced block."""
    return np.zeros((0, 0), np.float32), np.zeros(0, np.float32)


def known_counts(column: Column, of: Cells, new: bool) -> "Matrix":
    """(different cells, terms): how often each known term is in each cell; `new` ones without any are warned of."""
    from scipy.sparse import csr_array

    rows: list[int] = []
    places: list[int] = []
    counts: list[float] = []
    strangers: list[object] = []
    for row, found in enumerate(of.parsed(column.name, column.counted)):
        before = len(rows)
        for term, count in found.items():
            place = column.place(term)
            if place >= 0:
                rows.append(row)
                places.append(place)
                counts.append(count)
        if found and len(rows) == before:
            strangers.append(next(iter(found)))
    if strangers and new:
        _warn(column, strangers)
    shape = len(of.columns[column.name].distinct), len(column.terms or ())
    return csr_array(
        (np.array(counts, np.float64), (np.array(rows, np.int64), np.array(places, np.int64))), shape=shape
    )


def _warn(column: Column, strangers: Sequence[object]) -> None:
    cells = "a description" if len(strangers) == 1 else f"{len(strangers)} descriptions"
    warnings.warn(
        f"{column.name}: nothing in {cells} is known from two ids or more, such as {quoted(strangers[0])}; "
        f"{column.name} says nothing there",
        UnknownFeatureWarning,
        stacklevel=2,
    )


def weighed(column: Column, counts: "Matrix", weights: Floats) -> "Matrix":
    """The counts (rows, terms) of a column as they enter the reduction."""
    if column.kind == "links":
        return counts
    matrix = counts.astype(np.float64)
    if column.kind == "tags":
        matrix.data = np.log1p(matrix.data)
        return matrix
    if column.kind == "text":
        matrix.data = np.log1p(matrix.data) * weights[matrix.indices]
    from scipy.sparse import diags_array

    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1))).ravel()
    normal: Any = diags_array(1.0 / np.where(lengths > 0, lengths, 1.0)) @ matrix
    scaled: Matrix = normal.tocsr()
    return scaled
