"""Folds that test everything once, seeds that repeat a run, and comparisons that only the same folds allow."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cofill import CFN
from cofill.data.datasets.world import make_world
from cofill.data.ratings import Ratings, Scale
from cofill.data.splits import k_folds
from cofill.errors import DataError, SettingsError
from cofill.evaluation import cross_validate, evaluate, evaluate_ranking
from tests.evaluation.scored import Scored


class Mean(Scored):
    """Predicts the mean of the training ratings plus a shift, in every place the same; writes down what it is given."""

    def __init__(self, seed: int = 0, shift: float = 0.0) -> None:
        self.seed, self.shift = seed, shift
        self.given: dict[str, Any] = {}

    def fit(self, ratings: object, /, **features: Any) -> None:
        assert isinstance(ratings, Ratings)
        self.given = features
        self.trained = ratings
        pairs = list(zip(ratings.user_index.tolist(), ratings.item_index.tolist(), strict=True))
        scores = np.zeros((len(ratings.users), len(ratings.items)), np.float32)
        super().__init__(ratings.users.ids, ratings.items.ids, scores, known=pairs, scale=ratings.scale)

    def predict_indices(self, users: Any, items: Any) -> Any:
        return np.full(len(users), self.trained.values.mean() + self.shift, np.float32)


@pytest.fixture(scope="module")
def ratings() -> Ratings:
    return make_world(users=50, items=30, ratings=600, seed=1).ratings


def test_every_fold_is_measured_once_and_its_seed_kept(ratings: Ratings) -> None:
    made: list[Mean] = []

    def make(seed: int) -> Mean:
        made.append(Mean(seed))
        return made[-1]

    shares: list[float] = []
    found = cross_validate(make, ratings, folds=4, seed=7, ranking=True, n=3, report=shares.append)
    assert [fold.seed for fold in found.folds] == [model.seed for model in made] == [7, 8, 9, 10]
    assert sum(fold.rating.ratings for fold in found.folds) == len(ratings)
    assert all(fold.training_ratings + fold.rating.ratings == len(ratings) for fold in found.folds)
    assert (found.model, found.seed, shares) == ("Mean", 7, [0.25, 0.5, 0.75, 1.0])
    for fold, model, (train, test) in zip(found.folds, made, k_folds(ratings, folds=4, seed=7), strict=True):
        assert (model.trained.values == train.values).all()
        assert fold.rating == evaluate(model, test)
        assert fold.ranking == evaluate_ranking(model, test, n=3)
        assert model.given == {}
    rmse = [fold.rating.rmse for fold in found.folds]
    assert found.interval("rmse").values == tuple(rmse)
    assert found.interval("ndcg").mean == pytest.approx(
        np.mean([fold.ranking.ndcg for fold in found.folds if fold.ranking])
    )
    document = json.loads(json.dumps(found.as_json()))
    assert document["intervals"]["rmse"]["mean"] == pytest.approx(np.mean(rmse))
    assert [fold["seed"] for fold in document["folds"]] == [7, 8, 9, 10]
    assert list(document["intervals"]) == list(found.measures)


def test_features_are_handed_on(ratings: Ratings) -> None:
    made = []

    def make(seed: int) -> Mean:
        made.append(Mean(seed))
        return made[-1]

    cross_validate(make, ratings, folds=2, item_features="of items")
    assert [model.given for model in made] == [{"item_features": "of items"}] * 2


def test_a_better_model_is_told_from_a_worse_one(ratings: Ratings) -> None:
    good, bad = (cross_validate(lambda seed, s=shift: Mean(seed, s), ratings) for shift in (0.0, 1.0))  # type: ignore[misc]
    found = good.compare(bad)
    assert (found.verdict, bad.compare(good).verdict) == ("better", "worse")
    assert good.compare(good, "mae").verdict == "no difference beyond chance"
    assert found.overlap == 1 / 4
    assert found.one.values == good.interval("rmse").values


def test_only_the_same_folds_can_be_compared(ratings: Ratings) -> None:
    ours = cross_validate(Mean, ratings, folds=3)
    with pytest.raises(DataError) as folds:
        ours.compare(cross_validate(Mean, ratings, folds=2))
    assert str(folds.value) == (
        "Mean and Mean cannot be compared: the number of folds is 3 with the one and 2 with the other; "
        "cross-validate both alike"
    )
    with pytest.raises(DataError, match="the seed of the folds is 0 with the one and 1 with the other"):
        ours.compare(cross_validate(Mean, ratings, folds=3, seed=1))
    changed = ratings.values.copy()
    changed[17] = 1.0 if changed[17] != 1.0 else 2.0
    for other in (
        ratings.select(np.arange(len(ratings)) != 5),
        replace(ratings, values=changed),
        replace(ratings, scale=Scale(0, 10)),
        replace(ratings, users=type(ratings.users)([f"u{user}" for user in ratings.users])),
        replace(ratings, items=type(ratings.items)([*ratings.items.ids[1:], ratings.items.ids[0]])),
    ):
        with pytest.raises(DataError, match="were measured on different ratings"):
            ours.compare(cross_validate(Mean, other, folds=3))


def test_who_rated_what_is_part_of_the_data() -> None:
    """The same ids, and the same ratings in the same order."""
    one, other = (Ratings.read([(0, 0, 3.0), (0, 1, 3.0), (1, item, 3.0)]) for item in (0, 1))
    with pytest.raises(DataError, match="were measured on different ratings"):
        cross_validate(Mean, one, folds=2).compare(cross_validate(Mean, other, folds=2))


def test_ids_without_a_rating_are_no_other_data(ratings: Ratings) -> None:
    wider = ratings.including(users=["somebody"] if not ratings.users.integers else [10**6])
    assert cross_validate(Mean, wider, folds=2).data == cross_validate(Mean, ratings, folds=2).data


def test_lists_are_compared_if_they_are_alike(ratings: Ratings) -> None:
    three = cross_validate(Mean, ratings, folds=2, ranking=True, n=3)
    five = cross_validate(Mean, ratings, folds=2, ranking=True, n=5)
    plain = cross_validate(Mean, ratings, folds=2)
    assert three.compare(three, "ndcg").less_is_better is False
    with pytest.raises(DataError, match="the n is 3 with the one and 5 with the other"):
        three.compare(five, "ndcg")
    assert three.compare(five, "rmse").verdict == "no difference beyond chance"
    with pytest.raises(DataError) as lists:
        plain.interval("ndcg")
    assert str(lists.value) == (
        "'ndcg' was not measured, but rmse, mae; cross_validate(..., ranking=True) measures lists too"
    )
    with pytest.raises(DataError, match="'ndcg' was not measured"):
        three.compare(plain, "ndcg")
    with pytest.raises(DataError, match=r"'speed' was not measured, but rmse, mae$"):
        plain.compare(plain, "speed")


def test_what_cannot_be_divided_is_refused(ratings: Ratings) -> None:
    with pytest.raises(DataError, match="folds=1 leaves nothing to train on"):
        cross_validate(Mean, ratings, folds=1)
    with pytest.raises(SettingsError, match="a seed must be 0 or more"):
        cross_validate(Mean, ratings, seed=-1)


def test_a_network_repeats_with_its_seed(ratings: Ratings) -> None:
    def make(seed: int) -> CFN:
        return CFN(seed=seed, hidden=6, epochs=3, validation=0, threads=1)

    first, again = (cross_validate(make, ratings, folds=2, seed=3, ranking=True) for _ in range(2))
    assert first == again
    assert first.model == "CFN"


def test_a_model_where_a_maker_belongs() -> None:
    model: Any = CFN(hidden=4)
    with pytest.raises(DataError, match=r"every fold needs one of its own; .*lambda seed"):
        cross_validate(model, Ratings.read([(1, 2, 3.0), (1, 3, 4.0)]), folds=2)
