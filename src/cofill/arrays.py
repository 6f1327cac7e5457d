"""Names of array types, by what they hold; arrays that grow; and a hash of arrays."""

import hashlib
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Arrays = dict[str, npt.NDArray[Any]]
"""By name, as a file has them."""
_Array = TypeVar("_Array", Floats, Ints, Longs, Bools)


def grown(array: _Array, size: int) -> _Array:
    """The same with `size` entries along the first axis, new ones zero."""
    if len(array) >= size:
        return array
    larger = np.zeros((size, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def fingerprint(about: str, arrays: Iterable[npt.NDArray[Any]]) -> str:
    """The same for the same text and the same arrays, in their order."""
    digest = hashlib.sha256(about.encode())
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:20]
