"""A team of workers on Ray that runs one program together, and starts anew when one of them fails.

    run_team -> ray_session     connect, or start a Ray of our own
             -> reserve         places for the workers, on as many machines as there are
             -> Worker          one actor a place, with an exchange to the others: program(exchange, arguments, tell)
             -> watch           news, results, deaths; on a failure the whole team goes, and the next one goes on

The program keeps checkpoints and finds the last one by itself. An error of cofill's own, such as a broken file, would
come again: it ends the run. Everything else may be a machine's fault and does not, as long as the work gets further.
"""

import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

from cofill import __version__
from cofill.cluster.gloo import LOOPBACK
from cofill.cluster.placement import Place, release, reserve
from cofill.cluster.ray_session import INSTALL, RaySession, ray_session
from cofill.cluster.transported import Told, heard_error, heard_step, show_again
from cofill.cluster.worker import Duty, Worker
from cofill.errors import ClusterError, CofillError, Remedy
from cofill.progress import Progress, Step, unseen
from cofill.workers import orderly_termination

_LISTEN_EVERY = 0.25  # seconds between two questions to worker 0, who tells of progress
_ASK_EVERY = 2.0  # and between those to the others, who are only asked whether they live
_SECONDS_TO_START = 180.0  # of an actor, on a machine that may be busy
_SECONDS_OF_LAST_NEWS = 5.0
_SECONDS_OF_GRACE = 2.0  # in which others may tell a better reason for the same failure


Hear = Callable[[list[Told]], None]


@dataclass(frozen=True)
class Patience:
    """How long a team waits, in seconds."""

    exchange: float = 3600.0
    """Of a worker for the others in an exchange: one may have more to compute before it."""
    answer: float = 60.0
    """Of the driver for a worker to say that it lives, and for an exchange that all workers wait in: then none has
    anything to compute, and they cannot reach each other although the driver reaches them."""
    resources: float = 300.0
    """For places on the cluster, before the run is given up."""
    machine: float = 60.0
    """For another machine in place of one that vanished, before going on with those that are left."""


def run_team(
    program: str,
    arguments: Mapping[str, Any],
    *,
    workers: int,
    address: str | None,
    threads: int = 0,
    progress: Progress = unseen,
    restarts: int = 5,
    exchange_seconds: float = 3600.0,
    answer_seconds: float = 60.0,
    resource_seconds: float = 300.0,
    machine_seconds: float = 60.0,
) -> list[Any]:
    """Run `package.module:function` in so many workers at once; returns what each returned, by rank.

    The function is called as function(exchange, arguments, tell) and returns JSON; `tell` takes steps of progress, of
    which those of worker 0 reach `progress`. To the arguments, which are JSON too, are added "attempt", from 1,
    "resume", which is True from the second attempt on if it was not before, and "threads".

    `address` is that of a Ray cluster (host:port, "auto", ray://host:port); None starts a Ray on this machine. Each
    worker has `threads` threads, 0: all cores of its machine, divided among the workers there.

    After a failure (a killed process, a machine or network that is gone) a new team starts. It is given up after
    `restarts` restarts without getting further than before, with a `ClusterError`.
    """
    if workers < 1:
        raise ClusterError(f"a team has at least one worker, not {workers}")
    json.dumps(arguments)  # what cannot be sent is said here, and not by a worker
    progress(Step("starting workers", 0, workers, 0.0))
    patience = Patience(exchange_seconds, min(answer_seconds, 2 * exchange_seconds), resource_seconds, machine_seconds)
    with ray_session(address, cpus=workers) as session, _orderly_termination():
        run = _Run(session, program, arguments, workers, threads, progress, patience)
        return run.to_the_end(restarts)


@contextmanager
def _orderly_termination() -> Iterator[None]:
    """As that of a crew: SIGTERM is a `SystemExit`, whose code is lost where a call of Ray is interrupted by it."""
    try:
        with orderly_termination():
            yield
    except SystemExit as ended:
        if ended.code != 1:
            raise
        raise SystemExit(128 + signal.SIGTERM) from None


