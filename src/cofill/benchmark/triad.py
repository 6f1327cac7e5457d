"""The yardstick for memory: a = b + s c, on as many threads as the kernels use."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from cofill.machine import compiled
from cofill.models.cfn.kernels import Floats


@compiled
def _triad(a: Floats, b: Floats, c: Floats, s: np.float32) -> None:
    for i in range(a.size):
        a[i] = b[i] + s * c[i]


def triad(a: Floats, b: Floats, c: Floats, s: np.float32, threads: int) -> None:
    """Each thread has its own run of the arrays."""
    cuts = np.linspace(0, a.size, threads + 1).astype(np.int64)
    with ThreadPoolExecutor(threads) as pool:
        parts = [slice(low, high) for low, high in pairwise(cuts)]
        for done in [pool.submit(_triad, a[part], b[part], c[part], s) for part in parts]:
            done.result()
