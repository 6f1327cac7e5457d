"""Lists, and what speaks for what is in them."""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import BaseModel, Field, JsonValue, StrictBool, model_validator

from cofill.data.vocabulary import Id
from cofill.errors import CofillError, UnknownIdError
from cofill.models.lists.rules import By, Rules, candidates_for
from cofill.models.results import Contribution, Explanation
from cofill.serving.batch_pace import WAIT, Pace
from cofill.serving.event_log import EventLog
from cofill.serving.live_model import LiveModel
from cofill.serving.problem_types import ProblemType
from cofill.serving.problems import ProblemError, kind_of
from cofill.serving.request_messages import (
    MOST_RATINGS,
    Count,
    CountText,
    Description,
    Given,
    IdText,
    ItemOrUserId,
    Message,
    ModelName,
    PairQuery,
    check_distinct,
)
from cofill.serving.routing import Right, Routes, WorksForLong, answer, rounded, significant, time_left
from cofill.serving.rule_messages import RuleMessage, RuleQuery, UnknownIds, unknown_ids
from cofill.serving.served_model import ServedModel

_MOST_REASONS = 10  # beside each item of a list; /v1/why has them all
_MOST_REQUESTS = 100

LOW = "where the 90 % prediction interval of a rating begins; left out where the model has no intervals"
HIGH = "where it ends"
_MODEL = "of several models, the one to ask; by default the one that the person gets"
ANSWERED = "the name of the model that answered"
_SHOWN = "leave out what the user was shown, as far as events said so (`shown`)"
_EXPLAINED = "whether the score in lists is explained, or the predicted rating"


# What is asked


class RecommendationQuery(RuleQuery):
    user: IdText
    n: CountText = 10
    exclude_known: bool = True
    exclude_shown: bool = Field(default=False, description=_SHOWN)
    why: bool = False
    model: ModelName | None = Field(default=None, description=_MODEL)


class WhyQuery(PairQuery):
    by: By = Field(default="list", description=_EXPLAINED)
    model: ModelName | None = Field(default=None, description=_MODEL)


class Somebody(Message):
    """A user by id, or somebody described in the request by ratings, features, or both."""

    user: ItemOrUserId | None = None
    ratings: list[Given] | None = Field(
        default=None, max_length=MOST_RATINGS, description="what somebody without an id has rated"
    )
    features: Description | None = None
    model: ModelName | None = Field(default=None, description=_MODEL)

    @model_validator(mode="after")
    def _one_person(self) -> "Somebody":
        if self.user is not None and (self.ratings is not None or self.features is not None):
            raise ValueError(
                "a user by id is not described in the request too; leave out user, or ratings and features"
            )
        check_distinct(self.ratings or ())
        return self

    @property
    def who(self) -> int | str | dict[int | str, float]:
        """The user as `Recommender.recommend` takes it."""
        return self.user if self.user is not None else {given.item: given.rating for given in self.ratings or ()}


class RecommendationRequest(Somebody, RuleMessage):
    n: Count = 10
    exclude_known: StrictBool = True
    exclude_shown: StrictBool = Field(default=False, description=_SHOWN)
    why: StrictBool = False

    @model_validator(mode="after")
    def _shown_to_somebody(self) -> "RecommendationRequest":
        if self.exclude_shown and self.user is None:
            raise ValueError("exclude_shown leaves out what a user was shown; give a user, or leave it out")
        return self


class BatchRequest(Message):
    requests: list[RecommendationRequest] = Field(min_length=1, max_length=_MOST_REQUESTS)


class WhyRequest(Somebody):
    item: ItemOrUserId
    by: By = Field(default="list", description=_EXPLAINED)


# What is answered


class Push(BaseModel):
    """One of somebody's ratings, or a column of what is known about them, and how far it moves an item."""

    amount: float
    item: int | str | None = None
    title: str | None = None
    rating: float | None = None
    feature: str | None = None


