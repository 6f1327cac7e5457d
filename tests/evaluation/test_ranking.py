"""Which items and users count, and what is refused; `test_list_measures` has the measures."""

import json
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill import CFN
from cofill.data.datasets.world import make_world
from cofill.data.splits import random_split
from cofill.errors import DataError
from cofill.evaluation import evaluate_ranking
from tests.evaluation.scored import Scored, ratings

ITEMS = ("a", "b", "c", "d", "e")
DESCENDING = (5, 4, 3, 2, 1)
STRANGER = 999_999


def test_measures_and_counts_by_hand() -> None:
    """u sees a b c, of which a and c are relevant, and d is missed; v sees b c d (a is known), of which none is."""
    model = Scored(("u", "v"), ITEMS, [DESCENDING, DESCENDING], known=[(1, 0)])
    test = ratings(
        [("u", "a", 5), ("u", "b", 3), ("u", "c", 4), ("u", "d", 4), ("v", "e", 5), ("v", "b", 1), ("v", "a", 5)]
    )
    found = evaluate_ranking(model, test, n=3)
    gained, best = 4 / log2(2) + 3 / log2(4), 4 / log2(2) + 3 / log2(3) + 3 / log2(4)
    assert found.ndcg == pytest.approx((gained / best + 0) / 2)
    assert (found.precision, found.recall, found.f1) == pytest.approx(((2 / 3 + 0) / 2,) * 3)
    assert found.mrr == pytest.approx((1 + 1 / 4) / 2)  # e is the fourth of what v has not rated
    assert (found.n, found.relevant, found.users, found.ratings) == (3, 4.0, 2, 4)
    assert (found.trained_on, found.unknown_items) == (1, 0)
    document = found.as_json()
    assert json.loads(json.dumps(document))["popularity"]["cutoffs"][0]["n"] == 3
    assert not {"of_users", "people"} & {*document, *document["popularity"]}


def test_a_list_longer_than_the_items() -> None:
    """The places that stay empty are misses."""
    model = Scored(["u"], ITEMS, [DESCENDING], known=[(0, 0), (0, 1)])
    found = evaluate_ranking(model, ratings([("u", "c", 5), ("u", "e", 4)]), n=10**9)
    assert (found.precision, found.recall, found.coverage) == (2e-9, 1, 3 / 5)
    assert found.ndcg == pytest.approx((4 + 3 / 2) / (4 + 3 / log2(3)))


def test_a_user_who_has_rated_everything() -> None:
    """There is nothing left to recommend; the new item is missed."""
    model = Scored(["u"], ("a", "b"), [[1, 2]], known=[(0, 0), (0, 1)])
    found = evaluate_ranking(model, ratings([("u", "new", 5)]), n=2)
    assert (found.precision, found.mrr, found.coverage, found.novelty) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("scale", "threshold"), [((1, 5), 4.0), ((0.5, 5), 3.875), ((1, 10), 7.75), ((0, 100), 75.0), ((-10, 10), 5.0)]
)
def test_relevance_begins_with_the_upper_quarter_of_the_scale(scale: tuple[float, float], threshold: float) -> None:
    model = Scored(["u"], ITEMS, [DESCENDING], scale=scale)
    assert evaluate_ranking(model, ratings([("u", "a", scale[1])], scale)).relevant == threshold


def test_the_threshold_itself_is_relevant() -> None:
    """Ratings are kept in 32 bits, where 3.3 is less than 3.3."""
    model = Scored(["u"], ITEMS, [DESCENDING])
    assert float(np.float32(3.3)) < 3.3
    assert evaluate_ranking(model, ratings([("u", "a", 3.3)]), relevant=3.3).users == 1


WORLDS = st.tuples(st.integers(2, 6), st.integers(2, 8), st.integers(0, 2**31))


