"""What the server answers. Fields that a newer server sends beside these are left out.

They are those of the OpenAPI document, to which a test holds them.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Id = int | str
By = Literal["list", "rating"]


class Reply(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


# Lists


class UnknownIds(Reply):
    """Ids of the request that the server does not know: they counted for nothing."""

    users: list[Id]
    items: list[Id]


class Push(Reply):
    """One of somebody's ratings, or a column of what is known about them, and how far it moves an item."""

    amount: float
    item: Id | None = None
    title: str | None = None
    rating: float | None = None
    feature: str | None = None


class Why(Reply):
    """base + the amounts + remainder = unclipped; `value` is that, a rating within the scale."""

    item: Id
    title: str | None = None
    by: By
    value: float
    unclipped: float
    base: float
    contributions: list[Push]
    remainder: float
    low: float | None = None
    high: float | None = None
    model: str | None = None
    model_version: str | None = None


class RecommendedItem(Reply):
    id: Id
    title: str | None
    score: float
    rating: float | None
    raters: int
    mean: float | None = None
    attributes: dict[str, Any]
    why: Why | None = None


class Recommended(Reply):
    """A list, best first."""

    items: list[RecommendedItem]
    known: bool | None
    unknown: UnknownIds | None = None
    model: str
    model_version: str


class RecommendedBatch(Reply):
    answers: list[Recommended]


class Predicted(Reply):
    """In the order of the pairs."""

    ratings: list[float]
    low: list[float] | None = None
    high: list[float] | None = None
    unknown: UnknownIds | None = None
    model: str
    model_version: str


# Items


class SimilarItem(Reply):
    id: Id
    title: str | None
    similarity: float
    attributes: dict[str, Any]


class SimilarItems(Reply):
    """The most similar first."""

    items: list[SimilarItem]
    unknown: UnknownIds | None = None
    model_version: str


class FoundItem(Reply):
    id: Id
    title: str | None
    ratings: int
    attributes: dict[str, Any]


class FoundItems(Reply):
    items: list[FoundItem]
    model_version: str


class Share(Reply):
    rating: float
    count: int


class ItemRatings(Reply):
    count: int
    mean: float | None
    distribution: list[Share]


class Item(Reply):
    id: Id
    title: str | None
    available: bool = True
    attributes: dict[str, Any]
    ratings: ItemRatings
    similar: list[SimilarItem]
    model_version: str


class ListedItem(Reply):
    id: Id
    title: str | None
    available: bool
    ratings: int
    attributes: dict[str, Any]


class ListedItems(Reply):
    """A page of the catalogue; `next` is the cursor of the one after it, None after the last."""

    items: list[ListedItem]
    next: str | None
    model_version: str


class MapItem(Reply):
    id: Id
    title: str | None
    x: float
    y: float
    ratings: int
    group: str | None


class Map(Reply):
    items: list[MapItem]
    group_column: str | None
    model_version: str


# People


class LovedItem(Reply):
    id: Id
    title: str | None


class FoundUser(Reply):
    id: Id
    ratings: int
    loves: list[LovedItem] = []


class FoundUsers(Reply):
    users: list[FoundUser]


class ListedUser(Reply):
    id: Id
    ratings: int


class ListedUsers(Reply):
    """A page of all users; `next` is the cursor of the one after it, None after the last."""

    users: list[ListedUser]
    next: str | None


class MadeUser(Reply):
    id: Id


class KnownRating(Reply):
    item: Id
    title: str | None
    rating: float
    live: bool


class KnownRatings(Reply):
    ratings: list[KnownRating]


class Stored(Reply):
    stored: int


class EventsStored(Reply):
    """How many were new, and how many had been sent before."""

    stored: int
    repeated: int


# The model and the server


class ScaleMessage(Reply):
    low: float
    high: float
    step: float | None


class ModelRatings(Reply):
    trained: int
    live: int


class FilterColumn(Reply):
    name: str
    kind: str
    values: list[dict[str, Any]]
    low: float | str | None
    high: float | str | None


class DescribingColumn(Reply):
    column: str
    kind: str
    example: str
    choices: list[str] = []


class SettingMessage(Reply):
    name: str
    label: str
    help: str
    value: Any


class ServedMessage(Reply):
    """One of the models that are served at once."""

    name: str
    share: float
    version: str
    kind: str
    trained: str
    users: int
    items: int
    refused: int
    before: str | None


class ModelMessage(Reply):
    name: str
    kind: str
    orientation: str
    version: str
    cofill_version: str
    trained: str
    trained_is_known: bool
    rated: bool
    read_only: bool
    scale: ScaleMessage
    users: int
    items: int
    ratings: ModelRatings
    settings: Mapping[str, Any]
    settings_explained: list[SettingMessage] = []
    measures: Mapping[str, Any]
    history: list[dict[str, Any]]
    data: Mapping[str, Any]
    item_columns: list[FilterColumn]
    user_columns: list[DescribingColumn]
    item_feature_columns: list[DescribingColumn]
    models: list[ServedMessage]


class Reloaded(Reply):
    model: str
    version: str
    users: int
    items: int


class Status(Reply):
    status: str
