"""Two ways to take the same training step: plain torch, which defines it, and the fused kernels."""

import os
from math import log1p
from typing import Protocol

import numba
import numpy as np
import torch

from cofill.cfn import kernels
from cofill.cfn.layers import DenoisingLoss
from cofill.cfn.minibatch import Minibatch, gather
from cofill.cfn.network import CFNetwork
from cofill.config import CFNSettings
from cofill.data.sparse import SparseRows

# Rows that are encoded together when nothing is trained: enough to read each column's weights once for many rows.
_CHUNK = 1024


class TrainingEngine(Protocol):
    """What the training loop needs of whoever moves the weights."""

    def step(self, minibatch: Minibatch, learning_rate: float) -> float:
        """Move the weights once; returns sum_e c_e (y_e - x_e)^2 before the move."""

    def settle(self) -> None:
        """Make the network's parameters current: nothing may be pending when they are read."""

    def outputs(
        self, rows: SparseRows, entry_rows: kernels.Longs, entry_columns: kernels.Ints
    ) -> kernels.Floats:
        """Outputs (n,) at entries sorted by row, each row read without noise."""


def make_engine(network: CFNetwork, settings: CFNSettings) -> TrainingEngine:
    """The engine that the settings ask for; `auto` is fused on a CPU and dense torch on everything else."""
    name = settings.engine
    if name == "auto":
        name = "fused" if settings.device == "cpu" else "dense"
    if name == "fused":
        return FusedEngine(network, settings)
    return TorchEngine(network, settings)


def uses_dense_layers(settings: CFNSettings) -> bool:
    return settings.engine == "dense" or (settings.engine == "auto" and settings.device != "cpu")


