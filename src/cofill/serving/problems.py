"""All errors in one format: RFC 9457, application/problem+json."""

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from cofill.errors import CofillError, DataError, ModelFileError, SettingsError, UnknownIdError, UnknownValueError
from cofill.serving.disk import is_disk_full
from cofill.serving.logs import of_request
from cofill.serving.problem_types import ProblemType, usual_type

log = logging.getLogger("cofill.serving")

MEDIA_TYPE = "application/problem+json"


class FieldProblem(BaseModel):
    """What is wrong with one field."""

    model_config = ConfigDict(populate_by_name=True)

    place: str = Field(alias="in", description="where the field stands: in the query or in the body")
    name: str = Field(description="the field, with the names and positions that lead to it, such as ratings.0.item")
    message: str = Field(description="what is wrong with it")


class ProblemMessage(BaseModel):
    """An error: RFC 9457, application/problem+json."""

    type: str = Field(
        description="the address of a page about this kind of error",
        json_schema_extra={"enum": [kind.uri for kind in ProblemType]},
    )
    title: str = Field(description="the kind of error in a few words")
    status: int = Field(description="the HTTP status")
    detail: str = Field(description="what is wrong here, and what to do about it")
    instance: str = Field(description="the path that was asked for")
    errors: list[FieldProblem] | None = Field(default=None, description="each field that is wrong")
    at_most: int | None = Field(default=None, description="how many of a batch that is too large could be done in time")


class ProblemError(Exception):
    """A request that is refused."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        kind: ProblemType | None = None,
        errors: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        """`kind`: by default the usual one of the status; `more`: further members of the document."""
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.kind = kind
        self.more = ({"errors": list(errors)} if errors else {}) | more
        self.headers = dict(headers or {})

    def response(self, path: str) -> Response:
        return problem(self.status, self.detail, path, kind=self.kind, headers=self.headers, **self.more)


def busy() -> ProblemError:
    """The model was busy for as long as a request may wait."""
    return ProblemError(503, "the server is busy; try again", headers={"Retry-After": "1"})


def document_of(status: int, detail: str, path: str, kind: ProblemType | None = None, **more: Any) -> bytes:
    kind = kind or usual_type(status)
    document = {"type": kind.uri, "title": kind.title, "status": status, "detail": detail, "instance": path, **more}
    return json.dumps(document).encode()  # ASCII: what a client sent may be no text that UTF-8 can carry


def problem(
    status: int,
    detail: str,
    path: str,
    *,
    kind: ProblemType | None = None,
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> Response:
    content = document_of(status, detail, path, kind, **more)
    return Response(content, status, media_type=MEDIA_TYPE, headers=dict(headers or {}))


def add_handlers(app: FastAPI) -> None:
    app.add_exception_handler(ProblemError, _refused)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(CofillError, _cofill)
    app.add_exception_handler(SQLAlchemyError, _database)
    app.add_exception_handler(Exception, _unforeseen)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return error.response(request.url.path)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        detail = "there is nothing at this address; /openapi.json lists what there is"
        return problem(404, detail, request.url.path, kind=ProblemType.NO_SUCH_ADDRESS)
    return problem(error.status_code, str(error.detail), request.url.path, headers=error.headers)


async def _cofill(request: Request, error: Exception) -> Response:
    assert isinstance(error, CofillError)
    kind = kind_of(error)
    if kind is None:
        return await _unforeseen(request, error)
    return problem(kind.status, str(error), request.url.path, kind=kind)


def kind_of(error: CofillError) -> ProblemType | None:
    """What an error of the model is for a client; None: nothing that a client could do anything about."""
    if isinstance(error, UnknownIdError):
        return ProblemType.UNKNOWN_ID
    if isinstance(error, UnknownValueError):
        return ProblemType.UNKNOWN_VALUE
    if isinstance(error, ModelFileError):
        return ProblemType.BROKEN_MODEL
    return ProblemType.UNFIT_FOR_MODEL if isinstance(error, DataError | SettingsError) else None


async def _database(request: Request, error: Exception) -> Response:
    if is_disk_full(error):  # the log has it already, once
        detail = "the disk with the database is full, so nothing was written; ask whoever runs the server to make room"
        return problem(507, detail, request.url.path)
    which = of_request(request.scope)
    log.error("%s %s: the database failed: %s", request.method, request.url.path, _line(error), extra=which)
    detail = "the database of live ratings does not answer; try again"
    kind = ProblemType.DATABASE_UNAVAILABLE
    return problem(503, detail, request.url.path, kind=kind, headers={"Retry-After": "1"})


async def _unforeseen(request: Request, error: Exception) -> Response:
    which = of_request(request.scope)
    log.error("%s %s: %s", request.method, request.url.path, _line(error), exc_info=error, extra=which)
    return problem(500, "something went wrong here; the server's log tells what", request.url.path)


def _line(error: Exception) -> str:
    """The text on one line, because it may contain input of a client."""
    return repr(str(error).splitlines()[0] if str(error) else type(error).__name__)
