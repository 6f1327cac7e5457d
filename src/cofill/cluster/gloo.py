"""The exchange over the network: collectives of torch.distributed's gloo, between the workers of a team.

The workers meet at a store that worker 0 opens on a free port of its own address (`Meeting`); from then on they are
connected directly, each with each, over the interface that has their address. A sum goes round in a ring, or in those
of a grid, so every worker has the same bits, whatever the order in which the workers arrive.

No wait is without an end. Where a worker does not answer in time, or its connection is closed, the others get an
`ExchangeError`. The exchange is of no use after that: the team has to start anew.
"""

import math
import re
import socket
import time
import zlib
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

_Array = TypeVar("_Array", bound=npt.NDArray[Any])
Store = Any
"""A TCPStore of torch.distributed, whose types are not complete."""

LOOPBACK = "127.0.0.1"
MOST_IN_RING = 8
# Bytes that are sent at once: a timeout is for one piece, and what gloo holds besides is bounded by it.
_PIECE = 1 << 26
_SHORTEST_MEETING = 30.0  # seconds; processes that have just been started do not arrive together
_REDUCED = frozenset(map(np.dtype, (np.float32, np.float64, np.int32, np.int64, np.int8, np.uint8)))
_SIGN = np.uint64(1 << 63)
_PLACE_IN_SOURCE = re.compile(r"\[[^]]*\.(?:cc|h|cpp):\d+\] ?")


class ExchangeError(RuntimeError):
    """An exchange that another worker did not take part in, in time or at all."""


class Meeting:
    """Where the workers of a team find each other: a store in the process of worker 0, on a free port."""

    def __init__(self, address: str, seconds: float = 60.0) -> None:
        family = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0][0]
        # Bound by us: the store itself would listen on all interfaces, and whoever reaches it can disturb a training.
        listening = socket.create_server((address, 0), family=family, backlog=1024)
        self.address = address
        self.port: int = listening.getsockname()[1]
        self.store: Store = _distributed().TCPStore(
            address,
            self.port,
            is_master=True,
            timeout=_meeting_time(seconds),
            wait_for_workers=False,
            master_listen_fd=listening.detach(),
        )


def join_meeting(address: str, port: int, seconds: float = 60.0) -> Store:
    """The store that worker 0 has opened at that address."""
    began = time.monotonic()
    try:
        return _distributed().TCPStore(address, port, is_master=False, timeout=_meeting_time(seconds))
    except RuntimeError as error:
        waited = time.monotonic() - began
        raise ExchangeError(f"waited {waited:.0f} s for worker 1 at {address}:{port}: {_reason(error)}") from error


