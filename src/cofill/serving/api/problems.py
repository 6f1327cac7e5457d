"""All errors in one format: RFC 9457, application/problem+json. docs/reference/problems.md explains each type."""

import json
import logging
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import Response

from cofill.errors import CofillError, DataError, ModelFileError, SettingsError, UnknownIdError, UnknownValueError
from cofill.serving.live.model import NoModelBeforeError
from cofill.serving.live.store import AlreadyMergedError, is_disk_full
from cofill.serving.ops.logs import of_request

log = logging.getLogger("cofill.serving")

MEDIA_TYPE = "application/problem+json"
_MOST_ERRORS = 20
ECHOED = 200
"""Characters of a message, which may repeat what was sent."""


class ProblemType(Enum):
    """The types of problems, each with its HTTP status."""

    NOT_HTTP = "not-http", 400
    NOT_JSON = "not-json", 400
    KEY_NEEDED = "key-needed", 401
    KEY_LACKS_RIGHT = "key-lacks-right", 403
    FOREIGN_ORIGIN = "foreign-origin", 403
    READ_ONLY = "read-only", 403
    NO_SUCH_ADDRESS = "no-such-address", 404
    UNKNOWN_ID = "unknown-id", 404
    METHOD_NOT_ALLOWED = "method-not-allowed", 405
    BODY_TOO_LATE = "body-too-late", 408
    NO_MODEL_BEFORE = "no-model-before", 409
    ALREADY_MERGED = "already-merged", 409
    BODY_TOO_LONG = "body-too-long", 413
    QUERY_TOO_LONG = "query-too-long", 414
    NOT_DECLARED_AS_JSON = "not-declared-as-json", 415
    WRONG_HOST = "wrong-host", 421
    INVALID_REQUEST = "invalid-request", 422
    UNFIT_FOR_MODEL = "unfit-for-model", 422
    UNKNOWN_VALUE = "unknown-value", 422
    BROKEN_MODEL = "broken-model", 422
    TOO_MANY_REQUESTS = "too-many-requests", 429
    HEAD_TOO_LONG = "head-too-long", 431
    SERVER_ERROR = "server-error", 500
    BUSY = "busy", 503
    OUT_OF_TIME = "out-of-time", 503
    DATABASE_UNAVAILABLE = "database-unavailable", 503
    STOPPING = "stopping", 503
    DISK_FULL = "disk-full", 507

    def __init__(self, slug: str, status: int) -> None:
        self.slug = slug
        self.status = status

    @property
    def uri(self) -> str:
        return f"/problems/{self.slug}"

    @property
    def title(self) -> str:
        """The same for every problem of the type."""
        words = self.slug.replace("-", " ").replace("http", "HTTP").replace("json", "JSON")
        return words[0].upper() + words[1:]


class FieldProblem(BaseModel):
    """What is wrong with one field."""

    model_config = ConfigDict(populate_by_name=True)

    place: str = Field(alias="in", description="where the field stands: in the query or in the body")
    name: str = Field(description="the field, with the names and positions that lead to it, such as ratings.0.item")
    message: str = Field(description="what is wrong with it")


class Problem(BaseModel):
    """An error: RFC 9457, application/problem+json."""

    type: str = Field(
        description="the type of error, which programs go by",
        json_schema_extra={"enum": [kind.uri for kind in ProblemType]},
    )
    title: str = Field(description="the type of error in a few words")
    status: int = Field(description="the HTTP status")
    detail: str = Field(description="what is wrong here, and what to do about it")
    instance: str = Field(description="the path that was asked for")
    errors: list[FieldProblem] | None = Field(default=None, description="each field that is wrong")


