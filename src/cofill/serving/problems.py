"""All errors in one format: RFC 9457, application/problem+json."""

import json
import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from pydantic import BaseModel
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from cofill.errors import CofillError, DataError, ModelFileError, SettingsError, UnknownIdError
from cofill.serving.disk import is_disk_full

log = logging.getLogger("cofill.serving")

MEDIA_TYPE = "application/problem+json"


class ProblemMessage(BaseModel):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: list[dict[str, Any]] | None = None


class ProblemError(Exception):
    """A request that is refused."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        errors: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})

    def response(self, path: str) -> Response:
        return problem(self.status, self.detail, path, errors=self.errors, headers=self.headers)


def busy() -> ProblemError:
    """The model was busy for as long as a request may wait."""
    return ProblemError(503, "the server is busy; try again", headers={"Retry-After": "1"})


def problem(
    status: int,
    detail: str,
    path: str,
    *,
    errors: Sequence[Mapping[str, Any]] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The document; `type` is about:blank, so the status says what kind of problem it is."""
    document: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "instance": path,
    }
    if errors:
        document["errors"] = list(errors)
    # ASCII: what a client sent may be no text that UTF-8 can carry.
    return Response(json.dumps(document), status, media_type=MEDIA_TYPE, headers=dict(headers or {}))


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
    details = {
        404: "there is nothing at this address; /openapi.json lists what there is",
        405: "this address does not take that method; /openapi.json lists what there is",
    }
    detail = details.get(error.status_code, str(error.detail))
    return problem(error.status_code, detail, request.url.path, headers=error.headers)


async def _cofill(request: Request, error: Exception) -> Response:
    path = request.url.path
    if isinstance(error, UnknownIdError):
        return problem(404, str(error), path)
    if isinstance(error, DataError | SettingsError | ModelFileError):
        return problem(422, str(error), path)
    return await _unforeseen(request, error)


async def _database(request: Request, error: Exception) -> Response:
    if is_disk_full(error):  # the log has it already, once
        detail = "the disk with the database is full, so nothing was written; ask whoever runs the server to make room"
        return problem(507, detail, request.url.path)
    log.error("%s %s: the database failed: %s", request.method, request.url.path, _line(error))
    detail = "the database of live ratings does not answer; try again"
    return problem(503, detail, request.url.path, headers={"Retry-After": "1"})


async def _unforeseen(request: Request, error: Exception) -> Response:
    log.error("%s %s: %s", request.method, request.url.path, _line(error), exc_info=error)
    return problem(500, "something went wrong here; the server's log tells what", request.url.path)


def _line(error: Exception) -> str:
    """The text on one line, because it may contain input of a client."""
    return repr(str(error).splitlines()[0] if str(error) else type(error).__name__)
