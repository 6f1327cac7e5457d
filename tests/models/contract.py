"""The contract of a model: laws that every one of them keeps, checked on worlds whose right answer is known.

A model passes it with a subclass of `LearnerContract` that says how to make a small quick one and how well it does:

    class TestMine(LearnerContract):
        expected_rmse = 0.86

        def make(self, **changes: Any) -> Mine:
            return Mine(**changes)
"""

import copy
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cofill.data.datasets.world import World, make_world
from cofill.data.ratings import Ratings
from cofill.data.splits import random_split
from cofill.data.vocabulary import Id, Vocabulary
from cofill.models.lists.rules import By
from cofill.models.recommender import Recommender
from cofill.models.results import Recommendation
from cofill.progress import Step

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Cells = list[tuple[Id, Id, float]]

USERS, ITEMS = 400, 200
NEW_USERS, NEW_ITEMS = 25, 12  # the last ones, which training does not see
STARS = (0.5, 5.0)


Model = Recommender


class Parts(NamedTuple):
    """A world in parts. Ids are world indices + 1."""

    world: World
    train: Ratings
    test: Ratings
    of_new_users: Ratings  # of trained items
    of_new_items: Ratings  # by trained users


@cache
def parts() -> Parts:
    world = make_world(users=USERS, items=ITEMS, ratings=40_000, seed=3)
    ratings = world.ratings
    new_user = ratings.user_index >= USERS - NEW_USERS
    new_item = ratings.item_index >= ITEMS - NEW_ITEMS
    train, test = random_split(ratings.select(~new_user & ~new_item), ratio=0.9, seed=0)
    return Parts(
        world,
        only_rated(train),
        only_rated(test),
        only_rated(ratings.select(new_user & ~new_item)),
        only_rated(ratings.select(~new_user & new_item)),
    )


def only_rated(ratings: Ratings) -> Ratings:
    """The same ratings with vocabularies that know of nobody else."""
    return Ratings.read(ratings.to_polars(), scale=(ratings.scale.low, ratings.scale.high))


def cells(triples: Iterable[tuple[Id, Id, float]], scale: tuple[float, float] = (1, 5)) -> Ratings:
    return Ratings.read(list(triples), scale=scale)


def small_cells(seed: int = 0, *, users: int = 14, items: int = 11) -> Cells:
    """Users and items of two kinds who like their own kind; not all of it is known."""
    rng = np.random.default_rng(seed)
    return [
        (user, item, 4.0 + rng.integers(2) if (user + item) % 2 else 1.0 + rng.integers(2))
        for user in range(users)
        for item in range(items)
        if rng.random() < 0.7
    ]


def in_another_order(data: Ratings) -> Ratings:
    """The same ratings of the same ids, which have other numbers."""
    rng = np.random.default_rng(0)
    users, items = (rng.permutation(len(ids)) for ids in (data.users, data.items))
    user_index, item_index = np.argsort(users)[data.user_index], np.argsort(items)[data.item_index]
    order = np.lexsort((item_index, user_index))
    return Ratings(
        Vocabulary(data.users.array()[users]),
        Vocabulary(data.items.array()[items]),
        user_index[order].astype(np.int32),
        item_index[order].astype(np.int32),
        data.values[order],
        None,
        data.scale,
    )


def rmse(predicted: npt.NDArray[Any], actual: npt.NDArray[Any]) -> float:
    return float(np.sqrt(np.mean((predicted - actual) ** 2, dtype=np.float64)))


def damped_means(index: npt.NDArray[Any], values: npt.NDArray[Any], size: int, damping: float) -> Doubles:
    """(size,): means of values (n,), each with `damping` values of 0 added to it."""
    sums = np.bincount(index, values, size)
    means: Doubles = sums / (np.bincount(index, minlength=size) + damping)
    return means


def deviations_of_learned_variance(train: Ratings) -> tuple[Doubles, Doubles]:
    """(users,), (items,): what the fitted means are expected to say, by plain mean-field EM."""
    indices = (train.user_index, train.item_index)
    counts = [np.bincount(index) for index in indices]  # all of them have ratings
    deviations, variances, noise = [np.zeros(len(count)) for count in counts], [0.1, 0.1], 0.7
    centred = train.values.astype(np.float64) - train.values.mean(dtype=np.float64)
    for _ in range(400):
        for side, index in enumerate(indices):  # each is what the other leaves over
            left = centred - deviations[1 - side][indices[1 - side]]
            deviations[side] = damped_means(index, left, len(counts[side]), noise / variances[side])
        posterior = [noise / (count + noise / variance) for count, variance in zip(counts, variances, strict=True)]
        left = centred - deviations[0][indices[0]] - deviations[1][indices[1]]
        # One user and one item more, of the usual damping, keep variances away from zero where there are few.
        variances = [
            ((found**2 + unsure).sum() + noise / 7) / (len(found) + 1)
            for found, unsure in zip(deviations, posterior, strict=True)
        ]
        noise = np.mean(left**2 + posterior[0][indices[0]] + posterior[1][indices[1]])
    return deviations[0], deviations[1]