class ProblemError(HTTPException):
    """A request that is refused."""

    def __init__(
        self,
        kind: ProblemType,
        detail: str,
        *,
        errors: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(kind.status, detail, headers)
        self.kind = kind
        self.errors = errors

    def document(self, path: str) -> bytes:
        kind = self.kind
        document = {
            "type": kind.uri,
            "title": kind.title,
            "status": kind.status,
            "detail": self.detail,
            "instance": path,
        }
        if self.errors:
            document["errors"] = list(self.errors)
        return json.dumps(document).encode()  # ASCII: what a client sent may be no text that UTF-8 can carry

    def response(self, path: str) -> Response:
        return Response(self.document(path), self.status_code, media_type=MEDIA_TYPE, headers=dict(self.headers or {}))


def busy(detail: str) -> ProblemError:
    return ProblemError(ProblemType.BUSY, f"{detail}; try again", headers={"Retry-After": "1"})


def about_part(part: str, error: CofillError) -> ProblemError:
    """An error of the model with one part of a request."""
    return ProblemError(_kind_of(error), f"{part}: {error}")


def invalid(where: str, errors: Sequence[Mapping[str, Any]]) -> ProblemError:
    """What pydantic found wrong; `where` stands before the names of the fields."""
    found = [
        {"in": where, "name": ".".join(map(str, one["loc"]))[:ECHOED], "message": _message(one)}
        for one in errors[:_MOST_ERRORS]
    ]
    first = found[0]
    place = f"{where}.{first['name']}" if first["name"] else where
    return ProblemError(ProblemType.INVALID_REQUEST, f"{place}: {first['message']}", errors=found)


def _message(error: Mapping[str, Any]) -> str:
    if error["type"] == "string_unicode":  # pydantic looks at it before our validators can
        return "a text may not contain NUL or half of a surrogate pair"
    return str(error["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")[:ECHOED]


def add_handlers(app: FastAPI) -> None:
    app.add_exception_handler(StarletteHTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(CofillError, _cofill)
    app.add_exception_handler(SQLAlchemyError, _database)
    app.add_exception_handler(Exception, _unforeseen)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    path = request.url.path
    if isinstance(error, ProblemError):
        return error.response(path)
    if error.status_code == 405:
        methods = {
            method for route in request.app.routes if route.path == path for method in getattr(route, "methods", ())
        }
        allowed = ", ".join(sorted({*methods, "HEAD"} if "GET" in methods else methods))
        detail = "this address does not take that method; /openapi.json lists what there is"
        return ProblemError(ProblemType.METHOD_NOT_ALLOWED, detail, headers={"Allow": allowed}).response(path)
    detail = "there is nothing at this address; /openapi.json lists what there is"
    return ProblemError(ProblemType.NO_SUCH_ADDRESS, detail).response(path)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = [{**one, "loc": one["loc"][1:]} for one in error.errors()]
    where = str(error.errors()[0]["loc"][0])
    if where == "body" and found[0]["type"] == "missing" and not found[0]["loc"]:
        found[0]["msg"] = "is missing; send JSON"
    return invalid(where, found).response(request.url.path)


async def _cofill(request: Request, error: Exception) -> Response:
    assert isinstance(error, CofillError)
    kind = _kind_of(error)
    if kind is ProblemType.SERVER_ERROR:
        return await _unforeseen(request, error)
    return ProblemError(kind, str(error)).response(request.url.path)


def _kind_of(error: CofillError) -> ProblemType:
    """What an error of the model is for a client."""
    kinds = {
        UnknownIdError: ProblemType.UNKNOWN_ID,
        UnknownValueError: ProblemType.UNKNOWN_VALUE,
        ModelFileError: ProblemType.BROKEN_MODEL,
        NoModelBeforeError: ProblemType.NO_MODEL_BEFORE,
        AlreadyMergedError: ProblemType.ALREADY_MERGED,
        DataError: ProblemType.UNFIT_FOR_MODEL,
        SettingsError: ProblemType.UNFIT_FOR_MODEL,
    }
    return next((kind for cause, kind in kinds.items() if isinstance(error, cause)), ProblemType.SERVER_ERROR)


async def _database(request: Request, error: Exception) -> Response:
    if is_disk_full(error):  # the log has it already, once
        detail = "the disk with the database is full, so nothing was written; make room on the server's disk"
        return ProblemError(ProblemType.DISK_FULL, detail).response(request.url.path)
    which = of_request(request.scope)
    log.error("%s %s: the database failed: %s", request.method, request.url.path, _line(error), extra=which)
    detail = "the database of live ratings does not answer; try again"
    kind = ProblemType.DATABASE_UNAVAILABLE
    return ProblemError(kind, detail, headers={"Retry-After": "1"}).response(request.url.path)


async def _unforeseen(request: Request, error: Exception) -> Response:
    which = of_request(request.scope)
    log.error("%s %s: %s", request.method, request.url.path, _line(error), exc_info=error, extra=which)
    detail = "something went wrong here; the server's log tells what"
    return ProblemError(ProblemType.SERVER_ERROR, detail).response(request.url.path)


def _line(error: Exception) -> str:
    """The text on one line, because it may contain input of a client."""
    return repr(str(error).splitlines()[0] if str(error) else type(error).__name__)
