"""One file from its publisher to the disk: resumed when it can be, checked always, in place only when whole.

While it is under way a file is `<target>.part`, with what the server said of it in `<target>.part.json`.
A later attempt, in this process or another, continues from there unless the file has changed meanwhile.

pooch, which is usual for this, checks a hash and moves a finished file into place as we do, but it cannot resume: each
attempt begins with an empty temporary file, sends no Range, and throws away what came when the connection breaks. Nor
does it keep two processes from downloading the same file at once. Both matter for sets of hundreds of megabytes.
"""

import errno
import fcntl
import hashlib
import http.client
import json
import os
import socket
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from cofill.errors import DatasetError
from cofill.files import json_of, put_in_place

CHUNK = 1 << 16
Report = Callable[[int, int | None], None]  # (bytes so far, bytes in all)
BY_HAND = "or download it by hand into a folder and name that folder in COFILL_DATA"


class _Dropped(Exception):
    """The connection broke or the server failed: worth another attempt."""


@dataclass(frozen=True)
class _Validator:
    """What tells one version of a published file from another."""

    address: str
    etag: str | None
    modified: str | None
    total: int | None

    @property
    def condition(self) -> str | None:
        """The value for If-Range. A weak ETag promises nothing about bytes, so it is no use there."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.modified

    def continues(self, known: "_Validator") -> bool:
        """Whether a partial answer, which may leave headers out, belongs to the file known so far."""
        return self.etag in (None, known.etag) and self.modified in (None, known.modified) and self.total == known.total


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
    """Download `address` to `target` and return `target`.

    `md5` and `size` are the published ones, as others quote them if `second_hand`; `check` may raise DatasetError on
    content that is wrong. A file that fails is deleted. Only an attempt that gets no further than those before counts
    against `attempts`; the pause between them starts at `pause` seconds and doubles.
    """
    part = target.with_name(target.name + ".part")
    with _cache_errors(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target, quiet=quiet):
            if target.exists():  # another process was faster; it has checked the file
                return target
            with _progress(target.name, quiet=quiet) as report:
                _receive(address, part, report, attempts=attempts, pause=pause, timeout=timeout)
            try:
                _verify(part, address, md5=md5, size=size, second_hand=second_hand)
                if check is not None:
                    check(part)
            except DatasetError:
                _discard(part)
                raise
            put_in_place(part, target)
            _sidecar(part).unlink(missing_ok=True)
    return target


def md5_of(path: Path) -> str:
    """The MD5 of a file, as publishers print it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _receive(address: str, part: Path, report: Report, *, attempts: int, pause: float, timeout: float) -> None:
    """Fill `part`, attempt by attempt."""
    furthest, failures = _size(part), 0
    while True:
        try:
            return _attempt(address, part, report, timeout)
        except _Dropped as dropped:
            reached = _size(part)
            failures = 1 if reached > furthest else failures + 1
            furthest = max(furthest, reached)
            if failures >= attempts:
                raise DatasetError(
                    f"{address}: {dropped}, {attempts} times; {reached:,} bytes are kept. "
                    f"Try again later to continue from there, {BY_HAND}."
                ) from dropped
            time.sleep(pause * 2 ** (failures - 1))


def _attempt(address: str, part: Path, report: Report, timeout: float) -> None:
    """One request, from where the part ends if the server allows it and the file is still the same."""
    known, have = _remembered(part, address), _size(part)
    condition = known.condition if known else None
    headers = {"User-Agent": "cofill", "Accept-Encoding": "identity"}
    if have and condition:
        headers |= {"Range": f"bytes={have}-", "If-Range": condition}
    else:
        have = 0
    try:
        request = urllib.request.Request(address, headers=headers)
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            start = _first_byte(answer) if answer.status == 206 else 0
            total = None if answer.length is None else start + answer.length
            etag, modified = answer.headers.get("ETag"), answer.headers.get("Last-Modified")
            fresh = _Validator(address, etag, modified, total)
            if answer.status == 206 and (start != have or not known or not fresh.continues(known)):
                _discard(part)  # a server that honours Range but not If-Range, and another file than before
                raise _Dropped("the file changed while it was downloaded")
            with part.open("ab" if start else "wb") as file:
                if not start:  # only now that the old bytes are gone
                    _sidecar(part).write_text(json.dumps(asdict(fresh)))
                _copy(answer, file, start, total, report)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # nothing after our last byte: a finished part, or another file
            if known and known.total == have:
                return
            _discard(part)
        if error.code in (408, 416, 425, 429) or error.code >= 500:
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


def _copy(answer: BinaryIO, file: BinaryIO, done: int, total: int | None, report: Report) -> None:
    report(done, total)
    while block := answer.read(CHUNK):
        file.write(block)
        done += len(block)
        report(done, total)
    if total is not None and done < total:
        raise _Dropped(f"the connection dropped after {done:,} of {total:,} bytes")


def _first_byte(answer: http.client.HTTPResponse) -> int:
    """The 100 of "Content-Range: bytes 100-199/200"."""
    span = answer.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
    return int(span) if span.isdigit() else -1


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
    if size is not None and (found := _size(part)) != size:
        says = "as is known here, second-hand, it has" if second_hand else "the publisher says"
        raise DatasetError(
            f"{address}: {found:,} bytes arrived, {says} {size:,}; they were deleted. {compare}Try again, {BY_HAND}."
        )
    if md5 is not None and (digest := md5_of(part)) != md5:
        raise DatasetError(
            f"{address}: the MD5 of what arrived is {digest}, {expected_md5(md5, second_hand=second_hand)}; it was "
            f"deleted. {compare}Try again, {BY_HAND}."
        )


def _sidecar(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _remembered(part: Path, address: str) -> _Validator | None:
    with suppress(OSError, ValueError, TypeError):  # a torn or foreign sidecar only means a fresh start
        known = _Validator(**json_of(_sidecar(part).read_text()))
        return known if known.address == address else None
    return None


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    _sidecar(part).unlink(missing_ok=True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextmanager
def _cache_errors(folder: Path) -> Iterator[None]:
    """Errors of the disk, as one line each."""
    try:
        yield
    except OSError as error:
        advice = "Name another folder in COFILL_CACHE."
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            problem = "the disk is full"
            advice = "Free some space and try again; what arrived is kept. Or name another folder in COFILL_CACHE."
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            problem = "the folder cannot be written to"
        else:
            problem = f"the folder cannot be used ({error.strerror or error})"
        raise DatasetError(f"{folder}: {problem}. {advice}") from error


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


@contextmanager
def _locked(target: Path, *, quiet: bool) -> Iterator[None]:
    """Let one process at a time work on `target`. The kernel frees the lock of a process that dies."""
    path = target.with_name(target.name + ".lock")
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not quiet:
                    sys.stderr.write(f"{target.name}: another process is downloading it; waiting\n")
                fcntl.flock(lock, fcntl.LOCK_EX)
            # whoever held the lock before has removed the file: then this is a lock on nothing
            if _inode(path) == os.fstat(lock).st_ino:
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return
        finally:
            os.close(lock)


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
