"""How much one client may ask for."""

import time
from collections import OrderedDict
from math import ceil

from cofill.serving.problems import ProblemError

_MOST_CLIENTS = 10_000  # that are remembered; the one that asked longest ago is forgotten first


class RateLimit:
    """A bucket of tokens for each client: so many a second flow in, each request takes one."""

    def __init__(self, per_second: float, burst: int) -> None:
        """`per_second` 0: no limit."""
        self._per_second = per_second
        self._burst = float(burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when they were counted

    def take(self, client: str) -> None:
        """A problem if the client has none left."""
        if not self._per_second:
            return
        now = time.monotonic()
        tokens, counted = self._buckets.pop(client, (self._burst, now))
        tokens = min(self._burst, tokens + (now - counted) * self._per_second)
        if tokens < 1:
            self._buckets[client] = tokens, now
            wait = ceil((1 - tokens) / self._per_second)
            raise ProblemError(
                429,
                f"more than {self._per_second:g} requests a second; ask again in {wait} s",
                headers={"Retry-After": str(wait)},
            )
        self._buckets[client] = tokens - 1, now
        if len(self._buckets) > _MOST_CLIENTS:
            self._buckets.popitem(last=False)
