"""Processes of `cofill` that need not import everything first, for tests of what a process does once it runs.

Each is a fork of one process that has imported what takes long, and nothing that starts a thread: a fork would lose it.
So polars, and what imports it, come later. A test of how a process starts takes `python -m cofill.cli` instead.
"""

import atexit
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import forkserver, get_context
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any, BinaryIO

_SLOW = [
    "cofill.cli", "cofill.models.cfn.kernels", "cofill.client.messages", "fastapi", "fastapi.openapi.utils",
    "numba", "prometheus_client", "psycopg", "rich.progress", "rich.table", "scipy.linalg", "scipy.optimize",
    "scipy.sparse", "sqlalchemy.dialects.postgresql.psycopg", "sqlalchemy.dialects.sqlite.pysqlite", "torch", "uvicorn",
    "uvicorn.loops.auto", "uvicorn.protocols.http.auto",
]  # fmt: skip
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # read when the libraries are loaded

_context = get_context("forkserver")
_context.set_forkserver_preload(_SLOW)


class WarmProcess:
    """One command of `cofill`, used as a `subprocess.Popen` is. Nothing comes in over standard input.

    What it prints goes to files that are open, or is told by `communicate` when it has ended.
    """

    def __init__(
        self,
        words: list[str],
        *,
        stdout: int | None = None,
        stderr: int | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        start_new_session: bool = False,
    ) -> None:
        _ensure_running()
        self._printed = [os.memfd_create(name) for name in ("stdout", "stderr")]
        for own in self._printed:
            weakref.finalize(self, os.close, own)
        variables = dict(os.environ if env is None else env)
        told = _Told(words, variables, str(cwd or Path.cwd()), start_new_session)
        to = [
            DupFd(own if given is None else given) for given, own in zip((stdout, stderr), self._printed, strict=True)
        ]
        self._process: BaseProcess = _context.Process(target=_run, args=(told, *to), daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid
        self.stdout: BinaryIO | None = None

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired("cofill", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it printed to standard output and to standard error, at its end; nothing of what went elsewhere."""
        self.wait(timeout)
        return self.printed()

    def printed(self) -> tuple[str, str]:
        """The same, as far as it has come."""
        out, err = (Path(f"/proc/self/fd/{own}").read_text() for own in self._printed)
        return out, err


def with_output_to_pipe(words: list[str], *, stderr: int, env: Mapping[str, str] | None = None) -> WarmProcess:
    """What it prints is read from its `stdout`."""
    reading, writing = os.pipe()
    try:
        process = WarmProcess(words, stdout=writing, stderr=stderr, env=env)
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    process.stdout = os.fdopen(reading, "rb")
    return process


def run_warm(
    words: list[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Let a command run to its end, as `subprocess.run` with `capture_output` and `text` does."""
    process = WarmProcess(words, env=env, cwd=cwd)
    try:
        out, err = process.communicate(timeout)
    finally:
        process.kill()
    return subprocess.CompletedProcess(words, process.wait(), out, err)


def _ensure_running() -> None:
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)
    try:
        forkserver.ensure_running()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@dataclass(frozen=True)
class _Told:
    """What the fork is told."""

    words: list[str]
    variables: dict[str, str]
    folder: str
    new_session: bool


def _run(told: _Told, stdout: Any, stderr: Any) -> None:
    """In the fork: become the command."""
    threads = len(os.listdir(f"/proc/{os.getppid()}/task"))  # noqa: PTH208
    assert threads == 1, "a fork of a process with threads may hang"
    for number, passed in ((1, stdout), (2, stderr)):
        given = passed.detach()
        os.dup2(given, number)
        os.close(given)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(told.variables)
    for place in reversed(os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        if place and place not in sys.path:
            sys.path.insert(0, place)
    os.chdir(told.folder)
    if told.new_session:
        os.setsid()
    sys.argv = ["cofill", *told.words]
    from cofill.cli import main

    try:
        main()
    finally:
        with suppress(Exception):
            atexit._run_exitfuncs()
