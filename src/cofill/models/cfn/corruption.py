"""Noise on the known ratings of a minibatch: masking, Gaussian, salt and pepper."""

from dataclasses import dataclass
from typing import NamedTuple, Self, get_args

import numpy as np
import numpy.typing as npt

from cofill.config import LossSettings, Noise
from cofill.errors import SettingsError

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


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

    def applied(
        self, rows: Ints, values: Floats, draws: "NoiseDraws", *, presence: float = 0.0
    ) -> tuple[Floats, Flags]:
        """(n,) rows in 0..B-1 and (n,) values -> (n,) noisy inputs and (n,) bool: which were corrupted.

        `presence` is added to every input that is not hidden.
        """
        chosen, noise, cold = draws
        shown: Floats = values + np.float32(presence)
        if self.noise == "mask":
            inputs = np.where(chosen, np.float32(0), shown)
        else:
            inputs = np.where(chosen, (shown if self.noise == "gaussian" else np.float32(presence)) + noise, shown)
        if self.cold_ratio == 0:
            return inputs, chosen
        of_entry = cold[rows]
        return np.where(of_entry, np.float32(0), inputs), chosen | of_entry


class NoiseDraws(NamedTuple):
    """What is left to chance of the noise of n entries of B rows."""

    chosen: Flags  # (n,) bool: which are corrupted
    noise: Floats  # (n,): what is added to these (gaussian), or stands in their place (salt and pepper); masks: (0,)
    cold: Flags  # (B,) bool: which rows lose everything; (0,) where none may