def rmse_of_means(train: Ratings, test: Ratings) -> float:
    """Overall mean, what an item is above it, what a user is above both; each damped."""
    overall = float(train.values.mean())
    items = damped_means(train.item_index, train.values - overall, len(train.items), 5)
    rest = train.values - overall - items[train.item_index]
    users = damped_means(train.user_index, rest, len(train.users), 5)
    item, user = train.items.find(test.items.ids), train.users.find(test.users.ids)
    return rmse(overall + items[item[test.item_index]] + users[user[test.user_index]], test.values)


def correlation(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> float:
    return float(np.corrcoef(one, other)[0, 1])


def predict(model: Model, pairs: Iterable[tuple[Id, Id]]) -> Floats:
    """(n,) predictions of pairs."""
    users, items = zip(*pairs, strict=True)
    return model.predict((list(users), list(items)))


def all_pairs(model: Model) -> list[tuple[Id, Id]]:
    return [(user, item) for user in model.users for item in model.items]


def rated_by(user: Id) -> dict[Id, float]:
    """What the world's training part has of a user."""
    train = parts().train
    mine = train.user_index == train.users.index(user)
    return {train.items.id(i): float(r) for i, r in zip(train.item_index[mine], train.values[mine], strict=True)}


def surprises(model: Model, users: Iterable[int], sign: int) -> Cells:
    """Of each user the training rating that is furthest above what is predicted (sign 1), or below it (-1)."""
    found: Cells = []
    for user in users:
        rated = rated_by(user)
        above = np.array(list(rated.values())) - predict(model, [(user, item) for item in rated])
        item = list(rated)[int(np.argmax(sign * above))]
        found.append((user, item, rated[item]))
    return found


def pairs_of(triples: Cells) -> list[tuple[Id, Id]]:
    return [(user, item) for user, item, _ in triples]


def reloaded(model: Model, folder: Path) -> Model:
    model.save(folder)
    loaded: Model = type(model).load(folder)
    return loaded


def train_cell(index: int) -> tuple[Id, Id, float]:
    """One rating of the world's training part."""
    train = parts().train
    user, item = train.users.id(train.user_index[index]), train.items.id(train.item_index[index])
    return user, item, float(train.values[index])


NAMES = ("042", "42", "-1", "1e3", "nan", "None", "ß", "日本語", "🎬", "é", "e\u0301", "a,b", 'say "x"', "Ω")
"""Of the users of `small_cells`."""

LATER: Cells = [(777, 2, 5.0), (777, 3, 1.0), (777, 999, 4.0), (5, 999, 2.0)]
"""Of a new user and of a new item."""

law = settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.differing_executors])


class Fitted:
    """How a small quick model is made: what each contract is about."""

    reads_users: ClassVar[bool] = True
    """Whether somebody's ratings alone decide what is recommended, so that {item: rating} is as good as an id."""
    near_means: ClassVar[float] = 1e-3
    """How close the predictions for whom, and of what, nothing is known are to the fitted means."""
    rated_alike: ClassVar[float] = 0.0
    """How far apart a stranger's predictions for items with the same ratings may be."""
    draws_by_ids: ClassVar[bool] = False
    """Whether chance goes by what users and items are called, not by their order."""

    def make(self, **changes: Any) -> Model:
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls) -> Model:
        """Fitted on the world; shared by the laws, so they change copies only."""
        return cls().make().fit(parts().train)

    @pytest.fixture
    def changing(self, model: Model) -> Model:
        """A copy to be changed."""
        return copy.deepcopy(model)

    def small(self, triples: Cells | None = None, **changes: Any) -> Model:
        return self.make(**changes).fit(cells(small_cells() if triples is None else triples))


