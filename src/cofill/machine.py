"""The machine at hand: how many of its cores may be used, and functions as its machine code."""

import os
from collections.abc import Callable
from typing import TypeVar, cast

_Function = TypeVar("_Function", bound=Callable[..., object])

# Sums may be reordered and fused, but NaN and infinity keep their meaning: a run that diverges must show it.
_RELAXED = {"reassoc", "contract", "arcp", "nsz"}


def cores() -> int:
    """How many this process may use: fewer than the machine has where a container or `taskset` says so."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compiled(function: _Function) -> _Function:
    """`function` as machine code, kept on disk between runs; it does not hold the interpreter's lock."""
    import numba  # here: whoever only counts cores need not wait for it

    return cast(_Function, numba.njit(cache=True, nogil=True, fastmath=_RELAXED, error_model="numpy")(function))
