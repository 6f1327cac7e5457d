"""What stands before every route: who asks, from where, how much, for how long; and the headers of every answer."""

import asyncio
import logging
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cofill.serving.admission import Admission, is_open
from cofill.serving.asking import UNTIL
from cofill.serving.metrics import Metrics
from cofill.serving.problems import ProblemError
from cofill.serving.settings import ServingSettings

log = logging.getLogger("cofill.serving")

_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_NOT_STORED = (b"cache-control", b"no-store")
_MOST_DIGITS = 15  # of a length that is worth reading
_UNLIMITED = "/v1/model/reload"  # reading a large model may take minutes


class _GoneError(Exception):
    """Whoever asked has left before all was said."""


class Guard:
    """The outermost part of the application."""

    def __init__(self, app: ASGIApp, settings: ServingSettings, metrics: Metrics, admission: Admission) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._admission = admission
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send)
        started = time.perf_counter()
        try:
            if self._under_way >= self._settings.concurrency and not is_open(scope["path"]):
                raise ProblemError(503, "too many requests are under way; try again", headers={"Retry-After": "1"})
            self._admission.check(scope)
            self._under_way += 1
            try:
                read = await self._read(scope, receive)
                await self._answered_in_time(scope, read, answer)
            finally:
                self._under_way -= 1
        except _GoneError:
            return
        except ProblemError as problem:
            await problem.response(scope["path"])(scope, receive, answer.send)
        except Exception as error:  # Starlette raises it again after its handler has answered
            if not answer.status:
                log.error("%s %s: %r", scope["method"], scope["path"], error, exc_info=error)
                await ProblemError(500, "something went wrong here").response(scope["path"])(
                    scope, receive, answer.send
                )
        route = getattr(scope.get("route"), "path", "none")
        self._metrics.answered(_method(scope), route, answer.status, time.perf_counter() - started)

    async def _read(self, scope: Scope, receive: Receive) -> Receive:
        """The whole body, if there is one, before anybody parses it; a problem where it is too long or no JSON."""
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        if length == b"0" and b"transfer-encoding" not in headers:
            return receive
        most = self._settings.body_bytes
        too_long = ProblemError(413, f"a body has at most {most} bytes", headers={"Connection": "close"})
        if not length.isdigit() or len(length) > _MOST_DIGITS or int(length) > most:
            raise too_long
        media_type = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if media_type != b"application/json":
            raise ProblemError(
                415, "a body is JSON: send Content-Type: application/json", headers={"Connection": "close"}
            )
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._settings.seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _GoneError  # a part of a body may look like a whole one
                    part = message.get("body", b"")
                    parts.append(part)
                    size += len(part)
                    if size > most:
                        raise too_long
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise ProblemError(408, "the body did not arrive in time", headers={"Connection": "close"}) from None
        return _replayed(b"".join(parts), receive)

    async def _answered_in_time(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        """The application's answer, or a problem after so many seconds.

        A thread cannot be stopped: what it works on goes on, and nobody waits for it.
        """
        seconds = self._settings.seconds
        late = None
        if scope["path"] != _UNLIMITED:
            scope[UNTIL] = time.monotonic() + seconds
            late = asyncio.get_running_loop().call_later(seconds, self._give_up, scope, receive, answer)
        try:
            await self._app(scope, receive, answer.from_app)
        finally:
            if late is not None:
                late.cancel()
            if answer.refusal is not None:  # it may not have been sent yet
                await answer.refusal

    def _give_up(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        if answer.status:
            return
        detail = f"no answer within {self._settings.seconds:g} seconds; a write may have been done or not"
        refusal = ProblemError(503, detail, headers={"Retry-After": "1"}).response(scope["path"])
        answer.refusal = asyncio.ensure_future(refusal(scope, receive, answer.send))


class _Answer:
    """What is sent, with the headers that every answer has."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.refusal: asyncio.Future[None] | None = None
        """Sent in place of the application's answer: from then on the application speaks into the void."""
        self.status = 0

    async def from_app(self, message: Message) -> None:
        if self.refusal is None:
            await self.send(message)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers: list[tuple[bytes, bytes]] = list(message.get("headers", ()))
            if all(name != b"cache-control" for name, _ in headers):
                headers.append(_NOT_STORED)
            message = {**message, "headers": headers + _HEADERS}
        await self._send(message)


def _replayed(body: bytes, receive: Receive) -> Receive:
    told = False

    async def again() -> dict[str, Any]:
        nonlocal told
        if told:
            return dict(await receive())
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _method(scope: Scope) -> str:
    """Of the usual ones: a client cannot make up new series."""
    return scope["method"] if scope["method"] in ("GET", "HEAD", "POST", "PUT", "DELETE") else "other"
