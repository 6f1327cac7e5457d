"""How a route is declared: its path, the right that it needs, its reply, and the threads that answer it.

    @routes.add("GET", "/v1/items", Right.READS, FoundItems, "Items by the beginnings of the words of their titles")
    def items(query: Annotated[ItemsQuery, Query()]) -> Response: ...

The guard goes by the right that stands beside the path, and nothing else says which key is needed. FastAPI knows the
routes and publishes them. What it would do to find the arguments of any function takes longer than some of the answers
here, and every route takes one message; so `request_messages` reads it.
"""

import asyncio
import inspect
import json
import math
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from enum import Enum
from typing import Any, ClassVar, NamedTuple, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel

from cofill.serving.problems import busy
from cofill.serving.request_messages import reader_of

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
"""They change nothing (RFC 9110)."""
UNTIL = "cofill.until"
"""Where a request's scope says until when, by `time.monotonic`, somebody waits for the answer."""

JSON = "application/json"
LINES = "application/x-ndjson"
"""Lines of JSON."""

_ANY_PATH = "{name:path}"
_DIGITS = 6  # of a rating that is predicted in single precision
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class Right(Enum):
    """The permission that a route needs."""

    OPEN = "everybody may, at any rate and however busy the server is: it is answered from memory"
    LIMITED = "everybody may, at a limited rate and however busy the server is: it asks the database"
    READS = "any key will do"
    WRITES = "a key that may write; without keys, no page of another origin; nobody where nothing is kept (--read-only)"
    OPERATES = "the same, where nothing is kept too: it is about the server, not about what people do"


CHANGES = (Right.WRITES, Right.OPERATES)
"""The rights that need a key that may write."""


class Declared(NamedTuple):
    """What the guard needs to know about a route."""

    right: Right
    takes_long: bool = False
    """Nobody knows for how long: it is not given up after the seconds that others have."""
    media_type: str = JSON
    """Of its body."""


class MessageRoute(APIRoute):
    """A route whose function takes one message; if it is no coroutine, a thread runs it.

    The model answers one question at a time, so one thread asks it: with forty, each kept memory of its own for what a
    question takes. What waits for the database, or works for long, shall hold up neither that thread nor each other.
    """

    threads: ClassVar[ThreadPoolExecutor] = ThreadPoolExecutor(1, thread_name_prefix="answering")

    def threads_for(self, message: Any) -> ThreadPoolExecutor:
        """The threads that answer this message."""
        return self.threads

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        endpoint = self.endpoint
        (parameter,) = inspect.signature(endpoint).parameters.values()
        read = reader_of(parameter)
        asynchronous = inspect.iscoroutinefunction(endpoint)

        async def handle(request: Request) -> Response:
            message = await read(request)
            answer: Response
            if asynchronous:
                answer = await endpoint(message)
            else:
                until = request.scope.get(UNTIL, math.inf)
                answer = await asyncio.get_running_loop().run_in_executor(
                    self.threads_for(message), _in_time, endpoint, message, until
                )
            return answer

        return handle


class WaitsForDatabase(MessageRoute):
    """A route that writes to the database or counts what was written."""

    threads = ThreadPoolExecutor(8, thread_name_prefix="waiting")


class Probes(MessageRoute):
    """A route for load balancers: a server that is busy works, and shall not be taken for one that does not."""

    threads = ThreadPoolExecutor(1, thread_name_prefix="probing")


class WorksForLong(MessageRoute):
    """A route that uses the model many times."""

    threads = ThreadPoolExecutor(2, thread_name_prefix="working")


class SometimesLong(MessageRoute):
    """A route that uses the model many times if its message says so (`takes_long`)."""

    def threads_for(self, message: Any) -> ThreadPoolExecutor:
        return WorksForLong.threads if message.takes_long else self.threads


_until: ContextVar[float] = ContextVar("until", default=math.inf)


def time_left() -> float:
    """For how many seconds somebody still waits for the answer that this thread works on; infinite if forever."""
    return _until.get() - time.monotonic()


def _in_time(endpoint: Callable[..., Response], message: Any, until: float) -> Response:
    """Skip work whose client no longer waits, because others wait behind it."""
    if time.monotonic() > until:
        raise busy()
    _until.set(until)
    return endpoint(message)


