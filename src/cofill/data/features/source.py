"""One learned source of side information: its columns, and its reduced block.

Columns of many terms are reduced together: (ids, terms) @ (terms, width), by a truncated singular value decomposition.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cofill.arrays import Doubles, Floats, Ints, Longs
from cofill.data.features.columns import Cells
from cofill.data.features.kind import Kind, TermKind
from cofill.errors import quoted

if TYPE_CHECKING:
    from cofill.data.features.kind import Matrix

# Up to this many rows or columns, all products of two of them are found at once; beyond, vectors one by one.
SMALL_SIDE = 1000
# Directions that are weaker than this, relative to the strongest, are rounding errors.
WEAKEST = 1e-5


class UnknownFeatureWarning(UserWarning):
    """Tags, words or links of which none is known, so that they have no effect."""


@dataclass(frozen=True, eq=False)
class Source:
    """Everything needed to encode new users or items by the columns of one source."""

    kind: str
    """table, or the kind that the whole source is of."""
    name: str
    """As people know it: the name of a file, "tags" and the like."""
    id_name: str | None
    """The column of the ids, which is no feature."""
    columns: tuple[Kind, ...]
    base: Floats
    """(terms of all columns, width of the reduced block)."""
    weights: Floats
    """(terms of all columns,): how much each of them says."""

    @property
    def block(self) -> str:
        """The name of the reduced block."""
        return "+".join(column.name for column in self.long)

    @property
    def used(self) -> tuple[Kind, ...]:
        """The columns that a description must have."""
        return tuple(column for column in self.columns if column.used)

    @property
    def short(self) -> tuple[Kind, ...]:
        """The columns that are not reduced."""
        return tuple(column for column in self.used if not isinstance(column, TermKind) or column.terms is None)

    @property
    def long(self) -> tuple[TermKind, ...]:
        """The columns that are reduced together."""
        return tuple(column for column in self.used if isinstance(column, TermKind) and column.terms is not None)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the feature columns."""
        own = tuple(name for column in self.short for name in column.names)
        return own + tuple(f"{self.block}[{position}]" for position in range(self.base.shape[1]))

    def widths(self) -> list[tuple[str, int]]:
        """How many feature columns each column has, and the reduced block."""
        own = [(column.name, len(column.names)) for column in self.short]
        return own + ([(self.block, self.base.shape[1])] if self.long else [])

    def width_of(self, column: Kind) -> int:
        """How many feature columns a column has; those that are reduced together each have all of the block."""
        reduced = isinstance(column, TermKind) and column.terms is not None
        return int(self.base.shape[1]) if reduced else len(column.names)

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

    def _nothing(self, column: Kind, of: Cells) -> Floats:
        return np.zeros((len(of.rows), len(column.names)), np.float32)

    def _reduced(self, of: Cells, new: bool) -> Floats:
        total = np.zeros((len(of.rows), self.base.shape[1]))
        ends = np.cumsum([0, *(len(column.terms or ()) for column in self.long)])
        for column, (begin, end) in zip(self.long, pairwise(ends.tolist()), strict=True):
            if column.name not in of.columns:
                continue
            counts = _known_counts(column, of, new)
            matrix = column.weighed(counts, self.weights[begin:end])
            there = np.unique(matrix.indices)  # one description has few of many terms
            reduced = matrix[:, there] @ self.base[begin:end][there].astype(np.float64)
            reduced = np.concatenate([reduced, np.zeros((1, reduced.shape[1]))])
            total += reduced[of.columns[column.name].codes]  # -1, which is missing, takes the row of zeros
        return total.astype(np.float32)

    def card(self) -> dict[str, Any]:
        """What is learned except arrays, ready for JSON."""
        columns = [column.card() for column in self.columns]
        return {"kind": self.kind, "name": self.name, "id": self.id_name, "columns": columns}

    def arrays(self) -> dict[str, Floats]:
        """The arrays that belong to the card; none without a reduced block."""
        return {"base": self.base, "weights": self.weights} if self.long else {}

    @classmethod
    def restored(
        cls, card: Mapping[str, Any], columns: Sequence[Kind], arrays: Mapping[str, npt.NDArray[Any]]
    ) -> "Source":
        """The inverse of `card`, whose columns are restored already, and `arrays`; ValueError if they do not fit."""
        for key in ("name", "id"):
            if not isinstance(card[key], str) and not (key == "id" and card[key] is None):
                raise ValueError(f"features: the {key} of a source is {card[key]!r}")
        source = cls(card["kind"], card["name"], card["id"], tuple(columns), *no_block())
        for column in source.used:
            terms = column.terms or () if isinstance(column, TermKind) else ()
            for listed in (column.categories, terms):
                if len(set(listed)) != len(listed):
                    raise ValueError(f"features: column {column.name!r} lists a category or term twice")
        if not source.long:
            return source
        base, weights = arrays["base"], arrays["weights"]
        count = sum(len(column.terms or ()) for column in source.long)
        if base.ndim != 2 or len(base) != count or weights.shape != (count,):
            raise ValueError(
                f"features: {source.block} has {count} terms, but a base of shape {base.shape} "
                f"and weights of shape {weights.shape}"
            )
        for array in (base, weights):
            if array.dtype != np.float32 or not np.isfinite(array).all():
                raise ValueError(f"features: the arrays of {source.block} are not finite float32 numbers")
        return replace(source, base=base, weights=weights)

    def with_block(self, of: Cells, reduce_to: int) -> "Source":
        """The source with the terms, weights and base of its long columns, learned from the cells."""
        counted = [_all_counts(column, of) for column in self.long]
        matrices, chosen, weights = [], {}, []
        useful = any((found_in(counts) > 1).any() for _, counts in counted)
        for column, (terms, counts) in zip(self.long, counted, strict=True):
            found = found_in(counts)
            kept = np.flatnonzero(found > 1) if useful else np.arange(len(terms))
            weights.append(column.weights(found[kept], int(np.count_nonzero(np.diff(counts.indptr)))))
            chosen[column.name] = column.model_copy(update={"terms": tuple(terms[place] for place in kept)})
            matrices.append(column.weighed(counts[:, kept], weights[-1]))
        columns = tuple(chosen.get(column.name, column) for column in self.columns)
        return replace(self, columns=columns, weights=np.concatenate(weights)).reduced(matrices, reduce_to)

    def reduced(self, matrices: "Sequence[Matrix]", reduce_to: int) -> "Source":
        """The source with the base of its long columns, whose weighed counts are `matrices`."""
        from scipy.sparse import hstack

        together: Any = hstack(matrices, format="csr") if len(matrices) > 1 else matrices[0]
        return replace(self, base=_reduced_base(together, reduce_to))


