"""How many threads BLAS uses, and work that is shared out."""

from typing import Any

import pytest
import scipy.linalg  # noqa: F401  # has a BLAS of its own
from threadpoolctl import ThreadpoolController, threadpool_limits

from cofill.threads import in_threads, on_all_cores, one_blas_thread


def counts() -> set[int]:
    return {one["num_threads"] for one in ThreadpoolController().select(user_api="blas").info()}


def test_one_thread_within_and_as_many_as_before_after() -> None:
    with threadpool_limits(3, "blas"):
        with one_blas_thread():
            assert counts() == {1}
            with one_blas_thread():
                assert counts() == {1}
            assert counts() == {1}
        assert counts() == {3}
        with pytest.raises(ZeroDivisionError), one_blas_thread():
            raise ZeroDivisionError
        assert counts() == {3}


@pytest.mark.parametrize("share", [lambda work, parts: in_threads(work, parts, 0), on_all_cores])
@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_results_come_in_the_order_of_the_parts(share: Any, count: int) -> None:
    assert share(lambda part: part * part, iter(range(count))) == [part * part for part in range(count)]
