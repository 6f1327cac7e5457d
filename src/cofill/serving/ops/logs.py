"""The log of the server, on standard error: plain lines, or one JSON object a line; with or without every request.

By default nothing in it says who asked, or for whom: neither queries nor bodies, ids of people nor addresses. A path
that is none of the server's own is not told either, because there may be anything in it.
"""

import json
import logging
import re
import sys
import uuid
import warnings
from datetime import UTC, datetime
from typing import Any

from starlette.types import Scope

from cofill.data.features import UnknownFeatureWarning
from cofill.serving.settings import ServingSettings

log = logging.getLogger("cofill.serving")

REQUEST_ID = "cofill.request_id"
"""Where a request's scope has its id, a text."""
HEADER = b"x-request-id"
# What stands in logs and headers of others: nothing that could end a line, a field or a quotation.
_SANE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


def request_id(scope: Scope) -> str:
    """The id that the caller gave, once and in plain characters; otherwise a new one."""
    given = [value for name, value in scope["headers"] if name == HEADER]
    if len(given) == 1:
        text: str = given[0].decode("latin-1")
        if _SANE.fullmatch(text):
            return text
    return new_request_id()


def new_request_id() -> str:
    return uuid.uuid4().hex


def set_up_logging(settings: ServingSettings) -> None:
    """One line for each event, on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    if settings.log_format == "json":
        handler.setFormatter(JsonLines())
    else:
        handler.setFormatter(PlainLines("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    log.setLevel(logging.INFO)
    logging.captureWarnings(True)
    warnings.simplefilter("ignore", UnknownFeatureWarning)  # what others write is no news to whoever runs the server


def about(**fields: Any) -> dict[str, dict[str, Any]]:
    """Fields of their own for an event in JSON: `log.info("...", extra=about(model="a"))`."""
    return {"about": {name: value for name, value in fields.items() if value is not None}}


def of_request(scope: Scope) -> dict[str, dict[str, Any]]:
    """The same, for an event in the middle of a request: which one it was."""
    return about(request_id=scope.get(REQUEST_ID))


class PlainLines(logging.Formatter):
    """Events as text, with the id of the request, if there is one, after the message."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = super().formatMessage(record)
        more = getattr(record, "about", {})
        return line + "".join(f" {name}={more[name]}" for name in ("request_id", "address") if name in more)


class JsonLines(logging.Formatter):
    """Events as JSON: `time`, `level`, `message`, `process`, fields of their own, and `trace` after an error."""

    def format(self, record: logging.LogRecord) -> str:
        document = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            "process": record.process,
            **getattr(record, "about", {}),
        }
        if record.exc_info:
            document["trace"] = self.formatException(record.exc_info)
        return json.dumps(document, default=str)


class AccessLog:
    """A line for every request that was answered."""

    def __init__(self, settings: ServingSettings) -> None:
        self._addresses = settings.log_addresses

    def answered(self, scope: Scope, method: str, route: str, status: int, seconds: float) -> None:
        """`route`: the path that was declared, not the one that was asked for."""
        client = scope.get("client") if self._addresses else None
        fields = about(
            method=method,
            route=route,
            status=status,
            milliseconds=round(1000 * seconds, 1),
            request_id=scope.get(REQUEST_ID),
            address=client[0] if client else None,
        )
        log.info("%s %s %d %.1f ms", method, route, status, 1000 * seconds, extra=fields)