class Why(BaseModel):
    """base + the amounts + remainder = unclipped; `value` is that, a rating within the scale."""

    item: int | str
    title: str | None = None
    by: By
    value: float
    unclipped: float
    base: float
    contributions: list[Push]
    remainder: float
    low: float | None = Field(default=None, description=LOW)
    high: float | None = Field(default=None, description=HIGH)
    model: str | None = Field(default=None, description=ANSWERED)
    model_version: str | None = None


class RecommendedItem(BaseModel):
    id: int | str
    title: str | None
    score: float = Field(description="what the list is ranked by; higher is better")
    rating: float | None = Field(description="the predicted rating; null if the model knows interactions alone")
    raters: int = Field(description="how many people rated it")
    mean: float | None = Field(description="the mean of their ratings; null if there are none, or interactions alone")
    attributes: dict[str, JsonValue]
    why: Why | None = Field(default=None, description="why it is in the list, if that was asked for")


class Recommended(BaseModel):
    items: list[RecommendedItem] = Field(description="best first")
    known: bool | None = Field(description="whether the model knows the user; null for somebody described")
    unknown: UnknownIds | None = Field(
        default=None,
        description="ids of the user, of `among` and of `exclude` that are not known; left out if there are none",
    )
    model: str = Field(description=ANSWERED)
    model_version: str


class RecommendedBatch(BaseModel):
    answers: list[Recommended]


# Routes


def add_recommending(routes: Routes, live: LiveModel, log: EventLog, pace: Pace) -> None:
    def shown_to(user: Id | None, exclude_shown: bool) -> list[str]:
        return log.shown_to(str(user)) if exclude_shown else []

    @routes.add("GET", "/v1/recommendations", Right.READS, Recommended, "What a user would like")
    def recommend_for_user(query: Annotated[RecommendationQuery, Query()]) -> Response:
        """Best first, within the rules. An unknown user gets what anybody gets, with `known` false."""
        shown = shown_to(query.user, query.exclude_shown)
        with live.asked_for(query.user, query.model) as served:
            request = RecommendationRequest.model_construct(
                user=query.user,
                n=query.n,
                exclude_known=query.exclude_known,
                exclude_shown=query.exclude_shown,
                by=query.by,
                why=query.why,
                among=query.among,
                exclude=query.exclude,
                diversity=query.diversity,
                at_most=query.at_most,
            )
            return answer(_recommended(served, request, query.rules(served.model.item_attributes), shown, pace))

    @routes.add("POST", "/v1/recommendations", Right.READS, Recommended, "What somebody would like")
    def recommend_for_somebody(request: RecommendationRequest) -> Response:
        """The same with a body: for a user, or for somebody described by ratings, features or both."""
        shown = shown_to(request.user, request.exclude_shown)
        with live.asked_for(request.user, request.model) as served:
            return answer(_recommended(served, request, request.rules(), shown, pace))

    @routes.add(
        "POST", "/v1/recommendations/batch", Right.READS, RecommendedBatch, "What many would like", kind=WorksForLong
    )
    def recommend_for_many(batch: BatchRequest) -> Response:
        """Each request has rules of its own. A batch that would take too long is refused at once."""
        answers: list[dict[str, Any]] = []
        pace.check(_parts(batch.requests), len(batch.requests), time_left())
        for at, request in enumerate(batch.requests):
            pace.check_time(time_left())
            shown = shown_to(request.user, request.exclude_shown)
            measured = pace.knows(_parts([request]))
            # Each on its own, so that others have their turn between.
            with pace.turn(live.asked_for(request.user, request.model)) as served:
                try:
                    answers.append(_recommended(served, request, request.rules(), shown, pace))
                except CofillError as error:
                    kind = kind_of(error) or ProblemType.SERVER_ERROR
                    raise ProblemError(kind.status, f"requests.{at}: {error}", kind=kind) from error
            if not measured:  # now it is
                pace.check(_parts(batch.requests[at + 1 :]), len(batch.requests), time_left())
        return answer({"answers": answers})

    @routes.add("GET", "/v1/why", Right.READS, Why, "What pushes an item up or down for a user")
    def explain_for_user(query: Annotated[WhyQuery, Query()]) -> Response:
        """base + amounts + remainder = unclipped, in lists or of the predicted rating."""
        with live.asked_for(query.user, query.model) as served:
            if not served.known_user(query.user):
                raise UnknownIdError(f"user {query.user!r} is not known; check the id, or POST the ratings instead")
            return answer(_why(served, query.user, query.item, query.by, None))

    @routes.add("POST", "/v1/why", Right.READS, Why, "What pushes an item up or down for somebody")
    def explain_for_somebody(request: WhyRequest) -> Response:
        """The same with a body: for a user, or for somebody described by ratings, features or both."""
        with live.asked_for(request.user, request.model) as served:
            return answer(_why(served, request.who, request.item, request.by, _features(served, request)))


