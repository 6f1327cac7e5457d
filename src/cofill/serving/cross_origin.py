"""Pages of other origins (CORS): those on the list of --allow-origin may ask and read, all others may not."""

from collections.abc import Iterable, Sequence

from starlette.types import Scope

from cofill.serving.request_ids import HEADER as REQUEST_ID_HEADER

Headers = list[tuple[bytes, bytes]]

_MAY_SEND = f"authorization, content-type, {REQUEST_ID_HEADER.decode()}"
_MAY_READ = b"ratelimit, ratelimit-policy, retry-after, " + REQUEST_ID_HEADER
_SECONDS = "600"  # for which a browser remembers the answer


class CrossOrigin:
    """The list of origins whose pages may ask this server."""

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origin.encode() for origin in origins)

    def allows(self, origin: bytes | None) -> bool:
        return origin is not None and origin.lower() in self._origins

    def headers(self, scope: Scope) -> Headers:
        """Of a response: whether the page that asked may read it."""
        if not self._origins:
            return []
        origin = _origin_of(scope)
        varies = (b"vary", b"origin")  # a cache must not hand the answer for one origin to another
        if origin is None or not self.allows(origin):
            return [varies]
        return [(b"access-control-allow-origin", origin), (b"access-control-expose-headers", _MAY_READ), varies]

    def preflight(self, scope: Scope, methods: Sequence[str]) -> dict[str, str] | None:
        """The headers that answer a browser's question whether a page may ask; None if it is no such question."""
        wanted = any(name == b"access-control-request-method" for name, _ in scope["headers"])
        if scope["method"] != "OPTIONS" or not wanted or not methods or not self.allows(_origin_of(scope)):
            return None
        return {
            "Access-Control-Allow-Methods": ", ".join(methods),
            "Access-Control-Allow-Headers": _MAY_SEND,
            "Access-Control-Max-Age": _SECONDS,
        }


def _origin_of(scope: Scope) -> bytes | None:
    given = [value for name, value in scope["headers"] if name == b"origin"]
    return given[0] if len(given) == 1 else None