class _FailedError(Exception):
    """A team that has to be replaced; says why."""

    def __init__(self, why: str, *, of_program: bool = False) -> None:
        super().__init__(why)
        self.of_program = of_program
        """The program itself raised something, which will probably come again."""


class _Run:
    """One program, run by one team after another."""

    def __init__(
        self,
        session: RaySession,
        program: str,
        arguments: Mapping[str, Any],
        workers: int,
        threads: int,
        progress: Progress,
        patience: Patience,
    ) -> None:
        self._session = session
        self._program, self._arguments = program, arguments
        self._workers, self._threads = workers, threads
        self._progress, self._patience = progress, patience
        self._furthest = -1.0
        self._warned: set[str] = set()  # a team that repeats some work warns once more

    def to_the_end(self, restarts: int) -> list[Any]:
        attempt, in_vain, last = 0, 0, ""
        while True:
            attempt += 1
            before = self._furthest
            machines = len(self._session.machines())
            try:
                return self._attempt(attempt)
            except _FailedError as failure:
                in_vain = 0 if self._furthest > before else in_vain + 1
                repeated = failure.of_program and in_vain > 1 and str(failure) == last
                last = str(failure)
                if in_vain > restarts or repeated:
                    lately = "the last time" if in_vain == 1 else f"the last {in_vain} times"
                    raise ClusterError(
                        f"the team of workers failed {_times(attempt)}, {lately} without getting further; "
                        f"the last time {last}",
                        Remedy.passing("what was saved is kept, go on with {resume}", resume=True),
                    ) from failure
            self._note(f"{last}; going on from the last checkpoint")
            self._await_machines(machines)

    def _attempt(self, attempt: int) -> list[Any]:
        arguments = {**self._arguments, "attempt": attempt}
        arguments["resume"] = bool(self._arguments.get("resume")) or attempt > 1
        with self._team() as team:
            return team.work(self._program, arguments, self._hear)

    @contextmanager
    def _team(self) -> Iterator["_Team"]:
        def waiting(what: str) -> None:
            self._progress(Step(what, 0, self._workers, max(self._furthest, 0.0)))

        group, places = reserve(self._session, self._workers, self._threads, self._patience.resources, waiting)
        team = None
        needed = (
            False  # to tidy up: with a Ray of our own everything ends, and after a signal it may not answer any more
        )
        try:
            team = _Team(self._session.ray, group, places, self._patience)
            yield team
            needed = True
        except _FailedError:
            needed = True
            raise
        finally:
            if needed or not self._session.local:
                if team is not None:
                    team.dismiss()
                release(self._session, group)

    def _hear(self, told: list[Told]) -> None:
        for each in told:
            if "step" in each:
                step = heard_step(each["step"])
                self._furthest = max(self._furthest, step.share)
                self._progress(step)
            elif json.dumps(each) not in self._warned:
                self._warned.add(json.dumps(each))
                show_again(each["warning"])

    def _note(self, note: str) -> None:
        self._progress(Step("workers", 0, self._workers, max(self._furthest, 0.0), note=note))

    def _await_machines(self, before: int) -> None:
        """Give a machine that was lost some time to come back, or a cluster to replace it."""
        if self._session.local or before < self._workers:  # workers share machines already
            return
        deadline = time.monotonic() + self._patience.machine
        told = False
        while (left := len(self._session.machines())) < min(before, self._workers):
            if not left:
                raise ClusterError(
                    "no machine of the cluster is left",
                    Remedy.passing("start it again, and go on with {resume}", resume=True),
                )
            if time.monotonic() > deadline:
                self._note(f"waited {self._patience.machine:g} s for another machine; going on with {left}")
                return
            if not told:
                self._note(f"{left} of {before} machines are left; waiting for another one")
                told = True
            time.sleep(0.5)


