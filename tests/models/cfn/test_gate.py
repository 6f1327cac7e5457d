"""The network beside biases with slopes: which of them is believed by how many ratings there are."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cofill import CFN, Features, Ratings, split
from cofill.data.datasets.world import make_world
from cofill.exchange import ALONE
from cofill.models.cfn.blend import Gated, Judged, best_halves, gate
from cofill.models.predictor import Given

USERS, ITEMS = 160, 70
QUICK: dict[str, Any] = {"hidden": 24, "epochs": 6, "threads": 1}


@cache
def world() -> tuple[Ratings, Ratings, Features, Features]:
    """The training part, without some users and items, what is known of these, and features of users and of items."""
    made = make_world(users=USERS, items=ITEMS, ratings=4_000, seed=2)
    ratings = made.ratings
    cold = (ratings.user_index % 10 == 0) | (ratings.item_index % 10 == 0)
    about = made.people.ages.astype(np.float32)[:, None] / 30 - 1
    users = Features.read((np.arange(1, USERS + 1), about), name="age")
    items = Features.read((np.arange(1, ITEMS + 1), made.films.genres[:, :4].astype(np.float32)), name="genres")
    return ratings.select(~cold), ratings.select(cold), users, items


@cache
def fitted(orientation: str) -> CFN:
    train, _, users, items = world()
    return CFN(orientation=orientation, **QUICK).fit(train, user_features=users, item_features=items)


def gated(model: CFN) -> Gated:
    assert isinstance(model.predictor, Gated)
    return model.predictor


def test_the_weight_of_the_network() -> None:
    counts = np.array([0, 1, 3, 1000])
    for half in (0.0, 1.0, 3.0):
        weight = gate((half, 4.0), counts, np.array(3))
        assert weight[0] == 0
        assert (np.diff(weight) >= 0).all()
        assert weight[2] == pytest.approx(9 / (9 + half**2) * 9 / 25)
        assert not gate((half, half), counts, np.array(0)).any()


def test_the_gate_is_where_validation_ratings_are_predicted_best() -> None:
    rng = np.random.default_rng(0)
    users, items = rng.integers(1, 30, 4000), rng.integers(1, 30, 4000)
    network, biases = (rng.normal(size=4000).astype(np.float32) for _ in range(2))
    for halves in ((0.0, 0.0), (3.0, 0.0), (5.0, 20.0)):
        actual = biases + gate(halves, users, items) * (network - biases)
        assert best_halves(network, biases, actual, users, items, ALONE) == halves


@pytest.mark.parametrize("orientation", ["item", "user", "both"])
def test_without_ratings_the_biases_with_slopes_are_predicted(orientation: str) -> None:
    model = fitted(orientation)
    predictor = gated(model)
    users, items = np.meshgrid(np.arange(len(model.users)), np.arange(len(model.items)), indexing="ij")
    found, biases = (
        of(users.ravel().astype(np.int32), items.ravel().astype(np.int32)).reshape(users.shape)
        for of in (predictor.entries, predictor.means.at_pairs)
    )
    cold_users, cold_items = predictor.user_counts == 0, predictor.item_counts == 0
    assert cold_users.any()
    assert cold_items.any()
    cold = cold_users[:, None] | cold_items
    np.testing.assert_array_equal(found[cold], biases[cold])
    assert (found[~cold] != biases[~cold]).any()
    np.testing.assert_allclose(predictor.users(np.arange(len(model.users))), found, rtol=0, atol=1e-4)
    about = predictor.user_features.values[3]
    nothing = np.empty(0, np.int32), np.empty(0, np.float32)
    alone = predictor.means.of_new_row(*nothing, about, slice(None))
    np.testing.assert_array_equal(predictor.new_user(*nothing, about), alone)


@pytest.mark.parametrize("orientation", ["item", "user", "both"])
def test_known_users_are_folded_in_as_they_are_known(orientation: str) -> None:
    """Shares add up to what is predicted, for users with ratings and for users with features alone."""
    predictor = gated(fitted(orientation))
    items = np.arange(ITEMS, dtype=np.int32)
    nobody = predictor.entries(np.full(ITEMS, -1, np.int32), items)
    for user in (1, 11):
        given = Given(*predictor.known.row(user), predictor.user_features.values[user], (1,), user)
        shares = predictor.user_shares(given, items)
        whole = predictor.new_user(given.others, given.ratings, given.features)
        tolerance = 0.02 if orientation != "both" else 0.3
        np.testing.assert_allclose(
            nobody + shares.ratings.sum(1) + shares.features.sum(1), whole, rtol=0, atol=tolerance
        )


def test_it_is_kept_and_follows_changes(tmp_path: Path) -> None:
    train, _, users, items = world()
    model = CFN(**QUICK).fit(train, user_features=users, item_features=items)
    cold = int(model.users.id(int(np.flatnonzero(gated(model).user_counts == 0)[0])))
    pairs = [(user, item) for user in (1, 2, cold, 99_999) for item in (3, 10, 77_777)]
    before = model.predict(pairs)
    model.add_ratings([(cold, 3, 1.0), (cold, 5, 1.0), (50_000, 3, 5.0)])
    model.save(tmp_path / "model")
    again = CFN.load(tmp_path / "model")
    assert gated(again).halves == gated(model).halves
    np.testing.assert_allclose(again.predict(pairs), model.predict(pairs), rtol=0, atol=1e-4)
    assert model.predict([(cold, 3)])[0] < before[6]
    model.remove_ratings([(cold, 3), (cold, 5), (50_000, 3)])
    np.testing.assert_allclose(model.predict(pairs), before, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("kept", "halves"), [("item", (5.0, 3.0)), ("user", (1.0, 40.0))])
def test_a_network_that_is_not_kept_has_no_gate(
    kept: str, halves: tuple[float, float], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    train, _, users, items = world()
    found = iter([(3.0, 5.0), (1.0, 40.0)])  # of rows and columns: items are read first
    monkeypatch.setattr("cofill.models.cfn.fit.best_halves", lambda *_: next(found))
    monkeypatch.setattr(Judged, "keeps", property(lambda judged: (kept == "user", kept == "item")))
    model = CFN(orientation="both", **QUICK).fit(train, user_features=users, item_features=items)
    model.save(tmp_path / "model")
    assert gated(CFN.load(tmp_path / "model")).halves == gated(model).halves == halves


def test_features_that_say_nothing_do_little_harm() -> None:
    made = make_world(users=USERS, items=ITEMS, ratings=4_000, seed=3)
    train, test = split(made.ratings, "random", 0.8, 0)
    rng = np.random.default_rng(0)
    users, items = (
        Features.read((np.arange(1, count + 1), rng.normal(size=(count, 6)).astype(np.float32)), name="noise")
        for count in (USERS, ITEMS)
    )
    errors = [
        float(np.sqrt(np.mean((model.predict(test) - test.values) ** 2)))
        for model in (CFN(**QUICK).fit(train), CFN(**QUICK).fit(train, user_features=users, item_features=items))
    ]
    assert errors[1] < 1.01 * errors[0]
