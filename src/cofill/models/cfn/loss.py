"""The loss: weighted squared error between the outputs and the ratings that they should be.

    L = sum over known e of c_e l(y_e, x_e) / B        l(y, x) = (y - x)^2
    c_e = alpha where the input was corrupted, beta elsewhere

It is written down twice and nowhere else: `plain.loss.DenoisingLoss` in torch, which is the definition, and here
`loss_and_derivative` for the kernels. Another loss is a branch in both, a field of `Loss` that chooses it, and a
setting in `config.LossSettings`. What holds for squared error alone asks `Loss.require_squared_error` first.
"""

from typing import NamedTuple, Self

import numpy as np

from cofill.compiling import compiled
from cofill.config import LossSettings
from cofill.errors import SettingsError


class Loss(NamedTuple):
    """Which loss it is, as kernels take it."""

    alpha: float
    beta: float

    @classmethod
    def of(cls, settings: LossSettings) -> Self:
        return cls(settings.alpha, settings.beta)

    @property
    def is_squared_error(self) -> bool:
        """Whether l(y, x) = (y - x)^2, so that output weights which minimise it are a linear regression on codes."""
        return True

    def require_squared_error(self, what: str) -> None:
        """For a closed form: `what` minimises squared error and would be wrong for any other loss."""
        if not self.is_squared_error:
            raise SettingsError(f"{what} needs squared error. Got another loss; choose squared error")


@compiled
def loss_and_derivative(
    loss: Loss, output: np.float32, target: np.float32, corrupted: np.bool_
) -> tuple[np.float32, np.float32]:
    """Of one entry, before the division by B: c l(y, x) and its derivative by y, in single precision."""
    weight = np.float32(loss.alpha) if corrupted else np.float32(loss.beta)
    error = output - target
    return weight * error * error, np.float32(2) * weight * error
