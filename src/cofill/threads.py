"""How many threads numpy's linear algebra (BLAS) uses."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """One thread of BLAS for each call, for work that is many small products or is shared out among threads of ours.

    Threads of BLAS spin while they wait for each other: on a machine that does something else, too, that takes longer
    than the work. Elsewhere they stay as they were.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):
        yield
