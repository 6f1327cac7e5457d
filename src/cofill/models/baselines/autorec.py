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

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from cofill.config import Activation, CFNSettings, Decoder, Settings
from cofill.exchange import ALONE, Exchange
from cofill.models.cfn.full_batch import FullBatchEngine
from cofill.models.cfn.model import CFN
from cofill.models.cfn.network import CFNetwork
from cofill.models.cfn.training import TrainingEngine

_WEIGHT_DECAY = {"user": 0.0166, "item": 0.027}
_PRESENCE = {"user": 0.3, "item": 0.8}


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
        description="added to every known input, in scaled ratings: that somebody has rated at all",
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
