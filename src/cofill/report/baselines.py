"""What needs no model, fitted to the ratings that the model knows: the means for predictions, and EASE for lists.

Popularity, the other thing that lists must beat, is measured by `evaluate_ranking` itself.
"""

import numpy as np

from cofill.arrays import Floats, Ints
from cofill.data.interactions import Interactions
from cofill.data.ratings import Ratings
from cofill.models.baselines.item_models import EASE
from cofill.models.biases import Biases
from cofill.models.recommender import Recommender

MOST_ITEMS_OF_EASE = 4000
"""From there on it would take longer than all else on the page: its time grows with the cube of the items."""


def known_ratings(model: Recommender) -> Ratings:
    """All ratings, or interactions, that the model knows, as they are now."""
    known = model.predictor.known
    by_item, changed = known.trained_columns, known.changed_columns()
    items = np.repeat(np.arange(by_item.rows, dtype=np.int32), by_item.counts())
    users, values = by_item.indices, by_item.values
    if len(changed):
        # A later rating may stand in for one of the training: item by item, as the model itself sees them.
        kept = ~np.isin(items, changed)
        anew = [(int(item), *known.column(int(item))) for item in changed]
        items = np.concatenate([items[kept], *(np.full(len(given), item, np.int32) for item, _, given in anew)])
        users = np.concatenate([users[kept], *(raters for _, raters, _ in anew)])
        values = np.concatenate([values[kept], *(given for _, _, given in anew)])
    order = np.lexsort((items, users))
    kind = Ratings if model.rated else Interactions
    return kind(model.users, model.items, users[order], items[order], values[order], None, model.scale, model.titles)


class MeansAlone:
    """The means (biases): what is usual, what this user gives above it, and what this item gets above it."""

    def __init__(self, known: Ratings) -> None:
        by_user, by_item = known.rows("user"), known.rows("item")
        nothing = [np.empty((side.rows, 0), np.float32) for side in (by_user, by_item)]
        self._means = Biases.fit(by_user, by_item, row_features=nothing[0], column_features=nothing[1])
        self._scale = known.scale

    def predictions(self, users: Ints, items: Ints) -> Floats:
        """Of pairs by index; of somebody or something unknown (-1) it knows no more than what is usual."""
        return np.clip(self._means.at_pairs(users, items), *self._scale).astype(np.float32)


def fitted_ease(model: Recommender, known: Ratings) -> EASE | None:
    """EASE on the same; None where the model is that already, or where there are too many items, or too few."""
    if isinstance(model, EASE) or not 2 <= len(model.items) <= MOST_ITEMS_OF_EASE or not len(known):
        return None
    return EASE().fit(known)
