"""The training step through the fused kernels, and the choice between it and plain torch, which defines it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from math import log1p
from typing import Protocol, Self, TypeVar

import numpy as np

from cofill.config import CFNSettings
from cofill.errors import SettingsError
from cofill.exchange import ALONE, Exchange
from cofill.extras import require
from cofill.models.cfn import kernels
from cofill.models.cfn.activation import activation_gradient
from cofill.models.cfn.loss import Loss
from cofill.models.cfn.minibatch import ROWS_AT_ONCE, Minibatch, chunks_of_rows, gather
from cofill.models.cfn.network import CFNetwork
from cofill.models.cfn.scaling import ScaledRows
from cofill.threads import one_blas_thread
from cofill.workers import cores

_Result = TypeVar("_Result")

# Ratings of a row for each unit of the layer, up to which narrow sums hold what is to be added up. With random weights
# of a layer of k units dh is about 2 / (3 k) for each rating at the most, of 512 that fit.
_LONGEST_NARROW = 96
_NEARLY_FULL = 2**30  # half of that: other sums may have gone beyond already, and then a training has diverged
_PARTS = 2**20  # of a whole number, in which losses are added up over processes


class TrainingEngine(Protocol):
    """What the training loop needs of whoever moves the weights. Training happens inside its context."""

    follows_gradient: bool
    """Whether a step is as large as the gradient says, so that it can become too large for long rows."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *problem: object) -> None: ...

    def step(self, minibatch: Minibatch, learning_rate: float) -> float:
        """Move the weights once; returns the loss, summed over entries, before the move."""

    def settle(self) -> None:
        """Make the network's parameters current: nothing may be pending when they are read."""

    def outputs(self, rows: ScaledRows, entry_rows: kernels.Longs, entry_columns: kernels.Ints) -> kernels.Floats:
        """Outputs (n,) at entries sorted by row, each row read without noise."""


def require_engine(settings: CFNSettings) -> None:
    """SettingsError where the engine that the settings ask for is not installed."""
    name = settings.engine_used
    if name != "fused":
        asked = f"engine {name!r}" if settings.engine == name else f"device {settings.device!r}"
        require(asked, "torch", "torch")


def make_engine(network: CFNetwork, settings: CFNSettings, exchange: Exchange = ALONE) -> TrainingEngine:
    """The engine that the settings ask for, to train this network."""
    name = settings.engine_used
    if name == "fused":
        return FusedEngine(network, settings, exchange)
    if exchange.size > 1:
        raise SettingsError(f"several workers train with the engine fused, on the CPU. Got {name!r}")
    require_engine(settings)
    from cofill.models.cfn.plain.engine import TorchEngine

    return TorchEngine(network, settings)


def shard_count(settings: CFNSettings) -> int:
    """Shards of the fused engine, one a thread."""
    if settings.threads:
        return settings.threads
    return cores()


