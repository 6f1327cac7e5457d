"""A served model: read from its folder, with live changes applied, and with indexes for quick answers."""

import logging
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.data.ratings import Ratings
from cofill.data.vocabulary import CANONICAL_INTEGER, INT64, Id, Vocabulary
from cofill.errors import CofillError, ModelFileError, UnknownIdError
from cofill.files import json_of
from cofill.models.lists.rules import By
from cofill.models.recommender import Recommender
from cofill.serving.database import Changes, LiveRating
from cofill.serving.search import ItemSearch, UserSearch, starter_items

log = logging.getLogger("cofill.serving")

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]

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


class ServedModel:
    """One model and everything that belongs to it; used and changed by one thread at a time."""

    def __init__(self, folder: Path, name: str | None = None) -> None:
        """`name`: what it is called in answers; by default as its folder."""
        self.name = name or folder.name
        self.card, self.model = _read(folder)
        self.applied = 0
        """The number of the last change that was taken in."""
        self.refused = 0
        """Live ratings and descriptions that do not fit this model."""
        model = self.model
        self.items = ItemSearch(model.items, model.titles)
        self.users = UserSearch(model.users)
        self.live_users: set[str] = set()
        self.step = _step(model.matrix.known.trained.values, model.scale.low)
        self._starters: list[Id] | None = None
        self._mean_of: dict[str, float | None] = {}  # of items that were in lists, until somebody rates them
        self._means: Floats | None = None
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
        """The id of an item as the model keeps it; an error if it is unknown."""
        items = self.model.items
        if item not in items:
            raise UnknownIdError(f"item {item!r} is not known; check the id, or describe it with PUT /v1/item")
        return items.id(items.index(item))

    def starters(self, n: int) -> list[Id]:
        """The starter items, chosen once for each model, so that the first screen does not change while it is used."""
        model = self.model
        if self._starters is None:
            chosen = starter_items(model.item_vectors()[: len(model.items)], model.item_counts(), MOST_STARTERS)
            self._starters = [model.items.id(index) for index in chosen]
        return self._starters[:n]

    def ratings_by(self, user: int) -> tuple[Ints, Floats]:
        """The items that a user rated, by index, and the ratings."""
        return self.model.matrix.known.row(user)

    def mean_rating(self, item: Id) -> float | None:
        """The mean of an item's ratings; None if it has none, or the model knows interactions alone."""
        key = str(item)
        if key not in self._mean_of:
            ratings = self.ratings_for(self.model.items.index(item))
            self._mean_of[key] = float(ratings.mean(dtype=np.float64)) if self.model.rated and len(ratings) else None
        return self._mean_of[key]

    def _outdate_means(self, changes: Changes) -> None:
        if changes.users:  # whose ratings may go with them
            self._mean_of.clear()
        for rating in changes.ratings:
            self._mean_of.pop(rating.item, None)

    def loved_by(self, user: int, n: int) -> list[Id]:
        """What a user rated furthest above its mean, of what is well known: it tells people apart."""
        items, values = self.ratings_by(user)
        counts = self.model.item_counts()[items]
        known = counts >= np.median(counts) if len(items) else np.zeros(0, np.bool_)
        items, above = items[known], values[known] - self._trained_means(items[known])
        return [self.model.items.id(int(item)) for item in items[np.argsort(-above, kind="stable")][:n]]

    def _trained_means(self, items: Ints) -> Floats:
        """(n,): the mean rating of items in the training; infinite for those that came later, so none is above it."""
        if self._means is None:
            known = self.model.matrix.known.trained
            sums = np.bincount(known.indices, known.values, minlength=known.columns)
            counts = np.bincount(known.indices, minlength=known.columns)
            self._means = np.where(counts > 0, sums / np.maximum(counts, 1), np.inf).astype(np.float32)
        means = np.full(len(items), np.inf, np.float32)
        trained = items < len(self._means)
        means[trained] = self._means[items[trained]]
        return means

    def ratings_for(self, item: int) -> Floats:
        """The ratings of an item."""
        return self.model.matrix.known.column(item)[1]

    def known_user(self, user: Id) -> bool:
        """Whether the user exists, if only as an id that was reserved."""
        return user in self.model.users or str(user) in self.live_users

    # Following

    def apply(self, changes: Changes) -> None:
        """Apply changes. What does not fit this model is skipped and counted, never an error."""
        self._outdate_means(changes)
        for item in changes.items:
            self._describe_item(item.item, item.title, item.features)
        for user in changes.users:
            self.live_users.add(user.user)
            self._describe_user(user.user, user.features)
        self._rate(changes.ratings)

    def _rate(self, ratings: list[LiveRating]) -> None:
        users, items = self.model.users, self.model.items
        low, high = self.model.scale
        given: list[tuple[Id, Id, float]] = []
        taken_back: list[tuple[Id, Id]] = []
        for rating in ratings:
            self.live_users.add(rating.user)
            user, item = own_id(users, rating.user), own_id(items, rating.item)
            if user is None or item is None or not (rating.rating is None or low <= rating.rating <= high):
                self._refuse(f"the rating of item {rating.item!r}: {rating.rating}")
            elif rating.rating is None:
                taken_back.append((user, item))
            else:
                given.append((user, item, rating.rating))
        if given:
            titled = {item for _, item, _ in given if item not in items and item in self.model.titles}
            self.model.add_ratings(_as_ratings(given, self.model))
            for item in titled:
                self.items.changed(item)
        if taken_back:
            self.model.remove_ratings(taken_back)

    def _describe_item(self, text: str, title: str | None, features: dict[str, Any] | None) -> None:
        model = self.model
        item = own_id(model.items, text)
        if item is None:
            return self._refuse(f"the description of item {text!r}")
        if features is not None:
            learned = model.item_features
            known = {} if learned is None else self.full_description("item", features, strict=False)
            try:
                if not known:
                    raise CofillError("none of its columns is known")
                model.describe_items({item: known})
            except CofillError as error:
                self._refuse(f"the description of item {text!r}: {error}")
            else:
                of = model.item_attributes.of(item)
                self._attributes[item] = {name: _plain(value) for name, value in of.items() if value is not None}
        if title is not None:
            model.titles[item] = title  # of one that is not known yet, until its first rating
            if item in model.items:
                self.items.changed(item)
        return None

    def _describe_user(self, text: str, features: dict[str, Any] | None) -> None:
        if features is None:
            return
        user = own_id(self.model.users, text)
        known = {} if self.model.user_features is None else self.full_description("user", features, strict=False)
        try:
            if user is None or not known:
                raise CofillError("the model does not take it")
            self.model.describe_users({user: known})
        except CofillError as error:
            self._refuse(f"the description of somebody: {error}")

    def full_description(self, side: str, features: dict[str, Any], *, strict: bool = True) -> dict[str, Any]:
        """All columns that were learned from, None where not given; unless `strict`, unknown columns are dropped."""
        learned = self.model.item_features if side == "item" else self.model.user_features
        known = [] if learned is None else [column for source in learned.sources for column in source.columns]
        names = {column.name for column in known if column.used or column.types()}  # such as a picture
        own = features if strict else {name: value for name, value in features.items() if name in names}
        return (
            dict.fromkeys(column.name for column in known if column.used) | own if own or strict or not features else {}
        )

    def _refuse(self, what: str) -> None:
        """`what` goes into the log, which names nobody."""
        self.refused += 1
        if self.refused <= _MOST_TOLD:
            log.warning("left out, it does not fit the model: %s", what)
        if self.refused == _MOST_TOLD:
            log.warning("more of these are not told, but counted in cofill_live_refused of /metrics")


def own_id(vocabulary: Vocabulary, text: str) -> Id | None:
    """The id in the type of the vocabulary, known or new; None if it does not fit that type."""
    if not vocabulary.integers:
        return text or None
    return int(text) if CANONICAL_INTEGER.fullmatch(text) and INT64.min <= int(text) <= INT64.max else None


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


def _as_ratings(given: list[tuple[Id, Id, float]], model: Recommender) -> Ratings:
    """Changes as ratings, converted straight into arrays, because the next request waits for it."""
    users, items = Vocabulary(), Vocabulary()
    user_index = users.add([user for user, _, _ in given])
    item_index = items.add([item for _, item, _ in given])
    values = np.array([rating for _, _, rating in given], np.float32)
    return Ratings(users, items, user_index, item_index, values, None, model.scale)


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
