"""All runs that are missing, one after the other in this process, or several at a time in others."""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cofill.cores import cores
from cofill.errors import CofillError
from cofill.experiments.data import ExperimentData
from cofill.experiments.run import Run
from cofill.experiments.store import Record, Store

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS")
_SECONDS_TO_STOP = 5.0


@dataclass(frozen=True)
class Event:
    """A run went on (`share`), or is finished (`record`)."""

    run: Run
    share: float
    record: Record | None = None


Watch = Callable[[Event], None]


def finish(runs: Sequence[Run], data: ExperimentData, store: Store, *, workers: int, watch: Watch) -> None:
    """Do them all, and keep each as soon as it is done.

    One worker is this process, with all cores. Several are processes that share the cores out. Costs are measured
    one by one, each in a new process, so that its memory is its own.
    """
    alone = [run for run in runs if run.task == "cost"]
    others = [run for run in runs if run.task != "cost"]
    if others and workers == 1:
        _finish_here(others, data, store, watch)
    if not alone and (not others or workers == 1):
        return
    with TemporaryDirectory(prefix="cofill-experiment-") as folder:
        path = Path(folder) / "data.safetensors"
        data.write(path)
        if others and workers > 1:
            _finish_elsewhere(others, path, store, watch, min(workers, len(others)), max(1, cores() // workers))
        for run in alone:
            _finish_elsewhere([run], path, store, watch, 1, 0)


def _finish_here(runs: Sequence[Run], data: ExperimentData, store: Store, watch: Watch) -> None:
    from cofill.experiments.measuring import perform

    for run in runs:
        watch(Event(run, 0.0))
        try:
            record = perform(run, data, threads=0, report=partial(_went_on, watch, run))
        except CofillError as error:
            raise _of_run(run, str(error)) from error
        store.keep(run, record)
        watch(Event(run, 1.0, record))


def _went_on(watch: Watch, run: Run, share: float) -> None:
    watch(Event(run, share))


def _finish_elsewhere(runs: Sequence[Run], data: Path, store: Store, watch: Watch, workers: int, threads: int) -> None:
    waiting = list(reversed(runs))
    said: queue.Queue[tuple[_Worker, dict[str, Any] | None]] = queue.Queue()
    with _team(workers, data, threads, said) as team:
        for worker in team:
            worker.begin(waiting.pop())
            watch(Event(worker.run, 0.0))
        busy = len(team)
        while busy:
            worker, answer = said.get()
            if answer is None:
                raise _of_run(worker.run, "its process ended without an answer, perhaps for want of memory")
            if "problem" in answer:
                raise _of_run(worker.run, answer["problem"])
            if "share" in answer:
                watch(Event(worker.run, answer["share"]))
                continue
            record = answer["record"] | {"seconds": time.monotonic() - worker.began}  # with the start of its process
            store.keep(worker.run, record)
            watch(Event(worker.run, 1.0, record))
            if waiting:
                worker.begin(waiting.pop())
                watch(Event(worker.run, 0.0))
            else:
                busy -= 1


def _of_run(run: Run, problem: str) -> CofillError:
    return CofillError(f"{run.label}: {problem}; what is finished is kept, and the same command goes on")


class _Worker:
    """A process, and the thread that hears what it has to say."""

    run: Run
    began: float

    def __init__(self, data: Path, threads: int, said: "queue.Queue[tuple[_Worker, dict[str, Any] | None]]") -> None:
        self.began = time.monotonic()
        limits = dict.fromkeys(_THREADS, str(threads)) if threads else {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "cofill.experiments.worker", str(data), str(threads), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | limits,
            text=True,
            encoding="utf-8",
        )
        self._said = said
        self._fresh = True
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def begin(self, run: Run) -> None:
        self.run = run
        if not self._fresh:
            self.began = time.monotonic()
        self._fresh = False
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it is dead: that is what will be heard from it
            self._process.stdin.write(json.dumps(run.as_json()) + "\n")
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put((self, json.loads(line)))
        self._said.put((self, None))

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


@contextmanager
def _team(
    count: int, data: Path, threads: int, said: "queue.Queue[tuple[_Worker, dict[str, Any] | None]]"
) -> Iterator[list[_Worker]]:
    team = [_Worker(data, threads, said) for _ in range(count)]
    try:
        yield team
    finally:
        for worker in team:
            worker.stop()
