"""AutoRec: Sedhain, Menon, Sanner, Xie, "AutoRec: Autoencoders Meet Collaborative Filtering" (WWW companion, 2015).

    h(r) = f(W g(V r + mu) + b),   g = sigmoid, f = identity
    minimise  sum over rows of |r - h(r)|^2 over the known ratings + lambda / 2 (|W|^2 + |V|^2)

The authors': this network and this objective, no noise, resilient propagation with steps that see the whole matrix,
rows of items (I-AutoRec) or of users (U-AutoRec). They have k = 500; 600 is what the CFN paper compares with.

Ours: ratings scaled to [-1, 1] with the damped mean of their row taken off, and a constant added to every known input
(`presence`); and what a CFN does about ids that come later or of which nothing is known. The authors feed ratings as
they are, from 1 to 5, which is the overall mean taken off and a constant of 1.8 added (`mean_damping=1e9`,
`presence=1.8`). That is worse: 0.8403 instead of 0.8328 with 100 units, on validation ratings of MovieLens-1M. Without
any constant, so that the network does not see who has rated, it is 0.8428 (after 100 steps, where that run ended).
"""

from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from cofill.arrays import Doubles, Floats
from cofill.compiling import compiled
from cofill.config import Activation, CFNSettings, Decoder, Settings
from cofill.exchange import ALONE, Exchange
from cofill.models.cfn.fit import TrainingEngine
from cofill.models.cfn.kernels import Entries, Loss, encode
from cofill.models.cfn.model import CFN
from cofill.models.cfn.network import CFNetwork, Weights, activated, activation_gradient
from cofill.models.cfn.sgd import FusedEngine, Minibatches

_WEIGHT_DECAY = {"user": 0.0166, "item": 0.027}
_PRESENCE = {"user": 0.3, "item": 0.8}
_GROWS, _SHRINKS = np.float32(1.2), np.float32(0.5)
_SMALLEST, _LARGEST = np.float32(1e-6), np.float32(50)


class AutoRecSettings(CFNSettings):
    """The settings of a CFN that AutoRec has too; the others are what makes it an AutoRec, and cannot be changed."""

    its_own: ClassVar[tuple[str, ...]] = (
        "seed", "orientation", "mean_damping", "length_power", "length_cap", "presence", "hidden", "activation",
        "epochs", "learning_rate", "weight_decay", "validation", "patience", "refit", "threads",
    )  # fmt: skip

    length_power: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="a row's inputs are divided by (its ratings / those of a typical row) to this power; the authors "
        "do not: 0",
    )
    presence: float = Field(
        default_factory=lambda data: _PRESENCE[data.get("orientation", "item")],
        ge=0,
        le=10,
        json_schema_extra={"default_by_orientation": {**_PRESENCE}},
        description="added to every known input, in scaled ratings, so that the network sees which inputs are known",
    )
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(600,), min_length=1, max_length=1, description="hidden units, k"
    )
    activation: Activation = Field(default="sigmoid", description="g, the function of the hidden layer")
    epochs: int = Field(default=200, ge=1, description="most steps, each over all ratings")
    learning_rate: float = Field(default=0.001, gt=0, description="first step of every weight")
    weight_decay: float = Field(
        default_factory=lambda data: _WEIGHT_DECAY[data.get("orientation", "item")],
        ge=0,
        json_schema_extra={"default_by_orientation": {**_WEIGHT_DECAY}},
        description="lambda, divided by the number of rows",
    )
    patience: int = Field(default=10, ge=1, description="steps without a better validation RMSE before stopping")

    # No noise, one step an epoch, nothing beside the network.
    noise_ratio: float = 0.0
    cold_ratio: float = 0.0
    beta: float = 1.0
    batch: int = 2**31 - 1
    learning_rate_decay: float = 0.0
    decoder: Decoder = "network"

    @model_validator(mode="before")
    @classmethod
    def _only_its_own(cls, values: dict[str, Any]) -> dict[str, Any]:
        for name in values:
            if name not in cls.its_own:
                raise ValueError(f"AutoRec has no setting {name!r}; leave it out. It has {', '.join(cls.its_own)}")
        return values

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in write(self).items() if name in self.its_own}


class AutoRec(CFN):
    """An autoencoder with one layer of sigmoids, fitted to the ratings as they are.

    >>> AutoRec(orientation="item", hidden=600).fit("ratings.csv").recommend(42, n=10)

    `orientation="item"` is I-AutoRec, `"user"` U-AutoRec. An epoch is one step over all ratings; a validation part
    finds their number, then all ratings are used. Every field of `AutoRecSettings.its_own` can be given by name. It is
    fitted on ratings alone and in one go: there are no features and no checkpoints.
    """

    kind = "autorec"
    settings_class: ClassVar[type[Settings]] = AutoRecSettings
    takes_features: ClassVar[bool] = False
    follows_features: ClassVar[bool] = False
    keeps_checkpoints: ClassVar[bool] = False
    fits_on_clusters: ClassVar[bool] = False

    @classmethod
    def new_engine(cls, network: CFNetwork, settings: CFNSettings, exchange: Exchange = ALONE) -> TrainingEngine:
        return FullBatchEngine(network, settings)


