"""Whether a request is let in: its host, its origin, its key, its rate."""

import ipaddress
from urllib.parse import urlsplit

from starlette.types import Scope

from cofill.serving.keys import KeyRing
from cofill.serving.limits import RateLimit
from cofill.serving.problems import ProblemError
from cofill.serving.settings import LOOPBACK_NAMES, ServingSettings

_OPEN = ("/", "/health")  # to everybody and at any rate, as are the page's files: they are answered from memory
_READY = "/ready"  # open too, but it asks the database
_PAGE = "/page/"
_READING_POSTS = ("/v1/recommendations", "/v1/recommendations/batch", "/v1/predictions", "/v1/why")
_LONGEST_QUERY = 32 * 1024


class Admission:
    """With keys, a key opens. Without, only this machine can ask, and no page of somebody else may ask in its name."""

    def __init__(self, settings: ServingSettings) -> None:
        self._settings = settings
        self._keys = None if settings.keys is None else KeyRing(settings.keys)
        self._rate = RateLimit(settings.requests_per_second, settings.burst)
        self._names = {*LOOPBACK_NAMES, settings.host.strip("[]").lower()}

    def check(self, scope: Scope) -> None:
        """A problem if the request is not let in."""
        path: str = scope["path"]
        if len(scope["query_string"]) > _LONGEST_QUERY:
            raise ProblemError(414, f"a query has at most {_LONGEST_QUERY} characters; send a body instead")
        headers = dict(scope["headers"])
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            raise ProblemError(400, "a request names one host", headers={"Connection": "close"})
        if self._keys is None:
            self._check_host(headers.get(b"host", b""))
            if writes(scope):
                self._check_origin(headers)
        client = f"address {scope['client'][0]}" if scope.get("client") else "address unknown"
        if is_open(path):
            return
        if self._keys is None or path == _READY:
            self._rate.take(client)
        else:
            self._check_key(self._keys, headers.get(b"authorization", b""), client, writes(scope))

    def _check_key(self, keys: KeyRing, authorization: bytes, client: str, write: bool) -> None:
        scheme, _, token = authorization.decode("latin-1").partition(" ")
        key = keys.find(token.strip()) if scheme.lower() == "bearer" else None
        if key is None:
            if authorization:  # whoever tries keys is slowed down, and nobody else
                self._rate.take(f"wrong keys from {client}")
            raise ProblemError(
                401,
                "a key is needed here: send Authorization: Bearer KEY (`cofill keys new` makes one)",
                headers={"WWW-Authenticate": 'Bearer realm="cofill"'},
            )
        self._rate.take(f"key {key.name}")
        if write and not key.write:
            raise ProblemError(403, f"the key {key.name!r} may read and not write; use one made with --write")

    def _check_host(self, host: bytes) -> None:
        """Against pages whose name was made to point here: their requests carry that name."""
        name = _host_name(host.decode("latin-1"))
        if name not in self._names and not _is_loopback(name):
            raise ProblemError(
                421, "the server is asked by a name that is not its own; use localhost, or start it with --keys"
            )

    def _check_origin(self, headers: dict[bytes, bytes]) -> None:
        """A page of somebody else may not write, even where the browser would let it."""
        origin = headers.get(b"origin")
        site = headers.get(b"sec-fetch-site", b"none")
        own = headers.get(b"host", b"").lower()
        foreign = origin is not None and origin.lower() not in (b"http://" + own, b"https://" + own)
        if foreign or site == b"cross-site":
            raise ProblemError(403, "a page of another origin may not write here; open this server's own page")


def is_open(path: str) -> bool:
    """Whether everybody may ask for it, at any rate and however busy the server is."""
    return path in _OPEN or path.startswith(_PAGE)


def writes(scope: Scope) -> bool:
    """Whether a request may change something."""
    method, path = scope["method"], scope["path"]
    return method not in ("GET", "HEAD", "OPTIONS") and not (method == "POST" and path in _READING_POSTS)


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
