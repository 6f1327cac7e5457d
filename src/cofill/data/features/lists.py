"""Kinds that are whole sources: tags, links and vectors; and the list of all kinds, with detection of a column's kind.

A new kind is a subclass of `Kind` in `kinds`, or of `WholeSource` too here, and an entry in `KINDS`.
"""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import Field, FiniteFloat

from cofill.arrays import Doubles, Floats
from cofill.data.cells import Origin
from cofill.data.columns import ID_NAMES, USUAL_NAMES, listed, normalised, recognised
from cofill.data.features.columns import (
    Cells,
    Coded,
    Mismatch,
    ReadableColumn,
    Weighted,
    coded,
    is_read,
    legible,
    misplaced,
    shortened,
)
from cofill.data.features.kind import CLIP, Count, Kind, Learn, TermKind, TermNames
from cofill.data.features.kinds import (
    Category,
    Date,
    Flag,
    Image,
    Number,
    Several,
    Skip,
    Text,
    lists_in_words,
    parse_number,
    suggested_part,
)
from cofill.data.features.source import Source, counted_matrix, found_in, no_block
from cofill.data.table import Table, explained, read_raw
from cofill.data.vocabulary import Id, Vocabulary, indexed
from cofill.errors import DataError, quoted

if TYPE_CHECKING:
    from cofill.data.features.kind import Matrix

About = Literal["user", "item"] | None
"""Whose ids a source has; None if that was not said."""


class Fitted(NamedTuple):
    """A fitted source: its ids, their features, and how to encode others."""

    ids: list[Id]
    values: Floats
    source: Source
    readable: Mapping[str, ReadableColumn] = MappingProxyType({})
    """What the columns say in words, in the order of the ids."""


class Reading(NamedTuple):
    """The caller's options for reading a source."""

    id: str | int | None
    ids: Any
    name: str | None
    reduce_to: int
    both_ways: bool
    about: About
    layout: Mapping[str, Any]
    """How a text file is read."""

    def id_position(self, raw: Table) -> int:
        """Where the ids of a table stand."""
        if self.id is not None:
            return raw.position(self.id, "id")
        if unnamed(raw):
            return 0
        plain = [normalised(name) for name in raw.names]
        if "id" in plain:
            return plain.index("id")
        found = [position for position, name in enumerate(plain) if name in ID_NAMES]
        if self.about is not None and found:
            found = sorted(recognised(raw.names)[self.about])
            if not found:
                refuse_other_side(raw, self.about)
        if not found and not raw.headed:
            return 0
        if not found:
            raise no_id(raw)
        if len(found) > 1 and found[0] != 0:
            both = " and ".join(quoted(raw.names[position]) for position in found[:2])
            choice = f"choose one with id={raw.names[found[0]]!r}"
            raise DataError(f"{both} could both be the id", choice, where=raw.origin.name)
        return found[0]


def unnamed(raw: Table) -> bool:
    """Whether neither the source nor the caller has names for the columns."""
    return not raw.headed and raw.names[0] == "column 1"


def no_id(raw: Table) -> DataError:
    """The error about a table whose id column cannot be found."""
    found = f"no column is recognised as the id; found {listed(raw.names)}"
    return DataError(found, "say which with id=..., by name or position from 0", where=raw.origin.name)


def refuse_other_side(raw: Table, about: Literal["user", "item"]) -> None:
    """DataError if a column has a usual name of the other side's ids; to be asked if none has one of this side."""
    other: Literal["user", "item"] = "item" if about == "user" else "user"
    found = recognised(raw.names)[other]
    if found:
        problem = f"it is given as being about {about}s, but column {quoted(raw.names[found[0]])} holds ids of {other}s"
        remedy = f"swap the files of {about}s and {other}s, or rename the column to {about!r}"
        raise DataError(problem, remedy, where=raw.origin.name)


