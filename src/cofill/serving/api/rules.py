"""Rules of lists in requests: what a list is ranked by, which items may be in it, which count for more.

In a body they are JSON; in a query they are the words of `data/conditions.py`, as on the command line.
"""

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, Field, PlainValidator, WithJsonSchema

from cofill.data.attributes import Attributes, Condition, Scalar
from cofill.data.conditions import GREATEST_BOOST, boosts_in, conditions_in, limits_in
from cofill.data.vocabulary import INT64, Id
from cofill.errors import DataError
from cofill.models.lists.rules import By, Rules, SimilarRules
from cofill.serving.api.requests import (
    LONGEST_TITLE,
    MOST_COLUMNS,
    Column,
    IdText,
    ItemOrUserId,
    Message,
    QueryModel,
    checked_text,
)
from cofill.serving.live.served import ServedModel

_Found = TypeVar("_Found")

_MOST_AMONG = 10_000
_MOST_AMONG_WORDS = 1_000
_MOST_VALUES = 100
_MOST_WORDS = 50
_MOST_RATERS = 1_000_000_000
_GREATEST_LIMIT = 1_000

_Word = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(checked_text)]

BY = "what the list is ranked by: what the user would choose and like, or a lower bound of the predicted rating"
_WHERE = "COLUMN:VALUE or COLUMN:LOW..HIGH; repeat a column to accept any of its values"
_BOOST = "COLUMN:VALUE=FACTOR: multiplies the scores of items that are so"
_AT_MOST = "COLUMN=N: at most N items with the same value of the column"
_AMONG = "only these items, by id; those that are not known are listed under `unknown` in the answer"
_EXCLUDE = "none of these items, by id; those that are not known are listed under `unknown` in the answer"
_MIN_RATINGS = "only items that at least so many people rated"
_DIVERSITY = "how much being unlike the items before it counts"
_NEW_ITEMS = "the share of places for items without ratings"


# In a body


class Bounds(BaseModel):
    """Of a number or a date, inclusive; one of them may be missing."""

    min: bool | int | float | str | None = Field(default=None, description="the least that will do")
    max: bool | int | float | str | None = Field(default=None, description="the greatest that will do")


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


_Factor = Annotated[float, Field(strict=True, gt=0, le=GREATEST_BOOST, allow_inf_nan=False)]
_Value = Annotated[str, Field(strict=True, min_length=1, max_length=LONGEST_TITLE), AfterValidator(checked_text)]
_Boosts = Annotated[dict[_Value, _Factor], Field(max_length=_MOST_VALUES)]
_Limit = Annotated[int, Field(strict=True, ge=1, le=_GREATEST_LIMIT)]
_Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]


class RuleMessage(Message):
    """Rules in a body."""

    by: By = Field(default="list", description=BY)
    where: Where | None = Field(
        default=None,
        description="{column: condition}: only items that are so; a condition is a value, a list of which any will "
        "do, or bounds {min, max}",
    )
    among: list[ItemOrUserId] | None = Field(default=None, max_length=_MOST_AMONG, description=_AMONG)
    exclude: list[ItemOrUserId] | None = Field(default=None, max_length=_MOST_AMONG, description=_EXCLUDE)
    boost: Annotated[dict[Column, _Boosts], Field(max_length=MOST_COLUMNS)] | None = Field(
        default=None, description="{column: {value: factor}}: multiplies the scores of items that are so"
    )
    at_most: Annotated[dict[Column, _Limit], Field(max_length=MOST_COLUMNS)] | None = Field(
        default=None, description="{column: n}: at most n items with the same value of the column"
    )
    min_ratings: Annotated[int, Field(strict=True, ge=0, le=_MOST_RATERS)] = Field(0, description=_MIN_RATINGS)
    diversity: _Share = Field(default=0.0, description=_DIVERSITY)
    new_items: _Share = Field(default=0.0, description=_NEW_ITEMS)

    def rules(self) -> Rules:
        """As `Recommender.recommend` takes them."""
        where = {column: _condition(wanted) for column, wanted in (self.where or {}).items()}
        return Rules(
            where=where,
            among=self.among,
            exclude=self.exclude,
            boost={column: dict[Scalar, float](values.items()) for column, values in (self.boost or {}).items()},
            at_most=self.at_most,
            min_ratings=self.min_ratings,
            diversity=self.diversity,
            new_items=self.new_items,
        )


def _condition(wanted: Any) -> Condition:
    if isinstance(wanted, Bounds):
        return wanted.model_dump(exclude_none=True)
    condition: Condition = wanted
    return condition


# In a query


class SimilarRuleQuery(QueryModel):
    """Rules of lists of similar items in a query."""

    where: list[_Word] | None = Field(default=None, max_length=_MOST_WORDS, description=_WHERE)
    among: list[IdText] | None = Field(default=None, max_length=_MOST_AMONG_WORDS, description=_AMONG)
    exclude: list[IdText] | None = Field(default=None, max_length=_MOST_AMONG_WORDS, description=_EXCLUDE)
    min_ratings: int = Field(default=0, ge=0, le=_MOST_RATERS, description=_MIN_RATINGS)
    at_most: list[_Word] | None = Field(default=None, max_length=_MOST_WORDS, description=_AT_MOST)
    diversity: float = Field(default=0.0, ge=0, le=1, allow_inf_nan=False, description=_DIVERSITY)

    def similar_rules(self, attributes: Attributes) -> SimilarRules:
        """As `Recommender.similar` takes them."""
        return SimilarRules(
            where=_read("where", self.where, lambda words: conditions_in(words, attributes)),
            among=self.among,
            exclude=self.exclude,
            min_ratings=self.min_ratings,
            at_most=_read("at_most", self.at_most, limits_in),
            diversity=self.diversity,
        )


class RuleQuery(SimilarRuleQuery):
    """Rules in a query."""

    by: By = Field(default="list", description=BY)
    boost: list[_Word] | None = Field(default=None, max_length=_MOST_WORDS, description=_BOOST)
    new_items: float = Field(default=0.0, ge=0, le=1, allow_inf_nan=False, description=_NEW_ITEMS)

    def rules(self, attributes: Attributes) -> Rules:
        """As `Recommender.recommend` takes them."""
        return Rules(
            **self.similar_rules(attributes),
            boost=_read("boost", self.boost, lambda words: boosts_in(words, attributes)),
            new_items=self.new_items,
        )


# In an answer


def unknown_ids(served: ServedModel, users: Iterable[Id], items: Iterable[Id]) -> dict[str, Any]:
    """{"unknown": ...} if some ids are, each once and as it was sent; else nothing."""
    found = {
        "users": [user for user in dict.fromkeys(users) if not served.in_model(user)],
        "items": [item for item in dict.fromkeys(items) if not served.has_item(item)],
    }
    return {"unknown": found} if any(found.values()) else {}


def _read(
    name: str, words: list[str] | None, read: Callable[[list[str]], Mapping[str, _Found]]
) -> Mapping[str, _Found]:
    try:
        return read(words or [])
    except DataError as error:
        raise error.said_of(f"{name}={error.where}") from error
