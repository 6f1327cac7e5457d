"""Who rates what in the synthetic world: how often, and which films, as skewed as in MovieLens.

Counts follow Weibull laws that were fitted to the published sets. In MovieLens 1M, 20 + Weibull(0.75) meets
every quartile of the ratings a person gives, and Weibull(0.65) those of the ratings a film gets; the larger a
set, the longer the tail of films that hardly anybody has seen.
"""

from collections.abc import Callable

import numpy as np

from cofill.arrays import Doubles, Floats, Ints, Longs
from cofill.compiling import compiled
from cofill.data.datasets.world_choosing import Choosing

Offsets = Longs

FEWEST_RATINGS = 20
CHUNKS = 50
MUCH = 4  # who chooses one in so many of all films is faster served by looking at every film


def ratings_per_user(users: int, items: int, ratings: int, rng: np.random.Generator) -> Offsets:
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
    counts: Offsets,
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


def _spread(shares: Doubles, total: int, most: int) -> Offsets:
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
    ends: Offsets,
    owed: Ints,
    owed_ends: Offsets,
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
