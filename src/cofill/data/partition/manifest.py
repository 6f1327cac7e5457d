"""The folder of a partition: which files there are, how they are written and checked.

    partition.json                    what the partition is: counts, scale, and the files that belong to it
    bucket-00042-<hash>.safetensors   columns of one bucket: their ids, ratings, times and features
    rows-<hash>.parquet               ids of all rows, in ascending order
    titles-<hash>.parquet             titles of items, where there are any
    row_features-<hash>.safetensors   features of rows, and what was learned about them
    row_words-<hash>.parquet          ids of those features, and what they say in words
    column_features-<hash>...         what was learned about the features of columns; their vectors are in the buckets
    column_words-<hash>.parquet       ids of those features, and what they say in words

All other files are named after their content, and partition.json takes its place last: whoever reads the folder sees
the old partition or the new one, never a mixture, whenever the writer was stopped. There is one writer at a time, who
holds a lock on .partition.lock. Nothing is ever unpickled.
"""

import errno
import fcntl
import hashlib
import io
import json
import math
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from cofill import __version__
from cofill.config import Orientation
from cofill.errors import DataError
from cofill.files import explain_write_failure, json_of, replacing

if TYPE_CHECKING:
    import polars as pl

FORMAT = "cofill-partition"
FORMAT_VERSION = 1
MANIFEST = "partition.json"
REMEDY = "copy it again, or run `cofill partition` again"
PARTS = ("rows", "titles", "row_features", "row_words", "column_features", "column_words")
RUNS = ".runs."
LOCK = ".partition.lock"
WRITERS = 16
_KINDS = rf"(bucket-\d{{5}}|{'|'.join(PARTS)})"
_PART = re.compile(rf"{_KINDS}-[0-9a-f]{{12}}\.(safetensors|parquet)")
# What a writer has beside the files of its partition: its lock, its runs, and files that it has not named yet.
_PASSING = re.compile(
    rf"{re.escape(LOCK)}|{re.escape(RUNS)}[0-9a-f]+|\.{re.escape(MANIFEST)}\.[0-9a-f]+\.part|\.+{_KINDS}\..*"
)

Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]


class DamagedError(DataError):
    """A file of a partition that is not as it was written: there is nothing in it to keep."""

    @classmethod
    def at(cls, path: Path, found: str, remedy: str = REMEDY) -> "DamagedError":
        return cls(found, remedy, where=str(path))


class File(BaseModel):
    """A file of the folder."""

    model_config = ConfigDict(extra="forbid")

    name: str
    bytes: int
    sha256: str


