"""Servers that start in a second, for tests that start many: each is a fork of a process that has imported the rest.

python -m tests.serving.quick_starts    reads the words after `cofill serve`, as JSON, a line for each server
"""

import json
import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

# The slow imports of a server; not polars, nor what imports it, because it starts threads, which a fork would lose.
_SLOW = ("numpy", "scipy.sparse", "torch", "numba", "pydantic", "fastapi", "sqlalchemy", "uvicorn", "prometheus_client")


class QuickStarts:
    """The process that forks. One server at a time: the next one starts when the one before was killed."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / f"quick-{os.getpid()}.log"
        self._child: int | None = None

    def __enter__(self) -> Self:
        with self._log.open("wb") as errors:
            self._parent = subprocess.Popen(
                [sys.executable, "-m", "tests.serving.quick_starts"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._child is not None:
            self.kill()
        self._parent.communicate()

    def start(self, model: Path, *options: str) -> str:
        """The address of a server that is ready."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(json.dumps([str(model), "--port", "0", "--json", *options]).encode() + b"\n")
        self._parent.stdin.flush()
        self._child = int(self._parent.stdout.readline())
        lines = b""
        while not lines.rstrip().endswith(b"}"):
            line = self._parent.stdout.readline()
            assert line, self.errors()
            lines += line
        told: dict[str, Any] = json.loads(lines)
        return str(told["address"])

    def kill(self) -> None:
        """At once, in the middle of whatever it does."""
        assert self._child is not None
        os.kill(self._child, signal.SIGKILL)
        self._child = None

    def errors(self) -> str:
        return self._log.read_text()


def main() -> None:
    for name in _SLOW:
        import_module(name)
    assert len(os.listdir("/proc/self/task")) == 1, "a fork of a process with threads may hang"  # noqa: PTH208
    for line in sys.stdin:
        child = os.fork()
        if not child:
            sys.stdout.write(f"{os.getpid()}\n")
            sys.stdout.flush()
            from cofill.cli import main as cofill

            os._exit(cofill(["serve", *json.loads(line)]))
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
