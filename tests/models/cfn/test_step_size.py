"""Learning rates that are too large: lowered until training goes well, told, kept in checkpoints; and shapes of data
that no single learning rate suits."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofill import CFN
from cofill.config import CFNSettings, Orientation
from cofill.data.datasets.world import make_world
from cofill.data.described import SideFeatures
from cofill.data.ratings import Ratings, Scale
from cofill.data.sparse import KnownRatings, SparseRows
from cofill.models.baselines.autorec import AutoRec
from cofill.models.cfn.fit import FitResult, fit_matrix, rate_factor, rate_of_epoch, validation_entries
from cofill.models.cfn.scaling import Matrix, ScaledRows, Scaling, hold_out
from cofill.models.recommender import Recommender
from cofill.models.rng import Portion
from cofill.progress import Step
from tests.models.cfn.as_read import as_read, portion_of

Grid = npt.NDArray[np.bool_]

QUICK: dict[str, Any] = {"hidden": 8, "batch": 8, "threads": 1, "epochs": 12}
TOO_LARGE: dict[str, Any] = QUICK | {"learning_rate": 50.0, "weight_decay": 0.0}
DEEP: dict[str, Any] = {"hidden": (8, 4, 8), "pretrain": True, "pretrain_epochs": 2, "inner_epochs": 2}


@cache
def ratings() -> Ratings:
    return make_world(users=80, items=60, ratings=2_000, seed=3).ratings


def weights(model: CFN) -> list[bytes]:
    return [weight.tobytes() for weight in model.network_predictor.network.weights().values()]


# Lowering


@pytest.mark.parametrize("changes", [{"orientation": "user", "engine": "dense", "refit": False}, DEEP])
def test_a_training_that_diverges_ends_well_with_a_lower_rate_and_says_so(changes: dict[str, Any]) -> None:
    seen: list[Step] = []
    model = CFN(**TOO_LARGE | changes).fit(ratings(), progress=seen.append)
    told = [step.note for step in seen if step.note]
    times = model.history[-1].lowered
    assert told[0].startswith("training diverged in epoch 1 with a learning rate of 50; begins anew with 12.5")
    assert len(told) == times
    assert (model.measures["validation_rmse"] or 9) < 1.01 * rmse_of_means(
        ratings().rows("item" if model.orientation == "item" else "user"), model
    )
    assert all(record.learning_rate < 50 / 4 for record in model.history)


@pytest.mark.parametrize("epochs", [1, 12])
def test_without_validation_too(epochs: int) -> None:
    """Also where the very last step would have been the one that goes wrong."""
    model = CFN(**TOO_LARGE | {"validation": 0.0, "epochs": epochs, "batch": 1000}).fit(ratings())
    assert model.history[-1].lowered
    assert [record.epoch for record in model.history] == list(range(1, epochs + 1))
    network = model.network_predictor.network
    assert all(np.isfinite(weight).all() for weight in network.weights().values())
    assert model.history[-1].loss < 1


def test_the_training_on_all_ratings_has_the_rate_that_the_search_has_found() -> None:
    model = CFN(**TOO_LARGE, learning_rate_decay=0.2).fit(ratings())  # which else follows the length of rows
    search, train = ([r for r in model.history if r.phase == phase] for phase in ("search", "train"))
    assert [r.epoch for r in search] == list(range(1, len(search) + 1))
    assert [r.epoch for r in train] == list(range(1, int(model.measures["epochs"] or 0) + 1))
    assert train[0].learning_rate == search[0].learning_rate
    assert train[0].lowered == search[0].lowered > 0


def test_it_is_the_training_that_would_have_been_with_that_rate() -> None:
    """Same first weights, same draws."""
    changes = TOO_LARGE | {"validation": 0.0}
    model = CFN(**changes).fit(ratings())
    rate = 50 / 4.0 ** model.history[-1].lowered
    assert weights(CFN(**changes | {"learning_rate": rate}).fit(ratings())) == weights(model)


def test_a_model_file_tells(tmp_path: Path) -> None:
    model = CFN(**TOO_LARGE).fit(ratings())
    model.save(tmp_path)
    assert Recommender.load(tmp_path).history == model.history
    assert "lowered" not in CFN(**QUICK | {"epochs": 1}).fit(ratings()).history[0].as_json()


# The first rate


def rows_of(count: int, length: int, columns: int) -> ScaledRows:
    indptr = np.arange(count + 1, dtype=np.int64) * length
    indices = np.tile(np.arange(length, dtype=np.int32), count)
    known = SparseRows(indptr, indices, np.zeros(count * length, np.float32), columns)
    return as_read(known)


@pytest.mark.parametrize(
    ("orientation", "count", "length", "columns"),
    [("item", 3706, 270, 6040), ("user", 6040, 166, 3706), ("item", 1000, 936, 69878), ("user", 7000, 143, 10677)],
)
def test_a_rate_with_a_decay_of_its_own_is_taken_as_it_is(
    orientation: Orientation, count: int, length: int, columns: int
) -> None:
    """Of data like MovieLens; otherwise it is a little larger."""
    rows, settings = rows_of(count, length, columns), CFNSettings.of({"orientation": orientation})
    assert rate_factor(rows, settings.changed({"learning_rate_decay": 0.3})) == 1
    assert 1 <= rate_factor(rows, settings) < 2


def test_few_items_with_very_many_ratings_have_a_lower_one() -> None:
    assert 0.05 < rate_factor(rows_of(100, 18_000, 20_000), CFNSettings()) < 0.07
    assert rate_factor(rows_of(0, 5, 10), CFNSettings()) == 1


@given(st.integers(1, 300), st.integers(1, 3000), st.integers(0, 3000), st.integers(1, 100))
def test_it_never_rises_with_the_length_of_rows(count: int, length: int, more: int, batch: int) -> None:
    settings = CFNSettings.of({"batch": batch})
    factors = [rate_factor(rows_of(count, n, 6000), settings) for n in (length, length + more)]
    assert 0 < factors[1] <= factors[0] <= 3


@pytest.mark.parametrize("epochs", [1, 2, 15])
def test_it_falls_to_nothing(epochs: int) -> None:
    """After a first epoch of a third of the rate, and a second one of two thirds."""
    settings = CFNSettings.of({"epochs": epochs})
    rates = [rate_of_epoch(settings, epoch) for epoch in range(1, epochs + 1)]
    assert rates[0] == pytest.approx(0.35)
    assert all(0 < rate < 1 for rate in rates)
    assert rates[2:] == sorted(rates[2:], reverse=True)
    assert rates[-1] <= 1 / epochs


# Shapes


def grid(users: int, items: int, share: float) -> Grid:
    chosen: Grid = np.random.default_rng(1).random((users, items)) < share
    return chosen


def with_everything(known: Grid) -> Grid:
    known[0] = True
    return known


SHAPES: dict[str, tuple[Grid, Scale]] = {
    "few items, rated by nearly all": (grid(2000, 20, 0.9), Scale(1.0, 5.0)),
    "two items": (grid(1000, 2, 0.75), Scale(1.0, 5.0)),
    "one user with everything": (with_everything(grid(100, 400, 0.03)), Scale(1.0, 5.0)),
    "one user alone": (grid(1, 500, 1.0), Scale(1.0, 5.0)),
    "300 ratings": (grid(60, 50, 0.1), Scale(1.0, 5.0)),
    "-10 to 10": (grid(200, 150, 0.1), Scale(-10.0, 10.0)),
}


def matrix(known: Grid, scale: Scale, orientation: Orientation) -> SparseRows:
    """Means, five tastes, noise."""
    rng = np.random.default_rng(0)
    users, items = known.shape
    tastes = rng.normal(size=(users, 5)) @ rng.normal(size=(5, items)) / np.sqrt(5)
    values = 0.4 * rng.normal(size=(users, 1)) + 0.4 * rng.normal(size=(1, items)) + 0.5 * tastes
    values += 0.8 * rng.normal(size=(users, items))
    low, high = scale
    values = np.clip(np.round((low + high) / 2 + values * (high - low) / 4), low, high)
    if orientation == "item":
        known, values = known.T, values.T
    indptr = np.concatenate([[0], np.cumsum(known.sum(1))]).astype(np.int64)
    return SparseRows(indptr, np.nonzero(known)[1].astype(np.int32), values[known].astype(np.float32), known.shape[1])


def fit(rows: SparseRows, settings: CFNSettings, scale: Scale) -> FitResult:
    about = SideFeatures.none(rows.rows), SideFeatures.none(rows.columns)
    return fit_matrix(Matrix(KnownRatings(rows, rows.transpose()), scale, *about, Portion.of(rows)), settings)


def rmse_of_means(rows: SparseRows, of: CFN | CFNSettings, scale: Scale | None = None) -> float:
    settings, on = (of.settings, of.scale) if isinstance(of, CFN) else (of, scale or Scale(1.0, 5.0))
    portion = portion_of(of) if isinstance(of, CFN) else Portion.of(rows)
    part, validation = hold_out(rows, validation_entries(rows, settings, portion))
    scaling = Scaling.fit(part, None, on, settings, np.zeros((rows.rows, 0), np.float32), portion)
    means = scaling.means[validation.entry_rows]
    return float(np.sqrt(np.mean((scaling.up(np.zeros_like(means), means) - validation.ratings) ** 2)))


@pytest.mark.parametrize("orientation", ["item", "user"])
@pytest.mark.parametrize("name", SHAPES)
def test_defaults_are_never_worse_than_the_means_of_rows(name: str, orientation: Orientation) -> None:
    known, scale = SHAPES[name]
    rows = matrix(known, scale, orientation)
    settings = CFNSettings.of({"orientation": orientation, "epochs": 12, "threads": 1})
    fitted = fit(rows, settings, scale)
    assert (fitted.validation_rmse or 99) <= 1.01 * rmse_of_means(rows, settings, scale)


def test_resilient_propagation_is_lowered_too() -> None:
    """Its first steps are the learning rate, whatever the gradient is and however long the rows are."""
    model = AutoRec(learning_rate=50.0, weight_decay=0.0, hidden=8, epochs=12, threads=1).fit(ratings())
    lowered = model.history[-1].lowered
    assert lowered
    assert model.history[0].learning_rate == 50 / 4.0**lowered
    assert (model.measures["validation_rmse"] or 9) < 1.01 * rmse_of_means(ratings().rows("item"), model)
