"""A crew on a Ray cluster: the workers of `cofill.crew`, which are actors on any of its machines instead of processes.

They call the same functions and tell the same news. A worker that dies, or from whom nothing is heard for minutes, is
replaced, and its task is done again by another, a few times at most.
"""

import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

from cofill import __version__
from cofill.cluster.ray_session import INSTALL, machines_of, ray_session, require_ray
from cofill.crew import (
    THREADS_OF_LIBRARIES,
    Advanced,
    Begin,
    CrewFor,
    Done,
    Duty,
    Failed,
    News,
    StoppedError,
    cores,
    crew_for,
    problem_of,
)
from cofill.errors import ClusterError

ATTEMPTS = 2
_SECONDS_OF_A_POLL = 1.0
_LONGEST_SILENCE = 300.0  # seconds; as of the workers of a search
_LONGEST_WAIT = 600.0  # seconds for the first worker to find a place
_SECONDS_BEFORE_A_WORD = 15.0
_SECONDS_TO_STOP = 5.0

Say = Callable[[str], None]


class Workplace(NamedTuple):
    """Where a crew works."""

    crew_for: CrewFor
    machines: list[int]
    """The cores of each, most first."""

    @property
    def cores(self) -> int:
        return sum(self.machines)


# Room for what all workers of a Ray of our own are sent, such as the data of a search.
_STORE_BYTES = 1 << 30


@contextmanager
def workplace(
    address: str | None, *, attempts: int = ATTEMPTS, say: Say | None = None, silence: float = _LONGEST_SILENCE
) -> Iterator[Workplace]:
    """This machine, or the Ray cluster at an address.

    There, a task whose worker dies is begun `attempts` times at most, `say` is told of that, and `silence` is after
    how many seconds a worker counts as dead of whom nothing is heard.
    """
    if address is None:
        yield Workplace(crew_for, [cores()])
        return
    with ray_session(address, cpus=cores(), store_bytes=_STORE_BYTES) as session:
        machines = [machine.cpus for machine in session.machines()]
        if not machines:
            raise ClusterError(f"the cluster {address}: no machine of the cluster offers a core; start one that does")
        hire = partial(ray_crew_for, attempts=attempts, say=say or _unsaid, silence=silence)
        yield Workplace(hire, machines)


def _unsaid(word: str) -> None:
    """Nobody listens."""


# What a worker does


class _DutyOnRay(Duty):
    """Like that of a process; being told to stop comes by a call instead of a signal."""

    def __init__(self, threads: int, answers: "queue.Queue[dict[str, Any]]") -> None:
        self.threads = threads
        self.in_steps = False
        self._queue = answers
        self._told_to_stop = threading.Event()

    def wanted(self) -> bool:
        return not self._told_to_stop.is_set()  # whose driver is gone is ended by Ray

    def stop_between_steps(self) -> None:
        self.in_steps = True

    def stop(self) -> None:
        self._told_to_stop.set()

    def answer(self, **what: Any) -> None:
        self._queue.put(what)


class Member:
    """The actor: does one task at a time, in a thread of its own, so that it can always be asked how far it is."""

    def __init__(self, function: str, threads: int, equipment: bytes) -> None:
        self._function, self._equipment = function, equipment
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self._duty = _DutyOnRay(threads, self._answers)
        self._do: Callable[[Any], Any] | None = None
        self._thread: threading.Thread | None = None

    def version(self) -> str:
        """Of cofill here; it answers as soon as it has found its place."""
        return __version__

    def begin(self, task: Any) -> list[dict[str, Any]]:
        """Begin a task, of which there are no news yet."""
        self._thread = threading.Thread(target=self._work, args=(task,), daemon=True)
        self._thread.start()
        return []

    def news(self, seconds: float) -> list[dict[str, Any]]:
        """What there is to tell; waits for it so long."""
        found: list[dict[str, Any]] = []
        with suppress(queue.Empty):
            found.append(self._answers.get(timeout=seconds))
            while True:
                found.append(self._answers.get_nowait())
        # Of many shares of the task that were done the last one is enough.
        return [one for at, one in enumerate(found) if "share" not in one or at == len(found) - 1]

    def stop(self, seconds: float) -> None:
        """Stop; where the task asks for it, at its next step."""
        self._duty.stop()
        if self._thread is not None and self._duty.in_steps:
            self._thread.join(seconds)

    def _work(self, task: Any) -> None:
        try:
            if self._do is None:
                module, _, name = self._function.partition(":")
                begin: Begin = getattr(import_module(module), name)
                self._do, self._equipment = begin(self._duty, self._equipment), b""
            self._duty.answer(result=self._do(task))
        except StoppedError:
            return
        except BaseException as error:  # such as a panic of polars: a thread that ends without a word is never missed
            self._duty.answer(problem=problem_of(error))


