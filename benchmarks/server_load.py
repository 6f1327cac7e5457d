"""A real server under load, each figure beside the same scoring in the process that asks.

    python benchmarks/server_load.py [--like ml-10m] [--size 1] [--seconds 60] [--json]

Questions one at a time, several at a time, and while ratings are written. The model is made, the server runs, and the
questions are asked in processes of their own.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import numpy as np

from cofill.cli.options import SHAPES
from cofill.memory import data_size
from own_process import in_own_process, percentiles, print_result

if TYPE_CHECKING:
    from cofill.models.recommender import Recommender

Question = int | dict[int, float]
"""A known user, or the ratings of somebody new."""

_REQUESTS = 400  # of each kind, one at a time and several at a time
_AT_ONCE = 8
_RATINGS_OF_SOMEBODY = 20
_WRITES_A_SECOND = 10
_N = 10  # items of a list
_WARM = 10  # requests, and writes, that are not counted
_BARELY_TRAINED: dict[str, Any] = {"epochs": 1, "validation": 0.0}


def measure_serving(like: str, settings: dict[str, Any], *, scale: float, seconds: int, seed: int) -> dict[str, Any]:
    """Measure a model of a published shape, with the server in one process and the client in another."""
    with TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        print(f"making a model like {like}", file=sys.stderr)
        shape = in_own_process(make_model, model=str(model), like=like, scale=scale, seed=seed, settings=settings)
        print(f"starting a server of {shape['users']:,} users and {shape['items']:,} items", file=sys.stderr)
        with _serving(model) as (pid, address):
            print(f"asking it one by one and {_AT_ONCE} at a time, then {seconds} seconds with writes", file=sys.stderr)
            loaded = in_own_process(
                load,
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
    """Start `cofill serve` as a user would, but without the rate limit; gives its process and address."""
    words = ["serve", str(model), "--port", "0", "--requests-per-second", "0", "--quiet"]
    server = subprocess.Popen([sys.executable, "-m", "cofill.cli", *words], stdout=subprocess.PIPE)
    assert server.stdout is not None
    try:
        address = server.stdout.readline().decode().strip()
        if not address:
            raise RuntimeError(f"the server did not start: exit code {server.wait()}")
        yield server.pid, address
    finally:
        server.terminate()
        server.wait(60)
        server.stdout.close()


# In a process of its own: to make a model


def make_model(model: str, like: str, scale: float, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Make a model of synthetic ratings; its accuracy does not matter here."""
    from cofill.data.datasets.world import make_world_like
    from cofill.models.cfn.model import CFN

    ratings = make_world_like(like, scale, seed).ratings
    CFN(**_BARELY_TRAINED, seed=seed, **settings).fit(ratings).save(Path(model))
    return {"users": len(ratings.users), "items": len(ratings.items), "ratings": len(ratings)}


# In a process of its own: to ask a server


def load(
    model: str,
    address: str,
    server: int,
    requests: int,
    at_once: int,
    ratings_each: int,
    seconds: float,
    writes_a_second: float,
    seed: int,
) -> dict[str, Any]:
    """Send each request to the server and to the same model in this process, in turn."""
    from threadpoolctl import threadpool_limits

    from cofill.models.recommender import Recommender

    threadpool_limits(1, "blas")  # as the server does: the same scoring
    asked = _Asked(Recommender.load(Path(model)), address, ratings_each, np.random.default_rng(seed))
    return asyncio.run(asked.everything(requests, at_once, server, seconds, writes_a_second))


