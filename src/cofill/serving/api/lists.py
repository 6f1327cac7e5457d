"""Lists, what speaks for what is in them, and predicted ratings with the intervals around them."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from pydantic import Field, StrictBool, model_validator

from cofill.client.messages import Predicted, Recommended, RecommendedBatch, Why
from cofill.data.vocabulary import Id
from cofill.errors import CofillError, UnknownIdError
from cofill.models.lists.rules import By, Rules
from cofill.models.results import Contribution, Explanation, Recommendation
from cofill.serving.api.guard import ALLOW, Right
from cofill.serving.api.problems import about_part
from cofill.serving.api.requests import (
    MOST_RATINGS,
    OFFSET,
    Count,
    CountText,
    Description,
    GivenAt,
    IdText,
    ItemOrUserId,
    Message,
    ModelName,
    Moment,
    MomentText,
    Offset,
    OffsetText,
    PairQuery,
    answer,
    check_distinct,
    in_database,
    page_of,
    rounded,
    significant,
)
from cofill.serving.api.rules import RuleMessage, RuleQuery, unknown_ids
from cofill.serving.live.events import Event, EventLog
from cofill.serving.live.model import LiveModel
from cofill.serving.live.served import ServedModel
from cofill.serving.settings import SHOWN

_MOST_REASONS = 10  # beside each item of a list; /v1/why has them all
_MOST_REQUESTS = 100
_MOST_PAIRS = 10_000
_MOST_INTERVALS = 1000  # each takes as long as hundreds of ratings
# Pairs that are predicted before others have their turn.
_PAIRS_A_TURN = 1000
_INTERVALS_A_TURN = 50

_USER = "the id of a user"
_N = "how many at most"
_KNOWN = "whether items that the user has rated are left out"
_WHY = "whether each item is explained"
_MODEL = "of several models, the one to ask; by default the one that the person gets"
_SHOWN = "leave out what the user was shown, as far as events said so (`shown`)"
_AT = "the time of the request, for lists that follow order and time; otherwise now"
_MARK = "store that the user was shown these items, as events of the kind `shown` do; it needs a key that may write"
_EXPLAINED = "whether the score in lists is explained, or the predicted rating"


# What is asked


class RecommendationQuery(RuleQuery):
    user: IdText = Field(description=_USER)
    n: CountText = Field(default=10, description=_N)
    offset: OffsetText | None = Field(default=None, description=OFFSET)
    exclude_known: bool = Field(default=True, description=_KNOWN)
    exclude_shown: bool = Field(default=False, description=_SHOWN)
    mark_shown: bool = Field(default=False, description=_MARK)
    why: bool = Field(default=False, description=_WHY)
    at: MomentText | None = Field(default=None, description=_AT)
    model: ModelName | None = Field(default=None, description=_MODEL)

    @property
    def who(self) -> str:
        return self.user

    @property
    def times(self) -> None:
        return None


class WhyQuery(PairQuery):
    by: By = Field(default="list", description=_EXPLAINED)
    at: MomentText | None = Field(default=None, description=_AT)
    model: ModelName | None = Field(default=None, description=_MODEL)


class Somebody(Message):
    """A user by id, or described in the request by ratings, features, or both."""

    user: ItemOrUserId | None = Field(default=None, description=_USER)
    ratings: list[GivenAt] | None = Field(
        default=None,
        max_length=MOST_RATINGS,
        description="the ratings of a user without an id, in their order, just now, or all with their times",
    )
    features: Description | None = Field(
        default=None, description="the features of a user, by column; columns that are left out are unknown"
    )
    at: Moment | None = Field(default=None, description=_AT)
    model: ModelName | None = Field(default=None, description=_MODEL)

    @model_validator(mode="after")
    def _one_person(self) -> "Somebody":
        if self.user is not None and (self.ratings is not None or self.features is not None):
            raise ValueError(
                "a user by id is not described in the request too; leave out user, or ratings and features"
            )
        check_distinct(self.ratings or ())
        if len({given.time is None for given in self.ratings or ()}) > 1:
            raise ValueError("some ratings have a time and others have none; give all of them one, or none")
        return self

    @property
    def who(self) -> int | str | dict[int | str, float]:
        """The user as `Recommender.recommend` takes it."""
        return self.user if self.user is not None else {given.item: given.rating for given in self.ratings or ()}

    @property
    def times(self) -> dict[int | str, float] | None:
        """The times of the ratings, if they have any."""
        return {given.item: given.time for given in self.ratings or () if given.time is not None} or None


class RecommendationRequest(Somebody, RuleMessage):
    n: Count = Field(default=10, description=_N)
    offset: Offset | None = Field(default=None, description=OFFSET)
    exclude_known: StrictBool = Field(default=True, description=_KNOWN)
    exclude_shown: StrictBool = Field(default=False, description=_SHOWN)
    mark_shown: StrictBool = Field(default=False, description=_MARK)
    why: StrictBool = Field(default=False, description=_WHY)

    @model_validator(mode="after")
    def _shown_to_somebody(self) -> "RecommendationRequest":
        for name in ("exclude_shown", "mark_shown"):
            if getattr(self, name) and self.user is None:
                raise ValueError(f"{name} is about what a user was shown; give a user, or leave it out")
        return self


class BatchRequest(Message):
    requests: list[RecommendationRequest] = Field(
        min_length=1, max_length=_MOST_REQUESTS, description="the lists that are asked for"
    )


class WhyRequest(Somebody):
    item: ItemOrUserId = Field(description="the id of an item")
    by: By = Field(default="list", description=_EXPLAINED)


class Pair(Message):
    user: ItemOrUserId = Field(description=_USER)
    item: ItemOrUserId = Field(description="the id of an item")


class PredictionRequest(Message):
    pairs: list[Pair] = Field(
        min_length=1, max_length=_MOST_PAIRS, description="the users and items that ratings are predicted of"
    )
    interval: StrictBool = Field(
        default=False, description="also between which ratings nine tenths of the true ones are expected"
    )
    model: ModelName | None = Field(
        default=None,
        description="of several models, the one to ask; by default that of the person, or of several people the first",
    )

    @property
    def user(self) -> int | str | None:
        """Of all pairs; None if there are several."""
        return self.pairs[0].user if len({str(pair.user) for pair in self.pairs}) == 1 else None

    @model_validator(mode="after")
    def _few_intervals(self) -> "PredictionRequest":
        if self.interval and len(self.pairs) > _MOST_INTERVALS:
            raise ValueError(
                f"intervals are for at most {_MOST_INTERVALS} pairs at once; send fewer, or leave them out"
            )
        return self


# Routes


def add_lists(api: FastAPI, live: LiveModel, log: EventLog) -> None:
    @asynccontextmanager
    async def marking(http: Request, *asked: RecommendationQuery | RecommendationRequest) -> AsyncIterator[list[Event]]:
        """What lists are to mark as shown: stored once all of them are there, or not at all."""
        if any(one.mark_shown for one in asked):
            http.scope[ALLOW](Right.WRITES)
        marked: list[Event] = []
        yield marked
        if marked:
            await in_database(log.put, marked)

    async def recommended(asked: RecommendationQuery | RecommendationRequest, marked: list[Event]) -> dict[str, Any]:
        user, shown = str(asked.user), list[str]()
        if asked.exclude_shown:
            shown = await in_database(log.shown_to, user)
            shown += [event.item for event in marked if event.user == user]
        found = await live.ask_for(asked.user, partial(_recommended, asked, shown), asked.model)
        if asked.mark_shown:
            version = found["model_version"]
            marked += [Event(user, str(one["id"]), SHOWN, 0.0, model_version=version) for one in found["items"]]
        return found

    @api.get(
        "/v1/recommendations", response_model=Recommended, summary="Recommend items to a user", tags=["recommending"]
    )
    async def recommend_for_user(query: Annotated[RecommendationQuery, Query()], http: Request) -> Response:
        """Best first, within the rules. An unknown user gets the list of a user without ratings, with `known` false."""
        async with marking(http, query) as marked:
            found = await recommended(query, marked)
        return answer(found)

    @api.post("/v1/recommendations", response_model=Recommended, summary="Recommend items", tags=["recommending"])
    async def recommend_for_described_user(request: RecommendationRequest, http: Request) -> Response:
        """The same with a body: for a user by id, or described by ratings, features or both."""
        async with marking(http, request) as marked:
            found = await recommended(request, marked)
        return answer(found)

    @api.post(
        "/v1/recommendations/batch",
        response_model=RecommendedBatch,
        summary="Recommend items to many users",
        tags=["recommending"],
    )
    async def recommend_for_many(batch: BatchRequest, http: Request) -> Response:
        """Each request has rules of its own. Others have their turn between two lists."""
        answers: list[dict[str, Any]] = []
        async with marking(http, *batch.requests) as marked:
            for at, request in enumerate(batch.requests):
                try:
                    answers.append(await recommended(request, marked))
                except CofillError as error:
                    raise about_part(f"requests.{at}", error) from error
        return answer({"answers": answers})

    @api.get("/v1/why", response_model=Why, summary="Explain the score of an item for a user", tags=["recommending"])
    async def explain_for_user(query: Annotated[WhyQuery, Query()]) -> Response:
        """base + amounts + remainder = unclipped, in lists or of the predicted rating."""

        def why(served: ServedModel) -> dict[str, Any]:
            if not served.known_user(query.user):
                raise UnknownIdError(f"user {query.user!r} is not known; check the id, or POST the ratings instead")
            return _why(served, query, query.user)

        return answer(await live.ask_for(query.user, why, query.model))

    @api.post("/v1/why", response_model=Why, summary="Explain the score of an item", tags=["recommending"])
    async def explain_for_described_user(request: WhyRequest) -> Response:
        """The same with a body: for a user by id, or described by ratings, features or both."""

        def why(served: ServedModel) -> dict[str, Any]:
            return _why(served, request, request.who, features=_features(served, request), times=request.times)

        return answer(await live.ask_for(request.user, why, request.model))

    @api.post("/v1/predictions", response_model=Predicted, summary="Predict ratings", tags=["predicting"])
    async def predict(request: PredictionRequest) -> Response:
        """In the order of the pairs. Of unknown users and items the biases are predicted."""
        pairs, user = request.pairs, request.user
        ask = live.ask if user is None else partial(live.ask_for, user)
        at_once = _INTERVALS_A_TURN if request.interval else _PAIRS_A_TURN
        found: dict[str, Any] = {"model_version": None}
        at = 0
        while at < len(pairs):  # others have their turn between two parts
            some = pairs[at : at + at_once]
            about, columns = await ask(partial(_predicted, some, request.interval), request.model)
            if about["model_version"] != found["model_version"]:  # another model has taken its place: all from one
                at, anew = 0, found["model_version"] is not None
                found = about
                if anew:
                    continue
            for name, column in columns.items():
                found.setdefault(name, []).extend(column)
            at += at_once

        if live.stale:
            found["stale"] = True

        def unknown(served: ServedModel) -> dict[str, Any]:
            return unknown_ids(served, [pair.user for pair in pairs], [pair.item for pair in pairs])

        return answer(found | await ask(unknown, request.model))


def _recommended(
    request: RecommendationQuery | RecommendationRequest, shown: Sequence[Id], served: ServedModel
) -> dict[str, Any]:
    model, by = served.model, request.by
    rules: Rules
    if isinstance(request, RecommendationQuery):
        rules, features = request.rules(model.item_attributes), None
    else:
        rules, features = request.rules(), _features(served, request)
    who: Any = request.who
    if request.user is not None:
        who = served.person(request.user)
        disliked = served.disliked.get(served.model.users.own(who), set()) if request.exclude_known else set()
        shown = [*shown, *disliked]
    rules = served.within_catalogue(rules, shown)
    many, page = page_of(request.n, request.offset)
    given: Any = {"by": by, "features": features, "times": request.times, "at": _at(request)}
    ranked = model.recommend(who, many, exclude_known=request.exclude_known, **given, **rules)
    found = ranked[page]
    entries = list_entries(served, found)
    if request.why and found:
        reasons = model.explain_many(who, [one.item for one in found], **given)
        for entry, why in zip(entries, reasons, strict=True):
            entry["why"] = explained(why, _MOST_REASONS)
    known = None if request.user is None else served.in_model(request.user)
    users = () if request.user is None else (request.user,)
    unknown = unknown_ids(served, users, [*(request.among or ()), *(request.exclude or ())])
    return {"items": entries, "known": known, "model": served.name, "model_version": served.card.version} | unknown


def list_entries(served: ServedModel, found: Sequence[Recommendation]) -> list[dict[str, Any]]:
    """What is listed, ready for JSON."""
    return [
        served.item_entry(
            one.item,
            score=significant(one.score),
            rating=None if one.rating is None else rounded(one.rating),
            raters=one.raters,
            mean=None if (mean := served.mean_rating(one.item)) is None else rounded(mean),
        )
        for one in found
    ]


def _features(served: ServedModel, request: Somebody) -> dict[str, Any] | None:
    """The features given in a request, or None; omitted columns are unknown."""
    return None if request.features is None else served.full_description("user", request.features)


def _at(request: RecommendationQuery | Somebody | WhyQuery) -> float:
    return time.time() if request.at is None else request.at


def _why(served: ServedModel, request: WhyQuery | WhyRequest, who: Any, **about: Any) -> dict[str, Any]:
    item = served.known_item(request.item)
    who = who if isinstance(who, dict) else served.person(who)
    why = served.model.explain(who, item, by=request.by, at=_at(request), **about)
    return explained(why) | {"model": served.name, "model_version": served.card.version}


def explained(why: Explanation, most: int | None = None) -> dict[str, Any]:
    """An explanation; beyond `most` contributions, the rest joins the remainder, so that it still adds up."""
    shown = why.contributions if most is None else why.contributions[:most]
    rest = sum(one.amount for one in why.contributions[len(shown) :])
    shortened = rounded if why.by == "rating" else significant
    return {
        "item": why.item,
        "title": why.title,
        "by": why.by,
        "value": shortened(why.clipped),
        "unclipped": shortened(why.value),
        "base": shortened(why.base),
        "contributions": [{"amount": shortened(one.amount)} | _speaker(one) for one in shown],
        "remainder": shortened(why.remainder + rest),
    } | _beside(why)


def _beside(why: Explanation) -> dict[str, Any]:
    """What not every explanation has."""
    found: dict[str, Any] = {}
    if why.groups is not None:
        found["groups"] = {name: significant(amount) for name, amount in why.groups.items()}
    if why.low is not None and why.high is not None:
        found |= {"low": rounded(why.low), "high": rounded(why.high)}
    return found


def _speaker(one: Contribution) -> dict[str, Any]:
    about = {"item": one.item, "title": one.title, "rating": one.rating, "feature": one.feature}
    return {name: value for name, value in about.items() if value is not None}


def _predicted(
    pairs: Sequence[Pair], interval: bool, served: ServedModel
) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """Which model answers, and its answers by column."""
    model = served.model
    users = model.users.find([served.person(pair.user) for pair in pairs])
    items = model.items.find([pair.item for pair in pairs])
    if interval and model.has_intervals:
        columns = model.predict_intervals(users, items)._asdict()
    else:
        columns = {"ratings": model.predict_indices(users, items)}
    about = {"model": served.name, "model_version": served.card.version}
    return about, {name: [rounded(rating) for rating in column.tolist()] for name, column in columns.items()}