class WholeSource(ABC):
    """A kind that takes a whole source, not columns of tables."""

    taken: ClassVar[str] = ""
    """What is said to a caller who wants a source that `takes` to be of another kind."""

    @classmethod
    def takes(cls, source: Any, told: bool) -> bool:
        """Whether `source`, which is not a table, is of this kind; `told`: the caller says so."""
        return False

    @classmethod
    def fit(cls, source: Any, reading: Reading) -> Fitted:
        """Learn from a source that `takes` accepts."""
        raise NotImplementedError

    @classmethod
    def recognised(cls, raw: Table) -> bool:
        """Whether a table whose kind was not given is of this kind."""
        return False

    @classmethod
    @abstractmethod
    def fit_raw(cls, raw: Table, reading: Reading) -> Fitted:
        """Learn from a table."""


def numbers_in(raw: Table, at: int, belongs: str, is_usual: Callable[[Any], Any] = np.isfinite) -> Doubles:
    """(n,): the numbers of a column; an error about the first cell that holds none, or an unusual one."""

    def parse(cell: Any) -> float:
        number = parse_number(cell) if is_read(parse_number, cell) else None
        if number is None or not is_usual(number):
            raise Mismatch(str(misplaced(cell, belongs)), "correct or remove it")
        return number

    name = raw.names[at]
    cells = raw.found[name]
    if isinstance(cells, pl.Series) and (cells.dtype == pl.String or cells.dtype.is_numeric()):
        numbers = cells.cast(pl.Float64, strict=False)
        if not numbers.null_count() and numbers.is_finite().all() and np.all(is_usual(numbers.to_numpy())):
            return numbers.to_numpy()
    column = coded(cells)
    parsed = Cells({name: column}, np.arange(raw.height), raw.error).parsed(name, parse)
    if column.missing:
        empty = f"the cell is empty where {belongs} belongs"
        raise raw.error(int(np.argmin(column.codes)), name, empty, f"fill it in or remove the {raw.origin.unit}")
    return np.array(parsed, np.float64)[column.codes]


# Tags, and what lists of tags and lists of links have in common

COUNT_NAMES = frozenset({"count", "counts", "weight", "n", "number", "frequency", "times", "relevance"})
TAG_NAMES = ("tag", "tags", "keyword", "term", "label", "word", "genre")
# Of tags that are counted or weighed, an id may have a thousand.
MOST_TAGS = 50


class Roles(NamedTuple):
    """Which column is which: the id, the tag or the other id, and the count or weight, if there is one."""

    id: int
    other: int
    weight: int | None


class Listed(TermKind, WholeSource):
    """A kind whose sources are lists of an id and one of its terms, perhaps with a weight."""

    in_tables: ClassVar[bool] = False
    weighs: ClassVar[str]
    """What the numbers in such a list are called."""
    usual_weight: ClassVar[str]
    """What is accepted as one of them."""

    terms: TermNames

    @property
    def suggestions(self) -> tuple[str, ...]:
        return tuple(map(str, self.terms))

    @property
    def belongs(self) -> str:
        return f"{self.holds} with '|' between them"

    def suggested(self) -> str | None:
        return suggested_part(self.suggestions, "|")

    @classmethod
    def is_usual(cls, weight: Any) -> Any:
        """Whether a number can be a count or weight, or which of an array of them."""
        return weight >= 0.0

    @classmethod
    def weights_in(cls, raw: Table, at: int | None) -> Doubles:
        """(n,): the counts or weights of a list, or ones without them."""
        return np.ones(raw.height) if at is None else numbers_in(raw, at, cls.usual_weight, cls.is_usual)

    @classmethod
    def fit_terms(
        cls, name: str, ids: Sequence[Id], terms: Sequence[Any], counts: "Matrix", reduce_to: int, label: str
    ) -> Fitted:
        """Learn from how often each id (in its row) has each term (in its column), both in ascending order."""
        found = found_in(counts)
        kept = np.flatnonzero(found > 1)
        kept = kept if len(kept) else np.flatnonzero(found)
        if not len(kept):
            raise DataError(f"all {cls.weighs} are 0", "there is nothing to learn", where=label)
        column = cls(
            name=name,
            kind=cls.called,
            distinct=int(np.count_nonzero(found)),
            example=shortened(str(terms[int(kept[0])])),
            missing=int(np.count_nonzero(np.diff(counts.indptr) == 0)),
            terms=tuple(terms[place] for place in kept.tolist()),
        )
        weights = np.ones(len(kept), np.float32)
        matrix = column.weighed(counts[:, kept], weights)
        source = Source(cls.called, name, None, (column,), no_block()[0], weights).reduced([matrix], reduce_to)
        values = (matrix @ source.base.astype(np.float64)).astype(np.float32)
        return Fitted(list(ids), values, source)


