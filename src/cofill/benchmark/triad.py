"""The yardstick for memory: a = b + s c."""

import numba
import numpy as np

from cofill.cfn.kernels import Floats, compiled_parallel


@compiled_parallel
def triad(a: Floats, b: Floats, c: Floats, s: np.float32, threads: int) -> None:
    for t in numba.prange(threads):
        for i in range(t * a.size // threads, (t + 1) * a.size // threads):
            a[i] = b[i] + s * c[i]