class ListContract(Fitted):
    """The laws of every model that concern its lists."""

    def test_save_and_load_give_the_same_scores(self, model: Model, tmp_path: Path) -> None:
        loaded = reloaded(model, tmp_path / "model")
        pairs = [*all_pairs(model)[::7], (1, -1), (-1, 1), (-1, -1)]
        np.testing.assert_array_equal(predict(loaded, pairs), predict(model, pairs))
        assert loaded.users == model.users
        assert loaded.items == model.items
        assert list(loaded.recommend_many([5, 3], n=7)) == list(model.recommend_many([5, 3], n=7))

    def test_save_and_load_after_ratings_and_questions_took_turns(self, changing: Model, tmp_path: Path) -> None:
        """When somebody asked shall not show: the ratings alone decide."""
        ratings = parts().of_new_users
        halves = np.arange(len(ratings)) % 2 == 0
        changing.add_ratings(cells([(7, 2, 0.5), (8, 3, 5.0)], STARS))
        for half in (halves, ~halves):
            changing.recommend(7)
            changing.add_ratings(ratings.select(half))
            changing.add_ratings(cells([("1", "2", 0.5), ("2", "3", 5.0), ("1", "12345", 4.0)], STARS))
            changing.recommend(1)
            predict(changing, [(1, 2), (400, 12345)])
        loaded = reloaded(changing, tmp_path / "model")
        pairs = all_pairs(changing)[::5]
        np.testing.assert_allclose(predict(loaded, pairs), predict(changing, pairs), rtol=0, atol=1e-5)
        again: Model = type(changing).load(tmp_path / "model")
        np.testing.assert_array_equal(predict(again, pairs), predict(loaded, pairs))
        assert len(loaded.users) == len(changing.users)

    @pytest.mark.parametrize("exclude_known", [True, False])
    def test_everybody_at_once_equals_one_by_one(self, model: Model, exclude_known: bool) -> None:
        for user, together in list(model.recommend_many(n=15, exclude_known=exclude_known))[::23]:
            alone = model.recommend(user, n=15, exclude_known=exclude_known)
            assert_same_recommendations(together, alone)

    def test_the_order_of_ratings_does_not_matter(self) -> None:
        triples = small_cells()
        order = [triples[place] for place in np.random.default_rng(5).permutation(len(triples))]
        usual, shuffled = self.small(triples, epochs=3), self.small(order, epochs=3)
        pairs = all_pairs(usual)
        np.testing.assert_array_equal(predict(shuffled, pairs), predict(usual, pairs))

    def test_an_id_without_ratings_is_cold_too(self) -> None:
        """A part of a data set knows the ids of the whole."""
        every = cells(small_cells())
        part = every.select((every.user_index != 3) & (every.item_index != 4))
        model = self.make(epochs=4).fit(part)
        rest = [i for i in range(11) if i != 4]
        for item in rest:
            assert predict(model, [(3, item)]) == pytest.approx(predict(model, [("nobody", item)]), abs=1e-6)
        assert predict(model, [(5, 4)]) == pytest.approx(predict(model, [(5, "nothing")]), abs=1e-6)
        assert predict(model, [(3, 4)]) == pytest.approx(predict(model, [("nobody", "nothing")]), abs=1e-6)
        assert_same_recommendations(model.recommend(3), dict(model.recommend_many())[3])

    @pytest.mark.parametrize(
        "triples",
        [
            [(1, 1, 4.0)],
            [(1, item, 1.0 + item % 5) for item in range(9)],
            [(user, 1, 1.0 + user % 5) for user in range(9)],
            [(user, item, 3.0) for user in range(6) for item in range(5)],
            [(1, 1, 1.0), (2, 2, 5.0)],
        ],
        ids=["one rating", "one user", "one item", "all equal", "two apart"],
    )
    def test_hardly_any_data(self, triples: Cells, tmp_path: Path) -> None:
        model = self.small(triples)
        users, items = {u for u, _, _ in triples} | {77}, {i for _, i, _ in triples} | {78}
        predicted = predict(model, [(u, i) for u in users for i in items])
        assert np.isfinite(predicted).all()
        assert ((predicted >= 1) & (predicted <= 5)).all()
        mean = np.mean([rating for _, _, rating in triples])
        assert predict(model, [(77, 78)])[0] == pytest.approx(mean, abs=1e-4)
        for user in users:
            assert all(np.isfinite(stars(r)) for r in model.recommend(user, exclude_known=False))
        loaded = reloaded(model, tmp_path)
        loaded.add_ratings(cells([(77, 78, 5.0), (77, triples[0][1], 4.0)]))
        assert np.isfinite(predict(loaded, [(u, i) for u in users for i in items])).all()
        assert {r.item for r in loaded.recommend(77, n=99, exclude_known=False)} == items

    def test_ties_go_to_the_lower_index(self) -> None:
        triples: Cells = [(user, item, 1.0 + user % 5) for user in range(10) for item in range(9)]
        model = self.small(triples, epochs=2)
        for n in (1, 4, 9, 20):
            recommended = model.recommend("nobody", n=n)
            assert np.ptp([stars(r) for r in recommended]) <= self.rated_alike
            if not self.rated_alike:
                assert [r.item for r in recommended] == list(range(9))[:n]

    def test_the_ratings_of_a_user_are_as_good_as_the_id(self, model: Model) -> None:
        for user in (1, 50, 200):
            ratings = rated_by(user)
            by_id, by_ratings = model.recommend(user, n=ITEMS), model.recommend(ratings, n=ITEMS)
            if self.reads_users:
                assert_same_recommendations(by_ratings, by_id)
            else:
                expected = {r.item: stars(r) for r in by_id}
                got = np.array([(stars(r), expected[r.item]) for r in by_ratings])
                assert correlation(got[:, 0], got[:, 1]) > 0.8

    def test_users_and_items_that_are_both_new(self, changing: Model) -> None:
        news = cells([(701, 901, 5.0), (702, 901, 1.0), (701, 902, 4.0), (701, 1, 4.0)], STARS)
        changing.add_ratings(news)
        predicted = predict(changing, [(701, 901), (702, 901), (702, 902), (703, 901), (701, 903)])
        assert np.isfinite(predicted).all()
        assert predicted[0] > predicted[1]
        everybody = dict(changing.recommend_many(n=4))
        for user in (701, 702, 1):
            assert_same_recommendations(everybody[user], changing.recommend(user, n=4))