def parse_weighted(value: object, belongs: str) -> list[tuple[object, float]]:
    """The terms of a cell, each with its weight: a|b, a list, a mapping to weights, or one integer."""
    if isinstance(value, Weighted):
        weights = [(term, parse_number(weight)) for term, weight in value]
        return [(term, weight) for term, weight in weights if weight is not None]
    if isinstance(value, str):
        return [(part, 1.0) for part in value.split("|") if part.strip()]
    if isinstance(value, tuple):
        return [(part, 1.0) for part in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return [(value, 1.0)]
    raise misplaced(value, belongs)


def roles_by_position(
    raw: Table, reading: Reading, known: dict[int, tuple[int, int, int | None]], layout: str
) -> Roles:
    """Which is which among columns without names, by how many there are."""
    width = len(raw.names)
    if width not in known:
        found = f"{width} {'column' if width == 1 else 'columns'} without names"
        raise DataError(found, f"pass {layout}", where=raw.origin.name)
    roles = Roles(*known[width])
    if reading.id is None:
        return roles
    id_at = raw.position(reading.id, "id")
    if id_at not in (roles.other, roles.weight):
        return roles._replace(id=id_at)
    if width == 2:
        return Roles(id_at, 1 - id_at, None)
    found = f"id={reading.id!r}, but columns without names are {layout}"
    raise DataError(found, "name them with names=...", where=raw.origin.name)


def parse_tags(value: object) -> dict[str, float]:
    """Tags in lower case with their counts: funny|space, a list of tags, or a mapping of tags to counts."""
    counts: dict[str, float] = {}
    for term, count in parse_weighted(value, "tags: a list, a mapping of tags to counts, or 'a|b'"):
        if not isinstance(term, str):
            raise misplaced(term, "a tag, which is text,")
        if count < 0:
            raise misplaced(count, f"the count of the tag {term!r}, 0 or more,")
        tag = term.strip().lower()
        if tag and count:
            counts[tag] = counts.get(tag, 0.0) + count
    return counts


class Tags(Listed):
    """Lines of id, tag[, count], or a sparse matrix of counts."""

    called: ClassVar[str] = "tags"
    holds: ClassVar[str] = "tags"
    weighs: ClassVar[str] = "counts"
    usual_weight: ClassVar[str] = "a number from 0 on"
    taken: ClassVar[str] = "a sparse matrix is read as tags; leave kind= out"

    def counted(self, value: Any) -> dict[Any, float]:
        return dict(parse_tags(value))

    def weighed(self, counts: "Matrix", weights: Floats) -> "Matrix":
        matrix = counts.astype(np.float64)
        matrix.data = np.log1p(matrix.data)
        return matrix

    def words(self, of: Cells) -> ReadableColumn:
        """The tags of each cell that are counted most, the most counted first."""

        def read(value: object) -> list[str]:
            counts = parse_tags(value)
            return [legible(tag) for tag in sorted(counts, key=lambda tag: (-counts[tag], tag))[:MOST_TAGS]]

        return lists_in_words(of.parsed(self.name, read)).taken(of.columns[self.name].codes)

    @classmethod
    def takes(cls, source: Any, told: bool) -> bool:
        if not (isinstance(source, tuple) and len(source) == 2):
            return False
        from scipy.sparse import issparse

        return bool(issparse(source[1]))

    @classmethod
    def fit(cls, source: Any, reading: Reading) -> Fitted:
        """From ids and a sparse matrix (ids, terms) of counts, whose terms are called 0, 1, 2..."""
        ids, matrix = Vocabulary(list(source[0])).ids, source[1]
        if len(ids) != matrix.shape[0]:
            found = f"the sparse matrix has {matrix.shape[0]} rows and {len(ids)} ids"
            raise DataError(found, "give one id for each row")
        entries = matrix.tocoo()
        values = np.asarray(entries.data, np.float64)
        if not np.isfinite(values).all() or (values < 0).any():
            raise DataError("the sparse matrix has entries that are negative, NaN or infinite", "counts are 0 or more")
        counts = counted_matrix(entries.row, entries.col, values, matrix.shape)
        terms = [str(term) for term in range(matrix.shape[1])]
        return cls.fit_terms(reading.name or cls.called, ids, terms, counts, reading.reduce_to, "the sparse matrix")

    @classmethod
    def recognised(cls, raw: Table) -> bool:
        return raw.headed and any(normalised(name) == "tag" for name in raw.names)

    @classmethod
    def fit_raw(cls, raw: Table, reading: Reading) -> Fitted:
        roles, name = _tag_roles(raw, reading), reading.name or cls.called
        (known, rows), column = indexed(raw.ids(roles.id)[0]), raw.names[roles.other]
        counts = cls.weights_in(raw, roles.weight)
        tags = coded(raw.found[column])
        cells = Cells({column: tags}, np.arange(raw.height), raw.error)
        cleaned = [*cells.parsed(column, _one_tag), ""]  # -1, which is missing, takes the last
        terms = sorted({tag for tag in cleaned if tag})
        if not terms:
            raise DataError(
                f"there is no tag in column {quoted(column)}", "pass id, tag[, count]", where=raw.origin.name
            )
        place = {tag: at for at, tag in enumerate(terms)}
        places = np.array([place.get(tag, -1) for tag in cleaned], np.int64)[tags.codes]
        there = places >= 0
        matrix = counted_matrix(rows[there], places[there], counts[there], (len(known), len(terms)))
        fitted = cls.fit_terms(name, known.ids, terms, matrix, reading.reduce_to, raw.origin.name)
        return fitted._replace(readable={name: _most_counted(terms, matrix)})


def _one_tag(value: object) -> str:
    """A tag as it counts."""
    if isinstance(value, (tuple, Weighted)):
        remedy = "give each tag a row of its own, or read a column of lists with kind='table'"
        raise Mismatch(f"found {quoted(list(value))} where one tag belongs", remedy)
    if not isinstance(value, str):
        remedy = "convert the column, or say which is which with id=..."
        raise Mismatch(str(misplaced(value, "a tag, which is text,")), remedy)
    return value.lower()


def _most_counted(terms: Sequence[str], counts: "Matrix") -> ReadableColumn:
    """Of each row of counts (ids, terms) the tags that are counted most, the most counted first."""
    entries = counts.tocoo()
    names = pl.Series([legible(term) for term in terms], dtype=pl.String)
    frame = pl.DataFrame({"row": entries.row, "term": entries.col, "count": entries.data})
    frame = frame.sort("row", "count", "term", descending=[False, True, False])
    tags = frame.select("row", tag=names.gather(frame["term"])).group_by("row").agg(pl.col("tag").head(MOST_TAGS))
    rows = pl.DataFrame({"row": np.arange(counts.shape[0], dtype=entries.row.dtype)})
    return ReadableColumn(Several.called, rows.join(tags, on="row", how="left", maintain_order="left")["tag"])


def _tag_roles(raw: Table, reading: Reading) -> Roles:
    width, about = len(raw.names), reading.about
    if unnamed(raw):
        of_four = (0, 2, None) if about == "user" else (1, 2, None)
        layout = "id, tag[, count] or user, id, tag, time"
        return roles_by_position(raw, reading, {2: (0, 1, None), 3: (0, 1, 2), 4: of_four}, layout)
    usual = recognised(raw.names)
    plain = [normalised(name) for name in raw.names]
    if reading.id is not None:
        id_at = raw.position(reading.id, "id")
    else:
        named = usual[about or "item"] or [at for at in range(width) if plain[at] == "id"]
        if not named and about is not None:
            refuse_other_side(raw, about)
        named = named or usual["user"]
        if not named:
            raise no_id(raw)
        id_at = named[0]
    count = next((at for at in range(width) if plain[at] in COUNT_NAMES and at != id_at), None)
    left = [at for at in range(width) if at not in (id_at, count, *usual["user"], *usual["time"], *usual["item"])]
    called = [at for wanted in TAG_NAMES for at in left if plain[at] == wanted]
    if not called and len(left) != 1:
        found = f"cannot tell which column holds the tags; found {listed(raw.names)}"
        raise DataError(found, "call it 'tag'", where=raw.origin.name)
    return Roles(id_at, (called or left)[0], count)


# Links

LEAST_WEIGHT, MOST_WEIGHT = 1e-9, 1e9


def parse_links(value: object) -> dict[Id, float]:
    """Ids with the weights of the links to them: 3|17, a list of ids, or a mapping of ids to weights."""
    weights: dict[Id, float] = {}
    for term, weight in parse_weighted(value, "links: a list of ids, or a mapping of ids to weights"):
        if isinstance(term, bool) or not isinstance(term, (str, int)) or term == "":
            raise misplaced(term, "an id, which is a string or an integer,")
        if not Links.is_usual(weight):
            raise misplaced(weight, Links.usual_weight)
        id = term.strip() if isinstance(term, str) else term
        weights[id] = weights.get(id, 0.0) + weight
    return weights


class Links(Listed):
    """Lines of id, id[, weight]."""

    called: ClassVar[str] = "links"
    holds: ClassVar[str] = "ids"
    weighs: ClassVar[str] = "weights"
    usual_weight: ClassVar[str] = "a weight of ordinary size"

    def counted(self, value: Any) -> dict[Any, float]:
        return dict(parse_links(value))

    def place(self, term: Id) -> int:
        """Where an id stands in `terms`, written as a string or an integer; -1 if it is unknown."""
        return int(self._known.find([term])[0])

    @cached_property
    def _known(self) -> Vocabulary:
        return Vocabulary(self.terms)

    def weighed(self, counts: "Matrix", weights: Floats) -> "Matrix":
        return counts

    @classmethod
    def is_usual(cls, weight: Any) -> Any:
        """Whether sums and products with a weight, or which of an array of them, stay within the range of floats."""
        return (weight == 0.0) | ((abs(weight) >= LEAST_WEIGHT) & (abs(weight) <= MOST_WEIGHT))

    @classmethod
    def fit_raw(cls, raw: Table, reading: Reading) -> Fitted:
        roles, name = _link_roles(raw, reading), reading.name or cls.called
        begins, ends = raw.ids(roles.id, roles.other)
        weights = cls.weights_in(raw, roles.weight)
        if reading.both_ways:
            begins, ends = pl.concat([begins, ends]), pl.concat([ends, begins])
            weights = np.concatenate([weights, weights])
        (known, rows), (terms, places) = indexed(begins), indexed(ends)
        matrix = counted_matrix(rows, places, weights, (len(known), len(terms)))
        return cls.fit_terms(name, known.ids, terms.ids, matrix, reading.reduce_to, raw.origin.name)


def _link_roles(raw: Table, reading: Reading) -> Roles:
    if unnamed(raw):
        return roles_by_position(raw, reading, {2: (0, 1, None), 3: (0, 1, 2)}, "id, id[, weight]")
    plain = [normalised(name) for name in raw.names]
    times = recognised(raw.names)["time"]
    count = next((at for at in range(len(plain)) if plain[at] in COUNT_NAMES), None)
    left = [at for at in range(len(plain)) if at != count and at not in times]
    if reading.id is not None:
        begin = raw.position(reading.id, "id")
        left = [begin, *(at for at in left if at != begin)]
    if len(left) != 2:
        found = f"links are id, id[, weight]; found {listed(raw.names)}"
        raise DataError(found, "leave out the other columns", where=raw.origin.name)
    return Roles(left[0], left[1], count)


# Vectors


class Vectors(Kind, WholeSource):
    """An id and its numbers."""

    called: ClassVar[str] = "vectors"
    holds: ClassVar[str] = "a vector"
    in_tables: ClassVar[bool] = False
    taken: ClassVar[str] = "the source holds vectors; pass kind='vectors', or another source"

    spread: Annotated[FiniteFloat, Field(ge=0.0)] = 0.0
    """What all numbers are divided by, so that a vector has length 1 on average, as other features do."""
    length: Count = 0

    @classmethod
    def fits(cls, name: str, column: Coded) -> Learn | None:
        """The vectors in a table are refused: they have a source of their own."""
        return _refused_vectors if any(map(_is_vector, column.distinct)) else None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}[{position}]" for position in range(self.length))

    def numbers(self, value: Any) -> Doubles:
        return np.clip(self._parsed(value) / (self.spread or 1.0), -CLIP, CLIP)

    def _parsed(self, value: Any) -> Doubles:
        """(length,): finite numbers."""
        parts: Any = re.split(r"[|\s]+", value) if isinstance(value, str) else value
        if not isinstance(parts, (tuple, list)) or isinstance(parts, Weighted):
            raise misplaced(value, f"a vector of {self.length} numbers")
        if len(parts) != self.length:
            raise Mismatch(f"found {len(parts)} numbers where a vector of {self.length} belongs")
        found = [parse_number(part) for part in parts]
        if any(part is None or abs(part) > np.finfo(np.float32).max for part in found):
            raise misplaced(value, f"a vector of {self.length} finite numbers")
        return np.array(found, np.float64)

    @property
    def belongs(self) -> str:
        return f"{self.length} numbers with '|' between them"

    @classmethod
    def takes(cls, source: Any, told: bool) -> bool:
        """{id: vector}, (ids, array), or the path of a .npy file."""
        if isinstance(source, Mapping) or is_npy(source):
            return True
        pair = isinstance(source, tuple) and len(source) == 2
        return pair and (told or (isinstance(source[1], np.ndarray) and source[1].ndim == 2))

    @classmethod
    def fit(cls, source: Any, reading: Reading) -> Fitted:
        name, label = reading.name or cls.called, "the vectors"
        if isinstance(source, Mapping):
            if not source:
                raise DataError("there are none", "pass at least one, such as {42: [0.1, 0.7]}", where=label)
            return cls._fit_arrays(list(source), _stacked(list(source), list(source.values()), label), name, label)
        if not is_npy(source):
            return cls._fit_arrays(list(source[0]), source[1], name, label)
        path, ids = Path(source), reading.ids
        if ids is None:
            remedy = "pass ids=..., one for each row, or the path of a file of them"
            raise DataError("a .npy file has no ids", remedy, where=str(path))
        array = _load_npy(path)
        if isinstance(ids, (str, os.PathLike)):
            raw = read_raw(ids, **reading.layout, least=1)
            ids = raw.ids(reading._replace(id=None).id_position(raw) if len(raw.names) > 1 else 0)[0].to_list()
        return cls._fit_arrays(list(ids), array, name, str(path))

    @classmethod
    def fit_raw(cls, raw: Table, reading: Reading) -> Fitted:
        """From a table with an id and either a column of vectors or a column for each number."""
        id_at, name = reading.id_position(raw), reading.name or cls.called
        ids = raw.ids(id_at)[0].to_list()
        others = [at for at in range(len(raw.names)) if at != id_at]
        if len(others) == 1 and all(isinstance(cell, (list, tuple, np.ndarray)) for cell in raw.columns[others[0]]):
            return cls._fitted(name, ids, _stacked(ids, raw.columns[others[0]], raw.origin.name), raw.origin)
        found = np.array([numbers_in(raw, at, "a number") for at in others]).T.reshape(raw.height, len(others))
        return cls._fitted(name, ids, found, raw.origin)

    @classmethod
    def _fit_arrays(cls, ids: Sequence[Any], array: Any, name: str, label: str) -> Fitted:
        """From an array (n, d) and an id for each of its rows."""
        ids = [id.item() if isinstance(id, np.generic) else id for id in ids]
        array = np.asarray(array)
        if array.ndim != 2 or array.dtype.kind not in "iufb":
            found = f"found an array of shape {array.shape} and type {array.dtype}"
            raise DataError(found, "pass numbers of shape (ids, length)", where=label)
        if len(ids) != len(array) or not len(array):
            found = f"{len(ids)} ids for {len(array)} rows"
            raise DataError(found, "give one id for each row, in the same order", where=label)
        return cls._fitted(name, ids, array.astype(np.float64), Origin(label))

    @classmethod
    def _fitted(cls, name: str, ids: Sequence[Any], vectors: Doubles, origin: Origin) -> Fitted:
        """From vectors (n, d)."""
        label, unit = origin.name, origin.unit
        places: dict[Any, int] = {}
        for row, id in enumerate(ids):
            if places.setdefault(id, row) != row:
                both = f"{unit} {origin.line(places[id])} and in {unit} {origin.line(row)}"
                raise DataError(f"the id {quoted(id)} is in {both}", "keep one of them", where=label)
        if not vectors.shape[1]:
            raise DataError("the vectors are empty", "each needs at least one number", where=label)
        with np.errstate(over="ignore"):
            values = vectors.astype(np.float32)
            spread = float(np.sqrt((vectors**2).sum(1).mean()))
        if not np.isfinite(values).all():
            row, at = (int(place) for place in np.argwhere(~np.isfinite(values))[0])
            found = f"the vector of the id {quoted(ids[row])} has {vectors[row, at]} at position {at}"
            raise DataError(found, "every number must be finite: correct it, or leave the id out", where=label)
        length = values.shape[1]
        example = f"{values[0, 0]:.4g}, ..." if length > 1 else f"{values[0, 0]:.4g}"
        about: dict[str, Any] = {"name": name, "kind": cls.called, "distinct": None, "missing": 0, "example": example}
        column = cls(**about, length=length, spread=spread or 1.0)
        scaled = np.clip(vectors / column.spread, -CLIP, CLIP).astype(np.float32)
        return Fitted(Vocabulary(ids).ids, scaled, Source(cls.called, name, None, (column,), *no_block()))


