"""The two big layers, fused, for the CPU: what `plain/layers.py` defines, at the speed of memory.

A kernel works on one shard, the run `first:last` of the columns present, and lets other threads run meanwhile. A
shard alone touches the weights of its columns, so nothing is locked. Over shards only z and dh are summed, (B, width)
each; every shard has its own part of these sums.

These two sums are of fixed-point numbers, whole multiples of some 2^-n: in whatever order their parts are added up, on
any number of threads and machines, they come out the same to the bit. So do the weights, even where a training
amplifies the least difference, as it may while its steps are still large. Sums are narrow or wide (`Sums`): multiples
of 2^-22 in 32 bits, which are quick, or multiples of 2^-30 in double precision for rows with very many ratings, which
are exact up to 8 million.

Weight decay is applied late (lazily): a column's weights are brought up to date when a minibatch next meets it. Decay
is counted in logarithms: what is due to column j is the factor exp(step.decay_before - columns.decayed[j]).
"""

from math import exp, tanh
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.compiling import compiled, intrinsic
from cofill.models.cfn.loss import Loss, loss_and_derivative

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


NARROW, WIDE = np.float32(2.0**22), np.float32(2.0**30)
"""What a number is multiplied by before it is rounded to a fixed-point one."""
Sums = Ints | Doubles
"""Narrow or wide ones. What does not fit into a narrow one comes out wrong: see `engines.py`."""


class Entries(NamedTuple):
    """n known entries of B rows in column order; those of the c-th column present are starts[c]:starts[c + 1]."""

    present: Ints  # (C,) ascending
    starts: Ints  # (C + 1,)
    rows: Ints  # (n,) in 0..B-1
    inputs: Floats  # (n,)
    targets: Floats  # (n,)
    corrupted: Flags  # (n,)


class Columns(NamedTuple):
    """What a big layer has of every column."""

    weight: Floats  # (columns, width)
    decayed: Doubles  # (columns,) the logarithm of all decay already applied to each


class Step(NamedTuple):
    """How far the weights move for this minibatch."""

    learning_rate: float
    decay_before: float  # the logarithm of all decay due before this minibatch
    decay: float  # that of its own: log(1 - learning_rate * weight_decay)


# The columns of a minibatch lie far apart in memory, so the hardware cannot guess which one follows. Asking for the
# next column's weights while the present one is worked on (prefetching) hides most of the wait.
_FLOATS_A_LINE = 16  # 64 bytes
_FOR_READING, _KEEP_IN_ALL_CACHES, _DATA = 0, 3, 1


@intrinsic
def _prefetch_line(typing_context: Any, array: Any, row: Any, column: Any) -> Any:
    """Ask for the cache line of array[row, column], a float32 matrix."""
    from llvmlite import ir
    from numba.core import cgutils, types

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


@compiled
def prefetch_row(matrix: npt.NDArray[np.float32], row: int) -> None:
    """Ask for all of matrix[row]; the row must exist."""
    for column in range(0, matrix.shape[1], _FLOATS_A_LINE):
        _prefetch_line(matrix, row, column)


_DIGIT_BITS = 11
_DIGITS = 1 << _DIGIT_BITS


