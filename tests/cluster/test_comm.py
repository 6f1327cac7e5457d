"""The exchange over the network gives every worker the same bits, and never waits without an end."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.cluster import comm
from cofill.cluster.comm import LOOPBACK, ExchangeError, Gloo, Meeting, join_meeting
from cofill.exchange import Exchange, total
from tests.cluster.conftest import Host

NUMBERS = (np.float32, np.float64, np.int64, np.int32, np.int8, np.uint8, np.uint64)


def together(size: int, act: Callable[[Gloo], Any], seconds: float = 60.0, most_in_ring: int = 8) -> list[Any]:
    """What `act` returns in each of so many workers: threads of this process, which gloo cannot tell from others."""
    meeting = Meeting(LOOPBACK)

    def one(rank: int) -> Any:
        store = meeting.store if rank == 0 else join_meeting(LOOPBACK, meeting.port)
        return act(Gloo(store, rank, size, address=LOOPBACK, seconds=seconds, most_in_ring=most_in_ring))

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(one, range(size)))


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

    def act(exchange: Gloo) -> Any:
        rank = exchange.rank
        summed = None if kind is np.bool_ else exchange.sum_(own[rank].copy())
        parts[rank].flags.writeable = False
        greatest = None if kind is np.uint64 else exchange.max_(own[rank].copy())
        return summed, greatest, exchange.gather(parts[rank])

    with np.errstate(over="ignore"):
        wanted: np.ndarray[Any, np.dtype[Any]] = np.sum(own, axis=0, dtype=kind)
    for summed, greatest, gathered in (heard := together(size, act)):
        if summed is not None:
            assert summed.tobytes() == heard[0][0].tobytes()
            np.testing.assert_allclose(summed, wanted, rtol=1e-5, atol=1e-6)
        if greatest is not None:
            np.testing.assert_array_equal(greatest, np.max(own, axis=0))
        assert len(gathered) == size
        for found, part in zip(gathered, parts, strict=True):
            assert found.dtype == part.dtype
            np.testing.assert_array_equal(found, part)


def test_large_arrays_go_in_pieces_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.random.default_rng(1).normal(size=(3, 1000)).astype(np.float32)

    def act(exchange: Gloo) -> Any:
        own = whole * (exchange.rank + 1)
        return exchange.gather(own[: 1 + exchange.rank]), exchange.sum_(own), exchange.sent

    at_once = together(2, act)
    monkeypatch.setattr(comm, "_PIECE", 1 << 8)
    for (one, summed, sent), (other, as_well, _) in zip(at_once, together(2, act), strict=True):
        np.testing.assert_array_equal(summed, as_well)
        for part, again in zip(one, other, strict=True):
            np.testing.assert_array_equal(part, again)
        assert sent >= whole.nbytes


def test_a_worker_without_data_takes_part_and_counts_are_kept() -> None:
    def act(exchange: Exchange) -> Any:
        nothing = np.zeros((0, 4), np.float32)
        part = nothing if exchange.rank else np.ones((2, 4), np.float32)
        gathered = exchange.gather(part)
        return [len(each) for each in gathered], total(exchange, len(part)), exchange.sent, exchange.seconds

    for rank, (lengths, rows, sent, seconds) in enumerate(together(3, act)):
        assert lengths == [2, 0, 0]
        assert rows == [2.0]
        told = 2 * 2 * (3 * 8) // 3 + 2 * 2 * 8 // 3
        assert sent == told + (2 * 32 if rank == 0 else 0)
        assert seconds > 0


@pytest.mark.slow
def test_a_worker_that_does_not_come_is_not_waited_for_for_ever() -> None:
    missed = threading.Event()

    def act(exchange: Gloo) -> str:
        exchange.sum_(np.ones(3, np.float32))
        if exchange.rank == 1:
            missed.wait(60)
            return ""
        with pytest.raises(ExchangeError) as failure:
            exchange.sum_(np.ones((5, 2), np.float32))
        missed.set()
        return str(failure.value)

    said, _ = together(2, act, seconds=15.0)
    assert "worker 1 of 2 waited" in said
    assert "for a sum of (5, 2) float32, at most 15 s: Timed out" in said
    assert ".cc" not in said


def test_a_meeting_nobody_holds_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comm, "_SECONDS_TO_MEET", 0.5)
    with pytest.raises(ExchangeError, match=r"for worker 1 at 127\.0\.0\.1:9: "):
        join_meeting(LOOPBACK, 9)


MEMBER = """
import sys
import numpy as np
from cofill.cluster.comm import Gloo, Meeting, join_meeting
rank, address, at = int(sys.argv[1]), sys.argv[2], sys.argv[3]
if rank == 0:
    meeting = Meeting(address)
    print(meeting.port, flush=True)
    store = meeting.store
else:
    store = join_meeting(at, int(sys.argv[4]))
exchange = Gloo(store, rank, 2, address=address, seconds=15)
exchange.sum_(np.ones(3, np.float32))
print("met", flush=True)
try:
    while True:
        exchange.sum_(np.ones(1000, np.float32))
except Exception as error:
    print(type(error).__name__, error, flush=True)
"""


def member(rank: int, address: str, at: str, port: str = "", prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", MEMBER, str(rank), address, at, port], stdout=subprocess.PIPE, text=True
    )


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_the_death_of_a_process_ends_the_exchange_of_the_others() -> None:
    first = member(0, LOOPBACK, LOOPBACK)
    with first, member(1, LOOPBACK, LOOPBACK, heard(first)) as second:
        assert heard(first) == heard(second) == "met"
        os.kill(second.pid, signal.SIGKILL)
        assert heard(first).startswith("ExchangeError worker 1 of 2 waited")


@pytest.mark.slow
def test_a_dead_interface_ends_the_exchange_on_both_sides(two_hosts: tuple[Host, Host]) -> None:
    here, there = two_hosts
    first = member(0, here.address, here.address, prefix=here.prefix)
    with first, member(1, there.address, here.address, heard(first), prefix=there.prefix) as second:
        assert heard(first) == heard(second) == "met"
        there.take_down()
        for process in (first, second):
            assert "at most 15 s: Timed out" in heard(process)


@pytest.mark.parametrize(("size", "rings"), [(4, 2), (6, 2), (5, 1)])
def test_a_grid_of_rings_adds_up_as_one_ring_does(size: int, rings: int) -> None:
    numbers = np.random.default_rng(0).integers(-1000, 1000, (size, 7, 3)).astype(np.int64)

    def act(exchange: Gloo) -> Any:
        assert len(exchange._rings) == rings
        own = numbers[exchange.rank]
        floats = exchange.sum_(own.astype(np.float32) / 7)
        return exchange.sum_(own.copy()), exchange.max_(own.copy()), floats, exchange.sent

    found = together(size, act, most_in_ring=3)
    for summed, greatest, floats, _ in found:
        np.testing.assert_array_equal(summed, numbers.sum(0))
        np.testing.assert_array_equal(greatest, numbers.max(0))
        np.testing.assert_array_equal(floats, found[0][2])  # the same bits everywhere
    assert {sent for *_, sent in found} == {found[0][3]}
