"""The synthetic world: exact counts, real skew, and a truth that is one."""

import csv
import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.data.datasets.world import World, choose_films, make_world, make_world_like
from cofill.data.datasets.world_truth import Choosing, read_truth
from cofill.data.datasets.world_words import GENRES, OCCUPATIONS, TAGS
from cofill.data.ratings import Ratings
from cofill.data.splits import random_split
from cofill.errors import DataError, DatasetError, SettingsError

Doubles = npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def world() -> World:
    """Of the shape of MovieLens 1M."""
    return make_world_like("ml-1m", seed=1)


def rmse(predicted: Doubles | float, actual: Doubles) -> float:
    return float(np.sqrt(np.mean((predicted - actual) ** 2)))


def counts(world: World) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    ratings = world.ratings
    by_user = np.bincount(ratings.user_index, minlength=len(ratings.users))
    return by_user, np.bincount(ratings.item_index, minlength=len(ratings.items))


def explained(features: Doubles, target: npt.NDArray[np.floating]) -> float:
    """The share of variance that a least squares fit explains on the half it was not fitted to."""
    half = len(target) // 2
    design = np.concatenate([features, np.ones((len(features), 1))], axis=1)
    weights = np.linalg.lstsq(design[:half], target[:half], rcond=None)[0]
    rest = target[half:]
    return float(1 - np.mean((design[half:] @ weights - rest) ** 2) / rest.var())


def test_shape_and_counts_are_exact(world: World) -> None:
    ratings = world.ratings
    assert (len(ratings.users), len(ratings.items), len(ratings)) == (6_040, 3_706, 1_000_209)
    assert list(ratings.users)[:2] == [1, 2]
    assert tuple(ratings.scale) == (0.5, 5.0)
    assert set(np.unique(ratings.values)) == set(np.arange(0.5, 5.5, 0.5))
    key = ratings.user_index.astype(np.int64) * len(ratings.items) + ratings.item_index
    assert (np.diff(key) > 0).all()  # sorted as Ratings promises, and no pair twice


def test_the_skew_is_that_of_movielens(world: World) -> None:
    """The quartiles of MovieLens 1M: 20, 44, 96, 208, 2314 ratings a user; 1, 33, 124, 350, 3428 an item."""
    by_user, by_item = counts(world)
    for quartiles, low, high in [
        (np.percentile(by_user, [0, 25, 50, 75, 100]), [20, 38, 85, 185, 1800], [20, 50, 107, 230, 2500]),
        (np.percentile(by_item, [0, 25, 50, 75, 100]), [1, 25, 100, 300, 2400], [3, 45, 150, 400, 3700]),
    ]:
        assert (quartiles >= low).all(), quartiles
        assert (quartiles <= high).all(), quartiles


def test_the_truth_beats_every_mean(world: World) -> None:
    ratings = world.ratings
    users, items, values = ratings.user_index, ratings.item_index, ratings.values.astype(np.float64)
    by_user, by_item = counts(world)
    mean = values.mean()
    # means over all ratings know the very ratings they are tried on, which only helps them
    item_mean = (np.bincount(items, values) / by_item)[items]
    user_mean = (np.bincount(users, values) / by_user)[users]
    both = item_mean + (np.bincount(users, values - item_mean) / by_user)[users]
    truth, expected = world.truth(users, items), world.truth.expected(users, items)
    assert 1.0 < rmse(mean, values) < 1.1
    assert 0.90 < rmse(item_mean, values) < 0.99
    assert 0.90 < rmse(user_mean, values) < 1.01
    assert 0.75 < rmse(truth, values) < 0.80
    assert rmse(expected, values) < rmse(truth, values)
    assert rmse(truth, values) < rmse(both, values) - 0.05
    assert np.isfinite(truth).all()
    assert truth.min() >= 0.5
    assert truth.max() <= 5.0
    assert 3.4 < mean < 3.7


