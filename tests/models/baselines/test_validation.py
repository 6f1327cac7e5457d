"""Settings are chosen by the NDCG that evaluation measures, on ratings that were held out of the training part."""

import numpy as np
import polars as pl
import pytest

from cofill.data.ratings import Ratings
from cofill.evaluation.ranking import evaluate_ranking
from cofill.models.baselines.item_models import EASE, ease_of
from cofill.models.baselines.popularity import Validation, climbed
from cofill.models.lists.feedback import sparse_times
from cofill.models.lists.item_weights import gram_of
from tests.models.baselines.sparse_grades import dense_of
from tests.models.contract import cells, parts, small_cells


def test_what_is_held_out_is_not_learned_from() -> None:
    feedback = EASE(penalty=9.0).fit(parts().train).scorer.feedback
    validation = Validation.of(feedback, 0)
    assert validation is not None
    train, whole = dense_of(validation.train), dense_of(feedback.trained())
    assert 0.05 < 1 - (train > 0).sum() / (whole > 0).sum() < 0.15
    np.testing.assert_array_equal(train[train > 0], whole[train > 0])
    found = dense_of(validation.found)
    assert not ((found > 0) & (train[validation.users] > 0)).any()
    assert ((found > 0) <= (whole[validation.users] > 0)).all()
    assert (found.max(1) > 0).all()


def test_the_measure_is_that_of_evaluation() -> None:
    ratings = parts().train
    feedback = EASE(penalty=9.0).fit(ratings).scorer.feedback
    validation = Validation.of(feedback, 3)
    assert validation is not None
    learned = dense_of(validation.train) > 0
    inside = learned[ratings.user_index, ratings.item_index]
    model = EASE(penalty=30.0).fit(ratings.select(inside))
    measured = validation.ndcg(lambda did: sparse_times(did, ease_of(gram_of(validation.train, np.float64), 30.0)[0]))
    assert measured == pytest.approx(evaluate_ranking(model, ratings.select(~inside)).ndcg, abs=1e-3)


def test_too_little_to_hold_any_out() -> None:
    assert Validation.of(EASE(penalty=9.0).fit(cells([(1, 1, 5.0)])).scorer.feedback, 0) is None
    frame = cells(small_cells()).to_polars().with_columns(rating=pl.lit(1.0))
    nothing_liked = Ratings.read(frame, scale=(1, 5))
    assert Validation.of(EASE(penalty=9.0).fit(nothing_liked).scorer.feedback, 0) is None


def test_the_climb_ends_at_the_top_and_in_time() -> None:
    grids = {"a": (1.0, 2.0, 4.0, 8.0, 16.0), "b": (0.1, 1.0, 10.0)}
    shares: list[float] = []

    def height(point: dict[str, float]) -> float:
        return float(-((np.log2(point["a"]) - 3) ** 2) - np.log10(point["b"]) ** 2 - point["c"])

    start = {"a": 1.0, "b": 10.0, "c": 5.0}
    assert climbed(grids, start, height, shares.append, most=30) == {"a": 8.0, "b": 1.0, "c": 5.0}
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    asked: list[dict[str, float]] = []
    climbed(grids, start, lambda point: asked.append(point) or height(point), shares.append, most=3)  # type: ignore[func-returns-value]
    assert len(asked) == 3
