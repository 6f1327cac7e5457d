"""A served model: read from its folder, with live changes applied, and with indexes for quick answers."""

import logging
import time
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable
from datetime import date, datetime
from functools import cached_property
from itertools import islice
from math import inf, isfinite
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.data.interactions import Interactions
from cofill.data.ratings import Ratings, Scale
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import CofillError, ModelFileError, UnknownIdError
from cofill.files import json_of
from cofill.models.lists.rules import By, SimilarRules
from cofill.models.recommender import Recommender, Side
from cofill.serving.live.search import ItemSearch, UserSearch, starter_items
from cofill.serving.live.store import Changes, LiveInteraction, LiveItem, LiveRating, LiveUser
from cofill.serving.live.tombstones import Hashed, Tombstones


class Availability:
    """Which items may be shown: hidden ones are known and in no list, deleted ones are unknown."""

    def __init__(self, items: Vocabulary) -> None:
        self._items = items
        self.hidden: set[Id] = set()
        self.deleted: set[Id] = set()
        self.until: dict[Id, float] = {}
        """When the items that are shown for a while are hidden."""
        self._next = inf
        self._flags: Bools | None = None

    def tell(self, item: Id, *, available: bool, until: float | None, deleted: bool) -> None:
        """What is so of an item from now on; it may not be known yet."""
        for holds, some in ((not available, self.hidden), (deleted, self.deleted)):
            (some.add if holds else some.discard)(item)
        self.until.pop(item, None)
        if until is not None:
            self.until[item] = until
            self._next = min(self._next, until)
        self._flags = None

    def _hide_expired(self) -> None:
        now = time.time()
        if now >= self._next:
            self.hidden.update(item for item, until in self.until.items() if until <= now)
            self._next = min((until for until in self.until.values() if until > now), default=inf)
            self._flags = None

    def shown(self, item: Id) -> bool:
        """Whether an item may be in lists."""
        self._hide_expired()
        return item not in self.hidden and item not in self.deleted

    def withheld(self) -> Bools | None:
        """(items,): which items may not be in lists; None if all may."""
        self._hide_expired()
        if not self.hidden and not self.deleted:
            return None
        if self._flags is None or len(self._flags) != len(self._items):
            self._flags = np.zeros(len(self._items), np.bool_)
            indices = self._items.find([*self.hidden, *self.deleted])
            self._flags[indices[indices >= 0]] = True
        return self._flags


class OrderedIds:
    """Ids by their text. A page goes on after the last text of the one before, whatever came or went meanwhile."""

    def __init__(self, ids: Iterable[Id]) -> None:
        self._texts = sorted({str(id) for id in ids})

    def add(self, id: Id) -> None:
        text = str(id)
        at = bisect_right(self._texts, text)
        if not at or self._texts[at - 1] != text:
            insort(self._texts, text)

    def remove(self, id: Id) -> None:
        text = str(id)
        at = bisect_right(self._texts, text)
        if at and self._texts[at - 1] == text:
            del self._texts[at - 1]

    def after(self, text: str, n: int) -> tuple[list[str], bool]:
        """The next n texts after one ("": from the beginning), and whether there are more."""
        at = bisect_right(self._texts, text) if text else 0
        return self._texts[at : at + n], at + n < len(self._texts)


log = logging.getLogger("cofill.serving")


MOST_STARTERS = 100
_MOST_TOLD = 20  # refusals, one by one
_MOST_STEPS = 50  # of a scale that people give ratings on


class Card(NamedTuple):
    """The identity of a model file, to tell one model from another."""

    version: str
    cofill_version: str
    trained: float
    """When it was trained, in seconds; when its file was written, if the file does not say."""
    trained_is_known: bool


class _Inherited(NamedTuple):
    ratings: dict[Id, float]
    weights: dict[Id, float]
    times: dict[Id, float]


_Rules = TypeVar("_Rules", bound=SimilarRules)
_Change = TypeVar("_Change", LiveItem, LiveUser, LiveRating, LiveInteraction)


