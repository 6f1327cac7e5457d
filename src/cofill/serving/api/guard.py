"""Checks before every route (keys, host, rate, size, time limit), and the headers of every response."""

import asyncio
import ipaddress
import logging
import time
from collections import OrderedDict
from enum import Enum
from functools import partial
from math import ceil
from typing import Any
from urllib.parse import urlsplit

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cofill.serving.api.keys import KeyRight, KeyRing
from cofill.serving.api.problems import ProblemError, ProblemType, busy
from cofill.serving.api.requests import JSON, LINES
from cofill.serving.ops.logs import HEADER as REQUEST_ID_HEADER
from cofill.serving.ops.logs import REQUEST_ID, AccessLog, of_request, request_id
from cofill.serving.ops.metrics import Metrics
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
ALLOW = "cofill.allow"
"""In the scope of a request: what raises a problem unless it has a right that is asked for later than the others."""
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
"""They change nothing (RFC 9110)."""
_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")


# Which right a route needs


class Right(Enum):
    """The permission that a route needs."""

    OPEN = "open at any rate and however busy the server is: it is answered from memory"
    LIMITED = "open at a limited rate and however busy the server is: it asks the database"
    READS = "any key will do"
    WRITES = (
        "a key that may write; without keys, no page of another origin; refused where nothing is kept (--read-only)"
    )
    DELETES = "the same, with an admin key: what is deleted does not come back"
    OPERATES = "an admin key, where nothing is kept too: it is about the server, not about what people do"


_OPEN = ("/", "/docs", "/health")
_OPEN_BELOW = ("/docs/", "/page/")
_LIMITED = ("/ready",)
_ASKING = ("/v1/basket", "/v1/predictions", "/v1/recommendations", "/v1/recommendations/batch", "/v1/why")
"""What is asked with POST because the question is long."""
_OPERATING = ("/v1/model/reload", "/v1/model/rollback", "/v1/model/retrain")
"""They take as long as reading a model takes: no time limit."""
_WATCHING = ("/v1/click-through", "/v1/events", "/v1/model/trainings")
"""What is read there is about all people."""
_DELETING = ("/v1/item", "/v1/user")
_KEYS: dict[Right, tuple[KeyRight, ...]] = {
    Right.WRITES: ("write", "admin"),
    Right.DELETES: ("admin",),
    Right.OPERATES: ("admin",),
}
"""The keys that will do where not every key will."""
_IN_LINES = ("/v1/items/bulk", "/v1/users/bulk")


def right_of(method: str, path: str) -> Right:
    """The permission that a request needs: to read with a safe method, else to write, with few exceptions.

    What no route takes needs it too, and is refused by the application (404, 405).
    """
    if path in _OPEN or path.startswith(_OPEN_BELOW):
        return Right.OPEN
    if path in _LIMITED:
        return Right.LIMITED
    if method in _SAFE_METHODS and path in _WATCHING:
        return Right.OPERATES
    if method in _SAFE_METHODS or (method == "POST" and path in _ASKING):
        return Right.READS
    if path in _OPERATING:
        return Right.OPERATES
    return Right.DELETES if method == "DELETE" and path in _DELETING else Right.WRITES


# Before every route


class _GoneError(Exception):
    """The client disconnected before the whole body had arrived."""


def guarded(app: ASGIApp, settings: ServingSettings, metrics: Metrics) -> ASGIApp:
    """The application behind the guard, and open to the pages of the origins that are on the list."""
    guard = Guard(app, settings, metrics)
    if not settings.allow_origin:
        return guard
    name = REQUEST_ID_HEADER.decode()
    return CORSMiddleware(
        guard,
        allow_origins=settings.allow_origin,
        allow_methods=_METHODS,
        allow_headers=("authorization", "content-type", name),
        expose_headers=("retry-after", name),
    )


