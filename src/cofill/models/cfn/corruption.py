"""Noise on the known ratings of a minibatch: masking, Gaussian, salt and pepper."""

from dataclasses import dataclass
from typing import NamedTuple, Self, get_args

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
        return self.applied(rows, values, self._drawn(rows, values, batch, generator), presence=presence)

    def applied(
        self, rows: Tensor, values: Tensor, draws: "NoiseDraws", *, presence: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """The same with draws that are given."""
        chosen, noise, cold = draws
        if self.noise == "mask":
            inputs = values.masked_fill(chosen, 0)
        else:
            inputs = torch.where(chosen, values + noise if self.noise == "gaussian" else noise, values)
        if presence != 0:
            inputs = torch.where(chosen, inputs, inputs + presence) if self.noise == "mask" else inputs + presence
        if self.cold_ratio == 0:
            return inputs, chosen
        of_entry = cold[rows]
        return inputs.masked_fill(of_entry, 0), chosen | of_entry

    def _drawn(self, rows: Tensor, values: Tensor, batch: int, generator: torch.Generator) -> "NoiseDraws":
        device = values.device
        chosen = (torch.rand(len(values), generator=generator) < self.ratio).to(device)
        noise = values[:0]
        if self.noise == "mask":
            chosen = chosen & _keeps_something(rows, chosen, batch)[rows]
        elif self.noise == "gaussian":
            noise = torch.randn(len(values), generator=generator).to(device) * self.std
        else:
            noise = (torch.rand(len(values), generator=generator) < 0.5).to(device, values.dtype) * 2 - 1
        cold = torch.zeros(0, dtype=torch.bool)
        if self.cold_ratio:
            cold = torch.rand(batch, generator=generator) < self.cold_ratio
        return NoiseDraws(chosen, noise, cold.to(device))


class NoiseDraws(NamedTuple):
    """What is left to chance of the noise of n entries of B rows."""

    chosen: Tensor  # (n,) bool: which are corrupted
    noise: Tensor  # (n,): what is added to these (gaussian), or stands in their place (salt and pepper); masks: (0,)
    cold: Tensor  # (B,) bool: which rows lose everything; (0,) where none may


def _keeps_something(rows: Tensor, chosen: Tensor, batch: int) -> Tensor:
    """(B,): a row that would lose all of its ratings keeps them all: an empty row has nothing to learn from."""
    left = torch.zeros(batch, dtype=torch.int32, device=rows.device)
    left.index_add_(0, rows, (~chosen).int())
    return left > 0
