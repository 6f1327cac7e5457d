"""The autoencoder as a torch module: the executable definition, any depth, any device."""

from itertools import pairwise
from typing import Self, cast

import torch
from torch import Tensor, nn

from cofill.cfn.layers import SampledOutput, SparseInput, fan_in_uniform
from cofill.config import NetworkSettings

_BY_COLUMN = ("input.weight", "output.weight", "output.bias")


class CFNetwork(nn.Module):
    """Sparse row in, hidden code, any of its columns out.

        z = sum_j x_j W_in[j] + b_in          h = tanh(z)
        h' = tanh(h W + b)                    for every further hidden layer
        y_j = out(h . W_out[j] + b_out[j])    out = tanh or identity

    Both big matrices are stored one row a column of the ratings, (columns, width), so that what belongs to a
    column lies together in memory. `dense` chooses how a minibatch is multiplied, not what comes out.
    """

    def __init__(
        self, columns: int, settings: NetworkSettings, *, dense: bool = False, generator: torch.Generator
    ) -> None:
        super().__init__()
        widths = settings.hidden
        self.columns = columns
        self.input = SparseInput(columns, widths[0], dense=dense, generator=generator)
        self.middle = nn.ModuleList(fan_in_linear(fan_in, fan_out, generator) for fan_in, fan_out in pairwise(widths))
        self.output = SampledOutput(widths[-1], columns, dense=dense, generator=generator)
        self.squash = settings.output == "tanh"

    @classmethod
    def of(cls, weights: dict[str, Tensor], settings: NetworkSettings) -> Self:
        """A network with these weights; they must be those of the settings' shape."""
        network = cls(1, settings, generator=torch.Generator())  # the big layers are replaced before they cost
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

    def encode(self, rows: Tensor, columns: Tensor, values: Tensor, batch: int) -> Tensor:
        """Known entries of B rows -> their codes (B, width)."""
        return self.code(self.input(rows, columns, values, batch))

    def code(self, z: Tensor) -> Tensor:
        """What the input layer gives (B, widths[0]) -> codes (B, widths[-1])."""
        hidden = torch.tanh(z)
        for layer in self.middle:
            hidden = torch.tanh(layer(hidden))
        return hidden

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
