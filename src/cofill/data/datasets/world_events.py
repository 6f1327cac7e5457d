"""What people of the synthetic world do where nobody rates, as in a shop: they view films, and buy some of them.

What somebody views is drawn by choosing, what they buy of it by liking. It is drawn anew, by the same truth as the
ratings: that somebody viewed a film does not say whether it is among their ratings, held out or not.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cofill.arrays import Ints, Longs
from cofill.data.datasets.world_choosing import Counts
from cofill.data.datasets.world_sampling import choose_films
from cofill.data.datasets.world_truth import Truth
from cofill.data.ratings import Ratings

Times = Longs

VIEW, BUY = 0, 1
NAMES = ("view", "buy")
VIEWED = 1.5  # films that somebody views, for each that they would rate
VIEWS_AGAIN = 0.8  # further views of a film, on average
BUYS_FROM = 4.5  # stars: a film is bought by who would give it as many
DAY = 86_400


@dataclass(frozen=True, eq=False)
class Events:
    """users, items, events, times (n,): indices of users and items, of NAMES, and seconds since 1970, in order of time.

    A film is viewed before it is bought, often several times, and bought once at most.
    """

    users: Ints
    items: Ints
    events: npt.NDArray[np.int8]
    times: Times

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write `user,item,event,time` as CSV. Ids start at 1, as those of the ratings do."""
        import polars as pl

        from cofill.data.table import write_frame

        names = pl.Series(NAMES).gather(self.events.astype(np.int64))
        frame = {"user": self.users + 1, "item": self.items + 1, "event": names, "time": self.times}
        write_frame(pl.DataFrame(frame), Path(path))


def make_events(truth: Truth, ratings: Ratings, rng: np.random.Generator) -> Events:
    """About 2.7 views for each rating, and one buy in 7 or 8 views. People come and stay as they do in the ratings."""
    users, items = len(ratings.users), len(ratings.items)
    films: Counts = np.minimum(np.rint(VIEWED * truth.choosing.counts).astype(np.int64), items)
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


def _visits(ratings: Ratings, user: Ints, rng: np.random.Generator) -> Times:
    """When each of these people comes, some time after their first rating, for about as long as they rate: (n,)."""
    rated, times = ratings.user_index, ratings.times
    assert times is not None
    counts = np.bincount(rated, minlength=len(ratings.users))
    arrival = np.full(len(counts), times.max())
    np.minimum.at(arrival, rated, times)
    stay = np.bincount(rated, times - arrival[rated], len(counts)) / np.maximum(counts, 1) + DAY
    return np.asarray(arrival[user] + rng.exponential(stay[user]), np.int64)
