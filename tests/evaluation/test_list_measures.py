"""Every measure against a plain implementation of its definition, and laws that hold for any model."""

from collections.abc import Sequence
from math import log2
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.errors import DataError
from cofill.evaluation import MeasuredLists, RankingEvaluation, evaluate_ranking
from cofill.models.lists.rules import best_of_rows
from tests.evaluation.scored import Scored, interactions, ratings

Case = tuple[Scored, list[tuple[int, int, float]]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A model with ties among its scores, and test ratings; one user and one item are unknown to it."""
    users, items = draw(st.integers(2, 6)), draw(st.integers(3, 25))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    popular = np.linspace(0.05, 0.6, items)[rng.permutation(items)]
    known = [(user, item) for user in range(users) for item in range(items) if rng.random() < popular[item]]
    scores = rng.integers(0, draw(st.sampled_from([3, 10_000])), (users, items))
    model = Scored(range(users), range(items), scores, known=known, nobody=rng.integers(0, 5, items).tolist())
    pairs = [(user, item) for user in range(users + 1) for item in range(items + 1) if rng.random() < 0.4]
    test = [(user, item, float(rng.integers(1, 6))) for user, item in pairs if (user, item) not in set(known)]
    return model, [*test, (users + 7, 0, 5.0)]


def ranking_of(scores: Sequence[float], known: set[int]) -> list[int]:
    return sorted((item for item in range(len(scores)) if item not in known), key=lambda item: (-scores[item], item))


def by_definition(case: Case, n: int, popularity: bool) -> dict[str, Any]:
    """The measures of lists of n, one user and one item after the other."""
    model, test = case
    counts = model.item_counts().tolist()
    relevant: dict[int, dict[int, float]] = {}
    for user, item, rating in test:
        if rating >= 4:
            relevant.setdefault(user, {})[item] = rating - 1
    values: dict[str, list[float]] = {name: [] for name in ("ndcg", "recall", "recall_capped", "f1", "novelty", "mrr")}
    values["precision"] = []
    listed: list[int] = []
    found: list[int] = []
    for user, gains in sorted(relevant.items()):
        trained = user < len(model.users)
        known = set(model.known_items(user).tolist()) if trained else set()
        scores = counts if popularity else (model.scores[user] if trained else model.nobody).tolist()
        ranking = ranking_of(scores, known)
        best = ranking[:n]
        hits = [item for item in best if item in gains]
        precision, recall = len(hits) / n, len(hits) / len(gains)
        gained = sum(gains.get(item, 0) / log2(place + 2) for place, item in enumerate(best))
        ideal = sum(g / log2(place + 2) for place, g in enumerate(sorted(gains.values(), reverse=True)[:n]))
        places = [ranking.index(item) + 1 for item in gains if item in ranking]
        users = max(1, int((model.user_counts() > 0).sum()))
        values["ndcg"].append(gained / ideal)
        values["precision"].append(precision)
        values["recall"].append(recall)
        values["recall_capped"].append(len(hits) / min(n, len(gains)))
        values["f1"].append(2 * precision * recall / (precision + recall) if hits else 0)
        values["mrr"].append(1 / min(places) if places else 0)
        values["novelty"].append(float(np.mean([-log2(max(1, counts[i]) / users) for i in best])) if best else 0)
        listed += best
        found += hits
    share = [sum(low <= counts[item] <= high for item in listed) for low, high in ((0, 0), (1, 5), (6, 10**9))]
    return {
        **{name: float(np.mean(each)) for name, each in values.items()},
        "coverage": len(set(listed)) / len(counts),
        "slots": [count / max(1, len(listed)) for count in share],
        "found": sorted(found),
        "relevant": sum(map(len, relevant.values())),
        "of_users": values["ndcg"],
    }


@settings(max_examples=80, deadline=None)
@given(case=cases(), n=st.integers(1, 12), other=st.integers(1, 30), chunk=st.integers(1, 5))
def test_every_measure_by_its_definition(case: Case, n: int, other: int, chunk: int) -> None:
    model, test = case
    found = evaluate_ranking(model, ratings(test), n=n, cutoffs=(other,), chunk=chunk)
    for lists, popularity in ((found, False), (found.popularity, True)):
        expected = by_definition(case, n, popularity)
        for name in ("ndcg", "precision", "recall", "recall_capped", "f1", "novelty", "mrr", "coverage"):
            assert getattr(lists, name) == pytest.approx(expected[name]), name
        assert lists.of_users[f"ndcg@{n}"] == pytest.approx(np.array(expected["of_users"]))
        slots = lists.slots
        assert [slots.unrated, slots.few, slots.more] == pytest.approx(expected["slots"])
        assert sum(cluster.found for cluster in lists.clusters) == len(expected["found"])
        assert sum(cluster.ratings for cluster in lists.clusters) == expected["relevant"] == found.ratings
        longer = by_definition(case, other, popularity)
        for name in ("ndcg", "precision", "recall", "recall_capped", "f1", "novelty", "coverage"):
            assert getattr(lists.at(other), name) == pytest.approx(longer[name]), name


def row(found: MeasuredLists) -> dict[str, Any]:
    """What the lists of a model and those of popularity both have."""
    document = found.as_json()
    return {name: document[name] for name in MeasuredLists.__dataclass_fields__ if name in document}


def most_popular(model: Scored) -> Scored:
    counts = model.item_counts()
    known = [(int(user), int(item)) for user, item in np.argwhere(model.known)]
    scores = np.tile(counts, (len(model.users), 1))
    return Scored(model.users.ids, model.items.ids, scores, known=known, nobody=counts.tolist())


@settings(max_examples=40, deadline=None)
@given(case=cases(), n=st.integers(1, 12))
def test_the_lists_of_a_popularity_model_are_those_of_popularity(case: Case, n: int) -> None:
    found = evaluate_ranking(most_popular(case[0]), ratings(case[1]), n=n)
    assert row(found) == row(found.popularity)
    assert evaluate_ranking(case[0], ratings(case[1]), n=n).popularity == found.popularity


@settings(max_examples=40, deadline=None)
@given(case=cases(), n=st.integers(1, 12))
def test_a_list_that_knows_the_test_part_is_perfect(case: Case, n: int) -> None:
    model, test = case
    seen = [(user, item, rating) for user, item, rating in test if user < len(model.users) and item < len(model.items)]
    seen = [*seen, (0, 0, 5.0)] if not model.known[0, 0] and (0, 0) not in [one[:2] for one in seen] else seen
    if not any(rating >= 4 for *_, rating in seen):
        return
    truth = np.zeros(model.scores.shape, np.float32)
    for user, item, rating in seen:
        truth[user, item] = rating
    model.scores = truth
    found = evaluate_ranking(model, ratings(seen), n=n)
    assert (found.ndcg, found.recall_capped, found.mrr) == pytest.approx((1, 1, 1))
    assert [one.ndcg for one in found.cutoffs] == pytest.approx([1] * len(found.cutoffs))
    assert all(cluster.recall in (None, 1) for cluster in found.clusters) == (found.recall == 1)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(1, 30), st.integers(1, 35), st.integers(0, 2**31))
def test_the_best_of_many_rows_are_those_of_each(rows: int, items: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 6, (rows, items)).astype(np.float32)
    scores[rng.random((rows, items)) < 0.3] = -np.inf
    for best, own in zip(best_of_rows(scores, min(n, items)).tolist(), scores, strict=True):
        expected = ranking_of(own.tolist(), set(np.flatnonzero(own == -np.inf).tolist()))[:n]
        assert best == expected + [-1] * (min(n, items) - len(expected))


def test_clusters_and_slots_by_hand() -> None:
    """Five items with 0 to 4 ratings, each a cluster; lists of two for a newcomer, who likes the first and the last."""
    known = [(user, item) for item in range(5) for user in range(item)]
    model = Scored(range(4), "abcde", np.zeros((4, 5)), known=known, nobody=(5, 4, 3, 2, 1))
    found = evaluate_ranking(model, ratings([("new", "a", 5), ("new", "e", 4), ("new", "zzz", 5)]), n=2)
    assert [cluster.recall for cluster in found.clusters] == [1 / 2, None, None, None, 0]  # zzz is in the first
    assert [cluster.recall for cluster in found.popularity.clusters] == [0, None, None, None, 1]
    assert [cluster.most_training_ratings for cluster in found.clusters] == [0, 1, 2, 3, 4]
    assert [cluster.items for cluster in found.clusters] == [1] * 5
    assert (found.slots.unrated, found.slots.few, found.slots.more) == (1 / 2, 1 / 2, 0)
    assert (found.popularity.slots.unrated, found.popularity.slots.few) == (0, 1)


def test_interactions_are_all_relevant_and_worth_the_same() -> None:
    model = Scored(["u"], "abcde", [(5, 4, 3, 2, 1)])
    pairs = [("u", "a"), ("u", "c")]
    found = evaluate_ranking(model, interactions(pairs), n=2)
    assert (found.relevant, found.ratings) == (None, 2)
    assert found.ndcg == pytest.approx(1 / (1 + 1 / log2(3)))
    assert row(found) == row(evaluate_ranking(model, ratings([(*pair, 5.0) for pair in pairs]), n=2))
    with pytest.raises(DataError, match="relevant=4 is for ratings, and of interactions all are relevant"):
        evaluate_ranking(model, interactions(pairs), relevant=4)


def pair_of_models() -> tuple[RankingEvaluation, RankingEvaluation]:
    rng = np.random.default_rng(1)
    test = ratings([(user, item, 5.0) for user in range(40) for item in rng.choice(30, 4, replace=False).tolist()])
    one, other = (Scored(range(40), range(30), rng.random((40, 30))) for _ in range(2))
    return evaluate_ranking(one, test), evaluate_ranking(other, test)


def test_two_models_are_compared_user_by_user() -> None:
    one, other = pair_of_models()
    ratio = one.ratio_to(other)
    assert ratio.ratio == pytest.approx(one.ndcg / other.ndcg)
    assert ratio.pairs == 40
    recall = one.ratio_to(one.popularity, "recall_capped@20")
    assert recall.ratio == pytest.approx(one.at(20).recall_capped / one.popularity.at(20).recall_capped)
    with pytest.raises(DataError, match=r"'ndcg@7' was not measured for both, but ndcg@10, "):
        one.ratio_to(other, "ndcg@7")
    with pytest.raises(DataError, match=r"lists of 7 were not measured, but of 10, 20, 100"):
        one.at(7)
    fewer = evaluate_ranking(Scored(range(40), range(30), np.zeros((40, 30))), ratings([(0, 1, 5.0)]))
    with pytest.raises(DataError, match="the lists are of different users, so they cannot be compared"):
        one.ratio_to(fewer)


def test_what_lists_are_sorted_by_is_passed_on() -> None:
    class ByEither(Scored):
        def user_scores(self, users: Any, *, by: Any = "list") -> Any:
            return self.scores[users] * (1 if by == "list" else -1)

    model = ByEither(["u"], "abc", [(3, 2, 1)])
    test = ratings([("u", "a", 5)])
    by_list, by_rating = evaluate_ranking(model, test, n=1), evaluate_ranking(model, test, n=1, by="rating")
    assert (by_list.by, by_list.precision, by_rating.by, by_rating.precision) == ("list", 1, "rating", 0)


def test_cutoffs_that_are_none_are_refused() -> None:
    with pytest.raises(DataError, match=r"a cut-off must be a whole number of at least 1. Got 0"):
        evaluate_ranking(Scored(["u"], "abc", [(3, 2, 1)]), ratings([("u", "a", 5)]), cutoffs=(0,))
