"""One model from several processes, each with some columns, and from data in any order: the same as from one process.

Processes are played by threads, which share nothing but their exchange.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from cofill import CFN
from cofill.config import CFNSettings, Noise, Orientation
from cofill.data.datasets.world import make_world
from cofill.data.described import SideFeatures
from cofill.data.ratings import Ratings
from cofill.data.sparse import KnownRatings, SparseRows
from cofill.models.biases import Biases
from cofill.models.cfn.fit import FitResult, fit_matrix, validation_entries
from cofill.models.cfn.gp import KernelParams
from cofill.models.cfn.scaling import Matrix
from cofill.models.lists.feedback import Feedback, GradedRatings, Grades
from cofill.models.lists.item_weights import FitOptions, Penalties
from cofill.models.lists.scorer import KeysOfSides, LinearScorer, Sides
from cofill.models.rng import Keys, Portion, draws_of
from cofill.models.slopes import FeatureRegression
from tests.models.contract import in_another_order, predict
from tests.models.several_processes import Played, columns_of, together

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]
Owners = Callable[[int, int], Longs]
"""(columns, processes) -> (columns,): which process has each column."""
SIZES = (2, 4)
WITHOUT_RATINGS = 3  # columns at the end that nobody rated
WIDTH = 12
QUICK: dict[str, Any] = {"hidden": WIDTH, "epochs": 6, "batch": 16, "threads": 1}


@cache
def ratings() -> Ratings:
    return make_world(users=130, items=50, ratings=2_600, seed=1).ratings


@dataclass(frozen=True)
class Whole:
    """A matrix with the keys of its rows and columns, and features of both."""

    rows: SparseRows
    row_keys: Keys
    column_keys: Keys
    row_features: Floats
    column_features: Floats


@cache
def whole(orientation: Orientation = "item") -> Whole:
    """The last columns have no ratings. Of some rows and columns no features are known."""
    known = ratings().rows(orientation)
    rows = SparseRows(known.indptr, known.indices, known.values, known.columns + WITHOUT_RATINGS)
    users, items = ratings().users.keys(), ratings().items.keys()
    row_keys, column_keys = (items, users) if orientation == "item" else (users, items)
    column_keys = np.append(column_keys, np.arange(WITHOUT_RATINGS, dtype=np.uint64))
    rng = np.random.default_rng(0)
    row_features, column_features = (rng.normal(size=(n, 2)).astype(np.float32) for n in (rows.rows, rows.columns))
    row_features[::5], column_features[::5] = 0, 0
    return Whole(rows, row_keys, column_keys, row_features, column_features)


def mixed_up(columns: int, size: int) -> Longs:
    """Shares of different sizes, of columns that do not lie together."""
    owner = draws_of(np.uint64(3), np.arange(columns, dtype=np.uint64)) % np.uint64(2 * size - 1) % np.uint64(size)
    return owner.astype(np.int64)


def none_for_the_second(columns: int, size: int) -> Longs:
    return np.where(np.arange(columns) % size == 1, 0, np.arange(columns) % size)


def unrated_for_the_second(columns: int, size: int) -> Longs:
    owner = none_for_the_second(columns, size)
    owner[-WITHOUT_RATINGS:] = 1
    return owner


@dataclass(frozen=True)
class Model:
    """What processes have trained together, as one."""

    weights: dict[str, Floats]
    means: tuple[Floats, Floats]  # of rows and of columns
    epochs: int
    validation_rmse: float | None
    losses: list[tuple[str, int, float]]
    amplitudes: KernelParams | None
    lowered: list[str]


_BY_COLUMN = ("input.weight", "output.weight", "output.bias")


def train(
    size: int, *, orientation: Orientation = "item", owners: Owners = mixed_up, features: str = "", **changes: Any
) -> Model:
    """With `size` processes; `features` names the sides that have any."""
    matrix = whole(orientation)
    owner = owners(matrix.rows.columns, size) if size > 1 else np.zeros(matrix.rows.columns, np.int64)
    settings = CFNSettings.of({**QUICK, "orientation": orientation, **changes})

    def work(exchange: Played) -> tuple[Longs, FitResult, list[str]]:
        chosen = np.flatnonzero(owner == exchange.rank)
        part = columns_of(matrix.rows, chosen)
        lowered: list[str] = []
        of_rows, of_columns = (
            SideFeatures(values) if side in features else SideFeatures.none(len(values))
            for side, values in (("rows", matrix.row_features), ("columns", matrix.column_features[chosen]))
        )
        portion = Portion(matrix.row_keys, matrix.column_keys[chosen], matrix.rows.columns, exchange)
        given = Matrix(KnownRatings(part, part.transpose()), ratings().scale, of_rows, of_columns, portion)
        fitted = fit_matrix(given, settings, progress=lambda step: lowered.append(step.note) if step.note else None)
        return chosen, fitted, lowered

    parts = together(size, work)
    return _as_one(parts, matrix.rows.columns)


def _as_one(parts: list[tuple[Longs, FitResult, list[str]]], columns: int) -> Model:
    """What belongs to columns put together; what belongs to rows is the same to the bit in every process."""
    _, first, lowered = parts[0]
    weights = first.network.weights()
    for name in _BY_COLUMN:
        weights[name] = np.full((columns, *weights[name].shape[1:]), np.nan, np.float32)
    of_columns = np.full(columns, np.nan, np.float32)
    for chosen, fitted, also_lowered in parts:
        assert also_lowered == lowered
        assert _what_all_know(fitted) == _what_all_know(first)
        np.testing.assert_array_equal(fitted.part.scaling.means, first.part.scaling.means)
        of_columns[chosen] = fitted.part.scaling.columns
        for name, weight in fitted.network.weights().items():
            if name in _BY_COLUMN:
                weights[name][chosen] = weight
            else:
                np.testing.assert_array_equal(weight, weights[name], err_msg=name)
    return Model(
        weights,
        (first.part.scaling.means, of_columns),
        first.epochs,
        first.validation_rmse,
        [(record.phase, record.epoch, record.loss) for record in first.history],
        first.amplitudes,
        lowered,
    )


def _what_all_know(fitted: FitResult) -> tuple[object, ...]:
    told = [(record.phase, record.epoch, record.loss, record.validation_rmse) for record in fitted.history]
    return fitted.epochs, fitted.validation_rmse, fitted.amplitudes, fitted.spread.as_array().tolist(), told


def assert_same(found: Model, expected: Model, within: float = 1e-4) -> None:
    for name, weight in expected.weights.items():
        assert np.isfinite(weight).all(), name
        assert np.abs(found.weights[name] - weight).max() <= within * np.abs(weight).max(initial=1e-9), name
    for one, other in zip(found.means, expected.means, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
    assert found.epochs == expected.epochs
    assert [record[:2] for record in found.losses] == [record[:2] for record in expected.losses]
    np.testing.assert_allclose([r[2] for r in found.losses], [r[2] for r in expected.losses], rtol=1e-4)
    assert found.lowered == expected.lowered
    assert (found.validation_rmse is None) == (expected.validation_rmse is None)
    if found.validation_rmse is not None and expected.validation_rmse is not None:
        assert found.validation_rmse == pytest.approx(expected.validation_rmse, rel=1e-4)
    assert (found.amplitudes is None) == (expected.amplitudes is None)
    if found.amplitudes is not None and expected.amplitudes is not None:
        # The validation error, compared above, is flat where it is least: shrinkage and the share of the prior mean can
        # stand in for each other, and steps towards it end a little apart.
        np.testing.assert_allclose(found.amplitudes.as_array()[:5], expected.amplitudes.as_array()[:5], rtol=2e-3)


# The network, and the amplitudes of its decoder


@pytest.mark.parametrize(("decoder", "noise"), [("process", "mask"), ("network", "salt-and-pepper")])
def test_both_decoders(decoder: str, noise: Noise) -> None:
    alone = train(1, noise=noise, decoder=decoder)
    assert (alone.amplitudes is not None) == (decoder == "process")
    assert [phase for phase, *_ in alone.losses] == ["search"] * 6 + ["train"] * alone.epochs
    assert_same(train(4, noise=noise, decoder=decoder), alone)


CASES: dict[str, dict[str, Any]] = {
    "deep, pre-trained": {
        "hidden": (WIDTH, 6, WIDTH), "pretrain": True, "pretrain_epochs": 2, "inner_epochs": 2, "features": "rows",
    },
    "deep, no validation": {
        "hidden": (WIDTH, 6), "decoder": "network", "activation": "sigmoid", "validation": 0, "output": "tanh",
        "features": "rows and columns",
    },
    "rows of users, features": {"orientation": "user", "features": "rows and columns", "noise": "gaussian"},
    "no neighbours, damping given": {"neighbours": 0, "mean_damping": 5.0, "presence": 0.0, "length_power": 0.0},
    "no refit": {"refit": False, "validation": 0.5},
    "gives up early": {"patience": 1, "epochs": 20, "decoder": "network", "refit": False},
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_whatever_the_settings(case: str) -> None:
    assert_same(train(3, **CASES[case]), train(1, **CASES[case]))


@pytest.mark.parametrize(("owners", "decoder"), [(none_for_the_second, "network"), (unrated_for_the_second, "process")])
def test_a_process_without_a_column_or_without_a_rating(owners: Owners, decoder: str) -> None:
    alone = train(1, decoder=decoder, features="columns")
    assert_same(train(3, owners=owners, decoder=decoder, features="columns"), alone)


def test_a_learning_rate_that_diverges_is_lowered_in_the_same_way() -> None:
    settings: dict[str, Any] = {"learning_rate": 13.0, "decoder": "network", "weight_decay": 0.0}
    alone = train(1, **settings)
    assert alone.lowered
    assert_same(train(3, **settings), alone)


def test_the_validation_part_is_the_same() -> None:
    matrix, settings = whole(), CFNSettings.of({"validation": 0.2})

    def held_out(exchange: Played) -> list[tuple[int, int]]:
        chosen = np.flatnonzero(mixed_up(matrix.rows.columns, exchange.size) == exchange.rank)
        part = columns_of(matrix.rows, chosen)
        portion = Portion(matrix.row_keys, matrix.column_keys[chosen], matrix.rows.columns, exchange)
        found = validation_entries(part, settings, portion)
        of_row = np.repeat(np.arange(part.rows), part.counts())
        return list(zip(of_row[found].tolist(), chosen[part.indices[found]].tolist(), strict=True))

    alone = sorted(together(1, held_out)[0])
    assert len(alone) == round(0.2 * matrix.rows.nnz)
    for size in SIZES:
        assert sorted(entry for part in together(size, held_out) for entry in part) == alone


# What is fitted beside the network


@pytest.mark.parametrize("damping", [None, 4.0])
@pytest.mark.parametrize("features", [0, 2])
def test_fitted_means(damping: float | None, features: int) -> None:
    matrix = whole()

    def fitted(exchange: Played) -> tuple[Longs, Biases]:
        chosen = np.flatnonzero(mixed_up(matrix.rows.columns, exchange.size) == exchange.rank)
        part = columns_of(matrix.rows, chosen)
        means = Biases.fit(
            part,
            part.transpose(),
            damping,
            row_features=matrix.row_features[:, :features],
            column_features=matrix.column_features[chosen, :features],
            portion=Portion(matrix.row_keys, matrix.column_keys[chosen], matrix.rows.columns, exchange),
        )
        return chosen, means

    ((every, alone),) = together(1, fitted)
    np.testing.assert_array_equal(every, np.arange(matrix.rows.columns))
    for size in SIZES:
        for chosen, means in together(size, fitted):
            for name, expected in alone.arrays().items():
                array = expected[chosen] if name in ("columns", "column_effects") else expected
                np.testing.assert_allclose(means.arrays()[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("most", [30, 1000])
def test_feature_regression(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cofill.models.slopes._EXAMPLES", most)
    rng = np.random.default_rng(2)
    features = rng.normal(size=(90, 3)).astype(np.float32)
    targets = features @ rng.normal(size=(3, 2)) + rng.normal(0, 0.3, (90, 2))
    counts = rng.integers(0, 9, 90)
    keys = draws_of(np.uint64(1), np.arange(90, dtype=np.uint64))

    def fitted(exchange: Played) -> Floats:
        own = np.flatnonzero(mixed_up(90, exchange.size) == exchange.rank)
        return FeatureRegression.fit(features[own], targets[own], counts[own], keys[own], exchange).slope

    alone = together(1, fitted)[0]
    assert alone.any()
    for size in SIZES:
        for slope in together(size, fitted):
            np.testing.assert_allclose(slope, alone, rtol=0, atol=1e-6)


@pytest.mark.parametrize("rank", [8, 1024], ids=["low rank", "exact"])
@pytest.mark.parametrize("features", [0, 2])
def test_the_list_scorer(rank: int, features: int) -> None:
    """Of people that are spread; eigenvectors may turn, so it is scores that are compared."""
    by_user, keys = ratings().rows("user"), KeysOfSides(ratings().users.keys(), ratings().items.keys())
    assert 4 * rank < by_user.columns or rank > by_user.columns  # both forms
    rng = np.random.default_rng(4)
    of_users, of_items = (rng.normal(size=(n, features)).astype(np.float32) for n in (by_user.rows, by_user.columns))
    asked = by_user.take(np.arange(10))

    def scores(exchange: Played) -> tuple[Floats, Floats]:
        own = np.flatnonzero(mixed_up(by_user.rows, exchange.size) == exchange.rank)
        part = by_user.take(own)
        feedback = Feedback(GradedRatings(KnownRatings(part, part.transpose()), Grades(ratings().scale)))
        scorer = LinearScorer.fit(
            feedback,
            Sides(SideFeatures(of_users[own]), SideFeatures(of_items)),
            Penalties(rank),
            FitOptions(threads=1, exchange=exchange),
            KeysOfSides(keys.users[own], keys.items),
        )
        told, by = scorer.weights.target_codes(slice(None)), scorer._by_features
        codes = [by.users.expected(of_users), by.items.expected(of_items)]
        return scorer.of_people(asked), np.concatenate(codes) @ told.T

    alone, told = together(1, scores)[0]
    for size in SIZES:
        for found, also_told in together(size, scores):
            np.testing.assert_allclose(found, alone, rtol=0, atol=1e-4 * np.abs(alone).max())
            np.testing.assert_allclose(also_told, told, rtol=0, atol=1e-3 * np.abs(told).max(initial=1e-9))


# The order of the data


@pytest.mark.parametrize(
    "changes",
    [
        {"decoder": "network", "noise": "gaussian", "validation": 0},
        {"orientation": "both"},
    ],
    ids=str,
)
def test_the_order_of_the_data_does_not_matter(changes: dict[str, Any]) -> None:
    """Neither of users nor of items: predictions and lists are the same, up to rounding."""
    one, other = (CFN(**QUICK | changes).fit(data) for data in (ratings(), in_another_order(ratings())))
    users, items = (ids.ids for ids in (ratings().users, ratings().items))
    assert other.users.ids != users
    assert other.measures["epochs"] == one.measures["epochs"]
    pairs = [(user, item) for user in users[::3] for item in items]
    found, expected = (predict(model, pairs) for model in (other, one))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    for user in users[:5]:
        lists = [[(r.item, pytest.approx(r.score, abs=1e-3)) for r in m.recommend(user, n=5)] for m in (one, other)]
        assert lists[0] == lists[1]
