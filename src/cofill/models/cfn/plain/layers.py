"""The two big layers in plain torch, each usable on its own (see `cofill.nn`), and the function of the hidden layers.

A minibatch of sparse rows is given as its known entries: for entry e, `rows[e]` in 0..B-1 says which row of the
minibatch it belongs to, `columns[e]` its column, `values[e]` its value. What is not listed is unknown, which is
not zero: it adds nothing to a sum, to the loss or to a gradient.
"""

import math
from typing import assert_never

import torch
from torch import Tensor, nn
from torch.nn import functional

from cofill.config import Activation


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
        self.weight = nn.Parameter(fan_in_uniform((columns, width), columns, generator))
        self.bias = nn.Parameter(fan_in_uniform((width,), columns, generator))
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
        self.weight = nn.Parameter(fan_in_uniform((columns, width), width, generator))
        self.bias = nn.Parameter(fan_in_uniform((columns,), width, generator))

    def forward(self, hidden: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """(B, width), (n,), (n,) -> (n,)"""
        if self.dense:
            return self.everywhere(hidden)[rows, columns]
        return (hidden[rows] * self.weight[columns]).sum(-1) + self.bias[columns]

    def everywhere(self, hidden: Tensor) -> Tensor:
        """(B, width) -> (B, columns): every column, known or not."""
        return functional.linear(hidden, self.weight, self.bias)


def fan_in_uniform(shape: tuple[int, ...], fan_in: int, generator: torch.Generator | None) -> Tensor:
    """Uniform in +-1/sqrt(fan in)."""
    bound = 1 / math.sqrt(fan_in)
    return torch.empty(shape).uniform_(-bound, bound, generator=generator)


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
