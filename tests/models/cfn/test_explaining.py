"""Explanations add up, say what would change if a rating did, and agree with leaving ratings out."""

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cofill.models.predictor
from cofill import CFN, Features, algorithm
from cofill.data.datasets.world import World, make_world
from cofill.data.datasets.world_words import OCCUPATIONS
from cofill.errors import DataError, UnknownIdError
from cofill.models.recommender import Recommender
from cofill.models.results import Explanation

Floats = npt.NDArray[np.float32]
USERS, ITEMS = 150, 80
PERSON = {"age": 31, "occupation": OCCUPATIONS[1]}


def why(model: Recommender, *asked: Any, **more: Any) -> Explanation:
    """A predicted rating, explained."""
    return model.explain(*asked, by="rating", **more)


def whys(model: Recommender, *asked: Any, **more: Any) -> list[Explanation]:
    return model.explain_many(*asked, by="rating", **more)


@cache
def world() -> World:
    return make_world(users=USERS, items=ITEMS, ratings=4500, seed=1)


@cache
def people() -> Features:
    known = world().people
    jobs = [OCCUPATIONS[index] for index in known.occupations]
    return Features.read(pl.DataFrame({"user": range(1, USERS + 1), "age": known.ages, "occupation": jobs}))


@cache
def _cfn(**changes: Any) -> CFN:
    described = changes.pop("described", False)
    quick = {"hidden": 24, "epochs": 20, "validation": 0, "threads": 1}
    return CFN(**{**quick, **changes}).fit(world().ratings, user_features=people() if described else None)


def cfn(**changes: Any) -> CFN:
    """A trained model of one's own."""
    return copy.deepcopy(_cfn(**changes))


@cache
def baseline(name: str) -> Recommender:
    few: dict[str, Any] = {"als-wr": {"rank": 6}, "autorec": {"hidden": 16, "epochs": 30, "threads": 1}}
    return algorithm(name)(**few.get(name, {})).fit(world().ratings)


VARIETIES: tuple[dict[str, Any], ...] = (
    {"orientation": "user"},
    {"orientation": "user", "described": True},
    {"orientation": "user", "hidden": (26, 24, 26), "activation": "sigmoid", "output": "tanh", "described": True},
    {"orientation": "user", "mean_damping": 0.0, "length_power": 0.0},
    {"orientation": "item"},
    {"orientation": "item", "described": True},
    {"orientation": "item", "output": "tanh", "described": True},
    {"orientation": "item", "mean_damping": 0.0},
)

ratings_of_somebody = st.dictionaries(st.integers(1, ITEMS), st.integers(1, 10).map(lambda half: half / 2), max_size=30)


def amounts(explanation: Explanation) -> dict[Any, float]:
    return {entry.item or entry.feature: entry.amount for entry in explanation.contributions}


def weight(explanation: Explanation) -> float:
    return sum(abs(entry.amount) for entry in explanation.contributions)


def assert_adds_up(model: Recommender, user: Any, explanation: Explanation, **more: Any) -> None:
    parts = explanation.base + sum(entry.amount for entry in explanation.contributions) + explanation.remainder
    assert parts == pytest.approx(explanation.value, abs=1e-4)
    index = model.items.index(explanation.item)
    assert explanation.clipped == pytest.approx(float(model.score(user, by="rating", **more)[index]), abs=1e-6)
    assert explanation.clipped == min(max(explanation.value, model.scale.low), model.scale.high)
    of_a_stranger = model.explain({}, explanation.item, by="rating").value
    assert explanation.base == pytest.approx(of_a_stranger, abs=1e-6)


# Laws


