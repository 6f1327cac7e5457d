"""The id of a request: the caller's own (X-Request-Id) or a new one, in its response and in the log."""

import re
import uuid

from starlette.types import Scope

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
