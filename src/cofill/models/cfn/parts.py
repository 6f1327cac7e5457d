"""A CFN taken apart into arrays, and put together again: what the files of its folder hold."""

from typing import Any

import numpy as np
import torch

from cofill.data.features import Features
from cofill.data.features.known import SideFeatures
from cofill.data.known_file import known_arrays, known_from
from cofill.data.vocabulary import Vocabulary
from cofill.models.cfn.cfn import CFN
from cofill.models.cfn.completion import Completion
from cofill.models.cfn.feature_ridge import FeatureRegression
from cofill.models.cfn.fold_in import ColumnPrior
from cofill.models.cfn.network import CFNetwork
from cofill.models.cfn.scaling import Scaling
from cofill.models.parts import Arrays, Parts

Learned = dict[str, dict[str, Any]]

_SIDES = {"user": ("users", "items"), "item": ("items", "users")}  # of the rows and of the columns, by orientation


def parts_of(model: CFN) -> Parts:
    """The weights, the ratings and, where there are any, the features of a fitted model."""
    completion = model.completion
    prior, scaling = completion.column_weights.prior, completion.scaling
    weights: Arrays = {name: tensor.detach().numpy() for name, tensor in completion.network.state_dict().items()}
    weights |= {
        "row_means": scaling.means,
        "mean_by_features": scaling.by_features.slope,
        "prior.mean": prior.mean,
        "prior.by_features": prior.by_features.slope,
        "prior.factor": prior.factor,
        "prior.pull": prior.pull,
        "prior.noise": np.array([prior.noise], np.float64),
    }
    features: Arrays = {}
    sides = dict(zip(_SIDES[model.orientation], (completion.row_features, completion.column_features), strict=True))
    for side, learned in _features_of(model).items():
        features |= {f"{side}.{name}": array for name, array in learned.arrays().items() if name != "values"}
        features[f"{side}.trained"] = sides[side].trained
        features[f"{side}.described"] = sides[side].trained_described
        features[f"{side}.later.indices"], features[f"{side}.later.values"] = sides[side].later()
    arrays = {"weights": weights, "ratings": known_arrays(completion.known)}
    return Parts(
        scale=scaling.scale,
        arrays=arrays | ({"features": features} if features else {}),
        numbers={"overall_mean": scaling.overall, "typical_length": scaling.typical_length},
        learned={side: features.card() for side, features in _features_of(model).items()},
    )


def _features_of(model: CFN) -> dict[str, Features]:
    sides = {"users": model.user_features, "items": model.item_features}
    return {side: features for side, features in sides.items() if features is not None}


def restore(model: CFN, parts: Parts) -> Completion:
    """The filled matrix of a model that has its settings and its ids already; ValueError where parts do not fit."""
    weights, features = parts.arrays["weights"], parts.arrays.get("features", {})
    users, items = len(model.users), len(model.items)
    counts = (users, items) if model.orientation == "user" else (items, users)
    known = known_from(parts.arrays["ratings"], parts.scale, *counts)
    rows, columns = known.trained.rows, known.trained.columns
    if model.settings.hidden[0] != weights["input.weight"].shape[1]:
        raise ValueError("the network has another width than the settings say")
    if len(weights["row_means"]) != rows:
        raise ValueError("there is another number of row means than the ratings have rows")
    if len(weights["input.weight"]) != columns or len(weights["output.weight"]) != columns:
        raise ValueError("the network has another number of columns than the ratings")
    prior = ColumnPrior(
        mean=weights.pop("prior.mean"),
        by_features=_regression(weights, "prior.by_features", outputs=weights["output.weight"].shape[1] + 1),
        factor=weights.pop("prior.factor"),
        pull=weights.pop("prior.pull"),
        noise=float(weights.pop("prior.noise")[0]),
    )
    row_features, column_features = (
        _side(features, side, count) for side, count in zip(_SIDES[model.orientation], (rows, columns), strict=True)
    )
    read = weights["input.side"].shape[0] if "input.side" in weights else 0
    if read not in (row_features.width, row_features.width + 1 if row_features.width else 0):
        raise ValueError("the network was made for another number of features")
    scaling = Scaling(
        scale=parts.scale,
        damping=model.settings.mean_damping,
        length_power=model.settings.length_power,
        length_cap=model.settings.length_cap,
        presence=model.settings.presence,
        typical_length=parts.numbers["typical_length"],
        overall=parts.numbers["overall_mean"],
        by_features=_regression(weights, "mean_by_features", outputs=1),
        means=weights.pop("row_means"),
        marks_empty=read > row_features.width,  # formats 1 to 3 have no mark
    )
    network = CFNetwork.of({name: torch.from_numpy(array) for name, array in weights.items()}, model.settings)
    known.grow(len(row_features.values), len(column_features.values))
    ids = (len(model.users), len(model.items))
    if ids != ((known.rows, known.columns) if model.orientation == "user" else (known.columns, known.rows)):
        raise ValueError("there is another number of users and items than the ratings have")
    _restore_learned(model, features, parts.learned)
    return Completion(
        network,
        scaling,
        known,
        model.settings,
        row_features=row_features,
        column_features=column_features,
        prior=prior,
    )


def _restore_learned(model: CFN, arrays: Arrays, learned: Learned) -> None:
    for side, columns in learned.items():
        own = {name.removeprefix(f"{side}."): array for name, array in arrays.items() if name.startswith(f"{side}.")}
        ids = model.users if side == "users" else model.items
        described = np.flatnonzero(own["described"])
        values = {"values": own["trained"][described]}
        restored = Features.restored(columns, {**own, **values}, Vocabulary([ids.id(int(i)) for i in described]))
        if side == "users":
            model.user_features = restored
        else:
            model.item_features = restored


def _side(arrays: Arrays, side: str, count: int) -> SideFeatures:
    """The features of one side, which was trained with `count` ids."""
    if f"{side}.trained" not in arrays:
        return SideFeatures.none(count)
    trained, described = arrays[f"{side}.trained"], arrays[f"{side}.described"]
    indices, vectors = arrays[f"{side}.later.indices"], arrays[f"{side}.later.values"]
    if not len(trained) == len(described) == count or (indices < 0).any() or not np.isfinite(vectors).all():
        raise ValueError(f"the features of the {side} do not fit the ratings")
    features = SideFeatures(trained, described)
    features.grow(int(indices.max(initial=-1)) + 1)
    for index, vector in zip(indices.tolist(), vectors, strict=True):
        features.describe(index, vector)
    return features


def _regression(weights: Arrays, name: str, outputs: int) -> FeatureRegression:
    """Format 1 has none."""
    slope = weights.pop(name, np.zeros((1, outputs), np.float32))
    if slope.ndim != 2 or slope.shape[1] != outputs:
        raise ValueError(f"{name} has shape {list(slope.shape)}, the network asks for {outputs} columns")
    return FeatureRegression(slope)