# What the driver does


class _Hired:
    """An actor, its task, and the call whose answer is awaited."""

    def __init__(self, actor: Any, task: int) -> None:
        self.actor, self.task = actor, task
        self.placed = False
        self.began = self.asked = time.monotonic()
        self.call = actor.version.remote()

    def begin(self, task: int, content: Any) -> None:
        self.task, self.began = task, time.monotonic()
        self.call = self.actor.begin.remote(content)
        self.asked = self.began

    def ask(self) -> None:
        self.call = self.actor.news.remote(_SECONDS_OF_A_POLL)
        self.asked = time.monotonic()


@contextmanager
def ray_crew_for(
    tasks: Sequence[Any],
    function: str,
    *,
    workers: int,
    threads: int = 0,
    equipment: bytes = b"",
    muted: bool = False,
    look_every: float | None = None,
    seconds_to_stop: float = _SECONDS_TO_STOP,
    attempts: int = ATTEMPTS,
    say: Say = _unsaid,
    silence: float = _LONGEST_SILENCE,
) -> Iterator[Iterator[News | None]]:
    """`crew_for` on the cluster that this process is connected to; the tasks may be all that Ray can transport.

    `threads` are also the cores that a worker takes of its machine; 0: a whole one, as great as the greatest. What
    workers print goes to Ray's log, `muted` or not. The next task is asked of `tasks` when a worker is free.
    """
    team: list[_Hired] = []
    hiring = _Hiring(function, threads, equipment, len(tasks))
    try:
        yield _news(tasks, team, hiring, workers, look_every, attempts, say, silence)
    finally:
        _dismiss(team, seconds_to_stop)


class _Hiring:
    """Makes actors, with the cores and the equipment of this crew."""

    def __init__(self, function: str, threads: int, equipment: bytes, tasks: int) -> None:
        self._ray = require_ray()
        self._function, self._threads = function, threads
        greatest = machines_of(self._ray)[0].cpus
        self.cores = threads or greatest
        if self.cores > greatest:
            raise ClusterError(
                f"a worker takes {threads} cores, and the greatest machine of the cluster has {greatest}; ask for fewer"
            )
        self._equipment = self._ray.put(equipment) if tasks else None  # once, for all workers
        self._variables = dict.fromkeys(THREADS_OF_LIBRARIES, str(self.cores))

    def __call__(self, task: int) -> _Hired:
        made = self._ray.remote(Member).options(
            num_cpus=self.cores,
            max_concurrency=3,  # to begin, to tell news, and to stop
            max_restarts=0,
            runtime_env={"env_vars": self._variables},
        )
        return _Hired(made.remote(self._function, self._threads, self._equipment), task)