class ServedModel:
    """One model and everything that belongs to it; used and changed by one thread at a time."""

    def __init__(self, folder: Path, name: str | None = None) -> None:
        """`name`: what it is called in answers; by default as its folder."""
        self.name = name or folder.name
        self.card, self.model = _read(folder)
        self.applied = 0
        """The number of the last change that was taken in."""
        self.database = ""
        """The identity of the database that it came from."""
        self.learned = 0
        """The number of the last change that the model was trained on."""
        self.refused = 0
        """Live ratings and descriptions that do not fit this model."""
        model = self.model
        self.items = ItemSearch(model.items, model.titles)
        self._items_of_folder = len(model.items)
        self.users = UserSearch(model.users)
        self.live_users: set[str] = set()
        self.availability = Availability(model.items)
        self.added: dict[Id, float] = {}
        """Since when items that were described while a model was served are in the catalogue."""
        self._hashed_users = Hashed()
        self.merged: dict[str, str] = {}
        """Users who became others, and whom."""
        self._inherited: dict[Id, _Inherited] = {}
        """What users whom others became have of these from the training."""
        self.disliked: dict[Id, set[Id]] = {}
        """Items of which a user's events say more against than for."""
        self.forgotten: set[Id] = set()
        """Users that are no longer known, although their ids are."""
        self._ordered: dict[str, OrderedIds] = {}
        self.step = _step(model.predictor.known.trained.values, model.scale.low)
        self._starters: list[Id] | None = None
        self._attributes = _attributes_of_all(model)
        self._warm()

    def _warm(self) -> None:
        """Do the one-time work that the first request would otherwise wait for."""
        model = self.model
        ways: tuple[By, ...] = ("list", "rating") if model.rated else ("list",)
        people: list[Id | dict[Id, float]] = [{}, *([model.users.id(0)] if len(model.users) else [])]
        for by in ways:
            for who in people:
                found = model.recommend(who, 1, by=by)
                model.explain_many(who, [one.item for one in found], by=by, with_interval=True)
        model.item_vectors()
        model.scorer.item_vectors()

    def settle(self) -> None:
        """Work new ratings in now. Models do it when they are asked, and whoever asks would wait for it."""
        if len(self.model.users):
            self.model.recommend(self.model.users.id(0), 1)

    # Asking

    def attributes_of(self, item: Id) -> dict[str, Any]:
        """Attributes of an item, ready for JSON; empty if nothing is known."""
        return self._attributes.get(item, {})

    def item_entry(self, item: Id, **more: Any) -> dict[str, Any]:
        """An item as it appears in responses."""
        return {"id": item, "title": self.model.titles.get(item), **more, "attributes": self.attributes_of(item)}

    def known_item(self, item: Id) -> Id:
        """The id of an item as the model keeps it; an error if it is unknown or deleted."""
        items = self.model.items
        if not self.has_item(item):
            raise UnknownIdError(f"item {item!r} is not known; check the id, or describe it with PUT /v1/item")
        return items.id(items.index(item))

    def has_item(self, item: Id) -> bool:
        """Whether there is such an item, hidden or not."""
        return item in self.model.items and self.model.items.own(item) not in self.availability.deleted

    def takes_item(self, item: Id, *, open_catalogue: bool) -> bool:
        """Whether somebody may do something with such an item: one that is there, or any that was not deleted."""
        if open_catalogue:
            return self.model.items.own(item) not in self.availability.deleted
        return self.has_item(item)

    def within_catalogue(self, rules: _Rules, also: Iterable[Id] = ()) -> _Rules:
        """Rules of a list that leave out what is hidden or deleted, and `also` these."""
        withheld = self.availability.withheld()
        more: list[Id] = list(also)
        if withheld is None and not more:
            return rules
        left_out = np.zeros(len(self.model.items), np.bool_) if withheld is None else withheld.copy()
        more += cast("Iterable[Id] | None", rules.get("exclude")) or ()  # requests have ids, not flags
        indices = self.model.items.find(more)
        left_out[indices[indices >= 0]] = True
        return cast(_Rules, {**rules, "exclude": left_out})

    def ids_after(self, side: Side, text: str, n: int) -> tuple[list[Id], bool]:
        """The next n ids of users or items by their text, and whether there are more."""
        vocabulary = self.model.users if side == "user" else self.model.items
        if side not in self._ordered:
            if side == "user":
                there = [*(user for user in vocabulary if user not in self.forgotten), *self.live_users]
            else:
                there = [item for item in vocabulary if item not in self.availability.deleted]
            self._ordered[side] = OrderedIds(there)
        found, more = self._ordered[side].after(text, n)
        return [vocabulary.own(one) for one in found], more

    def item_order(self) -> Longs:
        """A number for each item, the same in every process: of live items, which each meets as they come, by id."""
        order, live = np.arange(len(self.model.items)), self._items_of_folder
        texts = [str(self.model.items.id(index)) for index in range(live, len(order))]
        order[live + np.argsort(np.array(texts, dtype=np.object_), kind="stable")] = np.arange(live, len(order))
        return order

    def starters(self, n: int) -> list[Id]:
        """The starter items, chosen once for each model, so that the first screen does not change while it is used."""
        model = self.model
        if self._starters is None:
            chosen = starter_items(model.item_vectors()[: len(model.items)], model.item_counts(), MOST_STARTERS)
            self._starters = [model.items.id(index) for index in chosen]
        return [item for item in self._starters if self.availability.shown(item)][:n]

    def ratings_by(self, user: int) -> tuple[Ints, Floats]:
        """The items that a user rated, by index, and the ratings."""
        return self.model.predictor.known.row(user)

    def mean_rating(self, item: Id) -> float | None:
        """The mean of an item's ratings; None if it has none, or the model knows interactions alone."""
        model = self.model
        index = model.items.index(item)
        if not model.rated:
            return None
        if model.predictor.known.column_as_trained(index):
            mean = float(self._trained_means[index])
            return mean if isfinite(mean) else None
        ratings = self.ratings_for(index)
        return float(ratings.mean(dtype=np.float64)) if len(ratings) else None

    def loved_by(self, user: int, n: int) -> list[Id]:
        """What a user rated furthest above its mean, of what is well known: it tells people apart."""
        items, values = self.ratings_by(user)
        counts = self.model.item_counts()[items]
        means = self._trained_means
        known = (counts >= np.median(counts)) & (items < len(means)) if len(items) else np.zeros(0, np.bool_)
        items, above = items[known], values[known] - means[items[known]]
        best = (self.model.items.id(int(item)) for item in items[np.argsort(-above, kind="stable")])
        return list(islice((item for item in best if self.availability.shown(item)), n))

    @cached_property
    def _trained_means(self) -> Doubles:
        """(items of the training,): the mean rating of each; infinite without any, so that nobody is above it."""
        known = self.model.predictor.known.trained
        sums = np.bincount(known.indices, known.values, minlength=known.columns)
        counts = np.bincount(known.indices, minlength=known.columns)
        means: Doubles = np.where(counts > 0, sums / np.maximum(counts, 1), np.inf)
        return means

    def ratings_for(self, item: int) -> Floats:
        """The ratings of an item."""
        return self.model.predictor.known.column(item)[1]

    def person(self, user: Id) -> Id:
        """The id of a user, or of the user that they became."""
        into = self.merged.get(str(user))
        return user if into is None else self.model.users.own(into)

    def known_user(self, user: Id) -> bool:
        """Whether the user exists, if only as an id that was reserved."""
        user = self.person(user)
        return self.in_model(user) or str(user) in self.live_users

    def in_model(self, user: Id) -> bool:
        """Whether the model knows anything of the user."""
        user = self.person(user)
        return user in self.model.users and self.model.users.own(user) not in self.forgotten

    # Following

    def learned_of(self, database: str) -> int:
        """Up to which change of a database the model was trained on what is there; 0 if not at all."""
        told = self.model.data_summary.get("live") or {}
        return int(told.get("change", 0)) if told.get("database") == database else 0

    def apply(self, changes: Changes) -> None:
        """Apply changes. What does not fit this model is skipped and counted, never an error."""
        self._forget(changes.forgotten)
        self._merge(changes.merged)
        self._each(self._take_items, changes.items)
        self._each(self._take_users, changes.users)
        self._each(self._rate, changes.ratings)
        self._each(self._interact, changes.interactions)
        for user, item, disliked in changes.disliked:
            items = self.disliked.setdefault(self._meet(user), set())
            (items.add if disliked else items.discard)(self.model.items.own(item))

    def _each(self, take: Callable[[list[_Change]], None], changes: list[_Change]) -> None:
        """Take in all at once; where that fails, those that it fails with are left out, so that the others come in."""
        try:
            take(changes)
        except Exception as error:  # whatever it is, it would stop every answer, and every start after it
            if len(changes) > 1:
                half = len(changes) // 2
                self._each(take, changes[:half])
                self._each(take, changes[half:])
            else:
                self._refuse(f"a change of the kind {type(changes[0]).__name__}: {type(error).__name__}")

    def _forget(self, deleted: Tombstones) -> None:
        """Remove all that is known of some users; their ids stay, to tell that they are not to be known."""
        if not deleted.digests:
            return
        unrated = [user for user in self.live_users if user not in self.model.users]
        for earlier in deleted.among(self.merged):
            self.merged.pop(str(earlier))
        self._leave([*self._hashed_users.find(self.model.users.ids, deleted), *deleted.among(unrated)])

    def _leave(self, users: list[Id]) -> None:
        self.model.forget_users(users)
        for user in users:
            self.forgotten.add(user)
            self.live_users.discard(str(user))
            self.disliked.pop(user, None)
            self._inherited.pop(user, None)
            if "user" in self._ordered:
                self._ordered["user"].remove(user)

    def _merge(self, merged: list[tuple[str, str]]) -> None:
        """Give what users have from the training to those whom they became; all the rest is told anew."""
        model, heirs = self.model, set()
        for user, into in merged:
            self.merged[user] = into
            earlier, own = model.users.own(user), self._meet(into)
            left = self._inherited.pop(earlier, _Inherited({}, {}, {}))
            heir = self._inherited.setdefault(own, _Inherited({}, {}, {}))
            for source in (left, self._trained(earlier)):
                for item, rating in source.ratings.items():  # whichever order they come in
                    heir.ratings[item] = max(rating, heir.ratings.get(item, rating))
                for item, weight in source.weights.items():
                    heir.weights[item] = heir.weights.get(item, 0.0) + weight
                for item, when in source.times.items():
                    heir.times[item] = max(when, heir.times.get(item, when))
            self._leave([earlier])
            heirs.add(own)
        for own in heirs & self._inherited.keys():
            heir, trained = self._inherited[own], self._trained(own).ratings
            dates = heir.times
            ratings = [(own, item, rating, dates[item]) for item, rating in heir.ratings.items() if item not in trained]
            if ratings:
                model.add_ratings(_as(Ratings, ratings, model, model.scale))
            self._add_weights([(own, item, weight, dates[item]) for item, weight in heir.weights.items()])

    def _trained(self, user: Id) -> _Inherited:
        """What the training had of a user, unless that was removed."""
        model, found = self.model, _Inherited({}, {}, {})
        index, feedback = int(model.users.find([user])[0]), model.scorer.feedback
        for graded in feedback.sources:
            if 0 <= index < graded.known.trained.rows and index not in graded.forgotten:
                items, values = graded.known.trained.row(index)
                own = found.ratings if model.rated and graded is feedback.main else found.weights
                ids, sequences = [model.items.id(item) for item in items.tolist()], feedback.sequences
                times = np.zeros(len(items)) if sequences is None else sequences.order_of(index, items)[1]
                own.update(zip(ids, values.tolist(), strict=True))
                found.times.update(zip(ids, times.tolist(), strict=True))
        return found

    def _meet(self, user: str) -> Id:
        """Somebody of whom something is known from now on."""
        own = self.model.users.own(user)
        if user not in self.live_users or own in self.forgotten:
            self.live_users.add(user)
            self.forgotten.discard(own)
            if "user" in self._ordered:
                self._ordered["user"].add(own)
        return own

    def _take_users(self, users: list[LiveUser]) -> None:
        for user in users:
            self._meet(user.user)
            self._describe_user(user.user, user.features)

    def _take_items(self, told: list[LiveItem]) -> None:
        own = self.model.items.own
        for one in told:
            self.availability.tell(
                own(one.item), available=one.available, until=one.available_until, deleted=one.deleted
            )
            if one.added:
                self.added[own(one.item)] = one.added
            if "item" in self._ordered:
                (self._ordered["item"].remove if one.deleted else self._ordered["item"].add)(own(one.item))
        there = [one for one in told if not one.deleted]
        self.model.add_items([own(one.item) for one in there])
        self._describe_items({own(one.item): one.features for one in there if one.features is not None})
        for one in there:
            if one.title is not None:
                self._call(own(one.item), one.title)

    def _interact(self, interactions: list[LiveInteraction]) -> None:
        if not interactions:
            return
        given = []
        for one in interactions:
            user, item = self._meet(one.user), self.model.items.own(one.item)
            inherited = self._inherited[user].weights.get(item, 0.0) if user in self._inherited else 0.0
            given.append((user, item, one.weight + inherited, one.time))
        self._note_new_items(item for _, item, *_ in given)
        self._add_weights(given)

    def _add_weights(self, given: list[tuple[Id, Id, float, float]]) -> None:
        if given:
            scale = Scale(0.0, max(1.0, *(weight for _, _, weight, _ in given)))
            self.model.add_interactions(_as(Interactions, given, self.model, scale), replacing=True)

    def _note_new_items(self, items: Iterable[Id]) -> None:
        if "item" in self._ordered:
            for item in items:
                if item not in self.availability.deleted:
                    self._ordered["item"].add(item)

    def _rate(self, ratings: list[LiveRating]) -> None:
        users, items = self.model.users, self.model.items
        low, high = self.model.scale
        given: list[tuple[Id, Id, float, float]] = []
        taken_back: list[tuple[str, str]] = []  # as texts: pairs of Python are all integers or all texts
        for rating in ratings:
            user, item = users.own(rating.user), items.own(rating.item)
            if rating.rating is not None or user not in self.forgotten:
                self._meet(rating.user)
            if not (rating.rating is None or low <= rating.rating <= high):
                self._refuse(f"the rating of item {rating.item!r}: {rating.rating}")
            elif rating.rating is None:
                taken_back.append((rating.user, rating.item))
            else:
                given.append((user, item, rating.rating, rating.time))
        if given:
            titled = {item for _, item, *_ in given if item not in items and item in self.model.titles}
            self._note_new_items(item for _, item, *_ in given)
            self.model.add_ratings(_as(Ratings, given, self.model, self.model.scale))
            for item in titled:
                self.items.changed(item)
        if taken_back:
            self.model.remove_ratings(taken_back)

    def _describe_items(self, described: dict[Id, dict[str, Any]]) -> None:
        model = self.model
        known: dict[Id, dict[str, Any]] = {}
        for item, features in described.items():
            if model.item_features is not None:
                known[item] = self.full_description("item", features, strict=False)
            if features and not known.get(item):
                self._refuse(f"the description of item {item!r}: none of its columns is known")
        known = {item: about for item, about in known.items() if about}
        try:
            if known:
                model.describe_items(known)  # all at once: a bulk of items would otherwise hold up the next answer
        except CofillError as error:
            if len(known) > 1:
                for item, about in known.items():
                    self._describe_items({item: about})
            else:
                self._refuse(f"the description of item {next(iter(known))!r}: {error}")
            return
        for item in known:
            of = model.item_attributes.of(item)
            self._attributes[item] = {name: _plain(value) for name, value in of.items() if value is not None}

    def _call(self, item: Id, title: str) -> None:
        if title:
            self.model.titles[item] = title
        else:  # of an item that was deleted, and has come back without
            self.model.titles.pop(item, None)
        self.items.changed(item)

    def _describe_user(self, text: str, features: dict[str, Any] | None) -> None:
        if features is None:
            return
        user = self.model.users.own(text)
        known = {} if self.model.user_features is None else self.full_description("user", features, strict=False)
        try:
            if not known:
                raise CofillError("the model does not take it")
            self.model.describe_users({user: known})
        except CofillError as error:
            self._refuse(f"the description of a user: {error}")

    def full_description(self, side: str, features: dict[str, Any], *, strict: bool = True) -> dict[str, Any]:
        """All columns that are learned from or shown, None where not given; unless `strict`, others are dropped."""
        learned = self.model.item_features if side == "item" else self.model.user_features
        known = [] if learned is None else [column for source in learned.sources for column in source.columns]
        names = [column.name for column in known if column.used or column.types]  # such as a picture
        own = features if strict else {name: value for name, value in features.items() if name in names}
        return dict.fromkeys(names) | own if own or strict or not features else {}

    def _refuse(self, what: str) -> None:
        """`what` goes into the log, which names nobody."""
        self.refused += 1
        if self.refused <= _MOST_TOLD:
            log.warning("left out, it does not fit the model: %s", what)
        if self.refused == _MOST_TOLD:
            log.warning("more of these are not told, but counted in cofill_live_refused of /metrics")


