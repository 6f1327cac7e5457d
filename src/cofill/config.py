"""Every setting, declared once. Python, the command line and TOML files read these classes.

One frozen class a stage; `CFNSettings` is all of them together, flat, because a person who writes
`epochs = 30` should not have to know which stage it belongs to. A field's title is its label on
the server's page, its description the help text.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from cofill.errors import SettingsError

Orientation = Literal["user", "item"]
Networks = Literal["user", "item", "both"]
Noise = Literal["mask", "gaussian", "salt-and-pepper"]
Output = Literal["tanh", "identity"]
Activation = Literal["tanh", "sigmoid", "identity"]
Engine = Literal["auto", "fused", "dense"]
Decoder = Literal["process", "network"]


def _by_orientation(*, user: Any, item: Any, **constraints: Any) -> Any:
    """A field whose default depends on the orientation: rows of users and rows of items differ in length."""
    defaults = {"user": user, "item": item}
    # Of two networks each has its own; the settings of both show those of rows of items.
    return Field(
        default_factory=lambda data: defaults.get(data.get("orientation", "item"), item),
        json_schema_extra={"default_by_orientation": defaults},
        **constraints,
    )


def settings_by_rows(settings: type[BaseModel]) -> set[str]:
    """The names of settings whose default depends on the orientation."""
    extras = {name: field.json_schema_extra for name, field in settings.model_fields.items()}
    return {name for name, extra in extras.items() if isinstance(extra, dict) and "default_by_orientation" in extra}


class Settings(BaseModel):
    """What every algorithm is given by name."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    seed: int = Field(
        title="Seed", default=0, ge=0, lt=2**63, description="start of every random draw; same seed, same model"
    )

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Settings from names and values; a wrong one becomes a `SettingsError` on one line."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise SettingsError(_explain(error, cls)) from None

    def changed(self, values: Mapping[str, Any]) -> Self:
        """These settings with some of them replaced; defaults that follow the orientation follow it still."""
        return self.of({**{name: getattr(self, name) for name in self.model_fields_set}, **values})

    def by_name(self) -> dict[str, Any]:
        """All that can be given, and their values."""
        return {name: getattr(self, name) for name in self.model_dump()}

    def usual(self) -> dict[str, Any]:
        """The defaults, which may depend on the orientation."""
        oriented = {name: getattr(self, name) for name in type(self).model_fields if name == "orientation"}
        return self.of(oriented).by_name() | {name: type(self).model_fields[name].default for name in oriented}

    def unusual(self) -> dict[str, Any]:
        """Those that differ from their defaults."""
        usual = self.usual()
        return {name: value for name, value in self.by_name().items() if value != usual[name]}


Goal = Literal["next", "any"]
"""What lists are for: what a user does next, by order and time, or anything that a user would choose at any time."""


class ListSettings(Settings):
    """The list scorer: what a user would choose and like."""

    list_goal: Literal["auto", "next", "any"] = Field(
        title="What lists are for",
        default="auto",
        description="next: what a user does next, by order and time; any: anything that a user would choose, whenever; "
        "auto: next, if the last interactions of users, held out of training, are found better by that",
    )
    list_rank: int = Field(
        title="Directions of the lists",
        default=1024,
        ge=1,
        le=100_000,
        description="directions that the list scorer keeps of a catalogue of at least twenty times as many items; a "
        "smaller one is solved exactly, in 4 bytes for each pair of items (1.7 GB for 20,480)",
    )
    list_penalty: float = Field(
        title="Ridge penalty of the lists",
        default=3.3,
        gt=0,
        description="ridge penalty of the list scorer, in the sums of squared grades that an item has on average",
    )
    popularity_discount: float = Field(
        title="Popularity discount",
        default=0.15,
        ge=0,
        le=1,
        description="list scores are divided by an item's number of ratings to this power, so that popular "
        "items do not fill every list",
    )
    list_grade_power: float = Field(
        title="Weight of high ratings",
        default=1.15,
        gt=0,
        le=10,
        description="how much more a high rating counts for lists than a middle one: t to this power, for t from 0 at "
        "the lowest rating to 1 at the highest",
    )
    confidence: float = Field(
        title="Weight of repetition",
        default=0.0,
        ge=0,
        le=5,
        description="how much more an interaction counts for lists that happened often: the logarithm of its weight "
        "to this power; 0: all count alike",
    )
    half_life: float = Field(
        title="Half-life of what people did",
        default=0.0,
        ge=0,
        description="time after which a rating or interaction counts half for lists, before the latest of all, such "
        "as 90d, 12h or 2w (a plain number is days); 0: time does not matter",
    )

    @field_validator("half_life", mode="before")
    @classmethod
    def _in_days(cls, value: Any) -> Any:
        if isinstance(value, str) and value.strip()[-1:] in _DAYS:
            text = value.strip()
            try:
                return float(text[:-1]) * _DAYS[text[-1]]
            except ValueError:
                return value  # said to be no number
        return value