class Guard:
    """ASGI middleware around the application."""

    def __init__(self, app: ASGIApp, settings: ServingSettings, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._admission = Admission(settings)
        self._access_log = AccessLog(settings) if settings.access_log else None
        self._under_way = 0
        policy = _POLICY.format(images=" ".join(["'self'", "data:", *settings.image_host]))
        self._headers = [(b"content-security-policy", policy.encode()), *_HEADERS]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = {**scope, REQUEST_ID: request_id(scope)}
        method = scope["method"]
        scope[ALLOW] = partial(self._admission.check, scope)
        answer = _Answer(send, scope, self._headers)
        started = time.perf_counter()
        try:
            await self._answered(scope, receive, answer)
        except _GoneError:
            return
        except ProblemError as problem:
            await problem.response(scope["path"])(scope, receive, answer.send)
        except Exception as error:  # Starlette raises it again after its handler has answered
            if not answer.status:
                which = of_request(scope)
                log.error("%s %s: %r", scope["method"], scope["path"], error, exc_info=error, extra=which)
                unforeseen = ProblemError(ProblemType.SERVER_ERROR, "something went wrong here")
                await unforeseen.response(scope["path"])(scope, receive, answer.send)
        route = getattr(scope.get("route"), "path", "none")
        seconds = time.perf_counter() - started
        known = method if method in _METHODS else "other"  # so that clients cannot create new series
        self._metrics.answered(known, route, answer.status, seconds)
        if self._access_log is not None:
            self._access_log.answered(scope, known, route, answer.status, seconds)

    async def _answered(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        right = right_of(scope["method"], scope["path"])
        if self._under_way >= self._settings.concurrency and right not in (Right.OPEN, Right.LIMITED):
            raise busy("too many requests are under way")
        self._admission.check(scope, right)
        if scope["method"] == "HEAD":  # as GET; `answer` leaves the body out
            scope["method"] = "GET"
        self._under_way += 1
        try:
            read = await self._read(scope, receive)
            await self._answered_in_time(scope, read, answer)
        finally:
            self._under_way -= 1

    async def _read(self, scope: Scope, receive: Receive) -> Receive:
        """Read the whole body, if any, before it is parsed; a problem if it is too long or not declared as JSON."""
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        if length == b"0" and b"transfer-encoding" not in headers:
            return receive
        most = self._settings.body_bytes
        close = {"Connection": "close"}
        too_long = ProblemError(ProblemType.BODY_TOO_LONG, f"a body has at most {most} bytes", headers=close)
        if not length.isdigit() or len(length) > _MOST_DIGITS or int(length) > most:
            raise too_long
        wanted, what = (LINES, "lines of JSON") if scope["path"] in _IN_LINES else (JSON, "JSON")
        media_type = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if media_type != wanted.encode():
            detail = f"a body here is {what}: send Content-Type: {wanted}"
            raise ProblemError(ProblemType.NOT_DECLARED_AS_JSON, detail, headers=close)
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._settings.request_timeout):
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
            raise ProblemError(ProblemType.BODY_TOO_LATE, "the body did not arrive in time", headers=close) from None
        return _replayed(b"".join(parts), receive)

    async def _answered_in_time(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        """The application's response, or a problem after so many seconds.

        What waits for the model or the database by then is cancelled. A thread cannot be stopped: its work goes on.
        """
        seconds = None if scope["path"] in _OPERATING else self._settings.request_timeout
        try:
            async with asyncio.timeout(seconds) as answer.limit:
                await self._app(scope, receive, answer.send)
        except TimeoutError:
            if answer.status:
                raise
            detail = f"no answer within {seconds:g} seconds; a write may have been done or not"
            raise ProblemError(ProblemType.OUT_OF_TIME, detail, headers={"Retry-After": "1"}) from None
        finally:
            answer.limit = None


class _Answer:
    """A response with the headers that all responses have."""

    def __init__(self, send: Send, scope: Scope, headers: list[tuple[bytes, bytes]]) -> None:
        self._send = send
        self._headers = [(REQUEST_ID_HEADER, scope[REQUEST_ID].encode()), *headers]
        self._without_body = scope["method"] == "HEAD"
        self.limit: asyncio.Timeout | None = None
        """Of the time until the response begins."""
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self.limit is not None:
                self.limit.reschedule(None)
            headers: list[tuple[bytes, bytes]] = list(message.get("headers", ()))
            if all(name != b"cache-control" for name, _ in headers):
                headers.append(_NOT_STORED)
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


# Who is let in


class Admission:
    """Access control. With keys, a key is needed. Without, only this machine has access, and no foreign web page."""

    def __init__(self, settings: ServingSettings) -> None:
        self._keys = None if settings.keys is None else KeyRing(settings.keys)
        self._rate = RateLimit(settings.requests_per_second, settings.burst)
        self._read_only = settings.read_only
        self._origins = frozenset(origin.encode() for origin in settings.allow_origin)
        self._names = {*LOOPBACK_NAMES, settings.host.strip("[]").lower()}

    def check(self, scope: Scope, right: Right) -> None:
        """Raise a problem unless the request is allowed."""
        if len(scope["query_string"]) > _LONGEST_QUERY:
            detail = f"a query has at most {_LONGEST_QUERY} characters; send a body instead"
            raise ProblemError(ProblemType.QUERY_TOO_LONG, detail)
        headers = dict(scope["headers"])
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            raise ProblemError(ProblemType.NOT_HTTP, "a request names one host", headers={"Connection": "close"})
        if self._keys is None:
            self._check_host(headers)
            asks = right is Right.READS or (right is not Right.WRITES and scope["method"] in _SAFE_METHODS)
            if not asks:  # also where no route takes it
                self._check_origin(headers)
        client = f"address {scope['client'][0]}" if scope.get("client") else "address unknown"
        if right is Right.OPEN:
            return
        if self._keys is None or right is Right.LIMITED:
            self._rate.take(client)
        else:
            self._check_key(self._keys, headers.get(b"authorization", b""), client, right)
        if right in (Right.WRITES, Right.DELETES) and self._read_only:
            detail = "nothing can be written here: this server keeps nothing (--read-only)"
            raise ProblemError(ProblemType.READ_ONLY, detail)

    def _check_key(self, keys: KeyRing, authorization: bytes, client: str, right: Right) -> None:
        scheme, _, token = authorization.decode("latin-1").partition(" ")
        key = keys.find(token.strip()) if scheme.lower() == "bearer" else None
        if key is None:
            if authorization:  # whoever tries keys is slowed down, and nobody else
                self._rate.take(f"wrong keys from {client}")
            raise ProblemError(
                ProblemType.KEY_NEEDED,
                "a key is needed here: send Authorization: Bearer KEY (`cofill keys new` makes one)",
                headers={"WWW-Authenticate": 'Bearer realm="cofill"'},
            )
        self._rate.take(f"key {key.name}")
        will_do = _KEYS.get(right, (key.right,))
        if key.right not in will_do:
            detail = f"the key {key.name!r} may {key.right}, and this needs one made with --{will_do[0]}"
            raise ProblemError(ProblemType.KEY_LACKS_RIGHT, detail)

    def _check_host(self, headers: dict[bytes, bytes]) -> None:
        """Refuse foreign Host headers, against DNS rebinding, and what a proxy passes on from other machines."""
        if any(name in headers for name in _FORWARDED):
            detail = "a proxy passed this request on, and without keys the server is for this machine; add --keys"
            raise ProblemError(ProblemType.WRONG_HOST, detail)
        name = _host_name(headers.get(b"host", b"").decode("latin-1"))
        if name not in self._names and not _is_loopback(name):
            detail = "the server is asked by a name that is not its own; use localhost, or start it with --keys"
            raise ProblemError(ProblemType.WRONG_HOST, detail)

    def _check_origin(self, headers: dict[bytes, bytes]) -> None:
        """Refuse writes from foreign web pages (cross-site request forgery), even where the browser allows them."""
        origin = headers.get(b"origin")
        if origin is not None and origin.lower() in self._origins:
            return
        site = headers.get(b"sec-fetch-site", b"none")
        own = headers.get(b"host", b"").lower()
        foreign = origin is not None and origin.lower() not in (b"http://" + own, b"https://" + own)
        if foreign or site == b"cross-site":
            detail = "a page of another origin may not write here; open this server's own page"
            raise ProblemError(ProblemType.FOREIGN_ORIGIN, detail)


class RateLimit:
    """A token bucket for each client: refilled at a fixed rate, and each request takes one token."""

    def __init__(self, per_second: float, burst: int) -> None:
        """`per_second` 0: no limit."""
        self._per_second = per_second
        self._burst = float(burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when they were counted

    def take(self, client: str) -> None:
        """Take a token; a problem if the client has none left."""
        if not self._per_second:
            return
        now = time.monotonic()
        tokens, counted = self._buckets.pop(client, (self._burst, now))
        tokens = min(self._burst, tokens + (now - counted) * self._per_second)
        if tokens < 1:
            self._buckets[client] = tokens, now
            wait = ceil((1 - tokens) / self._per_second)
            raise ProblemError(
                ProblemType.TOO_MANY_REQUESTS,
                f"more than {self._per_second:g} requests a second; ask again in {wait} s",
                headers={"Retry-After": str(wait)},
            )
        self._buckets[client] = tokens - 1, now
        if len(self._buckets) > _MOST_CLIENTS:
            self._buckets.popitem(last=False)


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
