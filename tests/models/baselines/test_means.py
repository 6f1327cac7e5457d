"""The fitted means keep the contract, and reach what means can reach."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cofill import Ratings, algorithm
from cofill.models.baselines.als_wr import ALSWR
from cofill.models.bias_models import Means
from tests.models.contract import RecommenderContract, parts, rmse, rmse_of_means


class TestContract(RecommenderContract):
    def make(self, **changes: Any) -> Means:
        changes.pop("epochs", None)
        return Means(**changes)

    def test_as_good_as_means_in_turn(self) -> None:
        """The contract's own fit takes one after the other; here they are fitted together."""
        _, train, test, _, _ = parts()
        assert rmse(Means().fit(train).predict(test), test.values) == pytest.approx(
            rmse_of_means(train, test), abs=2e-3
        )


class Mine(Means):
    """A baseline of somebody's own."""

    kind = "mine"


def test_a_baseline_of_your_own_is_kept_too(tmp_path: Path) -> None:
    model = Mine().fit(parts().train)
    model.save(tmp_path)
    loaded = Mine.load(tmp_path)
    assert type(loaded) is Mine
    assert loaded.recommend(1) == model.recommend(1)


def test_where_means_say_nothing_about_likeness_lists_do() -> None:
    model = Means().fit(parts().train)
    assert model.predictor.item_vectors().shape[1] == 0
    found = model.similar(1, 5)
    assert len(found) == 5
    assert all(0 < entry.similarity < 1 for entry in found)


def test_all_ways_of_asking_agree() -> None:
    predictor = ALSWR(rank=4, iterations=2).fit(parts().train).predictor
    users, items = np.meshgrid(np.arange(20, dtype=np.int32), np.arange(15, dtype=np.int32), indexing="ij")
    expected = predictor.entries(users.ravel(), items.ravel()).reshape(20, 15)
    np.testing.assert_allclose(predictor.users(np.arange(20))[:, :15], expected, atol=1e-5)
    np.testing.assert_allclose(predictor.user(3)[:15], expected[3], atol=1e-5)


SMALL: dict[str, dict[str, Any]] = {
    "als-wr": {"rank": 4, "iterations": 2},
    "svdfeature": {"rank": 4, "epochs": 2},
    "bpmf": {"rank": 3, "burn_in": 2, "samples": 2, "thinning": 1},
    "llorma": {"rank": 2, "anchors": 3, "iterations": 2},
}


@pytest.mark.parametrize("name", ["als-wr", "bpmf", "llorma"])
def test_any_number_of_threads_gives_the_same_predictions(name: str) -> None:
    one, three = (algorithm(name)(**SMALL[name], threads=threads).fit(parts().train) for threads in (1, 3))
    everyone = np.arange(len(one.users))
    np.testing.assert_array_equal(one.predictor.users(everyone), three.predictor.users(everyone))


@pytest.mark.parametrize(("factor", "shift"), [(0.2, 0.0), (4.0, -11.0)])
@pytest.mark.parametrize("name", ["means", "als-wr", "svdfeature", "bpmf", "llorma"])
def test_another_scale_is_the_same_world(name: str, factor: float, shift: float) -> None:
    train = parts().train
    low, high = train.scale
    frame = train.to_polars().with_columns(pl.col("rating") * factor + shift)
    changed = Ratings.read(frame, scale=(low * factor + shift, high * factor + shift))
    make = partial(algorithm(name), **SMALL.get(name, {}))
    pairs = parts().test
    expected = make().fit(train).predict(pairs)
    predicted = (make().fit(changed).predict(pairs) - shift) / factor
    np.testing.assert_allclose(predicted, expected, atol=5e-3)
