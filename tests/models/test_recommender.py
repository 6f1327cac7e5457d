"""What the class of all models sees to, whatever the algorithm: asked of the quickest."""

import copy
from pathlib import Path

import numpy as np
import pytest

from cofill.data.ratings import Ratings
from cofill.errors import DataError, NotFittedError, UnknownIdError
from cofill.models.bias_models import Means
from tests.models.contract import STARS, all_pairs, assert_same_recommendations, cells, parts, predict, small_cells


@pytest.fixture(scope="module")
def model() -> Means:
    return Means().fit(parts().train)


@pytest.fixture
def changing(model: Means) -> Means:
    """A copy to be changed."""
    return copy.deepcopy(model)


def test_pairs_in_any_form(model: Means) -> None:
    test = parts().test
    ratings = test.select(np.arange(len(test)) < 3)
    frame = ratings.to_polars()
    users, items = frame["user"].to_list(), frame["item"].to_list()
    expected = predict(model, zip(users, items, strict=True))
    for pairs in (
        ratings,
        frame,
        frame.select("user", "item"),
        list(zip(users, items, strict=True)),
        (np.array(users), np.array(items)),
        ([str(user) for user in users], [str(item) for item in items]),
    ):
        np.testing.assert_array_equal(model.predict(pairs), expected)
    np.testing.assert_array_equal(model.predict(list(zip(users, items, strict=True))[:2]), expected[:2])


def test_items_to_choose_from_that_make_no_sense(model: Means) -> None:
    items = len(model.items)
    with pytest.raises(DataError, match=rf"flags of shape \[3\], and the model {items} items; give one flag"):
        model.recommend(1, among=np.ones(3, np.bool_))
    with pytest.raises(DataError, match="among is the text '12'; give a list of the ids"):
        model.recommend(1, among="12")
    with pytest.raises(DataError, match="an id is the float"):
        model.recommend_many(among=[1.5])  # type: ignore[list-item]


def test_titles_come_along() -> None:
    frame = cells(small_cells()).to_polars()
    frame = frame.with_columns(title="Film " + frame["item"].cast(str))
    model = Means().fit(Ratings.read(frame))
    assert all(r.title == f"Film {r.item}" for r in model.recommend(3))


def test_unknown_items_and_ratings_off_the_scale_are_refused(model: Means) -> None:
    with pytest.raises(UnknownIdError, match="'nothing'"):
        model.recommend({1: 3.0, "nothing": 4.0})
    for rating in (0.4, 5.1, -3.0, float("nan"), float("inf")):
        with pytest.raises(DataError, match=r"item 2 must be between 0\.5 and 5"):
            model.recommend({1: 3.0, 2: rating})
    with pytest.raises(UnknownIdError, match="'nobody'"):
        list(model.recommend_many([1, "nobody"]))
    for n in (0, -1):
        with pytest.raises(DataError, match=f"n must be a whole number of at least 1. Got {n}"):
            model.recommend(1, n=n)


def test_nothing_before_fit(tmp_path: Path) -> None:
    model = Means()
    for ask in (
        lambda: predict(model, [(1, 1)]),
        lambda: model.recommend(1),
        lambda: model.recommend({1: 3.0}),
        lambda: list(model.recommend_many()),
        lambda: model.score(1),
        lambda: model.add_ratings(cells([(1, 1, 3.0)])),
        lambda: model.remove_ratings([(1, 1)]),
        lambda: model.save(tmp_path / "model"),
    ):
        with pytest.raises(NotFittedError, match="fit"):
            ask()
    assert not (tmp_path / "model").exists()


def test_no_ratings_are_refused() -> None:
    every = cells(small_cells())
    with pytest.raises(DataError, match="no ratings"):
        Means().fit(every.select(np.zeros(len(every), np.bool_)))


def test_a_refused_rating_changes_nothing(changing: Means) -> None:
    pairs = all_pairs(changing)[::11]
    before, users = predict(changing, pairs), len(changing.users)
    with pytest.raises(DataError, match=r"6 is outside the model's scale of 0\.5 to 5"):
        changing.add_ratings(cells([(3, 5, 1.0), (777, 5, 6.0)], (0, 10)))
    assert len(changing.users) == users
    np.testing.assert_array_equal(predict(changing, pairs), before)
    assert len(list(changing.recommend_many(n=1))) == users


def test_a_part_of_ratings_whose_vocabulary_knows_more(changing: Means) -> None:
    """Ids that come without a rating are as cold as any other."""
    every = cells([(801, 901, 5.0), (802, 902, 4.0), (803, 3, 1.0)], STARS)
    changing.add_ratings(every.select(np.array([False, False, True])))
    assert np.isfinite(predict(changing, [(801, 901), (802, 3), (1, 902), (803, 902)])).all()
    assert_same_recommendations(changing.recommend(801), changing.recommend("nobody"))
    assert len(list(changing.recommend_many(n=1))) == len(changing.users)