class Gloo:
    """An `Exchange` between `size` workers; this one is number `rank` and is reached at `address`.

    `seconds` is how long it waits for the others, for each piece of an array of up to 64 MB. Sums and maxima are of
    float32, float64, int64, int32, int8, uint8 and uint64, maxima of bool too.

    Of more than `most_in_ring` workers each stands in a row and in a column of a grid: sums go round in the row first,
    then in the column. That takes 4 sqrt(size) steps instead of 2 size.
    """

    def __init__(
        self,
        store: Store,
        rank: int,
        size: int,
        *,
        address: str,
        seconds: float = 60.0,
        most_in_ring: int = MOST_IN_RING,
    ) -> None:
        from torch import from_numpy

        distributed = _distributed()
        self.rank, self.size = rank, size
        self.sent = 0
        """Bytes, as a ring moves them: of a sum 2 (size - 1) / size of the array, of a gathering the own array to all
        others."""
        self.seconds = 0.0
        self.turns = 0
        """Goes up by one when a piece is sent and when all others have it: odd while this worker waits for them."""
        self._tensor = from_numpy
        self._wait = seconds
        self._sum, self._max = distributed.AllreduceOptions(), distributed.AllreduceOptions()
        self._sum.reduceOp = distributed.ReduceOp.SUM
        self._max.reduceOp = distributed.ReduceOp.MAX
        self._from = [distributed.BroadcastOptions() for _ in range(size)]
        for root, options in enumerate(self._from):
            options.rootRank = root
            options.rootTensor = 0
        for options in (self._sum, self._max, *self._from):
            options.timeout = timedelta(seconds=seconds)
        began = time.monotonic()
        try:
            options = distributed.ProcessGroupGloo._Options()
            options._timeout = _meeting_time(seconds)
            # By the address and not by the name of an interface: without either gloo asks for the address of the
            # host's name, which is 127.0.0.1 on many machines.
            options._devices = [distributed.ProcessGroupGloo.create_device(hostname=address)]
            self._group = distributed.ProcessGroupGloo(store, rank, size, options)
            self._rings = [self._group]
            if size > most_in_ring and (width := _width_of_grid(size)) > 1:
                row, column = divmod(rank, width)
                self._rings = [
                    distributed.ProcessGroupGloo(distributed.PrefixStore(name, store), place, members, options)
                    for name, place, members in (
                        (f"row {row}", column, width),
                        (f"column {column}", row, size // width),
                    )
                ]
        except RuntimeError as error:
            raise self._failed("meeting the others", began, error) from error

    def sum_(self, array: _Array) -> _Array:
        if array.dtype == np.uint64:
            self._reduce(array.view(np.int64), self._sum, "a sum")  # the same bits: both wrap around
        elif array.dtype in _REDUCED:
            self._reduce(array, self._sum, "a sum")
        else:
            raise TypeError(f"arrays of {array.dtype} cannot be summed over workers")
        return array

    def max_(self, array: _Array) -> _Array:
        if array.dtype == np.uint64:
            np.bitwise_xor(array, _SIGN, out=array)  # now the greater one is so as int64 too
            self._reduce(array.view(np.int64), self._max, "a maximum")
            np.bitwise_xor(array, _SIGN, out=array)
        elif array.dtype == np.bool_:
            self._reduce(array.view(np.uint8), self._max, "a maximum")
        elif array.dtype in _REDUCED:
            self._reduce(array, self._max, "a maximum")
        else:
            raise TypeError(f"arrays of {array.dtype} have no maximum over workers")
        return array

    def gather(self, array: _Array) -> list[_Array]:
        if array.dtype.hasobject or not array.ndim:
            raise TypeError(f"an array of {array.dtype} with {array.ndim} dimensions cannot be gathered")
        own = np.ascontiguousarray(array)
        kind = zlib.crc32(repr((own.dtype.str, own.shape[1:])).encode())
        told = np.zeros((self.size, 2), np.int64)
        told[self.rank] = len(own), kind
        self.sum_(told)
        if (told[:, 1] != kind).any():
            other = int(np.flatnonzero(told[:, 1] != kind)[0])
            raise TypeError(f"worker {other + 1} has something else to gather than {own.dtype} x {own.shape[1:]}")
        gathered: list[Any] = [
            own if rank == self.rank else np.empty((length, *own.shape[1:]), own.dtype)
            for rank, length in enumerate(told[:, 0].tolist())
        ]
        for root, part in enumerate(gathered):
            self._broadcast(part.reshape(-1).view(np.uint8), root)
        return gathered

    def _reduce(self, array: npt.NDArray[Any], options: Any, what: str) -> None:
        if not array.flags.c_contiguous:
            raise ValueError(f"{what} over workers is done in place, of a contiguous array")
        began = time.monotonic()
        flat = array.reshape(-1)
        step = _PIECE // array.itemsize
        try:
            for start in range(0, len(flat), step):
                for ring in self._rings:
                    self.turns += 1
                    ring.allreduce([self._tensor(flat[start : start + step])], options).wait()
                    self.turns += 1
        except RuntimeError as error:
            raise self._failed(f"{what} of {array.shape} {array.dtype}", began, error) from error
        self.sent += sum(2 * (ring.size() - 1) * array.nbytes // ring.size() for ring in self._rings)
        self.seconds += time.monotonic() - began

    def _broadcast(self, flat: npt.NDArray[np.uint8], root: int) -> None:
        began = time.monotonic()
        try:
            for start in range(0, len(flat), _PIECE):
                piece = flat[start : start + _PIECE]
                # torch wants to be able to write, also where it only reads.
                tensor = self._tensor(piece if piece.flags.writeable else piece.copy())
                self.turns += 1
                self._group.broadcast([tensor], self._from[root]).wait()
                self.turns += 1
        except RuntimeError as error:
            raise self._failed(f"{len(flat)} bytes of worker {root + 1}", began, error) from error
        if root == self.rank:
            self.sent += (self.size - 1) * len(flat)
        self.seconds += time.monotonic() - began

    def _failed(self, what: str, began: float, error: RuntimeError) -> ExchangeError:
        return ExchangeError(
            f"worker {self.rank + 1} of {self.size} waited {time.monotonic() - began:.1f} s for {what}, "
            f"at most {self._wait:g} s: {_reason(error)}"
        )


def _width_of_grid(size: int) -> int:
    """The greatest divisor up to the square root; 1 where there is no grid."""
    return next(width for width in range(math.isqrt(size), 0, -1) if size % width == 0)


def _distributed() -> Any:
    import torch.distributed  # here: the commands that need no worker need not wait for it

    return torch.distributed


def _reason(error: Exception) -> str:
    """What the network said, without the places in torch's source."""
    return " ".join(_PLACE_IN_SOURCE.sub("", str(error)).split())[:300]


def _meeting_time(seconds: float) -> timedelta:
    return timedelta(seconds=max(seconds, _SHORTEST_MEETING))
