"""Server processes, one or several: signals, the message that the server is ready, and an end without a loss.

SIGTERM drains: `/ready` says 503 and every answer `Connection: close`, while new connections are taken for as long as
`--drain-seconds` says. Then nobody new can connect, whoever is connected is answered, and the process ends. Ctrl-C, or
a second signal, leaves out the waiting, and nothing else.

Several share one address: they are started, watched, replaced when one dies, and stopped together. Each is
`python -m cofill.serving.processes FD`, a worker whose settings come on standard input.
"""

import asyncio
import json
import logging
import math
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from types import FrameType
from typing import Any

import uvicorn
from prometheus_client import multiprocess
from threadpoolctl import threadpool_limits

from cofill.errors import CofillError, SettingsError
from cofill.serving.app import Application
from cofill.serving.http_protocol import BoundedHttp, is_readable
from cofill.serving.ops.logs import about, set_up_logging
from cofill.serving.ops.retraining import Retrainer
from cofill.serving.settings import SHARED_FOLDER, ServingSettings
from cofill.workers import (
    THREADS_OF_LIBRARIES,
    behave_as_worker,
    cores,
    how_it_ended,
    interrupts_blocked,
    stop_workers,
)

log = logging.getLogger("cofill.serving")

Ready = Callable[[dict[str, Any]], None]

_BACKLOG = 2048  # connections that wait to be accepted
_SECONDS_TO_FINISH = 5.0  # beyond the time limit of a request, for what is under way when the server stops
_SECONDS_OF_SILENCE = 30  # after which a connection is closed
_SECONDS_BETWEEN_LOOKS = 0.2  # after the workers
_SECONDS_BETWEEN_STARTS = 1.0  # of workers: one that cannot start shall not keep the machine busy
_MOST_FAILURES = 3  # of workers to start, one after the other
_SECONDS_FOR_WORKERS = 10.0  # to stop, beyond what they take to drain and to finish
_AT_ONCE = signal.SIGUSR2  # from the parent: do not wait for --drain-seconds


def listen(settings: ServingSettings) -> socket.socket:
    """A listening socket that processes can share."""
    host = settings.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, settings.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        place = f"{settings.host}:{settings.port}"
        raise SettingsError(
            f"{place}: cannot listen there: {error.strerror}; choose another --host or --port"
        ) from None
    listening.set_inheritable(True)
    return listening


def address_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if listening.family == socket.AF_INET6 else f"http://{host}:{port}"


def serve_here(settings: ServingSettings, listening: socket.socket, ready: Ready, *, interrupts: bool = True) -> None:
    """Serve in this process until it is told to stop; `interrupts`: also by Ctrl-C."""
    set_up_logging(settings)
    # Scoring waits for memory, not for arithmetic: with two threads of BLAS a request took 4.6 ms instead of 2.7.
    threadpool_limits(1, "blas")
    with _handling({signal.SIGHUP: signal.SIG_IGN}):  # which would end the process before it can reload
        application = Application(settings)
    config = uvicorn.Config(
        application.asgi,
        http=BoundedHttp,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # whoever asks says nothing about where from
        server_header=False,
        timeout_keep_alive=_SECONDS_OF_SILENCE,
        timeout_graceful_shutdown=ceil(settings.request_timeout + _SECONDS_TO_FINISH),
    )
    stops = [signal.SIGTERM, signal.SIGINT if interrupts else _AT_ONCE]

    def told(summary: dict[str, Any]) -> None:
        if settings.log_format == "json":  # otherwise the command line says it
            log.info("serving %s", settings.model, extra=about(**summary))
        ready(summary)

    server = _Server(config, application, told, stops, settings.drain_seconds)
    with _retraining(settings, lambda: reload_or_explain(application), alone=interrupts):
        server.run(sockets=[listening])
    if application.store.away:  # threads that ask a database that hangs would hold up the end for as long
        logging.shutdown()
        os._exit(0)


@contextmanager
def _retraining(settings: ServingSettings, reload: Callable[[], object], *, alone: bool = True) -> Iterator[None]:
    """Train when it is time, in the first process alone."""
    if settings.retrain is None or not alone:
        yield
        return
    retrainer = Retrainer(settings, reload)
    retrainer.start()
    try:
        yield
    finally:
        retrainer.stop()
        retrainer.join()


