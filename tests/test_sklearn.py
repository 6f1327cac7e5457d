"""The estimator in scikit-learn's own searches and pipelines."""

import importlib
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from cofill import CFN, Features
from cofill.errors import DataError, SettingsError
from cofill.models.baselines.als_wr import ALSWR
from cofill.models.bias_models import ListModel, Means
from cofill.sklearn import RatingRegressor
from tests.models.contract import small_cells

CELLS = small_cells(users=30, items=20)
FRAME = pd.DataFrame(CELLS, columns=["user", "item", "rating"])
X, Y = FRAME[["user", "item"]], FRAME["rating"]
RMSE = "neg_root_mean_squared_error"


def test_a_grid_search_finds_the_better_settings() -> None:
    grid = [
        {"recommender": [Means()], "recommender__mean_damping": [0.0, 1e6]},
        {"recommender": [ALSWR(rank=2, iterations=5)], "recommender__seed": [3]},
    ]
    search = GridSearchCV(RatingRegressor(scale=(1, 5)), grid, scoring=RMSE, cv=3, error_score="raise").fit(X, Y)
    scores = dict(zip(map(str, search.cv_results_["params"]), search.cv_results_["mean_test_score"], strict=True))
    assert len(set(scores.values())) == 3
    assert search.best_score_ == max(scores.values())
    assert isinstance(search.best_params_["recommender"], ALSWR)  # the only one that knows taste
    assert search.best_estimator_.recommender_.get_params()["seed"] == 3
    assert search.predict(X.head(2)).shape == (2,)
    assert search.best_estimator_.recommender_.recommend(1, n=2)


def test_a_network_is_searched_by_its_settings() -> None:
    model: Any = RatingRegressor(CFN(epochs=2, hidden=4, threads=1), scale=(1, 5))
    search = GridSearchCV(model, {"recommender__hidden": [2, 3]}, scoring=RMSE, cv=2, error_score="raise").fit(X, Y)
    assert search.best_estimator_.recommender_.settings.hidden in ((2,), (3,))
    assert model.recommender.settings.hidden == (4,)


@pytest.mark.parametrize(
    "pairs", [X, pl.from_pandas(X), X.to_numpy(), X.astype(str).to_numpy(object)], ids=lambda x: type(x).__module__
)
def test_cross_validation_takes_frames_and_arrays(pairs: Any) -> None:
    found = cross_val_score(RatingRegressor(Means(), scale=(1, 5)), pairs, Y.to_numpy(), cv=3, error_score="raise")
    assert np.isfinite(found).all()


def test_cold_users_and_pipelines() -> None:
    model = make_pipeline(FunctionTransformer(lambda frame: frame[["user", "item"]]), RatingRegressor(Means()))
    folds = GroupKFold(3)
    found = cross_val_score(model, FRAME, Y, cv=folds, groups=FRAME["user"], scoring=RMSE, error_score="raise")
    assert (found < 0).all()


def test_clones_and_features() -> None:
    films = Features.read(pl.DataFrame({"item": list(range(20)), "odd": [str(item % 2) for item in range(20)]}))
    model: Any = RatingRegressor(ListModel(seed=2), scale=(1, 5), item_features=films)
    twin = clone(model)
    assert twin.get_params(deep=True)["recommender__seed"] == 2
    assert twin.set_params(recommender__seed=5).recommender.settings.seed == 5
    assert model.recommender.settings.seed == 2
    assert model.fit(X, Y).recommender_.item_features is not None
    assert model.recommender is not model.recommender_
    assert model.score(X, Y) <= 1.0
    assert "ListModel" in repr(model)


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        RatingRegressor().predict(X)
    with pytest.raises(DataError, match="requires y to be passed, but the target y is None"):
        RatingRegressor().fit(X, None)
    with pytest.raises(DataError, match=r"X has 2 pairs, and y the shape \(3,\); give one rating to each pair"):
        RatingRegressor().fit([(1, 2), (2, 3)], [1, 2, 3])
    with pytest.raises(DataError, match=r"an array of the shape \(402, 3\); the columns are \(user, item\)"):
        RatingRegressor().fit(FRAME.to_numpy(), Y)


def test_without_scikit_learn_the_command_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "cofill.sklearn")
    monkeypatch.setattr("cofill.extras.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"sklearn, which is not installed\. Run: pip install 'cofill\[sklearn\]'"):
        importlib.import_module("cofill.sklearn")
