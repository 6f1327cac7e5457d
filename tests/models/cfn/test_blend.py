"""Two networks in one model, and biases beside them: the weights between, which are kept, and what a file has of it."""

import copy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill import CFN, Features, Ratings, split
from cofill.data.datasets.world import make_world
from cofill.data.sparse import SparseRows
from cofill.data.splits import random_split
from cofill.exchange import ALONE
from cofill.models.cfn.blend import Ensemble, Gated, Judged, StackingWeight, best_halves, gate
from cofill.models.predictor import Given
from cofill.progress import Step
from tests.models.contract import rmse

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]

QUICK: dict[str, Any] = {"orientation": "both", "hidden": 12, "epochs": 6, "batch": 10, "threads": 1}
UNEVEN = StackingWeight(np.array([0.4, 0.45, -0.4, 0.05]), np.array([2.5, 3.0]))
"""Not the same anywhere, and at its bounds in some places."""


@cache
def world() -> tuple[Ratings, Ratings]:
    return random_split(make_world(users=120, items=80, ratings=3000, seed=5).ratings, ratio=0.9, seed=0)


@cache
def _fitted() -> CFN:
    """Without a validation part: each counts half."""
    return CFN(**QUICK, validation=0.0).fit(world()[0])


@cache
def larger_world(seed: int = 1) -> tuple[Ratings, Ratings]:
    """Whose validation part tells that both networks know something of taste."""
    return random_split(make_world(users=200, items=150, ratings=12_000, seed=seed).ratings, ratio=0.9, seed=0)


@cache
def _judged(seed: int = 1) -> CFN:
    return CFN(**QUICK, validation=0.1).fit(larger_world(seed)[0])


def uneven() -> CFN:
    """Both networks with a weight that tells apart who is asked about, to be changed."""
    model = copy.deepcopy(_fitted())
    ensemble_of(model).stacking = UNEVEN
    return model


def ensemble_of(model: CFN) -> Ensemble:
    assert isinstance(model.predictor, Ensemble)
    return model.predictor