def test_the_noise_is_what_it_says(world: World) -> None:
    """Away from the ends of the scale a rating is the truth plus noise, plus the rounding of half stars."""
    ratings = world.ratings
    truth = world.truth(ratings.user_index, ratings.item_index)
    middle = (truth > 2.5) & (truth < 3.0)
    error = (ratings.values - truth)[middle]
    assert error.std() == pytest.approx(np.hypot(world.noise, 0.5 / np.sqrt(12)), rel=0.02)
    assert abs(error.mean()) < 0.01


def test_the_expectation_is_unbiased_all_over_the_scale(world: World) -> None:
    ratings = world.ratings
    expected = world.truth.expected(ratings.user_index, ratings.item_index)
    for low in np.arange(1.5, 4.5, 0.5):
        band = (expected >= low) & (expected < low + 0.5)
        assert abs(np.mean(ratings.values[band] - expected[band])) < 0.02


def test_the_truth_is_not_linear(world: World) -> None:
    match = np.einsum("uk,ik->ui", world.truth.taste[:500], world.truth.attributes[:500])
    assert 0.9 < match.std() < 1.4  # far enough out for the tanh to bend


def lift(world: World) -> float:
    """By how much a film is liked more by those who rated it than by as many others."""
    rng = np.random.default_rng(0)
    ratings, truth = world.ratings, world.truth
    taken = rng.integers(len(ratings), size=100_000)
    users, items = ratings.user_index[taken], ratings.item_index[taken]
    return float((truth(users, items) - truth(rng.permutation(users), items)).mean())


def test_people_choose_what_they_like(world: World) -> None:
    """Ratings are missing not at random: what was rated is liked more than what was not."""
    people = np.arange(0, 6_040, 20)
    everything = world.truth.all_expected(people)
    assert 0.3 < world.ratings.values.mean() - everything.mean() < 0.7
    assert 0.2 < lift(world) < 0.5


def test_the_stronger_the_choice_the_more_is_chosen_by_taste() -> None:
    worlds = [make_world(users=1_500, items=800, ratings=150_000, seed=2, choice=choice) for choice in (0, 1, 2, 4)]
    lifts = [lift(world) for world in worlds]
    assert abs(lifts[0]) < 0.02
    assert (np.diff(lifts) > 0.05).all(), lifts
    # and yet ratings are as high, and films as popular
    assert np.ptp([world.ratings.values.mean() for world in worlds]) < 0.06
    assert all(700 < counts(world)[1].max() < 1_200 for world in worlds)


def many_choices(count: int) -> tuple[Choosing, Doubles]:
    """Of twenty thousand times the same person, who chooses so many of 30 films; and how often each was chosen."""
    rng = np.random.default_rng(5)
    alike = np.tile(rng.normal(size=(1, 3)), (20_000, 1)).astype(np.float32)
    choosing = Choosing(
        2.0,
        appeal=rng.normal(size=30).astype(np.float32),
        interest=alike,
        themes=rng.normal(size=(30, 3)).astype(np.float32),
        counts=np.full(20_000, count),
    )
    chosen = choose_films(choosing.counts, choosing, rng)
    return choosing, np.bincount(chosen, minlength=30) / 20_000


@pytest.mark.parametrize("count", [1, 3, 6, 12, 29])  # up to a quarter by proposals, beyond by looking at every film
def test_films_are_drawn_by_their_odds(count: int) -> None:
    """Without replacement, by weights: as often as by numpy."""
    rng = np.random.default_rng(0)
    choosing, shares = many_choices(count)
    weights = np.exp(choosing.all_log_odds([0])[0])
    races = np.argsort(rng.exponential(size=(20_000, 30)) / weights, axis=1)[:, :count]
    np.testing.assert_allclose(shares, np.bincount(races.ravel(), minlength=30) / 20_000, atol=0.02)
    np.testing.assert_allclose(shares, choosing.probabilities([0])[0], atol=0.06)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 30), st.floats(0, 10), st.integers(0, 2**32), st.data())