_DAYS = {"h": 1 / 24, "d": 1.0, "w": 7.0, "y": 365.25}


class Stage(Settings):
    """What every stage of the network knows: the orientation of the matrix."""

    orientation: Networks = Field(
        title="What a row is",
        default="item",
        description="what a row is: an item (the paper's V-CFN) or a user (U-CFN); both: a network of each kind, and a "
        "gate between them that is learned on validation ratings; settings that differ by rows then have the default "
        "of each",
    )


class ScalingSettings(Stage):
    """From the rating scale to [-1, 1], and the mean that is taken off a row."""

    mean_damping: float | None = Field(
        title="Shrinkage of means",
        default=None,
        ge=0,
        description="shrinkage of the means of rows and columns: this many ratings of average value are added to each; "
        "unless given, it is learned from the data, apart for rows and columns (empirical Bayes, by EM)",
    )
    length_power: float = Field(
        title="Damping of long rows",
        default=0.5,
        ge=0,
        le=1,
        description="a row's inputs are divided by (its ratings / those of a typical row) to this power, so that "
        "the sums of popular rows do not dwarf those of rare ones; 0 as in the paper",
    )
    length_cap: float = Field(
        title="Longest typical row",
        default=300.0,
        gt=0,
        description="for length_power a typical row counts as one of at most this many ratings, so that data with "
        "longer rows has no larger inputs than the learning rate can bear",
    )
    presence: float = _by_orientation(
        title="Weight of having rated at all",
        user=0.2,
        item=1.0,
        ge=0,
        le=10,
        description="added to every known input, in scaled ratings, so that the network also sees which columns a row "
        "has rated, whatever the rating; with decoder = process, more of it for rows with fewer than 240 ratings; 0 as "
        "in the paper",
    )


class NetworkSettings(Stage):
    """The shape of the autoencoder."""

    hidden: tuple[Annotated[int, Field(ge=1)], ...] = _by_orientation(
        title="Width of the hidden layers",
        user=(370,),
        item=(250,),
        min_length=1,
        description="width of each hidden layer, such as 500 or 700,500,700",
    )
    activation: Activation = Field(
        title="Function of the hidden layers",
        default="tanh",
        description="function of every hidden layer; identity leaves a linear network",
    )
    output: Output = Field(
        title="Function of the output", default="identity", description="function after the last layer"
    )

    @field_validator("hidden", mode="before")
    @classmethod
    def _one_layer_is_a_number(cls, value: Any) -> Any:
        if isinstance(value, str):  # as a command line gives it
            return tuple(part.strip() for part in value.split(","))
        return (value,) if isinstance(value, int) and not isinstance(value, bool) else value


class LossSettings(Stage):
    """The denoising loss: what is hidden from the network, and how much it weighs."""

    noise: Noise = Field(
        title="Kind of corruption",
        default="mask",
        description="how ratings are corrupted before the network reads them",
    )
    noise_ratio: float = Field(
        title="Share of ratings corrupted",
        default=0.2,
        ge=0,
        le=1,
        description="share of a row's ratings that is corrupted",
    )
    cold_ratio: float = _by_orientation(
        title="Share of rows hidden whole",
        user=0.03,
        item=0.15,
        ge=0,
        le=1,
        description="share of the rows whose ratings are all hidden, so that the network learns to predict from side "
        "features alone; without features it has no effect",
    )
    noise_std: float = Field(
        title="Strength of Gaussian noise",
        default=0.3,
        ge=0,
        description="standard deviation of Gaussian noise, in scaled ratings",
    )
    alpha: float = Field(
        title="Weight of corrupted ratings", default=1.0, ge=0, description="weight of corrupted ratings in the loss"
    )
    beta: float = _by_orientation(
        title="Weight of untouched ratings",
        user=0.48,
        item=0.65,
        ge=0,
        description="weight of the ratings left as they are",
    )


