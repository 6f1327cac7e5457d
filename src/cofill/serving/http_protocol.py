"""uvicorn's HTTP protocol with limits on headers, idle time and connections, and problem+json for malformed HTTP."""

import asyncio
import resource
import select
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from itertools import count
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from cofill.serving.api.problems import MEDIA_TYPE, ProblemError, ProblemType
from cofill.serving.ops.logs import new_request_id

LONGEST_HEAD = 128 * 1024
_MOST_CONNECTIONS = 4096
_SECONDS_FOR_A_FIRST_REQUEST = 1.0  # on a connection that was made just before the server stops
_turns = count()
_OTHER_FILES = 100  # that a process has open: the database, above all


@cache
def most_connections() -> int:
    """The most connections at once in this process, which needs file descriptors for other things too."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_CONNECTIONS if files < 0 else max(1, min(_MOST_CONNECTIONS, files - _OTHER_FILES))


class BoundedHttp(HttpToolsProtocol):
    """HTTP with limits on the size of headers and on the time to wait for them."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._in_head = True
        self._ended = 0  # heads, parts of bodies, and whole requests
        self._head = 0  # bytes of a head that has not, or of what stands between or behind the parts of a body
        self._patience: asyncio.TimerHandle | None = None  # while a head is waited for
        self._turn = 0  # since when, in the order of all: the loop's clock stands still while many come at once

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()
        if len(self.connections) > most_connections():
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_longer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        ended = self._ended
        super().data_received(data)
        if self._ended != ended:
            self._head = 0
            return
        self._head += len(data)
        if self._head > LONGEST_HEAD:
            self._refuse(ProblemType.HEAD_TOO_LONG, "the head of a request is too long")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # what follows a body is read by nobody
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._ended += 1
        self._wait_no_longer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._ended += 1
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = True
        self._ended += 1

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():  # else the next one is under way
            self._wait_for_head()

    def shutdown(self) -> None:
        """Answer what was asked, and what is on its way; then close. All answers say `Connection: close` by now."""
        if self.cycle is not None and not self.cycle.response_complete:
            super().shutdown()
        elif self._head:  # a part of a request has arrived
            self._wait_for_head()
        else:
            self._wait_for_head(0.0 if self.cycle else _SECONDS_FOR_A_FIRST_REQUEST, self._close_if_silent)

    def _close_if_silent(self) -> None:
        connection = self.transport.get_extra_info("socket")
        if connection is not None and connection.fileno() >= 0 and is_readable(connection.fileno()):
            self._wait_for_head()  # it is about to be read
        else:
            self.timeout_keep_alive_handler()

    def _wait_for_head(self, seconds: float | None = None, then: Callable[[], None] | None = None) -> None:
        self._wait_no_longer()
        self._turn = next(_turns)
        patience = self.timeout_keep_alive if seconds is None else seconds
        self._patience = self.loop.call_later(patience, then or self.timeout_keep_alive_handler)

    def _wait_no_longer(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _make_room(self) -> None:
        """Close the connection that has been idle for the longest, which may be this one."""
        silent = [one for one in self.connections if isinstance(one, BoundedHttp) and one._patience is not None]
        longest = min(silent, key=lambda one: one._turn)
        longest._wait_no_longer()  # it is not chosen again
        longest.timeout_keep_alive_handler()

    def send_400_response(self, msg: str) -> None:
        self._refuse(ProblemType.NOT_HTTP, "this is no HTTP request")

    def _refuse(self, kind: ProblemType, detail: str) -> None:
        if self.transport.is_closing():
            return
        body = ProblemError(kind, detail).document("/")
        head = (
            f"HTTP/1.1 {kind.status} {HTTPStatus(kind.status).phrase}\r\ncontent-type: {MEDIA_TYPE}\r\n"
            f"content-length: {len(body)}\r\nx-request-id: {new_request_id()}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


def is_readable(descriptor: int) -> bool:
    """Whether something waits there: a connection to be accepted, or data to be read."""
    looking = select.poll()
    looking.register(descriptor, select.POLLIN)
    return bool(looking.poll(0))