# Training by the whole matrix at once


class FullBatchEngine(FusedEngine):
    """Steps of RProp on the loss + weight_decay / 2 (|W_in|^2 + |W_out|^2), biases let alone.

    For networks with one hidden layer, without features and without noise. Both big layers meet known ratings only, on
    shards, as those of the fused engine do.
    """

    follows_gradient: bool = False

    def __init__(self, network: CFNetwork, settings: CFNSettings) -> None:
        super().__init__(network, settings)
        self.gradients = _like(network.weights(), 0.0)
        self._before = _like(network.weights(), 0.0)
        self._sizes = _like(network.weights(), settings.learning_rate)

    @np.errstate(all="ignore")
    def train(self, minibatches: Minibatches, learning_rate: float) -> Doubles:
        """RProp finds the size of every weight's step itself: the learning rate is that of the first one."""
        lost = self._find_gradients(minibatches)
        for name, weight in self.network.weights().items():
            step_by_sign(weight.ravel(), *(of[name].ravel() for of in (self.gradients, self._before, self._sizes)))
        return np.array([lost])

    def _find_gradients(self, rows: Minibatches) -> float:
        """Of loss and decay; returns the loss, summed over entries."""
        network, found, shards = self.network, self.gradients, rows.shards
        for gradient in found.values():
            gradient[:] = 0
        z = np.empty((len(shards), len(rows.rows), network.width), np.float32)
        self._on_shards(
            lambda s: encode(network.input.weight, 1.0, shards[s], 0, shards[s].starts[-1], z[s]), len(shards)
        )
        hidden = activated(z.sum(0) + network.input.bias, network.activation)
        dh = np.empty((len(shards), *hidden.shape), np.float32)
        losses = self._on_shards(
            lambda s: output_gradients(
                network.output.weight, network.output.bias, self.loss, shards[s], hidden,
                dh[s], found["output.weight"], found["output.bias"],
            ),
            len(shards),
        )  # fmt: skip
        dz = activation_gradient(dh.sum(0), hidden, network.activation)
        found["input.bias"][:] = dz.sum(0)
        self._on_shards(lambda s: input_gradients(shards[s], dz, found["input.weight"]), len(shards))
        decay = np.float32(self.settings.weight_decay)
        found["input.weight"] += decay * network.input.weight
        found["output.weight"] += decay * network.output.weight
        return sum(losses)


def _like(weights: Weights, value: float) -> Weights:
    return {name: np.full_like(weight, value) for name, weight in weights.items()}


@compiled
def step_by_sign(weight: Floats, gradient: Floats, before: Floats, sizes: Floats) -> None:
    """One step of RProp (Riedmiller and Braun 1993): a weight's step grows as long as its gradient keeps its sign.

    Where the sign has changed, the step is halved, and the weight stays where it is this time. `before` are the
    gradients that the step before has followed.
    """
    for at in range(len(weight)):
        g = gradient[at]
        agreement = g * before[at]
        if agreement > 0:
            sizes[at] = min(sizes[at] * _GROWS, _LARGEST)
        elif agreement < 0:
            sizes[at] = max(sizes[at] * _SHRINKS, _SMALLEST)
            g = np.float32(0)
        if g > 0:
            weight[at] -= sizes[at]
        elif g < 0:
            weight[at] += sizes[at]
        before[at] = g


@compiled
def output_gradients(
    weight: Floats,
    bias: Floats,
    loss: Loss,
    entries: Entries,
    hidden: Floats,
    dh: Floats,
    dweight: Floats,
    dbias: Floats,
) -> float:
    """The gradients of W, b and, over this shard, of h; those of W and b must come as zeros. Returns the loss, summed
    over entries."""
    batch, width = hidden.shape
    per_row = np.float32(1.0 / batch)
    total = 0.0
    dh[:] = 0
    for e in range(len(entries.targets)):
        row, column = entries.rows[e], entries.columns[e]
        dot = bias[column]
        for q in range(width):
            dot += hidden[row, q] * weight[column, q]
        error = dot - entries.targets[e]
        lost = np.float32(loss.alpha if entries.corrupted[e] else loss.beta) * error
        total += float(lost * error)
        g = per_row * 2 * lost
        dbias[column] += g
        for q in range(width):
            dh[row, q] += g * weight[column, q]
            dweight[column, q] += g * hidden[row, q]
    return total


@compiled
def input_gradients(entries: Entries, dz: Floats, dweight: Floats) -> None:
    """dW[j] = sum_i x_ij dz_i; it must come as zeros."""
    for e in range(len(entries.inputs)):
        x, row, column = entries.inputs[e], entries.rows[e], entries.columns[e]
        for q in range(dz.shape[1]):
            dweight[column, q] += x * dz[row, q]