class TrainingSettings(Stage):
    """Epochs, schedule, early stop, and where it runs."""

    epochs: int | None = Field(
        title="Epochs",
        default=None,
        ge=1,
        description="passes over the data; with decoder = network and validation ratings, the most; unless given, 15, "
        "and more where few rows make few minibatches",
    )
    batch: int = _by_orientation(title="Rows in a minibatch", user=23, item=44, ge=1, description="rows in a minibatch")
    learning_rate: float = Field(
        title="Learning rate",
        default=0.105,
        gt=0,
        description="step size before it decays; follows the length of rows, and is lowered when training diverges",
    )
    learning_rate_decay: float | None = Field(
        title="Decay of the learning rate",
        default=None,
        ge=0,
        description="step in epoch t is learning_rate / (1 + t * this); unless given, it falls linearly to nothing, "
        "and is larger for rows with few ratings",
    )
    weight_decay: float = _by_orientation(
        title="Weight decay",
        user=0.02,
        item=0.04,
        ge=0,
        description="L2 regularisation (ridge penalty) of every weight, at every minibatch",
    )
    validation: float = Field(
        title="Share of ratings for validation",
        default=0.1,
        ge=0,
        lt=1,
        description="share of the ratings that teaches the decoder how far to believe the network, or chooses the "
        "number of epochs (decoder = network); 0: none",
    )
    patience: int = Field(
        title="Patience",
        default=4,
        ge=1,
        description="with decoder = network, epochs without a better validation RMSE before stopping",
    )
    refit: bool = Field(
        title="Trained once more on everything",
        default=True,
        description="after a training without the validation ratings, train once more on all; otherwise keep the "
        "weights of the first run",
    )
    engine: Engine = Field(
        title="Engine",
        default="auto",
        description="fused: CPU kernels; dense: plain torch (pip install 'cofill[torch]'); auto: fused on a CPU, dense "
        "elsewhere",
    )
    device: str = Field(
        title="Device",
        default="cpu",
        min_length=1,
        description="cpu, or another device of torch, such as cuda (pip install 'cofill[torch]')",
    )
    threads: int = Field(
        title="Threads", default=0, ge=0, le=1024, description="threads of the fused kernels; 0: all cores at hand"
    )
    checkpoint_seconds: float = Field(
        title="Seconds between checkpoints",
        default=30.0,
        ge=0,
        description="least time between two checkpoints; 0: one after every epoch",
    )

    @property
    def on_cpu(self) -> bool:
        return self.device.partition(":")[0] == "cpu"

    @property
    def engine_used(self) -> Literal["fused", "dense"]:
        """`auto` is fused on a CPU and dense torch on everything else."""
        if self.engine == "auto":
            return "fused" if self.on_cpu else "dense"
        return self.engine

    @model_validator(mode="after")
    def _fused_needs_the_cpu(self) -> Self:
        if self.engine == "fused" and not self.on_cpu:
            raise ValueError(f"engine = fused works on the CPU. Got device = {self.device}; use engine = dense there")
        return self

    @model_validator(mode="after")
    def _decay_below_one(self) -> Self:
        if self.learning_rate * self.weight_decay >= 1:
            raise ValueError(
                f"learning_rate * weight_decay must be below 1, otherwise every step flips the weights. "
                f"Got {self.learning_rate} * {self.weight_decay}; lower one of them"
            )
        return self


class CompletionSettings(Stage):
    """From a trained network to predictions."""

    decoder: Decoder = Field(
        title="Decoder",
        default="process",
        description="process: biases with learned variances, the network on their residuals, and Gaussian process "
        "regression on its codes, weighted by validation gain; network: the row's mean and the network's own output, "
        "as in the paper",
    )
    neighbours: int = _by_orientation(
        title="Nearest neighbours",
        user=0,
        item=100,
        ge=0,
        description="with decoder = process, how many of the rows most like it the local kernel of a row looks at "
        "(nearest neighbours); 0: no local kernel",
    )


