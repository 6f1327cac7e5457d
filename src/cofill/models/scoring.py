"""What a fitted model says of users, known or new, in indices: ratings, scores, lists, and why.

A user is a `Given`: the index of a known one, or -1 and what is known of a new one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.config import Goal
from cofill.data.attributes import Attributes
from cofill.data.described import SideFeatures
from cofill.data.features import Features, ReadableColumn
from cofill.data.pairs import read_pairs
from cofill.data.ratings import Ratings
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import DataError, UnknownIdError
from cofill.models.lists.feedback import joined
from cofill.models.lists.rules import By, Catalogue, Rules, Selection
from cofill.models.lists.scorer import About, ListScorer, SequentialScorer
from cofill.models.lists.sequences import Recency
from cofill.models.predictor import Predictor
from cofill.models.results import BestItems, Contribution, Explanation, Given, Shares
from cofill.threads import on_all_cores

# A lower bound of a rating is its prediction less so many standard errors of the item's mean, which has as many
# ratings as the item, and a few that everything is thought to have.
_STANDARD_ERRORS = 1.64
_RATINGS_BEFORE = 7.0
_USERS_AT_ONCE = 64  # that a thread makes the lists of
_LEAST_LENGTH = 1e-12  # of a vector: its square is still a number in single precision

STRANGER = Given(np.empty(0, np.int32), np.empty(0, np.float32))
"""An unknown user."""


@dataclass(frozen=True)
class Scoring:
    """A predictor of ratings and a scorer of lists, both as they stand now, and the items that they know."""

    predictor: Predictor
    scorer: ListScorer
    items: Vocabulary
    rated: bool  # whether there are ratings to predict

    # Ratings

    def known_user(self, index: int) -> Given:
        """A known user."""
        about = self.predictor.user_features
        vector = about.values[index] if about.width and about.described[index] else None
        return Given(*self.predictor.known.row(index), vector, number=index)

    def new_user(
        self, ratings: Mapping[Any, float], features: Floats | None, times: Mapping[Any, float] | None = None
    ) -> Given:
        """A user with these ratings {item: rating}, in their order, and features (P,); `times` are by item."""
        low, high = self.predictor.scale
        if not self.rated:
            ratings = {item: min(weight, high) for item, weight in ratings.items()}
        for item, rating in ratings.items():
            if not isinstance(rating, int | float | np.number) or not low <= rating <= high:
                raise DataError(f"the rating of item {item!r} must be between {low:g} and {high:g}. Got {rating!r}")
        indices = self.items.find(list(ratings))
        if (indices < 0).any():
            unknown = list(ratings)[int(np.argmin(indices))]
            raise UnknownIdError(f"item {unknown!r} is not in the model; check the id, or leave it out")
        if len(np.unique(indices)) < len(indices):
            raise DataError(f"an item is rated twice among {list(ratings)}; keep one rating of each")
        if times is not None and times.keys() != ratings.keys():
            raise DataError("the times are of other items than the ratings", "give the time of each")
        order = np.argsort(indices)
        values = np.array(list(ratings.values()), np.float32)
        if times is None:
            return Given(indices[order], values[order], features, places=order)
        when = np.array([times[item] for item in ratings], np.float64)
        places = np.argsort(np.argsort(when, kind="stable"), kind="stable")
        return Given(indices[order], values[order], features, places=places[order], times=when[order])

    def clipped(self, ratings: Floats) -> Floats:
        scale = self.predictor.scale
        return np.clip(ratings, np.float32(scale.low), np.float32(scale.high))

    def interval(self, ratings: Floats, radius: Floats) -> tuple[Floats, Floats]:
        return self.clipped(ratings - radius), self.clipped(ratings + radius)

    def ratings(self, given: Given) -> Floats:
        """(items,): what a user would rate every item, not clipped to the scale."""
        if given.number >= 0:
            return self.predictor.user(given.number)[: len(self.items)]
        return self.predictor.new_user(given.others, given.ratings, given.features)[: len(self.items)]

    def ratings_at(self, given: Given, items: Ints) -> Floats | None:
        """(n,): what a user would rate items; None where the model knows no ratings."""
        if not self.rated:
            return None
        if given.number >= 0:
            return self.clipped(self.predictor.entries(np.full(len(items), given.number, np.int32), items))
        return self.clipped(self.predictor.new_user_at(given.others, given.ratings, given.features, items))

    def interval_radius(self, given: Given, items: Ints, predicted: Floats) -> Floats | None:
        """(n,): half the widths of the intervals of predictions for a user; None where the model has no intervals."""
        if given.number >= 0:
            return self.predictor.interval_radius(np.full(len(items), given.number, np.int32), items, predicted)
        return self.predictor.new_user_interval_radius(given.others, given.ratings, given.features, items, predicted)

    # Scores

    def scores(self, given: Given, by: By, goal: Goal | None = None) -> Floats:
        """(items,): what the list of a user is ranked by; with the goal "any" without order and time."""
        if by == "list":
            about = None if given.features is None else About(given.features[None], np.ones(1, np.bool_))
            done = self.done_by(given)
            if isinstance(self.scorer, SequentialScorer) and goal != "any":
                rows = joined([done], self.scorer.feedback.items)
                found: Floats = self.scorer.of_histories(rows, self.recency(given), about)[0]
                return found[: len(self.items)]
            return self.scorer.one(*done, about)[: len(self.items)]
        lower: Floats = self._lower_bound(self.ratings(given)[None])[0]
        return lower

    def recency(self, given: Given) -> Recency:
        """In which order and when a user did what `done_by` has."""
        assert isinstance(self.scorer, SequentialScorer)
        sequences = self.scorer.sequences
        if given.number < 0:
            places = np.arange(len(given.others)) if given.places is None else given.places
            return sequences.of_new_user(places, given.times, given.at)
        at = None if given.at is None else np.array([given.at])
        return sequences.recency(np.array([given.number]), joined([self.done_by(given)], len(self.items)), at)

    def scores_of_users(self, users: Longs, by: By, at: Doubles | None = None, goal: Goal | None = None) -> Floats:
        """(n, items): the same for some users, given by index, at these times (n,), the latest known by default."""
        if by == "list":
            of_users = self.predictor.user_features
            about = About(of_users.values[users], of_users.described[users]) if of_users.width else None
            done = self.scorer.feedback.rows(users)
            if isinstance(self.scorer, SequentialScorer) and goal != "any":
                recent = self.scorer.sequences.recency(users, done, at)
                return self.scorer.of_histories(done, recent, about)[:, : len(self.items)]
            return self.scorer.of_people(done, about)[:, : len(self.items)]
        return self._lower_bound(self.predictor.users(users)[:, : len(self.items)])

    def done_by(self, given: Given) -> tuple[Ints, Floats]:
        """Items and grades of what a user did."""
        feedback = self.scorer.feedback
        if given.number >= 0:
            return feedback.row(given.number)
        return given.others, feedback.main.grades.of(given.ratings)

    def _lower_bound(self, predicted: Floats) -> Floats:
        """(n, items): ratings less what is uncertain of them, from how many ratings an item has."""
        error = self.predictor.known.spread() / np.sqrt(
            self.predictor.item_counts[: predicted.shape[1]] + _RATINGS_BEFORE
        )
        lower: Floats = predicted - (_STANDARD_ERRORS * error).astype(np.float32)
        return lower

    def raters(self) -> Longs:
        """(items,): how many users rated each item, or did something with it, whichever are more."""
        counts, beside = self.predictor.item_counts, self.scorer.feedback.beside
        if beside is None:
            return counts
        found, others = counts.copy(), beside.counts()
        found[: len(others)] = np.maximum(found[: len(others)], others)
        return found

    def unrated_last(self, scores: Floats) -> Floats:
        """(n, items): scores (changed in place) in which items without a rating are below all others."""
        unrated = self.raters()[: scores.shape[1]] == 0
        if unrated.all() or not unrated.any():
            return scores
        above = scores[:, unrated].max(1) - scores[:, ~unrated].min(1)
        scores[:, unrated] -= (np.maximum(above, 0) + 1)[:, None]
        return scores

    # Lists

    def selection(self, rules: Rules, by: By, attributes: Attributes, vectors: Floats | None) -> Selection:
        """Rules worked out for the items as they are now; `vectors` are for diversity."""
        return Catalogue(
            self.items,
            attributes,
            counts=self.raters(),
            placeable=self.predictor.item_features.described,
            vectors=vectors,
            floor=0.0 if by == "list" else self.predictor.scale.low,
        ).selection(rules)

    def best_for(self, given: Given, n: int, by: By, exclude_known: bool, selection: Selection) -> BestItems:
        """The list of one user."""
        known = self.scorer.feedback.items_of(given.number) if given.number >= 0 else given.others
        scores = self.scores(given, by)
        best = np.array(selection.best(scores, known if exclude_known else known[:0], n), np.int32)
        return BestItems(np.array([len(best)]), best, scores[best], self.ratings_at(given, best), self.raters()[best])

    def best_of_users(self, users: Longs, n: int, by: By, exclude_known: bool, selection: Selection) -> BestItems:
        """The lists of some users, given by index; -1 is an unknown user."""
        scorer, strangers = self.scorer, users < 0
        scorer.up_to_date()  # before threads ask

        def lists(some: Longs) -> list[tuple[Ints, Floats]]:
            scores = self.scores_of_users(some, by)
            picked = selection.best_of_many(scores, scorer.feedback.rows(some) if exclude_known else None, n)
            return [(items, own[items]) for items, own in zip(picked, scores, strict=True)]

        known = users[~strangers]
        # The predictions of a network use all cores by themselves.
        parts = np.array_split(known, -(-len(known) // _USERS_AT_ONCE)) if by == "list" and len(known) else [known]
        found = [one for part in on_all_cores(lists, parts) for one in part]
        if strangers.any():
            scores = self.scores(STRANGER, by)
            items = np.array(selection.best(scores, np.empty(0, np.int32), n), np.int32)
            of_known = iter(found)
            found = [(items, scores[items]) if new else next(of_known) for new in strangers.tolist()]
        lengths = np.array([len(items) for items, _ in found], np.int64)
        place = np.repeat(np.arange(len(users)), lengths)
        items = np.concatenate([np.empty(0, np.int32), *(items for items, _ in found)])
        chosen = np.concatenate([np.empty(0, np.float32), *(scores for _, scores in found)])
        ratings = None
        if self.rated:
            ratings = self.clipped(self.predictor.entries(users[place].astype(np.int32), items))
        return BestItems(lengths, items, chosen, ratings, self.raters()[items])

    # Forgetting

    def forget(self, users: Ints) -> set[int]:
        """Remove all ratings, interactions and features of users; the items that they did something with."""
        predictor, feedback, touched = self.predictor, self.scorer.feedback, set[int]()
        for user in users.tolist():
            rated, done = predictor.known.row(user)[0], feedback.items_of(user)
            predictor.remove(np.full(len(rated), user, np.int32), rated)
            feedback.main.forget(user)
            if feedback.sequences is not None:
                feedback.sequences.later.pop(user, None)
            if feedback.beside is not None:
                feedback.beside.remove(np.full(len(done), user, np.int32), done)
                feedback.beside.forget(user)
            touched |= set(done.tolist())
        width = predictor.user_features.width
        if width and len(users):
            predictor.describe_users(users, np.full((len(users), width), np.nan, np.float32))
        return touched

    # Why

    def explain(
        self,
        given: Given,
        asked: Ints,
        by: By,
        columns: Sequence[tuple[str, int]],
        titles: Mapping[Id, str],
        *,
        with_interval: bool,
    ) -> list[Explanation]:
        """Why items are scored or rated as they are; `columns` are those of a user's features, and their widths."""
        given = given._replace(widths=tuple(width for _, width in columns))
        done, shares = self._shares(given, asked, by)
        value, base = (
            (self.scores(one, by) if by == "list" else self.ratings(one))[asked] for one in (given, STRANGER)
        )
        groups: list[dict[str, float] | None] = [None] * len(asked)
        if by == "list" and isinstance(self.scorer, SequentialScorer):
            base, shares, groups = self._in_order(given, shares, asked)
        clipped = value if by == "list" else self.clipped(value)
        radius = self.interval_radius(given, asked, clipped) if with_interval and by == "rating" else None
        rated = [self.items.id(item) for item in done.others.tolist()]
        sources: list[dict[str, Any]] = [
            {"item": item, "rating": None if isnan(rating) else rating, "title": titles.get(item)}
            for item, rating in zip(rated, done.ratings.tolist(), strict=True)
        ]
        sources += [{"feature": name} for name, _ in columns]
        found = []
        for place, index in enumerate(asked.tolist()):
            amounts = np.append(shares.ratings[place], shares.features[place])
            order = np.argsort(-np.abs(amounts), kind="stable").tolist()
            # A column that moves nothing is one of which nothing is known.
            shown = [at for at in order if at < len(rated) or amounts[at] != 0]
            item = self.items.id(index)
            found.append(
                Explanation(
                    item=item,
                    by=by,
                    value=float(value[place]),
                    clipped=float(clipped[place]),
                    base=float(base[place]),
                    contributions=[Contribution(float(amounts[at]), **sources[at]) for at in shown],
                    remainder=float(value[place]) - float(base[place]) - float(amounts.sum()),
                    title=titles.get(item),
                    groups=groups[place],
                )
            )
        if radius is None:
            return found
        low, high = (ends.tolist() for ends in self.interval(clipped, radius))
        return [one._replace(low=low[place], high=high[place]) for place, one in enumerate(found)]

    def _in_order(
        self, given: Given, shares: Shares, asked: Ints
    ) -> tuple[Floats, Shares, list[dict[str, float] | None]]:
        """The base, the shares and the groups of scores that follow order and time."""
        assert isinstance(self.scorer, SequentialScorer)
        parts = self.scorer.parts_of(*self.done_by(given), self.recency(given), asked)
        features = shares.features * parts.features
        history = parts.constant + parts.history.sum(1) + features.sum(1)
        found = zip(parts.trend.tolist(), history.tolist(), parts.order.sum(1).tolist(), strict=True)
        groups: list[dict[str, float] | None] = [
            {"trend": trend, "history": own, "order": order} for trend, own, order in found
        ]
        base: Floats = (parts.trend + parts.constant).astype(np.float32)
        return base, Shares(parts.history + parts.order, features), groups

    def _shares(self, given: Given, asked: Ints, by: By) -> tuple[Given, Shares]:
        """What a user did, and how far each of it and their features move the scores or ratings of items."""
        if by == "rating":
            return given, self.predictor.user_shares(given, asked)
        items, grades = self.done_by(given)
        of_features = np.zeros((len(asked), 0))
        if given.features is not None:
            of_features = self.scorer.feature_shares(len(items), given.features, given.widths, asked)
        rated = dict(zip(given.others.tolist(), given.ratings.tolist(), strict=True))
        ratings = np.array([rated.get(item, np.nan) for item in items.tolist()], np.float32)
        shares = Shares(self.scorer.shares(items, grades, asked), of_features)
        return given._replace(others=items, ratings=ratings), shares