@contextmanager
def _handling(handlers: Mapping[signal.Signals, Any]) -> Iterator[None]:
    """Handle these signals so; afterwards as before."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Terminal:
    """The controlling terminal. Closing it sends SIGHUP, which otherwise means reload."""

    def __init__(self) -> None:
        self._was_there = os.isatty(0)

    def is_gone(self) -> bool:
        return self._was_there and not os.isatty(0)


class _Server(uvicorn.Server):
    """uvicorn that reports when it is ready, reloads the model on SIGHUP, and drains before it stops."""

    def __init__(
        self,
        config: uvicorn.Config,
        application: Application,
        ready: Ready,
        stop_signals: Sequence[signal.Signals],
        drain_seconds: float,
    ) -> None:
        super().__init__(config)
        self._application = application
        self._ready = ready
        self._terminal = Terminal()
        self._stop_signals = stop_signals
        self._drain_seconds = drain_seconds
        self._stop_at = math.inf

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready(_summary(self._application))

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        with _handling({**dict.fromkeys(self._stop_signals, self.handle_exit), signal.SIGHUP: self._reload}):
            yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        first = self._stop_at == math.inf
        if first:
            if self._drain_seconds:
                log.info("stopping: /ready says so, and open connections are answered")
            self._application.live.draining = True
            self.config.encoded_headers.append((b"connection", b"close"))
            self.server_state.default_headers = [*self.server_state.default_headers, (b"connection", b"close")]
        elif self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self._stop_at = time.monotonic() + (self._drain_seconds if first and sig == signal.SIGTERM else 0.0)

    async def on_tick(self, counter: int) -> bool:
        self.should_exit = self.should_exit or time.monotonic() >= self._stop_at
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        until = time.monotonic() + _SECONDS_TO_FINISH
        while not self.force_exit and time.monotonic() < until:
            await asyncio.sleep(0.02)
            if not any(is_readable(one.fileno()) for one in sockets or ()):  # closing would reset who waits there
                break
        await super().shutdown(sockets)

    def _reload(self, number: int, frame: FrameType | None) -> None:
        if self._terminal.is_gone():
            self.handle_exit(number, frame)
            return
        threading.Thread(target=reload_or_explain, args=(self._application,), daemon=True).start()


def reload_or_explain(application: Application) -> None:
    try:
        application.live.reload()
    except CofillError as error:
        log.error("the model stays as it was: %s", error)
    except Exception as error:
        log.error("the model stays as it was", exc_info=error)


def _summary(application: Application) -> dict[str, Any]:
    served = application.live.served
    return {
        "version": served.card.version,
        "kind": served.model.kind,
        "users": len(served.model.users),
        "items": len(served.model.items),
        "live_ratings": application.store.rating_count(),
        "database": application.store.name,
    }


# Several processes


def serve_by_workers(settings: ServingSettings, listening: socket.socket, ready: Ready) -> None:
    """Serve by `settings.workers` processes until this one is told to stop."""
    set_up_logging(settings)
    told = _Told()
    hearing = _handling(dict.fromkeys((signal.SIGTERM, signal.SIGINT, signal.SIGHUP), told.hear))
    with tempfile.TemporaryDirectory(prefix="cofill-figures-") as figures, hearing:
        crew = _Crew(settings, listening, figures, told)
        try:
            crew.start(ready)
            with _retraining(settings, told.to_reload.set):
                crew.watch()
            crew.drain()
        finally:
            stop_workers(crew.workers, _SECONDS_FOR_WORKERS)
            for worker in crew.workers:
                _let_go(worker)


def _let_go(worker: subprocess.Popen[bytes]) -> None:
    """Close the pipes to a worker that has ended."""
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            pipe.close()


class _Told:
    """The signals that this process has received."""

    def __init__(self) -> None:
        self.to_stop = threading.Event()
        self.to_hurry = threading.Event()  # by Ctrl-C, or by a second signal
        self.to_reload = threading.Event()
        self.hung_up = threading.Event()  # by SIGHUP: to reload, or because the terminal is gone

    def hear(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self.hung_up.set()
            return
        if number == signal.SIGINT or self.to_stop.is_set():
            self.to_hurry.set()
        self.to_stop.set()


class _Crew:
    def __init__(self, settings: ServingSettings, listening: socket.socket, figures: str, told: _Told) -> None:
        self._settings = settings
        self._listening = listening
        self._figures = figures
        self._told = told
        self.workers: list[subprocess.Popen[bytes]] = []
        self._ready: set[subprocess.Popen[bytes]] = set()
        self._failed = 0  # starts in a row
        self._terminal = Terminal()
        self._said: queue.Queue[dict[str, Any]] = queue.Queue()

    def start(self, ready: Ready) -> None:
        """Start all workers; returns once all of them serve."""
        self.workers = [self._begin() for _ in range(self._settings.workers)]
        summaries: list[dict[str, Any]] = []
        while len(summaries) < len(self.workers) and not self._told.to_stop.is_set():
            for worker in self.workers:
                if worker.poll() is not None:
                    how = how_it_ended(worker.returncode, len(self.workers))
                    raise CofillError(f"a worker did not start: {how}; what it said stands above")
            try:
                summaries.append(self._said.get(timeout=_SECONDS_BETWEEN_LOOKS))
            except queue.Empty:
                continue
        if not self._told.to_stop.is_set():
            ready(summaries[0])

    def watch(self) -> None:
        """Watch and replace workers until this process is told to stop; an error if they cannot be replaced."""
        while not self._told.to_stop.wait(_SECONDS_BETWEEN_LOOKS):
            if self._told.hung_up.is_set():
                self._told.hung_up.clear()
                if self._terminal.is_gone():
                    return
                self._told.to_reload.set()
            if self._told.to_reload.is_set():
                self._reload()
            for at, worker in enumerate(self.workers):
                if worker.poll() is not None:
                    how = how_it_ended(worker.returncode, len(self.workers))
                    self._failed += worker not in self._ready
                    if self._failed >= _MOST_FAILURES:  # the supervisor of this process sees the exit code
                        raise CofillError(f"a worker could not be started {self._failed} times in a row: {how}")
                    log.error("a worker is replaced: %s", how)
                    _let_go(worker)
                    self._ready.discard(worker)
                    multiprocess.mark_process_dead(worker.pid, self._figures)  # type: ignore[no-untyped-call]
                    time.sleep(_SECONDS_BETWEEN_STARTS)
                    self.workers[at] = self._begin()

    def drain(self) -> None:
        """Tell the workers to drain, and wait until they have ended; not for ever."""
        self._listening.close()  # the last of the workers closes it for good
        for worker in self.workers:
            worker.send_signal(signal.SIGTERM)
        most = self._settings.drain_seconds + self._settings.request_timeout + _SECONDS_TO_FINISH + _SECONDS_FOR_WORKERS
        until = time.monotonic() + most
        hurried = False
        while time.monotonic() < until and any(worker.poll() is None for worker in self.workers):
            if self._told.to_hurry.is_set() and not hurried:
                hurried = True
                for worker in self.workers:
                    worker.send_signal(_AT_ONCE)
            time.sleep(_SECONDS_BETWEEN_LOOKS / 4)

    def _reload(self) -> None:
        """Ask one ready worker to reload; the others follow through the database."""
        for worker in self.workers:
            if worker in self._ready and worker.poll() is None:
                self._told.to_reload.clear()
                worker.send_signal(signal.SIGHUP)
                return

    def _begin(self) -> subprocess.Popen[bytes]:
        threads = str(max(1, cores() // self._settings.workers))
        with interrupts_blocked():
            worker = subprocess.Popen(
                [sys.executable, "-m", "cofill.serving.processes", str(self._listening.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[self._listening.fileno()],
                env={**os.environ, **dict.fromkeys(THREADS_OF_LIBRARIES, threads), SHARED_FOLDER: self._figures},
            )
        assert worker.stdin is not None
        # Not as arguments, which everybody on the machine can read: the database's URL may have a password.
        worker.stdin.write(self._settings.model_dump_json().encode() + b"\n")
        worker.stdin.flush()
        threading.Thread(target=self._listen_to, args=(worker,), daemon=True).start()
        return worker

    def _listen_to(self, worker: subprocess.Popen[bytes]) -> None:
        assert worker.stdout is not None
        line = worker.stdout.readline()
        if line:
            self._ready.add(worker)
            self._failed = 0
            self._said.put(json.loads(line))


# One of several


def work() -> int:
    behave_as_worker()
    settings = ServingSettings.model_validate_json(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    listening = socket.socket(fileno=int(sys.argv[1]))
    try:
        serve_here(settings, listening, _say, interrupts=False)
    except CofillError as error:
        sys.stderr.write(f"cofill: {error}\n")
        return 1
    return 0


def _say(summary: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(summary) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    """Stop when the pipe from the parent closes, which it does however the parent ended."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(work())
