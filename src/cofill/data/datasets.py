"""The public data sets: find one on this machine or download it, check it, load it.

A set is looked for in the folder `$COFILL_DATA` (at any depth), then in the cache (`$COFILL_CACHE`, else
`$XDG_CACHE_HOME/cofill`, else `~/.cache/cofill`), then at its publisher. What is in the cache was checked
before it came there. What is in `$COFILL_DATA` is checked each time, as people put things there.
"""

import csv
import difflib
import io
import os
import shutil
import sys
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np

from cofill.data.catalogue import CATALOGUE, Dataset
from cofill.data.download import download, md5_of
from cofill.data.ratings import Ratings
from cofill.data.vocabulary import Id
from cofill.errors import DatasetError

__all__ = [
    "Dataset", "UnpublishedFileWarning", "cache_folder", "catalogue", "dataset", "fetch", "load", "locate",
    "movielens_folds",
]  # fmt: skip

BLOCK = 1 << 20


class UnpublishedFileWarning(UserWarning):
    """A data set whose file is not the published one, byte by byte, although its content is whole."""


def catalogue() -> Mapping[str, Dataset]:
    """All data sets by name."""
    return CATALOGUE


def dataset(name: str) -> Dataset:
    """The entry of one data set."""
    if name in CATALOGUE:
        return CATALOGUE[name]
    near = difflib.get_close_matches(name.lower(), CATALOGUE, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise DatasetError(f"There is no data set {name!r}.{hint} There are {', '.join(CATALOGUE)}.")


def cache_folder() -> Path:
    """Where downloaded files are kept."""
    if own := os.environ.get("COFILL_CACHE"):
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "cofill"


def locate(name: str) -> Path | None:
    """The file of a data set on this machine, unchecked, or None."""
    entry = dataset(name)
    return _in_data_folder(entry) or _in_cache(entry)


def fetch(name: str, *, quiet: bool = False) -> Path:
    """The file of a data set, checked; downloaded into the cache if it is nowhere.

    The licence is shown on stderr before a download. `quiet` leaves out that and the progress.
    """
    entry = dataset(name)
    if (own := _in_data_folder(entry)) is not None:
        _check_own_file(entry, own)
        return own
    if (cached := _in_cache(entry)) is not None:
        return cached
    if entry.address is None:
        raise DatasetError(f"{entry.name} cannot be downloaded. {entry.missing}")
    if not quiet:
        sys.stderr.write(f"{entry.title} is {entry.licence}.\nCite: {entry.citation}\n")
    target = cache_folder() / entry.file_names[0]
    size = None if entry.changes else entry.size
    check = (lambda path: _check_content(entry, path)) if entry.md5 is None else None
    return download(entry.address, target, md5=entry.md5, size=size, check=check, quiet=quiet)


def load(name: str, *, quiet: bool = False) -> Ratings:
    """The ratings of a data set, with the titles of its items and its full scale."""
    entry = dataset(name)
    return _read(entry, fetch(name, quiet=quiet))


def movielens_folds(name: str = "ml-100k", *, quiet: bool = False) -> Iterator[tuple[Ratings, Ratings]]:
    """The published splits of a data set: pairs (train, test) with the vocabularies of the whole set."""
    entry = dataset(name)
    if not entry.folds:
        having = [other.name for other in CATALOGUE.values() if other.folds]
        raise DatasetError(f"{name} was published without folds. Those with folds: {', '.join(having)}.")
    path = fetch(name, quiet=quiet)
    return _read_folds(entry, path, _read(entry, path))


def _in_data_folder(entry: Dataset) -> Path | None:
    """The file nearest to the top of `$COFILL_DATA`."""
    named = os.environ.get("COFILL_DATA")
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DatasetError(
            f"COFILL_DATA is {named}, which is no folder. Name the folder of your data sets, or unset it."
        )
    found = [Path(parent, file) for parent, _, files in os.walk(folder) for file in files if file in entry.file_names]
    order = {file: place for place, file in enumerate(entry.file_names)}
    return min(found, key=lambda path: (len(path.parts), order[path.name], path), default=None)


def _in_cache(entry: Dataset) -> Path | None:
    path = cache_folder() / entry.file_names[0]
    return path if path.is_file() else None


def _check_own_file(entry: Dataset, path: Path) -> None:
    """Accept the published file, and with a warning one that was packed anew; refuse a broken one."""
    try:
        digest = md5_of(path) if entry.md5 else None
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror}). Check its permissions.") from error
    if digest and digest == entry.md5:
        return
    _check_content(entry, path)
    if digest:
        warnings.warn(
            f"{path}: its MD5 is {digest}, the published one {entry.md5}; it is used, its content is whole.",
            UnpublishedFileWarning,
            stacklevel=4,
        )