def likeness_to(index: int, vectors: Floats, known: Bools) -> Floats:
    """(n,): the cosine of vectors (n, width), about the mean of the known ones, to one; -inf of that and of unknown."""
    centred = vectors - vectors[known].mean(0)
    norms = np.maximum(np.linalg.norm(centred, axis=1), np.float32(_LEAST_LENGTH))
    likeness: Floats = centred @ centred[index] / (norms * norms[index])
    likeness[~known] = likeness[index] = -np.inf
    return likeness


# From ids to indices


def pair_indices(pairs: object, users: Vocabulary, items: Vocabulary) -> tuple[Ints, Ints]:
    """Indices (n,) of users and of items; -1 is an unknown id."""
    try:
        of_users, of_items = read_pairs(pairs)
    except DataError as error:
        if not {"user", "item"} & error.remedy.arguments.keys():
            raise
        raise DataError(error.found, "name the columns user and item", where=error.where) from None
    return users.find(of_users), items.find(of_items)


def taken_in(read: Ratings, users: Vocabulary, items: Vocabulary, titles: dict[Id, str]) -> tuple[Ints, Ints]:
    """Indices (n,) of users and items, new ones too; ids that have no rating here are not added."""
    rated_users, user_place = np.unique(read.user_index, return_inverse=True)
    rated_items, item_place = np.unique(read.item_index, return_inverse=True)
    user_index = users.add(read.users.array()[rated_users])[user_place]
    item_index = items.add(read.items.array()[rated_items])[item_place]
    titles |= {items.own(item): title for item, title in read.titles.items() if item in items}
    return user_index, item_index


def described(
    source: object, learned: Features, ids: Vocabulary, features: SideFeatures
) -> tuple[Ints, Floats, Mapping[str, ReadableColumn]]:
    """Indices (n,), features (n, width) and their words, from {id: {column: value}} or a table. New ids are added."""
    words: Mapping[str, ReadableColumn]
    if isinstance(source, Mapping):
        named: Any = list(source)
        vectors = np.array([learned.encode(about) for about in source.values()], np.float32)
        vectors, words = vectors.reshape(len(source), learned.width), learned.in_words(list(source.values()))
    else:
        read = learned.encode_table(source, unmentioned=np.nan)
        named, vectors, words = read.ids.array(), read.values, read.readable
    known = ids.find(named)
    # A table may say nothing of tags, say: what is known of them stays, and of new ones nothing is known.
    before = np.where((known >= 0)[:, None], features.values[known], np.float32(0)) if len(known) else vectors
    return ids.add(named), np.where(np.isnan(vectors), before, vectors), words
