"""A synthetic world of films and people whose right answers are known.

It has the shape of MovieLens: films with titles, years, genres and tags; people with ages, occupations and
friends; ratings on half stars, as skewed as real ones. Unlike there, what everybody would think of every film
is kept, so a test can tell how far a model is from the best that is possible. People choose what they see, by
popularity and by taste: what is known of their ratings is missing not at random.
"""

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.compiling import compiled
from cofill.data.datasets.world_truth import HIGH, LOW, Choosing, Liking, Truth, backgrounds, make_choosing, make_liking
from cofill.data.datasets.world_words import GENRE_SHARES, GENRES, OCCUPATIONS, TAGS, make_titles
from cofill.data.ratings import Ratings, Scale
from cofill.data.vocabulary import Vocabulary
from cofill.errors import SettingsError
from cofill.interrupts import unfinished

Progress = Callable[[float], None]

CHUNK = 1 << 20  # ratings at a time, for which there are temporary arrays
EVENTS, TRUTH = "events.csv", "truth.safetensors"
FRIENDS_A_PERSON = 10
MOST_TAGS = 8
FIRST_TIME, LAST_TIME = 1_104_537_600, 1_546_300_800  # 2005 to 2018: no film is rated before its year
LAST_YEAR = 2004
CHOICE = 2.0  # at the shape of MovieLens 1M, how much better lists may be than the most popular films is as there
FEWEST_RATINGS = 20
CHUNKS = 50
MUCH = 4  # who chooses one in so many of all films is faster served by looking at every film
VIEW, BUY = 0, 1
NAMES = ("view", "buy")
VIEWED = 1.5  # films that somebody views, for each that they would rate
VIEWS_AGAIN = 0.8  # further views of a film, on average
BUYS_FROM = 4.5  # stars: a film is bought by who would give it as many
DAY = 86_400


@dataclass(frozen=True, eq=False)
class Films:
    """years (items,); genres (items, 18), 1 to 3 of them true; a tag was given to a film tag_count times."""

    titles: tuple[str, ...]
    years: npt.NDArray[np.int16]
    genres: Bools
    tag_film: Ints
    tag: npt.NDArray[np.int16]  # an index into TAGS
    tag_count: Ints


@dataclass(frozen=True, eq=False)
class People:
    """ages (users,); occupations (users,), indices into OCCUPATIONS; friends (links, 2), each link once."""

    ages: npt.NDArray[np.int16]
    occupations: npt.NDArray[np.int8]
    friends: Ints