@settings(max_examples=60, deadline=None)
@given(
    variety=st.sampled_from(VARIETIES),
    ratings=ratings_of_somebody,
    item=st.integers(1, ITEMS),
    about=st.sampled_from([None, PERSON, {"age": None, "occupation": OCCUPATIONS[3]}]),
)
def test_nothing_remains_of_somebody_new(
    variety: dict[str, Any], ratings: dict[int, float], item: int, about: Mapping[str, object] | None
) -> None:
    model = _cfn(**variety)
    about = about if variety.get("described") else None
    explanation = why(model, ratings, item, features=about)
    assert_adds_up(model, ratings, explanation, features=about)
    assert abs(explanation.remainder) < 1e-3
    told = {column for column, value in (about or {}).items() if value is not None}
    rated = {entry.item: entry.rating for entry in explanation.contributions if entry.item is not None}
    assert rated == ratings
    assert {entry.feature for entry in explanation.contributions if entry.item is None} <= told
    sizes = [abs(entry.amount) for entry in explanation.contributions]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("variety", VARIETIES, ids=str)
def test_of_trained_users_little_remains(variety: dict[str, Any]) -> None:
    """Rows of users: rounding. Rows of items: what training knows beyond the closed form, where that counts at all."""
    model = _cfn(**variety)
    shares = []
    for user in range(1, USERS + 1, 10):
        for explanation in whys(model, user, range(1, ITEMS + 1, 9)):
            assert_adds_up(model, user, explanation)
            shares.append(abs(explanation.remainder) / weight(explanation))
    if variety["orientation"] == "user":
        assert max(shares) < 0.001
    else:
        assert np.mean(shares) < 0.05


@settings(max_examples=20, deadline=None)
@given(orientation=st.sampled_from(["user", "item"]), ratings=ratings_of_somebody, draw=st.randoms())
def test_the_order_of_ratings_does_not_matter(orientation: str, ratings: dict[int, float], draw: Any) -> None:
    shuffled = list(ratings.items())
    draw.shuffle(shuffled)
    model = _cfn(orientation=orientation)
    assert why(model, dict(shuffled), 5) == why(model, ratings, 5)


@pytest.mark.parametrize("variety", VARIETIES, ids=str)
def test_of_a_stranger_there_is_nothing_to_tell(variety: dict[str, Any]) -> None:
    model = _cfn(**variety)
    strangers: list[Any] = [{}, "nobody"]
    for stranger in strangers:
        explanation = why(model, stranger, 7)
        assert (explanation.contributions, explanation.value) == ([], explanation.base)
        assert explanation.remainder == 0


@pytest.mark.parametrize("orientation", ["user", "item"])
def test_features_speak_for_who_has_rated_nothing(orientation: str) -> None:
    model = _cfn(orientation=orientation, described=True)
    explanation = why(model, {}, 7, features=PERSON)
    assert set(amounts(explanation)) == {"age", "occupation"}
    assert abs(explanation.remainder) < 1e-4
    trained = amounts(why(model, 1, 7))
    assert {"age", "occupation"} <= set(trained)


# What the amounts mean


@settings(max_examples=30, deadline=None)
@given(
    ratings=ratings_of_somebody.filter(lambda found: len(found) > 1), item=st.integers(1, ITEMS), new=st.floats(0.5, 5)
)
def test_with_rows_of_items_an_amount_follows_its_rating_as_the_prediction_does(
    ratings: dict[int, float], item: int, new: float
) -> None:
    model = _cfn(orientation="item", described=True)
    changed = min(ratings)
    before = why(model, ratings, item)
    after = why(model, ratings | {changed: new}, item)
    moved = amounts(after)[changed] - amounts(before)[changed]
    assert moved == pytest.approx(after.value - before.value, abs=1e-4)


@pytest.mark.parametrize("orientation", ["user", "item"])
def test_a_better_rating_of_a_similar_item_pushes_more(orientation: str) -> None:
    model = _cfn(orientation=orientation)
    raised = []
    for item in range(1, ITEMS + 1, 4):
        (like,) = model.similar(item, 1)
        others = {other: 3.5 for other in range(1, 40, 5) if other not in (item, like.item)}
        low, high = (why(model, others | {like.item: rating}, item) for rating in (2.0, 5.0))
        raised.append(amounts(high)[like.item] > amounts(low)[like.item])
    assert np.mean(raised) == 1


