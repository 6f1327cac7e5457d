"""Checks before every route (keys, host, rate, size, time limit), and the headers of every response."""

import asyncio
import ipaddress
import logging
import time
from collections import OrderedDict
from math import ceil
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cofill.serving.cross_origin import CrossOrigin
from cofill.serving.keys import KeyRing
from cofill.serving.logs import AccessLog, of_request
from cofill.serving.metrics import Metrics
from cofill.serving.problem_types import ProblemType
from cofill.serving.problems import ProblemError
from cofill.serving.request_ids import HEADER as REQUEST_ID_HEADER
from cofill.serving.request_ids import REQUEST_ID, request_id
from cofill.serving.routing import CHANGES, JSON, SAFE_METHODS, UNTIL, Declared, Right, Routes
from cofill.serving.settings import LOOPBACK_NAMES, ServingSettings

log = logging.getLogger("cofill.serving")

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src {images}; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_NOT_STORED = (b"cache-control", b"no-store")
_MOST_DIGITS = 15  # of a length that is worth reading
_LONGEST_QUERY = 32 * 1024
_MOST_CLIENTS = 10_000  # that are remembered; the one that asked longest ago is forgotten first
_FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via")
"""Headers by which a reverse proxy tells that a request comes from elsewhere."""
_RATE = "cofill.rate"
"""Where a request's scope has the headers that say what is left of its client's rate limit."""


class _GoneError(Exception):
    """The client disconnected before the whole body had arrived."""


class Guard:
    """The outermost ASGI middleware."""

    def __init__(
        self, app: ASGIApp, settings: ServingSettings, metrics: Metrics, admission: "Admission", routes: Routes
    ) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._admission = admission
        self._routes = routes
        self._access_log = AccessLog(settings) if settings.access_log else None
        self._cross_origin = CrossOrigin(settings.allow_origin)
        self._under_way = 0
        policy = _POLICY.format(images=" ".join(["'self'", "data:", *settings.image_host]))
        self._headers = [(b"content-security-policy", policy.encode()), *_HEADERS]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = {**scope, REQUEST_ID: request_id(scope)}
        answer = _Answer(send, scope, self._cross_origin, self._headers)
        started = time.perf_counter()
        method = scope["method"]
        needed = self._routes.needed(scope["method"], scope["path"])
        try:
            await self._answered(scope, receive, answer, needed)
        except _GoneError:
            return
        except ProblemError as problem:
            await problem.response(scope["path"])(scope, receive, answer.send)
        except Exception as error:  # Starlette raises it again after its handler has answered
            if not answer.status:
                which = of_request(scope)
                log.error("%s %s: %r", scope["method"], scope["path"], error, exc_info=error, extra=which)
                await ProblemError(500, "something went wrong here").response(scope["path"])(
                    scope, receive, answer.send
                )
        route = getattr(scope.get("route"), "path", "none")
        seconds = time.perf_counter() - started
        self._metrics.answered(_known(method), route, answer.status, seconds)
        if self._access_log is not None:
            self._access_log.answered(scope, _known(method), route, answer.status, seconds)

    async def _answered(self, scope: Scope, receive: Receive, answer: "_Answer", needed: Declared) -> None:
        methods = self._routes.methods_at(scope["path"])
        preflight = self._cross_origin.preflight(scope, methods)
        if preflight is not None:
            self._admission.check(scope, Right.OPEN)  # a browser asks it without the key
            await Response(status_code=204, headers=preflight)(scope, receive, answer.send)
            return
        if self._under_way >= self._settings.concurrency and needed.right not in (Right.OPEN, Right.LIMITED):
            raise ProblemError(503, "too many requests are under way; try again", headers={"Retry-After": "1"})
        self._admission.check(scope, needed.right)
        if methods and scope["method"] not in methods:
            detail = "this address does not take that method; /openapi.json lists what there is"
            raise ProblemError(405, detail, headers={"Allow": ", ".join(methods)})
        if scope["method"] == "HEAD":  # as GET; `answer` leaves the body out
            scope["method"] = "GET"
        self._under_way += 1
        try:
            read = await self._read(scope, receive, needed)
            await self._answered_in_time(scope, read, answer, needed)
        finally:
            self._under_way -= 1

    async def _read(self, scope: Scope, receive: Receive, needed: Declared) -> Receive:
        """Read the whole body, if any, before it is parsed; a problem if it is too long or not declared as JSON."""
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        if length == b"0" and b"transfer-encoding" not in headers:
            return receive
        most = self._settings.body_bytes
        too_long = ProblemError(413, f"a body has at most {most} bytes", headers={"Connection": "close"})
        if not length.isdigit() or len(length) > _MOST_DIGITS or int(length) > most:
            raise too_long
        media_type = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if media_type != needed.media_type.encode():
            what = "JSON" if needed.media_type == JSON else "lines of JSON"
            detail = f"a body here is {what}: send Content-Type: {needed.media_type}"
            raise ProblemError(415, detail, headers={"Connection": "close"})
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

    async def _answered_in_time(self, scope: Scope, receive: Receive, answer: "_Answer", needed: Declared) -> None:
        """The application's response, or a problem after so many seconds.

        A thread cannot be stopped: its work continues, but nobody waits for it.
        """
        seconds = self._settings.seconds
        late = None
        if not needed.takes_long:
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
        late = ProblemError(503, detail, kind=ProblemType.OUT_OF_TIME, headers={"Retry-After": "1"})
        refusal = late.response(scope["path"])
        answer.refusal = asyncio.ensure_future(refusal(scope, receive, answer.send))