def no_block() -> tuple[Floats, Floats]:
    """Base and weights of a source without a reduced block."""
    return np.zeros((0, 0), np.float32), np.zeros(0, np.float32)


def _known_counts(column: TermKind, of: Cells, new: bool) -> "Matrix":
    """(different cells, terms): how often each known term is in each cell; `new` ones without any are warned of."""
    found = of.parsed(column.name, column.counted)
    known = [[(at, count) for term, count in each.items() if (at := column.place(term)) >= 0] for each in found]
    strangers = [next(iter(each)) for each, places in zip(found, known, strict=True) if each and not places]
    if strangers and new:
        _warn(column, strangers)
    return _matrix_of(known, (len(found), len(column.terms or ())))


def _matrix_of(counts: Sequence[Sequence[tuple[int, float]]], shape: tuple[int, int]) -> "Matrix":
    """From the places and counts of each row."""
    entries = [(row, place, count) for row, each in enumerate(counts) for place, count in each]
    rows, places, found = np.array(entries, np.float64).reshape(-1, 3).T
    return counted_matrix(rows.astype(np.int64), places.astype(np.int64), found, shape)


def _warn(column: Kind, strangers: Sequence[object]) -> None:
    cells = "a description" if len(strangers) == 1 else f"{len(strangers)} descriptions"
    warnings.warn(
        f"{column.name}: nothing in {cells} is known from two ids or more, such as {quoted(strangers[0])}; "
        f"{column.name} says nothing there",
        UnknownFeatureWarning,
        stacklevel=2,
    )