class Said:
    """Validation ratings, and predictions of them by two networks that are this far off."""

    def __init__(self, off_by_user: float, off_by_item: float, *, n: int = 4000, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.actual = rng.uniform(1, 5, n).astype(np.float32)
        self.by_user, self.by_item = (
            (self.actual + rng.normal(0, off, n)).astype(np.float32) for off in (off_by_user, off_by_item)
        )
        self.user_counts, self.item_counts = (rng.integers(0, 300, n) for _ in range(2))

    def judged(self) -> Judged:
        return Judged(self.by_user, self.by_item, self.actual, self.user_counts, self.item_counts)


# The weight


@settings(deadline=None)
@given(
    n=st.integers(0, 40),
    seed=st.integers(0, 1000),
    size=st.sampled_from([0.0, 1e-6, 1.0, 1e6]),
    ask=st.integers(0, 10**9),
)
def test_weights_are_within_0_and_1(n: int, seed: int, size: float, ask: int) -> None:
    rng = np.random.default_rng(seed)
    by_user, by_item, actual = (size * rng.normal(size=(3, n))).astype(np.float32)
    counts = rng.integers(0, 10_000, (2, n))
    fitted = StackingWeight.fit(by_user, by_item, actual, *counts)
    weight = fitted.weight(np.array([0, 1, 7, ask])[:, None], np.array([0, 3, ask]))
    assert weight.shape == (4, 3)
    assert weight.dtype == np.float32
    assert ((weight >= 0) & (weight <= 1)).all()


def test_a_weight_believes_the_network_that_is_right() -> None:
    for off, keeps, expected in (((0.01, 1.0), (True, False), 1.0), ((1.0, 0.01), (False, True), 0.0)):
        said = Said(*off)
        judged = said.judged()
        weight = judged.stacking.weight(said.user_counts, said.item_counts)
        np.testing.assert_allclose(weight, expected, rtol=0, atol=0.02)
        assert judged.keeps == keeps
        assert judged.rmse == pytest.approx(0.01, rel=0.05)


def test_networks_that_err_alike_and_apart_are_both_kept() -> None:
    """Errors of variances a and b that know nothing of each other: b / (a + b) is best."""
    said = Said(0.6, 0.9)
    judged = said.judged()
    weight = judged.stacking.weight(said.user_counts, said.item_counts)
    best = 0.9**2 / (0.6**2 + 0.9**2)
    assert weight.mean() == pytest.approx(best, abs=0.02)
    np.testing.assert_allclose(weight, best, rtol=0, atol=0.12)
    assert judged.keeps == (True, True)
    assert judged.rmse == pytest.approx(0.6 * np.sqrt(best), rel=0.03)


def test_the_weight_follows_the_numbers_of_ratings() -> None:
    """One network is right about users with many ratings, the other about items with many."""
    said = Said(1.0, 1.0, n=20_000)
    rng = np.random.default_rng(1)
    for predicted, counts in ((said.by_user, said.user_counts), (said.by_item, said.item_counts)):
        predicted[:] = said.actual + rng.normal(size=len(counts)) / np.sqrt(1 + counts)
    weight = said.judged().stacking
    few, many = np.array(2), np.array(200)
    assert weight.weight(many, few) > 0.85
    assert weight.weight(few, many) < 0.15
    assert weight.weight(many, many) == pytest.approx(0.5, abs=0.05)


def test_of_few_ratings_the_plain_mean_is_left() -> None:
    said = Said(0.01, 1.0, n=1)
    assert said.judged().stacking.weight(np.array(3), np.array(3)) == pytest.approx(0.5, abs=0.1)


def test_networks_that_agree_are_not_both_kept() -> None:
    said = Said(0.5, 0.5)
    said.by_user[:] = said.by_item
    assert said.judged().keeps == (False, True)
    assert said.judged().rmse == pytest.approx(0.5, rel=0.05)


def test_answers_of_both_are_brought_into_one_order() -> None:
    """Of 150 ratings of 30 users and 20 items, 50 are held out."""
    said, rng = Said(0.3, 0.4, n=50), np.random.default_rng(2)
    users, items = np.divmod(np.sort(rng.permutation(30 * 20)[:150]), 20)
    held_out = np.sort(rng.permutation(150)[:50])
    values = np.full(150, 3, np.float32)
    values[held_out] = said.actual
    indptr = np.concatenate([[0], np.cumsum(np.bincount(users, minlength=30))]).astype(np.int64)
    rows = SparseRows(indptr, items.astype(np.int32), values, 20)
    left = np.setdiff1d(np.arange(150), held_out)
    counts = (np.bincount(ids[left], minlength=30)[ids[held_out]] for ids in (users, items))
    order = np.lexsort((users[held_out], items[held_out]))
    found = Judged.of(said.by_user, said.by_item[order], rows, held_out)
    expected = Judged(said.by_user, said.by_item, said.actual, *counts)
    np.testing.assert_array_equal(found.stacking.coefficients, expected.stacking.coefficients)
    assert found.rmse == expected.rmse


# What is predicted


def test_every_question_is_answered_as_the_weight_says() -> None:
    found = ensemble_of(uneven())
    weight = UNEVEN.weight(found.user_counts[:, None], found.item_counts)
    assert len(np.unique(weight)) > 100
    assert (weight.min(), weight.max()) == (0, 1)
    users, items = np.indices(weight.shape, np.int32).reshape(2, -1)
    by_user, by_item = (part.entries(users, items).reshape(weight.shape) for part in (found.by_user, found.by_item))
    expected = weight * by_user + (1 - weight) * by_item

    def same(told: Floats, wanted: Floats) -> None:
        np.testing.assert_allclose(told, wanted, rtol=0, atol=1e-5)

    same(found.entries(users, items), expected.ravel())
    same(found.user(7), expected[7])
    some = np.array([3, 60, 5])
    same(found.users(some), expected[some])
    same(found.new_user(*found.known.row(7), None, some.astype(np.int32)), found.new_user(*found.known.row(7))[some])


def test_shares_add_up() -> None:
    """To the prediction less what the weight, as it is for these ratings, makes of the two that know of none."""
    found = ensemble_of(uneven())
    nothing = (np.empty(0, np.int32), np.empty(0, np.float32))
    for user in (0, 5, 77):
        rated = found.known.row(user)
        asked = np.arange(0, len(found.item_counts), 3, dtype=np.int32)
        shares = found.user_shares(Given(*rated, None, (), user), asked)
        assert shares.ratings.shape == (len(asked), len(rated[0]))
        weight = UNEVEN.weight(np.array(len(rated[0])), found.item_counts[asked])
        by_user, by_item = (part.new_user(*nothing)[asked] for part in (found.by_user, found.by_item))
        base = by_item + weight * (by_user - by_item)
        np.testing.assert_allclose(base + shares.ratings.sum(1), found.user(user)[asked], rtol=0, atol=1e-3)


# Training and the file


def test_both_are_not_worse_than_the_better() -> None:
    """By more than a weight that was learned on a thousand validation ratings may be wrong, in the mean of worlds."""
    ratios = []
    for seed in (1, 2, 4, 5):  # of 3, one network alone is kept
        _, test = larger_world(seed)
        model = _judged(seed)
        found_by = ensemble_of(model)
        pairs = (test.user_index.astype(np.int32), test.item_index.astype(np.int32))
        found = {name: rmse(part.entries(*pairs), test.values) for name, part in (
            ("both", found_by), ("user", found_by.by_user), ("item", found_by.by_item))}  # fmt: skip
        ratios.append(found["both"] / min(found["user"], found["item"]))
        assert found["both"] < max(found["user"], found["item"])
        assert {record.rows for record in model.history} == {"user", "item"}
    assert np.mean(ratios) < 1.002


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    for model, (_, test) in ((uneven(), world()), (_judged(), larger_world())):
        model.save(tmp_path / "model")
        loaded = CFN.load(tmp_path / "model")
        weight, again = ensemble_of(model).stacking, ensemble_of(loaded).stacking
        np.testing.assert_array_equal(again.coefficients, weight.coefficients)
        np.testing.assert_array_equal(again.centres, weight.centres)
        np.testing.assert_array_equal(loaded.predict(test), model.predict(test))
        assert loaded.history == model.history
        assert loaded.facts() == model.facts()


@pytest.mark.parametrize("worse", ["user", "item"])
def test_a_network_of_no_help_is_not_kept(worse: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The other is as if it had been trained alone, from the validation part to the file."""
    monkeypatch.setattr(Judged, "keeps", property(lambda judged: (worse == "item", worse == "user")))
    model = CFN(**QUICK, validation=0.1).fit(world()[0])
    (side,) = model.networks
    assert side != worse
    assert ("other network", "was of no help by validation, and is not kept") in model.facts()
    model.save(tmp_path / "model")
    loaded = CFN.load(tmp_path / "model")
    assert loaded.orientation == "both"
    assert list(loaded.networks) == [side]
    np.testing.assert_array_equal(loaded.predict(world()[1]), model.predict(world()[1]))
    assert loaded.facts() == model.facts()


def test_without_validation_ratings_each_counts_half() -> None:
    model = _fitted()
    assert ensemble_of(model).stacking.weight(np.array([0, 5, 900]), np.array([3, 0, 4])).tolist() == [0.5] * 3
    assert model.measures["validation_rmse"] is None


def test_progress_goes_from_one_network_to_the_other() -> None:
    steps: list[Step] = []
    CFN(**QUICK | {"epochs": 2}).fit(world()[0], progress=steps.append)
    steps = [step for step in steps if ", rows are " in step.what]
    shares = [step.share for step in steps]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)
    sides = [step.what.rpartition(" ")[2] for step in steps]
    assert sides == sorted(sides)
    assert set(sides) == {"items", "users"}


# The network beside biases with slopes: which of them is believed by how many ratings there are

USERS, ITEMS = 160, 70
ONE_QUICK: dict[str, Any] = {"hidden": 24, "epochs": 6, "threads": 1}


@cache
def described_world() -> tuple[Ratings, Ratings, Features, Features]:
    """The training part, without some users and items, what is known of these, and features of users and of items."""
    made = make_world(users=USERS, items=ITEMS, ratings=4_000, seed=2)
    ratings = made.ratings
    cold = (ratings.user_index % 10 == 0) | (ratings.item_index % 10 == 0)
    about = made.people.ages.astype(np.float32)[:, None] / 30 - 1
    users = Features.read((np.arange(1, USERS + 1), about), name="age")
    items = Features.read((np.arange(1, ITEMS + 1), made.films.genres[:, :4].astype(np.float32)), name="genres")
    return ratings.select(~cold), ratings.select(cold), users, items


@cache
def with_features(orientation: str) -> CFN:
    train, _, users, items = described_world()
    return CFN(orientation=orientation, **ONE_QUICK).fit(train, user_features=users, item_features=items)


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
    model = with_features(orientation)
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
    predictor = gated(with_features(orientation))
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
    model = copy.deepcopy(with_features("item"))
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
    train, _, users, items = described_world()
    found = iter([(3.0, 5.0), (1.0, 40.0)])  # of rows and columns: items are read first
    monkeypatch.setattr("cofill.models.cfn.fit.best_halves", lambda *_: next(found))
    monkeypatch.setattr(Judged, "keeps", property(lambda judged: (kept == "user", kept == "item")))
    model = CFN(orientation="both", **ONE_QUICK).fit(train, user_features=users, item_features=items)
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
        for model in (
            CFN(**ONE_QUICK).fit(train),
            CFN(**ONE_QUICK).fit(train, user_features=users, item_features=items),
        )
    ]
    assert errors[1] < 1.01 * errors[0]
