"""Workers that do one program together: Ray actors, and sums over plain sockets between them.

    run_team -> ray_session         connect, or start a Ray of our own
             -> placement_group     places for the workers, on as many machines as there are
             -> Worker              one actor a place: program(exchange, arguments, tell)

Each worker listens on a free port of its own address, and is connected with each other. No wait is without an end:
where a worker does not answer in time, or its connection is closed, the others get an `ExchangeError`. Then the whole
team goes, and a new one goes on from the last checkpoint, which the program finds by itself. An error of the program
itself would come again: it ends the run.
"""

import secrets
import select
import signal
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from cofill import __version__
from cofill.cluster.session import RaySession, cores_each, ray_session
from cofill.errors import ClusterError, CofillError
from cofill.exchange import ALONE, Exchange
from cofill.progress import Progress, Step, unseen
from cofill.workers import cores, how_ray_lost_it, orderly_termination, problem_of, ray_environment

_Array = TypeVar("_Array", bound=npt.NDArray[Any])
Program = Callable[[Exchange, Mapping[str, Any], Progress], Any]
"""What each worker runs: with its exchange, the arguments of the run, and where to tell how far it is."""

LOOPBACK = "127.0.0.1"
_PIECE = 1 << 24  # bytes that are added up at a time, which bounds what is held besides
_SECONDS_TO_MEET = 60.0  # at least: processes that have just been started do not arrive together
_SECONDS_BETWEEN_LOOKS = 0.25
_SECONDS_TO_START = 180.0  # of all actors, on machines that may be busy
_SECONDS_OF_GRACE = 2.0  # in which others may tell a better reason for the same failure


# The exchange


class ExchangeError(RuntimeError):
    """An exchange that another worker did not take part in, in time or at all."""


def listen(address: str) -> socket.socket:
    """On a free port of this address, and on no other interface."""
    family = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0][0]
    return socket.create_server((address, 0), family=family, backlog=1024)


