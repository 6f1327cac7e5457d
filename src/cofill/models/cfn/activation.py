"""The function of the hidden layers, and its slope. `plain/layers.py` has it in torch."""

from typing import assert_never

import numpy as np
import numpy.typing as npt

from cofill.config import Activation

Floats = npt.NDArray[np.float32]

_HALF = np.float32(0.5)


def activated(z: Floats, activation: Activation) -> Floats:
    """h = f(z)"""
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


def activation_gradient(dh: Floats, h: Floats, activation: Activation) -> Floats:
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
