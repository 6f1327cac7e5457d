"""Noise on the known ratings of a minibatch: masking, Gaussian, salt and pepper."""

from dataclasses import dataclass
from typing import Self, get_args

import torch
from torch import Tensor

from cofill.config import LossSettings, Noise
from cofill.errors import SettingsError


@dataclass(frozen=True)
class Corruption:
    """Corrupts a share of the known ratings of each row; `std` is that of the Gaussian noise."""

    noise: Noise = "mask"
    ratio: float = 0.2
    std: float = 0.3
    cold_ratio: float = 0.0

    def __post_init__(self) -> None:
        if self.noise not in get_args(Noise):
            raise SettingsError(f"noise must be one of {', '.join(get_args(Noise))}. Got {self.noise!r}")
        if not (0 <= self.ratio <= 1 and self.std >= 0):
            raise SettingsError(f"a noise ratio is between 0 and 1, and std not negative. Got {self.ratio}, {self.std}")
        if not 0 <= self.cold_ratio <= 1:
            raise SettingsError(f"the share of cold rows is between 0 and 1. Got {self.cold_ratio}")

    @classmethod
    def of(cls, settings: LossSettings, *, with_features: bool = False) -> Self:
        cold_ratio = settings.cold_ratio if with_features else 0
        return cls(settings.noise, settings.noise_ratio, settings.noise_std, cold_ratio)

    def __call__(
        self, rows: Tensor, values: Tensor, batch: int, generator: torch.Generator, *, presence: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """(n,) rows in 0..B-1 and (n,) values -> (n,) noisy inputs and (n,) bool: which were corrupted.

        `presence` is added to every input that is not hidden. Draws are made on the CPU, so that a seed means the same
        on every device.
        """
        inputs, corrupted = self._noisy(rows, values, batch, generator)
        if presence != 0:
            inputs = torch.where(corrupted, inputs, inputs + presence) if self.noise == "mask" else inputs + presence
        if self.cold_ratio == 0:
            return inputs, corrupted
        cold = (torch.rand(batch, generator=generator) < self.cold_ratio).to(values.device)[rows]
        return inputs.masked_fill(cold, 0), corrupted | cold

    def _noisy(self, rows: Tensor, values: Tensor, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        device = values.device
        chosen = (torch.rand(len(values), generator=generator) < self.ratio).to(device)
        if self.noise == "mask":
            chosen = self._keep_rows_with_nothing_left(rows, chosen, batch)
            return values.masked_fill(chosen, 0), chosen
        if self.noise == "gaussian":
            noise = torch.randn(len(values), generator=generator).to(device) * self.std
            return torch.where(chosen, values + noise, values), chosen
        # Salt and pepper: the two ends of the scaled range, whichever side of the row's mean they fall on.
        ends = (torch.rand(len(values), generator=generator) < 0.5).to(device, values.dtype) * 2 - 1
        return torch.where(chosen, ends, values), chosen

    @staticmethod
    def _keep_rows_with_nothing_left(rows: Tensor, chosen: Tensor, batch: int) -> Tensor:
        """A row that would lose all of its ratings keeps them all: an empty row has nothing to learn from."""
        left = torch.zeros(batch, dtype=torch.int32, device=rows.device)
        left.index_add_(0, rows, (~chosen).int())
        return chosen if bool((left > 0).all()) else chosen & (left > 0)[rows]
