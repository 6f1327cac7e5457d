"""What can go wrong: the server refuses, or it cannot be reached."""

from collections.abc import Mapping, Sequence
from typing import Any

from cofill.errors import CofillError


class RefusedError(CofillError):
    """The server answered with a problem (RFC 9457); go by `kind`, and show the message to people."""

    def __init__(self, status: int, detail: str, type: str = "about:blank", request_id: str = "", **more: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.type = type
        """Such as /problems/unknown-id."""
        self.request_id = request_id
        """What the server's log calls the request."""
        self.retry_after: float | None = more.get("retry_after")
        """After how many seconds to try again, if the server said so."""
        self.errors: Sequence[Mapping[str, Any]] = more.get("errors") or ()
        """Each field that is wrong: `in`, `name` and `message`."""

    @property
    def kind(self) -> str:
        """The kind of problem in a word: unknown-id, invalid-request, too-many-requests..."""
        return self.type.rpartition("/")[2]


class UnreachableError(CofillError):
    """No answer came, because the server is not there, or the connection broke, or the time is up."""
