"""How many threads numpy's linear algebra (BLAS) uses, and work that threads of ours share out."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import chain, islice
from typing import Any, TypeVar

from cofill.workers import cores

_Part = TypeVar("_Part")
_Result = TypeVar("_Result")
# Each has the arrays of a part in memory.
_MOST_THREADS = 8


@cache
def _blas(scipy: bool) -> Any:
    """The controller of BLAS: that of numpy, and of `scipy` once it is loaded. A look for them takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """One thread of BLAS for each call, for work that is many small products or is shared out among threads of ours.

    Threads of BLAS spin while they wait for each other: on a machine that does something else, too, that takes longer
    than the work. Elsewhere they stay as they were.
    """
    with _blas("scipy.linalg" in sys.modules).limit(limits=1):
        yield


def in_threads(work: Callable[[_Part], _Result], parts: Iterable[_Part], threads: int) -> list[_Result]:
    """What `work` makes of each part, in their order. `threads` 0: all cores at hand.

    Only so many parts are taken at a time as there are threads for.
    """
    threads, parts = threads or cores(), iter(parts)
    first = list(islice(parts, 2))
    if threads == 1 or len(first) < 2:
        return [work(part) for part in chain(first, parts)]
    found: list[_Result] = []
    waiting: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="cofill-parts") as pool:
        try:
            for part in chain(first, parts):
                waiting.append(pool.submit(work, part))
                if len(waiting) > threads:
                    found.append(waiting.popleft().result())
            while waiting:
                found.append(waiting.popleft().result())
        finally:
            for one in waiting:
                one.cancel()
    return found


@one_blas_thread()
def on_all_cores(work: Callable[[_Part], _Result], parts: Iterable[_Part]) -> list[_Result]:
    """The same for parts with arrays of their own, of which few are to be in memory at a time.

    The work should be busy with what does not hold the interpreter's lock.
    """
    return in_threads(work, parts, min(cores(), _MOST_THREADS))
