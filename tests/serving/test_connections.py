"""Connections over which nobody says anything: closed in time, and never in the way of somebody who asks."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import httpx
import pytest
import uvicorn
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cofill.serving.http_protocol import BoundedHttp

SILENCE = 3  # longer than a busy machine takes from a connection to its first word
MOST = 20
HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["path"] == "/slow":
        await asyncio.sleep(1.5 * SILENCE)
    await Response("here")(scope, receive, send)


@contextlib.contextmanager
def serving(silence: int) -> Iterator[tuple[str, int]]:
    """The address of a server that closes a connection after so many seconds of silence."""
    config = uvicorn.Config(
        application, http=BoundedHttp, ws="none", lifespan="off", log_config=None, timeout_keep_alive=silence
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        running.start()
        try:
            yield listening.getsockname()
        finally:
            server.should_exit = True
            running.join(60)


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    """Of a server that is soon out of patience."""
    with serving(SILENCE) as where:
        yield where


def test_silence_ends(address: tuple[str, int]) -> None:
    said = [b"", HEAD, HEAD + b"\r\n", HEAD + b"\r\nG", HEAD + b"\r\n" + HEAD]
    started = time.monotonic()
    with contextlib.ExitStack() as open_ones:
        connections = [open_ones.enter_context(socket.create_connection(address, 60)) for _ in said]
        for connection, words in zip(connections, said, strict=True):
            connection.sendall(words)
        for connection, words in zip(connections, said, strict=True):
            heard = b""
            while part := connection.recv(65536):
                heard += part
            assert heard.count(b"HTTP/1.1 200 ") == words.count(b"\r\n\r\n")
    assert time.monotonic() - started >= SILENCE - 0.1


def test_a_head_that_trickles_in_is_no_longer_waited_for(address: tuple[str, int]) -> None:
    with socket.create_connection(address, 0.1) as connection:
        connection.sendall(HEAD + b"X: ")
        for _ in range(600):
            try:
                connection.sendall(b"x")
                assert connection.recv(1) == b""
                return
            except TimeoutError:
                continue
            except ConnectionError:
                return
    raise AssertionError("it is still open")


def test_a_slow_answer_is_no_silence(address: tuple[str, int]) -> None:
    with httpx.Client(base_url="http://{}:{}".format(*address), timeout=60) as client:
        assert client.get("/slow").text == "here"


def test_the_longest_silent_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cofill.serving.http_protocol.most_connections", lambda: MOST)
    patience = 3600  # so that nobody is closed for silence, but to make room
    with serving(patience) as address, httpx.Client(base_url="http://{}:{}".format(*address), timeout=60) as client:
        silent = [socket.create_connection(address, 60) for _ in range(3 * MOST)]
        try:
            assert client.get("/health").text == "here"
            assert silent[0].recv(1) == b""
        finally:
            for connection in silent:
                connection.close()
