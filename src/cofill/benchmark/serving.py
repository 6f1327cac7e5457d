"""`cofill benchmark serving`: a real server under load, each figure beside the same scoring in process."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cofill.benchmark.own_process import measure
from cofill.processes import stop_workers

Say = Callable[[str], None]

_TASKS = "cofill.benchmark.serving_tasks"
_REQUESTS = 400  # of each kind, one at a time and several at a time
_AT_ONCE = 8
_RATINGS_OF_SOMEBODY = 20
_WRITES_A_SECOND = 10


def measure_serving(
    like: str, settings: dict[str, Any], *, scale: float, seconds: int, seed: int, say: Say
) -> dict[str, Any]:
    """A model of a published shape, a server of it in one process, and whoever asks it in another."""
    with tempfile.TemporaryDirectory(prefix="cofill-benchmark-") as folder:
        model = Path(folder) / "model"
        say(f"making a model like {like}")
        shape = measure(_TASKS, "make_model", model=str(model), like=like, scale=scale, seed=seed, settings=settings)
        say(f"starting a server of {shape['users']:,} users and {shape['items']:,} items")
        with _serving(model) as (pid, address):
            say(f"asking it one by one and {_AT_ONCE} at a time, then {seconds} seconds with writes")
            loaded = measure(
                _TASKS,
                "load",
                model=str(model),
                address=address,
                server=pid,
                requests=_REQUESTS,
                at_once=_AT_ONCE,
                ratings_each=_RATINGS_OF_SOMEBODY,
                seconds=seconds,
                writes_a_second=_WRITES_A_SECOND,
                seed=seed,
            )
    return {"like": like, **shape, "settings": settings, "at_once": _AT_ONCE, **loaded}


@contextmanager
def _serving(model: Path) -> Iterator[tuple[int, str]]:
    """`cofill serve` as somebody would start it, but for the limit that a load would meet: its process and address."""
    words = ["serve", str(model), "--port", "0", "--requests-per-second", "0", "--quiet"]
    server = subprocess.Popen([sys.executable, "-m", "cofill.cli", *words], stdout=subprocess.PIPE)
    assert server.stdout is not None
    try:
        address = server.stdout.readline().decode().strip()
        if not address:
            raise RuntimeError(f"the server did not start: exit code {server.wait()}")
        yield server.pid, address
    finally:
        stop_workers([server], 15)
        server.stdout.close()
