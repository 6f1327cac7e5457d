"""What the server answers: its routes publish these models, and the clients read its answers by them.

Fields that a newer server sends beside these are left out.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Id = int | str
By = Literal["list", "rating"]

LOW = "where the 90 % prediction interval of a rating begins; left out where the model has no intervals"
HIGH = "where it ends"
ANSWERED = "the name of the model that answered"
_NEXT = "the cursor of the next page; null after the last"

_OWN_ID = "its id"
_ITEM_ID = "the id of an item"
_TITLE = "the title; null if there is none"
_ATTRIBUTES = "what is known of the item, by column"
_VERSION = "the version of the model that answered"
_STALE = "true: the database does not answer, so what is new in it is not taken into account; else left out"
_RATINGS = "how many ratings there are"
_MEAN = "the mean of its ratings; null if there are none"
_USERS = "how many users it knows"
_ITEMS = "how many items it knows"
_KIND = "of which kind it is"
_TRAINED = "when it was trained"
_MODEL_VERSION = "the version of the model"
_MODEL_NAME = "the name of the model"


class Reply(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class FromModel(Reply):
    """What a model answered."""

    model_version: str = Field(description=_VERSION)
    stale: bool | None = Field(default=None, description=_STALE)


# Lists


class UnknownIds(Reply):
    """Ids of the request that the server does not know: they counted for nothing."""

    users: list[Id] = Field(description="of users")
    items: list[Id] = Field(description="of items")


class Push(Reply):
    """One of a user's ratings or features, and how far it moves an item."""

    amount: float = Field(description="how far it moves the item up (above 0) or down")
    item: Id | None = Field(default=None, description="the item that was rated")
    title: str | None = Field(default=None, description="its title")
    rating: float | None = Field(default=None, description="the rating")
    feature: str | None = Field(default=None, description="the column of features that speaks")


class Why(Reply):
    """base + the amounts + remainder = unclipped; `value` is that, a rating within the scale."""

    item: Id = Field(description=_ITEM_ID)
    title: str | None = Field(default=None, description="its title")
    by: By = Field(description="what was explained: the score in lists, or the predicted rating")
    value: float = Field(description="the score, or the rating within the scale")
    unclipped: float = Field(description="the value before it was brought within the scale")
    base: float = Field(description="the value for a user without ratings")
    contributions: list[Push] = Field(description="what pushes it up or down, the strongest first")
    remainder: float = Field(description="what no single rating or feature is answerable for")
    groups: dict[str, float] | None = Field(
        default=None,
        description="of a list that follows order and time: what comes from the trend, the history and the order of "
        "what was done last; they add up to `unclipped`",
    )
    low: float | None = Field(default=None, description=LOW)
    high: float | None = Field(default=None, description=HIGH)
    model: str | None = Field(default=None, description=ANSWERED)
    model_version: str | None = Field(default=None, description="its version")
    stale: bool | None = Field(default=None, description=_STALE)


class RecommendedItem(Reply):
    id: Id = Field(description=_OWN_ID)
    title: str | None = Field(description=_TITLE)
    score: float = Field(description="what the list is ranked by; higher is better")
    rating: float | None = Field(description="the predicted rating; null if the model knows interactions alone")
    raters: int = Field(description="how many people rated it")
    mean: float | None = Field(description=_MEAN)
    attributes: dict[str, Any] = Field(description=_ATTRIBUTES)
    why: Why | None = Field(default=None, description="why it is in the list, if that was asked for")


class Recommended(FromModel):
    """A list, best first."""

    items: list[RecommendedItem] = Field(description="best first")
    known: bool | None = Field(description="whether the model knows the user; null for a described user")
    unknown: UnknownIds | None = Field(
        default=None,
        description="ids of the user, of `among` and of `exclude` that are not known; left out if there are none",
    )
    model: str = Field(description=ANSWERED)


class RecommendedBatch(Reply):
    answers: list[Recommended] = Field(description="one for each request, in their order")


class Predicted(FromModel):
    """In the order of the pairs."""

    ratings: list[float] = Field(description="in the order of the pairs")
    low: list[float] | None = Field(default=None, description=LOW)
    high: list[float] | None = Field(default=None, description=HIGH)
    unknown: UnknownIds | None = Field(
        default=None,
        description="ids that are not known: the biases are predicted of them; else left out",
    )
    model: str = Field(description=ANSWERED)


# Items


class SimilarItem(Reply):
    id: Id = Field(description=_OWN_ID)
    title: str | None = Field(description=_TITLE)
    similarity: float = Field(description="how much it is like the item that was asked about; 1 is the same")
    attributes: dict[str, Any] = Field(description=_ATTRIBUTES)


class SimilarItems(FromModel):
    """The most similar first."""

    items: list[SimilarItem] = Field(description="the most similar first")
    unknown: UnknownIds | None = Field(default=None, description="ids of `among` and `exclude` that are not known")


