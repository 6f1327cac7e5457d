"""Noise in torch, drawn from a generator, for networks in plain torch."""

from dataclasses import dataclass

import torch
from torch import Tensor

from cofill.models.cfn import corruption


@dataclass(frozen=True)
class Corruption(corruption.Corruption):
    """Corrupts a share of the known ratings of each row; `std` is that of the Gaussian noise."""

    def __call__(
        self, rows: Tensor, values: Tensor, batch: int, generator: torch.Generator, *, presence: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """(n,) rows in 0..B-1 and (n,) values -> (n,) noisy inputs and (n,) bool: which were corrupted.

        `presence` is added to every input that is not hidden. Draws are made on the CPU, so that a seed means the same
        on every device.
        """
        device = values.device
        chosen = (torch.rand(len(values), generator=generator) < self.ratio).to(device)
        if self.noise == "mask":
            chosen = chosen & _keeps_something(rows, chosen, batch)[rows]
            inputs = (values + presence).masked_fill(chosen, 0)
        elif self.noise == "gaussian":
            noise = torch.randn(len(values), generator=generator).to(device) * self.std
            inputs = torch.where(chosen, values + noise, values) + presence
        else:
            noise = (torch.rand(len(values), generator=generator) < 0.5).to(device, values.dtype) * 2 - 1
            inputs = torch.where(chosen, noise, values) + presence
        if self.cold_ratio == 0:
            return inputs, chosen
        of_entry = (torch.rand(batch, generator=generator) < self.cold_ratio).to(device)[rows]
        return inputs.masked_fill(of_entry, 0), chosen | of_entry


def _keeps_something(rows: Tensor, chosen: Tensor, batch: int) -> Tensor:
    """(B,): a row that would lose all of its ratings keeps them all: an empty row has nothing to learn from."""
    left = torch.zeros(batch, dtype=torch.int32, device=rows.device)
    left.index_add_(0, rows, (~chosen).int())
    return left > 0
