"""Why an item is predicted what it is: from shares in indices to explanations in ids, and shares for any model."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.data.ratings import Scale
from cofill.data.vocabulary import Id, Vocabulary
from cofill.models.answers import Contribution, Explanation

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]

# Ratings that are replaced one by one: each costs a fold-in.
_ONE_BY_ONE = 200


class Somebody(NamedTuple):
    """Whose predictions are explained: a user of the model, or somebody new."""

    user: int | None  # None: somebody new
    items: Ints  # (n,)
    ratings: Floats  # (n,)
    features: Mapping[str, object] | None  # of somebody new


class Shares(NamedTuple):
    """How far each rating and each column of features moves the predictions of m items."""

    by_rating: Doubles  # (m, n)
    by_feature: Doubles  # (m, columns)
    columns: tuple[str, ...]


def replaced_shares(
    fold_in: Callable[[Ints, Floats], Floats], somebody: Somebody, asked: Ints, strangers: Floats
) -> Shares:
    """Shares of the predictions of any model that can tell every item's (items,) from ratings.

    A rating moves a prediction by what would be lost if somebody had rated that item as strangers (items,) do. What
    prediction there is beyond the strangers' if they had rated everything so is owed to all ratings alike. Where there
    are very many, those that are most like the strangers' are replaced together.
    """
    items, ratings = somebody.items, somebody.ratings
    by_rating = np.zeros((len(asked), len(items)))
    if not len(items):
        return Shares(by_rating, np.zeros((len(asked), 0)), ())
    usual = strangers[items]
    whole = fold_in(items, ratings)[asked].astype(np.float64)

    def lost(replaced: npt.NDArray[np.int64]) -> Doubles:
        other = ratings.copy()
        other[replaced] = usual[replaced]
        difference: Doubles = whole - fold_in(items, other)[asked]
        return difference

    order = np.argsort(-np.abs(ratings - usual), kind="stable")
    for place in order[:_ONE_BY_ONE]:
        by_rating[:, place] = lost(order[order == place])
    rest = order[_ONE_BY_ONE:]
    if len(rest):
        by_rating[:, rest] = lost(rest)[:, None] / len(rest)
    by_rating += ((whole - lost(order) - strangers[asked]) / len(items))[:, None]
    return Shares(by_rating, np.zeros((len(asked), 0)), ())


def explanations(
    somebody: Somebody,
    asked: Ints,
    shares: Shares,
    *,
    predicted: Floats,
    base: Floats,
    items: Vocabulary,
    titles: Mapping[Id, str],
    scale: Scale,
) -> list[Explanation]:
    """One for each item asked about, given the predictions (m,) and those for a stranger (m,)."""
    rated = [items.id(int(index)) for index in somebody.items]
    speakers: list[tuple[Id | None, float | None, str | None, str | None]] = [
        (item, rating, titles.get(item), None) for item, rating in zip(rated, somebody.ratings.tolist(), strict=True)
    ]
    speakers += [(None, None, None, column) for column in shares.columns]
    found = []
    for place, index in enumerate(asked.tolist()):
        amounts = np.append(shares.by_rating[place], shares.by_feature[place])
        told = amounts != 0
        told[: len(rated)] = True  # a column that moves nothing is one of which nothing is known
        order = np.argsort(-np.abs(amounts), kind="stable")
        item, rating, start = items.id(index), float(predicted[place]), float(base[place])
        found.append(
            Explanation(
                item=item,
                rating=rating,
                clipped=min(max(rating, scale.low), scale.high),
                base=start,
                contributions=[Contribution(float(amounts[at]), *speakers[at]) for at in order[told[order]].tolist()],
                remainder=rating - start - float(amounts.sum()),
                title=titles.get(item),
            )
        )
    return found
