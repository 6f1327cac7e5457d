"""The autoencoder as a torch module: the executable definition, any depth, any device."""

from typing import cast

import torch
from torch import Tensor, nn

from cofill.models.cfn.network import CFNetwork
from cofill.models.cfn.plain.layers import SampledOutput, SparseInput, activated


class PlainNetwork(nn.Module):
    """What `CFNetwork` says, with that network's weights: on the CPU they are in the same memory.

    `dense` chooses how a minibatch is multiplied, not what comes out.
    """

    def __init__(self, network: CFNetwork, *, dense: bool = False) -> None:
        super().__init__()
        self.features = network.features
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
        return self._activate(cast(Tensor, self.output(codes, rows, columns)))

    def decode_everywhere(self, codes: Tensor) -> Tensor:
        """Codes (B, width) -> every column (B, columns)."""
        return self._activate(self.output.everywhere(codes))

    def _activate(self, outputs: Tensor) -> Tensor:
        return torch.tanh(outputs) if self.squash else outputs
