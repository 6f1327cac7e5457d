"""The training step in plain torch, on any device: the definition of what the fused engine does."""

from typing import Self

import numpy as np
import torch

from cofill.config import CFNSettings
from cofill.errors import SettingsError
from cofill.models.cfn.kernels import Floats, Ints, Longs
from cofill.models.cfn.loss import Loss
from cofill.models.cfn.minibatch import ROWS_AT_ONCE, Minibatch, chunks_of_rows, gather
from cofill.models.cfn.network import CFNetwork
from cofill.models.cfn.plain.loss import DenoisingLoss
from cofill.models.cfn.plain.network import PlainNetwork
from cofill.models.cfn.scaling import ScaledRows


class TorchEngine:
    """Dense minibatch SGD in plain torch, on any device: the definition."""

    follows_gradient: bool = True

    def __init__(self, network: CFNetwork, settings: CFNSettings) -> None:
        self.weights = network
        self.network = _on_device(PlainNetwork(network, dense=settings.engine_used == "dense"), settings.device)
        self.device = self.network.input.weight.device
        self.loss = DenoisingLoss(*Loss.of(settings))
        self.optimizer = torch.optim.SGD(
            self.network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        pass  # torch keeps its own threads

    def step(self, minibatch: Minibatch, learning_rate: float) -> float:
        rows, columns, inputs, features, targets, corrupted = (
            torch.from_numpy(array).to(self.device)
            for array in (
                minibatch.entries.rows.astype(np.int64),
                minibatch.entry_columns.astype(np.int64),
                minibatch.entries.inputs,
                minibatch.features,
                minibatch.entries.targets,
                minibatch.entries.corrupted,
            )
        )
        codes = self.network.encode(rows, columns, inputs, minibatch.batch, features)
        loss = self.loss(self.network.decode(codes, rows, columns), targets, corrupted, minibatch.batch)
        self.optimizer.param_groups[0]["lr"] = learning_rate
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss.item()) * minibatch.batch

    def settle(self) -> None:
        if self.device.type != "cpu":  # on the CPU both have the same memory
            self.weights.take({name: weight.cpu().numpy() for name, weight in self.network.state_dict().items()})

    @torch.no_grad()
    def outputs(self, rows: ScaledRows, entry_rows: Longs, entry_columns: Ints) -> Floats:
        outputs = np.empty(len(entry_rows), np.float32)
        for first, last, chosen, local in chunks_of_rows(entry_rows, rows, self._rows_at_once(rows)):
            known = gather(rows, chosen)
            codes = self.network.encode(
                torch.from_numpy(known.entries.rows.astype(np.int64)).to(self.device),
                torch.from_numpy(known.entry_columns.astype(np.int64)).to(self.device),
                torch.from_numpy(known.entries.inputs).to(self.device),
                known.batch,
                torch.from_numpy(known.features).to(self.device),
            )
            columns = torch.from_numpy(entry_columns[first:last].astype(np.int64)).to(self.device)
            scores = self.network.decode(codes, torch.from_numpy(local).to(self.device), columns)
            outputs[first:last] = scores.cpu().numpy()
        return outputs

    def _rows_at_once(self, rows: ScaledRows) -> int:
        """So that neither dense rows nor the weights gathered for sparse ones take much more than 100 MB."""
        known = rows.known
        floats_a_row = max(self.weights.columns, self.network.input.weight.shape[1] * known.nnz // max(known.rows, 1))
        return max(1, min(ROWS_AT_ONCE, 25_000_000 // max(floats_a_row, 1)))


def _on_device(network: PlainNetwork, device: str) -> PlainNetwork:
    try:
        if device == "meta":  # torch knows this device too, but nothing can be computed on it
            raise RuntimeError("it holds no numbers")
        return network.to(device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise SettingsError(
            f"the setting 'device' must name a device that torch can use here, such as cpu or cuda. "
            f"Got {device!r} ({reason})"
        ) from None