@compiled
def gather_by_column(
    indptr: Longs, indices: Ints, values: Floats, rows: Longs, columns: int
) -> tuple[Ints, Ints, Ints, Floats]:
    """The known entries of some rows, sorted by column with a radix sort: its time does not grow with the columns.

    Returns the columns present (C,), where each one's entries start (C + 1,), and for each entry the position of
    its row in `rows` (n,) and its value (n,).
    """
    total = 0
    for row in rows:
        total += indptr[row + 1] - indptr[row]
    entry_columns, entry_rows = np.empty(total, np.int32), np.empty(total, np.int32)
    entry_values = np.empty(total, np.float32)
    at = 0
    for position in range(rows.size):
        for entry in range(indptr[rows[position]], indptr[rows[position] + 1]):
            entry_columns[at] = indices[entry]
            entry_rows[at] = position
            entry_values[at] = values[entry]
            at += 1
    other_columns, other_rows = np.empty(total, np.int32), np.empty(total, np.int32)
    other_values = np.empty(total, np.float32)
    place = np.empty(_DIGITS, np.int64)
    shift = 0
    while shift == 0 or (columns - 1) >> shift > 0:
        place[:] = 0
        for entry in range(total):
            place[(entry_columns[entry] >> shift) & (_DIGITS - 1)] += 1
        before = 0
        for digit in range(_DIGITS):
            before, place[digit] = before + place[digit], before
        for entry in range(total):
            digit = (entry_columns[entry] >> shift) & (_DIGITS - 1)
            target = place[digit]
            place[digit] = target + 1
            other_columns[target] = entry_columns[entry]
            other_rows[target] = entry_rows[entry]
            other_values[target] = entry_values[entry]
        entry_columns, other_columns = other_columns, entry_columns
        entry_rows, other_rows = other_rows, entry_rows
        entry_values, other_values = other_values, entry_values
        shift += _DIGIT_BITS
    present_count = 0
    for entry in range(total):
        present_count += entry == 0 or entry_columns[entry] != entry_columns[entry - 1]
    present, starts = np.empty(present_count, np.int32), np.empty(present_count + 1, np.int32)
    c = 0
    for entry in range(total):
        if entry == 0 or entry_columns[entry] != entry_columns[entry - 1]:
            present[c] = entry_columns[entry]
            starts[c] = entry
            c += 1
    starts[present_count] = total
    return present, starts, entry_rows, entry_values


@compiled
def encode(columns: Columns, decay: float, entries: Entries, first: int, last: int, fixed: np.float32, z: Sums) -> None:
    """z_i = sum over this shard of x_ij W[j], in units of 1 / `fixed`; `decay` is the logarithm of all decay due."""
    weight, decayed = columns
    present, starts, entry_rows, inputs = entries.present, entries.starts, entries.rows, entries.inputs
    width = weight.shape[1]
    z[:] = 0
    for c in range(first, last):
        if c + 2 < last:
            prefetch_row(weight, present[c + 2])
        w = weight[present[c]]
        factor = np.exp(np.float32(decay - decayed[present[c]]))
        for entry in range(starts[c], starts[c + 1]):
            x = inputs[entry] * factor * fixed
            if x != 0:  # a masked rating, or one equal to the mean, adds nothing: spare the memory traffic
                z_i = z[entry_rows[entry]]
                for q in range(width):
                    z_i[q] += z.dtype.type(np.rint(x * w[q]))


@compiled
def sum_inputs(weight: Floats, indptr: Longs, indices: Ints, inputs: Floats, first: int, last: int, z: Floats) -> None:
    """z[i] = sum_j x_ij W[j] for the rows first:last, in single precision: for rows that are read, not trained on."""
    end = indptr[last]
    for row in range(first, last):
        z_i = z[row]
        z_i[:] = 0
        for entry in range(indptr[row], indptr[row + 1]):
            if entry + 2 < end:
                prefetch_row(weight, indices[entry + 2])
            w, x = weight[indices[entry]], inputs[entry]
            for q in range(weight.shape[1]):
                z_i[q] += x * w[q]


