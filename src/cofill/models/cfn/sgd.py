"""Minibatch SGD through the fused kernels: an epoch laid out with its noise, the steps that move the weights, and
pre-training.

Columns are cut into shards, one a thread. They share nothing but z and dh, two sums of the size of the hidden layer;
columns may be spread over processes in the same way.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Self, TypeVar

import numpy as np

from cofill.arrays import Bools, Doubles, Floats, Longs
from cofill.config import CFNSettings, LossSettings, Noise
from cofill.exchange import ALONE, Exchange
from cofill.models.cfn import kernels
from cofill.models.cfn.kernels import Entries
from cofill.models.cfn.network import ACTIVATIONS, CFNetwork, Linear, activated, activation_gradient, encode_rows
from cofill.models.cfn.scaling import ScaledRows
from cofill.models.rng import seed_of, uniform_draws
from cofill.threads import on_all_cores, one_blas_thread
from cofill.workers import cores

_Result = TypeVar("_Result")

_CODES_AT_ONCE = 4096
_LAID_OUT_AT_ONCE = 16_000_000  # ratings, of 17 bytes each
# Products of a layer in a minibatch that each thread has, from which on another one is worth the two waits for it.
_WORTH_A_THREAD = 150_000
_KINDS: dict[Noise, int] = {
    "mask": kernels.MASK,
    "gaussian": kernels.GAUSSIAN,
    "salt-and-pepper": kernels.SALT_AND_PEPPER,
}


class EpochNoise(NamedTuple):
    """The noise of one epoch, drawn by the keys of rows and columns: the same in whatever order they come."""

    noise: kernels.Noise
    spared: Bools  # (rows,): which would lose all of their ratings by masking, and so keep them
    cold: Bools  # (rows,): which lose them all, so that the network learns to read features alone

    @classmethod
    def drawn(cls, rows: ScaledRows, settings: LossSettings, *seed: int) -> Self:
        portion, known = rows.portion, rows.known
        noise = kernels.Noise(
            _KINDS[settings.noise],
            seed_of(*seed, 0),
            np.float32(settings.noise_ratio),
            np.float32(settings.noise_std),
            np.float32(rows.ends[0]),
            np.float32(rows.ends[1]),
            np.float32(rows.presence),
        )
        keeps = np.ones(known.rows, np.uint8)
        if settings.noise == "mask" and settings.noise_ratio > 0:
            keeps[:] = 0
            kernels.keep_something(noise, portion.row_keys, portion.column_keys, known.indptr, known.indices, keeps)
            keeps = portion.exchange.max_(keeps)
        cold = np.zeros(known.rows, np.bool_)
        if settings.cold_ratio and rows.features.shape[1]:
            cold = uniform_draws(seed_of(*seed, 1), portion.row_keys) < settings.cold_ratio
        return cls(noise, keeps == 0, cold)


@dataclass(frozen=True, eq=False)
class Minibatches:
    """Some minibatches, one after the other. Inputs are the targets with noise, plus presence where they are shown,
    times the input scale of their row (input scaling by row length).
    """

    rows: Longs  # (rows of all of them,): which rows these are
    row_starts: Longs  # (minibatches + 1,)
    shards: list[Entries]
    features: Floats  # (rows of all of them, P), P may be 0
    ratings: Longs  # (minibatches,): how many each has, in all processes together

    def __len__(self) -> int:
        return len(self.ratings)

    def features_of(self, number: int) -> Floats:
        return self.features[self.row_starts[number] : self.row_starts[number + 1]]


def lay_out(
    rows: ScaledRows, order: Longs, batch: int, noise: EpochNoise, cuts: Longs, most: int = _LAID_OUT_AT_ONCE
) -> Iterator[Minibatches]:
    """Rows in this order, `batch` to a minibatch, with noise; about `most` ratings at a time.

    `cuts` are the columns at which shards begin, and the end. One pass over the ratings, column by column, puts each
    behind those that its minibatch has already: so they are in column order without a sort.
    """
    own = rows.known.counts()[order]
    starts = np.arange(0, len(order) + batch, batch).clip(0, len(order))[: -(-len(order) // batch) + 1]
    until = np.concatenate([[0], np.cumsum(own)])[starts]  # ratings up to each minibatch
    first = 0
    while first < len(starts) - 1:
        last = max(first + 1, int(np.searchsorted(until, until[first] + most, "right")) - 1)
        yield _laid_out(
            rows, order[starts[first] : starts[last]], starts[first : last + 1] - starts[first], noise, cuts
        )
        first = last


def _laid_out(rows: ScaledRows, chosen: Longs, row_starts: Longs, noise: EpochNoise, cuts: Longs) -> Minibatches:
    count, by_column, portion = len(row_starts) - 1, rows.by_column, rows.portion
    batch_of, place_of = np.full(rows.known.rows, -1, np.int32), np.zeros(rows.known.rows, np.int32)
    number = np.repeat(np.arange(count), np.diff(row_starts))
    batch_of[chosen], place_of[chosen] = number, np.arange(len(chosen)) - row_starts[number]

    def shard(bounds: tuple[int, int]) -> Entries:
        counts = np.zeros(count, np.int64)
        kernels.count_minibatches(by_column.indptr, by_column.indices, *bounds, batch_of, counts)
        starts = np.concatenate([[0], np.cumsum(counts)])
        size = int(starts[-1])
        entries = Entries(
            starts,
            np.empty(size, np.int32),
            np.empty(size, np.int32),
            np.empty(size, np.float32),
            np.empty(size, np.float32),
            np.empty(size, np.bool_),
        )
        kernels.lay_out(
            by_column.indptr, by_column.indices, by_column.values, *bounds, batch_of, place_of, rows.input_scale,
            noise.noise, portion.row_keys, portion.column_keys, noise.spared, noise.cold, starts[:-1].copy(), entries,
        )  # fmt: skip
        return entries

    shards = on_all_cores(shard, pairwise(cuts.tolist()))
    features = rows.features[chosen]
    if rows.marks_empty:
        features[noise.cold[chosen], -1] = 1
    ratings = np.diff(np.concatenate([[0], np.cumsum(rows.counts[chosen])])[row_starts])
    return Minibatches(chosen, row_starts, shards, features, ratings)


def shard_count(settings: CFNSettings) -> int:
    """Threads of the fused engine, at most."""
    return settings.threads or cores()


class FusedEngine:
    """Both big layers meet known ratings only.

    Shards run on plain threads that sleep while they wait. (Threads that spin, as those of OpenMP do, are a little
    quicker on an idle machine and many times slower on one where another program wants a core.) Minibatches of few
    ratings are trained on one thread, many of them in one call.
    """

    follows_gradient: bool = True
    """Whether a step is as large as the gradient says, so that it can become too large for long rows."""

    def __init__(self, network: CFNetwork, settings: CFNSettings, exchange: Exchange = ALONE) -> None:
        self.network = network
        self.settings = settings
        self.exchange = exchange
        self.loss = kernels.Loss(settings.alpha, settings.beta)
        self._threads = shard_count(settings)
        self._deep = network.width - network.features  # hidden units that the output layer reads
        self._pool = ThreadPoolExecutor(max(1, self._threads - 1), thread_name_prefix="cofill-shard")

    def cuts(self, rows: ScaledRows) -> Longs:
        """So that shards have about as many ratings each; one shard where minibatches are small."""
        indptr, filled = rows.by_column.indptr, max(int((rows.counts > 0).sum()), 1)
        products = rows.known.nnz * min(self.settings.batch / filled, 1.0) * self.network.input.weight.shape[1]
        shards = max(1, min(self._threads, int(products / _WORTH_A_THREAD)))
        inner = np.searchsorted(indptr, np.linspace(0, indptr[-1], shards + 1)[1:-1])
        return np.concatenate([[0], inner, [rows.known.columns]]).astype(np.int64)

    @one_blas_thread()  # the middle is too small to share
    @np.errstate(all="ignore")  # a run that diverges is noticed by its loss
    def train(self, minibatches: Minibatches, learning_rate: float) -> Doubles:
        """Move the weights once for each minibatch; returns the losses before each move, summed over ratings."""
        keep = 1 - learning_rate * self.settings.weight_decay
        if not self.network.middle and self.exchange.size == 1 and len(minibatches.shards) == 1:
            return self._train_at_once(minibatches, learning_rate, keep)
        return self._train_one_by_one(minibatches, learning_rate, keep)

    def _train_at_once(self, minibatches: Minibatches, learning_rate: float, keep: float) -> Doubles:
        network = self.network
        side = np.zeros((0, self._deep), np.float32) if network.input.side is None else network.input.side
        weights = kernels.Weights(
            network.input.weight, network.input.bias, side, network.output.weight, network.output.bias
        )
        batch = int(np.diff(minibatches.row_starts).max(initial=0))
        z, dh, hidden = (np.empty((batch, width), np.float32) for width in (self._deep, self._deep, network.width))
        losses = np.zeros(len(minibatches))
        kernels.many_steps(
            weights, ACTIVATIONS[network.activation], network.squash, self.loss, learning_rate, keep,
            minibatches.shards[0], minibatches.row_starts, minibatches.features, z, dh, hidden, losses,
        )  # fmt: skip
        return losses

    def _train_one_by_one(self, minibatches: Minibatches, rate: float, keep: float) -> Doubles:
        network, shards = self.network, minibatches.shards
        sizes = np.diff(minibatches.row_starts)
        most = int(sizes.max(initial=0))
        sums = np.empty((2, len(shards), most * max(network.input.weight.shape[1], self._deep)), np.float32)
        pending: list[tuple[int, float, Floats]] = []  # the step of the input layer that is still to be done
        losses, scale = np.zeros(len(minibatches)), 1.0  # what both big layers are still to be multiplied by

        def finish(s: int) -> None:
            for number, scale, dz in pending:
                first, last = shards[s].starts[number : number + 2]
                kernels.step_input(network.input.weight, scale, rate, keep, shards[s], first, last, dz)

        for number in range(len(minibatches)):
            if scale < kernels.SMALLEST_SCALE:
                self._on_shards(finish, len(shards))
                pending.clear()
                self._make_current(scale)
                scale = 1.0
            batch, features = int(sizes[number]), minibatches.features_of(number)
            z, dh = (
                part[:, : batch * width].reshape(len(shards), batch, width)
                for part, width in zip(sums, (network.input.weight.shape[1], self._deep), strict=True)
            )

            def encode(s: int, number: int = number, z: Floats = z, scale: float = scale) -> None:
                finish(s)
                first, last = shards[s].starts[number : number + 2]
                kernels.encode(network.input.weight, scale, shards[s], first, last, z[s])

            self._on_shards(encode, len(shards))
            codes, backward = self._middle(self.exchange.all_reduce(z.sum(0)), features, rate, keep)

            def decode(s: int, n: int = number, dh: Floats = dh, h: Floats = codes, scale: float = scale) -> float:
                first, last = shards[s].starts[n : n + 2]
                return kernels.decode_and_step(
                    network.output.weight, network.output.bias, scale, rate, keep, self.loss, network.squash,
                    shards[s], first, last, h, dh[s],
                )  # fmt: skip

            own = sum(self._on_shards(decode, len(shards)))
            summed = dh.sum(0)
            if self.exchange.size > 1:  # both in one message: what an exchange costs is mostly the wait
                packed = self.exchange.all_reduce(np.append(summed, np.float32(own)))
                summed, own = packed[:-1].reshape(summed.shape), float(packed[-1])
            pending[:] = [(number, scale, backward(summed))]
            scale *= keep
            losses[number] = own
        self._on_shards(finish, len(shards))
        self._make_current(scale)
        return losses

    def _make_current(self, scale: float) -> None:
        first, last = self.network.input, self.network.output
        cuts = np.linspace(0, self.network.columns, self._threads + 1).astype(np.int64)

        def multiply(s: int) -> None:
            own = slice(cuts[s], cuts[s + 1])
            kernels.make_current(first.weight[own], last.weight[own], last.bias[own], np.float32(scale))

        self._on_shards(multiply, self._threads)

    def _middle(
        self, z: Floats, features: Floats, learning_rate: float, keep: float
    ) -> tuple[Floats, Callable[[Floats], Floats]]:
        """What lies between the big layers: z without its offset -> codes [h, s], and a function from dh to dz that
        takes the step of all weights between (backpropagation).
        """
        network, first = self.network, self.network.input
        z += first.offset(features)
        hidden = network.hidden(z, features)
        shrink, rate = np.float32(keep), np.float32(learning_rate)

        def backward(dh: Floats) -> Floats:
            dz = activation_gradient(dh, hidden[-1], network.activation)
            for layer, below in zip(reversed(network.middle), reversed(hidden[:-1]), strict=True):
                # Before the step; no gradient of the features is needed.
                dh = dz @ layer.weight[:, : below.shape[1]]
                layer.weight *= shrink
                layer.weight -= rate * (dz.T @ network.beside(below, features))
                layer.bias *= shrink
                layer.bias -= rate * dz.sum(0)
                dz = activation_gradient(dh, below, network.activation)
            first.bias *= shrink
            first.bias -= rate * dz.sum(0)
            if first.side is not None:
                first.side *= shrink
                first.side -= rate * (features.T @ dz)
            return dz

        return network.beside(hidden[-1], features), backward

    def _on_shards(self, work: Callable[[int], _Result], shards: int) -> list[_Result]:
        """Do the work of every shard, the last one on this thread; results in the order of the shards."""
        others = [self._pool.submit(work, s) for s in range(shards - 1)]
        own = work(shards - 1)
        return [*(other.result() for other in others), own]


# Greedy pre-training of a symmetric stack, from the outside in, as the paper does on MovieLens-1M
#
# First the outermost pair (input and output layer) is trained as a network of its own. Its codes are what the next pair
# learns to reconstruct from a noisy version, and so on to the middle. The stack starts from all of them.


def stack_on(
    outer: CFNetwork, stack: CFNetwork, rows: ScaledRows, settings: CFNSettings, seed: tuple[int, ...]
) -> None:
    """Give a new stack the layers of its trained outermost pair, and train its inner pairs on the codes of that one."""
    for layer, trained in ((stack.input, outer.input), (stack.output, outer.output)):
        layer.weight, layer.bias = trained.weight, trained.bias
    stack.input.side = outer.input.side
    filled = np.flatnonzero(rows.counts)
    filled = filled[np.argsort(rows.portion.row_keys[filled], kind="stable")]  # in an order of their own
    codes = np.concatenate(
        [
            encode_rows(outer, rows.take(filled[first : first + _CODES_AT_ONCE]))
            for first in range(0, len(filled), _CODES_AT_ONCE)
        ]
    )
    hidden, features = np.split(codes, settings.hidden[:1], axis=1)
    generator = np.random.Generator(np.random.PCG64(seed))
    with one_blas_thread():  # of minibatches of a few rows
        for depth in range(len(settings.hidden) // 2):
            pair = (stack.middle[depth], stack.middle[-1 - depth])
            hidden = _train_inner_pair(*pair, hidden, features, settings, generator)


def _train_inner_pair(
    encoder: Linear,
    decoder: Linear,
    hidden: Floats,
    features: Floats,
    settings: CFNSettings,
    generator: np.random.Generator,
) -> Floats:
    """Learn hidden (n, w) -> (n, width) -> hidden from noisy ones, with the features (n, P) beside either.

    Returns the inner hidden units.
    """
    f = settings.activation
    layers = [encoder.weight, encoder.bias, decoder.weight, decoder.bias]
    moving = [np.zeros_like(weights) for weights in layers]  # by momentum
    decay, momentum = np.float32(settings.inner_weight_decay), np.float32(settings.inner_momentum)
    for epoch in range(1, settings.inner_epochs + 1):
        rate = np.float32(settings.inner_learning_rate / (1 + epoch * settings.inner_learning_rate_decay))
        order = generator.permutation(len(hidden))
        for first in range(0, len(order), settings.inner_batch):
            chosen = order[first : first + settings.inner_batch]
            clean, side = hidden[chosen], features[chosen]
            noisy = generator.random(clean.shape, np.float32) < settings.inner_noise_ratio
            noise = generator.standard_normal(clean.shape, np.float32) * np.float32(settings.inner_noise_std) * noisy
            seen = np.concatenate([clean + noise, side], axis=1)
            inner = activated(encoder(seen), f)
            beside = np.concatenate([inner, side], axis=1)
            outputs = activated(decoder(beside), f)
            # Of the squared errors, summed over units and averaged over rows.
            dz_out = activation_gradient(np.float32(2 / len(clean)) * (outputs - clean), outputs, f)
            dz_in = activation_gradient(dz_out @ decoder.weight[:, : inner.shape[1]], inner, f)
            gradients = (dz_in.T @ seen, dz_in.sum(0), dz_out.T @ beside, dz_out.sum(0))
            for weights, step, gradient in zip(layers, moving, gradients, strict=True):
                step *= momentum
                step += gradient + decay * weights
                weights -= rate * step
    return activated(encoder(np.concatenate([hidden, features], axis=1)), f)