def test_probabilities_add_up_to_what_is_chosen(items: int, choice: float, seed: int, data: st.DataObject) -> None:
    rng = np.random.default_rng(seed)
    chosen = np.array([data.draw(st.integers(0, items)) for _ in range(3)])
    choosing = Choosing(
        choice,
        appeal=rng.normal(0, 2, items).astype(np.float32),
        interest=rng.normal(size=(3, 2)).astype(np.float32),
        themes=rng.normal(size=(items, 2)).astype(np.float32),
        counts=chosen,
    )
    probabilities = choosing.probabilities([2, 0, 1])
    assert (probabilities >= 0).all()
    assert (probabilities <= 1).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), chosen[[2, 0, 1]], rtol=1e-6, atol=1e-9)
    odds = choosing.all_log_odds([0])[0]
    np.testing.assert_allclose(odds, choosing.log_odds(np.zeros(items, int), np.arange(items)), rtol=1e-5, atol=1e-5)
    order = np.argsort(odds)
    assert (np.diff(probabilities[1][order]) >= -1e-9).all()


def test_all_items_are_those_of_pairs() -> None:
    truth = make_world(users=60, items=80, ratings=900, seed=5).truth
    users, items = np.array([7, 3]), np.arange(80)
    for every, pairs in ((truth.all_items, truth), (truth.all_expected, truth.expected)):
        for row, user in zip(every(users), users, strict=True):
            np.testing.assert_allclose(row, pairs(np.full(80, user), items), atol=1e-5)
    # the mean gain of what counts from the lowest rating is the mean rating less the lowest
    np.testing.assert_allclose(truth.all_gains(users, 0.5), truth.all_expected(users) - 0.5, atol=1e-9)
    said = np.random.default_rng(0).normal(truth.all_items([7]), truth.noise, size=(40_000, 80))
    stars = np.clip(np.round(2 * said) / 2, 0.5, 5)
    np.testing.assert_allclose(truth.all_gains([7], 4.0)[0], np.where(stars >= 4, stars - 0.5, 0).mean(0), atol=0.05)


def ndcg(scores: Doubles, train: Ratings, test: Ratings) -> float:
    """Of lists of ten among what was not trained on, relevant from 4."""
    known, gains = np.zeros(scores.shape, bool), np.zeros(scores.shape)
    known[train.user_index, train.item_index] = True
    gains[test.user_index, test.item_index] = np.where(test.values >= 4, test.values - 0.5, 0)
    discounts = 1 / np.log2(np.arange(2, 12))
    lists = np.argsort(-np.where(known, -np.inf, scores), axis=1)[:, :10]
    reached = np.take_along_axis(gains, lists, axis=1) @ discounts
    ideal = -np.sort(-gains, axis=1)[:, :10] @ discounts
    return float(np.mean(reached[ideal > 0] / ideal[ideal > 0]))


def test_the_best_list_is_better_than_by_choosing_or_liking_alone() -> None:
    """And what can be learned from ratings lies between popularity and the best, as in MovieLens."""
    world = make_world(users=1_500, items=800, ratings=150_000)
    train, test = random_split(world.ratings, ratio=0.9, seed=0)
    everybody = np.arange(1_500)
    popular = np.tile(np.bincount(train.item_index, minlength=800), (1_500, 1)).astype(float)
    chosen, liked = np.zeros((1_500, 800)), world.truth.all_expected(everybody)
    chosen[train.user_index, train.item_index] = train.values / 5
    inverse = np.linalg.inv(chosen.T @ chosen + 300 * np.eye(800))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0)
    best = ndcg(world.truth.best_scores(everybody), train, test)
    learned = ndcg(chosen @ weights, train, test)  # EASE
    assert best > 1.03 * ndcg(world.truth.choosing.probabilities(everybody), train, test)
    assert best > 2 * ndcg(liked, train, test)
    assert best > 1.1 * learned
    assert learned > 2 * ndcg(popular, train, test)


