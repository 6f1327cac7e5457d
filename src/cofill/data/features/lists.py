"""Tags and links: lists of pairs, perhaps counted, and sparse matrices -> features."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.data.features import cells as cells
from cofill.data.features.cells import Mismatch
from cofill.data.features.fitting import Fitted, counted_matrix, fit_terms
from cofill.data.features.readable import readable_tags
from cofill.data.features.table import RawTable
from cofill.data.origin import quoted
from cofill.data.roles import normalised, recognised
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import DataError

COUNT_NAMES = frozenset({"count", "counts", "weight", "n", "number", "frequency", "times", "relevance"})
TAG_NAMES = ("tag", "tags", "keyword", "term", "label", "word", "genre")
Longs = npt.NDArray[np.int64]
About = Literal["user", "item"] | None
"""Whose ids a source has; None if nobody has said so."""


class Roles(NamedTuple):
    """Which column is which: the id, the tag or the other id, and the count or weight, if there is one."""

    id: int
    other: int
    weight: int | None


def fit_tags(raw: RawTable, id: str | int | None, name: str, reduce_to: int, about: About = None) -> Fitted:
    """Lines of id, tag[, count]."""
    roles = _tag_roles(raw, id, about)
    ids, tags = raw.ids(roles.id)[0], raw.columns[roles.other]
    counts = _numbers(raw, roles.weight, counts=True)
    listed = next((row for row, tag in enumerate(tags) if isinstance(tag, (list, dict))), None)
    if listed is not None:
        raise raw.error(
            *(listed, raw.names[roles.other], f"found {quoted(tags[listed])} where one tag belongs"),
            "give each tag a row of its own, or read a column of lists with kind='table'",
        )
    appearing, codes = _numbered(tags)
    cleaned = [_tag(raw, roles.other, tag) for tag in appearing]
    terms = sorted({tag for tag in cleaned if tag})
    if not terms:
        column = quoted(raw.names[roles.other])
        raise DataError(f"{raw.origin.name}: there is no tag in column {column}; pass id, tag[, count]")
    place = {tag: at for at, tag in enumerate(terms)}
    places = np.array([place.get(tag, -1) for tag in cleaned], np.int64)[codes]
    there = places >= 0
    order, known, rows = _ascending(ids)
    matrix = counted_matrix(rows[there], places[there], counts[there], (len(known), len(terms)))
    fitted = fit_terms("tags", name, known, terms, matrix, reduce_to, raw.origin.name)
    return _in_order(fitted._replace(readable={name: readable_tags(terms, matrix)}), order)


def fit_links(raw: RawTable, id: str | int | None, name: str, reduce_to: int, both_ways: bool) -> Fitted:
    """Lines of id, id[, weight]."""
    roles = _link_roles(raw, id)
    begins, ends = raw.ids(roles.id, roles.other)
    weights = _numbers(raw, roles.weight, counts=False)
    if both_ways:
        begins, ends, weights = begins + ends, ends + begins, np.concatenate([weights, weights])
    order, known, rows = _ascending(begins)
    _, terms, places = _ascending(ends)
    matrix = counted_matrix(rows, places, weights, (len(known), len(terms)))
    return _in_order(fit_terms("links", name, known, terms, matrix, reduce_to, raw.origin.name), order)


def fit_sparse(ids: Sequence[Id], matrix: Any, name: str, reduce_to: int) -> Fitted:
    """A sparse matrix (n, terms) of counts, treated as tags are; its terms are called 0, 1, 2..."""
    order = Vocabulary(list(ids))
    if len(order) != matrix.shape[0]:
        raise DataError(f"the sparse matrix has {matrix.shape[0]} rows and {len(order)} ids; give one id for each row")
    entries = matrix.tocoo()
    values = np.asarray(entries.data, np.float64)
    if not np.isfinite(values).all() or (values < 0).any():
        raise DataError("the sparse matrix has entries that are negative, NaN or infinite; counts are 0 or more")
    kept, known, ranks = _ascending(order.ids)
    # Terms stand in the order of their names, as those of a file do.
    terms = sorted(str(term) for term in range(matrix.shape[1]))
    place = np.zeros(len(terms), np.int64)
    place[[int(term) for term in terms]] = np.arange(len(terms))
    counts = counted_matrix(ranks[entries.row], place[entries.col], values, (len(known), len(terms)))
    return _in_order(fit_terms("tags", name, known, terms, counts, reduce_to, "the sparse matrix"), kept)


def _ascending(ids: Sequence[Any]) -> tuple[list[Any], list[Any], Longs]:
    """The different ids as they appear, the same in ascending order, and the place of each (n,) in the latter."""
    appearing, codes = _numbered(ids)
    ascending = sorted(appearing)
    place = {id: at for at, id in enumerate(ascending)}
    return appearing, ascending, np.array([place[id] for id in appearing], np.int64)[codes]


def _numbered(values: Sequence[Any]) -> tuple[list[Any], Longs]:
    """The different values as they appear, and the number of each (n,)."""
    number_of: dict[Any, int] = {}
    codes = np.fromiter((number_of.setdefault(value, len(number_of)) for value in values), np.int64, len(values))
    return list(number_of), codes


def _tag(raw: RawTable, at: int, tag: object) -> str:
    """A tag as it counts; empty if there is none."""
    if tag is None:
        return ""
    if not isinstance(tag, str):
        raise raw.error(
            *(
                list(raw.columns[at]).index(tag),
                raw.names[at],
                f"found {quoted(tag)} where a tag, which is text, belongs",
            ),
            "convert the column, or say which is which with id=...",
        )
    return tag.strip().lower()


def _in_order(fitted: Fitted, ids: Sequence[Id]) -> Fitted:
    place = {id: at for at, id in enumerate(fitted.ids)}
    rows = np.array([place[id] for id in ids], np.int64)
    ordered = {name: column.taken(rows) for name, column in fitted.readable.items()}
    return Fitted(list(ids), fitted.values[rows], fitted.source, ordered)


def _tag_roles(raw: RawTable, id: str | int | None, about: About) -> Roles:
    width = len(raw.names)
    if not raw.headed and raw.names[0] == "column 1":
        of_four = (0, 2, None) if about == "user" else (1, 2, None)
        layout = "id, tag[, count] or user, id, tag, time"
        return _by_position(raw, id, {2: (0, 1, None), 3: (0, 1, 2), 4: of_four}, layout)
    usual = recognised(raw.names)
    plain = [normalised(name) for name in raw.names]
    if id is not None:
        id_at = raw.position(id, "id")
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
            f"{raw.origin.name}: cannot tell which column holds the tags; found {_listed(raw.names)}; call it 'tag'"
        )
    return Roles(id_at, (called or left)[0], count)


def _link_roles(raw: RawTable, id: str | int | None) -> Roles:
    if not raw.headed and raw.names[0] == "column 1":
        return _by_position(raw, id, {2: (0, 1, None), 3: (0, 1, 2)}, "id, id[, weight]")
    plain = [normalised(name) for name in raw.names]
    times = recognised(raw.names)["time"]
    count = next((at for at in range(len(plain)) if plain[at] in COUNT_NAMES), None)
    left = [at for at in range(len(plain)) if at != count and at not in times]
    if id is not None:
        begin = raw.position(id, "id")
        left = [begin, *(at for at in left if at != begin)]
    if len(left) != 2:
        raise DataError(
            f"{raw.origin.name}: links are id, id[, weight]; found {_listed(raw.names)}; leave out the other columns"
        )
    return Roles(left[0], left[1], count)


def _by_position(
    raw: RawTable, id: str | int | None, known: dict[int, tuple[int, int, int | None]], layout: str
) -> Roles:
    width = len(raw.names)
    if width not in known:
        raise DataError(
            f"{raw.origin.name}: {width} {'column' if width == 1 else 'columns'} without names; pass {layout}"
        )
    roles = Roles(*known[width])
    if id is None:
        return roles
    id_at = raw.position(id, "id")
    if id_at == roles.other or id_at == roles.weight:
        if width == 2:
            return Roles(id_at, 1 - id_at, None)
        raise DataError(
            f"{raw.origin.name}: id={id!r}, but columns without names are {layout}; name them with names=..."
        )
    return roles._replace(id=id_at)


def _numbers(raw: RawTable, at: int | None, *, counts: bool) -> npt.NDArray[np.float64]:
    """(n,): the numbers of a column, or ones without one."""
    if at is None:
        return np.ones(raw.height)
    found = np.empty(raw.height)
    for row, cell in enumerate(raw.columns[at]):
        try:
            number = cells.number(cell.strip() if isinstance(cell, str) else cell)
        except Mismatch as problem:
            raise raw.error(row, raw.names[at], str(problem), "correct or remove it") from problem
        usual = number is not None and (number >= 0.0 if counts else cells.is_usual_weight(number))
        if number is None or not usual:
            belongs = "a number from 0 on" if counts else "a weight of ordinary size"
            found_instead = f"found {quoted(cell)} where {belongs} belongs"
            raise raw.error(row, raw.names[at], found_instead, "correct or remove it")
        found[row] = number
    return found


def no_id(raw: RawTable) -> DataError:
    """The error about a table whose id column cannot be found."""
    return DataError(
        f"{raw.origin.name}: no column is recognised as the id; found {_listed(raw.names)}; "
        "say which with id=..., by name or position from 0"
    )


def refuse_other_side(raw: RawTable, about: Literal["user", "item"]) -> None:
    """DataError if a column has a usual name of the other side's ids; to be asked if none has one of this side."""
    other: Literal["user", "item"] = "item" if about == "user" else "user"
    found = recognised(raw.names)[other]
    if found:
        raise DataError(
            f"{raw.origin.name}: it is given as being about {about}s, but column {quoted(raw.names[found[0]])} holds "
            f"ids of {other}s; swap the files of {about}s and {other}s, or rename the column to {about!r}"
        )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(quoted(name) for name in names[:12])
    return shown if len(names) <= 12 else f"{shown} and {len(names) - 12} more"
