"""A crew: worker processes that do tasks for this one. Experiments and searches share it.

The parent hands out tasks (`crew_for`) and receives their results. A worker is `python -m cofill.crew MODULE:NAME`:
the function of that name is called once with its `Duty` and its equipment, such as the data, and returns what does a
task. On the worker's standard input come a line of JSON about its duty, the equipment, and then a line of JSON for
every task; not as arguments, which everybody can see. On its standard output it answers in lines of JSON: a share of
the task that is done, a result or a problem.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from os import environ
from tempfile import TemporaryFile
from types import FrameType
from typing import IO, Any, NoReturn, Protocol

from cofill.errors import CofillError, show_warning
from cofill.interrupts import orderly_end

THREADS_OF_LIBRARIES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "POLARS_MAX_THREADS",
)
_SECONDS_TO_STOP = 5.0
_SECONDS_BETWEEN_LINES = 15.0


def cores() -> int:
    """The number of cores this process may use: fewer than the machine has in a container or under `taskset`."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# What the parent hears


@dataclass(frozen=True)
class Advanced:
    """A task was started (share 0) or made progress."""

    task: int  # its place among the tasks
    share: float


@dataclass(frozen=True)
class Done:
    """A task was finished, with a result; the seconds include the start of its process."""

    task: int
    result: Any
    seconds: float


@dataclass(frozen=True)
class Failed:
    """A task was not finished: something went wrong, or its process was killed."""

    task: int
    problem: str
    killed: bool


News = Advanced | Done | Failed


class CrewFor(Protocol):
    """What hires a crew: `crew_for` here, processes of this machine; `cofill.cluster` has one of a cluster's."""

    def __call__(
        self,
        tasks: Sequence[Any],
        function: str,
        *,
        workers: int,
        threads: int = 0,
        equipment: bytes = b"",
        muted: bool = False,
        look_every: float | None = None,
        seconds_to_stop: float = ...,
    ) -> AbstractContextManager[Iterator[News | None]]: ...


@contextmanager
def crew_for(
    tasks: Sequence[Any],
    function: str,
    *,
    workers: int,
    threads: int = 0,
    equipment: bytes = b"",
    muted: bool = False,
    look_every: float | None = None,
    seconds_to_stop: float = _SECONDS_TO_STOP,
) -> Iterator[Iterator[News | None]]:
    """Do the tasks, which are JSON, in processes that call `package.module:name`; yields events as they happen.

    Each worker has `threads` threads (0: one for each core), and takes the next task when it has finished one.
    A worker that dies is not replaced: its task is news of the kind `Failed`, and the others go on. What `muted`
    workers print is only shown where one dies. With `look_every`, None comes where there was no news for so many
    seconds. At the end of the block, however it ends, all are told to stop, and those that do not are killed.
    """
    said: queue.Queue[tuple[_Worker, dict[str, Any] | None]] = queue.Queue()
    team: list[_Worker] = []

    def news() -> Iterator[News | None]:
        waiting = deque(range(len(tasks)))
        duty = json.dumps({"parent": os.getpid(), "threads": threads, "equipment": len(equipment)}).encode() + b"\n"
        for _ in range(min(workers, len(tasks))):
            first = waiting.popleft()
            team.append(_Worker(function, threads, muted, said, first, (duty, equipment, _line(tasks[first]))))
            yield Advanced(first, 0.0)
        at_work = len(team)
        while at_work:
            try:
                worker, answer = said.get(timeout=look_every)
            except queue.Empty:
                yield None
                continue
            if answer is None:
                if worker.task is not None:
                    at_work -= 1
                    code = worker.process.wait()
                    yield Failed(worker.task, worker.last_words() or how_it_ended(code, workers), killed=code < 0)
                continue
            assert worker.task is not None
            if "share" in answer:
                yield Advanced(worker.task, answer["share"])
                continue
            finished, seconds = worker.task, time.monotonic() - worker.began
            worker.task = None
            if "problem" in answer:
                yield Failed(finished, answer["problem"], killed=False)
            else:
                yield Done(finished, answer["result"], seconds)
            if waiting:
                worker.begin(waiting[0], _line(tasks[waiting[0]]))
                yield Advanced(waiting.popleft(), 0.0)
            else:
                at_work -= 1
                worker.dismiss()
        for task in waiting:
            yield Failed(task, "no worker is left", killed=True)

    try:
        yield news()
    finally:
        stop_workers((worker.process for worker in team), seconds_to_stop)
        for worker in team:
            worker.close()


