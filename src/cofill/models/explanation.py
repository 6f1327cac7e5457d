"""Explanations (attribution): how far each rating and feature moves a prediction, in indices, then in ids and words."""

from collections.abc import Callable, Mapping, Sequence
from math import isnan
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.data.ratings import Scale
from cofill.data.vocabulary import Id, Vocabulary

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]

# Ratings that are replaced one by one: each costs a fold-in.
_ONE_BY_ONE = 200


class Contribution(NamedTuple):
    """One of the user's ratings or feature columns, and how far it moves a predicted rating or a list score."""

    amount: float
    """In ratings, or in list scores: above zero it pushes up, below zero down."""
    item: Id | None = None
    """The item that was rated; None if the contribution is that of a feature."""
    rating: float | None = None
    """What the user gave it; None if the user did something else with it."""
    title: str | None = None
    """The item's, where the data has one."""
    feature: str | None = None
    """The column that describes the user, such as age; None if the contribution is that of a rating."""


class Explanation(NamedTuple):
    """An explained prediction or list score: base + amounts of the contributions + remainder = value."""

    item: Id
    by: Literal["list", "rating"]
    """Whether the item's list score is explained, or its predicted rating."""
    value: float
    """As the model computes it, a rating before it is clipped to the scale: what the parts add up to."""
    clipped: float
    """A rating as `predict` and `recommend` tell it; a list score as it is."""
    base: float
    """What somebody without ratings and features gets for the item."""
    contributions: list[Contribution]
    """All ratings and features of the user, those that move it most first."""
    remainder: float
    """What is not attributed to any of them; docs/explanation/network.md says where it is more than rounding."""
    title: str | None = None
    low: float | None = None
    """Where the interval of a predicted rating begins, in which nine tenths of the true ones are expected."""
    high: float | None = None
    """Where it ends."""


class Given(NamedTuple):
    """What is known of the row or column whose predictions are explained."""

    others: Ints  # (n,): the columns that a row has rated, or the rows that a column has
    ratings: Floats  # (n,), NaN for what was done and not rated
    features: Floats | None = None  # (P,), None where nothing is known
    widths: tuple[int, ...] = ()  # how many features each input column has: they are explained as one
    number: int = -1  # which row or column it is, if it is one of the matrix


class Shares(NamedTuple):
    """How far each rating and each input column of features moves m predictions."""

    ratings: Doubles  # (m, n)
    features: Doubles  # (m, input columns)


def replaced_shares(fold_in: Callable[[Ints, Floats], Floats], given: Given, asked: Ints) -> Shares:
    """Shares of the predictions of any model that can fold in: tell every prediction from some ratings.

    A rating moves a prediction by what would be lost if it had been that of a stranger, of whom nothing is known. What
    prediction there is beyond the stranger's if all ratings had been so is owed to all of them alike. Where there
    are very many, those that are most like the stranger's are replaced together.
    """
    others, ratings = given.others, given.ratings
    by_rating = np.zeros((len(asked), len(others)))
    nothing = Shares(by_rating, np.zeros((len(asked), len(given.widths))))
    if not len(others):
        return nothing
    stranger = fold_in(others[:0], ratings[:0])
    usual = stranger[others]
    whole = fold_in(others, ratings)[asked].astype(np.float64)

    def lost(replaced: npt.NDArray[np.int64]) -> Doubles:
        other = ratings.copy()
        other[replaced] = usual[replaced]
        difference: Doubles = whole - fold_in(others, other)[asked]
        return difference

    order = np.argsort(-np.abs(ratings - usual), kind="stable")
    for place in order[:_ONE_BY_ONE]:
        by_rating[:, place] = lost(order[order == place])
    rest = order[_ONE_BY_ONE:]
    if len(rest):
        by_rating[:, rest] = lost(rest)[:, None] / len(rest)
    by_rating += ((whole - lost(order) - stranger[asked]) / len(others))[:, None]
    return nothing


def explanations(
    given: Given,
    asked: Ints,
    shares: Shares,
    *,
    columns: Sequence[str],
    predicted: Floats,
    base: Floats,
    items: Vocabulary,
    titles: Mapping[Id, str],
    scale: Scale | None,
) -> list[Explanation]:
    """One for each item asked about, given the names of the columns of features, the predictions (m,) and those for a
    stranger (m,). `scale` is that of ratings; list scores have none.
    """
    rated = [items.id(int(index)) for index in given.others]
    speakers: list[tuple[Id | None, float | None, str | None, str | None]] = [
        (item, None if isnan(rating) else rating, titles.get(item), None)
        for item, rating in zip(rated, given.ratings.tolist(), strict=True)
    ]
    speakers += [(None, None, None, column) for column in columns]
    found = []
    for place, index in enumerate(asked.tolist()):
        amounts = np.append(shares.ratings[place], shares.features[place])
        told = amounts != 0
        told[: len(rated)] = True  # a column that moves nothing is one of which nothing is known
        order = np.argsort(-np.abs(amounts), kind="stable")
        item, value, start = items.id(index), float(predicted[place]), float(base[place])
        found.append(
            Explanation(
                item=item,
                by="list" if scale is None else "rating",
                value=value,
                clipped=value if scale is None else min(max(value, scale.low), scale.high),
                base=start,
                contributions=[Contribution(float(amounts[at]), *speakers[at]) for at in order[told[order]].tolist()],
                remainder=value - start - float(amounts.sum()),
                title=titles.get(item),
            )
        )
    return found
