"""Lists of what users do next, against brute force, and the baselines that stand beside them."""

from pathlib import Path

import numpy as np
import pytest

from cofill import Interactions, Ratings, algorithm
from cofill.data.splits import leave_last_out_split, time_split
from cofill.errors import DataError
from cofill.evaluation import evaluate_next, evaluate_ranking
from cofill.models.recommender import Recommender

DAY = 86_400
START = 10_000 * DAY


def walks(users: int = 60, items: int = 40, steps: int = 6, seed: int = 0) -> Interactions:
    """Users who go from an item to the one after it, mostly; several things at the same second keep their order."""
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(users):
        item, time = int(rng.integers(items)), START + int(rng.integers(200)) * DAY
        for _ in range(steps):
            rows.append((user, item % items, 1, time))
            item += 1 if rng.random() < 0.9 else 2
            time += int(rng.integers(2)) * DAY
    return Interactions.read(list({row[:2]: row for row in rows}.values()))


def test_a_markov_chain_knows_what_follows() -> None:
    train, test = leave_last_out_split(walks())
    models = {name: algorithm(name)().fit(train) for name in ("markov", "popularity", "recent-popularity")}
    found = {name: evaluate_next(model, test, n=3) for name, model in models.items()}
    assert found["markov"].ndcg > 2 * found["popularity"].ndcg
    assert found["markov"].users == found["markov"].ratings == len(np.unique(test.user_index))
    assert evaluate_ranking(models["markov"], test, n=3).ndcg == found["markov"].ndcg  # the same question


def test_recent_popularity_is_that_before_the_request() -> None:
    rows = [(user, "old", 1, START + user) for user in range(10)]
    rows += [(user, "new", 1, START + 50 * DAY + user) for user in range(10, 15)]
    model = algorithm("recent-popularity")(half_life=2).fit(Interactions.read(rows))
    old, new = (model.items.index(name) for name in ("old", "new"))
    then, now = model.user_scores(np.array([0, 0]), at=np.array([START + DAY, START + 60 * DAY], np.float64))
    assert then[old] > then[new]
    assert now[new] > now[old]
    assert [entry.item for entry in model.recommend("nobody", 2)] == ["new", "old"]
    assert [entry.item for entry in model.recommend("nobody", 2, at=START + DAY)] == ["old", "new"]


@pytest.mark.parametrize("name", ["markov", "recent-popularity", "popularity"])
def test_the_questions_by_hand(name: str) -> None:
    train, test = time_split(walks(seed=1), ratio=0.8)
    model = algorithm(name)().fit(train)
    order = test.sequence()
    for question in ("next", "all", "last"):
        expected = []
        for user in np.unique(test.user_index).tolist():
            own = [place for place in order.tolist() if test.user_index[place] == user]
            known = train.item_index[train.user_index == user]
            assert not set(test.item_index[own]) & set(known)
            if question != "last" and not len(known):
                continue
            wanted = {"next": own[:1], "all": own, "last": own[-1:]}[question]
            expected.append(ndcg_of(model, train, test, user, wanted, own[:-1] if question == "last" else []))
        found = evaluate_next(model, test, question=question, n=5)
        assert found.users == len(expected)
        assert found.ndcg == pytest.approx(np.mean(expected), abs=1e-6)


def ndcg_of(model: Recommender, train: Ratings, test: Ratings, user: int, wanted: list[int], told: list[int]) -> float:
    """NDCG@5 of one user, whose list is asked for as a new user's with all that was done before, in its order."""
    assert train.times is not None
    assert test.times is not None
    own = np.flatnonzero(train.user_index == user)
    own = own[np.lexsort((train.places()[own], train.times[own]))]
    items = np.concatenate([train.item_index[own], test.item_index[told]]).astype(np.int32)
    times = np.concatenate([train.times[own], test.times[told]]).astype(np.float64)
    at = float(test.times[wanted].min())
    scores = model.new_user_scores(items, np.ones(len(items), np.float32), times=times, at=at)
    scores[items] = -np.inf
    best = np.argsort(-scores, kind="stable")[:5]
    gains = np.isin(best, test.item_index[wanted]) & (scores[best] > -np.inf)
    discounts = 1 / np.log2(np.arange(2, 7))
    return float(gains @ discounts[: len(gains)] / discounts[: len(wanted)].sum())


def test_unknown_items_are_missed_and_times_are_needed() -> None:
    train = walks()
    later = Interactions.read([(user, item, 1, START + 900 * DAY) for user, item in ((0, "x"), (1, "y"))])
    found = evaluate_next(algorithm("popularity")().fit(train), later)
    assert (found.users, found.unknown_items, found.ndcg) == (2, 2, 0.0)
    timeless = Interactions.read([(0, 99), (1, 99)])
    with pytest.raises(DataError, match="no times"):
        evaluate_next(algorithm("popularity")().fit(train), timeless)
    with pytest.raises(DataError, match="no times"):
        algorithm("markov")().fit(timeless)


@pytest.mark.parametrize("name", ["markov", "recent-popularity"])
def test_a_file_keeps_the_order(name: str, tmp_path: Path) -> None:
    model = algorithm(name)().fit(walks())
    model.add_interactions([(0, 11, 1, START + 300 * DAY), (0, 5, 1, START + 301 * DAY), (1, 99, 1, START + 302 * DAY)])
    model.save(tmp_path / "model")
    again = Recommender.load(tmp_path / "model")
    users = np.arange(5)
    assert np.array_equal(again.user_scores(users), model.user_scores(users))
