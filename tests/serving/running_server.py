"""A real server in a process of its own, and the same application in this process."""

import json
import logging
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from cofill.serving.api.problems import ProblemType
from cofill.serving.app import Application
from cofill.serving.http_protocol import BoundedHttp
from cofill.serving.settings import ServingSettings
from tests.warm_processes import WarmProcess, with_output_to_pipe

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # made once: each client would read all certificates
PATIENCE = 600.0  # seconds that a request may take: a busy machine is no reason to be refused
KINDS = {kind.uri: kind for kind in ProblemType}


class Asked:
    """Whatever answers requests, with short ways to ask."""

    told: dict[str, Any]

    def reach(self, address: str) -> None:
        self.client = httpx.Client(base_url=address, timeout=PATIENCE, verify=NO_TLS)

    def recommended(self, user: object, n: int = 10, **more: Any) -> list[dict[str, Any]]:
        answer = self.client.get("/v1/recommendations", params={"user": str(user), "n": n, **more})
        assert answer.status_code == 200, answer.text
        items: list[dict[str, Any]] = answer.json()["items"]
        return items

    def rate(self, user: object, ratings: dict[Any, float]) -> None:
        given = [{"item": item, "rating": rating} for item, rating in ratings.items()]
        answer = self.client.put("/v1/ratings", json={"user": user, "ratings": given})
        assert (answer.status_code, answer.json()) == (200, {"stored": len(ratings)})

    def ratings(self, user: object) -> dict[Any, float]:
        answer = self.client.get("/v1/ratings", params={"user": str(user)})
        assert answer.status_code == 200, answer.text
        return {entry["item"]: entry["rating"] for entry in answer.json()["ratings"]}

    def new_user(self) -> Any:
        answer = self.client.post("/v1/users")
        assert answer.status_code == 201
        return answer.json()["id"]


_THREAD = "served here"


class _Failures(logging.Handler):
    """What servers in threads log with a trace; other tests of this process break applications of their own."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.traces: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.threadName == _THREAD:
            self.traces.append(record.getMessage())


class ServedHere(Asked):
    """A server in a thread, for tests that only ask: it starts no process."""

    def __init__(self, model: Path, **settings: Any) -> None:
        limits = {"requests_per_second": 0.0, "request_timeout": PATIENCE}
        self.application = Application(ServingSettings(model=model, **(limits | settings)))
        config = uvicorn.Config(
            self.application.asgi, http=BoundedHttp, ws="none", log_config=None, access_log=False, server_header=False
        )
        self._server = uvicorn.Server(config)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._running = threading.Thread(target=self._server.run, name=_THREAD, kwargs={"sockets": [self._listening]})
        self._running.start()
        address = "http://{}:{}".format(*self._listening.getsockname())
        self.told = {
            "address": address, "version": self.application.live.served.card.version, "model": str(model)
        }  # fmt: skip
        self.reach(address)
        self.failures = _Failures()
        logging.getLogger("cofill.serving").addHandler(self.failures)

    def stop(self) -> None:
        self.client.close()
        logging.getLogger("cofill.serving").removeHandler(self.failures)
        self._server.should_exit = True
        self._running.join(PATIENCE)


class ServedTwice(ServedHere):
    """Two servers of the same models and one database, as two processes are, without their start."""

    def __init__(self, model: Path, **settings: Any) -> None:
        super().__init__(model, **settings)
        self._other = ServedHere(model, **settings)
        self.clients = cycle([self.client, self._other.client])
        """Of one and of the other in turn."""

    def stop(self) -> None:
        super().stop()
        self._other.stop()


class Server(Asked):
    """`cofill serve` on a free port, ready when this is made.

    With --model=NAME=FOLDER among the options, of those models; `model` says where the log goes. `from_nothing` starts
    it as somebody would; otherwise it is a fork of a process that has done the imports.
    """

    process: "WarmProcess | subprocess.Popen[bytes]"

    def __init__(
        self, model: Path, *options: str, environment: dict[str, str] | None = None, from_nothing: bool = False
    ) -> None:
        self.log = model.parent / f"{model.name}-{time.monotonic_ns()}.log"
        one = [] if any(option.startswith("--model=") for option in options) else [str(model)]
        words = ["serve", *one, "--port", "0", "--json", f"--request-timeout={PATIENCE:g}", *options]
        variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", **(environment or {})}
        with self.log.open("wb") as errors:
            if from_nothing:
                command = [sys.executable, "-m", "cofill.cli", *words]
                self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=variables)
            else:
                self.process = with_output_to_pipe(words, stderr=errors.fileno(), env=variables)
        assert self.process.stdout is not None
        lines = b""
        while not lines.rstrip().endswith(b"}"):
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(f"the server did not start: {self.errors()}")
            lines += line
        self.told = json.loads(lines)
        self.reach(self.told["address"])

    def errors(self) -> str:
        return self.log.read_text()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Its exit code."""
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


def problem(answer: httpx.Response, status: int) -> str:
    """The detail of a problem, after its shape was found right."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document.keys() - {"errors"} == {"type", "title", "status", "detail", "instance"}
    assert document["status"] == status
    kind = KINDS[document["type"]]
    assert (kind.status, kind.title) == (status, document["title"])
    assert answer.headers["x-request-id"]
    assert "Traceback" not in answer.text
    detail: str = document["detail"]
    return detail
