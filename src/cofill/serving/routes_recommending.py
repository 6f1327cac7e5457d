"""Recommendations, predictions and explanations."""

import time
from collections.abc import Sequence
from math import isfinite
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from fastapi import Query, Response
from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    JsonValue,
    PlainValidator,
    StrictBool,
    WithJsonSchema,
    model_validator,
)

from cofill.data.attributes import Condition
from cofill.data.vocabulary import INT64, Id
from cofill.errors import CofillError, DataError, UnknownIdError
from cofill.models.explanation import Contribution, Explanation
from cofill.models.lists.rules import By
from cofill.models.recommender import Recommender
from cofill.serving.live_model import LiveModel
from cofill.serving.problems import ProblemError
from cofill.serving.request_messages import (
    LONGEST_TITLE,
    MOST_COLUMNS,
    MOST_RATINGS,
    Column,
    Count,
    CountText,
    Description,
    Given,
    IdText,
    ItemOrUserId,
    Message,
    PairQuery,
    QueryModel,
    check_distinct,
    checked_text,
)
from cofill.serving.routing import Right, Routes, WorksForLong, answer, rounded
from cofill.serving.served_model import ServedModel

_MOST_REASONS = 10  # beside each item of a list; /v1/why has them all
_MOST_PAIRS = 10_000
_MOST_REQUESTS = 100
_MOST_AMONG = 10_000
_MOST_VALUES = 100

Flags = npt.NDArray[np.bool_]


# What is asked


_ConditionText = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(checked_text)]


class RecommendationQuery(QueryModel):
    user: IdText
    n: CountText = 10
    exclude_known: bool = True
    where: list[_ConditionText] | None = Field(
        default=None,
        max_length=50,
        description="COLUMN:VALUE or COLUMN:LOW..HIGH; repeat a column to accept any of its values",
    )
    among: list[IdText] | None = Field(default=None, max_length=1000)
    why: bool = False


class Bounds(BaseModel):
    """Of a number or a date, inclusive; one of them may be missing."""

    min: bool | int | float | str | None = None
    max: bool | int | float | str | None = None


def _checked_condition(wanted: object) -> object:
    """A value, a list of accepted values, or bounds; the model checks whether it fits its column."""
    if isinstance(wanted, dict):
        if not wanted or not wanted.keys() <= {"min", "max"}:
            raise ValueError("bounds are min, max, or both")
        return Bounds.model_validate({name: _checked_value(bound) for name, bound in wanted.items()})
    if isinstance(wanted, list):
        if not 0 < len(wanted) <= _MOST_VALUES:
            raise ValueError(f"a list has 1 to {_MOST_VALUES} values")
        return [_checked_value(value) for value in wanted]
    return _checked_value(wanted)


def _checked_value(value: object) -> object:
    if isinstance(value, str) and len(value) <= LONGEST_TITLE:
        return checked_text(value)
    if isinstance(value, bool) or (isinstance(value, float) and isfinite(value)):
        return value
    if isinstance(value, int) and INT64.min <= value <= INT64.max:  # one with hundreds of digits is no float
        return value
    raise ValueError(f"a value is a text of at most {LONGEST_TITLE} characters, a number, true or false")


_VALUE = {"anyOf": [{"type": "string", "maxLength": LONGEST_TITLE}, {"type": "number"}, {"type": "boolean"}]}
_BOUNDS = {
    "type": "object",
    "properties": {"min": _VALUE, "max": _VALUE},
    "additionalProperties": False,
    "minProperties": 1,
}
_VALUES = {"type": "array", "items": _VALUE, "minItems": 1, "maxItems": _MOST_VALUES}
ConditionMessage = Annotated[
    bool | int | float | str | list[Any] | Bounds,
    PlainValidator(_checked_condition),
    WithJsonSchema({"anyOf": [*_VALUE["anyOf"], _VALUES, _BOUNDS]}),
]
Where = Annotated[dict[Column, ConditionMessage], Field(max_length=MOST_COLUMNS)]


class Somebody(Message):
    """A user by id, or somebody described in the request by ratings, features, or both."""

    user: ItemOrUserId | None = None
    ratings: list[Given] | None = Field(default=None, max_length=MOST_RATINGS)
    features: Description | None = None

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


