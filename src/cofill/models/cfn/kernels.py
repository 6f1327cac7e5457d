"""The two big layers, fused, for the CPU: what `cfn/torch.py` defines, at the speed of memory.

A kernel works on the entries of one shard, a run of the columns, and lets other threads run meanwhile. A shard alone
touches the weights of its columns, so nothing is locked. Over shards only z and dh are summed, (B, width) each. Every
shard has its own part of these sums, and they are added up in the order of the shards: the same bits every time.

Weight decay multiplies all weights at every minibatch, and most of them are not touched there. So weights are stored
divided by one number, the `scale` of their layer: the decay of a minibatch multiplies that number alone. Between two
calls of an engine's `train` all weights are current.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.compiling import compiled, intrinsic
from cofill.models.rng import Keys, drawn, mixed, normal, unit

Bytes = npt.NDArray[np.uint8]

TANH, SIGMOID, IDENTITY = 0, 1, 2
"""The functions of hidden layers, as kernels take them."""


class Entries(NamedTuple):
    """Known entries of some minibatches, one minibatch after the other, each in column order."""

    starts: Longs  # (minibatches + 1,)
    columns: Ints  # (n,)
    rows: Ints  # (n,) the place of its row in its minibatch
    inputs: Floats  # (n,)
    targets: Floats  # (n,)
    corrupted: Bools  # (n,)


class Loss(NamedTuple):
    """sum over known e of c_e (y_e - x_e)^2 / B, c_e = alpha where the input was corrupted, beta elsewhere."""

    alpha: float
    beta: float


class Noise(NamedTuple):
    """What kernels need to know of the noise of an epoch."""

    kind: int  # MASK, GAUSSIAN or SALT_AND_PEPPER
    seed: np.uint64
    ratio: np.float32
    std: np.float32
    low: np.float32  # the ends of the rating scale, scaled: salt and pepper are these
    high: np.float32
    presence: np.float32


MASK, GAUSSIAN, SALT_AND_PEPPER = 0, 1, 2
SMALLEST_SCALE = 1e-4  # at which weights are made current
_OTHER = np.uint64(0xD1B54A32D192ED03)  # makes a second draw of one that has been used

# The columns of a minibatch lie far apart in memory, so the hardware cannot guess which one follows. Asking for a later
# column's weights while the present one is worked on (prefetching) hides most of the wait.
_FLOATS_A_LINE = 16  # 64 bytes
_FOR_READING, _KEEP_IN_ALL_CACHES, _DATA = 0, 3, 1
_AHEAD = 4  # entries


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
def prefetch_row(matrix: Floats, row: int) -> None:
    """Ask for all of matrix[row]; the row must exist."""
    for column in range(0, matrix.shape[1], _FLOATS_A_LINE):
        _prefetch_line(matrix, row, column)


# An epoch is laid out before it is trained on


@compiled
def count_minibatches(indptr: Longs, rows: Ints, first: int, last: int, batch_of: Ints, counts: Longs) -> None:
    """counts[b] += the entries that the columns first:last have in minibatch b; a row in none has batch_of[row] < 0."""
    for entry in range(indptr[first], indptr[last]):
        b = batch_of[rows[entry]]
        if b >= 0:
            counts[b] += 1


@compiled
def lay_out(
    indptr: Longs,
    rows: Ints,
    values: Floats,
    first: int,
    last: int,
    batch_of: Ints,
    place_of: Ints,
    input_scale: Floats,
    noise: Noise,
    row_keys: Keys,
    column_keys: Keys,
    spared: Bools,
    cold: Bools,
    at: Longs,
    entries: Entries,
) -> None:
    """The entries of the columns first:last, column by column, to the end of what their minibatch has, with noise.

    `indptr`, `rows` and `values` have the ratings by column; `at` (minibatches,) says where each is filled up to.
    """
    for column in range(first, last):
        key = column_keys[column]
        for entry in range(indptr[column], indptr[column + 1]):
            row = rows[entry]
            b = batch_of[row]
            if b < 0:
                continue
            place = at[b]
            at[b] = place + 1
            bits = drawn(noise.seed, row_keys[row], key)
            corrupted = bool(unit(bits) < noise.ratio)
            x = values[entry]
            shown = x + noise.presence
            if noise.kind == MASK:
                corrupted = corrupted and not bool(spared[row])
                if corrupted:
                    shown = np.float32(0)
            elif corrupted:
                other = mixed(bits ^ _OTHER)
                if noise.kind == GAUSSIAN:
                    shown += noise.std * normal(other)
                else:
                    shown = noise.presence + (noise.high if unit(other) < np.float32(0.5) else noise.low)
            if cold[row]:
                shown = np.float32(0)
                corrupted = True
            entries.columns[place] = column
            entries.rows[place] = place_of[row]
            entries.inputs[place] = shown * input_scale[row]
            entries.targets[place] = x
            entries.corrupted[place] = corrupted


@compiled
def keep_something(noise: Noise, row_keys: Keys, column_keys: Keys, indptr: Longs, indices: Ints, keeps: Bytes) -> None:
    """keeps[i] = whether masking leaves row i a rating."""
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            if not unit(drawn(noise.seed, row_keys[row], column_keys[indices[entry]])) < noise.ratio:
                keeps[row] = 1
                break


# The layers


@compiled
def encode(weight: Floats, scale: float, entries: Entries, first: int, last: int, z: Floats) -> None:
    """z_i = sum over the entries first:last of x_ij W[j]."""
    columns, entry_rows, inputs = entries.columns, entries.rows, entries.inputs
    width = weight.shape[1]
    for i in range(z.shape[0]):
        for q in range(width):
            z[i, q] = 0
    whole = np.float32(scale)
    for entry in range(first, last):
        if entry + _AHEAD < last and columns[entry + _AHEAD] != columns[entry + _AHEAD - 1]:
            prefetch_row(weight, columns[entry + _AHEAD])
        x = inputs[entry] * whole
        if x != 0:  # a masked rating, or one equal to the mean, adds nothing: spare the memory traffic
            row, column = entry_rows[entry], columns[entry]
            for q in range(width):
                z[row, q] += x * weight[column, q]


@compiled
def sum_inputs(weight: Floats, indptr: Longs, indices: Ints, inputs: Floats, first: int, last: int, z: Floats) -> None:
    """z[i] = sum_j x_ij W[j] for the rows first:last: for rows that are read, not trained on."""
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
    weight: Floats,
    bias: Floats,
    scale: float,
    rate: float,
    keep: float,
    loss: Loss,
    squash: bool,
    entries: Entries,
    first: int,
    last: int,
    hidden: Floats,
    dh: Floats,
) -> float:
    """Outputs, errors, dh and the step of W and b, with each column's weights read and written once.

    dh_i = dL/dh_i over this shard; returns its part of the loss, summed over entries. `keep` is the decay of this
    minibatch: the scale is scale * keep after it. `hidden` may be wider than `dh`: what follows are side features, of
    which no gradient is needed.
    """
    columns, entry_rows = entries.columns, entries.rows
    targets, corrupted = entries.targets, entries.corrupted
    batch, width = hidden.shape
    deep = dh.shape[1]
    whole = np.float32(scale)
    alpha, beta = np.float32(loss.alpha), np.float32(loss.beta)
    per_row = np.float32(1.0 / batch)
    step = np.float32(-rate / (scale * keep))
    gradients = np.empty(batch, np.float32)
    total = 0.0
    for i in range(batch):
        for q in range(deep):
            dh[i, q] = 0
    start = first
    while start < last:
        column = columns[start]
        end = start + 1
        while end < last and columns[end] == column:
            end += 1
        if end + 1 < last:
            prefetch_row(weight, columns[end + 1])
        gradient_sum = np.float32(0)
        for entry in range(start, end):
            row = entry_rows[entry]
            dot = np.float32(0)
            for q in range(width):
                dot += hidden[row, q] * weight[column, q]
            y = (dot + bias[column]) * whole
            slope = np.float32(1)
            if squash:
                y = np.float32(np.tanh(y))
                slope = 1 - y * y
            error = y - targets[entry]
            lost = (alpha if corrupted[entry] else beta) * error
            total += float(lost * error)
            g = per_row * 2 * lost * slope
            gradients[entry - start] = g
            gradient_sum += g
        # dh of every row but the last, then the last one together with the step: one pass less over w.
        for entry in range(start, end - 1):
            row = entry_rows[entry]
            g = gradients[entry - start] * whole
            for q in range(deep):
                dh[row, q] += g * weight[column, q]
        row = entry_rows[end - 1]
        g = gradients[end - 1 - start] * whole
        move = step * gradients[end - 1 - start]
        for q in range(deep):
            w = weight[column, q]
            dh[row, q] += g * w
            weight[column, q] = w + move * hidden[row, q]
        for q in range(deep, width):
            weight[column, q] += move * hidden[row, q]
        for entry in range(start, end - 1):
            row = entry_rows[entry]
            move = step * gradients[entry - start]
            for q in range(width):
                weight[column, q] += move * hidden[row, q]
        bias[column] += step * gradient_sum
        start = end
    return total


@compiled
def step_input(
    weight: Floats, scale: float, rate: float, keep: float, entries: Entries, first: int, last: int, dz: Floats
) -> None:
    """W[j] -= rate * sum_i x_ij dz_i"""
    columns, entry_rows, inputs = entries.columns, entries.rows, entries.inputs
    step = np.float32(-rate / (scale * keep))
    for entry in range(first, last):
        if entry + _AHEAD < last and columns[entry + _AHEAD] != columns[entry + _AHEAD - 1]:
            prefetch_row(weight, columns[entry + _AHEAD])
        move = step * inputs[entry]
        if move != 0:
            row, column = entry_rows[entry], columns[entry]
            for q in range(weight.shape[1]):
                weight[column, q] += move * dz[row, q]


@compiled
def make_current(input_weight: Floats, output_weight: Floats, output_bias: Floats, scale: np.float32) -> None:
    """Multiply the weights of some columns by the scale that they are still to be multiplied by."""
    input_weight *= scale
    output_weight *= scale
    output_bias *= scale


# Many short minibatches in one call: what Python does between two kernels takes longer than they do


@compiled
def _tanh(x: np.float32) -> np.float32:
    """A rational function that is right to the last bits of single precision, and done for many numbers at once."""
    bound = np.float32(7.9)
    x = min(max(x, -bound), bound)
    s = x * x
    top = np.float32(-2.76076847742355e-16)
    top = top * s + np.float32(2.00018790482477e-13)
    top = top * s + np.float32(-8.60467152213735e-11)
    top = top * s + np.float32(5.12229709037114e-08)
    top = top * s + np.float32(1.48572235717979e-05)
    top = top * s + np.float32(6.37261928875436e-04)
    top = top * s + np.float32(4.89352455891786e-03)
    bottom = np.float32(1.19825839466702e-06)
    bottom = bottom * s + np.float32(1.18534705686654e-04)
    bottom = bottom * s + np.float32(2.26843463243900e-03)
    bottom = bottom * s + np.float32(4.89352518554385e-03)
    return x * top / bottom


class Weights(NamedTuple):
    """The weights that short minibatches move, of a network with one hidden layer."""

    input: Floats
    input_bias: Floats
    side: Floats  # (P, k), P may be 0
    output: Floats
    output_bias: Floats


@compiled
def many_steps(
    weights: Weights,
    activation: int,
    squash: bool,
    loss: Loss,
    rate: float,
    keep: float,
    entries: Entries,
    row_starts: Longs,
    features: Floats,
    z_of_batch: Floats,
    dh_of_batch: Floats,
    hidden_of_batch: Floats,
    losses: Doubles,
) -> None:
    """A step for each minibatch; `features` (rows, P) are those of all their rows in turn.

    losses[t] = the loss of minibatch t, summed over entries.
    """
    deep = weights.input.shape[1]
    side_count = weights.side.shape[0]
    step = np.float32(rate)
    shrink = np.float32(keep)
    scale = 1.0
    for t in range(len(entries.starts) - 1):
        if scale < SMALLEST_SCALE:
            make_current(weights.input, weights.output, weights.output_bias, np.float32(scale))
            scale = 1.0
        batch = row_starts[t + 1] - row_starts[t]
        first, last = entries.starts[t], entries.starts[t + 1]
        z, dh, hidden = z_of_batch[:batch], dh_of_batch[:batch], hidden_of_batch[:batch]
        encode(weights.input, scale, entries, first, last, z)
        for i in range(batch):
            of_row = row_starts[t] + i
            for q in range(deep):
                z[i, q] += weights.input_bias[q]
            for p in range(side_count):
                s = features[of_row, p]
                if s != 0:
                    for q in range(deep):
                        z[i, q] += s * weights.side[p, q]
                hidden[i, deep + p] = s
            if activation == TANH:
                for q in range(deep):
                    hidden[i, q] = _tanh(z[i, q])
            elif activation == SIGMOID:
                for q in range(deep):
                    hidden[i, q] = _tanh(z[i, q] * np.float32(0.5)) * np.float32(0.5) + np.float32(0.5)
            else:
                for q in range(deep):
                    hidden[i, q] = z[i, q]
        losses[t] = decode_and_step(
            weights.output, weights.output_bias, scale, rate, keep, loss, squash, entries, first, last, hidden, dh
        )
        for q in range(deep):
            weights.input_bias[q] *= shrink
        for p in range(side_count):
            for q in range(deep):
                weights.side[p, q] *= shrink
        for i in range(batch):
            if activation == TANH:
                for q in range(deep):
                    dh[i, q] *= 1 - hidden[i, q] * hidden[i, q]
            elif activation == SIGMOID:
                for q in range(deep):
                    dh[i, q] *= hidden[i, q] * (1 - hidden[i, q])
            for q in range(deep):
                weights.input_bias[q] -= step * dh[i, q]
            for p in range(side_count):
                s = step * features[row_starts[t] + i, p]
                if s != 0:
                    for q in range(deep):
                        weights.side[p, q] -= s * dh[i, q]
        step_input(weights.input, scale, rate, keep, entries, first, last, dh)
        scale *= keep
    make_current(weights.input, weights.output, weights.output_bias, np.float32(scale))
