"""Strict parsing of requests: fields that bodies and queries share, JSON, and query strings.

Unknown fields are refused. Ids, names and titles are texts that a database and a page can hold. In a query
everything is text.
"""

import asyncio
import inspect
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Annotated, Any, NoReturn, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.params import Query
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import ErrorDetails

from cofill.data.vocabulary import INT64
from cofill.serving.problems import ProblemError

LONGEST_ID = 256
LONGEST_TITLE = 500
MOST_ITEMS = 100
MOST_RATINGS = 1_000
MOST_COLUMNS = 200
_LONGEST_VALUE = 10_000
_LONGEST_MOMENT = 40
_EARLIEST, _LATEST = -2_208_988_800, 253_402_300_799  # seconds from 1970 to 1900, and to the end of 9999
_MOST_LINES = 10_000
_LONGEST_QUERY = 200
_DEEPEST = 5
_NO_TEXT = "a text may not contain NUL or half of a surrogate pair"
_MOST_ERRORS = 20
_ECHOED = 200  # characters of a message, which may repeat what was sent
_MOST_PARAMETERS = 2000
_LARGE = 16 * 1024  # bytes of a body; others shall not wait while it is read
_reading = ThreadPoolExecutor(2, thread_name_prefix="reading")

Read = Callable[[Request], Awaitable[Any]]


# Fields


def checked_text(text: str) -> str:
    """Text that a database and a page can hold."""
    if "\0" in text or any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        raise ValueError(_NO_TEXT)
    return text


def _checked_id(id: object) -> int | str:
    """An id as it was sent: the model decides whether its ids are numbers or text."""
    if isinstance(id, int) and not isinstance(id, bool) and INT64.min <= id <= INT64.max:
        return id
    if isinstance(id, str) and 0 < len(id) <= LONGEST_ID:
        return checked_text(id)
    raise ValueError(f"an id is a text of 1 to {LONGEST_ID} characters, or a whole number that fits 64 bits")


def _checked_moment(moment: object) -> float:
    """Seconds since 1970."""
    if isinstance(moment, str) and len(moment) <= _LONGEST_MOMENT:
        try:
            read = datetime.fromisoformat(moment)
            moment = (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            pass
    if isinstance(moment, int | float) and not isinstance(moment, bool) and _EARLIEST <= moment <= _LATEST:
        return float(moment)
    raise ValueError("a time is seconds since 1970, or ISO 8601 such as 2026-01-31T12:00:00Z, from 1900 to 9999")


def _storable(value: JsonValue, depth: int = 0) -> JsonValue:
    """A value of a feature column, within limits of length and depth."""
    if depth > _DEEPEST:
        raise ValueError(f"a value may not be nested more than {_DEEPEST} deep")
    if isinstance(value, str):
        if len(value) > _LONGEST_VALUE:
            raise ValueError(f"a text may have at most {_LONGEST_VALUE} characters")
        return checked_text(value)
    if isinstance(value, list | dict):
        if len(value) > _LONGEST_VALUE:
            raise ValueError(f"a list may have at most {_LONGEST_VALUE} entries")
        for part in value.values() if isinstance(value, dict) else value:
            _storable(part, depth + 1)
        for key in value if isinstance(value, dict) else ():
            checked_text(key)
    if isinstance(value, int) and not isinstance(value, bool) and not INT64.min <= value <= INT64.max:
        raise ValueError("a whole number must fit 64 bits")
    return value


ItemOrUserId = Annotated[
    int | str,
    PlainValidator(_checked_id),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": int(INT64.min), "maximum": int(INT64.max)},
                {"type": "string", "minLength": 1, "maxLength": LONGEST_ID},
            ]
        }
    ),
]
Moment = Annotated[
    float,
    PlainValidator(_checked_moment),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": _EARLIEST, "maximum": _LATEST},
                {"type": "string", "format": "date-time"},
            ],
            "description": "seconds since 1970, or ISO 8601; without an offset it is UTC",
        }
    ),
]
Version = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z0-9_.:-]{1,64}$")]
Rating = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Count = Annotated[int, Field(strict=True, ge=1, le=MOST_ITEMS)]
_Value = Annotated[JsonValue, AfterValidator(_storable)]
Column = Annotated[str, Field(strict=True, min_length=1, max_length=LONGEST_ID), AfterValidator(checked_text)]
Title = Annotated[str, Field(strict=True, min_length=1, max_length=LONGEST_TITLE), AfterValidator(checked_text)]
ModelName = Annotated[str, Field(strict=True, min_length=1, max_length=LONGEST_ID), AfterValidator(checked_text)]
Description = Annotated[dict[Column, _Value], Field(max_length=MOST_COLUMNS)]

