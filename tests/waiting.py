"""Wait for something to become true, for as long as a busy machine may take."""

import time
from collections.abc import Callable


def wait_until(true: Callable[[], object], what: str = "", seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {what or 'something'}"
        time.sleep(0.05)