class _Answer:
    """A response with the headers that all responses have."""

    def __init__(self, send: Send, scope: Scope, cross_origin: CrossOrigin, headers: list[tuple[bytes, bytes]]) -> None:
        self._send = send
        self._headers = headers
        self._scope = scope
        self._cross_origin = cross_origin
        self._without_body = scope["method"] == "HEAD"
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
            headers.append((REQUEST_ID_HEADER, self._scope[REQUEST_ID].encode()))
            headers += self._scope.get(_RATE, ())
            headers += self._cross_origin.headers(self._scope)
            message = {**message, "headers": headers + self._headers}
        elif self._without_body:
            message = {**message, "body": b""}
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


def _known(method: str) -> str:
    """The HTTP method as a metric label; unusual ones share one label, so that clients cannot create new series."""
    return method if method in ("GET", "HEAD", "POST", "PUT", "DELETE") else "other"


# Who is let in


class Admission:
    """Access control. With keys, a key is needed. Without, only this machine has access, and no foreign web page."""

    def __init__(self, settings: ServingSettings) -> None:
        self._keys = None if settings.keys is None else KeyRing(settings.keys)
        self._rate = RateLimit(settings.requests_per_second, settings.burst)
        self._read_only = settings.read_only
        self._cross_origin = CrossOrigin(settings.allow_origin)
        self._names = {*LOOPBACK_NAMES, settings.host.strip("[]").lower()}

    def check(self, scope: Scope, right: Right) -> None:
        """Raise a problem unless the request is allowed."""
        if len(scope["query_string"]) > _LONGEST_QUERY:
            raise ProblemError(414, f"a query has at most {_LONGEST_QUERY} characters; send a body instead")
        headers = dict(scope["headers"])
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            raise ProblemError(
                400, "a request names one host", kind=ProblemType.NOT_HTTP, headers={"Connection": "close"}
            )
        if self._keys is None:
            self._check_host(headers)
            if right is not Right.READS and scope["method"] not in SAFE_METHODS:  # also where no route takes it
                self._check_origin(headers)
        client = f"address {scope['client'][0]}" if scope.get("client") else "address unknown"
        if right is Right.OPEN:
            return
        if self._keys is None or right is Right.LIMITED:
            self._rate.take(client, scope)
        else:
            self._check_key(self._keys, headers.get(b"authorization", b""), client, right, scope)
        if right is Right.WRITES and self._read_only:
            detail = "nothing can be written here: this server keeps nothing (--read-only)"
            raise ProblemError(403, detail, kind=ProblemType.READ_ONLY)

    def _check_key(self, keys: KeyRing, authorization: bytes, client: str, right: Right, scope: Scope) -> None:
        scheme, _, token = authorization.decode("latin-1").partition(" ")
        key = keys.find(token.strip()) if scheme.lower() == "bearer" else None
        if key is None:
            if authorization:  # whoever tries keys is slowed down, and nobody else
                self._rate.take(f"wrong keys from {client}", scope)
            raise ProblemError(
                401,
                "a key is needed here: send Authorization: Bearer KEY (`cofill keys new` makes one)",
                headers={"WWW-Authenticate": 'Bearer realm="cofill"'},
            )
        self._rate.take(f"key {key.name}", scope)
        if right in CHANGES and not key.write:
            raise ProblemError(403, f"the key {key.name!r} may read and not write; use one made with --write")

    def _check_host(self, headers: dict[bytes, bytes]) -> None:
        """Refuse foreign Host headers, against DNS rebinding, and what a proxy passes on from other machines."""
        if any(name in headers for name in _FORWARDED):
            raise ProblemError(
                421, "a proxy passed this request on, and without keys the server is for this machine; add --keys"
            )
        name = _host_name(headers.get(b"host", b"").decode("latin-1"))
        if name not in self._names and not _is_loopback(name):
            raise ProblemError(
                421, "the server is asked by a name that is not its own; use localhost, or start it with --keys"
            )

    def _check_origin(self, headers: dict[bytes, bytes]) -> None:
        """Refuse writes from foreign web pages (cross-site request forgery), even where the browser allows them."""
        origin = headers.get(b"origin")
        if self._cross_origin.allows(origin):
            return
        site = headers.get(b"sec-fetch-site", b"none")
        own = headers.get(b"host", b"").lower()
        foreign = origin is not None and origin.lower() not in (b"http://" + own, b"https://" + own)
        if foreign or site == b"cross-site":
            raise ProblemError(
                403,
                "a page of another origin may not write here; open this server's own page",
                kind=ProblemType.FOREIGN_ORIGIN,
            )


