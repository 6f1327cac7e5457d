"""The demo: cofill on synthetic films and people whose true ratings are known. `make demo` runs it."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.arrays import Bools, Floats, Ints, Longs
from cofill.charts.markup import Amount, Stars
from cofill.cli.output import note
from cofill.data.datasets.world import World, make_world
from cofill.data.datasets.world_words import OCCUPATIONS
from cofill.data.described import FeatureWidthWarning
from cofill.data.features import Features
from cofill.data.ratings import Ratings
from cofill.data.splits import random_split
from cofill.errors import DataError, SettingsError
from cofill.evaluation import Evaluation, evaluate, evaluate_ranking
from cofill.evaluation.list_measures import CutOff
from cofill.evaluation.ratings import RatingModel
from cofill.models.biases import Biases
from cofill.models.cfn.model import CFN
from cofill.models.lists.rules import By
from cofill.models.results import Recommendation
from cofill.progress import share_done, shown
from cofill.report import Part, Subject, write_report
from cofill.report.page_parts import beside, paragraph, section, table
from cofill.report.subject import fitted_biases, verdict_on

_LEAST_ITEMS = 4  # three that a new user rates, one to recommend
_LEAST_RATINGS = 10  # one of them to test
_ONE_IN = 20  # films and people are held out entirely
_SAME_AGE = 5  # years, up or down
_TO_THE_DESCRIBED = 5  # recommendations

MEASURED = ("model", "known films", "rarest fifth", "new films", "new people")
LISTED = ("model", "NDCG@10", "recall@10", "coverage")
_BIASES, _ORACLE = "biases, with side information", "oracle (best in expectation)"

Recommended = tuple[str, Stars, Stars]
"""A title, the predicted rating, and the truth."""


@dataclass(frozen=True)
class Described:
    """A new user known by features only, and what is recommended to them."""

    who: str
    features: dict[str, str | int]
    recommendations: list[Recommended]


@dataclass(frozen=True)
class DemoResult:
    """What the demo shows at its end."""

    summary: dict[str, Any]
    held_out: dict[str, int]
    measures: list[tuple[str, float, float | None, float | None, float | None]]
    """RMSE in the columns of MEASURED; None where nothing was held out."""
    lists: list[tuple[str, float, float, float]]
    """In the columns of LISTED, for known people; empty where no held-out rating is high enough to be found."""
    newcomer: list[tuple[str, float]]
    recommendations: list[Recommended]
    """Beside the truth of a like-minded person."""
    described: list[Described]
    """Beside the mean truth of people of that age and occupation."""
    verdict: str = ""
    """On the model with side information, in one sentence."""


class Parts(NamedTuple):
    """What is trained on, and what is measured on: ratings of known films and people, of new films, by new people."""

    train: Ratings
    test: Ratings
    new_films: Ratings
    new_people: Ratings


class Answers:
    """A formula of ratings with the interface of a model, for comparison."""

    def __init__(self, train: Ratings, formula: Callable[[Ints, Ints], npt.NDArray[np.floating]]) -> None:
        self.users, self.items = train.users, train.items
        self._train, self._formula = train, formula

    def predict_indices(self, users: Ints, items: Ints) -> Floats:
        return self._formula(users, items).astype(np.float32)

    def user_counts(self) -> Longs:
        return np.bincount(self._train.user_index, minlength=len(self.users))

    def item_counts(self) -> Longs:
        return np.bincount(self._train.item_index, minlength=len(self.items))


def make_demo(out: Path, *, users: int, items: int, ratings: int, seed: int, quiet: bool) -> DemoResult:
    """Make a world, train with and without side information, measure, recommend, and write report.html."""
    for what, count, least in (("items", items, _LEAST_ITEMS), ("ratings", ratings, _LEAST_RATINGS)):
        if count < least:
            raise SettingsError(f"the demo needs at least {least} {what} to have something to show. Got {count}")
    _say(f"1. making a world: {items:,} films, {users:,} people, {ratings:,} ratings with known truth", quiet)
    with share_done("making the world", quiet) as share:
        world = make_world(users=users, items=items, ratings=ratings, seed=seed, progress=share)
    world.write(out / "world")
    parts = hold_out(world.ratings, seed)
    about_films, about_people = _side_information(world, out / "world")

    _say("2. training on ratings alone", quiet)
    plain = _trained(parts.train, seed, quiet)
    _say("3. training on ratings and side information", quiet)
    model = _trained(parts.train, seed, quiet, about_films, about_people)
    model.draw_map()
    model.save(out / "model")

    _say("4. measuring on what was held out", quiet)
    subject = Subject(model, "cofill demo", test=parts.test, test_name=str(out / "test.csv"), quiet=quiet)
    known = {"cofill, ratings alone": (plain, evaluate(plain, parts.test))}
    known["cofill, with side information"] = (model, subject.evaluation)
    newcomer = _newcomer(world)
    result = DemoResult(
        summary=world.ratings.summary(),
        held_out={"ratings": len(parts.test), "new films": len(parts.new_films), "new people": len(parts.new_people)},
        measures=_measures(world, parts, known, {"biases": fitted_biases(plain, parts.train), _BIASES: subject.biases}),
        lists=_lists(world, parts, subject),
        newcomer=[(world.films.titles[item], rating) for item, rating in newcomer],
        recommendations=_for_newcomer(model, world, newcomer),
        described=[
            _for_described(model, world, int(person))
            for person in (np.argmin(world.people.ages), np.argmax(world.people.ages))
        ],
    )
    _say("5. writing the report, with a map of the films", quiet)
    parts.test.write(out / "test.csv")
    write_report(subject, out / "report.html", demo_parts(result))
    return replace(result, verdict=verdict_on(subject).sentence)


def _trained(
    train: Ratings, seed: int, quiet: bool, about_films: Features | None = None, about_people: Features | None = None
) -> CFN:
    with shown(quiet) as progress, warnings.catch_warnings():
        # A world may be made so small that no network is narrow enough for it; that is no news.
        warnings.simplefilter("ignore", FeatureWidthWarning)
        return CFN(seed=seed).fit(train, item_features=about_films, user_features=about_people, progress=progress)


def hold_out(ratings: Ratings, seed: int) -> Parts:
    """Hold out some films and people entirely, and a tenth of the ratings of the others."""
    rng = np.random.default_rng(seed)
    new_film = _chosen(len(ratings.items), rng)[ratings.item_index]
    new_person = _chosen(len(ratings.users), rng)[ratings.user_index]
    if (~new_film & ~new_person).sum() < _LEAST_RATINGS:
        new_film[:] = new_person[:] = False
    train, test = random_split(ratings.select(~new_film & ~new_person), ratio=0.9, seed=seed)
    return Parts(train, test, ratings.select(new_film & ~new_person), ratings.select(new_person & ~new_film))


def _chosen(count: int, rng: np.random.Generator) -> Bools:
    chosen: Bools = rng.permutation(count) < count // _ONE_IN
    return chosen


def _side_information(world: World, folder: Path) -> tuple[Features, Features]:
    """From the files of the world, as a user would read them: about films and about people."""
    films = [Features.read(folder / "movies.csv", columns={"title": "skip"})]  # the year has a column of its own
    people = [Features.read(folder / "users.csv")]
    if len(world.films.tag_film):
        films.append(Features.read(folder / "tags.csv"))
    if len(world.people.friends):
        people.append(Features.read(folder / "friends.csv", kind="links", name="friends"))
    return Features.join(films), Features.join(people)


def _measures(
    world: World, parts: Parts, known: dict[str, tuple[CFN, Evaluation]], biases: dict[str, Biases]
) -> list[tuple[str, float, float | None, float | None, float | None]]:
    """Ours between the best that needs no tastes and the best that knows all."""
    formulas = {name: Answers(parts.train, of.at_pairs) for name, of in biases.items()}
    formulas[_ORACLE] = Answers(parts.train, world.truth.expected)
    simple: dict[str, tuple[RatingModel, Evaluation]] = {
        name: (formula, evaluate(formula, parts.test)) for name, formula in formulas.items()
    }
    oracle = simple.popitem()
    measures = []
    for name, (model, evaluation) in (*simple.items(), *known.items(), oracle):
        new_films, new_people = (
            evaluate(model, new).rmse if len(new) else None for new in (parts.new_films, parts.new_people)
        )
        measures.append((name, evaluation.rmse, evaluation.clusters[0].rmse, new_films, new_people))
    return measures


def _lists(world: World, parts: Parts, subject: Subject) -> list[tuple[str, float, float, float]]:
    """Lists of ten by popularity, by EASE, by predicted rating, by cofill, and the best possible ones."""
    ours = subject.ranking
    if isinstance(ours, DataError):  # a world so small that no held-out rating is high enough to be found
        return []
    by_rating = evaluate_ranking(subject.model, parts.test, by="rating")
    best = evaluate_ranking(BestLists(parts.train, world, ours.relevant or 0.0), parts.test)
    rows: list[tuple[str, CutOff]] = [
        ("popularity", ours.popularity),
        *([("EASE", ease)] if (ease := subject.ease_ranking) is not None else []),
        ("cofill, by predicted rating", by_rating),
        ("cofill", ours),
        (_ORACLE, best),
    ]
    return [(name, found.ndcg, found.recall, found.coverage) for name, found in rows]


class BestLists(Answers):
    """The lists of an oracle, from the true choices and tastes of each user."""

    def __init__(self, train: Ratings, world: World, relevant: float) -> None:
        super().__init__(train, world.truth.expected)
        self._world, self._relevant = world, relevant
        self._rows = train.rows("user")
        self.scale = train.scale

    def user_scores(self, users: Longs, *, by: By = "list") -> Floats:
        return self._world.truth.best_scores(users, relevant=self._relevant).astype(np.float32)

    def stranger_scores(self, *, by: By = "list") -> Floats:
        return self.item_counts().astype(np.float32)

    def known_items(self, user: int) -> Ints:
        return self._rows.row(user)[0]


def _newcomer(world: World) -> list[tuple[int, float]]:
    """A made-up user with a clear taste: loves the two best known films of a genre, dislikes one of another kind."""
    counts = np.bincount(world.ratings.item_index, minlength=len(world.films.titles))
    loved_genre = int(np.argmax(world.films.genres.sum(0)))
    in_genre = world.films.genres[:, loved_genre]
    loved = np.argsort(-counts * in_genre)[:2]
    disliked = np.argsort(-counts * ~in_genre)[:1]
    return [(int(loved[0]), 5.0), (int(loved[1]), 4.5), (int(disliked[0]), 1.5)]


def _for_newcomer(model: CFN, world: World, newcomer: list[tuple[int, float]]) -> list[Recommended]:
    """Recommendations for these ratings, beside the true ratings of the person who agrees most with them."""
    everyone = np.arange(len(world.people.ages))
    distance = np.zeros(len(everyone))
    for item, rating in newcomer:
        distance += (world.truth(everyone, np.full(len(everyone), item)) - rating) ** 2
    found = model.recommend({world.ratings.items.id(item): rating for item, rating in newcomer}, 10)
    return _beside_truth(found, world, np.argmin(distance, keepdims=True))


def _for_described(model: CFN, world: World, person: int) -> Described:
    """Recommendations for a new user without ratings who has this person's age and occupation."""
    people = world.people
    age, occupation = int(people.ages[person]), int(people.occupations[person])
    about: dict[str, str | int] = {"age": age, "occupation": OCCUPATIONS[occupation]}
    assert model.user_features is not None
    columns = [column.name for source in model.user_features.sources for column in source.used]
    found = model.recommend({}, _TO_THE_DESCRIBED, features={**dict.fromkeys(columns), **about})
    alike = (people.occupations == occupation) & (np.abs(people.ages - age) <= _SAME_AGE)
    return Described(
        f"age {age}, occupation {OCCUPATIONS[occupation]}", about, _beside_truth(found, world, alike.nonzero()[0])
    )