@compiled
def decode_and_step(
    columns: Columns,
    bias: Floats,
    step: Step,
    loss: Loss,
    squash: bool,
    entries: Entries,
    hidden: Floats,
    first: int,
    last: int,
    fixed: np.float32,
    dh: Sums,
) -> float:
    """Outputs, errors, dh and the step of W and b, with each column's weights read and written once.

    dh_i = B dL/dh_i over this shard, in units of 1 / `fixed`; returns its part of the loss, summed over entries.
    `hidden` may be wider than `dh`: what follows are side features, which nobody asks the gradient of.
    """
    weight, decayed = columns
    present, starts, entry_rows = entries.present, entries.starts, entries.rows
    targets, corrupted = entries.targets, entries.corrupted
    batch, width = hidden.shape
    deep = dh.shape[1]
    keep = np.float32(exp(step.decay))
    rate = np.float32(step.learning_rate)
    per_row = np.float32(1.0 / batch)
    whole = np.float32(batch) * fixed
    gradients = np.empty(batch, np.float32)
    total = 0.0
    dh[:] = 0
    for c in range(first, last):
        if c + 2 < last:
            prefetch_row(weight, present[c + 2])
        column = present[c]
        start = starts[c]
        count = starts[c + 1] - start
        w = weight[column]
        factor = np.exp(np.float32(step.decay_before - decayed[column]))
        b = bias[column] * factor
        gradient_sum = np.float32(0)
        for e in range(count):
            h_i = hidden[entry_rows[start + e]]
            dot = np.float32(0)
            for q in range(width):
                dot += h_i[q] * w[q]
            y = dot * factor + b
            slope = np.float32(1)
            if squash:
                y = np.float32(tanh(y))
                slope = 1 - y * y
            lost, derivative = loss_and_derivative(loss, y, targets[start + e], corrupted[start + e])
            total += float(lost)
            gradients[e] = per_row * derivative * slope
            gradient_sum += gradients[e]
        # dh of every row but the last, then the last one together with the step: one pass less over w.
        for e in range(count - 1):
            dh_i = dh[entry_rows[start + e]]
            g = gradients[e] * factor * whole
            for q in range(deep):
                dh_i[q] += dh.dtype.type(np.rint(g * w[q]))
        h_i = hidden[entry_rows[start + count - 1]]
        dh_i = dh[entry_rows[start + count - 1]]
        g = gradients[count - 1] * factor * whole
        shrink = factor * keep
        move = -rate * gradients[count - 1]
        for q in range(deep):
            w_q = w[q]
            dh_i[q] += dh.dtype.type(np.rint(g * w_q))
            w[q] = shrink * w_q + move * h_i[q]
        for q in range(deep, width):
            w[q] = shrink * w[q] + move * h_i[q]
        for e in range(count - 1):
            h_i = hidden[entry_rows[start + e]]
            move = -rate * gradients[e]
            for q in range(width):
                w[q] += move * h_i[q]
        bias[column] = b * keep - rate * gradient_sum
        decayed[column] = step.decay_before + step.decay
    return total


@compiled
def step_input(columns: Columns, step: Step, entries: Entries, dz: Floats, first: int, last: int) -> None:
    """W[j] -= learning_rate * sum_i x_ij dz_i, and its decay. A column whose inputs are all zero waits."""
    weight, decayed = columns
    present, starts, entry_rows, inputs = entries.present, entries.starts, entries.rows, entries.inputs
    width = weight.shape[1]
    rate = np.float32(step.learning_rate)
    for c in range(first, last):
        if c + 2 < last:
            prefetch_row(weight, present[c + 2])
        column = present[c]
        w = weight[column]
        shrink = np.exp(np.float32(step.decay_before - decayed[column] + step.decay))
        for entry in range(starts[c], starts[c + 1]):
            move = -rate * inputs[entry]
            if move != 0:
                dz_i = dz[entry_rows[entry]]
                for q in range(width):
                    w[q] = shrink * w[q] + move * dz_i[q]
                shrink = np.float32(1)
                decayed[column] = step.decay_before + step.decay


@compiled
def apply_decay(columns: Columns, decay: float, first: int, last: int) -> None:
    """Bring the columns first:last up to date and set their clocks back to zero."""
    weight, decayed = columns
    for column in range(first, last):
        factor = np.exp(np.float32(decay - decayed[column]))
        w = weight[column]
        for q in range(weight.shape[1]):
            w[q] *= factor
        decayed[column] = 0


@compiled
def outputs_at(
    weight: Floats,
    bias: Floats,
    hidden: Floats,
    entry_rows: Longs,
    entry_columns: Ints,
    first: int,
    last: int,
    outputs: Floats,
) -> None:
    """outputs[e] = h[entry_rows[e]] . W[entry_columns[e]] + b[entry_columns[e]] for the entries first:last."""
    for e in range(first, last):
        h_i = hidden[entry_rows[e]]
        w = weight[entry_columns[e]]
        dot = np.float32(0)
        for q in range(weight.shape[1]):
            dot += h_i[q] * w[q]
        outputs[e] = dot + bias[entry_columns[e]]