class RateLimit:
    """A token bucket for each client: refilled at a fixed rate, and each request takes one token."""

    def __init__(self, per_second: float, burst: int) -> None:
        """`per_second` 0: no limit."""
        self._per_second = per_second
        self._burst = float(burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when they were counted
        window = ceil(burst / per_second) if per_second else 0
        self._policy = (b"ratelimit-policy", f'"default";q={burst};w={window}'.encode())

    def take(self, client: str, scope: Scope | None = None) -> None:
        """Take a token; a problem if the client has none left. What is left is noted in the request's scope."""
        if not self._per_second:
            return
        now = time.monotonic()
        tokens, counted = self._buckets.pop(client, (self._burst, now))
        tokens = min(self._burst, tokens + (now - counted) * self._per_second)
        if scope is not None:
            scope[_RATE] = self._standing(max(0.0, tokens - 1))
        if tokens < 1:
            self._buckets[client] = tokens, now
            wait = ceil((1 - tokens) / self._per_second)
            raise ProblemError(
                429,
                f"more than {self._per_second:g} requests a second; ask again in {wait} s",
                headers={"Retry-After": str(wait)},
            )
        self._buckets[client] = tokens - 1, now
        if len(self._buckets) > _MOST_CLIENTS:
            self._buckets.popitem(last=False)

    def _standing(self, tokens: float) -> list[tuple[bytes, bytes]]:
        """As draft-ietf-httpapi-ratelimit-headers has it: how many are left, and in how many seconds all are again."""
        refilled = ceil((self._burst - tokens) / self._per_second)
        return [self._policy, (b"ratelimit", f'"default";r={int(tokens)};t={refilled}'.encode())]


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
