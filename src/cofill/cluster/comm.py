"""Workers that do one program together: Ray actors, and collectives of torch.distributed's gloo between them.

    run_team -> ray_session         connect, or start a Ray of our own
             -> placement_group     places for the workers, on as many machines as there are
             -> Worker              one actor a place: program(exchange, arguments, tell)

The workers meet at a store that worker 1 opens on a free port of its own address; from then on they are connected
directly, each with each. A sum goes round in a ring, or in those of a grid, so every worker has the same bits, whatever
the order in which the workers arrive. No wait is without an end: where a worker does not answer in time, or its
connection is closed, the others get an `ExchangeError`. Then the whole team goes, and a new one goes on from the last
checkpoint, which the program finds by itself. An error of the program itself would come again: it ends the run.
"""

import math
import re
import signal
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from importlib import import_module
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from cofill import __version__
from cofill.cluster.session import RaySession, cores_each, ray_session
from cofill.errors import ClusterError, CofillError, Remedy
from cofill.exchange import ALONE, Exchange
from cofill.progress import Progress, Step, unseen
from cofill.workers import cores, how_ray_lost_it, orderly_termination, problem_of, ray_environment

_Array = TypeVar("_Array", bound=npt.NDArray[Any])
Store = Any
"""A TCPStore of torch.distributed, whose types are not complete."""
Program = Callable[[Exchange, Mapping[str, Any], Progress], Any]
"""What each worker runs: with its exchange, the arguments of the run, and where to tell how far it is."""

LOOPBACK = "127.0.0.1"
MOST_IN_RING = 8
# Bytes that are sent at once: a timeout is for one piece, and what gloo holds besides is bounded by it.
_PIECE = 1 << 26
_SECONDS_TO_MEET = 60.0  # at least: processes that have just been started do not arrive together
_PLACE_IN_SOURCE = re.compile(r"\[[^]]*\.(?:cc|h|cpp):\d+\] ?")
_SECONDS_BETWEEN_LOOKS = 0.25
_SECONDS_TO_START = 180.0  # of all actors, on machines that may be busy
_SECONDS_OF_GRACE = 2.0  # in which others may tell a better reason for the same failure


# The exchange


class ExchangeError(RuntimeError):
    """An exchange that another worker did not take part in, in time or at all."""


class Meeting:
    """Where the workers of a team find each other: a store in the process of worker 0, on a free port."""

    def __init__(self, address: str) -> None:
        family = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0][0]
        # Bound by us: the store itself would listen on all interfaces, where it can be disturbed.
        listening = socket.create_server((address, 0), family=family, backlog=1024)
        self.port: int = listening.getsockname()[1]
        self.store: Store = _distributed().TCPStore(
            address,
            self.port,
            is_master=True,
            timeout=timedelta(seconds=_SECONDS_TO_MEET),
            wait_for_workers=False,
            master_listen_fd=listening.detach(),
        )


def join_meeting(address: str, port: int) -> Store:
    """The store that worker 0 has opened at that address."""
    began = time.monotonic()
    try:
        return _distributed().TCPStore(address, port, is_master=False, timeout=timedelta(seconds=_SECONDS_TO_MEET))
    except RuntimeError as error:
        waited = time.monotonic() - began
        raise ExchangeError(f"waited {waited:.0f} s for worker 1 at {address}:{port}: {_reason(error)}") from error