def _line(task: Any) -> bytes:
    return json.dumps(task).encode() + b"\n"


class _Worker:
    """A worker process, and the thread that sends it its equipment and reads its answers."""

    def __init__(
        self,
        function: str,
        threads: int,
        muted: bool,
        said: "queue.Queue[tuple[_Worker, dict[str, Any] | None]]",
        task: int,
        opening: tuple[bytes, ...],
    ) -> None:
        self.task: int | None = task
        self.began = time.monotonic()
        self._printed: IO[bytes] | None = None
        if muted and not environ.get("COFILL_TRACE"):
            self._printed = TemporaryFile()  # noqa: SIM115 (it is closed with the pipes)
        stderr = None if self._printed is None else self._printed.fileno()
        self.process = start_worker("cofill.crew", function, threads=threads, stdout=subprocess.PIPE, stderr=stderr)
        self._said = said
        self._thread = threading.Thread(target=self._attend, args=(opening,), daemon=True)
        self._thread.start()

    def begin(self, task: int, line: bytes) -> None:
        self.task, self.began = task, time.monotonic()
        self._write(line)

    def dismiss(self) -> None:
        """Tell the worker that there are no more tasks, so that it exits."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def last_words(self) -> str | None:
        """The last line that a worker with captured output printed, unless it was killed."""
        if self._printed is None or (self.process.returncode or 0) <= 0:
            return None
        self._printed.seek(0)
        lines = self._printed.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else None

    def close(self) -> None:
        """After the end of its process."""
        self._thread.join()
        for pipe in (self.process.stdin, self.process.stdout, self._printed):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()

    def _attend(self, opening: tuple[bytes, ...]) -> None:
        for part in opening:
            self._write(part)
        assert self.process.stdout is not None
        with suppress(ValueError):  # the line that it was writing when it died
            for line in self.process.stdout:
                self._said.put((self, json.loads(line)))
        self._said.put((self, None))

    def _write(self, part: bytes) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it is dead: that is what will be heard from it
            self.process.stdin.write(part)
            self.process.stdin.flush()


# What a worker does


class StoppedError(Exception):
    """The parent has exited, or has told this worker to stop."""


class Duty:
    """A worker's view of its parent: whether the result is still wanted, and where to report progress."""

    def __init__(self, parent: int, threads: int, answers: IO[str]) -> None:
        self.threads = threads  # 0: as many as there are cores
        self._parent = parent
        self._answers = answers
        self._told_to_stop = threading.Event()

    def wanted(self) -> bool:
        """Whether the result is still wanted: the parent is alive and has not told this worker to stop."""
        return not self._told_to_stop.is_set() and os.getppid() == self._parent

    def report(self, share: float) -> None:
        """Report the share of the task that is done; raises `StoppedError` if the result is no longer wanted."""
        if not self.wanted():
            raise StoppedError("its parent has gone")
        self.answer(share=share)

    def stop_between_steps(self) -> None:
        """From now on SIGTERM only makes `wanted` false, so that the task can end cleanly."""
        signal.signal(signal.SIGTERM, lambda *_: self._told_to_stop.set())

    def answer(self, **what: Any) -> None:
        self._answers.write(json.dumps(what) + "\n")
        self._answers.flush()


Begin = Callable[[Duty, bytes], Callable[[Any], Any]]
"""Called once in a worker, with its equipment; returns what does a task."""


