"""One file from its publisher to the disk, in place only when it is whole and checked; and the members inside it."""

import hashlib
import http.client
import shutil
import socket
import ssl
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
from cofill.progress import Step, shown

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
    with replacing(target, DatasetError) as draft, shown(quiet) as progress:
        for attempt in range(attempts):
            try:
                _receive(address, draft, lambda done, total: progress(_step(target.name, done, total)), timeout)
                break
            except _Dropped as dropped:
                if attempt == attempts - 1:
                    found = f"{address}: {dropped}, {attempts} times. Try again later, {BY_HAND}."
                    raise DatasetError(found) from dropped
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
        found = f"the server answered {error.code} {error.reason}"
        if error.code in (408, 425, 429) or error.code >= 500:
            raise _Dropped(found) from error
        remedy = f"The publisher may have moved it: look at its page for the new address, {BY_HAND}."
        raise DatasetError(f"{address}: {found}. {remedy}") from error
    except (http.client.HTTPException, urllib.error.URLError, ConnectionError, TimeoutError, ssl.SSLError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, (socket.gaierror, ssl.SSLCertVerificationError)):  # another attempt cannot help
            remedy = f"Check the network and the clock of this machine, {BY_HAND}."
            raise DatasetError(f"{address}: its server cannot be found or trusted ({reason}). {remedy}") from error
        raise _Dropped(f"no connection, or it dropped ({reason or type(error).__name__})") from error
    if total is not None and done < total:
        raise _Dropped(f"the connection dropped after {done:,} of {total:,} bytes")


def _step(name: str, done: int, total: int | None) -> Step:
    of = f" of {total / 1e6:,.1f}" if total else ""
    share = done / total if total else 0.0
    return Step(name, share, 1.0, share, text=f"{done / 1e6:,.1f}{of} MB", logged=share == 1.0)


def expected_md5(md5: str, *, second_hand: bool) -> str:
    """The MD5 that a file should have, and how well that is known."""
    return f"the one known here, second-hand, {md5}" if second_hand else f"the published one {md5}"


def _verify(part: Path, address: str, *, md5: str | None, size: int | None, second_hand: bool) -> None:
    found = None
    if size is not None and part.stat().st_size != size:
        found = f"{part.stat().st_size:,} bytes arrived instead of {size:,}"
    elif md5 is not None and (digest := md5_of(part)) != md5:
        found = f"the MD5 of what arrived is {digest}, {expected_md5(md5, second_hand=second_hand)}"
    if found is not None:
        compare = "Compare it with the publisher's page. " if second_hand else ""
        raise DatasetError(f"{address}: {found}; it was deleted. {compare}Try again, {BY_HAND}.")


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
