"""Strict reading of requests with FastAPI: fields that bodies and queries share, JSON, lines of JSON, and queries.

Unknown fields are refused. Ids, names and titles are texts that a database and a page can hold. In a query
everything is text.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, NoReturn, ParamSpec, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
)

from cofill.data.cells import CALENDAR
from cofill.data.vocabulary import INT64
from cofill.serving.api.problems import ECHOED, ProblemError, ProblemType, invalid

LONGEST_ID = 256
LONGEST_TITLE = 500
MOST_ITEMS = 100
_GREATEST_OFFSET = 200
MOST_RATINGS = 1_000
MOST_COLUMNS = 200
_LONGEST_VALUE = 10_000
_LONGEST_MOMENT = 40
_EARLIEST, _LATEST = -2_208_988_800, 253_402_300_799  # seconds from 1970 to 1900, and to the end of 9999
_MOMENT = "seconds since 1970, or ISO 8601; without an offset it is UTC"
_MOST_LINES = 10_000
_LONGEST_QUERY = 200
_DEEPEST = 5
_NO_TEXT = "a text may not contain NUL or half of a surrogate pair"
_MOST_PARAMETERS = 2000
_DIGITS = 6  # of a rating that is predicted in single precision
JSON = "application/json"
LINES = "application/x-ndjson"
"""Lines of JSON."""
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_database = ThreadPoolExecutor(8, thread_name_prefix="database")

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


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
    if (
        isinstance(moment, int | float)
        and not isinstance(moment, bool)
        and _EARLIEST <= moment <= _LATEST
        and not CALENDAR[0] <= moment <= CALENDAR[1]  # a day as a number, which a model of dates does not take
    ):
        return float(moment)
    raise ValueError(
        "a time is seconds since 1970, or ISO 8601 such as 2026-01-31T12:00:00Z, from 1900 to 9999, "
        "and no number such as 20260131"
    )


def _moment_in_text(text: object) -> float:
    """The same of a query, where numbers are text."""
    try:
        return _checked_moment(float(str(text)))
    except ValueError:
        return _checked_moment(text)


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
            "description": _MOMENT,
        }
    ),
]
MomentText = Annotated[
    float, PlainValidator(_moment_in_text), WithJsonSchema({"type": "string", "description": _MOMENT})
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
Offset = Annotated[int, Field(strict=True, ge=0, le=_GREATEST_OFFSET)]
OffsetText = Annotated[int, Field(ge=0, le=_GREATEST_OFFSET)]
OFFSET = "how many items of the list to leave out from its beginning, to go through it in pages: 0 for the first"


class Message(BaseModel):
    """Sent by a client in a body."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class Given(Message):
    """A rating of an item."""

    item: ItemOrUserId = Field(description="the id of an item")
    rating: Rating = Field(description="a rating, within the scale of the model")


class GivenAt(Given):
    """The same, and when."""

    time: Moment | None = Field(default=None, description="when it was given; otherwise, and at the latest, now")


def check_distinct(ratings: Sequence[Given]) -> None:
    """ValueError where an item is rated twice; 42 and "42" are the same item."""
    items = [str(given.item) for given in ratings]
    if len(set(items)) < len(items):
        twice = next(item for at, item in enumerate(items) if item in items[:at])
        raise ValueError(f"item {twice!r} is rated twice; keep one of its ratings")


class QueryModel(BaseModel):
    """Sent by a client in an address."""

    model_config = ConfigDict(extra="forbid")


class IdQuery(QueryModel):
    id: IdText = Field(description="an id")


class PairQuery(QueryModel):
    user: IdText = Field(description="the id of a user")
    item: IdText = Field(description="the id of an item")


def page_of(n: int, offset: int | None) -> tuple[int, slice]:
    """How long a list to make, and which part of it to answer.

    All pages are parts of one list: rules such as shares of new items may change a list if it is made longer.
    """
    return (n, slice(n)) if offset is None else (_GREATEST_OFFSET + MOST_ITEMS, slice(offset, offset + n))


# Reading


