"""One function for each thing that can be asked: its arguments become what is sent, its reply what comes back.

`Client` and `AsyncClient` have each of them as a method.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NotRequired, TypedDict, Unpack

from cofill.client import messages
from cofill.client.messages import By, Id
from cofill.client.transport import LINES, Call, nothing, reading, words_of

Where = Mapping[str, Any]
"""{column: a value, a list of which any will do, or bounds {"min": ..., "max": ...}}."""


class SimilarRules(TypedDict, total=False):
    """What a list of similar, popular or new items may be made of, as over HTTP and in Python."""

    where: Where
    among: Sequence[Id]
    exclude: Sequence[Id]
    min_ratings: int
    at_most: Mapping[str, int]
    diversity: float


class Rules(SimilarRules, total=False):
    """What a list may be made of."""

    by: By
    boost: Mapping[str, Mapping[str, float]]
    new_items: float


Times = Mapping[Any, float | datetime]
"""When each item was rated."""


class ListRequest(Rules, total=False):
    """One list of a batch: a user by id, or described by ratings {item: rating}, features, or both."""

    user: Id
    ratings: Mapping[Any, float]
    features: Mapping[str, Any]
    times: Times
    at: float | datetime
    n: int
    exclude_known: bool
    exclude_shown: bool
    mark_shown: bool
    offset: int
    why: bool
    model: str


class Event(TypedDict):
    """What a user did with an item (view, click, play, buy, a kind of your own), or that it was `shown` to them."""

    user: Id
    item: Id
    kind: str
    id: NotRequired[Id]
    time: NotRequired[float | datetime]
    weight: NotRequired[float]
    model_version: NotRequired[str]


class ItemLine(TypedDict):
    """An item as a catalogue describes it."""

    id: Id
    title: NotRequired[str]
    features: NotRequired[Mapping[str, Any]]
    available: NotRequired[bool]
    available_until: NotRequired[float | datetime]
    added: NotRequired[float | datetime]


class UserLine(TypedDict):
    """A user as a catalogue describes them."""

    id: Id
    features: NotRequired[Mapping[str, Any]]


# Lists


def recommend(
    user: Id | None = None,
    *,
    ratings: Mapping[Any, float] | None = None,
    features: Mapping[str, Any] | None = None,
    times: Times | None = None,
    at: float | datetime | None = None,
    n: int = 10,
    offset: int | None = None,
    exclude_known: bool = True,
    exclude_shown: bool | None = None,
    mark_shown: bool | None = None,
    why: bool = False,
    model: str | None = None,
    **rules: Unpack[Rules],
) -> Call[messages.Recommended]:
    """What a user would like: by id, or described by ratings {item: rating}, features, or both.

    Ratings are in their order, or at `times` {item: time}; `at` is the time of the request, if not now.
    A list of which it is stored that it was shown (`mark_shown`) is not asked for again by itself.
    """
    body = {
        **_somebody(user, ratings, features, model, times, at),
        "n": n,
        "offset": offset,
        "exclude_known": exclude_known,
        "exclude_shown": exclude_shown,
        "mark_shown": mark_shown,
        "why": why,
        **rules,
    }
    reply = reading(messages.Recommended)
    return Call("POST", "/v1/recommendations", reply, body=_json(body), repeatable=not mark_shown)


def basket(
    items: Iterable[Id],
    *,
    n: int = 10,
    offset: int | None = None,
    model: str | None = None,
    **rules: Unpack[Rules],
) -> Call[messages.Recommended]:
    """What goes with these items, none of them twice."""
    body = {"items": items, "n": n, "offset": offset, "model": model, **rules}
    return Call("POST", "/v1/basket", reading(messages.Recommended), body=_json(body))


def popular(
    *, n: int = 10, offset: int | None = None, days: int | None = None, **rules: Unpack[SimilarRules]
) -> Call[messages.PopularItems]:
    """What most users did something with, of all time or in the last days."""
    query = words_of({"n": n, "offset": offset, "days": days, **_as_words(rules)})
    return Call("GET", "/v1/popular", reading(messages.PopularItems), query)


def newest(
    *, n: int = 10, offset: int | None = None, days: int | None = None, **rules: Unpack[SimilarRules]
) -> Call[messages.NewItems]:
    """What was added to the catalogue last, or in the last days."""
    query = words_of({"n": n, "offset": offset, "days": days, **_as_words(rules)})
    return Call("GET", "/v1/new", reading(messages.NewItems), query)


def recommend_many(requests: Iterable[ListRequest]) -> Call[messages.RecommendedBatch]:
    """Up to 100 lists at once, each with rules of its own."""
    lists: list[dict[str, Any]] = [
        {**request, **_given(request.get("ratings"), request.get("times")), **_at(request.get("at"))}
        for request in requests
    ]
    for one in lists:
        one.pop("times", None)
    reply, body = reading(messages.RecommendedBatch), _json({"requests": lists})
    repeatable = not any(one.get("mark_shown") for one in lists)
    return Call("POST", "/v1/recommendations/batch", reply, body=body, repeatable=repeatable)


def predict(
    pairs: Iterable[tuple[Id, Id]], *, interval: bool = False, model: str | None = None
) -> Call[messages.Predicted]:
    """What users would give items, for up to 10,000 pairs (user, item); with intervals for up to 1,000."""
    body = {"pairs": [{"user": user, "item": item} for user, item in pairs], "interval": interval, "model": model}
    return Call("POST", "/v1/predictions", reading(messages.Predicted), body=_json(body))


def explain(
    item: Id,
    user: Id | None = None,
    *,
    ratings: Mapping[Any, float] | None = None,
    features: Mapping[str, Any] | None = None,
    times: Times | None = None,
    at: float | datetime | None = None,
    by: By = "list",
    model: str | None = None,
) -> Call[messages.Why]:
    """What pushes an item up or down for a user, by id or described as for a list."""
    body = {**_somebody(user, ratings, features, model, times, at), "item": item, "by": by}
    return Call("POST", "/v1/why", reading(messages.Why), body=_json(body))


# Items


def similar(item: Id, *, n: int = 10, **rules: Unpack[SimilarRules]) -> Call[messages.SimilarItems]:
    """Items that are like one."""
    query = words_of({"item": item, "n": n, **_as_words(rules)})
    return Call("GET", "/v1/similar", reading(messages.SimilarItems), query)


def find_items(query: str = "", *, n: int = 10, hidden: bool | None = None) -> Call[messages.FoundItems]:
    """Items whose titles have a word that begins with each word of the query, the most rated first."""
    return Call("GET", "/v1/items", reading(messages.FoundItems), words_of({"query": query, "n": n, "hidden": hidden}))


def starters(*, n: int = 12) -> Call[messages.FoundItems]:
    """Known, diverse items to rate first."""
    return Call("GET", "/v1/starters", reading(messages.FoundItems), words_of({"n": n}))


def item(id: Id) -> Call[messages.Item]:
    """All about an item."""
    return Call("GET", "/v1/item", reading(messages.Item), words_of({"id": id}))


def describe_item(
    id: Id,
    *,
    title: str | None = None,
    features: Mapping[str, Any] | None = None,
    available: bool | None = None,
    available_until: float | datetime | None = None,
    added: float | datetime | None = None,
) -> Call[messages.Item]:
    """Describe an item, known or new, or hide it (`available=False`) and show it again."""
    dates = {"available_until": _moment(available_until), "added": _moment(added)}
    body = {"id": id, "title": title, "features": features, "available": available, **dates}
    return Call("PUT", "/v1/item", reading(messages.Item), body=_json(body))


def describe_items(items: Iterable[ItemLine]) -> Call[messages.Stored]:
    """Describe up to 10,000 items at once; all or nothing."""
    return _lines("/v1/items/bulk", items)


def delete_item(id: Id) -> Call[None]:
    """Delete an item, if there is one."""
    return Call("DELETE", "/v1/item", nothing, words_of({"id": id}))


def list_items(cursor: str = "", *, n: int = 100) -> Call[messages.ListedItems]:
    """A page of all items, hidden ones too; `all_items` goes through all pages."""
    return Call("GET", "/v1/items/list", reading(messages.ListedItems), words_of({"cursor": cursor or None, "n": n}))


# People


def find_users(query: str = "", *, n: int = 20) -> Call[messages.FoundUsers]:
    """Users whose ids begin with the query."""
    return Call("GET", "/v1/users", reading(messages.FoundUsers), words_of({"query": query, "n": n}))


def make_user(*, features: Mapping[str, Any] | None = None) -> Call[messages.MadeUser]:
    """A new id, and perhaps a description. It is never sent again by itself: that would make another one."""
    body = _json({"features": features})
    return Call("POST", "/v1/users", reading(messages.MadeUser), body=body, repeatable=False)


def describe_user(id: Id, features: Mapping[str, Any]) -> Call[messages.MadeUser]:
    """Describe a user, known or new."""
    return Call("PUT", "/v1/user", reading(messages.MadeUser), body=_json({"id": id, "features": features}))


def describe_users(users: Iterable[UserLine]) -> Call[messages.Stored]:
    """Describe up to 10,000 users at once; all or nothing."""
    return _lines("/v1/users/bulk", users)


def delete_user(id: Id) -> Call[None]:
    """Delete a person: ratings, events and description."""
    return Call("DELETE", "/v1/user", nothing, words_of({"id": id}))


def list_users(cursor: str = "", *, n: int = 100) -> Call[messages.ListedUsers]:
    """A page of all users; `all_users` goes through all pages."""
    return Call("GET", "/v1/users/list", reading(messages.ListedUsers), words_of({"cursor": cursor or None, "n": n}))


def merge_users(user: Id, into: Id) -> Call[messages.MadeUser]:
    """Make one user of two, as when a visitor logs in; the earlier id is answered as the other from then on."""
    return Call("POST", "/v1/users/merge", reading(messages.MadeUser), body=_json({"user": user, "into": into}))


def ratings(user: Id, n: int | None = None) -> Call[messages.KnownRatings]:
    """What a user has rated, the newest first; at most 1,000, or `n`."""
    return Call("GET", "/v1/ratings", reading(messages.KnownRatings), words_of({"user": user, "n": n}))


def put_ratings(
    user: Id, ratings: Mapping[Any, float], *, time: float | datetime | None = None
) -> Call[messages.Stored]:
    """Rate up to 1,000 items {item: rating}; all or nothing. `time`: when, if not now."""
    when = {} if time is None else {"time": _moment(time)}
    given = [{"item": item, "rating": rating, **when} for item, rating in ratings.items()]
    return Call("PUT", "/v1/ratings", reading(messages.Stored), body=_json({"user": user, "ratings": given}))


def withdraw_rating(user: Id, item: Id) -> Call[None]:
    """Take a rating back, if there is one."""
    return Call("DELETE", "/v1/ratings", nothing, words_of({"user": user, "item": item}))


def send_events(events: Iterable[Event]) -> Call[messages.EventsStored]:
    """What people did, or were shown, up to 1,000 at once; all or nothing.

    An event with an id counts once, however often it is sent. Only if all have one is the call sent again by itself.
    """
    sent = [dict(event) for event in events]
    for event in sent:
        if "time" in event:
            event["time"] = _moment(event["time"])
    repeatable = all(event.get("id") is not None for event in sent)
    body = _json({"events": sent})
    return Call("POST", "/v1/events", reading(messages.EventsStored), body=body, repeatable=repeatable)


def withdraw_event(id: Id) -> Call[None]:
    """Take an event back, by the id that you gave it."""
    return Call("DELETE", "/v1/events", nothing, words_of({"id": id}))


def latest_events(n: int = 20) -> Call[messages.LatestEvents]:
    """The latest events, impressions too, the last first; it needs an admin key."""
    return Call("GET", "/v1/events", reading(messages.LatestEvents), words_of({"n": n}))


def click_through() -> Call[messages.ClickThrough]:
    """What was shown and what came of it, by model and day; it needs an admin key."""
    return Call("GET", "/v1/click-through", reading(messages.ClickThrough))


# The model and the server


def model(name: str | None = None) -> Call[messages.ModelMessage]:
    """What is served; of several models the first, or the one of that name."""
    return Call("GET", "/v1/model", reading(messages.ModelMessage), words_of({"model": name}))


def reload(name: str | None = None) -> Call[messages.Reloaded]:
    """Serve what is in the model's folder now."""
    return Call("POST", "/v1/model/reload", reading(messages.Reloaded), words_of({"model": name}), lasts=True)


