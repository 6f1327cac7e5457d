"""Files that are written whole or not at all, and JSON that is read from them."""

import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from cofill.errors import CofillError
from cofill.interrupts import unfinished

DRAFTS_OF_SAFETENSORS = ".tmp??????"
"""What safetensors writes to before it renames that to our draft; a kill may leave one behind."""
# Writers of other libraries wrap a full disk in errors of their own.
_OF_THE_SYSTEM = re.compile(r"\(os error \d+\)|No space left|I/O error")
_DEEPEST = 100  # that a document of ours is nested, and far more than any is


@contextmanager
def replacing(target: Path, error: type[CofillError] = CofillError, *, private: bool = False) -> Iterator[Path]:
    """A path beside `target` to write to; it takes the target's place once the block has ended well.

    Whatever happens before that (an exception, a full disk, a kill), the target is as it was. Others may read it as any
    new file there (umask), whoever wrote the draft: safetensors makes files that nobody else may read. With `private`,
    nobody else may.
    """
    # Not by the number of this process: on storage that several machines share, another may have the same.
    draft = target.with_name(f".{target.name}.{uuid4().hex[:12]}.part")
    try:
        with unfinished(draft):
            target.parent.mkdir(parents=True, exist_ok=True)
            mode = _mode_of_new(draft, 0o600 if private else 0o666)
            yield draft
            if stat.S_IMODE(draft.stat().st_mode) != mode:
                draft.chmod(mode)
            put_in_place(draft, target)
    except CofillError:
        raise
    except Exception as problem:
        if not (isinstance(problem, OSError) or _OF_THE_SYSTEM.search(str(problem))):
            raise
        raise error(explain_write_failure(target, problem)) from problem


@contextmanager
def temporary_folder(name: str) -> Iterator[Path]:
    """A folder where the system has temporary ones, for this block alone."""
    with TemporaryDirectory(prefix=f"{name}-") as folder, unfinished(Path(folder)):
        yield Path(folder)


def _mode_of_new(path: Path, wanted: int) -> int:
    """Make an empty file, and say who may read it: the umask of a process cannot be asked for without changing it."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, wanted)
    try:
        return stat.S_IMODE(os.fstat(descriptor).st_mode)
    finally:
        os.close(descriptor)


def make_private(path: Path) -> bool:
    """Make a file that nobody else may read, if there is none; True if others could read the one that is there.

    They no longer can. A group that somebody let read it still may.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return False
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & stat.S_IRWXO:
        path.chmod(mode & ~stat.S_IRWXO)
    return bool(mode & stat.S_IRWXO)


def json_of(text: str | bytes) -> Any:
    """A JSON document; ValueError where it is none, or nested so deep that it cannot be one of ours."""
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
    level = [document]
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return document
    raise ValueError("nested too deep")


def explain_write_failure(target: Path, problem: Exception) -> str:
    """Turn an error of writing `target` into one that says what to do."""
    code = problem.errno if isinstance(problem, OSError) else None
    if code == errno.ENOSPC or "No space left" in str(problem):
        return f"{target}: not written, the disk is full; free some space and run the command again"
    if code in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{target}: not written, no permission to write there; choose another place"
    reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    return f"{target}: not written ({reason}); check the path and the space on the disk"


def put_in_place(draft: Path, target: Path) -> None:
    """Give a finished file its name. After this the target is whole, power cut or not."""
    sync(draft)
    draft.replace(target)
    sync(target.parent)  # the new name itself must reach the disk too


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, have reached the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