@settings(max_examples=40, deadline=None)
@given(world=WORLDS, n=st.integers(1, 9), chunk=st.integers(1, 7))
def test_chunks_and_the_order_of_ratings_make_no_difference(world: tuple[int, int, int], n: int, chunk: int) -> None:
    users, items, seed = world
    rng = np.random.default_rng(seed)
    pairs = [(user, item) for user in range(users + 1) for item in range(items + 1)]  # one more of each: unknown
    triples = [(user, item, float(rng.integers(1, 6))) for user, item in pairs if rng.random() < 0.5]
    triples.append((0, 0, 5.0) if (0, 0) not in [t[:2] for t in triples] else (users + 5, 0, 5.0))
    known = [(user, item) for user in range(users) for item in range(1, items) if rng.random() < 0.3]
    model = Scored(range(users), range(items), rng.integers(0, 4, (users, items)), known=known)
    found = evaluate_ranking(model, ratings(triples), n=n, chunk=chunk)
    assert model.most_at_once <= chunk
    shuffled = [triples[place] for place in rng.permutation(len(triples))]
    assert evaluate_ranking(model, ratings(shuffled), n=n) == found
    for measure in (found.ndcg, found.precision, found.recall, found.f1, found.mrr, found.coverage):
        assert 0 <= measure <= 1
    assert found.f1 <= (found.precision + found.recall) / 2 + 1e-9
    assert found.trained_on == sum((user, item) in set(known) for user, item, _ in triples)


def test_progress() -> None:
    shares: list[float] = []
    model = Scored(range(5), range(2), np.zeros((5, 2)))
    evaluate_ranking(model, ratings([(user, 0, 5.0) for user in range(5)]), chunk=2, report=shares.append)
    assert shares == pytest.approx([2 / 5, 4 / 5, 1])


@pytest.mark.parametrize("orientation", ["user", "item"])
def test_a_network_is_measured_by_what_it_recommends(orientation: str) -> None:
    train, test = random_split(make_world(users=60, items=40, ratings=900, seed=3).ratings, ratio=0.8)
    model = CFN(orientation=orientation, hidden=8, epochs=3, validation=0, threads=1).fit(train)
    liked = [(STRANGER, recommended.item, test.scale.high) for recommended in model.recommend(STRANGER, n=5)[1:]]
    test = test.merge(ratings(liked, test.scale))
    found = evaluate_ranking(model, test, n=5, chunk=7)
    assert evaluate_ranking(model, ratings(liked, test.scale), n=5).precision == pytest.approx(4 / 5)
    precisions, covered = [], set()
    for user in range(len(test.users)):
        own = (test.user_index == user) & (test.values >= np.float32(found.relevant))
        if own.any():
            relevant = {test.items.id(int(item)) for item in test.item_index[own]}
            listed = [recommended.item for recommended in model.recommend(test.users.id(user), n=5)]
            precisions.append(len(relevant & set(listed)) / 5)
            covered |= set(listed)
    assert found.precision == pytest.approx(np.mean(precisions))
    assert found.coverage == len(covered) / len(model.items)
    assert (found.users, found.trained_on) == (len(precisions), 0)


def test_what_is_refused() -> None:
    model = Scored(["u"], ITEMS, [DESCENDING], known=[(0, 0)])
    test = ratings([("u", "b", 3)])
    with pytest.raises(DataError, match="n must be a whole number of at least 1"):
        evaluate_ranking(model, test, n=0)
    with pytest.raises(DataError, match="chunk must be a whole number of at least 1"):
        evaluate_ranking(model, test, chunk=0)
    with pytest.raises(DataError, match="there are no ratings to evaluate on; give at least one"):
        evaluate_ranking(model, test.select(np.array([False])))
    with pytest.raises(DataError) as nothing:
        evaluate_ranking(model, test)
    assert str(nothing.value) == (
        "none of the 1 test ratings is relevant: the highest is 3, and relevant begins at 4; give a lower one"
    )
    with pytest.raises(DataError, match="the model was trained on all of these 1 ratings"):
        evaluate_ranking(model, ratings([("u", "a", 5)]))


@pytest.mark.parametrize("relevant", [1.0, 0.0, 5.5, float("nan"), float("inf")])
def test_a_threshold_outside_the_scale_is_refused(relevant: float) -> None:
    with pytest.raises(DataError) as outside:
        evaluate_ranking(Scored(["u"], ITEMS, [DESCENDING]), ratings([("u", "b", 3)]), relevant=relevant)
    assert str(outside.value) == (
        f"relevant={relevant:g} must be above the lowest rating, 1, and at most the highest, 5"
    )


@pytest.mark.parametrize("user", ["u", "stranger"])
def test_scores_that_are_no_numbers_are_refused(user: str) -> None:
    model = Scored(["u"], ("a", "b"), [[1, np.nan]], nobody=[0, np.nan])
    with pytest.raises(DataError, match="the model scores item 'b' with nan"):
        evaluate_ranking(model, ratings([(user, "a", 5)]))