class Routes:
    """The routes of an application, and what was declared with their paths."""

    def __init__(self, router: APIRouter) -> None:
        self._router = router
        self._at: dict[str, dict[str, Declared]] = {}  # by path, then by method
        self._below: dict[str, dict[str, Declared]] = {}  # the same by how a path begins

    def add(
        self,
        method: str,
        path: str,
        right: Right,
        reply: type[BaseModel] | None,
        summary: str,
        *,
        kind: type[MessageRoute] = MessageRoute,
        status: int = 200,
        takes_long: bool = False,
        lines: type[BaseModel] | None = None,
    ) -> Callable[[Endpoint], Endpoint]:
        """Add a route, published with its `reply` (None: no JSON); the decorated function takes one message.

        Its name and its docstring are published too, as the id and the description of the operation. With `lines` its
        body is lines of JSON, each such a message.
        """
        self.declare([method], path, right, takes_long=takes_long, media_type=JSON if lines is None else LINES)
        body = None
        if lines is not None:
            each = lines.model_json_schema(ref_template="#/components/schemas/{model}")
            each.pop("$defs", None)  # they are those of `PUT` for one
            schema = {"type": "array", "minItems": 1, "items": each}
            body = {"requestBody": {"required": True, "content": {LINES: {"schema": schema}}}}

        def under(endpoint: Endpoint) -> Endpoint:
            self._router.add_api_route(
                path,
                endpoint,
                methods=[method],
                response_model=reply,
                response_class=Response if reply is None else JSONResponse,
                status_code=status,
                summary=summary,
                openapi_extra=body,
                operation_id=_camel_case(endpoint.__name__),
                route_class_override=kind,
            )
            return endpoint

        return under

    def add_file(self, path: str, right: Right) -> Callable[[Endpoint], Endpoint]:
        """Add a file of the page: not published, and its function takes what FastAPI passes."""
        methods = ["GET", "HEAD"]
        self.declare(methods, path, right)

        def under(endpoint: Endpoint) -> Endpoint:
            self._router.add_api_route(path, endpoint, methods=methods, include_in_schema=False)
            return endpoint

        return under

    def declare(
        self, methods: list[str], path: str, right: Right, *, takes_long: bool = False, media_type: str = JSON
    ) -> None:
        """Declare the permission of a route that is added elsewhere."""
        start, parameter, rest = path.partition(_ANY_PATH)
        if rest or "{" in start:
            raise ValueError(f"{path}: a path is fixed, or ends with {_ANY_PATH}; put the rest into a query")
        at = (self._below if parameter else self._at).setdefault(start, {})
        for method in methods:
            if method in at:
                raise ValueError(f"{method} {path}: is declared twice")
            if right in CHANGES and method in SAFE_METHODS:
                raise ValueError(f"{method} {path}: this method never writes; declare POST, PUT or DELETE")
            at[method] = Declared(right, takes_long, media_type)

    def declared(self, method: str, path: str) -> Declared | None:
        """What was declared for a route; None if there is no such route."""
        return self._methods_at(path).get(method)

    def needed(self, method: str, path: str) -> Declared:
        """The permission that a request needs.

        The application refuses what no route takes (404, 405). The guard asks as much of it as a route there could ask,
        so whatever the application would still find at such a path needs no more: safe methods never write.
        """
        at = self._methods_at(path)
        if method in at:
            return at[method]
        if method == "HEAD" and "GET" in at:
            return at["GET"]
        for found in at.values():
            if found.right in (Right.OPEN, Right.LIMITED):
                return found
        return Declared(Right.READS if method in SAFE_METHODS else Right.WRITES)

    def methods_at(self, path: str) -> list[str]:
        """The methods that an address takes, HEAD wherever GET is; none if there is no such address."""
        at = self._methods_at(path)
        return sorted({*at, "HEAD"} if "GET" in at else at)

    def _methods_at(self, path: str) -> dict[str, Declared]:
        if path in self._at:
            return self._at[path]
        return next((found for start, found in self._below.items() if path.startswith(start)), {})


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def answer(document: Any, status: int = 200) -> Response:
    """A JSON response, without validating our own output again."""
    return Response(_encode(document).encode(), status, media_type="application/json")


def rounded(number: float) -> float:
    return round(float(number), _DIGITS) + 0.0  # never -0.0


def significant(number: float) -> float:
    """A number on no scale, which may be small throughout: it keeps so many digits of its own."""
    return float(f"{number:z.{_DIGITS}g}")
