"""Tasks done by other processes, of this machine or of a Ray cluster: `map_unordered`.

A task function is named `package.module:name`. It is called once in each process with a `Work` and what all share,
and returns what does one task. Here a task whose process dies is begun again in a new one, and named if that does not
help; on a cluster Ray does the same. Not `ProcessPoolExecutor`: it breaks as a whole when one process dies, cannot tell
at which task, and knows no progress.
"""

import os
import signal
import subprocess
import sys
import sysconfig
import threading
import time
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import islice
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, NoReturn
from uuid import uuid4

from cofill import __version__
from cofill.errors import ClusterError, CofillError, show_warning
from cofill.interrupts import orderly_end

_OUR_THREADS = "COFILL_THREADS"
THREADS_OF_LIBRARIES = (
    _OUR_THREADS,
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "POLARS_MAX_THREADS",
)
ATTEMPTS = 3
_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_TO_STOP = 1.5  # an interrupt ends everything within two
_HANDED_ON = ("COFILL_", "NUMBA_CACHE_DIR")  # variables for workers on other machines, by how they begin


def cores() -> int:
    """The number of cores this process may use: fewer than the machine has in a container, under `taskset`, or in a
    worker that has its number of threads.
    """
    if given := int(os.environ.get(_OUR_THREADS, 0)):
        return given
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# What the parent does


@dataclass(frozen=True)
class Outcome:
    """The end of a task: its result, or why there is none."""

    task: int  # its place among the tasks
    result: Any = None
    seconds: float = 0.0
    problem: str | None = None
    killed: bool = False
    """Its process was killed as often as the task was begun; else the task itself raised an error."""


Report = Callable[[int, float], None]
"""(task, share): a task was begun (0) or made progress."""


@contextmanager
def map_unordered(
    function: str,
    tasks: Iterable[Any],
    *,
    workers: int,
    threads: int = 1,
    shared: Any = b"",
    on_ray: bool = False,
    muted: bool = False,
    report: Report = lambda task, share: None,
    look: Callable[[], None] = lambda: None,
) -> Iterator[Iterator[Outcome]]:
    """Do the tasks in so many processes at once; the outcomes come as they happen. See the module for the function.

    A task is taken when a process is free for it: together they may be as large as the data. Each process has `threads`
    threads, 0: one for each core. `look` is called about twice a second. What `muted` processes print is not shown.
    With `on_ray` the processes are of the Ray cluster to which this one is connected (`cofill.cluster.session`), which
    tells of the begin and the end of a task only.

    At the end of the block, however it ends, all processes are stopped, and those that do not stop are killed.
    """
    outcomes = (_on_ray if on_ray else _here)(
        enumerate(tasks), _Job(function, workers, threads, shared, muted, report, look)
    )
    try:
        yield outcomes
    finally:
        outcomes.close()


class _Job(NamedTuple):
    """What `map_unordered` is given, apart from the tasks."""

    function: str
    workers: int
    threads: int
    shared: Any
    muted: bool
    report: Report
    look: Callable[[], None]


def _here(tasks: Iterator[tuple[int, Any]], job: _Job) -> Generator[Outcome, None, None]:
    again, begun = deque[tuple[int, Any]](), Counter[int]()  # tasks whose process was killed; how often each was begun
    pool: dict[Connection, _Process] = {}

    def begin(process: _Process | None = None) -> bool:
        """Give the next task to a process, or to a new one; False if there is none."""
        following = again.popleft() if again else next(tasks, None)
        if following is None:
            return False
        process = process or _Process(job)
        pool[process.pipe] = process
        process.begin(*following)
        begun[process.task] += 1
        job.report(process.task, 0.0)
        return True

    try:
        while len(pool) < job.workers and begin():
            pass
        while pool:
            ready = wait(list(pool), _SECONDS_BETWEEN_LOOKS)
            job.look()
            for pipe in ready:
                assert isinstance(pipe, Connection)
                process = pool[pipe]
                try:
                    what, value = pipe.recv()
                except (EOFError, ConnectionError):
                    code = pool.pop(pipe).end()
                    if code < 0 and begun[process.task] < ATTEMPTS:
                        again.append((process.task, process.content))
                    else:
                        yield Outcome(process.task, problem=how_it_ended(code, job.workers), killed=code < 0)
                    begin()
                    continue
                if what == "share":
                    job.report(process.task, value)
                    continue
                yield _outcome(process.task, what, value, process.began)
                if not begin(process):
                    pool.pop(pipe).end()
    finally:
        stop_workers(process.process for process in pool.values())
        for process in pool.values():
            process.pipe.close()