def is_npy(source: object) -> bool:
    """Whether `source` is the path of a .npy file."""
    return isinstance(source, (str, os.PathLike)) and Path(source).suffix == ".npy"


def _is_vector(value: object) -> bool:
    """Whether a cell is a list of numbers of which some have a point; one of integers may be one of categories."""
    if not isinstance(value, tuple) or isinstance(value, Weighted):
        return False
    there = [part for part in value if part is not None]
    numbers = all(isinstance(part, (int, float)) and not isinstance(part, bool) for part in there)
    return numbers and any(isinstance(part, float) for part in there)


def _refused_vectors(name: str, of: Cells, reduce_to: int) -> Kind:
    def refuse(value: object) -> None:
        if _is_vector(value):
            found = f"found {quoted(value)}, a vector, where categories belong"
            raise Mismatch(found, "read vectors with kind='vectors', or leave the column out")

    of.parsed(name, refuse)
    raise NotImplementedError


def _load_npy(path: Path) -> npt.NDArray[Any]:
    """The array in a .npy file. Objects in it, which would have to be unpickled, are refused."""
    with explained(path, "the .npy file"):
        try:
            return np.asarray(np.load(path, allow_pickle=False))
        except (ValueError, EOFError) as error:
            if "pickle" in str(error).lower():
                remedy = "save plain numbers with np.save(path, array.astype('float32'))"
                raise DataError("this holds Python objects or is no .npy file", remedy, where=str(path)) from error
            raise DataError(f"not a .npy file, or a broken one ({error})", "write it again", where=str(path)) from error


