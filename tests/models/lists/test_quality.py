"""Lists in a world whose truth is known: floors that a broken scorer does not pass."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from cofill.cli.tour import BestLists
from cofill.data.datasets.world import World, make_world
from cofill.data.features import Features
from cofill.data.splits import Split, random_split
from cofill.evaluation import evaluate_ranking
from cofill.models.bias_models import ListModel


@cache
def world() -> tuple[World, Features]:
    made = make_world(users=600, items=300, ratings=36_000, seed=4)
    with TemporaryDirectory() as folder:
        made.write(Path(folder))
        return made, Features.read(Path(folder) / "movies.csv", columns={"title": "skip"})


@cache
def parts() -> Split:
    """Without any rating of a tenth of the films, of which only features are known."""
    ratings = world()[0].ratings
    return random_split(ratings.select(ratings.item_index % 10 != 0), ratio=0.9, seed=1)


def test_lists_come_near_the_best_possible_ones() -> None:
    train, test = parts()
    found = evaluate_ranking(ListModel().fit(train), test)
    best = evaluate_ranking(BestLists(train, world()[0], found.relevant or 0.0), test)
    assert found.ndcg > 1.7 * found.popularity.ndcg
    assert found.ndcg > 0.88 * best.ndcg


def test_features_of_items_that_nobody_rated_do_not_flood_lists() -> None:
    train, test = parts()
    plain, described = (
        evaluate_ranking(ListModel().fit(train, item_features=features), test) for features in (None, world()[1])
    )
    assert described.ndcg > 0.99 * plain.ndcg
    assert described.slots.unrated == 0
