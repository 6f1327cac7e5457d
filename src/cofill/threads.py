"""How many threads numpy's linear algebra (BLAS) uses, and work that threads of ours share out."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from cofill.workers import cores

_Part = TypeVar("_Part")
_Result = TypeVar("_Result")
# Each has the arrays of a part in memory.
_MOST_THREADS = 8


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """One thread of BLAS for each call, for work that is many small products or is shared out among threads of ours.

    Threads of BLAS spin while they wait for each other: on a machine that does something else, too, that takes longer
    than the work. Elsewhere they stay as they were.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):
        yield


def in_threads(work: Callable[[_Part], _Result], parts: Iterable[_Part], threads: int) -> list[_Result]:
    """What `work` makes of each part, in their order. `threads` 0: all cores at hand."""
    if threads == 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(threads or cores(), thread_name_prefix="cofill-models") as pool:
        return list(pool.map(work, parts))


@one_blas_thread()
def on_all_cores(work: Callable[[_Part], _Result], parts: Iterable[_Part]) -> list[_Result]:
    """What `work` makes of each part, in their order; it should be busy with what does not hold the interpreter's lock.

    Only so many parts are taken at a time as there are threads for.
    """
    threads = min(cores(), _MOST_THREADS)
    found: list[_Result] = []
    waiting: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="cofill-parts") as pool:
        try:
            for part in parts:
                waiting.append(pool.submit(work, part))
                if len(waiting) > threads:
                    found.append(waiting.popleft().result())
            while waiting:
                found.append(waiting.popleft().result())
        finally:
            for one in waiting:
                one.cancel()
    return found
