"""Compile kernels to machine code, with a cache on disk."""

import hashlib
from collections.abc import Callable
from functools import cached_property, update_wrapper
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, TypeVar, cast

_Function = TypeVar("_Function", bound=Callable[..., object])

# Sums may be reordered and fused, but NaN and infinity keep their meaning: a run that diverges must show it.
_RELAXED = {"reassoc", "contract", "arcp", "nsz"}


def compiled(function: _Function) -> _Function:
    """`function` as machine code, kept on disk between runs; it does not hold the interpreter's lock."""
    return cast(_Function, Kernel(function, _dispatcher))


def intrinsic(function: _Function) -> Any:
    """What kernels can call, and `function` generates the code of."""

    def made(function: Any) -> Any:
        from numba.extending import intrinsic

        return intrinsic(function)

    return Kernel(function, made)


class Kernel:
    """A function that numba makes something of when it is first called: who calls none need not wait for numba."""

    def __init__(self, function: Any, make: Callable[[Any], Any]) -> None:
        update_wrapper(self, function)
        self.function, self._make = function, make

    @cached_property
    def made(self) -> Any:
        # numba knows its own objects alone, so those take the places of the kernels that this one calls.
        names = self.function.__globals__
        for name in self.function.__code__.co_names:
            if isinstance(called := names.get(name), Kernel) and called is not self:
                names[name] = called.made
        return self._make(self.function)

    def __call__(self, *arguments: Any) -> Any:
        return self.made(*arguments)


class KeptCode(NamedTuple):
    """The machine code of a module's kernels on disk."""

    folder: Path
    kernels: int
    """How many it has."""
    kept: int
    """How many of them have machine code there, of this or an earlier version of them."""


def kept_code(module: ModuleType) -> KeptCode | None:
    """Where the machine code of a module's own kernels is kept; None if it has none."""
    from numba.core.dispatcher import Dispatcher

    found = [value.made if isinstance(value, Kernel) else value for value in list(vars(module).values())]
    own: list[Any] = [one for one in found if isinstance(one, Dispatcher) and one.py_func.__module__ == module.__name__]
    if not own:
        return None
    folder = Path(own[0]._cache.cache_path)
    kept = sum(any(folder.glob(f"*.{kernel.py_func.__qualname__}-*.nbi")) for kernel in own)
    return KeptCode(folder, len(own), kept)


def _dispatcher(function: Any) -> Any:
    import numba
    from numba.core.caching import FunctionCache

    class KernelCache(FunctionCache):
        """Machine code on disk, which is stale as soon as a compiled function that it calls has changed.

        numba itself looks at the file of the kernel alone, and would go on with the old loss after a change of
        `loss.py`.
        """

        def _index_key(self, *arguments: Any) -> tuple[Any, ...]:
            inherited: Any = super()._index_key
            return (*inherited(*arguments), hashlib.sha256(_code(self._py_func).encode()).hexdigest())

    dispatcher: Any = numba.njit(nogil=True, fastmath=_RELAXED, error_model="numpy")(function)
    cache: Any = KernelCache  # numba's own has no types
    dispatcher._cache = cache(function)
    return dispatcher


def _code(function: FunctionType) -> str:
    """The instructions and constants of a function and of all compiled ones that it calls."""
    from numba.core.dispatcher import Dispatcher

    own = function.__code__
    used = [function.__globals__.get(name) for name in own.co_names]
    called = [_code(value.py_func) for value in used if isinstance(value, Dispatcher) and value.py_func is not function]
    constants = [value for value in (*own.co_consts, *used) if isinstance(value, bool | int | float | str)]
    return repr((own.co_code, own.co_names, constants, called))