class PopularItem(Reply):
    id: Id = Field(description=_OWN_ID)
    title: str | None = Field(description=_TITLE)
    users: int = Field(description="how many users did something with it in the period")
    attributes: dict[str, Any] = Field(description=_ATTRIBUTES)


class PopularItems(FromModel):
    items: list[PopularItem] = Field(description="the most popular first")
    unknown: UnknownIds | None = Field(default=None, description="ids of `among` and `exclude` that are not known")


class NewItem(Reply):
    id: Id = Field(description=_OWN_ID)
    title: str | None = Field(description=_TITLE)
    added: float = Field(description="since when it is in the catalogue, in seconds since 1970")
    attributes: dict[str, Any] = Field(description=_ATTRIBUTES)


class NewItems(FromModel):
    items: list[NewItem] = Field(description="the newest first")
    unknown: UnknownIds | None = Field(default=None, description="ids of `among` and `exclude` that are not known")


class FoundItem(Reply):
    id: Id = Field(description=_OWN_ID)
    title: str | None = Field(description=_TITLE)
    ratings: int = Field(description=_RATINGS)
    attributes: dict[str, Any] = Field(description=_ATTRIBUTES)


class FoundItems(FromModel):
    items: list[FoundItem] = Field(description="the items")


class Share(Reply):
    rating: float = Field(description="a rating, or the middle of some")
    count: int = Field(description="how many there are")


class ItemRatings(Reply):
    count: int = Field(description="how many there are")
    mean: float | None = Field(description=_MEAN)
    distribution: list[Share] = Field(description="how many ratings there are of each kind")


class Item(FromModel):
    id: Id = Field(description=_OWN_ID)
    title: str | None = Field(description=_TITLE)
    available: bool = Field(description="whether it may be in lists")
    available_until: float | None = Field(
        default=None, description="when it is hidden, in seconds since 1970; null if that is not planned"
    )
    attributes: dict[str, Any] = Field(description=_ATTRIBUTES)
    ratings: ItemRatings = Field(description="how it was rated")
    similar: list[SimilarItem] = Field(description="items that are like it, the most similar first")


class ListedItem(Reply):
    id: Id = Field(description=_OWN_ID)
    title: str | None = Field(description=_TITLE)
    available: bool = Field(description="whether it may be in lists")
    ratings: int = Field(description=_RATINGS)
    attributes: dict[str, Any] = Field(description=_ATTRIBUTES)


class ListedItems(FromModel):
    """A page of the catalogue; `next` is the cursor of the one after it, None after the last."""

    items: list[ListedItem] = Field(description="the items")
    next: str | None = Field(description=_NEXT)


class MapItem(Reply):
    id: Id = Field(description=_OWN_ID)
    title: str | None = Field(description=_TITLE)
    x: float = Field(description="from left to right")
    y: float = Field(description="from below to above")
    ratings: int = Field(description=_RATINGS)
    group: str | None = Field(description="what it is by the column of the groups; null if that is not known")


class Map(FromModel):
    items: list[MapItem] = Field(description="the items")
    group_column: str | None = Field(description="the column that items are grouped by; null if there is none")


# People


class LovedItem(Reply):
    id: Id = Field(description=_OWN_ID)
    title: str | None = Field(description=_TITLE)


class FoundUser(Reply):
    id: Id = Field(description=_OWN_ID)
    ratings: int = Field(description=_RATINGS)
    loves: list[LovedItem] = Field(description="what they rated furthest above its mean, of what is well known")


class FoundUsers(Reply):
    users: list[FoundUser] = Field(description="the users")


class ListedUser(Reply):
    id: Id = Field(description=_OWN_ID)
    ratings: int = Field(description=_RATINGS)


class ListedUsers(Reply):
    """A page of all users; `next` is the cursor of the one after it, None after the last."""

    users: list[ListedUser] = Field(description="the users")
    next: str | None = Field(description=_NEXT)


class MadeUser(Reply):
    id: Id = Field(description=_OWN_ID)


class KnownRating(Reply):
    item: Id = Field(description=_ITEM_ID)
    title: str | None = Field(description=_TITLE)
    rating: float = Field(description="the rating")
    live: bool = Field(description="whether it was given live, not in the training data")


class KnownRatings(Reply):
    ratings: list[KnownRating] = Field(description="the ratings")


class Stored(Reply):
    stored: int = Field(description="how many were stored")


class EventsStored(Reply):
    """How many were new, and how many had been sent before."""

    stored: int = Field(description="how many were stored")
    repeated: int = Field(description="events whose ids were known already; they were not counted again")


class LatestEvent(Reply):
    user: Id = Field(description="the id of the user")
    item: Id = Field(description=_ITEM_ID)
    title: str | None = Field(description=_TITLE)
    kind: str = Field(description=_KIND)
    weight: float = Field(description="how much it counts; 0 for an impression")
    time: float = Field(description="when it happened, in seconds since 1970")
    received: float = Field(description="when it came, in seconds since 1970")
    model_version: str | None = Field(description="of the answer that the item was shown in, if it was said")


