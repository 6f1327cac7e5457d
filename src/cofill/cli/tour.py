"""A tour of cofill on a generated world of films, whose truth is known: what `make demo` runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cofill.atomic import replacing
from cofill.cli.output import note, shown
from cofill.data.ratings import Ratings
from cofill.data.splits import random_split
from cofill.data.world import World, make_world
from cofill.errors import SettingsError
from cofill.evaluation import Evaluation, evaluate
from cofill.progress import share_done, training_progress
from cofill.recommender import CFN

_LEAST_ITEMS = 4  # three that somebody rates, one to recommend
_LEAST_RATINGS = 10  # one of them to test


@dataclass(frozen=True)
class DemoResult:
    """What the demo shows at its end."""

    measures: list[tuple[str, float]]
    somebody: list[tuple[str, float]]
    recommendations: list[tuple[str, float, float]]  # title, predicted, truth of a like-minded person


def run_demo(out: Path, *, users: int, items: int, ratings: int, seed: int, quiet: bool) -> DemoResult:
    """Make a world, train both orientations, measure them, recommend, and write report.md."""
    for what, count, least in (("items", items, _LEAST_ITEMS), ("ratings", ratings, _LEAST_RATINGS)):
        if count < least:
            raise SettingsError(f"the demo needs at least {least} {what} to have something to show. Got {count}")
    _say(f"1. a world of {items:,} films and {users:,} people, with {ratings:,} ratings", quiet)
    with share_done("making the world", quiet) as progress:
        world = make_world(users=users, items=items, ratings=ratings, seed=seed, progress=progress)
    world.write(out / "world")
    parts = random_split(world.ratings, ratio=0.9, seed=seed)

    models: dict[str, CFN] = {}
    for number, (orientation, what) in enumerate((("item", "items"), ("user", "users")), 2):
        _say(f"{number}. training on 90 % of them, rows are {what}", quiet)
        with training_progress(quiet) as report:
            models[orientation] = CFN(orientation=orientation, seed=seed).fit(parts.train, report=report)
    model = models["item"]
    model.save(out / "model")

    _say("4. measuring on the other 10 %", quiet)
    evaluations = {orientation: evaluate(model, parts.test) for orientation, model in models.items()}
    measures = [
        ("everybody's mean", _rmse(np.full(len(parts.test), parts.train.values.mean()), parts.test)),
        ("each film's mean", _rmse(_film_means(parts.train, parts.test), parts.test)),
        ("cofill, rows are users", evaluations["user"].rmse),
        ("cofill, rows are items", evaluations["item"].rmse),
        ("the truth, which nobody can beat", _rmse(_truth(world, parts.test), parts.test)),
    ]
    somebody = _somebody(world)
    found = model.recommend({world.ratings.items.id(item): rating for item, rating in somebody}, 10)
    truth = _likeminded_truth(world, somebody)
    recommendations = [
        (entry.title or str(entry.item), entry.rating, float(truth[world.ratings.items.index(entry.item)]))
        for entry in found
    ]
    titles = world.films.titles
    result = DemoResult(measures, [(titles[item], rating) for item, rating in somebody], recommendations)
    with replacing(out / "report.md") as draft:
        draft.write_text(_report(world, models, evaluations["item"], result), encoding="utf-8")
    return result


def _somebody(world: World) -> list[tuple[int, float]]:
    """Somebody with a clear taste: the best known film of one genre loved twice, one of the rarest genre mix not."""
    counts = np.bincount(world.ratings.item_index, minlength=len(world.films.titles))
    loved_genre = int(np.argmax(world.films.genres.sum(0)))
    in_genre = world.films.genres[:, loved_genre]
    loved = np.argsort(-counts * in_genre)[:2]
    disliked = np.argsort(-counts * ~in_genre)[:1]
    return [(int(loved[0]), 5.0), (int(loved[1]), 4.5), (int(disliked[0]), 1.5)]


def _likeminded_truth(world: World, somebody: list[tuple[int, float]]) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """What the person of this world who agrees most with these ratings truly thinks of every film."""
    everyone = np.arange(len(world.people.ages))
    distance = np.zeros(len(everyone))
    for item, rating in somebody:
        distance += (world.truth(everyone, np.full(len(everyone), item)) - rating) ** 2
    nearest = int(np.argmin(distance))
    films = np.arange(len(world.films.titles))
    return np.asarray(world.truth(np.full(len(films), nearest), films), np.float32)


def _truth(world: World, test: Ratings) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.asarray(world.truth.expected(test.user_index, test.item_index), np.float64)


def _film_means(train: Ratings, test: Ratings) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Damped with five ratings of average value, as cofill's own means are."""
    counts = np.bincount(train.item_index, minlength=len(train.items))
    sums = np.bincount(train.item_index, weights=train.values, minlength=len(train.items))
    means = (sums + 5 * train.values.mean()) / (counts + 5)
    return np.asarray(means[test.item_index], np.float64)


def _rmse(predicted: np.ndarray[tuple[int], np.dtype[np.float64]], test: Ratings) -> float:
    return float(np.sqrt(np.mean((predicted - test.values) ** 2)))


def _report(world: World, models: dict[str, CFN], evaluation: Evaluation, result: DemoResult) -> str:
    model = models["item"]
    curve = [r for r in model.history if r.validation_rmse is not None]
    summary = world.ratings.summary()
    parts = [
        "# cofill demo",
        f"{summary['ratings']:,} ratings of {summary['items']:,} generated films by {summary['users']:,} people; "
        f"models were trained on 90 % of them and measured on the rest.",
        "## How far off predictions are",
        _table(("who predicts", "RMSE"), result.measures),
        "## By number of training ratings of the film (rows are items)",
        _table(
            ("films", "training ratings up to", "test ratings", "RMSE"),
            [
                (f"{c.share_from:.0%} to {c.share_to:.0%}", c.most_training_ratings, c.ratings, c.rmse)
                for c in evaluation.clusters
            ],
        ),
        "## Somebody new, who rated three films",
        _table(("film", "rating"), result.somebody),
        "## What they would like",
        "Beside the prediction stands the truth of the person in this world who agrees most with those ratings.",
        _table(("film", "predicted", "truth"), result.recommendations),
        f"## How the number of epochs was chosen ({model.measures['epochs']}, rows are items)",
        _table(("epoch", "loss", "validation RMSE"), [(r.epoch, r.loss, r.validation_rmse) for r in curve]),
    ]
    return "\n\n".join(parts) + "\n"


def _table(columns: tuple[str, ...], rows: Sequence[Sequence[object]]) -> str:
    lines = [columns, tuple("---" for _ in columns), *(tuple(shown(cell) for cell in row) for row in rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _say(text: str, quiet: bool) -> None:
    if not quiet:
        note(text)
