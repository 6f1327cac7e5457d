"""The exchange over the network gives every worker the same bits, and never waits without an end."""

import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.cluster import comm
from cofill.cluster.comm import LOOPBACK, ExchangeError, Mesh, listen
from cofill.exchange import Exchange, total

NUMBERS = (np.float32, np.float64, np.int64, np.int32, np.int8, np.uint8, np.uint64)


def together(size: int, act: Callable[[Mesh], Any], seconds: float = 60.0) -> list[Any]:
    """What `act` returns in each of so many workers, which are threads of this process."""
    listening = [listen(LOOPBACK) for _ in range(size)]
    addresses = [one.getsockname() for one in listening]

    def one(rank: int) -> Any:
        meshes[rank] = Mesh(rank, addresses, listening[rank], b"token", seconds=seconds)
        return act(meshes[rank])

    meshes: dict[int, Mesh] = {}
    with ThreadPoolExecutor(size) as pool:
        try:
            return list(pool.map(one, range(size)))
        finally:
            for mesh in meshes.values():
                mesh.close()


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_sums_maxima_and_gatherings_are_those_of_numpy_with_the_same_bits_everywhere(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 4), "size")
    kind = data.draw(st.sampled_from((*NUMBERS, np.bool_)), "type")
    shape = data.draw(st.tuples(st.integers(0, 9), st.integers(1, 5)), "shape")
    lengths = data.draw(st.lists(st.integers(0, 6), min_size=size, max_size=size), "lengths")
    random = np.random.default_rng(data.draw(st.integers(0, 99), "seed"))

    def numbers(*shape: int) -> np.ndarray[Any, np.dtype[Any]]:
        if np.issubdtype(kind, np.floating):
            return random.normal(size=shape).astype(kind)
        if kind is np.bool_:
            return random.random(shape) < 0.5
        return random.integers(0, 256, (*shape, np.dtype(kind).itemsize), np.uint8).view(kind)[..., 0].copy()

    own = [numbers(*shape) for _ in range(size)]
    parts = [numbers(length, 2) for length in lengths]

    def act(exchange: Mesh) -> Any:
        rank = exchange.rank
        summed = None if kind is np.bool_ else exchange.all_reduce(own[rank].copy())
        parts[rank].flags.writeable = False
        return summed, exchange.max_(own[rank].copy()), exchange.gather(parts[rank])

    with np.errstate(over="ignore"):
        wanted: np.ndarray[Any, np.dtype[Any]] = np.sum(own, axis=0, dtype=kind)
    for summed, greatest, gathered in (heard := together(size, act)):
        if summed is not None:
            assert summed.tobytes() == heard[0][0].tobytes()
            np.testing.assert_allclose(summed, wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(greatest, np.max(own, axis=0))
        assert len(gathered) == size
        for found, part in zip(gathered, parts, strict=True):
            assert found.dtype == part.dtype
            np.testing.assert_array_equal(found, part)


def test_large_arrays_go_in_pieces_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.random.default_rng(1).normal(size=(3, 1000)).astype(np.float32)

    def act(exchange: Mesh) -> Any:
        own = whole * (exchange.rank + 1)
        return exchange.gather(own[: 1 + exchange.rank]), exchange.all_reduce(own), exchange.sent

    at_once = together(2, act)
    monkeypatch.setattr(comm, "_PIECE", 1 << 8)
    for (one, summed, sent), (other, as_well, _) in zip(at_once, together(2, act), strict=True):
        np.testing.assert_array_equal(summed, as_well)
        for part, again in zip(one, other, strict=True):
            np.testing.assert_array_equal(part, again)
        assert sent >= whole.nbytes


def test_a_worker_without_data_takes_part() -> None:
    def act(exchange: Exchange) -> Any:
        part = np.ones((0 if exchange.rank else 2, 4), np.float32)
        return (
            [len(each) for each in exchange.gather(part)],
            total(exchange, len(part)),
            exchange.sent,
            exchange.seconds,
        )

    for lengths, rows, sent, seconds in together(3, act):
        assert (lengths, rows) == ([2, 0, 0], [2.0])
        assert sent > 0
        assert seconds > 0


@pytest.mark.slow
def test_a_worker_that_does_not_come_is_not_waited_for_for_ever() -> None:
    missed = threading.Event()

    def act(exchange: Mesh) -> str:
        exchange.all_reduce(np.ones(3, np.float32))
        if exchange.rank == 1:
            missed.wait(60)
            return ""
        with pytest.raises(ExchangeError) as failure:
            exchange.all_reduce(np.ones((5, 2), np.float32))
        missed.set()
        return str(failure.value)

    said, _ = together(2, act, seconds=15.0)
    assert "worker 1 of 2 waited" in said
    assert "for a sum of (5, 2) float32, at most 15 s: Timed out" in said


def test_a_worker_that_cannot_be_reached_is_an_error() -> None:
    with pytest.raises(ExchangeError, match=r"worker 2 of 2 waited .* for meeting the others, .* refused"):
        Mesh(1, [(LOOPBACK, 9), (LOOPBACK, 9)], listen(LOOPBACK), b"token")


def test_those_who_do_not_know_the_token_are_not_met() -> None:
    listening = [listen(LOOPBACK), listen(LOOPBACK)]
    addresses = [one.getsockname() for one in listening]
    for told in (b"", b"other\0\0\0\1"):
        with socket.create_connection(addresses[0]) as stranger:
            stranger.sendall(told)
    with ThreadPoolExecutor(2) as pool:
        meshes = pool.map(lambda rank: Mesh(rank, addresses, listening[rank], b"token"), range(2))
        met = list(meshes)
        assert list(pool.map(lambda mesh: mesh.all_reduce(np.ones(3)).tolist(), met)) == [[2.0, 2.0, 2.0]] * 2
        for mesh in met:
            mesh.close()


MEMBER = """
import sys
import numpy as np
from cofill.cluster.comm import LOOPBACK, Mesh, listen
listening = listen(LOOPBACK)
print(listening.getsockname()[1], flush=True)
addresses = [(LOOPBACK, int(port)) for port in sys.stdin.readline().split()]
exchange = Mesh(int(sys.argv[1]), addresses, listening, b"token", seconds=15)
exchange.all_reduce(np.ones(3, np.float32))
print("met", flush=True)
try:
    while True:
        exchange.all_reduce(np.ones(1000, np.float32))
except Exception as error:
    print(type(error).__name__, error, flush=True)
"""


def test_the_death_of_a_process_ends_the_exchange_of_the_others() -> None:
    def heard(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline().strip()

    with ExitStack() as ended:
        members = [
            ended.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", MEMBER, str(rank)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            )
            for rank in range(2)
        ]
        ports = " ".join(map(heard, members))
        for one in members:
            assert one.stdin is not None
            one.stdin.write(f"{ports}\n")
            one.stdin.flush()
        assert [heard(one) for one in members] == ["met", "met"]
        members[1].kill()
        assert heard(members[0]).startswith("ExchangeError worker 1 of 2 waited")
