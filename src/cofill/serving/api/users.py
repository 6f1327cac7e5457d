"""Users and their ratings, and events: what people do, each counted once, and what they were shown."""

import secrets
import time
from collections.abc import Mapping
from enum import Enum
from functools import partial
from typing import Annotated, Any

from fastapi import FastAPI, Query, Response
from pydantic import Field, model_validator

from cofill.client.messages import (
    ClickThrough,
    EventsStored,
    FoundUsers,
    KnownRatings,
    LatestEvents,
    MadeUser,
    Stored,
)
from cofill.data.vocabulary import Id
from cofill.errors import DataError, UnknownIdError
from cofill.serving.api.catalogue import check_features
from cofill.serving.api.requests import (
    MOST_RATINGS,
    CountText,
    Description,
    Given,
    IdText,
    ItemOrUserId,
    Message,
    Moment,
    PairQuery,
    QueryModel,
    Version,
    Words,
    answer,
    check_distinct,
    in_database,
    rounded,
)
from cofill.serving.live.events import Event, EventLog
from cofill.serving.live.model import LiveModel
from cofill.serving.live.served import ServedModel
from cofill.serving.live.store import Store
from cofill.serving.settings import GREATEST_WEIGHT, KIND, SHOWN, ServingSettings

_LOVED = 3  # items that tell who somebody is
_GREATEST = 2**53 - 1  # of the integers that every reader of JSON keeps exactly
_MOST_EVENTS = 1_000
_FEATURES = "what they are, by column; columns that are left out are unknown"

_Kind = Annotated[str, Field(strict=True, pattern=f"^{KIND}$")]
_Weight = Annotated[float, Field(strict=True, ge=-GREATEST_WEIGHT, le=GREATEST_WEIGHT, allow_inf_nan=False)]


# What is asked


class UsersQuery(QueryModel):
    query: Words = Field(default="", description="how ids begin; empty finds all")
    n: CountText = Field(default=20, description="how many at most")


class RatingsQuery(QueryModel):
    user: IdText = Field(description="the id of a user")
    n: Annotated[int, Field(ge=1, le=MOST_RATINGS)] = Field(default=MOST_RATINGS, description="how many at most")


class LatestQuery(QueryModel):
    n: CountText = Field(default=20, description="how many at most")


class UserToMake(Message):
    features: Description | None = Field(default=None, description=_FEATURES)


class UserToStore(Message):
    id: ItemOrUserId = Field(description="the id of a user")
    features: Description = Field(description=_FEATURES)


class UsersToMerge(Message):
    user: ItemOrUserId = Field(description="the id of a user who is another one from now on, such as a visitor")
    into: ItemOrUserId = Field(description="the id of that other one, such as a customer, known or new")


class EventQuery(QueryModel):
    id: IdText = Field(description="the id that you gave an event")


class RatingsToStore(Message):
    user: ItemOrUserId = Field(description="the id of a user")
    ratings: list[Given] = Field(min_length=1, max_length=MOST_RATINGS, description="what they rated")

    @model_validator(mode="after")
    def _each_once(self) -> "RatingsToStore":
        check_distinct(self.ratings)
        return self


class EventMessage(Message):
    """What a user did with an item, or that it was shown to them."""

    id: ItemOrUserId | None = Field(default=None, description="your own: an event with an id counts once")
    user: ItemOrUserId = Field(description="the id of a user")
    item: ItemOrUserId = Field(description="the id of an item")
    kind: _Kind = Field(description="such as view, click, play or buy; shown is an impression")
    time: Moment | None = Field(default=None, description="when it happened; otherwise, and at the latest, now")
    weight: _Weight | None = Field(
        default=None, description="how much it counts, below 0 against the item; otherwise as its kind does"
    )
    model_version: Version | None = Field(default=None, description="of the answer that the item was shown in")

    @model_validator(mode="after")
    def _shown_counts_for_nothing(self) -> "EventMessage":
        if self.kind == SHOWN and self.weight is not None:
            raise ValueError("what was shown counts for nothing; leave out its weight")
        return self


class EventsToStore(Message):
    events: list[EventMessage] = Field(min_length=1, max_length=_MOST_EVENTS, description="what people did")


# Routes