class ModelContract(ListContract):
    """The laws of every model: its lists, and its predictions."""

    @law
    @given(st.data())
    def test_many_pairs_equal_one_by_one(self, model: Model, data: st.DataObject) -> None:
        ids = st.tuples(st.integers(-1, USERS + 2), st.integers(-1, ITEMS + 2))
        pairs = data.draw(st.lists(ids, min_size=1, max_size=30))
        alone = [float(predict(model, [pair])[0]) for pair in pairs]
        np.testing.assert_allclose(predict(model, pairs), alone, rtol=0, atol=1e-5)

    def test_names_decide_nothing_but_the_order(self) -> None:
        """Whatever users are called: with names in the same order, the same model comes out.

        One that draws by ids has other draws for other names. With the same names in another order it is the same.
        """
        names = sorted(NAMES, key=lambda name: name.encode())
        named: Cells = [(names[int(u)], i, r) for u, i, r in small_cells()]
        if self.draws_by_ids:
            data = cells(named)
            model, twin = self.make(epochs=2).fit(data), self.make(epochs=2).fit(in_another_order(data))
            pairs = all_pairs(model)
            np.testing.assert_allclose(predict(twin, pairs), predict(model, pairs), rtol=0, atol=1e-4)
            return
        model, twin = self.small(named, epochs=2), self.small(epochs=2)
        pairs = all_pairs(twin)
        predicted = predict(model, [(names[int(u)], i) for u, i in pairs])
        np.testing.assert_array_equal(predicted, predict(twin, pairs))

    def test_cold_users_and_items_get_the_means(self, model: Model) -> None:
        train = parts().train
        overall = float(train.values.mean(dtype=np.float64))
        users, items = deviations_of_learned_variance(train)
        for_items = predict(model, [("nobody", item) for item in train.items])
        for_users = predict(model, [(user, "nothing") for user in train.users])
        np.testing.assert_allclose(for_items, items + overall, atol=self.near_means)
        np.testing.assert_allclose(for_users, users + overall, atol=self.near_means)
        assert min(correlation(for_items, items), correlation(for_users, users)) > 0.98
        np.testing.assert_allclose(predict(model, [("nobody", "nothing")]), overall, atol=1e-4)
        everybody: tuple[str, dict[Id, float]] = ("nobody", {})
        for somebody in everybody:
            recommended = sorted(model.recommend(somebody, n=ITEMS), key=lambda r: -stars(r))[:5]
            best = np.sort(for_items)[:-6:-1]
            np.testing.assert_allclose([stars(r) for r in recommended], best, atol=1e-5)

    def test_everything_is_finite_and_inside_the_scale(self, model: Model) -> None:
        low, high = model.scale
        ids = [*range(-1, 30), *range(ITEMS - 20, ITEMS + 3)]
        predicted = predict(model, [(u, i) for u in ids for i in ids])
        assert predicted.dtype == np.float32
        assert np.isfinite(predicted).all()
        assert low <= predicted.min() < predicted.max() <= high
        for _, recommended in model.recommend_many(n=3):
            assert all(low <= stars(r) <= high for r in recommended)

    def test_all_ratings_equal_are_predicted_as_they_are(self) -> None:
        model = self.small([(user, item, 3.0) for user in range(8) for item in range(9) if user != item])
        np.testing.assert_allclose(predict(model, [(n, n) for n in range(8)]), 3.0, atol=0.3)

    def test_a_new_rating_moves_predictions_at_once_and_the_right_way(self, model: Model) -> None:
        users = range(1, 16)
        pairs = [(user, next(r.item for r in model.recommend(user, n=60)[40:])) for user in users]
        before = predict(model, pairs)
        up, down = copy.deepcopy(model), copy.deepcopy(model)
        up.add_ratings(cells([(*pair, 5.0) for pair in pairs], STARS))
        down.add_ratings(cells([(*pair, 0.5) for pair in pairs], STARS))
        assert (predict(up, pairs) > before).all()
        assert (predict(down, pairs) < before).all()
        for user, item in pairs:
            assert item not in {r.item for r in up.recommend(user, n=ITEMS)}
        others = [(user, item) for user in users for item in range(1, 180, 9)]
        assert np.abs(predict(up, others) - predict(down, others)).max() > 0.02

    def test_a_change_of_mind_replaces_the_rating(self, changing: Model) -> None:
        changing.add_ratings(cells([(3, 5, 5.0), (777, 5, 5.0), (777, 9, 1.0)], STARS))
        twin = copy.deepcopy(changing)
        changing.add_ratings(cells([(3, 5, 0.5), (777, 5, 0.5)], STARS))
        assert (predict(changing, [(3, 5), (777, 5)]) < predict(twin, [(3, 5), (777, 5)])).all()
        changing.add_ratings(cells([(3, 5, 5.0), (777, 5, 5.0)], STARS))
        pairs = all_pairs(twin)[::11]
        np.testing.assert_allclose(predict(changing, pairs), predict(twin, pairs), rtol=0, atol=1e-5)

    def test_the_same_rating_again_changes_nothing(self, changing: Model) -> None:
        news = cells([(3, 5, 5.0), (777, 5, 4.0), (777, 999, 1.0), (4, 999, 3.5)], STARS)
        changing.add_ratings(news)
        pairs = [*all_pairs(changing)[::11], (777, 999), (4, 999), (777, 5)]
        once = predict(changing, pairs)
        changing.add_ratings(news)
        np.testing.assert_array_equal(predict(changing, pairs), once)

    @law
    @given(st.data())
    def test_a_rating_that_came_and_went_leaves_no_trace(self, model: Model, data: st.DataObject) -> None:
        """To the last bit: whatever else came later, in whichever order they go, together or one by one."""
        model, twin = (copy.deepcopy(model).add_ratings(cells(LATER, STARS)) for _ in range(2))
        pairs = [*all_pairs(twin)[::13], (777, 2), (777, 3), (777, 999), (5, 999)]
        expected, users, items = predict(twin, pairs), twin.user_counts(), twin.item_counts()
        predict(model, pairs)
        ids = st.tuples(st.integers(1, 6) | st.integers(777, 779), st.integers(1, 6) | st.integers(998, 1000))
        known = {(user, item) for user in range(1, 7) for item in rated_by(user)} | set(pairs_of(LATER))
        came = data.draw(st.lists(ids.filter(lambda pair: pair not in known), min_size=1, max_size=12, unique=True))
        stars = st.sampled_from([0.5, 2.0, 4.5, 5.0])
        model.add_ratings(cells([(*pair, data.draw(stars)) for pair in came], STARS))
        if data.draw(st.booleans()):
            predict(model, pairs)
        went = data.draw(st.permutations(came))
        if data.draw(st.booleans()):
            model.remove_ratings(went)
        else:
            for pair in went:
                model.remove_ratings([pair])
        np.testing.assert_allclose(predict(model, pairs), expected, rtol=0, atol=1e-5)  # a product may round otherwise
        np.testing.assert_array_equal(model.user_counts()[: len(users)], users)
        np.testing.assert_array_equal(model.item_counts()[: len(items)], items)
        assert not model.user_counts()[len(users) :].any()
        assert model.known_pairs(cells([(*pair, 1.0) for pair in came], STARS)) == 0
        for user in (1, 777):
            assert_same_recommendations(model.recommend(user, 20, among=twin.items), twin.recommend(user, 20))

    @law
    @given(st.data())
    def test_a_trained_rating_that_changes_and_changes_back(self, model: Model, data: st.DataObject) -> None:
        changing = copy.deepcopy(model)
        pairs = all_pairs(model)[::13]
        expected = predict(model, pairs)
        train = parts().train
        chosen = data.draw(st.lists(st.integers(0, len(train) - 1), min_size=1, max_size=6, unique=True))
        old = cells([train_cell(index) for index in chosen], STARS)
        changing.add_ratings(old)  # which says nothing new
        np.testing.assert_array_equal(predict(changing, pairs), expected)
        for index in chosen:
            user, item, rating = train_cell(index)
            if data.draw(st.booleans()):
                changing.remove_ratings([(user, item)])
            else:
                changing.add_ratings(cells([(user, item, 5.5 - rating)], STARS))
        moved = predict(changing, pairs_of([train_cell(index) for index in chosen]))
        assert np.isfinite(moved).all()
        changing.add_ratings(old)
        np.testing.assert_array_equal(predict(changing, pairs), expected)
        assert changing.known_pairs(train) == len(train)

    def test_the_order_of_what_changes_and_goes_does_not_matter(self, model: Model) -> None:
        one, other = copy.deepcopy(model), copy.deepcopy(model)
        gone = pairs_of(surprises(model, range(1, 8), 1))
        new = [*LATER, *((user, item, 1.0) for user, item, _ in surprises(model, range(3, 9), -1))]
        one.add_ratings(cells(new, STARS)).remove_ratings(gone)
        for pair, triple in zip(reversed(gone), reversed(new), strict=False):
            other.remove_ratings([pair])
            other.recommend(pair[0])
            other.add_ratings(cells([triple], STARS))
        other.add_ratings(cells(new, STARS)).remove_ratings(gone)
        pairs = all_pairs(model)[::13]
        np.testing.assert_allclose(predict(other, pairs), predict(one, pairs), rtol=0, atol=1e-5)

    def test_without_a_trained_rating_predictions_move_away_from_it(self, model: Model) -> None:
        for sign in (1, -1):
            gone = surprises(model, range(1, 16), sign)
            changing = copy.deepcopy(model).remove_ratings(pairs_of(gone))
            moved = predict(changing, pairs_of(gone)) - predict(model, pairs_of(gone))
            assert (sign * moved < 0).all()
            users = [changing.users.index(user) for user, _, _ in gone]
            assert (changing.user_counts()[users] == model.user_counts()[users] - 1).all()
            assert changing.item_counts().sum() == model.item_counts().sum() - len(gone)
            for user, item, _ in gone:
                assert item in {r.item for r in changing.recommend(user, n=ITEMS)}

    def test_another_trained_rating_moves_predictions_its_way(self, model: Model) -> None:
        for sign, rating in ((-1, 5.0), (1, 0.5)):
            changed = surprises(model, range(1, 16), sign)
            changing = copy.deepcopy(model).add_ratings(cells([(u, i, rating) for u, i, _ in changed], STARS))
            moved = predict(changing, pairs_of(changed)) - predict(model, pairs_of(changed))
            assert (sign * moved < 0).all()
            assert changing.item_counts().sum() == model.item_counts().sum()

    def test_who_has_lost_all_ratings_is_a_stranger(self, changing: Model) -> None:
        """Trained on or not; and an item without its ratings is one of which nothing is known."""
        changing.add_ratings(cells(LATER, STARS))
        train, items, users = parts().train, range(1, 60), range(1, 60)
        raters = [train.users.id(u) for u in train.user_index[train.item_index == train.items.index(8)]]
        changing.remove_ratings([*((3, item) for item in rated_by(3)), *((user, 8) for user in raters)])
        changing.remove_ratings(pairs_of(LATER))
        for stranger in (3, 777):
            assert changing.user_counts()[changing.users.index(stranger)] == 0
            own, others = (predict(changing, [(user, item) for item in items]) for user in (stranger, "nobody"))
            np.testing.assert_allclose(own, others, rtol=0, atol=1e-6)
            assert_same_recommendations(changing.recommend(stranger), changing.recommend("nobody"))
            np.testing.assert_allclose(
                changing.score(stranger, by="rating"), changing.score("nobody", by="rating"), rtol=0, atol=1e-6
            )
        for nothing in (8, 999):
            assert changing.item_counts()[changing.items.index(nothing)] == 0
            own, others = (predict(changing, [(user, item) for user in users]) for item in (nothing, "nothing"))
            np.testing.assert_allclose(own, others, rtol=0, atol=1e-6)

    def test_save_and_load_after_ratings_went(self, changing: Model, tmp_path: Path) -> None:
        changing.add_ratings(cells(LATER, STARS))
        gone = [*pairs_of(surprises(changing, range(1, 9), 1)), (777, 999), (777, 2)]
        changing.remove_ratings(gone)
        loaded = reloaded(changing, tmp_path / "model")
        pairs = all_pairs(changing)[::5]
        np.testing.assert_allclose(predict(loaded, pairs), predict(changing, pairs), rtol=0, atol=3e-6)
        np.testing.assert_array_equal(loaded.user_counts(), changing.user_counts())
        np.testing.assert_array_equal(loaded.item_counts(), changing.item_counts())
        assert loaded.known_pairs(cells([(*pair, 1.0) for pair in gone], STARS)) == 0
        assert gone[0][1] in {r.item for r in loaded.recommend(gone[0][0], n=ITEMS)}


