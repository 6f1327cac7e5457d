"""A model that follows what happens after its training: ratings, interactions, descriptions, deletions (fold-in)."""

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np

from cofill.data.features import ReadableColumn
from cofill.data.interactions import Interactions
from cofill.data.ratings import Ratings, Scale
from cofill.data.vocabulary import Id
from cofill.errors import DataError
from cofill.models.known import KnownRatings
from cofill.models.lists.feedback import HIGHEST_WEIGHT, GradedRatings
from cofill.models.predicting import Side
from cofill.models.recommending import RecommendingModel


class FollowingModel(RecommendingModel):
    """The half of a recommender that is told news."""

    def add_ratings(self, ratings: object) -> Self:
        """Add or replace ratings of known or new users and items; predictions follow at once, by fold-in.

        `ratings` is anything that `Ratings.read` takes. A rating of a pair that has one takes its place; if they are
        equal, nothing changes at all.
        """
        self._check_whole()
        ratings = ratings if isinstance(ratings, Ratings) else Ratings.read(ratings)
        low, high = self.scale
        outside = (ratings.values < low) | (ratings.values > high)
        if outside.any():
            raise DataError(
                f"a rating of {ratings.values[outside][0]:g} is outside the model's scale of {low:g} to {high:g}; "
                f"correct it, or train again with a wider scale"
            )
        # Only ids that come with a rating are taken in: a part of a data set knows the ids of the whole.
        rated_users, user_place = np.unique(ratings.user_index, return_inverse=True)
        rated_items, item_place = np.unique(ratings.item_index, return_inverse=True)
        new_users, new_items = ratings.users.array()[rated_users], ratings.items.array()[rated_items]
        users = self.users.add(new_users)[user_place]
        items = self.items.add(new_items)[item_place]
        for item, title in ratings.titles.items():
            if item in self.items:
                self.titles[self.items.id(self.items.index(item))] = title
        self.matrix.add(users, items, ratings.values)
        self._tell_scorer(users, items)
        return self

    def add_interactions(self, interactions: object, *, replacing: bool = False) -> Self:
        """Add what known or new people did with known or new items; lists follow at once.

        `interactions` is anything that `Interactions.read` takes. What somebody did again adds up, to at most the
        greatest weight of the training. With `replacing`, they are all that happened to these pairs since the training:
        what was added before is replaced, so that telling the same again changes nothing.

        A model of ratings keeps them beside these, and its predictions stay. If it was trained on ratings alone, a
        weight of 5 or more counts for lists as the highest rating does, and less as a lower one.
        """
        self._check_whole()
        read = interactions if isinstance(interactions, Interactions) else Interactions.read(interactions)
        feedback = self.scorer.feedback
        if self.rated and feedback.beside is None:
            scale = Scale(0.0, HIGHEST_WEIGHT)
            trained = self.matrix.known.trained
            none = KnownRatings.none(trained.rows, trained.columns)
            nothing = GradedRatings.of(none, self._grades_beside(scale, trained=False), None)
            feedback.beside = self._feedback(None, nothing).beside
        users = self.users.add(read.users.array()[np.unique(read.user_index)])
        items = self.items.add(read.items.array()[np.unique(read.item_index)])
        to_users, to_items = (np.zeros(len(vocabulary), np.int32) for vocabulary in (read.users, read.items))
        to_users[np.unique(read.user_index)], to_items[np.unique(read.item_index)] = users, items
        users, items = to_users[read.user_index], to_items[read.item_index]
        self.titles |= {item: title for item, title in read.titles.items() if item in self.items}
        graded = feedback.beside if self.rated else feedback.main
        assert graded is not None
        weights = graded.added_up(users, items, read.values, to_training=replacing)
        if self.rated:
            self.matrix.grow(len(self.users), len(self.items))
            graded.add(users, items, weights)
        else:
            self.matrix.add(users, items, weights)
        self._tell_scorer(users, items)
        return self

    def _tell_scorer(self, users: Iterable[Any], items: Iterable[Any]) -> None:
        if self._scorer is not None:
            self._scorer.changed({int(user) for user in users}, {int(item) for item in items})

    def remove_ratings(self, pairs: object) -> Self:
        """Remove ratings, whether trained on or added later: predictions follow at once.

        `pairs` of user and item are anything that `predict` takes. Where there is no rating, nothing happens. A rating
        that came after the training leaves no trace; of users and items the ids stay known. Interactions beside ratings
        stay: that somebody does not rate an item any more does not undo that they bought it.
        """
        self._check_whole()
        matrix = self.matrix
        user_index, item_index = self._pairs(pairs)
        seen = (user_index >= 0) & (item_index >= 0)
        matrix.remove(user_index[seen], item_index[seen])
        self._tell_scorer(user_index[seen], item_index[seen])
        return self

    def add_items(self, items: Iterable[Id]) -> Self:
        """Make items known of which nothing else is known yet: neither ratings nor features."""
        self._check_whole()
        known = len(self.items)
        self.items.add(items)
        self.matrix.grow(len(self.users), len(self.items))
        self._tell_scorer((), range(known, len(self.items)))
        return self

    def forget_users(self, users: Iterable[Id]) -> Self:
        """Remove all that is known of people, trained on or told later: ratings, interactions and features.

        From then on they get what anybody gets, and others get lists and predictions without them, as far as
        these follow changes. What the model learned in training stays learned until the next one. Ids that are not
        known do not count.
        """
        self._check_whole()
        indices = self.users.find(list(users))
        indices = np.unique(indices[indices >= 0])
        touched: set[int] = set()
        for user in indices.tolist():
            rated, did = self.matrix.known.row(user)[0], self.known_items(user)
            self.matrix.remove(np.full(len(rated), user, np.int32), rated)
            self.scorer.feedback.main.forget(user)
            beside = self.scorer.feedback.beside
            if beside is not None:
                beside.remove(np.full(len(did), user, np.int32), did)
                beside.forget(user)
            touched |= set(did.tolist())
        width = self.matrix.row_features.width
        if width and len(indices):
            self.matrix.describe_rows(indices, np.full((len(indices), width), np.nan, np.float32))
        self._tell_scorer(indices, touched)
        return self

    def describe_items(self, source: object) -> Self:
        """Set the features of known or new items, by the columns of the training; predictions follow at once.

        `source` is {item: {column: value}}, or a table that has these columns: a file or a frame.
        """
        return self._describe("item", source)

    def describe_users(self, source: object) -> Self:
        """Set the features of known or new users, by the columns of the training; predictions follow at once.

        `source` is {user: {column: value}}, or a table that has these columns: a file or a frame.
        """
        return self._describe("user", source)

    def _describe(self, side: Side, source: object) -> Self:
        self._check_whole()
        matrix, learned = self.matrix, self._learned(side)
        vocabulary = self.users if side == "user" else self.items
        if isinstance(source, Mapping):
            ids: Iterable[Any] = list(source)
            vectors = np.array([learned.encode(about) for about in source.values()], np.float32)
            vectors = vectors.reshape(len(source), learned.width)
            words: Mapping[str, ReadableColumn] = learned.in_words(list(source.values()))
        else:
            described = learned.encode_table(source, unmentioned=np.nan)
            ids, vectors, words = described.ids.array(), described.values, described.readable
        known = vocabulary.find(ids)
        indices = vocabulary.add(ids)
        # A table may say nothing of tags, say: what is known of them stays, and of new ones nothing is known.
        features = matrix.row_features if side == "user" else matrix.column_features
        before = np.where((known >= 0)[:, None], features.values[known], np.float32(0)) if len(known) else vectors
        vectors = np.where(np.isnan(vectors), before, vectors)
        if side == "user":
            matrix.describe_rows(indices, vectors)
        else:
            matrix.describe_columns(indices, vectors)
            self.item_attributes.describe(indices, words)
            self._tell_scorer((), indices)
        return self
