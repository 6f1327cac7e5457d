"""What the server answers: its routes publish these models, and the clients read its answers by them.

Fields that a newer server sends beside these are left out.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Id = int | str
By = Literal["list", "rating"]

LOW = "where the 90 % prediction interval of a rating begins; left out where the model has no intervals"
HIGH = "where it ends"
ANSWERED = "the name of the model that answered"
_NEXT = "the cursor of the next page; null after the last"

_OwnId = Annotated[Id, Field(description="its id")]
_ItemId = Annotated[Id, Field(description="the id of an item")]
_Title = Annotated[str | None, Field(description="the title; null if there is none")]
_Attributes = Annotated[dict[str, Any], Field(description="what is known of the item, by column")]
_Version = Annotated[str, Field(description="the version of the model that answered")]
_Ratings = Annotated[int, Field(description="how many ratings there are")]
_Mean = Annotated[float | None, Field(description="the mean of its ratings; null if there are none")]
_Users = Annotated[int, Field(description="how many users it knows")]
_Items = Annotated[int, Field(description="how many items it knows")]
_Kind = Annotated[str, Field(description="of which kind it is")]
_Trained = Annotated[str, Field(description="when it was trained")]
_ModelVersion = Annotated[str, Field(description="the version of the model")]
_ModelName = Annotated[str, Field(description="the name of the model")]


class Reply(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


# Lists


class UnknownIds(Reply):
    """Ids of the request that the server does not know: they counted for nothing."""

    users: list[Id] = Field(description="of users")
    items: list[Id] = Field(description="of items")


class Push(Reply):
    """One of somebody's ratings, or a column of what is known about them, and how far it moves an item."""

    amount: float = Field(description="how far it moves the item up (above 0) or down")
    item: Id | None = Field(default=None, description="the item that was rated")
    title: str | None = Field(default=None, description="its title")
    rating: float | None = Field(default=None, description="the rating")
    feature: str | None = Field(default=None, description="the column of features that speaks")


class Why(Reply):
    """base + the amounts + remainder = unclipped; `value` is that, a rating within the scale."""

    item: _ItemId
    title: str | None = Field(default=None, description="its title")
    by: By = Field(description="what was explained: the score in lists, or the predicted rating")
    value: float = Field(description="the score, or the rating within the scale")
    unclipped: float = Field(description="the value before it was brought within the scale")
    base: float = Field(description="what anybody would get")
    contributions: list[Push] = Field(description="what pushes it up or down, the strongest first")
    remainder: float = Field(description="what no single rating or feature is answerable for")
    low: float | None = Field(default=None, description=LOW)
    high: float | None = Field(default=None, description=HIGH)
    model: str | None = Field(default=None, description=ANSWERED)
    model_version: str | None = Field(default=None, description="its version")


class RecommendedItem(Reply):
    id: _OwnId
    title: _Title
    score: float = Field(description="what the list is ranked by; higher is better")
    rating: float | None = Field(description="the predicted rating; null if the model knows interactions alone")
    raters: int = Field(description="how many people rated it")
    mean: _Mean
    attributes: _Attributes
    why: Why | None = Field(default=None, description="why it is in the list, if that was asked for")


class Recommended(Reply):
    """A list, best first."""

    items: list[RecommendedItem] = Field(description="best first")
    known: bool | None = Field(description="whether the model knows the user; null for somebody described")
    unknown: UnknownIds | None = Field(
        default=None,
        description="ids of the user, of `among` and of `exclude` that are not known; left out if there are none",
    )
    model: str = Field(description=ANSWERED)
    model_version: _Version


class RecommendedBatch(Reply):
    answers: list[Recommended] = Field(description="one for each request, in their order")


class Predicted(Reply):
    """In the order of the pairs."""

    ratings: list[float] = Field(description="in the order of the pairs")
    low: list[float] | None = Field(default=None, description=LOW)
    high: list[float] | None = Field(default=None, description=HIGH)
    unknown: UnknownIds | None = Field(
        default=None,
        description="ids that are not known: what is predicted of them is what anybody would expect; else left out",
    )
    model: str = Field(description=ANSWERED)
    model_version: _Version


# Items


class SimilarItem(Reply):
    id: _OwnId
    title: _Title
    similarity: float = Field(description="how much it is like the item that was asked about; 1 is the same")
    attributes: _Attributes