class _Team:
    """The actors of one attempt."""

    def __init__(self, ray: Any, group: Any, places: list[Place], patience: Patience) -> None:
        self._ray, self._places, self._patience = ray, places, patience
        actor = ray.remote(Worker)
        self._actors = [actor.options(**place.options(group)).remote() for place in places]
        self._size = len(places)

    def work(self, program: str, arguments: Mapping[str, Any], hear: Hear) -> list[Any]:
        """Bring the workers together, let them run the program, and watch them."""
        ready = [actor.prepare.remote(self._size) for actor in self._actors]
        for rank, version in enumerate(self._answers(ready, "to start", _SECONDS_TO_START)):
            if version != __version__:
                raise ClusterError(
                    f"{self._who(rank)} has cofill {version}, and this machine {__version__}; install the same on all"
                )
        addresses = [place.machine.address or LOOPBACK for place in self._places]
        if len(set(addresses)) == 1:  # nothing that others could reach is opened
            addresses = [LOOPBACK] * self._size
        port = 0
        if self._size > 1:
            opened = self._actors[0].open_meeting.remote(addresses[0], self._patience.answer)
            (port,) = self._answers([opened], "to open a meeting", self._patience.answer)
        runs = []
        for rank, (actor, place) in enumerate(zip(self._actors, self._places, strict=True)):
            given = {**arguments, "threads": place.threads}
            meeting = (addresses[0], port)
            seconds = self._patience.exchange
            duty = Duty(program, given, rank, self._size, addresses[rank], meeting, seconds)
            runs.append(actor.run.remote(json.dumps(asdict(duty))))
        return _Watch(self._ray, self._actors, runs, self._who, self._patience, hear).results()

    def dismiss(self) -> None:
        for actor in self._actors:
            with suppress(Exception):  # dead already, or out of reach
                self._ray.kill(actor, no_restart=True)

    def _who(self, rank: int) -> str:
        address = self._places[rank].machine.address
        return f"worker {rank + 1} of {self._size}" + (f" ({address})" if address else "")

    def _answers(self, asked: list[Any], what: str, seconds: float) -> list[Any]:
        """What the first workers answer, all of them in time."""
        deadline = time.monotonic() + seconds
        answers = []
        for rank, question in enumerate(asked):
            try:
                answers.append(self._ray.get(question, timeout=max(0.0, deadline - time.monotonic())))
            except self._ray.exceptions.GetTimeoutError:
                raise _FailedError(f"waited {seconds:g} s for {self._who(rank)} {what}") from None
            except self._ray.exceptions.RayError as error:
                raise _FailedError(f"{self._who(rank)} {_how_it_died(error)}") from error
        return answers


