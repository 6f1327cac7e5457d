"""The sentence at the top of a page: what is better, what is worse, and what chance alone may have made."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from cofill.data.datasets.world import make_world
from cofill.data.features import Features
from cofill.data.interactions import Interactions
from cofill.data.ratings import Ratings
from cofill.data.splits import random_split
from cofill.models import algorithm
from cofill.models.cfn.model import CFN
from cofill.report import Subject
from cofill.report.subject import fitted_ease, known_ratings, percent, squared_errors_to_biases, verdict_on


@pytest.fixture(scope="module")
def parts() -> tuple[Ratings, Ratings]:
    return random_split(make_world(users=150, items=80, ratings=6000, seed=3).ratings, ratio=0.8, seed=0)


def subject(kind: str, parts: tuple[Ratings, Ratings], test: Ratings | None = None, **settings: Any) -> Subject:
    return Subject(algorithm(kind)(**settings).fit(parts[0]), "films", test=parts[1] if test is None else test)


@pytest.fixture(scope="module")
def tastes() -> tuple[Ratings, Ratings]:
    """Two kinds of people and two kinds of items: the means know nothing of who likes what."""
    rng = np.random.default_rng(0)
    pairs = [pair for pair in np.ndindex(80, 60) if rng.random() < 0.5]
    lines = [(user, item, 4.0 + rng.integers(2) if user % 2 == item % 2 else 2.0) for user, item in pairs]
    return random_split(Ratings.read(lines, scale=(1, 5)), ratio=0.8, seed=0)


def test_a_model_that_is_better_says_by_how_much(tastes: tuple[Ratings, Ratings]) -> None:
    about = subject("als-wr", tastes, rank=4)
    found = verdict_on(about)
    ours, biases = about.evaluation.rmse, about.biases_evaluation.rmse
    assert found.good is True
    assert found.sentence.startswith(f"Predictions are {percent(1 - ours / biases)} closer than the biases (RMSE ")
    lists = about.ranking
    assert not isinstance(lists, Exception)
    times = lists.recall / lists.popularity.recall
    assert f"; lists find {times:.1f} times as much as popularity and " in found.sentence
    ease = about.ease_ranking
    assert ease is not None
    figures = f"(recall@10 {lists.recall:.3f}; popularity {lists.popularity.recall:.3f}, EASE {ease.recall:.3f})"
    assert figures in found.sentence
    assert found.sentence.endswith(").")


def test_the_means_are_no_better_than_themselves(parts: tuple[Ratings, Ratings]) -> None:
    assert verdict_on(subject("means", parts)).sentence.startswith("Predictions are those of the biases (RMSE ")


def test_a_model_that_is_worse_is_called_so(parts: tuple[Ratings, Ratings]) -> None:
    overfitted = subject("als-wr", parts, rank=40, weight_decay=1e-3, iterations=8)
    found = verdict_on(overfitted)
    assert found.good is False
    assert "further off than the biases" in found.sentence


def test_a_difference_that_chance_may_have_made_is_no_difference(parts: tuple[Ratings, Ratings]) -> None:
    few = parts[1].select(np.arange(0, len(parts[1]), 60))
    about = subject("cfn", parts, few, epochs=2, hidden=4, threads=1)
    ratio = squared_errors_to_biases(about)
    assert ratio is not None
    assert ratio.half_width is not None
    assert abs(ratio.ratio - 1) <= ratio.half_width
    assert "no closer than the biases, beyond chance" in verdict_on(about).sentence


def test_what_cannot_be_judged_is_not_judged(parts: tuple[Ratings, Ratings]) -> None:
    model = CFN(epochs=2, hidden=4, threads=1).fit(parts[0])
    assert "Nothing was measured yet" in verdict_on(Subject(model, "films")).sentence
    trained = verdict_on(Subject(model, "films", test=parts[0]))
    assert trained.good is None
    assert trained.sentence.startswith("Predictions cannot be judged by these ratings, because the model was trained")
    one = parts[1].select(parts[1].user_index == parts[1].user_index[0])
    assert "on too little to judge them" in verdict_on(Subject(model, "films", test=one)).sentence
    nothing = Ratings.read([("stranger", "strange", 5.0)])
    assert verdict_on(Subject(model, "films", test=nothing)).good is None


def test_interactions_are_judged_by_lists_alone(parts: tuple[Ratings, Ratings]) -> None:
    train, test = (Interactions.read(part.to_polars().select("user", "item")) for part in parts)
    found = verdict_on(Subject(algorithm("lists")().fit(train), "clicks", test=test))
    assert found.sentence.startswith("Lists find ")
    assert "RMSE" not in found.sentence


def test_the_means_are_those_of_the_baseline_of_that_name(parts: tuple[Ratings, Ratings]) -> None:
    model = algorithm("means")().fit(parts[0])
    strangers = Ratings.read([(9999, 1, 3.0), (1, 9999, 3.0)])
    ages = Features.read(pl.DataFrame({"user": range(1, 151), "age": [user % 50 for user in range(150)]}))
    for fitted, peer in (
        (model, "biases (RMSE"),
        (algorithm("means")().fit(parts[0], user_features=ages), "biases with the same features (RMSE"),
    ):
        for test in (parts[1], strangers):
            about = Subject(fitted, "means", test=test)
            np.testing.assert_allclose(about.biases_said, about.predictions, atol=2e-3)
        assert peer in verdict_on(Subject(fitted, "means", test=parts[1])).sentence


def test_ease_is_not_compared_with_itself(parts: tuple[Ratings, Ratings]) -> None:
    ease = algorithm("ease")(penalty=100).fit(parts[0])
    assert fitted_ease(ease, known_ratings(ease)) is None


@pytest.mark.parametrize(
    ("share", "words"), [(0.094, "9 %"), (0.25, "25 %"), (0.0064, "0.6 %"), (0.019, "1.9 %"), (0.0, "less than 0.1 %")]
)
def test_percent_as_people_write_it(share: float, words: str) -> None:
    assert percent(share) == words