def add_users(api: FastAPI, live: LiveModel, settings: ServingSettings) -> None:
    tags: list[str | Enum] = ["users"]

    @api.get("/v1/users", response_model=FoundUsers, summary="Users by the beginnings of their ids", tags=tags)
    async def find_users(query: Annotated[UsersQuery, Query()]) -> Response:
        """Those that have rated the most come first."""

        def find(served: ServedModel) -> dict[str, Any]:
            counts = served.model.user_counts()
            found = served.users.find(query.query, counts, query.n, served.forgotten)
            return {"users": [_found(served, at, int(counts[at])) for at in found]}

        return answer(await live.ask(find))

    @api.post("/v1/users", response_model=MadeUser, summary="Make a user", status_code=201, tags=tags)
    async def make_user(request: UserToMake | None = None) -> Response:
        """Reserves a new id, and describes its user if features are given."""
        features = None if request is None else request.features
        await live.ask(partial(check_features, features))
        candidates = await live.ask(_NewIds)
        user = await in_database(live.store.new_user, candidates, features)
        return answer({"id": int(user) if candidates.integers else user}, 201)

    @api.put("/v1/user", response_model=MadeUser, summary="Describe a user, known or new", tags=tags)
    async def describe_user(request: UserToStore) -> Response:
        """A description replaces the one before it; columns that are left out are unknown."""
        await live.ask(partial(check_features, request.features))
        await in_database(live.store.put_users, [(str(request.id), request.features)])
        return answer({"id": await live.ask(lambda served: served.model.users.own(request.id))})

    @api.post("/v1/users/merge", response_model=MadeUser, summary="Make one user of two", tags=tags)
    async def merge_users(request: UsersToMerge) -> Response:
        """As when a visitor logs in. What both did counts once, and the earlier id is answered as the other."""
        into = await in_database(live.store.merge_users, str(request.user), str(request.into))
        return answer({"id": await live.ask(lambda served: served.model.users.own(into))})

    @api.get("/v1/ratings", response_model=KnownRatings, summary="What a user has rated, the newest first", tags=tags)
    async def get_ratings(query: Annotated[RatingsQuery, Query()]) -> Response:
        """Live ratings first, the newest first; then those of the training data. At most `n` of them."""
        known = await live.ask(partial(_ratings, query.user))
        kept = await in_database(live.store.ratings_of, query.user)  # others need not wait for this
        own = live.served.model.items.own
        newest = [own(one.item) for one in kept if one.rating is not None]
        entries = [known.pop(item) | {"live": True} for item in newest if item in known]
        return answer({"ratings": [*entries, *known.values()][: query.n]})

    @api.put("/v1/ratings", response_model=Stored, summary="Rate items; all or nothing", tags=tags)
    async def put_ratings(request: RatingsToStore) -> Response:
        """All of them or none. A rating replaces the one before it; the next answer takes it into account."""
        await live.ask(partial(_check_ratings, request, settings.open_catalogue))
        now = time.time()
        given = [
            (str(given.item), given.rating, now if given.time is None else given.time) for given in request.ratings
        ]
        await in_database(live.store.put_ratings, str(request.user), given)
        return answer({"stored": len(request.ratings)})

    @api.delete("/v1/ratings", summary="Take a rating back, if there is one", status_code=204, tags=tags)
    async def withdraw_rating(query: Annotated[PairQuery, Query()]) -> Response:
        """Also one that the model was trained on."""
        rated = await live.ask(partial(_is_rated, query.user, query.item))
        if rated or await in_database(_is_kept, live.store, query.user, query.item):
            await in_database(live.store.put_ratings, query.user, [(query.item, None)])
        return Response(status_code=204)


