"""What clients get, as /openapi.json publishes it."""

from typing import Any, Literal

from pydantic import BaseModel, Field, JsonValue


class Push(BaseModel):
    """One of somebody's ratings, or a column of what is known about them, and how far it moves a prediction."""

    amount: float
    item: int | str | None = None
    title: str | None = None
    rating: float | None = None
    feature: str | None = None


class Why(BaseModel):
    """base + the amounts + remainder = unclipped; `rating` is that within the scale."""

    item: int | str
    title: str | None = None
    rating: float
    unclipped: float
    base: float
    contributions: list[Push]
    remainder: float
    model_version: str | None = None


class RecommendedItem(BaseModel):
    id: int | str
    title: str | None
    rating: float
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


class SimilarItem(BaseModel):
    id: int | str
    title: str | None
    similarity: float
    attributes: dict[str, JsonValue]


class SimilarItems(BaseModel):
    items: list[SimilarItem]
    model_version: str


class FoundItem(BaseModel):
    id: int | str
    title: str | None
    ratings: int
    attributes: dict[str, JsonValue]


class FoundItems(BaseModel):
    items: list[FoundItem]
    model_version: str


class Share(BaseModel):
    rating: float
    count: int


class ItemRatings(BaseModel):
    count: int
    mean: float | None
    distribution: list[Share]


class Item(BaseModel):
    id: int | str
    title: str | None
    attributes: dict[str, JsonValue]
    ratings: ItemRatings
    similar: list[SimilarItem]
    model_version: str


class MapItem(BaseModel):
    id: int | str
    title: str | None
    x: float
    y: float
    ratings: int
    group: str | None


class Map(BaseModel):
    items: list[MapItem]
    group_column: str | None
    model_version: str


class FoundUser(BaseModel):
    id: int | str
    ratings: int


class FoundUsers(BaseModel):
    users: list[FoundUser]


class MadeUser(BaseModel):
    id: int | str


class KnownRating(BaseModel):
    item: int | str
    title: str | None
    rating: float
    live: bool


class KnownRatings(BaseModel):
    ratings: list[KnownRating]


class Stored(BaseModel):
    stored: int


class ScaleMessage(BaseModel):
    low: float
    high: float
    step: float | None


class ModelRatings(BaseModel):
    trained: int
    live: int


class FilterColumn(BaseModel):
    name: str
    kind: Literal["number", "category", "several", "flag", "date", "text"]
    values: list[dict[str, JsonValue]]
    low: float | str | None
    high: float | str | None


class DescribingColumn(BaseModel):
    column: str
    kind: str
    example: str


class ModelMessage(BaseModel):
    name: str
    kind: str
    orientation: Literal["user", "item"]
    version: str
    cofill_version: str
    trained: str = Field(description="when the model's file was written")
    scale: ScaleMessage
    users: int
    items: int
    ratings: ModelRatings
    settings: dict[str, JsonValue]
    measures: dict[str, JsonValue]
    history: list[dict[str, JsonValue]]
    data: dict[str, JsonValue]
    item_columns: list[FilterColumn]
    user_columns: list[DescribingColumn]
    item_feature_columns: list[DescribingColumn]


class Reloaded(BaseModel):
    version: str
    users: int
    items: int


class Status(BaseModel):
    status: Literal["alive", "ready"]


class ProblemMessage(BaseModel):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: list[dict[str, Any]] | None = None
