"""Every kind of source into features: which kind it is, where its ids are, who learns from it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from cofill.data.features.fitting import Fitted, fit_table
from cofill.data.features.kinds import Kind
from cofill.data.features.layout import ID_NAMES
from cofill.data.features.lists import About, fit_links, fit_sparse, fit_tags, no_id, refuse_other_side
from cofill.data.features.reading import read_raw
from cofill.data.features.source import SourceKind
from cofill.data.features.table import RawTable
from cofill.data.features.vectors import fit_arrays, fit_mapping, fit_raw_vectors, is_npy, is_vectors, load_npy
from cofill.data.origin import quoted
from cofill.data.roles import normalised, recognised
from cofill.errors import DataError


def read_source(
    source: Any,
    kind: SourceKind | None,
    id: str | int | None,
    ids: Any,
    columns: Mapping[str, Kind] | None,
    name: str | None,
    reduce_to: int,
    both_ways: bool,
    layout: Mapping[str, Any],
    about: About = None,
) -> Fitted:
    """Features of one source; `layout` is how a text file is read."""
    if kind is not None and kind not in get_args(SourceKind):
        raise DataError(f"there is no kind {kind!r} of features; the kinds are {', '.join(get_args(SourceKind))}")
    if about not in (None, "user", "item"):
        raise DataError(f"about={about!r} is no side; give 'user' or 'item', or leave it out")
    if isinstance(reduce_to, bool) or not isinstance(reduce_to, int) or reduce_to < 1:
        raise DataError(f"reduce_to={reduce_to!r} is no number of columns; give 1 or more")
    if name is not None and not name.strip():
        raise DataError("name='' names nothing; leave it out, or give one such as 'tags'")
    if columns and kind not in (None, "table"):
        raise DataError(f"columns= sets the kinds of a table's columns; leave it out for {kind}")
    if ids is not None and not is_npy(source):
        raise DataError("ids= is for .npy files; other sources have their ids inside, or say id=... for a column")
    if is_npy(source) or is_vectors(source):
        if kind not in (None, "vectors"):
            raise DataError(f"kind={kind!r}, but the source holds vectors; pass kind='vectors', or another source")
        return _fit_vectors(source, ids, name or "vectors", layout, about)
    if _is_sparse(source):
        if kind not in (None, "tags"):
            raise DataError(f"kind={kind!r}, but a sparse matrix is read as tags; leave kind= out")
        return fit_sparse(list(source[0]), source[1], name or "tags", reduce_to)
    if kind == "vectors" and isinstance(source, tuple) and len(source) == 2:
        return _fit_vectors(source, None, name or "vectors", layout, about)
    raw = read_raw(source, **layout, id=id)
    if kind is None:
        kind = _guessed(raw)
    if kind == "tags":
        return fit_tags(raw, id, name or "tags", reduce_to, about)
    if kind == "links":
        return fit_links(raw, id, name or "links", reduce_to, both_ways)
    id_at = id_position(raw, id, about)
    if kind == "vectors":
        return fit_raw_vectors(raw, id_at, name or "vectors")
    return fit_table(raw, id_at, columns, reduce_to, name)


def _fit_vectors(source: Any, ids: Any, name: str, layout: Mapping[str, Any], about: About) -> Fitted:
    if isinstance(source, Mapping):
        return fit_mapping(source, name)
    if not is_npy(source):
        return fit_arrays(list(source[0]), source[1], name, "the vectors")
    path = Path(source)
    if ids is None:
        raise DataError(
            f"{path}: a .npy file has no ids; pass ids=..., one for each row, or the path of a file of them"
        )
    array = load_npy(path)
    if isinstance(ids, (str, os.PathLike)):
        raw = read_raw(ids, **layout, least=1)
        ids = raw.ids(id_position(raw, None, about) if len(raw.names) > 1 else 0)[0]
    return fit_arrays(list(ids), array, name, str(path))


def _is_sparse(source: Any) -> bool:
    if not (isinstance(source, tuple) and len(source) == 2):
        return False
    from scipy.sparse import issparse

    return bool(issparse(source[1]))


def _guessed(raw: RawTable) -> SourceKind:
    if raw.headed and any(normalised(name) == "tag" for name in raw.names):
        return "tags"
    if raw.origin.name == "the tuples":
        raise DataError("tuples can be tags or links; say which with kind='tags' or kind='links'")
    return "table"


def id_position(raw: RawTable, id: str | int | None, about: About = None) -> int:
    """Where the ids of a table stand."""
    if id is not None:
        return raw.position(id, "id")
    if raw.names == tuple(f"column {position + 1}" for position in range(len(raw.names))):
        return 0
    plain = [normalised(name) for name in raw.names]
    if "id" in plain:
        return plain.index("id")
    found = [position for position, name in enumerate(plain) if name in ID_NAMES]
    if about is not None and found:
        found = sorted(recognised(raw.names)[about])
        if not found:
            refuse_other_side(raw, about)
    if not found and not raw.headed:
        return 0
    if not found:
        raise no_id(raw)
    if len(found) > 1 and found[0] != 0:
        both = " and ".join(quoted(raw.names[position]) for position in found[:2])
        raise DataError(f"{raw.origin.name}: {both} could both be the id; choose one with id={raw.names[found[0]]!r}")
    return found[0]
