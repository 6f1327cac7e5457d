"""What clients send, as /openapi.json publishes it. Whatever is not known is refused."""

from math import isfinite
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PlainValidator,
    StrictBool,
    WithJsonSchema,
    model_validator,
)

from cofill.data.vocabulary import INT64

LONGEST_ID = 256
MOST_ITEMS = 100
MOST_PAIRS = 10_000
MOST_RATINGS = 1_000
MOST_REQUESTS = 100
MOST_AMONG = 10_000
MOST_COLUMNS = 200
MOST_VALUES = 100
LONGEST_TITLE = 500
LONGEST_VALUE = 10_000
DEEPEST = 5
NO_TEXT = "a text may not contain NUL or half of a surrogate pair"


def checked_text(text: str) -> str:
    """Text that a database and a page can hold."""
    if "\0" in text or any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        raise ValueError(NO_TEXT)
    return text


def _checked_id(id: object) -> int | str:
    """As it came: the model decides whether its ids are numbers or texts."""
    if isinstance(id, int) and not isinstance(id, bool) and INT64.min <= id <= INT64.max:
        return id
    if isinstance(id, str) and 0 < len(id) <= LONGEST_ID:
        return checked_text(id)
    raise ValueError(f"an id is a text of 1 to {LONGEST_ID} characters, or a whole number that fits 64 bits")


def _storable(value: JsonValue, depth: int = 0) -> JsonValue:
    """A value of a feature column, within bounds."""
    if depth > DEEPEST:
        raise ValueError(f"a value may not be nested more than {DEEPEST} deep")
    if isinstance(value, str):
        if len(value) > LONGEST_VALUE:
            raise ValueError(f"a text may have at most {LONGEST_VALUE} characters")
        return checked_text(value)
    if isinstance(value, list | dict):
        if len(value) > LONGEST_VALUE:
            raise ValueError(f"a list may have at most {LONGEST_VALUE} entries")
        for part in value.values() if isinstance(value, dict) else value:
            _storable(part, depth + 1)
        for key in value if isinstance(value, dict) else ():
            checked_text(key)
    if isinstance(value, int) and not isinstance(value, bool) and not INT64.min <= value <= INT64.max:
        raise ValueError("a whole number must fit 64 bits")
    return value


ItemOrUserId = Annotated[
    int | str,
    PlainValidator(_checked_id),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": int(INT64.min), "maximum": int(INT64.max)},
                {"type": "string", "minLength": 1, "maxLength": LONGEST_ID},
            ]
        }
    ),
]
Rating = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Count = Annotated[int, Field(strict=True, ge=1, le=MOST_ITEMS)]
Value = Annotated[JsonValue, AfterValidator(_storable)]
Column = Annotated[str, Field(strict=True, min_length=1, max_length=LONGEST_ID), AfterValidator(checked_text)]
Title = Annotated[str, Field(strict=True, min_length=1, max_length=LONGEST_TITLE), AfterValidator(checked_text)]
Description = Annotated[dict[Column, Value], Field(max_length=MOST_COLUMNS)]


class Message(BaseModel):
    """Sent by a client: whatever is not known is refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class Given(Message):
    """What somebody gave an item."""

    item: ItemOrUserId
    rating: Rating


class Bounds(BaseModel):
    """Of a number or a date, inclusive; one of them may be missing."""

    min: bool | int | float | str | None = None
    max: bool | int | float | str | None = None


def _checked_condition(wanted: object) -> object:
    """A value, a list of which any will do, or bounds; whether it fits its column is for the model to say."""
    if isinstance(wanted, dict):
        if not wanted or not wanted.keys() <= {"min", "max"}:
            raise ValueError("bounds are min, max, or both")
        return Bounds.model_validate({name: _checked_value(bound) for name, bound in wanted.items()})
    if isinstance(wanted, list):
        if not 0 < len(wanted) <= MOST_VALUES:
            raise ValueError(f"a list has 1 to {MOST_VALUES} values")
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
_VALUES = {"type": "array", "items": _VALUE, "minItems": 1, "maxItems": MOST_VALUES}
Condition = Annotated[
    bool | int | float | str | list[Any] | Bounds,
    PlainValidator(_checked_condition),
    WithJsonSchema({"anyOf": [*_VALUE["anyOf"], _VALUES, _BOUNDS]}),
]
Where = Annotated[dict[Column, Condition], Field(max_length=MOST_COLUMNS)]


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
        distinct(self.ratings or ())
        return self

    @property
    def who(self) -> int | str | dict[int | str, float]:
        """As `Recommender.recommend` takes it."""
        return self.user if self.user is not None else {given.item: given.rating for given in self.ratings or ()}


class RecommendationRequest(Somebody):
    n: Count = 10
    exclude_known: StrictBool = True
    where: Where | None = None
    among: list[ItemOrUserId] | None = Field(default=None, max_length=MOST_AMONG)
    exclude: list[ItemOrUserId] | None = Field(default=None, max_length=MOST_AMONG)
    why: StrictBool = False


class BatchRequest(Message):
    requests: list[RecommendationRequest] = Field(min_length=1, max_length=MOST_REQUESTS)


class Pair(Message):
    user: ItemOrUserId
    item: ItemOrUserId


class PredictionRequest(Message):
    pairs: list[Pair] = Field(min_length=1, max_length=MOST_PAIRS)


class WhyRequest(Somebody):
    item: ItemOrUserId


class RatingsToStore(Message):
    user: ItemOrUserId
    ratings: list[Given] = Field(min_length=1, max_length=MOST_RATINGS)

    @model_validator(mode="after")
    def _each_once(self) -> "RatingsToStore":
        distinct(self.ratings)
        return self


class ItemToStore(Message):
    id: ItemOrUserId
    title: Title | None = None
    features: Description | None = None


class UserToMake(Message):
    features: Description | None = None


class UserToStore(Message):
    id: ItemOrUserId
    features: Description


def distinct(ratings: "list[Given] | tuple[()]") -> None:
    """ValueError where an item is rated twice; 42 and "42" are the same item."""
    items = [str(given.item) for given in ratings]
    if len(set(items)) < len(items):
        twice = next(item for at, item in enumerate(items) if item in items[:at])
        raise ValueError(f"item {twice!r} is rated twice; keep one of its ratings")