class FusedEngine:
    """The same step through the kernels: both big layers meet known ratings only, and decay comes late.

    Shards run on plain threads that sleep while they wait. (Threads that spin, as those of OpenMP do, are a little
    quicker on an idle machine and many times slower on one where another program wants a core.)

    The columns may be spread over processes in the same way: these share nothing but z and dh either.
    """

    follows_gradient: bool = True

    def __init__(self, network: CFNetwork, settings: CFNSettings, exchange: Exchange = ALONE) -> None:
        self.network = network
        self.settings = settings
        self.exchange = exchange
        self.loss = Loss.of(settings)
        self.shards = shard_count(settings)
        self._threads = ThreadPoolExecutor(max(1, self.shards - 1), thread_name_prefix="cofill-shard")
        self._input, self._output = (
            kernels.Columns(layer.weight, np.zeros(network.columns)) for layer in (network.input, network.output)
        )
        self._b_out = network.output.bias
        self._deep = self._output.weight.shape[1] - network.features  # hidden units that the output layer reads
        self._inside = ExitStack()
        self._decay = 0.0  # the logarithm of all decay due since everything was last up to date
        self._partial: kernels.Ints = np.empty(0, np.int32)

    def __enter__(self) -> Self:
        self._inside.enter_context(one_blas_thread())  # the middle is too small to share
        return self

    def __exit__(self, *problem: object) -> None:
        self._inside.close()

    @np.errstate(all="ignore")  # a run that diverges is noticed by its loss
    def step(self, minibatch: Minibatch, learning_rate: float) -> float:
        entries, bounds = minibatch.entries, minibatch.bounds(self.shards)
        step = kernels.Step(learning_rate, self._decay, log1p(-learning_rate * self.settings.weight_decay))
        codes, backward = self._middle(self._encode(minibatch, bounds), minibatch.features, learning_rate)
        dh, fixed = self._sums(minibatch, self._deep)
        losses = self._on_shards(
            lambda s: kernels.decode_and_step(
                self._output, self._b_out, step, self.loss, self.network.squash,
                entries, codes, bounds[s], bounds[s + 1], fixed, dh[s],
            )
        )  # fmt: skip
        summed, loss = self._sum_over_processes(dh.sum(0, dtype=dh.dtype), sum(losses))
        dz = backward(_floating(summed, fixed, minibatch.batch))
        self._on_shards(lambda s: kernels.step_input(self._input, step, entries, dz, bounds[s], bounds[s + 1]))
        self._decay += step.decay
        return loss

    def _sum_over_processes(self, dh: kernels.Sums, loss: float) -> tuple[kernels.Sums, float]:
        """Both in one message: what an exchange costs is mostly the wait."""
        if self.exchange.size == 1:
            return dh, loss
        most = 2**30 // self.exchange.size  # no training comes back from there
        whole = int(loss) if loss < most else most
        parts = np.array([whole, (loss - whole) * _PARTS if loss < most else 0]).astype(dh.dtype)
        packed = self.exchange.sum_(np.concatenate([dh.ravel(), parts]))
        together, rest = packed[-2:].tolist()
        return packed[:-2].reshape(dh.shape), float("inf") if together >= most else together + rest / _PARTS

    def settle(self) -> None:
        if self._decay == 0:
            return
        cuts = np.linspace(0, self.network.columns, self.shards + 1).astype(np.int64)
        # The bias keeps time with its weights.
        bias = kernels.Columns(self._b_out[:, None], self._output.decayed.copy())
        for columns in (bias, self._output, self._input):
            self._on_shards(partial(_apply_decay_to_shard, columns=columns, decay=self._decay, cuts=cuts))
        self._decay = 0.0

    @np.errstate(all="ignore")
    def outputs(self, rows: ScaledRows, entry_rows: kernels.Longs, entry_columns: kernels.Ints) -> kernels.Floats:
        self.settle()
        outputs = np.empty(len(entry_rows), np.float32)
        for first, last, chosen, local in chunks_of_rows(entry_rows, rows, ROWS_AT_ONCE):
            known = gather(rows, chosen)
            z = self._encode(known, known.bounds(self.shards)) + self.network.input.offset(known.features)
            asked = (self.network.code(z, known.features), local, entry_columns[first:last])
            cuts = np.linspace(0, last - first, self.shards + 1).astype(np.int64)
            target = outputs[first:last]
            self._on_shards(
                partial(
                    _outputs_of_shard,
                    weight=self._output.weight,
                    bias=self._b_out,
                    asked=asked,
                    cuts=cuts,
                    target=target,
                )
            )
        return np.tanh(outputs) if self.network.squash else outputs

    def _middle(
        self, z: kernels.Floats, features: kernels.Floats, learning_rate: float
    ) -> tuple[kernels.Floats, Callable[[kernels.Floats], kernels.Floats]]:
        """What lies between the big layers: z without its offset -> codes [h, s], and a function from dh to dz that
        takes the step of all weights between (backpropagation).
        """
        network, first = self.network, self.network.input
        z += first.offset(features)
        hidden = network.hidden(z, features)
        keep = np.float32(1 - learning_rate * self.settings.weight_decay)
        rate = np.float32(learning_rate)

        def backward(dh: kernels.Floats) -> kernels.Floats:
            dz = activation_gradient(dh, hidden[-1], network.activation)
            for layer, below in zip(reversed(network.middle), reversed(hidden[:-1]), strict=True):
                # Before the step; nobody asks for the gradient of the features.
                dh = dz @ layer.weight[:, : below.shape[1]]
                layer.weight *= keep
                layer.weight -= rate * (dz.T @ network.beside(below, features))
                layer.bias *= keep
                layer.bias -= rate * dz.sum(0)
                dz = activation_gradient(dh, below, network.activation)
            first.bias *= keep
            first.bias -= rate * dz.sum(0)
            if first.side is not None:
                first.side *= keep
                first.side -= rate * (features.T @ dz)
            return dz

        return network.beside(hidden[-1], features), backward

    def _encode(self, minibatch: Minibatch, bounds: list[int]) -> kernels.Floats:
        """z without its offset: (B, widths[0]); `bounds` are those of the shards."""
        z, fixed = self._sums(minibatch, self._input.weight.shape[1])
        self._on_shards(
            lambda s: kernels.encode(self._input, self._decay, minibatch.entries, bounds[s], bounds[s + 1], fixed, z[s])
        )
        return _floating(self.exchange.sum_(z.sum(0, dtype=z.dtype)), fixed)

    def _on_shards(self, work: Callable[[int], _Result]) -> list[_Result]:
        """Do the work of every shard, the last one on this thread; results in the order of the shards."""
        others = [self._threads.submit(work, s) for s in range(self.shards - 1)]
        own = work(self.shards - 1)
        return [*(other.result() for other in others), own]

    def _sums(self, minibatch: Minibatch, width: int) -> tuple[kernels.Sums, np.float32]:
        """(shards, B, width) to be filled, and in which units; kept, because fresh pages cost more than the sums."""
        wide = minibatch.longest > _LONGEST_NARROW * width
        needed = self.shards * minibatch.batch * width * (2 if wide else 1)
        if self._partial.size < needed:
            self._partial = np.empty(needed, np.int32)
        shape = self.shards, minibatch.batch, width
        if wide:
            return self._partial[:needed].view(np.float64).reshape(shape), kernels.WIDE
        return self._partial[:needed].reshape(shape), kernels.NARROW


def _floating(sums: kernels.Sums, fixed: np.float32, divisor: int = 1) -> kernels.Floats:
    """From fixed-point numbers; not a number, all of them, where narrow ones came near to what they can hold."""
    numbers: kernels.Floats = (sums * (1 / (float(fixed) * divisor))).astype(np.float32)
    if sums.dtype == np.int32 and sums.size and max(sums.max(), -int(sums.min())) >= _NEARLY_FULL:
        numbers[:] = np.nan
    return numbers


def _apply_decay_to_shard(s: int, *, columns: kernels.Columns, decay: float, cuts: kernels.Longs) -> None:
    kernels.apply_decay(columns, decay, cuts[s], cuts[s + 1])


def _outputs_of_shard(
    s: int,
    *,
    weight: kernels.Floats,
    bias: kernels.Floats,
    asked: tuple[kernels.Floats, kernels.Longs, kernels.Ints],
    cuts: kernels.Longs,
    target: kernels.Floats,
) -> None:
    kernels.outputs_at(weight, bias, *asked, cuts[s], cuts[s + 1], target)