def _news(
    tasks: Sequence[Any],
    team: list[_Hired],
    hire: _Hiring,
    workers: int,
    look_every: float | None,
    attempts: int,
    say: Say,
    silence: float,
) -> Iterator[News | None]:
    ray = require_ray()
    waiting = deque(range(len(tasks)))
    begun: Counter[int] = Counter()
    patience = _Patience(hire.cores, say)
    last_look = time.monotonic()
    while waiting or team:
        while waiting and len(team) < workers:
            task = waiting.popleft()
            begun[task] += 1
            team.append(hire(task))
            yield Advanced(task, 0.0)
        pause = _SECONDS_OF_A_POLL if look_every is None else min(look_every, _SECONDS_OF_A_POLL)
        ready, _ = ray.wait([one.call for one in team], num_returns=1, timeout=pause)
        patience.check(team)
        silent = [one for one in team if one.placed and time.monotonic() - one.asked > silence]
        told = False
        for one in [one for one in team if one.call in ready or one in silent]:
            answers, problem = ([], f"nothing was heard of it for {silence:g} s") if one in silent else _heard(ray, one)
            if problem is not None:
                team.remove(one)
                _kill(ray, one)
                told = True
                if begun[one.task] < attempts:
                    say(f"a worker died ({problem}); its task is begun again")
                    waiting.appendleft(one.task)
                else:
                    times = f", {attempts} times" if attempts > 1 else ""
                    yield Failed(one.task, problem + times, killed=True)
                continue
            if not one.placed:
                one.placed = True
                one.begin(one.task, tasks[one.task])
                continue
            finished = False
            for answer in answers:
                told = True
                if "share" in answer:
                    yield Advanced(one.task, answer["share"])
                    continue
                finished = True
                if "problem" in answer:
                    yield Failed(one.task, answer["problem"], killed=False)
                else:
                    yield Done(one.task, answer["result"], time.monotonic() - one.began)
            if not finished:
                one.ask()
            elif waiting:
                task = waiting.popleft()
                begun[task] += 1
                one.begin(task, tasks[task])
                yield Advanced(task, 0.0)
            else:
                team.remove(one)
                _kill(ray, one)
        if look_every is not None and not told and time.monotonic() - last_look >= look_every:
            last_look = time.monotonic()
            yield None


def _heard(ray: Any, one: _Hired) -> tuple[list[dict[str, Any]], str | None]:
    """What a worker answered, or how it died."""
    try:
        answer = ray.get(one.call, timeout=_LONGEST_SILENCE)
    except ray.exceptions.RayActorError as error:
        return [], _how_it_died(error)
    except ray.exceptions.RayError as error:
        raise ClusterError(f"Ray cannot run a worker: {_one_line(error)}; see Ray's log on its machine") from error
    if isinstance(answer, str):
        if answer != __version__:
            raise ClusterError(
                f"a machine of the cluster has cofill {answer}, and this one {__version__}; install the same on all"
            )
        return [], None
    return answer, None


def _how_it_died(error: Exception) -> str:
    words = str(error)
    if "No module named" in words or "ModuleNotFoundError" in words:
        missing = next((line.strip() for line in words.splitlines() if "No module named" in line), _one_line(error))
        raise ClusterError(f"a machine of the cluster lacks what cofill needs ({missing}); {INSTALL} there") from error
    if "out of memory" in words.lower() and "OOM killer due to high memory usage" not in words:
        return "its process was killed for want of memory: use fewer workers or more cores each"
    if "node" in words.lower() and "died" in words.lower() and "worker process has died" not in words:
        return "its machine is gone"
    return "its process was killed, perhaps for want of memory"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


class _Patience:
    """Waits for workers to find a place on some machine, says so, and does not wait for ever."""

    def __init__(self, cores: int, say: Say) -> None:
        self._cores, self._say = cores, say
        self._since = time.monotonic()
        self._said = False

    def check(self, team: Sequence[_Hired]) -> None:
        waited = time.monotonic() - self._since
        if not team or any(one.placed for one in team):
            self._since, self._said = time.monotonic(), False
            return
        what = f"a machine of the cluster with {self._cores} free core{'s' if self._cores > 1 else ''}"
        if waited > _LONGEST_WAIT:
            raise ClusterError(f"waited {waited:.0f} s for {what}; end other work there, or add a machine")
        if waited > _SECONDS_BEFORE_A_WORD and not self._said:
            self._said = True
            self._say(f"waiting for {what}")


def _kill(ray: Any, one: _Hired) -> None:
    with suppress(Exception):  # it is dead already, and that is what is wanted
        ray.kill(one.actor)


def _dismiss(team: list[_Hired], seconds: float) -> None:
    """Stop all who are at work: in order, as long as there is time for it."""
    if not team:
        return
    ray = require_ray()
    with suppress(Exception):
        calls = [one.actor.stop.remote(seconds) for one in team if one.placed]
        if calls:
            ray.wait(calls, num_returns=len(calls), timeout=seconds)
    for one in team:
        _kill(ray, one)
    team.clear()
