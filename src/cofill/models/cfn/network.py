"""The autoencoder as a torch module: the executable definition, any depth, any device."""

from itertools import pairwise
from typing import Self, cast

import torch
from torch import Tensor, nn

from cofill.config import NetworkSettings
from cofill.models.cfn.activation import activated
from cofill.models.cfn.layers import SampledOutput, SparseInput, fan_in_uniform

_BY_COLUMN = ("input.weight", "output.weight", "output.bias")


class CFNetwork(nn.Module):
    """Sparse row in, hidden code, any of its columns out.

        z = sum_j x_j W_in[j] + s S_in + b_in      h = f(z)
        h' = f([h, s] W + b)                       f = tanh, sigmoid or identity; for every further hidden layer
        y_j = out([h, s] . W_out[j] + b_out[j])    out = tanh or identity

    s are the row's side features, P = `features` of them; they enter at every layer. What the output layer reads,
    [h, s], is the row's code. Both big matrices are stored one row a column of the ratings, (columns, width), so that
    what belongs to a column lies together in memory. `dense` chooses how a minibatch is multiplied, not what comes out.
    """

    def __init__(
        self,
        columns: int,
        settings: NetworkSettings,
        *,
        features: int = 0,
        dense: bool = False,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        widths = settings.hidden
        self.columns = columns
        self.features = features
        self.input = SparseInput(columns, widths[0], features=features, dense=dense, generator=generator)
        self.middle = nn.ModuleList(
            fan_in_linear(fan_in + features, fan_out, generator) for fan_in, fan_out in pairwise(widths)
        )
        self.output = SampledOutput(widths[-1] + features, columns, dense=dense, generator=generator)
        self.activation = settings.activation
        self.squash = settings.output == "tanh"

    @classmethod
    def of(cls, weights: dict[str, Tensor], settings: NetworkSettings) -> Self:
        """A network with these weights; they must be those of the settings' shape."""
        features = len(weights["input.side"]) if "input.side" in weights else 0
        # The big layers are replaced before they cost.
        network = cls(1, settings, features=features, generator=torch.Generator())
        network.columns = len(weights["input.weight"])
        for name, parameter in list(network.named_parameters()):
            wanted = [network.columns, *parameter.shape[1:]] if name in _BY_COLUMN else list(parameter.shape)
            found = weights.pop(name)
            if list(found.shape) != wanted:
                raise ValueError(f"{name} has shape {list(found.shape)}, the settings ask for {wanted}")
            owner, _, last = name.rpartition(".")
            setattr(network.get_submodule(owner), last, nn.Parameter(found))
        if weights:
            raise ValueError(f"there are weights that no layer takes: {', '.join(weights)}")
        return network

    @property
    def width(self) -> int:
        """Of a code: the last hidden layer and the features."""
        return self.output.weight.shape[1]

    def encode(
        self, rows: Tensor, columns: Tensor, values: Tensor, batch: int, features: Tensor | None = None
    ) -> Tensor:
        """Known entries of B rows, and their features (B, P) -> their codes (B, width)."""
        return self.code(self.input(rows, columns, values, batch, features), features)

    def code(self, z: Tensor, features: Tensor | None = None) -> Tensor:
        """What the input layer gives (B, widths[0]) -> codes (B, width)."""
        code = self._beside(activated(z, self.activation), features)
        for layer in self.middle:
            code = self._beside(activated(layer(code), self.activation), features)
        return code

    def _beside(self, hidden: Tensor, features: Tensor | None) -> Tensor:
        """[h, s]"""
        if not self.features:
            return hidden
        assert features is not None, "this network was made for rows with features"
        return torch.cat([hidden, features], dim=1)

    def decode(self, codes: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """Codes (B, width) -> outputs at the entries asked for (n,)."""
        return self.activate(cast(Tensor, self.output(codes, rows, columns)))

    def decode_everywhere(self, codes: Tensor) -> Tensor:
        """Codes (B, width) -> every column (B, columns)."""
        return self.activate(self.output.everywhere(codes))

    def activate(self, outputs: Tensor) -> Tensor:
        return torch.tanh(outputs) if self.squash else outputs


def fan_in_linear(fan_in: int, fan_out: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer that starts uniform in +-1/sqrt(fan in)."""
    layer: nn.Linear = nn.utils.skip_init(
        nn.Linear, fan_in, fan_out
    )  # its own start would draw from the global generator
    layer.weight = nn.Parameter(fan_in_uniform((fan_out, fan_in), fan_in, generator))
    layer.bias = nn.Parameter(fan_in_uniform((fan_out,), fan_in, generator))
    return layer