def _check_content(entry: Dataset, path: Path) -> None:
    """Raise if a member is missing or damaged, or if ratings are missing."""
    again = f"Get {entry.file_names[0]} anew" + (f" from {entry.address}." if entry.address else ".")
    members = [entry.ratings_member, entry.titles_member, *(name for fold in entry.folds for name in fold)]
    try:
        for member in filter(None, members):
            with _opened(path, member) as file:
                lines = _count_lines(file)
            if member == entry.ratings_member and lines - entry.header != entry.ratings and not entry.changes:
                raise DatasetError(
                    f"{path}: {member} has {lines - entry.header:,} ratings instead of {entry.ratings:,}; "
                    f"it is not {entry.name}, or not all of it. {again}"
                )
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise DatasetError(f"{path}: truncated or damaged ({error}). {again}") from error
    except KeyError as error:
        raise DatasetError(f"{path}: {error.args[0]}. {again}") from error


def _count_lines(file: IO[bytes]) -> int:
    """Lines, the last of which may lack its end. Reading a member to its end also checks its CRC."""
    lines, last = 0, b"\n"
    while block := file.read(BLOCK):
        lines += block.count(b"\n")
        last = block[-1:]
    return lines + (last != b"\n")


@contextmanager
def _opened(path: Path, member: str) -> Iterator[IO[bytes]]:
    """A member of a set, from its zip or, if the set lies in the open, the file itself."""
    if path.name == member:
        with path.open("rb") as file:
            yield file
        return
    with zipfile.ZipFile(path) as archive, archive.open(_find_member(archive, member)) as packed:
        yield packed


def _find_member(archive: zipfile.ZipFile, member: str) -> str:
    """The member, which may be in another folder of a zip that was packed anew."""
    names = archive.namelist()
    if member in names:
        return member
    own = PurePosixPath(member).name
    elsewhere = sorted(name for name in names if PurePosixPath(name).name == own)
    if not elsewhere:
        raise KeyError(f"there is no {member} inside")
    return elsewhere[0]


def _read(entry: Dataset, path: Path) -> Ratings:
    ratings = _read_ratings(entry, path, entry.ratings_member)
    return replace(ratings, titles=_read_titles(entry, path)) if entry.titles_member else ratings


def _read_ratings(entry: Dataset, path: Path, member: str) -> Ratings:
    with tempfile.TemporaryDirectory(prefix="cofill-") as folder:
        loose = Path(folder, PurePosixPath(member).name)
        if path.name == member:
            loose = path
        else:
            with _opened(path, member) as packed, loose.open("wb") as file:
                shutil.copyfileobj(packed, file, BLOCK)
        return Ratings.read(loose, separator=entry.separator, header=entry.header, scale=entry.scale)


def _read_titles(entry: Dataset, path: Path) -> dict[Id, str]:
    """Titles by id, from `id,title,...` with a header, `id::title::genres` or `id|title|...`."""
    assert entry.titles_member is not None
    with _opened(path, entry.titles_member) as packed:
        text = io.TextIOWrapper(packed, encoding=entry.encoding, newline="")
        if entry.header:
            rows = csv.reader(text)
            next(rows, None)
            return {int(row[0]): row[1] for row in rows}
        separator = "::" if entry.separator == "::" else "|"
        cells = (line.rstrip("\r\n").split(separator) for line in text)
        return {int(row[0]): row[1] for row in cells if len(row) > 1}


def _read_folds(entry: Dataset, path: Path, whole: Ratings) -> Iterator[tuple[Ratings, Ratings]]:
    def pairs(ratings: Ratings) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        users = whole.users.find(ratings.users.array())[ratings.user_index].astype(np.int64)
        return users * len(whole.items) + whole.items.find(ratings.items.array())[ratings.item_index]

    everything = pairs(whole)
    for members in entry.folds:
        train, test = (whole.select(np.isin(everything, pairs(_read_ratings(entry, path, name)))) for name in members)
        yield train, test