IdText = Annotated[str, Field(min_length=1, max_length=LONGEST_ID), AfterValidator(checked_text)]
Words = Annotated[str, Field(max_length=_LONGEST_QUERY), AfterValidator(checked_text)]
CountText = Annotated[int, Field(ge=1, le=MOST_ITEMS)]


class Message(BaseModel):
    """Sent by a client in a body."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class Given(Message):
    """What somebody gave an item."""

    item: ItemOrUserId
    rating: Rating


class GivenAt(Given):
    """The same, and when."""

    time: Moment | None = None


def check_distinct(ratings: Sequence[Given]) -> None:
    """ValueError where an item is rated twice; 42 and "42" are the same item."""
    items = [str(given.item) for given in ratings]
    if len(set(items)) < len(items):
        twice = next(item for at, item in enumerate(items) if item in items[:at])
        raise ValueError(f"item {twice!r} is rated twice; keep one of its ratings")


class QueryModel(BaseModel):
    """Sent by a client in an address."""

    model_config = ConfigDict(extra="forbid")


class NothingQuery(QueryModel):
    """Of an address that takes no question."""


class IdQuery(QueryModel):
    id: IdText


class PairQuery(QueryModel):
    user: IdText
    item: IdText


# Reading


class Lines:
    """Of a request whose body is lines of JSON, each such a message; `lines_of` has them."""

    def __init__(self, each: type[Message]) -> None:
        self.each = each


_Line = TypeVar("_Line", bound=Message)


def lines_of(request: Request, each: type[_Line]) -> list[tuple[int, _Line]]:
    """The messages of a request that was declared with `Lines`, with the numbers of their lines."""
    lines: list[tuple[int, _Line]] = request.state.lines
    return lines


def reader_of(parameter: inspect.Parameter) -> Read:
    """A function from a request to the argument of its route: a query or lines if it is annotated so, else a body."""
    annotation = parameter.annotation
    for about in getattr(annotation, "__metadata__", ()):
        if isinstance(about, Lines):
            return _lines_reader(about.each)
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
            return adapter.validate_python(parse_json(body))
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


def _lines_reader(each: type[Message]) -> Read:
    def understood(body: bytes) -> list[tuple[int, Message]]:
        found: list[tuple[int, Message]] = []
        for at, line in enumerate(body.split(b"\n"), 1):
            if not line.strip():
                continue
            if len(found) == _MOST_LINES:
                raise ProblemError(422, f"line {at}: a body has at most {_MOST_LINES} lines; send the rest in another")
            try:
                found.append((at, each.model_validate(parse_json(line))))
            except ValidationError as error:
                raise _invalid(error, f"line {at}") from None
            except ValueError as error:
                raise ProblemError(400, f"line {at}: is not JSON: {str(error)[:_ECHOED]}") from None
        if not found:
            raise ProblemError(422, "body: there are no lines; send a line of JSON for each")
        return found

    async def read(request: Request) -> Request:
        if request.scope["query_string"]:
            raise ProblemError(422, "query: this address takes a body and no query")
        body = await request.body()
        request.state.lines = await asyncio.get_running_loop().run_in_executor(_reading, understood, body)
        return request

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
        return _NO_TEXT
    return error["msg"].removeprefix("Value error, ").replace("Input should be", "must be")[:_ECHOED]


def parse_json(body: bytes) -> Any:
    """JSON as RFC 8259 has it: no NaN, no Infinity, no name twice, nothing but UTF-8. Else a ValueError."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except ValueError as error:  # also of a number with thousands of digits
        raise ValueError(str(error).partition(";")[0]) from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the name {twice!r} stands twice in one object")
    return found
