"""Lists and their rules: which items may be in one, which count for more, how many of a kind, how unlike each other."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypedDict

import numpy as np

from cofill.arrays import Bools, Floats, Ints, Longs
from cofill.compiling import compiled
from cofill.data.attributes import Attributes, Condition, Scalar
from cofill.data.conditions import GREATEST_BOOST
from cofill.data.sparse import SparseRows
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import DataError

By = Literal["list", "rating"]
"""What lists are ranked by: what a user would choose and like, or what they would rate highest."""

_MOST_INSERTED = 300  # places of a list to which items are inserted one by one; more are sorted

Among = Iterable[Id] | Bools
"""Items to choose from: their ids, or a flag for each item of the model."""


def best_of(scores: Floats, n: int) -> list[int]:
    """Indices of the n greatest, best first, the lower index first among equals; -inf does not count."""
    if n < len(scores):
        # Everything that ties with the n-th stays a candidate, so that the choice does not depend on the partition.
        threshold = np.partition(scores, len(scores) - n)[len(scores) - n]
        candidates = np.flatnonzero(scores >= threshold)
    else:
        candidates = np.arange(len(scores))
    best = candidates[np.argsort(-scores[candidates], kind="stable")][:n]
    return [int(i) for i in best if scores[i] > -np.inf]


def best_of_rows(scores: Floats, n: int) -> Ints:
    """(rows, n, or as many as there are items): what `best_of` tells of each row of scores, and -1 after its end."""
    found = np.full((len(scores), min(n, scores.shape[1])), -1, np.int32)
    if n <= _MOST_INSERTED:
        _insert_best(scores, found)
        return found
    for row, own in enumerate(scores):
        best = best_of(own, n)
        found[row, : len(best)] = best
    return found


@compiled
def _insert_best(scores: Floats, found: Ints) -> None:
    n = found.shape[1]
    best = np.empty(n, np.float32)
    for row in range(len(scores)):
        count, least = 0, np.float32(-np.inf)
        for item in range(scores.shape[1]):
            score = scores[row, item]
            if score > least:  # so of equals the first stays
                place = count if count < n else n - 1
                while place > 0 and best[place - 1] < score:
                    best[place] = best[place - 1]
                    found[row, place] = found[row, place - 1]
                    place -= 1
                best[place] = score
                found[row, place] = item
                count = min(count + 1, n)
                if count == n:
                    least = best[n - 1]


_CANDIDATES_A_PLACE = 20
_LEAST_CANDIDATES = 200


def candidates_for(n: int) -> int:
    """Of how many items a list of n is picked one by one, where rules make that necessary."""
    return max(_LEAST_CANDIDATES, _CANDIDATES_A_PLACE * n)


class SimilarRules(TypedDict, total=False):
    """What a list of similar items may be made of; each can be left out."""

    among: Among | None
    """Items to choose from: their ids, of which unknown ones do not count, or a flag for each item of the model."""
    where: Mapping[str, Condition] | None
    """Conditions on what items are: {"genres": "Comedy", "year": {"min": 1990}}."""
    exclude: Among | None
    """Items that must not be in it."""
    min_ratings: int
    """Only items that at least so many people rated, apart from `new_items`."""
    at_most: Mapping[str, int] | None
    """At most so many items with the same value of a column: {"genres": 3}."""
    diversity: float
    """From 0 to 1: how much being unlike the items before it counts against the score (maximal marginal relevance)."""


class Rules(SimilarRules, total=False):
    """What a list may be made of; each can be left out."""

    boost: Mapping[str, Mapping[Scalar, float]] | None
    """Factors on the scores of items that are something: {"genres": {"Comedy": 1.5}}."""
    new_items: float
    """The share of places, from 0 to 1, for items without a rating yet, scored by their features."""


@dataclass(frozen=True)
class Selection:
    """Rules, worked out for the items of a model as they are now."""

    allowed: Bools | None  # (items,), None if all are
    unrated: Bools  # (items,): without a rating
    placeable: Bools  # (items,): of those, which have features to go by
    floor: float  # the score that a boost multiplies the distance from
    factors: Floats | None  # (items,)
    kinds: Sequence[tuple[Callable[[list[int]], list[tuple[object, ...]]], int]]
    """What gives the values of items, given by index, and how often one may occur."""
    diversity: float
    vectors: Floats | None  # (items, width): for diversity
    new_items: float

    def best(self, scores: Floats, excluded: Ints, n: int) -> list[int]:
        """Indices of the n items of a list, best first, by scores (items,); -inf is never in it."""
        scores = scores.copy()
        scores[excluded] = -np.inf
        if self.allowed is not None:
            scores[~self.allowed] = -np.inf
        if self.factors is not None:
            above = scores - self.floor
            scores = np.where(above > 0, self.floor + above * self.factors, self.floor + above / self.factors)
        unrated = self.unrated & (scores > -np.inf)
        if not unrated.any():
            return self._picked(scores, n, [])
        rated_scores = np.where(unrated, np.float32(-np.inf), scores)
        places = int(n * self.new_items + 1e-9)
        new = self._picked(np.where(unrated & self.placeable, scores, np.float32(-np.inf)), places, [])
        rated = self._picked(rated_scores, n - len(new), new)
        picked = _mixed(rated, new)
        if len(picked) < n:  # nothing else is left
            rest = np.where(unrated, scores, np.float32(-np.inf))
            rest[new] = -np.inf
            picked += self._picked(rest, n - len(picked), picked)
        return picked

    def best_of_many(self, scores: Floats, known: SparseRows | None, n: int) -> list[Ints]:
        """The same for many people, by scores (n, items), which are changed, and what these know already."""
        if self.factors is not None or self.kinds or self.diversity or self.new_items:
            nothing = np.empty(0, np.int32)
            excluded = [nothing if known is None else known.row(row)[0] for row in range(len(scores))]
            pairs = zip(scores, excluded, strict=True)
            return [np.array(self.best(own, some, n), np.int32) for own, some in pairs]
        if known is not None:
            scores[np.repeat(np.arange(known.rows), known.counts()), known.indices] = -np.inf
        if self.allowed is not None:
            scores[:, ~self.allowed] = -np.inf
        unrated = np.flatnonzero(self.unrated)
        of_unrated = scores[:, unrated]
        scores[:, unrated] = -np.inf
        picked = [own[own >= 0] for own in best_of_rows(scores, n)]
        scores[:, unrated] = of_unrated
        for row, own in enumerate(picked):
            if len(own) < n and len(unrated):  # they come last, where nothing else is left
                rest = best_of(of_unrated[row], n - len(own))
                picked[row] = np.concatenate([own, unrated[rest].astype(np.int32)])
        return picked

    def nearest(self, likeness: Floats, n: int) -> list[int]:
        """Indices of the n items that are most like one, by likeness (items,), rated or not"""
        if self.allowed is not None:
            likeness = np.where(self.allowed, likeness, np.float32(-np.inf))
        return self._picked(likeness, n, [])

    def _picked(self, scores: Floats, n: int, before: Sequence[int]) -> list[int]:
        """The n best that the rules allow beside those that are in the list already."""
        if n < 1:
            return []
        if not self.kinds and not self.diversity:
            return best_of(scores, n)
        candidates = best_of(scores, candidates_for(n))
        picked = self._one_by_one(candidates, scores, n, before)
        if len(picked) < n and len(candidates) < np.count_nonzero(scores > -np.inf):
            picked = self._one_by_one(best_of(scores, len(scores)), scores, n, before)
        return picked

    def _one_by_one(self, candidates: list[int], scores: Floats, n: int, before: Sequence[int]) -> list[int]:
        """By scores from 0 to 1 less likeness to what is in the list already (maximal marginal relevance)."""
        if not candidates:
            return []
        left, open_ = np.array(candidates, np.int64), np.ones(len(candidates), np.bool_)
        relevance = scores[left].astype(np.float64)
        span = float(np.ptp(relevance))
        relevance = (relevance - relevance.min()) / span if span else np.ones(len(left))
        both, likeness, vectors = [*candidates, *before], np.zeros(len(left)), None
        if self.vectors is not None:
            found = self.vectors[both]  # of few items: they are wide
            found = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), np.finfo(np.float32).tiny)
            vectors, others = found[: len(left)], found[len(left) :]
            likeness = (vectors @ others.T).max(1, initial=0.0)
        kinds_of = self._kinds_of(both)
        seen = Counter(kind for kinds in kinds_of[len(left) :] for kind in kinds)
        picked: list[int] = []
        while len(picked) < n and open_.any():
            worth = np.where(open_, (1 - self.diversity) * relevance - self.diversity * likeness, -np.inf)
            place = int(np.argmax(worth))
            open_[place] = False
            if all(seen[kind] < self.kinds[kind[0]][1] for kind in kinds_of[place]):
                seen.update(kinds_of[place])
                picked.append(int(left[place]))
                if vectors is not None:
                    likeness = np.maximum(likeness, vectors @ vectors[place])
        return picked

    def _kinds_of(self, items: list[int]) -> list[list[tuple[int, object]]]:
        """The values of items that are counted, each with the number of its rule."""
        by_rule = [values(items) for values, _ in self.kinds]
        return [
            [(number, value) for number, values in enumerate(by_rule) for value in values[place]]
            for place in range(len(items))
        ]


def _mixed(rated: list[int], new: list[int]) -> list[int]:
    """Both, the new ones spread evenly: each is the last of its stretch."""
    total = len(rated) + len(new)
    places = {(number + 1) * total // len(new) - 1 for number in range(len(new))} if new else set()
    olds, news = iter(rated), iter(new)
    return [next(news if place in places else olds) for place in range(total)]


@dataclass(frozen=True)
class Catalogue:
    """What rules need to know of a model's items."""

    items: Vocabulary
    attributes: Attributes
    counts: Longs  # (items,): people who rated or did something with each
    placeable: Bools  # (items,): which have features that a list can go by
    vectors: Floats | None  # (items, width): items that the same people choose have similar ones
    floor: float  # of scores

    def selection(self, rules: Rules) -> Selection:
        """The rules, checked, for these items."""
        size = len(self.items)
        diversity, new_items = (_share(name, rules.get(name, 0.0)) for name in ("diversity", "new_items"))
        unrated = self.counts[:size] == 0
        if diversity and (self.vectors is None or not self.vectors.shape[1]):
            raise DataError("this model knows nothing that makes one item like another", "leave out diversity")
        return Selection(
            allowed=self._allowed(rules, unrated),
            unrated=unrated,
            placeable=self.placeable[:size],
            floor=self.floor,
            factors=self._factors(rules.get("boost") or {}),
            kinds=[self._kind(column, most) for column, most in (rules.get("at_most") or {}).items()],
            diversity=diversity,
            vectors=self.vectors if diversity else None,
            new_items=new_items,
        )

    def _allowed(self, rules: Rules, unrated: Bools) -> Bools | None:
        among, where, exclude = rules.get("among"), rules.get("where"), rules.get("exclude")
        least = rules.get("min_ratings", 0)
        if not isinstance(least, int | np.integer) or isinstance(least, bool) or least < 0:
            raise DataError(f"min_ratings must be a whole number, 0 or more. Got {least!r}")
        if among is None and not where and exclude is None and not least:
            return None
        allowed = np.ones(len(self.items), np.bool_) if among is None else self.flags("among", among).copy()
        if where:
            allowed &= self.attributes.found(where)
        if exclude is not None:
            allowed &= ~self.flags("exclude", exclude)
        if least:
            new = unrated if rules.get("new_items", 0.0) else np.zeros_like(unrated)
            allowed &= (self.counts[: len(self.items)] >= least) | new
        return allowed

    def flags(self, name: str, given: Among) -> Bools:
        """(items,): which items are meant; ids that are unknown do not count."""
        if isinstance(given, np.ndarray) and given.dtype == np.bool_:
            if given.shape != (len(self.items),):
                raise DataError(
                    f"{name} has flags of shape {list(given.shape)}, and the model {len(self.items)} items; "
                    f"give one flag for each item, or the ids of items"
                )
            return given
        if isinstance(given, str):
            raise DataError(f"{name} is the text {given!r}; give a list of the ids of items")
        flags = np.zeros(len(self.items), np.bool_)
        indices = self.items.find(list(given))
        flags[indices[indices >= 0]] = True
        return flags

    def _factors(self, boost: Mapping[str, Mapping[Scalar, float]]) -> Floats | None:
        if not boost:
            return None
        factors = np.ones(len(self.items))
        for column, values in boost.items():
            if not isinstance(values, Mapping):
                raise DataError(f"boost of {column!r} must be {{value: factor}}. Got {values!r}")
            for value, factor in values.items():
                if (
                    isinstance(factor, bool)
                    or not isinstance(factor, int | float | np.number)
                    or not 0 < factor <= GREATEST_BOOST
                ):
                    raise DataError(
                        f"the boost of {column!r} = {value!r} must be a factor above 0, such as 1.5 for more or 0.5 "
                        f"for less. Got {factor!r}"
                    )
                with _said_of("boost"), np.errstate(over="ignore"):
                    factors[self.attributes.found({column: value}, names_only=True)] *= float(factor)
        return np.clip(factors, 1 / GREATEST_BOOST, GREATEST_BOOST).astype(np.float32)

    def _kind(self, column: str, most: int) -> tuple[Callable[[list[int]], list[tuple[object, ...]]], int]:
        if isinstance(most, bool) or not isinstance(most, int | np.integer) or most < 1:
            raise DataError(f"at_most of {column!r} must be a whole number of at least 1. Got {most!r}")
        with _said_of("at_most"):
            self.attributes.values_of(column, [])
        return partial(self.attributes.values_of, column), int(most)


@contextmanager
def _said_of(rule: str) -> Iterator[None]:
    """An error about a column names the rule that asked for it, not the filter."""
    try:
        yield
    except DataError as error:
        raise error.said_of(rule) from error


def _share(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= float(value) <= 1:
        raise DataError(f"{name} must be a number from 0 to 1. Got {value!r}")
    return float(value)