def _beside_truth(found: list[Recommendation], world: World, people: npt.NDArray[np.integer]) -> list[Recommended]:
    """Recommendations beside the mean true rating of these people."""
    recommended = []
    for entry in found:
        film = np.full(len(people), world.ratings.items.index(entry.item))
        truth = float(world.truth(people, film).mean())
        recommended.append((entry.title or str(entry.item), Stars(entry.rating or 0), Stars(truth)))
    return recommended


def _say(text: str, quiet: bool) -> None:
    if not quiet:
        note(text)


# What is shown, on the terminal and in the report


def demo_parts(result: DemoResult) -> list[Part]:
    """What stands in the demo's report before the parts about its model."""
    summary, held_out = result.summary, result.held_out
    measured = section(
        "demo",
        "The demo",
        paragraph(
            f"{summary['ratings']:,} ratings of {summary['items']:,} generated films by {summary['users']:,} people. "
            f"Held out to measure on: {held_out['ratings']:,} ratings of known films by known people, all "
            f"{held_out['new films']:,} ratings of some films and all {held_out['new people']:,} by some people. "
            "Side information is what the world tells about films (year, genres, tags) and people (age, occupation, "
            "friends)."
        ),
        table("RMSE of predictions", MEASURED, result.measures),
        paragraph(
            "RMSE, where less is better. Of new films and people no rating was trained on. Biases are the overall mean "
            "with what a person gives and a film gets above it; side information moves both."
        ),
        table("Lists of ten", LISTED, result.lists),
        paragraph(
            "NDCG@10, where more is better, over known people; relevant are ratings in the upper quarter of the scale. "
            "In this world people choose what they see by popularity and by taste, as in life."
        ),
    )
    columns = ("film", "predicted", "truth")
    rated = [(film, Amount(f"{rating:g}")) for film, rating in result.newcomer]
    people = [
        beside(
            table("A new user who rated three films", ("film", "rating"), rated),
            table("What they would like", columns, result.recommendations),
        ),
        paragraph("Beside the prediction stands the truth of the person in this world who agrees most with them."),
        beside(
            *(
                table(f"A new user who rated nothing: {described.who}", columns, described.recommendations)
                for described in result.described
            )
        ),
        paragraph("Beside the prediction stands the mean truth of the people in this world who are like that."),
    ]
    return [
        Part("demo", "The demo", measured),
        Part("new-people", "New people", section("new-people", "New people", *people)),
    ]
