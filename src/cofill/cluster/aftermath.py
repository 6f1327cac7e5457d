"""A process beside a Ray of our own, which ends what is left of it if the driver is killed.

Ray's own processes then end by themselves, but its helpers try for a minute to tell a head that is gone. `watch` starts
`python -m cofill.cluster.aftermath FOLDER`; that reads its standard input, which closes when the driver dies. Whoever
still has a file open in the temporary folder of that Ray is ended, and the folder is removed.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

_IN_ORDER = b"."
_SECONDS_TO_END = 3.0  # by themselves, before they are ended
_SECONDS_AT_MOST = 30.0
_NAMES = ("ray", "gcs_server", "python")


def watch(folder: Path) -> "subprocess.Popen[bytes]":
    """Start the process; it has a session of its own, since an interrupt at the terminal is not meant for it."""
    return subprocess.Popen(
        [sys.executable, "-m", __name__, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def dismiss(watching: "subprocess.Popen[bytes]") -> None:
    """Tell it that all has been tidied up already."""
    assert watching.stdin is not None
    with suppress(OSError):  # it has been killed, too
        watching.stdin.write(_IN_ORDER)
        watching.stdin.close()
    try:
        watching.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        watching.kill()
        watching.wait()


def tidy_up(folder: Path) -> None:
    """End every process of the Ray in that folder, and remove the folder."""
    began = time.monotonic()
    while (left := users_of(folder)) and time.monotonic() - began < _SECONDS_AT_MOST:
        if time.monotonic() - began > _SECONDS_TO_END:
            for process in left:
                with suppress(OSError):
                    os.kill(process, signal.SIGKILL)
        time.sleep(0.1)
    shutil.rmtree(folder, ignore_errors=True)


def users_of(folder: Path) -> list[int]:
    """The processes of Ray that have a file open in the folder, such as their log. None where there is no /proc."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # of somebody else, or gone
            ours = int(entry.name) != os.getpid() and (entry / "comm").read_text().startswith(_NAMES)
            if ours and any(_leads_into(folder, file) for file in (entry / "fd").iterdir()):
                found.append(int(entry.name))
    return found


def _leads_into(folder: Path, file: Path) -> bool:
    try:
        return folder in file.readlink().parents
    except OSError:  # closed since
        return False


if __name__ == "__main__":
    if sys.stdin.buffer.read(1) != _IN_ORDER:
        tidy_up(Path(sys.argv[1]))