def _all_counts(column: TermKind, of: Cells) -> "tuple[list[str], Matrix]":
    """All terms of a column in order, and how often each row has each of them."""
    found = of.parsed(column.name, column.counted)
    terms = sorted({term for each in found for term in each})
    place = {term: at for at, term in enumerate(terms)}
    counts = [[(place[term], count) for term, count in each.items()] for each in found]
    distinct = _matrix_of(counts, (len(found) + 1, len(terms)))
    codes = of.columns[column.name].codes
    return terms, distinct[codes]  # -1, which is missing, takes the last row, which is empty


def found_in(counts: "Matrix") -> Longs:
    """(terms,): in how many rows of `counts` each term is."""
    return np.bincount(counts.indices, minlength=counts.shape[1])


def counted_matrix(rows: Ints | Longs, places: Ints | Longs, counts: Doubles, shape: tuple[int, int]) -> "Matrix":
    """The sums of counts (n,) at rows (n,) and places (n,), the same whatever their order; sums of 0 are left out."""
    from scipy.sparse import csr_array

    order = np.lexsort((counts, places, rows))
    matrix: Any = csr_array((counts[order].astype(np.float64), (rows[order], places[order])), shape=shape)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix  # type: ignore[no-any-return]


def _reduced_base(matrix: "Matrix", to: int) -> Floats:
    """(terms, at most `to`): the base B such that `matrix` (ids, terms) @ B are the reduced rows.

    With the decomposition P D Q' they are P D^1/2, so B is Q D^-1/2, up to one factor: the mean squared length
    of the rows that have anything is 1. Of each direction in Q the entry of the largest magnitude is positive.
    """
    if not matrix.nnz:
        return np.zeros((matrix.shape[1], 0), np.float32)
    singular_values, directions = _decomposed(matrix.astype(np.float64), to)
    largest = np.argmax(np.abs(directions), axis=0)
    signs = np.where(directions[largest, np.arange(len(singular_values))] < 0, -1.0, 1.0)
    base = directions * (signs / np.sqrt(singular_values))
    rows = matrix @ base
    filled = np.count_nonzero(np.diff(matrix.indptr))
    length = np.sqrt(np.square(rows).sum() / filled)
    return np.ascontiguousarray(base / length, dtype=np.float32)


def _decomposed(matrix: Any, to: int) -> tuple[Doubles, Doubles]:
    """The greatest singular values (k,), descending, and their right vectors (terms, k)."""
    ids, terms = matrix.shape
    wide = terms > ids  # the shorter side is decomposed, and the other follows from it
    squares, vectors = _eigenvectors(matrix if wide else matrix.T.tocsr(), to)
    singular_values = np.sqrt(np.maximum(squares, 0.0))
    kept = np.flatnonzero(singular_values > WEAKEST * singular_values[0])
    singular_values, vectors = singular_values[kept], vectors[:, kept]
    return singular_values, (matrix.T @ vectors) / singular_values if wide else vectors


def _eigenvectors(matrix: Any, to: int) -> tuple[Doubles, Doubles]:
    """The greatest eigenvalues (k,) of the products of all rows with each other, descending, and vectors (rows, k)."""
    rows = matrix.shape[0]
    if rows <= SMALL_SIDE:
        squares, vectors = np.linalg.eigh((matrix @ matrix.T).toarray())
    else:
        from scipy.sparse.linalg import LinearOperator, eigsh

        across = matrix.T.tocsr()
        products: Any = LinearOperator((rows, rows), matvec=lambda row: matrix @ (across @ row), dtype=np.float64)
        start = np.random.default_rng(0).standard_normal(rows)
        squares, vectors = eigsh(products, k=min(to, rows - 1), v0=start)
    order = np.argsort(-squares, kind="stable")[:to]
    return squares[order], vectors[:, order]