class _Watch:
    """What the workers answer, from the start of the program to its results or the first failure."""

    def __init__(
        self,
        ray: Any,
        actors: list[Any],
        runs: list[Any],
        who: Callable[[int], str],
        patience: Patience,
        hear: Hear,
    ) -> None:
        self._ray, self._actors, self._who, self._hear = ray, actors, who, hear
        self._patience = patience
        self._running = {run: rank for rank, run in enumerate(runs)}
        self._results: dict[int, Any] = {}
        self._failures: dict[int, tuple[int, str]] = {}  # by rank: how much it explains, and in words
        self._asked: dict[Any, int] = {}
        self._asked_at = [0.0] * len(actors)
        self._answered_at = [time.monotonic()] * len(actors)
        self._turns = [(0, time.monotonic())] * len(actors)  # of each worker, and since when it is so

    def results(self) -> list[Any]:
        while self._running and not self._failures:
            self._ask()
            self._listen(_LISTEN_EVERY)
            self._miss_answers()
            self._miss_exchanges()
        if self._failures:
            self._fail()
        self._last_news()
        return [self._results[rank] for rank in range(len(self._actors))]

    def _ask(self) -> None:
        now = time.monotonic()
        waiting = set(self._asked.values())
        for rank, actor in enumerate(self._actors):
            if rank not in waiting and now - self._asked_at[rank] >= (_LISTEN_EVERY if rank == 0 else _ASK_EVERY):
                self._asked[actor.news.remote()] = rank
                self._asked_at[rank] = now

    def _listen(self, seconds: float) -> None:
        expected = [*self._running, *self._asked]
        done, _ = self._ray.wait(expected, num_returns=1, timeout=seconds)
        if done:  # and whatever else has come by now
            done, _ = self._ray.wait(expected, num_returns=len(expected), timeout=0)
        for answer in done:
            rank = self._asked.pop(answer) if answer in self._asked else self._running[answer]
            try:
                said = self._ray.get(answer)
            except self._ray.exceptions.RayError as error:
                self._running.pop(answer, None)
                self._failures[rank] = (2, f"{self._who(rank)} {_how_it_died(error)}")
                continue
            self._answered_at[rank] = time.monotonic()
            if answer in self._running:
                del self._running[answer]
                self._end(rank, json.loads(said))
            else:
                self._take(rank, json.loads(said))

    def _take(self, rank: int, news: Mapping[str, Any]) -> None:
        if news["turns"] != self._turns[rank][0]:
            self._turns[rank] = news["turns"], time.monotonic()
        self._hear(news["told"])

    def _end(self, rank: int, outcome: Mapping[str, Any]) -> None:
        if "error" in outcome:
            error: CofillError = heard_error(outcome["error"])
            self._last_news()
            raise error
        if "failure" not in outcome:
            self._results[rank] = outcome["result"]
        elif outcome["in_exchange"]:
            self._failures.setdefault(rank, (1, outcome["failure"]))
        else:
            self._failures.setdefault(rank, (3, f"{self._who(rank)} ended with an exception: {outcome['failure']}"))

    def _miss_answers(self) -> None:
        """A process that has been stopped, or is out of reach: Ray itself does not notice the former."""
        now = time.monotonic()
        limit = self._patience.answer
        for rank in self._asked.values():
            if now - self._asked_at[rank] > limit:
                self._failures[rank] = (2, f"{self._who(rank)} has not answered for {limit:g} s")

    def _miss_exchanges(self) -> None:
        """A network that hangs between the workers: all of them wait, and for each other."""
        limit = self._patience.answer
        running = set(self._running.values())
        since = [self._turns[rank][1] for rank in running if self._turns[rank][0] % 2]
        if running and len(since) == len(running) and time.monotonic() - max(since) > limit:
            words = f"all workers waited {limit:g} s for each other in one exchange: the network between them hangs"
            self._failures[min(running)] = (2, words)

    def _fail(self) -> None:
        """Say which worker is to blame: not one that only waited for the others in vain."""
        deadline = time.monotonic() + _SECONDS_OF_GRACE
        while self._running and time.monotonic() < deadline and max(self._failures.values())[0] < 2:
            self._listen(0.1)
        if 0 not in self._failures or self._failures[0][0] != 2:
            self._last_news()
        weight, words = max(self._failures.values(), key=lambda failure: failure[0])
        silent = sorted(
            rank for rank in self._asked.values() if time.monotonic() - self._asked_at[rank] > _SECONDS_OF_GRACE
        )
        if weight == 1 and silent:
            words += f"; {', '.join(map(self._who, silent))} did not answer"
        raise _FailedError(words, of_program=weight == 3)

    def _last_news(self) -> None:
        with suppress(self._ray.exceptions.RayError):
            self._take(0, json.loads(self._ray.get(self._actors[0].news.remote(), timeout=_SECONDS_OF_LAST_NEWS)))


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def _how_it_died(error: Exception) -> str:
    said = " ".join(str(error).split())
    if "No module named" in said:  # it will not be there the next time either
        missing = said[said.index("No module named") :][:60]
        raise ClusterError(f"a machine of the cluster lacks what cofill needs ({missing}); {INSTALL} there") from error
    if "node has died" in said or "node failed" in said or "node was terminated" in said.lower():
        return "died with its machine"
    if type(error).__name__ == "OutOfMemoryError" or "running low on memory" in said:  # Ray's own watch over memory
        return "was ended by Ray for want of memory: use more machines, or fewer hidden units"
    if "connection error code 2" in said or "SIGKILL" in said:
        return "died: its process was killed, perhaps for want of memory"
    return f"died ({said[:200]})"