def work(function: str) -> int:
    """The loop of a worker process: do tasks until there are no more, or the parent is gone."""
    behave_as_worker()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else prints shall not be taken for an answer
    tasks = sys.stdin.buffer
    try:
        opening = json.loads(tasks.readline())
    except ValueError:  # the parent has gone already
        return 1
    duty = Duty(opening["parent"], opening["threads"], answers)
    equipment: bytes | None = tasks.read(opening["equipment"])
    do: Callable[[Any], Any] | None = None
    for line in tasks:
        try:
            if do is None:
                module, _, name = function.partition(":")
                begin: Begin = getattr(import_module(module), name)
                do, equipment = begin(duty, equipment or b""), None
            result = do(json.loads(line))
            duty.answer(result=result)
        except (StoppedError, BrokenPipeError):
            return 0
        except Exception as error:
            if environ.get("COFILL_TRACE"):
                traceback.print_exc()
            with suppress(BrokenPipeError):
                duty.answer(problem=problem_of(error))
    return 0


def problem_of(error: BaseException) -> str:
    """An error as one line; with its type unless it is an error of cofill's own."""
    words = " ".join(str(error).split())
    return words if isinstance(error, CofillError) else f"{type(error).__name__}: {words}".removesuffix(": ")


def behave_as_worker() -> None:
    """Call first in a worker: ignore interrupts, which the parent handles, and print each warning on one line."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to everybody; the parent decides
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    warnings.showwarning = show_warning


# Processes


def start_worker(
    module: str, *words: str, threads: int = 0, stdout: int | None = None, stderr: int | None = None
) -> subprocess.Popen[bytes]:
    """Start `python -m module words...` with a pipe as standard input; `threads` 0: one for each core."""
    with interrupts_blocked():
        return subprocess.Popen(
            [sys.executable, "-m", module, *words],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=stderr,
            env=environ | (dict.fromkeys(THREADS_OF_LIBRARIES, str(threads)) if threads else {}),
        )


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """A process that is started in this block hears of no interrupt before it calls `behave_as_worker`."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stop_workers(workers: Iterable[subprocess.Popen[bytes]], seconds: float = _SECONDS_TO_STOP) -> None:
    """Tell all workers to stop, and kill those still running after so many seconds."""
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
    """The exit code of a worker that died early, in words; advises fewer workers if it was killed."""
    if code == -signal.SIGKILL:
        return "its process was killed, perhaps for want of memory" + (": use fewer workers" if workers > 1 else "")
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}"


@contextmanager
def orderly_termination() -> Iterator[None]:
    """Turn SIGTERM into `SystemExit`, so that workers are stopped and temporary files removed; as on an interrupt."""
    if threading.current_thread() is not threading.main_thread():  # only there are signals heard
        yield
        return
    before = signal.signal(signal.SIGTERM, _leave)
    try:
        with orderly_end():
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave(number: int, _: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # a second one shall not interrupt the tidying up
    raise SystemExit(128 + number)


# What a person sees


Show = Callable[[str, float, int, bool], None]
"""Called with how things stand in words, how many tasks are done, of how many, and whether a log has it at once."""


@contextmanager
def crew_progress(what: str, quiet: bool = False) -> Iterator[Show]:
    """Show the progress of all tasks on stderr: a live line on a terminal, occasional lines in a log."""
    if quiet:
        yield lambda told, done, total, now: None
        return
    if not sys.stderr.isatty():
        yield _LogLines(what)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn(f"[bold]{what}"), BarColumn(bar_width=20), TextColumn("{task.fields[told]}"))
    with Progress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task("", total=None, told="preparing")
        yield lambda told, done, total, now: bars.update(task, total=total, completed=done, told=told)


class _LogLines:
    def __init__(self, what: str) -> None:
        self._what, self._last = what, 0.0

    def __call__(self, told: str, done: float, total: int, now: bool) -> None:
        moment = time.monotonic()
        if not now and moment - self._last < _SECONDS_BETWEEN_LINES:
            return
        self._last = moment
        sys.stderr.write(f"{self._what}: {told}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    crew = import_module("cofill.crew")  # not this copy of it: its classes are compared

    sys.exit(crew.work(sys.argv[1]))