def _parts(requests: Sequence[RecommendationRequest]) -> Counter[Hashable]:
    """What a batch consists of, as its pace is measured: lists, explained items, and waits for a turn."""
    parts: Counter[Hashable] = Counter({WAIT: len(requests)})
    for request in requests:
        kind, number = _list_part(request)
        parts[kind] += number
        if request.why:
            parts[_why_part(request.by, request.n)] += request.n
    return parts


def _why_part(by: By, n: int) -> Hashable:
    """Of which kind explained items are: many at once take less time each."""
    return "why", by, n.bit_length()


def _list_part(request: RecommendationRequest) -> tuple[Hashable, int]:
    """Of which kind a list is, and how many parts it counts for: each candidate for each place if picked one by one."""
    if request.diversity or request.at_most:
        return ("picked", request.by), request.n * candidates_for(request.n)
    return ("list", request.by), 1


def _recommended(
    served: ServedModel, request: RecommendationRequest, rules: Rules, shown: list[str], pace: Pace
) -> dict[str, Any]:
    model, by, rules = served.model, request.by, served.within_catalogue(rules, shown)
    who, features = request.who, _features(served, request)
    with pace.measured(*_list_part(request)):
        found = model.recommend(who, request.n, by=by, features=features, exclude_known=request.exclude_known, **rules)
    entries = [
        served.item_entry(
            one.item,
            score=significant(one.score),
            rating=None if one.rating is None else rounded(one.rating),
            raters=one.raters,
            mean=None if (mean := served.mean_rating(one.item)) is None else rounded(mean),
        )
        for one in found
    ]
    if request.why and found:
        with pace.measured(_why_part(by, request.n), len(found)):
            reasons = model.explain_many(who, [one.item for one in found], by=by, features=features)
        for entry, why in zip(entries, reasons, strict=True):
            entry["why"] = explained(why, _MOST_REASONS)
    known = None if request.user is None else served.in_model(request.user)
    users = () if request.user is None else (request.user,)
    unknown = unknown_ids(served, users, [*(request.among or ()), *(request.exclude or ())])
    return {"items": entries, "known": known, "model": served.name, "model_version": served.card.version} | unknown


def _features(served: ServedModel, request: Somebody) -> dict[str, Any] | None:
    """The features given in a request, or None; omitted columns are unknown."""
    return None if request.features is None else served.full_description("user", request.features)


def _why(served: ServedModel, who: Any, item: Id, by: By, features: dict[str, Any] | None) -> dict[str, Any]:
    why = served.model.explain(who, served.known_item(item), by=by, features=features)
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
    } | ({} if why.low is None or why.high is None else {"low": rounded(why.low), "high": rounded(why.high)})


def _speaker(one: Contribution) -> dict[str, Any]:
    about = {"item": one.item, "title": one.title, "rating": one.rating, "feature": one.feature}
    return {name: value for name, value in about.items() if value is not None}