class StrictRequest(Request):
    async def json(self) -> Any:
        try:
            return parse_json(await self.body())
        except ValueError as error:
            raise ProblemError(ProblemType.NOT_JSON, f"the body is not JSON: {str(error)[:ECHOED]}") from None


class StrictRoute(APIRoute):
    """A route that reads JSON as RFC 8259 has it, and refuses queries that FastAPI would read leniently."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        takes_query = bool(self.dependant.query_params)
        models = [field.field_info.annotation for field in self.dependant.query_params]
        fields = {name: one for model in models for name, one in getattr(model, "model_fields", {}).items()}
        several = {name for name, field in fields.items() if _takes_several(field.annotation)}

        async def read(request: Request) -> Response:
            if request.scope["query_string"]:
                if not takes_query:
                    raise ProblemError(ProblemType.INVALID_REQUEST, "query: this address takes a body and no query")
                _check_query(request.scope["query_string"], several)
            return await handle(StrictRequest(request.scope, request.receive))

        return read


def _takes_several(annotation: Any) -> bool:
    return any(get_origin(option) is list for option in (annotation, *get_args(annotation)))


def _check_query(query: bytes, several: set[str]) -> None:
    """A problem if a query is no name=value&name=value in UTF-8, or gives twice what can be given once."""
    try:
        pairs = parse_qsl(
            query.decode("latin-1"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=_MOST_PARAMETERS,
        )
    except ValueError:  # also of what is not UTF-8
        detail = "query: cannot be read; write name=value&name=value, percent-encoded UTF-8"
        raise ProblemError(ProblemType.INVALID_REQUEST, detail) from None
    for name, count in Counter(name for name, _ in pairs).items():
        if count > 1 and name not in several:
            detail = f"query.{name[:ECHOED]}: is given twice; keep one of them"
            raise ProblemError(ProblemType.INVALID_REQUEST, detail)


_Line = TypeVar("_Line", bound=Message)


def lines_of(each: type[_Line]) -> Any:
    """Reads a body of lines of JSON, each such a message: a list of them with the numbers of their lines."""

    def understood(body: bytes) -> list[tuple[int, _Line]]:
        found: list[tuple[int, _Line]] = []
        for at, line in enumerate(body.split(b"\n"), 1):
            if not line.strip():
                continue
            if len(found) == _MOST_LINES:
                detail = f"line {at}: a body has at most {_MOST_LINES} lines; send the rest in another"
                raise ProblemError(ProblemType.INVALID_REQUEST, detail)
            try:
                found.append((at, each.model_validate(parse_json(line))))
            except ValidationError as error:
                raise invalid(f"line {at}", error.errors()) from None
            except ValueError as error:
                detail = f"line {at}: is not JSON: {str(error)[:ECHOED]}"
                raise ProblemError(ProblemType.NOT_JSON, detail) from None
        if not found:
            detail = "body: there are no lines; send a line of JSON for each"
            raise ProblemError(ProblemType.INVALID_REQUEST, detail)
        return found

    async def read(request: Request) -> list[tuple[int, _Line]]:
        return await asyncio.to_thread(understood, await request.body())

    return Depends(read)


def lines_body(each: type[Message]) -> dict[str, Any]:
    """How such a body is published."""
    schema = each.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)  # they are those of `PUT` for one
    content = {LINES: {"schema": {"type": "array", "minItems": 1, "items": schema}}}
    return {"requestBody": {"required": True, "content": content}}


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


# Answering


async def in_database(work: Callable[_Given, _Found], *given: _Given.args, **named: _Given.kwargs) -> _Found:
    """What waits for the database, in threads that hold up neither the model nor the loop."""
    return await asyncio.get_running_loop().run_in_executor(_database, partial(work, *given, **named))


def answer(document: Any, status: int = 200) -> Response:
    """A JSON response, without validating our own output again."""
    return Response(_encode(document).encode(), status, media_type=JSON)


def rounded(number: float) -> float:
    return round(float(number), _DIGITS) + 0.0  # never -0.0


def significant(number: float) -> float:
    """A number on no scale, which may be small throughout: it keeps so many digits of its own."""
    return float(f"{number:z.{_DIGITS}g}")
