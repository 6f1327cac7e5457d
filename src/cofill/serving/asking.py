"""From a request to the one argument of its route: a query or a body, read strictly and without detours.

FastAPI knows the routes and publishes them. What it would do to find the arguments of any function takes longer than
some of the answers here, and every route takes one message; so it is read here.
"""

import asyncio
import inspect
import math
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl
from weakref import WeakKeyDictionary

from fastapi import Request, Response
from fastapi.params import Query
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from cofill.serving.messages import NO_TEXT
from cofill.serving.problems import ProblemError, busy
from cofill.serving.strict_json import parse

_MOST_ERRORS = 20
_ECHOED = 200  # characters of a message, which may repeat what was sent
_MOST_PARAMETERS = 2000
_LARGE = 16 * 1024  # bytes of a body; others shall not wait while it is read

# The model answers one question at a time, so one thread asks it: with forty, each kept memory of its own for what a
# question takes. What waits for the database, or works for long, shall hold up neither that thread nor each other.
_answering = ThreadPoolExecutor(1, thread_name_prefix="answering")
_waiting = ThreadPoolExecutor(8, thread_name_prefix="waiting")
_working = ThreadPoolExecutor(2, thread_name_prefix="working")
_reading = ThreadPoolExecutor(2, thread_name_prefix="reading")

UNTIL = "cofill.until"
"""Where a request's scope says until when, by `time.monotonic`, somebody waits for the answer."""

Read = Callable[[Request], Awaitable[Any]]
Endpoint = TypeVar("Endpoint", bound=Callable[..., Response])

_threads_of: WeakKeyDictionary[Callable[..., Any], ThreadPoolExecutor] = WeakKeyDictionary()


def waits_for_database(endpoint: Endpoint) -> Endpoint:
    """Marks what a route calls: it writes, or counts what was written."""
    _threads_of[endpoint] = _waiting
    return endpoint


def works_for_long(endpoint: Endpoint) -> Endpoint:
    """Marks what a route calls: it comes back to the model again and again."""
    _threads_of[endpoint] = _working
    return endpoint


class MessageRoute(APIRoute):
    """A route whose function takes one message; if it is no coroutine, a thread runs it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        endpoint = self.endpoint
        (parameter,) = inspect.signature(endpoint).parameters.values()
        read = _reader(parameter)
        asynchronous = inspect.iscoroutinefunction(endpoint)
        threads = _threads_of.get(endpoint, _answering)

        async def handle(request: Request) -> Response:
            message = await read(request)
            answer: Response
            if asynchronous:
                answer = await endpoint(message)
            else:
                until = request.scope.get(UNTIL, math.inf)
                answer = await asyncio.get_running_loop().run_in_executor(threads, _in_time, endpoint, message, until)
            return answer

        return handle


def _in_time(endpoint: Callable[..., Response], message: Any, until: float) -> Response:
    """What nobody waits for any more is not done: whoever waits still is behind it."""
    if time.monotonic() > until:
        raise busy()
    return endpoint(message)


def _reader(parameter: inspect.Parameter) -> Read:
    annotation = parameter.annotation
    if any(isinstance(about, Query) for about in getattr(annotation, "__metadata__", ())):
        return _query_reader(get_args(annotation)[0])
    return _body_reader(TypeAdapter(annotation), parameter.default)


def _query_reader(model: type[BaseModel]) -> Read:
    several = {name for name, field in model.model_fields.items() if _takes_several(field.annotation)}

    async def read(request: Request) -> Any:
        found: dict[str, Any] = {}
        for name, value in _pairs(request.scope["query_string"]):
            if name in several:
                found.setdefault(name, []).append(value)
            elif name in found:
                raise ProblemError(422, f"query.{name[:_ECHOED]}: is given twice; keep one of them")
            else:
                found[name] = value
        try:
            return model.model_validate(found)
        except ValidationError as error:
            raise _invalid(error, "query") from None

    return read


def _body_reader(adapter: TypeAdapter[Any], default: Any) -> Read:
    def understood(body: bytes) -> Any:
        try:
            return adapter.validate_python(parse(body))
        except ValidationError as error:
            raise _invalid(error, "body") from None
        except ValueError as error:
            raise ProblemError(400, f"the body is not JSON: {str(error)[:_ECHOED]}") from None

    async def read(request: Request) -> Any:
        if request.scope["query_string"]:
            raise ProblemError(422, "query: this address takes a body and no query")
        body = await request.body()
        if not body:
            if default is not inspect.Parameter.empty:
                return default
            raise ProblemError(422, "body: is missing; send JSON")
        if len(body) > _LARGE:
            return await asyncio.get_running_loop().run_in_executor(_reading, understood, body)
        return understood(body)

    return read


def _takes_several(annotation: Any) -> bool:
    return any(get_origin(option) is list for option in (annotation, *get_args(annotation)))


def _pairs(query: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            query.decode("latin-1"),
            keep_blank_values=True,
            strict_parsing=bool(query),
            errors="strict",
            max_num_fields=_MOST_PARAMETERS,
        )
    except ValueError:  # also of what is not UTF-8
        raise ProblemError(422, "query: cannot be read; write name=value&name=value, percent-encoded UTF-8") from None


def _invalid(error: ValidationError, where: str) -> ProblemError:
    errors = [
        {"in": where, "name": ".".join(map(str, one["loc"]))[:_ECHOED], "message": _message(one)}
        for one in error.errors(include_url=False, include_input=False, include_context=False)[:_MOST_ERRORS]
    ]
    first = errors[0]
    place = f"{where}.{first['name']}" if first["name"] else where
    return ProblemError(422, f"{place}: {first['message']}", errors=errors)


def _message(error: ErrorDetails) -> str:
    if error["type"] == "string_unicode":  # pydantic looks at it before `checked_text` can
        return NO_TEXT
    return error["msg"].removeprefix("Value error, ").replace("Input should be", "must be")[:_ECHOED]