class SimilarItems(Reply):
    """The most similar first."""

    items: list[SimilarItem] = Field(description="the most similar first")
    unknown: UnknownIds | None = Field(default=None, description="ids of `among` and `exclude` that are not known")
    model_version: _Version


class FoundItem(Reply):
    id: _OwnId
    title: _Title
    ratings: _Ratings
    attributes: _Attributes


class FoundItems(Reply):
    items: list[FoundItem] = Field(description="the items")
    model_version: _Version


class Share(Reply):
    rating: float = Field(description="a rating, or the middle of some")
    count: int = Field(description="how many there are")


class ItemRatings(Reply):
    count: int = Field(description="how many there are")
    mean: _Mean
    distribution: list[Share] = Field(description="how many ratings there are of each kind")


class Item(Reply):
    id: _OwnId
    title: _Title
    available: bool = Field(description="whether it may be in lists")
    attributes: _Attributes
    ratings: ItemRatings = Field(description="how it was rated")
    similar: list[SimilarItem] = Field(description="items that are like it, the most similar first")
    model_version: _Version


class ListedItem(Reply):
    id: _OwnId
    title: _Title
    available: bool = Field(description="whether it may be in lists")
    ratings: _Ratings
    attributes: _Attributes


class ListedItems(Reply):
    """A page of the catalogue; `next` is the cursor of the one after it, None after the last."""

    items: list[ListedItem] = Field(description="the items")
    next: str | None = Field(description=_NEXT)
    model_version: _Version


class MapItem(Reply):
    id: _OwnId
    title: _Title
    x: float = Field(description="from left to right")
    y: float = Field(description="from below to above")
    ratings: _Ratings
    group: str | None = Field(description="what it is by the column of the groups; null if that is not known")


class Map(Reply):
    items: list[MapItem] = Field(description="the items")
    group_column: str | None = Field(description="the column that items are grouped by; null if there is none")
    model_version: _Version


# People


class LovedItem(Reply):
    id: _OwnId
    title: _Title


class FoundUser(Reply):
    id: _OwnId
    ratings: _Ratings
    loves: list[LovedItem] = Field(description="what they rated furthest above its mean, of what is well known")


class FoundUsers(Reply):
    users: list[FoundUser] = Field(description="the users")


class ListedUser(Reply):
    id: _OwnId
    ratings: _Ratings


class ListedUsers(Reply):
    """A page of all users; `next` is the cursor of the one after it, None after the last."""

    users: list[ListedUser] = Field(description="the users")
    next: str | None = Field(description=_NEXT)


class MadeUser(Reply):
    id: _OwnId


class KnownRating(Reply):
    item: _ItemId
    title: _Title
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


# The model and the server


class ScaleMessage(Reply):
    low: float = Field(description="the least rating")
    high: float = Field(description="the greatest rating")
    step: float | None = Field(description="the step between possible ratings; null if they are any number")


class ModelRatings(Reply):
    trained: int = Field(description="how many the model was trained on")
    live: int = Field(description="how many were given live")


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
    kind: _Kind
    example: str = Field(description="a value of the column")
    choices: list[str] = Field(description="what can be chosen from; empty where anything can be said")


class ServedMessage(Reply):
    """One of the models that are served at once."""

    name: _ModelName
    share: float = Field(description="the part of the people that it gets")
    version: _ModelVersion
    kind: _Kind
    trained: _Trained
    users: _Users
    items: _Items
    refused: int = Field(description="live ratings and descriptions that do not fit it, and are left out")
    before: str | None = Field(description="the version that a rollback would serve; null if none is kept")


class ModelMessage(Reply):
    name: _ModelName
    kind: _Kind
    orientation: Literal["item", "user", "both"] = Field(description="what the rows of the network are")
    version: _ModelVersion
    cofill_version: str = Field(description="the version of cofill that made the model")
    trained: _Trained
    trained_is_known: bool = Field(
        description="false: an older cofill wrote the model and did not say; `trained` is when the file was written"
    )
    rated: bool = Field(description="whether it was trained on ratings; otherwise on interactions, and rates nothing")
    read_only: bool = Field(description="whether the server keeps nothing, so that nothing can be written")
    scale: ScaleMessage = Field(description="between which numbers ratings lie")
    users: _Users
    items: _Items
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
    model: _ModelName
    version: _ModelVersion
    users: _Users
    items: _Items


class Status(Reply):
    status: Literal["alive", "ready"] = Field(description="the state of the server")
