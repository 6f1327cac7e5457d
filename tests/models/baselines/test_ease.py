"""EASE keeps the contract, and is the closed form of its paper, for new items too."""

import numpy as np
import pytest

from cofill.arrays import Doubles
from cofill.data.ratings import Ratings
from cofill.errors import DataError, SettingsError
from cofill.models.baselines import item_models
from cofill.models.baselines.item_models import EASE, ItemScorer
from tests.models.baselines.list_baseline_contract import ListBaselineContract
from tests.models.baselines.sparse_grades import dense_of
from tests.models.contract import cells, parts, small_cells


class TestContract(ListBaselineContract):
    baseline = EASE
    small_settings = {"penalty": 20.0}  # noqa: RUF012


def ease_of_the_paper(grades: Doubles, penalty: float) -> Doubles:
    """Steck 2019, algorithm 1."""
    gram = grades.T @ grades
    inverse = np.linalg.inv(gram + penalty * np.eye(len(gram)))
    weights: Doubles = inverse / -np.diag(inverse)
    np.fill_diagonal(weights, 0)
    return weights


def scorer_of(ratings: Ratings, penalty: float) -> ItemScorer:
    scorer = EASE(penalty=penalty).fit(ratings).scorer
    assert isinstance(scorer, ItemScorer)
    return scorer


@pytest.mark.parametrize("penalty", [0.5, 20.0, 500.0])
def test_weights_are_those_of_the_paper(penalty: float) -> None:
    scorer = scorer_of(parts().train, penalty)
    grades = dense_of(scorer.feedback.trained())
    weights = ease_of_the_paper(grades, penalty)
    np.testing.assert_allclose(scorer.arrays()["weights"][:-1], weights, rtol=0, atol=1e-6)
    popular = scorer.one(np.empty(0, np.int32), np.empty(0, np.float32))
    scores = scorer.of_people(scorer.feedback.rows(np.arange(20))) - popular
    np.testing.assert_allclose(scores, grades[:20] @ weights, rtol=0, atol=1e-5)


def test_a_new_item_is_weighted_as_it_would_have_been_fitted() -> None:
    """Towards it and from it; the weights among the others stay."""
    every = parts().train
    name, penalty = every.items.id(17), 5.0
    mine = every.item_index == 17
    frame = every.to_polars()
    rest, new = (Ratings.read(frame.filter(flags), scale=every.scale) for flags in (~mine, mine))
    model = EASE(penalty=penalty).fit(rest).add_ratings(new)
    expected = ease_of_the_paper(dense_of(EASE(penalty=penalty).fit(every).scorer.feedback.trained()), penalty)
    others = np.array([item for item in range(len(every.items)) if item != 17])
    order = model.items.find(every.items.array()[others])
    place = np.array([model.items.index(name)], np.int32)
    ones = np.ones(len(others), np.float32)
    np.testing.assert_allclose(
        model.scorer.shares(order, ones, place)[0], expected[others, 17], rtol=0, atol=1e-5
    )  # fmt: skip
    np.testing.assert_allclose(
        model.scorer.shares(place, ones[:1], order)[:, 0], expected[17, others], rtol=0, atol=1e-5
    )


def test_an_item_that_changed_is_weighted_as_it_would_have_been_fitted() -> None:
    """All that is known of it is other than in training: what it said then is gone."""
    triples = small_cells()
    changed = [(user, 4, 6.0 - rating) for user, item, rating in triples if item == 4]
    model = EASE(penalty=2.0).fit(cells(triples)).add_ratings(cells(changed))
    now = [cell for cell in triples if cell[1] != 4] + changed
    expected = ease_of_the_paper(dense_of(EASE(penalty=2.0).fit(cells(now)).scorer.feedback.trained()), 2.0)
    others = np.array([item for item in range(11) if item != 4], np.int32)
    place, ones = np.array([4], np.int32), np.ones(10, np.float32)
    np.testing.assert_allclose(model.scorer.shares(others, ones, place)[0], expected[others, 4], rtol=0, atol=1e-5)
    np.testing.assert_allclose(
        model.scorer.shares(place, ones[:1], others)[:, 0], expected[4, others], rtol=0, atol=1e-5
    )


def test_a_catalogue_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_models, "MOST_ITEMS", 10)
    with pytest.raises(DataError, match="there are 11 items, more than 10; use another algorithm, such as means"):
        EASE().fit(cells(small_cells()))


def test_the_penalty_is_chosen_or_given() -> None:
    chosen = EASE().fit(parts().train)
    assert 5 <= float(dict(chosen.facts())["penalty"]) <= 10_240
    assert EASE().fit(cells([(1, 1, 4.0)])).facts() == [("penalty", "160")]
    with pytest.raises(SettingsError, match="'penalty' must be greater than 0"):
        EASE(penalty=0)
