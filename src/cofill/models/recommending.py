"""What a model recommends: lists of one person and of many, similar items, and why an item is in a list."""

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Unpack, cast, get_args

import numpy as np

from cofill.data.vocabulary import Id
from cofill.errors import DataError, DataWarning, Remedy, UnknownIdError
from cofill.models.explanation import Explanation, Shares, explanations
from cofill.models.item_places import ItemPlaces, most_rated, placed
from cofill.models.lists.rules import (
    By,
    Catalogue,
    RankedList,
    Recommendation,
    Rules,
    Selection,
    Similar,
    SimilarRules,
    check_count,
)
from cofill.models.matrix import Floats, Ints, Longs
from cofill.models.predicting import Person, PredictingModel, nobody
from cofill.models.user_lists import BestItems, UserLists
from cofill.progress import Progress, Step, unseen
from cofill.threads import on_all_cores

UnknownUsers = Literal["refuse", "anybody", "skip"]
"""What becomes of ids that the model does not know, where many are asked about."""

_PEOPLE_AT_ONCE = 64  # that a thread makes the lists of
_LEAST_LENGTH = 1e-12  # of a vector: its square is still a number in single precision


class RecommendingModel(PredictingModel):
    """The half of a recommender that makes lists."""

    def recommend(
        self,
        user: Id | Mapping[Any, float],
        n: int = 10,
        *,
        by: By = "list",
        features: Mapping[str, object] | None = None,
        exclude_known: bool = True,
        **rules: Unpack[Rules],
    ) -> RankedList[Recommendation]:
        """The n items that somebody would choose and like, best first.

        `user` is an id, or the ratings {item: rating} of somebody whom the model has never seen, described by
        `features` {column: value} or not; {} with features is somebody who has rated nothing. An id that is not known
        gets what is recommended to anybody.

        `by="rating"` ranks by what they would rate highest, to be on the safe side: by a lower bound of the rating,
        so that an item of which little is known does not stand above one that thousands love. Items that nobody has
        rated come last, unless `new_items` gives them places. All rules are those of `Rules`: among, where, exclude,
        min_ratings, boost, at_most, diversity, new_items.
        """
        check_count(n)
        self._check_by(by)
        if isinstance(user, Iterable) and not isinstance(user, str | Mapping):
            raise DataError("recommend is about one person, and this may be several", "ask recommend_many about them")
        person = self._person(user, features)
        known = self._known_to(person)
        scores = self._person_scores(person, by)
        selection = self._selection(by, rules)
        best = np.array(selection.best(scores, known if exclude_known else known[:0], n), np.int32)
        return self._entries(best, scores[best], self._ratings_at(person, best))

    def recommend_many(
        self,
        users: Iterable[Id] | None = None,
        n: int = 10,
        *,
        by: By = "list",
        exclude_known: bool = True,
        unknown_users: UnknownUsers = "refuse",
        progress: Progress | None = None,
        **rules: Unpack[Rules],
    ) -> UserLists:
        """The lists of many users, given by id, or of everybody: iterate over them, or have them as a frame.

        >>> model.recommend_many([42, 7], n=5).to_pandas()

        They are what `recommend` gives each of them, made in batches of bounded memory. An id that the model does not
        know is an error; `unknown_users="anybody"` gives it what anybody is recommended, and `"skip"` leaves it out,
        with a warning that counts them. `progress` is called with a `Step` after each batch. Rules are those of
        `recommend`.
        """
        check_count(n)
        self._check_by(by)
        self.matrix  # noqa: B018  # a model that is not fitted says so now, not at the first answer
        ids, people = self._asked_about(users, unknown_users)
        selection, size = self._selection(by, rules), len(self.items)

        def best(some: Longs) -> BestItems:
            if len(self.items) != size:
                raise DataError("the model has more items than when these lists were asked for", "ask for them again")
            return self._best_of_users(some, n, by, exclude_known, selection)

        return UserLists(
            ids,
            people,
            best,
            items=self.items,
            titles=self.titles,
            integers=self.users.integers and all(isinstance(user, int) for user in ids),
            rated=self.rated,
            progress=progress,
        )

    def _asked_about(self, users: Iterable[Id] | None, unknown: UnknownUsers) -> tuple[list[Id], Longs]:
        """Ids, and indices (n,), where -1 is somebody unknown."""
        if unknown not in get_args(UnknownUsers):
            raise DataError(f"unknown_users must be one of {', '.join(get_args(UnknownUsers))}. Got {unknown!r}")
        if users is None:
            return self.users.ids, np.arange(len(self.users), dtype=np.int64)
        if isinstance(users, str | int | Mapping):
            raise DataError(f"users is {users!r}; give a list of ids, or ask recommend about one person")
        if hasattr(users, "columns"):  # whose iteration gives the names of its columns, or the columns
            raise DataError("users is a frame", "give the column of ids, such as frame['user']")
        wanted = list(users)
        people = self.users.find(wanted).astype(np.int64)
        ids = [self.users.own(user) for user in wanted]
        strangers = people < 0
        if not strangers.any():
            return ids, people
        first = ids[int(np.argmax(strangers))]
        some = f"user {first!r} is" if strangers.sum() == 1 else f"{strangers.sum():,} users, such as {first!r}, are"
        found = f"{some} not in the model"
        if unknown == "refuse":
            remedy = Remedy.passing(
                "check the ids, or pass {unknown_users}, or 'skip'; recommend takes the ratings of somebody new",
                unknown_users="anybody",
            )
            raise UnknownIdError(found, remedy)
        if unknown == "anybody":
            warnings.warn(DataWarning(found, "they get what anybody is recommended"), stacklevel=3)
            return ids, people
        warnings.warn(DataWarning(found, "they get no list"), stacklevel=3)
        return [user for user, new in zip(ids, strangers.tolist(), strict=True) if not new], people[~strangers]

    def _best_of_users(self, people: Longs, n: int, by: By, exclude_known: bool, selection: Selection) -> BestItems:
        """The lists of some people, given by index; -1 is somebody of whom nothing is known."""
        scorer, strangers = self.scorer, people < 0
        scorer.up_to_date()  # before threads ask

        def lists(some: Longs) -> list[tuple[Ints, Floats]]:
            scores = self._scores_of_users(some, by)
            picked = selection.best_of_many(scores, scorer.feedback.rows(some) if exclude_known else None, n)
            return [(items, own[items]) for items, own in zip(picked, scores, strict=True)]

        known = people[~strangers]
        # A network's predictions share out their work themselves.
        parts = np.array_split(known, -(-len(known) // _PEOPLE_AT_ONCE)) if by == "list" and len(known) else [known]
        found = [one for part in on_all_cores(lists, parts) for one in part]
        if strangers.any():
            scores = self._person_scores(nobody(), by)
            items = np.array(selection.best(scores, np.empty(0, np.int32), n), np.int32)
            of_known = iter(found)
            found = [(items, scores[items]) if new else next(of_known) for new in strangers.tolist()]
        lengths = np.array([len(items) for items, _ in found], np.int64)
        place = np.repeat(np.arange(len(people)), lengths)
        items = np.concatenate([np.empty(0, np.int32), *(items for items, _ in found)])
        return BestItems(
            lengths,
            items,
            np.concatenate([np.empty(0, np.float32), *(scores for _, scores in found)]),
            self._ratings_of(people[place], items),
            self._people_of_items()[items],
        )

    def explain(
        self,
        user: Id | Mapping[Any, float],
        item: Id,
        *,
        by: By = "list",
        features: Mapping[str, object] | None = None,
    ) -> Explanation:
        """Explain why an item is in a list, or its predicted rating: base + amounts + remainder = value.

        The user is given as to `recommend`. Amounts are exact for lists, which are linear in what somebody did. A
        predicted rating comes with its interval, `low` to `high`, where the model has intervals.
        """
        return self.explain_many(user, [item], by=by, features=features, with_interval=True)[0]

    def explain_many(
        self,
        user: Id | Mapping[Any, float],
        items: Iterable[Id],
        *,
        by: By = "list",
        features: Mapping[str, object] | None = None,
        with_interval: bool = False,
    ) -> list[Explanation]:
        """The same for several items, which costs little more than for one, intervals aside."""
        self._check_by(by)
        person = self._person(user, features)
        wanted = list(items)
        asked = self.items.find(wanted)
        if (asked < 0).any():
            raise UnknownIdError(f"item {wanted[int(np.argmin(asked))]!r} is not in the model; check the id")
        if by == "list":
            given, columns = self._given(person)
            did = self._did(person)
            by_features = np.zeros((len(asked), 0))
            if given.features is not None:
                by_features = self.scorer.feature_shares(len(did[0]), given.features, given.widths, asked)
            shares = Shares(self.scorer.shares(*did, asked), by_features)
            given = given._replace(others=did[0], ratings=_ratings_beside(person, did[0]))
            predicted, base = self._person_scores(person, by), self._person_scores(nobody(), by)
        else:
            given, columns = self._given(person)
            shares = self.matrix.row_shares(given, asked)
            predicted, base = self._person_ratings(person), self.stranger_ratings()
        found = explanations(
            given,
            asked,
            shares,
            columns=columns,
            predicted=predicted[asked],
            base=base[asked],
            items=self.items,
            titles=self.titles,
            scale=None if by == "list" else self.scale,
        )
        if by == "list" or not with_interval:
            return found
        around = self._person_intervals(person, asked, np.array([one.clipped for one in found], np.float32))
        if around is None:
            return found
        ends = zip(found, around.low.tolist(), around.high.tolist(), strict=True)
        return [one._replace(low=low, high=high) for one, low, high in ends]

    def similar(self, item: Id, n: int = 10, **rules: Unpack[SimilarRules]) -> RankedList[Similar]:
        """The n items most similar to this one, by cosine similarity of their embeddings.

        An item without a rating can be asked about, and be an answer, if it has features. The rules are those of
        lists, as far as they make sense here (`SimilarRules`): among, where, exclude, min_ratings, at_most, diversity.
        """
        check_count(n)
        index = self.items.index(item)
        known = self.matrix.column_known()
        if not known[index]:
            raise UnknownIdError(f"too little is known of item {item!r} yet: nothing can be said to be like it")
        vectors = self.item_vectors()
        if vectors.shape[1] == 0:
            raise DataError(f"a model of {self.kind!r} knows nothing that makes one item like another; ask a CFN")
        centred = vectors - vectors[known].mean(0)
        norms = np.maximum(np.linalg.norm(centred, axis=1), np.float32(_LEAST_LENGTH))
        likeness = centred @ centred[index] / (norms * norms[index])
        likeness[~known] = -np.inf
        likeness[index] = -np.inf
        some = cast(Rules, rules)  # each of them is one of lists
        best = self._selection("list", some).nearest(likeness[: len(self.items)], n)
        entries = [Similar(item_id := self.items.id(i), float(likeness[i]), self.titles.get(item_id)) for i in best]
        return RankedList(entries, Similar, integers=self.items.integers)

    def item_vectors(self) -> Floats:
        """(items, width): item embeddings: similar items have similar vectors.

        Those of the predictions, or of the lists where predictions know nothing that makes one item like another.
        """
        vectors = self.matrix.column_vectors()
        if vectors.shape[1]:
            return vectors
        of_lists = self.scorer.item_vectors()
        return vectors if of_lists is None else of_lists

    def draw_map(self, progress: Progress | None = None) -> ItemPlaces:
        """Place the most rated items in two dimensions (t-SNE), what is alike close together.

        It is saved with the model, for the page of `cofill serve`. Takes seconds for 1,500 items, which are the most.
        """
        tell = progress or unseen
        vectors = self.item_vectors()
        chosen = most_rated(self.item_counts(), vectors)
        places = placed(vectors[chosen], lambda share: tell(Step("drawing the map", share, 1.0, 1.0)))
        self.item_places = ItemPlaces(chosen, places)
        return self.item_places

    def _selection(self, by: By, rules: Rules) -> Selection:
        vectors = None
        if rules.get("diversity"):
            vectors = self.scorer.item_vectors()
            vectors = self.item_vectors() if vectors is None else vectors
        return Catalogue(
            self.items,
            self.item_attributes,
            counts=self._people_of_items(),
            placeable=self.matrix.column_features.described,
            vectors=vectors,
            floor=0.0 if by == "list" else self.scale.low,
        ).selection(rules)

    def _entries(self, items: Ints, scores: Floats, ratings: Floats | None) -> RankedList[Recommendation]:
        counts = self._people_of_items()[items].tolist()
        predicted = [None] * len(items) if ratings is None else ratings.tolist()
        entries = [
            Recommendation(item := self.items.id(index), score, rating, raters, self.titles.get(item))
            for index, score, rating, raters in zip(items.tolist(), scores.tolist(), predicted, counts, strict=True)
        ]
        without = frozenset(() if self.rated else ("rating",))
        return RankedList(entries, Recommendation, integers=self.items.integers, without=without)


def _ratings_beside(person: Person, items: Ints) -> Floats:
    """(n,): what somebody rated items; of what they did without rating it, NaN."""
    found = np.full(len(items), np.nan, np.float32)
    place = np.searchsorted(person.items, items)
    inside = np.minimum(place, max(len(person.items) - 1, 0))
    rated = person.items[inside] == items if len(person.items) else np.zeros(len(items), np.bool_)
    found[rated] = person.ratings[inside[rated]]
    return found