@pytest.mark.parametrize("orientation", ["user", "item"])
def test_the_strongest_agree_with_leaving_them_out(orientation: str) -> None:
    model = _cfn(orientation=orientation)
    agree = []
    for user in range(1, USERS, 8):
        indices, known = model.predictor.known.row(model.users.index(user))
        ratings = {model.items.id(int(at)): float(rating) for at, rating in zip(indices, known, strict=True)}
        for explanation in whys(model, ratings, [9, 33]):
            for entry in explanation.contributions[:3]:
                without = {item: rating for item, rating in ratings.items() if item != entry.item}
                lost = explanation.value - why(model, without, explanation.item).value
                agree.append(np.sign(lost) == np.sign(entry.amount))
    assert len(agree) > 100
    assert np.mean(agree) > 0.93


def test_explanations_follow_what_came_later() -> None:
    """A rating of an item that the network never saw counts by the means alone; one that is gone does not count."""
    for orientation in ("user", "item"):
        model = cfn(orientation=orientation, described=True)
        model.add_ratings([(1, 900, 5.0), (901, 900, 1.0), (901, 3, 4.0), (2, 900, 4.0)])
        gone = next(entry.item for entry in why(model, 1, 9).contributions if entry.item is not None)
        model.remove_ratings([(1, gone)])
        model.describe_users({902: PERSON})
        for user in (1, 2, 901, 902):
            for explanation in whys(model, user, [9, 900]):
                assert_adds_up(model, user, explanation)
                assert gone not in amounts(explanation) or user != 1
                if orientation == "user" or user > 900:
                    assert abs(explanation.remainder) < 1e-3
        assert 900 in amounts(why(model, 1, 9))
        assert set(amounts(why(model, 902, 9))) == {"age", "occupation"}


# Other algorithms


@pytest.mark.parametrize("name", ["means", "als-wr", "autorec"])
@pytest.mark.parametrize("user", [4, {1: 4.5, 7: 1.0, 30: 3.0}, {}, "nobody"], ids=str)
def test_every_algorithm_explains(name: str, user: Any) -> None:
    model = baseline(name)
    for explanation in whys(model, user, [2, 9]):
        assert_adds_up(model, user, explanation)
        assert bool(explanation.contributions) == (user not in ({}, "nobody"))
        if name != "autorec" or user != 4:  # whose columns are not solved for, so training knows more
            assert abs(explanation.remainder) < 5e-3


def test_very_many_ratings_are_replaced_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are least unusual."""
    model = baseline("als-wr")
    ratings = {item: 0.5 + item % 10 / 2 for item in range(1, 21)}
    monkeypatch.setattr(cofill.models.predictor, "_ONE_BY_ONE", 3)
    explanation = why(model, ratings, 50)
    assert_adds_up(model, ratings, explanation)
    assert abs(explanation.remainder) < 1e-3
    assert len(set(amounts(explanation).values())) == 4


# Calls


def test_many_are_explained_as_one_by_one() -> None:
    model = _cfn(orientation="item", described=True)
    together = whys(model, 3, [5, 11, 5])
    assert [explanation.item for explanation in together] == [5, 11, 5]
    for explanation in together:
        alone = why(model, 3, explanation.item)
        assert explanation.value == pytest.approx(alone.value, abs=1e-5)
        assert amounts(explanation) == pytest.approx(amounts(alone), abs=1e-5)
    assert whys(model, 3, []) == []


def test_titles_and_ids_come_back_as_they_went_in() -> None:
    model = _cfn(orientation="item")
    explanation = why(model, "3", "5")
    assert (explanation.item, explanation.title) == (5, model.titles[5])
    first = explanation.contributions[0]
    assert isinstance(first.item, int)
    assert first.title == model.titles[first.item]


def test_what_cannot_be_explained() -> None:
    model = _cfn(orientation="item", described=True)
    with pytest.raises(UnknownIdError, match=r"^item 999 is not in the model; check the id$"):
        whys(model, 1, [1, 999])
    with pytest.raises(UnknownIdError, match=r"^item 999 is not in the model; check the id, or leave it out$"):
        why(model, {999: 3.0}, 1)
    with pytest.raises(DataError, match=r"^features describe a new user, and 1 is an id"):
        why(model, 1, 1, features=PERSON)
    with pytest.raises(DataError, match="cannot use the features of a new user"):
        why(baseline("als-wr"), {}, 1, features=PERSON)
