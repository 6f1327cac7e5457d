"""A model taken apart into arrays, and put together again: what the files of a model folder hold."""

from typing import Any

import numpy as np
import torch

from cofill.cfn.completion import Completion
from cofill.cfn.feature_ridge import FeatureRegression
from cofill.cfn.fold_in import ColumnPrior
from cofill.cfn.network import CFNetwork
from cofill.cfn.scaling import Scaling
from cofill.data.features import Features
from cofill.data.features.known import SideFeatures
from cofill.data.known import KnownRatings
from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows
from cofill.data.vocabulary import Vocabulary
from cofill.recommender import CFN

Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]
Learned = dict[str, dict[str, Any]]

_SIDES = {"user": ("users", "items"), "item": ("items", "users")}  # of the rows and of the columns, by orientation


def arrays_of(model: CFN) -> dict[str, Arrays]:
    """The weights, the ratings and, where there are any, the features of a fitted model."""
    completion = model.completion
    prior, known = completion.column_weights.prior, completion.known
    weights: Arrays = {name: tensor.detach().numpy() for name, tensor in completion.network.state_dict().items()}
    weights |= {
        "row_means": completion.scaling.means,
        "mean_by_features": completion.scaling.by_features.slope,
        "prior.mean": prior.mean,
        "prior.by_features": prior.by_features.slope,
        "prior.factor": prior.factor,
        "prior.pull": prior.pull,
        "prior.noise": np.array([prior.noise], np.float64),
    }
    later_rows, later_columns, later_ratings = known.later()
    ratings: Arrays = {
        "indptr": known.trained.indptr,
        "indices": known.trained.indices,
        "values": known.trained.values,
        "shape": np.array([known.trained.rows, known.trained.columns], np.int64),
        "later.rows": later_rows,
        "later.columns": later_columns,
        "later.ratings": later_ratings,
    }
    features: Arrays = {}
    sides = dict(zip(_SIDES[model.orientation], (completion.row_features, completion.column_features), strict=True))
    for side, learned in _features_of(model).items():
        features |= {f"{side}.{name}": array for name, array in learned.arrays().items() if name != "values"}
        features[f"{side}.trained"] = sides[side].trained
        features[f"{side}.described"] = sides[side].trained_described
        features[f"{side}.later.indices"], features[f"{side}.later.values"] = sides[side].later()
    return {"weights": weights, "ratings": ratings} | ({"features": features} if features else {})


def learned_of(model: CFN) -> Learned:
    """What was learned about the columns of features, ready for JSON."""
    return {side: features.card() for side, features in _features_of(model).items()}


def _features_of(model: CFN) -> dict[str, Features]:
    sides = {"users": model.user_features, "items": model.item_features}
    return {side: features for side, features in sides.items() if features is not None}


def restore(
    model: CFN, arrays: dict[str, Arrays], learned: Learned, *, scale: Scale, overall_mean: float, typical_length: float
) -> None:
    """Put a model together that has its settings and its ids already; ValueError where the parts do not fit."""
    weights, ratings, features = arrays["weights"], arrays["ratings"], arrays.get("features", {})
    rows, columns = (int(size) for size in ratings["shape"])
    trained = SparseRows(ratings["indptr"], ratings["indices"], ratings["values"], columns)
    _check_ratings(trained, rows, weights, ratings)
    prior = ColumnPrior(
        mean=weights.pop("prior.mean"),
        by_features=_regression(weights, "prior.by_features", outputs=weights["output.weight"].shape[1] + 1),
        factor=weights.pop("prior.factor"),
        pull=weights.pop("prior.pull"),
        noise=float(weights.pop("prior.noise")[0]),
    )
    scaling = Scaling(
        scale=scale,
        damping=model.settings.mean_damping,
        length_power=model.settings.length_power,
        typical_length=typical_length,
        overall=overall_mean,
        by_features=_regression(weights, "mean_by_features", outputs=1),
        means=weights.pop("row_means"),
    )
    network = CFNetwork.of({name: torch.from_numpy(array) for name, array in weights.items()}, model.settings)
    known = KnownRatings(trained, trained.transpose())
    for row, column, rating in zip(
        ratings["later.rows"].tolist(),
        ratings["later.columns"].tolist(),
        ratings["later.ratings"].tolist(),
        strict=True,
    ):
        known.add(row, column, rating)
    row_features, column_features = (
        _side(features, side, count) for side, count in zip(_SIDES[model.orientation], (rows, columns), strict=True)
    )
    known.grow(len(row_features.values), len(column_features.values))
    ids = (len(model.users), len(model.items))
    if ids != ((known.rows, known.columns) if model.orientation == "user" else (known.columns, known.rows)):
        raise ValueError("there is another number of users and items than the ratings have")
    if network.features != row_features.width:
        raise ValueError("the network was made for another number of features")
    _restore_learned(model, features, learned)
    model.restore(
        Completion(
            network,
            scaling,
            known,
            model.settings,
            row_features=row_features,
            column_features=column_features,
            prior=prior,
        )
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


def _check_ratings(trained: SparseRows, rows: int, weights: Arrays, ratings: Arrays) -> None:
    """Indices that point outside would read the wrong memory, or none."""
    ends = np.diff(trained.indptr)
    if len(trained.indptr) != rows + 1 or len(weights["row_means"]) != rows or (ends < 0).any():
        raise ValueError("the rows of the ratings are out of order")
    if not trained.indptr[0] == 0 or not trained.indptr[-1] == len(trained.indices) == len(trained.values):
        raise ValueError("the ratings have no consistent length")
    if trained.nnz and not 0 <= int(trained.indices.min()) <= int(trained.indices.max()) < trained.columns:
        raise ValueError("a rating points at a column that does not exist")
    if any((ratings[name] < 0).any() for name in ("later.rows", "later.columns")):
        raise ValueError("a later rating points at a row or column that does not exist")
    if len(weights["input.weight"]) != trained.columns or len(weights["output.weight"]) != trained.columns:
        raise ValueError("the network has another number of columns than the ratings")