def roll_back(name: str | None = None) -> Call[messages.Reloaded]:
    """Serve the model that was served before. It is never sent again by itself: that would go back once more."""
    query = words_of({"model": name})
    return Call("POST", "/v1/model/rollback", reading(messages.Reloaded), query, repeatable=False, lasts=True)


def retrain() -> Call[messages.Trainings]:
    """Train a new model now, on a server with --retrain; it is served if it is not worse."""
    return Call("POST", "/v1/model/retrain", reading(messages.Trainings))


def trainings() -> Call[messages.Trainings]:
    """What a server with --retrain has trained, the latest first; it needs an admin key."""
    return Call("GET", "/v1/model/trainings", reading(messages.Trainings))


def health() -> Call[messages.Status]:
    """Whether the process is alive."""
    return Call("GET", "/health", reading(messages.Status))


def ready() -> Call[messages.Status]:
    """Whether the model and the database answer."""
    return Call("GET", "/ready", reading(messages.Status))


def metrics() -> Call[str]:
    """Figures for Prometheus."""
    return Call("GET", "/metrics", lambda content: content.decode())


def _somebody(
    user: Id | None,
    ratings: Mapping[Any, float] | None,
    features: Mapping[str, Any] | None,
    model: str | None,
    times: Times | None,
    at: float | datetime | None,
) -> dict[str, Any]:
    return {"user": user, "features": features, "model": model, **_given(ratings, times), **_at(at)}