class Gloo:
    """An `Exchange` between `size` workers; this one is number `rank` and is reached at `address`.

    `seconds` is how long it waits for the others, for each piece of an array of up to 64 MB. Sums are of
    float32, float64, integers and uint64, maxima of these without uint64, and of bool.

    Of more than `most_in_ring` workers each stands in a row and in a column of a grid: sums go round in the row first,
    then in the column. That takes 4 sqrt(size) steps instead of 2 size.
    """

    def __init__(
        self,
        store: Store,
        rank: int,
        size: int,
        *,
        address: str,
        seconds: float = 60.0,
        most_in_ring: int = MOST_IN_RING,
    ) -> None:
        from torch import from_numpy

        distributed = _distributed()
        self.rank, self.size = rank, size
        self.sent = 0
        """Bytes, as a ring moves them: of a sum 2 (size - 1) / size of the array, of a gathering the own array to all
        others."""
        self.seconds = 0.0
        self._tensor = from_numpy
        self._wait = seconds
        self._sum, self._max = distributed.AllreduceOptions(), distributed.AllreduceOptions()
        self._sum.reduceOp = distributed.ReduceOp.SUM
        self._max.reduceOp = distributed.ReduceOp.MAX
        self._from = distributed.BroadcastOptions()
        self._from.rootTensor = 0
        for options in (self._sum, self._max, self._from):
            options.timeout = timedelta(seconds=seconds)
        began = time.monotonic()
        try:
            options = distributed.ProcessGroupGloo._Options()
            options._timeout = timedelta(seconds=max(seconds, _SECONDS_TO_MEET))
            # By the address and not by the name of an interface: without either gloo asks for the address of the
            # host's name, which is 127.0.0.1 on many machines.
            options._devices = [distributed.ProcessGroupGloo.create_device(hostname=address)]
            self._group = distributed.ProcessGroupGloo(store, rank, size, options)
            self._rings = [self._group]
            if size > most_in_ring and (width := _width_of_grid(size)) > 1:
                row, column = divmod(rank, width)
                rings = ((f"row {row}", column, width), (f"column {column}", row, size // width))
                self._rings = [
                    distributed.ProcessGroupGloo(distributed.PrefixStore(name, store), place, members, options)
                    for name, place, members in rings
                ]
        except RuntimeError as error:
            raise self._failed("meeting the others", began, error) from error

    def sum_(self, array: _Array) -> _Array:
        # Unsigned sums have the same bits: both wrap around.
        self._reduce(array.view(np.int64) if array.dtype == np.uint64 else array, self._sum, "a sum")
        return array

    def max_(self, array: _Array) -> _Array:
        self._reduce(array.view(np.uint8) if array.dtype == np.bool_ else array, self._max, "a maximum")
        return array

    def gather(self, array: _Array) -> list[_Array]:
        own = np.ascontiguousarray(array)
        lengths = np.zeros(self.size, np.int64)
        lengths[self.rank] = len(own)
        gathered: list[Any] = [
            own if rank == self.rank else np.empty((length, *own.shape[1:]), own.dtype)
            for rank, length in enumerate(self.sum_(lengths).tolist())
        ]
        for root, part in enumerate(gathered):
            flat = part.reshape(-1).view(np.uint8)
            # torch wants to be able to write, also where it only reads.
            self._broadcast(flat if flat.flags.writeable else flat.copy(), root)
        return gathered

    def _reduce(self, array: npt.NDArray[Any], options: Any, what: str) -> None:
        if not array.flags.c_contiguous:
            raise ValueError(f"{what} over workers is done in place, of a contiguous array")

        def reduce(piece: Any) -> None:
            for ring in self._rings:
                ring.allreduce([piece], options).wait()

        self._in_pieces(array.reshape(-1), f"{what} of {array.shape} {array.dtype}", reduce)
        self.sent += sum(2 * (ring.size() - 1) * array.nbytes // ring.size() for ring in self._rings)

    def _broadcast(self, flat: npt.NDArray[np.uint8], root: int) -> None:
        self._from.rootRank = root
        what = f"{len(flat)} bytes of worker {root + 1}"
        self._in_pieces(flat, what, lambda piece: self._group.broadcast([piece], self._from).wait())
        if root == self.rank:
            self.sent += (self.size - 1) * len(flat)

    def _in_pieces(self, flat: npt.NDArray[Any], what: str, send: Callable[[Any], object]) -> None:
        began = time.monotonic()
        step = _PIECE // flat.itemsize
        try:
            for start in range(0, len(flat), step):
                send(self._tensor(flat[start : start + step]))
        except RuntimeError as error:
            raise self._failed(what, began, error) from error
        self.seconds += time.monotonic() - began

    def _failed(self, what: str, began: float, error: RuntimeError) -> ExchangeError:
        return ExchangeError(
            f"worker {self.rank + 1} of {self.size} waited {time.monotonic() - began:.1f} s for {what}, "
            f"at most {self._wait:g} s: {_reason(error)}"
        )


def _width_of_grid(size: int) -> int:
    """The greatest divisor up to the square root; 1 where there is no grid."""
    return next(width for width in range(math.isqrt(size), 0, -1) if size % width == 0)


def _distributed() -> Any:
    import torch.distributed  # here: the commands that need no worker need not wait for it

    return torch.distributed


def _reason(error: Exception) -> str:
    """What the network said, without the places in torch's source."""
    return " ".join(_PLACE_IN_SOURCE.sub("", str(error)).split())[:300]


# A worker


class Worker:
    """The actor. Its program runs on one thread, and its news are told on another."""

    def __init__(self) -> None:
        self._meeting: Meeting | None = None
        self._exchange: Exchange | None = None  # kept to the end: closed connections would look like a failure of ours
        self._news: SimpleQueue[Step | Warning] = SimpleQueue()

    def home(self, size: int) -> tuple[str, str]:
        """The version of cofill and the address of this machine; loads what takes long, so that all do it at once."""
        if size > 1:
            _distributed()
        of_ray: Any = import_module("ray.util")
        return __version__, of_ray.get_node_ip_address()

    def open_meeting(self, address: str) -> int:
        """The port at which the others meet this worker."""
        self._meeting = Meeting(address)
        return self._meeting.port

    def news(self) -> "list[Step | Warning]":
        """What has happened since this was asked last."""
        return [self._news.get() for _ in range(self._news.qsize())]

    def run(
        self,
        program: str,
        arguments: Mapping[str, Any],
        rank: int,
        size: int,
        address: str,
        meeting: tuple[str, int],
        seconds: float,
    ) -> Any:
        """Run the program to its end. Whatever came of a failed exchange is an `ExchangeError`."""
        if rank == 0:
            warnings.showwarning = self._warned
        try:
            module, _, name = program.partition(":")
            act: Program = getattr(import_module(module), name)
            exchange: Exchange = ALONE
            if size > 1:
                store = join_meeting(*meeting) if self._meeting is None else self._meeting.store
                exchange = Gloo(store, rank, size, address=address, seconds=seconds)
            self._exchange = exchange
            return act(exchange, arguments, self._news.put if rank == 0 else unseen)
        except Exception as error:
            cause: BaseException | None = error
            while cause is not None:  # the failed exchange may have been turned into an error of writing a file
                if isinstance(cause, ExchangeError):
                    raise ExchangeError(str(cause)) from None
                cause = cause.__cause__
            raise

    def _warned(self, message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        self._news.put(message if isinstance(message, Warning) else category(message))


# What the driver does


def run_team(
    program: str,
    arguments: Mapping[str, Any],
    *,
    workers: int,
    address: str | None,
    threads: int = 0,
    progress: Progress = unseen,
    restarts: int = 3,
    exchange_seconds: float = 1800.0,
    resource_seconds: float = 300.0,
) -> list[Any]:
    """Run `package.module:function` in so many workers at once; returns what each returned, by rank.

    The function is called as function(exchange, arguments, tell); `tell` takes steps of progress, of which those of
    the first worker reach `progress`. To the arguments are added "attempt", from 1, "resume", which is True from the
    second attempt on if it was not before, and "threads".

    `address` is that of a Ray cluster (host:port, "auto", ray://host:port); None starts a Ray on this machine. Each
    worker has `threads` threads, 0: as many as all can have.

    After a failure (a killed process, a machine or network that is gone) a new team starts. It is given up after
    `restarts` restarts without getting further than before, with a `ClusterError`.
    """
    if workers < 1:
        raise ClusterError(f"a team has at least one worker, not {workers}")
    progress(Step("starting workers", 0, workers, 0.0))
    with ray_session(address, cpus=workers) as session, _orderly_termination():
        asked = 1 if session.local else threads
        if not threads:  # the same for every team of this run: the bits depend on it
            threads = max(1, cores() // workers) if session.local else cores_each(session.machines(), workers)
        news, attempt, in_vain = _News(progress), 0, 0
        while True:
            attempt += 1
            before = news.furthest
            given = {**arguments, "attempt": attempt, "threads": threads}
            given["resume"] = bool(arguments.get("resume")) or attempt > 1
            try:
                with _team(session, workers, asked, threads, resource_seconds) as actors:
                    return _run(session.ray, actors, program, given, news, exchange_seconds)
            except _FailedError as failure:
                in_vain = 0 if news.furthest > before else in_vain + 1
                if in_vain > restarts:
                    raise ClusterError(
                        f"the team of workers failed {attempt} times, the last {in_vain} without getting further; "
                        f"the last time {failure}",
                        Remedy.passing("what was saved is kept, go on with {resume}", resume=True),
                    ) from failure
                note = f"{failure}; going on from the last checkpoint"
                progress(Step("workers", 0, workers, max(news.furthest, 0.0), note=note))


class _FailedError(Exception):
    """A team that has to be replaced; says why."""


class _News:
    """What the first worker tells, shown here; of a team that repeats some work, warnings are shown once."""

    def __init__(self, progress: Progress) -> None:
        self.furthest = -1.0
        self._progress = progress
        self._warned: set[str] = set()

    def take(self, news: "list[Step | Warning]") -> None:
        for one in news:
            if isinstance(one, Step):
                self.furthest = max(self.furthest, one.share)
                self._progress(one)
            elif str(one) not in self._warned:
                self._warned.add(str(one))
                warnings.warn(one, stacklevel=2)


@contextmanager
def _team(session: RaySession, workers: int, asked: int, threads: int, seconds: float) -> Iterator[list[Any]]:
    """Actors, spread over the machines, with the cores that were asked for or as many as all can have; they end with
    the block."""
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    ray, actors, deadline = session.ray, list[Any](), time.monotonic() + seconds
    group, cpus = None, 0
    try:
        while group is None or not group.wait(1.0):
            machines = session.machines()  # which may change meanwhile
            now = asked or cores_each(machines, workers)
            if now != cpus:
                if group is not None:
                    remove_placement_group(group)
                cpus = now
                group = placement_group([{"CPU": cpus}] * workers, strategy="PACK" if session.local else "SPREAD")
            elif time.monotonic() > deadline:
                free = int(ray.available_resources().get("CPU", 0))
                raise ClusterError(
                    f"waited {seconds:g} s for {workers} workers with {cpus} CPU each; the cluster has "
                    f"{len(machines)} machines with {sum(machines)} CPUs, {free} of them free; "
                    "use fewer workers or threads, or add machines"
                )
        for bundle in range(workers):
            at = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=bundle)
            options = {"num_cpus": cpus, "max_concurrency": 2, "scheduling_strategy": at}
            options["runtime_env"] = {"env_vars": ray_environment(threads)}
            actors.append(ray.remote(Worker).options(**options).remote())
        yield actors
    finally:
        with suppress(Exception):  # of a cluster, or a Ray of our own, that is gone
            for actor in actors:
                ray.kill(actor)
            remove_placement_group(group)


def _run(
    ray: Any, actors: list[Any], program: str, arguments: Mapping[str, Any], news: _News, seconds: float
) -> list[Any]:
    """Bring the workers together, let them run the program, and listen to the first."""
    size = len(actors)

    def answers(calls: list[Any]) -> list[Any]:
        try:
            found: list[Any] = ray.get(calls, timeout=_SECONDS_TO_START)
        except ray.exceptions.GetTimeoutError:
            raise _FailedError(f"waited {_SECONDS_TO_START:g} s for the workers to start") from None
        except ray.exceptions.RayError as error:
            raise _FailedError(f"a worker did not start: {how_ray_lost_it(error)}") from error
        return found

    homes = answers([actor.home.remote(size) for actor in actors])
    for version, address in homes:
        if version != __version__:
            raise ClusterError(
                f"the machine {address} has cofill {version}, and this one {__version__}; install the same on all"
            )
    # Those of one machine stand together. Where it is the only one, nothing is opened that others could reach.
    ranked = sorted(zip([address for _, address in homes], range(size), actors, strict=True), key=lambda one: one[:2])
    alone = len({address for address, _, _ in ranked}) == 1
    team = [(LOOPBACK if alone else address, actor) for address, _, actor in ranked]
    (port,) = answers([team[0][1].open_meeting.remote(team[0][0])]) if size > 1 else (0,)
    running = {
        actor.run.remote(program, arguments, rank, size, address, (team[0][0], port), seconds): rank
        for rank, (address, actor) in enumerate(team)
    }
    results, failures = dict[int, Any](), list[tuple[bool, str]]()
    while running:
        done, _ = ray.wait(list(running), timeout=_SECONDS_OF_GRACE if failures else _SECONDS_BETWEEN_LOOKS)
        with suppress(ray.exceptions.RayError):  # its death is told by its run
            news.take(ray.get(team[0][1].news.remote(), timeout=_SECONDS_TO_START))
        if failures and not done:
            break
        for call in done:
            rank = running.pop(call)
            try:
                results[rank] = ray.get(call)
            except ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, CofillError):
                    raise error.cause from None
                if not isinstance(error.cause, ExchangeError):
                    raise ClusterError(
                        f"worker {rank + 1} of {size} ended with an exception: {problem_of(error.cause)}",
                        Remedy.passing("what was saved is kept, go on with {resume}", resume=True),
                    ) from None
                failures.append((False, str(error.cause)))
            except ray.exceptions.RayError as error:
                failures.append((True, f"worker {rank + 1} of {size} ({ranked[rank][0]}): {how_ray_lost_it(error)}"))
        if any(died for died, _ in failures):
            break
    if failures:  # not that of one that only waited for the others in vain
        raise _FailedError(max(failures, key=lambda one: one[0])[1])
    return [results[rank] for rank in range(size)]


@contextmanager
def _orderly_termination() -> Iterator[None]:
    """SIGTERM is a `SystemExit`, whose code is lost where a call of Ray is interrupted by it."""
    try:
        with orderly_termination():
            yield
    except SystemExit as ended:
        if ended.code != 1:
            raise
        raise SystemExit(128 + signal.SIGTERM) from None
