"""People who are folded in get the lists that they would get as users, and what is told of them is not recommended."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill import CFN
from cofill.data.datasets.world import make_world
from cofill.data.ratings import Ratings
from cofill.data.splits import at_most_each, strong_generalisation_split
from cofill.errors import DataError
from cofill.evaluation import evaluate_newcomers, evaluate_ranking
from tests.evaluation.scored import Linear, ratings


def matrix(seed: int, users: int, items: int) -> tuple[np.ndarray, np.ndarray]:
    """Values, 0 where unknown, and links, both small whole numbers: sums of them are exact."""
    rng = np.random.default_rng(seed)
    values = (rng.integers(1, 6, (users, items)) * (rng.random((users, items)) < 0.6)).astype(np.float32)
    values[:, 0] = 5  # something to fold in, and something to find
    values[:, 1] = 4
    return values, rng.integers(-9, 10, (items, items)).astype(np.float32)


def triples(values: np.ndarray, first_user: int = 0) -> list[tuple[int, int, float]]:
    return [(first_user + int(u), int(i), float(values[u, i])) for u, i in np.argwhere(values > 0)]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 6), st.integers(3, 15), st.integers(1, 5))
def test_the_same_lists_as_for_users_of_the_model(seed: int, users: int, items: int, chunk: int) -> None:
    values, links = matrix(seed, users, items)
    rng = np.random.default_rng(seed + 1)
    told = values * (rng.random(values.shape) < 0.5)
    told[:, 0], told[:, 1] = values[:, 0], 0
    fold_in, test = ratings(triples(told)), ratings(triples(values - told))
    trained = evaluate_ranking(Linear(told, links, range(users)), test, n=3)
    new = evaluate_newcomers(Linear(told, links, range(100, 100 + users)), fold_in, test, n=3, chunk=chunk)
    assert new == trained
    assert new.of_users["ndcg@100"].tolist() == trained.of_users["ndcg@100"].tolist()


def small(users: tuple[str, ...] = ("somebody",)) -> Linear:
    """Whoever rated an item wants the next one."""
    return Linear(np.ones((len(users), 4), np.float32), np.roll(np.eye(4, dtype=np.float32), 1, axis=1), users)


def test_one_newcomer_by_hand() -> None:
    fold_in = ratings([("new", 0, 4.0), ("new", 3, 3.0), ("new", 77, 5.0), ("other", 2, 5.0)])
    test = ratings([("new", 1, 5.0), ("new", 2, 5.0), ("new", 3, 5.0), ("nobody", 3, 5.0)])
    found = evaluate_newcomers(small(), fold_in, test, n=1)
    assert (found.users, found.ratings, found.trained_on) == (2, 3, 1)  # 3 is told of already
    assert found.of_users["precision@1"].tolist() == [1, 1]  # nobody gets the list of a stranger, where 3 is first
    assert found.recall == pytest.approx((1 / 2 + 1) / 2)
    assert found.recall_capped == 1


def test_what_is_refused() -> None:
    test = ratings([("new", 1, 5.0)])
    with pytest.raises(DataError) as trained:
        evaluate_newcomers(small(("new", "old")), ratings([("new", 0, 4.0)]), test)
    assert str(trained.value).startswith(
        "the model was trained with 1 of these 1 users, who should be new to it; train"
    )
    with pytest.raises(DataError, match="none of the 1 users of the test part has a rating to fold in"):
        evaluate_newcomers(small(), ratings([("other", 0, 4.0)]), test)
    with pytest.raises(DataError, match="a rating of 9 is to be folded in, outside the model's scale of 1 to 5"):
        evaluate_newcomers(small(), ratings([("new", 0, 9.0)], (1, 10)), test)
    with pytest.raises(DataError, match="there are no ratings to evaluate on"):
        evaluate_newcomers(small(), test, test.select(np.array([False])))


def test_a_network_by_strong_generalisation() -> None:
    """The more is told of newcomers, the more is excluded; and the lists are those of `recommend`."""
    whole = make_world(users=60, items=40, ratings=900, seed=3).ratings
    parts = strong_generalisation_split(whole, ratio=0.7)
    model = CFN(hidden=8, epochs=3, validation=0, threads=1).fit(parts.train)
    few: Ratings = at_most_each(parts.fold_in, most=5)
    found = evaluate_newcomers(model, few, parts.test, n=5)
    precisions = []
    for user in found.people.tolist():
        own = few.user_index == user
        told = {few.items.id(int(i)): float(v) for i, v in zip(few.item_index[own], few.values[own], strict=True)}
        listed = {one.item for one in model.recommend(told, n=5)}
        liked = (parts.test.user_index == user) & (parts.test.values >= np.float32(found.relevant or 0))
        precisions.append(len(listed & {parts.test.items.id(int(i)) for i in parts.test.item_index[liked]}) / 5)
    assert found.of_users["precision@5"].tolist() == precisions
