"""Users and their ratings."""

import secrets
import time
from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import BaseModel, Field, model_validator

from cofill.data.vocabulary import Id
from cofill.errors import DataError, UnknownIdError
from cofill.serving.database import Store
from cofill.serving.live_model import LiveModel
from cofill.serving.request_messages import (
    MOST_RATINGS,
    CountText,
    Description,
    GivenAt,
    IdText,
    ItemOrUserId,
    Message,
    PairQuery,
    QueryModel,
    Words,
    check_distinct,
)
from cofill.serving.routes_events import nobody_described
from cofill.serving.routing import Right, Routes, WaitsForDatabase, answer, rounded
from cofill.serving.served_model import ServedModel

_LOVED = 3  # items that tell who somebody is
_GREATEST = 2**53 - 1  # of the integers that every reader of JSON keeps exactly


# What is asked


class UsersQuery(QueryModel):
    query: Words = ""
    n: CountText = 20


class RatingsQuery(QueryModel):
    user: IdText
    n: Annotated[int, Field(ge=1, le=MOST_RATINGS)] = MOST_RATINGS


class UserToMake(Message):
    features: Description | None = None


class UserToStore(Message):
    id: ItemOrUserId
    features: Description


class RatingsToStore(Message):
    user: ItemOrUserId
    ratings: list[GivenAt] = Field(min_length=1, max_length=MOST_RATINGS)

    @model_validator(mode="after")
    def _each_once(self) -> "RatingsToStore":
        check_distinct(self.ratings)
        return self


# What is answered


class LovedItem(BaseModel):
    id: int | str
    title: str | None


class FoundUser(BaseModel):
    id: int | str
    ratings: int
    loves: list[LovedItem] = Field(description="what they rated furthest above its mean, of what is well known")


class FoundUsers(BaseModel):
    users: list[FoundUser]


class MadeUser(BaseModel):
    id: int | str


class KnownRating(BaseModel):
    item: int | str
    title: str | None
    rating: float
    live: bool = Field(description="whether it was given live, not in the training data")


class KnownRatings(BaseModel):
    ratings: list[KnownRating]


class Stored(BaseModel):
    stored: int


# Routes


def add_users(routes: Routes, live: LiveModel, store: Store, *, open_catalogue: bool = False) -> None:
    @routes.add("GET", "/v1/users", Right.READS, FoundUsers, "Users by the beginnings of their ids")
    def find_users(query: Annotated[UsersQuery, Query()]) -> Response:
        """Those that have rated the most come first."""
        with live.asked() as served:
            counts = served.model.user_counts()
            found = served.users.find(query.query, counts, query.n, served.forgotten)
            return answer({"users": [_found(served, at, int(counts[at])) for at in found]})

    @routes.add("POST", "/v1/users", Right.WRITES, MadeUser, "Somebody new", status=201, kind=WaitsForDatabase)
    def make_user(request: UserToMake | None = None) -> Response:
        """Reserves an id that nobody has, and describes its user if features are given."""
        features = None if request is None else request.features
        with live.asked() as served:
            check_features(served, features)
            candidates = _NewIds(served)
        user = store.new_user(candidates, features)
        return answer({"id": int(user) if candidates.integers else user}, 201)

    @routes.add("PUT", "/v1/user", Right.WRITES, MadeUser, "Describe a user, known or new", kind=WaitsForDatabase)
    def describe_user(request: UserToStore) -> Response:
        """A description replaces the one before it; columns that are left out are unknown."""
        with live.asked() as served:
            check_features(served, request.features)
        store.put_users([(str(request.id), request.features)])
        with live.asked() as served:
            return answer({"id": served.model.users.own(request.id)})

    @routes.add("GET", "/v1/ratings", Right.READS, KnownRatings, "What a user has rated, the newest first")
    def get_ratings(query: Annotated[RatingsQuery, Query()]) -> Response:
        """Live ratings first, the newest first; then those of the training data. At most `n` of them."""
        with live.asked() as served:
            if not served.known_user(query.user):
                raise UnknownIdError(f"user {query.user!r} is not known; check the id")
            known = _ratings(served, query.user)
            own = served.model.items.own
        newest = [
            own(one.item) for one in store.ratings_of(query.user) if one.rating is not None
        ]  # others need not wait for this
        entries = [known.pop(item) | {"live": True} for item in newest if item in known]
        return answer({"ratings": [*entries, *known.values()][: query.n]})

    @routes.add("PUT", "/v1/ratings", Right.WRITES, Stored, "Rate items; all or nothing", kind=WaitsForDatabase)
    def put_ratings(request: RatingsToStore) -> Response:
        """All of them or none. A rating replaces the one before it; the next answer takes it into account."""
        with live.asked() as served:
            _check_ratings(served, request, open_catalogue=open_catalogue)
        now = time.time()
        store.put_ratings(
            str(request.user),
            [(str(given.item), given.rating, now if given.time is None else given.time) for given in request.ratings],
        )
        return answer({"stored": len(request.ratings)})

    @routes.add(
        "DELETE",
        "/v1/ratings",
        Right.WRITES,
        None,
        "Take a rating back, if there is one",
        status=204,
        kind=WaitsForDatabase,
    )
    def withdraw_rating(query: Annotated[PairQuery, Query()]) -> Response:
        """Also one that the model was trained on."""
        with live.asked() as served:
            known = _is_rated(served, query.user, query.item)
        if known or _is_kept(store, query.user, query.item):
            store.put_ratings(query.user, [(query.item, None)])
        return Response(status_code=204)