class RecommendationRequest(Somebody):
    n: Count = 10
    exclude_known: StrictBool = True
    where: Where | None = None
    among: list[ItemOrUserId] | None = Field(default=None, max_length=_MOST_AMONG)
    exclude: list[ItemOrUserId] | None = Field(default=None, max_length=_MOST_AMONG)
    why: StrictBool = False


class BatchRequest(Message):
    requests: list[RecommendationRequest] = Field(min_length=1, max_length=_MOST_REQUESTS)


class Pair(Message):
    user: ItemOrUserId
    item: ItemOrUserId


class PredictionRequest(Message):
    pairs: list[Pair] = Field(min_length=1, max_length=_MOST_PAIRS)


class WhyRequest(Somebody):
    item: ItemOrUserId


# What is answered


class Push(BaseModel):
    """One of somebody's ratings, or a column of what is known about them, and how far it moves a prediction."""

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
    model_version: str | None = None


class RecommendedItem(BaseModel):
    id: int | str
    title: str | None
    score: float = Field(description="what the list is ranked by; higher is better")
    rating: float | None = Field(description="the predicted rating; null if the model knows interactions alone")
    raters: int = Field(description="how many people rated it")
    attributes: dict[str, JsonValue]
    why: Why | None = None


class Recommended(BaseModel):
    items: list[RecommendedItem]
    known: bool | None = Field(description="whether the model knows the user; null for somebody described")
    model_version: str


class RecommendedBatch(BaseModel):
    answers: list[Recommended]


class Predicted(BaseModel):
    ratings: list[float]
    model_version: str


# Routes


def add_recommending(routes: Routes, live: LiveModel) -> None:
    @routes.add("GET", "/v1/recommendations", Right.READS, Recommended, "What a user would like")
    def for_user(query: Annotated[RecommendationQuery, Query()]) -> Response:
        with live.asked() as served:
            where = where_of(query.where, served.model) if query.where else None
            request = RecommendationRequest.model_construct(
                user=query.user,
                n=query.n,
                exclude_known=query.exclude_known,
                where=where,
                among=query.among,
                why=query.why,
            )
            return answer(_recommended(served, request))

    @routes.add("POST", "/v1/recommendations", Right.READS, Recommended, "What somebody would like")
    def for_somebody(request: RecommendationRequest) -> Response:
        with live.asked() as served:
            return answer(_recommended(served, request))

    @routes.add(
        "POST", "/v1/recommendations/batch", Right.READS, RecommendedBatch, "What many would like", kind=WorksForLong
    )
    def for_many(batch: BatchRequest) -> Response:
        answers = []
        until = time.monotonic() + live.seconds
        for at, request in enumerate(batch.requests):
            if time.monotonic() > until:  # nobody waits for the rest
                raise ProblemError(503, "the batch takes too long; send fewer requests at once")
            with live.asked() as served:  # each on its own, so that others have their turn between
                try:
                    answers.append(_recommended(served, request))
                except CofillError as error:
                    status = 404 if isinstance(error, UnknownIdError) else 422
                    raise ProblemError(status, f"requests.{at}: {error}") from error
        return answer({"answers": answers})

    @routes.add("POST", "/v1/predictions", Right.READS, Predicted, "What users would give items")
    def predictions(request: PredictionRequest) -> Response:
        with live.asked() as served:
            model = served.model
            users = model.users.find([pair.user for pair in request.pairs])
            items = model.items.find([pair.item for pair in request.pairs])
            ratings = [rounded(rating) for rating in model.predict_indices(users, items).tolist()]
            return answer({"ratings": ratings, "model_version": served.card.version})

    @routes.add("GET", "/v1/why", Right.READS, Why, "What pushes an item up or down for a user")
    def why_for_user(query: Annotated[PairQuery, Query()]) -> Response:
        with live.asked() as served:
            if not served.known_user(query.user):
                raise UnknownIdError(f"user {query.user!r} is not known; check the id, or POST the ratings instead")
            return answer(_why(served, query.user, query.item, None))

    @routes.add("POST", "/v1/why", Right.READS, Why, "What pushes an item up or down for somebody")
    def why_for_somebody(request: WhyRequest) -> Response:
        with live.asked() as served:
            return answer(_why(served, request.who, request.item, _features(served, request)))


