"""All runs that are missing, one after the other in this process, or several at a time in others."""

import json
import os
import queue
import subprocess
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
from cofill.experiments.worker import problem_of
from cofill.processes import how_it_ended, start_worker, stop_workers


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
        except BrokenPipeError:  # nobody watches any more, which is no problem of the run
            raise
        except Exception as error:
            raise _of_run(run, problem_of(error)) from error
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
                raise _of_run(worker.run, how_it_ended(worker.process.wait(), workers))
            if "problem" in answer:
                raise _of_run(worker.run, answer["problem"])
            if "share" in answer:
                watch(Event(worker.run, answer["share"]))
                continue
            if answer["record"]["code"] != worker.run.code:
                raise _of_run(worker.run, "the code of cofill has changed since this command began")
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
        words = (str(data), str(threads), str(os.getpid()))
        self.process = start_worker("cofill.experiments.worker", *words, threads=threads, stdout=subprocess.PIPE)
        self._said = said
        self._fresh = True
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def begin(self, run: Run) -> None:
        self.run = run
        if not self._fresh:
            self.began = time.monotonic()
        self._fresh = False
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it is dead: that is what will be heard from it
            self.process.stdin.write(json.dumps(run.as_json()).encode() + b"\n")
            self.process.stdin.flush()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with suppress(ValueError):  # the line that it was writing when it died
            for line in self.process.stdout:
                self._said.put((self, json.loads(line)))
        self._said.put((self, None))

    def close(self) -> None:
        """After the end of its process."""
        self._thread.join()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


@contextmanager
def _team(
    count: int, data: Path, threads: int, said: "queue.Queue[tuple[_Worker, dict[str, Any] | None]]"
) -> Iterator[list[_Worker]]:
    team: list[_Worker] = []
    try:
        for _ in range(count):
            team.append(_Worker(data, threads, said))
        yield team
    finally:
        stop_workers(worker.process for worker in team)
        for worker in team:
            worker.close()