def shard_count(settings: CFNSettings) -> int:
    """Shards of the fused engine, one a thread. The sums over shards are rounded differently for each number."""
    if settings.threads:
        return settings.threads
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class TorchEngine:
    """Dense minibatch SGD in plain torch, on any device: the definition."""

    def __init__(self, network: CFNetwork, settings: CFNSettings) -> None:
        self.network = network
        self.device = network.input.weight.device
        self.loss = DenoisingLoss(settings.alpha, settings.beta)
        self.optimizer = torch.optim.SGD(
            network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )

    def step(self, minibatch: Minibatch, learning_rate: float) -> float:
        rows, columns, inputs, targets, corrupted = (
            torch.from_numpy(array).to(self.device)
            for array in (
                minibatch.entry_rows.astype(np.int64),
                minibatch.entry_columns.astype(np.int64),
                minibatch.inputs,
                minibatch.targets,
                minibatch.corrupted,
            )
        )
        codes = self.network.encode(rows, columns, inputs, minibatch.batch)
        loss = self.loss(self.network.decode(codes, rows, columns), targets, corrupted, minibatch.batch)
        self.optimizer.param_groups[0]["lr"] = learning_rate
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss.item()) * minibatch.batch

    def settle(self) -> None:
        pass  # every step is complete

    @torch.no_grad()
    def outputs(
        self, rows: SparseRows, entry_rows: kernels.Longs, entry_columns: kernels.Ints
    ) -> kernels.Floats:
        outputs = np.empty(len(entry_rows), np.float32)
        for first, last, chosen, local in _chunks_of_rows(entry_rows, self._chunk):
            known = gather(rows, chosen)
            codes = self.network.encode(
                torch.from_numpy(known.entry_rows.astype(np.int64)).to(self.device),
                torch.from_numpy(known.entry_columns.astype(np.int64)).to(self.device),
                torch.from_numpy(known.inputs).to(self.device),
                known.batch,
            )
            columns = torch.from_numpy(entry_columns[first:last].astype(np.int64)).to(self.device)
            scores = self.network.decode(codes, torch.from_numpy(local).to(self.device), columns)
            outputs[first:last] = scores.cpu().numpy()
        return outputs

    @property
    def _chunk(self) -> int:
        """Rows at a time, so that neither a dense chunk nor the gathered weights pass some 100 MB."""
        return max(1, min(_CHUNK, 25_000_000 // self.network.columns))


class FusedEngine:
    """The same step through the kernels: both big layers meet known ratings only, and decay comes late."""

    def __init__(self, network: CFNetwork, settings: CFNSettings) -> None:
        if network.input.weight.device.type != "cpu":
            raise ValueError("the fused engine works on the CPU")
        self.network = network
        self.settings = settings
        self.shards = shard_count(settings)
        self._w_in = network.input.weight.detach().numpy()
        self._w_out = network.output.weight.detach().numpy()
        self._b_out = network.output.bias.detach().numpy()
        self._small = [network.input.bias, *network.middle.parameters()]
        self._optimizer = torch.optim.SGD(
            self._small, lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        self._decay = 0.0
        self._seen_in = np.zeros(network.columns)
        self._seen_out = np.zeros(network.columns)
        self._partial: kernels.Floats = np.empty(0, np.float32)

    def step(self, minibatch: Minibatch, learning_rate: float) -> float:
        self._use_threads()
        entries = (minibatch.present, minibatch.starts, minibatch.entry_rows)
        bounds = minibatch.bounds(self.shards)
        step = log1p(-learning_rate * self.settings.weight_decay)

        partial = self._buffer(minibatch.batch, self._w_in.shape[1])
        kernels.encode(self._w_in, self._seen_in, self._decay, *entries, minibatch.inputs, bounds, partial)
        z = torch.from_numpy(partial.sum(0)).requires_grad_()  # (B, widths[0])
        codes = self.network.code(z + self.network.input.bias)

        partial = self._buffer(minibatch.batch, self._w_out.shape[1])
        losses = np.empty(self.shards)
        loss_weights = np.where(
            minibatch.corrupted, np.float32(self.settings.alpha), np.float32(self.settings.beta)
        )
        kernels.decode_and_step(
            self._w_out,
            self._b_out,
            self._seen_out,
            self._decay,
            step,
            learning_rate,
            self.network.squash,
            *entries,
            minibatch.targets,
            loss_weights,
            codes.detach().numpy(),
            bounds,
            partial,
            losses,
        )
        self._optimizer.param_groups[0]["lr"] = learning_rate
        self._optimizer.zero_grad()
        codes.backward(torch.from_numpy(partial.sum(0)))
        assert z.grad is not None
        self._optimizer.step()
        kernels.step_input(
            self._w_in,
            self._seen_in,
            self._decay,
            step,
            learning_rate,
            *entries,
            minibatch.inputs,
            z.grad.numpy(),
            bounds,
        )
        self._decay += step
        return float(losses.sum())

    def settle(self) -> None:
        self._use_threads()
        if self._decay == 0:
            return
        kernels.apply_decay(self._b_out[:, None], self._seen_out.copy(), self._decay, self.shards)
        kernels.apply_decay(self._w_out, self._seen_out, self._decay, self.shards)
        kernels.apply_decay(self._w_in, self._seen_in, self._decay, self.shards)
        self._decay = 0.0

    @torch.no_grad()
    def outputs(
        self, rows: SparseRows, entry_rows: kernels.Longs, entry_columns: kernels.Ints
    ) -> kernels.Floats:
        self.settle()
        outputs = np.empty(len(entry_rows), np.float32)
        for first, last, chosen, local in _chunks_of_rows(entry_rows, _CHUNK):
            known = gather(rows, chosen)
            partial = self._buffer(known.batch, self._w_in.shape[1])
            kernels.encode(
                self._w_in,
                self._seen_in,
                self._decay,
                known.present,
                known.starts,
                known.entry_rows,
                known.inputs,
                known.bounds(self.shards),
                partial,
            )
            codes = self.network.code(torch.from_numpy(partial.sum(0)) + self.network.input.bias)
            kernels.outputs_at(
                self._w_out,
                self._b_out,
                codes.numpy(),
                local,
                entry_columns[first:last],
                outputs[first:last],
                self.shards,
            )
        return self.network.activate(torch.from_numpy(outputs)).numpy()

    def _use_threads(self) -> None:
        numba.set_num_threads(min(self.shards, int(numba.config.NUMBA_NUM_THREADS)))  # type: ignore[attr-defined]

    def _buffer(self, batch: int, width: int) -> kernels.Floats:
        """(shards, B, width) to be filled; kept, because fresh pages cost more than the sums."""
        needed = self.shards * batch * width
        if self._partial.size < needed:
            self._partial = np.empty(needed, np.float32)
        return self._partial[:needed].reshape(self.shards, batch, width)


def _chunks_of_rows(
    entry_rows: kernels.Longs, size: int
) -> "list[tuple[int, int, kernels.Longs, kernels.Longs]]":
    """Entries sorted by row, cut at every `size` different rows: first, last, the rows, each entry's place in them."""
    distinct, starts, inverse = np.unique(entry_rows, return_index=True, return_inverse=True)
    ends = np.append(starts, len(entry_rows))
    return [
        (
            int(ends[low]),
            int(ends[min(low + size, len(distinct))]),
            distinct[low : low + size].astype(np.int64),
            (inverse[ends[low] : ends[min(low + size, len(distinct))]] - low).astype(np.int64),
        )
        for low in range(0, len(distinct), size)
    ]
