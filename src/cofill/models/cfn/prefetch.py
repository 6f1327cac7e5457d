"""A hint to the processor: these weights will be needed next.

The columns of a minibatch lie far apart in memory, so the hardware cannot guess which one follows. Asking for the
next column's weights while the present one is worked on hides most of the wait.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from cofill.machine import compiled

_FLOATS_A_LINE = 16  # 64 bytes
_FOR_READING, _KEEP_IN_ALL_CACHES, _DATA = 0, 3, 1


def _generate_prefetch(typing_context: Any, array: Any, row: Any, column: Any) -> Any:
    """Code that asks for the cache line of array[row, column], a float32 matrix."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type = signature.args[0]
        matrix = context.make_array(array_type)(context, builder, arguments[0])
        wide = ir.IntType(64)
        indices = [builder.sext(i, wide) if i.type.width < wide.width else i for i in arguments[1:]]
        shape = cgutils.unpack_tuple(builder, matrix.shape)
        strides = cgutils.unpack_tuple(builder, matrix.strides)
        address = cgutils.get_item_pointer2(context, builder, matrix.data, shape, strides, array_type.layout, indices)
        address = builder.bitcast(address, ir.IntType(8).as_pointer())
        flag = ir.IntType(32)
        hint = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [address.type, flag, flag, flag]), "llvm.prefetch.p0"
        )
        builder.call(hint, [address, *(ir.Constant(flag, v) for v in (_FOR_READING, _KEEP_IN_ALL_CACHES, _DATA))])
        return context.get_dummy_value()

    return types.void(array, row, column), generate


_prefetch_line: Any = intrinsic(_generate_prefetch)


@compiled
def prefetch_row(matrix: npt.NDArray[np.float32], row: int) -> None:
    """Ask for all of matrix[row]; the row must exist."""
    for column in range(0, matrix.shape[1], _FLOATS_A_LINE):
        _prefetch_line(matrix, row, column)
