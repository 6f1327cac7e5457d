"""Rows shared out among threads: each row is worked on alone, so the result is that of one thread, bit for bit."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from pydantic import Field

from cofill.data.sparse import SparseRows
from cofill.machine import cores
from cofill.models.rivals.rival import RivalSettings

# More shards than threads: one that finds its core taken by another program leaves its share to the others.
_SHARDS_A_THREAD = 8


class ThreadedSettings(RivalSettings):
    """Settings of a rival that works on several rows at once."""

    threads: int = Field(default=0, ge=0, le=1024, description="threads that share the work; 0: all cores at hand")


class RowShards:
    """Threads that share out the rows of a matrix by the ratings they hold. Work happens inside its context."""

    def __init__(self, threads: int) -> None:
        self._threads = threads or cores()

    def __enter__(self) -> "RowShards":
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="cofill-rows")
        return self

    def __exit__(self, *problem: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def run(self, rows: SparseRows, work: Callable[[int, int], object]) -> None:
        """Calls `work(first, last)` for runs of rows that together are all of them."""
        count = self._threads * _SHARDS_A_THREAD if self._threads > 1 else 1
        # A row costs something even if it is empty.
        cost = rows.indptr + np.arange(rows.rows + 1)
        cuts = np.searchsorted(cost, np.linspace(0, cost[-1], count + 1)).tolist()
        list(self._pool.map(work, cuts[:-1], cuts[1:]))