def _found(served: ServedModel, user: int, ratings: int) -> dict[str, Any]:
    model = served.model
    loves = [{"id": item, "title": model.titles.get(item)} for item in served.loved_by(user, _LOVED)]
    return {"id": model.users.id(user), "ratings": ratings, "loves": loves}


class _NewIds:
    """Unused ids, of the type of the model's user ids.

    Random, not counted, so that an id that a browser kept from another database does not match another user here.
    """

    def __init__(self, served: ServedModel) -> None:
        self.integers = isinstance(served.model.users.own("1"), int)
        self._users = served.model.users

    def __call__(self) -> str:
        if not self.integers:
            return f"new-{secrets.token_hex(8)}"
        while (drawn := secrets.randbelow(_GREATEST) + 1) in self._users:
            pass
        return str(drawn)


def check_features(served: ServedModel, features: dict[str, Any] | None) -> None:
    """An error if features do not describe a user of the model."""
    if features is None:
        return
    if served.model.user_features is None:
        raise DataError("the model was trained without features of users, so it cannot make use of any")
    served.model.user_features.encode(served.full_description("user", features))


def _check_ratings(served: ServedModel, request: RatingsToStore, *, open_catalogue: bool) -> None:
    low, high = served.model.scale
    for given in request.ratings:
        if not served.takes_item(given.item, open_catalogue=open_catalogue):
            raise UnknownIdError(nobody_described(given.item))
        if not low <= given.rating <= high:
            raise DataError(
                f"the rating of item {given.item!r} must be between {low:g} and {high:g}. Got {given.rating!r}"
            )


def _is_rated(served: ServedModel, user: str, item: str) -> bool:
    """Whether there is a rating to withdraw; the user and the item are written as the model writes them."""
    model = served.model
    if not served.in_model(user) or item not in model.items:
        return False
    return model.items.index(item) in served.ratings_by(model.users.index(user))[0]


def _is_kept(store: Store, user: str, item: str) -> bool:
    """Whether the database has the rating, even one that does not fit this model: the next model may use it."""
    return any(one.item == item and one.rating is not None for one in store.ratings_of(user))


def _ratings(served: ServedModel, user: str) -> dict[Id, dict[str, Any]]:
    """What a user rated, by item."""
    model = served.model
    if not served.in_model(user):
        return {}
    items, values = served.ratings_by(model.users.index(user))
    return {
        item: {"item": item, "title": model.titles.get(item), "rating": rounded(value), "live": False}
        for item, value in zip(map(model.items.id, items.tolist()), values.tolist(), strict=True)
    }