def test_cold_films_and_people_are_partly_known(world: World) -> None:
    films, people, truth = world.films, world.people, world.truth
    tags = np.zeros((len(films.years), len(TAGS)))
    tags[films.tag_film, films.tag] = 1
    genres = films.genres.astype(np.float64)
    years = (films.years[:, None] - 1980) / 20
    from_genres = explained(np.concatenate([genres, years], axis=1), truth.attributes)
    from_all = explained(np.concatenate([genres, years, tags], axis=1), truth.attributes)
    assert 0.3 < from_genres < 0.8
    assert from_all > from_genres + 0.03
    assert 0.1 < explained(genres, truth.item_bias) < 0.5
    decades = np.eye(9)[people.ages // 10]
    trades = np.eye(len(OCCUPATIONS))[people.occupations]
    assert 0.2 < explained(np.concatenate([decades, trades], axis=1), truth.taste) < 0.6


def test_films_look_like_films(world: World) -> None:
    films = world.films
    assert len(set(films.titles)) == len(films.titles)
    assert all(title.endswith(f" ({year})") for title, year in zip(films.titles, films.years, strict=True))
    assert not any(" a O" in title or title.startswith("A A") for title in films.titles)
    assert films.genres.shape == (3_706, len(GENRES))
    assert set(films.genres.sum(axis=1)) == {1, 2, 3}
    pairs = films.tag_film.astype(np.int64) * len(TAGS) + films.tag
    assert len(np.unique(pairs)) == len(pairs)
    assert films.tag_count.min() >= 1
    assert world.ratings.titles[1] == films.titles[0]


def test_friends_have_similar_tastes(world: World) -> None:
    one, other = world.people.friends.T
    assert (one < other).all()
    assert len(np.unique(world.people.friends, axis=0)) == len(one)
    assert 5 < 2 * len(one) / 6_040 < 15
    taste = world.truth.taste
    strangers = np.random.default_rng(0).permutation(other)
    alike = np.einsum("nk,nk->n", taste[one], taste[other]).mean()
    assert alike > np.einsum("nk,nk->n", taste[one], taste[strangers]).mean() + 0.3


def test_times_span_years(world: World) -> None:
    times = world.ratings.times
    assert times is not None
    years = times.astype("datetime64[s]").astype("datetime64[Y]").astype(int) + 1970
    assert (years.min(), years.max()) >= (2005, 2018)
    assert years.min() > world.films.years.max()


def digest(world: World) -> str:
    ratings, films, people = world.ratings, world.films, world.people
    assert ratings.times is not None
    arrays = (
        ratings.user_index, ratings.item_index, ratings.values, ratings.times, films.years, films.genres,
        films.tag, films.tag_film, films.tag_count, people.ages, people.occupations, people.friends,
        world.truth.taste, world.truth.attributes, np.array(films.titles),
    )  # fmt: skip
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()


def test_the_same_seed_gives_the_same_world() -> None:
    first, again, other = (make_world(users=60, items=80, ratings=900, seed=seed) for seed in (3, 3, 4))
    assert digest(first) == digest(again) != digest(other)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32))
def test_any_world_has_exactly_what_was_asked(data: st.DataObject, users: int, items: int, seed: int) -> None:
    wanted = data.draw(st.integers(1, users * items))
    world = make_world(users=users, items=items, ratings=wanted, seed=seed)
    ratings = world.ratings
    assert (len(ratings.users), len(ratings.items), len(ratings)) == (users, items, wanted)
    pairs = set(zip(ratings.user_index.tolist(), ratings.item_index.tolist(), strict=True))
    assert len(pairs) == wanted
    by_user, by_item = counts(world)
    assert by_item.min() >= 1 or wanted < items
    assert by_user.min() >= min(20, items) or wanted < 20 * users
    assert np.isfinite(ratings.values).all()
    assert np.isfinite(world.truth(*np.indices((users, items)).reshape(2, -1))).all()


def test_a_tiny_world() -> None:
    world = make_world(users=5, items=4, ratings=10)
    assert len(world.ratings) == 10
    assert counts(world)[1].min() >= 1
    assert len(make_world(users=5, items=4, ratings=20).ratings) == 20
    assert len(make_world(users=1, items=1, ratings=1).ratings) == 1