def _outcome(task: int, what: str, value: Any, began: float) -> Outcome:
    seconds = time.monotonic() - began
    return Outcome(task, value, seconds) if what == "result" else Outcome(task, seconds=seconds, problem=value)


class _Process:
    """A process that does one task after the other, and a pipe to it."""

    def __init__(self, job: _Job) -> None:
        self.pipe, theirs = Pipe()
        words = [sys.executable, "-m", "cofill.workers", str(theirs.fileno()), job.function, str(job.threads)]
        with interrupts_blocked():
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL if job.muted and not os.environ.get("COFILL_TRACE") else None,
                pass_fds=[theirs.fileno()],
                env=os.environ | thread_limits(job.threads),
            )
        theirs.close()
        self._send(job.shared)

    def begin(self, task: int, content: Any) -> None:
        self.task, self.content, self.began = task, content, time.monotonic()
        self._send(content)

    def end(self) -> int:
        """Its exit code; a process whose pipe is closed ends by itself."""
        self.pipe.close()
        return self.process.wait()

    def _send(self, content: Any) -> None:
        with suppress(ConnectionError):  # it is dead: that is heard when it is asked for an answer
            self.pipe.send(content)


def thread_limits(threads: int) -> dict[str, str]:
    """Variables that give a process so many threads of each library; 0: as many as there are cores."""
    return dict.fromkeys(THREADS_OF_LIBRARIES, str(threads)) if threads else {}


# What a worker does


class StoppedError(Exception):
    """The parent has exited, or has told this worker to stop."""


class Work:
    """A worker's view of its parent: whether the result is still wanted, and where to report progress."""

    def __init__(self, threads: int, told: Connection | None = None) -> None:
        self.threads = threads  # 0: as many as there are cores
        self._told = told
        self._stopped = threading.Event()
        self._parent = os.getppid()

    def wanted(self) -> bool:
        """Whether the result is still wanted: the parent is alive and has not told this worker to stop."""
        return not self._stopped.is_set() and os.getppid() == self._parent

    def report(self, share: float) -> None:
        """Report the share of the task that is done; raises `StoppedError` if the result is no longer wanted."""
        if not self.wanted():
            raise StoppedError("its parent has gone")
        if self._told is not None:
            self._told.send(("share", share))

    def stop_between_steps(self) -> None:
        """From now on being told to stop only makes `wanted` false, so that the task can end cleanly."""
        for number in (signal.SIGTERM, signal.SIGINT):  # of which Ray sends the latter
            with suppress(ValueError):  # not in the main thread
                signal.signal(number, lambda *_: self._stopped.set())


Begin = Callable[[Work, Any], Callable[[Any], Any]]
"""Called once in a worker, with what all tasks share; returns what does a task."""


def _work(pipe: Connection, function: str, threads: int) -> None:
    """The loop of a process: do tasks until there are no more, or the parent is gone."""
    behave_as_worker()
    os.dup2(2, 1)  # standard output is for the results of the command
    do: Callable[[Any], Any] | None = None
    with suppress(EOFError, ConnectionError, StoppedError):
        shared = pipe.recv()
        while True:
            task = pipe.recv()
            try:
                if do is None:
                    do, shared = _begun(function)(Work(threads, pipe), shared), None
                answer = ("result", do(task))
            except (StoppedError, ConnectionError):
                raise
            except Exception as error:
                if os.environ.get("COFILL_TRACE"):
                    traceback.print_exc()
                answer = ("problem", problem_of(error))
            pipe.send(answer)


def _begun(function: str) -> Begin:
    module, _, name = function.partition(":")
    begin: Begin = getattr(import_module(module), name)
    return begin


def problem_of(error: BaseException) -> str:
    """An error as one line; with its type unless it is an error of cofill's own."""
    words = " ".join(str(error).split())
    return words if isinstance(error, CofillError) else f"{type(error).__name__}: {words}".removesuffix(": ")


