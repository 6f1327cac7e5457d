"""Sets of ratings for any_data.py: published ones, MovieLens-1M thinned, other scales, and six worlds.

A set is made by a function of (quick, seed): in quick runs it has few ratings, and the seed is that of the split.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from cofill import Ratings, Scale, load_dataset, split
from cofill.data.datasets import dataset, locate, published_folds
from cofill.data.datasets.world import World, make_world
from cofill.data.datasets.world_truth import backgrounds, standardized
from cofill.data.features import Features
from cofill.data.vocabulary import Vocabulary

Doubles = npt.NDArray[np.float64]

MEASURED = ("ml-100k", "ml-1m", "monti-douban", "monti-flixster", "monti-yahoo-music", "movietweetings")
PERCENT = (50, 20, 10, 5, 2)
QUICK_RATINGS = 3_000


@dataclass(frozen=True)
class Part:
    """What is trained on and tested on; features where the set has some."""

    train: Ratings
    test: Ratings
    user_features: Features | None = None
    item_features: Features | None = None


def named(name: str, quick: bool, seed: int) -> Part:
    """A data set by its name: published fold number `seed`, as far as there are any, or a random split."""
    folds = dataset(name).folds
    if not folds:
        return random_part(loaded(name), quick, seed)
    parts = list(published_folds(name, quiet=True))
    train, test = parts[seed % len(parts)]
    return Part(few(train, quick, seed), few(test, quick, seed))


@cache
def loaded(name: str) -> Ratings:
    return load_dataset(name, quiet=True)


def thinned(percent: int, quick: bool, seed: int) -> Part:
    ratings = loaded("ml-1m")
    kept = np.sort(np.random.default_rng(seed).permutation(len(ratings))[: len(ratings) * percent // 100])
    return random_part(repacked(ratings.select(kept)), quick, seed)


def stretched(make: Callable[[bool, int], Part], low: float, high: float, quick: bool, seed: int) -> Part:
    part = make(quick, seed)
    return replace(part, train=on_scale(part.train, low, high), test=on_scale(part.test, low, high))


def on_scale(ratings: Ratings, low: float, high: float) -> Ratings:
    """The same on another scale, by a linear map."""
    old = ratings.scale
    values = low + (ratings.values - old.low) * (high - low) / (old.high - old.low)
    return replace(ratings, values=values.astype(np.float32), scale=Scale(low, high))


def repacked(ratings: Ratings) -> Ratings:
    """Without the users and items that have no rating."""
    users, user_index = np.unique(ratings.user_index, return_inverse=True)
    items, item_index = np.unique(ratings.item_index, return_inverse=True)
    return replace(
        ratings,
        users=Vocabulary(ratings.users.array()[users]),
        items=Vocabulary(ratings.items.array()[items]),
        user_index=user_index.astype(np.int32),
        item_index=item_index.astype(np.int32),
    )


def random_part(ratings: Ratings, quick: bool, seed: int) -> Part:
    train, test = split(few(ratings, quick, seed), "random", 0.9, seed)
    return Part(train, test)


def few(ratings: Ratings, quick: bool, seed: int) -> Ratings:
    """In quick runs some of the ratings."""
    if not quick or len(ratings) <= QUICK_RATINGS:
        return ratings
    return ratings.select(np.random.default_rng(seed).permutation(len(ratings)) < QUICK_RATINGS)


def world(users: int, items: int, ratings: int, quick: bool, seed: int) -> World:
    """People, items and ratings; in quick runs as dense, but small."""
    shrink = min(1.0, QUICK_RATINGS / ratings) if quick else 1.0
    users, items = (max(5, round(count * shrink**0.5)) for count in (users, items))
    return make_world(users=users, items=items, ratings=min(round(ratings * shrink), users * items), seed=seed)


def plain_world(users: int, items: int, ratings: int, quick: bool, seed: int) -> Part:
    return random_part(repacked(world(users, items, ratings, quick, seed).ratings), False, seed)


def featured(quick: bool, seed: int) -> Part:
    """Tastes, attributes and biases that follow from what is known of people and items."""
    made = world(3_000, 1_500, 60_000, quick, seed)
    about_users = backgrounds(made.people.ages, made.people.occupations)
    about_items = np.hstack([made.films.genres, standardized(made.films.years[:, None])])
    truth = replace(
        made.truth,
        taste=explained(made.truth.taste, about_users),
        user_bias=explained(made.truth.user_bias[:, None], about_users)[:, 0],
        attributes=explained(made.truth.attributes, about_items),
        item_bias=explained(made.truth.item_bias[:, None], about_items)[:, 0],
    )
    part = random_part(rated_anew(replace(made, truth=truth), seed), False, seed)
    people, films = part.train.users.array(), part.train.items.array()
    return replace(
        part,
        user_features=Features.read((people, about_users.astype(np.float32)), name="background"),
        item_features=Features.read((films, about_items.astype(np.float32)), name="genres and year"),
    )


def explained(traits: npt.NDArray[np.float32], known: Doubles) -> npt.NDArray[np.float32]:
    """The part of the traits that is a linear function of what is known, with the spread of the whole."""
    centred = known - known.mean(axis=0)
    fitted = centred @ np.linalg.lstsq(centred, traits - traits.mean(axis=0), rcond=None)[0]
    spread = np.where(fitted.std(axis=0) > 0, traits.std(axis=0) / np.maximum(fitted.std(axis=0), 1e-9), 1.0)
    return np.asarray(traits.mean(axis=0) + spread * fitted, np.float32)


def tasteless(quick: bool, seed: int) -> Part:
    """Nobody likes anything more than others do: biases and noise."""
    made = world(2_000, 1_000, 60_000, quick, seed)
    return random_part(rated_anew(replace(made, truth=replace(made.truth, strength=0.0)), seed), False, seed)


def rated_anew(made: World, seed: int) -> Ratings:
    """The same pairs, rated by the world's truth as it is now, in half stars."""
    ratings = made.ratings
    said = made.truth(ratings.user_index, ratings.item_index)
    said += np.random.default_rng(seed).normal(0, made.noise, len(said))
    return replace(ratings, values=np.clip(np.round(2 * said) / 2, *ratings.scale).astype(np.float32))


Make = Callable[[bool, int], Part]
TENTH: Make = partial(thinned, 10)
SETS: Mapping[str, Make] = {
    **{name: partial(named, name) for name in MEASURED},
    **{f"ml-1m-{percent}%": partial(thinned, percent) for percent in PERCENT},
    "ml-100k-to-1-10": partial(stretched, partial(named, "ml-100k"), 1.0, 10.0),
    "ml-100k-to-±10": partial(stretched, partial(named, "ml-100k"), -10.0, 10.0),
    "ml-1m-10%-to-1-10": partial(stretched, TENTH, 1.0, 10.0),
    "ml-1m-10%-to-±10": partial(stretched, TENTH, -10.0, 10.0),
    "few-items": partial(plain_world, 20_000, 100, 1_000_000),
    "sparse": partial(plain_world, 50_000, 50_000, 150_000),
    "tiny": partial(plain_world, 60, 40, 300),
    "dense": partial(plain_world, 1_000, 500, 150_000),
    "featured": featured,
    "tasteless": tasteless,
}


def at_hand(name: str) -> bool:
    """Whether a set can be made here: a world always, the others if their file is here."""
    source = next((known for known in MEASURED if name.startswith(known)), None)
    return source is None or locate(source) is not None