class RecommenderContract(ModelContract):
    """Further laws, of code that all models share: one or two of them speak for all."""

    @law
    @given(order=st.permutations(list(range(1, 40))))
    def test_users_in_another_order(self, model: Model, order: list[int]) -> None:
        ordered = dict(model.recommend_many(range(1, 40), n=5))
        shuffled = dict(model.recommend_many(order, n=5))
        assert list(shuffled) == order
        for user, recommended in ordered.items():
            assert_same_recommendations(shuffled[user], recommended)

    def test_recommendations_are_the_best_predictions(self, model: Model) -> None:
        for user in (1, 77, 300):
            ways: tuple[By, ...] = ("list", "rating")
            for by in ways:
                everything = model.recommend(user, n=ITEMS, by=by, exclude_known=False)
                rated = [r.score for r in everything if r.raters]
                assert rated == sorted(rated, reverse=True)
                predicted = predict(model, [(user, r.item) for r in everything])
                np.testing.assert_allclose([stars(r) for r in everything], predicted, rtol=0, atol=1e-5)
                counts = model.item_counts()
                assert [r.raters for r in everything] == [counts[model.items.index(r.item)] for r in everything]

    def test_by_rating_is_on_the_safe_side(self, model: Model) -> None:
        """Of two items with the same prediction, the one that more people rated stands first."""
        for user in (1, {1: 5.0, 2: 1.0}):
            found = model.recommend(user, n=ITEMS, by="rating")
            low, high = model.scale
            gaps = sorted((-r.raters, stars(r) - r.score) for r in found if low < stars(r) < high)  # not clipped
            assert len({raters for raters, _ in gaps}) > 10
            assert all(gap > 0 for _, gap in gaps)
            assert [gap for _, gap in gaps] == pytest.approx(sorted(gap for _, gap in gaps), abs=1e-4)

    @pytest.mark.parametrize(
        "ids",
        [
            ["042", "42", "0", "-1", "1.0", "1e3", "nan", "None", " a b "],
            ["ß", "日本語", "🎬", "é", "e\u0301", "a,b", 'say "x"', "a\tb", "Ω"],
            [-5, 0, 3, 2**62, -(2**62), 17, 99, 1, 2],
        ],
        ids=["numerals", "unicode", "integers"],
    )
    def test_ids_come_back_as_they_went_in(self, ids: list[Id], tmp_path: Path) -> None:
        triples: Cells = [(u, i, 1.0 + (n * 7 % 5)) for n, u in enumerate(ids) for i in ids[n % 3 :]]
        model = reloaded(self.small(triples, epochs=2), tmp_path)
        assert {user for user, _ in model.recommend_many()} == set(ids)
        for user in ids:
            recommended = model.recommend(user, n=99, exclude_known=False)
            assert {r.item for r in recommended} == set(ids)
            assert {type(r.item) for r in recommended} == {type(ids[0])}

    def test_known_items_are_excluded_or_included(self, model: Model) -> None:
        train = parts().train
        for user in (1, 50, 200):
            known = {train.items.id(i) for i in train.item_index[train.user_index == train.users.index(user)]}
            without = {r.item for r in model.recommend(user, n=ITEMS * 2)}
            assert without == set(train.items) - known
            assert {r.item for r in model.recommend(user, n=ITEMS * 2, exclude_known=False)} == set(train.items)
        new, every = {1: 5.0, 2: 1.0, 30: 4.0}, set(train.items)
        assert {r.item for r in model.recommend(new, n=999)} == every - set(new)
        assert {r.item for r in model.recommend(new, n=999, exclude_known=False)} == every

    def test_the_best_do_not_depend_on_how_many_are_asked_for(self, model: Model) -> None:
        most = model.recommend(9, n=ITEMS + 50)
        assert len({r.item for r in most}) == len(most) <= ITEMS
        for n in (1, 2, 10, 50):
            assert [(r.item, r.score) for r in model.recommend(9, n=n)] == [(r.item, r.score) for r in most[:n]]

    def test_recommendations_among_some_items(self, model: Model) -> None:
        for user in (9, "nobody", {1: 5.0, 2: 1.0}):
            every = model.recommend(user, n=ITEMS)
            some = [*range(3, 60, 2), 2, 1]
            expected = [r for r in every if r.item in some]
            flags = np.isin([int(item) for item in model.items], some)
            for among in (some, (str(item) for item in some), np.array(some), {*some, "nothing", 9999}, flags):
                assert_same_recommendations(model.recommend(user, n=ITEMS, among=among), expected)
            assert_same_recommendations(model.recommend(user, n=4, among=some), expected[:4])
            assert {r.item for r in model.recommend(user, 99, among=some, exclude_known=False)} == set(some)
            for none in ([], ["nothing"], np.zeros(len(model.items), np.bool_)):
                assert model.recommend(user, among=none) == []
        together = dict(model.recommend_many([9, 5], n=6, among=iter(some)))
        for user in (9, 5):
            assert_same_recommendations(together[user], model.recommend(user, n=6, among=some))

    def test_scores_are_what_is_recommended(self, model: Model) -> None:
        for user in (9, "nobody", {1: 5.0, 2: 1.0}, {}):
            scores, ratings = model.score(user), model.score(user, by="rating")
            for found in (scores, ratings):
                assert found.shape == (len(model.items),)
                assert found.dtype == np.float32
            for item, score, rating, _, _ in model.recommend(user, n=ITEMS, exclude_known=False):
                assert scores[model.items.index(item)] == np.float32(score)
                assert ratings[model.items.index(item)] == pytest.approx(rating, abs=1e-5)

    def test_to_remove_what_is_not_there_changes_nothing(self, changing: Model, tmp_path: Path) -> None:
        pairs = all_pairs(changing)[::13]
        before, item = predict(changing, pairs), next(item for item in changing.items if item not in rated_by(3))
        (tmp_path / "pairs.csv").write_text(f"user,item\n3,{item}\nnobody,1\n")
        for nothing in ([], [(3, item)], [("nobody", "1"), ("1", "nothing")], ([3], [item]), tmp_path / "pairs.csv"):
            assert changing.remove_ratings(nothing) is changing
        np.testing.assert_array_equal(predict(changing, pairs), before)
        assert "nobody" not in changing.users


