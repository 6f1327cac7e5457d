"""RMSE and MAE by hand; clusters that divide the items; cold ratings that count."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill import CFN, Interactions, evaluate, evaluate_ranking
from cofill.data.ratings import Ratings
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import DataError
from cofill.models.results import Predicted
from tests.models import contract


class Constant:
    """Says the same of everything; its items have these numbers of training ratings."""

    def __init__(self, rating: float, items: Mapping[Id, int], users: Mapping[Id, int]) -> None:
        self.rating = rating
        self.users, self.items = Vocabulary(list(users)), Vocabulary(list(items))
        self._users, self._items = list(users.values()), list(items.values())

    def predict_indices(self, users: npt.NDArray[np.int32], items: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        return np.full(len(users), self.rating, np.float32)

    def user_counts(self) -> npt.NDArray[np.int64]:
        return np.array(self._users, np.int64)

    def item_counts(self) -> npt.NDArray[np.int64]:
        return np.array(self._items, np.int64)


FIVE: dict[Id, int] = {"a": 50, "b": 10, "c": 30, "d": 20, "e": 40}


def test_measures_by_hand() -> None:
    test = Ratings.read([("u", "a", 1.0), ("u", "b", 4.0), ("v", "c", 5.0)])
    found = evaluate(Constant(3.0, FIVE, {"u": 1, "v": 1}), test)
    assert found.rmse == pytest.approx(np.sqrt((4 + 1 + 4) / 3))
    assert found.mae == pytest.approx(5 / 3)
    assert (found.ratings, found.cold) == (3, 0)


class Unsure(Constant):
    """Has intervals of one point to either side, and is asked in parts."""

    has_intervals = True

    def predict_intervals(self, users: npt.NDArray[np.int32], items: npt.NDArray[np.int32]) -> Predicted:
        ratings = self.predict_indices(users, items)
        return Predicted(ratings, ratings - np.float32(1), ratings + np.float32(1))


def test_how_often_intervals_hold_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cofill.evaluation.ratings._PAIRS_AT_ONCE", 2)
    test = Ratings.read([("u", "a", 1.0), ("u", "b", 4.0), ("v", "b", 5.0), ("v", "c", 3.0), ("v", "new", 2.0)])
    model = Unsure(3.0, FIVE, {"u": 1, "v": 1})
    shares: list[float] = []
    found = evaluate(model, test, intervals=True, report=shares.append)
    assert found.within_interval == 3 / 5  # both ends belong to it
    assert [c.within_interval for c in found.clusters if c.ratings] == pytest.approx([2 / 3, 1.0, 0.0])
    assert shares == pytest.approx([0.4, 0.8, 1.0])
    assert found.rmse == evaluate(model, test).rmse
    assert found.clusters[0].rmse == evaluate(model, test).clusters[0].rmse
    assert "within_interval" in found.as_json()["clusters"][0]


def test_without_intervals_nothing_is_said_of_them() -> None:
    test = Ratings.read([("u", "a", 1.0), ("u", "b", 4.0)])
    found = evaluate(Constant(3.0, FIVE, {"u": 1}), test, intervals=True)
    assert found.within_interval is None
    assert "within_interval" not in str(found.as_json())


def test_clusters_by_hand() -> None:
    """From the least rated fifth of the items to the most rated."""
    test = Ratings.read([("u", "a", 1.0), ("u", "b", 4.0), ("v", "b", 5.0), ("v", "c", 3.0)])
    clusters = evaluate(Constant(3.0, FIVE, {"u": 1, "v": 1}), test).clusters
    assert [c.most_training_ratings for c in clusters] == [10, 20, 30, 40, 50]
    assert [c.ratings for c in clusters] == [2, 0, 1, 0, 1]
    assert [c.rmse for c in clusters] == [pytest.approx(np.sqrt(2.5)), None, 0.0, None, 2.0]
    assert [c.share_from for c in clusters] == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])
    assert [c.share_to for c in clusters] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1])


def test_clusters_of_users_by_hand() -> None:
    """From the users with the fewest training ratings to those with the most."""
    test = Ratings.read([("p", "a", 1.0), ("p", "b", 4.0), ("t", "b", 5.0), ("new", "c", 3.0)])
    clusters = evaluate(Constant(3.0, FIVE, {"p": 7, "q": 5, "r": 4, "s": 3, "t": 2}), test).user_clusters
    assert [c.users for c in clusters] == [1, 1, 1, 1, 1]
    assert [c.most_training_ratings for c in clusters] == [2, 3, 4, 5, 7]
    assert [c.ratings for c in clusters] == [2, 0, 0, 0, 2]  # nobody knows "new": no training rating
    assert [c.rmse for c in clusters] == [pytest.approx(np.sqrt(2)), None, None, None, pytest.approx(np.sqrt(2.5))]
    assert [c.mae for c in clusters] == [1.0, None, None, None, 1.5]


def test_cold_ratings_count() -> None:
    """A user or an item that is unknown, or known without a rating; an unknown item is a rare one."""
    test = Ratings.read(
        [("u", "a", 5.0), ("u", "new", 1.0), ("new", "a", 1.0), ("new", "new", 1.0), ("v", "a", 2.0), ("u", "e", 2.0)]
    )
    found = evaluate(Constant(3.0, {**FIVE, "e": 0}, {"u": 1, "v": 0}), test)
    assert found.ratings == 6
    assert found.cold == 5
    assert found.rmse == pytest.approx(np.sqrt((4 + 4 + 4 + 4 + 1 + 1) / 6))
    assert [c.ratings for c in found.clusters] == [3, 0, 0, 0, 3]
    assert found.clusters[0].rmse == pytest.approx(np.sqrt((4 + 4 + 1) / 3))


@settings(max_examples=30, deadline=None)
@given(
    counts=st.lists(st.integers(0, 9), min_size=1, max_size=40),
    rated=st.lists(st.tuples(st.integers(0, 45), st.integers(1, 5)), min_size=1, max_size=40),
)
def test_clusters_divide_items_and_ratings(counts: list[int], rated: list[tuple[int, int]]) -> None:
    test = Ratings.read([(user, item, float(r)) for user, (item, r) in enumerate(rated)], scale=(1, 5))
    model = Constant(3.0, dict(enumerate(counts)), {0: 1})
    found = evaluate(model, test)
    sizes = [c.items for c in found.clusters]
    assert len(sizes) == 5
    asked = {item for item, _ in rated}
    assert sum(sizes) == sum(count > 0 or item in asked for item, count in enumerate(counts))
    assert max(sizes) - min(sizes) <= 1
    most = [c.most_training_ratings for c in found.clusters if c.items]
    assert most == sorted(most)
    assert sum(c.ratings for c in found.clusters) == found.ratings == len(test)
    squares = sum(c.ratings * c.rmse**2 for c in found.clusters if c.rmse is not None)
    assert found.rmse == pytest.approx(np.sqrt(squares / len(test)))
    absolute = sum(c.ratings * c.mae for c in found.clusters if c.mae is not None)
    assert found.mae == pytest.approx(absolute / len(test))
    assert found.mae <= found.rmse + 1e-9
    assert sum(c.ratings for c in found.user_clusters) == len(test)
    assert sum(c.users for c in found.user_clusters) == 1  # the one whom the model knows


def test_nothing_to_evaluate_on() -> None:
    test = Ratings.read([("u", "a", 1.0)])
    with pytest.raises(DataError, match="no ratings to evaluate"):
        evaluate(Constant(3.0, FIVE, {"u": 1}), test.select(np.array([False])))


@pytest.mark.parametrize("unread", ["test.csv", [("u", "a", 1.0)], None])
def test_what_was_not_read(unread: Any) -> None:
    """A path or tuples are told how to become ratings."""
    model: Any = Constant(3.0, FIVE, {"u": 1})
    for measure in (evaluate, evaluate_ranking):
        with pytest.raises(DataError, match=r"where Ratings or Interactions belong; .*Ratings\.read"):
            measure(model, unread)


def test_interactions_have_no_rmse() -> None:
    """Their weights are no ratings, and a figure of the difference would mean nothing."""
    with pytest.raises(DataError, match=r"no ratings to compare .*evaluate_ranking"):
        evaluate(Constant(3.0, FIVE, {"u": 1}), Interactions.read([("u", "a")]))


def test_a_model_on_ratings_with_strange_ids() -> None:
    """The ids of the test part decide, not their order: other vocabularies, other numbers."""
    model = CFN(hidden=4, epochs=3, validation=0, threads=1).fit(contract.cells(contract.small_cells()))
    triples = [(9, 3, 5.0), (2, 10, 1.0), (9, 10, 2.0), (500, 3, 4.0), (2, 600, 4.0)]
    test = contract.cells(triples)
    found = evaluate(model, test)
    errors = contract.predict(model, [(u, i) for u, i, _ in triples]) - np.array([r for _, _, r in triples])
    assert found.rmse == pytest.approx(float(np.sqrt(np.mean(errors**2))), rel=1e-6)
    assert found.cold == 2
    as_text = contract.cells([(str(u), str(i), r) for u, i, r in triples])
    assert evaluate(model, as_text) == found


def test_as_json() -> None:
    found = evaluate(Constant(3.0, FIVE, {"u": 1}), Ratings.read([("u", "a", 1.0)]))
    document = found.as_json()
    assert document["rmse"] == 2.0
    assert document["clusters"][4]["ratings"] == 1
    assert set(document["clusters"][0]) - {"items"} == set(document["user_clusters"][0]) - {"users"}