def _given(ratings: Mapping[Any, float] | None, times: Times | None) -> dict[str, Any]:
    if ratings is None:
        return {}
    when = {item: {"time": _moment(time)} for item, time in (times or {}).items()}
    return {"ratings": [{"item": item, "rating": rating, **when.get(item, {})} for item, rating in ratings.items()]}


def _at(at: float | datetime | None) -> dict[str, Any]:
    return {} if at is None else {"at": _moment(at)}


def _moment(time: object) -> object:
    if not isinstance(time, datetime):
        return time
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).isoformat()


def _as_words(rules: SimilarRules) -> dict[str, object]:
    """As a query has them."""
    at_most = [f"{column}={most}" for column, most in rules.get("at_most", {}).items()]
    return {**rules, "where": _conditions(rules.get("where", {})), "at_most": at_most}


def _conditions(where: Where) -> list[str]:
    words: list[str] = []
    for column, wanted in where.items():
        if isinstance(wanted, Mapping):
            low, high = ("" if wanted.get(end) is None else wanted[end] for end in ("min", "max"))
            words.append(f"{column}:{low}..{high}")
        else:
            words += [f"{column}:{value}" for value in (wanted if isinstance(wanted, list | tuple) else (wanted,))]
    return words


def _json(document: Mapping[str, Any]) -> bytes:
    """Without what is None, which is how everything is left out."""
    there = {name: value for name, value in document.items() if value is not None}
    return json.dumps(there, allow_nan=False, default=_plain).encode()


def _plain(value: object) -> object:
    """Sequences and mappings of other libraries, and numbers of numpy."""
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Iterable):
        return list(value)
    if isinstance(value, datetime):
        return _moment(value)
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON")


def _lines(path: str, lines: Iterable[Mapping[str, Any]]) -> Call[messages.Stored]:
    body = b"\n".join(_json(line) for line in lines)
    return Call("POST", path, reading(messages.Stored), body=body, media_type=LINES)