@dataclass(frozen=True, eq=False)
class Events:
    """What people do where nobody rates, as in a shop: they view films, and buy some of them.

    users, items, events, times (n,): indices of users and items, of NAMES, and seconds since 1970, in order of time.

    A film is viewed before it is bought, often several times, and bought once at most.
    """

    users: Ints
    items: Ints
    events: npt.NDArray[np.int8]
    times: Longs

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write `user,item,event,time` as CSV. Ids start at 1, as those of the ratings do."""
        from cofill.data.table import write_frame

        names = pl.Series(NAMES).gather(self.events.astype(np.int64))
        frame = {"user": self.users + 1, "item": self.items + 1, "event": names, "time": self.times}
        write_frame(pl.DataFrame(frame), Path(path))


@dataclass(frozen=True, eq=False)
class World:
    """Films, people, their ratings, and the true rating of any pair: `truth(users, items)`."""

    seed: int
    films: Films
    people: People
    ratings: Ratings
    truth: Truth

    @property
    def noise(self) -> float:
        """The standard deviation of a rating around the truth, before it is rounded to half stars."""
        return self.truth.noise

    def events(self) -> Events:
        """What the same people view and buy, drawn from the same truth; the same each time."""
        # the six streams before this one are those of `make_world`
        return make_events(self.truth, self.ratings, np.random.default_rng(self.seed).spawn(7)[6])

    def write(self, folder: str | os.PathLike[str], *, events: bool = False) -> Path:
        """Write ratings, movies, tags, users and friends as CSV and truth.safetensors. Ids start at 1.

        `events` adds events.csv: what the same people view and buy, drawn from the same truth.
        """
        from cofill.data.table import write_frame

        target = Path(folder)
        films, people = self.films, self.people
        genres = ["|".join(GENRES[g] for g in np.flatnonzero(row)) for row in films.genres]
        movies = {"title": list(films.titles), "year": films.years, "genres": genres}
        users = {"age": people.ages, "occupation": [OCCUPATIONS[index] for index in people.occupations]}
        tags = {
            "item": films.tag_film + 1,
            "tag": [TAGS[index] for index in films.tag],
            "count": films.tag_count,
        }
        links = {"user": people.friends[:, 0] + 1, "friend": people.friends[:, 1] + 1}
        with nullcontext() if target.exists() else unfinished(target):
            target.mkdir(parents=True, exist_ok=True)
            if (target / TRUTH).exists():  # an earlier world, of whose events these people know nothing
                (target / EVENTS).unlink(missing_ok=True)
            write_frame(pl.DataFrame({"item": np.arange(1, len(films.years) + 1)} | movies), target / "movies.csv")
            write_frame(pl.DataFrame({"user": np.arange(1, len(people.ages) + 1)} | users), target / "users.csv")
            write_frame(pl.DataFrame(tags), target / "tags.csv")
            write_frame(pl.DataFrame(links), target / "friends.csv")
            self.ratings.write(target / "ratings.csv")
            if events:
                self.events().write(target / EVENTS)
            self.truth.write(target / TRUTH)
        return target


def make_world_like(
    name: str, scale: float = 1.0, seed: int = 0, *, choice: float = CHOICE, progress: Progress | None = None
) -> World:
    """A world of the shape of a published data set, e.g. "ml-1m".

    `scale` is that of the number of ratings; users and items shrink by its root, so the density stays.
    """
    from cofill.data.datasets import dataset

    if not 0 < scale <= 10:
        raise SettingsError(f"The scale of a world must be a number in the range (0, 10]. Got {scale} instead.")
    like = dataset(name)
    users, items = (max(1, round(count * scale**0.5)) for count in (like.users, like.items))
    wanted = min(max(1, round(like.ratings * scale)), users * items)
    return make_world(users=users, items=items, ratings=wanted, seed=seed, choice=choice, progress=progress)


def make_world(
    *, users: int, items: int, ratings: int, seed: int = 0, choice: float = CHOICE, progress: Progress | None = None
) -> World:
    """A world with exactly that many users, items and ratings. The same arguments give the same world.

    `choice` is how much people choose by interest, beside popularity: somebody sees a film of the kind they love
    exp(choice) times as often as one that says nothing to them; at 0 they choose by popularity alone.
    `progress` is called with the share that is done, from 0 to 1.
    """
    _check_counts(users, items, ratings)
    if seed < 0:
        raise SettingsError(f"The seed of a world must be at least 0. Got {seed} instead.")
    if not 0 <= choice <= 10:
        raise SettingsError(f"The choice of a world must be a number in the range [0, 10]. Got {choice} instead.")
    report = progress or (lambda done: None)
    report(0.0)
    for_films, for_people, for_liking, for_choice, for_ratings, for_habits = np.random.default_rng(seed).spawn(6)
    years = _make_years(items, for_films)
    genres = _make_genres(items, for_films)
    ages, occupations = _make_backgrounds(users, for_people)
    liking = make_liking(genres=genres, years=years, ages=ages, occupations=occupations, rng=for_liking)
    fame = popularity(items, liking.item_bias.astype(np.float64), for_choice)
    counts = ratings_per_user(users, items, ratings, for_choice)
    choosing = make_choosing(
        choice, taste=liking.taste, attributes=liking.attributes, fame=fame, counts=counts, rng=for_habits,
        about_people=backgrounds(ages, occupations), about_films=genres.astype(np.float64),
    )  # fmt: skip
    truth = Truth(**vars(_with_usual_mean(liking, choosing)), choosing=choosing)
    films = Films(make_titles(years, for_films), years, genres, *_make_tags(truth.attributes, fame, for_films))
    people = People(ages, occupations, _make_friends(truth.taste, for_people))
    report(0.1)
    item_index = choose_films(counts, choosing, for_choice, lambda done: report(0.1 + 0.6 * done))
    user_index = np.repeat(np.arange(users, dtype=np.int32), counts)
    rated = Ratings(
        users=Vocabulary(np.arange(1, users + 1)),
        items=Vocabulary(np.arange(1, items + 1)),
        user_index=user_index,
        item_index=item_index,
        values=_rate(truth, user_index, item_index, for_ratings, lambda done: report(0.7 + 0.2 * done)),
        times=_make_times(users, user_index, for_ratings),
        scale=Scale(LOW, HIGH),
        titles=dict(zip(range(1, items + 1), films.titles, strict=True)),
    )
    report(1.0)
    return World(seed=seed, films=films, people=people, ratings=rated, truth=truth)


def _check_counts(users: int, items: int, ratings: int) -> None:
    for name, count in (("users", users), ("items", items), ("ratings", ratings)):
        if count < 1:
            raise SettingsError(f"The number of {name} of a world must be at least 1. Got {count} instead.")
    if ratings > users * items:
        raise SettingsError(
            f"The number of ratings of a world must be at most users x items = {users * items:,}, as no user "
            f"rates a film twice. Got {ratings:,} instead."
        )


def _with_usual_mean(liking: Liking, choosing: Choosing) -> Liking:
    """However much people choose good films, and what they like, the known ratings shall have the same mean."""
    users = len(liking.taste)
    people = np.arange(0, users, max(1, users // 64))
    chosen = choosing.probabilities(people)
    lift = np.sum(chosen * (liking.item_bias + liking.strength * np.tanh(liking.taste[people] @ liking.attributes.T)))
    return replace(liking, mean=liking.mean - float(lift / chosen.sum()))


def _rate(truth: Truth, users: Ints, items: Ints, rng: np.random.Generator, report: Progress) -> Floats:
    """Observed ratings: the truth plus noise, rounded to half stars."""
    values = np.empty(len(users), dtype=np.float32)
    for start in range(0, len(users), CHUNK):
        part = slice(start, start + CHUNK)
        exact = truth(users[part], items[part])
        said = exact + rng.normal(0, truth.noise, len(exact))
        values[part] = np.clip(np.round(2 * said) / 2, LOW, HIGH)
        report(min(1.0, (start + CHUNK) / len(users)))
    return values


def _make_years(items: int, rng: np.random.Generator) -> npt.NDArray[np.int16]:
    """Most films are recent."""
    return (LAST_YEAR - np.minimum(rng.exponential(14, items), 84)).astype(np.int16)


def _make_genres(items: int, rng: np.random.Generator) -> Bools:
    """One to three of the genres a film: (items, genres)."""
    shares = np.log(np.asarray(GENRE_SHARES, dtype=np.float64))
    order = np.argsort(-(shares + rng.gumbel(size=(items, len(GENRES)))), axis=1)[:, :3]
    kept = np.arange(3) < rng.choice([1, 2, 3], size=items, p=[0.45, 0.35, 0.2])[:, None]
    genres = np.zeros((items, len(GENRES)), dtype=bool)
    rows = np.broadcast_to(np.arange(items)[:, None], order.shape)
    genres[rows[kept], order[kept]] = True
    return genres


def _make_backgrounds(users: int, rng: np.random.Generator) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int8]]:
    """Ages and occupations. The young are at school and the old are retired."""
    ages = np.clip(12 + rng.gamma(3.2, 7.0, users), 12, 85).astype(np.int16)
    occupations = rng.integers(len(OCCUPATIONS), size=users).astype(np.int8)
    occupations[ages < 18] = OCCUPATIONS.index("pupil")
    occupations[(ages >= 18) & (ages < 25) & (rng.random(users) < 0.6)] = OCCUPATIONS.index("student")
    occupations[ages > 65] = OCCUPATIONS.index("retired")
    return ages, occupations


def _make_tags(attributes: Floats, fame: Doubles, rng: np.random.Generator) -> tuple[Ints, npt.NDArray[np.int16], Ints]:
    """Tags that fit the attributes of a film; more of them, and more often, the better it is known."""
    meanings = rng.normal(size=(len(TAGS), attributes.shape[1]))
    rank = np.argsort(np.argsort(fame)) / max(len(fame) - 1, 1)  # 0 for the least known film, 1 for the best
    wanted = np.minimum(rng.poisson(0.4 + 5 * rank), MOST_TAGS)
    best = np.empty((len(fame), MOST_TAGS), dtype=np.int16)
    for start in range(0, len(fame), 8192):
        part = slice(start, start + 8192)
        fit = attributes[part] @ meanings.T  # (films, tags)
        best[part] = np.argsort(-(1.5 * fit + rng.gumbel(size=fit.shape)), axis=1)[:, :MOST_TAGS]
    given = np.arange(MOST_TAGS) < wanted[:, None]
    film = np.repeat(np.arange(len(fame), dtype=np.int32), given.sum(axis=1))
    count = 1 + rng.poisson(6 * rank[film] ** 4)
    return film, best[given], count.astype(np.int32)


def _make_friends(taste: Floats, rng: np.random.Generator) -> Ints:
    """Links between people, most of them within circles of similar taste: (links, 2)."""
    users = len(taste)
    centres = rng.normal(size=(int(np.clip(users / 60, 1, 256)), taste.shape[1]))
    circle = np.empty(users, dtype=np.int64)
    for start in range(0, users, 8192):
        circle[start : start + 8192] = np.argmax(taste[start : start + 8192] @ centres.T, axis=1)
    members = np.argsort(circle, kind="stable")
    sizes = np.bincount(circle, minlength=len(centres))
    starts = np.cumsum(sizes) - sizes
    wanted = rng.lognormal(0, 0.9, users)  # some people know everybody
    links = users * FRIENDS_A_PERSON // 2
    one = rng.choice(users, size=links, p=wanted / wanted.sum())
    near = members[starts[circle[one]] + (rng.random(links) * sizes[circle[one]]).astype(np.int64)]
    other = np.where(rng.random(links) < 0.8, near, rng.integers(users, size=links))
    keys = np.unique(np.minimum(one, other) * users + np.maximum(one, other))
    pairs = np.stack([keys // users, keys % users], axis=1)
    links_between_two: Ints = pairs[pairs[:, 0] != pairs[:, 1]].astype(np.int32)
    return links_between_two


def _make_times(users: int, user_index: Ints, rng: np.random.Generator) -> Longs:
    """Seconds since 1970. People come at any time, rate much at first and less later on."""
    arrival = rng.uniform(FIRST_TIME, LAST_TIME, users)
    stay = 86_400 * rng.lognormal(3.0, 1.8, users)  # median three weeks
    times = np.empty(len(user_index), dtype=np.int64)
    for start in range(0, len(user_index), CHUNK):
        who = user_index[start : start + CHUNK]
        times[start : start + CHUNK] = arrival[who] + rng.exponential(stay[who])
    return np.minimum(times, LAST_TIME + 365 * 86_400)


# Who rates what: how often, and which films, as skewed as in MovieLens.
#
# Counts follow Weibull laws that were fitted to the published sets. In MovieLens 1M, 20 + Weibull(0.75) meets
# every quartile of the ratings a person gives, and Weibull(0.65) those of the ratings a film gets; the larger a
# set, the longer the tail of films that hardly anybody has seen.


def ratings_per_user(users: int, items: int, ratings: int, rng: np.random.Generator) -> Longs:
    """How many films each person rates: (users,), summing to `ratings`."""
    mean = ratings / users
    fewest = FEWEST_RATINGS if mean >= FEWEST_RATINGS else int(0.6 * mean)
    fewest = min(fewest, items)
    most = min(items, max(int(0.62 * items), int(np.ceil(1.5 * mean)), fewest))
    shape = float(np.clip(0.75 - 0.05 * np.log(users / 6_040), 0.6, 0.75))
    extra = _weibull_quantiles(users, shape)
    return fewest + _spread(rng.permutation(extra), ratings - fewest * users, most - fewest)


def popularity(items: int, quality: Doubles, rng: np.random.Generator) -> Doubles:
    """The weight with which each film is seen: (items,). Better films are somewhat better known."""
    shape = float(np.clip(0.65 - 0.185 * np.log(items / 3_706), 0.28, 0.7))
    fame = 0.35 * (quality - quality.mean()) / max(quality.std(), 1e-9) + rng.normal(0, 0.94, items)
    weights = np.empty(items)
    weights[np.argsort(fame)] = _weibull_quantiles(items, shape)
    return np.asarray(weights / weights.sum())


def choose_films(
    counts: Longs,
    choosing: Choosing,
    rng: np.random.Generator,
    progress: Callable[[float], None] | None = None,
) -> Ints:
    """The films that each person chooses: (sum of counts,), person by person, ascending, none twice.

    Drawn without replacement with probability proportional to exp(log_odds): proposed by appeal, and taken or not by
    interest, so there is never an array of users x items. Every film is chosen once if there are enough choices.
    """
    users, items = len(counts), len(choosing.appeal)
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    total = int(ends[-1])
    # each film is first given a place in somebody's list: distinct places, so no list gets too long
    places = np.sort(rng.choice(total, size=min(items, total), replace=False, shuffle=False))
    owed_to = np.searchsorted(ends, places, side="right") - 1
    owed = rng.permutation(items)[: len(places)].astype(np.int32)
    owed_ends = np.searchsorted(owed_to, np.arange(users + 1)).astype(np.int64)
    weights = np.exp(choosing.appeal.astype(np.float64))
    keep, alias = _alias_table(weights / weights.sum())
    chosen = np.empty(total, dtype=np.int32)
    seen_by = np.full(items, -1, dtype=np.int32)
    cuts = np.searchsorted(ends, np.linspace(0, total, CHUNKS + 1)[1:-1]).tolist()
    for first, last in zip([0, *cuts], [*cuts, users], strict=True):
        _choose(
            first, last, ends, owed, owed_ends, keep, alias, weights, choosing.choice, choosing.interest,
            choosing.themes, rng, seen_by, chosen,
        )  # fmt: skip
        if progress is not None:
            progress(ends[last] / max(total, 1))
    return chosen


def _weibull_quantiles(count: int, shape: float) -> Doubles:
    """Evenly spaced quantiles, so that two seeds differ in who is popular and not in how popular."""
    steps = (np.arange(count) + 0.5) / count
    return (-np.log1p(-steps)) ** (1 / shape)


def _spread(shares: Doubles, total: int, most: int) -> Longs:
    """Whole numbers in proportion to `shares`, none above `most`, that sum to `total` exactly."""
    capped = np.zeros(len(shares), dtype=bool)
    real = np.zeros(len(shares))
    while True:  # what does not fit under the cap goes to the others
        left = total - most * int(capped.sum())
        free = ~capped
        real[capped] = most
        if not free.any():
            break
        real[free] = shares[free] * (left / shares[free].sum())
        over = free & (real > most)
        if not over.any():
            break
        capped |= over
    whole = np.floor(real + 1e-9).astype(np.int64)
    missing = total - int(whole.sum())
    order = np.argsort(whole - real, kind="stable")  # largest remainder first
    whole[[index for index in order if whole[index] < most][:missing]] += 1
    return whole


@compiled
def _alias_table(shares: Doubles) -> tuple[Doubles, Ints]:
    """Walker's tables, to draw an index by its share in constant time: keep column c with keep[c], else take alias[c].

    shares (n,), summing to 1.
    """
    count = len(shares)
    keep = shares * count
    alias = np.arange(count).astype(np.int32)
    small = np.empty(count, dtype=np.int32)
    large = np.empty(count, dtype=np.int32)
    smalls = larges = 0
    for index in range(count):
        if keep[index] < 1.0:
            small[smalls] = index
            smalls += 1
        else:
            large[larges] = index
            larges += 1
    while smalls > 0 and larges > 0:
        smalls -= 1
        poor, rich = small[smalls], large[larges - 1]
        alias[poor] = rich
        keep[rich] -= 1.0 - keep[poor]
        if keep[rich] < 1.0:
            larges -= 1
            small[smalls] = rich
            smalls += 1
    return keep, alias


@compiled
def _choose(
    first: int,
    last: int,
    ends: Longs,
    owed: Ints,
    owed_ends: Longs,
    keep: Doubles,
    alias: Ints,
    weights: Doubles,
    choice: float,
    interest: Floats,
    themes: Floats,
    rng: np.random.Generator,
    seen_by: Ints,
    chosen: Ints,
) -> None:
    """Fill `chosen` for the people first..last-1; `seen_by[film]` is the last person who got that film."""
    items = len(themes)
    arrival = np.empty(items)
    for user in range(first, last):
        own = interest[user]
        place, end = ends[user], ends[user + 1]
        for index in range(owed_ends[user], owed_ends[user + 1]):
            seen_by[owed[index]] = user
            chosen[place] = owed[index]
            place += 1
        patience = 0 if MUCH * (end - place) > items else 30 * (end - place) + 50
        while place < end and patience > 0:
            patience -= 1
            column = rng.random() * items
            film = min(int(column), items - 1)
            if column - film >= keep[film]:
                film = alias[film]
            if seen_by[film] == user:
                continue
            # with probability exp(choice (tanh - 1)), as 1 - tanh(match) = 2 / (1 + exp(2 match))
            if rng.standard_exponential() * (1.0 + np.exp(2.0 * _match(own, themes[film]))) > 2.0 * choice:
                seen_by[film] = user
                chosen[place] = film
                place += 1
        if place < end:
            # somebody who sees much, or little of what is proposed: draw the rest exactly, by exponential races
            for film in range(items):
                arrival[film] = np.inf
                if seen_by[film] != user:
                    rate = weights[film] * np.exp(choice * np.tanh(_match(own, themes[film])))
                    arrival[film] = rng.standard_exponential() / rate
            for film in np.argpartition(arrival, end - place - 1)[: end - place]:
                seen_by[film] = user
                chosen[place] = film
                place += 1
        chosen[ends[user] : end].sort()


@compiled
def _match(interest: Floats, themes: Floats) -> float:
    """interest . themes"""
    match = np.float32(0.0)
    for dimension in range(len(interest)):
        match += interest[dimension] * themes[dimension]
    return float(match)


# What people view and buy. What somebody views is drawn by choosing, what they buy of it by liking. It is drawn anew,
# by the same truth as the ratings: that somebody viewed a film does not say whether it is among their ratings.


def make_events(truth: Truth, ratings: Ratings, rng: np.random.Generator) -> Events:
    """About 2.7 views for each rating, and one buy in 7 or 8 views. People come and stay as they do in the ratings."""
    users, items = len(ratings.users), len(ratings.items)
    films: Longs = np.minimum(np.rint(VIEWED * truth.choosing.counts).astype(np.int64), items)
    item = choose_films(films, truth.choosing, rng)
    user = np.repeat(np.arange(users, dtype=np.int32), films)
    views = 1 + rng.poisson(VIEWS_AGAIN, len(user))
    bought = truth(user, item) + rng.normal(0, truth.noise, len(user)) >= BUYS_FROM - 0.25  # rounded to half stars
    first = _visits(ratings, user, rng)
    pair = np.repeat(np.arange(len(user)), views)
    again = np.ones(len(pair), dtype=bool)
    again[np.cumsum(views) - views] = False
    times = first[pair] + np.where(again, rng.exponential(3 * DAY, len(pair)), 0).astype(np.int64)
    last = np.maximum.reduceat(times, np.cumsum(views) - views)[bought]
    buys = last + 60 + rng.exponential(DAY / 8, len(last)).astype(np.int64)
    when = np.concatenate([times, buys])
    what = np.repeat(np.array([VIEW, BUY], dtype=np.int8), [len(times), len(buys)])
    whose = np.concatenate([pair, np.flatnonzero(bought)])
    order = np.argsort(when, kind="stable")
    return Events(user[whose[order]], item[whose[order]], what[order], when[order])


def _visits(ratings: Ratings, user: Ints, rng: np.random.Generator) -> Longs:
    """When each of these people comes, some time after their first rating, for about as long as they rate: (n,)."""
    rated, times = ratings.user_index, ratings.times
    assert times is not None
    counts = np.bincount(rated, minlength=len(ratings.users))
    arrival = np.full(len(counts), times.max())
    np.minimum.at(arrival, rated, times)
    stay = np.bincount(rated, times - arrival[rated], len(counts)) / np.maximum(counts, 1) + DAY
    return np.asarray(arrival[user] + rng.exponential(stay[user]), np.int64)