def _stacked(ids: Sequence[Any], vectors: Sequence[Any], label: str) -> Doubles:
    """Vectors of equal length as the rows of an array."""
    rows: list[Doubles] = []
    for id, vector in zip(ids, vectors, strict=True):
        whose = f"the vector of the id {quoted(id)}"
        try:
            row = np.asarray(vector, np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"{whose} is {quoted(vector)}", "pass plain numbers", where=label) from error
        if row.ndim != 1:
            raise DataError(f"{whose} has shape {row.shape}", "pass one dimension", where=label)
        if rows and len(row) != len(rows[0]):
            found = f"{whose} has {len(row)} numbers where that of {quoted(ids[0])} has {len(rows[0])}"
            raise DataError(found, "give all of them the same length", where=label)
        rows.append(row)
    return np.stack(rows)


# All kinds

TABLE = "table"
# A column of a table is of the first kind that its cells fit.
KINDS: list[type[Kind]] = [Tags, Links, Image, Skip, Vectors, Flag, Date, Number, Several, Text, Category]


def kind_called(name: str) -> type[Kind]:
    """The kind of that name; ValueError if there is none."""
    for kind in KINDS:
        if kind.called == name:
            return kind
    raise ValueError(f"there is no kind {name!r}; the kinds are {', '.join(kind.called for kind in KINDS)}")


