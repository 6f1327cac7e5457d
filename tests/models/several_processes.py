"""Processes that train together, played by threads: an `Exchange` without a network, and shares of a matrix."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from cofill.data.sparse import SparseRows

_Result = TypeVar("_Result")
_Array = TypeVar("_Array", bound=npt.NDArray[Any])


class Played:
    """The exchange of one of several threads; all of them get the same bits."""

    def __init__(self, rank: int, size: int, table: list[Any], barrier: threading.Barrier) -> None:
        self.rank, self.size = rank, size
        self.sent, self.seconds = 0, 0.0
        self._table, self._barrier = table, barrier

    def _all(self, array: _Array) -> list[_Array]:
        self.sent += array.nbytes
        self._table[self.rank] = array.copy()
        self._barrier.wait(120)
        found = list(self._table)
        self._barrier.wait(120)
        return found

    def all_reduce(self, array: _Array) -> _Array:
        array[...] = np.sum(self._alike(array), axis=0, dtype=array.dtype)
        return array

    def max_(self, array: _Array) -> _Array:
        array[...] = np.max(self._alike(array), axis=0)
        return array

    def _alike(self, array: _Array) -> _Array:
        """A network would add up bits of different types without a word."""
        found = self._all(array)
        assert {part.dtype for part in found} == {array.dtype}, f"arrays of {[part.dtype for part in found]}"
        stacked: _Array = np.stack(found)  # type: ignore[assignment]
        return stacked

    def gather(self, array: _Array) -> list[_Array]:
        return self._all(array)


def together(size: int, work: Callable[[Played], _Result]) -> list[_Result]:
    """What every one of `size` processes comes to; they all do the same work, each with its exchange."""
    barrier, table = threading.Barrier(size), [None] * size

    def one(rank: int) -> _Result:
        try:
            return work(Played(rank, size, table, barrier))
        except BaseException:
            barrier.abort()  # the others are not to wait for this one
            raise

    with ThreadPoolExecutor(size) as pool:
        running = [pool.submit(one, rank) for rank in range(size)]
    problems = [problem for run in running if (problem := run.exception()) is not None]
    # Of one that failed itself, not of those that have waited for it in vain.
    for problem in sorted(problems, key=lambda problem: isinstance(problem, threading.BrokenBarrierError)):
        raise problem
    return [run.result() for run in running]


def columns_of(rows: SparseRows, chosen: npt.NDArray[np.int64]) -> SparseRows:
    """The same rows with some of their columns, in that order."""
    dense = np.full((rows.rows, rows.columns), np.nan, np.float32)
    dense[np.repeat(np.arange(rows.rows), rows.counts()), rows.indices] = rows.values
    part = dense[:, chosen]
    known = ~np.isnan(part)
    indptr = np.concatenate([[0], np.cumsum(known.sum(1))]).astype(np.int64)
    return SparseRows(indptr, np.nonzero(known)[1].astype(np.int32), part[known], len(chosen))
