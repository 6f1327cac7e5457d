"""How kernels become machine code."""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

_Function = TypeVar("_Function", bound=Callable[..., object])

# Sums may be reordered and fused, but NaN and infinity keep their meaning: a run that diverges must show it.
_RELAXED = {"reassoc", "contract", "arcp", "nsz"}


def compiled(function: _Function) -> _Function:
    """`function` as machine code, kept on disk between runs; it does not hold the interpreter's lock."""
    return cast(_Function, numba.njit(cache=True, nogil=True, fastmath=_RELAXED, error_model="numpy")(function))
