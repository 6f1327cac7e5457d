"""The loop: early stop, best weights, refit, history, divergence; and the same end whatever engine runs it."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from cofill import CFN
from cofill.data.datasets.world import make_world
from cofill.data.ratings import Ratings
from cofill.errors import TrainingDivergedError
from cofill.models.cfn.fit import validation_entries
from cofill.models.cfn.scaling import hold_out
from cofill.models.results import EpochRecord
from cofill.progress import Step
from tests.models.cfn.as_read import portion_of
from tests.models.contract import Floats, cells, rmse

QUICK: dict[str, Any] = {"hidden": 8, "batch": 8, "threads": 1, "learning_rate": 0.1}


@cache
def ratings() -> Ratings:
    return make_world(users=80, items=60, ratings=2_000, seed=3).ratings


def fit(**changes: Any) -> CFN:
    return CFN(**QUICK | changes).fit(ratings())


def everything(model: CFN) -> Floats:
    users, items = np.meshgrid(np.arange(80), np.arange(60))
    return model.predict_indices(users.ravel().astype(np.int32), items.ravel().astype(np.int32))


def of_phase(model: CFN, phase: str) -> list[EpochRecord]:
    return [record for record in model.history if record.phase == phase]


# Epochs and validation


def overfitting(**changes: Any) -> CFN:
    """One that is best early on, whose validation RMSE is that of the network itself."""
    return fit(
        decoder="network",
        learning_rate=0.3,
        learning_rate_decay=0.0,
        weight_decay=0.0,
        presence=0,
        **{"epochs": 60, "patience": 3, **changes},
    )


def test_it_stops_when_validation_no_longer_gets_better() -> None:
    model = overfitting(refit=False)
    measured = [record.validation_rmse for record in model.history]
    best = int(np.argmin(np.array(measured, float)))
    assert len(measured) == best + 1 + 3 < 60
    assert model.measures == {"epochs": best + 1, "validation_rmse": measured[best]}


@pytest.mark.parametrize("orientation", ["user", "item"])
def test_the_best_weights_are_kept(orientation: str) -> None:
    """Validation RMSE computed anew from the kept weights is the best of the history, not the last."""
    model = overfitting(refit=False, orientation=orientation)
    rows = ratings().rows("item" if model.orientation == "item" else "user")
    part, held_out = hold_out(rows, validation_entries(rows, model.settings, portion_of(model)))
    without = CFN(model.settings, validation=0.0, epochs=int(model.measures["epochs"] or 0))
    # A model of the same weights that knows only what was not held out.
    by_row = np.repeat(np.arange(part.rows), part.counts()).astype(np.int32)
    users, items = (by_row, part.indices) if orientation == "user" else (part.indices, by_row)
    order = np.lexsort((items, users))
    whole = ratings()
    kept = Ratings(whole.users, whole.items, users[order], items[order], part.values[order], None, whole.scale)
    without.fit(kept)
    without.network_predictor.network.take(model.network_predictor.network.weights())
    rows_asked, columns_asked = held_out.entry_rows.astype(np.int32), held_out.entry_columns
    asked = (rows_asked, columns_asked) if orientation == "user" else (columns_asked, rows_asked)
    warm = (without.user_counts()[asked[0]] > 0) & (without.item_counts()[asked[1]] > 0)
    assert warm.all()
    again = rmse(without.predict_indices(*asked), held_out.ratings)
    best, last = model.measures["validation_rmse"], model.history[-1].validation_rmse
    assert again == pytest.approx(best, abs=1e-5)
    assert again < float(last or 0) - 1e-3


def test_refit_trains_the_chosen_number_of_epochs_on_everything() -> None:
    model = overfitting()
    search, train = of_phase(model, "search"), of_phase(model, "train")
    assert len(train) == model.measures["epochs"] == len(search) - 3
    assert [record.epoch for record in train] == list(range(1, len(train) + 1))
    assert all(record.validation_rmse is None for record in train)
    # The second run is that of somebody who knew the number of epochs.
    told = overfitting(validation=0.0, epochs=len(train))
    np.testing.assert_array_equal(everything(model), everything(told))


def test_without_validation_all_epochs_are_run() -> None:
    model = fit(validation=0.0, epochs=5)
    assert [(r.phase, r.epoch) for r in model.history] == [("train", n) for n in range(1, 6)]
    assert model.measures == {"epochs": 5, "validation_rmse": None}


def test_the_history_says_what_happened() -> None:
    seen: list[Step] = []
    model = CFN(**QUICK, epochs=4, learning_rate_decay=0.5, patience=9)
    model.fit(ratings(), progress=seen.append)
    search = of_phase(model, "search")
    told = [step for step in seen if step.unit == "epoch"]
    assert [step.what for step in told] == ["training for validation"] * 4 + ["training"] * (len(told) - 4)
    assert [(step.done, step.seconds) for step in told] == [(r.epoch, r.seconds) for r in model.history]
    assert [step.total for step in told[:4]] == [4] * 4
    for step, record in zip(told, model.history, strict=True):
        measured = {"loss": record.loss, "ratings_per_second": record.ratings_per_second}
        if record.validation_rmse is not None:
            measured["validation_rmse"] = record.validation_rmse
        assert step.measures == measured
    shares = [step.share for step in seen]
    assert shares == sorted(shares)
    after = [step.what for step in seen if step.unit != "epoch"]
    assert list(dict.fromkeys(after)) == ["learning the decoder", "solving the columns", "fitting the list scorer"]
    assert (seen[-1].what, shares[-1]) == ("fitting the list scorer", 1.0)
    assert [r.learning_rate for r in search] == pytest.approx([0.1 / (1 + n * 0.5) for n in range(1, 5)])
    assert all(r.loss > 0 and r.seconds > 0 and r.ratings_per_second > 0 for r in model.history)
    assert search[-1].loss < search[0].loss
    assert all(0.5 < float(r.validation_rmse or 0) < 1.5 for r in search)


def test_validation_leaves_something_to_train_on() -> None:
    """However large its share of however few ratings."""
    for share in (0.1, 0.5, 0.99):
        for count in (1, 2, 3):
            model = CFN(**QUICK, epochs=2, validation=share)
            model.fit(cells([(n, n, 3.0) for n in range(count)]))
            assert model.history


def test_fitting_again_forgets_the_first_time() -> None:
    model = fit(epochs=2, validation=0.0)
    expected = everything(model)
    model.fit(cells([(1, 1, 3.0), (2, 1, 4.0)]))
    assert (len(model.users), len(model.items)) == (2, 1)
    model.fit(ratings())
    np.testing.assert_array_equal(everything(model), expected)


# Divergence


@pytest.mark.parametrize("engine", ["fused", "dense"])
@pytest.mark.parametrize("validation", [0.0, 0.1])
def test_a_diverging_run_says_what_to_lower(engine: str, validation: float) -> None:
    """Where no lower rate that is tried would do."""
    with pytest.raises(TrainingDivergedError, match=r"Lower learning_rate \(now 1e\+30, try 0\.1\)") as caught:
        fit(learning_rate=1e30, weight_decay=0.0, epochs=20, engine=engine, validation=validation)
    assert str(caught.value).startswith("training diverged in epoch 1 at a learning rate that was lowered to 1.5e+25: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("batch", "advice"), [(2, r"try 0.1\), or raise batch \(now 2\)$"), (10_000, r"try 0.1\)$")])
def test_larger_batches_are_only_advised_where_there_is_more_than_one(batch: int, advice: str) -> None:
    with pytest.raises(TrainingDivergedError, match=advice):
        fit(learning_rate=1e30, weight_decay=0.0, epochs=20, batch=batch)


def test_a_failed_fit_leaves_a_model_that_is_not_fitted() -> None:
    model = CFN(**QUICK | {"learning_rate": 1e30}, weight_decay=0.0)
    with pytest.raises(TrainingDivergedError):
        model.fit(ratings())
    assert "not fitted" in repr(model)


# Engines


def test_both_engines_come_to_the_same_end() -> None:
    fused, other = (fit(engine=engine, device="cpu", epochs=4) for engine in ("fused", "dense"))
    # KernelParams that are learned from codes which differ by rounding add a little to it.
    np.testing.assert_allclose(everything(other), everything(fused), rtol=0, atol=2e-3)
    np.testing.assert_array_equal(everything(fit(engine="auto", epochs=4)), everything(fused))


def test_any_number_of_threads_comes_to_the_same_end() -> None:
    """But for the cut of the local kernel: which of two rows is the nearer may be a matter of rounding."""
    for decoder, within in (("network", 1e-3), ("process", 5e-3)):
        one = fit(epochs=4, patience=9, decoder=decoder)
        for threads in (3,):
            other = fit(epochs=4, patience=9, decoder=decoder, threads=threads)
            np.testing.assert_allclose(everything(other), everything(one), atol=within)


@pytest.mark.parametrize("hidden", [4, 30])
def test_rounding_stays_rounding_in_a_narrow_layer(hidden: int) -> None:
    """At the default learning rate: half of the ratings are moved by their last bit."""
    exact = make_world(users=600, items=250, ratings=30_000, seed=1).ratings
    moved = exact.values.copy()
    moved[::2] = np.nextafter(moved[::2], np.float32(sum(exact.scale) / 2))
    one, other = (
        CFN(hidden=hidden, epochs=4, threads=1, validation=0.0, decoder="network").fit(data).network_predictor.network
        for data in (exact, replace(exact, values=moved))
    )
    for name, weight in one.weights().items():
        np.testing.assert_allclose(other.weights()[name], weight, rtol=0, atol=2e-6, err_msg=name)


def test_a_column_that_was_never_trained_says_nothing() -> None:
    """Without a refit, a column may have all of its ratings held out: its first random weights mean nothing."""
    few: dict[str, Any] = {"epochs": 2, "hidden": 8, "threads": 1, "validation": 0.5, "decoder": "network"}
    model = CFN(refit=False, weight_decay=0.0, **few)
    model.fit([(user, 1, float(1 + user % 5)) for user in range(30)])
    rows = model.network_predictor.by_row.trained
    part, _ = hold_out(rows, validation_entries(rows, model.settings, portion_of(model)))
    held_out = np.bincount(part.indices, minlength=30) == 0
    assert held_out.any()
    assert not model.network_predictor.network.output.weight[held_out].any()


def test_a_first_epoch_that_costs_nothing_is_no_divergence() -> None:
    CFN(beta=0.0, epochs=8, hidden=4, threads=1, validation=0.0).fit([(1, 1, 5.0), (1, 2, 1.0), (2, 1, 3.0)])


def test_ratings_that_are_all_equal() -> None:
    """Nothing is wrong anywhere, so no error has a curvature; the one rating there is gets predicted."""
    ratings = Ratings.read([(user, item, 4.0) for user in range(20) for item in range(6) if (user + item) % 5])
    model = CFN(hidden=4, epochs=2, threads=1).fit(ratings)
    assert model.predict([(0, 0), (3, 2)]) == pytest.approx([4.0, 4.0], abs=0.2)
