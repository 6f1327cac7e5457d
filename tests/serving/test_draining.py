"""A server that is told to stop, or to reload, while it is busy: nobody who is connected goes without an answer."""

import random
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from tests.serving.conftest import USERS, Start
from tests.serving.running_server import NO_TLS, Server, problem
from tests.waiting import wait_until

HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


class Client(threading.Thread):
    """Asks without end, until nobody listens any more; anything but an answer before that is a failure."""

    def __init__(self, address: str, *, fresh: bool, writes: bool, seed: int) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._fresh = fresh  # a connection for every request, or one for as many as the server lets
        self._writes = writes
        self._random = random.Random(seed)
        self.answered = 0
        self.closing = 0  # answers that said that the connection ends
        self.failure: str | None = None

    def run(self) -> None:
        client = httpx.Client(base_url=self._address, timeout=60, verify=NO_TLS)
        try:
            while True:
                if self._fresh:
                    client.close()
                    client = httpx.Client(base_url=self._address, timeout=60, verify=NO_TLS)
                answer = self._ask(client)
                if answer.status_code != 200:
                    self.failure = answer.text
                    return
                self.answered += 1
                self.closing += answer.headers.get("connection") == "close"
        except httpx.ConnectError as error:
            if "refused" not in str(error):
                self.failure = repr(error)
        except httpx.TransportError as error:
            if not (self._fresh and self.closing):  # a new connection may be reset in the moment of closing
                self.failure = repr(error)
        finally:
            client.close()

    def _ask(self, client: httpx.Client) -> httpx.Response:
        user = self._random.randint(1, USERS)
        if self._writes:
            return client.put("/v1/ratings", json={"user": user, "ratings": [{"item": 3, "rating": 4.0}]})
        return client.get("/v1/recommendations", params={"user": user})


@contextmanager
def under_load(address: str) -> Iterator[list[Client]]:
    kinds = [(fresh, writes) for fresh in (True, False) for writes in (True, False)] + [(True, False), (False, False)]
    clients = [Client(address, fresh=fresh, writes=writes, seed=seed) for seed, (fresh, writes) in enumerate(kinds)]
    for client in clients:
        client.start()
    yield clients
    for client in clients:
        client.join(60)
    assert [client.failure for client in clients] == [None] * len(clients)
    assert not any(client.is_alive() for client in clients)


def more(clients: list[Client], count: int) -> None:
    """Wait until every client had so many more answers."""
    goals = [client.answered + count for client in clients]
    wait_until(lambda: all(one.failure or one.answered >= goal for one, goal in zip(clients, goals, strict=True)))


def connected(server: Server) -> socket.socket:
    """A connection over which nothing was said yet."""
    parts = urlsplit(server.told["address"])
    return socket.create_connection((parts.hostname, parts.port or 0), timeout=60)


def answer_to(connection: socket.socket, request: bytes) -> bytes:
    connection.sendall(request)
    said = b""
    while part := connection.recv(65536):
        said += part
    return said


def ready(server: Server) -> httpx.Response:
    return httpx.get(server.told["address"] + "/ready", timeout=60)


def refused(server: Server) -> bool:
    try:
        connected(server).close()
    except ConnectionRefusedError:
        return True
    return False


def test_nobody_goes_without_an_answer(model: Path, start: Start) -> None:
    """Each worker drains as a server of one process does."""
    server = start(model, "--workers=2", "--drain-seconds=3600", "--requests-per-second=0")
    with under_load(server.told["address"]) as clients:
        more(clients, 3)
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: server.errors().count("serving ") >= 1)
        more(clients, 5)
        assert all(client.closing == 0 for client in clients)
        with closing(connected(server)) as silent, closing(connected(server)) as half:
            half.sendall(HEAD)
            server.process.send_signal(signal.SIGTERM)
            wait_until(lambda: ready(server).status_code == 503)
            # Requests are still taken, over connections old and new, each of which ends with its answer.
            wait_until(lambda: all(client.closing or client.failure for client in clients))
            assert b"connection: close" in answer_to(half, b"\r\n")
            assert b"connection: close" in answer_to(silent, HEAD + b"\r\n")
            assert "is stopping" in problem(ready(server), 503)
            server.process.send_signal(signal.SIGTERM)  # the second: nobody waits for an hour
    assert server.process.wait(60) == 0
    assert not re.search("ERROR|Traceback", server.errors())


def test_what_is_under_way_is_finished_even_in_a_hurry(model: Path, start: Start) -> None:
    server = start(model, "--drain-seconds=3600")
    body = b'{"user": 1, "ratings": [{"item": 3, "rating": 4.5}]}'
    about = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with closing(connected(server)) as slow, closing(connected(server)) as late:
        slow.sendall(b"PUT /v1/ratings HTTP/1.1\r\nHost: localhost\r\n" + about.encode() + body[:10])
        late.sendall(HEAD[:-5])
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: ready(server).status_code == 503)
        server.process.send_signal(signal.SIGINT)  # nobody waits for an hour
        wait_until(lambda: refused(server))
        assert server.process.poll() is None
        answered = answer_to(slow, body[10:])
        assert answered.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in answered
        assert answer_to(late, HEAD[-5:] + b"\r\n").startswith(b"HTTP/1.1 200 ")
    assert server.process.wait(60) == 0