@pytest.mark.parametrize(
    ("users", "items", "ratings", "message"),
    [
        (5, 4, 21, r"ratings of a world must be at most users x items = 20, .* Got 21 instead"),
        (0, 4, 1, "users of a world must be at least 1. Got 0 instead"),
        (5, -1, 1, "items of a world must be at least 1. Got -1 instead"),
        (5, 4, 0, "ratings of a world must be at least 1. Got 0 instead"),
    ],
)
def test_an_impossible_world(users: int, items: int, ratings: int, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        make_world(users=users, items=items, ratings=ratings)


def test_worlds_like_a_published_set() -> None:
    world = make_world_like("douban", scale=0.0004, seed=2)
    assert (len(world.ratings.users), len(world.ratings.items), len(world.ratings)) == (2_590, 1_171, 6_732)
    with pytest.raises(DatasetError, match="Did you mean ml-10m"):
        make_world_like("ml10m")
    with pytest.raises(SettingsError, match=r"scale of a world must be a number in the range \(0, 10\]. Got 0"):
        make_world_like("ml-1m", scale=0)


def test_progress_goes_from_nothing_to_all() -> None:
    told: list[float] = []
    make_world(users=60, items=80, ratings=900, progress=told.append)
    assert told[0] == 0.0
    assert told[-1] == 1.0
    assert told == sorted(told)
    assert len(told) > 10


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_what_is_written_can_be_read_again(tmp_path: Path) -> None:
    world = make_world(users=60, items=80, ratings=900, seed=5)
    folder = world.write(tmp_path / "new" / "world")
    assert sorted(path.name for path in folder.iterdir()) == [
        "friends.csv", "movies.csv", "ratings.csv", "tags.csv", "truth.safetensors", "users.csv"
    ]  # fmt: skip
    again = Ratings.read(folder / "ratings.csv", scale=(0.5, 5.0))
    np.testing.assert_array_equal(again.user_index, world.ratings.user_index)
    np.testing.assert_array_equal(again.item_index, world.ratings.item_index)
    np.testing.assert_array_equal(again.values, world.ratings.values)
    assert again.times is not None
    np.testing.assert_array_equal(again.times, world.ratings.times)
    movies, users = rows(folder / "movies.csv"), rows(folder / "users.csv")
    assert [movie["title"] for movie in movies] == list(world.films.titles)
    assert movies[0]["item"] == "1"
    assert [int(movie["year"]) for movie in movies] == world.films.years.tolist()
    assert all(set(movie["genres"].split("|")) <= set(GENRES) for movie in movies)
    assert [int(user["age"]) for user in users] == world.people.ages.tolist()
    assert {user["occupation"] for user in users} <= set(OCCUPATIONS)
    tags, friends = rows(folder / "tags.csv"), rows(folder / "friends.csv")
    assert [int(tag["item"]) - 1 for tag in tags] == world.films.tag_film.tolist()
    assert {tag["tag"] for tag in tags} <= set(TAGS)
    assert [[int(link["user"]) - 1, int(link["friend"]) - 1] for link in friends] == world.people.friends.tolist()
    truth = read_truth(folder / "truth.safetensors")
    everybody, everything = np.indices((60, 80)).reshape(2, -1)
    np.testing.assert_array_equal(truth(everybody, everything), world.truth(everybody, everything))
    np.testing.assert_array_equal(truth.best_scores(np.arange(60)), world.truth.best_scores(np.arange(60)))
    assert truth.noise == world.noise


def test_a_broken_truth_file(tmp_path: Path) -> None:
    path = tmp_path / "truth.safetensors"
    for content in (b"", b"not a truth", b"\xff" * 100):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"truth\.safetensors: not the truth of a world"):
            read_truth(path)
    with pytest.raises(DataError, match=r"none\.safetensors: not the truth of a world"):
        read_truth(tmp_path / "none.safetensors")