class LatestEvents(Reply):
    events: list[LatestEvent] = Field(description="the last one first")


class ClickThroughDay(Reply):
    day: str = Field(description="such as 2026-01-31, in UTC")
    model_version: str = Field(description="the version of the model; `other` for versions that were not served")
    shown: int = Field(description="how many items were shown")
    events: dict[str, int] = Field(description="what people did with items that were shown to them, by kind")


class ClickThrough(Reply):
    days: list[ClickThroughDay] = Field(description="one for each day and version, the latest day first")


# The model and the server


class ScaleMessage(Reply):
    low: float = Field(description="the least rating")
    high: float = Field(description="the greatest rating")
    step: float | None = Field(description="the step between possible ratings; null if they are any number")


class ModelRatings(Reply):
    trained: int = Field(description="how many the model was trained on")
    live: int | None = Field(description="how many were given live; null while the database does not answer")


class FilterColumn(Reply):
    name: str = Field(description="the name of the column")
    kind: Literal["number", "category", "several", "flag", "date", "text", "image"] = Field(
        description="of which kind it is"
    )
    values: list[dict[str, Any]] = Field(
        description="the values that items have, and how many have each, the most frequent first"
    )
    low: float | str | None = Field(description="the least value; null if there is none")
    high: float | str | None = Field(description="the greatest value; null if there is none")


class DescribingColumn(Reply):
    column: str = Field(description="the name of the column")
    kind: str = Field(description=_KIND)
    example: str = Field(description="a value of the column")
    choices: list[str] = Field(description="what can be chosen from; empty where anything can be said")


class ServedMessage(Reply):
    """One of the models that are served at once."""

    name: str = Field(description=_MODEL_NAME)
    share: float = Field(description="the part of the people that it gets")
    version: str = Field(description=_MODEL_VERSION)
    kind: str = Field(description=_KIND)
    trained: str = Field(description=_TRAINED)
    users: int = Field(description=_USERS)
    items: int = Field(description=_ITEMS)
    refused: int = Field(description="live ratings and descriptions that do not fit it, and are left out")
    before: str | None = Field(description="the version that a rollback would serve; null if none is kept")


class ModelMessage(Reply):
    name: str = Field(description=_MODEL_NAME)
    kind: str = Field(description=_KIND)
    orientation: Literal["item", "user", "both"] = Field(description="what the rows of the network are")
    version: str = Field(description=_MODEL_VERSION)
    cofill_version: str = Field(description="the version of cofill that made the model")
    trained: str = Field(description=_TRAINED)
    trained_is_known: bool = Field(
        description="false: an older cofill wrote the model and did not say; `trained` is when the file was written"
    )
    rated: bool = Field(description="whether it was trained on ratings; otherwise on interactions, and rates nothing")
    read_only: bool = Field(description="whether the server keeps nothing, so that nothing can be written")
    scale: ScaleMessage = Field(description="between which numbers ratings lie")
    users: int = Field(description=_USERS)
    items: int = Field(description=_ITEMS)
    ratings: ModelRatings = Field(description="how many ratings there are")
    settings: dict[str, Any] = Field(description="the settings that the model was trained with")
    measures: dict[str, Any] = Field(description="what was measured when the model was trained")
    history: list[dict[str, Any]] = Field(description="what was measured after each epoch of the training")
    data: dict[str, Any] = Field(description="the data that the model was trained on")
    item_columns: list[FilterColumn] = Field(description="the columns that lists can be filtered by")
    user_columns: list[DescribingColumn] = Field(description="the columns that a user can be described by")
    item_feature_columns: list[DescribingColumn] = Field(description="the columns that an item can be described by")
    models: list[ServedMessage] = Field(description="all models that are served, this one among them")


class Reloaded(Reply):
    model: str = Field(description=_MODEL_NAME)
    version: str = Field(description=_MODEL_VERSION)
    users: int = Field(description=_USERS)
    items: int = Field(description=_ITEMS)


class Training(Reply):
    time: str = Field(description="when it began")
    seconds: float | None = Field(default=None, description="how long it took")
    version: str | None = Field(default=None, description="the version of the new model")
    promoted: bool = Field(description="whether the new model took the place of the served one")
    users: int | None = Field(default=None, description="by how many users of the newest day they were compared")
    served_ndcg: float | None = Field(default=None, description="NDCG@10 of the model that was served")
    new_ndcg: float | None = Field(default=None, description="NDCG@10 of the new one")
    failed: str | None = Field(default=None, description="why there is no new model")


class Trainings(Reply):
    trainings: list[Training] = Field(description="the latest first")


class Status(Reply):
    status: Literal["alive", "ready"] = Field(description="the state of the server")
