"""The members of a data set: as files, from inside its zip or from beside it where it lies in the open; as features."""

import shutil
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from cofill.data.datasets.catalogue import Dataset, SideSource, again
from cofill.data.described import SideInformation
from cofill.errors import DataError, DatasetError
from cofill.files import temporary_folder

if TYPE_CHECKING:
    from cofill.data.features import Features

BLOCK = 1 << 20
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError)


@contextmanager
def opened(entry: Dataset, path: Path, member: str) -> Iterator[IO[bytes]]:
    """Open a member for reading; a DatasetError if it is missing or damaged."""
    try:
        if _in_the_open(entry, path):
            with _beside(entry, path, member).open("rb") as file:
                yield file
            return
        with zipfile.ZipFile(path) as archive, archive.open(_inside(entry, path, archive, member)) as packed:
            yield packed
    except PermissionError as error:
        raise DatasetError(f"{error.filename}: cannot be read ({error.strerror}). Check its permissions.") from error
    except BROKEN as error:
        raise DatasetError(f"{path}: truncated or damaged ({error}). {again(entry)}") from error


@contextmanager
def unpacked(entry: Dataset, path: Path, member: str) -> Iterator[Path]:
    """Unpack a member to a file. Errors in it name the data set, not that file."""
    with temporary_folder("cofill") as folder:
        if _in_the_open(entry, path):
            loose = _beside(entry, path, member)
            called = str(loose)
        else:
            loose, called = folder / PurePosixPath(member).name, f"{path}, {member}"
            with opened(entry, path, member) as packed, loose.open("wb") as file:
                shutil.copyfileobj(packed, file, BLOCK)
        try:
            yield loose
        except DataError as error:
            told = str(error.said_of(called)).replace(str(loose), called)
            raise DatasetError(f"{told}. {again(entry)}") from error


def count_lines(file: IO[bytes]) -> int:
    """Lines, the last of which may lack its end. Reading a member to its end also checks its CRC."""
    lines, last = 0, b"\n"
    while block := file.read(BLOCK):
        lines += block.count(b"\n")
        last = block[-1:]
    return lines + (last != b"\n")


def _in_the_open(entry: Dataset, path: Path) -> bool:
    return path.name == PurePosixPath(entry.ratings_member).name


def _beside(entry: Dataset, path: Path, member: str) -> Path:
    loose = path.with_name(PurePosixPath(member).name)
    if not loose.is_file():
        raise DatasetError(f"{path}: there is no {loose.name} beside it. {again(entry)}")
    return loose


def _inside(entry: Dataset, path: Path, archive: zipfile.ZipFile, member: str) -> str:
    """The member, which may be in another folder of a zip that was packed anew."""
    names = archive.namelist()
    if member in names:
        return member
    own = PurePosixPath(member).name
    elsewhere = sorted(name for name in names if PurePosixPath(name).name == own)
    if not elsewhere:
        raise DatasetError(f"{path}: there is no {member} inside. {again(entry)}")
    return elsewhere[0]


# What a data set tells about its users and items apart from ratings


def read_side_information(entry: Dataset, path: Path) -> SideInformation:
    """All sources that the entry names, those of one side joined."""
    return SideInformation(_joined(entry, path, entry.about_users), _joined(entry, path, entry.about_items))


def _joined(entry: Dataset, path: Path, sources: Sequence[SideSource]) -> "Features | None":
    from cofill.data.features import Features

    parts = [_read(entry, path, source) for source in sources]
    return Features.join(parts) if len(parts) > 1 else parts[0] if parts else None


def _read(entry: Dataset, path: Path, source: SideSource) -> "Features":
    from cofill.data.features import Features

    if entry.matlab:
        from cofill.data.datasets.matlab import read_links

        links = read_links(entry, path, source.member)
        try:
            return Features.read(links, kind=source.kind, name=source.name, both_ways=source.both_ways)
        except DataError as error:
            raise DatasetError(f"{path}, {source.member}: {error}. {again(entry)}") from error
    with unpacked(entry, path, source.member) as loose:
        return Features.read(
            loose, kind=source.kind, id=source.id, columns=source.columns, names=source.names, name=source.name,
            both_ways=source.both_ways, separator=source.separator, header=source.header,
            encoding=source.encoding,
        )  # fmt: skip
