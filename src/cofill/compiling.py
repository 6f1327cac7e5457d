"""Compile kernels to machine code, with a cache on disk."""

import hashlib
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

_Function = TypeVar("_Function", bound=Callable[..., object])

# Sums may be reordered and fused, but NaN and infinity keep their meaning: a run that diverges must show it.
_RELAXED = {"reassoc", "contract", "arcp", "nsz"}


def compiled(function: _Function) -> _Function:
    """`function` as machine code, kept on disk between runs; it does not hold the interpreter's lock."""
    dispatcher: Any = numba.njit(nogil=True, fastmath=_RELAXED, error_model="numpy")(function)
    cache: Any = _KernelCache  # numba's own has no types
    dispatcher._cache = cache(function)
    return cast(_Function, dispatcher)


class _KernelCache(FunctionCache):
    """Machine code on disk, which is stale as soon as a compiled function that it calls has changed.

    numba itself looks at the file of the kernel alone, and would go on with the old loss after a change of `loss.py`.
    """

    def _index_key(self, *arguments: Any) -> tuple[Any, ...]:
        inherited: Any = super()._index_key
        return (*inherited(*arguments), hashlib.sha256(_code(self._py_func).encode()).hexdigest())


def _code(function: FunctionType) -> str:
    """The instructions and constants of a function and of all compiled ones that it calls."""
    own = function.__code__
    used = [function.__globals__.get(name) for name in own.co_names]
    called = [_code(value.py_func) for value in used if isinstance(value, Dispatcher) and value.py_func is not function]
    constants = [value for value in (*own.co_consts, *used) if isinstance(value, bool | int | float | str)]
    return repr((own.co_code, own.co_names, constants, called))