def column_kinds() -> tuple[str, ...]:
    """The kinds that a column of a table can be of."""
    return tuple(kind.called for kind in KINDS if kind.in_tables)


def whole_sources() -> dict[str, type[WholeSource]]:
    """The kinds that take a whole source, not a column of a table."""
    return {kind.called: kind for kind in KINDS if issubclass(kind, WholeSource)}


def source_kinds() -> tuple[str, ...]:
    """What a source can be: a table, or of a kind that has whole sources."""
    return (TABLE, *whole_sources())


def readable_kinds() -> tuple[str, ...]:
    """The kinds that cells in words can be of, which are those that lists can be filtered by."""
    return tuple(kind.called for kind in KINDS if kind.types)


def judged(name: str, column: Coded) -> Learn:
    """Detect how to learn a column whose kind was not given; a constant column, or one of no kind, is skipped."""
    return next((learn for kind in KINDS if (learn := kind.fits(name, column)) is not None), Skip.learn)


def in_words(columns: tuple[Kind, ...], of: Cells) -> dict[str, ReadableColumn]:
    """The columns that people can read, of those that `of` has; titles are kept elsewhere, apart from their years."""
    titles = [column for column in columns if normalised(column.name) in USUAL_NAMES["title"]]
    found = {column.name: column.words(of) for column in columns if column.name in of.columns and column not in titles}
    own = {column.name for column in columns}
    for title in titles:
        if title.name in of.columns:
            found |= {name: words for name, words in title.also_in_words(of).items() if name not in own}
    return {name: words for name, words in found.items() if words is not None}