def add_events(api: FastAPI, live: LiveModel, log: EventLog, settings: ServingSettings) -> None:
    @api.delete("/v1/events", summary="Withdraw an event", status_code=204, tags=["events"])
    async def withdraw_event(query: Annotated[EventQuery, Query()]) -> Response:
        """It counts no more, also if a model has learned it. Sent again, it does not come back."""
        if not await in_database(log.withdraw, query.id):
            days = f"{settings.keep_events_days:g}"
            raise UnknownIdError(f"event {query.id!r} is not known; ids of events are kept for {days} days")
        return Response(status_code=204)

    @api.get("/v1/events", response_model=LatestEvents, summary="The latest events", tags=["events"])
    async def list_latest_events(query: Annotated[LatestQuery, Query()]) -> Response:
        """What people did and were shown, the last first, for an operator to look on."""
        latest = await in_database(log.latest, query.n)

        def told(served: ServedModel) -> list[dict[str, Any]]:
            users, items, titles = served.model.users, served.model.items, served.model.titles
            more = [(users.own(one.user), items.own(one.item)) for one in latest]
            return [
                one._asdict() | {"user": user, "item": item, "title": titles.get(item)}
                for one, (user, item) in zip(latest, more, strict=True)
            ]

        return answer({"events": await live.ask(told)})

    @api.get(
        "/v1/click-through", response_model=ClickThrough, summary="Click-through by model and day", tags=["events"]
    )
    async def get_click_through() -> Response:
        """What was shown, and what people did with what was shown to them, the latest day first."""
        days: dict[tuple[str, str], dict[str, Any]] = {}
        for version, day, kind, events in await in_database(log.click_through_by_day):
            of = days.setdefault((day, version), {"day": day, "model_version": version, "shown": 0, "events": {}})
            if kind == SHOWN:
                of["shown"] = events
            else:
                of["events"][kind] = events
        return answer({"days": list(days.values())})

    @api.post(
        "/v1/events",
        response_model=EventsStored,
        summary="What people did, or were shown; all or nothing",
        tags=["events"],
    )
    async def store_events(request: EventsToStore) -> Response:
        """Lists follow at once. An event with an id of yours counts once, however often it is sent."""

        def check(served: ServedModel) -> None:
            for at, event in enumerate(request.events):
                if not served.takes_item(event.item, open_catalogue=settings.open_catalogue):
                    raise UnknownIdError(f"events.{at}: {_nobody_described(event.item)}")

        await live.ask(check)
        events = [_event(at, event, settings.event_weight) for at, event in enumerate(request.events)]
        stored = await in_database(log.put, events)
        return answer({"stored": stored, "repeated": len(events) - stored})


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


def _check_ratings(request: RatingsToStore, open_catalogue: bool, served: ServedModel) -> None:
    low, high = served.model.scale
    for given in request.ratings:
        if not served.takes_item(given.item, open_catalogue=open_catalogue):
            raise UnknownIdError(_nobody_described(given.item))
        if not low <= given.rating <= high:
            raise DataError(
                f"the rating of item {given.item!r} must be between {low:g} and {high:g}. Got {given.rating!r}"
            )


def _is_rated(user: str, item: str, served: ServedModel) -> bool:
    """Whether there is a rating to withdraw; the user and the item are written as the model writes them."""
    model, user = served.model, str(served.person(user))
    if not served.in_model(user) or item not in model.items:
        return False
    return model.items.index(item) in served.ratings_by(model.users.index(user))[0]


def _is_kept(store: Store, user: str, item: str) -> bool:
    """Whether the database has the rating, even one that does not fit this model: the next model may use it."""
    return any(one.item == item and one.rating is not None for one in store.ratings_of(user))


def _ratings(user: str, served: ServedModel) -> dict[Id, dict[str, Any]]:
    """What a user rated, by item."""
    model = served.model
    if not served.known_user(user):
        raise UnknownIdError(f"user {user!r} is not known; check the id")
    if not served.in_model(user):
        return {}
    items, values = served.ratings_by(model.users.index(served.person(user)))
    return {
        item: {"item": item, "title": model.titles.get(item), "rating": rounded(value), "live": False}
        for item, value in zip(map(model.items.id, items.tolist()), values.tolist(), strict=True)
    }


def _nobody_described(item: int | str) -> str:
    """Why something about an item is refused."""
    return (
        f"item {item!r} is not in the catalogue; check the id, or describe it first with PUT /v1/item "
        "(a server that is started with --open-catalogue takes any)"
    )


def _event(at: int, sent: EventMessage, weights: Mapping[str, float]) -> Event:
    weight = 0.0 if sent.kind == SHOWN else sent.weight
    if weight is None:
        weight = weights.get(sent.kind)
    if weight is None:
        raise DataError(
            f"events.{at}: no weight is known of the kind {sent.kind!r}; send a weight with it, use one of "
            f"{', '.join(weights)} or {SHOWN}, or start the server with --event-weight {sent.kind}=1"
        )
    id = None if sent.id is None else str(sent.id)
    return Event(str(sent.user), str(sent.item), sent.kind, weight, sent.time, id, sent.model_version)
