"""Users and their ratings."""

import secrets
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from cofill.errors import DataError, UnknownIdError
from cofill.serving.answers import answer, rounded
from cofill.serving.asking import waits_for_database
from cofill.serving.database import LiveRating, Store
from cofill.serving.live_model import LiveModel
from cofill.serving.messages import RatingsToStore, UserToMake, UserToStore
from cofill.serving.queries import PairQuery, UserQuery, UsersQuery
from cofill.serving.replies import FoundUsers, KnownRatings, MadeUser, Stored
from cofill.serving.served_model import ServedModel, own_id

_GREATEST = 2**53 - 1  # of the integers that every reader of JSON keeps exactly


def add_users(router: APIRouter, live: LiveModel, store: Store) -> None:
    @router.get("/v1/users", response_model=FoundUsers, summary="Users by the beginnings of their ids")
    def users(query: Annotated[UsersQuery, Query()]) -> Response:
        with live.asked() as served:
            model, counts = served.model, served.model.user_counts()
            found = served.users.find(query.query, counts, query.n)
            return answer({"users": [{"id": model.users.id(at), "ratings": int(counts[at])} for at in found]})

    @router.post("/v1/users", response_model=MadeUser, status_code=201, summary="Somebody new")
    @waits_for_database
    def make(request: UserToMake | None = None) -> Response:
        features = None if request is None else request.features
        with live.asked() as served:
            _check_features(served, features)
            candidates = _NewIds(served)
        user = store.new_user(candidates, features)
        return answer({"id": int(user) if candidates.integers else user}, 201)

    @router.put("/v1/user", response_model=MadeUser, summary="Describe a user, known or new")
    @waits_for_database
    def describe(request: UserToStore) -> Response:
        with live.asked() as served:
            _check_user(served, request.id)
            _check_features(served, request.features)
        store.put_user(str(request.id), request.features)
        with live.asked() as served:
            return answer({"id": own_id(served.model.users, str(request.id))})

    @router.get("/v1/ratings", response_model=KnownRatings, summary="What a user has rated, the newest first")
    def ratings(query: Annotated[UserQuery, Query()]) -> Response:
        with live.asked() as served:
            if not served.known_user(query.user):
                raise UnknownIdError(f"user {query.user!r} is not known; check the id")
            return answer({"ratings": _ratings(served, query.user, store.ratings_of(query.user))})

    @router.put("/v1/ratings", response_model=Stored, summary="Rate items, known or new; all or nothing")
    @waits_for_database
    def rate(request: RatingsToStore) -> Response:
        with live.asked() as served:
            _check_user(served, request.user)
            _check_ratings(served, request)
        store.put_ratings(str(request.user), [(str(given.item), given.rating) for given in request.ratings])
        return answer({"stored": len(request.ratings)})

    @router.delete("/v1/ratings", status_code=204, summary="Take a rating back, if there is one")
    @waits_for_database
    def take_back(query: Annotated[PairQuery, Query()]) -> Response:
        with live.asked() as served:
            known = _is_rated(served, query.user, query.item)
        if known or _is_kept(store, query.user, query.item):
            store.put_ratings(query.user, [(query.item, None)])
        return Response(status_code=204)


class _NewIds:
    """Ids that nobody has, of the type that the model's users have.

    Drawn, not counted: a browser that remembers an id of another model or database shall not become somebody else.
    """

    def __init__(self, served: ServedModel) -> None:
        self.integers = served.model.users.integers
        self._users = served.model.users

    def __call__(self) -> str:
        if not self.integers:
            return f"new-{secrets.token_hex(8)}"
        while (drawn := secrets.randbelow(_GREATEST) + 1) in self._users:
            pass
        return str(drawn)


def _check_user(served: ServedModel, user: int | str) -> None:
    if own_id(served.model.users, str(user)) is None:
        served.model.users.copy().add([user])  # says why it cannot be an id here


def _check_features(served: ServedModel, features: dict[str, Any] | None) -> None:
    if features is None:
        return
    if served.model.user_features is None:
        raise DataError("the model was trained without features of users, so it cannot make use of any")
    served.model.user_features.encode(served.full_description("user", features))


def _check_ratings(served: ServedModel, request: RatingsToStore) -> None:
    low, high = served.model.scale
    for given in request.ratings:
        if own_id(served.model.items, str(given.item)) is None:
            served.model.items.copy().add([given.item])
        if not low <= given.rating <= high:
            raise DataError(
                f"the rating of item {given.item!r} must be between {low:g} and {high:g}. Got {given.rating!r}"
            )


def _is_rated(served: ServedModel, user: str, item: str) -> bool:
    """Whether there is a rating to take back; the user and the item are written as the model would write them."""
    model = served.model
    if user not in model.users or item not in model.items:
        return False
    return model.items.index(item) in served.ratings_by(model.users.index(user))[0]


def _is_kept(store: Store, user: str, item: str) -> bool:
    """Also a rating that does not fit this model: the next one may take it."""
    return any(one.item == item and one.rating is not None for one in store.ratings_of(user))


def _ratings(served: ServedModel, user: str, live: list[LiveRating]) -> list[dict[str, Any]]:
    """Live ones first, the newest first; then those of the training."""
    model = served.model
    if user not in model.users:
        return []
    items, values = served.ratings_by(model.users.index(user))
    given = {model.items.id(item): value for item, value in zip(items.tolist(), values.tolist(), strict=True)}
    order = [item for one in live if one.rating is not None if (item := own_id(model.items, one.item)) in given]
    newest = set(order)
    return [
        {"item": item, "title": model.titles.get(item), "rating": rounded(given[item]), "live": item in newest}
        for item in [*order, *(item for item in given if item not in newest)]
        if item is not None
    ]
