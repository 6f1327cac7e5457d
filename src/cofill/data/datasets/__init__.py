"""The public data sets: find one on this machine or download it, check it, load it.

A set is looked for in the folder `$COFILL_DATA` (at any depth), then in the cache (`$COFILL_CACHE`, else
`$XDG_CACHE_HOME/cofill`, else `~/.cache/cofill`), then at its publisher. What is in the cache was checked
before it came there. What is in `$COFILL_DATA` is checked each time, as people put things there.
"""

import difflib
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from cofill.data.datasets import matlab
from cofill.data.datasets.catalogue import CATALOGUE, Dataset, SideSource, again
from cofill.data.datasets.fetch import count_lines, download, expected_md5, md5_of, opened, unpacked
from cofill.data.described import SideInformation
from cofill.data.pairs import read_titles
from cofill.data.ratings import Ratings, read_ratings
from cofill.errors import DataError, DatasetError

if TYPE_CHECKING:
    from cofill.data.features import Features

__all__ = [
    "Dataset", "SideInformation", "UnpublishedFileWarning", "cache_folder", "catalogue", "dataset", "fetch", "load",
    "locate", "published_folds", "side_information",
]  # fmt: skip


class UnpublishedFileWarning(UserWarning):
    """A data set whose file differs from the published one, although its content is complete."""


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
        sys.stderr.write(f"{entry.title} is {entry.terms}.\nCite: {entry.citation}\n")
    target = cache_folder() / entry.file_names[0]
    size = None if entry.changes else entry.size
    check = (lambda path: _check_content(entry, path)) if entry.md5 is None else None
    second_hand = "checksum" in entry.second_hand
    return download(entry.address, target, md5=entry.md5, size=size, second_hand=second_hand, check=check, quiet=quiet)


def load(name: str, *, quiet: bool = False) -> Ratings:
    """The ratings of a data set, with the titles of its items and its full scale.

    `name` is one that `cofill datasets list` shows. What is not at hand is downloaded, with a line of progress unless
    `quiet`.
    """
    entry = dataset(name)
    return _read(entry, fetch(name, quiet=quiet))


def side_information(name: str, *, quiet: bool = False) -> SideInformation:
    """The side information of a data set: (users, items), None for a side without any.

    It may describe more of them than are in the ratings.
    """
    entry = dataset(name)
    path = fetch(name, quiet=quiet)
    return SideInformation(_joined(entry, path, entry.about_users), _joined(entry, path, entry.about_items))


def published_folds(name: str, *, quiet: bool = False) -> Iterator[tuple[Ratings, Ratings]]:
    """The published splits of a data set: pairs (train, test) with the vocabularies of the whole set."""
    entry = dataset(name)
    if not entry.folds:
        having = [other.name for other in CATALOGUE.values() if other.folds]
        raise DatasetError(f"{name} was published without folds. Those with folds: {', '.join(having)}.")
    path = fetch(name, quiet=quiet)
    return _read_folds(entry, path, _read(entry, path))


def _in_data_folder(entry: Dataset) -> Path | None:
    """The matching file nearest to the top of `$COFILL_DATA`."""
    named = os.environ.get("COFILL_DATA")
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DatasetError(
            f"COFILL_DATA is {named}, which is no folder. Name the folder of your data sets, or unset it."
        )
    wanted = {PurePosixPath(name).name for name in entry.file_names}
    files = (Path(parent, file) for parent, _, files in os.walk(folder) for file in files if file in wanted)
    found = [(len(path.parts), place, path) for path in files if (place := _which_name(entry, path)) is not None]
    return min(found)[-1] if found else None


def _which_name(entry: Dataset, path: Path) -> int | None:
    """By which of its names a file is recognised; folders may be written in capitals."""
    parts = path.absolute().parts
    for place, name in enumerate(entry.file_names):
        *folders, file = PurePosixPath(name).parts
        above = parts[-1 - len(folders) : -1]
        if parts[-1] == file and [folder.lower() for folder in above] == folders:
            return place
    return None


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
    if digest and entry.md5:
        expected = expected_md5(entry.md5, second_hand="checksum" in entry.second_hand)
        warnings.warn(
            f"{path}: its MD5 is {digest}, {expected}; it is used, its content is whole.",
            UnpublishedFileWarning,
            stacklevel=4,
        )


def _check_content(entry: Dataset, path: Path) -> None:
    """Raise if what the ratings need is missing or damaged; side information is checked when it is asked for."""
    if entry.matlab:
        matlab.check_content(entry, path)
        return
    members = [entry.ratings_member, entry.titles_member, *(name for fold in entry.folds for name in fold)]
    for member in filter(None, members):
        with opened(entry, path, member) as file:
            lines = count_lines(file)
        if member == entry.ratings_member and lines - entry.header != entry.ratings and not entry.changes:
            raise DatasetError(
                f"{path}: {member} has {lines - entry.header:,} ratings instead of {entry.ratings:,}; "
                f"it is not {entry.name}, or not all of it. {again(entry)}"
            )


def _read(entry: Dataset, path: Path) -> Ratings:
    if entry.matlab:
        return matlab.read_ratings(entry, path)
    ratings = _read_ratings(entry, path, entry.ratings_member)
    if entry.titles_member is None:
        return ratings
    with unpacked(entry, path, entry.titles_member) as loose:
        separator = entry.separator if entry.header or entry.separator == "::" else "|"
        titles = read_titles(loose, separator=separator, header=entry.header, encoding=entry.encoding)
    return replace(ratings, titles=titles)


def _read_ratings(entry: Dataset, path: Path, member: str) -> Ratings:
    with unpacked(entry, path, member) as loose:
        return read_ratings(loose, entry.reading)


def _read_folds(entry: Dataset, path: Path, whole: Ratings) -> Iterator[tuple[Ratings, Ratings]]:
    def pairs(ratings: Ratings) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        users = whole.users.find(ratings.users.array())[ratings.user_index].astype(np.int64)
        return users * len(whole.items) + whole.items.find(ratings.items.array())[ratings.item_index]

    def part(member: str) -> Ratings:
        ratings = matlab.read_ratings(entry, path, [member]) if entry.matlab else _read_ratings(entry, path, member)
        return whole.select(np.isin(everything, pairs(ratings)))

    everything = pairs(whole)
    for train, test in entry.folds:
        yield part(train), part(test)


def _joined(entry: Dataset, path: Path, sources: Sequence[SideSource]) -> "Features | None":
    from cofill.data.features import Features

    parts = [_read_side(entry, path, source) for source in sources]
    return Features.join(parts) if len(parts) > 1 else parts[0] if parts else None


def _read_side(entry: Dataset, path: Path, source: SideSource) -> "Features":
    from cofill.data.features import Features

    if entry.matlab:
        links = matlab.read_links(entry, path, source.member)
        try:
            return Features.read(links, kind=source.kind, name=source.name, both_ways=source.both_ways)
        except DataError as error:
            raise DatasetError(f"{path}, {source.member}: {error}. {again(entry)}") from error
    with unpacked(entry, path, source.member) as loose:
        return Features.read(loose, **source.reading)
