"""The function of the hidden layers: for torch, for numpy, and its slope for the kernels."""

from typing import assert_never

import numpy as np
import torch
from torch import Tensor

from cofill.config import Activation
from cofill.models.cfn.kernels import Floats

_HALF = np.float32(0.5)


def activated(z: Tensor, activation: Activation) -> Tensor:
    """h = f(z): the definition."""
    match activation:
        case "tanh":
            return torch.tanh(z)
        case "sigmoid":
            return torch.sigmoid(z)
        case "identity":
            return z
        case _:
            assert_never(activation)


def activated_in_numpy(z: Floats, activation: Activation) -> Floats:
    """The same without torch."""
    match activation:
        case "tanh":
            return np.tanh(z)
        case "sigmoid":
            h: Floats = np.tanh(z * _HALF) * _HALF + _HALF  # never overflows
            return h
        case "identity":
            return z
        case _:
            assert_never(activation)


def slope_times(dh: Floats, h: Floats, activation: Activation) -> Floats:
    """dz = dh f'(z), where h = f(z)."""
    with np.errstate(all="ignore"):  # a run that diverges is noticed by its loss
        match activation:
            case "tanh":
                return dh * (1 - h * h)
            case "sigmoid":
                return dh * (h * (1 - h))
            case "identity":
                return dh
            case _:
                assert_never(activation)
