"""The network, its noise and its loss in plain torch: their definition, and the engine `dense`. See `cofill.nn`.

A minibatch of sparse rows is given as its known entries: for entry e, `rows[e]` in 0..B-1 says which row of the
minibatch it belongs to, `columns[e]` its column, `values[e]` its value. What is not listed is unknown, which is
not zero: it adds nothing to a sum, to the loss or to a gradient.

Nothing else of the package needs torch. It is imported where it is asked for.
"""

import math
from dataclasses import dataclass
from typing import cast, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from cofill.arrays import Doubles, Longs
from cofill.config import Activation, CFNSettings, Noise
from cofill.errors import SettingsError
from cofill.models.cfn.network import CFNetwork
from cofill.models.cfn.scaling import ScaledRows
from cofill.models.cfn.sgd import Minibatches


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

    def __call__(
        self, rows: Tensor, values: Tensor, batch: int, generator: torch.Generator, *, presence: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """(n,) rows in 0..B-1 and (n,) values -> (n,) noisy inputs and (n,) bool: which were corrupted.

        `presence` is added to every input that is not hidden. Draws are made on the CPU, so that a seed means the same
        on every device.
        """
        device = values.device
        chosen = (torch.rand(len(values), generator=generator) < self.ratio).to(device)
        if self.noise == "mask":  # a row that would lose all of its ratings keeps them: nothing is learned from none
            left = torch.zeros(batch, dtype=torch.int32, device=device).index_add_(0, rows, (~chosen).int())
            chosen = chosen & (left > 0)[rows]
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


class SparseInput(nn.Module):
    """z_i = sum over the known j of row i of x_ij W[j], plus s_i S, plus b: it only ever meets known entries.

    s_i are the side features of row i; with `features=0` there are none. `dense=True` fills a B x columns matrix just
    in time and multiplies (the paper's way, right for a GPU); otherwise the rows of W that are needed are gathered.
    Both give the same result.
    """

    def __init__(
        self,
        columns: int,
        width: int,
        *,
        features: int = 0,
        dense: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.dense = dense
        self.weight = nn.Parameter(_fan_in_uniform((columns, width), columns, generator))
        self.bias = nn.Parameter(_fan_in_uniform((width,), columns, generator))
        # From zero: at first only the ratings count, and features come in as far as they help.
        self.side = nn.Parameter(torch.zeros(features, width)) if features else None

    def forward(
        self, rows: Tensor, columns: Tensor, values: Tensor, batch: int, features: Tensor | None = None
    ) -> Tensor:
        """(n,), (n,), (n,), and the features (B, P) where there are any -> (B, width)"""
        if self.dense:
            filled = self.weight.new_zeros(batch, self.weight.shape[0])  # (B, columns)
            filled[rows, columns] = values
            from_ratings = filled @ self.weight
        else:
            gathered = values[:, None] * self.weight[columns]  # (n, width)
            from_ratings = self.weight.new_zeros(batch, self.weight.shape[1]).index_add(0, rows, gathered)
        return from_ratings + self.offset(features)

    def offset(self, features: Tensor | None = None) -> Tensor:
        """What is added whatever the ratings are: (width,) without features, (B, width) with them."""
        if self.side is None:
            return self.bias
        assert features is not None, "this layer was made for rows with features"
        return features @ self.side + self.bias


class SampledOutput(nn.Module):
    """y_e = h[rows[e]] . W[columns[e]] + b[columns[e]]: a linear layer evaluated only where it is asked.

    W is stored one row a column of the ratings, like the input layer's: (columns, width).
    """

    def __init__(
        self, width: int, columns: int, *, dense: bool = False, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.dense = dense
        self.weight = nn.Parameter(_fan_in_uniform((columns, width), width, generator))
        self.bias = nn.Parameter(_fan_in_uniform((columns,), width, generator))

    def forward(self, hidden: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """(B, width), (n,), (n,) -> (n,)"""
        if self.dense:
            return self.everywhere(hidden)[rows, columns]
        return (hidden[rows] * self.weight[columns]).sum(-1) + self.bias[columns]

    def everywhere(self, hidden: Tensor) -> Tensor:
        """(B, width) -> (B, columns): every column, known or not."""
        return functional.linear(hidden, self.weight, self.bias)


def _fan_in_uniform(shape: tuple[int, ...], fan_in: int, generator: torch.Generator | None) -> Tensor:
    """Uniform in +-1/sqrt(fan in)."""
    bound = 1 / math.sqrt(fan_in)
    return torch.empty(shape).uniform_(-bound, bound, generator=generator)


def activated(z: Tensor, activation: Activation) -> Tensor:
    """h = f(z): the definition."""
    return z if activation == "identity" else {"tanh": torch.tanh, "sigmoid": torch.sigmoid}[activation](z)


class DenoisingLoss(nn.Module):
    """sum_e c_e (y_e - x_e)^2 / B with c_e = alpha where the input was corrupted, beta elsewhere."""

    def __init__(self, alpha: float, beta: float) -> None:
        super().__init__()
        self.alpha = alpha
        self.beta = beta

    def forward(self, outputs: Tensor, targets: Tensor, corrupted: Tensor, batch: int) -> Tensor:
        """(n,), (n,), (n,) bool -> scalar"""
        weights = torch.where(corrupted, self.alpha, self.beta).to(outputs.dtype)
        return (weights * (outputs - targets) ** 2).sum() / batch


class PlainNetwork(nn.Module):
    """What `CFNetwork` says, any depth, any device, with that network's weights: on the CPU in the same memory.

    `dense` chooses how a minibatch is multiplied, not what comes out.
    """

    def __init__(self, network: CFNetwork, *, dense: bool = False) -> None:
        super().__init__()
        # Layers of their own draw first weights, here not from the global generator, and are given the network's.
        generator = torch.Generator()
        self.input = SparseInput(1, 1, features=network.features, dense=dense, generator=generator)
        self.middle = nn.ModuleList(nn.utils.skip_init(nn.Linear, 1, 1) for _ in network.middle)
        self.output = SampledOutput(1, 1, dense=dense, generator=generator)
        for name, array in network.weights().items():
            layer, _, last = name.rpartition(".")
            setattr(self.get_submodule(layer), last, nn.Parameter(torch.from_numpy(array)))
        self.activation = network.activation
        self.squash = network.squash

    def encode(self, rows: Tensor, columns: Tensor, values: Tensor, batch: int, features: Tensor) -> Tensor:
        """Known entries of B rows, and their features (B, P) -> their codes (B, width)."""
        return self.code(self.input(rows, columns, values, batch, features), features)

    def code(self, z: Tensor, features: Tensor) -> Tensor:
        """What the input layer gives (B, widths[0]) -> codes (B, width), which are [h, s]."""
        code = torch.cat([activated(z, self.activation), features], dim=1)
        for layer in self.middle:
            code = torch.cat([activated(layer(code), self.activation), features], dim=1)
        return code

    def decode(self, codes: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """Codes (B, width) -> outputs at the entries asked for (n,)."""
        outputs = cast(Tensor, self.output(codes, rows, columns))
        return torch.tanh(outputs) if self.squash else outputs


class TorchEngine:
    """Dense minibatch SGD in plain torch, on any device: the definition of what the fused engine does."""

    follows_gradient: bool = True

    def __init__(self, network: CFNetwork, settings: CFNSettings) -> None:
        self.weights = network
        self.network = PlainNetwork(network, dense=True)
        try:
            if settings.device == "meta":  # torch knows this device too, but nothing can be computed on it
                raise RuntimeError("it holds no numbers")
            self.network.to(settings.device)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise SettingsError(
                f"the setting 'device' must name a device that torch can use here, such as cpu or cuda. "
                f"Got {settings.device!r} ({reason})"
            ) from None
        self.device = self.network.input.weight.device
        self.loss = DenoisingLoss(settings.alpha, settings.beta)
        self.optimizer = torch.optim.SGD(
            self.network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )

    def cuts(self, rows: ScaledRows) -> Longs:
        return np.array([0, rows.known.columns])

    def train(self, minibatches: Minibatches, learning_rate: float) -> Doubles:
        losses = np.zeros(len(minibatches))
        self.optimizer.param_groups[0]["lr"] = learning_rate
        for number in range(len(minibatches)):
            rows, columns, inputs, targets, corrupted, features = self._tensors(minibatches, number)
            codes = self.network.encode(rows, columns, inputs, len(features), features)
            loss = self.loss(self.network.decode(codes, rows, columns), targets, corrupted, len(features))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses[number] = loss.item() * len(features)
        if self.device.type != "cpu":  # on the CPU both have the same memory
            self.weights.take({name: weight.cpu().numpy() for name, weight in self.network.state_dict().items()})
        return losses

    def _tensors(self, minibatches: Minibatches, number: int) -> tuple[Tensor, ...]:
        """Of one minibatch: rows, columns, inputs, targets, corrupted, features."""
        entries = minibatches.shards[0]
        at = slice(int(entries.starts[number]), int(entries.starts[number + 1]))
        arrays = (
            entries.rows[at].astype(np.int64),
            entries.columns[at].astype(np.int64),
            entries.inputs[at],
            entries.targets[at],
            entries.corrupted[at],
            minibatches.features_of(number),
        )
        return tuple(torch.from_numpy(array).to(self.device) for array in arrays)
