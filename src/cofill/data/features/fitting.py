"""Learning from a source of side information: tables, and lists of tags and links."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from cofill.data.features.cells import Cells, coded
from cofill.data.features.columns import CLIP, Column, Floats, learned, shortened
from cofill.data.features.kinds import Kind, as_told, judged
from cofill.data.features.readable import ReadableColumn, readable
from cofill.data.features.reduction import reduced_base
from cofill.data.features.source import Source, no_block, weighed
from cofill.data.features.table import RawTable
from cofill.data.features.text import rarity
from cofill.data.origin import quoted
from cofill.data.vocabulary import Id
from cofill.errors import DataError

if TYPE_CHECKING:
    from cofill.data.features.source import Matrix

Longs = npt.NDArray[np.int64]


class Fitted(NamedTuple):
    """What a source says: about whom, what, and how to say the same of others."""

    ids: list[Id]
    values: Floats
    source: Source
    readable: Mapping[str, ReadableColumn] = MappingProxyType({})
    """What the columns say in words, in the order of the ids."""


def fit_table(raw: RawTable, id_at: int, kinds: Mapping[str, Kind] | None, reduce_to: int, name: str | None) -> Fitted:
    """A table with a row for each id."""
    told = _checked_kinds(kinds or {}, raw, id_at)
    ids, of = table_cells(raw, id_at)
    # In the order of the ids whatever the order of the lines: the same table gives the same numbers to the last bit.
    order = np.array(sorted(range(len(ids)), key=ids.__getitem__), np.int64)
    ordered = Cells({key: column.taken(order) for key, column in of.columns.items()}, of.rows[order], of.error)
    columns = []
    for key, column in ordered.columns.items():
        judgement = as_told(told[key], column) if key in told else judged(key, column)
        columns.append(learned(key, judgement, ordered, reduce_to))
    source = Source("table", name or raw.label, raw.names[id_at], tuple(columns), *no_block())
    if source.long:
        source = _with_block(source, ordered, reduce_to)
    refuse_clash(source.names, raw.origin.name)
    return Fitted(ids, source.encoded(of, new=False), source, readable(source.columns, of))


def table_cells(raw: RawTable, id_at: int) -> tuple[list[Id], Cells]:
    """The ids of a table in their order, each once, and the cells of all other columns."""
    ids = raw.ids(id_at)[0]
    columns = {
        name: coded(cells) for at, (name, cells) in enumerate(zip(raw.names, raw.columns, strict=True)) if at != id_at
    }
    first_of: dict[Id, int] = {}
    kept = []
    for row, id in enumerate(ids):
        first = first_of.setdefault(id, row)
        if first == row:
            kept.append(row)
        elif differing := next(
            (key for key, column in columns.items() if column.codes[first] != column.codes[row]), None
        ):
            unit, line = raw.origin.unit, raw.origin.line
            raise DataError(
                f"{raw.origin.name}, {unit} {line(row)}, column {quoted(raw.names[id_at])}: the id {quoted(id)} is "
                f"there again after {unit} {line(first)}, with another {quoted(differing)}; keep one of them "
                "(or pass kind='tags' or kind='links' if these are lists of those)"
            )
    rows = np.array(kept, np.int64)
    return [ids[row] for row in kept], Cells(
        {key: column.taken(rows) for key, column in columns.items()}, rows, raw.error
    )


def _checked_kinds(kinds: Mapping[str, Kind], raw: RawTable, id_at: int) -> Mapping[str, Kind]:
    for column, kind in kinds.items():
        if column == raw.names[id_at]:
            raise DataError(f"{raw.origin.name}: {column!r} is the column of the ids; it has no kind")
        raw.position(column, "columns")
        if kind not in get_args(Kind):
            known = ", ".join(get_args(Kind))
            raise DataError(f"{raw.origin.name}: column {column!r} cannot be of kind {kind!r}; the kinds are {known}")
    return kinds


def _with_block(source: Source, of: Cells, reduce_to: int) -> Source:
    """The source with the terms, weights and base of its long columns."""
    counted = [_all_counts(column, of) for column in source.long]
    matrices, chosen, weights = [], {}, []
    useful = any((_found_in(counts) > 1).any() for _, counts in counted)
    for column, (terms, counts) in zip(source.long, counted, strict=True):
        found_in = _found_in(counts)
        kept = np.flatnonzero(found_in > 1) if useful else np.arange(len(terms))
        own = rarity(found_in[kept], int(np.count_nonzero(np.diff(counts.indptr))))
        chosen[column.name] = column.model_copy(update={"terms": tuple(terms[place] for place in kept)})
        weights.append(own if column.kind == "text" else np.ones(len(kept), np.float32))
        matrices.append(weighed(column, counts[:, kept], weights[-1]))
    columns = tuple(chosen.get(column.name, column) for column in source.columns)
    return _reduced(replace(source, columns=columns, weights=np.concatenate(weights)), matrices, reduce_to)


def _reduced(source: Source, matrices: "list[Matrix]", reduce_to: int) -> Source:
    from scipy.sparse import hstack

    together: Any = hstack(matrices, format="csr") if len(matrices) > 1 else matrices[0]
    return replace(source, base=reduced_base(together, reduce_to))


def _all_counts(column: Column, of: Cells) -> "tuple[list[str], Matrix]":
    """All terms of a column in order, and how often each row has each of them."""
    found = of.parsed(column.name, column.counted)
    terms = sorted({term for counts in found for term in counts})
    place = {term: at for at, term in enumerate(terms)}
    entries = [(row, place[term], count) for row, counts in enumerate(found) for term, count in counts.items()]
    codes = of.columns[column.name].codes
    rows, places, counts = zip(*entries, strict=True) if entries else ((), (), ())
    distinct = counted_matrix(
        np.array(rows, np.int64), np.array(places, np.int64), np.array(counts), (len(found) + 1, len(terms))
    )
    return terms, distinct[codes]  # -1, which is missing, takes the last row, which is empty


def _found_in(counts: "Matrix") -> Longs:
    return np.bincount(counts.indices, minlength=counts.shape[1])


def counted_matrix(rows: Longs, places: Longs, counts: npt.NDArray[np.float64], shape: tuple[int, int]) -> "Matrix":
    """The sums of counts (n,) at rows (n,) and places (n,), the same whatever their order; sums of 0 are left out."""
    from scipy.sparse import csr_array

    order = np.lexsort((counts, places, rows))
    matrix: Any = csr_array((counts[order].astype(np.float64), (rows[order], places[order])), shape=shape)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix  # type: ignore[no-any-return]


def fit_terms(
    kind: Literal["tags", "links"],
    name: str,
    ids: Sequence[Id],
    terms: Sequence[Any],
    counts: "Matrix",
    reduce_to: int,
    label: str,
) -> Fitted:
    """Tags or links: how often each id (in its row) has each term (in its column), both in ascending order."""
    found_in = _found_in(counts)
    kept = np.flatnonzero(found_in > 1)
    kept = kept if len(kept) else np.flatnonzero(found_in)
    if not len(kept):
        raise DataError(f"{label}: all {'counts' if kind == 'tags' else 'weights'} are 0; there is nothing to learn")
    used = counts[:, kept]
    column = Column(
        name=name,
        kind=kind,
        distinct=int(np.count_nonzero(found_in)),
        example=shortened(str(terms[int(kept[0])])),
        missing=int(np.count_nonzero(np.diff(counts.indptr) == 0)),
        terms=tuple(terms[place] for place in kept.tolist()),
    )
    weights = np.ones(len(kept), np.float32)
    matrix = weighed(column, used, weights)
    source = _reduced(Source(kind, name, None, (column,), no_block()[0], weights), [matrix], reduce_to)
    values = (matrix @ source.base.astype(np.float64)).astype(np.float32)
    return Fitted(list(ids), values, source)


def fit_vectors(name: str, ids: Sequence[Id], vectors: npt.NDArray[np.float64], label: str) -> Fitted:
    """Vectors (n, d), all divided by one number, so that they have length 1 on average, as other features do."""
    if not vectors.shape[1]:
        raise DataError(f"{label}: the vectors are empty; each needs at least one number")
    with np.errstate(over="ignore"):
        values = vectors.astype(np.float32)
    if not np.isfinite(values).all():
        row, at = (int(place) for place in np.argwhere(~np.isfinite(values))[0])
        raise DataError(
            f"{label}: the vector of the id {quoted(ids[row])} has {vectors[row, at]} at position {at}; "
            "every number must be finite: correct it, or leave the id out"
        )
    with np.errstate(over="ignore"):
        spread = float(np.sqrt((vectors**2).sum(1).mean()))
    if not np.isfinite(spread):
        raise DataError(f"{label}: the vectors have numbers up to {np.abs(vectors).max():.3g}; divide them by that")
    spread = spread or 1.0
    length = values.shape[1]
    example = f"{values[0, 0]:.4g}, ..." if length > 1 else f"{values[0, 0]:.4g}"
    column = Column(name=name, kind="vectors", distinct=None, missing=0, example=example, length=length, spread=spread)
    scaled = np.clip(vectors / spread, -CLIP, CLIP).astype(np.float32)
    return Fitted(list(ids), scaled, Source("vectors", name, None, (column,), *no_block()))


def refuse_clash(names: Sequence[str], label: str) -> None:
    """DataError if two feature columns have the same name."""
    counts = Counter(names)
    twice = next((name for name in names if counts[name] > 1), None)
    if twice is not None:
        raise DataError(f"{label}: two feature columns would be called {twice!r}; rename a column, or pass name=...")
