"""One file from its publisher to the disk, in place only when it is whole and checked; and the members inside it."""

import hashlib
import http.client
import shutil
import socket
import ssl
import sys
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO

from cofill.data.datasets.catalogue import Dataset, again
from cofill.errors import DataError, DatasetError
from cofill.files import replacing, temporary_folder

BLOCK = 1 << 20
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError)
Report = Callable[[int, int | None], None]  # (bytes so far, bytes in all)
BY_HAND = "or download it by hand into a folder and name that folder in COFILL_DATA"


class _Dropped(Exception):
    """The connection broke or the server failed: worth another attempt."""


def download(
    address: str,
    target: Path,
    *,
    md5: str | None = None,
    size: int | None = None,
    second_hand: bool = False,
    check: Callable[[Path], None] | None = None,
    quiet: bool = False,
    attempts: int = 4,
    pause: float = 1.0,
    timeout: float = 30.0,
) -> Path:
    """Download `address` to `target` and return `target`, which may be there already.

    `md5` and `size` are the published ones, as others quote them if `second_hand`; `check` may raise DatasetError on
    content that is wrong. The pause between attempts starts at `pause` seconds and doubles.
    """
    with suppress(PermissionError):  # said below
        if target.exists():  # it was checked before it came there
            return target
    with replacing(target, DatasetError) as draft:
        for attempt in range(attempts):
            try:
                with _progress(target.name, quiet=quiet) as report:
                    _receive(address, draft, report, timeout)
                break
            except _Dropped as dropped:
                if attempt == attempts - 1:
                    raise DatasetError(
                        f"{address}: {dropped}, {attempts} times. Try again later, {BY_HAND}."
                    ) from dropped
                time.sleep(pause * 2**attempt)
        _verify(draft, address, md5=md5, size=size, second_hand=second_hand)
        if check is not None:
            check(draft)
    return target


def md5_of(path: Path) -> str:
    """The MD5 of a file, as publishers print it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _receive(address: str, draft: Path, report: Report, timeout: float) -> None:
    """One request."""
    request = urllib.request.Request(address, headers={"User-Agent": "cofill", "Accept-Encoding": "identity"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer, draft.open("wb") as file:
            total, done = answer.length, 0
            report(done, total)
            while block := answer.read(1 << 16):
                file.write(block)
                done += len(block)
                report(done, total)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (408, 425, 429) or error.code >= 500:
            raise _Dropped(f"the server answered {error.code} {error.reason}") from error
        raise DatasetError(
            f"{address}: the server answered {error.code} {error.reason}. "
            f"The publisher may have moved it: look at its page for the new address, {BY_HAND}."
        ) from error
    except urllib.error.URLError as error:
        _give_up_if_hopeless(address, error)
        raise _Dropped(f"no connection ({error.reason})") from error
    except (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
        raise _Dropped(f"the connection dropped ({error or type(error).__name__})") from error
    if total is not None and done < total:
        raise _Dropped(f"the connection dropped after {done:,} of {total:,} bytes")


def _give_up_if_hopeless(address: str, error: urllib.error.URLError) -> None:
    """Raise where another attempt cannot help."""
    if isinstance(error.reason, socket.gaierror):
        raise DatasetError(
            f"{address}: its server cannot be found ({error.reason.strerror}). Check the network, {BY_HAND}."
        ) from error
    if isinstance(error.reason, ssl.SSLCertVerificationError):
        raise DatasetError(
            f"{address}: its certificate is not valid ({error.reason.verify_message}). "
            f"Check the clock of this machine, {BY_HAND}."
        ) from error


def expected_md5(md5: str, *, second_hand: bool) -> str:
    """The MD5 that a file should have, and how well that is known."""
    return f"the one known here, second-hand, {md5}" if second_hand else f"the published one {md5}"


def _verify(part: Path, address: str, *, md5: str | None, size: int | None, second_hand: bool) -> None:
    compare = "Compare it with the publisher's page. " if second_hand else ""
    if size is not None and (found := part.stat().st_size) != size:
        says = "as is known here, second-hand, it has" if second_hand else "the publisher says"
        raise DatasetError(
            f"{address}: {found:,} bytes arrived, {says} {size:,}; they were deleted. {compare}Try again, {BY_HAND}."
        )
    if md5 is not None and (digest := md5_of(part)) != md5:
        raise DatasetError(
            f"{address}: the MD5 of what arrived is {digest}, {expected_md5(md5, second_hand=second_hand)}; it was "
            f"deleted. {compare}Try again, {BY_HAND}."
        )


@contextmanager
def _progress(name: str, *, quiet: bool) -> Iterator[Report]:
    """How far a download is, on stderr: a bar on a terminal, a line at each fifth elsewhere, nothing if quiet."""
    if quiet:
        yield lambda done, total: None
        return
    if not sys.stderr.isatty():
        yield _plain_lines(name)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _plain_lines(name: str) -> Report:
    told = -1

    def report(done: int, total: int | None) -> None:
        nonlocal told
        fifths = 5 * done // total if total else 0
        if fifths > told:
            told = fifths
            of = f" of {total / 1e6:,.1f} MB" if total else ""
            sys.stderr.write(f"{name}: {done / 1e6:,.1f}{of}\n")

    return report


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