class Mesh:
    """An `Exchange` between workers that are connected each with each.

    Every worker adds up its part of an array, in the order of the workers, and sends it to all: two steps for any
    number of workers, and the same bits in each.
    """

    def __init__(
        self,
        rank: int,
        addresses: Sequence[tuple[str, int]],
        listening: socket.socket,
        token: bytes,
        *,
        seconds: float = 60.0,
    ) -> None:
        """`addresses` are those at which the workers listen; this one is number `rank`. All know the secret token.

        `seconds` is how long it waits for others while nothing arrives.
        """
        self.rank, self.size = rank, len(addresses)
        self.sent = 0
        self.seconds = 0.0
        self._wait = max(seconds, _SECONDS_TO_MEET)
        self._others: dict[int, socket.socket] = {}
        self._close = ExitStack()
        self._close.enter_context(listening)
        began = time.monotonic()
        try:
            for other in range(rank):
                connection = self._close.enter_context(socket.create_connection(addresses[other], self._wait))
                self._others[other] = connection
                connection.sendall(token + rank.to_bytes(4, "big"))
            listening.settimeout(self._wait)
            while len(self._others) < self.size - 1:
                connection = self._close.enter_context(listening.accept()[0])
                connection.settimeout(self._wait)
                told = b""
                while len(told) < len(token) + 4 and (more := connection.recv(len(token) + 4 - len(told))):
                    told += more
                if secrets.compare_digest(told[:-4], token):  # other programs can connect
                    self._others[int.from_bytes(told[-4:], "big")] = connection
            for connection in self._others.values():
                connection.setblocking(False)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            self.close()
            raise self._failed("meeting the others", began, error) from error
        self._wait = seconds

    def close(self) -> None:
        """The others will fail if they exchange anything more."""
        self._close.close()

    def all_reduce(self, array: _Array) -> _Array:
        self._reduce(array, np.add, "a sum")
        return array

    def max_(self, array: _Array) -> _Array:
        self._reduce(array, np.maximum, "a maximum")
        return array

    def gather(self, array: _Array) -> list[_Array]:
        own = np.ascontiguousarray(array)
        lengths = np.zeros(self.size, np.int64)
        lengths[self.rank] = len(own)
        found: list[Any] = [
            np.empty((length, *own.shape[1:]), own.dtype) for length in self.all_reduce(lengths).tolist()
        ]
        found[self.rank] = own
        self._move(f"{own.shape[1:]} {own.dtype}", dict.fromkeys(self._others, own), dict(enumerate(found)))
        return found

    def _reduce(self, array: npt.NDArray[Any], combine: np.ufunc, what: str) -> None:
        if not array.flags.c_contiguous:
            raise ValueError(f"{what} over workers is done in place, of a contiguous array")
        what = f"{what} of {array.shape} {array.dtype}"
        flat, step = array.reshape(-1), _PIECE // array.itemsize
        for start in range(0, len(flat), step):
            piece = flat[start : start + step]
            ends = [len(piece) * rank // self.size for rank in range(self.size + 1)]
            parts = {rank: piece[ends[rank] : ends[rank + 1]] for rank in range(self.size)}
            own = parts[self.rank]
            heard = {other: np.empty_like(own) for other in self._others}
            self._move(what, parts, heard)
            heard[self.rank] = own.copy()
            own[...] = heard[0]
            for rank in range(1, self.size):
                combine(own, heard[rank], out=own)
            self._move(what, dict.fromkeys(self._others, own), parts)

    def _move(self, what: str, out: Mapping[int, npt.NDArray[Any]], into: Mapping[int, npt.NDArray[Any]]) -> None:
        """Send to the others, and receive from them, at the same time: else all would wait for all to receive."""
        began = heard = time.monotonic()
        sending, receiving = (
            {other: arrays[other].reshape(-1).view(np.uint8).data for other in self._others if arrays[other].size}
            for arrays in (out, into)
        )
        try:
            while sending or receiving:
                moved = 0
                for views, receives in ((sending, False), (receiving, True)):
                    for other, view in list(views.items()):
                        connection = self._others[other]
                        try:
                            count = connection.recv_into(view) if receives else connection.send(view)
                        except BlockingIOError:
                            continue
                        if not count:
                            raise ConnectionError(f"worker {other + 1} has closed the connection")
                        moved += count
                        self.sent += 0 if receives else count
                        views[other] = view[count:]
                        if count == len(view):
                            del views[other]
                if moved:
                    heard = time.monotonic()
                elif not self._can_go_on(receiving, sending, heard + self._wait - time.monotonic()):
                    raise TimeoutError("Timed out")
        except OSError as error:
            raise self._failed(what, began, error) from error
        self.seconds += time.monotonic() - began

    def _can_go_on(self, receiving: Mapping[int, Any], sending: Mapping[int, Any], seconds: float) -> bool:
        poll = select.poll()
        for other, connection in self._others.items():
            if events := select.POLLIN * (other in receiving) | select.POLLOUT * (other in sending):
                poll.register(connection, events)
        return bool(poll.poll(max(0.0, seconds) * 1000))

    def _failed(self, what: str, began: float, error: OSError) -> ExchangeError:
        return ExchangeError(
            f"worker {self.rank + 1} of {self.size} waited {time.monotonic() - began:.1f} s for {what}, "
            f"at most {self._wait:g} s: {error}"
        )


# A worker


class Worker:
    """The actor. Its program runs on one thread, and its news are told on another."""

    def __init__(self) -> None:
        self._listening: socket.socket | None = None
        self._exchange: Exchange = ALONE  # kept to the end: closed connections would look like a failure of ours
        self._news: SimpleQueue[Step | Warning] = SimpleQueue()

    def listen(self, address: str | None) -> tuple[str, str, int]:
        """The version of cofill, and where the others reach this worker: at `address`, or that of its machine."""
        of_ray: Any = import_module("ray.util")
        self._listening = listen(address or of_ray.get_node_ip_address())
        return __version__, *self._listening.getsockname()[:2]

    def news(self) -> "list[Step | Warning]":
        """What has happened since this was asked last."""
        return [self._news.get() for _ in range(self._news.qsize())]

    def run(
        self,
        program: str,
        arguments: Mapping[str, Any],
        rank: int,
        addresses: list[tuple[str, int]],
        token: bytes,
        seconds: float,
    ) -> Any:
        """Run the program to its end."""
        if rank == 0:
            warnings.showwarning = self._warned
        module, _, name = program.partition(":")
        act: Program = getattr(import_module(module), name)
        if len(addresses) > 1:
            assert self._listening is not None
            self._exchange = Mesh(rank, addresses, self._listening, token, seconds=seconds)
        return act(self._exchange, arguments, self._news.put if rank == 0 else unseen)

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
        places = 1 if session.local else threads or cores_each(session.machines(), workers)
        if not threads:  # the same for every team of this run: the bits depend on it
            threads = max(1, cores() // workers) if session.local else places
        news, attempt, in_vain = _News(progress), 0, 0
        while True:
            attempt += 1
            before = news.furthest
            given = {**arguments, "attempt": attempt, "threads": threads}
            given["resume"] = bool(arguments.get("resume")) or attempt > 1
            try:
                with _team(session, workers, places, threads, resource_seconds) as actors:
                    at = LOOPBACK if session.local else None  # nothing is opened there that others could reach
                    return _run(session.ray, actors, at, program, given, news, exchange_seconds)
            except _FailedError as failure:
                in_vain = 0 if news.furthest > before else in_vain + 1
                if in_vain > restarts:
                    raise ClusterError(
                        f"the team of workers failed {attempt} times, the last {in_vain} without getting further; "
                        f"the last time {failure}",
                        "what was saved is kept, go on with resume=True",
                    ) from failure
                places = 1  # with a machine that is gone, there may be no more
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
def _team(session: RaySession, workers: int, places: int, threads: int, seconds: float) -> Iterator[list[Any]]:
    """Actors with so many places each, spread over the machines; they end with the block."""
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    ray, actors = session.ray, list[Any]()
    group = placement_group([{"CPU": places}] * workers, strategy="PACK" if session.local else "SPREAD")
    try:
        if not group.wait(seconds):
            machines, free = session.machines(), int(ray.available_resources().get("CPU", 0))
            raise ClusterError(
                f"waited {seconds:g} s for {workers} workers with {places} CPU each; the cluster has "
                f"{len(machines)} machines with {sum(machines)} CPUs, {free} of them free; "
                "use fewer workers or threads, or add machines"
            )
        for bundle in range(workers):
            at = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=bundle)
            options = {"num_cpus": places, "max_concurrency": 2, "scheduling_strategy": at}
            options["runtime_env"] = {"env_vars": ray_environment(threads)}
            actors.append(ray.remote(Worker).options(**options).remote())
        yield actors
    finally:
        with suppress(Exception):  # of a cluster, or a Ray of our own, that is gone
            for actor in actors:
                ray.kill(actor)
            remove_placement_group(group)


def _run(
    ray: Any,
    actors: list[Any],
    address: str | None,
    program: str,
    arguments: Mapping[str, Any],
    news: _News,
    seconds: float,
) -> list[Any]:
    """Bring the workers together, let them run the program, and listen to the first."""
    size = len(actors)
    try:
        homes = ray.get([actor.listen.remote(address) for actor in actors], timeout=_SECONDS_TO_START)
    except ray.exceptions.RayError as error:
        raise _FailedError(f"a worker did not start: {how_ray_lost_it(error)}") from error
    for version, host, _ in homes:
        if version != __version__:
            raise ClusterError(
                f"the machine {host} has cofill {version}, and this one {__version__}; install the same on all"
            )
    order = sorted(range(size), key=lambda place: homes[place][1])  # those of one machine stand together
    team, addresses = [actors[place] for place in order], [homes[place][1:] for place in order]
    token = secrets.token_bytes(32)
    running = {
        actor.run.remote(program, arguments, rank, addresses, token, seconds): rank for rank, actor in enumerate(team)
    }
    results = dict[int, Any]()
    lost: str | None = None  # why a worker is gone
    missed: str | None = None  # what another one has waited for in vain
    while running and lost is None:
        done, _ = ray.wait(list(running), timeout=_SECONDS_OF_GRACE if missed else _SECONDS_BETWEEN_LOOKS)
        with suppress(ray.exceptions.RayError):  # its death is told by its run
            news.take(ray.get(team[0].news.remote(), timeout=_SECONDS_TO_START))
        if missed and not done:
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
                        "what was saved is kept, go on with resume=True",
                    ) from None
                missed = str(error.cause)
            except ray.exceptions.RayError as error:
                lost = f"worker {rank + 1} of {size} ({addresses[rank][0]}): {how_ray_lost_it(error)}"
    if lost or missed:
        raise _FailedError(lost or missed)
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
