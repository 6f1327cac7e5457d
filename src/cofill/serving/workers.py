"""Several processes behind one address: started, watched, replaced when one dies, and stopped together."""

import json
import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prometheus_client import multiprocess

from cofill.cores import cores
from cofill.errors import CofillError
from cofill.processes import THREADS_OF_LIBRARIES, how_it_ended, stop_workers
from cofill.serving.metrics import FOLDER
from cofill.serving.running import Ready, Terminal, speak_plainly
from cofill.serving.settings import ServingSettings

log = logging.getLogger("cofill.serving")

_SECONDS_BETWEEN_LOOKS = 0.2
_SECONDS_TO_STOP = 15.0


def serve_by_workers(settings: ServingSettings, listening: socket.socket, ready: Ready) -> None:
    """Serve by `settings.workers` processes until this one is told to stop."""
    speak_plainly()
    with tempfile.TemporaryDirectory(prefix="cofill-figures-") as figures, _told_to_stop() as told:
        crew = _Crew(settings, listening, figures, told)
        try:
            crew.start(ready)
            crew.watch()
        finally:
            stop_workers(crew.workers, _SECONDS_TO_STOP)
            for worker in crew.workers:
                _let_go(worker)


def _let_go(worker: subprocess.Popen[bytes]) -> None:
    """Close the pipes to one that has ended."""
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            pipe.close()


class _Told:
    """What this process was told by signals."""

    def __init__(self) -> None:
        self.to_stop = threading.Event()
        self.to_reload = threading.Event()


@contextmanager
def _told_to_stop() -> Iterator[_Told]:
    told = _Told()
    numbers = {signal.SIGTERM: told.to_stop, signal.SIGINT: told.to_stop, signal.SIGHUP: told.to_reload}
    before = {number: signal.signal(number, lambda *_, event=event: event.set()) for number, event in numbers.items()}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Crew:
    def __init__(self, settings: ServingSettings, listening: socket.socket, figures: str, told: _Told) -> None:
        self._settings = settings
        self._listening = listening
        self._figures = figures
        self._told = told
        self.workers: list[subprocess.Popen[bytes]] = []
        self._ready: set[subprocess.Popen[bytes]] = set()
        self._terminal = Terminal()
        self._said: queue.Queue[dict[str, Any]] = queue.Queue()

    def start(self, ready: Ready) -> None:
        """All of them; returns once everyone serves."""
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
        """Until this process is told to stop."""
        while not self._told.to_stop.wait(_SECONDS_BETWEEN_LOOKS):
            if self._told.to_reload.is_set():
                if self._terminal.is_gone():
                    return
                self._reload()
            for at, worker in enumerate(self.workers):
                if worker.poll() is not None:
                    log.error("a worker is replaced: %s", how_it_ended(worker.returncode, len(self.workers)))
                    _let_go(worker)
                    self._ready.discard(worker)
                    multiprocess.mark_process_dead(worker.pid, self._figures)  # type: ignore[no-untyped-call]
                    time.sleep(1)  # one that cannot start shall not keep the machine busy
                    self.workers[at] = self._begin()

    def _reload(self) -> None:
        """By one that listens, as soon as there is one; the others follow it by the database."""
        for worker in self.workers:
            if worker in self._ready and worker.poll() is None:
                self._told.to_reload.clear()
                worker.send_signal(signal.SIGHUP)
                return

    def _begin(self) -> subprocess.Popen[bytes]:
        threads = str(max(1, cores() // self._settings.workers))
        worker = subprocess.Popen(
            [sys.executable, "-m", "cofill.serving.worker", str(self._listening.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[self._listening.fileno()],
            env={**os.environ, **dict.fromkeys(THREADS_OF_LIBRARIES, threads), FOLDER: self._figures},
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
            self._said.put(json.loads(line))
