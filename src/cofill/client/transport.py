"""How a call becomes a request, and a response a reply or an exception; the same for both clients."""

import email.utils
import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import urlencode

from pydantic import TypeAdapter, ValidationError

from cofill.errors import CofillError
from cofill.extras import require

if TYPE_CHECKING:
    import httpx

Reply = TypeVar("Reply")

JSON = "application/json"
LINES = "application/x-ndjson"
_AGAIN = (429, 503)  # the server says that it may go well another time
_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0
_JITTER = 1.5  # times as long at most, so that many clients do not come back at the same moment


def require_httpx() -> None:
    require("the client", "client", "httpx")


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


@dataclass(frozen=True)
class Call(Generic[Reply]):
    """What is asked of the server, and how the answer is read."""

    method: str
    path: str
    reply: Callable[[bytes], Reply]
    query: Sequence[tuple[str, str]] = ()
    body: bytes | None = None
    media_type: str = JSON
    repeatable: bool = True
    """Whether nothing is done twice if it is sent twice."""
    lasts: bool = False
    """Nobody knows for how long: it is waited for until it is answered."""


def reading(shape: type[Reply]) -> Callable[[bytes], Reply]:
    """Reads a JSON answer."""
    adapter = TypeAdapter(shape)

    def read(content: bytes) -> Reply:
        try:
            return adapter.validate_json(content)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"])) or "the answer"
            raise RefusedError(200, f"the answer is not what a cofill server sends: {place}: {first['msg']}") from None

    return read


def nothing(content: bytes) -> None:
    """Of answers without content."""


def words_of(query: Mapping[str, object]) -> list[tuple[str, str]]:
    """A query; what is None is left out, and lists are repeated."""
    found: list[tuple[str, str]] = []
    for name, value in query.items():
        for one in value if isinstance(value, list | tuple) else (value,):
            if one is not None:
                found.append((name, str(one).lower() if isinstance(one, bool) else str(one)))
    return found


class Conversation:
    """One call, however often it has to be sent until it is answered."""

    def __init__(self, call: Call[Any], key: str | None, retries: int, request_id: str | None) -> None:
        self._call = call
        self._retries = retries if call.repeatable else 0
        self._tried = 0
        self.request_id = request_id or uuid.uuid4().hex
        self._headers = {"x-request-id": self.request_id, "accept": "application/json, application/problem+json"}
        if key is not None:
            self._headers["authorization"] = f"Bearer {key}"
        if call.body is not None:
            self._headers["content-type"] = call.media_type

    def request(self) -> dict[str, Any]:
        """The arguments of httpx."""
        call = self._call
        path = f"{call.path}?{urlencode(call.query)}" if call.query else call.path
        told = {"method": call.method, "url": path, "content": call.body, "headers": self._headers}
        return told | ({"timeout": None} if call.lasts else {})

    def wait(self, response: "httpx.Response | None") -> float | None:
        """For how many seconds to wait before it is sent again; None if it should not be. No response: it broke."""
        if response is not None and response.status_code not in _AGAIN:
            return None
        if self._tried == self._retries:
            return None
        asked = None if response is None else _retry_after(response)
        if asked is not None and asked > _LONGEST_WAIT:
            return None
        self._tried += 1
        wait = asked if asked is not None else _FIRST_WAIT * 2.0 ** (self._tried - 1)
        return wait * random.uniform(1.0, _JITTER)

    def refusal(self, response: "httpx.Response") -> RefusedError:
        told: Any = None
        if response.headers.get("content-type", "").startswith("application/problem+json"):
            told = response.json()
        if not isinstance(told, dict):  # a proxy in between, say
            told = {"detail": f"the server answered {response.status_code} {response.reason_phrase}".strip()}
        return RefusedError(
            response.status_code,
            str(told.get("detail") or told.get("title")),
            str(told.get("type", "about:blank")),
            response.headers.get("x-request-id", self.request_id),
            errors=told.get("errors"),
            retry_after=_retry_after(response),
        )


def _retry_after(response: "httpx.Response") -> float | None:
    """In seconds; a proxy may send a date."""
    text = response.headers.get("retry-after", "").strip()
    if text.isdigit():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return None
