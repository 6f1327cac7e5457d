"""Servers of `POST /v1/events` alone, which start at once, for a test that kills many: each is a fork of one process.

They are the route, the log and the database of `cofill serve`, behind the same HTTP server, without a model.

python -m tests.serving.event_servers    reads URLs of databases, a line for each server
"""

import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import TracebackType
from typing import Any, Self

# What a server would otherwise import when it starts.
_LATER = (
    "psycopg", "sqlalchemy.dialects.postgresql.psycopg", "sqlalchemy.dialects.sqlite.pysqlite",
    "uvicorn.lifespan.off", "uvicorn.loops.auto", "uvicorn.protocols.http.auto", "uvicorn.protocols.websockets.auto",
)  # fmt: skip


class EventServers:
    """The process that forks. One server at a time."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._child: int | None = None

    def __enter__(self) -> Self:
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "tests.serving.event_servers"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._child is not None:
            self.kill()
        self._parent.communicate()

    def start(self) -> str:
        """The address of a server that listens."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(json.dumps(self._database).encode() + b"\n")
        self._parent.stdin.flush()
        told: dict[str, Any] = json.loads(self._parent.stdout.readline())
        self._child = int(told["pid"])
        return str(told["address"])

    def kill(self) -> None:
        """At once, in the middle of whatever it does."""
        assert self._child is not None
        os.kill(self._child, signal.SIGKILL)
        self._child = None


class _AnyModel:
    """Stands in for a model in whose catalogue everything is."""

    @contextmanager
    def asked(self) -> Iterator[Self]:
        yield self

    def takes_item(self, item: object, *, open_catalogue: bool) -> bool:
        return open_catalogue


def main() -> None:
    import uvicorn
    from fastapi import FastAPI

    from cofill.serving.database import Store, database_url
    from cofill.serving.event_log import EventLog
    from cofill.serving.problems import add_handlers
    from cofill.serving.routes_events import add_events
    from cofill.serving.routing import Routes
    from cofill.serving.settings import DEFAULT_EVENT_WEIGHTS

    for name in _LATER:
        import_module(name)
    assert len(os.listdir("/proc/self/task")) == 1, "a fork of a process with threads may hang"  # noqa: PTH208
    gc.collect()
    gc.freeze()  # a child shall not copy memory by looking for garbage
    for line in sys.stdin:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        store = Store(database_url(json.loads(line)))
        store.open()
        app = FastAPI()
        add_handlers(app)
        any_model: Any = _AnyModel()
        log = EventLog(store, DEFAULT_EVENT_WEIGHTS)
        add_events(Routes(app.router), any_model, log, DEFAULT_EVENT_WEIGHTS, open_catalogue=True)
        listening = socket.create_server(("127.0.0.1", 0))
        listening.listen(64)
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        sys.stdout.write(json.dumps({"pid": os.getpid(), "address": address}) + "\n")
        sys.stdout.flush()
        uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off")).run(sockets=[listening])
        os._exit(1)


if __name__ == "__main__":
    main()