def _recommended(served: ServedModel, request: RecommendationRequest) -> dict[str, Any]:
    model = served.model
    among = choosable(model, request.where, request.among, request.exclude)
    who, features = request.who, _features(served, request)
    found = model.recommend(who, request.n, features=features, exclude_known=request.exclude_known, among=among)
    entries = [
        served.item_entry(
            one.item,
            score=rounded(one.score),
            rating=None if one.rating is None else rounded(one.rating),
            raters=one.raters,
        )
        for one in found
    ]
    if request.why and found:
        reasons = model.explain_many(who, [one.item for one in found], features=features)
        for entry, why in zip(entries, reasons, strict=True):
            entry["why"] = explained(why, _MOST_REASONS)
    known = None if request.user is None else request.user in model.users
    return {"items": entries, "known": known, "model_version": served.card.version}


def _features(served: ServedModel, request: Somebody) -> dict[str, Any] | None:
    """The features given in a request, or None; omitted columns are unknown."""
    return None if request.features is None else served.full_description("user", request.features)


def _why(served: ServedModel, who: Any, item: Id, features: dict[str, Any] | None) -> dict[str, Any]:
    why = served.model.explain(who, served.known_item(item), features=features)
    return explained(why) | {"model_version": served.card.version}


def explained(why: Explanation, most: int | None = None) -> dict[str, Any]:
    """An explanation; beyond `most` contributions, the rest joins the remainder, so that it still adds up."""
    shown = why.contributions if most is None else why.contributions[:most]
    rest = sum(one.amount for one in why.contributions[len(shown) :])
    return {
        "item": why.item,
        "title": why.title,
        "by": why.by,
        "value": rounded(why.clipped),
        "unclipped": rounded(why.value),
        "base": rounded(why.base),
        "contributions": [_push(one) for one in shown],
        "remainder": rounded(why.remainder + rest),
    }


def _push(one: Contribution) -> dict[str, Any]:
    about = {"item": one.item, "title": one.title, "rating": one.rating, "feature": one.feature}
    return {"amount": rounded(one.amount)} | {name: value for name, value in about.items() if value is not None}


# Which items an answer is chosen from: conditions on their attributes, lists of ids


def choosable(
    model: Recommender,
    where: Where | None,
    among: Sequence[ItemOrUserId] | None,
    exclude: Sequence[ItemOrUserId] | None,
) -> Flags | None:
    """(items,): which items may be recommended; None if all may. Unknown ids are ignored."""
    if where is None and among is None and exclude is None:
        return None
    flags = np.ones(len(model.items), np.bool_)
    if among is not None:
        flags = _listed(model, among)
    if where:
        flags &= model.item_attributes.matching({column: _condition(wanted) for column, wanted in where.items()})
    if exclude:
        flags &= ~_listed(model, exclude)
    return flags


def where_of(words: Sequence[str], model: Recommender) -> Where:
    """Conditions from a query string: genres:Comedy, year:1990..1999, year:1990.. and year:..1999.

    Repeating a column accepts any of its values.
    """
    columns = {column.name: column for column in model.item_attributes.columns()}
    found: dict[str, Any] = {}
    for word in words:
        column, value = _split(word, columns)
        if column in columns and columns[column].ordered and ".." in value:
            if column in found:
                raise DataError(f"where={word}: {column} has two conditions; give one range")
            low, _, high = value.partition("..")
            if not low and not high:
                raise DataError(f"where={word}: a range has a beginning, an end, or both, such as {column}:1990..")
            found[column] = Bounds(min=low or None, max=high or None)
        elif isinstance(found.get(column), Bounds):
            raise DataError(f"where={word}: {column} has two conditions; give one range")
        else:
            found.setdefault(column, []).append(value)
    return found


def _split(word: str, columns: dict[str, Any]) -> tuple[str, str]:
    """Split COLUMN:VALUE; the name of a column may contain a colon."""
    own = [column for column in columns if word.startswith(f"{column}:")]
    column = max(own, key=len) if own else word.partition(":")[0]
    if not word.startswith(f"{column}:"):
        raise DataError(f"where={word}: write COLUMN:VALUE, such as genres:Comedy, or COLUMN:LOW..HIGH")
    return column, word[len(column) + 1 :]


def _condition(wanted: Any) -> Condition:
    if isinstance(wanted, Bounds):
        return wanted.model_dump(exclude_none=True)
    condition: Condition = wanted
    return condition


def _listed(model: Recommender, ids: Sequence[ItemOrUserId]) -> Flags:
    flags = np.zeros(len(model.items), np.bool_)
    indices = model.items.find(list(ids))
    flags[indices[indices >= 0]] = True
    return flags
