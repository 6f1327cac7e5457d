"""Processes that work for this one: how they start, what they may use, how they end; and how this one ends in order."""

import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import environ
from types import FrameType
from typing import NoReturn

from cofill.warning_lines import show_warning

THREADS_OF_LIBRARIES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "POLARS_MAX_THREADS",
)
_SECONDS_TO_STOP = 5.0


def start_worker(
    module: str, *words: str, threads: int = 0, stdout: int | None = None, stderr: int | None = None
) -> subprocess.Popen[bytes]:
    """`python -m module words...`, whose standard input is a pipe; `threads` 0: as many as there are cores."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *words],
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        env=environ | (dict.fromkeys(THREADS_OF_LIBRARIES, str(threads)) if threads else {}),
    )


def stop_workers(workers: Iterable[subprocess.Popen[bytes]], seconds: float = _SECONDS_TO_STOP) -> None:
    """Tell them all to stop, and kill those that are still there after so many seconds."""
    workers = list(workers)
    for worker in workers:
        worker.terminate()
    deadline = time.monotonic() + seconds
    for worker in workers:
        try:
            worker.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def how_it_ended(code: int, workers: int) -> str:
    """What there is to say of one of so many workers, which ended before its work did."""
    if code == -signal.SIGKILL:
        return "its process was killed, perhaps for want of memory" + (": use fewer --workers" if workers > 1 else "")
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}"


def behave_as_worker() -> None:
    """To be called first in a worker: interrupts are for the parent, and a warning is one line on standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to everybody; the parent decides
    warnings.showwarning = show_warning


@contextmanager
def orderly_termination() -> Iterator[None]:
    """SIGTERM becomes a `SystemExit`, so that workers are stopped and temporary files removed on the way out."""
    if threading.current_thread() is not threading.main_thread():  # only there are signals heard
        yield
        return
    before = signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave(number: int, _: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # a second one shall not interrupt the tidying up
    raise SystemExit(128 + number)
