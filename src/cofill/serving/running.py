"""The server as a process: the address it listens at, its signals, and how it says that it is ready."""

import logging
import os
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn
from threadpoolctl import threadpool_limits

from cofill.data.features import UnknownFeatureWarning
from cofill.errors import CofillError, SettingsError
from cofill.serving.app import Application
from cofill.serving.http_protocol import BoundedHttp
from cofill.serving.settings import ServingSettings

log = logging.getLogger("cofill.serving")

Ready = Callable[[dict[str, Any]], None]

_SECONDS_TO_FINISH = 10  # what is under way when the server is told to stop
_SECONDS_OF_SILENCE = 30  # after which a connection is closed
_BACKLOG = 2048


def listen(settings: ServingSettings) -> socket.socket:
    """A socket at the address, which processes can share."""
    place = f"{settings.host}:{settings.port}"
    try:
        family, _, _, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise _cannot_listen(place, error) from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise _cannot_listen(place, error) from None
    listening.set_inheritable(True)
    return listening


def _cannot_listen(place: str, error: OSError) -> SettingsError:
    return SettingsError(f"{place}: cannot listen there: {error.strerror}; choose another --host or --port")


def address_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if listening.family == socket.AF_INET6 else f"http://{host}:{port}"


def serve_here(settings: ServingSettings, listening: socket.socket, ready: Ready, *, interrupts: bool = True) -> None:
    """Serve in this process until it is told to stop; `interrupts`: also from the terminal."""
    speak_plainly()
    # Scoring waits for memory, not for arithmetic: with two threads of BLAS a request took 4.6 ms instead of 2.7.
    threadpool_limits(1, "blas")
    with _deaf_to_hangups():
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
        timeout_graceful_shutdown=_SECONDS_TO_FINISH,
    )
    _Server(config, application, lambda: ready(_summary(application)), interrupts).run(sockets=[listening])


@contextmanager
def _deaf_to_hangups() -> Iterator[None]:
    """What is being read is as new as it can be; SIGHUP would end the process."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


class Terminal:
    """Where this process was started from. When it is closed, it sends the signal that asks others to reload."""

    def __init__(self) -> None:
        self._was_there = os.isatty(0)

    def is_gone(self) -> bool:
        return self._was_there and not os.isatty(0)


class _Server(uvicorn.Server):
    """uvicorn, which says when it is ready, reloads the model on SIGHUP, and ends well when it is told to."""

    def __init__(
        self, config: uvicorn.Config, application: Application, ready: Callable[[], None], interrupts: bool
    ) -> None:
        super().__init__(config)
        self._application = application
        self._ready = ready
        self._terminal = Terminal()
        self._stop_signals = [signal.SIGTERM, signal.SIGINT] if interrupts else [signal.SIGTERM]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self.handle_exit) for number in self._stop_signals}
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._reload)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

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


def speak_plainly() -> None:
    """A line for each thing worth knowing, on standard error."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    log.setLevel(logging.INFO)
    logging.captureWarnings(True)
    warnings.simplefilter("ignore", UnknownFeatureWarning)  # what others write is no news to whoever runs the server


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