class Manifest(BaseModel):
    """partition.json"""

    model_config = ConfigDict(extra="forbid")

    format: str
    format_version: int
    cofill_version: str
    orientation: Orientation
    rated: bool
    scale: tuple[float, float]
    times: Literal["int64", "float64"] | None
    integer_columns: bool
    summary: dict[str, Any]
    ratings_by_bucket: list[int]
    columns_by_bucket: list[int]
    features: dict[str, dict[str, Any]]  # what was learned about those of "rows" and "columns"
    files: dict[str, File]
    buckets: list[File]
    sha256: str  # of this document without this field

    def digest(self) -> str:
        text = json.dumps(self.model_dump(mode="json", exclude={"sha256"}), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def write(self, folder: Path) -> None:
        """Give the folder this manifest, and remove whatever does not belong to it."""
        self.sha256 = self.digest()
        _bring_to_disk(folder, self.names() - {MANIFEST})
        with replacing(folder / MANIFEST, DataError) as draft:
            draft.write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")
        remove_leftovers(folder, self)

    def names(self) -> set[str]:
        return {MANIFEST, *(file.name for file in (*self.files.values(), *self.buckets))}


def is_partition(folder: Path) -> bool:
    """Whether there is a finished partition in it."""
    return (folder / MANIFEST).is_file()


def is_unfinished(folder: Path) -> bool:
    """Whether somebody is writing a partition there, or was stopped while writing one."""
    return folder.is_dir() and not is_partition(folder) and any(_is_ours(path) for path in folder.iterdir())


def _is_ours(path: Path) -> bool:
    return path.name == MANIFEST or any(pattern.fullmatch(path.name) for pattern in (_PART, _PASSING))


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder; whatever is missing, altered or from a newer version is refused with a reason."""
    path = folder / MANIFEST
    try:
        document = json_of(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        found = f"not a partition, there is no {MANIFEST} in it"
        if is_unfinished(folder):
            found = f"a partition that is not finished, there is no {MANIFEST} in it yet"
        raise DataError(found, "make one with `cofill partition`", where=str(folder)) from None
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", "check its permissions", where=str(path)) from None
    except ValueError as error:
        raise DamagedError.at(path, f"truncated or altered, it is not JSON ({error})") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise DataError("not the description of a partition", "check the path", where=str(path))
    version = document.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise DataError(
            f"the partition has format {version}, this cofill {__version__} reads up to {FORMAT_VERSION}",
            f"upgrade cofill (it was written by {document.get('cofill_version')})",
            where=str(path),
        )
    try:
        manifest = Manifest.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise DamagedError.at(path, f"altered, {field}: {first['msg']}") from None
    if manifest.sha256 != manifest.digest() or not _adds_up(manifest):
        raise DamagedError.at(path, "altered since it was written")
    return manifest


def manifest_before(folder: Path) -> Manifest | None:
    """The manifest of what a writer finds in its folder; None if there is none, or one that is damaged.

    DataError where something else stands in the way: a newer partition, or a file that is none of ours.
    """
    try:
        return read_manifest(folder) if is_partition(folder) else None
    except DamagedError:
        return None  # its error says to write the partition again, and that has to work


def _adds_up(manifest: Manifest) -> bool:
    counts = manifest.ratings_by_bucket, manifest.columns_by_bucket
    lengths = {len(manifest.buckets), *map(len, counts)}
    needed = {"rows", *(f"{side[:-1]}_{kind}" for side in manifest.features for kind in ("features", "words"))}
    # Names are ours to the letter, so that none leads out of the folder or is no name at all.
    named = all(_PART.fullmatch(file.name) for file in (*manifest.files.values(), *manifest.buckets))
    return (
        len(lengths) == 1
        and named
        and set(manifest.features) <= {"rows", "columns"}
        and needed <= set(manifest.files)
        and all(0 <= count <= np.iinfo(np.int64).max for some in counts for count in some)
        and all(map(math.isfinite, manifest.scale))
        and manifest.scale[0] < manifest.scale[1]
    )


def checked_bytes(folder: Path, file: File) -> bytes:
    """The content of a file, after its size and checksum were found right."""
    path = folder / file.name
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DamagedError.at(path, "missing", f"{REMEDY} (it may have been replaced just now)") from None
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", "check its permissions", where=str(path)) from None
    if len(data) != file.bytes:
        raise DamagedError.at(path, f"truncated or altered, {len(data)} bytes where {file.bytes} were written")
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise DamagedError.at(path, "altered since it was written")
    return data


def read_arrays(folder: Path, file: File) -> Arrays:
    import safetensors.numpy

    data = checked_bytes(folder, file)
    try:
        return safetensors.numpy.load(data)
    except (safetensors.SafetensorError, ValueError, LookupError) as error:  # LookupError: of a type that numpy lacks
        raise DamagedError.at(folder / file.name, f"not a safetensors file ({error})") from None


def read_frame(folder: Path, file: File) -> "pl.DataFrame":
    import polars as pl

    try:
        return pl.read_parquet(checked_bytes(folder, file))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DamagedError.at(folder / file.name, f"not a Parquet file ({error})") from None


class Additions:
    """What one writer adds to a folder, until a manifest names it.

    Drafts have a name by chance: on storage that machines share, processes of one number may write at the same time.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._token = folder, uuid4().hex[:12]
        self._new: set[str] = set()

    @property
    def runs(self) -> Path:
        """A folder for ratings on their way into buckets."""
        return self.folder / f"{RUNS}{self._token}"

    def arrays(self, kind: str, arrays: Arrays) -> File:
        """Write arrays into a file that is named after its content."""
        from safetensors.numpy import save

        in_order = {name: np.ascontiguousarray(array) for name, array in sorted(arrays.items())}
        return self._write(kind, ".safetensors", save(in_order))

    def frame(self, kind: str, frame: "pl.DataFrame") -> File:
        """Write a table into a Parquet file that is named after its content."""
        file = io.BytesIO()
        frame.write_parquet(file)
        return self._write(kind, ".parquet", file.getvalue())

    def undo(self) -> None:
        """Remove what was written, apart from what the manifest that is in place names."""
        try:
            kept = manifest_before(self.folder)
        except DataError:
            kept = None  # somebody else's, and they do not know the new files
        for name in self._new - (set() if kept is None else kept.names()):
            with suppress(OSError):  # what went wrong before is what matters
                (self.folder / name).unlink(missing_ok=True)

    def _write(self, kind: str, suffix: str, data: bytes) -> File:
        """Write a file, which is sure to be on the disk once there is a manifest."""
        digest = hashlib.sha256(data).hexdigest()
        target = self.folder / f"{kind}-{digest[:12]}{suffix}"
        draft = self.folder / f".{kind}.{self._token}{suffix}"
        try:
            draft.write_bytes(data)
            if not target.exists():  # else it is of the partition before as well
                self._new.add(target.name)
            draft.replace(target)
        except OSError as problem:
            raise DataError(explain_write_failure(target, problem)) from problem
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
        return File(name=target.name, bytes=len(data), sha256=digest)


def _bring_to_disk(folder: Path, names: Iterable[str]) -> None:
    """Files that the manifest will name, before it does; many at a time, for each waits for the disk."""

    def bring(name: str) -> None:
        with (folder / name).open("rb") as file:
            os.fsync(file.fileno())

    try:
        with ThreadPoolExecutor(WRITERS) as threads:
            list(threads.map(bring, sorted(names)))
    except OSError as problem:
        raise DataError(explain_write_failure(folder, problem)) from problem


def check_folder(folder: Path) -> None:
    """DataError unless a partition can be written there: a new or empty folder, or one that holds nothing else."""
    if folder.exists() and not folder.is_dir():
        raise DataError(
            "a partition is a folder, but there is a file of that name", "choose another", where=str(folder)
        )
    if folder.is_dir():
        strange = sorted(path.name for path in folder.iterdir() if not _is_ours(path))
        if strange:
            raise DataError(
                f"exists and is not a partition's folder (there is {strange[0]} in it)",
                "choose another, or remove it",
                where=str(folder),
            )


@contextmanager
def one_writer(folder: Path) -> Iterator[None]:
    """Let one writer at a time into a folder, which is made if there is none; DataError for the second.

    The kernel frees the lock of a process that dies.
    """
    path = folder / LOCK
    try:
        held = _locked(path)
    except BlockingIOError:
        raise DataError(
            "another process is writing a partition there",
            "wait until it has ended, or choose another folder",
            where=str(folder),
        ) from None
    except OSError as problem:
        if problem.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            found = f"files there cannot be locked ({problem.strerror}), and two writers would spoil each other's work"
            raise DataError(found, "write it to another disk, and copy the folder", where=str(folder)) from problem
        raise DataError(explain_write_failure(path, problem)) from problem
    try:
        yield
    finally:
        with suppress(OSError):  # a lock that nobody holds hinders nobody
            path.unlink(missing_ok=True)
        os.close(held)


def _locked(path: Path) -> int:
    """The open file on which there is a lock; BlockingIOError if another has it."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except FileNotFoundError:  # a writer that failed has just removed the folder
            continue
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held the lock before may have removed the file: then this is a lock on nothing.
            if path.stat().st_ino == os.fstat(held).st_ino:
                return held
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(held)
            raise
        os.close(held)


def remove_leftovers(folder: Path, manifest: Manifest | None) -> None:
    """Files of the partition that was here before, and what writers that were stopped have left.

    Without a manifest, files that the one in place may name stay as well, be it damaged.
    """
    known = manifest is not None or not is_partition(folder)
    current = {LOCK, MANIFEST} | (set() if manifest is None else manifest.names())
    for path in folder.iterdir():
        if path.name in current or not (_PASSING.fullmatch(path.name) or (known and _PART.fullmatch(path.name))):
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):  # it takes space, and does no harm
                path.unlink(missing_ok=True)