class _HttpConnection:
    """A minimal HTTP client, because its own time counts as the server's.

    One connection that is kept, one request at a time.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader = reader
        self._writer = writer
        self._host = host

    @classmethod
    async def open(cls, address: str) -> Self:
        parts = urlsplit(address)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        return cls(reader, writer, parts.netloc)

    async def ask(self, method: str, path: str, message: Any = None) -> Any:
        """The answer's document; RuntimeError where it is a problem."""
        body = b"" if message is None else json.dumps(message).encode()
        about = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        self._writer.write(f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\n{about}\r\n".encode() + body)
        await self._writer.drain()
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(head.partition("\r\ncontent-length:")[2].partition("\r\n")[0])
        content = await self._reader.readexactly(length)
        if not head.startswith("http/1.1 200 "):
            raise RuntimeError(f"{method} {path}: {content.decode(errors='replace')[:200]}")
        return json.loads(content)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


class _Asked:
    """A server and a local model that get the same requests."""

    def __init__(self, model: "Recommender", address: str, ratings_each: int, rng: np.random.Generator) -> None:
        self._model = model
        self._address = address
        self._ratings_each = min(ratings_each, len(model.items))
        self._rng = rng
        self._kinds: dict[str, Callable[[], Question]] = {"known": self._known, "new": self._new}

    async def everything(
        self, requests: int, at_once: int, server: int, seconds: float, writes_a_second: float
    ) -> dict[str, Any]:
        connections = [await _HttpConnection.open(self._address) for _ in range(at_once)]
        found: dict[str, Any] = {"one_at_a_time": {}, "several_at_a_time": {}}
        for kind, question in self._kinds.items():
            await self._one_by_one(connections[0], [question() for _ in range(_WARM)])
            questions = [question() for _ in range(requests)]
            found["one_at_a_time"][kind] = await self._one_by_one(connections[0], questions)
            found["several_at_a_time"][kind] = await self._several(connections, questions)
        found["with_writes"] = await self._with_writes(connections, server, seconds, writes_a_second)
        for connection in connections:
            await connection.close()
        return found

    # Questions

    def _known(self) -> int:
        return int(self._rng.integers(len(self._model.users))) + 1

    def _new(self) -> Question:
        items = self._rng.choice(len(self._model.items), self._ratings_each, replace=False) + 1
        return {int(item): float(self._rng.integers(1, 6)) for item in items}

    async def _over_http(self, connection: _HttpConnection, question: Question) -> float:
        """Seconds, from the question to the parsed answer."""
        started = time.perf_counter()
        if isinstance(question, int):
            answer = await connection.ask("GET", f"/v1/recommendations?user={question}&n={_N}")
        else:
            ratings = [{"item": item, "rating": rating} for item, rating in question.items()]
            answer = await connection.ask("POST", "/v1/recommendations", {"ratings": ratings, "n": _N})
        elapsed = time.perf_counter() - started
        if not answer["items"]:
            raise RuntimeError("nothing was recommended")
        return elapsed

    def _in_process(self, question: Question) -> float:
        started = time.perf_counter()
        self._model.recommend(question, _N)
        return time.perf_counter() - started

    # Ways to ask

    async def _one_by_one(self, connection: _HttpConnection, questions: list[Question]) -> dict[str, Any]:
        http, process = [], []
        for question in questions:
            http.append(await self._over_http(connection, question))
            process.append(self._in_process(question))
        return _compared(http, sum(http), process, sum(process))

    async def _several(self, connections: list[_HttpConnection], questions: list[Question]) -> dict[str, Any]:
        """Each connection asks again as soon as it is answered. In process, too, all wait for one that scores."""
        http: list[float] = []
        process: list[float] = []
        http_wall = process_wall = 0.0
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as scoring:

            async def scored(_: _HttpConnection, question: Question) -> float:
                started = time.perf_counter()
                await loop.run_in_executor(scoring, self._in_process, question)
                return time.perf_counter() - started

            turn = 5 * len(connections)
            for first in range(0, len(questions), turn):
                some = questions[first : first + turn]
                http_wall += await _all(connections, some, self._over_http, http)
                process_wall += await _all(connections, some, scored, process)
        return _compared(http, http_wall, process, process_wall)

    async def _with_writes(
        self, connections: list[_HttpConnection], server: int, seconds: float, writes_a_second: float
    ) -> dict[str, Any]:
        """Both kinds of questions in turn, one at a time, while ratings are put at a steady rate."""
        times: dict[str, tuple[list[float], list[float]]] = {kind: ([], []) for kind in self._kinds}
        written: list[tuple[int, int, float]] = []  # and not yet known in this process
        writes: list[float] = []
        before = _memory(server)  # the first write makes arrays that can be written
        await self._write(connections[1], time.perf_counter() + 1, _WARM, [], written)
        await self._over_http(connections[0], self._known())
        memory = {"before any write": before, "start": _memory(server)}
        until = time.perf_counter() + seconds
        writing = asyncio.create_task(self._write(connections[1], until, writes_a_second, writes, written))
        while (now := time.perf_counter()) < until:
            if now > until - seconds / 2 and "half" not in memory:
                memory["half"] = _memory(server)
            for kind, question in self._kinds.items():
                asked = question()
                http, process = times[kind]
                http.append(await self._over_http(connections[0], asked))
                if written:
                    self._model.add_ratings(written)
                    written.clear()
                process.append(self._in_process(asked))
        await writing
        return {
            **{kind: _compared(http, sum(http), process, sum(process)) for kind, (http, process) in times.items()},
            "seconds": seconds,
            "writes": {"number": len(writes), **percentiles(writes)},
            "memory_bytes": memory | {"end": _memory(server)},
        }

    async def _write(
        self,
        connection: _HttpConnection,
        until: float,
        a_second: float,
        times: list[float],
        written: list[tuple[int, int, float]],
    ) -> None:
        due = time.perf_counter()
        while due < until:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            user, item = self._known(), int(self._rng.integers(len(self._model.items))) + 1
            rating = float(self._rng.integers(1, 6))
            started = time.perf_counter()
            await connection.ask("PUT", "/v1/ratings", {"user": user, "ratings": [{"item": item, "rating": rating}]})
            times.append(time.perf_counter() - started)
            written.append((user, item, rating))
            due += 1 / a_second


async def _all(
    connections: list[_HttpConnection],
    questions: list[Question],
    ask: Callable[[_HttpConnection, Question], Awaitable[float]],
    times: list[float],
) -> float:
    """Send all requests over all connections; returns the total seconds."""
    left = list(questions)

    async def go_on(connection: _HttpConnection) -> None:
        while left:
            times.append(await ask(connection, left.pop()))

    started = time.perf_counter()
    await asyncio.gather(*(go_on(connection) for connection in connections))
    return time.perf_counter() - started


def _compared(http: list[float], http_wall: float, process: list[float], process_wall: float) -> dict[str, Any]:
    ours, theirs = percentiles(http), percentiles(process)
    return {
        "requests": len(http),
        "requests_per_second": len(http) / http_wall,
        **ours,
        "in_process": {"per_second": len(process) / process_wall, **theirs},
        "ratio": {"p50": ours["p50"] / theirs["p50"], "p99": ours["p99"] / theirs["p99"]},
    }


def _memory(process: int) -> int | None:
    """Resident memory in bytes; None if the system does not tell."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def rows_of(result: dict[str, Any]) -> list[tuple[str, str]]:
    """A line for each way of asking, then the writes and the memory."""
    ways = {
        "one at a time": result["one_at_a_time"],
        f"{result['at_once']} at a time": result["several_at_a_time"],
        "one at a time, with writes": {kind: result["with_writes"][kind] for kind in ("known", "new")},
    }
    rows = [("users, items", f"{result['users']:,}, {result['items']:,}")]
    for way, kinds in ways.items():
        for kind, found in kinds.items():
            times = [1e3 * of[p] for of in (found, found["in_process"]) for p in ("p50", "p99")]
            rows.append(
                (
                    f"{kind} user, {way}",
                    f"{found['requests_per_second']:,.0f} a second, p50 {times[0]:.2f} ms, p99 {times[1]:.2f} ms; in "
                    f"process {times[2]:.2f} and {times[3]:.2f} ms; ratio {found['ratio']['p50']:.2f} and "
                    f"{found['ratio']['p99']:.2f}",
                )
            )
    wrote, memory = result["with_writes"]["writes"], result["with_writes"]["memory_bytes"]
    rows.append(
        ("ratings put", f"{wrote['number']:,}, p50 {wrote['p50'] * 1e3:.1f} ms, p99 {wrote['p99'] * 1e3:.1f} ms")
    )
    return rows + [(f"memory of the server, {when}", data_size(found)) for when, found in memory.items() if found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--like", choices=SHAPES, default="ml-10m", help="shape of the served model")
    parser.add_argument("--size", type=float, default=1.0, help="share of that shape's ratings")
    parser.add_argument("--seconds", type=int, default=60, help="how long to send reads and writes")
    parser.add_argument("--hidden", type=int, help="width of the hidden layer (default: as in training)")
    parser.add_argument("--orientation", choices=("user", "item"), default="item", help="what a row is")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    settings = {name: getattr(options, name) for name in ("hidden", "orientation") if getattr(options, name)}
    result = measure_serving(options.like, settings, scale=options.size, seconds=options.seconds, seed=options.seed)
    print_result(result, rows_of(result), options.json)


if __name__ == "__main__":
    main()
