"""Files that are written whole or not at all."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from cofill.errors import CofillError

DRAFTS_OF_SAFETENSORS = ".tmp??????"
"""What safetensors writes to before it renames that to our draft; a kill may leave one behind."""


@contextmanager
def replacing(target: Path, error: type[CofillError] = CofillError) -> Iterator[Path]:
    """A path beside `target` to write to; it takes the target's place once the block has ended well.

    Whatever happens before that (an exception, a full disk, a kill), the target is as it was.
    """
    # Not by the number of this process: on storage that several machines share, another may have the same.
    draft = target.with_name(f".{target.name}.{uuid4().hex[:12]}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield draft
        put_in_place(draft, target)
    except CofillError:
        raise
    except Exception as problem:  # writers of other libraries wrap a full disk in errors of their own
        raise error(explain_write_failure(target, problem)) from problem
    finally:
        with suppress(OSError):  # what went wrong above is what matters
            draft.unlink(missing_ok=True)


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
    with draft.open("rb") as written:
        os.fsync(written.fileno())
    draft.replace(target)
    descriptor = os.open(target.parent, os.O_RDONLY)  # the new name itself must reach the disk too
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