class PretrainingSettings(Stage):
    """Greedy pre-training of a symmetric stack, from the outside in, before the whole is fine-tuned."""

    pretrain: bool = Field(
        title="Pre-trained layer by layer",
        default=False,
        description="pre-train a symmetric stack layer by layer, then fine-tune it",
    )
    pretrain_epochs: int = Field(
        title="Epochs of the outermost pair", default=10, ge=1, description="epochs of the outermost pair of layers"
    )
    inner_epochs: int = Field(
        title="Epochs of inner pairs", default=5, ge=1, description="epochs of each inner pair, trained on codes"
    )
    inner_batch: int = Field(
        title="Minibatch of inner pairs", default=5, ge=1, description="minibatch of the inner pairs"
    )
    inner_learning_rate: float = Field(
        title="Learning rate of inner pairs", default=1e-3, gt=0, description="step size of the inner pairs"
    )
    inner_learning_rate_decay: float = Field(
        title="Decay of that learning rate", default=0.1, ge=0, description="decay of that step size"
    )
    inner_weight_decay: float = Field(
        title="Weight decay of inner pairs", default=0.01, ge=0, description="weight decay of the inner pairs"
    )
    inner_momentum: float = Field(
        title="Momentum of inner pairs", default=0.8, ge=0, lt=1, description="momentum of the inner pairs"
    )
    inner_noise_ratio: float = Field(
        title="Share of codes corrupted", default=0.2, ge=0, le=1, description="share of the codes with Gaussian noise"
    )
    inner_noise_std: float = Field(
        title="Strength of that noise", default=0.02, ge=0, description="standard deviation of that noise"
    )


class CFNSettings(
    ListSettings,
    CompletionSettings,
    PretrainingSettings,
    TrainingSettings,
    LossSettings,
    NetworkSettings,
    ScalingSettings,
):
    """All settings of a CFN model."""

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Self:
        """Settings that belong together, by their name in `PRESETS`; whatever else is given counts more."""
        return cls.of({**preset_values(name), **changes})

    @model_validator(mode="after")
    def _stack_is_symmetric(self) -> Self:
        if self.pretrain and (len(self.hidden) < 3 or self.hidden != self.hidden[::-1] or len(self.hidden) % 2 == 0):
            raise ValueError(
                f"pretrain needs a symmetric stack with one middle layer, such as hidden = 700,500,700. "
                f"Got hidden = {','.join(map(str, self.hidden))}"
            )
        return self


PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "paper": (
        "the network of the paper, without what was added since: one hidden layer and tanh at the output too, the "
        "plain mean taken off a row, and the network's own output as the prediction; size, noise, loss and steps as "
        "the authors published them, rounded",
        {
            "decoder": "network",
            "hidden": (700,),
            "activation": "tanh",
            "output": "tanh",
            "mean_damping": 0.0,
            "length_power": 0.0,
            "presence": 0.0,
            "noise": "mask",
            "noise_ratio": 0.25,
            "cold_ratio": 0.0,
            "alpha": 1.0,
            "beta": 0.6,
            "epochs": 15,
            "batch": 30,
            "learning_rate": 0.06,
            "learning_rate_decay": 0.3,
            "weight_decay": 0.025,
        },
    ),
    "fast": (
        "most of the accuracy at once: one training of few epochs on all ratings, with amplitudes of the decoder that "
        "are usual instead of learned; there is no validation RMSE, and intervals are those of the model alone",
        {"epochs": 8, "validation": 0.0},
    ),
}
"""Settings that belong together: what they are, and their values. All others have their defaults."""


def preset_values(name: str) -> dict[str, Any]:
    if name not in PRESETS:
        raise SettingsError(f"there is no preset {name!r}; known: {', '.join(PRESETS)}")
    return dict(PRESETS[name][1])


def read_settings_file(path: Path) -> dict[str, Any]:
    """Names and values of a TOML file. Sections are for the reader's eye only: they are flattened."""
    try:
        with path.open("rb") as file:
            document = tomllib.load(file)
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such settings file; check the path") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not a TOML file: {error}") from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    flat: dict[str, Any] = {}
    for name, value in document.items():
        for key, entry in value.items() if isinstance(value, dict) else [(name, value)]:
            if key in flat:
                raise SettingsError(f"{path}: {key} is set twice; keep one of them")
            flat[key] = entry
    return flat


def _explain(error: ValidationError, settings: type[BaseModel]) -> str:
    """The first thing that is wrong, in the words of the setting."""
    import difflib

    first = error.errors()[0]
    if not first["loc"]:
        return str(first["msg"]).removeprefix("Value error, ")
    name = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        close = difflib.get_close_matches(name, settings.model_fields, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(settings.model_fields)}"
        return f"there is no setting {name!r}; {hint}"
    wanted = str(first["msg"]).replace("Input should be", "must be").removeprefix("Value error, ")
    description = settings.model_fields[name].description if name in settings.model_fields else ""
    return f"the setting {name!r} {wanted}. Got {first['input']!r} ({description})"