class LearnerContract(ModelContract):
    """The further laws of a model that learns tastes, beyond the means: state the floor."""

    expected_rmse: ClassVar[float]
    """What the model must reach on the test part of the world; the two means reach 0.87, nothing 0.77."""
    checkerboard: ClassVar[dict[str, Any]] = {}
    """Changes that a board of 24 x 20 needs."""

    def test_quality_floor(self, model: Model) -> None:
        world, train, test, _, _ = parts()
        reached = rmse(model.predict(test), test.values)
        users, items = np.array(list(test.users)), np.array(list(test.items))
        best = rmse(world.truth.expected(users[test.user_index] - 1, items[test.item_index] - 1), test.values)
        assert best < reached < self.expected_rmse < rmse_of_means(train, test)

    def test_checkerboard(self) -> None:
        """Liked if and only if user and item have the same parity: what is hidden is still on the right side."""
        rng = np.random.default_rng(1)
        board = {(u, i): 5.0 if (u + i) % 2 == 0 else 1.0 for u in range(24) for i in range(20)}
        hidden = [pair for pair in board if rng.random() < 0.2]
        known: Cells = [(u, i, rating) for (u, i), rating in board.items() if (u, i) not in hidden]
        predicted = predict(self.small(known, **self.checkerboard), hidden)
        for pair, rating in zip(hidden, predicted, strict=True):
            assert (rating > 3) == (board[pair] > 3), f"{pair}: {rating} where {board[pair]} is right"

    def test_same_seed_same_model_another_seed_another_model(self) -> None:
        one, same, other = (self.small(seed=seed, epochs=4) for seed in (1, 1, 2))
        pairs = all_pairs(one)
        np.testing.assert_array_equal(predict(one, pairs), predict(same, pairs))
        assert np.abs(predict(one, pairs) - predict(other, pairs)).max() > 1e-4

    def test_who_was_taken_for_the_opposite_is_understood_once_that_is_put_right(self, changing: Model) -> None:
        """What the old ratings had taught is gone with them, although they were trained on."""
        users, items = range(1, 13), list(changing.items)
        others = np.mean([changing.score(user, by="rating") for user in range(20, 200)], axis=0)
        before = [changing.score(user, by="rating") - others for user in users]
        changing.add_ratings(cells([(u, i, 5.5 - rating) for u in users for i, rating in rated_by(u).items()], STARS))
        likeness = []
        for user, was in zip(users, before, strict=True):
            unknown = np.array([item not in rated_by(user) for item in items])
            likeness.append(correlation(was[unknown], (changing.score(user, by="rating") - others)[unknown]))
        assert np.mean(likeness) < -0.2

    def test_a_new_user_is_understood_at_once(self, changing: Model) -> None:
        """Half of their ratings tell what they think of the rest far better than what everybody thinks of it."""
        world, train, _, ratings, _ = parts()
        known = np.arange(len(ratings)) % 2 == 0
        changing.add_ratings(ratings.select(known))
        ours, means, better = [], [], []
        overall = float(train.values.mean())
        item_means = damped_means(train.item_index, train.values - overall, len(train.items), 5)
        for number, user in enumerate(ratings.users):
            told = set(ratings.item_index[known & (ratings.user_index == number)].tolist())
            rest = [item for index, item in enumerate(ratings.items) if index not in told]
            truth = world.truth(np.full(len(rest), int(user) - 1), np.array(rest) - 1)
            ours.append(correlation(predict(changing, [(user, item) for item in rest]), truth))
            means.append(correlation(item_means[train.items.find(rest)], truth))
            recommended = [int(r.item) for r in changing.recommend(user, n=10)]
            better.append(world.truth(np.full(10, int(user) - 1), np.array(recommended) - 1).mean() - truth.mean())
        assert min(better) > 0
        assert np.mean(ours) > np.mean(means) + 0.02

    def test_a_new_item_is_understood_at_once(self, changing: Model) -> None:
        """From half of its ratings: who likes such items is told from who does not."""
        world, _, _, _, ratings = parts()
        known = np.arange(len(ratings)) % 2 == 0
        changing.add_ratings(ratings.select(known))
        gaps = []
        for number, item in enumerate(ratings.items):
            told = set(ratings.user_index[known & (ratings.item_index == number)].tolist())
            rest = np.array([int(user) for index, user in enumerate(ratings.users) if index not in told])
            # What a user thinks of this item beyond being mild or strict in general.
            liking = world.truth.taste[rest - 1] @ world.truth.attributes[int(item) - 1]
            own = predict(changing, [(int(user), item) for user in rest])
            own = own - predict(changing, [(int(user), "nothing") for user in rest])
            order = np.argsort(liking)
            third = len(order) // 3
            gaps.append(own[order[-third:]].mean() - own[order[:third]].mean())
        assert np.mean(gaps) > 0.08
        assert (np.array(gaps) > 0).sum() >= 10  # of the 12


def assert_same_recommendations(ours: list[Recommendation], theirs: list[Recommendation]) -> None:
    """Equal scores place by place; items may only trade places where their scores are equal to rounding."""
    assert len(ours) == len(theirs)
    np.testing.assert_allclose([r.score for r in ours], [r.score for r in theirs], rtol=0, atol=1e-5)
    known = {r.item: r for r in theirs}
    last = min((r.score for r in theirs), default=0.0)
    for r in ours:
        assert abs((known[r.item].score if r.item in known else last) - r.score) <= 1e-5
        assert r.item not in known or abs(stars(known[r.item]) - stars(r)) <= 1e-5


def stars(entry: Recommendation) -> float:
    """The predicted rating of an entry, which a model of ratings always has."""
    assert entry.rating is not None
    return entry.rating


def kept_in(seen: list[tuple[float, float]]) -> Callable[[Step], None]:
    """A progress that keeps how far the algorithm itself has got, without the list scorer that every model has."""

    def progress(step: Step) -> None:
        if step.what != "fitting the list scorer":
            seen.append((step.done, step.total))

    return progress
