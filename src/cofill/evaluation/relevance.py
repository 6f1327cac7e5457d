"""Which test ratings a list should find, and what each is worth.

Of ratings, those from a threshold on are relevant, by default the upper quarter of the scale (4 of 1 to 5), and their
gain is the rating less the lowest of the scale. Of interactions all are relevant, with gain 1 (binary relevance).
What nobody has rated counts as not relevant.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cofill.arrays import Bools, Doubles, Ints, Longs
from cofill.data.ratings import Ratings, Scale
from cofill.data.vocabulary import Vocabulary
from cofill.errors import DataError

RELEVANT_SHARE = 0.75
"""Where on the scale, from its lowest to its highest rating, relevance begins by default."""


class KnowsItems(Protocol):
    """What must be known of a model to say which items its lists could contain."""

    items: Vocabulary

    @property
    def scale(self) -> Scale: ...


@dataclass(frozen=True, eq=False)
class Relevant:
    """The relevant test ratings that the model does not know, person by person."""

    threshold: float | None
    """The least rating that is relevant; None where every interaction is."""
    people: Longs
    """(people,): who has a relevant rating, as an index of the test part's users, ascending."""
    ends: Longs
    """(people + 1,): person i owns the entries from ends[i] to ends[i + 1]."""
    items: Ints
    """(entries,): indices in the model; -1 is an item that it does not know."""
    gains: Doubles
    """(entries,): all above 0."""
    left_out: int
    """Test ratings that the model knows, relevant or not."""

    def counts(self) -> Longs:
        """(people,): how many relevant items each has."""
        return np.diff(self.ends)


def item_indices(model: KnowsItems, ratings: Ratings) -> Ints:
    """(n,): the model's index of the item of each rating; -1 where it does not know it."""
    return model.items.find(ratings.items.ids)[ratings.item_index]


def relevant_ratings(model: KnowsItems, test: Ratings, known: Bools, least: float | None = None) -> Relevant:
    """What is relevant in a test part; `known` (n,) are the ratings that the model has seen, which do not count."""
    threshold = _threshold(test, least, model.scale)
    left_out = int(known.sum())
    if left_out == len(test):
        raise DataError(
            f"the model was trained on all of these {len(test):,} ratings, so there is nothing left to find; "
            f"cut the data with `cofill split` first, and train on the other part"
        )
    chosen = ~known
    if threshold is not None:
        chosen &= test.values >= np.float32(threshold)  # as ratings are kept: 3.3 in 32 bits is less than in 64
    if not chosen.any():
        highest = test.values[~known].max()
        raise DataError(
            f"none of the {len(test) - left_out:,} test ratings is relevant: the highest is {highest:g}, "
            f"and relevant begins at {threshold:g}; give a lower one"
        )
    people, counts = np.unique(test.user_index[chosen], return_counts=True)
    values = test.values[chosen].astype(np.float64)
    return Relevant(
        threshold=threshold,
        people=people.astype(np.int64),
        ends=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        items=item_indices(model, test)[chosen],
        gains=np.ones(len(values)) if threshold is None else values - model.scale.low,
        left_out=left_out,
    )


def _threshold(test: Ratings, relevant: float | None, scale: Scale) -> float | None:
    if not getattr(test, "rated", True):
        if relevant is not None:
            raise DataError(f"relevant={relevant:g} is for ratings, and of interactions all are relevant; leave it out")
        return None
    low, high = scale
    if relevant is None:
        return low + RELEVANT_SHARE * (high - low)
    if not np.float32(low) < np.float32(relevant) <= np.float32(high):  # as ratings are kept
        raise DataError(
            f"relevant={relevant:g} must be above the lowest rating, {low:g}, and at most the highest, {high:g}"
        )
    return float(relevant)