def behave_as_worker() -> None:
    """Call first in a worker: ignore interrupts, which the parent handles, and print each warning on one line."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the parent decides
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    warnings.showwarning = show_warning


# On a cluster


def _on_ray(tasks: Iterator[tuple[int, Any]], job: _Job) -> Generator[Outcome, None, None]:
    ray: Any = import_module("ray")
    greatest = max((int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]), default=0)
    each = job.threads or greatest
    if each > greatest:
        raise ClusterError(
            f"a task takes {each} cores, and the greatest machine of the cluster has {greatest}; ask for fewer"
        )
    # A name of its own, so that no process is used again that did other tasks before: its memory is measured.
    variables = ray_environment(each) | {"COFILL_TASKS": uuid4().hex}
    remote: Any = ray.remote(_do_on_ray).options(
        num_cpus=each, max_retries=ATTEMPTS - 1, runtime_env={"env_vars": variables}
    )
    about = [ray.put(job.shared)]  # in a list: it is fetched once by each process, and not for every task
    running = dict[Any, tuple[int, float]]()
    try:
        while True:
            for task, content in islice(tasks, job.workers - len(running)):
                answer = remote.remote(__version__, job.function, job.threads, about, content)
                running[answer] = task, time.monotonic()
                job.report(task, 0.0)
            if not running:
                break
            ready, _ = ray.wait(list(running), timeout=_SECONDS_BETWEEN_LOOKS)
            job.look()
            for answer in ready:
                task, began = running.pop(answer)
                try:
                    what, value = ray.get(answer)
                except ray.exceptions.RayError as error:
                    yield Outcome(task, problem=how_ray_lost_it(error), killed=True)
                    continue
                if what == "version":
                    raise ClusterError(
                        f"a machine of the cluster has cofill {value}, and this one {__version__}; "
                        "install the same on all"
                    )
                yield _outcome(task, what, value, began)
    finally:
        with suppress(Exception):  # a cluster that is gone has stopped them
            for answer in running:
                ray.cancel(answer)
            _, stubborn = ray.wait(list(running), num_returns=len(running), timeout=_SECONDS_TO_STOP)
            for answer in stubborn:
                ray.cancel(answer, force=True)


def _do_on_ray(version: str, function: str, threads: int, about: list[Any], task: Any) -> tuple[str, Any]:
    if version != __version__:
        return "version", __version__
    try:
        return "result", _begun_on_ray(function, threads, about[0])(task)
    except Exception as error:
        return "problem", problem_of(error)


@lru_cache(maxsize=1)
def _begun_on_ray(function: str, threads: int, about: Any) -> Callable[[Any], Any]:
    import ray

    return _begun(function)(Work(threads), ray.get(about))


def ray_environment(threads: int) -> dict[str, str]:
    """For a worker of a cluster: so many threads of each library, and what is importable here is so there, too."""
    handed = {name: value for name, value in os.environ.items() if name.startswith(_HANDED_ON)}
    installed = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    own = (str(Path(entry or ".").resolve()) for entry in sys.path)
    folders = dict.fromkeys(entry for entry in own if Path(entry).is_dir() and not entry.startswith(installed))
    # Folders that another machine lacks do no harm; Ray puts in what the machine has.
    return handed | thread_limits(threads) | {"PYTHONPATH": os.pathsep.join((*folders, "${PYTHONPATH}"))}


def how_ray_lost_it(error: Exception) -> str:
    """How a worker of a cluster died, in words; ClusterError if the machine cannot run cofill at all."""
    said = " ".join(str(error).split())
    if "No module named" in said:  # it will not be there the next time either
        missing = said[said.index("No module named") :][:60]
        raise ClusterError(
            f"a machine of the cluster lacks what cofill needs ({missing}); pip install 'cofill[cluster]' there"
        ) from error
    if type(error).__name__ == "OutOfMemoryError" or "running low on memory" in said:
        return "it was ended by Ray for want of memory"
    if "node has died" in said or "node failed" in said or "node was terminated" in said.lower():
        return "its machine is gone"
    if "connection error code 2" in said or "SIGKILL" in said or "WorkerCrashed" in type(error).__name__:
        return "its process was killed, perhaps for want of memory"
    return said[:200]


# Processes


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


if __name__ == "__main__":
    workers = import_module("cofill.workers")  # not this copy of it: its classes are compared
    workers._work(Connection(int(sys.argv[1])), sys.argv[2], int(sys.argv[3]))