def _read(folder: Path) -> tuple[Card, Recommender]:
    """Read the model and its card, consistent even while the folder is being replaced."""
    while True:
        before = read_card(folder)
        model = Recommender.load(folder)
        if read_card(folder) == before:
            return before, model


def read_card(folder: Path) -> Card:
    """The card of the model in a folder; a `ModelFileError` that says why there is none."""
    path = folder / "model.json"
    try:
        document = json_of(path.read_text(encoding="utf-8"))
        said = document.get("trained")
        trained = path.stat().st_mtime if said is None else datetime.fromisoformat(said).timestamp()
        return Card(str(document["sha256"])[:16], str(document["cofill_version"]), trained, said is not None)
    except (OSError, ValueError, KeyError, TypeError):
        Recommender.load(folder)  # says what is wrong
        raise ModelFileError(f"{folder}: is being replaced; try again") from None


_Told = TypeVar("_Told", bound=Ratings)


def _as(kind: type[_Told], given: list[tuple[Id, Id, float, float]], model: Recommender, scale: Scale) -> _Told:
    """Changes (user, item, value, time) as ratings or interactions, straight into arrays: the next request waits."""
    users, items = model.users.only(()), model.items.only(())
    user_ids, item_ids, values, times = zip(*given, strict=True)
    arrays = np.array(values, np.float32), np.array(times, np.float64)
    return kind(users, items, users.add(user_ids), items.add(item_ids), *arrays, scale)


def _step(values: Floats, low: float) -> float | None:
    """The step between possible ratings; None if ratings are any number."""
    distinct = np.unique(values)
    if not 1 < len(distinct) <= _MOST_STEPS:
        return None
    step = float(np.diff(distinct).min())
    whole = (distinct - low) / step
    return step if np.allclose(whole, np.round(whole), atol=1e-4) else None


def _attributes_of_all(model: Recommender) -> dict[Id, dict[str, Any]]:
    """The attributes of all items as JSON, built once: cell by cell is slower than the recommendation itself."""
    frame = model.item_attributes.frame()
    names = [name.partition(":")[2] for name in frame.columns]
    return {
        item: {name: _plain(value) for name, value in zip(names, row, strict=True) if value is not None}
        for item, row in zip(model.items, frame.iter_rows(), strict=False)
    }


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value
