"""Tags: words that people attach, perhaps counted; and what lists of tags and lists of links have in common."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.arrays import Floats, Longs
from cofill.data.columns import normalised, recognised
from cofill.data.features.columns import Cells, Mismatch, ReadableColumn, Weighted, legible, misplaced, shortened
from cofill.data.features.kind import TermKind, TermNames
from cofill.data.features.kinds.number import parse_number
from cofill.data.features.kinds.several import lists_in_words, suggested_part
from cofill.data.features.source import (
    Fitted,
    Reading,
    Source,
    WholeSource,
    counted_matrix,
    found_in,
    listed,
    no_block,
    no_id,
    refuse_other_side,
)
from cofill.data.table import Table
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import DataError, quoted

if TYPE_CHECKING:
    from cofill.data.features.kind import Matrix

COUNT_NAMES = frozenset({"count", "counts", "weight", "n", "number", "frequency", "times", "relevance"})
TAG_NAMES = ("tag", "tags", "keyword", "term", "label", "word", "genre")
# Of tags that are counted or weighed, an id may have a thousand.
MOST_TAGS = 50


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


class Listed(TermKind, WholeSource):
    """A kind whose sources are lists of an id and one of its terms, perhaps with a weight."""

    in_tables: ClassVar[bool] = False
    weighs: ClassVar[str]
    """What the numbers in such a list are called."""

    terms: TermNames

    @property
    def suggestions(self) -> tuple[str, ...]:
        return tuple(map(str, self.terms))

    @property
    def belongs(self) -> str:
        return f"{self.holds} with '|' between them"

    def suggested(self) -> str | None:
        return suggested_part(self.terms, "|")

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


class Tags(Listed):
    """Lines of id, tag[, count], or a sparse matrix of counts."""

    called: ClassVar[str] = "tags"
    holds: ClassVar[str] = "tags"
    weighs: ClassVar[str] = "counts"
    flag_help: ClassVar[str] = "a list of {side}, tag[, count]"
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
        ids, matrix = list(source[0]), source[1]
        order = Vocabulary(ids)
        if len(order) != matrix.shape[0]:
            raise DataError(
                f"the sparse matrix has {matrix.shape[0]} rows and {len(order)} ids", "give one id for each row"
            )
        entries = matrix.tocoo()
        values = np.asarray(entries.data, np.float64)
        if not np.isfinite(values).all() or (values < 0).any():
            raise DataError("the sparse matrix has entries that are negative, NaN or infinite", "counts are 0 or more")
        kept, known, ranks = ascending(order.ids)
        # Terms stand in the order of their names, as those of a file do.
        terms = sorted(str(term) for term in range(matrix.shape[1]))
        place = np.zeros(len(terms), np.int64)
        place[[int(term) for term in terms]] = np.arange(len(terms))
        counts = counted_matrix(ranks[entries.row], place[entries.col], values, (len(known), len(terms)))
        name = reading.name or cls.called
        return in_order(cls.fit_terms(name, known, terms, counts, reading.reduce_to, "the sparse matrix"), kept)

    @classmethod
    def recognised(cls, raw: Table) -> bool:
        return raw.headed and any(normalised(name) == "tag" for name in raw.names)

    @property
    def suggestions(self) -> tuple[str, ...]:
        return tuple(map(str, self.terms))

    @classmethod
    def fit_raw(cls, raw: Table, reading: Reading) -> Fitted:
        roles, name = _roles(raw, reading), reading.name or cls.called
        ids, tags = raw.ids(roles.id)[0], raw.columns[roles.other]
        counts = weights_in(raw, roles.weight, "a number from 0 on", lambda count: count >= 0.0)
        lists = next((row for row, tag in enumerate(tags) if isinstance(tag, (list, dict))), None)
        if lists is not None:
            raise raw.error(
                *(lists, raw.names[roles.other], f"found {quoted(tags[lists])} where one tag belongs"),
                "give each tag a row of its own, or read a column of lists with kind='table'",
            )
        appearing, codes = _numbered(tags)
        cleaned = [_tag(raw, roles.other, tag) for tag in appearing]
        terms = sorted({tag for tag in cleaned if tag})
        if not terms:
            column = quoted(raw.names[roles.other])
            raise DataError(f"there is no tag in column {column}", "pass id, tag[, count]", where=raw.origin.name)
        place = {tag: at for at, tag in enumerate(terms)}
        places = np.array([place.get(tag, -1) for tag in cleaned], np.int64)[codes]
        there = places >= 0
        order, known, rows = ascending(ids)
        matrix = counted_matrix(rows[there], places[there], counts[there], (len(known), len(terms)))
        fitted = cls.fit_terms(name, known, terms, matrix, reading.reduce_to, raw.origin.name)
        return in_order(fitted._replace(readable={name: _most_counted(terms, matrix)}), order)


def _most_counted(terms: Sequence[str], counts: "Matrix") -> ReadableColumn:
    """Of each row of counts (ids, terms) the tags that are counted most, the most counted first."""
    rows = []
    for begin, end in zip(counts.indptr[:-1].tolist(), counts.indptr[1:].tolist(), strict=True):
        order = np.lexsort((counts.indices[begin:end], -counts.data[begin:end]))[:MOST_TAGS]
        rows.append([legible(terms[term]) for term in counts.indices[begin:end][order].tolist()])
    return lists_in_words(rows)


def _tag(raw: Table, at: int, tag: object) -> str:
    """A tag as it counts; empty if there is none."""
    if tag is None:
        return ""
    if not isinstance(tag, str):
        raise raw.error(
            *(list(raw.columns[at]).index(tag), raw.names[at], str(misplaced(tag, "a tag, which is text,"))),
            "convert the column, or say which is which with id=...",
        )
    return tag.strip().lower()


class Roles(NamedTuple):
    """Which column is which: the id, the tag or the other id, and the count or weight, if there is one."""

    id: int
    other: int
    weight: int | None


def _roles(raw: Table, reading: Reading) -> Roles:
    width, about = len(raw.names), reading.about
    if not raw.headed and raw.names[0] == "column 1":
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
        raise DataError(
            f"cannot tell which column holds the tags; found {listed(raw.names)}",
            "call it 'tag'",
            where=raw.origin.name,
        )
    return Roles(id_at, (called or left)[0], count)


# What lists of tags and lists of links have in common.


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
        raise DataError(
            f"{width} {('column' if width == 1 else 'columns')} without names", f"pass {layout}", where=raw.origin.name
        )
    roles = Roles(*known[width])
    if reading.id is None:
        return roles
    id_at = raw.position(reading.id, "id")
    if id_at == roles.other or id_at == roles.weight:
        if width == 2:
            return Roles(id_at, 1 - id_at, None)
        raise DataError(
            f"id={reading.id!r}, but columns without names are {layout}",
            "name them with names=...",
            where=raw.origin.name,
        )
    return roles._replace(id=id_at)


def weights_in(raw: Table, at: int | None, belongs: str, is_usual: Callable[[float], bool]) -> npt.NDArray[np.float64]:
    """(n,): the numbers of a column, or ones without one."""
    if at is None:
        return np.ones(raw.height)
    found = np.empty(raw.height)
    for row, cell in enumerate(raw.columns[at]):
        try:
            number = parse_number(cell.strip() if isinstance(cell, str) else cell)
            if number is None or not is_usual(number):
                raise misplaced(cell, belongs)
        except Mismatch as problem:
            raise raw.error(row, raw.names[at], str(problem), "correct or remove it") from problem
        found[row] = number
    return found


def ascending(ids: Sequence[Any]) -> tuple[list[Any], list[Any], Longs]:
    """The different ids as they appear, the same in ascending order, and the place of each (n,) in the latter."""
    appearing, codes = _numbered(ids)
    in_turn = sorted(appearing)
    place = {id: at for at, id in enumerate(in_turn)}
    return appearing, in_turn, np.array([place[id] for id in appearing], np.int64)[codes]


def _numbered(values: Sequence[Any]) -> tuple[list[Any], Longs]:
    """The different values as they appear, and the number of each (n,)."""
    number_of: dict[Any, int] = {}
    codes = np.fromiter((number_of.setdefault(value, len(number_of)) for value in values), np.int64, len(values))
    return list(number_of), codes


def in_order(fitted: Fitted, ids: Sequence[Id]) -> Fitted:
    """The same of the same ids in another order."""
    place = {id: at for at, id in enumerate(fitted.ids)}
    rows = np.array([place[id] for id in ids], np.int64)
    ordered = {name: column.taken(rows) for name, column in fitted.readable.items()}
    return Fitted(list(ids), fitted.values[rows], fitted.source, ordered)
