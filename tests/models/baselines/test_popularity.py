"""Popularity keeps the contract, and is what counting finds."""

from collections import Counter

from cofill.models.baselines.popularity import Popularity
from tests.models.baselines.list_baseline_contract import ListBaselineContract
from tests.models.contract import cells, small_cells


class TestContract(ListBaselineContract):
    baseline = Popularity
    personal = False


def test_the_scores_are_counts_that_follow() -> None:
    triples = small_cells()
    model = Popularity(grading="plain").fit(cells(triples))
    model.add_ratings(cells([(88, 3, 1.0), (89, 3, 5.0), (88, 77, 2.0)]))
    gone = [triples[0][:2], triples[5][:2], (89, 3)]
    model.remove_ratings(gone)
    counts = Counter([item for _, item, _ in triples] + [3, 3, 77])
    counts.subtract(item for _, item in gone)
    assert dict(zip(model.items, model.score("nobody").tolist(), strict=True)) == counts
    assert model.score(88).tolist() == model.score("nobody").tolist()
    assert model.recommend("nobody", n=1)[0].score == max(counts.values())


def test_liked_counts_what_was_rated_high() -> None:
    triples = small_cells()
    model = Popularity(grading="liked").fit(cells(triples))
    counts = Counter(dict.fromkeys(model.items, 0))
    counts.update(item for _, item, rating in triples if rating >= 4)
    assert dict(zip(model.items, model.score(1).tolist(), strict=True)) == counts
